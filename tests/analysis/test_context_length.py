"""Context that helps, on losses made by hand; and memory taken away, against the plain model."""

from math import log

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from models import ENCODINGS, RELATIVE, in_segments, small_lstm, small_model, some_tokens, unchanged_model

from minitxl.analysis.context_length import (
    ContextLength,
    context_losses,
    effective_context_length,
    gain,
    gains,
    mean_change,
    memory_changes,
    recl,
)
from minitxl.inference.config import EvaluateConfig
from minitxl.memory import extend

STREAM = some_tokens(1, 60)[0]


def losses_of(*perplexities: list[float]) -> dict[int, torch.Tensor]:
    """Losses at context lengths 100, 200, …: for each, the perplexity of every target."""
    return {
        100 * number: torch.tensor(each, dtype=torch.float64).log()
        for number, each in enumerate(perplexities, start=1)
    }


def lengths_at(losses, r: float) -> dict[str, int]:
    return {name: length.tokens for name, length in recl(losses, r=r).items()}


def test_recl_is_where_the_next_step_gains_less_than_one_percent():
    """Gains of 10 %, 2 %, 0.5 %; that 500 tokens would gain again does not count."""
    alone = losses_of([100.0], [90.0], [88.2], [87.8], [40.0])
    assert recl({"alone": alone}, r=1.0) == {"alone": ContextLength(300, at_least=False)}
    assert effective_context_length(alone) == ContextLength(300, at_least=False)
    assert recl({"alone": alone}, r=1.0, threshold=0.05)["alone"].tokens == 200
    assert effective_context_length(alone, threshold=0.05).tokens == 200


def test_without_a_first_gain_recl_is_the_length_it_starts_at():
    flat = losses_of([30.0], [29.9], [10.0])
    assert recl({"flat": flat}, r=1.0)["flat"] == ContextLength(100, at_least=False)
    worse = losses_of([30.0], [35.0], [10.0])
    assert recl({"worse": worse}, r=1.0)["worse"] == ContextLength(100, at_least=False)
    assert effective_context_length(worse) == ContextLength(100, at_least=False)


def test_a_length_that_still_gains_at_the_end_is_a_lower_bound():
    growing = losses_of([30.0], [20.0], [10.0])
    assert recl({"growing": growing}, r=1.0)["growing"] == ContextLength(300, at_least=True)
    assert effective_context_length(growing) == ContextLength(300, at_least=True)


def test_a_gain_of_the_threshold_itself_goes_on():
    halved = losses_of([2.0], [1.0], [1.0])
    assert gain({"halved": halved}, "halved", 100, 200, r=1.0).relative == 0.5
    for threshold, tokens in ((0.5, 200), (0.51, 100)):
        assert recl({"halved": halved}, r=1.0, threshold=threshold)["halved"].tokens == tokens
        assert effective_context_length(halved, threshold=threshold).tokens == tokens


def test_only_what_beats_the_best_model_counts_as_gain():
    """Alone the weak model gains at every step; below the strong one's 50 it comes only at 300."""
    weak, strong = losses_of([100.0], [80.0], [45.0], [40.0]), losses_of([50.0], [50.0], [50.0], [50.0])
    assert effective_context_length(weak) == ContextLength(400, at_least=True)
    found = recl({"weak": weak, "strong": strong}, r=1.0)
    assert found == {"weak": ContextLength(100, False), "strong": ContextLength(100, False)}
    assert gain({"weak": weak, "strong": strong}, "weak", 100, 300, r=1.0).perplexity == pytest.approx(5)
    assert gain({"weak": weak, "strong": strong}, "weak", 100, 200, r=1.0).perplexity == 0


def test_the_hardest_targets_are_those_that_no_model_predicts():
    """Target 0 is the hardest for one model, but the other knows it; target 1 is hard for both."""
    one, other = (
        losses_of([90.0, 20.0, 5.0], [90.0, 10.0, 5.0]),
        losses_of([2.0, 30.0, 5.0], [2.0, 30.0, 5.0]),
    )
    found = gain({"one": one, "other": other}, "one", 100, 200, r=1 / 3)
    assert found.perplexity == pytest.approx(20 - 10)
    assert found.relative == pytest.approx(0.5)
    assert gain({"one": one, "other": other}, "other", 100, 200, r=1 / 3).relative == 0


