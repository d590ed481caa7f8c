"""The condition for the faster forms: eager execution, on a CPU without autocast.

Under ``torch.compile``, ``torch.export`` and CPU autocast the modules of the paper run as they are
written, so that PyTorch sees the whole graph and chooses every number format itself.
"""

import torch
from torch import Tensor


def is_eager(x: Tensor) -> bool:
    """True unless PyTorch compiles, or autocasts on a CPU that holds x."""
    autocast = x.device.type == "cpu" and torch.is_autocast_enabled("cpu")
    return not torch.compiler.is_compiling() and not autocast


def is_eager_on_cpu(x: Tensor) -> bool:
    """True if x is on a CPU and PyTorch neither compiles nor autocasts."""
    return x.device.type == "cpu" and is_eager(x)
