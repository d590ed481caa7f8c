"""Checks of notebook 02: the sinusoids, moving them by a turn, words that look alike, a position's twin."""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from math import pi
from typing import Any

import torch
from torch import Tensor

from minitxl.course.checker import NOTHING, Verdict, judge
from minitxl.course.predictions import Predictions, Question
from minitxl.position_encodings import sinusoids

predictions = Predictions(
    *(
        Question(name, f"Can a model with {name} learn it?", answer=answer, why=why)
        for name, answer, why in (
            ("no mask, 1 layer", False, "both words hold the same letters, so their sums are the same."),
            ("no mask, 2 layers", False, "letters in another order go through every layer in that order."),
            ("causal, 1 layer", False, "the last letter attends to all letters, and its sum has no order."),
            ("causal, 2 layers", True, "letters between A and B have seen one of them; layer 2 reads that."),
            (
                "no mask, 1 layer, positions",
                True,
                "with its position in its key, the earlier letter can get another weight.",
            ),
        )
    )
)


def check_sinusoids(attempt: Callable[[Tensor, int], Tensor]) -> Verdict:
    """``attempt(positions, d_model)``: [pos model], the sines and then the cosines."""
    cases = [
        (torch.arange(7.0), 8),
        (torch.arange(5), 4),
        (torch.tensor([3.0, 11.0, 0.0]), 6),
        (torch.arange(40.0, 43.0), 10),
    ]
    return judge(attempt, reference=sinusoids, cases=cases, mistakes=SINUSOIDS)


