"""The fast path: the numbers of ``attention``, in less time and less memory.

The identity. Some queries of a segment and the keys up to the last of them are a shorter
segment behind a longer memory: the same attention. So a segment is done block by block.
Keys that no query of a block may see are never touched, and a block of scores is shifted,
softened and averaged while it is still near; where memory is long, a few heads at a time.

One more. The product of q + v with one distance more than there are keys lies in memory as
the padded matrix of Appendix B does, so ``rel_shift`` is a view that begins ``query``
numbers later; what the spare column leaves in the future is masked. The backward pass keeps
the weights α and nothing else of their size; the gradients of keys, values and distances are
summed up transposed, because those products take less time.
"""

from collections.abc import Iterator
from itertools import cycle, islice
from math import sqrt
from typing import Any, Unpack

import torch
from einops import pack, rearrange, repeat
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import scaled_dot_product_attention

from minitxl.attention import (
    Heads,
    Keep,
    Keys,
    Memory,
    MultiHeadAttention,
    Segment,
    ShawAttention,
    Sight,
    XLAttention,
    merge,
    split,
    visible,
)
from minitxl.fast import gpu_attention
from minitxl.fast.dropout import factor
from minitxl.fast.gpu_attention import Distances
from minitxl.positions import distances, sinusoids

BLOCK, SCORES = 128, 2**19
"""Queries, and about how many scores, that are computed at once."""

softmax_backward = torch.ops.aten._softmax_backward_data.out
"""α_ij (dα_ij - Σ_l α_il dα_il) of weights α and their gradient dα."""

Rows = Float[Tensor, "row query dim"]
KeyRows = Float[Tensor, "row key dim"]
"""A row for each head of each text, (batch head)."""
DistanceRows = Float[Tensor, "some dist dim"]
"""A row for each head, or for each head of as many texts as are computed at once."""


def attend(
    attention: MultiHeadAttention | ShawAttention | XLAttention,
    x: Segment,
    memory: Memory | None = None,
    **sight: Unpack[Sight],
) -> Segment:
    """``attention(x, memory, **sight)``; Shaw's has no faster form and is called as it is."""
    if isinstance(attention, ShawAttention):
        return attention(x, memory, **sight)
    memory = x[:, :0] if memory is None else memory
    window, keep = sight.get("window"), sight.get("keep")
    rate = attention.drop.p if attention.training else 0.0
    q = split(attention.W_q(x), attention.n_head)
    v = project(attention.W_v, memory, x, attention.n_head)
    if isinstance(attention, MultiHeadAttention):
        k = project(attention.W_k, memory, x, attention.n_head)
        heads = absolute(q, k, v, rate=rate, window=window, keep=keep)
    else:
        k = project(attention.W_kE, memory, x, attention.n_head)
        r = project_distances(attention, k.shape[2], x, sight.get("clamp_len"))
        heads = relative(attention, q, k, v, r, rate=rate, window=window, keep=keep)
    return attention.W_o(merge(heads))


def project(weight: nn.Linear, memory: Memory, x: Segment, n_head: int) -> Keys:
    """Keys or values of memory and segment, apart: no gradient is computed for the memory."""
    past, now = (split(weight(states), n_head) for states in (memory, x))
    return pack([past, now], "batch head * dim")[0]


def project_distances(attention: XLAttention, key: int, like: Tensor, clamp_len: int | None) -> Distances:
    """r = W_kR R for the distances key … 0, one more than there are keys."""
    away = distances(key + 1, clamp_len=clamp_len, device=like.device)
    R = attention.drop_positions(sinusoids(away.to(like.dtype), attention.d_model))
    return rearrange(attention.W_kR(R), "dist (head dim) -> head dist dim", head=attention.n_head)


def absolute(
    q: Heads, k: Keys, v: Keys, *, rate: float = 0.0, window: int | None = None, keep: Keep | None = None
) -> Heads:
    """softmax(q_i · k_j / √d_head) v_j, by PyTorch's own blocks, which skip the future if told of no mask."""
    if q.shape[2] == k.shape[2] and window is None and keep is None:
        return scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=rate)
    seen = visible(q.shape[2], k.shape[2], window=window, keep=keep, device=q.device)
    mask = rearrange(seen, "batch query key -> batch 1 query key")
    return scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=rate)


