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

from minitxl.course.checks import memory as check
from minitxl.course.widgets import explore
from minitxl.figures.attention import browser
from minitxl.figures.positions import query_key_grid

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "11_attention_over_memory.ipynb"
CELLS = {cell.id: cell.source for cell in nbformat.read(NOTEBOOK, as_version=4).cells}
TOOLS = imported(CELLS["setup"])
EXERCISES = {
    "attend_without": (check.check_attend_without, "exercise-attend"),
    "keep_for_ages": (check.check_keep_for_ages, "exercise-ages-code"),
    "share_by_age": (check.check_share_by_age, "exercise-share-code"),
}


def read_in_small() -> dict:
    """What the notebook's cells find where they stand: a small model in place of the trained one."""
    model = small_model(n_layer=2, n_head=2).float().eval()
    test = some_tokens(1, 8 * 45)[0]
    return TOOLS | {"model": model, "test": test, "seg_len": 4, "mem_len": 8}


@pytest.fixture(scope="module")
def solutions():
    found: dict = dict(TOOLS)
    for cell in CELLS.values():
        for code in re.findall(r"<summary>A solution</summary>\n\n```python\n(.*?)```", cell, re.DOTALL):
            exec(code, found)
    return found


@pytest.mark.parametrize("name", EXERCISES)
def test_the_solution_is_right_and_the_stub_is_not_yet(name, solutions):
    judged, cell = EXERCISES[name]
    assert judged(solutions[name]).right
    stub: dict = TOOLS | {"check": check}
    exec(CELLS[cell], stub)
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
    ],
)
def test_a_wrong_way_to_hide_is_named(attempt, sentence):
    verdict = check.check_attend_without(attempt)
    assert not verdict.right
    assert sentence in verdict.message


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


@pytest.mark.parametrize(
    ("cell", "right", "wrong"),
    [
        ("distance-by-hand", "offset=mem_len - d", "offset=mem_len - d - 1"),
        ("hide-by-hand", "return left / reduce(", "return left + 0 * reduce("),
        ("whole-by-hand", "(age < first) | (last < age)", "(age < first) | (last <= age)"),
        ("whole-by-hand", "torch.arange(mem_len, 0, -1", "torch.arange(1, mem_len + 1, 1"),
    ],
)
def test_a_piece_built_by_hand_equals_the_packages_or_the_notebook_stops(cell, right, wrong):
    names = read_in_small()
    exec(CELLS["readings"], names)
    for before in ("distance-by-hand", "hide-by-hand", "whole-by-hand"):
        source = CELLS[before]
        if before != cell:
            exec(small_ages(source), names)
            continue
        exec(small_ages(source), dict(names))
        broken = source.replace(right, wrong)
        assert broken != source
        with pytest.raises((AssertionError, RuntimeError)):
            exec(small_ages(broken), names)
        return


def small_ages(source: str) -> str:
    """The notebook's ages, for a memory of 8."""
    return source.replace("[(1, 8), (9, mem_len // 2), (1, mem_len)]", "[(1, 2), (3, 5), (1, 8)]")


def test_hiding_each_state_alone_is_what_the_widget_and_the_cloud_show():
    """The cell's batch of one-state changes, against one call of the model a state."""
    names = read_in_small()
    for cell in ("readings", "hide-by-hand", "whole-by-hand"):
        exec(small_ages(CELLS[cell]), names)
    exec(CELLS["one-by-one"].replace("tqdm(range(8), desc=", "list(range(8)) or ("), names)
    (tokens, targets), past = names["later"]
    for slot in range(8):
        key_mask = torch.ones(8, 12, dtype=torch.bool)
        key_mask[:, slot] = False
        with torch.inference_mode():
            hidden, _ = names["model"].token_losses(tokens, targets, past, key_mask=key_mask)
            plain, _ = names["model"].token_losses(tokens, targets, past)
        expected = (hidden - plain) / log(2)
        torch.testing.assert_close(names["costs"][..., slot], expected, atol=1e-4, rtol=0)
    assert_browser_shows(names)


def assert_browser_shows(names: dict) -> None:
    """Colours of the boxes, against weights and costs taken from the model anew.

    The small model lacks the head that the cell begins with.
    """
    names["explore"] = lambda draw, *, start, **controls: explore(draw, **controls)
    exec(CELLS["widget"], names)
    (tokens, _), past = names["later"]
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


def test_the_key_figure_holds_the_data_it_is_given():
    rows = [(0.09, 0.08, 0.10), (0.01, 0.0, 0.02)]
    seeds = [{"share": [0.05, 0.07], "hide": rows, "shuffle": rows[::-1]} for _ in range(2)]
    picture = browser.share_and_change([(1, 8), (9, 16)], seeds)
    looked, cost = picture.figure.axes
    assert [bar.get_width() for bar in looked.patches] == pytest.approx([5.0, 7.0])
    drawn = [line.get_xdata() for line in cost.lines if len(line.get_xdata()) == 1]
    assert [x[0] for x in drawn] == [0.09, 0.01] * 2 + [0.01, 0.09] * 2
    assert "ages 9–16: 7.0 % of attention, hidden +0.0100, shuffled +0.0900 bits" in picture.alt


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


def test_states_taken_away_are_drawn_with_what_they_still_get():
    names = read_in_small()
    for cell in ("readings", "hide-by-hand", "whole-by-hand", "wrong-picture"):
        exec(small_ages(CELLS[cell]), names)
    whole, hidden, zeroed, cut = names["ways"].values()
    assert names["marked"] == [False] * 2 + [True] * 4 + [False] * 3
    for weights in (whole, hidden, zeroed):
        assert weights.sum().item() == pytest.approx(1)
    assert (hidden[2:6] == 0).all()
    assert (zeroed[2:6] > 0).all()
    assert cut[2:6].isnan().all()
    assert cut.nansum().item() == pytest.approx(1)


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
