"""Checks of notebook 01: splitting and merging heads, the causal mask, softmax over what is seen."""

from collections.abc import Callable, Iterator

import torch
from einops import rearrange, reduce
from torch import Tensor

from minitxl.attention import attention_mask, masked_softmax, merge_heads, split_heads
from minitxl.course.exercises import Verdict, judge

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
    """``attempt(query, key)``: Bool[query key], True for seen, the queries last among the keys."""
    cases = [(4, 4), (1, 1), (3, 5), (1, 6), (4, 7)]
    mistakes: dict[str, Callable[..., Tensor]] = {
        "strict: a query hides itself, and the first one of all sees nothing. j = i is seen": lambda q, k: (
            torch.ones(q, k).tril(k - q - 1).bool()
        ),
        "transposed: this is the future. Key j is seen from query i where j ≤ i": lambda q, k: (
            torch.ones(q, k).triu(k - q).bool()
        ),
        "inverted: True means hidden here, and seen in this package": lambda q, k: (
            torch.ones(q, k).triu(k - q + 1).bool()
        ),
        "right for as many keys as queries only: the queries are the *last* of the keys, so query row 0 "
        "is at place key - query and sees all that is before it": lambda q, k: torch.ones(q, k).tril().bool(),
        "ones and zeros, where True and False are asked for: masked_fill takes booleans": lambda q, k: (
            torch.ones(q, k).tril(k - q)
        ),
        "an additive mask, 0 for seen and -inf for hidden: right for adding to the scores, but True "
        "and False are asked for": lambda q, k: torch.full((q, k), float("-inf")).triu(k - q + 1),
    }
    return judge(attempt, reference=lambda q, k: attention_mask(q, k)[0], cases=cases, mistakes=mistakes)


def check_masked_weights(attempt: Callable[[Tensor, Tensor], Tensor]) -> Verdict:
    """``attempt(scores, seen)``: softmax of [batch head query key] over the keys that [query key] shows."""
    mistakes: dict[str, Callable[..., Tensor]] = {
        "the mask is added as if 1 meant hidden: True is seen here, so the very keys to be seen get "
        "-1e9. Fill where ~seen": lambda s, seen: (s - 1e9 * seen).softmax(-1),
        "the scores are multiplied by the mask: a score of 0 is a score like another, its weight is "
        "exp(0) over the sum. Hidden needs -inf": lambda s, seen: (s * seen).softmax(-1),
        "masked after the softmax: the hidden keys still took their share of the sum, so the rows sum to "
        "less than 1. Mask the scores": lambda s, seen: s.softmax(-1) * seen,
        "softmax over the queries: each query's weights sum to 1 over the keys, dim=-1": lambda s, seen: (
            s.masked_fill(~seen, torch.finfo(s.dtype).min).softmax(-2)
        ),
        "scores are added, 1 where seen: the hidden keys are only a little less likely. "
        "Hidden needs -inf": lambda s, seen: (s + seen).softmax(-1),
    }
    return judge(
        attempt,
        reference=lambda scores, seen: masked_softmax(scores, seen[None]),
        cases=list(_masked_scores()),
        mistakes=mistakes,
    )


def _masked_scores() -> Iterator[tuple[Tensor, Tensor]]:
    """Yield random scores with causal masks and with random ones; every query sees a key."""
    draw = torch.Generator().manual_seed(3)
    for query, key in [(4, 4), (3, 5), (1, 6)]:
        scores = 3 * torch.randn(2, 3, query, key, generator=draw)
        yield scores, attention_mask(query, key)[0]
        seen = torch.rand(query, key, generator=draw) < 0.6
        seen[:, 0] = True
        yield scores, seen
