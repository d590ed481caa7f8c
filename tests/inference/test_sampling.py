"""Scores become probabilities to draw from: temperature, top-k, top-p, and the penalty on repetition."""

from math import log

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from models import small_model, some_tokens

from minitxl.inference.sampling import repetition_penalty, sampling_probs

PROMPT = some_tokens(1, 9)[0]


def test_temperature_top_k_and_top_p_shape_the_probabilities():
    probs = torch.tensor([[0.1, 0.4, 0.2, 0.3]], dtype=torch.float64)

    def kept(**settings):
        return sampling_probs(probs.log(), **settings)[0].tolist()

    assert kept() == pytest.approx([0.1, 0.4, 0.2, 0.3])
    assert kept(temperature=0) == [0, 1, 0, 0]
    assert kept(temperature=0.5) == pytest.approx([1 / 30, 16 / 30, 4 / 30, 9 / 30])
    assert kept(top_k=2) == pytest.approx([0, 4 / 7, 0, 3 / 7])
    assert kept(top_k=9) == pytest.approx([0.1, 0.4, 0.2, 0.3])
    assert kept(top_p=0.6) == pytest.approx([0, 4 / 7, 0, 3 / 7])
    assert kept(top_p=0.75) == pytest.approx([0, 4 / 9, 2 / 9, 3 / 9])
    assert kept(top_p=0.01) == kept(top_p=1e-320) == [0, 1, 0, 0]
    assert kept(top_p=1.0) == pytest.approx([0.1, 0.4, 0.2, 0.3])
    assert kept(top_k=2, top_p=0.5) == [0, 1, 0, 0]


def test_top_p_of_1_leaves_out_no_token_of_a_large_vocabulary():
    scores = 5 * torch.randn(1, 50_257, generator=torch.Generator().manual_seed(0))
    assert torch.equal(sampling_probs(scores, top_p=1.0), sampling_probs(scores))


def test_repetition_divides_scores_above_chance_and_multiplies_those_below():
    probs = torch.tensor([[1 / 2, 1 / 4, 1 / 8, 1 / 8], [1 / 2, 1 / 4, 1 / 8, 1 / 8]], dtype=torch.float64)
    recent = [torch.tensor([2, 0, 2, 1]), torch.tensor([3])]
    scores = repetition_penalty(probs.log(), recent, repetition=2) + log(4)
    expected = [[2**0.5, 1, 1 / 4, 1 / 2], [2, 1, 1 / 2, 1 / 4]]
    assert torch.allclose(scores.exp(), torch.tensor(expected, dtype=torch.float64), rtol=1e-12)


@given(st.integers(0, 99), st.floats(1.001, 5))
def test_repetition_lowers_what_is_recent_and_nothing_else_and_keeps_its_order(seed, repetition):
    log_probs = torch.randn(1, 20, generator=torch.Generator().manual_seed(seed)).double().log_softmax(-1)
    recent = torch.arange(0, 20, 2)
    scores = repetition_penalty(log_probs, [recent], repetition=repetition)
    assert (scores[:, recent] < log_probs[:, recent]).all()
    assert torch.equal(scores[:, 1::2], log_probs[:, 1::2])
    assert torch.equal(scores[:, recent].argsort(), log_probs[:, recent].argsort())
    assert (
        repetition_penalty(log_probs, [recent], repetition=1 / repetition)[:, recent] > log_probs[:, recent]
    ).all()


def test_repetition_flattens_where_everything_is_recent():
    """A power of the probabilities would do the contrary."""
    probs = torch.tensor([[0.6, 0.4] + [1e-9] * 8], dtype=torch.float64)
    drawn = sampling_probs(repetition_penalty(probs.log(), [torch.arange(10)], repetition=1.5))[0]
    assert 1 < drawn[0] / drawn[1] < 0.6 / 0.4


def test_repetition_of_1_changes_no_bit():
    log_probs = small_model()(PROMPT[None])[0][:, -1]
    assert repetition_penalty(log_probs, [PROMPT], repetition=1.0) is log_probs
