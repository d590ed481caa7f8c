"""Folders in Hugging Face's format: settings, weights and vocabularies of strangers."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from soak import generators
from soak.attempt import Attempt, call, wrong_with
from soak.world import World
from support.released import Hostile

NAME = "released folders"
SIZES = ("d_model", "d_inner", "d_head", "d_embed", "n_head", "n_layer", "vocab_size", "mem_len")


def attempt(draw: Random, world: World, place: Path) -> Attempt:
    """Score, write or begin a training with a released model that is not as it should be."""
    folder = world.copy(world.released, place / "released")
    alter: Callable[[Random, Path, Path], str] = draw.choice(
        [_config, _config, _weights, _weights, _vocabulary]
    )
    given = alter(draw, folder, place)
    words = draw.choice(
        [
            ["evaluate", "--released", folder, "--text", world.text, "--tokens", 40],
            ["generate", "--released", folder, "--prompt", "to be", "--length", 5],
            ["train", place / "run", "--released", folder, "--text", world.text, "--steps", 1, "--batch", 2],
        ]
    )
    said = call(words)
    wrong = wrong_with(said, named=[folder, "must be finite"])
    if not wrong and (place / "was run").exists():
        wrong = "lost: code of the file was run"
    begun = "the loss must be finite" in said.sentence  # by a step, which weights that are too large fail
    if not wrong and said.code and not begun and (place / "run").exists():
        wrong = "lost: refused, and the run's folder was made"
    return Attempt(f"minitxl {' '.join(map(str, words))}", given, str(said), wrong, bool(said.code))


def _config(draw: Random, folder: Path, _place: Path) -> str:
    path = folder / "config.json"
    content = json.loads(path.read_text())
    if draw.random() < 0.3:
        content |= {draw.choice(SIZES): draw.choice([0, -1, 3, 2**31, 2**62, 10**30, 1.5, "8", None])}
        path.write_text(json.dumps(content))
    elif draw.random() < 0.3:
        others = {"attn_type": 1, "ext_len": 5, "adaptive": False, "model_type": "bert", "div_val": 0}
        name = draw.choice(list(others))
        path.write_text(json.dumps(content | {name: draw.choice([others[name], *generators.JSON])}))
    else:
        path.write_text(generators.json_text(draw, content))
    return f"config.json: {path.read_text()[:1500]}"


def _weights(draw: Random, folder: Path, place: Path) -> str:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    kind = draw.choice(["damaged", "noise", "gone", "odd", "tensors", "tensors", "objects", "pickle damaged"])
    if kind in ("tensors", "objects", "pickle damaged"):
        pickled = folder / "pytorch_model.bin"
        given, content = (
            _other_tensors(draw, tensors) if kind == "tensors" else _objects(draw, tensors, place)
        )
        if kind == "tensors" and draw.random() < 0.5:
            save_file(content, path)
            return f"model.safetensors: {given}"
        if kind == "pickle damaged":
            given, content = "damaged", tensors
        path.unlink()
        torch.save(content, pickled, _use_new_zipfile_serialization=draw.random() < 0.5)
        if kind == "pickle damaged":
            pickled.write_bytes(generators.damaged(draw, pickled.read_bytes()))
        return f"pytorch_model.bin: {given}"
    return generators.spoil(draw, path, kind)


def _other_tensors(draw: Random, tensors: dict[str, torch.Tensor]) -> tuple[str, dict[str, torch.Tensor]]:
    """Return the tensors but for one, which is of another type, size or value, lost, or too much."""
    name = draw.choice(sorted(tensors))
    one = tensors[name].contiguous()
    others: dict[str, Callable[[], torch.Tensor | None]] = {
        "NaN": lambda: torch.full_like(one, float("nan")),
        "infinite": lambda: torch.full_like(one, float("inf")),
        "huge": lambda: torch.full_like(one, 3e38),
        "integers": lambda: one.to(torch.int64),
        "complex": lambda: one.to(torch.complex64),
        "booleans": lambda: one > 0,
        "bfloat16": lambda: one.to(torch.bfloat16),
        "float8": lambda: one.to(torch.float8_e4m3fn),
        "float64": lambda: one.double(),
        "one number": lambda: torch.tensor(1.0),
        "empty": lambda: torch.empty(0),
        "transposed": lambda: one.T.contiguous() if one.ndim == 2 else one[:-1].contiguous(),
        "longer": lambda: torch.cat([one, one]),
        "lost": lambda: None,
    }
    kind = draw.choice(sorted(others))
    other = others[kind]()
    rest = {key: tensor for key, tensor in tensors.items() if key != name}
    if draw.random() < 0.1:
        rest["transformer.stranger"] = torch.ones(3)
    return f"{name} {kind}", rest if other is None else {**rest, name: other}


def _objects(draw: Random, tensors: dict[str, torch.Tensor], place: Path) -> tuple[str, Any]:
    """Return something else than a table of tensors by name."""
    name = sorted(tensors)[0]
    values: list[Any] = [
        *(None, [], {}, 3, "x", [1, 2], {"a": 1}, {1: torch.ones(2)}, {"a": {"b": torch.ones(2)}}),
        *(torch.ones(2), {**tensors, name: None}, {**tensors, name: "x"}, {**tensors, 3: 4}, list(tensors)),
        *(Hostile(place / "was run"), {**tensors, "x": Hostile(place / "was run")}, torch.nn.Linear(2, 2)),
        *({**tensors, name: torch.ones(2, 2).to_sparse()}, {**tensors, name: torch.ones(2, device="meta")}),
    ]
    value = draw.choice(values)
    return f"{value!r:.300}", value


def _vocabulary(draw: Random, folder: Path, place: Path) -> str:
    path = folder / "vocab.bin"
    words = torch.load(path)["idx2sym"]
    kind = draw.choice(["damaged", "noise", "gone", "odd", "other"])
    if kind == "other":
        others: list[Any] = [
            *(
                None,
                [],
                {},
                {"idx2sym": None},
                {"idx2sym": "words"},
                {"idx2sym": [1, 2]},
                {"idx2sym": words[:-1]},
            ),
            *(
                {"idx2sym": [*words, "more"]},
                {"idx2sym": [words[0]] * len(words)},
                {"idx2sym": [*words[:-1], None]},
            ),
            *({"idx2sym": [[]] * len(words)}, {"idx2sym": {}}, {"sym2idx": {}}, Hostile(place / "was run")),
            *({"idx2sym": words, "x": Hostile(place / "was run")}, {"idx2sym": [*words[:-1], ""]}),
            *({"idx2sym": [*words[:-1], "\udcff"]}, {"idx2sym": [*words[:-1], "\xff\xfe"]}),
        ]
        other = draw.choice(others)
        if draw.random() < 0.5:
            torch.save(other, path)
        else:
            path.write_bytes(pickle.dumps(other, protocol=draw.randrange(pickle.HIGHEST_PROTOCOL + 1)))
        return f"vocab.bin: {other!r:.500}"
    return generators.spoil(draw, path, kind)
