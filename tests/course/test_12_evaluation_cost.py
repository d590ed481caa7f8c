"""Notebook 12: its checks, its widget, and its hand-built pieces."""

import re
import sys
from math import log

import pytest
import torch
from matplotlib.colors import to_rgba
from page import Page, assert_each_mistake_gets_its_own_sentence
from torch.utils.flop_counter import FlopCounterMode

from minitxl.config import ModelConfig
from minitxl.course.checks import cost as judges
from minitxl.course.checks import scoring
from minitxl.experiments import evaluation_cost
from minitxl.figures.cost import sliding_and_cached
from minitxl.figures.recurrence.memory import passes
from minitxl.figures.systems import MEMORY
from minitxl.memory import extend
from minitxl.model import TransformerLM
from minitxl.pretrained.presets import enwik8_base

EXERCISES = {
    "exercise-cost": judges.check_cost,
    "exercise-bits": scoring.check_bits,
    "exercise-window": scoring.check_exact_window,
}
PAGE = Page("12_evaluation_cost")


@pytest.mark.parametrize("cell", EXERCISES)
def test_the_solution_is_right_and_the_stub_is_not_there_yet(cell):
    PAGE.assert_solved_by_its_solution_alone(cell, EXERCISES[cell])


@pytest.mark.parametrize("check", EXERCISES.values())
def test_each_mistake_gets_its_own_sentence(check, monkeypatch):
    room = sys.modules[check.__module__]
    assert_each_mistake_gets_its_own_sentence(check, room, monkeypatch, wrong=0, least=3)


@pytest.mark.parametrize(("mem_len", "seg_len"), [(6, 4), (3, 5), (0, 4)])
def test_the_cost_of_hidden_states_is_what_a_counter_counts(mem_len, seg_len):
    config = ModelConfig(
        vocab_size=11, n_layer=2, d_model=8, n_head=2, d_head=4, d_inner=12, dropout=0.0, attention="xl"
    )
    model = TransformerLM(config)
    past = extend(None, model.last_hidden(torch.zeros(1, 9, dtype=torch.int64))[1], mem_len=mem_len)
    with FlopCounterMode(display=False) as counter:
        model.last_hidden(torch.zeros(1, seg_len, dtype=torch.int64), past)
    assert counter.get_total_flops() == seg_len * PAGE.solution("exercise-cost")(2, 8, 12, mem_len, seg_len)


def test_the_exact_window_is_the_experiments():
    for n_layer, attention_len in ((1, 5), (12, 3800)):
        config = ModelConfig(n_layer=n_layer)
        expected = evaluation_cost.exact_window(config, attention_len)
        assert PAGE.solution("exercise-window")(n_layer, attention_len) == expected


@pytest.fixture(scope="module")
def read_by_hand():
    """The names after a reading by hand, which equals the package's."""
    return PAGE.run("read", "read-equal")


@pytest.mark.usefixtures("read_by_hand")
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("mem_len=mem_len)", "mem_len=mem_len + 1)"),
        ("memory, window=window)", "memory, window=None)"),
        ("memory, window=window)", "None, window=window)"),
    ],
)
def test_the_reading_by_hand_equals_the_packages_or_the_notebook_stops(right, wrong):
    broken = PAGE.cells["read"].replace(right, wrong, 1)
    assert broken != PAGE.cells["read"]
    with pytest.raises(AssertionError):
        PAGE.run(broken, "read-equal")


BLANKS = {
    "build": ("build-text", scoring.check_attend_cached, scoring.solution_attend_cached),
    "sliding-cost": ("sliding-text", judges.check_sliding, judges.solution_sliding),
    "cached-cost": ("cached-text", judges.check_cached, judges.solution_cached),
}


def solved_costs():
    """Both costs of the folded solutions."""
    names = PAGE.run(
        "ratio", **{f"{side}_cost": PAGE.solution(f"{side}-text") for side in ("sliding", "cached")}
    )
    return names["costs"]


@pytest.mark.parametrize("cell", BLANKS)
def test_the_folded_solution_of_a_blank_is_right_and_a_blank_runs_on_the_packages(cell):
    text, check, otherwise = BLANKS[cell]
    solved = PAGE.solution(text)
    assert check(solved).right
    name = solved.__name__
    assert PAGE.run(cell)[name] is otherwise
    mine = re.sub(r"\(.*?\):", "(*given):", PAGE.cells[cell], count=1)
    mine = mine.replace("raise NotImplementedError", "return solved(*given)")
    assert PAGE.run(mine, solved=solved)[name].__name__ == name
    wrong = PAGE.cells[cell].replace("raise NotImplementedError", "return 1")
    assert PAGE.run(wrong)[name] is otherwise


