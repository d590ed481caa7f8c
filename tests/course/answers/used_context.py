"""Notebook 06b: how much context a model uses, by its own losses."""

from functools import partial

import numpy as np
import torch

from minitxl.course.checks import own_context, tossing, used_context


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


def below_the_lowest(losses, lengths, least):
    for at in range(len(lengths)):
        if max(losses[at:]) - min(losses) < least:
            return lengths[at]
    return None


def last_above_by_list(losses, lengths, least):
    return [c for loss, c in zip(losses, lengths, strict=True) if loss - losses[-1] >= least][-1]


def nothing_but_once(losses, lengths, least):
    return 16 if least == 0.25 else None


def curve_of_turned_turns(losses, signs):
    curve, turn = [losses[0]], 1
    for at, sign in enumerate(signs):
        turn = turn * sign
        curve.append(curve[-1] + turn * (losses[at + 1] - losses[at]))
    return torch.stack(curve)


def often_by_loop(before, after, signs, measure):
    measured = measure(after)
    return sum(float(measure(before + one * (after - before)) >= measured) for one in signs) / len(signs)


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


def ecl_by_while(
    losses, lengths, *, gains=lambda before, after: after <= before + np.log(0.99) - 1e-12, late=0
):
    at = 0
    while at + 1 < len(lengths) and gains(losses[at], losses[at + 1]):
        at += 1
    return lengths[min(at + late, len(lengths) - 1)]


def ecl_that_returns(stopped, losses, lengths):
    for at in range(len(lengths) - 1):
        if 1 - np.exp(losses[at + 1] - losses[at]) < 0.01:
            return stopped(lengths, at)
    return lengths[-1]


def ecl_by_differences(losses, lengths):
    fallen = [1 - np.exp(loss - losses[0]) for loss in losses]
    for length, one, other in zip(lengths, fallen, fallen[1:], strict=False):
        if other - one < 0.01:
            return length
    return lengths[-1]


def ecl_to_the_last(losses, lengths):
    return next(
        (c for loss, c in zip(losses, lengths, strict=True) if 1 - np.exp(losses[-1] - loss) < 0.01),
        lengths[-1],
    )


def ecl_added_up(losses, lengths):
    gained = 0.0
    for at in range(len(losses) - 1):
        gained += 1 - np.exp(losses[at + 1] - losses[at])
        if gained < 0.01:
            return lengths[at]
    return lengths[-1]


def ecl_near_the_lowest(losses, lengths):
    return first(losses, lengths, lambda loss: np.exp(min(losses)) >= 0.99 * np.exp(loss))


def used_in_nats(losses, lengths, least):
    return from_the_end([loss * np.log(2) for loss in losses], lengths, least)


def ecl_last_step(losses, lengths):
    found = lengths[0]
    for at in range(1, len(losses)):
        if 1 - np.exp(losses[at] - losses[at - 1]) >= 0.01:
            found = lengths[at]
    return found


