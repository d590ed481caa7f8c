"""Checks of notebook 14 about memories of fixed size: rolling caches, kept first tokens, reach."""

from collections.abc import Callable
from math import sqrt
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from minitxl.course.checker import Verdict, judge
from minitxl.experiments.later_positions import keep_first
from minitxl.later_attention import rotate

Vector = Float[Tensor, " dim"]
Slots = Float[Tensor, "slot dim"]


def solution_ring_step(
    q: Vector, k: Vector, v: Vector, keys: Slots, values: Slots, t: int
) -> tuple[Vector, Slots, Slots]:
    """Return the output of the token at position t, and the ring with its key and value in slot t % W."""
    keys, values = keys.clone(), values.clone()
    slot = t % len(keys)
    keys[slot], values[slot] = k, v
    filled = min(t + 1, len(keys))
    weights = (keys[:filled] @ q / sqrt(len(q))).softmax(0)
    return weights @ values[:filled], keys, values


def check_ring_step(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(q, k, v, keys, values, t)``: a token of one head, and its ring of W keys and values."""

    def written(keys: Any, values: Any, k: Any, v: Any, slot: int) -> tuple[Any, Any]:
        keys, values = keys.clone(), values.clone()
        keys[slot], values[slot] = k, v
        return keys, values

    def read(q: Any, keys: Any, values: Any, filled: int, scale: float | None = None) -> Any:
        scores = keys[:filled] @ q * (1 / sqrt(len(q)) if scale is None else scale)
        return scores.softmax(0) @ values[:filled]

    def at_slot(slot_of: Callable[[int, int], int]) -> Callable[..., Any]:
        def step(q: Any, k: Any, v: Any, keys: Any, values: Any, t: int) -> Any:
            keys, values = written(keys, values, k, v, slot_of(t, len(keys)))
            return read(q, keys, values, min(t + 1, len(keys))), keys, values

        return step

    def empty_read(q: Any, k: Any, v: Any, keys: Any, values: Any, t: int) -> Any:
        keys, values = written(keys, values, k, v, t % len(keys))
        return read(q, keys, values, len(keys)), keys, values

    def not_itself(q: Any, k: Any, v: Any, keys: Any, values: Any, t: int) -> Any:
        return read(q, keys, values, min(t, len(keys))), *written(keys, values, k, v, t % len(keys))

    def unscaled(q: Any, k: Any, v: Any, keys: Any, values: Any, t: int) -> Any:
        keys, values = written(keys, values, k, v, t % len(keys))
        return read(q, keys, values, min(t + 1, len(keys)), 1.0), keys, values

    def moved(q: Any, k: Any, v: Any, keys: Any, values: Any, t: int) -> Any:
        if t < len(keys):
            return at_slot(lambda t, size: t)(q, k, v, keys, values, t)
        keys, values = torch.cat([keys[1:], k[None]]), torch.cat([values[1:], v[None]])
        return read(q, keys, values, len(keys)), keys, values

    mistakes: dict[str, Callable[..., Any]] = {
        "the ring has no end: after the last slot comes slot 0, so the slot is t % W": at_slot(
            lambda t, size: min(t, size - 1)
        ),
        "the slot is one too far: token 0 goes into slot 0": at_slot(lambda t, size: (t + 1) % size),
        "empty slots take part: before the ring is full, only t + 1 of them count": empty_read,
        "the token does not see itself: write first, then attend": not_itself,
        "the scores are not divided by √dim": unscaled,
        "everything moves up by a slot: overwrite the oldest, and leave the others where they are": moved,
    }
    draw, cases = torch.Generator().manual_seed(7), []
    for t, size, dim in ((0, 3, 2), (1, 3, 2), (3, 3, 4), (11, 4, 4)):
        q, k, v = torch.randn(3, dim, generator=draw)
        keys, values = torch.randn(2, size, dim, generator=draw)
        keys[t:], values[t:] = 0, 0
        cases.append((q, k, v, keys, values, t))
    names = ("q", "k", "v", "keys", "values", "t")
    return judge(attempt, reference=solution_ring_step, cases=cases, mistakes=mistakes, names=names)


def package_keep_first(memory: Any, states: Any, mem_len: int, first: int) -> Any:
    """Return ``keep_first``, its lengths by place."""
    return keep_first(memory, states, mem_len=mem_len, first=first)


def check_keep_first(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(memory, states, mem_len, first)``: the first tokens, and the last mem_len - first."""
    right = package_keep_first

    def both(memory: Any, states: Any) -> Any:
        return torch.cat([memory, states], dim=2)

    mistakes: dict[str, Callable[..., Any]] = {
        "this is the plain memory, the last mem_len: the first tokens are gone": (
            lambda memory, states, mem_len, first: both(memory, states)[:, :, -mem_len:]
        ),
        "the memory is longer than mem_len: the first tokens count as well": (
            lambda memory, states, mem_len, first: torch.cat(
                [both(memory, states)[:, :, :first], both(memory, states)[:, :, first:][:, :, -mem_len:]], 2
            )
        ),
        "the first tokens of the segment are kept: those of the text lie in front of the memory": (
            lambda memory, states, mem_len, first: torch.cat(
                [states[:, :, :first], both(memory, states)[:, :, -(mem_len - first) :]], dim=2
            )
        ),
        "the first tokens stand behind: the order is that of time": (
            lambda memory, states, mem_len, first: torch.cat(
                [both(memory, states)[:, :, -(mem_len - first) :], both(memory, states)[:, :, :first]], 2
            )
        ),
        "memory and states together may be shorter than mem_len: then all of it stays, once": (
            lambda memory, states, mem_len, first: torch.cat(
                [both(memory, states)[:, :, :first], both(memory, states)[:, :, -(mem_len - first) :]], 2
            )
        ),
        "with first = mem_len nothing new is kept, and [-0:] is everything: count from the front": (
            lambda memory, states, mem_len, first: (
                both(memory, states)
                if both(memory, states).shape[2] <= mem_len
                else torch.cat(
                    [both(memory, states)[:, :, :first], both(memory, states)[:, :, -(mem_len - first) :]], 2
                )
            )
        ),
        "nothing is forgotten": lambda memory, states, mem_len, first: both(memory, states),
        "only the first are kept": lambda memory, states, mem_len, first: both(memory, states)[
            :, :, :mem_len
        ],
    }
    draw = torch.Generator().manual_seed(4)
    numbers = torch.arange(7.0).reshape(1, 1, 7, 1)
    cases = [(numbers[:, :, :4], numbers[:, :, 4:], 5, 2)]
    for mem, seg, mem_len, first in ((6, 3, 6, 1), (3, 4, 5, 2), (0, 2, 5, 2), (2, 2, 6, 3), (3, 2, 2, 2)):
        memory, states = (torch.randn(2, 1, size, 3, generator=draw) for size in (mem, seg))
        cases.append((memory, states, mem_len, first))
    names = ("memory", "states", "mem_len", "first")
    return judge(attempt, reference=right, cases=cases, mistakes=mistakes, names=names)


def solution_move_keys(k: Tensor, cached: Tensor, wanted: Tensor) -> Tensor:
    """Return keys that are rotated for positions ``cached`` as if for ``wanted``."""
    return rotate(k, wanted - cached)


def check_move_keys(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(k, cached, wanted)``: rotated keys, moved to other positions."""
    mistakes: dict[str, Callable[..., Any]] = {
        "the way is turned round": lambda k, cached, wanted: rotate(k, cached - wanted),
        "the keys are turned already: add what is missing": lambda k, cached, wanted: rotate(k, wanted),
        "they are only turned back": lambda k, cached, wanted: rotate(k, -cached),
        "nothing moves": lambda k, cached, wanted: k.clone(),
        "turns add up: take the difference": lambda k, cached, wanted: rotate(k, wanted + cached),
    }
    draw = torch.Generator().manual_seed(9)
    cases = [
        (torch.randn(1, 2, 3, 4, generator=draw), torch.tensor([9, 10, 11]), torch.tensor([2, 3, 4])),
        (torch.randn(1, 1, 2, 6, generator=draw), torch.tensor([0, 5]), torch.tensor([3, 4])),
    ]
    names = ("k", "cached", "wanted")
    return judge(attempt, reference=solution_move_keys, cases=cases, mistakes=mistakes, names=names)


def solution_window_for(reach: int, n_layer: int) -> int:
    """Return the smallest window W with N (W - 1) ≥ reach."""
    return 1 - (-reach // n_layer)


def check_window_for(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(reach, n_layer)``: the smallest window with that reach."""
    mistakes: dict[str, Callable[..., Any]] = {
        "the query itself is one of the W keys": lambda reach, n: -(-reach // n),
        "rounded down: the last tokens are out of reach": lambda reach, n: reach // n + 1,
        "this is one layer's window": lambda reach, n: reach + 1,
        "a window too many": lambda reach, n: 2 - (-reach // n),
        "one too many where n_layer divides reach: round up only where something is left": (
            lambda reach, n: reach // n + 2
        ),
        "reach grows with the layers: divide": lambda reach, n: reach * n + 1,
    }
    cases = [(32, 4), (33, 4), (7, 3), (0, 2), (131_000, 32)]
    return judge(attempt, reference=solution_window_for, cases=cases, mistakes=mistakes)
