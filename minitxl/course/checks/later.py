"""Predictions of notebook 14, and checks of rotary, ALiBi, T5's buckets and kept first tokens."""

from collections.abc import Callable
from math import log
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from minitxl.course.exercises import Verdict, judge
from minitxl.course.predictions import Predictions, Question
from minitxl.experiments.later_positions import keep_first
from minitxl.later_attention import buckets, rotate, slopes

Bias = Float[Tensor, "head query key"]
Distances = Int[Tensor, " dist"]
KINDS = ("none", "absolute", "Shaw", "XL", "rotary", "ALiBi", "T5")

predictions = Predictions(
    Question(
        "best",
        "Read with four times the memory of training: which of the seven reads best?",
        answer="XL",
        choices=KINDS,
        why="XL reads best in each of three seeds: its rows of sines exist for every distance",
        wrong={
            "rotary": "it comes next to XL as trained, and falls far behind beyond the trained distances",
            "ALiBi": "it loses next to nothing by the longer memory, but began far behind XL",
        },
    ),
    Question(
        "worst",
        "And which of them loses most by the longer memory?",
        answer="rotary",
        choices=KINDS,
        why="its turns of untrained distances give scores that training never saw",
        wrong={"absolute": "memory harms it from the start; making it longer adds little"},
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
    """Check ``attempt(x, positions)``: pairs (m, m + dim/2) turned by position · 10000^(-2m/dim)."""

    def swapped(x: Tensor, positions: Tensor) -> Tensor:
        pairs = rearrange(x, "batch head pos (half two) -> batch head pos (two half)", two=2)
        return rearrange(rotate(pairs, positions), "b h pos (two half) -> b h pos (half two)", two=2)

    def one_frequency(x: Tensor, positions: Tensor) -> Tensor:
        pairs = rearrange(x, "batch head pos (two half) -> batch (head half) pos two", two=2)
        turned = rotate(pairs, positions)
        return rearrange(turned, "b (head half) pos two -> b head pos (two half)", head=x.shape[1])

    mistakes: dict[str, Callable[..., Any]] = {
        "the pairs turn the other way round: the first gets minus the sine": (
            lambda x, positions: rotate(x, -positions)
        ),
        "neighbours are paired here, 2m with 2m + 1; here m goes with m + dim/2": swapped,
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
    return judge(attempt, reference=rotate, cases=cases, mistakes=mistakes, names=("x", "positions"))


def solution_alibi_bias(n_query: int, n_key: int, slope: Float[Tensor, " head"]) -> Bias:
    """Return -slope · (i - j) for each head and pair; the queries are the last of the keys."""
    away = torch.arange(n_key - n_query, n_key)[:, None] - torch.arange(n_key)
    return -slope[:, None, None] * away


def check_alibi_bias(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(n_query, n_key, slope)``: what each head adds to each score."""
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
        attempt, reference=right, cases=cases, mistakes=mistakes, names=("n_query", "n_key", "slope")
    )


def solution_buckets(distance: Distances, n_bucket: int, last: int) -> Distances:
    """Return each distance's bucket: one each for the first half, then ever wider up to ``last``."""
    return buckets(distance, n_bucket, last)


def check_buckets(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(distance, n_bucket, last)``: T5's bucket of each distance."""
    right = solution_buckets
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
        "the wide buckets begin again at 0: they come after the near ones": lambda d, n, last: torch.where(
            d < n // 2, d, right(d, n, last) - n // 2
        ),
    }
    cases = [(torch.arange(200), 32, 128), (torch.arange(70), 8, 64), (torch.tensor([0, 5, 900]), 6, 20)]
    return judge(
        attempt, reference=right, cases=cases, mistakes=mistakes, names=("distance", "n_bucket", "last")
    )


def package_keep_first(memory: Any, states: Any, mem_len: int, first: int) -> Any:
    """Return ``keep_first``, its lengths by place."""
    return keep_first(memory, states, mem_len=mem_len, first=first)


def check_keep_first(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(memory, states, mem_len, first)``: the first tokens, and the last mem_len - first."""
    right = package_keep_first

    def both(memory: Any, states: Any) -> Any:
        return torch.cat([memory, states], dim=2)

    mistakes: dict[str, Callable[..., Any]] = {
        "this is the plain memory, the last mem_len: the first tokens are gone": (
            lambda memory, states, mem_len, first: both(memory, states)[:, :, -mem_len:]
        ),
        "the memory is longer than mem_len: the first tokens count as well": (
            lambda memory, states, mem_len, first: torch.cat(
                [both(memory, states)[:, :, :first], both(memory, states)[:, :, first:][:, :, -mem_len:]], 2
            )
        ),
        "the first tokens of the segment are kept: those of the text lie in front of the memory": (
            lambda memory, states, mem_len, first: torch.cat(
                [states[:, :, :first], both(memory, states)[:, :, -(mem_len - first) :]], dim=2
            )
        ),
        "the first tokens stand behind: the order is that of time": (
            lambda memory, states, mem_len, first: torch.cat(
                [both(memory, states)[:, :, -(mem_len - first) :], both(memory, states)[:, :, :first]], 2
            )
        ),
        "nothing is forgotten": lambda memory, states, mem_len, first: both(memory, states),
        "only the first are kept": lambda memory, states, mem_len, first: both(memory, states)[
            :, :, :mem_len
        ],
    }
    draw = torch.Generator().manual_seed(4)
    numbers = torch.arange(7.0).reshape(1, 1, 7, 1)
    cases = [(numbers[:, :, :4], numbers[:, :, 4:], 5, 2)]
    for mem, seg, mem_len, first in ((6, 3, 6, 1), (3, 4, 5, 2)):
        memory, states = (torch.randn(2, 1, size, 3, generator=draw) for size in (mem, seg))
        cases.append((memory, states, mem_len, first))
    names = ("memory", "states", "mem_len", "first")
    return judge(attempt, reference=right, cases=cases, mistakes=mistakes, names=names)


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


def solution_move_keys(k: Tensor, cached: Tensor, wanted: Tensor) -> Tensor:
    """Return keys that are rotated for positions ``cached`` as if for ``wanted``."""
    return rotate(k, wanted - cached)


def check_move_keys(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(k, cached, wanted)``: rotated keys, moved to other positions."""
    mistakes: dict[str, Callable[..., Any]] = {
        "the way is turned round": lambda k, cached, wanted: rotate(k, cached - wanted),
        "the keys are turned already: add what is missing": lambda k, cached, wanted: rotate(k, wanted),
        "they are only turned back": lambda k, cached, wanted: rotate(k, -cached),
        "nothing moves": lambda k, cached, wanted: k.clone(),
        "turns add up: take the difference": lambda k, cached, wanted: rotate(k, wanted + cached),
    }
    draw = torch.Generator().manual_seed(9)
    cases = [
        (torch.randn(1, 2, 3, 4, generator=draw), torch.tensor([9, 10, 11]), torch.tensor([2, 3, 4])),
        (torch.randn(1, 1, 2, 6, generator=draw), torch.tensor([0, 5]), torch.tensor([3, 4])),
    ]
    names = ("k", "cached", "wanted")
    return judge(attempt, reference=solution_move_keys, cases=cases, mistakes=mistakes, names=names)


def solution_window_for(reach: int, n_layer: int) -> int:
    """Return the smallest window W with N (W - 1) ≥ reach."""
    return 1 - (-reach // n_layer)


def check_window_for(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(reach, n_layer)``: the smallest window with that reach."""
    mistakes: dict[str, Callable[..., Any]] = {
        "the query itself is one of the W keys": lambda reach, n: -(-reach // n),
        "rounded down: the last tokens are out of reach": lambda reach, n: reach // n + 1,
        "this is one layer's window": lambda reach, n: reach + 1,
        "a window too many": lambda reach, n: 2 - (-reach // n),
        "reach grows with the layers: divide": lambda reach, n: reach * n + 1,
    }
    cases = [(32, 4), (33, 4), (7, 3), (0, 2), (131_000, 32)]
    return judge(attempt, reference=solution_window_for, cases=cases, mistakes=mistakes)