def test_a_smaller_r_finds_the_longer_context():
    """One target of ten is hard, and 20 % better with each of two steps: 2.2 % of the mean."""
    easy = [1.5] * 9
    model = losses_of([100.0, *easy], [80.0, *easy], [64.0, *easy], [63.9, *easy])
    assert lengths_at({"m": model}, r=0.1) == {"m": 300}
    assert gain({"m": model}, "m", 100, 200, r=0.1).relative == pytest.approx(0.2)
    assert gain({"m": model}, "m", 100, 200, r=0.5).relative == pytest.approx(1 - 0.8**0.2)
    assert gain({"m": model}, "m", 100, 200, r=1.0).relative == pytest.approx(1 - 0.8**0.1)
    slow = losses_of([100.0, *easy], [94.0, *easy], [88.0, *easy], [88.0, *easy])
    assert [lengths_at({"m": slow}, r)["m"] for r in (0.1, 0.5, 1.0)] == [300, 300, 100]


def test_the_hardest_targets_are_ranked_anew_at_every_length():
    """At 100 tokens target 0 is the hardest and gains; at 200 it is target 1 that goes on gaining."""
    model = losses_of([100.0, 90.0], [50.0, 90.0], [50.0, 60.0], [50.0, 60.0])
    assert lengths_at({"m": model}, r=0.5) == {"m": 300}


def test_of_equally_hard_targets_the_earlier_are_taken():
    first, second = losses_of([9.0, 9.0, 1.0], [3.0, 9.0, 1.0]), losses_of([9.0, 9.0, 1.0], [9.0, 3.0, 1.0])
    assert gain({"m": first}, "m", 100, 200, r=1 / 3).perplexity == pytest.approx(6)
    assert gain({"m": second}, "m", 100, 200, r=1 / 3).perplexity == 0
    assert gain({"m": second}, "m", 100, 200, r=2 / 3).perplexity == pytest.approx(9 - 27**0.5)


@pytest.mark.parametrize(("r", "count"), [(0.01, 1), (0.1, 1), (0.3, 3), (0.5, 5), (0.7, 7), (1.0, 10)])
def test_r_is_a_part_of_the_targets_and_never_none(r, count):
    """Target k has perplexity 2 ** (20 - k), and 1 with more context: f is the mean of its exponents."""
    model = losses_of([2.0 ** (20 - k) for k in range(10)], [1.0] * 10)
    mean = sum(20 - k for k in range(count)) / count
    assert gain({"m": model}, "m", 100, 200, r=r).perplexity == pytest.approx(2**mean - 1)


def test_recl_may_start_anywhere_and_tells_the_length_itself():
    model = {50 + 10 * k: torch.tensor([log(p)]) for k, p in enumerate([9.0, 8.0, 7.0, 7.0])}
    assert recl({"m": model}, r=1.0)["m"] == ContextLength(70, at_least=False)


def test_gains_hold_every_pair_of_lengths_for_every_model():
    group = {"a": losses_of([9.0], [8.0], [4.0]), "b": losses_of([10.0], [6.0], [6.0])}
    found = gains(group, r=1.0)
    assert [(g.short, g.long) for g in found["a"]] == [(100, 200), (100, 300), (200, 300)]
    assert [g.perplexity for g in found["a"]] == pytest.approx([1, 5, 2])
    assert [g.perplexity for g in found["b"]] == pytest.approx([3, 3, 0])
    assert [g.relative for g in found["b"]] == pytest.approx([1 / 3, 1 / 3, 0])


