"""The three attentions that the paper compares. All are called alike:

    attention(x, memory, window=, clamp_len=, key_mask=)

Queries come from the segment x alone; keys and values come from memory and x together. So the queries are
the last n_query of the n_key tokens.

Names of the axes:

    batch head dim model
    query      the tokens of the segment, which the model calls ``seg``
    key        the tokens of memory and segment
    mem        the tokens of memory
    pos        tokens of a segment, of memory or of both joined; in ``position_encodings``, the positions or
               distances to encode
    dist       distances, from n_key-1 down to 0
    row        the rows of Shaw's tables
    heads_dim  head times dim

``memory`` is the memory of one layer here; the model's has ``layer`` as its first axis. In equations v_j is
the value of key j, while v without an index is one of Transformer-XL's two biases, u and v. In code the
values are ``values``.

Every attention keeps one promise: with the same options, and without dropout, the output for a query depends
only on [memory ∘ x] (memory and x joined along the tokens) and on the query's place in it. Where memory ends
and x begins makes no difference.

Training, evaluation and generation run the same equations in other modules, those of ``fast``. (Shaw's
attention always runs as it is written here. The others do so in the cases that ``fast.eager`` names.) To
step through this file, call a model that ``TransformerLM(config)`` returns, or ``fast.to_plain(model)``.
"""

from math import sqrt
from typing import NamedTuple, TypedDict, Unpack

import torch
from einops import einsum, pack, rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from minitxl.arguments import check_context, check_mask, check_segment, check_sizes, check_states
from minitxl.position_encodings import distances, sinusoids
from minitxl.relative_shift import rel_shift

Hidden = Float[Tensor, "batch query model"]
"""A vector for each token of a segment: what enters or leaves an attention or a layer."""
LayerMemory = Float[Tensor, "batch mem model"]
Context = Float[Tensor, "batch key model"]
Scores = Float[Tensor, "batch head query key"]
Weights = Float[Tensor, "batch head query key"]
Heads = Float[Tensor, "batch head query dim"]
"""A vector of each head for each query: the queries q, or the heads' outputs."""
Keys = Float[Tensor, "batch head key dim"]
Values = Float[Tensor, "batch head key dim"]
Mask = Bool[Tensor, "batch_or_1 query key"]
KeyMask = Bool[Tensor, "batch key"]


class AttentionOptions(TypedDict, total=False):
    """Keyword arguments of every attention: which keys a query may attend to, and the clamp of distances."""

    window: int | None
    """Greatest number of keys that a query attends to, the one at its own place included; None for all."""
    clamp_len: int | None
    """Keys at this distance or farther count as equally far.

    With None an attention doesn't clamp, and a model takes the clamp_len of its configuration. To call a
    model without the clamp of its configuration, pass a length beyond all distances.
    """
    key_mask: KeyMask | None
    """False hides a key from all queries of its batch element. The weights of the other keys sum to
    1, or to 0 if none is left."""


def attention_mask(
    n_query: int,
    n_key: int,
    *,
    window: int | None = None,
    key_mask: KeyMask | None = None,
    device: torch.device | None = None,
) -> Mask:
    """Return which keys each query may attend to: True where it may.

    The queries are the last n_query of the n_key tokens. A query at position i may attend to key j where
    0 ≤ i - j < window and ``key_mask`` is True for j.

    >>> attention_mask(2, 4, window=3).int()
    tensor([[[1, 1, 1, 0],
             [0, 1, 1, 1]]], dtype=torch.int32)
    """
    check_mask(n_query, n_key, window, key_mask)
    i = rearrange(torch.arange(n_key - n_query, n_key, device=device), "query -> query 1")
    j = rearrange(torch.arange(n_key, device=device), "key -> 1 key")
    near = (j <= i) & (i - j < (window or n_key))  # no distance is n_key or more
    mask = rearrange(near, "query key -> 1 query key")
    return mask if key_mask is None else mask & rearrange(key_mask, "batch key -> batch 1 key")


def segment_mask(
    x: Hidden,
    context: Context,
    *,
    window: int | None = None,
    clamp_len: int | None = None,
    key_mask: KeyMask | None = None,
) -> Mask:
    """Return ``attention_mask`` for a segment at the end of its context.

    ``clamp_len`` is accepted so that options can be passed whole; a mask doesn't use it.
    """
    return attention_mask(x.shape[1], context.shape[1], window=window, key_mask=key_mask, device=x.device)


def masked_softmax(scores: Scores, mask: Mask | None) -> Weights:
    """Return the softmax over the keys that the mask allows; a query with none gets zeros, not NaN."""
    if mask is None:
        return scores.softmax(dim=-1)
    forbidden = rearrange(~mask, "batch query key -> batch 1 query key")
    # Not -∞: for a query without a key the softmax would be NaN. The last masked_fill would hide it, but
    # PyTorch's anomaly detection would report it.
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(forbidden, lowest).softmax(dim=-1).masked_fill(forbidden, 0.0)


