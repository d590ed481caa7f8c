"""Check of notebook 10's learning rate: a linear warm-up, then a cosine down to 0."""

from collections.abc import Callable
from math import cos, floor, pi, sin
from typing import Any

from minitxl.course.checker import Verdict, judge

CASES = [
    *[(step, 0.1, 4, 12) for step in (1, 2, 3, 4, 5, 8, 11, 12)],
    *[(step, 0.002, 20, 900) for step in (1, 20, 21, 460, 899, 900)],
    (3, 1.0, 1, 4),
    (4, 0.1, 8, 12),
]
"""Step, peak, warm-up and number of steps: before, at and after the end of the warm-up, and at the last."""


def solution_learning_rate(step: int, peak: float, warmup: int, steps: int) -> float:
    """Return the rate of step 1, 2, …: on a line up to the peak, then along half a cosine down to 0."""
    if step <= warmup:
        return peak * step / warmup
    return peak / 2 * (1 + cos(pi * (step - warmup) / (steps - warmup)))


def _by_progress(
    fall: Callable[[float], float], rise: Callable[[float], float] = lambda share: share
) -> Callable[[int, float, int, int], float]:
    """Return a schedule from what it does of the warm-up's share, and then of the share of what follows."""

    def rate(step: int, peak: float, warmup: int, steps: int) -> float:
        if step <= warmup:
            return peak * rise(step / warmup)
        return peak * fall((step - warmup) / (steps - warmup))

    return rate


def _half_cosine(share: float) -> float:
    return (1 + cos(pi * share)) / 2


def _from_zero(step: int, *sizes: Any) -> float:
    return solution_learning_rate(step - 1, *sizes)


def _by_progress_from_zero(*, rise: bool, fall: bool) -> Callable[[int, float, int, int], float]:
    """Return the schedule with the step counted from 0 in its rise, in its fall, or in both."""

    def rate(step: int, peak: float, warmup: int, steps: int) -> float:
        if step <= warmup:
            return peak * (step - rise) / warmup
        return peak * _half_cosine((step - fall - warmup) / (steps - warmup))

    return rate


def _over_all_steps(step: int, peak: float, warmup: int, steps: int) -> float:
    return peak * (step / warmup if step <= warmup else _half_cosine(step / steps))


def _to_a_longer_end(step: int, peak: float, warmup: int, steps: int) -> float:
    return peak * (step / warmup if step <= warmup else _half_cosine((step - warmup) / steps))


def _without_brackets(step: int, peak: float, warmup: int, steps: int) -> float:
    return peak * step / warmup if step <= warmup else peak / 2 + cos(pi * (step - warmup) / (steps - warmup))


def check_learning_rate(attempt: Callable[..., float]) -> Verdict:
    """Check ``attempt(step, peak, warmup, steps)``: the rate of a step, the first of which is 1."""
    return judge(
        attempt,
        reference=solution_learning_rate,
        cases=CASES,
        mistakes={
            "steps are counted from 1 here, so the first has the rate peak / warmup, and not 0": [
                _from_zero,
                _by_progress_from_zero(rise=True, fall=False),
                _by_progress_from_zero(rise=False, fall=True),
            ],
            "steps are counted from 1 here, and not from 0: take step as it is, not step + 1": (
                lambda step, *sizes: solution_learning_rate(step + 1, *sizes)
            ),
            "there is no warm-up: up to step warmup the rate rises on a line": [
                _by_progress(_half_cosine, rise=lambda share: 1.0),
                lambda step, peak, warmup, steps: peak * _half_cosine((step - warmup) / (steps - warmup)),
                lambda step, peak, warmup, steps: peak * _half_cosine(step / steps),
            ],
            "the cosine begins where the warm-up ends: it runs over (step - warmup) / (steps - warmup)": [
                _over_all_steps,
                _to_a_longer_end,
            ],
            "half of it is missing: 1 + cos lies between 0 and 2, so multiply it by peak / 2": _by_progress(
                lambda share: 1 + cos(pi * share)
            ),
            "brackets are missing: peak / 2 multiplies the whole sum 1 + cos": _without_brackets,
            "brackets are missing: cos is that of the whole angle, pi times the share": _by_progress(
                lambda share: (1 + cos(pi) * share) / 2
            ),
            "the smaller of rise and fall is no rule here: up to step warmup the rate rises alone": (
                lambda step, peak, warmup, steps: (
                    peak * min(step / warmup, _half_cosine((step - warmup) / (steps - warmup)))
                )
            ),
            "cos alone falls below 0: add 1 to it, and halve the sum": [
                _by_progress(lambda share: cos(pi * share)),
                _by_progress(lambda share: cos(pi * share) / 2),
            ],
            "1 - cos rises: after the warm-up the rate falls from the peak, so take 1 + cos": [
                _by_progress(lambda share: (1 - cos(pi * share)) / 2),
                lambda step, peak, warmup, steps: (
                    peak
                    * (
                        step / warmup
                        if step < warmup
                        else (1 - cos(pi * (step - warmup) / (steps - warmup))) / 2
                    )
                ),
            ],
            "that is a quarter of a turn: half a turn, pi, takes cos from 1 to -1, and 1 + cos from 2 to 0": [
                _by_progress(lambda share: cos(pi / 2 * share)),
                _by_progress(lambda share: (1 + cos(pi / 2 * share)) / 2),
            ],
            "// drops the part after the point, so the rate stays 0 up to the end of the warm-up: take /": (
                _by_progress(_half_cosine, rise=floor)
            ),
            "after the warm-up the rate stays at its peak: it has to fall along the cosine": _by_progress(
                lambda share: 1.0
            ),
            "after the warm-up the rate falls on a line: it has to fall along the cosine": _by_progress(
                lambda share: 1 - share
            ),
            "cos takes radians, and half a turn is pi, not 180": _by_progress(
                lambda share: (1 + cos(180 * share)) / 2
            ),
            "pi is missing: without it the cosine does not come down to 0": _by_progress(
                lambda share: (1 + cos(share)) / 2
            ),
            "that is a whole turn, which comes back up: half a turn, pi, ends at 0": _by_progress(
                lambda share: (1 + cos(2 * pi * share)) / 2
            ),
            "the peak is missing: this is only a share of it": lambda step, peak, *sizes: (
                solution_learning_rate(step, 1.0, *sizes)
            ),
            "a sine starts at 0, where the warm-up has ended at the peak: take the cosine": [
                _by_progress(lambda share: (1 + sin(pi * share)) / 2),
                lambda step, peak, warmup, steps: (
                    peak
                    * (
                        step / warmup
                        if step < warmup
                        else (1 + sin(pi * (step - warmup) / (steps - warmup))) / 2
                    )
                ),
            ],
        },
        praise="it rises on a line to the peak, and falls along the cosine to 0 at the last step",
    )
