"""Notebook 10c: its checks, its widget, and what it says of the stored results."""

import re

import pytest
import torch
from matplotlib.colors import same_color
from page import NOTEBOOKS, Page

from minitxl.course.checks import comparisons, own_reading, splits
from minitxl.experiments.shared import results
from minitxl.figures.systems import SYSTEMS
from minitxl.figures.training import paired, recurrence

PAGE = Page("10c_memory_gain", split_gain=splits.solution_split)
CELLS, run, rows_of = PAGE.cells, PAGE.run, PAGE.rows_of
FIGURES = NOTEBOOKS.parent / "figures"


@pytest.mark.parametrize(
    ("blank", "text", "check"),
    [
        ("split-gain", "split-text", splits.check_split),
        ("own-reading", "own-reading-text", own_reading.check_bits_read),
    ],
)
def test_the_solution_is_right_and_the_stub_blank(blank, text, check):
    PAGE.assert_folded_solution_is_right_and_stub_blank(blank, text, check)


def test_the_answers_about_reports_are_right():
    (code,) = re.findall(r"```python\n(.*?)```", CELLS["exercise-compare"], flags=re.DOTALL)
    assert comparisons.check_comparisons(run(code)["my_answers"]).right


@pytest.mark.parametrize("pair", comparisons.FAIR)
def test_a_wrong_answer_about_a_pair_is_explained(pair):
    answers = {name: fair for name, (fair, _) in comparisons.FAIR.items()}
    verdict = comparisons.check_comparisons(answers | {pair: not answers[pair]})
    assert (verdict.right, verdict.message) == (False, f"{pair}: {comparisons.FAIR[pair][1]}")
    assert pair in comparisons.check_comparisons(answers | {pair: None}).message
    assert comparisons.check_comparisons(dict.fromkeys(answers)).blank


def test_the_ways_of_reading_differ_in_keys_reach_and_cost():
    rows = rows_of("readings")
    columns = ("keys of a query", "reach, characters", "computed for each scored")
    keys, reach, cost = ([row[name] for row in rows] for name in columns)
    assert keys == ["1 to 32", "33 to 64", "32", "32", "17 to 32"]
    assert reach == ["0 to 31", "96 to 127", "93", "31", "16 to 31"]
    assert cost == ["1", "1", "1", "32", "2"]


def test_predictions_are_answered_by_the_stored_results():
    answers = {"equal_context": "open", "shuffled": "first four", "gains_more": "trained with"}
    assert all(verdict.right for verdict in comparisons.predictions.check(answers).verdicts)
    for wrong in (
        {"equal_context": "memory", "shuffled": "neither", "gains_more": "open"},
        {"equal_context": "no memory", "shuffled": "both", "gains_more": "trained without"},
    ):
        verdicts = comparisons.predictions.check(wrong).verdicts
        assert not any(verdict.right or verdict.blank for verdict in verdicts)


@pytest.fixture
def in_the_notebooks_folder(monkeypatch):
    monkeypatch.chdir(NOTEBOOKS)


def drawn(cell, *before, **names):
    """The data that a cell draws as paired differences, after the cells that it builds on."""
    shown = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paired, "paired", shown.append)
        run(*before, cell, **names)
    return shown[-1]


def verdicts(differences):
    return [paired.verdict(of) for of in differences.values()]


def pairs_of(row, other, bits_of):
    return [one - two for one, two in zip(bits_of(row), bits_of(other), strict=True)]


@pytest.mark.usefixtures("in_the_notebooks_folder")
def test_the_stored_models_are_read_by_the_readers_function():
    asked = []

    def mine(model, tokens, targets, seg_len, mem_len):
        asked.append((seg_len, mem_len))
        assert torch.equal(tokens[:, 1:], targets[:, :-1])
        return own_reading.solution_bits_read(model, tokens, targets, seg_len, mem_len)

    rows = rows_of("own-reading-table", bits_read=mine)
    assert asked == [(64, 0), (64, 8), (64, 64)] * 2
    for row in rows:
        assert row["gain, 0 to 64"] == row["memory of 0"] - row["of 64"]
    with pytest.raises(AssertionError):
        rows_of("own-reading-table", bits_read=lambda *given, **lengths: -mine(*given, **lengths))


