"""Checks of notebook 13b: the tokens that a model recites of a piece, and the pasts that it is given."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from minitxl.course.checker import Function, Verdict, judge

Tokens = Int[Tensor, "_"]
GoOn = Callable[[Tokens, int], Tokens]


def solution_recited(go_on: GoOn, piece: Tokens, prompt_len: int) -> int:
    """Return how many tokens after the prompt are those of the piece, up to the first that is not."""
    return int(_leading(_same(go_on, piece, prompt_len)))


def check_recited(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(go_on, piece, prompt_len)``, which counts the tokens that are recited after the prompt.

    ``go_on(prompt, length)`` gives the likeliest tokens after the prompt.
    """
    mistakes: dict[str, Function | Sequence[Function]] = {
        "all equal tokens are counted: the recital ends at the first that differs": lambda *case: int(
            _same(*case).sum()
        ),
        "the prompt is counted too: it was given, and not recited": lambda go_on, piece, prompt_len: (
            prompt_len + solution_recited(go_on, piece, prompt_len)
        ),
        "the longest run of equal tokens is counted, wherever it begins: the recital begins at the prompt's "
        "end": lambda *case: _longest_run(_same(*case).tolist()),
        "that is a share: return the number of tokens": [
            lambda *case: solution_recited(*case) / max(1, len(_same(*case))),
            lambda *case: _same(*case).float().mean().item(),
        ],
        "one too many: the first token that differs is not recited": lambda *case: (
            1 + solution_recited(*case)
        ),
        "what is written is held against the beginning of the piece: the piece goes on at prompt_len": (
            lambda go_on, piece, prompt_len: int(
                _leading(_written(go_on, piece, prompt_len) == piece[: len(piece) - prompt_len])
            )
        ),
        "all or nothing: count the tokens up to the first that differs": lambda *case: int(
            _same(*case).all()
        ),
        "where every token is equal no token differs: then argmin, or argmax of what differs, gives 0, and "
        "all of them count": (lambda *case: int(_same(*case).int().argmin())),
        "the model goes on from another prompt: give it the first tokens, piece[:prompt_len]": [
            lambda go_on, piece, prompt_len: int(
                _leading(go_on(piece, len(piece) - prompt_len) == piece[prompt_len:])
            ),
            lambda go_on, piece, prompt_len: int(
                _leading(go_on(piece[-prompt_len:], len(piece) - prompt_len) == piece[prompt_len:])
            ),
        ],
        "too few tokens are asked for: the piece has len(piece) - prompt_len after the prompt": [
            lambda go_on, piece, prompt_len: min(prompt_len, solution_recited(go_on, piece, prompt_len)),
            lambda go_on, piece, prompt_len: min(32, solution_recited(go_on, piece, prompt_len)),
        ],
        "go_on returns the tokens after the prompt alone: cut nothing off what it returns": (
            lambda go_on, piece, prompt_len: int(
                _leading(go_on(piece[:prompt_len], len(piece))[prompt_len:] == piece[prompt_len:])
            )
        ),
        "each token is marked, and not counted: add the ones up": lambda *case: _same(*case).cumprod(dim=0),
        "that is how many differ": lambda *case: int((~_same(*case)).sum()),
    }
    pieces = {
        "differs after five": ([4, 1, 3, 2, 2, 5, 1, 0, 6, 2, 4, 3], 3, [8]),
        "differs at once": ([7, 2, 2, 5, 1, 6, 3], 2, [2, 4]),
        "never differs": ([3, 1, 4, 1, 5, 9, 2, 6, 5], 4, []),
        "a prompt of one token": ([2, 2, 0, 7, 1, 8], 1, [3]),
        "a long run after the first difference": ([5, 4, 4, 2, 0, 1, 3, 6, 0, 2, 1, 3], 2, [3]),
        "as the piece begins": ([1, 2, 1, 2, 9, 2, 1, 2], 4, [4]),
        "more than the notebook's 32": ([5 * place % 7 for place in range(45)], 3, [40]),
    }
    cases = [
        (Model(torch.tensor(piece), other), torch.tensor(piece), prompt_len)
        for piece, prompt_len, other in pieces.values()
    ]
    return judge(
        attempt,
        reference=solution_recited,
        cases=cases,
        mistakes=mistakes,
        praise="the tokens after the prompt, up to the first that the piece does not have",
        names=["go_on", "piece", "prompt_len"],
    )


