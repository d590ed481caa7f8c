"""Memory on short segments: the experiment at toy size, and its figure."""

from pathlib import Path

from support.experiments import run

from minitxl import figures
from minitxl.data import corpora
from minitxl.experiments import short_segments
from minitxl.experiments.shared import results

STORED = results.read(Path(__file__).parents[2] / "figures" / "short_segments.json")


def test_the_experiment_runs_end_to_end_at_toy_size(tmp_path):
    corpus = corpora.from_bytes("toy", b"some words that come again and again " * 400)
    settings = short_segments.settings("quick", corpus)
    settings["model"] |= {"n_layer": 1, "d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 32}
    settings["train"] |= {"steps": 2, "warmup": 1, "seg_len": 4, "mem_len": 8}
    data = run(short_segments, settings | {"test_tokens": 200}, corpus)
    systems, gains = data["systems"], data["gains"]
    for seed in (0, 1):
        vanilla, relative, xl = (of["bits"]["seeds"][seed] for of in systems.values())
        assert gains["relative_positions"]["seeds"][seed] == vanilla - relative
        assert gains["memory"]["seeds"][seed] == relative - xl
    assert len(gains["memory_by_offset"]) == 4
    figures.short_segments(data).save(tmp_path / "drawn.svg")


def test_the_figure_draws_the_means_by_offset_and_every_seed():
    by_offset, whole = figures.short_segments(STORED.data).figure.axes
    assert [list(line.get_ydata()) for line in by_offset.lines] == [
        [one["mean"] for one in system["bits_by_offset"]] for system in STORED.data["systems"].values()
    ]
    seeds = [STORED.data["gains"][name]["seeds"] for name in ("relative_positions", "memory")]
    assert [list(line.get_xdata()) for line in whole.lines if line.get_marker() == "o"] == seeds