@pytest.mark.usefixtures("in_the_notebooks_folder")
def test_the_pictures_draw_the_bits_that_memory_saves_in_the_stored_results():
    data = results.read(FIGURES / "ablation.json").data
    systems = {
        (row["encoding"], row["recurrence"], row["loss"]): row
        for row in data["systems"]
        if not row["equal_memory"]
    }
    segments, windows = drawn("figure")["panels"].values()
    for name, of in segments.items():
        encoding, loss = name.removesuffix(" loss").split(",\n")
        both = systems[encoding, False, loss], systems[encoding, True, loss]
        assert of == pairs_of(*both, recurrence.in_segments)
        assert windows[name] == pairs_of(*both, lambda row: recurrence.at_length(row, 32))
    assert verdicts(windows) == ["open", "counts", "counts", "open"]
    (differences,) = drawn("fragment", "figure", "table-7-figure")["panels"].values()
    assert differences["in order,\nin segments"] == segments["XL,\nfull loss"]
    shuffled = {
        (row["encoding"], row["recurrence"]): row
        for row in results.read(FIGURES / "short_dependency.json").data["systems"]
    }
    both = shuffled["XL", False], shuffled["XL", True]
    assert differences["shuffled,\nin segments"] == pairs_of(*both, recurrence.in_segments)


BEFORE_WORDS = "figure", "treebank-figure"


@pytest.mark.usefixtures("in_the_notebooks_folder")
def test_the_gain_of_memory_is_split_in_both_orders_by_the_readers_function():
    def as_tensor(p, first):
        return torch.tensor(splits.solution_split(p, first), dtype=torch.float64)

    data = drawn("treebank-split", *BEFORE_WORDS, split_gain=as_tensor)
    assert data == drawn("treebank-split", *BEFORE_WORDS, split_gain=splits.solution_split)
    (gains,) = data["panels"].values()
    reading, training, earlier_training, later_reading = gains.values()
    assert [a + b for a, b in zip(reading, training, strict=True)] == pytest.approx(
        [a + b for a, b in zip(later_reading, earlier_training, strict=True)]
    )
    assert verdicts(gains) == ["counts", "open", "open", "counts"]
    with pytest.raises(AssertionError):
        drawn(
            "treebank-split",
            *BEFORE_WORDS,
            split_gain=lambda p, first: splits.solution_split(p, first)[::-1],
        )


@pytest.mark.usefixtures("in_the_notebooks_folder")
def test_the_window_is_compared_with_segments_and_with_memory():
    panels = drawn("treebank-cut", *BEFORE_WORDS)["panels"].values()
    assert [verdicts(rows) for rows in panels] == [["counts"] * 3] * 2
    for rows, sign in zip(panels, (1, -1), strict=True):
        window, memory, over = rows.values()
        assert [a - b for a, b in zip(memory, window, strict=True)] == pytest.approx(over)
        assert all(sign * one > 0 for one in over)


@pytest.mark.usefixtures("in_the_notebooks_folder")
def test_differences_at_equal_bytes_are_the_stored_ones():
    data = results.read(FIGURES / "equal_bytes.json").data["more"]
    for way, rows in zip(
        ("in_segments", "full_context"), drawn("table-10", "figure")["panels"].values(), strict=True
    ):
        assert list(rows.values()) == [row[way]["seeds"] for row in data.values()]


@pytest.mark.usefixtures("in_the_notebooks_folder")
def test_the_table_beside_the_paper_has_the_grids_best():
    rows = rows_of("paper", "figure")
    assert [row["here: length"] for row in rows[:4]] == ["64", "64", "64", "32"]