def relative(
    attention: XLAttention,
    q: Heads,
    k: Keys,
    v: Keys,
    r: Distances,
    *,
    rate: float = 0.0,
    window: int | None = None,
    keep: Keep | None = None,
) -> Heads:
    """softmax([(q_i + u) · k_j + (q_i + v) · r_{i-j}] / √d_head) v_j."""
    if q.device.type == "cpu":
        return in_blocks(*with_biases(attention, q.contiguous()), k, v, r, rate, window, keep)
    return gpu_attention.relative(*with_biases(attention, q), k, v, r, rate, window, keep)


def with_biases(attention: XLAttention, q: Heads) -> tuple[Heads, Heads]:
    """(q + u) / √d_head for the keys and (q + v) / √d_head for the distances."""
    scale = 1 / sqrt(attention.d_head)
    u, v = (rearrange(bias * scale, "head dim -> head 1 dim") for bias in (attention.u, attention.v))
    return torch.add(u, q, alpha=scale), torch.add(v, q, alpha=scale)


def in_blocks(
    q_u: Heads, q_v: Heads, k: Keys, v: Keys, r: Distances, rate: float, window: int | None, keep: Keep | None
) -> Heads:
    """The form of ``gpu_attention`` for a CPU."""
    flat = (rearrange(part, "batch head pos dim -> (batch head) pos dim") for part in (q_u, q_v, k, v))
    rows = rows_at_once(q_u, k)
    r = repeat(r, "head dist dim -> (text head) dist dim", text=max(1, rows // len(r)))
    out = Blocks.apply(*flat, r, rows, rate, window, keep)  # type: ignore[no-untyped-call]
    return rearrange(out, "(batch head) query dim -> batch head query dim", batch=len(q_u))


def rows_at_once(q: Heads, k: Keys) -> int:
    """Heads of one text, or of several, that have about ``SCORES`` scores in a block; two where there are."""
    batch, head, query, _ = q.shape
    most = max(2, SCORES // max(1, min(BLOCK, query) * k.shape[2]))
    if most < head:
        return max(rows for rows in range(1, most + 1) if head % rows == 0)
    return head * max(texts for texts in range(1, batch + 1) if batch % texts == 0 and texts * head <= most)


class Blocks(torch.autograd.Function):
    """``relative`` on a CPU, ``rows`` at once; the queries come with u or v added, and scaled."""

    @staticmethod
    def forward(
        ctx: Any,
        q_u: Rows,
        q_v: Rows,
        k: KeyRows,
        v: KeyRows,
        r: DistanceRows,
        rows: int,
        rate: float,
        window: int | None,
        keep: Keep | None,
    ) -> Rows:
        learns = ctx.needs_input_grad[0]
        out, saved = torch.empty_like(q_u), []
        products, room = (_room(q_u, k, rows) for _ in range(2))
        for queries, keys, dists in _blocks(q_u, k, window):
            query, key = queries.stop - queries.start, keys.stop - keys.start
            bias = _bias(q_u, queries, keys, window, keep)
            padded = _part(products, rows, query, key + 1)
            reused = None if learns else _part(room, rows, query, key)
            here = (out[:, queries], q_u[:, queries], q_v[:, queries], k[:, keys], v[:, keys], r[:, dists])
            for to, q_k, q_r, k_, v_, r_, bias_ in _some(rows, *here, bias):
                torch.bmm(q_r, r_.mT, out=padded)
                scores = torch.baddbmm(_shift(padded), q_k, k_.mT, out=reused)
                scores[..., -bias.shape[2] :].add_(bias_)
                alpha = torch.softmax(scores, dim=-1, out=scores)
                if keep is not None:
                    alpha.masked_fill_(bias_ < 0, 0.0)
                noise = factor(alpha, rate) if rate else None
                to.copy_(torch.bmm(_dropped(alpha, noise), v_))
                if learns:
                    saved += [alpha, noise]
        ctx.save_for_backward(q_u, q_v, k, v, r, *saved)
        ctx.window, ctx.rows = window, rows
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Rows) -> tuple[Tensor | None, ...]:
        q_u, q_v, k, v, r, *saved = ctx.saved_tensors
        rows, weights = ctx.rows, iter(saved)
        dq_u, dq_v = torch.empty_like(q_u), torch.empty_like(q_v)
        dk, dv, dr = (tensor.new_zeros(tensor.mT.shape) for tensor in (k, v, r))
        products, room, sums = (_room(q_u, k, rows) for _ in range(3))
        for queries, keys, dists in _blocks(q_u, k, ctx.window):
            query, key = queries.stop - queries.start, keys.stop - keys.start
            padded = _part(products, rows, query, key + 1)
            here = (d_out[:, queries], q_u[:, queries], q_v[:, queries], k[:, keys], v[:, keys], r[:, dists])
            d_room = _part(room, rows, query, key)
            sum_k, sum_r = (_part(sums, rows, k.shape[2], length) for length in (key, key + 1))
            theirs = (dq_u[:, queries], dq_v[:, queries], dk[..., keys], dv[..., keys], dr[..., dists])
            for d_, q_k, q_r, k_, v_, r_, dq_k, dq_r, dk_, dv_, dr_ in _some(rows, *here, *theirs):
                alpha, noise = next(weights), next(weights)
                d_alpha = torch.bmm(d_, v_.mT, out=d_room)
                if noise is not None:
                    d_alpha.mul_(noise)
                d_scores = softmax_backward(d_alpha, alpha, -1, alpha.dtype, grad_input=d_alpha)
                padded[:, 0, :query] = 0.0
                _shift(padded).copy_(d_scores)
                dq_k.copy_(torch.bmm(d_scores, k_))
                dq_r.copy_(torch.bmm(padded, r_))
                dv_.add_(torch.bmm(d_.mT, _dropped(alpha, noise), out=sum_k))
                dk_.add_(torch.bmm(q_k.mT, d_scores, out=sum_k))
                dr_.add_(torch.bmm(q_r.mT, padded, out=sum_r))
        return dq_u, dq_v, dk.mT.contiguous(), dv.mT.contiguous(), dr.mT, None, None, None, None


def _blocks(q: Rows, k: KeyRows, window: int | None) -> Iterator[tuple[slice, slice, slice]]:
    """For each block its queries, the keys they may see, and of r one distance more."""
    query, key = q.shape[1], k.shape[1]
    for first in range(0, query, BLOCK):
        last = min(first + BLOCK, query)
        near = key - query + last
        far = 0 if window is None else max(0, key - query + first + 1 - window)
        yield slice(first, last), slice(far, near), slice(key - (near - far), key + 1)


def _some(rows: int, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """So many rows of each tensor at a time; those that have fewer begin anew."""
    parts = [tensor.split(rows) for tensor in tensors]
    return islice(zip(*map(cycle, parts), strict=False), max(map(len, parts)))


def _bias(
    q: Rows, queries: slice, keys: slice, window: int | None, keep: Keep | None
) -> Float[Tensor, "#row block seen"]:
    """What is added to a block's last scores: 0 where a key is seen, else the lowest number."""
    query, key = queries.stop - queries.start, keys.stop - keys.start
    if keep is not None:
        keep = repeat(keep[:, keys], "batch key -> (batch head) key", head=len(q) // len(keep))
    seen = visible(query, query if window is None and keep is None else key, window=window, keep=keep)
    return q.new_zeros(seen.shape).masked_fill_(~seen, torch.finfo(q.dtype).min)


def _room(q: Rows, k: KeyRows, rows: int) -> Float[Tensor, " number"]:
    """Where any of a block's products fits; new memory for each would first be mapped."""
    return q.new_empty(rows * max(min(BLOCK, q.shape[1]), q.shape[2]) * (k.shape[1] + 1))


def _part(room: Float[Tensor, " number"], row: int, query: int, dist: int) -> Float[Tensor, "row query dist"]:
    return room[: row * query * dist].view(row, query, dist)


def _shift(padded: Float[Tensor, "row query dist"]) -> Float[Tensor, "row query key"]:
    """A view of a block's products with one distance too many, each at its key."""
    row, query, dist = padded.shape
    return padded.view(row, query * dist)[:, query:].view(row, query, dist - 1)


def _dropped(alpha: Tensor, noise: Tensor | None) -> Tensor:
    return alpha if noise is None else alpha * noise
