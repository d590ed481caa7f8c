"""The key-value cache: while no parameter changes, it keeps keys and values in place of the memory.

    cache = start(model, batch=1, mem_len=512)
    log_probs, cache = step(model, tokens, cache)

Memory holds the inputs of all layers, and each segment projects them anew. With a cache each layer projects a
token to a key and a value once, and the outputs are the same to rounding. XL's distances too are projected
once, and anew only if a segment is longer than all before it. In these files, memory means the tokens whose
keys and values the cache holds.

The cache holds the model in its fast form. ``step`` takes the model again, and refuses the cache of another
model. It compares the embedding's first table alone, so it accepts another model that shares this table. A
step may write into the buffers of the cache it is given, so only the newest cache of a text is valid, and
none is valid once a parameter has changed. Everything runs in evaluation mode and without gradients.

Its files:

    cache  the data of a cache, and the forward pass of a segment, where time is saved: earlier tokens are not
           projected again
    heads  each attention's part of that pass
    steps  ``start``, ``step`` and ``token_losses``, which check their arguments and capture steps

On a CUDA GPU, once memory is full and several steps had the same shapes, the next one is captured as a CUDA
graph, unless positions are rotary or the vocabulary has clusters. The cache then holds the graph, and further
steps of these shapes replay it.
"""

from minitxl.fast.kv_cache.cache import Cache
from minitxl.fast.kv_cache.steps import start, step, token_losses

__all__ = ["Cache", "start", "step", "token_losses"]
