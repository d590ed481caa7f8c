"""The attentions, one signature: ``attention(x, memory, window=, clamp_len=, keep=)``.

Queries come from the segment x alone; keys and values from memory and x together.
Axes: batch query key mem dist head dim model, where ``dist`` runs key-1 … 0.
"""

from math import sqrt
from typing import NamedTuple, TypedDict, Unpack

import torch
from einops import einsum, pack, rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn

from minitxl.positions import distances, rel_shift, sinusoids

Segment = Float[Tensor, "batch query model"]
Memory = Float[Tensor, "batch mem model"]
Scores = Float[Tensor, "batch head query key"]
Seen = Bool[Tensor, "batch_or_1 1 query key"]
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
    seen = rearrange(near, "query key -> 1 1 query key")
    return seen if keep is None else seen & rearrange(keep, "batch key -> batch 1 1 key")


def softmax_seen(scores: Scores, seen: Seen) -> Scores:
    """Softmax over the keys that are seen; a query that sees none gets zeros, not NaN."""
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~seen, lowest).softmax(dim=-1).masked_fill(~seen, 0.0)


def join(memory: Memory | None, x: Segment) -> Float[Tensor, "batch key model"]:
    """The extended context h~ = [memory ∘ x] (section 3.2)."""
    return x if memory is None else pack([memory, x], "batch * model")[0]


def split(projected: Float[Tensor, "batch pos inner"], n_head: int) -> Float[Tensor, "batch head pos dim"]:
    return rearrange(projected, "batch pos (head dim) -> batch head pos dim", head=n_head)


def average(
    weights: Scores, values: Float[Tensor, "batch head key dim"]
) -> Float[Tensor, "batch query inner"]:
    """Each query's weighted mean of the values, its heads side by side."""
    heads = einsum(weights, values, "batch head query key, batch head key dim -> batch head query dim")
    return rearrange(heads, "batch head query dim -> batch query (head dim)")


class MultiHeadAttention(nn.Module):
    """softmax(q_i · k_j / √d_head) v_j (Vaswani et al., section 3.2).

    It knows no positions: they are in x or nowhere, so ``clamp_len`` changes nothing here.
    """

    def __init__(self, d_model: int, n_head: int, d_head: int, *, attention_dropout: float = 0.0) -> None:
        super().__init__()
        self.n_head, self.d_head = n_head, d_head
        self.W_q = nn.Linear(d_model, n_head * d_head, bias=False)
        self.W_k = nn.Linear(d_model, n_head * d_head, bias=False)
        self.W_v = nn.Linear(d_model, n_head * d_head, bias=False)
        self.W_o = nn.Linear(n_head * d_head, d_model, bias=False)
        self.drop = nn.Dropout(attention_dropout)

    def weights(
        self,
        x: Segment,
        memory: Memory | None = None,
        *,
        window: int | None = None,
        clamp_len: int | None = None,
        keep: Keep | None = None,
    ) -> Scores:
        """Softmax weights; each row sums to 1, or to 0 where the query sees no key."""
        q = split(self.W_q(x), self.n_head)
        k = split(self.W_k(join(memory, x)), self.n_head)
        scores = einsum(q, k, "batch head query dim, batch head key dim -> batch head query key")
        seen = visible(*scores.shape[-2:], window=window, keep=keep, device=x.device)
        return softmax_seen(scores / sqrt(self.d_head), seen)

    def forward(self, x: Segment, memory: Memory | None = None, **sight: Unpack[Sight]) -> Segment:
        v = split(self.W_v(join(memory, x)), self.n_head)
        return self.W_o(average(self.drop(self.weights(x, memory, **sight)), v))


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
        self.W_q = nn.Linear(d_model, n_head * d_head, bias=False)
        self.W_kE = nn.Linear(d_model, n_head * d_head, bias=False)
        self.W_kR = nn.Linear(d_model, n_head * d_head, bias=False)
        self.W_v = nn.Linear(d_model, n_head * d_head, bias=False)
        self.W_o = nn.Linear(n_head * d_head, d_model, bias=False)
        self.u = nn.Parameter(torch.zeros(n_head, d_head)) if u is None else u
        self.v = nn.Parameter(torch.zeros(n_head, d_head)) if v is None else v
        self.drop_positions = nn.Dropout(dropout)
        self.drop = nn.Dropout(attention_dropout)

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

    def weights(
        self,
        x: Segment,
        memory: Memory | None = None,
        *,
        window: int | None = None,
        clamp_len: int | None = None,
        keep: Keep | None = None,
    ) -> Scores:
        """Softmax weights; each row sums to 1, or to 0 where the query sees no key."""
        scores = self.scores(x, memory, clamp_len=clamp_len)
        seen = visible(*scores.shape[-2:], window=window, keep=keep, device=x.device)
        return softmax_seen(scores, seen)

    def forward(self, x: Segment, memory: Memory | None = None, **sight: Unpack[Sight]) -> Segment:
        v = split(self.W_v(join(memory, x)), self.n_head)
        return self.W_o(average(self.drop(self.weights(x, memory, **sight)), v))