@pytest.mark.usefixtures("in_the_notebooks_folder")
def test_another_verdict_stops_the_notebook(monkeypatch):
    """The rule is asked wherever the text says of a difference that it counts, or is open."""
    right = paired.verdict
    for cell, before in (
        ("figure", []),
        ("fragment", ["table-7-figure"]),
        ("treebank-figure", []),
        ("treebank-split", ["treebank-figure"]),
        ("treebank-cut", ["treebank-figure"]),
        ("table-10", []),
        ("paper", []),
    ):
        monkeypatch.setattr(paired, "verdict", right)
        space = run("figure", *before) if cell != "figure" else {}
        monkeypatch.setattr(paired, "verdict", lambda of: {"counts": "open", "open": "counts"}[right(of)])
        with pytest.raises(AssertionError):
            run(cell, **space)


def some_rows() -> dict:
    """The shape of the ablation's data: two systems."""

    def summary(bits):
        return {"seeds": [bits - 0.1, bits + 0.1], "mean": bits, "spread": 0.2}

    def row(recurrence, base):
        scores = [{"attention_len": length, "bits": summary(base + 1 / length)} for length in (8, 16)]
        what = {"encoding": "XL", "recurrence": recurrence, "loss": "full", "equal_memory": False}
        offsets = [summary(base + 1 / (1 + offset)) for offset in range(8)]
        found = {"by_length": scores, "trained": scores[0], "best": scores[1], "bits_by_offset": offsets}
        return what | found | {"label": f"XL {recurrence}"}

    return {"systems": [row(True, 2.0), row(False, 3.0)]}


def line_of(axes, colour):
    lines = [one for one in axes.lines if same_color(one.get_color(), colour) and len(one.get_xdata()) > 1]
    (line,) = lines
    return list(line.get_xdata()), list(line.get_ydata())


def test_the_widget_shows_an_encoding_with_memory_and_without():
    data = some_rows()
    space = run(
        "stored = type('Stored', (), {'data': data})", CELLS["widget"].partition("explore(")[0], data=data
    )
    drawn = space["draw"]("XL", "full")
    lengths, offsets = drawn.figure.axes
    for row, colour in zip(data["systems"], (SYSTEMS["xl_memory"].colour, SYSTEMS["xl"].colour), strict=True):
        assert line_of(lengths, colour) == ([8, 16], [one["bits"]["mean"] for one in row["by_length"]])
        assert line_of(offsets, colour)[1] == [one["mean"] for one in row["bits_by_offset"]]
        assert f"{row['trained']['bits']['mean']:.2f} at the attention length of training" in drawn.alt


def test_the_scales_stay_as_they_are_whatever_is_chosen():
    data = results.read(FIGURES / "ablation.json").data
    pictures = [
        recurrence.pair(data, encoding=encoding, loss=loss)
        for encoding in ("XL", "absolute, sinusoidal")
        for loss in ("full", "half")
    ]
    by_length, by_offset = zip(
        *([axes.get_ylim() for axes in picture.figure.axes] for picture in pictures), strict=True
    )
    assert len(set(by_offset)) == 1
    heights = [top - bottom for bottom, top in by_length]
    assert heights == pytest.approx([heights[0]] * len(heights))


def test_the_grid_is_drawn_as_read_in_segments():
    data = some_rows()
    picture = recurrence.by_recurrence(data)
    (axes,) = picture.figure.axes
    marks = [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 1]
    assert marks == pytest.approx([sum(recurrence.in_segments(row)) / 2 for row in data["systems"]])


def test_loss_by_offset_is_drawn_for_each_system():
    data = some_rows()
    picture = recurrence.by_offset(data)
    (axes,) = picture.figure.axes
    assert [list(line.get_ydata()) for line in axes.lines] == [
        [one["mean"] for one in row["bits_by_offset"]] for row in data["systems"]
    ]
    assert "XL, no memory 4.00 at offset 0" in picture.alt
