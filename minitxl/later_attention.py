"""The attentions that came after: rotary, ALiBi's and T5's positions, called as the classes of ``attention``.

Each reads a distance i - j as Transformer-XL does, so each can use memory; they differ in what a
distance does to a score. All three leave the values alone.

    rotary    q_i · R_{j-i} k_j / √d_head            R_p turns pairs of coordinates by p times an angle
    ALiBi     q_i · k_j / √d_head - m_h (i - j)      m_h is a constant of head h
    T5        q_i · k_j / √d_head + b_h(i - j)       b_h is a learned table of head h, by buckets of distances

R_p is a rotation here. In ``attention``, R_{i-j} is a row of sinusoids.

Compared with Transformer-XL's four terms, rotary has (a) alone, turned by the distance; ALiBi and T5 have
(a), and in place of (d) a number for each head and distance.

How to add an attention of your own stands at the end of this file.
"""

from math import log, sqrt
from typing import Unpack

import torch
from einops import pack, rearrange, repeat
from jaxtyping import Float, Int, Num
from torch import Tensor, nn

from minitxl.arguments import check_rank, check_segment, check_sizes, check_vectors
from minitxl.attention import (
    AttentionOptions,
    Heads,
    Hidden,
    Keys,
    LayerMemory,
    Scores,
    Weights,
    concat_memory,
    content_scores,
    masked_softmax,
    merge_heads,
    segment_mask,
    split_heads,
    weighted_sum,
)
from minitxl.fields import SIZES, check, check_buckets
from minitxl.position_encodings import distances, sinusoids
from minitxl.relative_shift import rel_shift

Bias = Float[Tensor, "head dist"]
Vectors = Float[Tensor, "batch head pos dim"]
"""Queries or keys, one for each position."""


class LaterAttention(nn.Module):
    """Σ_j softmax_j(score_ij) v_j, causal, over memory and segment; a subclass says what a score is.

    Its method ``scores`` gets queries and keys, while ``scores`` of ``XLAttention`` gets states. The queries
    are the last n_query of the n_key tokens. A score may depend on positions only through i - j.
    """

    def __init__(self, d_model: int, n_head: int, d_head: int, *, attention_dropout: float = 0.0) -> None:
        super().__init__()
        check_sizes(d_model, n_head, d_head, attention_dropout=attention_dropout)
        self.n_head, self.d_head = n_head, d_head
        self.W_q = nn.Linear(d_model, n_head * d_head, bias=False)
        self.W_k = nn.Linear(d_model, n_head * d_head, bias=False)
        self.W_v = nn.Linear(d_model, n_head * d_head, bias=False)
        self.W_o = nn.Linear(n_head * d_head, d_model, bias=False)
        self.attention_dropout = nn.Dropout(attention_dropout)

    def scores(self, q: Heads, k: Keys, clamp_len: int | None) -> Scores:
        """Return the scores before the mask; products are divided by √d_head, and biases are not."""
        raise NotImplementedError

    def attention_weights(
        self, x: Hidden, memory: LayerMemory | None = None, **options: Unpack[AttentionOptions]
    ) -> Weights:
        """Return the causal softmax weights; those of a query sum to 1, or to 0 if it has no key."""
        check_segment(x, memory, options, weight=self.W_q.weight)
        context = concat_memory(memory, x)
        q, k = split_heads(self.W_q(x), self.n_head), split_heads(self.W_k(context), self.n_head)
        scores = self.scores(q, k, options.get("clamp_len"))
        return masked_softmax(scores, segment_mask(x, context, **options))

    def forward(
        self, x: Hidden, memory: LayerMemory | None = None, **options: Unpack[AttentionOptions]
    ) -> Hidden:
        """Return the attention's output for each query of the segment."""
        weights = self.attention_dropout(self.attention_weights(x, memory, **options))
        values = split_heads(self.W_v(concat_memory(memory, x)), self.n_head)
        return self.W_o(merge_heads(weighted_sum(weights, values)))


def rotate(x: Vectors, positions: Num[Tensor, " pos"], base: float = 10000.0) -> Vectors:
    """Return the vector at each position p, turned by R_p.

    In a vector with the coordinates y_0 … y_{d_head-1}, y_m and y_{m+n} with n = d_head / 2 are a pair, which
    turns by the angle p ω_m:

        y_m      ->  y_m cos(p ω_m) - y_{m+n} sin(p ω_m)
        y_{m+n}  ->  y_m sin(p ω_m) + y_{m+n} cos(p ω_m)

    The frequencies are those of ``sinusoids``, ω_m = base^(-2m / d_head).

    A position need not be a whole number.
    """
    check_vectors(x, positions)
    sin, cos = sin_and_cos(positions, x.shape[-1], x.dtype, base)
    low, high = rearrange(x, "batch head pos (two half) -> two batch head pos half", two=2)
    return pack([low * cos - high * sin, low * sin + high * cos], "batch head pos *")[0]


