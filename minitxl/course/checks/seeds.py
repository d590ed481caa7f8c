"""Predictions of notebook 10b, and its rule: an interval over the seeds says if memory helps or hurts."""

from collections.abc import Callable, Sequence
from statistics import mean, pstdev, stdev
from typing import Any

from minitxl.course.checker import Function, Verdict, judge
from minitxl.course.predictions import Predictions, Question
from minitxl.figures.training.paired import FACTORS, interval, less

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
        "in the first layer equal letters there can't be told apart (notebook 05)",
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
    """Return what memory does: "helps", "hurts", or "open" where the interval of what it saves has 0."""
    return _word(*interval(less(without, with_memory)))


def _word(low: float, high: float) -> str:
    """Return the word for an interval of what memory saves, from its ends."""
    return "helps" if low > 0 else "hurts" if high < 0 else "open"


def columns(effect: Callable[[Bits, Bits], str], with_memory: Bits, without: Bits) -> dict[str, float | str]:
    """Return columns of a table: what memory saves each seed, the mean, and the word of ``effect``."""
    saved = less(without, with_memory)
    by_seed: dict[str, float | str] = {f"seed {seed}": one for seed, one in enumerate(saved)}
    return by_seed | {"mean": mean(saved), "memory": effect(with_memory, without)}


def _by_interval(saved: Sequence[float], half: float) -> str:
    return _word(mean(saved) - half, mean(saved) + half)


def _by_signs(with_memory: Bits, without: Bits) -> str:
    saved = less(without, with_memory)
    return _word(min(saved), max(saved))


def _by_ranges(with_memory: Bits, without: Bits) -> str:
    return _word(min(without) - max(with_memory), max(without) - min(with_memory))


def _with_factor(factor: float) -> Function:
    """Return the rule with an interval of another length, whatever the number of seeds."""
    return lambda a, b: _by_interval(saved := less(b, a), factor * stdev(saved))


def _unpaired(with_memory: Bits, without: Bits) -> str:
    half = FACTORS[len(without)] * (stdev(with_memory) ** 2 + stdev(without) ** 2) ** 0.5
    return _by_interval(less(without, with_memory), half)


def _by_pstdev(with_memory: Bits, without: Bits) -> str:
    saved = less(without, with_memory)
    return _by_interval(saved, FACTORS[len(saved)] * pstdev(saved))


def check_effect(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(with_memory, without)``: what memory does, by the bits of three seeds or of five."""

    def renamed(words: dict[str, str]) -> Function:
        """Return a function that says other words than the right ones."""
        return lambda a, b: (right := solution_effect(a, b)) and words.get(right, right)

    mistakes: dict[str, Function | Sequence[Function]] = {
        "that compares the means alone: 0 must lie outside of the interval around the mean": _with_factor(0),
        "those are the signs alone: the whole interval must lie on one side of 0": _by_signs,
        "that compares the best of one with the worst of the other: take the difference of each seed": (
            _by_ranges
        ),
        "that is the spread of the models: take the difference of each seed first, and then their spread": (
            _unpaired
        ),
        "a sorted list puts together what belongs to different seeds: compare in the given order": (
            lambda a, b: solution_effect(sorted(a), sorted(b))
        ),
        "turned around: fewer bits are better, so memory helps where with_memory is smaller": renamed(
            {"helps": "hurts", "hurts": "helps"}
        ),
        "that is pstdev, which divides by the number of seeds: of a sample, take stdev": _by_pstdev,
        "2.48 is the factor of three seeds; of five it is 1.24: take FACTORS[len(saved)]": _with_factor(
            FACTORS[3]
        ),
        "1.24 is the factor of five seeds; of three it is 2.48: take FACTORS[len(saved)]": _with_factor(
            FACTORS[5]
        ),
        "the interval has another length: of three seeds it goes 2.48 standard deviations to each side of "
        "the mean, of five 1.24": [_with_factor(factor) for factor in (0.5, 1, 1.43, 1.96, 3, 4.3)],
        "that is an end of the interval on the wrong side: memory helps where all of it lies above 0": [
            lambda a, b: _by_interval(saved := less(b, a), -FACTORS[len(saved)] * stdev(saved)),
        ],
        "that is one seed alone: all make the interval": [
            lambda a, b: _by_interval([b[0] - a[0]], 0),
            lambda a, b: _by_interval([b[-1] - a[-1]], 0),
        ],
        'where 0 lies in the interval, return "open"': renamed({"open": "hurts"}),
        '"hurts" is missing: where the whole interval lies below 0, return it': renamed({"hurts": "open"}),
        '"helps" is missing: where the whole interval lies above 0, return it': renamed({"helps": "open"}),
        'write the word in small letters: "helps", "hurts" or "open"': [
            lambda a, b: solution_effect(a, b).capitalize(),
            lambda a, b: solution_effect(a, b).upper(),
        ],
        'return a word: "helps", "hurts" or "open"': [
            less,
            lambda a, b: less(b, a),
            lambda a, b: mean(less(a, b)),
            lambda a, b: mean(less(b, a)),
            lambda a, b: solution_effect(a, b) == "helps",
            lambda a, b: "counts" if solution_effect(a, b) != "open" else "open",
        ],
    }
    base = [2.70, 2.84, 2.74]

    def case(*saved: float) -> tuple[Bits, Bits]:
        return less(base, saved), base

    def five(*saved: float) -> tuple[Bits, Bits]:
        without = [*base, 2.78, 2.73]
        return less(without, saved), without

    first = case(0.04, 0.05, 0.04)
    return judge(
        attempt,
        reference=solution_effect,
        cases=[
            first,
            first[::-1],
            case(0.002, 0.001, 0.003),  # equal signs, and twice their spread
            case(-0.012, -0.022, -0.032),  # 2.2 times
            case(0.02, 0.03, 0.04),  # three times
            case(0.025, 0.035, 0.045),  # 3.5 times
            case(-0.05, -0.06, -0.07),  # six times
            case(0.01, 0.03, -0.01),  # equal to no spread
            case(0.013, 0.003, 0.023),  # 1.3 times
            case(0.017, 0.007, 0.027),  # 1.7 times
            ([2.80, 2.70, 2.60], [2.61, 2.71, 2.81]),  # sorted, each would be ahead
            ([2.78, 2.79, 3.00], [2.80, 2.81, 2.81]),  # two of three, and not the mean
            ([2.5, 2.9, 2.7], [2.71, 3.1, 2.9]),  # all by far, and the ranges overlap
            ([2.9000, 2.9100, 2.9210], [2.9500, 2.9610, 2.9700]),  # the ranges don't overlap
            ([2.90, 2.80, 2.81], [2.95, 2.91, 3.30]),  # not even then
            five(0.02, 0.03, 0.04, 0.03, 0.03),  # 4.2 times
            five(0.025, 0.015, 0.035, 0.01, 0.04),  # twice
            five(-0.025, -0.015, -0.035, -0.01, -0.04),
            five(0.02, 0.01, 0.03, -0.005, 0.035),  # 1.1 times
        ],
        mistakes=mistakes,
        praise="the interval of what memory saves leaves 0 out, or it is open",
        names=["with_memory", "without"],
    )