def _table(positions: Tensor, frequencies: Tensor) -> Tensor:
    angles = positions[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def _frequencies(d_model: int, last: float) -> Tensor:
    """d_model / 2 frequencies 10000^-e, e from 0 in equal steps that would reach ``last``."""
    return 10000.0 ** -(torch.arange(d_model // 2) * last / (d_model // 2))


def _interleaved(positions: Tensor, d_model: int) -> Tensor:
    return sinusoids(positions, d_model).unflatten(1, (2, -1)).transpose(1, 2).flatten(1)


SINUSOIDS: dict[str, Callable[..., Tensor]] = {
    "sines and cosines are interleaved: this is how Vaswani et al. print them. Here, as in the original "
    "Transformer-XL code, all sines come first, then all cosines": _interleaved,
    "cosines first: the sines are the left half": lambda p, d: sinusoids(p, d).roll(d // 2, dims=1),
    "the exponent is m / d_model, so the frequencies stop at 1/100: it is 2m / d_model": lambda p, d: _table(
        p, _frequencies(d, 0.5)
    ),
    "the exponent is 4m / d_model: 2m / d_model, where m counts to d_model / 2. Is an arange with step 2 "
    "divided by the half?": lambda p, d: _table(p, _frequencies(d, 2.0)),
    "the last frequency is exactly 1/10000: you divide by one less than the number of frequencies, as "
    "tensor2tensor does; the paper divides by d_model": lambda p, d: _table(
        p, _frequencies(d, (d // 2) / (d // 2 - 1))
    ),
    "the frequencies grow: the exponent lacks its minus": lambda p, d: _table(
        p, 10000.0 ** (torch.arange(0, d, 2) / d)
    ),
    "the angle is p / ω: a place is multiplied by its frequency, or divided by 10000^(2m / d_model)": (
        lambda p, d: torch.cat(
            [(p[:, None] / _frequencies(d, 1.0)).sin(), (p[:, None] / _frequencies(d, 1.0)).cos()], dim=1
        )
    ),
    "the angle is taken for degrees: sin and cos work in radians, p ω needs no conversion": lambda p, d: (
        _table(p * pi / 180, _frequencies(d, 1.0))
    ),
    "a factor 2π too much: ω is the angle per token": lambda p, d: _table(2 * pi * p, _frequencies(d, 1.0)),
    "the positions are counted from 1: they come as they are": lambda p, d: sinusoids(p + 1, d),
    "the positions are not taken from the argument, but counted 0, 1, 2 …: they come as they are, and "
    "need not begin at 0": lambda p, d: sinusoids(torch.arange(len(p)), d),
    "the first component of every row is that of one hand, and the rows are hands: the table is [pos model], "
    "a row for each position": lambda p, d: sinusoids(p, d).T,
}


def rotated(rows: Tensor, steps: int) -> Tensor:
    """Return the sinusoids ``steps`` places on, from the rows alone: each pair turns by its own angle."""
    return _turn(rows, steps * _frequencies(rows.shape[1], 1.0))


def _turn(rows: Tensor, angles: Tensor) -> Tensor:
    sines, cosines = rows.chunk(2, dim=1)
    return torch.cat(
        [
            sines * angles.cos() + cosines * angles.sin(),
            cosines * angles.cos() - sines * angles.sin(),
        ],
        dim=1,
    )


def check_move(attempt: Callable[[Tensor, int], Tensor]) -> Verdict:
    """``attempt(rows, steps)``: from rows [pos model] of unknown places to those ``steps`` further on."""
    draw = torch.Generator().manual_seed(4)
    places = torch.randint(0, 30, (3, 6), generator=draw).float()
    shapes = [(places[0], 8, 3), (places[1], 4, 1), (places[2], 6, 10), (places[0], 6, -2)]
    cases = [(sinusoids(at, d_model), steps) for at, d_model, steps in shapes]
    mistakes: dict[str, Callable[..., Tensor]] = {
        "these are the rows as they came: turn each pair by the angle steps · ω_m": lambda rows, steps: rows,
        "steps has no part in it: pair m turns by steps · ω_m": lambda rows, steps: rotated(rows, 1),
        "it turns the wrong way, to the places before: check the sign of sin b in "
        "sin(a + b) = sin a cos b + cos a sin b": lambda rows, steps: rotated(rows, -steps),
        "rolled rows: that moves the rows of this table round, and the places here are in no "
        "order. Each row must be turned by itself": lambda rows, steps: rows.roll(-steps, dims=0),
        "all pairs turn by the same angle: pair m turns by steps · ω_m": lambda rows, steps: _turn(
            rows, torch.full((rows.shape[1] // 2,), float(steps))
        ),
        "the sinusoids of steps are added: angles add, sines do not": lambda rows, steps: (
            rows + sinusoids(torch.tensor([float(steps)]), rows.shape[1])
        ),
        "the sign in the cosine is wrong: cos(a + b) = cos a cos b − sin a sin b": partial(
            _turned, signs=(1, 1)
        ),
        "the sign in the sine is wrong: sin(a + b) = sin a cos b + cos a sin b": partial(
            _turned, signs=(-1, -1)
        ),
        "neighbouring components are taken as a pair: sine m stands in column m and its cosine "
        "in column m + d_model / 2": _turn_neighbours,
        "every second column is taken for the sines: all sines stand in the left half of a row, all "
        "cosines in the right half": lambda rows, steps: rotated(
            torch.cat([rows[:, ::2], rows[:, 1::2]], dim=1), steps
        ),
        "the halves are exchanged in the result: sines first, then cosines": lambda rows, steps: rotated(
            rows, steps
        ).roll(rows.shape[1] // 2, dims=1),
    }
    return judge(attempt, reference=rotated, cases=cases, mistakes=mistakes)


def _turned(rows: Tensor, steps: int, *, signs: tuple[int, int]) -> Tensor:
    """Return the turn with these signs before cos a sin b in the sine, and sin a sin b in the cosine."""
    angles = steps * _frequencies(rows.shape[1], 1.0)
    (sines, cosines), (first, second) = rows.chunk(2, dim=1), signs
    return torch.cat(
        [
            sines * angles.cos() + first * cosines * angles.sin(),
            cosines * angles.cos() + second * sines * angles.sin(),
        ],
        dim=1,
    )


def _turn_neighbours(rows: Tensor, steps: int) -> Tensor:
    apart = torch.cat([rows[:, 0::2], rows[:, 1::2]], dim=1)
    return rotated(apart, steps).unflatten(1, (2, -1)).transpose(1, 2).flatten(1)


def check_alike(pair: Any) -> Verdict:
    """Two words of different order whose last letter gets the same from one causal layer without positions.

    That layer gives the last place a function of its own token and of each token's share of the word.
    """
    if pair in (None, ..., (..., ...), ("...", "...")):
        return Verdict.of_nothing(f"{NOTHING}: give two words")
    if not isinstance(pair, tuple | list) or not all(isinstance(word, str) for word in pair):
        return Verdict(False, f"give two words, as ('abc', 'abd'), not {pair!r}")
    if len(pair) != 2:
        return Verdict(False, f"give two words, not {len(pair)}")
    first, second = pair
    if not first or not second:
        return Verdict(False, "a word is empty: there is no last letter")
    if first == second:
        return Verdict(False, "these are the same word twice: the order must differ")
    if first[-1] != second[-1]:
        return Verdict(False, f"the last letters are {first[-1]} and {second[-1]}: the query itself differs")
    if len({*first, *second}) == 1:
        return Verdict(False, "there is no order in a word of one letter")
    if set(first) != set(second):
        stray = min(set(first) ^ set(second))
        return Verdict(
            False, f"only one of the words has the letter {stray}: the mean of the values shows it"
        )
    if _shares(first) != _shares(second):
        letter = min(letter for letter in first if _shares(first)[letter] != _shares(second)[letter])
        one, other = _shares(first)[letter], _shares(second)[letter]
        return Verdict(False, f"the letter {letter} is {one} of the first word and {other} of the second")
    if len(first) != len(second):
        return Verdict(True, "not even the lengths are equal: only the shares of the letters count")
    return Verdict(True, "the same letters before the same last one, so to that query they are one sum")


def _shares(word: str) -> dict[str, Fraction]:
    return {letter: Fraction(count, len(word)) for letter, count in Counter(word).items()}


FARTHEST = 2000
"""Positions among which a twin is looked for."""


def first_twin(d_model: int, within: float) -> int:
    """Return the smallest position above 0 whose sinusoids are less than ``within`` from those of 0."""
    rows = sinusoids(torch.arange(FARTHEST), d_model)
    near = (rows - rows[0]).norm(dim=1) < within
    return int(near[1:].nonzero()[0]) + 1


def check_twin(attempt: Callable[[int, float], Any]) -> Verdict:
    """``attempt(d_model, within)``: the smallest position > 0 whose vector is that near to position 0's."""
    cases = [(2, 0.5), (2, 0.1), (2, 0.02), (4, 0.5), (4, 0.2)]
    mistakes: dict[str, Callable[..., int]] = {
        "position 0 is its own nearest: the twin must stand further on": lambda d, within: 0,
        "one too few: row 1 of the table is position 1": lambda d, within: first_twin(d, within) - 1,
        "one too many: row p of the table is position p": lambda d, within: first_twin(d, within) + 1,
        "this is the nearest of all positions, and asked for is the first that is near enough": _nearest,
        "this is the first position that is *farther* away: look for less than ``within``": (
            lambda d, within: int((_apart(d) >= within).nonzero()[0])
        ),
        "only the sine of the first hand is compared: all components of the vectors must agree": (
            lambda d, within: int((_apart(d, slice(0, 1))[1:] < within).nonzero()[0]) + 1
        ),
    }
    return judge(attempt, reference=first_twin, cases=cases, mistakes=mistakes)


def _apart(d_model: int, columns: slice = slice(None)) -> Tensor:
    rows = sinusoids(torch.arange(FARTHEST), d_model)[:, columns]
    return (rows - rows[0]).norm(dim=1)


def _nearest(d_model: int, within: float) -> int:
    del within
    return int(_apart(d_model)[1:].argmin()) + 1