def test_losses_that_can_not_be_compared_are_refused(as_users_run_it):
    a = losses_of([9.0], [8.0], [7.0])
    with pytest.raises(ValueError, match="a group must hold 1 model or more, got none"):
        recl({}, r=1.0)
    with pytest.raises(
        ValueError, match=r"same context lengths, got \[100, 200, 300\] for a and \[200, 300\]"
    ):
        recl({"a": a, "b": {200: a[200], 300: a[300]}}, r=1.0)
    with pytest.raises(ValueError, match=r"must be 2 or more at equal steps, got \[100, 300, 400\]"):
        recl({"a": {100: a[100], 300: a[200], 400: a[300]}}, r=1.0)
    with pytest.raises(ValueError, match=r"must be 2 or more at equal steps, got \[100\]"):
        effective_context_length({100: a[100]})
    with pytest.raises(ValueError, match=r"of the same targets, 1 or more, got \[1, 2\] targets"):
        recl({"a": a, "b": {**a, 200: torch.ones(2)}}, r=1.0)
    with pytest.raises(ValueError, match=r"of the same targets, 1 or more, got \[0\] targets"):
        recl({"a": {100: torch.ones(0), 200: torch.ones(0)}}, r=1.0)
    with pytest.raises(ValueError, match="all losses must be finite"):
        recl({"a": {**a, 200: torch.tensor([float("nan")])}}, r=1.0)
    for r in (0.0, 1.5):
        with pytest.raises(ValueError, match=rf"r must lie in \(0, 1\], got {r}"):
            recl({"a": a}, r=r)


def windows(context_len, count):
    """The last tokens of the stream, each with so many before it: those read, and the targets."""
    cut = torch.stack([STREAM[end - context_len : end + 1] for end in range(60 - count, 60)])
    return cut[:, :-1], cut[:, -1]


def losses_at_end(log_probs, targets):
    return -log_probs[torch.arange(len(targets)), -1, targets].detach()


@given(context_len=st.integers(1, 12), targets=st.integers(1, 9), batch=st.integers(1, 5))
def test_each_target_is_given_exactly_its_context(context_len, targets, batch):
    for model in (unchanged_model(attention="xl"), unchanged_model(attention="absolute"), small_lstm()):
        found = context_losses(model, STREAM, context_len=context_len, targets=targets, batch=batch)
        read, expected = windows(context_len, targets)
        log_probs, _ = model(read)
        torch.testing.assert_close(found, losses_at_end(log_probs, expected), rtol=0, atol=1e-10)


@given(
    context_len=st.integers(1, 12),
    seg_len=st.integers(1, 6),
    mem_len=st.integers(0, 6),
    encoding=st.sampled_from(list(ENCODINGS.values())),
    batch=st.integers(1, 5),
)
def test_a_context_may_be_read_in_segments_from_an_empty_memory(
    context_len, seg_len, mem_len, encoding, batch
):
    model, settings = unchanged_model(**encoding), EvaluateConfig(seg_len, mem_len)
    found = context_losses(model, STREAM, context_len=context_len, targets=4, settings=settings, batch=batch)
    read, targets = windows(context_len, 4)
    log_probs = in_segments(model, read, seg_len, mem_len=mem_len)
    torch.testing.assert_close(found, losses_at_end(log_probs, targets), rtol=0, atol=1e-10)


def test_segments_with_a_window_give_a_context_no_wider_attention():
    model = small_model(attention="xl", n_layer=1)
    narrow = EvaluateConfig(seg_len=3, mem_len=4, window=5)
    found = context_losses(model, STREAM, context_len=20, targets=9, settings=narrow)
    expected = context_losses(model, STREAM, context_len=5, targets=9)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


def test_context_losses_are_the_same_each_time_and_leave_the_model_as_it_was():
    for model in (small_model(dropout=0.5).train(), small_lstm(dropout=0.5).train()):
        for settings in (None, EvaluateConfig(2, 2)):
            how = {"context_len": 5, "targets": 9, "settings": settings}
            assert torch.equal(
                context_losses(model, STREAM, **how), context_losses(model, STREAM.to(torch.uint8), **how)
            )
            assert model.training


