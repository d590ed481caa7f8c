import pytest

from minitxl.data import corpora
from minitxl.experiments import cost_at_scale as experiment
from minitxl.experiments.runner import compute
from minitxl.figures.cost.at_scale import cost_at_scale as draw

CORPUS = corpora.from_bytes("no", b"text matters")
TOY = {"attention": [8, 16], "memory": [4, 12], "vocabulary": [11, 20_002], "layers": [1, 2]}


def toy() -> dict:
    settings = experiment.settings("quick", CORPUS)
    size = {"n_layer": 1, "d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 32}
    short = {"seg_len": 4, "mem_len": 4, "batch": 2}
    return settings | {
        "model": settings["model"] | size,
        "train": settings["train"] | short,
        "sweeps": TOY,
        "passes": 2,
    }


@pytest.fixture
def here(monkeypatch):
    """In this process, which has loaded torch, and with few tokens a step."""
    monkeypatch.setattr(experiment, "TOKENS", 32)

    def at_once(settings, sweep, value, seed, device, report):
        return experiment.measured(settings, sweep, value, seed, device, 1)

    monkeypatch.setattr(experiment, "_in_a_process", at_once)


def test_cost_at_scale_runs_end_to_end_at_toy_size(here):
    settings = toy()
    values = compute(experiment.parts(settings, CORPUS, seeds=[0], device="cpu"))
    for value in values.values():
        assert len(value["seconds"]) == settings["steps"]
        value["bytes"] = 1000 * len(value["seconds"])
    data = experiment.collect(settings, CORPUS, values)
    assert {sweep: [row["value"] for row in rows] for sweep, rows in data["sweeps"].items()} == TOY
    for rows in data["sweeps"].values():
        assert rows[0]["time_over_counted"] == rows[0]["memory_over_counted"] == 1
        last = rows[-1]
        grown = last["microseconds"]["median"] / rows[0]["microseconds"]["median"]
        counted = last["counted_kiloflops"] / rows[0]["counted_kiloflops"]
        assert last["time_over_counted"] == pytest.approx(grown / counted, rel=1e-3)
    words = draw(data).alt
    assert "words of the vocabulary" in words
    assert "at 20,002" in words


def test_a_point_changes_one_size(here):
    settings = toy()
    base = experiment.point(settings, "memory", 4)
    assert experiment.point(settings, "attention", 16)[1].batch == 2
    assert experiment.point(settings, "layers", 1) == base
    model, _ = experiment.point(settings, "vocabulary", 267_735)
    assert (model.cutoffs, model.div_val) == ((20_000, 40_000, 200_000), 4)
    with pytest.raises(
        ValueError, match="a sweep must be one of attention, memory, vocabulary, layers, got heads"
    ):
        experiment.point(settings, "heads", 4)


def test_a_point_is_measured_in_a_process_of_its_own():
    value = experiment._in_a_process(toy(), "layers", 1, 0, "cpu", lambda *_: None)
    assert len(value["seconds"]) == 2
    assert value["bytes"] >= 0
