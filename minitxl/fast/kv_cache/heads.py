"""Each attention's heads, computed from the keys and values of the key-value cache.

Each function in ``FUNCTIONS`` serves one kind of attention, or two that differ in their biases alone
(ALiBi and T5). It takes the attention, queries q that are not yet divided by √d_head, keys k and values of
memory and segment, XL's projected distances r, and the options of the call. It returns the heads' outputs.
"""

from collections.abc import Callable
from typing import Unpack

from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from minitxl.attention import (
    AttentionOptions,
    Heads,
    Keys,
    Mask,
    MultiHeadAttention,
    ShawAttention,
    Values,
    XLAttention,
    attention_mask,
    masked_softmax,
)
from minitxl.fast.attention import (
    FastALiBiAttention,
    FastMultiHeadAttention,
    FastRotaryAttention,
    FastT5Attention,
    FastXLAttention,
    attention_with_bias,
    dot_product_attention,
    relative_attention,
)
from minitxl.fast.inputs import AttentionInputs, ProjectedDistances, bias_as_distances, biased_queries
from minitxl.later_attention import ALiBiAttention, BiasedAttention, RotaryAttention, T5Attention
from minitxl.model import TransformerLM


def absolute_heads(
    attention: MultiHeadAttention,
    q: Heads,
    k: Keys,
    values: Values,
    r: ProjectedDistances,
    **options: Unpack[AttentionOptions],
) -> Heads:
    """Return the heads of absolute attention, whose positions are in the states."""
    return dot_product_attention(q, k, values, window=options["window"], key_mask=options["key_mask"])


def shaw_heads(
    attention: ShawAttention,
    q: Heads,
    k: Keys,
    values: Values,
    r: ProjectedDistances,
    **options: Unpack[AttentionOptions],
) -> Heads:
    """Return the heads of Shaw's attention."""
    mask = _mask(q, k, options)
    q, k, values = (tensor.to(attention.a_K.dtype) for tensor in (q, k, values))
    weights = attention.shaw_weights(q, k, mask, options["clamp_len"])
    return attention.shaw_values(weights, values, options["clamp_len"])


def xl_heads(
    attention: XLAttention,
    q: Heads,
    k: Keys,
    values: Values,
    r: ProjectedDistances,
    **options: Unpack[AttentionOptions],
) -> Heads:
    """Return the heads of Transformer-XL's attention."""
    r = r[:, -k.shape[2] - 1 :]  # n_key + 1 distances, n_key … 0: see ``AttentionInputs``
    q_plus_u, q_plus_v = biased_queries(attention, q)  # divided by √d_head
    inputs = AttentionInputs(
        q_plus_u, q_plus_v, k, values, r, window=options["window"], key_mask=options["key_mask"]
    )
    return relative_to_one(inputs) if q.shape[2] == 1 else relative_attention(inputs)


def rotary_heads(
    attention: RotaryAttention,
    q: Heads,
    k: Keys,
    values: Values,
    r: ProjectedDistances,
    **options: Unpack[AttentionOptions],
) -> Heads:
    """Return the heads of rotary attention; without a clamp_len the caller has rotated q and k."""
    if options["clamp_len"] is None:  # rotated in cache._attention
        return dot_product_attention(q, k, values, window=options["window"], key_mask=options["key_mask"])
    return masked_softmax(attention.scores(q, k, options["clamp_len"]), _mask(q, k, options)) @ values


def biased_heads(
    attention: BiasedAttention,
    q: Heads,
    k: Keys,
    values: Values,
    r: ProjectedDistances,
    **options: Unpack[AttentionOptions],
) -> Heads:
    """Return the heads of an attention with a bias for each head and distance."""
    inputs = bias_as_distances(attention, q, k, values, **options)
    return relative_to_one(inputs) if q.shape[2] == 1 else relative_attention(inputs)


def _mask(q: Heads, k: Keys, options: AttentionOptions) -> Mask:
    window, key_mask = options["window"], options["key_mask"]
    return attention_mask(q.shape[2], k.shape[2], window=window, key_mask=key_mask, device=q.device)


FUNCTIONS: dict[type, Callable[..., Heads]] = {
    MultiHeadAttention: absolute_heads,
    FastMultiHeadAttention: absolute_heads,
    ShawAttention: shaw_heads,
    XLAttention: xl_heads,
    FastXLAttention: xl_heads,
    RotaryAttention: rotary_heads,
    FastRotaryAttention: rotary_heads,
    **dict.fromkeys((ALiBiAttention, FastALiBiAttention, T5Attention, FastT5Attention), biased_heads),
}
"""The function that returns the heads of each attention, by exact class."""


def check_attentions(model: TransformerLM) -> None:
    """Raise a ValueError for a model with an attention whose heads the cache can't compute."""
    for block in model.blocks:
        if type(block.attention) not in FUNCTIONS:
            raise ValueError(
                f"the key-value cache must know the attention, got {type(block.attention).__name__}: "
                "score with model and extend, or add the attention to kv_cache.heads.FUNCTIONS"
            )


def relative_to_one(inputs: AttentionInputs) -> Float[Tensor, "batch head 1 dim"]:
    """Return ``relative_attention`` for a single query, the last position: r needs no shift."""
    _, q_plus_v, k, _, r, _, window, key_mask = inputs
    # On a CPU a bfloat16 product is fast with the long factor on the left, here r. But an r that is a slice
    # is copied first. It is a slice if the cache holds more distances than this step needs: while memory
    # fills, and in the first steps after a longer segment. The row of the distance n_key, which no key has,
    # is dropped after the product. If it were dropped before, r would be a slice in every step. k and values
    # are slices of the cache: PyTorch's attention reads them where they are.
    b_and_d = (r @ rearrange(q_plus_v, "batch head 1 dim -> head dim batch"))[:, 1:]
    bias = rearrange(b_and_d, "head key batch -> batch head 1 key")
    masked = key_mask is not None or (window is not None and window < k.shape[2])
    return attention_with_bias(inputs, bias, inputs.mask() if masked else None)
