"""Checks of notebook 06b's control: losses that change as measured, with signs that a coin decides."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minitxl.course.checker import Function, Verdict, judge
from minitxl.course.checks.many_draws import Measure, gain_over

BELOW_ZERO = "a tossed loss may come out below 0 nats: leave it there, so that each change keeps its size"


def solution_tossed(before: Tensor, after: Tensor, signs: Tensor) -> Tensor:
    """Return losses that change as from ``before`` to ``after``, the other way where the sign is -1."""
    return before + signs * (after - before)


def check_tossed(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(before, after, signs)``, all [target], or the signs [toss target] of many tosses.

    Where a sign is 1, the change is as it was.
    """
    random = torch.Generator().manual_seed(63)
    cases = []
    for *tosses, number in ((4,), (7,), (3, 5)):
        before, after = 3 * torch.rand(2, number, generator=random, dtype=torch.float64)
        cases.append((before, after, 2 * torch.randint(2, (*tosses, number), generator=random) - 1))
    mistakes: dict[str, Function | Sequence[Function]] = {
        "that is the change alone: add it to the losses before": lambda before, after, signs: (
            signs * (after - before)
        ),
        "the signs turn losses, and not changes: a loss is positive, its change has the sign": (
            lambda before, after, signs: signs * after,
            lambda before, after, signs: before + signs * after,
        ),
        "the change is taken from the losses after: it begins at those before": (
            lambda before, after, signs: after + signs * (after - before),
            lambda before, after, signs: after - signs * (after - before),
        ),
        "the change is turned round: where the sign is 1, it goes from before to after": (
            lambda before, after, signs: before + signs * (before - after)
        ),
        "the size is used, and the sign it had is lost: 1 keeps a change as it is, and -1 turns it": (
            lambda before, after, signs: before + signs * (after - before).abs()
        ),
        "where the sign is 1 the loss is the one after, and where it is -1 the change is turned": (
            lambda before, after, signs: torch.where(signs > 0, before, after)
        ),
        "where the sign is -1 the change is turned, and not left out": lambda before, after, signs: (
            torch.where(signs > 0, after, before)
        ),
        "no sign is used": lambda before, after, signs: after,
        BELOW_ZERO: (
            lambda before, after, signs: solution_tossed(before, after, signs).clamp(min=0),
            lambda before, after, signs: solution_tossed(before, after, signs).abs(),
        ),
        "signs may be [toss target], a row for each of many tosses: compute with whole tensors": (
            lambda before, after, signs: torch.stack(
                [_one_by_one(*token) for token in zip(before, after, signs, strict=True)]
            ),
            lambda before, after, signs: torch.stack(
                [_one_by_one(before[t], after[t], signs[t]) for t in range(len(before))]
            ),
        ),
        "that is one number: return a loss for each token": lambda before, after, signs: solution_tossed(
            before, after, signs
        ).mean(),
    }
    praise = "each change has its size, and the sign that was tossed"
    return judge(
        _to_tensors(attempt), reference=solution_tossed, cases=cases, mistakes=mistakes, praise=praise
    )


def _to_tensors(attempt: Any) -> Any:
    """Return the function with an array that it returns as a tensor: both are right."""
    if not callable(attempt):
        return attempt

    @wraps(attempt)
    def converted(*case: Any) -> Any:
        result = attempt(*case)
        return torch.as_tensor(result) if isinstance(result, np.ndarray) else result

    return converted


def solution_tossed_curve(losses: Tensor, signs: Tensor) -> Tensor:
    """Return losses [context target] with each change from length to length turned where its sign is -1."""
    return torch.cat([losses[:1], losses[:1] + (signs * losses.diff(dim=0)).cumsum(0)])


