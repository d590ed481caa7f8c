"""Judges the exercises of notebook 05: a text with one collision, all collisions, moved positions."""

from collections.abc import Callable
from itertools import combinations
from math import sqrt
from typing import Any

import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor

from minitxl.course.exercises import NOTHING, Verdict, judge
from minitxl.positions import sinusoids

States = Float[Tensor, "pos model"]
Table = Float[Tensor, "row model"]
Places = Int[Tensor, " pos"]
Pairs = list[tuple[int, int]]


def check_text(text: Any, *, seg_len: int = 6, mem_len: int = 6) -> Verdict:
    """Return True if the last query of a text gives exactly one pair of different keys equal scores."""
    if text is Ellipsis or not text:
        return Verdict(False, NOTHING)
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
            lambda tokens, seg_len, mem_len: pairs(tokens, seg_len, mem_len, from_query=True)
        ),
        "the query sees itself: the last token is a key too": lambda tokens, seg_len, mem_len: [
            pair for pair in pairs(tokens, seg_len, mem_len) if pair[1] < len(tokens) - 1
        ],
    }
    return judge(attempt, reference=pairs, cases=cases, mistakes=mistakes, praise="every pair, and no other")


def pairs(
    tokens: list[int], period: int, mem_len: int, seg_len: int | None = None, *, from_query: bool = False
) -> Pairs:
    """Places of equal tokens, whole periods apart, among the keys of the last token, in order."""
    last = len(tokens) - 1
    begin = last if from_query else last - last % (seg_len or period)
    seen = range(max(0, begin - mem_len), last + 1)
    return [(a, b) for a, b in combinations(seen, 2) if tokens[a] == tokens[b] and (b - a) % period == 0]


def check_move(attempt: Callable[[States, Table, Places, Places], States]) -> Verdict:
    """``attempt(states, table, old, new)``: the first layer's states with other rows of the table in them."""
    draw = torch.Generator().manual_seed(5)
    cases = []
    for pos, width in [(1, 2), (4, 6), (5, 4)]:
        states, table = (torch.randn(size, width, generator=draw) for size in (pos, 2 * pos))
        old = torch.arange(pos)
        cases.append((states, table, old, old + pos))
    mistakes: dict[str, Callable[..., States]] = {
        "this writes into the caller's memory, so it moves once more at every segment: make a new tensor": (
            lambda states, table, old, new: states.sub_(table[old]).add_(table[new])
        ),
        "the original code's slip: += puts the new position on top of the old one, and into the caller's "
        "memory, once more at every segment": lambda states, table, old, new: states.add_(table[new]),
        "the old position is still in the states: it was added before they were kept. Take it out": (
            lambda states, table, old, new: states + table[new]
        ),
        "the new position is missing: put it in": lambda states, table, old, new: states - table[old],
        "old and new are swapped": lambda states, table, old, new: states - table[new] + table[old],
    }
    return judge(attempt, reference=move, cases=cases, mistakes=mistakes)


def move(states: States, table: Table, old: Places, new: Places) -> States:
    """Return the states with ``table[new]`` in place of ``table[old]``."""
    return states - table[old] + table[new]
