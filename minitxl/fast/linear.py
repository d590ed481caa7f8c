"""The product y = x Wᵀ + b, which takes most of a model's time, by the fastest library on a CPU.

    FastLinear(d_model, d_inner)(x), linear(x, W, b)

PyTorch gives float32 products on a CPU to Intel's MKL, and contains a second library, oneDNN.
On Intel's CPUs, MKL is as fast or faster at every shape used here. On other CPUs three kinds of products are
computed in another way than by MKL's product of x and W:

    large products        oneDNN computes them. MKL uses instructions of 512 bits on Intel's CPUs alone, so
                          on another CPU that computes 512 bits at once oneDNN takes half the time.
    products of few rows  of x: W is cut in two. Such a product, as when a text is continued token by token,
                          costs the time to read W, and MKL gives one row to one thread. Two matrices are
                          read by two threads.
    repeated products     oneDNN orders W anew in each product, which takes long beside a product of some
                          tens of rows. To evaluate and to generate, W is copied in that order once.
"""

from collections.abc import Sequence
from math import prod
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import register_flop_formula

from minitxl.fast.bfloat16 import in_bfloat16
from minitxl.fast.eager import is_eager_on_cpu

INTEL = str(torch.cpu.get_capabilities().get("cpu_name")).startswith("Intel")
ONEDNN = torch.backends.mkldnn.is_available()
ONEDNN_BFLOAT16 = ONEDNN and torch.ops.mkldnn._is_mkldnn_bf16_supported()
"""False on a CPU with 256 bits a register, where oneDNN orders no weight in bfloat16."""
FEW_ROWS = 4
"""Up to this many rows, a product is computed by halves of the matrix."""
ORDERED_ROWS = range(FEW_ROWS + 1, 513)
"""Numbers of rows for which a matrix is copied in oneDNN's order; with more rows that saves little."""
LARGE, LARGE_FOR_FEW_ROWS = 2**22, 2**18
"""Minimum multiplications for leaving PyTorch's own product."""

Rows = Float[Tensor, "row input"]
Matrix = Float[Tensor, "output input"]
Bias = Float[Tensor, " output"]


class FastLinear(nn.Linear):
    """``nn.Linear``, computed by ``linear``; the result has the number format of the input."""

    packed: Tensor | None = None
    """A copy of the weight in the order in which oneDNN reads it; it has no gradient.

    None before ``pack``, and where no such order is faster.
    """

    def forward(self, input: Float[Tensor, "*rows input"]) -> Float[Tensor, "*rows output"]:
        return self.product(input).to(input.dtype)

    def product(self, x: Float[Tensor, "*rows input"]) -> Float[Tensor, "*rows output"]:
        """Return the output in the number format that it is computed in."""
        if self.packed is None:
            return linear(x, self.weight, self.bias)
        x = x.to(self.weight.dtype)
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")

    def round_parameters(self) -> None:
        """Round weight and bias to bfloat16; a layer that shared one of them keeps it unrounded."""
        vars(self)["_parameters"] = {
            name: None if one is None else nn.Parameter(one.detach().bfloat16(), requires_grad=False)
            for name, one in self._parameters.items()
        }

    def pack(self, rows: int) -> None:
        """Copy the weight in oneDNN's order for products of so many rows, where that is faster.

        oneDNN would order the weight anew in each product, which takes as long as a product of few rows.
        """
        weight = self.weight.detach()
        if _for_onednn_in_order(weight, rows):
            self.packed = torch.ops.mkldnn._reorder_linear_weight(weight, rows)


def joined(layers: Sequence[nn.Module], rows: int) -> FastLinear | None:
    """Return one layer with the outputs of several, one after another; None if that can't be or is no gain.

    A product of few rows reads its matrix, and threads read one large matrix faster than several small ones.
    The layer has a copy of the matrices, packed if they are. A layer with a hook stays apart, for its hook is
    to see the product.
    """
    if not all(isinstance(one, FastLinear) and one.bias is None and not one._forward_hooks for one in layers):
        return None
    weights = [cast(Tensor, one.weight) for one in layers]
    packed = all(one.packed is not None for one in layers)
    if not packed and (rows > FEW_ROWS or not all(_for_onednn(weight, weight) for weight in weights)):
        return None
    together = FastLinear(weights[0].shape[1], sum(map(len, weights)), bias=False, device="meta")
    together.weight = nn.Parameter(torch.cat(weights).detach(), requires_grad=False)
    if packed:
        together.pack(rows)
    return together


