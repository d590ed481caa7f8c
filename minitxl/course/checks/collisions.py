"""Checks of notebook 05: its predictions, the extended context, collisions, and the smallest circle."""

from collections.abc import Callable
from functools import partial
from itertools import combinations
from math import sqrt
from typing import Any

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from minitxl.course.checker import Verdict, judge
from minitxl.course.predictions import Predictions, Question
from minitxl.position_encodings import sinusoids

Embeddings = Float[Tensor, "time model"]
Table = Float[Tensor, "seg model"]
Pairs = list[tuple[int, int]]

PREDICTIONS = Predictions(
    Question(
        "early",
        "How often is the model right at offsets 0 to 7?",
        answer=1.0,
        tolerance=0.15,
        why="the letter lies in memory, and no other key has its position: nothing is in doubt",
        wrong={
            0.0625: "that is chance, as without memory; but now the letter is in memory",
            0.5: "no other key in sight has the position it looks for, so nothing is in doubt",
        },
    ),
    Question(
        "late",
        "How often is the model right at offsets 8 to 15?",
        answer=0.53,
        tolerance=0.1,
        why="two keys have the position it looks for, and nothing tells them apart: a coin is right in 0.53",
        wrong={
            1.0: "a key of memory has the same position as the letter, and takes as much weight",
            0.0625: "it still knows the position: one of the two keys there is right",
            0.0: "it still knows the position: one of the two keys there is right",
        },
    ),
    Question(
        "text",
        "On real text, is the absolute model better or worse with memory?",
        answer="worse",
        choices=("better", "worse"),
        why="near tokens tell most, and memory puts them in doubt",
        wrong={
            "better": "what memory adds is far away; what it puts in doubt is near, and near tokens tell most"
        },
    ),
    Question(
        "counting",
        "Positions count on, and a stream is longer than those of training: how well does it copy there?",
        answer="in between",
        choices=("as before", "by chance", "in between"),
        why="fast clock hands have shown all their angles in training, slow ones have not",
        wrong={
            "as before": "it has to work with angles of the slow clock hands that training never showed",
            "by chance": "much of a sinusoid repeats: the fast clock hands show no new angle",
        },
    ),
)


def extended_context(E: Embeddings, U: Table, seg_len: int, mem_len: int) -> Float[Tensor, "key model"]:
    """Return what the last segment attends to: E + U[p mod L] for the keys of memory and segment."""
    return (E + U[torch.arange(len(E)) % seg_len])[-(mem_len + seg_len) :]


