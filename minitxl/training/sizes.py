"""The size of a model and the RAM that a training needs, computed before any of it is allocated."""

import os
from dataclasses import replace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from minitxl.config import ModelConfig
from minitxl.model import TransformerLM
from minitxl.training.config import TrainConfig

NUMBERS_PER_PARAMETER = 4
"""The weight, its gradient, and Adam's two moments."""
BYTES = 4
"""Bytes of a number in float32."""


def skeleton(config: ModelConfig) -> TransformerLM:
    """Return a model whose parameters have shapes and no numbers: they are on the device ``meta``."""
    with torch.device("meta"), _NothingDrawn():
        return TransformerLM(config)


def parameter_count(config: ModelConfig) -> int:
    """Return the number of parameters, without making any: each further layer adds the same number."""
    one, two = (_count(replace(config, n_layer=layers)) for layers in (1, 2))
    return one + (config.n_layer - 1) * (two - one)


def check_ram(config: ModelConfig, settings: TrainConfig, *, lane: int, device: torch.device) -> None:
    """Raise a ValueError for a model that can't be trained in the RAM of the device.

    This is a lower bound: weights, gradients, the optimizer's two moments, and the memory of
    Transformer-XL, which is never longer than a ``lane`` of the text. Activations are not counted.
    """
    parameters, available = parameter_count(config), _available(device)
    remembered = config.n_layer * settings.batch * min(settings.mem_len, lane) * config.d_model
    needed = BYTES * (NUMBERS_PER_PARAMETER * parameters + remembered)
    if available is not None and needed > available:
        raise ValueError(
            f"the training must fit into the {available / 2**30:,.1f} GiB of {device}, got a model of "
            f"{parameters:,} parameters, which takes {needed / 2**30:,.1f} GiB and more"
        )


def _count(config: ModelConfig) -> int:
    return sum(parameter.numel() for parameter in skeleton(config).parameters())


def _available(device: torch.device) -> int | None:
    """Return the bytes of the device's RAM; None where the system does not say."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None


class _NothingDrawn(TorchFunctionMode):
    """Leave the tensors that ``torch.nn.init`` would fill as they are.

    To draw numbers for the device ``meta``, PyTorch imports its compiler, which takes more than a second.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == torch.nn.init.__name__:
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)
