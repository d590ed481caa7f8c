"""Contiguous lanes: a stream is cut into ``batch`` long stretches, the lanes, which are read side by side.

A segment holds the next ``seg_len`` tokens of each lane. So lane b of a segment continues lane b of the
segment before, and its memory is of the same text. Shuffled windows would have the memory of unrelated text.
"""

from typing import NamedTuple

import torch
from einops import rearrange
from jaxtyping import Int, Integer
from torch import Tensor

from minitxl.arguments import check_rank, check_whole
from minitxl.fields import check, whole


class Segment(NamedTuple):
    """Tokens, and the next token after each of them, which is to be predicted."""

    tokens: Int[Tensor, "batch seg"]
    targets: Int[Tensor, "batch seg"]


class ContiguousBatches:
    """The segments of a stream, in order: ``segments[i]`` is one, and ``len(segments)`` is their number.

    The stream is cut into ``batch`` lanes, and the lanes into segments of ``seg_len`` tokens.
    ``lanes`` is [batch time].

    Tokens left over at the stream's end (fewer than ``batch``) and at each lane's end
    (fewer than ``seg_len``) are not used, so every segment has the same shape. The first
    token of a lane is never a target: nothing stands before it. ``share`` gives the lanes
    that are read: all, or those of one process where several divide them.
    """

    def __init__(
        self,
        stream: Integer[Tensor, " time"],
        *,
        batch: int,
        seg_len: int,
        share: slice = slice(None),
    ) -> None:
        check("batch", batch, whole(1))
        check("seg_len", seg_len, whole(1))
        check_whole("a stream of tokens", check_rank("stream", stream, "time"))
        lane_len = len(stream) // batch
        if lane_len < seg_len + 1:
            raise ValueError(
                f"a text for {batch} lanes and segments of {seg_len} must hold "
                f"{batch} · ({seg_len} + 1) = {batch * (seg_len + 1)} tokens or more, got {len(stream)}"
            )
        self.seg_len = seg_len
        self.lanes = rearrange(stream[: batch * lane_len], "(batch time) -> batch time", batch=batch)[share]

    def __len__(self) -> int:
        return (self.lanes.shape[1] - 1) // self.seg_len

    def __getitem__(self, index: int) -> Segment:
        if not 0 <= index < len(self):
            raise IndexError(f"segment must lie in 0 … {len(self) - 1}, got {index}")
        here = self.lanes[:, index * self.seg_len : (index + 1) * self.seg_len + 1].to(torch.int64)
        return Segment(here[:, :-1], here[:, 1:])


def spread_lanes(
    stream: Integer[Tensor, " time"], *, batch: int, tokens: int, share: slice = slice(None)
) -> Int[Tensor, "batch lane_time"]:
    """Return ``batch`` lanes with ``tokens`` targets together, from all over a text: a subset to validate on.

    The text is cut into ``batch`` equal lengths, and a lane is the beginning of each. Where
    ``tokens`` is all there are, the lanes are the whole text, as ``ContiguousBatches`` cuts it.

    Args:
        stream: the text.
        batch: number of lanes; fewer where there are not so many targets.
        tokens: number of targets of all lanes together; what does not fill all lanes is left out.
        share: the lanes of this process, where several divide the lanes among them.
    """
    check("batch", batch, whole(1))
    check("tokens", tokens, whole(1))
    check_rank("stream", stream, "time")
    there = len(stream) - 1
    if there < 1:
        raise ValueError(f"a text to validate on must hold 2 tokens or more, got {len(stream)}")
    batch = min(batch, tokens, there)
    lane_targets, apart = min(tokens, there) // batch, there // batch
    starts = [number * apart for number in range(batch)][share]
    lanes = [stream[start : start + lane_targets + 1].to(torch.int64) for start in starts]
    return torch.stack(lanes) if lanes else torch.empty(0, lane_targets + 1, dtype=torch.int64)
