"""Notebook 07, its checks and its experiment."""

import re
from collections.abc import Callable
from math import sqrt

import pytest
import torch
from einops import einsum, rearrange
from page import NOTEBOOKS, Page

from minitxl.attention import ShawAttention, attention_mask
from minitxl.course.checks import shaw as checks
from minitxl.data import corpora
from minitxl.experiments import results, shaw_clipping
from minitxl.experiments.runner import compute
from minitxl.figures.positions import clipping, encodings

PAGE = Page("07_shaw")
STORED = results.read(NOTEBOOKS.parent / "figures" / "shaw_clipping.json").data
EXERCISES = {
    "exercise-1": ("my_rows", checks.check_rows, "check-rows"),
    "exercise-2": ("my_scores", checks.check_gather, "check-gather"),
    "exercise-3": ("my_values", checks.check_efficient, "check-efficient"),
}


def attempt_of(cell: str, name: str, *, solution: bool) -> Callable:
    source = PAGE.cells[cell]
    code = re.search(r"```python\n(.*?)```", source, re.DOTALL)[1] if solution else source
    scope = {"torch": torch, "sqrt": sqrt, "einsum": einsum, "rearrange": rearrange}
    scope |= {check.__name__: lambda attempt: None for _, check, _ in EXERCISES.values()}
    exec(code, scope)
    return scope[name]


@pytest.mark.parametrize("exercise", EXERCISES)
def test_the_folded_solution_is_right_and_the_stub_not_yet(exercise):
    name, check, stub = EXERCISES[exercise]
    before = torch.get_rng_state()
    assert check(attempt_of(exercise, name, solution=True)).right
    told = check(attempt_of(stub, name, solution=False))
    assert (told.right, "nothing here yet" in told.message) == (False, True)
    assert torch.equal(torch.get_rng_state(), before)


def named_mistakes(check: Callable, monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable]:
    found: dict[str, Callable] = {}
    with monkeypatch.context() as patch:
        patch.setattr(checks, "judge", lambda *args, mistakes, **kwargs: found.update(mistakes) or _not_yet())
        check(lambda *args: None)
    return found


def _not_yet():
    return checks.Verdict(False, "")


@pytest.mark.parametrize("exercise", EXERCISES)
def test_every_named_mistake_is_told_by_its_own_sentence(exercise, monkeypatch):
    _, check, _ = EXERCISES[exercise]
    mistakes = named_mistakes(check, monkeypatch)
    assert len(mistakes) >= 5
    for sentence, mistake in mistakes.items():
        assert check(mistake) == checks.Verdict(False, sentence)


def test_a_right_but_wasteful_average_is_told_so():
    def looked_up(weights, v, a_V, rows):
        return weights @ v + einsum(weights, a_V[rows], "head query key, query key dim -> head query dim")

    told = checks.check_efficient(looked_up)
    assert not told.right
    assert "a vector for each" in told.message


def test_the_references_of_the_checks_are_the_packages_attention():
    attention = ShawAttention(8, 2, 4, max_distance=2)
    torch.nn.init.normal_(attention.a_K)
    torch.nn.init.normal_(attention.a_V)
    q, k, v = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 7, 4), torch.randn(1, 2, 7, 4)
    rows = checks.rows(3, 7, 2)
    weights = attention.shaw_weights(q, k, None, None)
    torch.testing.assert_close(checks.scores(q[0], k[0], attention.a_K, rows).softmax(-1), weights[0])
    expected = attention.shaw_values(weights, v, None)[0]
    torch.testing.assert_close(checks.values(weights[0], v[0], attention.a_V, rows), expected)


@pytest.mark.parametrize(
    "change",
    [
        ("here = key - query + i", "here = i"),
        ("max(-k, min(k, j - here))", "max(-k, min(k, here - j))"),
        ("weight * (v[b, head, j] + a_V[rows[i, j]])", "weight * v[b, head, j]"),
        ("+ a_K[rows]  #", "+ a_K[rows].flip(0)  #"),
        (".scatter_add(-1, index, alpha)", ".scatter(-1, index, alpha)"),
    ],
)
def test_the_hand_built_attention_equals_the_packages_or_the_notebook_stops(change):
    cells = ("rows", "loops", "gather", "efficient", "equal")
    with pytest.raises(AssertionError):
        PAGE.after_setup(*cells, change=change)


def test_the_hand_built_attention_equals_the_packages():
    PAGE.after_setup("rows", "loops", "gather", "efficient", "equal")


