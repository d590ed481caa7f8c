"""The attentions, one signature: ``attention(x, memory, window=, clamp_len=, keep=)``.

Queries come from the segment x alone; keys and values from memory and x together.
Axes: batch query key mem dist head dim model, where ``dist`` runs key-1 … 0.
"""

from math import sqrt
from typing import NamedTuple, TypedDict, Unpack

import torch
from einops import einsum, pack, rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from minitxl.fast.dropout import Dropout
from minitxl.fast.linear import Linear
from minitxl.positions import distances, rel_shift, sinusoids

Segment = Float[Tensor, "batch query model"]
Memory = Float[Tensor, "batch mem model"]
Context = Float[Tensor, "batch key model"]
Scores = Float[Tensor, "batch head query key"]
Heads = Float[Tensor, "batch head query dim"]
Keys = Float[Tensor, "batch head key dim"]
Seen = Bool[Tensor, "batch_or_1 query key"]
Keep = Bool[Tensor, "batch key"]


class Sight(TypedDict, total=False):
    """What of its context a query uses: the keyword arguments of every call."""

    window: int | None
    """Most keys a query sees, itself included; None is all."""
    clamp_len: int | None
    """Distance beyond which all keys count as equally far; None is none."""
    keep: Keep | None
    """False hides a key of a row from every query; the rest share its weight."""


def visible(
    query: int,
    key: int,
    *,
    window: int | None = None,
    keep: Keep | None = None,
    device: torch.device | None = None,
) -> Seen:
    """Which keys each query may see, True for seen: the one mask of this package.

    The queries are the last ``query`` of the keys. Key j is seen from i where
    0 ≤ i - j < window and ``keep`` does not hide it.
    """
    if window is not None and window < 1:
        raise ValueError(f"window must be 1 or more, the query itself counts, got {window}")
    if keep is not None and keep.shape[1] != key:
        raise ValueError(f"keep must hold one flag for each of the {key} keys, got {keep.shape[1]}")
    i = rearrange(torch.arange(key - query, key, device=device), "query -> query 1")
    j = rearrange(torch.arange(key, device=device), "key -> 1 key")
    near = (j <= i) & (i - j < (window or key))
    seen = rearrange(near, "query key -> 1 query key")
    return seen if keep is None else seen & rearrange(keep, "batch key -> batch 1 key")


def causal(
    x: Segment,
    context: Context,
    *,
    window: int | None = None,
    clamp_len: int | None = None,
    keep: Keep | None = None,
) -> Seen:
    """``visible`` for a segment at the end of its context; distances are clamped elsewhere."""
    return visible(x.shape[1], context.shape[1], window=window, keep=keep, device=x.device)


def softmax_seen(scores: Scores, seen: Seen | None) -> Scores:
    """Softmax over the keys that are seen, all without a mask; zeros, not NaN, where none is."""
    if seen is None:
        return scores.softmax(dim=-1)
    hidden = rearrange(~seen, "batch query key -> batch 1 query key")
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(hidden, lowest).softmax(dim=-1).masked_fill(hidden, 0.0)


def join(memory: Memory | None, x: Segment) -> Float[Tensor, "batch key model"]:
    """The extended context h~ = [memory ∘ x] (section 3.2)."""
    return x if memory is None else pack([memory, x], "batch * model")[0]


def split(projected: Float[Tensor, "batch pos inner"], n_head: int) -> Float[Tensor, "batch head pos dim"]:
    return rearrange(projected, "batch pos (head dim) -> batch head pos dim", head=n_head)


def average(weights: Scores, values: Keys) -> Heads:
    """Each query's weighted mean of the values."""
    return einsum(weights, values, "batch head query key, batch head key dim -> batch head query dim")


def merge(heads: Heads) -> Float[Tensor, "batch query inner"]:
    return rearrange(heads, "batch head query dim -> batch query (head dim)")


class MultiHeadAttention(nn.Module):
    """softmax(q_i · k_j / √d_head) v_j, heads side by side (Vaswani et al., section 3.2).

    ``attend`` is the general form: any context, any mask. Called, it is the language
    model's: causal, over memory and segment. It knows no positions, those are in x or
    nowhere, so ``clamp_len`` changes nothing.
    """

    def __init__(self, d_model: int, n_head: int, d_head: int, *, attention_dropout: float = 0.0) -> None:
        super().__init__()
        self.n_head, self.d_head = n_head, d_head
        self.W_q = Linear(d_model, n_head * d_head, bias=False)
        self.W_k = Linear(d_model, n_head * d_head, bias=False)
        self.W_v = Linear(d_model, n_head * d_head, bias=False)
        self.W_o = Linear(n_head * d_head, d_model, bias=False)
        self.drop = Dropout(attention_dropout)

    def weigh(self, x: Segment, context: Context | None = None, mask: Seen | None = None) -> Scores:
        """Weights of the context for each query: self-attention without one, cross with another's.

        ``mask`` is True for a key that is seen, and the same for all heads.
        """
        q = split(self.W_q(x), self.n_head)
        k = split(self.W_k(x if context is None else context), self.n_head)
        scores = einsum(q, k, "batch head query dim, batch head key dim -> batch head query key")
        return softmax_seen(scores / sqrt(self.d_head), mask)

    def attend(self, x: Segment, context: Context | None = None, mask: Seen | None = None) -> Segment:
        """The weighted mean of the context's values for each query; arguments as in ``weigh``."""
        v = split(self.W_v(x if context is None else context), self.n_head)
        return self.W_o(merge(average(self.drop(self.weigh(x, context, mask)), v)))

    def weights(self, x: Segment, memory: Memory | None = None, **sight: Unpack[Sight]) -> Scores:
        """Softmax weights; each row sums to 1, or to 0 where the query sees no key."""
        context = join(memory, x)
        return self.weigh(x, context, causal(x, context, **sight))

    def forward(self, x: Segment, memory: Memory | None = None, **sight: Unpack[Sight]) -> Segment:
        context = join(memory, x)
        return self.attend(x, context, causal(x, context, **sight))


