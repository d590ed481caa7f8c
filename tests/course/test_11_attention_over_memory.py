"""Notebook 11: its checks know the mistakes, its widget shows the model's weights, its pieces are exact."""

import re
from math import log
from pathlib import Path

import nbformat
import pytest
import torch
from einops import einsum, rearrange
from models import small_model, some_tokens
from page import imported

from minitxl.course.checks import interventions
from minitxl.course.checks import memory_use as check
from minitxl.course.widgets import explore
from minitxl.experiments import attention_over_memory
from minitxl.figures.attention import browser
from minitxl.figures.positions import query_key_grid

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "11_attention_over_memory.ipynb"
CELLS = {cell.id: cell.source for cell in nbformat.read(NOTEBOOK, as_version=4).cells}
TOOLS = imported(CELLS["setup"])
EXERCISES = {
    "intervene": (check.check_intervention, "intervene"),
    "keep_for_ages": (check.check_keep_for_ages, "keep-for-ages"),
    "share_by_age": (check.check_share_by_age, "exercise-share-code"),
    "within": (interventions.check_within, "exercise-within-code"),
    "attend_without": (check.check_attend_without, "exercise-attend-code"),
}
PIECES = ("intervene", "keep-for-ages", "losses", "readings")


@pytest.fixture(scope="module")
def solutions():
    found: dict = dict(TOOLS)
    for cell in CELLS.values():
        for code in re.findall(r"<summary>A solution</summary>\n\n```python\n(.*?)```", cell, re.DOTALL):
            exec(code, found)
    return found


@pytest.fixture(scope="module")
def in_small() -> dict:
    """The names of the notebook's pieces, with a small model in place of the trained ones."""
    model = small_model(n_layer=2, n_head=2).float().eval()
    names = TOOLS | {"model": model, "models": [model], "test": some_tokens(1, 8 * 45)[0]}
    names |= {"seg_len": 4, "mem_len": 8, "where": torch.device("cpu"), "checks": check}
    for cell in PIECES:
        exec(CELLS[cell], names)
    exec(small_ages(CELLS["equal"]), names)
    return names


def small_ages(source: str) -> str:
    """The notebook's ages, for a memory of 8."""
    return source.replace("[(1, 8), (9, mem_len // 2), (1, mem_len)]", "[(1, 2), (3, 5), (1, 8)]")


@pytest.mark.parametrize("name", EXERCISES)
def test_the_solution_is_right_and_the_stub_is_blank(name, solutions):
    judged, cell = EXERCISES[name]
    assert judged(solutions[name]).right
    stub: dict = dict(TOOLS)
    exec(CELLS[cell].partition("\n\n\n")[0], stub)
    assert repr(judged(stub[name])) == "blank: there is nothing here yet"
    assert not judged(lambda *case: ...).right


def attend(scores, key_mask, values):
    hidden = rearrange(~key_mask, "batch key -> batch 1 1 key")
    return einsum(
        scores.masked_fill(hidden, float("-inf")).softmax(-1),
        values,
        "batch head query key, batch head key dim -> batch head query dim",
    )


def gone(key_mask):
    return rearrange(key_mask, "batch key -> batch 1 1 key")


@pytest.mark.parametrize(
    ("attempt", "sentence"),
    [
        (lambda s, v, k: (s.softmax(-1) * gone(k)) @ v, "divide what is left by its sum"),
        (lambda s, v, k: s.softmax(-1) @ (v * gone(k).mT), "divide what is left by its sum"),
        (lambda s, v, k: (s * gone(k)).softmax(-1) @ (v * gone(k).mT), "zeros are keys too"),
        (lambda s, v, k: (s * gone(k)).softmax(-1) @ v, "a score of 0 is not a weight of 0"),
        (lambda s, v, k: (s.softmax(-1) * gone(k)).softmax(-1) @ v, "softmax is taken twice"),
        (lambda s, v, k: attend(s, ~k, v), "key_mask is True for a key that is seen"),
        (lambda s, v, k: s.softmax(-1) @ v, "key_mask has no effect"),
        (lambda s, v, k: torch.where(gone(k), s, -100.0).softmax(-1) @ v, "float('-inf') gives none"),
    ],
)
def test_a_wrong_way_to_hide_is_named(attempt, sentence):
    verdict = check.check_attend_without(attempt)
    assert not verdict.right
    assert sentence in verdict.message


