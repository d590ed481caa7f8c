"""Checks of notebook 12 about reading: one layer's key-value cache, a fair scorer, exact windows."""

from collections.abc import Callable
from math import log, sqrt
from statistics import mean
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from minitxl.course.checker import Function, Verdict, judge

Losses = Callable[[Tensor, Tensor], Tensor]
Stream = Int[Tensor, " time"]
Vectors = Float[Tensor, "key dim"]
Step = tuple[Tensor, Tensor, Tensor]


def solution_attend_cached(
    x: Tensor, keys: Vectors, values: Vectors, W_q: Tensor, W_k: Tensor, W_v: Tensor
) -> Step:
    """Return the output of one new token, [1 dim], and the keys and values with its own at the end."""
    return _attended(x, keys, values, W_q, W_k, W_v)


def _attended(
    x: Tensor,
    keys: Vectors,
    values: Vectors,
    W_q: Tensor,
    W_k: Tensor,
    W_v: Tensor,
    *,
    own: bool = True,
    old: bool = True,
    scaled: bool = True,
    axis: int = -1,
    grows: bool = True,
    front: bool = False,
    swapped: bool = False,
) -> Step:
    """Return a step of the cache; the options make mistakes."""
    new = [x @ W_v, x @ W_k] if swapped else [x @ W_k, x @ W_v]
    longer = [
        torch.cat([one, past] if front else [past, one])
        for past, one in zip((keys, values), new, strict=True)
    ]
    k, v = (
        both if own and old else past if old else one
        for both, past, one in zip(longer, (keys, values), new, strict=True)
    )
    scores = x @ W_q @ k.T / (sqrt(k.shape[-1]) if scaled else 1)
    after = longer if grows else [keys, values]
    return scores.softmax(dim=axis) @ v, after[0], after[1]