def concat_memory(memory: LayerMemory | None, x: Hidden) -> Float[Tensor, "batch key model"]:
    """Return the extended context h~ = [memory ∘ x] (Transformer-XL, section 3.2)."""
    return x if memory is None else pack([memory, x], "batch * model")[0]


def split_heads(
    projected: Float[Tensor, "batch pos heads_dim"], n_head: int
) -> Float[Tensor, "batch head pos dim"]:
    """Return the last axis cut into heads: head h has the entries h·dim … (h+1)·dim - 1."""
    return rearrange(projected, "batch pos (head dim) -> batch head pos dim", head=n_head)


def merge_heads(heads: Heads) -> Float[Tensor, "batch query heads_dim"]:
    """Return the heads concatenated: the inverse of ``split_heads``."""
    return rearrange(heads, "batch head query dim -> batch query (head dim)")


def content_scores(q: Heads, k: Keys) -> Scores:
    """Return q_i · k_j for each pair, not yet divided by √d_head."""
    return einsum(q, k, "batch head query dim, batch head key dim -> batch head query key")


def distance_scores(q: Heads, r: Float[Tensor, "head dist dim"]) -> Scores:
    """Return q_i · r_{i-j} for each pair: a product for each distance, shifted to its key (Appendix B)."""
    return rel_shift(einsum(q, r, "batch head query dim, head dist dim -> batch head query dist"))


def weighted_sum(weights: Weights, values: Values) -> Heads:
    """Return Σ_j α_ij v_j for each query."""
    return einsum(weights, values, "batch head query key, batch head key dim -> batch head query dim")


class MultiHeadAttention(nn.Module):
    """Σ_j softmax_j(q_i · k_j / √d_head) v_j, heads concatenated, times W_o (Vaswani et al., section 3.2).

    Two pairs of methods compute it. ``context_output`` and ``context_weights`` take any context
    and any mask. ``forward`` and ``attention_weights`` are the language model's: the context is memory and
    segment, and the mask is causal. There are no distances here, so ``clamp_len`` changes nothing: position
    encodings, if any, are in x already.
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

    def context_weights(self, x: Hidden, context: Context | None = None, mask: Mask | None = None) -> Weights:
        """Return the softmax weights over any context; without one, the context is x.

        ``mask`` is True where a query may attend to a key, and is the same for all heads.
        """
        check_context(x, context, mask, weight=self.W_q.weight)
        q = split_heads(self.W_q(x), self.n_head)
        k = split_heads(self.W_k(x if context is None else context), self.n_head)
        return masked_softmax(content_scores(q, k) / sqrt(self.d_head), mask)

    def context_output(self, x: Hidden, context: Context | None = None, mask: Mask | None = None) -> Hidden:
        """Return the weighted sums of the values, merged, times W_o. See ``context_weights``."""
        weights = self.attention_dropout(self.context_weights(x, context, mask))
        values = split_heads(self.W_v(x if context is None else context), self.n_head)
        return self.W_o(merge_heads(weighted_sum(weights, values)))

    def attention_weights(
        self, x: Hidden, memory: LayerMemory | None = None, **options: Unpack[AttentionOptions]
    ) -> Weights:
        """Return the causal softmax weights; those of a query sum to 1, or to 0 if it has no key."""
        check_segment(x, memory, options, weight=self.W_q.weight)
        context = concat_memory(memory, x)
        return self.context_weights(x, context, segment_mask(x, context, **options))

    def forward(
        self, x: Hidden, memory: LayerMemory | None = None, **options: Unpack[AttentionOptions]
    ) -> Hidden:
        """Return the attention's output for each query of the segment."""
        check_segment(x, memory, options, weight=self.W_q.weight)
        context = concat_memory(memory, x)
        return self.context_output(x, context, segment_mask(x, context, **options))


