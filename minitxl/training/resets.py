"""Reset the memory of single lanes: for loops of your own, where lanes begin new texts at any segment.

Memory is one tensor for all lanes of a batch. If one lane begins a new text, as when an agent begins an
episode, its old states stay in the tensor, and a mask hides them from the lane:

    memory, memory_mask = None, None
    for tokens, targets, begins in episodes:  # begins: [batch], True for a lane whose text begins here
        memory_mask = reset_mask(memory, begins, memory_mask)
        key_mask, memory_mask = extend_mask(memory_mask, batch=batch, seg_len=seg_len, mem_len=mem_len)
        losses, states = model.token_losses(tokens, targets, memory, key_mask=key_mask)
        memory = extend(memory, states, mem_len=mem_len)
"""

from einops import pack, repeat
from jaxtyping import Bool, Float
from torch import Tensor


def reset_mask(
    memory: Float[Tensor, "layer batch mem model"] | None,
    begins: Bool[Tensor, " batch"],
    memory_mask: Bool[Tensor, "batch mem"] | None = None,
) -> Bool[Tensor, "batch mem"] | None:
    """Return the mask of a memory: False for all old tokens of the lanes that ``begins`` marks.

    All lanes have memories of one length, so the memory of one lane can't be cut. It is masked instead.
    ``memory_mask`` is the mask so far: None, or what ``extend_mask`` returned after the last segment.
    A lane that was reset reads as one without a memory, to rounding.

    >>> import torch
    >>> reset_mask(torch.zeros(1, 2, 3, 4), torch.tensor([True, False])).tolist()
    [[False, False, False], [True, True, True]]
    """
    if memory is None:
        return None
    if len(begins) != memory.shape[1]:
        raise ValueError(f"begins must hold one flag for each of {memory.shape[1]} lanes, got {len(begins)}")
    begins = repeat(begins, "batch -> batch mem", mem=memory.shape[2])
    return ~begins if memory_mask is None else memory_mask & ~begins


def extend_mask(
    memory_mask: Bool[Tensor, "batch mem"] | None, *, batch: int, seg_len: int, mem_len: int
) -> tuple[Bool[Tensor, "batch key"] | None, Bool[Tensor, "batch new_mem"] | None]:
    """Return the ``key_mask`` of memory and a segment, and the mask of the memory after the segment.

    All tokens of the segment are unmasked; None stands for a memory without a masked token.
    """
    if memory_mask is None:
        return None, None
    segment = memory_mask.new_ones(batch, seg_len)
    key_mask, _ = pack([memory_mask, segment], "batch *")
    return key_mask, key_mask[:, max(0, key_mask.shape[1] - mem_len) :]