def test_the_first_picture_shows_the_row_of_each_pair_and_hatches_the_future():
    scope = PAGE.after_setup("rows", "rows-picture")
    k, rows, seen = scope["k"], scope["rows"], scope["seen"]
    asked = {"max_distance": k, "rows": rows.tolist(), "seen": seen.tolist(), "mem_len": scope["mem_len"]}
    picture = clipping.which_vector(asked)
    table, pairs = picture.figure.axes
    package = ShawAttention(4, 1, 4, max_distance=k).table_rows(torch.zeros(1, 1, *rows.shape), None)[0, 0]
    assert [int(number.get_text()) for number in pairs.texts] == package.flatten().tolist()
    assert [not box.get_hatch() for box in pairs.patches] == seen.flatten().tolist()
    assert [not box.get_hatch() for box in table.patches] == [row <= k for row in range(2 * k + 1)]
    assert (
        f"{k + 1} of {2 * k + 1} rows are used; row 0, 3 back and more, by {(rows == 0).sum()}" in picture.alt
    )


def test_the_picture_of_one_query_shows_what_the_lookup_gives():
    scope = PAGE.after_setup("rows", "rows-picture", "by-row")
    k, row, q, table, found = (scope[name] for name in ("k", "row", "q", "table", "numbers"))
    scores = (scope["keys"] + table[row]) @ q / 2
    torch.testing.assert_close(found["weights"], scores.softmax(0))
    torch.testing.assert_close(scope["added"] @ table, scores.softmax(0) @ table[row])
    numbers = {name: values.tolist() for name, values in found.items()}
    picture = clipping.by_row({"max_distance": k, "rows": row.tolist()} | numbers)
    drawn = dict(zip(("met", "looked_up", "added", "weights"), picture.figure.axes, strict=True))
    for name, axes in drawn.items():
        assert [bar.get_height() for bar in axes.patches] == numbers[name]
    assert [label.get_text() for label in drawn["weights"].get_xticklabels()] == [
        str(r) for r in row.tolist()
    ]
    assert f"added up by row: {numbers['added'][0]:.2f}, " in picture.alt


def test_the_widget_draws_the_packages_rows_and_the_stored_losses():
    scope = PAGE.after_setup("rows")
    scope |= {"stored": STORED, "ks": [1, 4, 16, 64]}
    exec(PAGE.cells["widget"], scope)
    for k in scope["ks"]:
        pairs, plateau, loss = scope["draw"](k=k).figure.axes[:3]
        drawn = torch.tensor(pairs.images[0].get_array().filled(torch.nan))
        seen = attention_mask(32, 64)[0]
        package = ShawAttention(4, 1, 4, max_distance=k).table_rows(torch.zeros(1, 1, 32, 64), None)[0, 0] - k
        assert torch.equal(~drawn.isnan(), seen)
        assert torch.equal(drawn[seen].long(), package[seen])
        assert len(set(plateau.lines[0].get_ydata()[k:])) <= 1
        chosen = next(row for row in STORED["by_clip"] if row["max_distance"] == k)
        assert loss.lines[-1].get_xydata().tolist() == [[k, chosen["trained"]["bits"]["mean"]]]


def test_the_figures_show_the_stored_numbers():
    trained, longer = encodings.shaw_clipping(STORED).figure.axes
    for shown, line, row in zip(trained.lines, longer.lines, STORED["by_clip"], strict=False):
        assert list(shown.get_ydata()) == row["trained"]["bits"]["seeds"]
        added = row["longest"]["bits"]["mean"] - row["trained"]["bits"]["mean"]
        assert line.get_ydata()[-1] == pytest.approx(added)
    axes = encodings.shaw_vectors(STORED["vectors"]).figure.axes
    shown = [list(line.get_ydata()) for line in axes[0].lines]
    assert shown == [layer["a_K"]["norm"] for layer in STORED["vectors"]["layers"]]


def test_the_experiment_runs_end_to_end_at_toy_size(tmp_path):
    corpus = corpora.from_bytes("toy", b"some words that come again and again " * 400)
    asked = shaw_clipping.settings("quick", corpus)
    assert asked["max_distances"] == [1, 4, 16, 64]
    asked["model"] |= {"n_layer": 1, "d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 32}
    asked["train"] |= {"steps": 2, "warmup": 1, "validate_every": 2, "validate_tokens": 64}
    asked |= {"test_tokens": 200, "max_distances": [0, 1, 16, 20]}
    found = compute(shaw_clipping.parts(asked, corpus, seeds=[0, 1], device="cpu"))
    data = shaw_clipping.collect(asked, corpus, found)
    assert [row["max_distance"] for row in data["by_clip"]] == [0, 1, 16, 20]
    assert [one["attention_len"] for one in data["by_clip"][0]["by_length"]] == [64, 96, 128, 192, 256]
    assert data["by_clip"][0]["trained"] == data["by_clip"][0]["by_length"][0]
    assert len(data["by_clip"][1]["trained"]["bits"]["seeds"]) == 2
    vectors = data["vectors"]
    assert vectors["layers"] == found["k = 16, seed 0"]["vectors"]
    assert len(vectors["layers"][0]["a_V"]["norm"]) == len(vectors["j_minus_i"]) == 33
    encodings.shaw_clipping(data).save(tmp_path / "drawn.svg")