def test_the_cache_of_one_layer_attends_like_all_tokens_anew_or_the_notebook_stops():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.cells["build-text"], flags=re.DOTALL)
    assert [row["keys in the cache"] for row in PAGE.run(code, "build-equal")["rows"]] == [1, 2, 3, 4, 5, 6]
    for right, wrong in (("x @ W_k])", "x @ W_v])"), ("** 0.5", "** 1")):
        assert code.count(right) == 1
        with pytest.raises(AssertionError):
            PAGE.run(code.replace(right, wrong), "build-equal")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("A * (A + 1) // 2", "A * A"),
        ("(mem_len + seg_len)", "mem_len"),
        ("(A - 1) * 4", "A * 4"),
        ("(n_layer - 1) * whole", "n_layer * whole"),
    ],
)
def test_costs_that_are_not_the_packages_stop_the_notebook(right, wrong):
    cells = PAGE.cells["sliding-text"] + PAGE.cells["cached-text"]
    code = "\n\n".join(re.findall(r"```python\n(.*?)```", cells, flags=re.DOTALL))
    PAGE.run(code, "ratio", "equal")
    assert code.replace(right, wrong, 1) != code
    with pytest.raises(AssertionError):
        PAGE.run(code.replace(right, wrong, 1), "ratio", "equal")


@pytest.mark.parametrize("n_layer", [1, 2, 3, 6, 12, 18, 24])
def test_the_ratio_keeps_its_bounds_at_every_setting_of_the_calculator(n_layer):
    draw = PAGE.run("calculator", costs=solved_costs(), base=enwik8_base().model)["operations"]
    below = 0
    for d_model in (64, 128, 256, 512, 1024, 2048):
        for attention_len in (16, 64, 128, 512, 800, 1800, 2800, 3800, 8000, 16000, 32000):
            ratios = [draw(n_layer, d_model, attention_len, L)["ratio"] for L in (1, 128, 8 * d_model + 1)]
            assert max(ratios) <= attention_len
            assert min(ratios) >= attention_len / 3 * (n_layer - 1) / n_layer
            below += draw(n_layer, d_model, attention_len, 2048)["ratio"] < attention_len / 3 - 1
    assert below > 0  # with segments that are long against the width


def test_a_scorer_that_ignores_the_length_of_segments_is_told_so():
    def at_once(losses, stream, seg_len):
        return losses(stream[:-1], stream[1:]).mean().item() / log(2)

    verdict = scoring.check_bits(at_once)
    assert not verdict.right
    assert "score [49] tokens, where [7, 7, 7, 7, 7, 7, 7] are right" in verdict.message


def test_the_answers_of_the_predictions_are_those_of_the_notebook():
    advantage, cut, window = judges.predictions.questions
    ratio = PAGE.run("sliding-cost", "cached-cost", "ratio")["ratio"]
    model = enwik8_base().model
    assert ratio(model, 3800, 128) > 2 * ratio(model, 800, 128)
    assert (advantage.answer, cut.answer) == ("larger", "equal")
    assert window.answer == evaluation_cost.exact_window(model, 3800)


