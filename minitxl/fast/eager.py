"""The condition for the faster forms: PyTorch runs each operation when it is called, in its inputs' format.

Under ``torch.compile`` and ``torch.export``, and on a CPU under autocast, the fast modules compute as the
modules of the paper are written. So PyTorch sees the whole graph and chooses every number format itself.
"""

import torch
from torch import Tensor


def is_eager(x: Tensor) -> bool:
    """True unless PyTorch compiles, or x is on a CPU under autocast."""
    autocast = x.device.type == "cpu" and torch.is_autocast_enabled("cpu")
    return not torch.compiler.is_compiling() and not autocast


def is_eager_on_cpu(x: Tensor) -> bool:
    """True if x is on a CPU and PyTorch neither compiles nor autocasts."""
    return x.device.type == "cpu" and is_eager(x)
