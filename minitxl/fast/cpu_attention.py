"""Attention on a CPU in blocks of queries: the same numbers, in less time and fewer bytes.

**Blocks.** A few queries of a segment, with all keys up to the last of them, are themselves a
segment with memory: the same attention. So queries are processed in blocks of ``BLOCK``. Keys that
no query of a block may attend to are never touched. A block's scores are shifted and become weights, and the
values are averaged by these, while all is in the processor's cache; where memory is long, a few heads at a
time.

**The shift as a view.** q + v is multiplied with n_key + 1 distances, one more than there are keys. These
products lie in RAM, row after row, as the padded matrix of Appendix B does, with products in place of its
zeros. So ``rel_shift`` is a view that begins n_query numbers later. The products of the extra column end up
at keys of the future, which are masked.

**The backward pass** keeps the weights α, and dropout's mask if there is dropout, and nothing else of their
size. Let dS be the gradient of the scores, and S' = (q + v) rᵀ the padded product, before the shift. Then its
gradient dS' is dS written through the same view, d(q + v) = dS' r, and dr = dS'ᵀ (q + v).

**Names.** ``q_plus_u`` and ``q_plus_v`` are (q + u) / √d_head and (q + v) / √d_head, with the biases u and v;
the paragraphs above leave the factor out.

**Without distances.** Where a score is a product of query and key alone (absolute and rotary positions),
``q_plus_u`` is q / √d_head, ``q_plus_v`` and r are None, and the blocks are computed without them.
"""

from collections.abc import Iterator
from itertools import cycle, islice
from math import sqrt
from typing import Any

import torch
from einops import rearrange, repeat
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from minitxl.attention import Heads, KeyMask, Keys, Values, attention_mask
from minitxl.fast.dropout import dropout_mask
from minitxl.fast.inputs import AttentionInputs

BLOCK = 128
"""Queries of a block."""
SCORES = 2**19
"""About how many scores are computed at once, so that they stay in the processor's cache."""

softmax_backward = torch.ops.aten._softmax_backward_data.out
"""α_ij (dα_ij - Σ_l α_il dα_il) of weights α and their gradient dα."""

QueriesByHead = Float[Tensor, "batch_head query dim"]
KeysByHead = Float[Tensor, "batch_head key dim"]
"""``batch_head`` counts the heads of all texts: those of the first text, then those of the second …"""
DistanceQueries = Float[Tensor, "batch_head query width"]
"""Queries for products with distances: as wide as a head, or 1 where a distance is a number (ALiBi, T5)."""
DistancesByHead = Float[Tensor, "repeated_head padded_dist width"]
"""``repeated_head`` counts the heads of one text, or of as many texts as are computed at once."""


