from types import SimpleNamespace

import pytest
import torch
from models import VOCAB, small_model, some_tokens
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from minitxl.attention import attention_mask
from minitxl.data import corpora
from minitxl.experiments import evaluation_cost as experiment
from minitxl.experiments.shared.runner import compute
from minitxl.fast import to_fast, to_plain
from minitxl.fast.kv_cache import cache
from minitxl.figures import evaluation_cost as draw
from minitxl.inference.config import EvaluateConfig
from minitxl.inference.evaluation import cached_losses, sliding_losses
from minitxl.pretrained.presets import enwik8_base

CORPUS = corpora.from_bytes("no", b"text matters")
LENGTHS = [(24, 8), (20, 8), (8, 8), (13, 5)]
PAPERS_SIZE = enwik8_base().model
COUNTED_TOO = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: (
        lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v)
    )
}
"""What PyTorch's counter leaves out."""


def operations_of(work) -> int:
    with FlopCounterMode(display=False, custom_mapping=COUNTED_TOO) as counter:
        work()
    return counter.get_total_flops()


def test_sliding_scores_the_tokens_that_sliding_evaluation_scores():
    model, stream = small_model(attention="absolute"), some_tokens(1, 40)[0]
    turn = experiment.Sliding(model, stream, attention_len=9, windows=4)
    expected = sliding_losses(model, stream[: 9 + 4], attention_len=9, stride=1)[-4:]
    torch.testing.assert_close(turn(), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("mem_len", "seg_len"), LENGTHS)
def test_cached_goes_on_with_a_full_memory_as_cached_evaluation_does(mem_len, seg_len):
    model, stream = small_model(attention="xl"), some_tokens(1, 100)[0]
    turns = experiment.Cached(model, stream, mem_len=mem_len, seg_len=seg_len)
    filled, turn = turns.cache.end, len(turns.stream) - 1
    assert turns.cache.end - turns.cache.begin == mem_len
    found = torch.cat([turns(), turns()])
    read = [stream[:filled], turns.stream[:-1], turns.stream]
    expected = cached_losses(model, torch.cat(read), EvaluateConfig(seg_len, mem_len))
    seams = filled + turn - 1  # where the turn begins again, its first token is no target
    wanted = torch.cat([expected[filled:seams], expected[seams + 1 :]])
    kept = torch.cat([found[: turn - 1], found[turn:]])
    torch.testing.assert_close(kept, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("mem_len", "seg_len"), LENGTHS)
def test_in_a_turn_of_the_cache_memory_is_moved_once(mem_len, seg_len, monkeypatch):
    turns = experiment.Cached(
        small_model(attention="xl"), some_tokens(1, 100)[0], mem_len=mem_len, seg_len=seg_len
    )
    with_room, moves = cache.with_room, []

    def noted(before, seg):
        found = with_room(before, seg)
        moves.append(found is not before)
        return found

    monkeypatch.setattr(cache, "with_room", noted)
    for _ in range(4):
        moves.clear()
        turns()
        assert sum(moves) <= 1
    assert sum(moves) == 1


@pytest.mark.parametrize(("query", "key"), [(1, 1), (5, 5), (3, 8), (1, 4)])
def test_pairs_are_those_of_the_mask(query, key):
    seen = attention_mask(query, key)
    assert experiment._pairs(query, key, "seen") == seen.sum()
    assert experiment._pairs(query, key, "all") == seen.numel()


@pytest.mark.parametrize("implementation", [to_plain, to_fast])
@pytest.mark.parametrize("shape", [{}, {"n_layer": 1}, {"n_layer": 3, "d_head": 5, "d_inner": 7}])
def test_operations_of_a_window_are_those_a_counter_counts(implementation, shape):
    model, windows = implementation(small_model(attention="absolute", **shape)), some_tokens(4, 9)

    def score():
        hidden, _ = model.last_hidden(windows, n_last=1)
        model.losses(hidden, windows[:, :1])

    count = experiment.sliding_operations(model.config, attention_len=9, pairs="all")
    assert operations_of(score) == 4 * count
    whole = experiment.sliding_operations(model.config, attention_len=9, pairs="all", whole_last_layer=True)
    hidden = operations_of(lambda: model.last_hidden(windows))
    assert hidden == 4 * (whole - 2 * model.config.d_model * VOCAB)


@pytest.mark.parametrize(("mem_len", "seg_len"), LENGTHS)
def test_operations_with_a_memory_are_those_a_counter_counts(mem_len, seg_len):
    """The fast path computes each query's product with one distance more than there are keys."""
    model = small_model(attention="xl")
    turns = experiment.Cached(model, some_tokens(1, 100)[0], mem_len=mem_len, seg_len=seg_len)
    tokens = len(turns.stream) - 1
    count = experiment.cached_operations(model.config, mem_len=mem_len, seg_len=seg_len, pairs="all")
    c = model.config
    spare = 2 * c.n_layer * c.n_head * c.d_head
    assert tokens * count <= operations_of(turns) <= tokens * (count + spare)


def test_at_3800_tokens_operations_differ_by_1950_to_2150_times_by_convention():
    ratios = experiment.counted(PAPERS_SIZE, attention_len=3800, seg_len=128)
    rounded = {name: round(ratio) for name, ratio in ratios.items()}
    assert rounded == {
        "computed": 1949,
        "seen": 1969,
        "whole_last_layer": 2106,
        "shorter_memory": 2152,
        "all": 2686,
    }


