"""Checks of notebook 06: predictions, the propagation, the second hop, reach with a window, least memory."""

from collections.abc import Callable
from itertools import count
from typing import Any

import torch
from einops import rearrange, reduce
from jaxtyping import Bool
from torch import Tensor

from minitxl import memory
from minitxl.course.checker import Verdict, judge
from minitxl.course.predictions import Predictions, Question

PREDICTIONS = Predictions(
    Question(
        "reach",
        "3 layers, segments of 4, a memory of 6: how far back is the farthest token that can matter?",
        answer=25,
        why="o + M + (N - 1) · L · ⌈M / L⌉ = 3 + 6 + 2 · 4 · 2: the oldest state of memory sees 8 back",
        wrong={
            9: "that is one layer: 3 tokens of the segment and 6 of memory; each further layer adds a hop",
            18: "that is N · M: a state of memory also sees the part of its own segment before it",
            21: "that is o + N · M: the oldest state of memory stands at offset 2, and sees those 2 as well",
            27: "that is N times the first hop: the second hop begins at offset 2, and not at offset 3",
            30: "that is N · (M + L): a state sees its own offset and M more, never a whole segment and M",
        },
    ),
    Question(
        "gradient",
        "In training, with the stop-gradient: how far back is the farthest token that gets a gradient?",
        answer=3,
        why="it ends where the segment begins, at the query's own offset, whatever N and M are",
        wrong={
            25: "that is how far information goes; the gradient does not enter memory",
            9: "the states of memory are read, but they are constants: no gradient enters them",
            6: "memory adds nothing here: its states are constants to the backward pass",
            0: "inside its own segment the gradient flows",
        },
    ),
    Question(
        "relay",
        "Is it learned in 300 steps to copy a token over two hops, the first of them through memory?",
        answer="not learned",
        choices=("learned", "not learned"),
        why="no training step changes a state for the sake of what a later segment makes of it",
        wrong={"learned": "it is within reach, but nothing rewards a state for carrying the token on"},
    ),
)


def propagate(sees: Bool[Tensor, "query key"], n_layer: int) -> Bool[Tensor, " key"]:
    """Return which input tokens the last query depends on; every layer has the mask ``sees``."""
    reached = torch.arange(len(sees)) == len(sees) - 1
    for _ in range(n_layer):
        reached = reduce(sees & rearrange(reached, "query -> query 1"), "query key -> key", "max")
    return reached


def who_sees(time: int, seg_len: int, mem_len: int) -> Bool[Tensor, "query key"]:
    """Return True where a query of a stream of ``time`` tokens sees a key, in its segment or in memory."""
    query, key = torch.arange(time)[:, None], torch.arange(time)[None]
    return (key <= query) & (key >= query - query % seg_len - mem_len)


def check_propagate(attempt: Callable[[Tensor, int], Any]) -> Verdict:
    """Judge ``attempt(sees, n_layer)``; the first masks are small enough to be written out."""
    mistakes: dict[str, Callable[[Tensor, int], Any]] = {
        "that is one layer: go down n_layer of them": lambda sees, n_layer: sees[-1],
        "one layer too few": lambda sees, n_layer: propagate(sees, n_layer - 1),
        "one layer too many": lambda sees, n_layer: propagate(sees, n_layer + 1),
        "the direction is turned: from a reached query go to the keys it sees, so reduce over the queries": (
            lambda sees, n_layer: propagate(sees.T, n_layer)
        ),
        "a key is reached if any reached query sees it, not only if all of them do": _all_queries,
        "begin with the last query alone: the question is what it depends on": lambda sees, n_layer: (
            torch.ones(len(sees), dtype=torch.bool)
        ),
        "numbers of ways are counted: True wherever there is one": lambda sees, n_layer: (
            torch.linalg.matrix_power(sees.double(), n_layer)[-1]
        ),
    }
    cases = [
        (torch.tensor([[True, False, False], [True, True, False], [False, True, True]]), 1),
        (torch.tensor([[True, False, False], [True, True, False], [False, True, True]]), 2),
        *((who_sees(*sizes), n_layer) for *sizes, n_layer in [(8, 2, 2, 2), (11, 4, 3, 3), (12, 4, 0, 2)]),
        (who_sees(30, 3, 5, ), 3),
    ]  # fmt: skip
    return judge(attempt, reference=propagate, cases=cases, mistakes=mistakes)


def _all_queries(sees: Tensor, n_layer: int) -> Tensor:
    reached = torch.arange(len(sees)) == len(sees) - 1
    for _ in range(n_layer):
        reached = sees[reached].all(dim=0)
    return reached


