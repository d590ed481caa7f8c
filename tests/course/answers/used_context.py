"""Notebook 06b: how much context a model uses, by its own losses."""

import numpy as np
import torch

from minitxl.course.checks import tossing, used_context


def unsettled_next(losses, lengths, least):
    """The length after the last unsettled one, and nothing if there is none."""
    for at in range(len(losses) - 1, -1, -1):
        if losses[at] - losses[-1] >= least:
            return lengths[at + 1]
    return None


def from_the_end(losses, lengths, least):
    used = lengths[-1]
    for loss, length in zip(reversed(losses), reversed(lengths), strict=True):
        if loss - losses[-1] >= least:
            break
        used = length
    return used


def by_arrays(losses, lengths, least):
    left = np.array(losses) - losses[-1]
    above = np.flatnonzero(left >= least)
    return np.array(lengths)[0 if len(above) == 0 else above[-1] + 1]


def first(losses, lengths, settled):
    return next(length for loss, length in zip(losses, lengths, strict=True) if settled(loss))


def last_unsettled(losses, lengths, least):
    unsettled = (one for loss, one in zip(losses, lengths, strict=True) if loss - losses[-1] > least)
    return max(unsettled, default=lengths[0])


def curve_by_loop(losses, signs, *, step=lambda last, now, then, sign: last + sign * (then - now)):
    curve = [losses[0]]
    for at, sign in enumerate(signs):
        curve.append(step(curve[-1], losses[at], losses[at + 1], sign))
    return torch.stack(curve)


def curve_in_place(losses, signs):
    curve = losses.clone()
    for at in range(len(signs)):
        curve[at + 1 :] += (signs[at] - 1) * (losses[at + 1] - losses[at])
    return curve


ANSWERS = {
    tossing.check_tossed_curve: {
        "right": [
            tossing.solution_tossed_curve,
            curve_by_loop,
            curve_in_place,
            lambda losses, signs: curve_by_loop(
                losses,
                signs,
                step=lambda last, now, then, sign: tossing.solution_tossed(last, last + then - now, sign),
            ),
        ],
        "wrong": {
            "begins where the tossed curve stands": lambda losses, signs: torch.stack(
                [losses[0], *(tossing.solution_tossed(*one) for one in zip(losses, losses[1:], signs))]  # noqa: B905
            ),
            "from one length to the next": lambda losses, signs: curve_by_loop(
                losses, signs, step=lambda last, now, then, sign: tossing.solution_tossed(last, then, sign)
            ),
            "the changes add up": lambda losses, signs: curve_by_loop(
                losses, signs, step=lambda last, now, then, sign: losses[0] + sign * (then - now)
            ),
            "not of all steps": lambda losses, signs: curve_by_loop(
                losses, signs, step=lambda last, now, then, sign: losses[0] + sign * (then - losses[0])
            ),
            "stand first": lambda losses, signs: curve_by_loop(losses, signs)[1:],
            "the curve begins with the losses": lambda losses, signs: (
                curve_by_loop(losses, signs) - losses[0]
            ),
            "and not losses": lambda losses, signs: torch.cat([losses[:1], losses[1:] * signs]),
            "it goes as it was measured": lambda losses, signs: curve_by_loop(losses, -signs),
            "the sign it had is lost": lambda losses, signs: (
                losses[0] + torch.cat([0 * losses[:1], (losses.diff(dim=0).abs() * signs).cumsum(0)])
            ),
            "turned, and not left out": lambda losses, signs: curve_by_loop(losses, signs.clamp(min=0)),
            "no sign is used": lambda losses, signs: losses + 0,
            "a loss for each token": lambda losses, signs: curve_by_loop(losses, signs).mean(dim=1),
            "you returned": lambda losses, signs: losses + 1,
        },
    },
    tossing.check_tossed: {
        "right": [
            tossing.solution_tossed,
            lambda before, after, signs: torch.where(signs > 0, after, 2 * before - after),
            lambda before, after, signs: torch.stack(
                [b + (a - b) * int(sign) for b, a, sign in zip(before, after, signs, strict=True)]
            ),
        ],
        "wrong": {
            "add it to the losses before": lambda before, after, signs: (after - before) * signs,
            "the signs turn losses": lambda before, after, signs: after * signs,
            "where the sign is 1, it goes from before": lambda before, after, signs: (
                before - (after - before) * signs
            ),
            "the sign it had is lost": lambda before, after, signs: before + abs(after - before) * signs,
            "turned, and not left out": lambda before, after, signs: before + (after - before) * (signs > 0),
            "where the sign is 1 the loss is the one after": lambda before, after, signs: torch.where(
                signs < 0, after, before
            ),
            "no sign is used": lambda before, after, signs: after + 0,
            "you returned": lambda before, after, signs: before + 0,
        },
    },
    used_context.check_used: {
        "right": [from_the_end, by_arrays, used_context.solution_used],
        "wrong": {
            "on the loss is above that bound again": lambda losses, lengths, least: first(
                losses, lengths, lambda loss: loss < losses[-1] + least
            ),
            "compares with the lowest loss": lambda losses, lengths, least: first(
                losses, lengths, lambda loss: loss < min(losses) + least
            ),
            "not a share of the loss": lambda losses, lengths, least: from_the_end(
                [loss / losses[-1] for loss in losses], lengths, least
            ),
            "the place in lengths": lambda losses, lengths, least: lengths.index(
                from_the_end(losses, lengths, least)
            ),
            "it returns nothing: end it with a return": unsettled_next,
            "that is a walk again": lambda losses, lengths, least: next(
                (
                    length
                    for one, other, length in zip(losses, losses[1:], lengths, strict=False)
                    if one - other < least
                ),
                lengths[-1],
            ),
            "the last length at which something is left": last_unsettled,
            "it raised IndexError": lambda losses, lengths, least: lengths[len(losses)],
        },
    },
}
