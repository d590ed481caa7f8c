"""Notebook 10c: the gain of reading and the gain of training, in either order."""

import numpy as np
import torch

from minitxl.course.checks import splits


def by_middle(p, first):
    middle = p[first == "training", first == "reading"]
    gains = [p[False, False] - middle, middle - p[True, True]]
    return gains if first == "reading" else gains[::-1]


def by_tensors(p, first):
    return torch.tensor(splits.solution_split(p, first))


def gains(p, first, change=lambda before, after: before - after):
    """The gains in the order of the steps, as an array."""
    middle = p[first == "training", first == "reading"]
    return np.array([change(p[False, False], middle), change(middle, p[True, True])])


def in_order(steps, first):
    return steps if first == "reading" else steps[::-1].copy()


ANSWERS = {
    splits.check_split: {
        "right": [
            splits.solution_split,
            by_middle,
            by_tensors,
            lambda *given: in_order(gains(*given), given[1]),
        ],
        "wrong": {
            "whichever step comes first": gains,
            "the keys are turned around": lambda p, first: by_middle({key: p[key[::-1]] for key in p}, first),
            "the two gains are exchanged": lambda *given: in_order(gains(*given), given[1])[::-1].copy(),
            "the middle is the wrong one": lambda p, first: by_middle(
                p, {"reading": "training", "training": "reading"}[first]
            ),
            "the reading comes first whatever": lambda p, first: by_middle(p, "reading"),
            "the training comes first whatever": lambda p, first: by_middle(p, "training"),
            "both steps begin at": lambda p, first: [p[0, 0] - p[0, 1], p[0, 0] - p[1, 0]],
            "both steps end at": lambda p, first: [p[1, 0] - p[1, 1], p[0, 1] - p[1, 1]],
            "not a dict": lambda p, first: {
                "reading": by_middle(p, first)[0],
                "training": by_middle(p, first)[1],
            },
            "what it was before the step": lambda *given: -in_order(gains(*given), given[1]),
            "those are shares": lambda p, first: (
                in_order(gains(p, first), first) / (p[False, False] - p[True, True])
            ),
            "points, without dividing": lambda *given: in_order(
                gains(*given, lambda before, after: 100 * (before - after) / before), given[1]
            ),
            "without dividing": lambda p, first: (
                100 * in_order(gains(p, first), first) / (p[False, False] - p[True, True])
            ),
            "logarithms of ratios": lambda p, first: in_order(
                gains(p, first, lambda before, after: np.log(before / after)), first
            ),
            "logarithms": lambda p, first: in_order(
                gains(p, first, lambda before, after: np.log2(before / after)), first
            ),
            "the mean over both orders": lambda p, first: (
                (np.array(by_middle(p, "reading")) + np.array(by_middle(p, "training"))) / 2
            ),
            "keep its sign": lambda *given: np.abs(in_order(gains(*given), given[1])),
            "the whole gain alone": lambda *given: gains(*given).sum(),
            "the sum is not asked for": lambda *given: [*by_middle(*given), sum(by_middle(*given))],
            "it raised KeyError": lambda p, first: p["trained", "read"],
        },
    },
}
