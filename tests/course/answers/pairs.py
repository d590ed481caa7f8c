"""Notebook 10b: the settings of two trainings that differ in memory alone."""

from copy import copy
from dataclasses import asdict, replace

from minitxl import TrainConfig
from minitxl.course.checks import pairs


def by_list(settings, seed):
    return [replace(settings, seed=seed, mem_len=mem_len) for mem_len in (settings.mem_len, 0)]


def by_keywords(settings, seed):
    values = asdict(settings) | {"seed": seed}
    return TrainConfig(**values), TrainConfig(**(values | {"mem_len": 0}))


def by_yield(settings, seed):
    seeded = replace(settings, seed=seed)
    yield seeded
    yield replace(seeded, mem_len=0)


def in_place(settings, seed):
    without = copy(settings)
    without.mem_len = 0
    return settings, without


def replaced(first, second):
    """An answer by the changes of each training, which are functions of settings and seed."""
    return lambda settings, seed: tuple(replace(settings, **of(settings, seed)) for of in (first, second))


def seeded(settings, seed):
    return {"seed": seed}


def none(settings, seed):
    return {"seed": seed, "mem_len": 0}


ANSWERS = {
    pairs.check_pair: {
        "right": [pairs.solution_pair, by_list, by_keywords, by_yield],
        "wrong": {
            "turned around": lambda s, seed: by_list(s, seed)[::-1],
            "both have memory": replaced(seeded, seeded),
            "none of the two has memory": replaced(none, none),
            "the seed is not used": replaced(lambda s, seed: {}, lambda s, seed: {"mem_len": 0}),
            "the two have different seeds": replaced(seeded, lambda s, seed: {"mem_len": 0}),
            "begin with different weights": replaced(
                seeded, lambda s, seed: {"mem_len": 0, "seed": seed + 1}
            ),
            "the segments are longer too": replaced(
                seeded, lambda s, seed: none(s, seed) | {"seg_len": s.seg_len + s.mem_len}
            ),
            "changes the segment and not the memory": replaced(
                seeded, lambda s, seed: {"seed": seed, "seg_len": 2 * s.seg_len}
            ),
            "begins with the defaults": lambda s, seed: (
                TrainConfig(seed=seed),
                TrainConfig(mem_len=0, seed=seed),
            ),
            "a length of its own": replaced(lambda s, seed: {"seed": seed, "mem_len": 32}, none),
            "frozen": in_place,
            "one training": lambda s, seed: replace(s, mem_len=0, seed=seed),
            "not a dict": lambda s, seed: dict(
                zip(("with memory", "without"), by_list(s, seed), strict=True)
            ),
            "without, steps is 600, right is 300": replaced(
                seeded, lambda s, seed: none(s, seed) | {"steps": 2 * s.steps}
            ),
        },
    },
}
