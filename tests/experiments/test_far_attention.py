"""Attention beyond the distances of training, and on first tokens: the experiment and its figure."""

from pathlib import Path

import pytest
import torch
from support.experiments import run

from minitxl import ModelConfig, TransformerLM, figures
from minitxl.data import corpora
from minitxl.experiments import far_attention, later_positions
from minitxl.experiments.far_attention import far_weights, oldest_places
from minitxl.experiments.shared import results
from minitxl.memory import extend

STORED = results.read(Path(__file__).parents[2] / "figures" / "far_attention.json")
SIZES = {"n_layer": 2, "d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 32}
TEXT = torch.arange(48) * 7 % 11


@pytest.fixture
def model():
    torch.manual_seed(0)
    model = TransformerLM(ModelConfig(vocab_size=11, dropout=0.0, **SIZES)).eval()
    for parameter in model.parameters():
        parameter.data *= 10 if parameter.ndim > 1 else 1
    return model


def test_the_experiment_runs_end_to_end_at_toy_size(tmp_path):
    corpus = corpora.from_bytes("toy", b"some words that come again and again " * 400)
    settings = far_attention.settings("quick", corpus)
    settings["model"] |= SIZES | {"n_layer": 1}
    settings["train"] |= {"seg_len": 8, "mem_len": 8, "steps": 2, "warmup": 1, "validate_every": 2}
    settings |= {"test_tokens": 200, "memories": [0, 8, 32, 48], "looked_at": 160}
    data = run(far_attention, settings, corpus)
    assert data["trained_distance"] == 15
    for row in data["longer"].values():
        trained, longer, longest = row["rows"]
        assert trained["alike"] == trained["far"]["mean"] == 0
        assert 0 < longer["alike"] < longest["alike"] < 1
        assert len(row["by_distance"]) == 32 + 1
    assert {len(ways["plain"]["seeds"]) for ways in data["oldest"].values()} == {2}
    figures.far_attention(data).save(tmp_path / "drawn.svg")


def test_the_far_share_is_that_of_the_weights_one_by_one(model):
    looked = far_weights(model, TEXT, 8, 16, 12)
    memory, shares, alike = None, [], []
    for segment in TEXT[None].split(8, dim=1):
        if memory is not None and memory.shape[2] == 16:
            weights = model.attention_weights(segment, memory)
            for query in range(8):
                seen = query + 17
                shares.append(weights[..., query, : seen - 12].sum(-1).mean().item())
                alike.append((seen - 12) / seen)
        memory = extend(memory, model.last_hidden(segment, memory)[1], mem_len=16)
    assert looked["far"] == pytest.approx(sum(shares) / len(shares), rel=1e-5)
    assert looked["alike"] == pytest.approx(sum(alike) / len(alike), rel=1e-5)


def test_the_oldest_places_hold_the_first_tokens_where_these_are_kept(model):
    settings = {"train": later_positions.settings("quick", corpora.from_bytes("t", b"ab" * 9000))["train"]}
    settings["train"] |= {"seg_len": 8, "mem_len": 16}
    ways = oldest_places(model, TEXT, settings | {"first": 4})
    assert ways["plain"] != ways["first_kept"]
    same = oldest_places(model, TEXT[:24], settings | {"first": 4})  # nothing was forgotten yet
    assert same["plain"] == same["first_kept"]


def test_the_figure_draws_the_weights_and_every_seed():
    weights, shares = figures.far_attention(STORED.data).figure.axes
    longer = STORED.data["longer"]
    assert [list(line.get_ydata()) for line in weights.lines] == [
        row["by_distance"] for row in longer.values()
    ]
    drawn = {tuple(line.get_xdata()) for line in shares.lines}
    for row in longer.values():
        for one in row["rows"][1:]:
            assert tuple(one["far"]["seeds"]) in drawn
            assert (one["alike"],) * 2 in drawn