def second_hop(seg_len: int, mem_len: int) -> int:
    """Return the length of every hop but the first: the offset -M mod L where one lands, and M."""
    return -mem_len % seg_len + mem_len


def check_second_hop(attempt: Callable[[int, int], Any]) -> Verdict:
    """Judge ``attempt(seg_len, mem_len)``: tokens from the first token of a memory to what it sees last."""
    mistakes: dict[str, Callable[[int, int], Any]] = {
        "that is M: right where L divides M. The token sees the part of its own segment before it as well": (
            lambda seg_len, mem_len: mem_len
        ),
        "M mod L is the distance to the cut *behind* the token; its offset counts from the cut before it, "
        "-M mod L": lambda seg_len, mem_len: mem_len % seg_len + mem_len,
        "M / L is rounded up, not down: the hop is never shorter than M": lambda seg_len, mem_len: (
            mem_len // seg_len * seg_len
        ),
        "where L divides M the token is the first of its segment, and sees no token of it before itself": (
            lambda seg_len, mem_len: (mem_len // seg_len + 1) * seg_len
        ),
        "that is a segment and a memory: the token sees its own offset, and not the whole segment": (
            lambda seg_len, mem_len: seg_len + mem_len
        ),
        "the offset alone is missing its memory: add M": lambda seg_len, mem_len: -mem_len % seg_len,
        "L - 1 is the offset of a segment's last token: here it is -M mod L": lambda seg_len, mem_len: (
            seg_len - 1 + mem_len
        ),
    }
    cases = [(4, 6), (4, 4), (4, 0), (5, 3), (3, 7), (2, 5), (8, 1), (1, 4)]
    names = ("seg_len", "mem_len")
    return judge(attempt, reference=second_hop, cases=cases, mistakes=mistakes, names=names)


def check_reach(attempt: Callable[..., Any]) -> Verdict:
    """Judge ``attempt(offset, n_layer, seg_len, mem_len, window)``: tokens back; window may be None."""

    def right(offset: int, n_layer: int, seg_len: int, mem_len: int, window: int | None) -> int:
        return memory.reach(offset, n_layer=n_layer, seg_len=seg_len, mem_len=mem_len, window=window)

    def formula(offset: int, n_layer: int, seg_len: int, mem_len: int) -> int:
        return offset + mem_len + (n_layer - 1) * seg_len * -(-mem_len // seg_len)

    def walk(first: int, n_layer: int, hop: Callable[[int, int], int]) -> int:
        place = first
        for _ in range(n_layer):
            place -= hop(place, first)
        return first - place

    mistakes: dict[str, Callable[..., int]] = {
        "the window is forgotten: each hop goes W - 1 tokens back, at most": (
            lambda offset, n_layer, seg_len, mem_len, window: formula(offset, n_layer, seg_len, mem_len)
        ),
        "memory is forgotten: a hop also ends where memory does, M before the segment": (
            lambda offset, n_layer, seg_len, mem_len, window: (
                formula(offset, n_layer, seg_len, mem_len) if window is None else n_layer * (window - 1)
            )
        ),
        "the smaller of both formulas is only a bound: the window may end some hops, and memory others": (
            lambda offset, n_layer, seg_len, mem_len, window: (
                formula(offset, n_layer, seg_len, mem_len)
                if window is None
                else min(formula(offset, n_layer, seg_len, mem_len), n_layer * (window - 1))
            )
        ),
        "each hop begins where the last one ended, with the offset of that place, p mod L": (
            lambda offset, n_layer, seg_len, mem_len, window: walk(
                offset,
                n_layer,
                lambda place, first: min(first + mem_len, (window or first + mem_len + 1) - 1),
            )
        ),
        "a window of W keys holds the query itself, so a hop is W - 1 long at most": (
            lambda offset, n_layer, seg_len, mem_len, window: walk(
                offset,
                n_layer,
                lambda place, first: min(place % seg_len + mem_len, window or place % seg_len + mem_len),
            )
        ),
        "a hop from offset p mod L goes over that offset too: it is p mod L + M long": (
            lambda offset, n_layer, seg_len, mem_len, window: walk(
                offset, n_layer, lambda place, first: min(mem_len, (window or mem_len + 1) - 1)
            )
        ),
    }
    random = torch.Generator().manual_seed(6)
    cases: list[tuple[Any, ...]] = [(3, 3, 4, 4, None), (1, 3, 4, 6, 5), (3, 3, 4, 2, 5), (0, 2, 4, 2, 6)]
    for number in range(80):
        seg_len = int(torch.randint(2, 12, (), generator=random))
        offset = int(torch.randint(seg_len, (), generator=random))
        n_layer, mem_len, window = (int(torch.randint(low, 16, (), generator=random)) for low in (1, 0, 2))
        cases.append((offset, n_layer, seg_len, mem_len, None if number % 4 == 0 else window))
    names = ("offset", "n_layer", "seg_len", "mem_len", "window")
    return judge(attempt, reference=right, cases=cases, mistakes=mistakes, names=names)


def check_gradient_reach(attempt: Callable[..., Any]) -> Verdict:
    """Judge ``attempt(offset, n_layer, seg_len, mem_len, window)``, with the stop-gradient; M ≥ W - 1."""

    def right(offset: int, n_layer: int, seg_len: int, mem_len: int, window: int | None) -> int:
        return memory.reach(offset, n_layer=n_layer, seg_len=seg_len, mem_len=0, window=window)

    def flowing(offset: int, n_layer: int, seg_len: int, mem_len: int, window: int | None) -> int:
        return memory.reach(offset, n_layer=n_layer, seg_len=seg_len, mem_len=mem_len, window=window)

    mistakes: dict[str, Callable[..., int]] = {
        "this is how far information goes; the stop-gradient cuts every edge into memory": flowing,
        "one hop into memory is one too many: the states there are read, but no gradient enters them": (
            lambda offset, n_layer, seg_len, mem_len, window: offset + mem_len
        ),
        "the window is forgotten: N layers go back no more than N·(W - 1) tokens": (
            lambda offset, n_layer, seg_len, mem_len, window: offset
        ),
        "a window of W holds the query itself, so one layer goes back W - 1": (
            lambda offset, n_layer, seg_len, mem_len, window: (
                offset if window is None else min(offset, n_layer * window)
            )
        ),
        "each layer goes back W - 1 from where the last one landed: N of them N·(W - 1)": (
            lambda offset, n_layer, seg_len, mem_len, window: (
                offset if window is None else min(offset, window - 1)
            )
        ),
    }
    cases = [
        (offset, n_layer, 16, mem_len, window)
        for offset in (0, 5, 15)
        for n_layer in (1, 2, 4)
        for mem_len in (16, 24)
        for window in (None, 1, 3, 9)
    ]
    names = ("offset", "n_layer", "seg_len", "mem_len", "window")
    return judge(attempt, reference=right, cases=cases, mistakes=mistakes, names=names)


def smallest_memory(target: int, n_layer: int, seg_len: int) -> int:
    """Return the shortest memory with which the last query of a segment reaches ``target`` tokens back."""
    return next(
        mem_len
        for mem_len in count()
        if memory.longest_reach(n_layer=n_layer, seg_len=seg_len, mem_len=mem_len) >= target
    )


def check_smallest_memory(attempt: Callable[[int, int, int], Any]) -> Verdict:
    """Judge ``attempt(target, n_layer, seg_len)``: the shortest memory that reaches so far."""
    mistakes: dict[str, Callable[[int, int, int], Any]] = {
        "reach does not grow evenly with memory: one token beyond a multiple of L adds a segment a layer": (
            lambda target, n_layer, seg_len: max(0, -(-(target - seg_len + 1) // n_layer))
        ),
        "the last query has its own offset, L - 1, beside memory": lambda target, n_layer, seg_len: next(
            m for m in count() if m + (n_layer - 1) * seg_len * -(-m // seg_len) >= target
        ),
        "memory need not be a whole number of segments: a shorter one reaches as far": (
            lambda target, n_layer, seg_len: (
                -(-smallest_memory(target, n_layer, seg_len) // seg_len) * seg_len
            )
        ),
        "a reach of more than target counts too: the step beyond it may be long": (
            lambda target, n_layer, seg_len: smallest_memory(target + 1, n_layer, seg_len)
        ),
        "that is one layer: the others reach on from where it ends": lambda target, n_layer, seg_len: max(
            0, target - seg_len + 1
        ),
        "M / L is rounded up in the formula": lambda target, n_layer, seg_len: next(
            m for m in count() if seg_len - 1 + m + (n_layer - 1) * seg_len * (m // seg_len) >= target
        ),
    }
    cases = [
        (15, 3, 4),
        (16, 3, 4),
        (3, 2, 4),
        (127, 3, 32),
        (100, 3, 32),
        (1000, 6, 64),
        (40, 1, 8),
        (23, 2, 5),
    ]
    return judge(attempt, reference=smallest_memory, cases=cases, mistakes=mistakes)