def test_a_stream_too_short_for_context_and_targets_is_refused():
    for context_len, targets, sentence in (
        (50, 11, "together at most the stream's 60 tokens, got 50 and 11"),
        (0, 3, "context_len must be 1 or more, got 0"),
        (3, 0, "targets must be 1 or more, got 0"),
    ):
        with pytest.raises(ValueError, match=sentence):
            context_losses(small_model(), STREAM, context_len=context_len, targets=targets)


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("how", ["hide", "shuffle"])
def test_memory_that_no_query_sees_can_be_touched_without_any_change(encoding, how):
    """Beyond the memory, and with a window of 5 beyond the four tokens that the first query sees."""
    model = small_model(**encoding)
    for settings, ages in ((EvaluateConfig(4, 6), (7, 20)), (EvaluateConfig(4, 6, window=5), (5, 6))):
        assert (memory_changes(model, STREAM[:30], settings, ages=ages, how=how) == 0).all()
    settings = EvaluateConfig(4, 6, window=5)
    assert (memory_changes(model, STREAM[:30], settings, ages=(4, 6), how="hide") != 0).any()


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
def test_hiding_all_memory_is_reading_without_any(encoding):
    model, settings = small_model(**encoding), EvaluateConfig(4, 6)
    found = memory_changes(model, STREAM, settings, ages=(1, 6), how="hide")
    memory, expected = None, []
    for begin in range(0, 56, 4):
        tokens, targets = STREAM[None, begin : begin + 4], STREAM[None, begin + 1 : begin + 5]
        losses, states = model.token_losses(tokens, targets, memory)
        if begin >= 6:
            alone, _ = model.token_losses(tokens, targets)
            expected.append((alone - losses).detach())
        memory = extend(memory, states, mem_len=6)
    torch.testing.assert_close(found, torch.cat(expected), rtol=0, atol=1e-10)
    assert found.abs().max() > 1e-3


