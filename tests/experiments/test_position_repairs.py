"""Repairs of positions: the experiment at toy size, the models it reads with, its figure."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.experiments import run

from minitxl import ModelConfig, TransformerLM, figures
from minitxl.data import corpora
from minitxl.experiments import later_positions, position_repairs
from minitxl.experiments.conclusions.later import BETAS, LARGEST_STEP, largest_step
from minitxl.experiments.position_repairs import longest_distance, stretched, with_scaled_table
from minitxl.experiments.shared import results
from minitxl.inference.config import EvaluateConfig
from minitxl.training.config import TrainConfig

FIGURES = Path(__file__).parents[2] / "figures"
STORED = results.read(FIGURES / "position_repairs.json")
TINY = ModelConfig(
    vocab_size=11, n_layer=2, d_model=16, n_head=2, d_head=8, d_inner=16, attention="t5", dropout=0.0
)
TEXT = torch.arange(40)[None] * 7 % 11


@pytest.fixture(scope="module")
def toy():
    corpus = corpora.from_bytes("toy", b"some words that come again and again " * 400)
    settings = position_repairs.settings("quick", corpus)
    settings["model"] |= {"n_layer": 1, "d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 32}
    settings["train"] |= {"steps": 2, "warmup": 1, "validate_every": 2, "validate_tokens": 64}
    return run(position_repairs, settings | {"test_tokens": 200}, corpus)


def drawn(config, build=TransformerLM):
    torch.manual_seed(0)
    return build(config)


def test_the_experiment_runs_end_to_end_at_toy_size(toy, tmp_path):
    for kind in ("t5", "t5_scaled"):
        without, with_memory = (toy["systems"][name] for name in (kind, f"{kind}_memory"))
        assert toy["memory_gain"][kind]["seeds"] == [
            before - after
            for before, after in zip(
                without[0]["bits"]["seeds"], with_memory[1]["bits"]["seeds"], strict=True
            )
        ]
    for way in toy["regained"].values():
        assert way["32"]["seeds"] == pytest.approx([0, 0], abs=1e-5)
    figures.position_repairs(toy).save(tmp_path / "drawn.svg")


def test_no_gradients_move_adam_farther_than_its_largest_step():
    """Gradients that grow by β_2 / β_1 move it just so far, and random ones less."""
    draw = torch.Generator().manual_seed(0)
    for step in (1, 2, 10, 60):
        growing = (0.999 / 0.9) ** torch.arange(step, dtype=torch.float64)
        for gradients in (growing, torch.randn(step, dtype=torch.float64, generator=draw).abs()):
            number = torch.zeros(1, dtype=torch.float64, requires_grad=True)
            optimizer, before = torch.optim.Adam([number], lr=1.0, betas=BETAS, eps=0.0), 0.0
            for gradient in gradients:
                before = number.item()
                number.grad = gradient[None].clone()
                optimizer.step()
            moved = before - number.item()
            if gradients is growing:
                assert moved == pytest.approx(largest_step(step), rel=1e-9)
            else:
                assert moved <= largest_step(step) + 1e-9
    assert largest_step(60) < LARGEST_STEP == largest_step(1e9)


def test_at_the_learning_rate_of_two_steps_a_multiplied_table_moves_farther(toy):
    published, scaled = (toy["learned"][name]["moved"]["seeds"] for name in ("t5", "t5_scaled"))
    assert toy["sum_of_rates"] == pytest.approx(0.002)
    for near, far in zip(published, scaled, strict=True):
        assert far == pytest.approx(30 * near, rel=0.5)


def test_a_model_with_a_multiplied_table_begins_as_the_published_one():
    published, scaled = drawn(TINY), drawn(TINY, lambda config: with_scaled_table(config, 30.0))
    torch.testing.assert_close(scaled(TEXT)[0], published(TEXT)[0])
    assert {name for name, _ in scaled.named_parameters()} == {
        name for name, _ in published.named_parameters()
    }
    table = scaled.blocks[0].attention.table
    assert table is scaled.blocks[1].attention.table
    torch.testing.assert_close(30 * table, published.blocks[0].attention.table)


@pytest.mark.parametrize("share", [True, False])
def test_a_change_of_the_table_changes_the_bias_by_the_factor(share):
    model = drawn(replace(TINY, share_biases=share), lambda config: with_scaled_table(config, 30.0))
    attention, away = model.blocks[1].attention, torch.arange(9)
    before = attention.distance_bias(away).detach()
    attention.table.data += 0.1
    torch.testing.assert_close(attention.distance_bias(away), before + 3)


def test_a_rotary_model_read_without_stretch_is_the_trained_one():
    model = drawn(replace(TINY, attention="rotary"))
    for parameter in model.parameters():
        parameter.data *= 10 if parameter.ndim > 1 else 1  # attention far from uniform
    for way in ("interpolated", "base_raised"):
        torch.testing.assert_close(stretched(model, 1.0, way)(TEXT)[0], model(TEXT)[0])
        assert not torch.allclose(stretched(model, 2.0, way)(TEXT)[0], model(TEXT)[0])


def test_interpolated_a_key_twice_as_far_scores_as_one_at_half_the_distance():
    model = drawn(replace(TINY, attention="rotary"))
    near, far = (one.blocks[0].attention for one in (model, stretched(model, 2.0, "interpolated")))
    q, k = torch.randn(1, 2, 1, 8), torch.randn(1, 2, 1, 8)
    keys = [k.expand(-1, -1, length, -1) for length in (6, 11)]
    scores = [attention.scores(q, one, None) for attention, one in zip((near, far), keys, strict=True)]
    torch.testing.assert_close(scores[0][..., 0], scores[1][..., 0])  # 5 back, and 10 back
    with pytest.raises(ValueError, match="clamp_len must be None where positions are stretched, got 3"):
        far.scores(q, k, 3)


def test_with_the_base_raised_the_fastest_pair_turns_as_before_and_the_slowest_as_interpolated():
    model = drawn(replace(TINY, attention="rotary"))
    ways = [stretched(model, 4.0, way).blocks[0].attention for way in ("base_raised", "interpolated")]
    trained = model.blocks[0].attention
    fastest, slowest = torch.zeros(2, 1, 1, 1, 8)
    fastest[..., 0], slowest[..., 3] = 1, 1
    for pair, like in ((fastest, trained), (slowest, ways[1])):
        keys = pair.expand(-1, -1, 50, -1)
        torch.testing.assert_close(ways[0].scores(pair, keys, None), like.scores(pair, keys, None))


def test_the_longest_distance_is_from_the_last_query_to_the_oldest_state():
    assert longest_distance(TrainConfig(seg_len=32, mem_len=32)) == 63
    assert longest_distance(EvaluateConfig(4, 1)) == 4


def test_the_models_of_both_experiments_on_later_positions_are_the_same():
    other = results.read(FIGURES / "later_positions.json")
    for name in ("corpus", "model", "train", "test_tokens", "memories"):
        assert STORED.settings[name] == other.settings[name]
    assert STORED.seeds == other.seeds
    for system in ("t5", "t5_memory", "xl_memory"):
        bits = [row["bits"]["mean"] for row in STORED.data["systems"][system]]
        assert bits == pytest.approx(
            [row["bits"]["mean"] for row in other.data["systems"][system]["by_memory"]], abs=0.01
        )
    assert later_positions.SEEDS == position_repairs.SEEDS


def test_the_figure_shows_both_questions_and_labels_every_line():
    data = STORED.data
    t5, rotary = figures.position_repairs(data).figure.axes
    title = "With biases × 30 and a memory of 32, T5 has\n2.59 bits, and Transformer-XL 2.64"
    assert t5.get_title(loc="left") == title
    assert rotary.get_title(loc="left") == (
        "A memory of 512 instead of 32 costs rotary\n0.11 bits with distances clamped, else 1.25 or more"
    )
    assert {text.get_text() for text in t5.texts} == {
        "T5 + memory,\nas published",
        "Transformer-XL",
        "T5 + memory,\ntrained with its\nbiases × 30",
    }
    assert {text.get_text() for text in rotary.texts} == {
        "rotary + memory,\nas trained",
        "rotary + memory,\ndistances clamped",
        "rotary + memory,\ninterpolated",
        "rotary + memory,\nbase raised",
    }
    lines = {tuple(line.get_ydata()) for line in rotary.lines}
    for rows in data["rotary"].values():
        assert tuple(row["bits"]["mean"] for row in rows) in lines


def test_the_titles_claim_only_what_the_data_show():
    data = json.loads(json.dumps(STORED.data))
    data["scaled_before_xl"]["32"]["seeds"][1] = -0.1
    data["rotary"]["clamped"][2]["bits"]["mean"] = 9.0
    t5, rotary = figures.position_repairs(data).figure.axes
    assert t5.get_title(loc="left") == "T5 and Transformer-XL"
    assert rotary.get_title(loc="left") == "Rotary in four ways"