def sin_and_cos(
    positions: Num[Tensor, " pos"], d_head: int, dtype: torch.dtype, base: float = 10000.0
) -> Float[Tensor, "two pos half"]:
    """Return sin(p ω_m) and cos(p ω_m) of each position p and pair m.

    The angles are computed in float64: in float32 they would be off by thousandths at position 100,000.
    """
    encodings = sinusoids(positions.double(), d_head, base=base).to(dtype)
    return rearrange(encodings, "pos (two half) -> two pos half", two=2)


class RotaryAttention(LaterAttention):
    """Attention whose queries and keys are rotated by their positions (Su et al. 2021, equation 16):

        score_ij = (R_i q_i) · (R_j k_j) / √d_head = q_i · R_{j-i} k_j / √d_head

    A product of vectors doesn't change when both turn by the same angle. So only j - i counts, and a
    position may be counted from any token: a memory in front of the segment needs no rule of its own.
    """

    def __init__(self, d_model: int, n_head: int, d_head: int, *, attention_dropout: float = 0.0) -> None:
        super().__init__(d_model, n_head, d_head, attention_dropout=attention_dropout)
        if d_head % 2:
            raise ValueError(f"d_head must be even, since rotary positions turn pairs, got {d_head}")

    def scores(self, q: Heads, k: Keys, clamp_len: int | None) -> Scores:
        """Return the products of rotated queries and keys.

        A distance above ``clamp_len`` counts as ``clamp_len``. For a key beyond c = ``clamp_len`` the query
        turns by c, and the key does not turn: q_i · R_{-c} k_j = (R_c q_i) · k_j.
        """
        n_query, n_key = q.shape[2], k.shape[2]
        position = torch.arange(n_key, device=q.device)
        scores = content_scores(rotate(q, position[n_key - n_query :]), rotate(k, position))
        if clamp_len is not None:
            i, j = rearrange(position[n_key - n_query :], "query -> query 1"), position
            far = content_scores(rotate(q, torch.full((n_query,), clamp_len, device=q.device)), k)
            scores = torch.where(i - j > clamp_len, far, scores)
        return scores / sqrt(self.d_head)


class BiasedAttention(LaterAttention):
    """Attention that adds to each product a bias per head and distance: ``distance_bias`` of a subclass."""

    def distance_bias(self, dist: Int[Tensor, " dist"]) -> Bias:
        """Return each head's bias for each distance."""
        raise NotImplementedError

    def scores(self, q: Heads, k: Keys, clamp_len: int | None) -> Scores:
        """Return q_i · k_j / √d_head plus the bias of i - j.

        The biases of all distances are computed once, and shifted to their keys.
        """
        bias = self.distance_bias(distances(k.shape[2], clamp_len=clamp_len, device=k.device)).to(k.dtype)
        by_query = repeat(bias, "head dist -> head query dist", query=q.shape[2])
        return content_scores(q, k) / sqrt(self.d_head) + rel_shift(by_query)


def slopes(n_head: int) -> list[float]:
    """Return ALiBi's slope of each head: 2^(-8/n), 2^(-16/n) … 2^-8 for n heads.

    If n isn't a power of two, the slopes for the largest power of two below n come first. The others are
    every second slope for twice that power, until there are n, as in the authors' code.

    >>> slopes(8)[:3], slopes(3)
    ([0.5, 0.25, 0.125], [0.0625, 0.00390625, 0.25])
    """
    check("n_head", n_head, SIZES["n_head"])
    power = 2 ** (n_head.bit_length() - 1)
    first = [2.0 ** (-8 * (h + 1) / power) for h in range(power)]
    twice_as_many = [2.0 ** (-8 * (h + 1) / (2 * power)) for h in range(2 * power)]
    return first + twice_as_many[::2][: n_head - power]


class ALiBiAttention(BiasedAttention):
    """Attention that subtracts m_h (i - j) from each scaled product (Press et al. 2022, section 3).

        score_ij = q_i · k_j / √d_head - m_h (i - j)

    m_h is the constant of head h, from ``slopes(n_head)``: nothing about positions is learned.
    """

    slope: Float[Tensor, " head"]

    def __init__(self, d_model: int, n_head: int, d_head: int, *, attention_dropout: float = 0.0) -> None:
        super().__init__(d_model, n_head, d_head, attention_dropout=attention_dropout)
        self.register_buffer("slope", torch.tensor(slopes(n_head)), persistent=False)

    def distance_bias(self, dist: Int[Tensor, " dist"]) -> Bias:
        """Return -m_h times each distance."""
        return -rearrange(self.slope, "head -> head 1") * dist


