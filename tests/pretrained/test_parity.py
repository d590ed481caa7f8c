"""Equal to the TransfoXL of transformers 4.37.2, the last that worked: what ``make parity`` stored."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from minitxl.memory import extend
from minitxl.pretrained.original import load_original, original_parts

VECTORS = Path(__file__).parent / "parity" / "vectors.safetensors"
with safe_open(VECTORS, framework="pt") as file:
    CASES = json.loads(file.metadata()["parity"])["cases"]

every_case = pytest.mark.parametrize("case", CASES)
TOLERANCE = {"rtol": 0, "atol": 1e-5}


def stored(case: str, what: str) -> dict[str, torch.Tensor]:
    with safe_open(VECTORS, framework="pt") as vectors:
        begin = f"{case}/{what}"
        return {
            name[len(begin) :].removeprefix("/"): vectors.get_tensor(name)
            for name in vectors.keys()  # noqa: SIM118
            if name == begin or name.startswith(f"{begin}/")
        }


def loaded(case: str):
    """The model, and the settings that the caller of a model holds."""
    config = {name: value for name, value in CASES[case].items() if name != "cluster_order"}
    model = load_original(config, stored(case, "state"), cluster_order="released")
    mem_len = config["mem_len"]
    return model, mem_len, mem_len if config["same_length"] else None


def read_segments(model, case: str, *, mem_len: int, window: int | None):
    """Losses [segment batch seg], and the memory after each segment."""
    tokens, targets = stored(case, "tokens")[""], stored(case, "targets")[""]
    memory, losses, memories = None, [], []
    for segment, wanted in zip(tokens, targets, strict=True):
        loss, states = model.token_losses(segment, wanted, memory, window=window)
        memory = extend(memory, states, mem_len=mem_len)
        losses.append(loss)
        memories.append(memory)
    return torch.stack(losses), memories


@every_case
def test_losses_and_memories_over_four_segments_equal_the_ports(case):
    model, mem_len, window = loaded(case)
    losses, memories = read_segments(model, case, mem_len=mem_len, window=window)
    torch.testing.assert_close(losses, stored(case, "losses")[""], **TOLERANCE)
    for segment, memory in enumerate(memories):
        torch.testing.assert_close(memory, stored(case, "memory")[str(segment)], **TOLERANCE)


@every_case
def test_gradients_of_every_parameter_equal_the_ports(case):
    model, mem_len, window = loaded(case)
    losses, _ = read_segments(model, case, mem_len=mem_len, window=window)
    losses.mean(dim=(1, 2)).sum().backward()
    expected, seen = stored(case, "gradient"), set()
    for name, original in original_parts(model).items():
        gradient = model.get_parameter(name).grad
        part = expected[original.name].chunk(original.parts)[original.part]
        torch.testing.assert_close(gradient, part, msg=lambda said, name=name: f"{name}: {said}", **TOLERANCE)
        seen.add(original.name)
    assert seen == expected.keys()


def test_the_cases_cover_what_the_released_models_use():
    covered = {key: {json.dumps(config[key]) for config in CASES.values()} for key in CASES["plain"]}
    for key in ("untie_r", "same_length", "pre_lnorm", "tie_weight", "clamp_len", "tie_projs"):
        assert len(covered[key]) > 1, key
    assert {"1", "2"} <= covered["div_val"]


@pytest.mark.parametrize("case", ["adaptive", "adaptive_div2"])
def test_the_order_of_the_clusters_matters(case):
    model, mem_len, window = loaded(case)
    with torch.no_grad():
        model.output.tail_classes.weight.copy_(model.output.tail_classes.weight.flip(0))
    losses, _ = read_segments(model, case, mem_len=mem_len, window=window)
    assert (losses - stored(case, "losses")[""]).abs().max() > 0.1


def test_same_length_is_a_window_of_mem_len_keys_the_query_included():
    model, mem_len, _ = loaded("same_length")
    for window, close in ((mem_len, True), (mem_len - 1, False), (mem_len + 1, False)):
        losses, _ = read_segments(model, "same_length", mem_len=mem_len, window=window)
        assert torch.allclose(losses, stored("same_length", "losses")[""], **TOLERANCE) == close


def test_zeros_in_memory_at_the_start_are_not_what_the_port_was_asked_for():
    model, mem_len, window = loaded("plain")
    tokens, targets = stored("plain", "tokens")[""][0], stored("plain", "targets")[""][0]
    zeros = torch.zeros(model.config.n_layer, len(tokens), mem_len, model.config.d_model)
    losses, _ = model.token_losses(tokens, targets, zeros, window=window)
    assert (losses - stored("plain", "losses")[""][0]).abs().max() > 0.1