def in_blocks(inputs: AttentionInputs) -> Heads:
    """Return the heads of relative attention, computed block by block."""
    q_plus_u, q_plus_v, k, values, r, rate, window, key_mask = inputs
    chunk_heads = heads_at_once(q_plus_u, k)
    r = repeat(r, "head padded_dist dim -> (text head) padded_dist dim", text=max(1, chunk_heads // len(r)))
    return _heads(q_plus_u, _by_head(q_plus_v), k, values, r, chunk_heads, rate, window, key_mask)


def products_in_blocks(
    q: Heads, k: Keys, values: Values, *, rate: float, window: int | None, key_mask: KeyMask | None
) -> Heads:
    """Return the heads of attention without distances, Σ_j softmax_j(q_i · k_j / √d_head) v_j, by blocks."""
    q = q / sqrt(q.shape[3])
    return _heads(q, None, k, values, None, heads_at_once(q, k), rate, window, key_mask)


def _heads(
    q_plus_u: Heads,
    q_plus_v: DistanceQueries | None,
    k: Keys,
    values: Values,
    r: DistancesByHead | None,
    *options: Any,
) -> Heads:
    out = Blocks.apply(_by_head(q_plus_u), q_plus_v, _by_head(k), _by_head(values), r, *options)  # type: ignore[no-untyped-call]
    return rearrange(out, "(batch head) query dim -> batch head query dim", batch=len(q_plus_u))


def _by_head(heads: Keys) -> KeysByHead:
    return rearrange(heads, "batch head pos dim -> (batch head) pos dim")


def heads_at_once(q: Heads, k: Keys) -> int:
    """Return how many heads, of one text or of several, have about ``SCORES`` scores in a block.

    All chunks are equal. So the result either divides the number of heads of a text, or is that number times
    a number of texts that divides the batch. Two heads are allowed however many scores they make, for two
    threads.
    """
    batch, head, n_query, _ = q.shape
    most = max(2, SCORES // max(1, min(BLOCK, n_query) * k.shape[2]))
    if most < head:
        return max(n for n in range(1, most + 1) if head % n == 0)
    return head * max(texts for texts in range(1, batch + 1) if batch % texts == 0 and texts * head <= most)


class Blocks(torch.autograd.Function):
    """Attention with or without distances, ``chunk_heads`` heads at once, of one text or of several.

    Queries arrive divided by √d_head, with u and v added where there are any. A name that ends in _, as
    ``k_``, is the part of a tensor that belongs to one block and chunk.
    """

    @staticmethod
    def forward(
        ctx: Any,
        q_plus_u: QueriesByHead,
        q_plus_v: DistanceQueries | None,
        k: KeysByHead,
        values: KeysByHead,
        r: DistancesByHead | None,
        chunk_heads: int,
        rate: float,
        window: int | None,
        key_mask: KeyMask | None,
    ) -> QueriesByHead:
        needs_backward = any(ctx.needs_input_grad)
        out, saved = torch.empty_like(q_plus_u), []
        products, buffer = (_buffer(q_plus_u, k, chunk_heads) for _ in range(2))
        for queries, keys, dists in _blocks(q_plus_u, k, window):
            n_query, n_key = queries.stop - queries.start, keys.stop - keys.start
            added = _additive_mask(q_plus_u, queries, keys, window, key_mask)
            padded = None if r is None else _slice(products, chunk_heads, n_query, n_key + 1)
            reused = None if needs_backward else _slice(buffer, chunk_heads, n_query, n_key)
            here = _parts(
                (out, queries),
                (q_plus_u, queries),
                (q_plus_v, queries),
                (k, keys),
                (values, keys),
                (r, dists),
            )
            for out_, q_plus_u_, q_plus_v_, k_, values_, r_, added_ in _in_chunks(chunk_heads, *here, added):
                if padded is None:
                    scores = torch.bmm(q_plus_u_, k_.mT, out=reused)
                else:
                    torch.bmm(q_plus_v_, r_.mT, out=padded)
                    scores = torch.baddbmm(_shift(padded), q_plus_u_, k_.mT, out=reused)
                scores[..., -added.shape[2] :].add_(added_)
                alpha = torch.softmax(scores, dim=-1, out=scores)
                if key_mask is not None:
                    alpha.masked_fill_(added_ < 0, 0.0)
                drop_mask = dropout_mask(alpha, rate) if rate else None
                out_.copy_(torch.bmm(_dropped(alpha, drop_mask), values_))
                if needs_backward:
                    saved += [alpha, drop_mask]
        ctx.save_for_backward(q_plus_u, q_plus_v, k, values, r, *saved)
        ctx.window, ctx.chunk_heads = window, chunk_heads
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: QueriesByHead) -> tuple[Tensor | None, ...]:
        q_plus_u, q_plus_v, k, values, r, *saved = ctx.saved_tensors
        chunk_heads, weights = ctx.chunk_heads, iter(saved)
        dq_plus_u, dq_plus_v = (None if q is None else torch.empty_like(q) for q in (q_plus_u, q_plus_v))
        dk, d_values, dr = (None if tensor is None else _zeros_to_sum(tensor) for tensor in (k, values, r))
        products, buffer, sums = (_buffer(q_plus_u, k, chunk_heads) for _ in range(3))
        for queries, keys, dists in _blocks(q_plus_u, k, ctx.window):
            n_query, n_key = queries.stop - queries.start, keys.stop - keys.start
            d_scores_buffer = _slice(buffer, chunk_heads, n_query, n_key)
            sum_k = _slice(sums, chunk_heads, n_key, k.shape[2])
            here = _parts(
                (d_out, queries),
                (q_plus_u, queries),
                (q_plus_v, queries),
                (k, keys),
                (values, keys),
                (r, dists),
            )
            theirs = _parts(
                (dq_plus_u, queries), (dq_plus_v, queries), (dk, keys), (d_values, keys), (dr, dists)
            )
            for (
                d_out_,
                q_plus_u_,
                q_plus_v_,
                k_,
                values_,
                r_,
                dq_plus_u_,
                dq_plus_v_,
                dk_,
                d_values_,
                dr_,
            ) in _in_chunks(chunk_heads, *here, *theirs):
                alpha, drop_mask = next(weights), next(weights)
                d_alpha = torch.bmm(d_out_, values_.mT, out=d_scores_buffer)
                if drop_mask is not None:
                    d_alpha.mul_(drop_mask)
                d_scores = softmax_backward(d_alpha, alpha, -1, alpha.dtype, grad_input=d_alpha)
                dq_plus_u_.copy_(torch.bmm(d_scores, k_))
                d_values_.add_(torch.bmm(_dropped(alpha, drop_mask).mT, d_out_, out=sum_k))
                dk_.add_(torch.bmm(d_scores.mT, q_plus_u_, out=sum_k))
                if r is None:
                    continue
                padded = _slice(products, chunk_heads, n_query, n_key + 1)
                padded[:, 0, :n_query] = 0.0  # these entries precede the view, and have no score
                _shift(padded).copy_(d_scores)
                dq_plus_v_.copy_(torch.bmm(padded, r_))
                dr_.add_(
                    torch.bmm(padded.mT, q_plus_v_, out=_slice(sums, chunk_heads, n_key + 1, r.shape[2]))
                )
        return dq_plus_u, dq_plus_v, dk, d_values, dr, None, None, None, None


def _blocks(q: QueriesByHead, k: KeysByHead, window: int | None) -> Iterator[tuple[slice, slice, slice]]:
    """Yield for each block its queries, the keys they may attend to, and one distance more than keys."""
    n_query, n_key = q.shape[1], k.shape[1]
    for first in range(0, n_query, BLOCK):
        last = min(first + BLOCK, n_query)
        near = n_key - n_query + last
        far = 0 if window is None else max(0, n_key - n_query + first + 1 - window)
        yield slice(first, last), slice(far, near), slice(n_key - (near - far), n_key + 1)


def _parts(*tensors: tuple[Tensor | None, slice]) -> list[Any]:
    """Return the positions that belong to a block of each tensor; None where there is no tensor."""
    return [None if tensor is None else tensor[:, positions] for tensor, positions in tensors]


def _in_chunks(chunk_heads: int, *tensors: Tensor | None) -> Iterator[tuple[Any, ...]]:
    """Yield ``chunk_heads`` heads of each tensor at a time. Shorter tensors repeat, and so does None."""
    chunks = [(None,) if tensor is None else tensor.split(chunk_heads) for tensor in tensors]
    return islice(zip(*map(cycle, chunks), strict=False), max(map(len, chunks)))


def _additive_mask(
    q: QueriesByHead, queries: slice, keys: slice, window: int | None, key_mask: KeyMask | None
) -> Float[Tensor, "#batch_head block n_masked"]:
    """Return what is added to the scores of a block's last keys: 0, or the lowest number for a masked key.

    Without window and key mask only the block's own keys need it: no earlier key is masked.
    """
    n_query, n_key = queries.stop - queries.start, keys.stop - keys.start
    if key_mask is not None:
        key_mask = repeat(key_mask[:, keys], "batch key -> (batch head) key", head=len(q) // len(key_mask))
    n_masked = n_query if window is None and key_mask is None else n_key
    mask = attention_mask(n_query, n_masked, window=window, key_mask=key_mask)
    return q.new_zeros(mask.shape).masked_fill_(~mask, torch.finfo(q.dtype).min)


def _buffer(q: QueriesByHead, k: KeysByHead, chunk_heads: int) -> Float[Tensor, " number"]:
    """Return a buffer for any of a block's products: new RAM would have to be cleared for each."""
    return q.new_empty(chunk_heads * max(min(BLOCK, q.shape[1]), q.shape[2]) * (k.shape[1] + 1))


def _slice(
    buffer: Float[Tensor, " number"], chunk_heads: int, n_row: int, width: int
) -> Float[Tensor, "chunk row width"]:
    return buffer[: chunk_heads * n_row * width].view(chunk_heads, n_row, width)


def _shift(padded: Float[Tensor, "chunk query padded_dist"]) -> Float[Tensor, "chunk query key"]:
    """Return a view of a block's products with one distance too many, each at its key."""
    chunk_heads, n_query, padded_dist = padded.shape
    return padded.view(chunk_heads, n_query * padded_dist)[:, n_query:].view(
        chunk_heads, n_query, padded_dist - 1
    )


def _zeros_to_sum(tensor: Tensor) -> Tensor:
    """Return zeros to which parts of a gradient are added: float32 where the parts are in bfloat16."""
    return torch.zeros_like(tensor, dtype=torch.promote_types(tensor.dtype, torch.float32))


def _dropped(alpha: Tensor, drop_mask: Tensor | None) -> Tensor:
    return alpha if drop_mask is None else (alpha * drop_mask).to(alpha.dtype)