@pytest.mark.parametrize("low", [-1e4, -1e9, torch.finfo().min])
def test_a_score_that_is_lower_than_all_others_by_far_hides_too(low):
    assert check.check_attend_without(lambda s, v, k: torch.where(gone(k), s, low).softmax(-1) @ v).right


def without(mem_len, seg_len, begin, end):
    flags = [not begin <= key < end for key in range(mem_len + seg_len)]
    return torch.tensor(flags)


@pytest.mark.parametrize(
    ("attempt", "sentence"),
    [
        (lambda m, s, a, b: without(m, s, a - 1, b), "counts from the wrong end"),
        (lambda m, s, a, b: without(m, s, a, b + 1), "takes the age for an index"),
        (lambda m, s, a, b: without(m, s, m - b - 1, m - a), "one too young"),
        (lambda m, s, a, b: without(m, s, m - b + 1, m - a + 1), "age of `last` is still there"),
        (lambda m, s, a, b: without(m, s, m - b, m - a), "age of `first` is still there"),
        (lambda m, s, a, b: without(m, s, m + s - b, m + s - a + 1), "from the end of the segment"),
        (lambda m, s, a, b: without(m, 0, m - b, m - a + 1), "flags of memory alone"),
        (lambda m, s, a, b: ~without(m, s, m - b, m - a + 1), "True and False are swapped"),
    ],
)
def test_a_wrong_age_is_named(attempt, sentence):
    verdict = check.check_keep_for_ages(attempt)
    assert not verdict.right
    assert sentence in verdict.message


def by_slot(weights, mem_len):
    return weights[..., :mem_len].mean((1, 3))


@pytest.mark.parametrize(
    ("attempt", "sentence"),
    [
        (
            lambda w, m, ages: torch.stack([by_slot(w, m)[..., a - 1 : b].sum(-1) for a, b in ages], -1),
            "counts from the wrong end",
        ),
        (
            lambda w, m, ages: torch.stack(
                [w.mean((1, 3)).flip(-1)[..., a - 1 : b].sum(-1) for a, b in ages], -1
            ),
            "counts back from the last key",
        ),
        (
            lambda w, m, ages: torch.stack(
                [by_slot(w, m).flip(-1)[..., a - 1 : b].mean(-1) for a, b in ages], -1
            ),
            "the mean weight of a slot",
        ),
        (
            lambda w, m, ages: torch.stack(
                [(by_slot(w, m).flip(-1)[..., a - 1 : b].sum(-1)) / by_slot(w, m).sum(-1) for a, b in ages],
                -1,
            ),
            "share of what memory gets",
        ),
        (
            lambda w, m, ages: torch.stack(
                [w[..., :m].flip(-1)[..., a - 1 : b].sum((1, 3, 4)) for a, b in ages], -1
            ),
            "adds up over queries",
        ),
        (
            lambda w, m, ages: torch.stack([by_slot(w, m).flip(-1)[..., a:b].sum(-1) for a, b in ages], -1),
            "first slot of every age is missing",
        ),
        (
            lambda w, m, ages: torch.stack(
                [by_slot(w, m).flip(-1)[..., a - 1 : b].sum(-1).mean() for a, b in ages]
            ),
            "heads are averaged too",
        ),
    ],
)
def test_a_wrong_share_is_named(attempt, sentence):
    verdict = check.check_share_by_age(attempt)
    assert not verdict.right
    assert sentence in verdict.message


def test_the_cells_below_run_on_the_readers_function():
    """A right function of the reader's is called by the model, in every layer."""
    calls = []

    def mine(weights, key_mask):
        calls.append(weights.shape)
        return check.solution_intervention(weights, key_mask)

    names = TOOLS | {"model": small_model(n_layer=2, n_head=2).float().eval(), "checks": check}
    exec(
        CELLS["intervene"].replace("raise NotImplementedError", "return mine(weights, key_mask)"),
        names | {"mine": mine},
        names,
    )
    names["mine"] = mine
    exec(CELLS["losses"], names)
    calls.clear()
    tokens = some_tokens(2, 5)
    mask = torch.ones(2, 5, dtype=torch.bool)
    names["losses_without"](names["model"], (tokens, tokens), None, mask)
    assert calls == [(2, 2, 5, 5)] * 2


