"""The forward pass of a segment with a key-value cache: each token is projected to a key and a value once."""

from dataclasses import replace

from jaxtyping import Bool, Float
from torch import Tensor, nn

from minitxl.attention import AttentionOptions, Hidden, XLAttention, merge_heads, split_heads
from minitxl.fast.inputs import ProjectedDistances
from minitxl.fast.kv_cache import heads
from minitxl.fast.kv_cache.cache import (
    Cache,
    angles_of_segment,
    mask_of_memory_and_segment,
    with_distances,
    with_room,
)
from minitxl.fast.linear import FastLinear, apply_linear
from minitxl.fast.rotary import Angles, turn
from minitxl.model import Attention, Tokens, TransformerLM


def check_attentions(model: TransformerLM) -> None:
    """Raise a ValueError for a model with an attention whose heads the cache can't compute."""
    for block in model.blocks:
        if type(block.attention) not in heads.FUNCTION_OF:
            raise ValueError(
                f"the key-value cache must know the attention, got {type(block.attention).__name__}: "
                "score with model and extend, or add the attention to kv_cache.heads.FUNCTION_OF"
            )


def read_segment(
    tokens: Tokens, cache: Cache, key_mask: Bool[Tensor, "batch seg"] | None
) -> tuple[Hidden, Cache]:
    """Return what the softmax reads (``model.hidden``), and the cache with these tokens in it."""
    model = cache.model
    cache = with_distances(with_room(cache, tokens.shape[1]), tokens.shape[1])
    mask = mask_of_memory_and_segment(cache, tokens, key_mask)
    options = {"window": cache.window, "clamp_len": cache.clamp_len, "key_mask": mask}
    end = cache.end + tokens.shape[1]
    angles = angles_of_segment(model, cache, tokens.shape[1])
    x = model.embed(tokens)
    for layer, block in enumerate(model.blocks):
        x = model.add_positions(x, layer=layer) if layer else x
        buffers = cache.buffers[layer, :, :, :, cache.begin : end]
        entering = block.attention_input(x)
        r, joined_qkv = cache.r[layer], cache.joined_qkv[layer]
        attended = _attention(block.attention, entering, buffers, r, angles, joined_qkv, options)
        x = block.after_attention(x, attended)
    begin = max(cache.begin, end - cache.mem_len)
    memory_mask = None if mask is None else mask[:, begin - cache.begin :]
    return model.drop(model.final_norm(x)), replace(
        cache, memory_mask=memory_mask, begin=begin, end=end, tokens_read=cache.tokens_read + tokens.shape[1]
    )


def _attention(
    attention: Attention,
    x: Float[Tensor, "batch query model"],
    buffers: Float[Tensor, "2 batch head key dim"],
    r: ProjectedDistances,
    angles: tuple[Angles, Angles] | None,
    joined_qkv: FastLinear | None,
    options: AttentionOptions,
) -> Float[Tensor, "batch query model"]:
    """Return one layer's attention; keys and values of ``x`` are written into the last places of ``buffers``.

    Rotary keys are rotated once, by their position in the text, and stay right when the memory moves
    on: (R_i q) · (R_j k) depends on i - j alone, from wherever i and j are counted.
    """
    W_k = key_projection(attention)
    if joined_qkv is None:
        outputs = [apply_linear(W, x) for W in (attention.W_q, W_k, attention.W_v)]
    else:
        outputs = list(joined_qkv.product(x).chunk(3, dim=-1))
    q, new_k, new_values = (split_heads(output, attention.n_head).to(buffers.dtype) for output in outputs)
    if angles is not None:
        q, new_k = turn(q, *angles), turn(new_k, *angles)
    k, values = buffers
    k[:, :, -x.shape[1] :], values[:, :, -x.shape[1] :] = new_k, new_values
    computed = heads.FUNCTION_OF[type(attention)](attention, q, k, values, r, **options)
    return attention.W_o(merge_heads(computed))


def key_projection(attention: Attention) -> nn.Linear:
    return attention.W_kE if isinstance(attention, XLAttention) else attention.W_k