class ShawAttention(nn.Module):
    """Attention with a learned vector for each distance (Shaw et al., equations 3 and 4):

        e_ij = q_i · (k_j + a^K_ij) / √d_head        z_i = Σ_j α_ij (v_j + a^V_ij)

    a_ij is row clip(j - i, -k, k) of a table of 2k+1, one table for keys and one for values,
    shared by the heads. Rows are for the past and the future; the causal language model
    uses the k+1 rows of the past. ``attend`` with no mask is bidirectional.

    No tensor [query key dim] is built: q meets each row once and the result is looked up by
    distance; the weights are summed by row and meet the values' table once.
    """

    def __init__(
        self, d_model: int, n_head: int, d_head: int, *, max_distance: int, attention_dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.n_head, self.d_head, self.max_distance = n_head, d_head, max_distance
        self.W_q = Linear(d_model, n_head * d_head, bias=False)
        self.W_k = Linear(d_model, n_head * d_head, bias=False)
        self.W_v = Linear(d_model, n_head * d_head, bias=False)
        self.W_o = Linear(n_head * d_head, d_model, bias=False)
        self.a_K = nn.Parameter(torch.zeros(2 * max_distance + 1, d_head))
        self.a_V = nn.Parameter(torch.zeros(2 * max_distance + 1, d_head))
        self.drop = Dropout(attention_dropout)

    def rows(self, scores: Scores, clamp_len: int | None) -> Int[Tensor, "batch head query key"]:
        """Row of the tables for each pair: clip(j - i, -k, k) + k, with i among the last keys."""
        query, key = scores.shape[-2:]
        i = rearrange(torch.arange(key - query, key, device=scores.device), "query -> query 1")
        j = rearrange(torch.arange(key, device=scores.device), "key -> 1 key")
        k = self.max_distance
        nearest = k if clamp_len is None else min(k, clamp_len)
        return ((j - i).clamp(-nearest, nearest) + k).expand_as(scores)

    def align(self, q: Heads, k: Keys, mask: Seen | None, clamp_len: int | None) -> Scores:
        """α: equation 4 and its softmax, for queries that are the last of the keys."""
        content = einsum(q, k, "batch head query dim, batch head key dim -> batch head query key")
        by_row = einsum(q, self.a_K, "batch head query dim, row dim -> batch head query row")
        distance = by_row.gather(-1, self.rows(content, clamp_len))
        return softmax_seen((content + distance) / sqrt(self.d_head), mask)

    def collect(self, weights: Scores, v: Keys, clamp_len: int | None) -> Heads:
        """z: equation 3."""
        by_row = weights.new_zeros(*weights.shape[:-1], len(self.a_V))
        by_row = by_row.scatter_add(-1, self.rows(weights, clamp_len), weights)
        distance = einsum(by_row, self.a_V, "batch head query row, row dim -> batch head query dim")
        return average(weights, v) + distance

    def weigh(
        self,
        x: Segment,
        context: Context | None = None,
        mask: Seen | None = None,
        clamp_len: int | None = None,
    ) -> Scores:
        """Weights of a context that ends with x, or is x; ``mask`` is True for a key that is seen."""
        q = split(self.W_q(x), self.n_head)
        k = split(self.W_k(x if context is None else context), self.n_head)
        return self.align(q, k, mask, clamp_len)

    def attend(
        self,
        x: Segment,
        context: Context | None = None,
        mask: Seen | None = None,
        clamp_len: int | None = None,
    ) -> Segment:
        """z of every head, projected; arguments as in ``weigh``."""
        v = split(self.W_v(x if context is None else context), self.n_head)
        weights = self.drop(self.weigh(x, context, mask, clamp_len))
        return self.W_o(merge(self.collect(weights, v, clamp_len)))

    def weights(self, x: Segment, memory: Memory | None = None, **sight: Unpack[Sight]) -> Scores:
        """Softmax weights; each row sums to 1, or to 0 where the query sees no key."""
        context = join(memory, x)
        return self.weigh(x, context, causal(x, context, **sight), sight.get("clamp_len"))

    def forward(self, x: Segment, memory: Memory | None = None, **sight: Unpack[Sight]) -> Segment:
        context = join(memory, x)
        return self.attend(x, context, causal(x, context, **sight), sight.get("clamp_len"))


class Terms(NamedTuple):
    """The four terms of section 3.3, each divided by √d_head, before the mask."""

    a: Scores
    """(a) q_i · k_j: content to content."""
    b: Scores
    """(b) q_i · W_kR R_{i-j}: content to distance."""
    c: Scores
    """(c) u · k_j: a bias for what the key is."""
    d: Scores
    """(d) v · W_kR R_{i-j}: a bias for how far the key is."""


class XLAttention(nn.Module):
    """Attention whose positions are distances (Transformer-XL, section 3.3):

        score_ij = [(q_i + u) · k_j  +  (q_i + v) · W_kR R_{i-j}] / √d_head

    R is sinusoidal and not learned; W_kE makes keys of content, W_kR keys of distance;
    u and v are [head dim], and may be handed in to be shared with another layer.
    """

    def __init__(
        self,
        d_model: int,
        n_head: int,
        d_head: int,
        *,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        u: nn.Parameter | None = None,
        v: nn.Parameter | None = None,
    ) -> None:
        super().__init__()
        self.d_model, self.n_head, self.d_head = d_model, n_head, d_head
        self.W_q = Linear(d_model, n_head * d_head, bias=False)
        self.W_kE = Linear(d_model, n_head * d_head, bias=False)
        self.W_kR = Linear(d_model, n_head * d_head, bias=False)
        self.W_v = Linear(d_model, n_head * d_head, bias=False)
        self.W_o = Linear(n_head * d_head, d_model, bias=False)
        self.u = nn.Parameter(torch.zeros(n_head, d_head)) if u is None else u
        self.v = nn.Parameter(torch.zeros(n_head, d_head)) if v is None else v
        self.drop_positions = Dropout(dropout)
        self.drop = Dropout(attention_dropout)

    def projections(
        self, x: Segment, memory: Memory | None, clamp_len: int | None
    ) -> tuple[
        Float[Tensor, "batch head query dim"],
        Float[Tensor, "batch head key dim"],
        Float[Tensor, "head dist dim"],
    ]:
        """q from the segment, k = W_kE h~ from the context, r = W_kR R from the distances."""
        context = join(memory, x)
        away = distances(context.shape[1], clamp_len=clamp_len, device=x.device)
        R = self.drop_positions(sinusoids(away.to(x.dtype), self.d_model))
        r = rearrange(self.W_kR(R), "dist (head dim) -> head dist dim", head=self.n_head)
        return split(self.W_q(x), self.n_head), split(self.W_kE(context), self.n_head), r

    def terms(self, x: Segment, memory: Memory | None = None, *, clamp_len: int | None = None) -> Terms:
        """(a) (b) (c) (d) apart. Entries of the future are not masked and mean nothing."""
        q, k, r = self.projections(x, memory, clamp_len)
        u, v = (rearrange(bias, "head dim -> 1 head 1 dim").expand_as(q) for bias in (self.u, self.v))
        content = "batch head query dim, batch head key dim -> batch head query key"
        distance = "batch head query dim, head dist dim -> batch head query dist"
        return Terms(
            a=einsum(q, k, content) / sqrt(self.d_head),
            b=rel_shift(einsum(q, r, distance)) / sqrt(self.d_head),
            c=einsum(u, k, content) / sqrt(self.d_head),
            d=rel_shift(einsum(v, r, distance)) / sqrt(self.d_head),
        )

    def scores(self, x: Segment, memory: Memory | None = None, *, clamp_len: int | None = None) -> Scores:
        """The four terms in two products: (a) + (c) share the keys, (b) + (d) the distances."""
        q, k, r = self.projections(x, memory, clamp_len)
        u, v = (rearrange(bias, "head dim -> head 1 dim") for bias in (self.u, self.v))
        ac = einsum(q + u, k, "batch head query dim, batch head key dim -> batch head query key")
        bd = einsum(q + v, r, "batch head query dim, head dist dim -> batch head query dist")
        return (ac + rel_shift(bd)) / sqrt(self.d_head)

    def weights(self, x: Segment, memory: Memory | None = None, **sight: Unpack[Sight]) -> Scores:
        """Softmax weights; each row sums to 1, or to 0 where the query sees no key."""
        seen = causal(x, join(memory, x), **sight)
        return softmax_seen(self.scores(x, memory, clamp_len=sight.get("clamp_len")), seen)

    def forward(self, x: Segment, memory: Memory | None = None, **sight: Unpack[Sight]) -> Segment:
        v = split(self.W_v(join(memory, x)), self.n_head)
        return self.W_o(merge(average(self.drop(self.weights(x, memory, **sight)), v)))