def apply_linear(layer: nn.Module, x: Float[Tensor, "*rows input"]) -> Float[Tensor, "*rows output"]:
    """Return the layer's output; that of a ``FastLinear`` stays in bfloat16 where it is computed so."""
    if type(layer) is FastLinear and not layer._forward_hooks and in_bfloat16(x, layer.weight):
        return layer.product(x)
    return layer(x)


def linear(
    x: Float[Tensor, "*rows input"], weight: Matrix, bias: Bias | None = None
) -> Float[Tensor, "*rows output"]:
    """Return x Wᵀ + b as ``torch.nn.functional.linear`` does, to rounding: oneDNN sums in another order.

    Where ``fast.bfloat16`` says so, the product and its result are in bfloat16.
    """
    if in_bfloat16(x, weight):
        x, weight = x.bfloat16(), weight.bfloat16()
        return functional.linear(x, weight, None if bias is None else bias.bfloat16())
    rows = x.numel() // max(1, x.shape[-1])
    large = rows * weight.numel() >= (LARGE_FOR_FEW_ROWS if rows <= FEW_ROWS else LARGE)
    if not large or not _for_onednn(x, weight):
        return functional.linear(x, weight, bias)
    multiply = LinearFunction.apply if torch.is_grad_enabled() else faster_linear
    y = multiply(x.reshape(-1, x.shape[-1]), weight, bias)
    return torch.ops.aten._unsafe_view(y, (*x.shape[:-1], len(weight)))


def _for_onednn(x: Tensor, weight: Tensor) -> bool:
    """True for float32 tensors of matching shapes on a CPU where oneDNN is faster than MKL."""
    fits = x.dtype == weight.dtype == torch.float32 and x.shape[-1] == weight.shape[1]
    return ONEDNN and not INTEL and fits and is_eager_on_cpu(x)


def _for_onednn_in_order(weight: Matrix, rows: int) -> bool:
    """Return True if oneDNN reads the weight faster in an order of its own; in bfloat16 it reads no other."""
    if weight.dtype == torch.bfloat16:
        return ONEDNN_BFLOAT16 and weight.device.type == "cpu"
    return rows in ORDERED_ROWS and rows * weight.numel() >= LARGE and _for_onednn(weight, weight)


class LinearFunction(torch.autograd.Function):
    """``faster_linear`` with its gradients."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Rows, weight: Matrix, bias: Bias | None) -> Float[Tensor, "row output"]:
        return faster_linear(x, weight, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor | None, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, dy: Float[Tensor, "row output"]) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        return gradients(dy, x, weight, ctx.needs_input_grad)


def gradients(
    dy: Float[Tensor, "row output"], x: Rows, weight: Matrix, needed: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return the gradients that are needed: dx = dy W, dW = dyᵀ x, db = Σ dy; None for the others."""
    dx = linear(dy, weight.mT) if needed[0] else None
    dw = _weight_gradient(dy, x.to(dy.dtype)) if needed[1] else None
    return dx, dw, dy.sum(dim=0, dtype=weight.dtype) if needed[2] else None


def _weight_gradient(dy: Float[Tensor, "row output"], x: Rows) -> Matrix:
    """Return dyᵀ x; ``torch.func``'s transforms are left to PyTorch, since oneDNN has no rule for them.

    oneDNN copies its first factor if that is transposed, so the narrower one comes first: dyᵀ x = (xᵀ dy)ᵀ.
    """
    if torch._C._functorch.is_functorch_wrapped_tensor(dy) or not len(dy):
        return dy.mT @ x
    return linear(dy.mT, x.mT) if dy.shape[1] <= x.shape[1] else linear(x.mT, dy.mT).mT


def faster_linear(x: Rows, weight: Matrix, bias: Bias | None) -> Float[Tensor, "row output"]:
    """Return x Wᵀ + b by halves of the matrix for a few rows, else by oneDNN."""
    if len(x) > FEW_ROWS or len(weight) % 2 or not weight.is_contiguous():
        return onednn_linear(x, weight, bias)
    halves = weight.view(2, -1, weight.shape[1])
    y = torch.bmm(halves, x.mT.expand(2, -1, -1)).flatten(0, 1).mT
    return y if bias is None else y + bias


def onednn_linear(x: Rows, weight: Matrix, bias: Bias | None) -> Float[Tensor, "row output"]:
    """Return x Wᵀ + b by oneDNN."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


if ONEDNN:

    @register_flop_formula(torch.ops.mkldnn._linear_pointwise)
    def operations(x: torch.Size, weight: torch.Size, *_: Any, **__: Any) -> int:
        """Return the operations of oneDNN's product, so that ``FlopCounterMode`` counts it as any other."""
        return prod(x) * weight[0] * 2
