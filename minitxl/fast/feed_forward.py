"""The feed-forward layer on a CPU, W_2 dropout(relu(W_1 x + b_1)) + b_2: its hidden activation is saved once.

After ReLU and dropout, an entry of the hidden layer is positive where a gradient passes, and 0
where none does; every gradient that passes is scaled by 1 / (1 - rate). So the output of ReLU and
dropout is enough for the backward pass: neither dropout's mask nor the input of ReLU is saved. The
forward pass overwrites the hidden activation, and the backward pass its gradient.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from minitxl.fast.dropout import FastDropout, dropout_, inverse_keep_rate
from minitxl.fast.eager import is_eager_on_cpu
from minitxl.fast.linear import FastLinear, apply_linear, gradients, linear
from minitxl.model import FeedForward

StateRows = Float[Tensor, "row model"]


class FastFeedForward(FeedForward):
    """``FeedForward`` as one function with its own backward pass, if its non-linearity is ReLU."""

    def forward(self, x: Float[Tensor, "*rows model"]) -> Float[Tensor, "*rows model"]:
        """Return the layer's output; another non-linearity or dropout runs module by module."""
        first, function, dropout, second = self
        kinds = type(first), type(function), type(dropout), type(second)
        if kinds != (FastLinear, nn.ReLU, FastDropout, FastLinear) or not is_eager_on_cpu(x):
            return super().forward(x)  # type: ignore[no-untyped-call]
        rate = dropout.p if dropout.training else 0.0
        if not torch.is_grad_enabled() and not rate:  # nothing to save for a backward pass
            return apply_linear(second, torch.relu_(apply_linear(first, x)))
        rows = x.reshape(-1, x.shape[-1])
        weights = first.weight, first.bias, second.weight, second.bias
        y: Tensor = InPlaceFeedForward.apply(rows, *weights, rate)  # type: ignore[no-untyped-call]
        return y.reshape(x.shape)


class InPlaceFeedForward(torch.autograd.Function):
    """The feed-forward layer of rows [row model], and its gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        x: StateRows,
        W_1: Float[Tensor, "wide model"],
        b_1: Float[Tensor, " wide"],
        W_2: Float[Tensor, "model wide"],
        b_2: Float[Tensor, " model"],
        rate: float,
    ) -> StateRows:
        hidden = linear(x, W_1, b_1).contiguous().relu_()
        x = x.to(hidden.dtype)  # the number format that the backward pass multiplies in
        if rate:
            dropout_(hidden, rate)
        ctx.save_for_backward(x, W_1, hidden, W_2)
        ctx.rate = rate
        return linear(hidden, W_2, b_2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: StateRows) -> tuple[Tensor | None, ...]:
        x, W_1, hidden, W_2 = ctx.saved_tensors
        needed = ctx.needs_input_grad
        _, dW_2, db_2 = gradients(dy, hidden, W_2, (False, *needed[3:5]))
        d_hidden = linear(dy, W_2.mT)
        torch.ops.aten.threshold_backward.grad_input(d_hidden, hidden, 0, grad_input=d_hidden)
        if ctx.rate:
            d_hidden.mul_(inverse_keep_rate(ctx.rate))
        return *gradients(d_hidden, x, W_1, needed[:3]), dW_2, db_2, None
