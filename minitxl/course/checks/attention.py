"""Checks of notebook 01: attention, splitting and merging heads, the causal mask, a circle."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import exp, inf, sqrt
from typing import Any

import torch
from einops import rearrange, reduce
from torch import Tensor

from minitxl.attention import (
    attention_mask,
    content_scores,
    masked_softmax,
    merge_heads,
    split_heads,
    weighted_sum,
)
from minitxl.course.checker import Verdict, judge
from minitxl.course.predictions import Predictions, Question

predictions = Predictions(
    Question(
        "ratio",
        "The scores of two keys are 3 and 1. How many times as much weight does the first key get?",
        answer=exp(2),
        tolerance=0.15,
        why="the ratio of the weights is e to the difference of the scores, e² ≈ 7.4.",
        wrong={
            3: "3 is the ratio of the scores. The softmax sees their difference, 2: the ratio is e² ≈ 7.4.",
            2: "2 is the difference of the scores. The weights are exponentials, so their ratio is e² ≈ 7.4.",
            9: "The base is e, not 3: the ratio is e² ≈ 7.4.",
            4: "The base is e, not 2: the ratio is e² ≈ 7.4.",
        },
    ),
    Question(
        "parameters",
        "How many parameters have 8 heads of width 8, compared with 1 head of width 64?",
        answer="as many",
        choices=("more", "fewer", "as many"),
        why="the heads share the width: 8 heads of 8 columns are a matrix of 64 columns, as 1 head of 64 is.",
        wrong={
            "more": "Each head has matrices of its own, but narrower ones: 8 times 8 columns are 64.",
            "fewer": "Each head is narrower, but there are 8 of them: 8 times 8 columns are 64.",
        },
    ),
    Question(
        "shuffled",
        "Without a mask, the tokens are put into another order. Is a token's result the same?",
        answer="same",
        choices=("same", "other"),
        why="the result is a sum over all keys, and a sum does not depend on the order of its terms.",
    ),
)

SIZES = [(2, 3, 5), (1, 4, 4), (3, 2, 6), (2, 1, 3)]
"""batch, head, pos: also with as many heads as tokens, where a swap of the two keeps the shape."""
DIM = 4


def check_split(attempt: Callable[[Tensor, int], Tensor]) -> Verdict:
    """``attempt(x, n_head)``: [batch pos (head dim)] to [batch head pos dim]."""
    draw = torch.Generator().manual_seed(1)
    cases = [(torch.randn(batch, pos, head * DIM, generator=draw), head) for batch, head, pos in SIZES]
    mistakes: dict[str, Callable[..., Tensor]] = {
        "head and dim are swapped inside the parentheses: '(dim head)' deals the numbers out in turn, "
        "so head 0 gets every n_head-th; each head owns a block of neighbours, '(head dim)'": lambda x, n: (
            rearrange(x, "batch pos (dim head) -> batch head pos dim", head=n)
        ),
        "view alone moves no axis: cutting [pos, head dim] into [head, pos, dim] gives a head pieces of "
        "several tokens. Cut into [pos, head, dim] first, then transpose": lambda x, n: x.reshape(
            x.shape[0], n, x.shape[1], -1
        ),
        "pos still stands before head: the axes are [batch pos head dim], and a product over the last "
        "two would mix heads. Transpose 1 and 2": lambda x, n: rearrange(
            x, "batch pos (head dim) -> batch pos head dim", head=n
        ),
        "pos and dim are swapped: the last axis must be dim, over which q and k are summed": lambda x, n: (
            rearrange(x, "batch pos (head dim) -> batch head dim pos", head=n)
        ),
    }
    return judge(attempt, reference=split_heads, cases=cases, mistakes=mistakes)


def check_merge(attempt: Callable[[Tensor], Tensor]) -> Verdict:
    """``attempt(heads)``: [batch head pos dim] to [batch pos (head dim)]."""
    draw = torch.Generator().manual_seed(2)
    cases = [(torch.randn(batch, head, pos, DIM, generator=draw),) for batch, head, pos in SIZES]
    mistakes: dict[str, Callable[..., Tensor]] = {
        "head and dim are swapped inside the parentheses: '(dim head)' interleaves the heads, and the "
        "rows of W_o then meet the wrong numbers": lambda heads: rearrange(
            heads, "batch head pos dim -> batch pos (dim head)"
        ),
        "reshape without a transpose: head stands before pos, so a row of the result holds several "
        "tokens of one head. Bring head next to dim first": lambda heads: heads.reshape(
            heads.shape[0], heads.shape[2], -1
        ),
        "the heads are summed: concatenate them, W_o does the mixing": lambda heads: heads.sum(1),
        "the heads are averaged: concatenate them, W_o does the mixing": lambda heads: reduce(
            heads, "batch head pos dim -> batch pos dim", "mean"
        ),
    }
    return judge(attempt, reference=merge_heads, cases=cases, mistakes=mistakes)


def check_causal_mask(attempt: Callable[[int, int], Tensor]) -> Verdict:
    """``attempt(n_query, n_key)``: booleans [query key], True where a query may attend to a key."""
    cases = [(2, 4), (4, 4), (1, 1), (3, 5), (1, 6), (4, 7)]
    mistakes: dict[str, Callable[..., Tensor]] = {
        "strict: a query must not see itself here, and the very first one sees nothing. j = i is allowed": (
            lambda q, k: torch.ones(q, k).tril(k - q - 1).bool()
        ),
        "transposed: this is the future. Query i may attend to key j where j ≤ i": lambda q, k: (
            torch.ones(q, k).triu(k - q).bool()
        ),
        "inverted: True must mean that the query may attend to the key": lambda q, k: (
            torch.ones(q, k).triu(k - q + 1).bool()
        ),
        "right for as many keys as queries only: the queries are the *last* of the keys, so query row 0 "
        "stands at position n_key - n_query": lambda q, k: torch.ones(q, k).tril().bool(),
        "ones and zeros, where True and False are asked for: masked_fill takes booleans": lambda q, k: (
            torch.ones(q, k).tril(k - q)
        ),
        "an additive mask, 0 where a query may attend and -inf elsewhere: it is right for adding to the "
        "scores, but True and False are asked for": lambda q, k: torch.full((q, k), -inf).triu(k - q + 1),
    }
    return judge(attempt, reference=lambda q, k: attention_mask(q, k)[0], cases=cases, mistakes=mistakes)


def solution_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return Σ_j α_ij v_j of every head; ``mask`` [query key] is True where a query may attend to a key."""
    masks = None if mask is None else rearrange(mask, "query key -> 1 query key")
    return weighted_sum(masked_softmax(content_scores(q, k) / sqrt(q.shape[-1]), masks), v)


