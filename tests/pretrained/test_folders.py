"""Sixty random models that Hugging Face's port saved have its losses here: see parity/make_folders.py."""

import json
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
import torch

from minitxl.memory import extend
from minitxl.pretrained.original import load_original, to_original
from minitxl.pretrained.released import load_released, save_released

ARCHIVE = Path(__file__).parent / "parity" / "folders.zip"
with ZipFile(ARCHIVE) as archive:
    CASES = sorted({name.split("/")[0] for name in archive.namelist()})
    CONFIGS = [json.loads(archive.read(f"{case}/config.json")) for case in CASES]

KEYS = {name for config in CONFIGS for name in config}
every_case = pytest.mark.parametrize("case", CASES)


def unpacked(case, folder):
    """The case's folder, unpacked."""
    with ZipFile(ARCHIVE) as archive:
        for member in archive.namelist():
            if member.startswith(f"{case}/"):
                archive.extract(member, folder)
    return folder / case


@torch.no_grad()
def losses_of(model, evaluate, scored):
    """Losses [segment batch seg] over four segments, from empty memory."""
    memory, losses = None, []
    for tokens, targets in zip(scored["tokens"], scored["targets"], strict=True):
        tokens, targets = torch.tensor(tokens), torch.tensor(targets)
        loss, states = model.token_losses(tokens, targets, memory, window=evaluate.window)
        memory = extend(memory, states, mem_len=evaluate.mem_len)
        losses.append(loss)
    return torch.stack(losses)


@every_case
def test_a_model_that_the_port_saved_has_the_ports_losses_here_also_after_both_ways_back(case, tmp_path):
    folder = unpacked(case, tmp_path)
    scored = json.loads((folder / "losses.json").read_text("utf-8"))
    expected = torch.tensor(scored["losses"])
    model, evaluate = load_released(folder)
    losses = losses_of(model, evaluate, scored)
    torch.testing.assert_close(losses, expected, rtol=2e-6, atol=2e-5)
    save_released(model, tmp_path / "again", evaluate)
    again, settings = load_released(tmp_path / "again")
    assert (again.config, settings) == (model.config, evaluate)
    assert torch.equal(losses_of(again, settings, scored), losses)
    for order in ("original", "released") if model.config.layer_norm_eps == 1e-5 else ["released"]:
        back = load_original(*to_original(model, cluster_order=order), cluster_order=order)
        assert torch.equal(losses_of(back, settings, scored), losses)


def test_the_cases_cover_every_key_with_more_than_one_value():
    drawn = {name: {json.dumps(config.get(name)) for config in CONFIGS} for name in sorted(KEYS)}
    fixed = {
        "architectures",
        "attn_type",
        "eos_token_id",
        "model_type",
        "transformers_version",
        "torch_dtype",
    }
    fixed |= {name for name in drawn if name.startswith(("init", "proj_init"))}
    assert len(CONFIGS) == 60
    assert [name for name, values in drawn.items() if len(values) == 1 and name not in fixed] == []
    assert {"div_val", "tie_projs", "tie_word_embeddings", "layer_norm_epsilon", "untie_r"} <= KEYS


def write_again(folder):
    """Have ``save_released`` write every case anew, for the port to read: ``make parity`` runs this file."""
    for case in CASES:
        original = unpacked(case, folder / "as the port saved")
        model, evaluate = load_released(original)
        save_released(model, folder / "written" / case, evaluate)
        (folder / "written" / case / "losses.json").write_bytes((original / "losses.json").read_bytes())


if __name__ == "__main__":
    write_again(Path(sys.argv[1]))
