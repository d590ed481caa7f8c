"""Segment recurrence as a value: memory goes in, new memory comes out.

    h~[t+1] = [SG(h[t]) ∘ h[t+1]]          (section 3.2)

Memory is one tensor [layer batch mem model]: entry n holds what layer n read in
earlier segments, and SG, the stop-gradient, is taken here. It is neither keys nor
values, so the W_k and W_v of today do learn from it; the states of yesterday do not.
"""

import torch
from einops import pack, repeat
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad


def empty(states: Float[Tensor, "layer batch seg model"]) -> Float[Tensor, "layer batch 0 model"]:
    """A memory that holds nothing: zero tokens, which is not the same as tokens of zeros."""
    return states[:, :, :0].detach()


def extend(
    memory: Float[Tensor, "layer batch mem model"] | None,
    states: Float[Tensor, "layer batch seg model"],
    *,
    mem_len: int,
) -> Float[Tensor, "layer batch new_mem model"]:
    """The last ``mem_len`` tokens of memory and states together, as a new, detached value.

    ``memory`` None is the empty memory. Nothing is changed in place and no storage is
    shared, so the caller may keep, reset or branch any memory. There is no minimum
    length: M = 0 gives the empty memory, and M < seg keeps the end of the segment.
    """
    if mem_len < 0:
        raise ValueError(f"mem_len must be 0 or more, got {mem_len}")
    memory = empty(states) if memory is None else memory
    forgotten = max(0, memory.shape[2] + states.shape[2] - mem_len)
    old = memory[:, :, forgotten:]
    new = states[:, :, max(0, forgotten - memory.shape[2]) :]
    joined, _ = pack([old, new], "layer batch * model")
    return joined.detach()


def padded(
    memory: Float[Tensor, "layer batch mem model"], *, mem_len: int, seg_len: int
) -> tuple[Float[Tensor, "layer batch mem_len model"], Bool[Tensor, "batch key"]]:
    """``memory`` behind zeros up to ``mem_len`` tokens, and the ``key_mask`` that hides the zeros.

    With that ``key_mask`` for memory and segment the numbers are those of ``memory`` alone, but
    all segments have one shape: what is compiled for it is compiled once, while memory fills.
    """
    held = memory.shape[2]
    if held > mem_len:
        raise ValueError(f"memory must hold at most mem_len = {mem_len} tokens, got {held}")
    key_mask = torch.arange(mem_len + seg_len, device=memory.device) >= mem_len - held
    return pad(memory, (0, 0, mem_len - held, 0)), repeat(key_mask, "key -> batch key", batch=memory.shape[1])


def reach(offset: int, *, n_layer: int, seg_len: int, mem_len: int, window: int | None = None) -> int:
    """How many tokens back a query at ``offset`` of its segment can be influenced, at most.

    A layer reads back to where its memory begins, or to where its window does if that is
    nearer. Of the states it reads none reads farther back than the first, so the reach is
    N such hops, each from where the last one landed. Where every hop is of one kind:

        o + M + (N - 1) · L · ⌈M / L⌉          without a window
        N · (W - 1)                            with a window of W ≤ M + 1

    With M = L the first is the O(N · L) of section 3.2; with M = 0 it is o.

    >>> reach(31, n_layer=3, seg_len=32, mem_len=32)
    127
    >>> reach(31, n_layer=3, seg_len=32, mem_len=32, window=32)
    93
    """
    check_query(offset, seg_len=seg_len, mem_len=mem_len, window=window)
    position = offset
    for _ in range(n_layer):
        first_kept = position - position % seg_len - mem_len
        position = first_kept if window is None else max(first_kept, position - window + 1)
    return offset - position


def longest_reach(*, n_layer: int, seg_len: int, mem_len: int, window: int | None = None) -> int:
    """``reach`` of the last query of a segment, in tokens."""
    return reach(seg_len - 1, n_layer=n_layer, seg_len=seg_len, mem_len=mem_len, window=window)


def check_query(offset: int, *, seg_len: int, mem_len: int, window: int | None) -> None:
    """Refuse a query that is not in its segment, and lengths that can't be."""
    if not 0 <= offset < seg_len:
        raise ValueError(f"offset must lie in 0 … seg_len - 1 = {seg_len - 1}, got {offset}")
    if mem_len < 0:
        raise ValueError(f"mem_len must be 0 or more, got {mem_len}")
    if window is not None and window < 1:
        raise ValueError(f"window must be 1 or more, the query itself counts, got {window}")
