"""Judges the exercises of notebook 12: operations with hidden states kept, a fair scorer, exact windows."""

from collections.abc import Callable, Sequence
from functools import partial
from math import log
from statistics import mean
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from minitxl.course.exercises import Function, Verdict, judge
from minitxl.course.predictions import Predictions, Question

LogProbs = Float[Tensor, "token next"]
Stream = Int[Tensor, " time"]

predictions = Predictions(
    Question(
        "advantage",
        "Is the cache's advantage at 3,800 smaller than, the same as, or larger than at 800?",
        answer="larger",
        choices=("smaller", "the same", "larger"),
        why="the counted ratio lies between about A/3 and A, so it grows with the attention length A",
        wrong={
            "the same": "no constant is built in: a window computes A tokens anew for each that it scores",
            "smaller": "attention grows on both sides, but a window pays it for each of its A tokens",
        },
    ),
    Question(
        "cut",
        "Every query sees the same number of keys. Do other cuts change the log-probabilities?",
        answer="equal",
        choices=("changes", "equal"),
        why="with one window for every query, the cut decides what is computed together, and nothing else",
        wrong={
            "changes": "without a window later queries of a segment see more keys; here all see equally many"
        },
    ),
    Question(
        "window",
        "12 layers, every query sees 3,800 keys: how many tokens repeat one prediction exactly?",
        answer=45_589,
        why="12 · 3,799 + 1: each layer adds the tokens that the states it reads had read before",
        wrong={
            3800: "those are what one layer attends to; the states it reads had read older tokens",
            45_600: "a query sees itself too: each layer adds 3,799 older tokens, and the token counts once",
        },
    ),
)


def check_cost(attempt: Callable[..., Any]) -> Verdict:
    """``attempt(n_layer, d_model, d_inner, mem_len, seg_len)``: operations of the layers for one token."""
    mistakes: dict[str, Callable[..., float]] = {
        "this is the cost of a whole segment: divide it by the tokens it scores, L": partial(
            solution_cost, of=1
        ),
        "keys and values of the memory are missing: W_k and W_v of M states, anew in every segment": (
            partial(solution_cost, remembered=0)
        ),
        "the memory has values as well as keys: two products for each of its states": partial(
            solution_cost, remembered=2
        ),
        "memory is not a longer segment: it has no queries, no W_o and no feed-forward layer": partial(
            solution_cost, remembered=None
        ),
        "W_kR is missing: it projects one R for each of the M + L distances": partial(
            solution_cost, placed=False
        ),
        "each query meets M + L keys, not M": partial(solution_cost, keys_of_segment=False),
        "a pair has three products: with the key, with the distance, and in the mean of the values": partial(
            solution_cost, products=2
        ),
    }
    cases = [
        (2, 8, 32, 6, 4),
        (1, 4, 4, 0, 3),
        (12, 512, 2048, 3800, 128),
        (3, 128, 512, 64, 64),
        (2, 10, 7, 5, 1),
    ]
    return judge(
        attempt, reference=solution_cost, cases=cases, mistakes=mistakes, praise="right in every case"
    )


def solution_cost(
    n_layer: int,
    d_model: int,
    d_inner: int,
    mem_len: int,
    seg_len: int,
    *,
    of: int | None = None,
    remembered: int | None = 4,
    placed: bool = True,
    keys_of_segment: bool = True,
    products: int = 3,
) -> float:
    """Return the operations for a token where memory holds hidden states; the options make mistakes.

    ``remembered`` is the operations of a state of memory per d_model², None those of a token.
    """
    square, key = d_model * d_model, mem_len + seg_len
    token = 8 * square + 4 * d_model * d_inner
    memory = mem_len * (token if remembered is None else remembered * square)
    distances = 2 * square * key if placed else 0
    attended = 2 * products * d_model * seg_len * (key if keys_of_segment else mem_len)
    return n_layer * (seg_len * token + memory + distances + attended) / (of or seg_len)


def solution_costs(
    n_layer: int, d_model: int, d_inner: int, attention_len: int, seg_len: int
) -> tuple[int, int]:
    """Return the operations of the layers for one scored token: of a sliding window, and of a cache."""
    square, A = d_model * d_model, attention_len
    token = 8 * square + 4 * d_model * d_inner
    lower = (n_layer - 1) * (A * token + 2 * d_model * A * (A + 1))
    last = (A - 1) * 4 * square + token + 4 * d_model * A
    return lower + last, n_layer * (token + 6 * d_model * (A + seg_len))


