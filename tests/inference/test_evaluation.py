from functools import cache
from math import exp, log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from models import ENCODINGS, small_model, some_tokens, unchanged_model

from minitxl.fast import fast_evaluation
from minitxl.inference.config import EvaluateConfig
from minitxl.inference.evaluation import Score, cached, cached_lanes, cached_losses, sliding, sliding_losses

STREAM = some_tokens(1, 40)[0]


def loss_after(model, context: torch.Tensor, target: torch.Tensor) -> float:
    return -model(context[None])[0][0, -1, target].item()


@cache
def loss_at(begin: int, target: int) -> float:
    """Return the loss of the stream's token at ``target`` after those from ``begin`` on."""
    return loss_after(unchanged_model(), STREAM[begin:target], STREAM[target])


@settings(max_examples=25)
@given(time=st.integers(2, 40), attention_len=st.integers(1, 9), batch=st.integers(1, 5), data=st.data())
def test_sliding_scores_each_target_once_from_the_window_it_falls_in(time, attention_len, batch, data):
    stride = data.draw(st.integers(1, attention_len))
    model, stream = unchanged_model(), STREAM[:time]
    found = sliding_losses(model, stream, attention_len=attention_len, stride=stride, batch=batch)
    expected = []
    for target in range(1, time):
        window = max(0, -(-(target - attention_len) // stride))  # the first window that reaches it
        expected.append(loss_at(window * stride, target))
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-10)


def test_stride_1_gives_every_token_all_the_context_the_window_holds():
    model = small_model(attention="absolute")
    found = sliding_losses(model, STREAM, attention_len=5, stride=1)
    for target in range(1, 40):
        context = STREAM[max(0, target - 5) : target]
        assert found[target - 1].item() == pytest.approx(
            loss_after(model, context, STREAM[target]), abs=1e-10
        )


def test_stride_of_a_whole_window_is_cached_evaluation_without_memory():
    for encoding in ENCODINGS.values():
        model = small_model(**encoding)
        isolated = sliding_losses(model, STREAM, attention_len=7, stride=7)
        no_memory = cached_losses(model, STREAM, EvaluateConfig(seg_len=7, mem_len=0))
        torch.testing.assert_close(isolated, no_memory, rtol=0, atol=1e-10)


@cache
def losses_of_the_whole(window):
    """Return the losses of the stream that is read as one segment."""
    how = EvaluateConfig(len(STREAM), window - 1, window)
    return cached_losses(unchanged_model(attention="xl"), STREAM, how)


@given(seg_len=st.integers(1, 45), window=st.integers(1, 12), spare=st.integers(0, 5))
def test_cached_losses_with_a_window_do_not_depend_on_the_cut(seg_len, window, spare):
    how = EvaluateConfig(seg_len, window - 1 + spare, window)
    found = cached_losses(unchanged_model(attention="xl"), STREAM, how)
    torch.testing.assert_close(found, losses_of_the_whole(window), rtol=0, atol=1e-10)


def test_cached_evaluation_with_long_memory_equals_sliding_over_everything():
    model = unchanged_model(attention="xl")
    found = cached_losses(model, STREAM, EvaluateConfig(seg_len=6, mem_len=40))
    everything = sliding_losses(model, STREAM, attention_len=40, stride=1)
    torch.testing.assert_close(found, everything, rtol=0, atol=1e-10)


@given(time=st.integers(2, 40), seg_len=st.integers(1, 9), batch=st.integers(1, 6))
def test_lanes_score_every_target_once_and_start_with_an_empty_memory(time, seg_len, batch):
    model, stream, how = unchanged_model(attention="xl"), STREAM[:time], EvaluateConfig(seg_len, 4)
    found = cached_losses(model, stream, how, batch=batch)
    lane = -(-(time - 1) // batch)
    alone = [
        cached_losses(model, stream[start : start + lane + 1], how) for start in range(0, time - 1, lane)
    ]
    torch.testing.assert_close(found, torch.cat(alone), rtol=0, atol=1e-10)


@given(time=st.integers(2, 40))
def test_both_evaluations_score_the_same_targets(time):
    model, stream = unchanged_model(attention="xl"), STREAM[:time]
    one, other = (
        sliding(model, stream, attention_len=5, stride=2),
        cached(model, stream, EvaluateConfig(5, 5)),
    )
    assert one.tokens == other.tokens == time - 1


def test_scores_are_sums_and_add_up():
    score = Score(2.0, 3) + Score(4.0, 5)
    assert score == Score(6.0, 8)
    assert score.bits_per_token == pytest.approx(6 / 8 / log(2))
    assert score.perplexity == pytest.approx(exp(6 / 8))


@pytest.mark.parametrize("mean", ["nats_per_token", "bits_per_token", "perplexity"])
def test_the_score_of_no_tokens_adds_nothing_and_has_no_mean(mean):
    nothing = Score(0.0, 0)
    assert nothing + Score(2.0, 3) == Score(2.0, 3)
    with pytest.raises(ValueError, match="a mean loss must be over 1 token or more, got 0"):
        getattr(nothing, mean)


def test_evaluation_has_no_dropout_and_leaves_the_model_as_it_was():
    model = small_model(dropout=0.5).train()
    one, other = (cached(model, STREAM, EvaluateConfig(5, 5)) for _ in range(2))
    assert one == other
    assert model.training
    with pytest.raises(RuntimeError, match="stop"), fast_evaluation(model):
        raise RuntimeError("stop")
    assert model.training


def test_lanes_are_scored_as_if_each_were_alone():
    model, how = small_model(attention="xl"), EvaluateConfig(5, 4)
    lanes = torch.stack([STREAM[:12], STREAM[20:32]])
    one, other = (cached(model, lane, how) for lane in lanes)
    both = cached_lanes(model, lanes, how)
    assert both.tokens == 22
    assert both.nats == pytest.approx((one + other).nats, abs=1e-10)
    with pytest.raises(ValueError, match=r"must hold 2 tokens or more each, got shape \[2, 1\]"):
        cached_lanes(model, lanes[:, :1], how)


def test_a_sliding_window_clamps_distances_where_it_is_told_to():
    model = small_model(attention="xl")
    clamped = sliding_losses(model, STREAM, attention_len=7, stride=1, clamp_len=2)
    configured = small_model(attention="xl", clamp_len=2)
    configured.load_state_dict(model.state_dict())
    expected = sliding_losses(configured, STREAM, attention_len=7, stride=1)
    torch.testing.assert_close(clamped, expected, rtol=0, atol=1e-10)
    assert not torch.allclose(clamped, sliding_losses(model, STREAM, attention_len=7, stride=1))


def test_a_memory_longer_than_the_text_takes_no_more_than_the_text():
    model = small_model(attention="xl")
    expected = cached(model, STREAM, EvaluateConfig(5, 40))
    assert cached(model, STREAM, EvaluateConfig(5, 2**31 - 1)) == expected


def test_a_perplexity_beyond_all_numbers_is_infinite():
    assert Score(1e6, 1).perplexity == float("inf")


@pytest.mark.parametrize(
    ("score", "sentence"),
    [
        (lambda model: cached(model, STREAM.double(), EvaluateConfig()), "whole numbers, got float64"),
        (
            lambda model: cached(model, STREAM[None], EvaluateConfig()),
            r"stream must have the axes \[time\], got shape \[1, 40\]",
        ),
        (lambda model: cached(model, STREAM, EvaluateConfig(), batch=0), "batch must be 1 or more, got 0"),
        (
            lambda model: sliding(model, STREAM, attention_len=0, stride=1),
            "attention_len must be 1 or more, got 0",
        ),
        (
            lambda model: sliding(model, STREAM, attention_len=3, stride=1, batch=0),
            "batch must be 1 or more, got 0",
        ),
    ],
)
def test_what_can_not_be_scored_is_refused(score, sentence, as_users_run_it):
    with pytest.raises(ValueError, match=sentence):
        score(small_model())


def test_a_text_without_a_target_and_an_impossible_stride_are_refused():
    with pytest.raises(ValueError, match="2 tokens or more, got 1"):
        cached(small_model(), STREAM[:1], EvaluateConfig())
    with pytest.raises(ValueError, match="stride must lie in 1 … attention_len = 4, got 5"):
        sliding(small_model(), STREAM, attention_len=4, stride=5)