PIECE = 48
"""Tokens of a piece of a lane: 16 are given, and 32 can be recited."""
Lanes = Int[Tensor, "lane _"]
Past = Callable[[Lanes, int, int], Lanes]


def _pieces(lanes: Lanes, begin: int) -> Lanes:
    return lanes[:, begin : begin + PIECE]


def _past(lanes: Lanes, begin: int, past_len: int) -> Lanes:
    return lanes[:, begin - past_len : begin]


def solution_with_pasts(lanes: Lanes, begin: int, past_len: int) -> tuple[Lanes, Lanes]:
    """Return each lane's piece after so many bytes of its own past, and of the past of the lane before it."""
    pasts = _past(lanes, begin, past_len), _past(lanes.roll(1, dims=0), begin, past_len)
    own, other = (torch.cat([past, _pieces(lanes, begin)], dim=1) for past in pasts)
    return own, other


def check_with_pasts(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(lanes, begin, past_len)``: pieces after their lane's past, and after another lane's."""

    def after(past: Past, piece: Callable[[Lanes, int], Lanes] = _pieces) -> Function:
        """Put ``past`` before the pieces, of their own lane and of another."""

        def texts(lanes: Lanes, begin: int, past_len: int) -> tuple[Lanes, ...]:
            pasts = past(lanes, begin, past_len), past(lanes.roll(1, dims=0), begin, past_len)
            return tuple(torch.cat([one, piece(lanes, begin)], dim=1) for one in pasts)

        return texts

    def with_other(other: Past) -> Function:
        """Put ``other`` before the second pieces alone."""

        def texts(lanes: Lanes, begin: int, past_len: int) -> tuple[Lanes, Lanes]:
            own, _ = solution_with_pasts(lanes, begin, past_len)
            return own, torch.cat([other(lanes, begin, past_len), _pieces(lanes, begin)], dim=1)

        return texts

    def another_piece(shift: int) -> Function:
        def texts(lanes: Lanes, begin: int, past_len: int) -> tuple[Lanes, Lanes]:
            own, _ = solution_with_pasts(lanes, begin, past_len)
            return own, own.roll(shift, dims=0)

        return texts

    mistakes: dict[str, Function | Sequence[Function]] = {
        "another lane's piece follows another lane's past: change the past alone": [
            another_piece(1),
            another_piece(-1),
        ],
        "the second texts have their own lane's past too": with_other(_past),
        "lane 0's past stands before all pieces, its own too: take that of another lane for each": with_other(
            lambda lanes, *where: _past(lanes, *where)[:1].expand(len(lanes), -1)
        ),
        "the bytes of a lane are moved, and not the lanes: roll along the axis of lanes, dims=0": with_other(
            lambda lanes, *where: _past(lanes.roll(1, dims=1), *where)
        ),
        "the past is all that stands before the piece: it has past_len bytes, those just before begin": after(
            lambda lanes, begin, past_len: lanes[:, :begin]
        ),
        "the past is the beginning of a lane: it ends where the piece begins, at begin": [
            after(lambda lanes, begin, past_len: lanes[:, :past_len]),
            with_other(lambda lanes, begin, past_len: lanes.roll(1, dims=0)[:, :past_len]),
        ],
        "the other past is the end of a lane: take the bytes in the same place, which end at begin": (
            with_other(lambda lanes, begin, past_len: lanes.roll(1, dims=0)[:, lanes.shape[1] - past_len :])
        ),
        "both pasts have 64 bytes at most: begin - past_len is where they begin": after(
            lambda lanes, begin, past_len: _past(lanes, begin, min(past_len, 64))
        ),
        "with past_len = 0 the past is all that stands there, for [-0:] is [0:]: let it begin at "
        "begin - past_len": after(lambda lanes, begin, past_len: lanes[:, :begin][:, -past_len:]),
        "the pieces begin at begin: lanes[:, begin : begin + 48]": after(
            _past, lambda lanes, begin: lanes[:, :PIECE]
        ),
        "the pieces have 48 bytes: lanes[:, begin : begin + 48]": [
            after(_past, lambda lanes, begin: lanes[:, begin : begin + 16]),
            after(_past, lambda lanes, begin: lanes[:, begin : begin + 32]),
            after(_past, lambda lanes, begin: lanes[:, begin:]),
        ],
        "the texts are in another order: first with the own past, then with another lane's": (
            lambda *case: solution_with_pasts(*case)[::-1]
        ),
        "no piece stands at the end of the texts: it is lanes[:, begin : begin + 48]": after(
            _past, lambda lanes, begin: lanes[:, :0]
        ),
    }

    def answered(lanes: Lanes, begin: int, past_len: int) -> Any:
        """Take any other lane's past for that of the lane before."""
        texts, (_, expected) = attempt(lanes, begin, past_len), solution_with_pasts(lanes, begin, past_len)
        if isinstance(texts, Tensor) and texts.ndim == 3:
            texts = tuple(texts)
        if not isinstance(texts, tuple | list) or len(texts) != 2:
            return texts
        own, other = texts
        return own, expected if _of_another(other, lanes, begin, past_len) else other

    return judge(
        answered if callable(attempt) else attempt,
        reference=solution_with_pasts,
        cases=[
            (torch.arange(4 * 160).reshape(4, 160), begin, past_len)
            for begin, past_len in ((96, 32), (96, 80), (64, 64), (80, 0))
        ],
        mistakes=mistakes,
        praise="the same pieces after as much of their own past and of another lane's",
        names=["lanes", "begin", "past_len"],
    )


def _of_another(texts: Any, lanes: Lanes, begin: int, past_len: int) -> bool:
    """Return True for each lane's piece after another lane's past."""
    if not isinstance(texts, Tensor) or texts.shape != (len(lanes), past_len + PIECE):
        return False
    from_lanes = (texts[:, None, :past_len] == _past(lanes, begin, past_len)[None]).all(dim=2)  # [text lane]
    others = ~torch.eye(len(lanes), dtype=torch.bool)
    same_piece = torch.equal(texts[:, past_len:], _pieces(lanes, begin))
    return same_piece and bool((from_lanes & others).any(dim=1).all())


class Model:
    """A model that has learned a text by heart, but for the ``others`` of its tokens."""

    def __init__(self, learned: Tokens, others: list[int]) -> None:
        self.learned = learned
        self.text = learned.clone()
        self.text[others] = learned[others] + 1
        unknown = " and ".join(
            f"{int(token)} at {place}" for place, token in zip(others, learned[others], strict=True)
        )
        self.__name__ = f"a model that learned the text by heart{unknown and ', but not ' + unknown}"

    def __call__(self, prompt: Any, length: int) -> Tokens:
        """Return ``length`` tokens after the prompt; after one that is no piece of the text, zeros."""
        if not isinstance(prompt, Tensor) or prompt.ndim != 1:
            raise TypeError("go_on takes the prompt as one row of tokens, such as piece[:prompt_len]")
        pieces: Any = self.learned.unfold(0, len(prompt), 1) if 0 < len(prompt) <= len(self.learned) else []
        places = [place for place, piece in enumerate(pieces) if torch.equal(piece, prompt)]
        after = self.text[places[0] + len(prompt) :] if places else self.text[:0]
        return torch.cat([after, after.new_zeros(max(0, length - len(after)))])[:length]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and torch.equal(self.text, other.text)

    __hash__ = None  # type: ignore[assignment]


def _written(go_on: GoOn, piece: Tokens, prompt_len: int) -> Tokens:
    return go_on(piece[:prompt_len], len(piece) - prompt_len)


def _same(go_on: GoOn, piece: Tokens, prompt_len: int) -> Tensor:
    """Return for each token after the prompt whether the model writes it too."""
    return _written(go_on, piece, prompt_len) == piece[prompt_len:]


def _leading(same: Tensor) -> Tensor:
    return same.cumprod(dim=0).sum()


def _longest_run(same: list[bool]) -> int:
    longest = run = 0
    for one in same:
        run = run + 1 if one else 0
        longest = max(longest, run)
    return longest
