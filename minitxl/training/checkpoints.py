"""Checkpoints: named tensors and a description of them, in one safetensors file.

Nothing here can run code on reading. The file carries a SHA-256 over its tensors and its
description, so a flipped bit that changes any value is noticed. Every weight must be finite.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from minitxl import fields
from minitxl.arguments import check_kind
from minitxl.config import ModelConfig
from minitxl.files import atomic_write, plain_file, reason
from minitxl.model import TransformerLM
from minitxl.training.config import TrainConfig

Tensors = dict[str, Tensor]
MODEL, AVERAGE = "model.", "average."
"""Prefixes of a model's tensors: as trained, and as averaged over steps."""


def an_object(value: object) -> str | None:
    """Return None for a dict, or what the value must be instead: a rule of ``fields.checked``."""
    return None if isinstance(value, dict) else "be an object of names and values"


FILE = {"sha256": fields.text(), "about": an_object}
"""Values that a checkpoint's metadata holds: the digest, and the description."""


def write(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write a checkpoint whole or not at all; the description ``about`` is anything JSON can hold.

    Raises an OSError where the file can't be written, as on a full disk.
    """
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    described = json.dumps({"about": about, "sha256": _digest(tensor_digest(plain), about)}, sort_keys=True)
    try:
        with atomic_write(path) as temporary:
            save_file(plain, temporary, metadata={"minitxl": described})
    except SafetensorError as error:
        raise OSError(f"{path} can't be written: {error}") from error


def read(path: Path) -> tuple[Tensors, dict[str, Any]]:
    """Return the tensors and the description, checked against their digest. All numbers are finite."""
    with _opened(path) as file:
        described = (file.metadata() or {}).get("minitxl")
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    about = description(described, tensor_digest(tensors), path)
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise ValueError(f"{path}: tensor {name} must be finite, got NaN or infinity in it")
    return tensors, about


def described_in(path: Path) -> dict[str, Any]:
    """Return the description alone; the tensors are not read, and the digest is not checked."""
    with _opened(path) as file:
        return _content((file.metadata() or {}).get("minitxl"), path)["about"]


def description(text: str | None, digest: str, path: Path) -> dict[str, Any]:
    """Return the description in a checkpoint's metadata. Raise a ValueError unless it is what was written."""
    content = _content(text, path)
    if content["sha256"] != _digest(digest, content["about"]):
        raise ValueError(f"{path} is damaged: its content does not match its SHA-256")
    return content["about"]


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    plain_file(path)
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError, RuntimeError) as error:
        raise ValueError(f"{path} is not a whole checkpoint: {reason(error)}") from error


def _content(text: str | None, path: Path) -> dict[str, Any]:
    if text is None:
        raise ValueError(f"{path} holds tensors, but was not written by minitxl")
    try:
        return fields.checked(json.loads(text), FILE, file=path, required=FILE)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: its description can't be read: {error}") from error


def save_model(path: Path | str, model: TransformerLM) -> None:
    """Save a model and its configuration."""
    check_kind("model", model, TransformerLM)
    write(Path(path), model_tensors(model), {"model": asdict(model.config)})


def load_model(path: Path | str, *, device: torch.device | str = "cpu") -> TransformerLM:
    """Return the model of a checkpoint, of ``save_model`` or of a run, ready to be evaluated."""
    if Path(path).is_dir():
        raise ValueError(
            f"{path} must be a checkpoint's file, got a folder: "
            f"the model of a run is run_folder.trained(folder).model"
        )
    return model_of(*read(Path(path)), file=Path(path), device=device)


def model_of(
    tensors: Tensors, about: Mapping[str, Any], *, file: Path, device: torch.device | str = "cpu"
) -> TransformerLM:
    """Return the model in the result of ``read``, with averaged weights if there are any."""
    prefix = AVERAGE if tensors.get("averaged", torch.tensor(0)) > 0 else MODEL
    with fields.naming(file):
        dtype = next((tensor.dtype for name, tensor in tensors.items() if name.startswith(prefix)), None)
        if dtype is None or not dtype.is_floating_point:
            raise ValueError(f"the model's tensors must be floating point, got {dtype}")
    config = model_config(about.get("model"), file=file)
    with fields.naming(file):
        model = TransformerLM(config).to(device, dtype)
        copy_model_tensors(tensors, model, prefix)
    return model.eval()


def model_config(described: object, *, file: Path | str = "the settings") -> ModelConfig:
    """Return the model's configuration from its form in JSON."""
    return fields.dataclass_from(ModelConfig, described, file=file)


def train_config(described: object, *, file: Path | str = "the settings") -> TrainConfig:
    """Return the settings of a training from their form in JSON."""
    return fields.dataclass_from(TrainConfig, described, file=file)


def model_tensors(model: nn.Module, prefix: str = MODEL) -> Tensors:
    """Return every parameter once, under its first name, so that tied ones stay tied."""
    return {prefix + name: parameter.detach() for name, parameter in model.named_parameters()}


def copy_model_tensors(tensors: Tensors, model: nn.Module, prefix: str = MODEL) -> None:
    """Copy the result of ``model_tensors`` into a model of the same configuration."""
    names = {name.removeprefix(prefix) for name in tensors if name.startswith(prefix)}
    parameters: dict[str, nn.Parameter] = dict(model.named_parameters())
    if stray := names.symmetric_difference(parameters):
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


def tensor_digest(tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of names, types, shapes and values."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _digest(digest: str, about: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a whole checkpoint: of its tensors' digest, and of the description as JSON."""
    described = json.dumps(about, sort_keys=True)
    return hashlib.sha256(f"{digest} {described}".encode()).hexdigest()
