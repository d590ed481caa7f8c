"""The key-value cache, and the forward pass of a segment that reads it.

Time is saved in ``read_segment``: a token is projected to keys and values once, when it is read.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from minitxl.attention import AttentionOptions, Hidden, XLAttention, merge_heads, split_heads
from minitxl.fast import cuda
from minitxl.fast.inputs import ProjectedDistances, project_distances
from minitxl.fast.kv_cache import heads
from minitxl.fast.linear import FastLinear, apply_linear
from minitxl.fast.rotary import Angles, turn
from minitxl.later_attention import RotaryAttention, sin_and_cos
from minitxl.model import Attention, Tokens, TransformerLM

FORGET_AFTER = 3
"""When ``Cache.repeats`` has reached this number, distances that the repeated step doesn't need are
forgotten. It is less than ``steps.CAPTURE_AFTER``, so that a captured step does not do it at each replay."""


@dataclass(frozen=True)
class Cache:
    """Keys and values of the last tokens of each text, at most ``mem_len``; earlier ones are forgotten."""

    model: TransformerLM
    """The given model in its fast form, in evaluation mode. It shares the given model's parameters, but its
    products may use copies of the matrices: in bfloat16 rounded ones, on some CPUs in another order."""
    mem_len: int
    """Tokens of memory, at most."""
    window: int | None
    """Greatest number of keys that a query attends to, the one at its own place included."""
    clamp_len: int | None
    """Keys at this distance or farther count as equally far."""
    buffers: Float[Tensor, "layer 2 batch head room dim"]
    """Keys and values of every layer."""
    memory_mask: Bool[Tensor, "batch mem"] | None
    """False for a token of the memory that is masked for every query; None if no step had a key_mask."""
    r: Float[Tensor, "layer head padded_dist dim"]
    """W_kR R of every layer, for at least the distances n_key … 0. Empty before the first step, and always if
    the attention is not xl."""
    joined_qkv: tuple[FastLinear | None, ...]
    """Copies of W_q, W_k and W_v of every layer as one matrix; None where they stay apart."""
    begin: int = 0
    """Place in the buffers' axis ``room`` of the oldest token in memory."""
    end: int = 0
    """Place of the next token, behind the newest one."""
    tokens_read: int = 0
    """Tokens of each text read so far, those in memory and all before: the position of the next token."""
    shapes: tuple[torch.Size, ...] = ()
    """Shapes of the last step's tokens, and targets if it had any."""
    repeats: int = 0
    """Steps in a row that repeated the shapes of the step before, with a full memory and no key_mask."""
    captured: cuda.CapturedStep | None = None
    """The step as a CUDA graph, which reads and writes this cache's buffers; None before it is captured."""


def read_segment(
    tokens: Tokens, cache: Cache, key_mask: Bool[Tensor, "batch seg"] | None
) -> tuple[Hidden, Cache]:
    """Return the last layer's output, as ``model.last_hidden`` does, and the cache with these tokens."""
    model = cache.model
    cache = with_distances(with_room(cache, tokens.shape[1]), tokens.shape[1])
    context_key_mask = mask_of_memory_and_segment(cache, tokens, key_mask)
    options = {"window": cache.window, "clamp_len": cache.clamp_len, "key_mask": context_key_mask}
    end = cache.end + tokens.shape[1]
    angles = angles_of_segment(model, cache, tokens.shape[1])
    x = model.embed(tokens)
    for layer, block in enumerate(model.blocks):
        x = model.add_positions(x, layer=layer) if layer else x
        layer_buffers = cache.buffers[layer, :, :, :, cache.begin : end]
        attention_input = block.attention_input(x)
        r, joined_qkv = cache.r[layer], cache.joined_qkv[layer]
        attended = _attention(block.attention, attention_input, layer_buffers, r, angles, joined_qkv, options)
        x = block.after_attention(x, attended)
    begin = max(cache.begin, end - cache.mem_len)
    memory_mask = None if context_key_mask is None else context_key_mask[:, begin - cache.begin :]
    return model.dropout(model.final_norm(x)), replace(
        cache, memory_mask=memory_mask, begin=begin, end=end, tokens_read=cache.tokens_read + tokens.shape[1]
    )


