import json
from math import log2

import pytest
import torch
from support.experiments import run

from minitxl.data import corpora
from minitxl.experiments import copying, dependency, every_system
from minitxl.experiments import memory_and_positions as experiment
from minitxl.experiments.shared.runner import compute, named, seconds_taken, summaries, summary

NO_TEXT = corpora.from_bytes("none", b"x")
CORPUS = corpora.from_bytes("toy", b"some words that come again and again " * 400)
TINY = {"n_layer": 1, "d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 32}


def test_memory_and_positions_runs_end_to_end_at_toy_size():
    settings = experiment.settings("quick", CORPUS)
    settings["model"] |= TINY
    settings["train"] |= {"steps": 4, "warmup": 1, "validate_every": 2, "validate_tokens": 64}
    settings |= {"test_tokens": 200, "memories": [0, 32, 64]}
    reports = []
    data = run(
        experiment, settings, CORPUS, report=lambda label, _, record: reports.append((label, record.step))
    )
    gains = data.pop("gains")
    assert list(data) == ["absolute", "absolute_memory", "xl", "xl_memory"]
    for seed in (0, 1):
        absolute, _, xl, xl_memory = (system["bits"]["seeds"][seed] for system in data.values())
        assert gains["relative_positions"]["seeds"][seed] == pytest.approx(absolute - xl)
        assert gains["memory_with_relative_positions"]["seeds"][seed] == pytest.approx(xl - xl_memory)
    assert len(reports) == 4 * 2 * 4
    assert reports[-1] == ("xl_memory, seed 1", 4)
    for name, system in data.items():
        assert system["mem_len"] == (32 if "memory" in name else 0)
        assert len(system["bits"]["seeds"]) == 2
        assert system["validation"]["step"] == [2, 4]
        assert [row["mem_len"] for row in system["by_memory"]] == [0, 32, 64]
    assert data["xl"]["longest_reach"] == 31
    assert data["xl_memory"]["by_memory"][2]["longest_reach"] == 31 + 64


def test_the_systems_differ_in_positions_and_memory_alone():
    assert experiment.SYSTEMS["xl"] == {"attention": "xl", "memory": False}
    quick, full = (
        experiment.settings(profile, corpora.from_bytes("x", b"x")) for profile in ("quick", "full")
    )
    assert quick["model"]["n_layer"] < full["model"]["n_layer"]
    assert quick["systems"] == full["systems"]


def test_a_summary_holds_mean_and_spread():
    assert summary([1.0, 2.0, 6.0]) == {"seeds": [1.0, 2.0, 6.0], "mean": 3.0, "spread": 5.0}


def test_curves_are_summed_up_place_by_place():
    assert summaries([[1.0, 5.0], [3.0, 5.0]]) == [summary([1.0, 3.0]), summary([5.0, 5.0])]
    with pytest.raises(ValueError, match="longer"):
        summaries([[1.0], [1.0, 2.0]])


def test_parts_are_found_by_their_whole_name():
    values = {"xl, seed 0": 1, "xl_memory, seed 0": 2, "xl, seed 1": 3, "xl": 4}
    assert named(values, "xl") == [1, 3]
    assert named(values, "lstm") == []


def test_every_system_runs_end_to_end_at_toy_size():
    settings = every_system.settings("quick", CORPUS)
    settings["model"] |= TINY
    settings["train"] |= {"steps": 2, "warmup": 1, "validate_every": 2, "validate_tokens": 64}
    settings |= {"test_tokens": 700, "norms": {"pre": {}, "post": {"learning_rate": 1e-3}}}
    data = run(every_system, settings, CORPUS, seeds=[0])
    assert len(data["systems"]) == 5 * 2 * 2
    for row in data["systems"]:
        assert (row["bits"] == row["bits_with_memory_emptied"]) == (row["mem_len"] == 0)


def test_a_bigram_model_is_counted_with_one_added_to_each_pair():
    train, test = torch.tensor([0, 1, 0, 1, 0, 2]), torch.tensor([0, 1, 1])
    p_1_after_0, p_1_after_1 = (2 + 1) / (3 + 3), (0 + 1) / (2 + 3)
    expected = -(log2(p_1_after_0) + log2(p_1_after_1)) / 2
    assert every_system.bigram_bits(train, test, 3) == pytest.approx(expected)


def test_an_interrupted_experiment_goes_on_with_the_part_it_was_in(tmp_path):
    computed, done = [], []

    def part(name, value):
        def compute_it(report):
            if value is None:
                raise KeyboardInterrupt
            computed.append(name)
            return {"value": value}

        return compute_it

    path = tmp_path / "parts.json"
    same = {"stored": path, "about": {"steps": (1, 2)}, "done": done.append}
    with pytest.raises(KeyboardInterrupt):
        compute({"a": part("a", 1), "b": part("b", None)}, **same)
    assert compute({"a": part("a", 1), "b": part("b", 2)}, **same) == {"a": {"value": 1}, "b": {"value": 2}}
    assert computed == ["a", "b"]
    assert done == ["a", "a", "b"]
    first, second = (part["seconds"] for part in json.loads(path.read_text())["parts"].values())
    assert seconds_taken(path) == first + second > 0
    compute({"a": part("a", 1)}, **{**same, "about": {"steps": (1, 3)}})
    assert computed == ["a", "b", "a"]


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[]", "null", '{"about": 1, "parts": []}', '{"about": 1, "parts": {"a": {"value": 2}}}'],
)
def test_damaged_parts_are_refused_by_file_and_nothing_is_computed(tmp_path, content):
    path = tmp_path / "some.parts"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"some\.parts.*; without the file all parts are computed anew$"):
        compute({"a": lambda report: pytest.fail("computed")}, stored=path, about=1)
    assert path.read_text() == content


