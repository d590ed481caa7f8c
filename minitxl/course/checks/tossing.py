"""Checks of notebook 06b's control: losses that change as measured, with signs that a coin decides."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from minitxl.course.verdicts import Function, Verdict, judge


def solution_tossed(before: Tensor, after: Tensor, signs: Tensor) -> Tensor:
    """Return losses that change as from ``before`` to ``after``, the other way where the sign is -1."""
    return before + signs * (after - before)


def check_tossed(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(before, after, signs)``, all [target]; where a sign is 1, the change is as it was."""
    random = torch.Generator().manual_seed(63)
    cases = []
    for number in (4, 7):
        before, after = 3 * torch.rand(2, number, generator=random, dtype=torch.float64)
        cases.append((before, after, 2 * torch.randint(2, (number,), generator=random) - 1))
    mistakes: dict[str, Function | Sequence[Function]] = {
        "that is the change alone: add it to the losses before": lambda before, after, signs: (
            signs * (after - before)
        ),
        "the signs turn losses, and not changes: a loss is positive, its change has the sign": (
            lambda before, after, signs: signs * after,
            lambda before, after, signs: before + signs * after,
        ),
        "the change is taken from the losses after: it begins at those before": lambda before, after, signs: (
            after + signs * (after - before)
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
        "that is one number: return a loss for each token": lambda before, after, signs: solution_tossed(
            before, after, signs
        ).mean(),
    }
    praise = "each change has its size, and the sign that was tossed"
    return judge(attempt, reference=solution_tossed, cases=cases, mistakes=mistakes, praise=praise)


def solution_tossed_curve(losses: Tensor, signs: Tensor) -> Tensor:
    """Return losses [context target] with each change from length to length turned where its sign is -1."""
    return torch.cat([losses[:1], losses[:1] + (signs * losses.diff(dim=0)).cumsum(0)])


def check_tossed_curve(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(losses, signs)``, of [context target] and of [step target], one step fewer."""
    random = torch.Generator().manual_seed(64)
    cases = []
    for contexts, targets in ((3, 2), (4, 3), (6, 5)):
        losses = 3 + torch.rand(contexts, targets, generator=random, dtype=torch.float64)
        cases.append((losses, 2 * torch.randint(2, (contexts - 1, targets), generator=random) - 1))
    mistakes: dict[str, Function | Sequence[Function]] = {
        "each change begins where the tossed curve stands, and not at the measured loss": _curve(
            lambda last, now, then, sign: now + sign * (then - now)
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
        "the signs turn changes, and not losses": (
            lambda losses, signs: torch.cat([losses[:1], signs * losses[1:]])
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
    return judge(attempt, reference=solution_tossed_curve, cases=cases, mistakes=mistakes, praise=praise)


def _curve(step: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a curve that goes from its last losses by this step of the measured ones, now and then."""

    def tossed(losses: Tensor, signs: Tensor) -> Tensor:
        curve = [losses[0]]
        for now, then, sign in zip(losses, losses[1:], signs, strict=False):
            curve.append(step(curve[-1], now, then, sign))
        return torch.stack(curve)

    return tossed
