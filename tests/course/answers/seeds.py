"""Notebook 10b: what memory does, by the bits of three seeds or of five."""

from math import sqrt
from statistics import mean, pstdev, stdev

import numpy as np
import torch

from minitxl.course.checks import seeds


def said(low, high=None):
    return "helps" if low > 0 else "hurts" if (low if high is None else high) < 0 else "open"


FACTORS = {3: 2.48, 5: 1.24}


def by_hand(with_memory, without, *, factors=FACTORS):
    saved = [other - one for one, other in zip(with_memory, without, strict=True)]
    n = len(saved)
    m = sum(saved) / n
    s = sqrt(sum((one - m) ** 2 for one in saved) / (n - 1))
    return said(m - factors[n] * s, m + factors[n] * s)


def by_array(with_memory, without, *, words=("helps", "hurts", "open"), ddof=1):
    saved = np.array(without) - np.array(with_memory)
    m, half = saved.mean(), FACTORS[len(saved)] * saved.std(ddof=ddof)
    return words[0] if m - half > 0 else words[1] if m + half < 0 else words[2]


def by_tensor(with_memory, without):
    saved = torch.tensor(without, dtype=torch.float64) - torch.tensor(with_memory, dtype=torch.float64)
    quantile = 4.30 if len(saved) == 3 else 2.776
    if saved.mean().abs() <= quantile / len(saved) ** 0.5 * saved.std():
        return "open"
    return "helps" if saved.mean() > 0 else "hurts"


def by_added_bits(with_memory, without):
    added = [one - other for one, other in zip(with_memory, without, strict=True)]
    ends = [mean(added) + side * FACTORS[len(added)] * stdev(added) for side in (-1, 1)]
    return "helps" if max(ends) < 0 else "hurts" if min(ends) > 0 else "open"


def unpaired(with_memory, without):
    m, s = mean(without) - mean(with_memory), sqrt(stdev(with_memory) ** 2 + stdev(without) ** 2)
    return said(m - FACTORS[len(without)] * s, m + FACTORS[len(without)] * s)


def by_pstdev(with_memory, without):
    saved = [other - one for one, other in zip(with_memory, without, strict=True)]
    half = FACTORS[len(saved)] * pstdev(saved)
    return said(mean(saved) - half, mean(saved) + half)


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
            "divides by the number of seeds": lambda a, b: by_array(a, b, ddof=0),
            "2.48 is the factor of three seeds": lambda a, b: by_hand(a, b, factors={3: 2.48, 5: 2.48}),
            "1.24 is the factor of five seeds": lambda a, b: by_hand(a, b, factors={3: 1.24, 5: 1.24}),
            "another length": lambda a, b: by_hand(a, b, factors={3: 1, 5: 1}),
            "2.48 standard deviations": lambda a, b: by_hand(a, b, factors={3: 4.30, 5: 4.30}),
            "to each side of the mean": lambda a, b: by_hand(a, b, factors={3: 1.96, 5: 1.96}),
            "one seed alone": lambda a, b: said(b[0] - a[0]),
            "lies in the interval": lambda a, b: by_array(a, b, words=("helps", "hurts", "hurts")),
            '"hurts" is missing': lambda a, b: by_array(a, b, words=("helps", "open", "open")),
            '"helps" is missing': lambda a, b: by_array(a, b, words=("open", "hurts", "open")),
            "small letters": lambda a, b: by_hand(a, b).capitalize(),
            "return a word": lambda a, b: by_array(a, b) == "helps",
        },
    },
}
