"""Checks of notebook 06b's measure without a group, and of a handicap that makes it longer."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from math import isfinite, log
from typing import Any, Literal

import torch

from minitxl.course.checker import Function, Verdict, judge

Losses = Sequence[float]
"""Mean losses of one model, one for each context length, in the order of the lengths."""


def solution_used(losses: Losses, lengths: Sequence[int], least: float) -> int:
    """Return the shortest context from which on no loss is ``least`` or more above that with all of it."""
    settled = [max(losses[at:]) < losses[-1] + least for at in range(len(losses))]
    return lengths[settled.index(True)]


def check_used(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(losses, lengths, least)``."""
    mistakes: dict[str, Function | Sequence[Function]] = {
        "that is a walk again, from length to length: compare with the loss at the longest": (
            _first(lambda losses, at, least: at + 1 == len(losses) or losses[at] - losses[at + 1] < least)
        ),
        "farther on the loss is above that bound again: it must stay below it from there on": (
            _first(lambda losses, at, least: losses[at] < losses[-1] + least)
        ),
        "that compares with the lowest loss: compare with the loss of all the context, the last": (
            _first(lambda losses, at, least: losses[at] < min(losses) + least),
            _first(lambda losses, at, least: max(losses[at:]) < min(losses) + least),
            _first(lambda losses, at, least: max(losses[at:]) - min(losses) < least),
            _first(lambda losses, at, least: losses[at] - min(losses) < least, otherwise=None),
            _first(lambda losses, at, least: max(losses[at:]) - min(losses) < least, otherwise=None),
            _first(lambda losses, at, least: max(losses[at:]) - min(losses) < least, otherwise=64),
        ),
        "a loss that is just least above the last one leaves as much to gain: < and not <=": (
            _first(lambda losses, at, least: max(losses[at:]) - losses[-1] <= least)
        ),
        "a loss below the last one is no gain that is left: take the difference with its sign": (
            _first(lambda losses, at, least: max(abs(one - losses[-1]) for one in losses[at:]) < least),
            _first(lambda losses, at, least: max(losses[at:]) - min(losses[at:]) < least),
        ),
        "losses and least are both in bits: compare them as they are": (
            _first(lambda losses, at, least: (max(losses[at:]) - losses[-1]) * log(2) < least),
            _first(lambda losses, at, least: (max(losses[at:]) - losses[-1]) / log(2) < least),
        ),
        "the difference is in bits, and not a share of the loss": (
            _first(lambda losses, at, least: max(losses[at:]) < losses[-1] * (1 + least))
        ),
        "you return the place in lengths, and not the tokens": lambda losses, lengths, least: lengths.index(
            solution_used(losses, lengths, least)
        ),
        "that is one length too late: at it the loss is settled already": lambda losses, lengths, least: (
            lengths[min(len(lengths) - 1, lengths.index(solution_used(losses, lengths, least)) + 1)]
        ),
        "that is the last length at which something is left to gain: return the next": (
            lambda losses, lengths, least: lengths[
                max(0, lengths.index(solution_used(losses, lengths, least)) - 1)
            ],
            *(
                partial(_last_unsettled, just_at=just_at, pick=pick)
                for just_at in (False, True)
                for pick in (lambda some: max(some, default=8), max, lambda some: some[-1], _last_or_none)
            ),
        ),
        "that is the last length of all that is settled: return the first": lambda losses, lengths, least: (
            lengths[-1]
        ),
        "that is what is left to gain: return the length": lambda losses, lengths, least: (
            losses[lengths.index(solution_used(losses, lengths, least))] - losses[-1]
        ),
    }
    praise = "from that length on, more context leaves too little to gain"
    verdict = judge(attempt, reference=solution_used, cases=_cases(), mistakes=mistakes, praise=praise)
    if not verdict.blank or not callable(attempt):
        return verdict
    kinds = list[bool]()  # whether the attempt returns something, for each case

    def filled(*case: Any) -> Any:
        result = attempt(*case)
        kinds.append(result is not None and result is not Ellipsis)
        return NO_LENGTH if result is None else result

    filled_mistakes = {
        sentence: [partial(_filled, one) for one in ([of] if callable(of) else of)]
        for sentence, of in mistakes.items()
    }
    by_mistake = judge(filled, reference=solution_used, cases=_cases(), mistakes=filled_mistakes)
    if by_mistake.message in mistakes:
        return Verdict(False, by_mistake.message, details=verdict.message)
    return Verdict(False, verdict.message) if any(kinds) else verdict


NO_LENGTH = -1
"""Stands for None, so that a measure that finds no length in some cases is judged by the others."""


def _filled(measure: Function, *case: Any) -> Any:
    result = measure(*case)
    return NO_LENGTH if result is None else result


LEAST = 0.02
"""Bits that are too few to count, in the notebook."""
GONE = 0.01
"""Bits of a handicap that may be left from half of the contexts on."""


