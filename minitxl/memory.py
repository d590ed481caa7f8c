"""Segment recurrence as a pure function: memory goes in, new memory comes out.

    m[τ+1] = SG(the last M tokens of [m[τ] ∘ h[τ]])        ``extend``: the new memory, after segment τ
    h~[τ+1] = [m[τ+1] ∘ h[τ+1]]                            what the queries of segment τ+1 attend to

∘ joins along the tokens. L is the length of a segment and M that of memory; section 3.2 has M = L. SG is the
stop-gradient: ``extend`` returns a detached tensor.

Memory is one tensor [layer batch mem model], of all layers. ``memory[n]`` holds the inputs of ``blocks[n]``
in earlier segments, the paper's h^n: the embeddings for n = 0, and the outputs of ``blocks[n-1]`` for n > 0.
If ``blocks[n]`` adds absolute positions to its input, ``memory[n]`` has them too. (The paper counts layers
from 1: ``blocks[n]`` is its layer n + 1, whose input is h^n.)

Memory holds no keys and values: each segment projects the memory with the current W_k and W_v (in XL, W_kE
and W_v). So W_k and W_v, and in pre-norm the LayerNorm before them, learn from the tokens in memory too. No
gradient goes through the states in memory, back into the computation of earlier segments.

Training calls ``extend`` after each segment, in ``training.step.train_step``. ``inference`` does not call it:

    evaluation.cached   keeps keys and values instead of the memory (``fast.kv_cache``)
    evaluation.sliding  keeps nothing, and reads a piece of the text anew each time
    generation          keeps keys and values; for a model with absolute positions it keeps nothing
"""

from einops import pack
from jaxtyping import Float
from torch import Tensor

from minitxl.arguments import check_extension, check_length
from minitxl.fields import LONGEST, check, optional, whole


def extend(
    memory: Float[Tensor, "layer batch mem model"] | None,
    states: Float[Tensor, "layer batch seg model"],
    *,
    mem_len: int,
) -> Float[Tensor, "layer batch new_mem model"]:
    """Return the states of the last ``mem_len`` tokens of memory and segment, as a new, detached tensor.

    ``memory`` None is the empty memory: zero tokens long, which is not the same as tokens of zeros. Nothing
    is changed in place and no storage is shared, so an old memory stays valid and can be used again. With
    ``mem_len`` 0 the result is the empty memory; if ``mem_len`` is shorter than the segment, only the
    segment's last states are kept.
    """
    check_length("mem_len", mem_len)
    check_extension(memory, states)
    memory = states[:, :, :0] if memory is None else memory
    # Cut before they are joined, so that no forgotten token is copied.
    n_forgotten = max(0, memory.shape[2] + states.shape[2] - mem_len)
    old = memory[:, :, n_forgotten:]
    new = states[:, :, max(0, n_forgotten - memory.shape[2]) :]
    joined, _ = pack([old, new], "layer batch * model")
    return joined.detach()  # SG, the stop-gradient


def reach(offset: int, *, n_layer: int, seg_len: int, mem_len: int, window: int | None = None) -> int:
    """Return the distance to the farthest token that can influence the query through N layers.

    The query stands at ``offset`` of its segment. A layer's farthest key is the oldest memory token, or the
    oldest token in the window, whichever is nearer. The state of that key depends, through the layer below,
    on still earlier tokens. So each of the N layers adds one hop back, from where the previous hop ended.
    With o = offset, N = n_layer, L = seg_len, M = mem_len and W = window the reach is

        o + M + (N - 1) · L · ⌈M / L⌉          without a window
        N · (W - 1)                            with a window of W ≤ M + 1

    For M + 1 < W < M + L there is no such formula, only the loop below. A window of M + L or more hides no
    token, so the first formula holds. With M = L it is the O(N · L) of section 3.2; with M = 0 it gives o.

    >>> reach(31, n_layer=3, seg_len=32, mem_len=32)
    127
    >>> reach(31, n_layer=3, seg_len=32, mem_len=32, window=32)
    93
    """
    check_query(offset, seg_len=seg_len, mem_len=mem_len, window=window)
    check_length("n_layer", n_layer, 1)
    position = offset  # relative to the segment's first token, so negative in earlier segments
    for _ in range(n_layer):
        # Right for negative positions, too: -1 % seg_len is seg_len - 1.
        segment_start = position - position % seg_len
        oldest_in_memory = segment_start - mem_len
        position = oldest_in_memory if window is None else max(oldest_in_memory, position - window + 1)
    return offset - position


def longest_reach(*, n_layer: int, seg_len: int, mem_len: int, window: int | None = None) -> int:
    """Return the greatest reach of any query of a segment, in tokens; without a window, the last query's."""
    check_length("seg_len", seg_len, 1)
    # With a window of more than M + 1 tokens, an earlier query may reach farther than the last: with L = 3,
    # M = 1, W = 3 and two layers, the three queries reach 3, 4 and 3 tokens back.
    offsets = range(seg_len) if window is not None and window > mem_len + 1 else (seg_len - 1,)
    return max(reach(o, n_layer=n_layer, seg_len=seg_len, mem_len=mem_len, window=window) for o in offsets)


def check_query(offset: int, *, seg_len: int, mem_len: int, window: int | None) -> None:
    """Raise a ValueError for an offset outside the segment, and for impossible lengths."""
    check_length("seg_len", seg_len, 1)
    if type(offset) is not int or not 0 <= offset < seg_len:
        raise ValueError(f"offset must lie in 0 … seg_len - 1 = {seg_len - 1}, got {offset!r}")
    check_length("mem_len", mem_len)
    check("window", window, optional(whole(1, LONGEST)))