def test_the_four_ways_to_measure_reach_agree_in_every_case():
    settings = dependency.settings("quick", NO_TEXT)
    settings["cases"] = [case for case in settings["cases"] if case["seg_len"] == 4]
    data = run(dependency, settings, NO_TEXT)
    for row in data["cases"]:
        assert row["propagation"] == row["formula"]
        assert row["perturbation"] == row["gradient"] == [row["formula"]]
        assert row["stopped_gradient"] == [min(3, row["formula"])]
    graph = data["graphs"]["Transformer-XL"]
    assert min(time for depth, time in graph["reached"] if depth == 0) == graph["time"] - 1 - graph["reach"]


def test_copying_runs_end_to_end_at_toy_size():
    settings = copying.settings("quick", NO_TEXT)
    settings |= {"seg_len": 4, "mem_len": 4, "distances": [3, 7], "steps": 2, "batch": 2, "test_streams": 8}
    reports = []
    data = run(
        copying, settings, NO_TEXT, report=lambda label, _, record: reports.append((label, record.step))
    )
    assert len(reports) == 2 * 2 * 2 * 2
    assert [row["hops"] for row in data["rows"]] == [[1, 1, 1, 1], [2, 2, 2, 1]]
    for row in data["rows"]:
        for update in ("stopped", "flowing"):
            assert [len(one["seeds"]) for one in row[update]["by_offset"]] == [2] * 4
    far = data["rows"][1]["stopped"]
    assert far["2_hop"]["seeds"][0] == pytest.approx(sum(one["seeds"][0] for one in far["by_offset"][:3]) / 3)


def test_a_copy_task_is_learned_where_one_hop_reaches():
    settings = copying.settings("quick", NO_TEXT)
    settings |= {"seg_len": 4, "mem_len": 4, "distances": [3], "steps": 60, "updates": ["stopped"]}
    settings["learning_rate"] = 6e-3
    (part,) = compute(copying.parts(settings, NO_TEXT, seeds=[0], device="cpu")).values()
    assert min(part["accuracy"]) > 0.9