def check_extended_context(attempt: Callable[[Tensor, Tensor, int, int], Any]) -> Verdict:
    """Judge ``attempt(E, U, seg_len, mem_len)``; the stream is a whole number of segments.

    The first case has one number for a vector: E = 10, 20, … and U = 1, 2.
    """
    draw = torch.Generator().manual_seed(5)
    cases = [(10 * torch.arange(1.0, 7.0)[:, None], torch.tensor([[1.0], [2.0]]), 2, 3)]
    for seg_len, mem_len in [(4, 4), (4, 6), (5, 3), (6, 0), (2, 5)]:
        E, U = (torch.randn(size, 3, generator=draw) for size in (3 * seg_len, seg_len))
        cases.append((E, U, seg_len, mem_len))

    def last(E: Tensor, U: Tensor, seg_len: int, mem_len: int, rows: Tensor) -> Tensor:
        return (E + U[rows])[-(mem_len + seg_len) :]

    def place(E: Tensor) -> Tensor:
        return torch.arange(len(E))

    mistakes: dict[str, Callable[..., Tensor]] = {
        "positions count on here, beyond the table: they restart in every segment, so place p has row "
        "p % seg_len": lambda E, U, seg_len, mem_len: E + U[place(E)],
        "that is the segment alone: memory stands before it": lambda E, U, seg_len, mem_len: extended_context(
            E, U, seg_len, 0
        ),
        "that is the whole stream: the last segment sees mem_len + seg_len keys": (
            lambda E, U, seg_len, mem_len: extended_context(E, U, seg_len, len(E))
        ),
        "the keys of memory have positions too: theirs were added before they were remembered": (
            lambda E, U, seg_len, mem_len: torch.cat([E[:-seg_len], extended_context(E, U, seg_len, 0)])[
                -(mem_len + seg_len) :
            ]
        ),
        "positions are counted from where memory begins here; they restart where segments begin": (
            lambda E, U, seg_len, mem_len: _from_memory(E, U, seg_len, mem_len)
        ),
        "p // seg_len is the number of the segment; the place in it is the remainder, p % seg_len": (
            lambda E, U, seg_len, mem_len: last(E, U, seg_len, mem_len, place(E) // seg_len)
        ),
        "positions restart every L tokens, and you used M for the period": (
            lambda E, U, seg_len, mem_len: last(E, U, seg_len, mem_len, place(E) % mem_len)
        ),
        "the stream may be shorter than mem_len + seg_len: then all of it is seen, and a start below 0 would "
        "count from the end": lambda E, U, seg_len, mem_len: (E + U[place(E) % seg_len])[
            len(E) - seg_len - mem_len :
        ],
    }
    names = ("E", "U", "seg_len", "mem_len")
    return judge(attempt, reference=extended_context, cases=cases, mistakes=mistakes, names=names)


def _from_memory(E: Tensor, U: Tensor, seg_len: int, mem_len: int) -> Tensor:
    keys = E[-(mem_len + seg_len) :]
    return keys + U[torch.arange(len(keys)) % seg_len]


def check_text(text: Any, *, seg_len: int = 6, mem_len: int = 6) -> Verdict:
    """Return a right verdict if the last query of a text gives exactly one pair of keys equal scores."""
    if text is Ellipsis or not text:
        return Verdict.of_nothing()
    if not isinstance(text, str) or len(text) != seg_len + mem_len:
        return Verdict(
            False,
            f"write a text of {seg_len + mem_len} letters, a memory of {mem_len} and a segment of {seg_len}",
        )
    found = measured_pairs(text, seg_len)
    named = ", ".join(f"{text[a]!r} at {a} and {b}" for a, b in found)
    if len(found) == 1:
        return Verdict(True, f"{named}: {seg_len} apart, so one letter and one position, and one score")
    if found:
        return Verdict(False, f"{len(found)} pairs collide: {named}. Change letters until one pair is left")
    repeated = [(a, b) for a, b in combinations(range(len(text)), 2) if text[a] == text[b]]
    if not repeated:
        return Verdict(False, "no letter comes twice: keys of other letters have other scores")
    a, b = repeated[0]
    return Verdict(
        False,
        f"{text[a]!r} comes twice, {b - a} apart, at places {a % seg_len} and {b % seg_len} of its segment: "
        f"the positions that were added differ. Put the two {seg_len} apart",
    )


def measured_pairs(text: str, seg_len: int) -> Pairs:
    """Return pairs of keys to which a random head gives one score, seen from the text's last letter."""
    draw, width = torch.Generator().manual_seed(5), 16
    letters = sorted(set(text))
    E = torch.randn(len(letters), width, generator=draw, dtype=torch.float64)
    W_q, W_k = (torch.randn(width, width, generator=draw, dtype=torch.float64) for _ in range(2))
    ids = torch.tensor([letters.index(letter) for letter in text])
    x = E[ids] + sinusoids((torch.arange(len(text)) % seg_len).double(), width)
    scores = einsum(x[-1] @ W_q, x @ W_k, "dim, key dim -> key") / sqrt(width)
    return [pair for pair in combinations(range(len(text)), 2) if scores[list(pair)].diff().abs() < 1e-9]


def check_pairs(attempt: Callable[[list[int], int, int], Pairs]) -> Verdict:
    """``attempt(tokens, seg_len, mem_len)``: pairs of places with one score for the last token, in order."""
    random = torch.Generator().manual_seed(5)
    cases = []
    for seg_len, mem_len, length in [(4, 4, 12), (4, 8, 14), (5, 3, 15), (3, 7, 17), (6, 0, 11), (4, 6, 5)]:
        for _ in range(4):
            tokens = torch.randint(3, (length,), generator=random).tolist()
            cases.append((tokens, seg_len, mem_len))
    mistakes: dict[str, Callable[..., Pairs]] = {
        "the same token is not enough: its position was added to it, so the two must also stand at the "
        "same place of their segments": lambda tokens, seg_len, mem_len: pairs(tokens, 1, mem_len, seg_len),
        "the same place is not enough: the tokens must be equal too": lambda tokens, seg_len, mem_len: pairs(
            [0] * len(tokens), seg_len, mem_len
        ),
        "positions restart every L tokens, and you used M for the period": lambda tokens, seg_len, mem_len: (
            pairs(tokens, mem_len or len(tokens), mem_len, seg_len)
        ),
        "the query does not see the whole stream: M tokens before its segment, then the segment": (
            lambda tokens, seg_len, mem_len: pairs(tokens, seg_len, len(tokens))
        ),
        "memory is counted from the query here, and begins M tokens before the first of the segment": (
            lambda tokens, seg_len, mem_len: pairs(tokens, seg_len, mem_len, begin=len(tokens) - 1)
        ),
        "where the last segment is whole, it begins L tokens before the stream's end: count from the last "
        "token, last - last % seg_len, and not from the length": lambda tokens, seg_len, mem_len: pairs(
            tokens, seg_len, mem_len, begin=len(tokens) // seg_len * seg_len
        ),
        "the query sees itself: the last token is a key too": lambda tokens, seg_len, mem_len: [
            pair for pair in pairs(tokens, seg_len, mem_len) if pair[1] < len(tokens) - 1
        ],
        "places are counted from the first key here: they count from the stream's start": partial(
            _relative, to_segment=False
        ),
        "places are counted from where the segment begins here: they count from the stream's start": partial(
            _relative, to_segment=True
        ),
    }
    return judge(attempt, reference=pairs, cases=cases, mistakes=mistakes, praise="every pair, and no other")


def pairs(
    tokens: list[int], period: int, mem_len: int, seg_len: int | None = None, *, begin: int | None = None
) -> Pairs:
    """Places of equal tokens, whole periods apart, among the keys of the last token, in order.

    The last token's segment begins at ``begin``; without it, where it does.
    """
    last = len(tokens) - 1
    begin = last - last % (seg_len or period) if begin is None else begin
    seen = range(max(0, begin - mem_len), last + 1)
    return [(a, b) for a, b in combinations(seen, 2) if tokens[a] == tokens[b] and (b - a) % period == 0]


def _relative(tokens: list[int], seg_len: int, mem_len: int, *, to_segment: bool) -> Pairs:
    begin = len(tokens) - 1 - (len(tokens) - 1) % seg_len
    zero = begin if to_segment else max(0, begin - mem_len)
    return [(a - zero, b - zero) for a, b in pairs(tokens, seg_len, mem_len)]


def certain_places(
    offset: int, seg_len: int, mem_len: int, *, least: int = 1, most: int = 1, later: int = 0
) -> list[int]:
    """Return the places of a segment at which a query at this offset sees exactly one key, in order."""
    places = [key % seg_len for key in range(-mem_len, offset + later + 1)]
    return [place for place in range(seg_len) if least <= places.count(place) <= most]


def check_certain_places(attempt: Callable[[int, int, int], Any]) -> Verdict:
    """Judge ``attempt(offset, seg_len, mem_len)``: the places at which a query sees exactly one key."""
    mistakes: dict[str, Callable[..., list[int]]] = {
        "these are the places with a key: keep those with exactly one": partial(certain_places, most=9),
        "these are the places in doubt: keep those with exactly one": partial(
            certain_places, least=2, most=9
        ),
        "the query sees itself: its own place has a key of the segment": partial(certain_places, later=-1),
        "the query does not see the token after it: keys end at offset": partial(certain_places, later=1),
        "that is right for a memory as long as the segment: a shorter one lacks places, and a longer one "
        "holds some twice": lambda offset, seg_len, mem_len: list(range(offset + 1, seg_len)),
        "these are the places of the segment alone: memory has keys too": lambda offset, seg_len, mem_len: (
            list(range(offset + 1))
        ),
        "these are the keys' distances or numbers: a place is the remainder by seg_len": (
            lambda offset, seg_len, mem_len: [
                key
                for key in range(-mem_len, offset + 1)
                if key % seg_len in certain_places(offset, seg_len, mem_len)
            ]
        ),
    }
    cases = [(1, 4, 4), (0, 4, 4), (3, 4, 4), (2, 5, 3), (1, 4, 6), (2, 4, 0), (0, 3, 9), (4, 6, 2)]
    return judge(attempt, reference=certain_places, cases=cases, mistakes=mistakes)


def check_circle(attempt: Callable[[int, int, int | None], Any]) -> Verdict:
    """Judge ``attempt(seg_len, mem_len, window)``: the fewest positions in a circle without a collision."""
    mistakes: dict[str, Callable[..., int]] = {
        "positions that restart every seg_len tokens are what collides": lambda seg_len, mem_len, window: (
            seg_len
        ),
        "that is memory alone: the last query of a segment sees mem_len + seg_len keys": (
            lambda seg_len, mem_len, window: mem_len
        ),
        "one too few: the last query sees all mem_len + seg_len keys, itself among them": (
            lambda seg_len, mem_len, window: seg_len + mem_len - 1
        ),
        "that is what the *first* query of a segment sees: memory and itself. The last one sees the whole "
        "segment too": lambda seg_len, mem_len, window: mem_len + 1,
        "right without a window: a query that sees no more than window keys needs no more positions": (
            lambda seg_len, mem_len, window: seg_len + mem_len
        ),
        "one too few: with P positions, keys P apart share one, and mem_len + seg_len keys lie up to "
        "mem_len + seg_len - 1 apart": lambda seg_len, mem_len, window: circle(seg_len, mem_len, window) - 1,
        "one too many: keys that lie mem_len + seg_len apart are never seen together": (
            lambda seg_len, mem_len, window: circle(seg_len, mem_len, window) + 1
        ),
        "a window is a limit, and may be longer than what there is to see: take the smaller number": (
            lambda seg_len, mem_len, window: seg_len + mem_len if window is None else window
        ),
        "a circle need not be a whole number of segments": lambda seg_len, mem_len, window: (
            -(-circle(seg_len, mem_len, window) // seg_len) * seg_len
        ),
    }
    cases: list[tuple[int, int, int | None]] = [
        (4, 4, None), (4, 6, None), (5, 3, None), (6, 0, None), (4, 6, 5), (4, 4, 20), (3, 7, 1),
    ]  # fmt: skip
    return judge(attempt, reference=circle, cases=cases, mistakes=mistakes)


def circle(seg_len: int, mem_len: int, window: int | None) -> int:
    """Return the most keys that a query sees: no two of so many in a row share a position of the circle."""
    return min(seg_len + mem_len, window or seg_len + mem_len)
