"""Dropout as a factor: 0 where an element is dropped, 1 / (1 - rate) where it is kept."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

STEPS = 2**16
PIECE = 2**16
"""Elements that are drawn for at once; new memory for each large tensor would first be mapped."""


def factor(x: Float[Tensor, "*shape"], rate: float) -> Float[Tensor, "*shape"]:
    """What dropout multiplies ``x`` by; its mean is 1."""
    return drop_(torch.ones_like(x, memory_format=torch.contiguous_format), rate)


def drop_(x: Float[Tensor, "*shape"], rate: float) -> Float[Tensor, "*shape"]:
    """``x`` itself, contiguous, with dropout done to it.

    On a CPU, drawing random floats is what makes dropout slow: 16 random bits an element
    decide as well, and the rate is met to 1 in 65,536.
    """
    if x.device.type != "cpu":
        return functional.dropout(x, rate, inplace=True)
    dropped, scale = round(rate * STEPS), x.new_tensor(kept_scale(rate))
    words = torch.empty(-(-min(PIECE, x.numel()) // 4), dtype=torch.int64)
    for piece in x.view(-1).split(PIECE):
        drawn = words[: -(-len(piece) // 4)].random_(-(2**63), None)
        bits = drawn.view(torch.int16)[: len(piece)]
        piece.mul_(torch.where(bits >= dropped - STEPS // 2, scale, 0.0))
    return x


def kept_scale(rate: float) -> float:
    """What is kept is multiplied by: 1 / (1 - rate), of the rate that is met."""
    return STEPS / (STEPS - round(rate * STEPS))


class Dropout(nn.Dropout):
    """Each element dropped by itself, in training only."""

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return x * factor(x, self.p) if self.training and self.p else x


class VariationalDropout(nn.Dropout):
    """A mask drawn once for all tokens of a segment (Gal and Ghahramani 2016)."""

    def forward(self, x: Float[Tensor, "batch seg width"]) -> Float[Tensor, "batch seg width"]:
        return x * factor(x[:, :1], self.p) if self.training and self.p else x
