"""The key-value cache: while weights stay as they are, keep keys and values instead of hidden states.

    cache = start(model, batch=1, mem_len=512)
    log_probs, cache = step(model, tokens, cache)

The outputs are those of ``model`` and ``extend``, but each token is projected to a key and a value once.
Distances too are projected once, and again only when a segment is longer than all before it. The cache
holds the model in its fast form; ``step`` takes the model again, and refuses the cache of another model. A
step writes into the buffers of the cache it is given, so only the newest cache of a text is valid, and
none is valid once a weight has changed. Everything runs in evaluation mode and without gradients.

On a CUDA GPU, once memory is full and several steps had the same shapes, the next one is captured as a CUDA
graph. The cache then holds the graph, and further steps of these shapes replay it.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from minitxl.arguments import check_key_mask, check_kind, check_length, check_options
from minitxl.attention import AttentionOptions, Hidden, XLAttention, merge_heads, split_heads
from minitxl.fast import cached_heads, cuda
from minitxl.fast.bfloat16 import Precision
from minitxl.fast.convert import to_decode
from minitxl.fast.inputs import project_distances
from minitxl.fast.linear import FastLinear, apply_linear, joined
from minitxl.fast.rotary import Angles, turn
from minitxl.later_attention import RotaryAttention, sin_and_cos
from minitxl.model import Attention, Tokens, TransformerLM

CAPTURE_AFTER = 4
"""Steps of the same shapes with a full memory, after which a GPU's next step is captured."""


@dataclass(frozen=True)
class Cache:
    """Keys and values of the texts read so far: tokens ``begin`` to ``end`` of the buffers."""

    model: TransformerLM
    """The fast model, in evaluation mode, around the parameters of the one that the cache is for."""
    mem_len: int
    """Tokens of memory, at most."""
    window: int | None
    """Greatest number of keys that a query attends to, itself included."""
    clamp_len: int | None
    """Distance beyond which all keys count as equally far."""
    buffers: Float[Tensor, "layer 2 batch head room dim"]
    """Keys and values of every layer."""
    key_mask: Bool[Tensor, "batch mem"] | None
    """False for a token of the memory that is masked for every query; None if none is."""
    r: Float[Tensor, "layer head dist dim"]
    """W_kR R of every layer for the distances dist-1 … 0; empty but for attention "xl"."""
    joined_qkv: tuple[FastLinear | None, ...]
    """W_q, W_k and W_v of every layer as one matrix in bfloat16; None where they stay apart."""
    begin: int = 0
    end: int = 0
    tokens_read: int = 0
    """Tokens read so far, those of the memory and all before it: the position of the next token."""
    shapes: tuple[torch.Size, ...] = ()
    """Shapes of the last step's tokens, and targets if it had any."""
    repeats: int = 0
    """Steps in a row that had these shapes and found a full memory."""
    captured: cuda.CapturedStep | None = None
    """The step as a CUDA graph, which reads and writes this cache's buffers; None before it is captured."""


def start(
    model: TransformerLM,
    *,
    batch: int,
    mem_len: int,
    window: int | None = None,
    clamp_len: int | None = None,
    precision: Precision = "float32",
) -> Cache:
    """Return the empty cache of ``batch`` texts; ``clamp_len`` None means the model's own.

    With ``precision`` bfloat16 it holds keys, values and the matrices of the model in two bytes a number.
    """
    check_kind("model", model, TransformerLM)
    check_length("batch", batch, 1)
    check_length("mem_len", mem_len)
    check_options({"window": window, "clamp_len": clamp_len}, batch=batch, n_key=0)
    c, weight = model.config, next(model.parameters())
    fast_model = to_decode(model, precision, rows=batch)
    check_attentions(fast_model)
    dtype = weight.dtype if precision == "float32" else torch.bfloat16
    return Cache(
        fast_model,
        mem_len,
        window,
        c.clamp_len if clamp_len is None else clamp_len,
        buffers=weight.new_empty(c.n_layer, 2, batch, c.n_head, 0, c.d_head, dtype=dtype),
        key_mask=None,
        r=weight.new_empty(c.n_layer, c.n_head, 0, c.d_head, dtype=dtype),
        joined_qkv=tuple(
            joined((one.W_q, _key_projection(one), one.W_v), rows=batch)
            for one in (block.attention for block in fast_model.blocks)
        ),
    )


def check_attentions(model: TransformerLM) -> None:
    """Raise a ValueError for a model with an attention whose heads the cache can't compute."""
    for block in model.blocks:
        if type(block.attention) not in cached_heads.HEADS:
            raise ValueError(
                f"the key-value cache must know the attention, got {type(block.attention).__name__}: "
                "score with model and extend, or add the attention to cached_heads.HEADS"
            )


