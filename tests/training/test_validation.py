from dataclasses import replace

import pytest
import torch
from small_runs import LANES, SETTINGS, STREAM, new_run

from minitxl.inference.config import EvaluateConfig
from minitxl.inference.evaluation import Score, cached
from minitxl.pretrained.presets import PRESETS
from minitxl.training import loop, validation
from minitxl.training.config import TrainConfig


@pytest.fixture
def short_lanes(monkeypatch):
    """Lanes may be as short as memory and segment, so that there are three, as in training."""
    monkeypatch.setattr(validation, "SPANS", 1)
    monkeypatch.setattr(validation, "FEWEST_LANES", 3)


def test_an_attention_length_gives_every_query_as_many_keys(short_lanes):
    run = new_run(replace(SETTINGS, validate_attention_lens=(2, 9)))
    records = list(loop.train_steps(run, LANES, STREAM))
    assert [record.step for record in records if record.valid_bits_at] == [4, 8, 12]
    assert records[-1].valid_bits_at == {
        length: pytest.approx(
            cached(run.model, STREAM[:79], EvaluateConfig(4, length - 1, length), batch=3).bits_per_token
        )
        for length in (2, 9)
    }


def test_validation_is_cached_evaluation_with_the_training_lengths(short_lanes):
    run = new_run()
    expected = cached(run.model, STREAM[:79], EvaluateConfig(4, 5), batch=3).bits_per_token
    assert loop.validate(run, STREAM) == pytest.approx(expected)
    assert run.model.training


def test_fewer_tokens_than_there_are_come_from_all_over_the_text(short_lanes):
    run = new_run(replace(SETTINGS, validate_tokens=27))
    third = (len(STREAM) - 1) // 3
    lanes = (STREAM[start : start + 10] for start in (0, third, 2 * third))
    alone = [cached(run.model, lane, EvaluateConfig(4, 5)) for lane in lanes]
    assert loop.validate(run, STREAM) == pytest.approx(sum(alone, Score(0.0, 0)).bits_per_token)
    beginning = cached(run.model, STREAM[:28], EvaluateConfig(4, 5), batch=3).bits_per_token
    assert loop.validate(run, STREAM) != pytest.approx(beginning)
    assert loop.validate(run, STREAM[:28]) == pytest.approx(beginning)


@pytest.mark.parametrize(
    ("settings", "there", "lanes"),
    [
        ({"batch": 16}, 100_000, 16),
        ({"batch": 16, "validate_tokens": 5_000}, 100_000, 9),
        ({"batch": 16, "seg_len": 150, "mem_len": 150}, 100_000, 8),
        ({"batch": 1}, 100_000, 8),
        ({"batch": 1, "validate_tokens": 5}, 100_000, 5),
        ({"batch": 16, "validate_attention_lens": (64, 500)}, 100_000, 8),
        ({"batch": 16, "seg_len": 150, "mem_len": 150}, 8_192, 3),
        ({"batch": 16, "seg_len": 150, "mem_len": 150}, 500, 1),
        ({"batch": 2}, 5_000, 2),
    ],
)
def test_a_sample_has_long_lanes_and_eight_at_least_and_a_whole_text_may_be_one(settings, there, lanes):
    assert validation.subset_of(torch.zeros(there + 1), TrainConfig(**settings)).lanes == lanes


def test_training_lengths_and_further_ones_read_the_same_lanes():
    """So the length of training among the further ones has the same score, to the last bit."""
    settings = replace(SETTINGS, mem_len=5, window=6, validate_tokens=60, validate_attention_lens=(6, 20))
    record = list(loop.train_steps(new_run(settings), LANES, STREAM))[-1]
    assert record.valid_bits == record.valid_bits_at[6] != record.valid_bits_at[20]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_validates_long_lanes_from_all_over_the_text(name):
    train = PRESETS[name]().train
    subset = validation.subset_of(torch.empty(10_000_000, device="meta"), train)
    assert subset.lanes >= 8
    assert subset.lane_tokens >= 8 * (train.seg_len + train.mem_len)


def test_a_record_says_which_sample_was_scored_for_another_is_another_score():
    wide = replace(SETTINGS, validate_tokens=60)
    record = list(loop.train_steps(new_run(wide), LANES, STREAM))[-1]
    assert record.valid_subset == validation.Subset(lanes=8, lane_tokens=7)
    assert record.valid_subset.tokens == 56
    assert list(loop.train_steps(new_run(wide), LANES))[-1].valid_subset is None


def test_the_line_about_the_sample_counts_what_is_scored():
    settings = replace(SETTINGS, validate_tokens=60)
    assert validation.in_words(STREAM, settings) == (
        "validation: 56 of 79 tokens, in 8 lanes from all over the text, each of 7, without memory at first"
    )
    assert validation.in_words(STREAM[:61], settings) == (
        "validation: 60 of 60 tokens, in 1 lane of 60, without memory at first"
    )