def buckets(dist: Int[Tensor, " dist"], n_bucket: int, bucket_distance: int) -> Int[Tensor, " dist"]:
    """Return T5's bucket of each distance, as ``T5Attention`` describes them.

    >>> buckets(torch.arange(12), n_bucket=6, bucket_distance=10).tolist()
    [0, 1, 2, 3, 3, 4, 4, 5, 5, 5, 5, 5]
    """
    dist = check_rank("dist", dist, "dist")
    for name, value in (("n_bucket", n_bucket), ("bucket_distance", bucket_distance)):
        check(name, value, SIZES[name])
    check_buckets(n_bucket, bucket_distance)
    exact = n_bucket // 2  # distances 0 … exact - 1 have a bucket each
    growth = (dist.clamp(min=exact).double() / exact).log() / log(bucket_distance / exact)
    logarithmic = exact + (growth * (n_bucket - exact)).long()
    return torch.where(dist < exact, dist, logarithmic.clamp(max=n_bucket - 1))


class T5Attention(BiasedAttention):
    """Attention with a learned bias per head and distance bucket (Raffel et al. 2020, section 2.1).

        score_ij = q_i · k_j / √d_head + b_h(bucket of i - j)

    The first half of the buckets hold one distance each. Beyond them a bucket's number grows like the
    logarithm of the distance, so buckets grow wider. The last bucket holds all distances from
    ``bucket_distance`` on, and as a rule some below it. (If ``bucket_distance`` is hardly more than
    ``n_bucket`` / 2, some buckets stay empty.) T5 itself does not divide by √d_head: its W_q absorbs it.
    All layers of T5 share one table. So ``table``, [head bucket], may be handed in to be shared.
    """

    def __init__(
        self,
        d_model: int,
        n_head: int,
        d_head: int,
        n_bucket: int = 32,
        bucket_distance: int = 128,
        *,
        attention_dropout: float = 0.0,
        table: nn.Parameter | None = None,
    ) -> None:
        super().__init__(d_model, n_head, d_head, attention_dropout=attention_dropout)
        check_sizes(d_model, n_head, d_head, n_bucket=n_bucket, bucket_distance=bucket_distance, table=table)
        self.n_bucket, self.bucket_distance = n_bucket, bucket_distance
        self.table = nn.Parameter(torch.zeros(n_head, n_bucket)) if table is None else table

    def distance_bias(self, dist: Int[Tensor, " dist"]) -> Bias:
        """Return each head's bias for the bucket of each distance."""
        return self.table[:, buckets(dist, self.n_bucket, self.bucket_distance)]


# To add an attention of your own, the short way is a subclass of ``LaterAttention`` with the method
# ``scores``, or of ``BiasedAttention`` with the method ``distance_bias``. Another class will do too. It needs
# ``n_head`` and the matrices ``W_q``, ``W_k``, ``W_v`` and ``W_o``. Its call and its method
# ``attention_weights`` take (x, memory, window=, clamp_len=, key_mask=), as in ``attention``. Then enter it
# in each of these places:
#
#   ModelConfig.attention             its name, which is a setting and a flag of the command line
#   model.Attention, new_attention    its class, and how it is built from the configuration
#   model.GAUSSIAN                    new names of parameters, drawn with standard deviation 0.02
#   training.optimizer.BIASES         those new parameters with two axes or more that get no weight decay
#   fast.kv_cache.heads.FUNCTIONS     a function (attention, q, k, values, r, **options) that returns the
#                                     heads from a cache's keys and values. q is not yet divided by √d_head; r
#                                     holds XL's distances, and other classes ignore it. If your class is
#                                     a subclass of RotaryAttention, q and k are already rotated, unless
#                                     the options have a ``clamp_len``. ``biased_heads`` there serves each
#                                     subclass of BiasedAttention. For any other subclass of LaterAttention,
#                                     write a function whose body is the last line of ``rotary_heads``.
#                                     Without an entry, cached evaluation, validation and generation raise
#                                     an error
#   analysis.flops.PRODUCTS           how many dot products it takes for each pair of query and key
#   fast.convert.FAST                 a faster class, if there is one, for this very class
#
# A new setting is a field of ModelConfig, with its range in ``fields.SIZES``;
# ``commands.train_flags.check_effect`` refuses it where it would do nothing. The cache holds keys and values
# [batch head key dim] for all ``n_head`` heads, so query heads can't share a head of keys and values
# (grouped-query attention). The cache projects keys with ``W_k``, or with ``W_kE`` in XL.
#
# In tests/models.py, enter it in ``ENCODINGS`` and ``CLASSES``, by which the shared tests find it. In
# tests/paper/reference.py, write its equation as loops for ``ATTENTIONS``, with which they compare it. In
# tests/test_fields.py, add its name to the sentence that lists all.
