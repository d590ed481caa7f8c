"""The original's model.pt is a whole pickled module; it is read without its classes."""

from dataclasses import replace

import pytest
import torch
from models import in_segments, some_tokens
from support.original import MemTransformerLM, Part, write_original_module
from support.released import KINDS, Hostile, random_model
from torch import nn

from minitxl.pretrained.original_module import load_original_module, read_original_module

SHARED = [kind for kind in KINDS if kind != "u and v per layer"]
"""The original PyTorch code has one u and v for all layers."""


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before 1.6"])
@pytest.mark.parametrize("kind", SHARED)
def test_a_pickled_module_is_loaded_without_its_classes(kind, zipped, tmp_path, monkeypatch):
    model = random_model(kind, torch.float32)
    path = tmp_path / "model.pt"
    write_original_module(path, model, zipped=zipped)
    for name in (MemTransformerLM, Part):
        monkeypatch.setattr(name, "__setstate__", None)  # as if there were no such class
    loaded = load_original_module(str(path))
    expected = model.config
    if not model.output.projections:
        expected = replace(expected, tie_projections=())
    assert loaded.config == expected
    tokens = some_tokens(2, 12)
    losses = [in_segments(one, tokens, [4, 4, 4], mem_len=5) for one in (loaded, model)]
    assert torch.equal(*losses)


def test_its_lengths_are_among_the_settings(tmp_path):
    write_original_module(tmp_path / "model.pt", random_model("plain"), zipped=False)
    config, _ = read_original_module(tmp_path / "model.pt")
    assert (config["mem_len"], config["tgt_len"], config["same_length"]) == (5, 4, False)


def test_another_module_is_refused_and_told_how_to_go_on(tmp_path):
    path = tmp_path / "model.pt"
    torch.save(nn.Linear(2, 2), path)
    with pytest.raises(ValueError, match=r"MemTransformerLM, got one without 'layers': save its state_dict"):
        load_original_module(path)
    torch.save({"a": torch.zeros(1)}, path)
    with pytest.raises(ValueError, match=r"model\.pt must hold a module, got a table"):
        load_original_module(path)


def test_nothing_in_the_module_is_run_and_bad_values_are_named_with_the_file(tmp_path):
    path, trace = tmp_path / "model.pt", tmp_path / "it ran"
    module = MemTransformerLM(random_model("plain"))
    module.hostile = Hostile(trace)
    torch.save(module, path)
    load_original_module(path)
    assert not trace.exists()
    module.attn_type = 1
    torch.save(module, path)
    with pytest.raises(ValueError, match=r"model\.pt: attn_type and ext_len must be 0"):
        load_original_module(path)
    module.attn_type, module.n_layer = 0, Hostile(trace)
    torch.save(module, path)
    with pytest.raises(ValueError, match=r"model\.pt: n_layer must be a whole number, got "):
        load_original_module(path)
    assert not trace.exists()
