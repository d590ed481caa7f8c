"""Predictions of notebook 10b, and its rule: memory helps or hurts where all seeds agree; else: level."""

from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any

from minitxl.course.checker import Function, Verdict, judge
from minitxl.course.predictions import Predictions, Question

predictions = Predictions(
    Question(
        "first",
        "How many bits does memory save XL at the first character of a segment?",
        answer=None,
        tolerance=0.4,
        why="without memory the first prediction is made from one character alone, and with it there are 32 "
        "more keys",
    ),
    Question(
        "absolute",
        "Read in segments: does memory help or hurt the sinusoidal absolute positions?",
        answer="hurts",
        choices=("helps", "hurts"),
        why="in each seed. A place in memory and the same place in the segment carry the same position, so "
        "equal letters there can't be told apart (notebook 05)",
    ),
    Question(
        "loss_for_xl",
        "Which loss is better for XL?",
        answer="full",
        choices=("full", "half"),
        why="half loss learns from half of the targets alone, and here no encoding gains by it",
    ),
)

Bits = Sequence[float]
"""Test bits per character of a model, by seed."""


def solution_effect(with_memory: Bits, without: Bits) -> str:
    """Return what memory does: "helps", "hurts", or "level" where the seeds don't agree."""
    pairs = list(zip(with_memory, without, strict=True))
    if all(one < other for one, other in pairs):
        return "helps"
    if all(one > other for one, other in pairs):
        return "hurts"
    return "level"


def columns(effect: Callable[[Bits, Bits], str], with_memory: Bits, without: Bits) -> dict[str, float | str]:
    """Return columns of a table: the difference of each seed, their mean, and the word of ``effect``."""
    differences = _differences(with_memory, without)
    by_seed: dict[str, float | str] = {f"seed {seed}": one for seed, one in enumerate(differences)}
    return by_seed | {"mean": mean(differences), "memory": effect(with_memory, without)}


def _by_sign(difference: float) -> str:
    return "helps" if difference < 0 else "hurts" if difference > 0 else "level"


def _differences(with_memory: Bits, without: Bits) -> list[float]:
    return [one - other for one, other in zip(with_memory, without, strict=True)]


def _by_ranges(with_memory: Bits, without: Bits) -> str:
    if max(with_memory) < min(without):
        return "helps"
    return "hurts" if min(with_memory) > max(without) else "level"


def _with_ties(with_memory: Bits, without: Bits) -> str:
    differences = _differences(with_memory, without)
    return "helps" if max(differences) <= 0 else "hurts" if min(differences) >= 0 else "level"


def _with_margin(margin: float) -> Function:
    """Return the rule in which a seed counts only where the models differ by more than a margin."""

    def effect(with_memory: Bits, without: Bits) -> str:
        differences = _differences(with_memory, without)
        if max(differences) < -margin:
            return "helps"
        return "hurts" if min(differences) > margin else "level"

    return effect


MARGINS = (0.0005, 0.003, 0.005, 0.01, 0.02, 0.05)
"""Margins of wrong rules, in bits."""


def check_effect(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(with_memory, without)``: what memory does, by the bits of each seed."""

    def renamed(words: dict[str, str]) -> Function:
        """Return a function that says other words than the right ones."""
        return lambda a, b: (right := solution_effect(a, b)) and words.get(right, right)

    mistakes: dict[str, Function | Sequence[Function]] = {
        "that compares the means: memory helps only if it has fewer bits in each seed": (
            lambda a, b: _by_sign(mean(a) - mean(b))
        ),
        "that compares the best of one with the worst of the other: compare both models of each seed": (
            _by_ranges
        ),
        "a sorted list puts together what belongs to different seeds: compare in the given order": (
            lambda a, b: solution_effect(sorted(a), sorted(b))
        ),
        "turned around: fewer bits are better, so memory helps where with_memory is smaller": renamed(
            {"helps": "hurts", "hurts": "helps"}
        ),
        'most seeds are not all: where one of them disagrees, return "level"': (
            lambda a, b: _by_sign(sum((d > 0) - (d < 0) for d in _differences(a, b)))
        ),
        "that is one seed alone: all of them must agree": [
            lambda a, b: _by_sign(a[0] - b[0]),
            lambda a, b: _by_sign(a[-1] - b[-1]),
        ],
        "those are the first three seeds: lists may be longer, and all seeds must agree": (
            lambda a, b: solution_effect(a[:3], b[:3])
        ),
        "one seed is not enough: use all, not any": lambda a, b: (
            "helps" if min(_differences(a, b)) < 0 else "hurts" if max(_differences(a, b)) > 0 else "level"
        ),
        'where the seeds don\'t agree, return "level"': renamed({"level": "hurts"}),
        '"hurts" is missing: where memory has more bits in each seed, return it': renamed({"hurts": "level"}),
        '"helps" is missing: where memory has fewer bits in each seed, return it': renamed(
            {"helps": "level"}
        ),
        "Python compares two lists at the first place where they differ: compare every seed, with zip": (
            lambda a, b: "helps" if a < b else "hurts" if a > b else "level"
        ),
        "the rule has no margin: a difference counts, however small": list(map(_with_margin, MARGINS)),
        'where a seed has equal bits with memory and without, none is ahead: return "level"': _with_ties,
        'return a word: "helps", "hurts" or "level"': [
            lambda a, b: _differences(a, b),
            lambda a, b: mean(_differences(a, b)),
            lambda a, b: max(_differences(a, b)) < 0,
        ],
    }
    first = [2.75, 2.84, 2.80], [2.77, 2.85, 2.83]
    return judge(
        attempt,
        reference=solution_effect,
        cases=[
            first,
            first[::-1],
            ([2.70, 2.85, 2.81], [2.80, 2.84, 2.83]),  # two of three, and the mean
            ([2.78, 2.79, 3.00], [2.80, 2.81, 2.81]),  # two of three, and not the mean
            ([2.80, 2.70, 2.60], [2.61, 2.71, 2.81]),  # sorted, each would be ahead
            ([2.5, 2.6, 2.7], [2.5, 2.7, 2.8]),  # one seed is equal
            ([2.90, 2.85, 2.70], [2.80, 2.80, 2.80]),  # one of three
            ([2.750, 2.841, 2.800], [2.751, 2.842, 2.802]),  # all by thousandths
            ([2.7500, 2.8410, 2.8000], [2.7501, 2.8411, 2.8002]),  # all by ten-thousandths
            ([2.5, 2.9, 2.7], [2.7, 3.1, 2.9]),  # all by far, and the ranges overlap
            ([3.1, 3.2], [3.6, 3.3]),
            ([3.6, 3.3, 3.4, 3.5], [3.1, 3.2, 3.0, 3.1]),
            ([3.1, 3.2, 3.0, 3.6], [3.6, 3.3, 3.4, 3.5]),  # the last of four
        ],
        mistakes=mistakes,
        praise="all seeds must agree, or it is level",
        names=["with_memory", "without"],
    )