def check_attend_cached(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(x, keys, values, W_q, W_k, W_v)``: the output of one token, and the cache after it."""

    def with_(**change: Any) -> Function:
        return lambda *case: _attended(*case, **change)

    mistakes: dict[str, Function] = {
        "the token does not see itself: add its key and value first, then attend": with_(own=False),
        "only the new token is attended to: its query meets all keys, old and new": with_(old=False),
        "scores are divided by the root of the width of a key, √dim": with_(scaled=False),
        "the softmax goes over the keys, the last axis of the scores": with_(axis=0),
        "the cache is returned as it was: the new key and value belong into it": with_(grows=False),
        "the new key and value stand first: the oldest stand first, the new one at the end": with_(
            front=True
        ),
        "W_k and W_v are interchanged: keys come from W_k, values from W_v": with_(swapped=True),
    }
    random = torch.Generator().manual_seed(12)
    cases = []
    for length, model, dim in ((2, 3, 2), (0, 4, 3), (5, 4, 4), (1, 2, 5)):
        sizes = [(1, model), (length, dim), (length, dim), *[(model, dim)] * 3]
        cases.append(tuple(torch.randn(size, generator=random, dtype=torch.float64) for size in sizes))
    praise = "the new token alone is projected, and the cache has grown by its key and value"
    return judge(
        attempt,
        reference=solution_attend_cached,
        cases=cases,
        mistakes=mistakes,
        praise=praise,
        names=["x", "keys", "values", "W_q", "W_k", "W_v"],
    )


def check_bits(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(losses, stream, seg_len)``: bits per token of a model that is read in segments.

    The model needs one token of context, so no cut can change its score. Each call must score one segment.
    """
    mistakes: dict[str, Callable[..., float]] = {
        "the first token of each segment is never scored: the last token of the segment before predicts it": (
            lambda losses, stream, seg_len: _mean(_scored(losses, stream, seg_len, targets=(1, 0)))
        ),
        "the first token of each segment is scored twice: the segments overlap by one target too many": (
            lambda losses, stream, seg_len: _mean(_scored(losses, stream, seg_len, targets=(-1, 1)))
        ),
        "a mean of means: the last segment is shorter and counts as much; add up nats and tokens": (
            lambda losses, stream, seg_len: mean(_mean([one]) for one in _scored(losses, stream, seg_len))
        ),
        "the targets differ with seg_len: the last, shorter segment is dropped": (
            lambda losses, stream, seg_len: _mean(
                [one for one in _scored(losses, stream, seg_len) if len(one) == seg_len]
            )
        ),
        "these are nats: divide by log 2": (
            lambda losses, stream, seg_len: _mean(_scored(losses, stream, seg_len)) * log(2)
        ),
        "this is the sum over all tokens: divide by how many they are": (
            lambda losses, stream, seg_len: _bits(losses, stream, seg_len) * (len(stream) - 1)
        ),
    }
    random = torch.Generator().manual_seed(12)
    cases = []
    for time, seg_len in ((50, 7), (33, 8), (12, 5), (40, 3)):
        table = torch.randn(9, 9, generator=random, dtype=torch.float64).mul(2).log_softmax(dim=1)
        cases.append((_losses_of(table), torch.randint(9, (time,), generator=random), seg_len))
    praise = "every token but the first is scored once, wherever the text is cut"
    verdict = judge(attempt, reference=_bits, cases=cases, mistakes=mistakes, praise=praise)
    if not verdict.right:
        return verdict
    for losses, stream, seg_len in cases:
        lengths = _lengths_scored(attempt, losses, stream, seg_len)
        expected = [len(targets) for targets in stream[1:].split(seg_len)]
        if lengths != expected:
            return Verdict(
                False,
                f"the number is right, but with seg_len = {seg_len} and {len(stream)} tokens, the calls "
                f"of losses score {lengths} tokens, where {expected} are right: one segment with each call",
            )
    return verdict


def _lengths_scored(attempt: Function, losses: Losses, stream: Stream, seg_len: int) -> list[int]:
    """Return how many targets each call of ``losses`` scores during the attempt."""
    lengths = []

    def noted(inputs: Tensor, targets: Tensor) -> Tensor:
        lengths.append(len(targets))
        return losses(inputs, targets)

    attempt(noted, stream.clone(), seg_len)
    return lengths


def _losses_of(log_probs: Float[Tensor, "token next"]) -> Losses:
    """Return a model of bigrams."""

    def losses(inputs: Tensor, targets: Tensor) -> Tensor:
        return -log_probs[inputs, targets]

    return losses


def _bits(losses: Losses, stream: Stream, seg_len: int) -> float:
    """Return the score of all targets at once: a cut can't matter to a model of bigrams."""
    return losses(stream[:-1], stream[1:]).mean().item() / log(2)


def _scored(
    losses: Losses, stream: Stream, seg_len: int, *, targets: tuple[int, int] = (0, 1)
) -> list[Tensor]:
    """Return losses of each segment in nats; ``targets`` move its first input and its last target."""
    first, last = targets[0], targets[1]
    scored = []
    for begin in range(0, len(stream) - 1, seg_len):
        piece = stream[max(0, begin + min(first, 0)) : begin + seg_len + last]
        scored.append(losses(piece[:-1], piece[1:]))
    return [one for one in scored if len(one)]


def _mean(losses: list[Tensor]) -> float:
    """Return bits of a token."""
    return torch.cat(losses).mean().item() / log(2)


def check_exact_window(attempt: Callable[..., Any]) -> Verdict:
    """``attempt(n_layer, attention_len)``: tokens that repeat one prediction exactly."""
    mistakes: dict[str, Callable[..., int]] = {
        "a query sees itself too, so each layer adds A - 1 older tokens; and the token itself is one more": (
            lambda n_layer, attention_len: n_layer * attention_len + 1
        ),
        "the layers are counted one too few: each of the N layers adds A - 1 older tokens": (
            lambda n_layer, attention_len: (n_layer - 1) * (attention_len - 1) + 1
        ),
        "this repeats what one layer attends to; the states it reads rest on older tokens": (
            lambda n_layer, attention_len: attention_len
        ),
        "a query sees itself too, so each layer adds A - 1 older tokens": (
            lambda n_layer, attention_len: n_layer * attention_len
        ),
        "the token itself belongs into the window: one more": (
            lambda n_layer, attention_len: n_layer * (attention_len - 1)
        ),
    }
    cases = [(1, 1), (1, 8), (3, 4), (12, 3800), (24, 3800), (16, 640)]
    return judge(
        attempt,
        reference=lambda n_layer, attention_len: n_layer * (attention_len - 1) + 1,
        cases=cases,
        mistakes=mistakes,
        praise="right in every case",
    )