def test_an_exact_window_reaches_as_far_back_as_the_layers_do():
    assert experiment.exact_window(PAPERS_SIZE, 3800) == 12 * 3799 + 1
    model, length = small_model(attention="xl", n_layer=3), 4
    stream = some_tokens(1, experiment.exact_window(model.config, length) + 1)
    changed = [stream.clone() for _ in range(2)]
    for far, one in enumerate(changed):
        one[0, far] = (one[0, far] + 1) % VOCAB
    last, *others = (model(tokens, window=length)[0][0, -1] for tokens in (stream, *changed))
    assert torch.equal(last, others[0])
    assert not torch.equal(last, others[1])


def test_a_cost_is_that_of_one_token(monkeypatch):
    clock = iter([2.0, 5.0])
    monkeypatch.setattr(experiment, "perf_counter", lambda: next(clock))
    assert experiment.microseconds(lambda: torch.ones(6)) == 500_000


def test_losses_that_are_not_finite_have_no_cost():
    with pytest.raises(ValueError, match=r"^losses must be finite, got a sum of nan$"):
        experiment.microseconds(lambda: torch.tensor([1.0, float("nan")]))


def toy(**changes) -> dict:
    asked = experiment.settings("quick", CORPUS)
    asked["model"] |= {"n_layer": 2, "d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 32}
    return (
        asked
        | {"seg_len": 8, "attention_lens": [16, 20], "window_tokens": 32, "passes": 2, "rounds": 3}
        | changes
    )


def test_a_ratio_is_taken_within_a_round():
    """The machine is three times as slow in the second round, and the ratio does not notice."""
    asked = toy(passes=1, attention_lens=[16])
    turns = [{"cached": 2.0, "sliding": 20.0}, {"cached": 6.0, "sliding": 60.0}]
    (row,) = experiment.collect(asked, CORPUS, {"attention 16, pass 1": turns})["lengths"]
    assert row["ratio"] == {"median": 10, "quartiles": [10, 10], "range": [10, 10]}
    assert row["microseconds_per_token"]["cached"] == {
        "median": 4,
        "quartiles": [3, 5],
        "range": [2, 6],
    }


def test_what_keeps_time_from_operations_is_their_rate():
    asked = toy(passes=1, attention_lens=[16])
    turns = [{"cached": 2.0, "sliding": 20.0}] * 2
    (row,) = experiment.collect(asked, CORPUS, {"attention 16, pass 1": turns})["lengths"]
    rate = row["operations_per_second"]
    expected = row["counted"]["computed"] * rate["cached"] / rate["sliding"]
    assert row["ratio"]["median"] == pytest.approx(expected)


def test_sides_and_lengths_take_turns(monkeypatch):
    told = []

    def side(name):
        return lambda *_, **lengths: SimpleNamespace(side=name, lengths=lengths)

    monkeypatch.setattr(experiment, "Cached", side("cached"))
    monkeypatch.setattr(experiment, "Sliding", side("sliding"))
    monkeypatch.setattr(
        experiment, "microseconds", lambda one: told.append((one.side, *one.lengths.values())) or 1.0
    )
    compute(experiment.parts(toy(), CORPUS, seeds=[0], device="cpu"))
    at_16, at_20 = [("cached", 16, 8), ("sliding", 16, 2)], [("cached", 20, 8), ("sliding", 20, 1)]
    assert told == (at_16 * 3 + at_20 * 3) * 2


def test_evaluation_cost_runs_end_to_end_at_toy_size():
    asked = toy(attention_lens=[16, 20, 800])
    found = compute(experiment.parts(asked, CORPUS, seeds=[0], device="cpu"))
    data = experiment.collect(asked, CORPUS, found)
    assert [row["attention_len"] for row in data["lengths"]] == [16, 20, 800]
    assert [row["paper"] for row in data["lengths"]] == [None, None, 363]
    assert data["lengths"][0]["exact_window"] == 2 * 15 + 1
    for row in data["lengths"]:
        for spread in (row["ratio"], *row["microseconds_per_token"].values()):
            low, high = spread["quartiles"]
            assert 0 < low <= spread["median"] <= high


def test_both_profiles_have_the_papers_lengths_and_one_of_its_models():
    quick, full = (experiment.settings(profile, CORPUS) for profile in ("quick", "full"))
    assert set(experiment.PAPER) < set(quick["attention_lens"])
    assert quick["attention_lens"] == full["attention_lens"]
    assert (quick["model"]["n_layer"], full["model"]["n_layer"]) == (12, 24)


def drawn_from(ratio: float) -> dict:
    asked = toy(passes=1, attention_lens=[16, 800])
    turns = [{"cached": 2.0, "sliding": times * 2.0} for times in (ratio, ratio, 2 * ratio)]
    found = {f"attention {length}, pass 1": turns for length in (16, 800)}
    return experiment.collect(asked, CORPUS, found)


def test_the_figure_shows_the_numbers_of_its_data():
    data = drawn_from(ratio=100.0)
    longer, cost = draw(data).figure.axes
    counted, paper, measured, *_ = longer.lines
    assert counted.get_xydata().tolist() == [
        [row["attention_len"], row["counted"]["computed"]] for row in data["lengths"]
    ]
    assert paper.get_xydata().tolist() == [[800, 363]]
    assert measured.get_xydata().tolist() == [[16, 100], [800, 100]]
    sliding, cached = (container.lines[0].get_ydata().tolist() for container in cost.containers)
    assert (sliding, cached) == ([0.2, 0.2], [0.002, 0.002])


def test_the_figure_says_what_equal_attention_is_not():
    words = draw(drawn_from(ratio=100.0)).alt
    assert "at 800, time 100 (quartiles 100 and 150)" in words
    assert "the paper 363" in words
    assert f"would need {2 * 799 + 1:,} tokens" in words
