"""Predictions of notebook 14, and checks of rotary turns, ALiBi and T5's buckets."""

from collections.abc import Callable
from math import log
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from minitxl.course.checker import Verdict, judge
from minitxl.course.loops import without_loop
from minitxl.course.predictions import Predictions, Question
from minitxl.later_attention import buckets, rotate, slopes
from minitxl.position_encodings import sinusoids

Bias = Float[Tensor, "head query key"]
Distances = Int[Tensor, " dist"]
KINDS = ("none", "absolute", "Shaw", "Transformer-XL", "rotary", "ALiBi", "T5")

predictions = Predictions(
    Question(
        "worst",
        "Read with four times the memory of training: which of the seven loses most?",
        answer="rotary",
        choices=KINDS,
        why="it loses most in each of three seeds, and reads on where distances are clamped",
        wrong={
            "absolute": "memory hurts it from the start; four times as much adds little",
            "none": "memory hurts it from the start; four times as much adds little",
            "T5": "it loses a good deal as published, and rotary loses more in each of three seeds",
        },
    ),
    Question(
        "t5",
        "T5's table multiplied by 30: does memory help T5 then, True or False?",
        answer=True,
        why="it helps in each of three seeds: as published, so few steps can't move the table far enough",
    ),
    Question(
        "repair",
        "Which way to read helps a trained rotary model most with four times the memory?",
        answer="clamp",
        choices=("clamp", "interpolate", "base"),
        why="clamped, no pair turns farther than in training, and near distances keep their turns",
        wrong={
            "interpolate": "it moves the near distances too, which matter most: without more training that "
            "is worse than doing nothing",
            "base": "it regains a part: the fast pairs keep their turns, those between fast and slow do not",
        },
    ),
    Question(
        "reach",
        "A model has 4 layers, and each query sees 9 keys, itself included. How far back can a token matter?",
        answer=32,
        why="each layer goes W - 1 = 8 back, and there are 4",
        wrong={
            36: "a window of 9 holds the query itself, so a layer goes 8 back",
            8: "that is one layer; each further one starts where the last one ended",
            9: "that is one layer, and the query itself is counted as well",
        },
    ),
)


