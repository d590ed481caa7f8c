import json
import sys
from math import isfinite
from pathlib import Path

import pytest
import torch

from minitxl import results
from minitxl.results import Result, code_digest, is_stale, provenance, read, write, write_csv

FIGURES = Path(__file__).parent.parent / "figures"
RESULT = Result("name", {"steps": 3, "sizes": [1, 2]}, [0, 1], "code", {"bits": 2.5}, {"device": "CPU"})


def test_a_result_comes_back_as_it_was_written(tmp_path):
    assert write(RESULT, tmp_path) == tmp_path / "name.json"
    assert read(tmp_path / "name.json") == RESULT


def test_a_result_is_stale_when_settings_seeds_or_code_differ(tmp_path):
    path = tmp_path / "name.json"
    same = {"settings": {"steps": 3, "sizes": (1, 2)}, "seeds": [0, 1], "code": "code"}
    assert is_stale(path, **same)
    write(RESULT, tmp_path)
    assert not is_stale(path, **same)
    for other in ({"settings": {"steps": 4}}, {"seeds": [0]}, {"code": "other"}):
        assert is_stale(path, **{**same, **other})


def test_a_file_that_is_no_result_is_refused(tmp_path):
    path = tmp_path / "name.json"
    for text in ("{", "[]", json.dumps({"name": "x"})):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"name\.json is not a result that minitxl wrote"):
            read(path)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of three modules, where ``top`` imports ``middle`` and nothing imports ``alone``."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "top.py").write_text("from tiny import middle\nprint(middle)\n")
    (folder / "middle.py").write_text('"""Words."""\nX = 1  # more words\n')
    (folder / "alone.py").write_text("Y = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(results, "PACKAGE", "tiny")
    yield folder
    for name in [name for name in sys.modules if name.startswith("tiny")]:
        del sys.modules[name]


def test_the_digest_of_code_changes_with_what_it_does_and_with_nothing_else(package):
    before = code_digest("tiny.top")
    (package / "middle.py").write_text('"""Other words."""\n\nX = 1\n')
    (package / "alone.py").write_text("Y = 2\n")
    assert code_digest("tiny.top") == before
    (package / "middle.py").write_text("X = 2\n")
    assert code_digest("tiny.top") != before


def test_provenance_names_machine_versions_and_time():
    told = provenance("cpu", seconds=1.25)
    assert {"device", "threads", "python", "torch", "minitxl", "finished", "seconds"} == told.keys()
    assert told["seconds"] == 1.2
    assert told["device"].startswith("CPU (")
    assert torch.cpu.get_capabilities()["cpu_name"] in told["device"]


def test_stored_experiment_memory_helps_xl_and_hurts_absolute_positions_in_every_seed():
    stored = read(FIGURES / "memory_and_positions.json")
    bits = {name: system["bits"]["seeds"] for name, system in stored.data.items()}
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
