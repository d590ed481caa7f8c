"""The fast path: the numbers of ``attention``, in less time and less memory.

The identity. Some queries of a segment and the keys up to the last of them are a shorter
segment behind a longer memory: the same attention. So a segment is done block by block.
Keys that no query of a block may see are never touched, and a block of scores is shifted,
softened and averaged while it is still near; where memory is long, a few heads at a time.

One more. The product of q + v with one distance more than there are keys lies in memory as
the padded matrix of Appendix B does, so ``rel_shift`` is a view that begins ``query``
numbers later; what the spare column leaves in the future is masked. The backward pass keeps
the weights α and nothing else of their size.
"""

from collections.abc import Iterator
from math import sqrt
from typing import Any, Unpack

import torch
from einops import pack, rearrange, repeat
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import scaled_dot_product_attention

from minitxl import kernels
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
from minitxl.dropout import factor
from minitxl.kernels import Distances
from minitxl.positions import distances, sinusoids

BLOCK, SCORES = 128, 2**19
"""Queries, and about how many scores, that are computed at once."""

softmax_backward = torch.ops.aten._softmax_backward_data.out
"""α_ij (dα_ij - Σ_l α_il dα_il) of weights α and their gradient dα."""

Rows = Float[Tensor, "row query dim"]
KeyRows = Float[Tensor, "row key dim"]
"""A row for each head of each text, (batch head)."""


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
    q_u, q_v = with_biases(attention, q)
    if q.device.type == "cpu":
        flat = (rearrange(part, "batch head pos dim -> (batch head) pos dim") for part in (q_u, q_v, k, v))
        rows = Blocks.apply(*flat, r, rate, window, keep)  # type: ignore[no-untyped-call]
        return rearrange(rows, "(batch head) query dim -> batch head query dim", batch=len(q))
    return kernels.relative(q_u, q_v, k, v, r, rate, window, keep)


def with_biases(attention: XLAttention, q: Heads) -> tuple[Heads, Heads]:
    """(q + u) / √d_head for the keys and (q + v) / √d_head for the distances."""
    scale = 1 / sqrt(attention.d_head)
    u, v = (rearrange(bias * scale, "head dim -> head 1 dim") for bias in (attention.u, attention.v))
    return q * scale + u, q * scale + v