def check_costs(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(n_layer, d_model, d_inner, attention_len, seg_len)``: operations (sliding, cached).

    Both are those of the layers for one scored token, heads × head width being d_model. A sliding window
    computes all its ``attention_len`` tokens in each layer but the last, and there keys and values of all
    and one query. The cache holds keys and values; each query meets attention_len + seg_len of them.
    """

    def changed(
        *,
        token: Callable[[int, int], int] = lambda d, inner: 8 * d * d + 4 * d * inner,
        pairs: Callable[[int], float] = lambda A: A * (A + 1) / 2,
        whole_last: bool = False,
        bare_last: bool = False,
        products: int = 6,
        segment: bool = True,
        half: bool = False,
        turned: bool = False,
    ) -> Function:
        def costs(n_layer: int, d_model: int, d_inner: int, attention_len: int, seg_len: int) -> Any:
            A, p = attention_len, token(d_model, d_inner)
            window = A * p + 4 * d_model * pairs(A)
            last = window if whole_last else p + 4 * d_model * A
            last += 0 if whole_last or bare_last else (A - 1) * 4 * d_model**2
            sliding = (n_layer - 1) * window + last
            cached = n_layer * (p + products * d_model * (A + seg_len * segment))
            both = (cached, sliding) if turned else (sliding, cached)
            return tuple(one / 2 for one in both) if half else both

        return costs

    mistakes: dict[str, Function | Sequence[Function]] = {
        "the two are in the wrong order: sliding, then cached": changed(turned=True),
        "each product is counted once: [m k] times [k n] takes 2 m k n, a product and a sum each": (
            changed(half=True)
        ),
        "the window's last layer is counted in full: one query is scored, so it needs keys and values of "
        "all tokens, and the rest for one": changed(whole_last=True),
        "the window's last layer needs keys and values of the A - 1 other tokens too: 4 d² each": (
            changed(bare_last=True)
        ),
        "each query of the window meets all A keys here: a causal one meets those before it and itself, "
        "A (A + 1) / 2 pairs": changed(pairs=lambda A: A * A),
        "a pair of the cache has a third product, the one of the distance: 6 d": changed(products=4),
        "a query of the cache meets A + L keys, memory and segment": changed(segment=False),
        "the feed-forward layer is missing: 4 d · d_inner for each token": (
            changed(token=lambda d, inner: 8 * d * d)
        ),
        "W_o is missing, or one of W_q, W_k, W_v: four matrices, 8 d² for each token": (
            changed(token=lambda d, inner: 6 * d * d + 4 * d * inner)
        ),
    }
    cases = [(2, 8, 32, 6, 4), (1, 4, 4, 1, 3), (12, 512, 2048, 3800, 128), (3, 128, 512, 64, 64)]
    praise = "both are right in every case"
    return judge(attempt, reference=solution_costs, cases=cases, mistakes=mistakes, praise=praise)


def check_bits(attempt: Callable[..., Any]) -> Verdict:
    """``attempt(log_probs, stream, seg_len)``: bits per token of a table of bigrams, read in segments."""
    mistakes: dict[str, Callable[..., float]] = {
        "the first token of each segment is never scored: the last token of the segment before predicts it": (
            lambda log_probs, stream, seg_len: _mean(_scored(log_probs, stream, seg_len, targets=(1, 0)))
        ),
        "the first token of each segment is scored twice: the segments overlap by one target too many": (
            lambda log_probs, stream, seg_len: _mean(_scored(log_probs, stream, seg_len, targets=(-1, 1)))
        ),
        "a mean of means: the last segment is shorter and counts as much; add up nats and tokens": (
            lambda log_probs, stream, seg_len: mean(
                _mean([one]) for one in _scored(log_probs, stream, seg_len)
            )
        ),
        "the targets differ with seg_len: the last, shorter segment is dropped": (
            lambda log_probs, stream, seg_len: _mean(
                [one for one in _scored(log_probs, stream, seg_len) if len(one) == seg_len]
            )
        ),
        "these are nats: divide by log 2": (
            lambda log_probs, stream, seg_len: _mean(_scored(log_probs, stream, seg_len)) * log(2)
        ),
    }
    random = torch.Generator().manual_seed(12)
    cases = []
    for time, seg_len in ((50, 7), (33, 8), (12, 5), (40, 3)):
        table = torch.randn(9, 9, generator=random, dtype=torch.float64).mul(2).log_softmax(dim=1)
        cases.append((table, torch.randint(9, (time,), generator=random), seg_len))
    praise = "every token but the first is scored once, wherever the text is cut"
    return judge(attempt, reference=_bits, cases=cases, mistakes=mistakes, praise=praise)


def _bits(log_probs: LogProbs, stream: Stream, seg_len: int) -> float:
    """Return all targets at once: cuts can't matter to a model that needs one token of context."""
    return -log_probs[stream[:-1], stream[1:]].mean().item() / log(2)


def _scored(
    log_probs: LogProbs, stream: Stream, seg_len: int, *, targets: tuple[int, int] = (0, 1)
) -> list[Tensor]:
    """Return losses of each segment in nats; ``targets`` move its first input and its last target."""
    first, last = targets[0], targets[1]
    losses = []
    for begin in range(0, len(stream) - 1, seg_len):
        piece = stream[max(0, begin + min(first, 0)) : begin + seg_len + last]
        losses.append(-log_probs[piece[:-1], piece[1:]])
    return [one for one in losses if len(one)]


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