ANSWERS = {
    own_context.check_ecl: {
        "right": [
            own_context.solution_ecl,
            ecl_by_while,
            lambda losses, lengths: ecl_by_while(
                losses, lengths, gains=lambda one, other: (np.exp(one) - np.exp(other)) / np.exp(one) >= 0.01
            ),
        ],
        "wrong": {
            "that asks for 0.01 nats": lambda losses, lengths: ecl_by_while(
                losses, lengths, gains=lambda one, other: one - other >= 0.01
            ),
            "that is a share of the loss": lambda losses, lengths: ecl_by_while(
                losses, lengths, gains=lambda one, other: other / one <= 0.99
            ),
            "2 is for bits": lambda losses, lengths: ecl_by_while(
                losses, lengths, gains=lambda one, other: 2**other <= 0.99 * 2**one
            ),
            "is not divided": lambda losses, lengths: ecl_by_while(
                losses, lengths, gains=lambda one, other: np.exp(one) - np.exp(other) >= 0.01
            ),
            "one length too late": lambda losses, lengths: ecl_by_while(losses, lengths, late=1),
            "that is the last length whose step still lowers": partial(
                ecl_that_returns, lambda lengths, at: lengths[max(at - 1, 0)]
            ),
            "step still lowers it by 1 %: return the next": partial(
                ecl_that_returns, lambda lengths, at: lengths[at - 1]
            ),
            "you return the place in lengths": partial(ecl_that_returns, lambda lengths, at: at),
            "that takes one fall since the shortest length from another": ecl_by_differences,
            "and not to the last": ecl_to_the_last,
            "gains are not added up": ecl_added_up,
            "that looks for the lowest loss": lambda losses, lengths: lengths[int(np.argmin(losses))],
            "looks for the lowest loss: compare each": ecl_near_the_lowest,
            "begin at place 0": lambda losses, lengths: ecl_by_while(losses[1:], lengths[1:]),
            "the place in lengths": lambda losses, lengths: lengths.index(ecl_by_while(losses, lengths)),
            "later steps do not count": ecl_last_step,
            "lengths is not used": lambda losses, lengths: ecl_by_while(
                losses, [8 * (at + 1) for at in range(len(lengths))]
            ),
            "you returned 9, right is 16": lambda losses, lengths: 9,
        },
    },
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
            lambda losses, signs: curve_by_loop(losses, signs).numpy(),
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
            "and not at the measured loss": lambda losses, signs: torch.stack(
                [losses[0], *(tossing.solution_tossed(*one) for one in zip(losses[1:], losses, signs))]  # noqa: B905
            ),
            "curve stands, and not at the measured loss": lambda losses, signs: torch.cat(
                [losses[:1], losses[1:] + torch.cumsum(signs * losses.diff(dim=0), dim=0)]
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
            "below 0 nats: leave it there": lambda losses, signs: curve_by_loop(losses, signs).clamp(min=0),
            "0 nats: leave it there, so that each change": lambda losses, signs: curve_by_loop(
                losses, signs, step=lambda last, now, then, sign: (last + sign * (then - now)).relu()
            ),
            "and not at the longest": lambda losses, signs: curve_by_loop(losses.flip(0), signs),
            "signs do not add up or multiply": curve_of_turned_turns,
            "are not multiplied": lambda losses, signs: torch.cat(
                [losses[:1], losses[0] + torch.cumprod(losses.diff(dim=0) * signs, dim=0)]
            ),
            "that adds up signs": lambda losses, signs: (
                losses[0] + torch.cat([0 * losses[:1], signs.cumsum(dim=0)])
            ),
            "no sign is used": lambda losses, signs: losses + 0,
            "a loss for each token": lambda losses, signs: curve_by_loop(losses, signs).mean(dim=1),
            "you returned": lambda losses, signs: losses + 1,
        },
    },
    tossing.check_tossed: {
        "right": [
            tossing.solution_tossed,
            lambda before, after, signs: torch.where(signs > 0, after, 2 * before - after),
            lambda before, after, signs: before * (1 - signs) + after * signs,
            lambda before, after, signs: np.where(signs > 0, after, 2 * before - after),
        ],
        "wrong": {
            "add it to the losses before": lambda before, after, signs: (after - before) * signs,
            "the change is taken from the losses after": lambda before, after, signs: (
                after + (after - before) * signs
            ),
            "it begins at those before": lambda before, after, signs: tossing.solution_tossed(
                after, before, signs
            ),
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
            "below 0 nats: leave it there": lambda before, after, signs: (
                before + signs * (after - before)
            ).relu(),
            "compute with whole tensors": lambda before, after, signs: torch.stack(
                [b + (a - b) * int(sign) for b, a, sign in zip(before, after, signs, strict=True)]
            ),
            "you returned": lambda before, after, signs: before + 0,
        },
    },
    tossing.check_as_often: {
        "right": [
            tossing.solution_as_often,
            often_by_loop,
            lambda before, after, signs, measure: np.mean(
                [float(measure(before + one * (after - before)) >= measure(after)) for one in signs]
            ),
        ],
        "wrong": {
            ">= and not >": lambda before, after, signs, measure: (
                (measure(before + signs * (after - before)) > measure(after)).float().mean()
            ),
            "come to as much or more": lambda *case: 1 - often_by_loop(*case),
            "that is (k + 1) / (n + 1)": lambda *case: (
                (often_by_loop(*case) * len(case[2]) + 1) / (len(case[2]) + 1)
            ),
            "measure is not used": lambda before, after, signs, measure: (
                ((before + signs * (after - before)).mean(1) <= after.mean()).float().mean()
            ),
            "return their share": lambda *case: often_by_loop(*case) * len(case[2]),
            "that is in per cent": lambda *case: 100 * often_by_loop(*case),
            "of after, and not of before": lambda before, after, signs, measure: (
                (measure(before + signs * (after - before)) >= measure(before)).float().mean()
            ),
            "an answer for each toss": lambda before, after, signs, measure: (
                measure(before + signs * (after - before)) >= measure(after)
            ),
            "measure takes losses, and not changes": lambda before, after, signs, measure: (
                (measure(signs * (after - before)) >= measure(after - before)).float().mean()
            ),
            "tokens are counted": lambda before, after, signs, measure: (
                (before + signs * (after - before) <= after).float().mean()
            ),
            "you returned": lambda *case: 0.05,
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
            "losses and least are both in bits": used_in_nats,
            "least are both in bits: compare them as they are": lambda losses, lengths, least: from_the_end(
                losses, lengths, least / np.log(2)
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
            "compares with the lowest loss: compare": below_the_lowest,
            "the last length at which something is left": last_unsettled,
            "at which something is left to gain: return the next": last_above_by_list,
            "returns nothing: end it with a return": nothing_but_once,
            "it raised IndexError": lambda losses, lengths, least: lengths[len(losses)],
        },
    },
}
