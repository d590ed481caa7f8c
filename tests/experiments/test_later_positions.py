"""Positions that came after: the experiment at toy size, the memory that keeps first tokens, the figure."""

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from support.experiments import run

from minitxl import figures
from minitxl.data import corpora
from minitxl.experiments import later_positions
from minitxl.experiments.later_positions import keep_first, label
from minitxl.experiments.shared import results
from minitxl.figures.systems import SYSTEMS
from minitxl.memory import extend

STORED = results.read(Path(__file__).parents[2] / "figures" / "later_positions.json").data


@pytest.fixture(scope="module")
def toy():
    corpus = corpora.from_bytes("toy", b"some words that come again and again " * 400)
    settings = later_positions.settings("quick", corpus)
    settings["model"] |= {"n_layer": 1, "d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 32}
    settings["train"] |= {"steps": 2, "warmup": 1, "validate_every": 2, "validate_tokens": 64}
    settings |= {"test_tokens": 200, "memories": [0, 32, 128], "context_lens": [8, 16, 32]}
    return run(later_positions, settings | {"passages": 2, "targets": 8}, corpus)


def test_the_experiment_runs_end_to_end_at_toy_size(toy, tmp_path):
    assert list(toy["systems"])[:4] == ["none", "none_memory", "absolute", "absolute_memory"]
    for kind, gain in toy["gains"].items():
        without, with_memory = (toy["systems"][label(kind, memory)]["by_memory"] for memory in (False, True))
        assert gain["memory"]["seeds"] == [
            before - after
            for before, after in zip(
                without[0]["bits"]["seeds"], with_memory[1]["bits"]["seeds"], strict=True
            )
        ]
        assert len(toy["systems"][kind]["by_context"]) == 3
    assert toy["gains"]["xl"]["behind_xl"]["seeds"] == [0, 0]
    figures.later_positions(toy).save(tmp_path / "drawn.svg")


def test_a_system_is_named_by_its_kind_and_its_memory():
    assert [label("t5", memory) for memory in (False, True)] == ["t5", "t5_memory"]


def test_the_first_tokens_are_kept_and_what_lies_between_is_forgotten():
    states = torch.arange(10.0).reshape(1, 1, 10, 1)
    memory = None
    for segment in states.split(2, dim=2):
        memory = keep_first(memory, segment, mem_len=5, first=2)
    assert memory.flatten().tolist() == [0, 1, 7, 8, 9]


def test_with_none_kept_first_the_memory_is_that_of_extend():
    states = torch.randn(2, 1, 9, 4)
    mine = other = None
    for segment in states.split(3, dim=2):
        mine = keep_first(mine, segment, mem_len=4, first=0)
        other = extend(other, segment, mem_len=4)
        assert torch.equal(mine, other)


def test_the_figure_shows_every_seed_and_labels_every_line():
    brings, read = figures.later_positions(STORED).figure.axes
    *shown, zero = brings.lines
    saved = sorted((gain["memory"] for gain in STORED["gains"].values()), key=lambda one: -one["mean"])
    assert [list(line.get_xdata()) for line in shown[::2]] == [gain["seeds"] for gain in saved]
    assert [list(line.get_xdata()) for line in shown[1::2]] == [[gain["mean"]] for gain in saved]
    assert zero.get_xdata() == [0, 0]
    kinds = len(STORED["gains"])
    curves, without_memory = read.lines[:kinds], read.lines[kinds:]
    for line, hollow, kind in zip(curves, without_memory, STORED["gains"], strict=True):
        rows = STORED["systems"][f"{kind}_memory"]["by_memory"]
        assert list(line.get_ydata()) == [row["bits"]["mean"] for row in rows]
        assert hollow.get_markerfacecolor() == "white"
        assert hollow.get_xydata().tolist() == [[0, line.get_ydata()[0]]]
    assert {text.get_text() for text in read.texts} == {
        SYSTEMS[f"{kind}_memory"].name for kind in STORED["gains"]
    }
    heights = sorted(text.get_position()[1] for text in read.texts)
    assert min(after - before for before, after in pairwise(heights)) > 0.05
    assert len({(line.get_linestyle(), line.get_marker()) for line in curves}) == kinds


def test_more_first_tokens_than_the_memory_holds_are_refused():
    with pytest.raises(ValueError, match="first must be at most mem_len = 2, got 4"):
        keep_first(None, torch.zeros(1, 1, 9, 2), mem_len=2, first=4)
