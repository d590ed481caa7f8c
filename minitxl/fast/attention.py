"""The attentions of a fast model: those of ``attention`` and ``later_attention`` with another ``forward``.

Each class keeps the parameters and the other methods of the class it stands for. ``dot_product_attention``
and ``relative_attention`` work on projected heads; the key-value cache calls them too.
Shaw's attention has no faster form.
"""

from typing import Unpack

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from minitxl.arguments import check_segment
from minitxl.attention import (
    AttentionOptions,
    Heads,
    Hidden,
    KeyMask,
    Keys,
    LayerMemory,
    Mask,
    MultiHeadAttention,
    Values,
    XLAttention,
    attention_mask,
    distance_scores,
    merge_heads,
    split_heads,
)
from minitxl.fast import cpu_attention
from minitxl.fast.dropout import FastDropout
from minitxl.fast.eager import is_eager
from minitxl.fast.inputs import (
    AttentionInputs,
    bias_as_distances,
    biased_queries,
    keys_or_values,
    project_distances,
)
from minitxl.fast.linear import apply_linear
from minitxl.fast.rotary import turn
from minitxl.later_attention import (
    ALiBiAttention,
    BiasedAttention,
    LaterAttention,
    RotaryAttention,
    T5Attention,
    sin_and_cos,
)

WORTH_BLOCKS = 2**15
"""At this many scores a head, or more, our blocks take less time on a CPU than PyTorch's attention."""


class FastMultiHeadAttention(MultiHeadAttention):
    """``MultiHeadAttention`` by ``dot_product_attention``."""

    def forward(
        self, x: Hidden, memory: LayerMemory | None = None, **options: Unpack[AttentionOptions]
    ) -> Hidden:
        """Return the attention's output for each query of the segment."""
        if not _is_fast(self.attention_dropout, x):
            return super().forward(x, memory, **options)
        check_segment(x, memory, options, weight=self.W_q.weight)
        return _attend(self, *_queries_keys_values(self, self.W_k, x, memory), options)


class FastXLAttention(XLAttention):
    """``XLAttention`` in blocks of queries on a CPU, by PyTorch's attention on a GPU."""

    def forward(
        self, x: Hidden, memory: LayerMemory | None = None, **options: Unpack[AttentionOptions]
    ) -> Hidden:
        """Return the attention's output for each query of the segment."""
        if not _is_fast(self.attention_dropout, x):
            return super().forward(x, memory, **options)
        check_segment(x, memory, options, weight=self.W_q.weight)
        q, k, values = _queries_keys_values(self, self.W_kE, x, memory)
        r = project_distances(self, k.shape[2], x, options.get("clamp_len"))
        rate = self.attention_dropout.p if self.training else 0.0
        q_plus_u, q_plus_v = biased_queries(self, q)
        inputs = AttentionInputs(
            q_plus_u, q_plus_v, k, values, r, rate, options.get("window"), options.get("key_mask")
        )
        return self.W_o(merge_heads(relative_attention(inputs)))


class FastRotaryAttention(RotaryAttention):
    """``RotaryAttention`` by ``dot_product_attention``; with a clamp_len, by its own formulas."""

    def forward(
        self, x: Hidden, memory: LayerMemory | None = None, **options: Unpack[AttentionOptions]
    ) -> Hidden:
        """Return the attention's output for each query of the segment."""
        if not _is_fast(self.attention_dropout, x) or options.get("clamp_len") is not None:
            return super().forward(x, memory, **options)
        check_segment(x, memory, options, weight=self.W_q.weight)
        q, k, values = _queries_keys_values(self, self.W_k, x, memory)
        n_query, n_key = q.shape[2], k.shape[2]
        sin, cos = sin_and_cos(torch.arange(n_key, device=x.device), self.d_head, x.dtype)
        q = turn(q, sin[n_key - n_query :], cos[n_key - n_query :])
        return _attend(self, q, turn(k, sin, cos), values, options)


class _FastBiasedAttention(BiasedAttention):
    """A bias for head and distance as relative attention with q_plus_v = 1 and r = the bias."""

    def forward(
        self, x: Hidden, memory: LayerMemory | None = None, **options: Unpack[AttentionOptions]
    ) -> Hidden:
        """Return the attention's output for each query of the segment."""
        if not _is_fast(self.attention_dropout, x):
            return super().forward(x, memory, **options)
        check_segment(x, memory, options, weight=self.W_q.weight)
        q, k, values = _queries_keys_values(self, self.W_k, x, memory)
        rate = self.attention_dropout.p if self.training else 0.0
        return self.W_o(
            merge_heads(relative_attention(bias_as_distances(self, q, k, values, rate=rate, **options)))
        )


