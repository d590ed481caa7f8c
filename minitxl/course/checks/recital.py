"""Check of notebook 13b's count of the tokens that a model recites after the beginning of a piece."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from minitxl.course.verdicts import Function, Verdict, judge

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
        "too few tokens are asked for: the piece has len(piece) - prompt_len after the prompt": (
            lambda go_on, piece, prompt_len: min(prompt_len, solution_recited(go_on, piece, prompt_len))
        ),
        "that is how many differ": lambda *case: int((~_same(*case)).sum()),
    }
    pieces = {
        "differs after five": ([4, 1, 3, 2, 2, 5, 1, 0, 6, 2, 4, 3], 3, [8]),
        "differs at once": ([7, 2, 2, 5, 1, 6, 3], 2, [2, 4]),
        "never differs": ([3, 1, 4, 1, 5, 9, 2, 6, 5], 4, []),
        "a prompt of one token": ([2, 2, 0, 7, 1, 8], 1, [3]),
        "a long run after the first difference": ([5, 4, 4, 2, 0, 1, 3, 6, 0, 2, 1, 3], 2, [3]),
        "as the piece begins": ([1, 2, 1, 2, 9, 2, 1, 2], 4, [4]),
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


class Model:
    """A model that has learned a piece by heart, but for some ``others`` of its places."""

    def __init__(self, piece: Tokens, others: list[int]) -> None:
        self.piece = piece
        self.text = piece.clone()
        self.text[others] = (piece[others] + 1) % 10

    def __call__(self, prompt: Any, length: int) -> Tokens:
        """Return ``length`` tokens after the prompt; after one that is no beginning of the piece, zeros."""
        if not isinstance(prompt, Tensor) or prompt.ndim != 1:
            raise TypeError("go_on takes the prompt as one row of tokens, such as piece[:prompt_len]")
        begins = torch.equal(prompt, self.piece[: len(prompt)])
        after = self.text[len(prompt) :] if begins else self.text[:0]
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