def step(
    model: TransformerLM, tokens: Tokens, cache: Cache, *, key_mask: Bool[Tensor, "batch seg"] | None = None
) -> tuple[Float[Tensor, "batch seg vocab"], Cache]:
    """Return log-probabilities of each next token in nats, and the cache with these tokens in it.

    False in ``key_mask`` masks a token of this segment, for its queries and for all later ones.
    """
    return _advance(model, cache, (tokens,), key_mask)


def token_losses(
    model: TransformerLM, tokens: Tokens, targets: Tokens, cache: Cache
) -> tuple[Float[Tensor, "batch seg"], Cache]:
    """Return -log p(target) of each token in nats, in token order, and the cache with these tokens."""
    return _advance(model, cache, (tokens, targets), None)


def _advance(
    model: TransformerLM,
    cache: Cache,
    ids: tuple[Tokens, ...],
    key_mask: Bool[Tensor, "batch seg"] | None,
) -> tuple[Float[Tensor, "batch seg *vocab"], Cache]:
    """Return log-probabilities, or with targets in ``ids`` losses, and the cache with these tokens."""
    _check(model, cache, ids[0], key_mask)
    with torch.inference_mode():
        if cache.captured is not None and key_mask is None and cache.captured.fits(ids):
            output = cache.captured.run(ids)
            return output, replace(cache, tokens_read=cache.tokens_read + ids[0].shape[1])
        output, after = _compute(cache, ids, key_mask)
        return output, _captured(after, ids) if after.repeats == CAPTURE_AFTER else after


def _check(
    model: TransformerLM, cache: Cache, tokens: Tokens, key_mask: Bool[Tensor, "batch seg"] | None
) -> None:
    check_kind("model", model, TransformerLM)
    check_kind("cache", cache, Cache)
    if next(model.parameters()) is not next(cache.model.parameters()):
        raise ValueError("cache must be one that start made for this model, got another model's")
    model.check_segment_tokens(tokens)
    if len(tokens) != cache.buffers.shape[2]:
        raise ValueError(f"tokens must have the cache's {cache.buffers.shape[2]} rows, got {len(tokens)}")
    if key_mask is not None:
        check_key_mask(key_mask, batch=len(tokens), n_key=tokens.shape[1])


def _compute(
    cache: Cache, ids: tuple[Tokens, ...], key_mask: Bool[Tensor, "batch seg"] | None
) -> tuple[Float[Tensor, "batch seg *vocab"], Cache]:
    """Return log-probabilities or losses, and the cache, which counts the steps with a full memory."""
    model, tokens = cache.model, ids[0]
    hidden, after = _read(tokens, cache, key_mask)
    output = model.output.log_probs(hidden) if len(ids) == 1 else model.losses(hidden, ids[1])
    shapes, full = tuple(one.shape for one in ids), cache.end - cache.begin == cache.mem_len
    alike = full and shapes == cache.shapes and key_mask is None
    return output, replace(after, shapes=shapes, repeats=cache.repeats + 1 if alike else 0, captured=None)


def _captured(cache: Cache, ids: tuple[Tokens, ...]) -> Cache:
    """Return the cache with its next step captured, if it can be.

    A captured step finds the memory at the beginning of the buffers, and leaves the next one there. The
    angles of rotary positions change with each token that is read, so such steps are not captured.
    """
    model, length, seg = cache.model, cache.mem_len, ids[0].shape[1]
    if not cuda.can_capture(model.config, ids[0].device) or model.config.attention == "rotary":
        return cache
    ids = tuple(one.clone() for one in ids)
    buffers = cache.buffers[..., cache.begin : cache.end, :]
    buffers = torch.cat([buffers, buffers.new_zeros(*buffers.shape[:4], seg, buffers.shape[5])], dim=4)
    mask = None if cache.key_mask is None else cache.key_mask.clone()
    cache = replace(cache, buffers=buffers, key_mask=mask, begin=0, end=length)

    def step() -> Tensor:
        output, after = _compute(cache, ids, None)
        buffers[..., :length, :] = buffers[..., seg:, :].clone()
        if mask is not None:
            mask.copy_(after.key_mask)
        return output

    state = [buffers] if mask is None else [buffers, mask]
    return replace(cache, captured=cuda.capture_step(step, ids, state))


