"""Rotary positions in fewer passes over RAM than ``later_attention.rotate``, for the same numbers.

    sin, cos = sin_and_cos(positions, d_head, dtype)        once for queries and keys
    turn(q, sin, cos)

The halves of the result are written where they belong instead of being put together. A turn's gradient is
the turn back, by the same angles with -sin, so the backward pass needs the angles and no activation.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from minitxl.later_attention import Vectors

Angles = Float[Tensor, "pos half"]


def turn(x: Vectors, sin: Angles, cos: Angles) -> Vectors:
    """Return R_p x_p for the position p of each row of sin and cos, as ``rotate`` does."""
    return Turn.apply(x, sin, cos) if x.requires_grad else _turned(x, sin, cos)  # type: ignore[no-untyped-call]


class Turn(torch.autograd.Function):
    """``turn`` with its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Vectors, sin: Angles, cos: Angles) -> Vectors:
        ctx.save_for_backward(sin, cos)
        return _turned(x, sin, cos)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Vectors) -> tuple[Tensor | None, ...]:
        sin, cos = ctx.saved_tensors
        return _turned(d_out, -sin, cos), None, None


def _turned(x: Vectors, sin: Angles, cos: Angles) -> Vectors:
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    (low, high), (out_low, out_high) = x.chunk(2, dim=-1), out.chunk(2, dim=-1)
    torch.mul(low, cos, out=out_low).addcmul_(high, sin, value=-1)
    torch.mul(high, cos, out=out_high).addcmul_(low, sin)
    return out
