"""Contiguous lanes: the stream is cut into ``batch`` lanes that are read side by side.

Row b of a segment continues row b of the segment before, which is what makes memory
mean something. Shuffled windows would hand each row the memory of a stranger.
"""

from typing import NamedTuple

import torch
from einops import rearrange
from jaxtyping import Int, Integer
from torch import Tensor


class Segment(NamedTuple):
    """Tokens and, one place ahead, the tokens to predict."""

    tokens: Int[Tensor, "batch seg"]
    targets: Int[Tensor, "batch seg"]


class ContiguousBatches:
    """``batch`` lanes of a stream, in segments of ``seg_len``; a sequence of segments.

    Tokens left over at the stream's end (fewer than ``batch``) and at each lane's end
    (fewer than ``seg_len``) are not used, so every segment has the same shape. The first
    token of a lane is never a target: nothing stands before it. With ``rows``, only those
    lanes are read: the share of one process of several.
    """

    def __init__(
        self,
        stream: Integer[Tensor, " time"],
        *,
        batch: int,
        seg_len: int,
        rows: slice = slice(None),
    ) -> None:
        lane = len(stream) // batch
        if lane < seg_len + 1:
            raise ValueError(
                f"a text for {batch} lanes and segments of {seg_len} must hold "
                f"{batch} · ({seg_len} + 1) = {batch * (seg_len + 1)} tokens or more, got {len(stream)}"
            )
        self.seg_len = seg_len
        self.lanes = rearrange(stream[: batch * lane], "(batch time) -> batch time", batch=batch)[rows]

    def __len__(self) -> int:
        return (self.lanes.shape[1] - 1) // self.seg_len

    def __getitem__(self, index: int) -> Segment:
        if not 0 <= index < len(self):
            raise IndexError(f"segment must lie in 0 … {len(self) - 1}, got {index}")
        here = self.lanes[:, index * self.seg_len : (index + 1) * self.seg_len + 1].to(torch.int64)
        return Segment(here[:, :-1], here[:, 1:])
