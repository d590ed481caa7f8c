"""The losses of a large softmax, some tokens at a time, so that the scores of all tokens are never held.

    -log p(target) = log Σ_j exp(s_j) - s_target,   s = x Wᵀ + b,   ∂/∂s = softmax(s) - onehot(target)

At 10,000 words the scores of a step are 40 kilobytes a token, and PyTorch keeps log-softmax and its gradient
beside them. Here the forward pass turns a chunk's scores into gradients at once, as if the sum of all losses
were asked for: each loss with a factor of 1. Training asks for their mean, where all factors are equal, so
the backward pass multiplies by that factor. Where factors differ, as with padding, it computes the scores
once more.
"""

from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from minitxl.fast.eager import is_eager_on_cpu
from minitxl.fast.linear import gradients, linear

CHUNK_SCORES = 2**22
"""Scores that are held at once, 16 megabytes in float32; fewer are computed in one piece."""
LEAST_TOKENS = 256
"""Fewest tokens of a chunk: each chunk adds to the gradient of the whole matrix."""

TokenVectors = Float[Tensor, "token input"]
ClassMatrix = Float[Tensor, "n_class input"]
ClassBias = Float[Tensor, " n_class"]
TokenLosses = Float[Tensor, " token"]
Classes = Int[Tensor, " token"]


def is_large(x: TokenVectors, weight: ClassMatrix) -> bool:
    """True if the scores fill more than a chunk, on a CPU without compiler, autocast or ``torch.func``."""
    plain = is_eager_on_cpu(x) and not torch._C._functorch.is_functorch_wrapped_tensor(x)
    return plain and len(x) > LEAST_TOKENS and len(x) * len(weight) > CHUNK_SCORES


def cross_entropy(x: TokenVectors, weight: ClassMatrix, bias: ClassBias, targets: Classes) -> TokenLosses:
    """Return the loss of each token in nats."""
    if torch.is_grad_enabled() and any(one.requires_grad for one in (x, weight, bias)):
        losses: TokenLosses = CrossEntropy.apply(x, weight, bias, targets)  # type: ignore[no-untyped-call]
        return losses
    parts = zip(_chunks(x, weight), _chunks(targets, weight), strict=True)
    return torch.cat([_losses(_scores(rows, weight, bias), wanted) for rows, wanted in parts])


class CrossEntropy(torch.autograd.Function):
    """``cross_entropy`` with its gradients."""

    @staticmethod
    def forward(
        ctx: Any, x: TokenVectors, weight: ClassMatrix, bias: ClassBias, targets: Classes
    ) -> TokenLosses:
        losses, *sums = _losses_and_gradients(x, weight, bias, targets, None, ctx.needs_input_grad)
        ctx.save_for_backward(x, weight, bias, targets, *sums)
        return losses

    @staticmethod
    def backward(ctx: Any, factors: TokenLosses) -> tuple[Tensor | None, ...]:
        x, weight, bias, targets, *sums = ctx.saved_tensors
        if torch.is_grad_enabled():  # gradients of gradients are asked for
            return *_differentiable(x, weight, bias, targets, factors, ctx.needs_input_grad), None
        if (factors == factors[0]).all():
            return *(None if one is None else one * factors[0] for one in sums), None
        _, *sums = _losses_and_gradients(x, weight, bias, targets, factors, ctx.needs_input_grad)
        return *sums, None


def _losses_and_gradients(
    x: TokenVectors,
    weight: ClassMatrix,
    bias: ClassBias,
    targets: Classes,
    factors: TokenLosses | None,
    needed: tuple[bool, ...],
) -> tuple[TokenLosses, Tensor | None, Tensor | None, Tensor | None]:
    """Return the losses and the gradients of their sum, in which each has its factor, or 1."""
    losses, dx = list[Tensor](), list[Tensor]()
    dw = db = None
    weighed = torch.ones_like(targets, dtype=x.dtype) if factors is None else factors
    parts = zip(*(_chunks(one, weight) for one in (x, targets, weighed)), strict=True)
    for rows, wanted, factor in parts:
        scores = _scores(rows, weight, bias)
        picked = _of(scores, wanted)
        greatest = scores.amax(dim=-1)
        ds = torch.softmax(scores, dim=-1, out=scores)
        losses.append(greatest - ds.amax(dim=-1).log() - picked)  # max p = exp(max s) / Σ_j exp(s_j)
        ds.scatter_add_(1, _column(wanted), ds.new_full((len(wanted), 1), -1.0))
        if factors is not None:
            ds *= _column(factor)
        of_rows, of_weight, of_bias = gradients(ds, rows, weight, needed)
        if of_rows is not None:
            dx.append(of_rows.to(x.dtype))
        dw, db = _added(dw, of_weight, weight), _added(db, of_bias, bias)
    return torch.cat(losses), torch.cat(dx) if dx else None, dw, db


def _added(total: Tensor | None, part: Tensor | None, like: Tensor) -> Tensor | None:
    """Return the sum so far with a chunk's part, in the number format of the parameter."""
    if total is None or part is None:
        return None if part is None else part.to(like.dtype)
    return total.add_(part)


def _differentiable(
    x: TokenVectors,
    weight: ClassMatrix,
    bias: ClassBias,
    targets: Classes,
    factors: TokenLosses,
    needed: tuple[bool, ...],
) -> list[Tensor | None]:
    """Return the gradients as a graph of PyTorch's own operations, with the scores of all tokens."""
    inputs = [one for one, wanted in zip((x, weight, bias), needed, strict=False) if wanted]
    losses = _losses(_scores(x, weight, bias), targets)
    found = iter(torch.autograd.grad(losses, inputs, factors, create_graph=True))
    return [next(found) if wanted else None for wanted in needed[:3]]


def _scores(rows: TokenVectors, weight: ClassMatrix, bias: ClassBias) -> Float[Tensor, "token n_class"]:
    return linear(rows, weight, bias).to(rows.dtype)


def _losses(scores: Float[Tensor, "token n_class"], targets: Classes) -> TokenLosses:
    return scores.logsumexp(dim=-1) - _of(scores, targets)


def _of(values: Float[Tensor, "token n_class"], classes: Classes) -> TokenLosses:
    """Return each token's value of its class."""
    return rearrange(values.gather(1, _column(classes)), "token 1 -> token")


def _column(values: Tensor) -> Tensor:
    return rearrange(values, "token -> token 1")


def _chunks(values: Tensor, weight: ClassMatrix) -> tuple[Tensor, ...]:
    return values.split(max(LEAST_TOKENS, CHUNK_SCORES // len(weight)))
