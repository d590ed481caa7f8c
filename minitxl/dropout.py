"""Dropout as a factor: 0 where an element is dropped, 1 / (1 - rate) where it is kept."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

STEPS = 2**16


def factor(x: Float[Tensor, "*shape"], rate: float) -> Float[Tensor, "*shape"]:
    """What dropout multiplies ``x`` by; its mean is 1.

    On a CPU, drawing random floats is what makes dropout slow: 16 random bits an element
    decide as well, and the rate is met to 1 in 65,536.
    """
    if x.device.type != "cpu":
        return functional.dropout(torch.ones_like(x), rate)
    dropped = round(rate * STEPS)
    words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = words.view(torch.int16)[: x.numel()].view(x.shape)
    return (bits >= dropped - STEPS // 2).to(x.dtype).mul_(STEPS / (STEPS - dropped))


class Dropout(nn.Dropout):
    """Each element dropped by itself, in training only."""

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return x * factor(x, self.p) if self.training and self.p else x


class VariationalDropout(nn.Dropout):
    """A mask drawn once for all tokens of a segment (Gal and Ghahramani 2016)."""

    def forward(self, x: Float[Tensor, "batch seg width"]) -> Float[Tensor, "batch seg width"]:
        return x * factor(x[:, :1], self.p) if self.training and self.p else x
