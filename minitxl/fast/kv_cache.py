"""Reading on where weights are fixed: keys and values are kept instead of hidden states.

    cache = start(model, batch=1, mem_len=512)
    log_probs, cache = step(model, tokens, cache)

The numbers are those of ``model`` and ``extend``, but neither memory nor distances are ever
projected again. A step writes into the buffers it was given: of a text's caches only the
newest is valid, and none is once a weight has changed. All runs in evaluation mode and
without gradients.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor

from minitxl.attention import (
    Keep,
    Keys,
    MultiHeadAttention,
    ShawAttention,
    XLAttention,
    merge,
    softmax_seen,
    split,
    visible,
)
from minitxl.fast.cpu_attention import absolute, project_distances, relative, with_biases
from minitxl.model import Attention, Hidden, Tokens, TransformerLM


@dataclass(frozen=True)
class Cache:
    """What is kept of the texts read so far: tokens ``begin`` to ``end`` of the room."""

    mem_len: int
    """Tokens of memory, at most."""
    window: int | None
    """Most keys a query sees, itself included."""
    clamp_len: int | None
    """Distance beyond which all keys count as equally far."""
    buffers: Float[Tensor, "layer 2 batch head room dim"]
    """Keys and values of every layer."""
    keep: Bool[Tensor, "batch mem"] | None
    """False for a token of the memory that no query sees; None where all are seen."""
    distances: Float[Tensor, "layer head dist dim"]
    """W_kR R of every layer for the distances dist-1 … 0 (xl); none elsewhere."""
    begin: int = 0
    end: int = 0


def start(
    model: TransformerLM,
    *,
    batch: int,
    mem_len: int,
    window: int | None = None,
    clamp_len: int | None = None,
) -> Cache:
    """The empty cache of ``batch`` texts; without ``clamp_len``, the model's own holds."""
    if mem_len < 0:
        raise ValueError(f"mem_len must be 0 or more, got {mem_len}")
    c, weight = model.config, next(model.parameters())
    return Cache(
        mem_len,
        window,
        c.clamp_len if clamp_len is None else clamp_len,
        buffers=weight.new_empty(c.n_layer, 2, batch, c.n_head, 0, c.d_head),
        keep=None,
        distances=weight.new_empty(c.n_layer, c.n_head, 0, c.d_head),
    )


def step(
    model: TransformerLM, tokens: Tokens, cache: Cache, *, keep: Bool[Tensor, "batch seg"] | None = None
) -> tuple[Float[Tensor, "batch seg vocab"], Cache]:
    """Log-probabilities of each next token, in nats; False in ``keep`` hides a token for good."""
    with evaluating(model):
        hidden, cache = _read(model, tokens, cache, keep)
        return model.output.log_probs(hidden), cache


def token_losses(
    model: TransformerLM, tokens: Tokens, targets: Tokens, cache: Cache
) -> tuple[Float[Tensor, "batch seg"], Cache]:
    """-log p(target) of each token in nats, in token order."""
    with evaluating(model):
        hidden, cache = _read(model, tokens, cache, None)
        return model.losses(hidden, targets), cache


@contextmanager
def evaluating(model: TransformerLM) -> Iterator[None]:
    """No dropout and no gradients inside; the model's mode is as before afterwards."""
    training = model.training
    if training:
        model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        if training:
            model.train()


def _read(
    model: TransformerLM, tokens: Tokens, cache: Cache, keep: Bool[Tensor, "batch seg"] | None
) -> tuple[Hidden, Cache]:
    """The last layer's output, and the cache with these tokens in it."""
    model.check(tokens)
    if len(tokens) != cache.buffers.shape[2]:
        raise ValueError(f"tokens must have the cache's {cache.buffers.shape[2]} rows, got {len(tokens)}")
    cache = _with_room(cache, tokens.shape[1])
    cache = replace(
        cache, keep=_joined(cache, tokens, keep), distances=_distances(model, cache, tokens.shape[1])
    )
    end = cache.end + tokens.shape[1]
    x = model.embed(tokens)
    for layer, block in enumerate(model.blocks):
        x = model.place(x, layer=layer) if layer else x
        buffers = cache.buffers[layer, :, :, :, cache.begin : end]
        x = block.around(x, _attend(block.attention, block.read(x), buffers, cache.distances[layer], cache))
    begin = max(cache.begin, end - cache.mem_len)
    kept = None if cache.keep is None else cache.keep[:, begin - cache.begin :]
    return model.drop(model.final_norm(x)), replace(cache, keep=kept, begin=begin, end=end)


