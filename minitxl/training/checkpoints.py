"""Checkpoints: named tensors and what they are, in one safetensors file.

Nothing here can run code on reading. The file carries a SHA-256 over its tensors, which
notices what safetensors does not: a flipped byte.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from minitxl.config import ModelConfig
from minitxl.files import atomic_write
from minitxl.model import TransformerLM
from minitxl.training.config import TrainConfig

Tensors = dict[str, Tensor]
MODEL, AVERAGE = "model.", "average."
"""Prefixes of a model's tensors: as trained, and as averaged over steps."""
RENAMED = {
    "share_uv": "share_biases",
    "norm_output": "final_norm",
    "variational": "variational_dropout",
}
"""Settings that were stored under another name."""


def write(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write a checkpoint whole or not at all; ``about`` is anything JSON can hold.

    What the system says against it, a full disk among others, is an OSError.
    """
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    described = json.dumps({**about, "sha256": _digest(plain)}, sort_keys=True)
    try:
        with atomic_write(path) as temporary:
            save_file(plain, temporary, metadata={"minitxl": described})
    except SafetensorError as error:
        raise OSError(f"{path} can't be written: {error}") from error


def read(path: Path) -> tuple[Tensors, dict[str, Any]]:
    """Return the tensors and the description, checked against their digest."""
    try:
        with safe_open(path, framework="pt") as file:
            described = (file.metadata() or {}).get("minitxl")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is not a whole checkpoint: {error}") from error
    if described is None:
        raise ValueError(f"{path} holds tensors, but was not written by minitxl")
    about = json.loads(described)
    if about.pop("sha256") != _digest(tensors):
        raise ValueError(f"{path} is damaged: its tensors do not match their SHA-256")
    if "model" in about:
        about["model"] = {RENAMED.get(name, name): value for name, value in about["model"].items()}
    return tensors, about


def save_model(path: Path, model: TransformerLM) -> None:
    """Save a model and its configuration."""
    write(path, model_tensors(model), {"model": asdict(model.config)})


def load_model(path: Path, *, device: torch.device | str = "cpu") -> TransformerLM:
    """Return the model of a checkpoint, of ``save_model`` or of a run, ready to be evaluated."""
    return model_of(*read(path), device=device)


def model_of(
    tensors: Tensors, about: Mapping[str, Any], *, device: torch.device | str = "cpu"
) -> TransformerLM:
    """The model in what ``read`` gave; of a run that averages its weights the average, once there is one."""
    prefix = AVERAGE if tensors.get("averaged", torch.tensor(0)) > 0 else MODEL
    dtype = next(tensor.dtype for name, tensor in tensors.items() if name.startswith(prefix))
    model = TransformerLM(model_config(about["model"])).to(device, dtype)
    copy_model_tensors(tensors, model, prefix)
    return model.eval()


def model_config(described: Mapping[str, Any]) -> ModelConfig:
    """Return the configuration that JSON has turned into lists and numbers."""
    return ModelConfig(**_with_tuples(described))


def train_config(described: Mapping[str, Any]) -> TrainConfig:
    """Return the settings of a training that JSON has turned into lists and numbers."""
    return TrainConfig(**_with_tuples(described))


def _with_tuples(described: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in described.items()}


def model_tensors(model: nn.Module, prefix: str = MODEL) -> Tensors:
    """Return every parameter once, under its first name, so that tied ones stay tied."""
    return {prefix + name: parameter.detach() for name, parameter in model.named_parameters()}


def copy_model_tensors(tensors: Tensors, model: nn.Module, prefix: str = MODEL) -> None:
    """Copy what ``model_tensors`` gave into a model of the same configuration."""
    held = {name.removeprefix(prefix) for name in tensors if name.startswith(prefix)}
    parameters: dict[str, nn.Parameter] = dict(model.named_parameters())
    if stray := held.symmetric_difference(parameters):
        name = min(stray)
        where = "the checkpoint lacks it" if name in parameters else "the model has none of that name"
        raise ValueError(f"tensor {name} does not fit: {where}")
    with torch.no_grad():
        for name, parameter in parameters.items():
            tensor = tensors[prefix + name]
            if tensor.shape != parameter.shape:
                raise ValueError(
                    f"tensor {name} must have shape {tuple(parameter.shape)}, got {tuple(tensor.shape)}"
                )
            parameter.copy_(tensor)


def _digest(tensors: Tensors) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
