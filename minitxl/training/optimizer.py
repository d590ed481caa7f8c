"""AdamW, with weight decay on matrices alone, and its step."""

from math import isfinite
from typing import Any

from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from minitxl.training.config import TrainConfig

BIASES = ("bias", "u", "v", "table")
"""Last parts of the names of biases: those of layers, XL's u and v, and T5's table."""


def adamw(model: nn.Module, settings: TrainConfig) -> AdamW:
    """Return AdamW over the model's parameters; LayerNorms and biases do not decay.

    With a decay of 0 it is the paper's Adam, however the parameters are grouped.
    """
    named = list(model.named_parameters())
    decayed = [parameter for name, parameter in named if decays(name, parameter)]
    others = [parameter for name, parameter in named if not decays(name, parameter)]
    groups: list[dict[str, Any]] = [{"params": decayed}, {"params": others, "weight_decay": 0.0}]
    return AdamW(groups, lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True)


def decays(name: str, parameter: nn.Parameter) -> bool:
    """Return True for the matrices of layers and embeddings, which weight decay pulls towards zero."""
    return parameter.ndim > 1 and name.rpartition(".")[2] not in BIASES


def optimizer_step(optimizer: Optimizer, norm: Tensor, *, rate: float) -> float:
    """Step at this learning rate, and return the gradients' norm as a number.

    ``norm`` comes from ``clip_grad_norm_``. Raises a ValueError, and changes nothing, if it is not finite.
    """
    if not isfinite(value := norm.item()):
        raise ValueError(f"the gradient must be finite, got norm {value} at learning rate {rate:.3g}")
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    return value
