"""Notebook 10b: what memory does, by the bits of three seeds."""

from math import sqrt
from statistics import mean, pstdev, stdev

import numpy as np
import torch

from minitxl.course.checks import seeds


def said(low, high=None):
    return "helps" if low > 0 else "hurts" if (low if high is None else high) < 0 else "open"


def by_hand(with_memory, without, *, factor=2.48):
    saved = [other - one for one, other in zip(with_memory, without, strict=True)]
    m = sum(saved) / 3
    s = sqrt(sum((one - m) ** 2 for one in saved) / 2)
    return said(m - factor * s, m + factor * s)


def by_array(with_memory, without, *, words=("helps", "hurts", "open"), ddof=1):
    saved = np.array(without) - np.array(with_memory)
    m, half = saved.mean(), 2.48 * saved.std(ddof=ddof)
    return words[0] if m - half > 0 else words[1] if m + half < 0 else words[2]


def by_tensor(with_memory, without):
    saved = torch.tensor(without, dtype=torch.float64) - torch.tensor(with_memory, dtype=torch.float64)
    if saved.mean().abs() <= 4.30 / 3**0.5 * saved.std():
        return "open"
    return "helps" if saved.mean() > 0 else "hurts"


def by_added_bits(with_memory, without):
    added = [one - other for one, other in zip(with_memory, without, strict=True)]
    ends = [mean(added) + side * 2.48 * stdev(added) for side in (-1, 1)]
    return "helps" if max(ends) < 0 else "hurts" if min(ends) > 0 else "open"


def unpaired(with_memory, without):
    m, half = mean(without) - mean(with_memory), 2.48 * sqrt(stdev(with_memory) ** 2 + stdev(without) ** 2)
    return said(m - half, m + half)


def by_pstdev(with_memory, without):
    saved = [other - one for one, other in zip(with_memory, without, strict=True)]
    return said(mean(saved) - 2.48 * pstdev(saved), mean(saved) + 2.48 * pstdev(saved))


ANSWERS = {
    seeds.check_effect: {
        "right": [seeds.solution_effect, by_hand, by_array, by_tensor, by_added_bits],
        "wrong": {
            "compares the means": lambda a, b: said(np.mean(b) - np.mean(a)),
            "signs alone": lambda a, b: said(min(np.array(b) - a), max(np.array(b) - a)),
            "the best of one with the worst": lambda a, b: said(min(b) - max(a), max(b) - min(a)),
            "the spread of the models": unpaired,
            "belongs to different seeds": lambda a, b: by_hand(sorted(a), sorted(b)),
            "fewer bits are better": lambda a, b: by_hand(b, a),
            "pstdev": by_pstdev,
            "divides by three": lambda a, b: by_array(a, b, ddof=0),
            "another length": lambda a, b: by_hand(a, b, factor=1),
            "2.48 standard deviations": lambda a, b: by_hand(a, b, factor=4.30),
            "to each side of the mean": lambda a, b: by_hand(a, b, factor=1.96),
            "one seed alone": lambda a, b: said(b[0] - a[0]),
            "lies in the interval": lambda a, b: by_array(a, b, words=("helps", "hurts", "hurts")),
            '"hurts" is missing': lambda a, b: by_array(a, b, words=("helps", "open", "open")),
            '"helps" is missing': lambda a, b: by_array(a, b, words=("open", "hurts", "open")),
            "small letters": lambda a, b: by_hand(a, b).capitalize(),
            "return a word": lambda a, b: by_array(a, b) == "helps",
        },
    },
}
