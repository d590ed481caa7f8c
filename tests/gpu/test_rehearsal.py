"""``make gpu`` without a GPU: each kind of piece at tiny sizes, and what the runner keeps of it."""

import json
import subprocess
from pathlib import Path

import pytest
from gpu import bench_item, steps
from gpu.__main__ import ITEMS, LONGEST, joined_items, main, pieces, run

from minitxl.benchmark import bench
from minitxl.experiments.shared import results

TINY = ["--device", "cpu", "--size", "tiny", "--folder"]


@pytest.fixture
def ours_alone(monkeypatch):
    """One system to time."""
    monkeypatch.setattr(bench, "systems_of", lambda work, size: ("minitxl-explicit",))
    monkeypatch.setattr(bench, "PROCESSES", {"cpu": 2})
    monkeypatch.setattr(bench, "SIZES", bench.SIZES)  # bench_item puts tiny ones there


def test_each_way_to_train_is_timed(tmp_path):
    steps.main([*TINY, str(tmp_path)])
    found = json.loads((tmp_path / "steps.json").read_text())["ways"]
    assert set(found) == {"tiny"}
    assert set(found["tiny"]) == set(steps.WAYS)
    for told in found["tiny"].values():
        assert told["seconds"] > 0
        assert told["bits"] == pytest.approx(found["tiny"]["plain"]["bits"], rel=1e-6)


def test_an_item_is_a_result_in_a_folder_of_its_own_and_all_are_joined_to_one(ours_alone, tmp_path):
    bench_item.main(["memory-large", *TINY, str(tmp_path)])
    bench_item.main(["memory-M", *TINY, str(tmp_path)])
    parts = [results.read(tmp_path / name / "bench.json") for name in ("memory-M", "memory-large")]
    joined_items(tmp_path)
    joined = results.read(tmp_path / "bench_gpu.json")
    assert joined.data["items"] == [part.data["items"][0] for part in parts]
    assert [(row["work"], row["size"]) for row in joined.data["items"]] == [
        ("peak memory", "M"),
        ("peak memory", "large"),
    ]
    assert list(joined.settings["items"]) == ["memory-M", "memory-large"]
    assert joined.provenance["seconds"] == pytest.approx(sum(part.provenance["seconds"] for part in parts))


def test_every_piece_is_a_command_that_ends_in_time(tmp_path):
    commands = pieces("cuda", "real", tmp_path)
    assert {"tests", "steps", "notebook-08", "notebook-10", "notebook-11", *ITEMS} == set(commands)
    assert LONGEST <= 600
    for command in commands.values():
        for word in command:
            assert not word.endswith((".py", ".ipynb")) or Path(word).is_file()


def test_pieces_that_succeeded_are_not_run_again(tmp_path, monkeypatch):
    commands = {"good": ["true"], "bad": ["false"], "endless": ["sleep", "60"]}
    monkeypatch.setattr("gpu.__main__.pieces", lambda *_: commands)
    monkeypatch.setattr("gpu.__main__.LONGEST", 0.2)
    assert main([*TINY, str(tmp_path)]) == 1
    told = json.loads((tmp_path / "pieces.json").read_text())["pieces"]
    assert {name: piece["code"] for name, piece in told.items()} == {"good": 0, "bad": 1, "endless": None}
    assert "longer than" in (tmp_path / "endless.log").read_text()
    ran = []
    monkeypatch.setattr(
        "gpu.__main__.run", lambda command, log, size: ran.append(command) or run(["true"], log, size=size)
    )
    assert main([*TINY, str(tmp_path)]) == 0
    assert ran == [["false"], ["sleep", "60"]]
    assert main([*TINY, str(tmp_path), "good"]) == 0
    assert ran[2:] == [["true"]]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--device", "cuda"], "device must be cpu where there is no CUDA GPU, got cuda"),
        (["--device", "cpu", "bench"], "a piece must be one of tests, steps, training-M"),
    ],
)
def test_what_can_not_be_is_refused(words, sentence, capsys, monkeypatch):
    monkeypatch.setattr("gpu.__main__.torch.cuda.is_available", lambda: False)
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert sentence in capsys.readouterr().err


def test_make_gpu_calls_it():
    shown = subprocess.run(
        ["make", "--dry-run", "gpu", "DEVICE=cpu", "SIZE=tiny", "PIECES=kernels tests"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "-m gpu --device cpu --size tiny kernels tests" in shown
