"""The products and losses of output layers in their faster forms."""

from jaxtyping import Float, Int
from torch import Tensor

from minitxl.adaptive import AdaptiveSoftmax
from minitxl.fast.cross_entropy import ClassBias, ClassMatrix, cross_entropy, is_large
from minitxl.fast.linear import Bias, Matrix, linear
from minitxl.lstm import LSTMLM


class FastAdaptiveSoftmax(AdaptiveSoftmax):
    """``AdaptiveSoftmax``, its products computed by ``linear``."""

    def linear(
        self, x: Float[Tensor, "*rows input"], weight: Matrix, bias: Bias | None = None
    ) -> Float[Tensor, "*rows output"]:
        """Return x Wᵀ + b in the number format of x."""
        return linear(x, weight, bias).to(x.dtype)

    def class_losses(
        self,
        x: Float[Tensor, "token input"],
        weight: ClassMatrix,
        bias: ClassBias,
        classes: Int[Tensor, " token"],
    ) -> Float[Tensor, " token"]:
        """Return -log softmax(x Wᵀ + b) at each token's class, of a large softmax chunk by chunk."""
        if is_large(x, weight):
            return cross_entropy(x, weight, bias, classes)
        return super().class_losses(x, weight, bias, classes)


class FastLSTMLM(LSTMLM):
    """``LSTMLM``, the product of its output layer computed by ``linear``."""

    def linear(
        self, x: Float[Tensor, "batch seg model"], weight: Matrix, bias: Bias
    ) -> Float[Tensor, "batch seg vocab"]:
        """Return x Wᵀ + b."""
        return linear(x, weight, bias)