@pytest.mark.parametrize(
    ("cell", "right", "wrong"),
    [
        ("losses", "return intervene(weights, key_mask)", "return weights"),
        ("losses", "in model.blocks]", "in model.blocks[:1]]"),
        ("intervene", "raise NotImplementedError", "return weights * key_mask[:, None, None]"),
    ],
)
def test_an_intervention_that_is_not_the_packages_stops_the_notebook_or_is_replaced(
    cell, right, wrong, in_small
):
    broken = CELLS[cell].replace(right, wrong)
    assert broken != CELLS[cell]
    names = dict(in_small)
    exec(broken, names)
    if cell == "intervene":
        assert names["intervene"] is check.solution_intervention
        return
    with pytest.raises(AssertionError):
        exec(small_ages(CELLS["equal"]), names)


def test_hooks_are_gone_after_the_losses(in_small):
    assert not any(block.attention.attention_dropout._forward_hooks for block in in_small["model"].blocks)


@pytest.mark.parametrize(("query", "mem"), [(1, 3), (4, 4), (5, 2), (3, 8)])
def test_weights_by_distance_are_the_packages(query, mem):
    names: dict = dict(TOOLS)
    exec(CELLS["by-distance"], names)
    pairs = torch.rand(2, 3, query, mem + query)
    assert torch.equal(names["by_distance"](pairs, mem), attention_over_memory.by_distance(pairs, mem))


def test_hiding_each_state_alone_is_what_the_widget_and_the_cloud_show(in_small):
    """The cell's batch of one-state changes, against one call of the model a state."""
    names = dict(in_small)
    exec(CELLS["hide-each"], names)
    (tokens, targets), past = read = list(names["readings"](names["model"], names["test"]))[7]
    names["costs"] = torch.stack([names["hide_each"](names["model"], *read, lane) for lane in range(8)])
    for slot in range(8):
        key_mask = torch.ones(8, 12, dtype=torch.bool)
        key_mask[:, slot] = False
        with torch.inference_mode():
            hidden, _ = names["model"].token_losses(tokens, targets, past, key_mask=key_mask)
            plain, _ = names["model"].token_losses(tokens, targets, past)
        expected = (hidden - plain) / log(2)
        torch.testing.assert_close(names["costs"][..., slot], expected, atol=1e-4, rtol=0)
    names["costs"] = names["costs"].repeat(2, 1, 1)  # of two segments, as in the notebook
    assert_browser_shows(names, read)


def assert_browser_shows(names: dict, read) -> None:
    """Colours of the boxes, against weights and costs taken from the model anew.

    The small model lacks the head that the cell begins with.
    """
    names["explore"] = lambda draw, *, start, **controls: explore(draw, **controls)
    exec(CELLS["widget"], names)
    (tokens, _), past = read
    with torch.inference_mode():
        weights = names["model"].attention_weights(tokens, past)[:, 0]
    costs = names["costs"][0]
    for layer, head, token in [(1, 1, 0), (2, 1, 3), (1, 2, 2)]:
        seen = weights[layer - 1, head - 1, token]
        shades = (seen[: 8 + token + 1] / seen.max()) ** 0.5
        shown = names["draw"](layer, head, token, "attention")
        _assert_boxes(shown, shades, future=12 - len(shades))
        assert f"{seen[:8].sum():.2f} of its weight lies on memory" in shown.alt
        assert f"{seen.max():.2f}" in shown.alt
        lost = names["draw"](layer, head, token, "loss change")
        _assert_boxes(lost, (costs[token] / browser.DARKEST).clamp(-1, 1).abs(), future=4 - token - 1)
        assert f"{costs[token].max():+.3f}" in lost.alt


def _assert_boxes(picture, shades, *, future: int) -> None:
    (axes,) = picture.figure.axes
    boxes = axes.patches[:12]
    for box, shade in zip(boxes, shades.tolist(), strict=False):
        assert box.get_facecolor() == pytest.approx(browser.SHADES(shade), abs=1e-2)
    grey = [box.get_facecolor()[:3] == pytest.approx((0xEE / 255,) * 3) for box in boxes]
    assert sum(grey[len(boxes) - future :]) == future
    assert not any(grey[: len(boxes) - future])