class Blocks(torch.autograd.Function):
    """``relative`` on a CPU; the queries come with u or v added, and scaled."""

    @staticmethod
    def forward(
        ctx: Any,
        q_u: Rows,
        q_v: Rows,
        k: KeyRows,
        v: KeyRows,
        r: Distances,
        rate: float,
        window: int | None,
        keep: Keep | None,
    ) -> Rows:
        plain = window is None and keep is None
        hidden = ~visible(q_u.shape[1], q_u.shape[1] if plain else k.shape[1], window=window, keep=keep)
        if keep is not None:
            hidden = repeat(hidden, "batch query key -> (batch head) query key", head=len(r))
        learns = ctx.needs_input_grad[0]
        out, saved = torch.empty_like(q_u), []
        products, room = _room(q_u, k, r), _room(q_u, k, r)
        for rows, queries, keys, r_rows in _blocks(q_u, k, r, window):
            mask = hidden[slice(None) if keep is None else rows, queries, queries if plain else keys]
            row, query, key = len(r_rows), queries.stop - queries.start, keys.stop - keys.start
            padded = torch.bmm(q_v[rows, queries], r_rows.mT, out=_part(products, row, query, key + 1))
            reused = None if learns else _part(room, row, query, key)
            scores = torch.baddbmm(_shift(padded), q_u[rows, queries], k[rows, keys].mT, out=reused)
            scores[..., -mask.shape[2] :].masked_fill_(mask, torch.finfo(scores.dtype).min)
            alpha = torch.softmax(scores, dim=-1, out=scores)
            if keep is not None:
                alpha.masked_fill_(mask, 0.0)
            noise = factor(alpha, rate) if rate else None
            out[rows, queries] = torch.bmm(_dropped(alpha, noise), v[rows, keys])
            if learns:
                saved += [alpha, noise]
        ctx.save_for_backward(q_u, q_v, k, v, r, *saved)
        ctx.window = window
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Rows) -> tuple[Tensor | None, ...]:
        q_u, q_v, k, v, r, *saved = ctx.saved_tensors
        dq_u, dq_v, dk, dv = (torch.zeros_like(tensor) for tensor in (q_u, q_v, k, v))
        dr = r.new_zeros(max(1, _group(q_u, k, r) // len(r)), *r.shape)
        products = _room(q_u, k, r)
        weights = iter(saved)
        for rows, queries, keys, r_rows in _blocks(q_u, k, r, ctx.window):
            alpha, noise = next(weights), next(weights)
            here = d_out[rows, queries]
            d_alpha = torch.bmm(here, v[rows, keys].mT)
            if noise is not None:
                d_alpha.mul_(noise)
            d_scores = softmax_backward(d_alpha, alpha, -1, alpha.dtype, grad_input=d_alpha)
            row, query, key = alpha.shape
            padded = _part(products, row, query, key + 1)
            padded[:, 0, :query] = 0.0
            _shift(padded).copy_(d_scores)
            dq_u[rows, queries] = torch.bmm(d_scores, k[rows, keys])
            dq_v[rows, queries] = torch.bmm(padded, r_rows)
            dv[rows, keys].baddbmm_(_dropped(alpha, noise).mT, here)
            dk[rows, keys].baddbmm_(d_scores.mT, q_u[rows, queries])
            head = rows.start % len(r)
            dr.flatten(0, 1)[head : head + row, -(key + 1) :].baddbmm_(padded.mT, q_v[rows, queries])
        return dq_u, dq_v, dk, dv, dr.sum(dim=0), None, None, None


def _group(q: Rows, k: KeyRows, r: Distances) -> int:
    """Rows that are computed at once, of whole texts or two or more of one: about ``SCORES`` in a block."""
    head, rows = len(r), max(2, SCORES // (min(BLOCK, q.shape[1]) * k.shape[1]))
    if rows < head:
        return max(some for some in range(1, rows + 1) if head % some == 0)
    return min(rows // head * head, len(q))


def _blocks(
    q: Rows, k: KeyRows, r: Distances, window: int | None
) -> Iterator[tuple[slice, slice, slice, Float[Tensor, "row dist dim"]]]:
    """For each block its rows, its queries, the keys they may see, and r for one distance more."""
    query, key, head, group = q.shape[1], k.shape[1], len(r), _group(q, k, r)
    for row in range(0, len(q), group):
        rows = slice(row, min(row + group, len(q)))
        of_heads = r[row % head : row % head + group]
        for first in range(0, query, BLOCK):
            last = min(first + BLOCK, query)
            near = key - query + last
            far = 0 if window is None else max(0, key - query + first + 1 - window)
            places = of_heads[:, key - (near - far) :]
            yield (
                rows,
                slice(first, last),
                slice(far, near),
                places.expand((rows.stop - row) // len(places), -1, -1, -1).flatten(0, 1),
            )


def _room(q: Rows, k: KeyRows, r: Distances) -> Float[Tensor, " number"]:
    """Where any block's products with its distances fit; new memory for each would first be mapped."""
    return q.new_empty(_group(q, k, r) * min(BLOCK, q.shape[1]) * (k.shape[1] + 1))


def _part(room: Float[Tensor, " number"], row: int, query: int, dist: int) -> Float[Tensor, "row query dist"]:
    return room[: row * query * dist].view(row, query, dist)


def _shift(padded: Float[Tensor, "row query dist"]) -> Float[Tensor, "row query key"]:
    """A view of a block's products with one distance too many, each at its key."""
    row, query, dist = padded.shape
    return padded.view(row, query * dist)[:, query:].view(row, query, dist - 1)


def _dropped(alpha: Tensor, noise: Tensor | None) -> Tensor:
    return alpha if noise is None else alpha * noise
