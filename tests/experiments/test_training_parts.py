"""What each part of a training step buys: the experiment at toy size, shuffled lanes, the figure."""

from pathlib import Path

import pytest
import torch
from support.experiments import run

from minitxl import figures
from minitxl.data import corpora
from minitxl.data.batching import ContiguousBatches
from minitxl.experiments import training_parts
from minitxl.experiments.shared import results
from minitxl.experiments.training_parts import CHANGES, SCHEDULES, ShuffledLanes

STORED = results.read(Path(__file__).parents[2] / "figures" / "training_parts.json")


def test_the_experiment_runs_end_to_end_at_toy_size(tmp_path):
    corpus = corpora.from_bytes("toy", b"some words that come again and again " * 400)
    settings = training_parts.settings("quick", corpus)
    settings["model"] |= {"n_layer": 1, "d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 32}
    settings["train"] |= {"warmup": 2}
    data = run(training_parts, settings | {"step_counts": [3, 5], "test_tokens": 200}, corpus)
    assert [row["steps"] for row in data["rows"]] == [3, 5]
    for row in data["rows"]:
        assert list(row["changes"]) == list(CHANGES)
        assert row["changes"]["whole"]["cost"]["seeds"] == [0, 0]
        bits = [of["bits"]["mean"] for of in row["changes"].values()]
        assert len(set(bits)) == len(bits)  # each change shows
        for change, of in row["changes"].items():  # without memory the two readings differ, and there alone
            assert (of["bits_with_memory"] == of["bits"]) == (change != "no_memory")
        training = {change: of["training_bits"]["mean"] for change, of in row["changes"].items()}
        assert training["shuffled_lanes"] != training["whole"]
    first, *_ = at_peaks = data["schedules"]["at_peaks"]
    for name, cost in first["cost"].items():
        assert cost == data["rows"][-1]["changes"][SCHEDULES[name]]["cost"]
    assert len({bits["mean"] for row in at_peaks for bits in row["bits"].values()}) == 3 * len(at_peaks)
    best = data["schedules"]["at_best_peaks"]
    for name, bits in best["bits"].items():
        assert bits["mean"] == min(row["bits"][name]["mean"] for row in at_peaks)
    lowest, best_bits = (row["bits"]["falling"]["mean"] for row in (first, best))
    assert data["schedules"]["gain_of_best_peak"]["mean"] == pytest.approx(lowest - best_bits)
    figures.training_parts(data).save(tmp_path / "drawn.svg")


def test_shuffled_lanes_have_the_segments_of_the_text_in_an_order_that_changes():
    text = torch.arange(200)
    segments, shuffled = (kind(text, batch=8, seg_len=4) for kind in (ContiguousBatches, ShuffledLanes))
    orders = set()
    for index in range(len(segments)):
        here, there = segments[index], shuffled[index]
        order = [here.tokens.tolist().index(row) for row in there.tokens.tolist()]
        assert sorted(order) == list(range(8))
        assert torch.equal(here.targets[order], there.targets)
        assert torch.equal(there.tokens, shuffled[index].tokens)
        orders.add(tuple(order))
    assert len(orders) == len(segments)


def test_the_figure_draws_what_each_change_saves_in_each_seed():
    panels = figures.training_parts(STORED.data).figure.axes
    for axes, row in zip(panels, STORED.data["rows"], strict=True):
        assert axes.get_title(loc="left") == f"after {row['steps']} steps"
        drawn = {tuple(line.get_xdata()) for line in axes.lines}
        for change, of in row["changes"].items():
            saved = tuple(-cost for cost in of["cost_with_memory"]["seeds"])
            assert (saved in drawn) == (change != "whole")


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_differs_from_the_whole_step_in_one_setting(change):
    assert len(CHANGES[change]) <= 1
