"""Released models in Hugging Face's format: settings, weights and vocabulary, none of them unpickled."""

import json
import pickle
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from minitxl.inference.config import EvaluateConfig
from minitxl.model import TransformerLM
from minitxl.pretrained import pickled
from minitxl.pretrained.hub import VOCABULARIES, WEIGHTS, folder_of
from minitxl.pretrained.original import SETTINGS, load_original

NEEDED = ("vocab_size", "cutoffs", "mem_len", "n_layer", "n_head", "d_model", "d_head", "d_inner")


def load_released(path_or_repo: str | Path) -> tuple[TransformerLM, EvaluateConfig]:
    """Model and evaluation settings from a folder, or a hub repository, in Hugging Face's format.

    Weights are read as safetensors, or by ``torch.load(weights_only=True)``: nothing in them
    can run code. The evaluation window is mem_len where the settings say same_length.
    """
    folder = folder_of(path_or_repo)
    settings = _json_of(folder / "config.json")
    if missing := [name for name in NEEDED if name not in settings]:
        raise ValueError(f"{folder / 'config.json'} must be that of a Transformer-XL, got no {missing[0]}")
    state = {name.removeprefix("transformer."): tensor for name, tensor in _weights_in(folder).items()}
    renamed = {
        **settings,
        "n_token": settings["vocab_size"],
        "tie_weight": settings.get("tie_word_embeddings", settings.get("tie_weight", True)),
        "tie_projs": [False, *[settings.get("proj_share_all_but_first", True)] * len(settings["cutoffs"])],
        "dropatt": settings.get("dropatt", 0.0),
    }
    known = {name: value for name, value in renamed.items() if name in SETTINGS}
    model = load_original(known, state, cluster_order="released")
    memory = settings["mem_len"]
    window = memory if settings.get("same_length") else None
    return model, EvaluateConfig(seg_len=128, mem_len=memory, window=window)


def vocabulary_in(path_or_repo: str | Path) -> list[str] | None:
    """Return the words of the folder's or repository's vocabulary; None where it holds none."""
    folder = folder_of(path_or_repo)
    path = next((folder / name for name in VOCABULARIES if (folder / name).exists()), None)
    return None if path is None else load_released_vocabulary(path)


def load_released_vocabulary(path: Path) -> list[str]:
    """Return the words of a released vocabulary in the order of their ids. Nothing in the file is run.

    It is read instruction by instruction and not unpickled, whether ``pickle`` or ``torch``
    wrote it. The released words were counted by Python 2, byte by byte: their UTF-8 is put
    together again, and equally frequent ones stand in the order of its dictionaries.
    """
    try:
        held = [value for value in pickled.every(path) if isinstance(value, dict)]
    except (ValueError, OSError, BadZipFile) as error:
        raise ValueError(f"{path} is not a vocabulary of plain containers, and is not read") from error
    if not held:
        raise ValueError(f"{path} is not a vocabulary of plain containers, and is not read")
    words = next((value["idx2sym"] for value in held if "idx2sym" in value), None)
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"{path} must hold a list of words named idx2sym")
    try:
        return [word.encode("latin-1").decode() for word in words]
    except UnicodeError:
        return words


def _json_of(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} must be the JSON of the released settings: {error}") from error


def _weights_in(folder: Path) -> dict[str, Tensor]:
    path = next((folder / name for name in WEIGHTS if (folder / name).exists()), None)
    if path is None:
        raise ValueError(f"{folder} must hold {' or '.join(WEIGHTS)}")
    try:
        return load_file(path) if path.suffix == ".safetensors" else torch.load(path, weights_only=True)
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, OSError) as error:
        why = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(f"{path} is not a whole file of plain tensors: {why}") from error
