"""Notebook 10b: its checks, its widget, and what it says of the stored results."""

from dataclasses import replace

import pytest
from page import NOTEBOOKS, Page

from minitxl.course.checks import pairs, seeds
from minitxl.experiments.shared import results
from minitxl.figures.training import paired

PAGE = Page("10b_ablation", effect_of_memory=seeds.solution_effect, with_and_without=pairs.solution_pair)
CELLS, run, rows_of = PAGE.cells, PAGE.run, PAGE.rows_of
FIGURES = NOTEBOOKS.parent / "figures"


@pytest.mark.parametrize(
    ("blank", "text", "check"),
    [("effect", "effect-text", seeds.check_effect), ("pair", "pair-text", pairs.check_pair)],
)
def test_the_solution_is_right_and_the_stub_blank(blank, text, check):
    PAGE.assert_folded_solution_is_right_and_stub_blank(blank, text, check)


def test_predictions_are_answered_by_the_stored_results():
    right = seeds.predictions.check({"first": 1.2, "absolute": "hurts", "loss_for_xl": "full"}, first=1.25)
    assert all(verdict.right for verdict in right.verdicts)
    wrong = seeds.predictions.check({"first": 0.1, "absolute": "helps", "loss_for_xl": "half"}, first=1.25)
    assert not any(verdict.right or verdict.blank for verdict in wrong.verdicts)


@pytest.fixture
def in_the_notebooks_folder(monkeypatch):
    monkeypatch.chdir(NOTEBOOKS)


@pytest.mark.usefixtures("in_the_notebooks_folder")
def test_the_table_is_judged_by_the_readers_function():
    asked = []

    def mine(with_memory, without):
        asked.append((with_memory, without))
        return seeds.solution_effect(with_memory, without)

    rows = rows_of("segments", "figure", effect_of_memory=mine)
    assert [row["memory"] for row in rows] == ["helps"] * 3 + ["open"] + ["hurts"] * 4
    for row, (with_memory, without) in zip(rows, asked, strict=True):
        saved = [other - one for one, other in zip(with_memory, without, strict=True)]
        assert [row[f"seed {seed}"] for seed in range(5)] == saved
        assert row["mean"] == pytest.approx(sum(saved) / 5)
    with pytest.raises(AssertionError):
        rows_of("segments", "figure", effect_of_memory=lambda a, b: seeds.solution_effect(b, a))


@pytest.mark.usefixtures("in_the_notebooks_folder")
def test_xl_is_held_against_shaw_by_the_rule_and_another_verdict_stops_the_notebook(monkeypatch):
    before = run("figure", "segments")
    over_shaw = run("rivals", **before)["over_shaw"]
    stored = results.read(FIGURES / "ablation.json").data["saved"]["positions"]["xl_over_shaw"]
    assert list(over_shaw.values()) == [
        stored[memory][loss]["seeds"] for memory in ("memory", "no_memory") for loss in ("full", "half")
    ]
    after = run("rivals", **before)
    right = paired.verdict
    run("answer-check", **after)
    monkeypatch.setattr(paired, "verdict", lambda of: {"counts": "open", "open": "counts"}[right(of)])
    for cell, space in (("rivals", before), ("answer-check", after)):
        with pytest.raises(AssertionError):
            run(cell, **space)


@pytest.fixture
def trained(in_the_notebooks_folder, monkeypatch):
    """Return a function that trains the three pairs for a few steps and reads a few tokens with each.

    It gives the names after that.
    """
    monkeypatch.setenv("MINITXL_PROFILE", "quick")
    before = run("corpus = corpora.embedded()", CELLS["figure"], CELLS["segments"])
    before["corpus"] = replace(before["corpus"], test=before["corpus"].test[:1025])
    few = CELLS["run"].replace("steps=300", "steps=20")
    assert few != CELLS["run"]
    return lambda with_and_without: run(few, **(before | {"with_and_without": with_and_without}))


def test_the_pairs_are_trained_by_the_readers_settings_and_stand_beside_the_grids_row(trained):
    asked = []

    def mine(settings, seed):
        asked.append((settings.steps, seed))
        return pairs.solution_pair(settings, seed)

    after = trained(mine)
    assert asked == [(20, 0), (20, 1), (20, 2)]
    yours, grid = rows_of("run-table", **after)
    bits = {
        memory: [sum(offsets) / len(offsets) for offsets in models]
        for memory, models in after["mine"].items()
    }
    assert [yours[f"seed {seed}"] for seed in range(3)] == pytest.approx(
        [other - one for one, other in zip(bits[True], bits[False], strict=True)], abs=1e-9
    )
    assert all(one != other for one, other in zip(bits[True], bits[False], strict=True))
    stored = {(row["encoding"], row["loss"]): row for row in rows_of("segments", "figure")}["Shaw", "full"]
    assert [yours[f"seed {seed}"] for seed in (3, 4)] == ["–"] * 2
    same = *(f"seed {seed}" for seed in range(5)), "mean", "memory"
    assert [grid[name] for name in same] == [stored[name] for name in same]
    drawn = []
    run(
        CELLS["run-picture"].replace("recurrence.by_offset(", "drawn.append("),
        drawn=drawn,
        in_grid="Shaw",
        **after,
    )
    (picture,) = drawn
    assert [row["recurrence"] for row in picture["systems"]] == [True, False]
    for row in picture["systems"]:
        by_seed = list(zip(*(place["seeds"] for place in row["bits_by_offset"]), strict=True))
        assert [list(offsets) for offsets in by_seed] == after["mine"][row["recurrence"]]


@pytest.mark.parametrize(
    "unfair",
    [
        lambda settings, seed: (settings, replace(settings, mem_len=0, seed=seed + 1)),
        lambda settings, seed: (settings, replace(settings, mem_len=0)),
    ],
    ids=["other weights", "the same pair thrice"],
)
def test_pairs_that_do_not_begin_alike_or_are_the_same_stop_the_notebook(trained, unfair):
    after = trained(unfair)
    with pytest.raises(AssertionError):
        rows_of("run-table", **after)


@pytest.mark.usefixtures("in_the_notebooks_folder")
@pytest.mark.parametrize("loss", ["full", "half"])
def test_the_widget_shows_the_loss_by_offset_with_memory_and_without(loss):
    draw = run("figure", "segments", CELLS["widget"].partition("\n\n\n")[0])["draw"]
    (axes,) = draw("Shaw", loss).figure.axes
    kinds = {
        row["recurrence"]: row["bits_by_offset"]
        for row in results.read(FIGURES / "ablation.json").data["systems"]
        if (row["encoding"], row["loss"]) == ("Shaw", loss)
    }
    assert [list(line.get_ydata()) for line in axes.lines] == [
        [place["mean"] for place in kinds[memory]] for memory in (True, False)
    ]