def test_the_figure_by_age_holds_what_one_state_gets_and_costs():
    rows = [(0.009, 0.008, 0.010), (0.001, 0.0, 0.002)]
    seeds = [{"weight": [0.005, 0.002], "cost": rows}, {"weight": [0.007, 0.002], "cost": rows}]
    picture = browser.weight_and_cost([(1, 8), (9, 16)], seeds)
    looked, cost = picture.figure.axes
    assert [list(line.get_ydata()) for line in looked.lines] == [[0.5, 0.2], pytest.approx([0.7, 0.2])]
    drawn = [line.get_ydata()[0] for line in cost.lines if len(line.get_xdata()) == 1]
    assert drawn == pytest.approx([9, 1, 9, 1])
    assert "ages 1–8: 0.60 % and 9.00; ages 9–16: 0.20 % and 1.00" in picture.alt


def test_ages_of_different_width_are_not_compared():
    with pytest.raises(ValueError, match="equally many states"):
        browser.weight_and_cost([(1, 8), (9, 24)], [{"weight": [0.1, 0.2], "cost": [(0, 0, 0)] * 2}])


def test_the_offset_figure_and_the_heads_say_what_they_hold():
    picture = browser.change_by_offset([2.0, 1.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.5])
    assert [bar.get_height() for bar in picture.figure.axes[0].patches] == [2, 1, 0.5, 0, 0, 0, 0, 0.5]
    assert "costs 2.00 bits more" in picture.alt
    assert "bear 50%" in picture.alt
    weights = torch.full((2, 2, 21), 0.04)
    weights[1, 0, :9] = 0.1
    heads = browser.heads_by_distance(weights)
    assert torch.equal(torch.tensor(heads.figure.axes[0].images[0].get_array().data), weights.flatten(0, 1))
    assert "layer 2 head 1 has 90%" in heads.alt


def test_age_and_distance_are_those_of_the_picture():
    names = dict(TOOLS)
    exec(CELLS["rectangle-picture"], names)
    for offset, (away, ages) in enumerate(zip(names["distance"], names["ages"], strict=True)):
        assert [one for one in away if one is not None] == list(range(6 + offset, -1, -1))
        assert [one - offset for one in away[:6]] == ages == [6, 5, 4, 3, 2, 1]


def test_states_taken_away_are_drawn_with_what_they_still_get(in_small):
    names = dict(in_small)
    exec(CELLS["wrong-picture"], names)
    whole, hidden, zeroed, cut = names["ways"].values()
    assert names["marked"] == [False] * 2 + [True] * 4 + [False] * 3
    for weights in (whole, hidden, zeroed):
        assert weights.sum().item() == pytest.approx(1)
    assert (hidden[2:6] == 0).all()
    assert (zeroed[2:6] > 0).all()
    assert cut[2:6].isnan().all()
    assert cut.nansum().item() == pytest.approx(1)


def test_the_stored_text_says_of_no_group_of_states_that_it_is_bright_by_its_size():
    """Per state, weight and cost fall from each group to the next older one, in every seed."""
    names = TOOLS | {
        "stored": TOOLS["results"].read(NOTEBOOK.parents[1] / "figures/attention_over_memory.json")
    }
    exec(CELLS["seeds"], names)
    exec(CELLS["seeds-conclusion"], names)
    assert names["rows"][0]["Transformer-XL, hidden"] > names["rows"][-1]["Transformer-XL, hidden"]


def test_the_prediction_is_answered_by_what_the_notebook_measures():
    answers = {"falls": "more", "worse": "hide", "zeros": False, "harmless": 45}
    assert all(verdict.right for verdict in interventions.predictions.check(answers, harmless=48).verdicts)
    wrong = {"falls": "as much", "worse": "shuffle", "zeros": True, "harmless": 5}
    assert not any(verdict.right for verdict in interventions.predictions.check(wrong, harmless=48).verdicts)


def test_the_picture_of_states_taken_away_holds_its_weights():
    ways = {"as it was": [0.5, 0.3, 0.2], "cut out": [0.6, None, 0.4]}
    asked = {"ways": ways, "keys": ["2", "1", "itself"], "taken": [False, True, False], "label": "age"}
    picture = query_key_grid.taken(asked)
    first, second = picture.figure.axes
    assert [bar.get_height() for bar in first.patches[:3]] == [0.5, 0.3, 0.2]
    assert [bar.get_height() for bar in second.patches[:3]] == [0.6, 0, 0.4]
    assert [bool(bar.get_hatch()) for bar in first.patches[:3]] == [False, True, False]
    assert [words.get_text() for words in second.texts] == ["×"]
    assert "as it was 30.0%; cut out 0.0%" in picture.alt
