"""The Penn Treebank's experiment at toy size, its LSTM, its readings, what it refuses, and its figure."""

import json
from dataclasses import asdict
from math import exp
from pathlib import Path

import pytest
import torch
from support.experiments import run

from minitxl import figures
from minitxl.__main__ import main
from minitxl.data import corpora
from minitxl.experiments import ptb, ptb_reading
from minitxl.experiments.ptb_training import SYSTEMS, AdaptiveLSTM
from minitxl.experiments.shared import results
from minitxl.figures.training import treebank
from minitxl.lstm import LSTMConfig
from minitxl.training import run_folder

CORPUS = corpora.from_bytes("toy", b"some words that come again and again\n" * 400)
STORED = results.read(Path(__file__).parents[2] / "figures" / "ptb.json").data
SHAPE = {"vocab_size": 256, "n_layer": 1, "d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 32}


def toy_settings():
    settings = ptb.settings("quick", CORPUS)
    settings["model"] |= SHAPE | {"cutoffs": (40, 105)}
    settings["train"] |= {"seg_len": 8, "mem_len": 8, "batch": 2, "steps": 2, "warmup": 1}
    settings["train"] |= {"average_from": None}
    settings |= {"memories": [0, 8, 16], "lanes": 2, "stride": 4, "test_tokens": 128, "preset": None}
    return json.loads(json.dumps(settings))


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def toy(kept):
    return run(ptb, toy_settings(), CORPUS, models=kept)


def test_every_system_is_read_with_each_memory_and_compared_with_xl_seed_by_seed(toy, tmp_path):
    assert list(toy["systems"]) == list(SYSTEMS)
    best = toy["systems"]["xl_memory"]
    for name, system in toy["systems"].items():
        lengths = [row["mem_len"] for row in system["by_memory"]]
        assert lengths == ([0, None] if name == "lstm" else [0, 8, 16])
        own = system["by_memory"][1 if SYSTEMS[name]["memory"] else 0]
        assert system["trained"] == own["perplexity"]
        assert len(own["by_offset"]) == 8
        if name != "xl_memory":
            assert toy["behind_xl"][name]["seeds"] == [
                one - other
                for one, other in zip(system["trained"]["seeds"], best["trained"]["seeds"], strict=True)
            ]
    assert best["sliding"]["attention_len"] == 16
    assert toy["systems"]["xl"]["sliding"]["attention_len"] == 8
    assert toy["systems"]["lstm"]["sliding"] is None
    figures.ptb(toy).save(tmp_path / "drawn.svg")


def test_a_kept_model_is_not_trained_again_and_one_of_other_settings_is(toy, kept):
    steps = []
    report = lambda label, count, record: steps.append(label)  # noqa: E731
    again = run(ptb, toy_settings(), CORPUS, models=kept, report=report)
    assert steps == []
    assert again["behind_xl"] == toy["behind_xl"]
    settings = toy_settings()
    settings["changes"] = {"lstm": {"learning_rate": 1e-4}}
    run(ptb, settings, CORPUS, models=kept, report=report)
    assert set(steps) == {"lstm, seed 0", "lstm, seed 1"}


def test_all_systems_of_the_stored_result_are_equally_large():
    sizes = [system["parameters"] for system in STORED["systems"].values()]
    assert max(sizes) / min(sizes) < 1.02
    assert max(sizes) < 6e6
    assert STORED["preset"]["millions"] < 6


def lstm():
    torch.manual_seed(0)
    return AdaptiveLSTM(LSTMConfig(30, n_layer=2, d_model=6, dropout=0.0), (8, 20)).eval()


def test_the_lstms_adaptive_losses_are_those_of_a_normalised_distribution():
    model, tokens = lstm(), torch.randint(30, (2, 9))
    log_probs, _ = model(tokens[:, :-1])
    assert torch.allclose(log_probs.exp().sum(-1), torch.ones(2, 8))
    losses, _ = model.token_losses(tokens[:, :-1], tokens[:, 1:])
    assert torch.allclose(losses, -log_probs.gather(2, tokens[:, 1:, None])[..., 0], atol=1e-6)
    assert model.output.tables[0].weight is model.embedding.weight


def test_an_lstm_reads_in_segments_what_it_reads_at_once_if_its_state_is_carried_on():
    model, text = lstm(), torch.randint(30, (41,))
    at_once, _ = model.token_losses(text[None, :-1], text[None, 1:])
    carried = ptb_reading.lstm_losses(model, text, seg_len=8, lanes=1)
    assert torch.allclose(carried, at_once[0], atol=1e-6)
    reset = ptb_reading.lstm_losses(model, text, seg_len=8, lanes=1, carried=False)
    assert torch.allclose(reset[:8], at_once[0, :8], atol=1e-6)
    assert not torch.allclose(reset[8:], at_once[0, 8:], atol=1e-4)
    in_lanes = ptb_reading.lstm_losses(model, text, seg_len=8, lanes=4)
    assert torch.allclose(in_lanes[:10], at_once[0, :10], atol=1e-6)


def test_perplexity_by_offset_is_over_the_whole_segments_of_each_lane():
    losses = torch.arange(22.0) / 10
    by_offset = ptb_reading.perplexity_by_offset(losses, seg_len=5, lanes=2)
    segments = [0, 5, 11, 16]  # lanes of 11 tokens, and in each two segments of 5
    expected = [exp(sum(losses[first + offset].item() for first in segments) / 4) for offset in range(5)]
    assert by_offset == pytest.approx(expected)


def test_without_the_text_one_sentence_says_where_it_belongs(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MINITXL_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=r"must find the Penn Treebank in .*, got none: a command with"):
        ptb.corpus()
    with pytest.raises(SystemExit) as stopped:
        main(["figures", "ptb", "--folder", str(tmp_path / "figures")])
    assert stopped.value.code == 2
    assert "must find the Penn Treebank" in capsys.readouterr().err


@pytest.fixture(scope="module")
def preset_run(tmp_path_factory):
    """A tiny run, and settings of the experiment that ask for it."""
    folder, text = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("text") / "text"
    text.write_bytes(bytes(CORPUS.stream.tolist()))
    flags = "--n-layer 1 --d-model 16 --n-head 2 --d-head 8 --d-inner 32 --seg-len 8 --mem-len 8"
    flags += " --batch 2 --steps 2 --validate-every 2 --validate-tokens 64 --device cpu"
    main(["train", str(folder / ptb.PRESET), "--text", str(text), *flags.split()])
    trained = run_folder.trained(folder / ptb.PRESET)
    of_run = {"model": asdict(trained.model.config), "train": asdict(trained.settings)}
    settings = toy_settings()
    settings["preset"] = {"name": ptb.PRESET, "memories": [0, 8], "lanes": 1, "stride": 4, **of_run}
    settings["preset"]["sample"] = {"read": 5, "length": 7, "mem_len": 8}
    return folder, json.loads(json.dumps(settings))


def read_preset(settings, models):
    part = ptb.parts(settings, CORPUS, seeds=[], device="cpu", models=models)[ptb.PRESET]
    return part(lambda label, steps, record: None)


def test_the_run_of_the_preset_is_read_and_not_trained(preset_run):
    folder, settings = preset_run
    value = read_preset(settings, folder)
    assert [row["mem_len"] for row in value["by_memory"]] == [0, 8]
    assert value["epochs"] == pytest.approx(2 * 2 * 8 / len(CORPUS.train))
    assert value["sliding"]["attention_len"] == 16
    assert [point["step"] for point in value["curve"]] == [2]
    assert value["sample"]["prompt"] == bytes(CORPUS.test[:5].tolist()).decode().strip()
    assert len(value["sample"]["text"]) <= 7
    assert value["training_precision"] == "float32"


def test_a_missing_run_of_the_preset_and_one_of_other_settings_are_refused(preset_run, tmp_path):
    folder, settings = preset_run
    with pytest.raises(ValueError, match=r"must hold the run of ptb-small, got none: minitxl train .*--data"):
        read_preset(settings, tmp_path)
    settings = json.loads(json.dumps(settings))
    settings["preset"]["train"]["steps"] = 3
    with pytest.raises(ValueError, match="must hold the whole run of ptb-small"):
        read_preset(settings, folder)


def test_the_figure_names_the_systems_that_overlap_with_transformer_xl():
    def title(**better):
        seeds = {name: [4.0, 5.0, 6.0] for name in SYSTEMS} | {"xl_memory": [1.0, 2.0, 3.0]} | better
        return treebank._who_is_ahead({name: {"trained": {"seeds": of}} for name, of in seeds.items()})

    xl = "Transformer-XL, perplexity 2, is"
    assert title() == f"{xl} ahead of all others in every seed"
    level = title(lstm=[2.5, 5.0, 6.0])
    assert level == f"{xl}\nahead of 5 of 6 others in every seed;\nit overlaps with LSTM (4)"
    two = {name: [2.5, 3.5, 4.5] for name in ("lstm", "rotary_memory")}
    assert title(**two).endswith("\nit overlaps with rotary + memory (4) and LSTM (4)")
    assert title(**two, xl=[0.0, 0.0, 0.0]).startswith("Seven systems")
    assert treebank._who_is_ahead(STORED["systems"]) == (
        "Transformer-XL, perplexity 169, is\nahead of 4 of 6 others in every seed;\n"
        "it overlaps with rotary + memory (175) and LSTM (167)"
    )


def test_the_figure_shows_every_mean_and_names_every_line():
    axes, longer = figures.ptb(STORED).figure.axes
    names = " ".join(text.get_text().replace("\n", " ") for text in axes.texts)
    shown = [list(line.get_ydata()) for line in axes.lines]
    for key, system in treebank.TRAINED.items():
        assert system.name in names
        means = [row["perplexity"]["mean"] for row in STORED["systems"][key]["by_memory"]]
        assert ([means[1]] * 2 if key == "lstm" else means) in shown  # an LSTM has no memory length
    assert "LSTM: 167, and 175 where it is emptied" in figures.ptb(STORED).alt
    values = [row["perplexity"] for row in STORED["preset"]["by_memory"]]
    assert longer.lines[0].get_ydata().tolist() == values
    assert len({(one.marker, one.line) for one in treebank.TRAINED.values()}) == len(treebank.TRAINED)


def test_each_seed_has_a_panel_with_both_trainings_read_in_both_ways():
    picture = treebank.by_training(STORED)
    for seed, axes in enumerate(picture.figure.axes):
        assert axes.get_title(loc="left") == f"seed {seed}"
        values = {
            key: [row["perplexity"]["seeds"][seed] for row in STORED["systems"][key]["by_memory"][:2]]
            for key in ("xl", "xl_memory")
        }
        lines = [line for line in axes.lines if len(line.get_xdata()) == 2]
        assert [list(line.get_ydata()) for line in lines] == list(values.values())
        hollow = [line for line in axes.lines if line.get_markerfacecolor() == "white"]
        assert [list(line.get_ydata()) for line in hollow] == [of[:1] for of in values.values()]
        assert f"seed {seed}, Transformer-XL: {values['xl_memory'][0]:.1f} and" in picture.alt
    assert len(picture.figure.axes) == 3
    (legend,) = picture.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "trained without memory",
        "trained with memory",
    ]


def test_the_longer_training_is_drawn_alone_as_it_is_beside_the_systems():
    picture, (_, beside) = treebank.longer_training(STORED), figures.ptb(STORED).figure.axes
    (axes,) = picture.figure.axes
    assert [list(line.get_ydata()) for line in axes.lines] == [
        list(line.get_ydata()) for line in beside.lines
    ]
    assert "79.8 with 64" in picture.alt
    assert "AWD-LSTM, 24M 58.8" in picture.alt