@given(data=st.data(), mem_len=st.integers(1, 9), seg_len=st.integers(1, 6), batch=st.integers(1, 3))
def test_ages_are_counted_back_from_the_segment_and_hidden_alone(data, mem_len, seg_len, batch):
    """One segment after a full memory, in every lane, against the states of the plain model."""
    youngest = data.draw(st.integers(1, mem_len))
    ages = youngest, data.draw(st.integers(youngest, mem_len))
    model, lane = unchanged_model(), -(-mem_len // seg_len) * seg_len + seg_len + 1
    stream, settings = some_tokens(1, batch * lane)[0], EvaluateConfig(seg_len, mem_len)
    rows = stream.reshape(batch, lane)
    memory = None
    for segment in rows[:, : -seg_len - 1].split(seg_len, dim=1):
        memory = extend(memory, model(segment, memory)[1], mem_len=mem_len)
    tokens, targets = rows[:, -seg_len - 1 : -1], rows[:, -seg_len:]
    plain, _ = model.token_losses(tokens, targets, memory)

    key_mask = torch.ones(batch, mem_len + seg_len, dtype=torch.bool)
    key_mask[:, mem_len - ages[1] : mem_len - ages[0] + 1] = False
    hidden, _ = model.token_losses(tokens, targets, memory, key_mask=key_mask)
    found = memory_changes(model, stream, settings, ages=ages, how="hide", batch=batch)
    torch.testing.assert_close(found, (hidden - plain).detach(), rtol=0, atol=1e-10)


def test_two_states_are_shuffled_by_changing_places_or_not_and_the_text_goes_on_as_it_was():
    """Every segment, against the plain model's memory with slots 2 and 3 swapped: ages 4 and 5 of 6."""
    model, settings, memory, both = small_model(), EvaluateConfig(2, 6), None, []
    for begin in range(0, 58, 2):
        tokens, targets = STREAM[None, begin : begin + 2], STREAM[None, begin + 1 : begin + 3]
        losses, states = model.token_losses(tokens, targets, memory)
        if begin >= 6:
            swapped, _ = model.token_losses(tokens, targets, memory[:, :, [0, 2, 1, 3, 4, 5]])
            both.append((swapped - losses).detach())
        memory = extend(memory, states, mem_len=6)
    found = memory_changes(model, STREAM, settings, ages=(4, 5), how="shuffle")
    swapped = found.abs().amax(dim=1) > 1e-10
    assert 0 < swapped.sum() < len(found)
    expected = torch.cat(both) * swapped[:, None]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    assert (memory_changes(model, STREAM, settings, ages=(4, 4), how="shuffle") == 0).all()


def test_only_a_model_that_knows_distances_notices_another_order():
    """Absolute positions are in the states, wherever those stand; relative ones are not."""
    settings = EvaluateConfig(4, 8)
    for name, encoding in ENCODINGS.items():
        model = small_model(**encoding)
        found = memory_changes(model, STREAM, settings, ages=(1, 8), how="shuffle").abs().max()
        knows = name in RELATIVE and name != "no positions"
        assert found > 1e-3 if knows else found < 1e-12


def test_lanes_are_shuffled_apart_and_the_seed_decides():
    model, settings = small_model(), EvaluateConfig(4, 8)
    twins = STREAM[:28].repeat(2)
    how = {"ages": (1, 8), "how": "shuffle", "batch": 2}
    found = memory_changes(model, twins, settings, **how)
    assert not torch.allclose(*found.chunk(2))
    assert torch.equal(*memory_changes(model, twins, settings, ages=(1, 8), how="hide", batch=2).chunk(2))
    assert torch.equal(found, memory_changes(model, twins, settings, **how))
    assert not torch.equal(found, memory_changes(model, twins, settings, **how, seed=1))


def test_changes_need_no_dropout_and_leave_the_model_as_it_was():
    model = small_model(dropout=0.5, clamp_len=3).train()
    one, other = (
        memory_changes(model, STREAM, EvaluateConfig(4, 4), ages=(1, 2), how="hide") for _ in range(2)
    )
    assert torch.equal(one, other)
    assert model.training
    clamped = memory_changes(model, STREAM, EvaluateConfig(4, 4, clamp_len=8), ages=(1, 2), how="hide")
    assert not torch.allclose(one, clamped)


def test_bad_interventions_are_refused(as_users_run_it):
    model, settings = small_model(), EvaluateConfig(4, 6)
    for ages in ((0, 3), (3, 2)):
        with pytest.raises(ValueError, match=rf"1 ≤ first ≤ last, got \({ages[0]}, {ages[1]}\)"):
            memory_changes(model, STREAM, settings, ages=ages, how="hide")
    with pytest.raises(ValueError, match="how must be hide or shuffle, got 'zero'"):
        memory_changes(model, STREAM, settings, ages=(1, 2), how="zero")
    with pytest.raises(ValueError, match="memory of 6 tokens before its last segment, got 2 segments of 4"):
        memory_changes(model, STREAM[:9], settings, ages=(1, 2), how="hide")
    assert len(memory_changes(model, STREAM[:13], settings, ages=(1, 2), how="hide")) == 1


def test_an_interval_is_the_mean_of_segments_and_their_standard_error():
    """Segment means -1, 1, 3: mean 1, standard deviation 2, and 1.96 · 2 / √3 to each side."""
    changes = torch.tensor([[-2.0, 0.0], [1.0, 1.0], [6.0, 0.0]])
    found = mean_change(changes)
    assert found.mean == pytest.approx(1)
    assert found.high - found.mean == found.mean - found.low == pytest.approx(1.959964 * 2 / 3**0.5)
    assert mean_change(changes, confidence=0.6827).high == pytest.approx(1 + 2 / 3**0.5, abs=1e-3)
    assert mean_change(torch.full((5, 4), 0.25)) == (0.25, 0.25, 0.25)


def test_95_of_100_intervals_cover_the_truth():
    """Also where the tokens of a segment go together, which an interval over tokens would not know."""
    generator = torch.Generator().manual_seed(0)
    covered = 0
    for _ in range(1000):
        of_segments = torch.randn(60, 1, generator=generator)
        changes = 0.3 + of_segments + 0.5 * torch.randn(60, 16, generator=generator)
        found = mean_change(changes)
        covered += found.low <= 0.3 <= found.high
    assert 925 <= covered <= 970


def test_an_interval_of_one_segment_or_an_impossible_confidence_is_refused():
    with pytest.raises(ValueError, match="an interval needs 2 segments or more, got 1"):
        mean_change(torch.zeros(1, 8))
    with pytest.raises(ValueError, match=r"confidence must lie in \(0, 1\), got 95.0"):
        mean_change(torch.zeros(3, 8), confidence=95.0)
