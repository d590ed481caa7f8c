from dataclasses import asdict, replace
from typing import get_args

import pytest
from support.experiments import run
from support.sizes import RARE, SHORT, SMALL

from minitxl import figures
from minitxl.data import corpora
from minitxl.experiments import scaling as experiment
from minitxl.pretrained.presets import FOR_ONE_CORE, PRESETS, Name

CORPUS = corpora.from_bytes("no", b"text matters")


def toy_settings():
    settings = experiment.settings("quick", CORPUS)
    presets = {"plain": (SMALL, SHORT), "rare words": (RARE, replace(SHORT, average_from=1))}
    return settings | {
        "presets": {
            name: {"model": asdict(model), "train": asdict(train)} for name, (model, train) in presets.items()
        },
        "timed": {"plain": 2},
        "reduced": {"processes": 2, "bytes": 4000, "rounds": 3},
    }


@pytest.fixture(scope="module")
def data():
    return run(experiment, toy_settings(), CORPUS, seeds=[0])


def test_scaling_runs_end_to_end_at_toy_size(data):
    (timed,) = data["timed"]
    assert (timed["preset"], timed["batch"], timed["published_batch"]) == ("plain", 2, 4)
    assert timed["operations_per_second"] == pytest.approx(
        timed["operations"] / timed["seconds"]["median"], rel=1e-3
    )
    assert (data["link"]["backend"], data["link"]["processes"]) == ("gloo", 2)
    assert data["links"]["measured"] == data["link"]["gigabytes_per_second"] > 0
    plain, rare = data["presets"].values()
    assert plain["rate_of"] == rare["rate_of"] == "plain"
    for row in (plain, rare):
        assert [one["gpus"] for one in row["gigabytes"]] == [1, 2, 4]
        seconds = row["operations_per_step"] * 100 / timed["operations_per_second"]
        assert row["cost"]["measured"]["days"] == pytest.approx(seconds / 86_400, rel=1e-3)
    assert "plain on 4: " in figures.scaling_memory(data).alt
    assert "10-gigabit Ethernet, 1.25 GB/s: " in figures.scaling(data).alt


def test_the_presets_are_those_of_training_at_their_published_settings():
    assert get_args(Name) == tuple(PRESETS)
    settings = experiment.settings("full", CORPUS)
    assert settings["timed"].keys() <= settings["presets"].keys()
    assert settings["presets"].keys() == PRESETS.keys() - set(FOR_ONE_CORE)
    for name in settings["presets"]:
        preset = PRESETS[name]()
        assert experiment._preset(settings, name) == (preset.model, preset.train)
        assert preset.train.batch >= settings["timed"].get(name, 1)


def test_one_process_sends_nothing_and_several_wait_for_their_links():
    alone = experiment.several(2.0, 10**9, SHORT, parts=1, rate=1e9)
    tokens = SHORT.batch * SHORT.seg_len
    assert (
        alone["apart"]
        == alone["overlapped"]
        == {
            "seconds": 2.0,
            "efficiency": 1.0,
            "tokens_per_second": tokens / 2,
        }
    )
    four = experiment.several(2.0, 10**9, SHORT, parts=4, rate=1e9)
    assert four["apart"]["seconds"] == 2 / 4 + 2 * 3 / 4
    assert four["overlapped"]["seconds"] == 2 * 3 / 4
    assert four["apart"]["efficiency"] == 0.25
    assert experiment.several(2.0, 10**9, SHORT, parts=4, rate=1e30)["apart"]["efficiency"] == 1.0


@pytest.mark.parametrize("profile", ["quick", "full"])
def test_a_step_is_timed_when_memory_is_full(profile):
    settings = experiment.settings(profile, CORPUS)
    for name in settings["timed"]:
        _, train = experiment._preset(settings, name)
        assert settings["warm_up"] * train.seg_len >= train.mem_len