def check_handicap(attempt: Callable[[int], Any], losses: Losses, lengths: Sequence[int]) -> Verdict:
    """Judge ``attempt(c)``: bits that make a model worse with c characters, and what it uses twice as long.

    They may not grow with context, and must be gone, ``GONE`` bits at most, from half of the longest on.
    """
    added = numbers_at(attempt, lengths, "return bits to add at each context length c")
    if isinstance(added, Verdict):
        return added
    if len({*added}) == 1:
        return Verdict(
            False,
            "your handicap is the same at every length: it shifts the whole curve, and so changes no length. "
            f"Let it begin large, and fade to {GONE} bits",
        )
    if any(longer > shorter for shorter, longer in pairwise(added)):
        return Verdict(False, "your handicap grows with context: let it fall, or stay as it is")
    half = next(at for at, length in enumerate(lengths) if 2 * length >= lengths[-1])
    if added[half] > GONE:
        left = f"with {lengths[half]} characters it is still {added[half]:.3f} bits"
        return Verdict(False, f"{left}: only the beginning gets worse, so let it fade to {GONE} bits there")
    before = solution_used(losses, lengths, LEAST)
    worse = [loss + more for loss, more in zip(losses, added, strict=True)]
    after = solution_used(worse, lengths, LEAST)
    if after < 2 * before:
        return Verdict(
            False, f"it uses {after} characters now, and {before} before: let the handicap last longer"
        )
    return Verdict(True, f'worse at the beginning alone, it "uses" {after} characters and not {before}')


def numbers_at(attempt: Callable[[int], Any], lengths: Sequence[int], task: str) -> list[float] | Verdict:
    """Return a number of 0 or more for each context length, or the verdict on what is none."""
    try:
        given = [attempt(c) for c in lengths]
    except NotImplementedError:
        return Verdict.of_nothing()
    except Exception as error:
        return Verdict(False, f"it raised {type(error).__name__}: {error}")
    if any(one is None or one is Ellipsis for one in given):
        return Verdict.of_nothing()
    numbers = [one.tolist() if hasattr(one, "tolist") else one for one in given]
    if not all(isinstance(one, int | float) and not one < 0 for one in numbers):
        return Verdict(False, f"{task}: a number of 0 or more")
    if not all(map(isfinite, numbers)):
        return Verdict(False, f"{task}: a finite number, not inf and not nan")
    return numbers


def told_apart(one: float, other: float) -> tuple[str, str]:
    """Return both numbers with three digits, or with so many more that the numbers differ as they do."""
    digits = next((n for n in range(3, 10) if f"{one:.{n}f}" != f"{other:.{n}f}"), 3)
    return f"{one:.{digits}f}", f"{other:.{digits}f}"


def _first(
    settled: Callable[[Losses, int, float], bool], *, otherwise: int | Literal["stop"] | None = "stop"
) -> Callable[..., Any]:
    """Return the measure that takes the first place where this holds, and what it does where none is."""

    def used(losses: Losses, lengths: Sequence[int], least: float) -> Any:
        places = (lengths[at] for at in range(len(losses)) if settled(losses, at, least))
        return next(places) if otherwise == "stop" else next(places, otherwise)

    return used


def _last_unsettled(
    losses: Losses, lengths: Sequence[int], least: float, *, just_at: bool, pick: Callable[[list[int]], Any]
) -> Any:
    """Return the last length whose loss is still above the bound, a mistake, by ``pick``."""
    left = [loss - losses[-1] for loss in losses]
    above = [more > least or (just_at and more == least) for more in left]
    return pick([c for c, is_left in zip(lengths, above, strict=True) if is_left])


def _last_or_none(some: list[int]) -> int | None:
    return some[-1] if some else None


def _cases() -> list[tuple[Losses, list[int], float]]:
    """Return curves that fall at different paces, some of which rise again on the way or at the end."""
    lengths = list(range(8, 65, 8))
    by_hand = [
        [3.0, 2.6, 2.4, 2.31, 2.29, 2.285, 2.28, 2.28],
        [2.8, 2.45, 2.4, 2.405, 2.48, 2.42, 2.41, 2.4],  # rises on the way
        [2.8, 2.7, 2.6, 2.5, 2.52, 2.55, 2.6, 2.65],  # is worse with all of it
        [2.5, 2.5, 2.5, 2.49, 2.44, 2.37, 2.3, 2.2],  # nothing, and then much
        [2.401, 2.4, 2.402, 2.4, 2.399, 2.4, 2.401, 2.4],  # is settled from the first length on
        [2.8, 2.6, 2.4625, 2.44, 2.43, 2.4025, 2.4, 2.4],  # passes the bound in bits, and not in nats
        [2.6, 2.5, 2.425, 2.416, 2.412, 2.401, 2.4, 2.4],
    ]
    random = torch.Generator().manual_seed(62)
    for _ in range(20):
        falls = 0.2 * torch.rand(8, generator=random, dtype=torch.float64).pow(3)
        noise = 0.03 * torch.randn(8, generator=random, dtype=torch.float64)
        by_hand.append((3 - falls.cumsum(0) + noise).tolist())
    cases = [(losses, lengths, (0.02, 0.05)[at % 2]) for at, losses in enumerate(by_hand)]
    return [*cases, ([2.5, 2.25, 2.0], [8, 16, 24], 0.25)]  # numbers without rounding, one just at the bound