def _attention(
    attention: Attention,
    x: Float[Tensor, "batch query model"],
    layer_buffers: Float[Tensor, "2 batch head key dim"],
    r: ProjectedDistances,
    angles: tuple[Angles, Angles] | None,
    joined_qkv: FastLinear | None,
    options: AttentionOptions,
) -> Float[Tensor, "batch query model"]:
    """Return one layer's attention; write the keys and values of ``x`` to the end of ``layer_buffers``.

    Rotary keys are rotated once, by their position in the text. They stay right as memory moves on, since
    (R_i q) · (R_j k) depends on i - j alone, from wherever i and j are counted.
    """
    W_k = key_projection(attention)
    if joined_qkv is None:
        outputs = [apply_linear(W, x) for W in (attention.W_q, W_k, attention.W_v)]
    else:
        outputs = list(joined_qkv.product(x).chunk(3, dim=-1))
    k, values = layer_buffers
    q, new_k, new_values = (split_heads(output, attention.n_head).to(k.dtype) for output in outputs)
    if angles is not None:
        q, new_k = turn(q, *angles), turn(new_k, *angles)
    k[:, :, -x.shape[1] :], values[:, :, -x.shape[1] :] = new_k, new_values
    computed = heads.FUNCTIONS[type(attention)](attention, q, k, values, r, **options)
    return attention.W_o(merge_heads(computed))


def key_projection(attention: Attention) -> nn.Linear:
    return attention.W_kE if isinstance(attention, XLAttention) else attention.W_k


def with_room(cache: Cache, seg: int) -> Cache:
    """Return the cache with buffers for ``seg`` more tokens.

    New buffers hold 2 · ``mem_len`` + ``seg`` tokens. So, as long as no segment is longer than all before it,
    memory is copied at most once for every ``mem_len`` tokens that are read. (A captured step has smaller
    buffers, and copies memory each time.)
    """
    length, room = cache.end - cache.begin, cache.buffers.shape[4]
    if cache.end + seg <= room:
        return cache
    buffers = cache.buffers
    overlapping = cache.begin < length  # a move within the same buffer would overwrite its own source
    if overlapping or length + seg > room:
        buffers = buffers.new_empty(*buffers.shape[:4], 2 * cache.mem_len + seg, buffers.shape[5])
    buffers[..., :length, :] = cache.buffers[..., cache.begin : cache.end, :]
    return replace(cache, buffers=buffers, begin=0, end=length)


def mask_of_memory_and_segment(
    cache: Cache, tokens: Tokens, key_mask: Bool[Tensor, "batch seg"] | None
) -> Bool[Tensor, "batch key"] | None:
    """Return the key mask of memory and segment; None if neither has one."""
    if cache.memory_mask is None and key_mask is None:
        return None
    length = cache.end - cache.begin
    ones = tokens.new_ones(len(tokens), length + tokens.shape[1], dtype=torch.bool)
    past = ones[:, :length] if cache.memory_mask is None else cache.memory_mask
    return torch.cat([past, ones[:, length:] if key_mask is None else key_mask], dim=1)


def with_distances(cache: Cache, seg: int) -> Cache:
    """Return the cache with r for ``seg`` more tokens, projected anew only if segments became longer.

    After a long prompt, r has many more distances than a step of one token needs. Once steps of one length
    have been repeated ``FORGET_AFTER`` times, it keeps those that they need, for the reason that
    ``heads.relative_to_one`` gives.
    """
    needed = cache.end - cache.begin + seg + 1  # n_key + 1 distances: ``AttentionInputs`` says why
    attentions = [block.attention for block in cache.model.blocks]
    if not isinstance(attentions[0], XLAttention):
        return cache
    projected = cache.r.shape[2]
    if projected < needed:
        n_key = cache.mem_len + seg
        r = torch.stack([project_distances(a, n_key, cache.buffers, cache.clamp_len) for a in attentions])
        return replace(cache, r=r)
    if projected > needed and cache.repeats >= FORGET_AFTER and cache.shapes[0][1] == seg:
        return replace(cache, r=cache.r[:, :, -needed:].contiguous())
    return cache


def angles_of_segment(model: TransformerLM, cache: Cache, seg: int) -> tuple[Angles, Angles] | None:
    """Return sin and cos of this segment's positions, for all layers; None where the cache holds keys
    that are not rotated."""
    if not isinstance(model.blocks[0].attention, RotaryAttention) or cache.clamp_len is not None:
        return None
    position = torch.arange(cache.tokens_read, cache.tokens_read + seg, device=cache.buffers.device)
    sin, cos = sin_and_cos(position, model.config.d_head, next(model.parameters()).dtype)
    return sin, cos