class ShawAttention(nn.Module):
    """Attention with a learned vector for each distance (Shaw et al., equations 3 and 4):

        e_ij = q_i · (k_j + a^K_ij) / √d_head   (4)        z_i = Σ_j α_ij (v_j + a^V_ij)   (3)

    a^K is added to keys and a^V to values. Shaw et al. count j - i, the negative of our distance, and clip it
    at ``max_distance``, which they call k. So each table has 2 · max_distance + 1 rows, which all heads
    share: the vector of the pair ij is row max_distance + clip(j - i, -max_distance, max_distance). (With a
    smaller ``clamp_len``, j - i is clipped at that.) The causal language model uses only rows 0 …
    max_distance, which belong to the pairs with j ≤ i. ``context_output`` without a mask is bidirectional and
    may use all.

    No tensor [query key dim] is built: q is multiplied with each row of a_K once, and for each pair the
    product with the pair's row is picked out. For the values, a query's weights are first summed over the
    keys that share a row of a_V. Then these sums, one for each row, are multiplied with a_V.
    """

    def __init__(
        self, d_model: int, n_head: int, d_head: int, *, max_distance: int, attention_dropout: float = 0.0
    ) -> None:
        super().__init__()
        check_sizes(d_model, n_head, d_head, max_distance=max_distance, attention_dropout=attention_dropout)
        self.n_head, self.d_head, self.max_distance = n_head, d_head, max_distance
        self.W_q = nn.Linear(d_model, n_head * d_head, bias=False)
        self.W_k = nn.Linear(d_model, n_head * d_head, bias=False)
        self.W_v = nn.Linear(d_model, n_head * d_head, bias=False)
        self.W_o = nn.Linear(n_head * d_head, d_model, bias=False)
        self.a_K = nn.Parameter(torch.zeros(2 * max_distance + 1, d_head))
        self.a_V = nn.Parameter(torch.zeros(2 * max_distance + 1, d_head))
        self.attention_dropout = nn.Dropout(attention_dropout)

    def table_rows(self, like: Scores, clamp_len: int | None) -> Int[Tensor, "batch head query key"]:
        """Return the row of each pair in a_K and a_V, shaped as ``like``; the queries are the last tokens."""
        n_query, n_key = like.shape[-2:]
        i = rearrange(torch.arange(n_key - n_query, n_key, device=like.device), "query -> query 1")
        j = rearrange(torch.arange(n_key, device=like.device), "key -> 1 key")
        farthest = self.max_distance if clamp_len is None else min(self.max_distance, clamp_len)
        return (self.max_distance + (j - i).clamp(-farthest, farthest)).expand_as(like)

    def shaw_weights(self, q: Heads, k: Keys, mask: Mask | None, clamp_len: int | None) -> Weights:
        """Return α, the softmax of equation 4; the queries are the last tokens."""
        content = content_scores(q, k)  # q_i · k_j
        row_scores = einsum(q, self.a_K, "batch head query dim, row dim -> batch head query row")
        pair_scores = row_scores.gather(-1, self.table_rows(content, clamp_len))  # q_i · a^K_ij
        return masked_softmax((content + pair_scores) / sqrt(self.d_head), mask)

    def shaw_values(self, weights: Weights, values: Values, clamp_len: int | None) -> Heads:
        """Return z of equation 3."""
        zeros = weights.new_zeros(*weights.shape[:-1], len(self.a_V))
        row_weights = zeros.scatter_add(-1, self.table_rows(weights, clamp_len), weights)
        from_table = einsum(row_weights, self.a_V, "batch head query row, row dim -> batch head query dim")
        return weighted_sum(weights, values) + from_table  # Σ_j α_ij v_j + Σ_j α_ij a^V_ij

    def context_weights(
        self,
        x: Hidden,
        context: Context | None = None,
        mask: Mask | None = None,
        clamp_len: int | None = None,
    ) -> Weights:
        """Return the softmax weights over the context, which must end with x; without one, over x.

        ``mask`` is True where a query may attend to a key, and is the same for all heads.
        """
        check_context(x, context, mask, clamp_len, weight=self.W_q.weight, ends_with_x=True)
        q = split_heads(self.W_q(x), self.n_head)
        k = split_heads(self.W_k(x if context is None else context), self.n_head)
        return self.shaw_weights(q, k, mask, clamp_len)

    def context_output(
        self,
        x: Hidden,
        context: Context | None = None,
        mask: Mask | None = None,
        clamp_len: int | None = None,
    ) -> Hidden:
        """Return the heads' z, merged, times W_o. See ``context_weights``."""
        weights = self.attention_dropout(self.context_weights(x, context, mask, clamp_len))
        values = split_heads(self.W_v(x if context is None else context), self.n_head)
        return self.W_o(merge_heads(self.shaw_values(weights, values, clamp_len)))

    def attention_weights(
        self, x: Hidden, memory: LayerMemory | None = None, **options: Unpack[AttentionOptions]
    ) -> Weights:
        """Return the causal softmax weights; those of a query sum to 1, or to 0 if it has no key."""
        check_segment(x, memory, options, weight=self.W_q.weight)
        context = concat_memory(memory, x)
        return self.context_weights(x, context, segment_mask(x, context, **options), options.get("clamp_len"))

    def forward(
        self, x: Hidden, memory: LayerMemory | None = None, **options: Unpack[AttentionOptions]
    ) -> Hidden:
        """Return the attention's output for each query of the segment."""
        check_segment(x, memory, options, weight=self.W_q.weight)
        context = concat_memory(memory, x)
        return self.context_output(x, context, segment_mask(x, context, **options), options.get("clamp_len"))


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

    Where it comes from: with position encodings U added to the input, a score is the product of W_q (x_i +
    U_i) and W_k (x_j + U_j). Multiplied out, it has four terms. The paper makes three changes. The key's
    encoding U_j becomes R_{i-j}, the row of sinusoids of the distance. W_q U_i, which depends on the
    query's position, becomes a learned vector that is the same for every query: u in the product with
    content, v in the product with distance. And keys of content and keys of distance get a matrix each,
    W_kE and W_kR.

    u and v have the axes [head dim], and may be handed in to be shared with another layer.
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
        check_sizes(d_model, n_head, d_head, dropout=dropout, attention_dropout=attention_dropout, u=u, v=v)
        self.d_model, self.n_head, self.d_head = d_model, n_head, d_head
        self.W_q = nn.Linear(d_model, n_head * d_head, bias=False)
        self.W_kE = nn.Linear(d_model, n_head * d_head, bias=False)
        self.W_kR = nn.Linear(d_model, n_head * d_head, bias=False)
        self.W_v = nn.Linear(d_model, n_head * d_head, bias=False)
        self.W_o = nn.Linear(n_head * d_head, d_model, bias=False)
        self.u = nn.Parameter(torch.zeros(n_head, d_head)) if u is None else u
        self.v = nn.Parameter(torch.zeros(n_head, d_head)) if v is None else v
        self.distance_dropout = nn.Dropout(dropout)
        self.attention_dropout = nn.Dropout(attention_dropout)

    def queries_and_keys(
        self, x: Hidden, memory: LayerMemory | None, clamp_len: int | None
    ) -> tuple[Heads, Keys, Float[Tensor, "head dist dim"]]:
        """Return the queries q, the keys of content k = W_kE h~, and the keys of distance r = W_kR R."""
        check_states(self.W_q.weight, x=x, memory=memory)
        context = concat_memory(memory, x)
        dist = distances(context.shape[1], clamp_len=clamp_len, device=x.device)
        R = self.distance_dropout(sinusoids(dist, self.d_model, dtype=x.dtype))
        r = rearrange(self.W_kR(R), "dist (head dim) -> head dist dim", head=self.n_head)
        return split_heads(self.W_q(x), self.n_head), split_heads(self.W_kE(context), self.n_head), r

    def terms(self, x: Hidden, memory: LayerMemory | None = None, *, clamp_len: int | None = None) -> Terms:
        """Return (a) (b) (c) (d) apart. Nothing is masked; where j > i, (b) and (d) hold no valid numbers."""
        q, k, r = self.queries_and_keys(x, memory, clamp_len)
        # In (c) and (d) the biases u and v take the place of q, so they get its shape.
        u, v = (rearrange(bias, "head dim -> head 1 dim").expand_as(q) for bias in (self.u, self.v))
        scale = sqrt(self.d_head)
        return Terms(
            a=content_scores(q, k) / scale,
            b=distance_scores(q, r) / scale,
            c=content_scores(u, k) / scale,
            d=distance_scores(v, r) / scale,
        )

    def scores(self, x: Hidden, memory: LayerMemory | None = None, *, clamp_len: int | None = None) -> Scores:
        """Return the sum of the four terms: (a) + (c) = (q + u) · k, and (b) + (d) = (q + v) · r."""
        q, k, r = self.queries_and_keys(x, memory, clamp_len)
        u, v = (rearrange(bias, "head dim -> head 1 dim") for bias in (self.u, self.v))
        return (content_scores(q + u, k) + distance_scores(q + v, r)) / sqrt(self.d_head)

    def attention_weights(
        self, x: Hidden, memory: LayerMemory | None = None, **options: Unpack[AttentionOptions]
    ) -> Weights:
        """Return the causal softmax weights; those of a query sum to 1, or to 0 if it has no key."""
        check_segment(x, memory, options, weight=self.W_q.weight)
        mask = segment_mask(x, concat_memory(memory, x), **options)
        return masked_softmax(self.scores(x, memory, clamp_len=options.get("clamp_len")), mask)

    def forward(
        self, x: Hidden, memory: LayerMemory | None = None, **options: Unpack[AttentionOptions]
    ) -> Hidden:
        """Return the attention's output for each query of the segment."""
        weights = self.attention_dropout(self.attention_weights(x, memory, **options))
        values = split_heads(self.W_v(concat_memory(memory, x)), self.n_head)
        return self.W_o(merge_heads(weighted_sum(weights, values)))
