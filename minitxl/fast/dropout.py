"""Dropout that draws 16 random bits for each element, where PyTorch draws a random float.

On a CPU, drawing random floats is what makes dropout slow. The rate is met to 1 in 65,536, and is at most
65,535 in 65,536.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from minitxl import model as paper
from minitxl.fast.eager import is_eager

LEVELS = 2**16
"""Values of 16 bits: the rate is a whole number of them."""
CHUNK_ELEMENTS = 2**16
"""Chunk size of the reused random buffer; one as large as the tensor would take new pages each time."""


def dropout_mask(x: Float[Tensor, "*shape"], rate: float) -> Float[Tensor, "*shape"]:
    """Return a tensor shaped as x: 0 where an element is dropped, else 1 / (1 - rate). Its mean is near 1."""
    dtype = x.dtype if x.device.type != "cpu" else torch.promote_types(x.dtype, torch.float32)
    ones = torch.ones_like(x, dtype=dtype, memory_format=torch.contiguous_format)
    return dropout_(ones, rate) if is_eager(x) else functional.dropout(ones, rate)


def dropout_(x: Float[Tensor, "*shape"], rate: float) -> Float[Tensor, "*shape"]:
    """Drop elements of ``x``, which is contiguous, in place, and return it."""
    if x.device.type != "cpu":
        return functional.dropout(x, rate, inplace=True)
    greatest_dropped = dropped_levels(rate) - LEVELS // 2 - 1
    buffer = torch.empty(-(-min(CHUNK_ELEMENTS, x.numel()) // 4), dtype=torch.int64)
    numbers = torch.empty(min(CHUNK_ELEMENTS, x.numel()), dtype=torch.promote_types(x.dtype, torch.float32))
    for chunk in x.view(-1).split(CHUNK_ELEMENTS):
        drawn = buffer[: -(-len(chunk) // 4)].random_(-(2**63), None)
        bits = numbers[: len(chunk)].copy_(drawn.view(torch.int16)[: len(chunk)])
        kept = chunk.to(bits.dtype)  # the chunk itself, but for formats of 16 bits
        # ``threshold_backward`` sets ``kept`` to 0 where ``bits`` are at most ``greatest_dropped``.
        torch.ops.aten.threshold_backward.grad_input(kept, bits, greatest_dropped, grad_input=kept)
        chunk.copy_(kept.mul_(inverse_keep_rate(rate)))
    return x


def dropped_levels(rate: float) -> int:
    """Return how many values of 16 bits drop an element; one value at least keeps it."""
    return min(LEVELS - 1, round(rate * LEVELS))


def inverse_keep_rate(rate: float) -> float:
    """Return 1 / (1 - rate) for the rate that 16 bits can meet."""
    return LEVELS / (LEVELS - dropped_levels(rate))


class FastDropout(nn.Dropout):
    """``nn.Dropout`` with 16 random bits for each element."""

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return x * dropout_mask(x, self.p) if self.training and self.p else x


class FastVariationalDropout(paper.VariationalDropout):
    """The model's ``VariationalDropout`` with 16 random bits for each element of its mask."""

    def forward(self, x: Float[Tensor, "batch seg width"]) -> Float[Tensor, "batch seg width"]:
        return x * dropout_mask(x[:, :1], self.p) if self.training and self.p else x
