"""Notebook 10c: its checks, its widget, and what it says of the stored results."""

import re
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from matplotlib.colors import same_color
from page import NOTEBOOKS, Page

from minitxl.course.checks import comparisons, splits
from minitxl.experiments import conclusions
from minitxl.experiments.shared import results
from minitxl.figures.systems import SYSTEMS
from minitxl.figures.training import recurrence

PAGE = Page("10c_memory_gain", split_gain=splits.solution_split)
CELLS, run, rows_of = PAGE.cells, PAGE.run, PAGE.rows_of
FIGURES = NOTEBOOKS.parent / "figures"


def test_the_solution_is_right_and_the_stub_blank():
    PAGE.assert_folded_solution_is_right_and_stub_blank("split-gain", "split-text", splits.check_split)


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
    answers = {"equal_context": "level", "shuffled": "helps", "read_without": "trained without"}
    assert all(verdict.right for verdict in comparisons.predictions.check(answers).verdicts)
    wrong = {"equal_context": "memory", "shuffled": "level", "read_without": "level"}
    verdicts = comparisons.predictions.check(wrong).verdicts
    assert not any(verdict.right or verdict.blank for verdict in verdicts)


@pytest.fixture
def in_the_notebooks_folder(monkeypatch):
    monkeypatch.chdir(NOTEBOOKS)


@pytest.mark.usefixtures("in_the_notebooks_folder")
def test_the_tables_say_what_the_rule_says_of_the_stored_bits():
    before = "figure", "conclusion", "table-7-figure"
    assert [row["memory"] for row in rows_of("conclusion", "figure")] == ["level", "hurts"] * 2
    assert [row["memory"] for row in rows_of("fragment", *before)] == ["helps"] * 3 + ["hurts"]


@pytest.mark.usefixtures("in_the_notebooks_folder")
def test_the_gain_of_memory_is_split_in_both_orders_by_the_readers_function():
    def as_tensor(p, first):
        return torch.tensor(splits.solution_split(p, first))

    rows = rows_of("treebank-split", "treebank-figure", split_gain=as_tensor)
    assert rows == rows_of("treebank-split", "treebank-figure", split_gain=splits.solution_split)
    assert [row["seed"] for row in rows] == ["0", "1", "2"] * 2
    reading_first, training_first = rows[:3], rows[3:]
    assert [row["both"] for row in reading_first] == [row["both"] for row in training_first]
    assert all(row["gain of training"].startswith("+") for row in reading_first)
    assert all(row["gain of training"].startswith("−") for row in training_first)
    with pytest.raises(AssertionError):
        rows_of(
            "treebank-split",
            "treebank-figure",
            split_gain=lambda p, first: splits.solution_split(p, first)[::-1],
        )


@pytest.mark.usefixtures("in_the_notebooks_folder")
def test_no_two_dollars_of_the_sample_stand_in_one_text():
    shown = []
    run(
        "penn = results.read(Path('../figures/ptb.json')).data",
        CELLS["treebank-sample"],
        display=lambda data, raw: shown.append(data["text/html"]),
    )
    assert shown[0].count("$") > 1
    assert all(text.count("$") == 0 or text == "$" for text in re.split(r"<[^>]*>", shown[0]))


@pytest.mark.usefixtures("in_the_notebooks_folder")
def test_both_trainings_are_listed_in_windows_that_slide():
    systems = results.read(FIGURES / "ptb.json").data["systems"]
    rows = {(row["trained"], row["read"]): row for row in rows_of("treebank-cut", "treebank-figure")}
    for name, trained, read in (
        ("xl", "without memory", "sliding window of 32"),
        ("xl_memory", "with memory", "sliding window of 64"),
    ):
        row, sliding = rows[trained, read], systems[name]["sliding"]
        assert [row[f"seed {seed}"] for seed in range(3)] == sliding["perplexity"]["seeds"]
        assert read.endswith(str(sliding["attention_len"]))


@pytest.mark.usefixtures("in_the_notebooks_folder")
@pytest.mark.parametrize("mem_len", [0, 1], ids=["read without", "read with"])
def test_a_seed_whose_lines_do_not_cross_stops_the_notebook(monkeypatch, mem_len):
    stored = results.read(FIGURES / "ptb.json")
    changed = deepcopy(stored.data)
    mine, other = (changed["systems"][name]["by_memory"][mem_len] for name in ("xl_memory", "xl"))
    seeds = mine["perplexity"]["seeds"], other["perplexity"]["seeds"]
    seeds[0][2], seeds[1][2] = seeds[1][2], seeds[0][2]
    read = results.read
    monkeypatch.setattr(
        results, "read", lambda path: replace(stored, data=changed) if path.stem == "ptb" else read(path)
    )
    monkeypatch.setattr(conclusions, "holding", lambda name, data: {})  # these are tested by themselves
    with pytest.raises(AssertionError):
        run(CELLS["treebank-figure"])


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


def test_the_axes_stay_where_they_are_whatever_is_chosen():
    data = results.read(FIGURES / "ablation.json").data
    pictures = [
        recurrence.pair(data, encoding=encoding, loss=loss)
        for encoding in ("XL", "absolute, sinusoidal")
        for loss in ("full", "half")
    ]
    ranges = {tuple(axes.get_ylim() for axes in picture.figure.axes) for picture in pictures}
    assert len(ranges) == 1


def test_both_readings_stand_side_by_side_and_what_was_not_measured_is_left_out():
    data = some_rows()
    data["systems"][0]["by_length"] = data["systems"][0]["by_length"][1:]  # with memory, not at 8
    picture = recurrence.by_recurrence(data, attention_len=8)
    segments, equal = picture.figure.axes
    marks = [
        [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 1]
        for axes in (segments, equal)
    ]
    as_trained = [sum(recurrence.in_segments(row)) / 2 for row in data["systems"]]
    assert marks == [pytest.approx(as_trained), pytest.approx([3.125])]
    assert "With 8 keys for each query: XL, no memory, full loss 3.12." in picture.alt


def test_segments_stand_alone_where_no_length_is_given():
    data = some_rows()
    picture = recurrence.by_recurrence(data)
    (axes,) = picture.figure.axes
    marks = [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 1]
    assert marks == pytest.approx([sum(recurrence.in_segments(row)) / 2 for row in data["systems"]])
    assert "keys" not in picture.alt


def test_loss_by_offset_is_drawn_for_each_system():
    data = some_rows()
    picture = recurrence.by_offset(data)
    (axes,) = picture.figure.axes
    assert [list(line.get_ydata()) for line in axes.lines] == [
        [one["mean"] for one in row["bits_by_offset"]] for row in data["systems"]
    ]
    assert "XL, no memory 4.00 at offset 0" in picture.alt
