"""Check of notebook 10c's split of a gain into that of reading and that of training, in either order."""

from collections.abc import Callable, Mapping, Sequence
from math import log, log2
from statistics import mean
from typing import Any

import torch

from minitxl.course.checker import Function, Verdict, judge

Perplexities = Mapping[tuple[bool, bool], float]
"""Test perplexities of one seed, by (trained with memory, read with memory)."""

ORDERS = "reading", "training"
"""Names of the two changes, of which either may come first."""


def solution_split(p: Perplexities, first: str) -> tuple[float, float]:
    """Return the gain of reading and the gain of training, where ``first`` of the two is changed first."""
    if first == "reading":
        middle = p[False, True]
        return p[False, False] - middle, middle - p[True, True]
    middle = p[True, False]
    return middle - p[True, True], p[False, False] - middle


def check_split(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(p, first)``: the gains of reading and of training."""

    def changed(change: Callable[[float, float], Any]) -> Function:
        """Return a function that changes the right gains."""
        return lambda p, first: change(*solution_split(p, first))

    def whole(p: Perplexities) -> float:
        return p[False, False] - p[True, True]

    def other(first: str) -> str:
        return "training" if first == "reading" else "reading"

    def relative(p: Perplexities, first: str) -> tuple[float, float]:
        """Return each gain as a share of the perplexity before its step."""
        reading, training = solution_split(p, first)
        before = p[False, False], p[False, False] - (reading if first == "reading" else training)
        before_reading, before_training = before if first == "reading" else before[::-1]
        return reading / before_reading, training / before_training

    mistakes: dict[str, Function | Sequence[Function]] = {
        "return first the gain of reading, then the gain of training, whichever step comes first": (
            lambda p, first: solution_split(p, first)[:: 1 if first == "reading" else -1]
        ),
        "the keys are turned around: p[trained, read], so p[False, True] is trained without memory and read "
        "with it": lambda p, first: solution_split({(b, a): p[a, b] for a, b in p}, first),
        "the two gains are exchanged: return first the gain of reading, then the gain of training": changed(
            lambda reading, training: (training, reading)
        ),
        "the middle is the wrong one: after the reading has changed, it is p[False, True]": (
            lambda p, first: solution_split(p, other(first))
        ),
        "the reading comes first whatever first says: with training first, the middle is p[True, False]": (
            lambda p, first: solution_split(p, "reading")
        ),
        "the training comes first whatever first says: with reading first, the middle is p[False, True]": (
            lambda p, first: solution_split(p, "training")
        ),
        "both steps begin at p[False, False]: the second step begins where the first one ended": (
            lambda p, first: (p[False, False] - p[False, True], p[False, False] - p[True, False])
        ),
        "both steps end at p[True, True]: the first step ends in the middle, where the second one begins": (
            lambda p, first: (p[True, False] - p[True, True], p[False, True] - p[True, True])
        ),
        "a gain is by how much the perplexity falls: what it was before the step, less what it is after": (
            changed(lambda reading, training: (-reading, -training))
        ),
        "those are shares: return points, without dividing": [
            lambda p, first: tuple(gain / whole(p) for gain in solution_split(p, first)),
            lambda p, first: tuple(100 * gain / whole(p) for gain in solution_split(p, first)),
            relative,
            lambda p, first: tuple(100 * gain for gain in relative(p, first)),
        ],
        "those are logarithms of ratios: return points, what the perplexity was less what it is after": [
            lambda p, first: solution_split({key: log(one) for key, one in p.items()}, first),
            lambda p, first: solution_split({key: log2(one) for key, one in p.items()}, first),
        ],
        "that is the mean over both orders: return the gains of the order that first names": (
            lambda p, first: tuple(map(mean, zip(*(solution_split(p, one) for one in ORDERS), strict=True)))
        ),
        "a step that makes the perplexity worse has a gain below 0: keep its sign": [
            changed(lambda reading, training: (abs(reading), abs(training))),
            changed(lambda reading, training: (max(0, reading), max(0, training))),
        ],
        "that is the whole gain alone: return the gain of each step": lambda p, first: whole(p),
        "return a pair, the gain of reading and then that of training, and not a dict": changed(
            lambda reading, training: {"reading": reading, "training": training}
        ),
        "the sum is not asked for: return the two gains alone": changed(
            lambda reading, training: (reading, training, reading + training)
        ),
    }
    generator = torch.Generator().manual_seed(10)
    drawn = (150 + 100 * torch.rand(2, 4, generator=generator)).tolist()
    places = [(trained, read) for trained in (False, True) for read in (False, True)]
    squares = [dict(zip(places, of, strict=True)) for of in ([100.0, 96.0, 105.0, 90.0], *drawn)]
    return judge(
        attempt,
        reference=solution_split,
        cases=[(square, first) for square in squares for first in ORDERS],
        mistakes=mistakes,
        praise="the two gains add up to the whole one, in either order",
        names=["p", "first"],
    )
