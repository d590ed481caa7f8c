"""Start a cache, and read the next tokens with it: the calls of the key-value cache."""

from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from minitxl.arguments import check_key_mask, check_kind, check_length, check_options
from minitxl.fast import cuda
from minitxl.fast.bfloat16 import Precision
from minitxl.fast.convert import to_inference
from minitxl.fast.kv_cache.cache import Cache, key_projection, read_segment
from minitxl.fast.kv_cache.heads import check_attentions
from minitxl.fast.linear import joined
from minitxl.model import Tokens, TransformerLM

CAPTURE_AFTER = 4
"""When ``Cache.repeats`` reaches this number, a GPU's next step is captured."""


def start(
    model: TransformerLM,
    *,
    batch: int,
    mem_len: int,
    seg_len: int = 1,
    window: int | None = None,
    clamp_len: int | None = None,
    precision: Precision = "float32",
) -> Cache:
    """Return the empty cache of ``batch`` texts; ``clamp_len`` None means the model's own.

    As in a call of the model, a ``window`` longer than ``mem_len`` + 1 is allowed: a query then sees what
    memory and segment hold of its window.

    ``seg_len`` is a hint for speed: the usual number of tokens of each text that a step reads. On some CPUs
    the cache stores the matrices in the order that is fastest for batch · ``seg_len`` tokens a step; a step
    may read more or fewer. With ``precision`` bfloat16 it holds keys, values and the matrices of the products
    in two bytes a number; tables of embeddings stay as they are.
    """
    check_kind("model", model, TransformerLM)
    check_length("batch", batch, 1)
    check_length("mem_len", mem_len)
    check_length("seg_len", seg_len, 1)
    check_options({"window": window, "clamp_len": clamp_len}, batch=batch, n_key=0)
    c, weight = model.config, next(model.parameters())
    rows = batch * seg_len
    fast_model = to_inference(model, precision, rows=rows)
    check_attentions(fast_model)
    dtype = weight.dtype if precision == "float32" else torch.bfloat16
    return Cache(
        fast_model,
        mem_len,
        window,
        c.clamp_len if clamp_len is None else clamp_len,
        buffers=weight.new_empty(c.n_layer, 2, batch, c.n_head, 0, c.d_head, dtype=dtype),
        memory_mask=None,
        r=weight.new_empty(c.n_layer, c.n_head, 0, c.d_head, dtype=dtype),
        joined_qkv=tuple(
            joined((one.W_q, key_projection(one), one.W_v), rows=rows)
            for one in (block.attention for block in fast_model.blocks)
        ),
    )


def step(
    model: TransformerLM, tokens: Tokens, cache: Cache, *, key_mask: Bool[Tensor, "batch seg"] | None = None
) -> tuple[Float[Tensor, "batch seg vocab"], Cache]:
    """Return for each token the log-probabilities of the next, in nats, and the cache with these tokens.

    False in ``key_mask`` hides a token of this segment from all queries, here and in later segments. To
    continue one text in two ways, read it into two caches: a step may overwrite the cache it is given.
    """
    return _advance(model, cache, (tokens,), key_mask)


def token_losses(
    model: TransformerLM, tokens: Tokens, targets: Tokens, cache: Cache
) -> tuple[Float[Tensor, "batch seg"], Cache]:
    """Return -log p(target) in nats of each target, and the cache with these tokens."""
    return _advance(model, cache, (tokens, targets), None)


def _advance(
    model: TransformerLM,
    cache: Cache,
    ids: tuple[Tokens, ...],
    key_mask: Bool[Tensor, "batch seg"] | None,
) -> tuple[Float[Tensor, "batch seg *vocab"], Cache]:
    """Return log-probabilities, or losses if ``ids`` has targets too, and the cache with these tokens."""
    _check(model, cache, ids[0], key_mask)
    with torch.inference_mode():
        if cache.captured is not None and key_mask is None and cache.captured.fits(ids):
            output = cache.captured.run(ids)
            return output, replace(cache, tokens_read=cache.tokens_read + ids[0].shape[1])
        output, cache = _compute(cache, ids, key_mask)
        if cache.repeats == CAPTURE_AFTER:
            cache = _captured(cache, ids)
        return output, cache


def _check(
    model: TransformerLM, cache: Cache, tokens: Tokens, key_mask: Bool[Tensor, "batch seg"] | None
) -> None:
    check_kind("model", model, TransformerLM)
    check_kind("cache", cache, Cache)
    if next(model.parameters()) is not next(cache.model.parameters()):
        raise ValueError("cache must be one that start made for this model, got another model's")
    model.check_segment_tokens(tokens)
    if len(tokens) != cache.buffers.shape[2]:
        raise ValueError(
            f"tokens must hold {cache.buffers.shape[2]} texts, as the cache does, got {len(tokens)}"
        )
    if key_mask is not None:
        check_key_mask(key_mask, batch=len(tokens), n_key=tokens.shape[1])


def _compute(
    cache: Cache, ids: tuple[Tokens, ...], key_mask: Bool[Tensor, "batch seg"] | None
) -> tuple[Float[Tensor, "batch seg *vocab"], Cache]:
    """Return log-probabilities or losses, and the cache with ``repeats`` updated."""
    model, tokens = cache.model, ids[0]
    hidden, after = read_segment(tokens, cache, key_mask)
    output = model.output.log_probs(hidden) if len(ids) == 1 else model.losses(hidden, ids[1])
    shapes, full = tuple(one.shape for one in ids), cache.end - cache.begin == cache.mem_len
    alike = full and shapes == cache.shapes and key_mask is None
    return output, replace(after, shapes=shapes, repeats=cache.repeats + 1 if alike else 0, captured=None)


def _captured(cache: Cache, ids: tuple[Tokens, ...]) -> Cache:
    """Return the cache with its next step captured, if it can be.

    A captured step finds the memory at the beginning of the buffers, and leaves the next memory there. The
    angles of rotary positions change with each token that is read, so such steps are not captured.
    """
    model, mem_len, seg = cache.model, cache.mem_len, ids[0].shape[1]
    if not cuda.can_capture(model.config, ids[0].device) or model.config.attention == "rotary":
        return cache
    ids = tuple(one.clone() for one in ids)
    buffers = cache.buffers[..., cache.begin : cache.end, :]
    buffers = torch.cat([buffers, buffers.new_zeros(*buffers.shape[:4], seg, buffers.shape[5])], dim=4)
    memory_mask = None if cache.memory_mask is None else cache.memory_mask.clone()
    cache = replace(cache, buffers=buffers, memory_mask=memory_mask, begin=0, end=mem_len)

    def one_step() -> Tensor:
        output, after = _compute(cache, ids, None)
        buffers[..., :mem_len, :] = buffers[..., seg:, :].clone()
        if memory_mask is not None:
            memory_mask.copy_(after.memory_mask)
        return output

    state = [buffers] if memory_mask is None else [buffers, memory_mask]
    return replace(cache, captured=cuda.capture_step(one_step, ids, state))