def check_rotate(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(x, positions)``: pairs (m, m + dim/2) turned by position · 10000^(-2m/dim).

    A loop over the positions is refused: a layer is trained with it.
    """

    def swapped(x: Tensor, positions: Tensor) -> Tensor:
        pairs = rearrange(x, "batch head pos (half two) -> batch head pos (two half)", two=2)
        return rearrange(rotate(pairs, positions), "b h pos (two half) -> b h pos (half two)", two=2)

    def one_frequency(x: Tensor, positions: Tensor) -> Tensor:
        pairs = rearrange(x, "batch head pos (two half) -> batch (head half) pos two", two=2)
        turned = rotate(pairs, positions)
        return rearrange(turned, "b (head half) pos two -> b head pos (two half)", head=x.shape[1])

    def by(sin_and_cos: Callable[[Tensor, int], list[Tensor]]) -> Callable[[Tensor, Tensor], Tensor]:
        def turned(x: Tensor, positions: Tensor) -> Tensor:
            sin, cos = sin_and_cos(positions, x.shape[-1])
            low, high = x.chunk(2, dim=-1)
            return torch.cat([low * cos - high * sin, low * sin + high * cos], dim=-1)

        return turned

    def half_speed(positions: Tensor, dim: int) -> list[Tensor]:
        angles = positions[:, None] * 10000.0 ** (-torch.arange(dim // 2) / dim)
        return [angles.sin(), angles.cos()]

    mistakes: dict[str, Callable[..., Any]] = {
        "sine and cosine are exchanged: sinusoids has the sines first": by(
            lambda positions, dim: [*sinusoids(positions.double(), dim).float().chunk(2, dim=-1)][::-1]
        ),
        "the exponent is -m/dim: it is -2m/dim, so that the slowest pair is near 1/10000": by(half_speed),
        "the pairs turn the other way round: the first gets minus the sine": (
            lambda x, positions: rotate(x, -positions)
        ),
        "neighbours are paired, 2m with 2m + 1, as in the paper; here m goes with m + dim/2": swapped,
        "every pair turns by the position itself: each has its own frequency": one_frequency,
        "the token's place in x is taken: positions says where it stands": (
            lambda x, positions: rotate(x, torch.arange(len(positions)))
        ),
        "the positions are off by one": lambda x, positions: rotate(x, positions + 1),
        "nothing is turned": lambda x, positions: x.clone(),
    }
    draw = torch.Generator().manual_seed(14)
    cases = [(torch.tensor([[[[1.0, 0]]]]), torch.tensor([1]))]
    for dim, positions in ((4, [2, 3, 5]), (6, [9, 0]), (2, [100])):
        x = torch.randn(2, 3, len(positions), dim, generator=draw)
        cases.append((x, torch.tensor(positions)))
    verdict = judge(attempt, reference=rotate, cases=cases, mistakes=mistakes, names=("x", "positions"))
    few, many = ((torch.ones(1, 1, count, 4), torch.arange(count)) for count in (4, 32))
    return without_loop(verdict, attempt, few, many, rows="positions")


def solution_alibi_bias(n_query: int, n_key: int, slope: Float[Tensor, " head"]) -> Bias:
    """Return -slope · (i - j) for each head and pair; the queries are the last of the keys."""
    away = torch.arange(n_key - n_query, n_key)[:, None] - torch.arange(n_key)
    return -slope[:, None, None] * away


def check_alibi_bias(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(n_query, n_key, slope)``: what each head adds to the scores of keys that are not ahead.

    Whatever stands at a key ahead is masked later, so it may be anything.
    """
    right = solution_alibi_bias
    mistakes: dict[str, Callable[..., Any]] = {
        "the sign is turned round: farther keys must get less": lambda q, k, slope: -right(q, k, slope),
        "the queries are counted from 0: they are the last of the keys": lambda q, k, slope: (
            -slope[:, None, None] * (torch.arange(q)[:, None] - torch.arange(k))
        ),
        "every head has the first one's slope": lambda q, k, slope: right(q, k, slope[:1].expand_as(slope)),
        "the slope is left out": lambda q, k, slope: right(q, k, torch.ones_like(slope)),
        "the axes are [query key head]: the head comes first": lambda q, k, slope: rearrange(
            right(q, k, slope), "head query key -> query key head"
        ),
        "off by one: the token itself has the distance 0": lambda q, k, slope: (
            right(q, k, slope) - slope[:, None, None]
        ),
    }
    cases = [
        (1, 3, torch.tensor([0.5])),
        (2, 5, torch.tensor([0.5, 0.25])),
        (3, 3, torch.tensor([0.7, 0.3, 0.2, 0.1])),
    ]
    return judge(
        _past(attempt),
        reference=_past(right),
        cases=cases,
        mistakes={sentence: _past(mistake) for sentence, mistake in mistakes.items()},
        names=("n_query", "n_key", "slope"),
        praise="equal to the package's for every key that is not ahead",
    )


def _past(function: Any) -> Any:
    """Return the function with 0 for keys ahead, where its result has the axes [head query key]."""
    if not callable(function):
        return function

    def past(n_query: int, n_key: int, slope: Tensor) -> Any:
        bias = function(n_query, n_key, slope)
        if not isinstance(bias, Tensor) or bias.shape != (len(slope), n_query, n_key):
            return bias
        return torch.where(solution_alibi_bias(n_query, n_key, torch.ones(1)) <= 0, bias, 0.0)

    return past


def solution_buckets(distance: Distances, n_bucket: int, last: int) -> Distances:
    """Return each distance's bucket: one each for the first half, then ever wider up to ``last``."""
    return buckets(distance, n_bucket, last)


def check_buckets(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(distance, n_bucket, last)``: T5's bucket of each distance."""
    right = solution_buckets

    def wide(d: Tensor, n: int, last: int, spread: int, to_whole: Callable[[Tensor], Tensor]) -> Tensor:
        e = n // 2
        steps = to_whole((d.clamp(min=e).double() / e).log() / log(last / e) * spread).long()
        return torch.where(d < e, d, (e + steps).clamp(max=n - 1))

    mistakes: dict[str, Callable[..., Any]] = {
        "nothing limits the last bucket: all from last on share it": lambda d, n, last: torch.where(
            d < n // 2,
            d,
            n // 2 + ((d.clamp(min=n // 2) / (n // 2)).log() / log(last / (n // 2)) * (n - n // 2)).long(),
        ),
        "this is Shaw's clip: every distance has its own bucket up to the last": (
            lambda d, n, last: d.clamp(max=n - 1)
        ),
        "the wide buckets grow evenly: they grow like a logarithm": lambda d, n, last: torch.where(
            d < n // 2, d, (n // 2 + (d - n // 2) * (n - n // 2) // (last - n // 2)).clamp(max=n - 1)
        ),
        "the near distances have no bucket each": lambda d, n, last: right(d.clamp(min=n // 2), n, last),
        "off by one bucket": lambda d, n, last: (right(d, n, last) + 1).clamp(max=n - 1),
        "rounded to the nearest bucket: it is rounded down": lambda d, n, last: wide(
            d, n, last, n - n // 2, torch.round
        ),
        "the logarithm is multiplied by n: only the n - e wide buckets are spread over it": (
            lambda d, n, last: wide(d, n, last, n, torch.floor)
        ),
        "the wide buckets begin again at 0: they come after the near ones": lambda d, n, last: torch.where(
            d < n // 2, d, right(d, n, last) - n // 2
        ),
    }
    cases = [(torch.arange(200), 32, 128), (torch.arange(70), 8, 64), (torch.tensor([0, 5, 900]), 6, 20)]
    return judge(
        attempt, reference=right, cases=cases, mistakes=mistakes, names=("distance", "n_bucket", "last")
    )


def check_slopes(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(n_head)``: ALiBi's slopes for a power of two."""
    mistakes: dict[str, Callable[..., Any]] = {
        "the first slope is 1: it is 2^(-8/n)": lambda n: [2.0 ** (-8 * h / n) for h in range(n)],
        "the slopes grow: the first head falls fastest": lambda n: slopes(n)[::-1],
        "the exponent has no minus": lambda n: [2.0 ** (8 * (h + 1) / n) for h in range(n)],
        "halved from head to head whatever n is": lambda n: [2.0 ** -(h + 1) for h in range(n)],
        "the slopes fall evenly: each is a fixed part of the one before": lambda n: (
            [1 - (h + 1) / n for h in range(n)]
        ),
    }
    return judge(attempt, reference=slopes, cases=[(4,), (8,), (2,), (16,)], mistakes=mistakes)
