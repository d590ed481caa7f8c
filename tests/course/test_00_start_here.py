"""Notebook 00: its checks, its widget, and what it links to."""

import re
from pathlib import Path

import nbformat
import pytest

from minitxl import figures, memory
from minitxl.course.checks.start import check_choice, check_prediction
from minitxl.course.widgets import explore
from minitxl.experiments import results
from minitxl.figures.recurrence.masks import readable

ROOT = Path(__file__).parents[2]
CELLS = {
    cell.id: cell.source
    for cell in nbformat.read(ROOT / "notebooks" / "00_start_here.ipynb", as_version=4).cells
}


@pytest.mark.parametrize(
    ("names", "seg_len", "how"),
    [
        ("memories", 16, [{"mem_len": 0, "n_layer": 1}, {"mem_len": 16, "n_layer": 1}]),
        ("depths", 8, [{"mem_len": 8, "n_layer": n} for n in (1, 2, 3)]),
    ],
)
def test_the_line_of_code_shows_what_the_package_says_can_be_seen(names, seg_len, how):
    given: dict = {}
    exec(CELLS["seen"], given)
    exec(CELLS["layers"], given)
    line, rows = given["line"], given[names]
    reaches = [memory.reach((len(line) - 1) % seg_len, seg_len=seg_len, **one) for one in how]
    assert [sum(told) for told in rows.values()] == [reach + 1 for reach in reaches]
    picture = readable({"tokens": line, "seg_len": seg_len, "rows": rows})
    (axes,) = picture.figure.axes
    written = [words.get_text() for words in axes.texts]
    for row, reach in enumerate(reaches):
        shown = written[row * (len(line) + 1) :][: len(line) + 1]
        assert shown[-1] == "?"
        assert "".join(shown[:-1]) == line[-reach - 1 :].replace(" ", "␣")
        assert shown[: len(line) - reach - 1] == [""] * (len(line) - reach - 1)
        looks = [box.get_hatch() for box in axes.patches[row * (len(line) + 1) :][: len(line)]]
        assert looks == ["" if text else "////" for text in shown[:-1]]
    for name, reach in zip(rows, reaches, strict=True):
        assert f"{name}: from the last {reach + 1}" in picture.alt


def test_a_good_guess_needs_the_memory():
    given: dict = {}
    exec(CELLS["seen"], given)
    seen = {
        name: "".join(token for token, one in zip(given["line"], told, strict=True) if one)
        for name, told in given["memories"].items()
    }
    assert "height" in seen["memory of 16"]
    assert "height" not in seen["no memory"]


def test_the_prediction_is_judged_answer_by_answer():
    right = {"better_predictions": "xl", "longest_reach": 127, "cheaper": "cached"}
    assert all(verdict.right for verdict in check_prediction(right).values())
    for name, wrong in (("better_predictions", "vanilla"), ("longest_reach", 64), ("cheaper", "sliding")):
        found = check_prediction(right | {name: wrong})
        assert [key for key, verdict in found.items() if not verdict.right] == [name]
    given: dict = {}
    exec(CELLS["prediction"], given)
    assert check_prediction(given["my_prediction"]).keys() == right.keys()
    assert "nothing here yet" in check_prediction({"longest_reach": ...})["longest_reach"].message


def test_the_solution_that_is_folded_away_reaches_1000():
    layers, size = re.search(r"N = (\d+), L = M = (\d+)", CELLS["exercise-2"]).groups()
    verdict = check_choice({"n_layer": int(layers), "seg_len": int(size), "mem_len": int(size)})
    assert repr(verdict) == "right: 1,000 tokens"


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        ((2, 501, 500), "one layer's reach; 2 layers reach 1,501"),
        ((4, 200, 200), "off by one: 999"),
        ((1, 1, 1001), "off by one: 1,001"),
        ((4, 250, 250), "is N·M, which leaves the query's own offset out"),
        ((5, 150, 50), "is N·(M + L), which counts the segment again"),
        ((2, 10, 10), "29 tokens"),
        ((0, 10, 10), "1 layer and 1 token"),
        ((2, ..., 10), "nothing here yet"),
    ],
)
def test_a_wrong_choice_gets_its_sentence(choice, sentence):
    verdict = check_choice(dict(zip(("n_layer", "seg_len", "mem_len"), choice, strict=True)))
    assert not verdict.right
    assert sentence in verdict.message


def test_the_widget_draws_what_the_result_holds():
    stored = results.read(ROOT / "figures" / "memory_and_positions.json")
    names = {"stored": stored, "figures": figures, "explore": explore}
    exec(CELLS["widget"], names)
    assert names["lengths"] == [row["mem_len"] for row in stored.data["xl_memory"]["by_memory"]]
    for row in stored.data["xl_memory"]["by_memory"]:
        first, second, third = names["with_memory"](row["mem_len"]).figure.axes
        values = row["bits"]["mean"], row["longest_reach"], row["microseconds_per_token"]["mean"]
        for axes, value in zip((first, second, third), values, strict=True):
            marked = axes.lines[1]
            assert (marked.get_xdata()[0], marked.get_ydata()[0]) == (row["mem_len"], value)


def test_the_map_names_fourteen_notebooks_in_order():
    linked = re.findall(r"^\| (\d\d) \| \[(\w+)\]\((\w+)\.ipynb\)", CELLS["course-map"], re.MULTILINE)
    assert [number for number, _, _ in linked] == [f"{number:02}" for number in range(14)]
    assert all(file == f"{number}_{name}" for number, name, file in linked)
