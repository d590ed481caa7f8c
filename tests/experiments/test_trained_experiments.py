"""The experiments that train models of text, end to end at toy size."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from support.experiments import run

from minitxl.config import ModelConfig
from minitxl.data import corpora
from minitxl.experiments import (
    ablation,
    attention_over_memory,
    context,
    equal_bytes,
    samples,
    short_dependency,
)
from minitxl.experiments.conclusions.comparisons import bits_as_cut
from minitxl.experiments.shared import fingerprints, results, trained
from minitxl.inference.config import EvaluateConfig
from minitxl.inference.evaluation import cached_losses
from minitxl.model import TransformerLM
from minitxl.training import checkpoints
from minitxl.training.config import TrainConfig

FIGURES = Path(__file__).parents[2] / "figures"
CORPUS = corpora.from_bytes("toy", b"some words that come again and again\n" * 400)
SMALL = {"n_layer": 1, "d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 32, "max_seg_len": 8}
SHORT = {"seg_len": 8, "mem_len": 8, "batch": 2, "steps": 2, "warmup": 1, "validate_every": 2}


def toy_settings(experiment, **changes):
    settings = experiment.settings("quick", CORPUS)
    settings["model"] |= SMALL
    settings["train"] |= SHORT | {"validate_tokens": 16}
    settings["train"].pop("validate_attention_lens")  # a tuple, which JSON makes a list
    return json.loads(json.dumps(settings | changes))


def test_the_ablation_scores_every_system_as_trained_and_at_other_lengths():
    reports = []
    data = run(
        ablation, toy_settings(ablation, test_tokens=100), CORPUS, report=lambda *one: reports.append(one[0])
    )
    rows = {row["label"]: row for row in data["systems"]}
    assert len(rows) == 4 * 2 * 2 + 1
    assert len(set(reports)) == 2 * len(rows)
    xl, vanilla = rows["XL, memory, full loss"], rows["absolute, sinusoidal, no memory, half loss"]
    assert [one["attention_len"] for one in xl["by_length"]] == [8, 12, 16, 24, 32, 48, 64]
    assert (xl["trained"]["attention_len"], vanilla["trained"]["attention_len"]) == (16, 8)
    assert [one["attention_len"] for one in vanilla["by_length"]] == [8]
    assert xl["best"]["bits"]["mean"] <= xl["trained"]["bits"]["mean"]
    assert xl["best"]["attention_len"] >= 16
    for row in rows.values():
        assert len(row["bits_by_offset"]) == row["seg_len"]
        assert len(row["best"]["bits"]["seeds"]) == 2
    saved = data["saved"]

    def bits(label):
        return bits_as_cut(data, label)["seeds"]

    def less(given, own):
        return [one - other for one, other in zip(bits(given), bits(own), strict=True)]

    memory, none = "Shaw, memory, half loss", "Shaw, no memory, half loss"
    assert saved["memory"]["shaw"]["half"]["seeds"] == less(none, memory)
    assert saved["full_loss"]["shaw"]["no_memory"]["seeds"] == less(none, none.replace("half", "full"))
    over_shaw = saved["positions"]["xl_over_shaw"]["memory"]["half"]["seeds"]
    assert over_shaw == less(memory, memory.replace("Shaw", "XL"))
    assert [len(saved[name]) for name in ("memory", "full_loss", "positions")] == [4, 4, 6]
    longer = rows["XL, no memory, longer segments, full loss"]
    assert longer["seg_len"] > 8
    assert longer["mem_len"] == 0


def test_xl_pays_for_its_position_keys_with_a_narrower_inner_layer():
    sizes = {}
    for name, fields in ablation.ENCODINGS.items():
        config = ablation.equal_parameters(ModelConfig(**{**fields, "max_seg_len": 32}))
        sizes[name] = sum(parameter.numel() for parameter in TransformerLM(config).parameters())
    assert max(sizes.values()) / min(sizes.values()) < 1.02
    plain = ModelConfig(attention="xl")
    assert ablation.equal_parameters(plain).d_inner == plain.d_inner - plain.n_head * plain.d_head // 2


def test_the_longest_affordable_segment_keeps_as_many_bytes_as_memory_does():
    config, train = ModelConfig(**SMALL), TrainConfig(**SHORT)
    length = ablation.affordable_seg_len(config, train)
    budget = ablation.bytes_kept(config, train)

    def bytes_without_memory(seg_len):
        return ablation.bytes_kept(config, TrainConfig(**SHORT | {"seg_len": seg_len, "mem_len": 0}))

    assert bytes_without_memory(length) <= budget < bytes_without_memory(length + 1)


def test_bits_by_offset_are_the_means_of_every_segments_token_at_that_offset():
    model = TransformerLM(ModelConfig(**SMALL)).eval()
    stream = CORPUS.test[:30]
    bits = ablation.bits_by_offset(model, stream, EvaluateConfig(8, 8))
    losses = cached_losses(model, stream[:25], EvaluateConfig(8, 8)) / torch.tensor(2.0).log()
    assert bits == pytest.approx([losses[offset::8].mean().item() for offset in range(8)])


def test_shuffled_lines_are_the_same_lines_and_do_not_cross_the_parts():
    text = corpora.from_bytes("numbers", b"".join(b"line %d\n" % number for number in range(1000)))
    shuffled = short_dependency.shuffle_lines(text, seed=0)
    for part in ("train", "valid", "test"):
        before, after = (bytes(getattr(one, part).tolist()) for one in (text, shuffled))
        assert before != after
        assert sorted(before.split(b"\n")) == sorted(after.split(b"\n"))
    again = short_dependency.shuffle_lines(text, seed=0)
    assert torch.equal(again.train, shuffled.train)


def test_equal_bytes_compares_equally_many_steps_and_equally_much_text():
    settings = equal_bytes.settings("quick", CORPUS)
    steps, fewer, more = (settings["systems"][number]["steps"] for number in (1, 2, 3))
    assert settings["systems"][0]["steps"] == steps
    assert abs(fewer * 41 - steps * 32) <= 41 / 2  # 41 is the length of the segments at equal bytes
    assert abs(more * 32 - steps * 41) <= 32 / 2
    toy = toy_settings(equal_bytes, test_tokens=100)
    for system, few in zip(toy["systems"], (2, 2, 1, 3), strict=True):
        system["steps"] = few
    seg_len = toy["train"]["seg_len"]
    data = run(equal_bytes, toy, CORPUS, seeds=[0, 1])
    memory, longer, longer_fewer, memory_more = data["systems"]
    assert [row["mem_len"] > 0 for row in data["systems"]] == [True, False, False, True]
    assert (
        longer["seg_len"] == longer_fewer["seg_len"] > memory["seg_len"] == memory_more["seg_len"] == seg_len
    )
    keys = {True: 3 * seg_len // 2, False: longer["seg_len"]}
    for name, pair in {"steps": (memory, longer), "more_steps": (memory_more, longer)}.items():
        at = [
            next(one["bits"] for one in row["by_length"] if one["attention_len"] == keys[row["recurrence"]])
            for row in pair
        ]
        more = data["more"][name]["full_context"]
        assert more["mean"] == pytest.approx(at[1]["mean"] - at[0]["mean"])
        assert more["seeds"] == pytest.approx(
            [b - a for a, b in zip(*(one["seeds"] for one in at), strict=True)]
        )
        cut = [[one["mean"] for one in row["bits_by_offset"]] for row in pair]
        means = [sum(one) / len(one) for one in cut]
        assert data["more"][name]["in_segments"]["mean"] == pytest.approx(means[1] - means[0])


def test_short_dependency_trains_on_shuffled_lines():
    data = run(short_dependency, toy_settings(short_dependency, test_tokens=100), CORPUS, seeds=[0])
    assert [row["recurrence"] for row in data["systems"]] == [True, True, False, False]
    assert all(len(row["bits_by_offset"]) == 8 for row in data["systems"])


def test_kept_models_are_trained_once_and_anew_when_asked_for_others(tmp_path):
    reports = []

    def model(**changes):
        settings = toy_settings(context)
        settings["train"] |= changes
        return trained.model(
            settings,
            CORPUS,
            "xl_memory",
            0,
            device="cpu",
            models=tmp_path,
            report=lambda *one: reports.append(one),
        )

    first = model()
    assert len(reports) == 2
    again = model()
    assert len(reports) == 2
    for one, other in zip(first.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)
        assert torch.equal(one, one.half().float())
    model(learning_rate=1e-4)
    assert len(reports) == 4


def test_all_kept_models_are_about_as_large():
    settings = context.settings("quick", CORPUS)
    sizes = [
        sum(parameter.numel() for parameter in trained.new(trained.config_of(settings, system)).parameters())
        for system in trained.SYSTEMS
    ]
    assert max(sizes) / min(sizes) < 1.02


def test_context_gives_each_model_the_same_targets_and_each_group_its_recl(tmp_path):
    settings = toy_settings(context, context_lens=[4, 8, 12], passages=3, targets=20, test_tokens=100)
    data = run(context, settings, CORPUS, models=tmp_path)
    assert list(data["systems"]) == list(trained.SYSTEMS)
    assert data["targets"] == 60
    absolute = data["systems"]["absolute"]["bits"]
    assert absolute[1] == absolute[2] != absolute[0]
    assert len(data["systems"]["xl"]["bits_by_offset"]) == 8
    assert data["systems"]["lstm"]["bits_by_offset"] == []
    for name, members in context.GROUPS.items():
        assert list(data["recl"][name]) == list(members)
        for shares in data["recl"][name].values():
            assert {one["tokens"] for share in shares.values() for one in share} <= {4, 8, 12}
            assert [len(share) for share in shares.values()] == [2, 2, 2]
    assert [(gain["short"], gain["long"]) for gain in data["gains"]["xl"]] == [(4, 8), (4, 12), (8, 12)]


def test_attention_over_memory_looks_into_heads_and_takes_memory_away(tmp_path):
    settings = toy_settings(
        attention_over_memory, mem_len=16, ages=[[1, 8], [9, 16]], test_tokens=200, lanes=2
    )
    settings["model"] |= {"n_layer": 2}
    settings |= {"shown_segment": 1, "shown_queries": 4, "shown_memory": 6, "wide_heads": 2}
    data = run(attention_over_memory, settings, CORPUS, models=tmp_path)
    weights = torch.tensor(data["weight_by_distance"])
    assert weights.shape == (2, 2, 17)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2), rtol=0, atol=1e-5)
    shares = [one["share"]["seeds"][0] for one in data["share_by_distance"]]
    assert sum(shares) == pytest.approx(1, abs=1e-5)
    text = data["text"]
    assert len(text["characters"]) == 10
    assert torch.tensor(text["weights"]).shape == (2, 4, 10)
    assert torch.tensor(text["terms"]).shape == (4, 4, 10)
    assert text["characters"] in CORPUS.test.numpy().tobytes().decode()
    for rows in data["changes"].values():
        assert [(row["how"], row["ages"]) for row in rows] == [
            (how, ages) for how in ("hide", "shuffle") for ages in ([1, 8], [9, 16], [1, 16])
        ]
        assert all(
            low <= mean <= high
            for row in rows
            for mean, (low, high) in [(row["bits"]["seeds"][0], row["intervals"][0])]
        )


def test_pairs_are_sorted_by_distance():
    query, key = 3, 8
    i, j = torch.arange(key - query, key)[:, None], torch.arange(key)[None]
    sorted_pairs = attention_over_memory.by_distance((i - j).double(), 4)
    assert torch.equal(sorted_pairs, torch.arange(5).double().expand(query, 5))


def test_the_widest_heads_look_farthest_back():
    heads = torch.zeros(2, 2, 5)
    for layer, head, away in ((0, 0, 1), (0, 1, 4), (1, 0, 0), (1, 1, 3)):
        heads[layer, head, away] = 0.5
    assert attention_over_memory.widest(heads, 2) == [[0, 1], [1, 1]]


def test_samples_go_on_from_their_prompts_with_the_best_model(tmp_path):
    settings = toy_settings(samples, prompts=[0, 50], prompt_len=12, length=20, valid_tokens=100)
    data = run(samples, settings, CORPUS, models=tmp_path)
    assert data["model_seed"] in (0, 1)
    text = bytes(CORPUS.test.tolist()).decode()
    for begin, row in zip((0, 50), data["samples"], strict=True):
        assert row["prompt"] == text[begin : begin + 12]
        assert row["original"]["text"] == text[begin + 12 : begin + 32]
        assert row["original"]["known_words"] >= row["original"]["words"] - 2  # cut at both ends
        assert row["original"]["longest_copy"] == 20
        assert 0 <= row["sample"]["longest_copy"] <= 20


def test_the_longest_copy_is_the_longest_piece_that_is_there():
    assert samples.longest_copy(b"xxabcdyabz", b"..abcd..yab..") == b"abcd"
    assert samples.longest_copy("the last two: ab cd", "cd and ab") == " ab"
    assert samples.longest_copy("xyz", "abc") == ""


def test_the_kept_models_are_small_and_those_of_the_results():
    settings = context.settings("quick", corpora.embedded())
    stored = results.read(FIGURES / "context.json").settings
    paths = sorted((FIGURES / "models").glob("*-0.safetensors"))
    names = {"xl_memory-0", "xl-0", "absolute-0", "lstm-0"}
    assert names <= {path.stem for path in paths}
    assert sum(path.stat().st_size for path in paths if path.stem in names) < 5.1e6
    for path in paths:
        about = checkpoints.read(path)[1]
        assert fingerprints.same(about["fingerprint"], trained.fingerprint(path.stem.removesuffix("-0"))), (
            path
        )
        assert about["trained"] == {name: stored[name] for name in ("corpus", "train")}
        system = path.stem.removesuffix("-0")
        model = json.loads(json.dumps(asdict(trained.config_of(settings, system))))
        assert results.completed({"model": about["model"]}) == results.completed({"model": model})