class FastALiBiAttention(_FastBiasedAttention, ALiBiAttention):
    """``ALiBiAttention`` as relative attention."""


class FastT5Attention(_FastBiasedAttention, T5Attention):
    """``T5Attention`` as relative attention."""


def _is_fast(dropout: nn.Dropout, x: Hidden) -> bool:
    """True where PyTorch runs eagerly, and the dropout is the usual one, not a user's subclass."""
    return type(dropout) is FastDropout and isinstance(x, Tensor) and is_eager(x)


def _queries_keys_values(
    attention: MultiHeadAttention | XLAttention | LaterAttention,
    W_k: nn.Linear,
    x: Hidden,
    memory: LayerMemory | None,
) -> tuple[Heads, Keys, Values]:
    """Return queries of the segment, keys and values of memory and segment."""
    memory, n_head = x[:, :0] if memory is None else memory, attention.n_head
    q = split_heads(apply_linear(attention.W_q, x), n_head)
    values = keys_or_values(attention.W_v, memory, x, n_head)
    return q, keys_or_values(W_k, memory, x, n_head), values


def _attend(
    attention: MultiHeadAttention | RotaryAttention,
    q: Heads,
    k: Keys,
    values: Values,
    options: AttentionOptions,
) -> Hidden:
    """Return the attention's output by ``dot_product_attention``."""
    rate = attention.attention_dropout.p if attention.training else 0.0
    window, key_mask = options.get("window"), options.get("key_mask")
    heads = dot_product_attention(q, k, values, rate=rate, window=window, key_mask=key_mask)
    return attention.W_o(merge_heads(heads))


def dot_product_attention(
    q: Heads,
    k: Keys,
    values: Values,
    *,
    rate: float = 0.0,
    window: int | None = None,
    key_mask: KeyMask | None = None,
) -> Heads:
    """Return Σ_j softmax_j(q_i · k_j / √d_head) v_j over the keys that stand no later than the query.

    On a CPU with many scores it is computed in blocks, else by PyTorch.
    """
    if q.device.type == "cpu" and q.shape[2] * k.shape[2] >= WORTH_BLOCKS:
        return cpu_attention.products_in_blocks(q, k, values, rate=rate, window=window, key_mask=key_mask)
    if q.shape[2] == k.shape[2] and window is None and key_mask is None:
        # With ``is_causal`` and no mask PyTorch skips future keys.
        return scaled_dot_product_attention(q, k, values, is_causal=True, dropout_p=rate)
    mask = attention_mask(q.shape[2], k.shape[2], window=window, key_mask=key_mask, device=q.device)
    mask = rearrange(mask, "batch query key -> batch 1 query key")
    return scaled_dot_product_attention(q, k, values, attn_mask=mask, dropout_p=rate)


def relative_attention(inputs: AttentionInputs) -> Heads:
    """Return the heads of XL, ALiBi or T5, by the implementation for the inputs' device."""
    return cpu_attention.in_blocks(inputs) if inputs.q_plus_u.device.type == "cpu" else sdpa_bias(inputs)


def sdpa_bias(inputs: AttentionInputs) -> Heads:
    """Return the outputs of PyTorch's attention with q_plus_v · r as its bias, XL's (b) + (d)."""
    return attention_with_bias(inputs, distance_scores(inputs.q_plus_v, inputs.r[:, 1:]), inputs.mask())


def attention_with_bias(
    inputs: AttentionInputs, bias: Float[Tensor, "batch head query key"], mask: Mask | None
) -> Heads:
    """Return PyTorch's attention of q_plus_u, the bias added to its scores; without a mask over all keys."""
    if mask is not None:
        bias = bias.masked_fill(~rearrange(mask, "batch query key -> batch 1 query key"), float("-inf"))
    q_plus_u, k, values, rate = inputs.q_plus_u, inputs.k, inputs.values, inputs.rate
    return scaled_dot_product_attention(q_plus_u, k, values, attn_mask=bias, dropout_p=rate, scale=1.0)