def check_attention(attempt: Callable[..., Tensor]) -> Verdict:
    """``attempt(q, k, v, mask)``: [batch head query dim], [batch head key dim] twice, [query key] or None."""
    mistakes: dict[str, Callable[..., Tensor] | Sequence[Callable[..., Tensor]]] = {
        "the scores are not divided by √d: d is the width of a head, the last axis of q": partial(
            _attention, scale=lambda q: 1.0
        ),
        "the scores are divided by d, and should be divided by its root": partial(
            _attention, scale=lambda q: q.shape[-1]
        ),
        "the scores are divided by √(n_head · d), for all heads together: d is the width of one": partial(
            _attention, scale=lambda q: sqrt(q.shape[1] * q.shape[-1])
        ),
        "the mask has no effect: a key that a query may not attend to must get the weight 0": (
            lambda q, k, v, mask: _attention(q, k, v, None)
        ),
        "the mask is turned round: True means that the query may attend to the key, so fill where ~mask": (
            lambda q, k, v, mask: _attention(q, k, v, None if mask is None else ~mask)
        ),
        "the mask is turned round and added: True means that the query may attend to the key": partial(
            _attention, hide=lambda s, mask: s + mask * -1e9
        ),
        "the scores are multiplied by the mask: a score of 0 is a score like another, its weight is exp(0) "
        "over the sum. A masked key needs the score -inf": partial(_attention, hide=lambda s, mask: s * mask),
        "the mask is added as it is, 1 where a query may attend: the other keys become only a little less "
        "likely. They need the score -inf": partial(_attention, hide=lambda s, mask: s + mask),
        "0 · inf is not a number: use masked_fill in place of a product with -inf": partial(
            _attention, hide=lambda s, mask: s + (~mask) * -inf
        ),
        "masked keys get a score that is not low enough: others may lie below it. Fill in -inf": [
            partial(_attention, hide=partial(_filled, low=low)) for low in (-20.0, -100.0, -1000.0)
        ],
        "the mask comes after the softmax: the masked keys have already taken their share of the sum, so the "
        "weights of a query no longer sum to 1. Mask the scores": lambda q, k, v, mask: weighted_sum(
            masked_softmax(content_scores(q, k) / sqrt(q.shape[-1]), None) * (1 if mask is None else mask), v
        ),
        "the softmax runs over the queries: the weights of one query sum to 1 over the keys, which are the "
        "last axis": partial(_attention, over=-2),
        "the softmax runs over the heads: the weights of one query sum to 1 over the keys, which are the "
        "last axis": partial(_attention, over=1),
        "there is no softmax: the scores themselves are taken for weights": partial(
            _attention, softmax=lambda s, over: s.masked_fill(s == -inf, 0.0)
        ),
        "these are the weights: the result is the mean of the values with them, a second einsum": (
            lambda q, k, v, mask: solution_attention(
                q, k, torch.eye(k.shape[2]).expand(*k.shape[:2], -1, -1), mask
            )
        ),
    }
    return judge(attempt, reference=solution_attention, cases=list(_attended()), mistakes=mistakes)


