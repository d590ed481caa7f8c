import json
import platform
import re
import subprocess
import sys
from math import isfinite
from pathlib import Path

import pytest
import torch

from minitxl.experiments.shared import results
from minitxl.experiments.shared.results import (
    Result,
    asks_otherwise,
    completed,
    provenance,
    read,
    write,
    write_csv,
)

FIGURES = Path(__file__).parents[2] / "figures"
RESULT = Result(
    "name", {"steps": 3, "sizes": [1, 2]}, [0, 1], {"losses": [2.5]}, {"bits": 2.5}, {"device": "CPU"}
)


def test_a_result_comes_back_as_it_was_written(tmp_path):
    assert write(RESULT, tmp_path) == tmp_path / "name.json"
    assert read(tmp_path / "name.json") == RESULT


def test_a_result_of_other_settings_or_seeds_has_to_be_computed(tmp_path):
    path = tmp_path / "name.json"
    same = {"settings": {"steps": 3, "sizes": (1, 2)}, "seeds": [0, 1]}
    assert asks_otherwise(path, **same)
    write(RESULT, tmp_path)
    assert not asks_otherwise(path, **same)
    for other in ({"settings": {"steps": 4}}, {"seeds": [0]}):
        assert asks_otherwise(path, **{**same, **other})


@pytest.mark.parametrize("path", sorted(FIGURES.glob("*.json")), ids=lambda path: path.stem)
def test_a_setting_that_a_model_gained_later_has_its_default_in_a_stored_result(path):
    stored = read(path)
    older, newer = json.loads(json.dumps(stored.settings)), completed(stored.settings)
    older.get("model", {}).pop("n_bucket", None)
    assert not asks_otherwise(path, settings=older, seeds=stored.seeds)
    assert not asks_otherwise(path, settings=newer, seeds=stored.seeds)
    if "model" in newer:
        newer["model"]["n_bucket"] = 7
        assert asks_otherwise(path, settings=newer, seeds=stored.seeds)


def test_a_file_that_is_no_result_is_refused(tmp_path):
    path = tmp_path / "name.json"
    for text in ("{", "[]", json.dumps({"name": "x"})):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"name\.json is not a result that minitxl wrote"):
            read(path)


def test_provenance_names_machine_versions_and_time():
    told = provenance("cpu", seconds=1.25)
    assert {"device", "threads", "python", "torch", "minitxl", "commit", "finished", "seconds"} == told.keys()
    assert re.fullmatch(r"[0-9a-f]{12}\+?", told["commit"])
    assert told["seconds"] == 1.2
    assert told["device"].startswith("CPU (")
    assert torch.cpu.get_capabilities()["cpu_name"] in told["device"]


def test_a_pytorch_that_does_not_name_the_processor_is_no_hindrance(monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    machine = platform.machine()
    assert provenance("cpu", seconds=1.0)["device"] == f"CPU ({machine})"
    importing = (
        "import torch; torch.cpu.get_capabilities = dict; import minitxl.fast.linear as x; print(x.INTEL)"
    )
    assert subprocess.check_output([sys.executable, "-c", importing], text=True) == "False\n"


def test_without_a_history_provenance_has_no_commit(monkeypatch, tmp_path):
    monkeypatch.setattr(results, "__file__", str(tmp_path / "results.py"))
    assert provenance("cpu", seconds=0.0)["commit"] is None


def test_stored_experiment_memory_helps_xl_and_hurts_absolute_positions_in_every_seed():
    stored = read(FIGURES / "memory_and_positions.json")
    bits = {name: stored.data[name]["bits"]["seeds"] for name in stored.settings["systems"]}
    assert stored.seeds == [0, 1, 2]
    assert all(len(values) == 3 for values in bits.values())
    assert max(bits["xl_memory"]) < min(bits["xl"])
    assert min(bits["absolute_memory"]) > max(bits["absolute"])
    assert stored.settings["corpus"]["name"] == "Python's standard library"


def test_stored_experiment_every_system_learns_more_than_a_bigram_model():
    data = read(FIGURES / "every_system.json").data
    assert len(data["systems"]) == 5 * 2 * 2
    for row in data["systems"]:
        assert isfinite(row["bits"])
        if not (row["attention"] == "absolute" and row["mem_len"]):
            assert row["bits"] < data["bigram_bits"], row


def test_stored_experiment_emptying_the_memory_of_a_relative_model_raises_its_loss():
    rows = [row for row in read(FIGURES / "every_system.json").data["systems"] if row["mem_len"]]
    for row in rows:
        if row["attention"] != "absolute":
            assert row["bits_with_memory_emptied"] > row["bits"], row


def test_every_value_stands_in_the_csv_after_the_key_that_a_sentence_cites(tmp_path):
    write_csv({"xl": {"bits": [2.5, 3.0]}, "name": "a, b"}, tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text() == (
        'key,value\ndata.xl.bits.0,2.5\ndata.xl.bits.1,3.0\ndata.name,"a, b"\n'
    )
