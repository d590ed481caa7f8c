"""Notebook 10b: what memory does, by the bits of each seed."""

import numpy as np
import torch

from minitxl.course.checks import seeds


def by_loop(with_memory, without):
    ahead = 0
    for place in range(len(with_memory)):
        ahead += with_memory[place] < without[place]
        ahead -= with_memory[place] > without[place]
    return {len(without): "helps", -len(without): "hurts"}.get(ahead, "level")


def by_array(with_memory, without, *, words=("helps", "hurts", "level")):
    differences = np.array(with_memory) - np.array(without)
    return words[0] if (differences < 0).all() else words[1] if (differences > 0).all() else words[2]


def by_tensor(with_memory, without):
    signs = (torch.tensor(with_memory) - torch.tensor(without)).sign()
    return {-1: "helps", 1: "hurts"}[int(signs[0])] if signs[0] and (signs == signs[0]).all() else "level"


def by_margin(with_memory, without, margin):
    if all(one < other - margin for one, other in zip(with_memory, without, strict=True)):
        return "helps"
    if all(one > other + margin for one, other in zip(with_memory, without, strict=True)):
        return "hurts"
    return "level"


def said(difference):
    return "helps" if difference < 0 else "hurts" if difference > 0 else "level"


ANSWERS = {
    seeds.check_effect: {
        "right": [seeds.solution_effect, by_loop, by_array, by_tensor],
        "wrong": {
            "compares the means": lambda a, b: said(np.mean(a) - np.mean(b)),
            "the best of one with the worst": lambda a, b: said(
                min(0, max(a) - min(b)) or max(0, min(a) - max(b))
            ),
            "belongs to different seeds": lambda a, b: by_loop(sorted(a), sorted(b)),
            "fewer bits are better": lambda a, b: by_loop(b, a),
            "most seeds are not all": lambda a, b: said(sum(np.sign(np.array(a) - np.array(b)))),
            "one seed alone": lambda a, b: said(a[0] - b[0]),
            "use all, not any": lambda a, b: "helps" if (np.array(a) < np.array(b)).any() else by_loop(a, b),
            "don't agree": lambda a, b: by_array(a, b, words=("helps", "hurts", "hurts")),
            '"hurts" is missing': lambda a, b: by_array(a, b, words=("helps", "level", "level")),
            '"helps" is missing': lambda a, b: by_array(a, b, words=("level", "hurts", "level")),
            "however small": lambda a, b: by_margin(a, b, 0.01),
            "has no margin": lambda a, b: by_margin(a, b, 0.003),
            "at the first place where they differ": lambda a, b: said((a > b) - (a < b)),
            "equal bits": lambda a, b: (
                "helps" if all(map(float.__le__, a, b)) else "hurts" if by_loop(a, b) == "hurts" else "level"
            ),
            "return a word": lambda a, b: all(map(float.__lt__, a, b)),
        },
    },
}