def _attend(
    attention: Attention,
    x: Float[Tensor, "batch query model"],
    buffers: Float[Tensor, "2 batch head key dim"],
    r: Float[Tensor, "head dist dim"],
    cache: Cache,
) -> Float[Tensor, "batch query model"]:
    """One layer's attention. The keys and values of ``x`` are written where the buffers end."""
    W_k = attention.W_kE if isinstance(attention, XLAttention) else attention.W_k
    q, new_k, new_v = (split(W(x), attention.n_head) for W in (attention.W_q, W_k, attention.W_v))
    k, v = buffers
    k[:, :, -x.shape[1] :], v[:, :, -x.shape[1] :] = new_k, new_v
    window, keep = cache.window, cache.keep
    if isinstance(attention, MultiHeadAttention):
        heads = absolute(q, k, v, window=window, keep=keep)
    elif isinstance(attention, ShawAttention):
        seen = visible(q.shape[2], k.shape[2], window=window, keep=keep, device=x.device)
        heads = attention.collect(attention.align(q, k, seen, cache.clamp_len), v, cache.clamp_len)
    else:
        call = relative if q.shape[2] > 1 else relative_to_one
        heads = call(attention, q, k, v, r[:, -k.shape[2] - 1 :], window=window, keep=keep)
    return attention.W_o(merge(heads))


def relative_to_one(
    attention: XLAttention,
    q: Float[Tensor, "batch head 1 dim"],
    k: Keys,
    v: Keys,
    r: Float[Tensor, "head dist dim"],
    *,
    window: int | None,
    keep: Keep | None,
) -> Float[Tensor, "batch head 1 dim"]:
    """``relative`` for a single query, whose distances key-1 … 0 are in the keys' order already."""
    q_u, q_v = with_biases(attention, q)
    bd = rearrange(q_v, "batch head 1 dim -> head batch dim") @ r[:, 1:].mT
    scores = q_u @ k.mT + rearrange(bd, "head batch key -> batch head 1 key")
    hides = keep is not None or (window is not None and window < k.shape[2])
    seen = visible(1, k.shape[2], window=window, keep=keep, device=k.device) if hides else None
    return softmax_seen(scores, seen) @ v


def _with_room(cache: Cache, seg: int) -> Cache:
    """Room for ``seg`` more tokens; the memory is moved once in ``mem_len`` tokens at most."""
    held, room = cache.end - cache.begin, cache.buffers.shape[4]
    if cache.end + seg <= room:
        return cache
    buffers = cache.buffers
    if cache.begin < held or held + seg > room:
        buffers = buffers.new_empty(*buffers.shape[:4], 2 * cache.mem_len + seg, buffers.shape[5])
    buffers[..., :held, :] = cache.buffers[..., cache.begin : cache.end, :]
    return replace(cache, buffers=buffers, begin=0, end=held)


def _joined(
    cache: Cache, tokens: Tokens, keep: Bool[Tensor, "batch seg"] | None
) -> Bool[Tensor, "batch key"] | None:
    """Flags of memory and segment, where there are any."""
    if cache.keep is None and keep is None:
        return None
    held = cache.end - cache.begin
    past = tokens.new_ones(len(tokens), held, dtype=torch.bool) if cache.keep is None else cache.keep
    return torch.cat([past, torch.ones_like(tokens, dtype=torch.bool) if keep is None else keep], dim=1)


def _distances(model: TransformerLM, cache: Cache, seg: int) -> Float[Tensor, "layer head dist dim"]:
    """W_kR R for all distances that occur, projected anew only where segments have become longer."""
    needed = cache.end - cache.begin + seg + 1
    if model.config.attention != "xl" or cache.distances.shape[2] >= needed:
        return cache.distances
    attentions = [block.attention for block in model.blocks]
    key = cache.mem_len + seg
    return torch.stack([project_distances(a, key, cache.buffers, cache.clamp_len) for a in attentions])