def _attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    *,
    scale: Callable[[Tensor], float] = lambda q: sqrt(q.shape[-1]),
    hide: Callable[[Tensor, Tensor], Tensor] = lambda s, mask: s.masked_fill(~mask, -inf),
    softmax: Callable[[Tensor, int], Tensor] = lambda s, over: s.softmax(over),
    over: int = -1,
) -> Tensor:
    """Return attention with one step replaced by a mistake."""
    scores = content_scores(q, k) / scale(q)
    return weighted_sum(softmax(scores if mask is None else hide(scores, mask), over), v)


def _filled(scores: Tensor, mask: Tensor, *, low: float) -> Tensor:
    return scores.masked_fill(~mask, low)


def _attended() -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor | None]]:
    """Yield q, k, v and a mask: none, causal, random; small first, then scores of tens and of thousands."""
    draw = torch.Generator().manual_seed(3)
    shapes = [(1, 1, 2, 3, 2), (2, 2, 2, 2, 2), (2, 3, 3, 5, 4), (2, 2, 4, 4, 8), (2, 2, 4, 4, 8)]
    for (batch, head, query, key, dim), size in zip(shapes, (1.0, 1.0, 1.0, 5.0, 40.0), strict=True):
        q, k, v = (size * torch.randn(batch, head, pos, dim, generator=draw) for pos in (query, key, key))
        yield q, k, v, None
        yield q, k, v, attention_mask(query, key)[0]
        mask = torch.rand(query, key, generator=draw) < 0.6
        mask[:, 0] = True
        yield q, k, v, mask


LETTERS, LEAST = 26, 0.9


def check_circle(attempt: Callable[[], Any]) -> Verdict:
    """``attempt()``: 26 vectors of width 2, queries and keys at once; each gives itself 0.9 of its weight."""
    try:
        vectors = attempt()
    except NotImplementedError:
        return Verdict.of_nothing()
    if vectors is None or vectors is Ellipsis:
        return Verdict.of_nothing()
    if not isinstance(vectors, Tensor) or vectors.shape != (LETTERS, 2):
        shape = list(vectors.shape) if isinstance(vectors, Tensor) else type(vectors).__name__
        return Verdict(False, f"the result should be a tensor [{LETTERS}, 2], and is {shape}")
    vectors = vectors.detach().double()
    weights = (vectors @ vectors.T / sqrt(2)).softmax(-1)
    if not weights.isfinite().all():
        return Verdict(
            False, "some weights are no numbers: the scores are too large or no numbers themselves"
        )
    least, letter = weights.diagonal().min(dim=0)
    name, best = chr(ord("a") + int(letter)), int(weights[letter].argmax())
    if least >= LEAST:
        return Verdict(True, f"every letter puts {least:.2f} of its weight on itself, or more")
    lengths = vectors.norm(dim=1)
    if best != letter:
        why = f"{chr(ord('a') + best)} gets {weights[letter, best]:.2f}"
        if lengths.max() > 1.01 * lengths.min():
            why += ". The vectors differ in length, and a long key has a large product with many queries"
    elif lengths.max() <= 1.01 * lengths.min():
        why = (
            "its neighbours on the circle get most of the rest: a larger radius makes the differences larger"
        )
    else:
        why = "the vectors differ in length, and a long key has a large product with many queries"
    return Verdict(False, f"{name} puts {least:.2f} of its weight on itself; {why}")
