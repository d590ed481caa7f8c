"""Notebook 06b: how much context a model uses, by its own losses."""

import numpy as np
import torch

from minitxl.course.checks import used_context


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


ANSWERS = {
    used_context.check_tossed: {
        "right": [
            used_context.solution_tossed,
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
            "that is a walk again": lambda losses, lengths, least: next(
                (
                    length
                    for one, other, length in zip(losses, losses[1:], lengths, strict=False)
                    if one - other < least
                ),
                lengths[-1],
            ),
            "it raised IndexError": lambda losses, lengths, least: lengths[len(losses)],
        },
    },
}
