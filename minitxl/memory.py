"""Segment recurrence as a value: memory goes in, new memory comes out.

    h~[t+1] = [SG(h[t]) ∘ h[t+1]]          (section 3.2)

Memory is one tensor [layer batch mem model]: entry n holds what layer n read in
earlier segments, and SG, the stop-gradient, is taken here. It is neither keys nor
values, so the W_k and W_v of today do learn from it; the states of yesterday do not.
"""

from math import ceil

from einops import pack
from jaxtyping import Float
from torch import Tensor


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


def reach(offset: int, *, n_layer: int, seg_len: int, mem_len: int) -> int:
    """How many tokens back a query at ``offset`` of its segment can be influenced, at most.

        o + M + (N - 1) · L · ⌈M / L⌉

    One layer sees o + M back. The farthest state in memory stands at the start of its
    own segment's visible part and sees as far again, so each further layer adds whole
    segments. With M = L this is the O(N · L) of section 3.2; with M = 0 it is o.

    >>> reach(31, n_layer=3, seg_len=32, mem_len=32)
    127
    """
    if not 0 <= offset < seg_len:
        raise ValueError(f"offset must lie in 0 … seg_len - 1 = {seg_len - 1}, got {offset}")
    return offset + mem_len + (n_layer - 1) * seg_len * ceil(mem_len / seg_len)


def longest_reach(*, n_layer: int, seg_len: int, mem_len: int) -> int:
    """``reach`` of the last query of a segment, in tokens."""
    return reach(seg_len - 1, n_layer=n_layer, seg_len=seg_len, mem_len=mem_len)