def _read(tokens: Tokens, cache: Cache, key_mask: Bool[Tensor, "batch seg"] | None) -> tuple[Hidden, Cache]:
    """Return the last layer's output, and the cache with these tokens in it."""
    model = cache.model
    cache = _with_room(cache, tokens.shape[1])
    cache = replace(cache, r=_projected_distances(model, cache, tokens.shape[1]))
    keys_mask = _extended_mask(cache, tokens, key_mask)
    options = {"window": cache.window, "clamp_len": cache.clamp_len, "key_mask": keys_mask}
    end = cache.end + tokens.shape[1]
    angles = _angles(model, cache, tokens.shape[1])
    x = model.embed(tokens)
    for layer, block in enumerate(model.blocks):
        x = model.add_positions(x, layer=layer) if layer else x
        buffers = cache.buffers[layer, :, :, :, cache.begin : end]
        entering = block.attention_input(x)
        r, joined_qkv = cache.r[layer], cache.joined_qkv[layer]
        attended = _attend(block.attention, entering, buffers, r, angles, joined_qkv, options)
        x = block.after_attention(x, attended)
    begin = max(cache.begin, end - cache.mem_len)
    mem_mask = None if keys_mask is None else keys_mask[:, begin - cache.begin :]
    return model.drop(model.final_norm(x)), replace(
        cache, key_mask=mem_mask, begin=begin, end=end, tokens_read=cache.tokens_read + tokens.shape[1]
    )


def _attend(
    attention: Attention,
    x: Float[Tensor, "batch query model"],
    buffers: Float[Tensor, "2 batch head key dim"],
    r: Float[Tensor, "head dist dim"],
    angles: tuple[Angles, Angles] | None,
    joined_qkv: FastLinear | None,
    options: AttentionOptions,
) -> Float[Tensor, "batch query model"]:
    """Return one layer's attention; keys and values of ``x`` are written into the last places of ``buffers``.

    Rotary keys are rotated once, by their position in the text, and stay right when the memory moves
    on: (R_i q) · (R_j k) depends on i - j alone, from wherever i and j are counted.
    """
    W_k = _key_projection(attention)
    if joined_qkv is None:
        outputs = [apply_linear(W, x) for W in (attention.W_q, W_k, attention.W_v)]
    else:
        outputs = list(joined_qkv.product(x).chunk(3, dim=-1))
    q, new_k, new_v = (split_heads(output, attention.n_head).to(buffers.dtype) for output in outputs)
    if angles is not None:
        q, new_k = turn(q, *angles), turn(new_k, *angles)
    k, v = buffers
    k[:, :, -x.shape[1] :], v[:, :, -x.shape[1] :] = new_k, new_v
    heads = cached_heads.HEADS[type(attention)](attention, q, k, v, r, **options)
    return attention.W_o(merge_heads(heads))


def _key_projection(attention: Attention) -> nn.Linear:
    return attention.W_kE if isinstance(attention, XLAttention) else attention.W_k


def _angles(model: TransformerLM, cache: Cache, seg: int) -> tuple[Angles, Angles] | None:
    """Return sin and cos of this segment's positions, for all layers; None where nothing turns."""
    if not isinstance(model.blocks[0].attention, RotaryAttention) or cache.clamp_len is not None:
        return None
    position = torch.arange(cache.tokens_read, cache.tokens_read + seg, device=cache.buffers.device)
    sin, cos = sin_and_cos(position, model.config.d_head, next(model.parameters()).dtype)
    return sin, cos


def _with_room(cache: Cache, seg: int) -> Cache:
    """Return the cache with buffers for ``seg`` more tokens.

    The buffers hold twice the memory, so that it is copied at most once in ``mem_len`` tokens.
    """
    length, size = cache.end - cache.begin, cache.buffers.shape[4]
    if cache.end + seg <= size:
        return cache
    buffers = cache.buffers
    overlapping = cache.begin < length  # source and target, if moved within the buffers
    if overlapping or length + seg > size:
        buffers = buffers.new_empty(*buffers.shape[:4], 2 * cache.mem_len + seg, buffers.shape[5])
    buffers[..., :length, :] = cache.buffers[..., cache.begin : cache.end, :]
    return replace(cache, buffers=buffers, begin=0, end=length)


def _extended_mask(
    cache: Cache, tokens: Tokens, key_mask: Bool[Tensor, "batch seg"] | None
) -> Bool[Tensor, "batch key"] | None:
    """Return the key mask of memory and segment; None if neither has one."""
    if cache.key_mask is None and key_mask is None:
        return None
    length = cache.end - cache.begin
    ones = tokens.new_ones(len(tokens), length + tokens.shape[1], dtype=torch.bool)
    past = ones[:, :length] if cache.key_mask is None else cache.key_mask
    return torch.cat([past, ones[:, length:] if key_mask is None else key_mask], dim=1)


def _projected_distances(
    model: TransformerLM, cache: Cache, seg: int
) -> Float[Tensor, "layer head dist dim"]:
    """Return W_kR R for all distances of this segment, projected anew only if segments became longer."""
    needed = cache.end - cache.begin + seg + 1
    attentions = [block.attention for block in model.blocks]
    if not isinstance(attentions[0], XLAttention) or cache.r.shape[2] >= needed:
        return cache.r
    n_key = cache.mem_len + seg
    return torch.stack([project_distances(a, n_key, cache.buffers, cache.clamp_len) for a in attentions])