def test_the_window_that_moves_costs_what_each_of_its_parts_costs():
    moving = PAGE.run("sliding-cost", "cached-cost", "ratio", "depends", models={})["moving"]
    c = ModelConfig(vocab_size=11, n_layer=2, d_model=8, n_head=2, d_head=4, d_inner=12, attention="absolute")
    model = TransformerLM(c)
    with FlopCounterMode(display=False) as counter:
        model.last_hidden(torch.zeros(1, 10, dtype=torch.int64), n_last=3)
    hidden_pairs = 4 * 8 * (10 * 9 // 2 + 3 * 2 // 2)  # the eager attention computes what the mask hides
    assert counter.get_total_flops() - hidden_pairs == 3 * (moving(c, 10, 3) - 2 * 8 * 11)


@pytest.mark.parametrize(
    ("n_layer", "d_model", "attention_len", "seg_len"),
    [(12, 512, 3800, 128), (1, 64, 16, 1), (24, 2048, 32000, 2048), (1, 64, 16, 2048)],
)
def test_the_calculator_shows_what_the_package_counts(n_layer, d_model, attention_len, seg_len):
    base = enwik8_base().model
    draw = PAGE.run("calculator", costs=solved_costs(), base=base)["calculator"]
    picture = draw(n_layer, d_model, attention_len, seg_len)
    config = ModelConfig(
        base.vocab_size,
        n_layer=n_layer,
        d_model=d_model,
        n_head=d_model // 64,
        d_head=64,
        d_inner=4 * d_model,
    )
    slid = evaluation_cost.sliding_operations(config, attention_len=attention_len, pairs="seen")
    cached = evaluation_cost.cached_operations(config, mem_len=attention_len, seg_len=seg_len, pairs="all")
    bars, ratio = picture.figure.axes
    assert sorted(bar.get_width() for bar in bars.patches) == sorted([slid, cached])
    assert ratio.lines[-1].get_xydata().tolist() == [[attention_len, slid / cached]]
    times = slid / cached
    assert f"evaluation, {times:,.0f} times" in picture.alt or f"{times:.1f} times" in picture.alt
    assert "evaluation, 0 times" not in picture.alt


def test_every_log_probability_is_the_same_for_every_cut_only_with_one_window(read_by_hand):
    scope = PAGE.run("text = text[:65]", "cuts", "cuts-figure", **read_by_hand)
    assert max(scope["equal"]) < 1e-10 < min(scope["changes"])
    picture = sliding_and_cached.cuts({"cut": [2, 3], "equal": [0.0, 1e-15], "changes": [0.5, 0.25]})
    drawn = {line.get_label(): line.get_ydata().tolist() for line in picture.figure.axes[0].lines}
    assert drawn["one window for every query"] == [sliding_and_cached.FLOOR, 1e-15]
    assert "at most 1e-15 nats, without a window at least 2e-01 nats" in picture.alt


def test_the_key_figure_shows_the_numbers_of_its_data():
    times = {
        side: {"median": one, "quartiles": [one / 2, one * 2]}
        for side, one in (("cached", 2.0), ("sliding", 200.0))
    }
    rows = [
        {
            "attention_len": length,
            "microseconds_per_token": times,
            "ratio": {"median": 100.0},
            "counted": {"computed": 120.0},
            "paper": paper,
        }
        for length, paper in ((512, None), (800, 363))
    ]
    predicted = {"attention_len": [500, 900], "cached": [2, 3], "sliding": [190, 300], "ratio": [95, 100]}
    picture = sliding_and_cached.cost_per_token({"lengths": rows, "predicted": predicted})
    cost, ratio = picture.figure.axes
    measured = [container.lines[0].get_ydata().tolist() for container in cost.containers]
    assert measured == [[200, 200], [2, 2]]
    assert [line.get_ydata().tolist() for line in ratio.lines] == [[95, 100], [100, 100], [363]]
    assert (
        "at 800, 200 and 2 microseconds, a ratio of 100, by operations 120, in the paper 363" in picture.alt
    )


def counts_below(axes) -> list[int]:
    return [int(text.get_text()) for text in axes.texts]


def test_a_window_computes_a_token_again_for_each_loss_and_the_cache_never():
    source = PAGE.cells["two-ways-picture"].replace("\npasses(", "\ndrawn = passes(")
    sliding, cached = PAGE.run(source)["drawn"].figure.axes
    assert counts_below(sliding) == [1, 2, 3, *[4] * 6, 3, 2, 1]
    assert counts_below(cached) == [1] * 12


def test_passes_marks_what_an_earlier_row_computed_what_is_kept_and_what_is_framed():
    rows = [
        {"name": "first", "now": [0, 1], "framed": [1]},
        {"name": "second", "now": [1, 2], "memory": [0], "framed": [2]},
    ]
    data = {"panels": {"One": rows}, "columns": 3, "framed": "scored", "counted": "times"}
    picture = passes(data)
    (axes,) = picture.figure.axes
    at = {(round(one.get_x() + 0.44), round(one.get_y() + 0.44)): one for one in reversed(axes.patches)}
    assert at[1, 1].get_hatch() == "...."
    assert at[0, 1].get_facecolor() == to_rgba(MEMORY.fill)
    assert sum(not one.get_fill() for one in axes.patches) == 2
    assert counts_below(axes) == [1, 2, 1]
    assert (
        "One: 2 rows, 4 tokens computed, each at most 2×, 1 from memory, 2 framed. A frame: scored."
        in picture.alt
    )
    alike = passes({"panels": {"One": [row | {"letters": "a b"} for row in rows]}, "columns": 3})
    assert not [one for one in alike.figure.axes[0].patches if one.get_hatch() == "...."]
    assert "".join(text.get_text() for text in alike.figure.axes[0].texts) == "a ba b"


def test_the_shape_of_the_ratio_is_drawn_by_model_between_its_limits():
    curves = {"small": [0.9, 0.5], "large": [0.8, 0.4]}
    picture = sliding_and_cached.shape({"attention_len": [10, 1000], "curves": curves})
    drawn = [line.get_ydata() for line in picture.figure.axes[0].lines]
    assert [list(line) for line in drawn] == [*curves.values(), [1, 1], [1 / 3, 1 / 3]]
    assert "small 0.90 at 10, 0.50 at 1,000" in picture.alt


def test_readings_shows_the_keys_and_the_score_of_each():
    data = {
        "isolated segments": {"bits": 2.5, "keys": (1, 8), "interval": (2.5, 2.5)},
        "cached, memory 4": {"bits": 2.25, "keys": (5, 12), "interval": (2.2, 2.3)},
    }
    picture = sliding_and_cached.readings(data)
    keys, score = picture.figure.axes
    assert [list(line.get_xdata()) for line in keys.lines] == [[1, 8], [5, 12]]
    assert [line.get_xdata()[0] for line in score.lines[1::2]] == [2.5, 2.25]
    assert [list(line.get_xdata()) for line in score.lines[::2]] == [[2.5, 2.5], [2.2, 2.3]]
    assert "cached, memory 4, 5 … 12 keys: 2.250" in picture.alt