def check_tossed_curve(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(losses, signs)``, of [context target] and of [step target], one step fewer."""
    random = torch.Generator().manual_seed(64)
    cases = []
    for contexts, targets in ((3, 2), (4, 3), (6, 5)):
        losses = torch.rand(contexts, targets, generator=random, dtype=torch.float64)
        signs = 2 * torch.randint(2, (contexts - 1, targets), generator=random) - 1
        cases += [(losses + least, signs) for least in (3, 0.01)]  # the second is tossed below 0
    mistakes: dict[str, Function | Sequence[Function]] = {
        "each change begins where the tossed curve stands, and not at the measured loss": (
            _curve(lambda last, now, then, sign: now + sign * (then - now)),
            _curve(lambda last, now, then, sign: then + sign * (then - now)),
            _curve(lambda last, now, then, sign: then - sign * (then - now)),
            lambda losses, signs: torch.cat(
                [losses[:1], losses[1:] + (signs * losses.diff(dim=0)).cumsum(0)]
            ),
        ),
        "the size of a change is that of the measured losses, from one length to the next": _curve(
            lambda last, now, then, sign: last + sign * (then - last)
        ),
        "the changes add up along the curve: each begins where the one before it ended": (
            lambda losses, signs: torch.cat([losses[:1], losses[:1] + signs * losses.diff(dim=0)])
        ),
        "each change is that of one step, and not of all steps from the shortest context": (
            lambda losses, signs: torch.cat([losses[:1], losses[:1] + signs * (losses[1:] - losses[:1])])
        ),
        "the losses at the shortest context stand first, as they were measured": (
            lambda losses, signs: solution_tossed_curve(losses, signs)[1:],
            lambda losses, signs: (signs * losses.diff(dim=0)).cumsum(0),
        ),
        "those are changes: the curve begins with the losses at the shortest context": (
            lambda losses, signs: solution_tossed_curve(losses, signs) - losses[0]
        ),
        "the curve begins at the shortest context, the first of losses, and not at the longest": (
            lambda losses, signs: solution_tossed_curve(losses.flip(0), signs),
            lambda losses, signs: solution_tossed_curve(losses.flip(0), signs).flip(0),
            lambda losses, signs: solution_tossed_curve(losses.flip(0), signs.flip(0)),
            lambda losses, signs: solution_tossed_curve(losses.flip(0), signs.flip(0)).flip(0),
            lambda losses, signs: solution_tossed_curve(losses, signs).flip(0),
        ),
        BELOW_ZERO: (
            lambda losses, signs: solution_tossed_curve(losses, signs).clamp(min=0),
            lambda losses, signs: solution_tossed_curve(losses, signs).abs(),
            _curve(lambda last, now, then, sign: (last + sign * (then - now)).clamp(min=0)),
            _curve(lambda last, now, then, sign: (last + sign * (then - now)).abs()),
        ),
        "the signs turn changes, and not losses": (
            lambda losses, signs: torch.cat([losses[:1], signs * losses[1:]]),
            lambda losses, signs: torch.cat([losses[:1], losses[:1] + (signs * losses[1:]).cumsum(0)]),
            lambda losses, signs: torch.cat([losses[:1], losses[:1] + signs * losses[1:]]),
            lambda losses, signs: torch.cat([losses[:1], losses[1:] + signs * losses[1:]]),
            lambda losses, signs: torch.cat([losses[:1], losses[:-1] + signs * losses[1:]]),
        ),
        "a sign turns the change of its own step alone: signs do not add up or multiply along the curve": (
            lambda losses, signs: solution_tossed_curve(losses, signs.cumprod(0)),
            lambda losses, signs: solution_tossed_curve(losses, signs.cumsum(0)),
            lambda losses, signs: torch.cat([losses[:1], losses[:1] + signs.cumsum(0) * losses.diff(dim=0)]),
            lambda losses, signs: torch.cat([losses[:1], losses[:1] + signs.cumprod(0) * losses.diff(dim=0)]),
        ),
        "changes add up along the curve, and are not multiplied: cumsum, and not cumprod": (
            lambda losses, signs: torch.cat(
                [losses[:1], losses[:1] + (signs * losses.diff(dim=0)).cumprod(0)]
            ),
            lambda losses, signs: torch.cat(
                [losses[:1], losses[:1] * (signs * losses.diff(dim=0)).cumprod(0)]
            ),
        ),
        "that adds up signs: each stands before the measured change of its step": (
            lambda losses, signs: torch.cat([losses[:1], losses[:1] + signs.cumsum(0)])
        ),
        "the change is turned round: where the sign is 1, it goes as it was measured": _curve(
            lambda last, now, then, sign: last - sign * (then - now)
        ),
        "the size is used, and the sign it had is lost: 1 keeps a change as it is, and -1 turns it": _curve(
            lambda last, now, then, sign: last + sign * (then - now).abs()
        ),
        "where the sign is -1 the change is turned, and not left out": _curve(
            lambda last, now, then, sign: last + (sign > 0) * (then - now)
        ),
        "no sign is used": lambda losses, signs: losses,
        "that is the mean of each length: return a loss for each token": lambda losses, signs: (
            solution_tossed_curve(losses, signs).mean(1)
        ),
    }
    praise = "each change has its size and its tossed sign, and the curve goes on from it"
    return judge(
        _to_tensors(attempt), reference=solution_tossed_curve, cases=cases, mistakes=mistakes, praise=praise
    )


def _curve(step: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a curve that goes from its last losses by this step of the measured ones, now and then."""

    def tossed(losses: Tensor, signs: Tensor) -> Tensor:
        curve = [losses[0]]
        for now, then, sign in zip(losses, losses[1:], signs, strict=False):
            curve.append(step(curve[-1], now, then, sign))
        return torch.stack(curve)

    return tossed


def _one_by_one(before: Tensor, after: Tensor, sign: Tensor) -> Tensor:
    """Return one token's tossed loss; a row of signs is no single sign."""
    return before + int(sign) * (after - before)


def solution_as_often(before: Tensor, after: Tensor, signs: Tensor, measure: Measure) -> Tensor:
    """Return the share of tosses whose tossed losses come to as much by the measure as ``after``, or more.

    ``before`` and ``after`` are [target], ``signs`` [toss target].
    """
    return (measure(solution_tossed(before, after, signs)) >= measure(after)).float().mean()


def mean_fall(losses: Tensor) -> Tensor:
    """Return minus the mean of each row: the less the mean loss, the more."""
    return -torch.as_tensor(losses).mean(dim=-1)


def check_as_often(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(before, after, signs, measure)``; the first case is the small one of the text."""
    random = torch.Generator().manual_seed(65)
    four = torch.tensor([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    cases: list[tuple[Any, ...]] = [(torch.tensor([2.0, 2.0]), torch.tensor([1.0, 2.5]), four, mean_fall)]
    for number in (6, 9):
        before = 2 + torch.rand(number, generator=random, dtype=torch.float64)
        after = before + torch.rand(number, generator=random, dtype=torch.float64) - 0.7
        signs = 2 * torch.randint(2, (40, number), generator=random) - 1
        gain = gain_over(torch.stack([before, before.flip(0)]), 0.5)
        cases += [(before, after, signs, measure) for measure in (mean_fall, gain)]

    def variant(compare: Callable[[Tensor, Tensor], Tensor]) -> Function:
        """Return the test with another comparison of the tosses' numbers and the measured one."""
        return lambda before, after, signs, measure: compare(
            measure(solution_tossed(before, after, signs)), measure(after)
        )

    mistakes: dict[str, Function | Sequence[Function]] = {
        "a toss that comes to just as much counts too: >= and not >": variant(
            lambda tosses, measured: (tosses > measured).float().mean()
        ),
        "those are the tosses that come to less: count those that come to as much or more": (
            variant(lambda tosses, measured: (tosses < measured).float().mean()),
            variant(lambda tosses, measured: (tosses <= measured).float().mean()),
        ),
        "that is the number of tosses: return their share": (
            variant(lambda tosses, measured: (tosses >= measured).sum()),
            variant(lambda tosses, measured: (tosses > measured).sum()),
        ),
        "that is (k + 1) / (n + 1), which counts the measured signs as one more toss: return k / n": variant(
            lambda tosses, measured: ((tosses >= measured).sum() + 1) / (len(tosses) + 1)
        ),
        "measure is not used, and the mean loss is compared: hand the losses to measure": (
            lambda before, after, signs, measure: solution_as_often(before, after, signs, mean_fall)
        ),
        "that is in per cent: return a share": variant(
            lambda tosses, measured: 100 * (tosses >= measured).float().mean()
        ),
        "that is an answer for each toss: return the share of all tosses": (
            variant(lambda tosses, measured: tosses >= measured),
            variant(lambda tosses, measured: (tosses >= measured).float()),
        ),
        "the sizes are compared, and a rise counts like a fall: leave the signs in": variant(
            lambda tosses, measured: (tosses.abs() >= measured.abs()).float().mean()
        ),
        "the mean of all tosses is compared: compare each toss, and then take the mean": variant(
            lambda tosses, measured: (tosses.mean() >= measured).float()
        ),
        "the measured number is that of after, and not of before": lambda before, after, signs, measure: (
            (measure(solution_tossed(before, after, signs)) >= measure(before)).float().mean()
        ),
        "the tosses are compared with zero: compare them with measure(after)": variant(
            lambda tosses, measured: (tosses >= 0).float().mean()
        ),
        "measure takes losses, and not changes: toss first": lambda before, after, signs, measure: (
            (measure(signs * (after - before)) >= measure(after - before)).float().mean()
        ),
        "the change goes from before to after: tossed(before, after, signs)": (
            lambda before, after, signs, measure: (
                (measure(solution_tossed(after, before, signs)) >= measure(after)).float().mean()
            )
        ),
        "tokens are counted: measure gives one number for each toss, and these are compared": (
            lambda before, after, signs, measure: (
                (solution_tossed(before, after, signs) <= after).float().mean()
            ),
            lambda before, after, signs, measure: (
                (solution_tossed(before, after, signs) >= after).float().mean()
            ),
        ),
    }
    praise = "the share of tosses that come to as much as was measured"
    return judge(attempt, reference=solution_as_often, cases=cases, mistakes=mistakes, praise=praise)
