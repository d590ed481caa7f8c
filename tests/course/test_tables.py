import re

import pytest
import torch

from minitxl.course.tables import grid, table

ROWS = [
    {"system": "absolute", "bits": 2.871, "layers": 3},
    {"system": "xl <b>", "bits": 12.5, "layers": 1200},
]


def test_a_table_aligns_its_columns_and_rounds_by_column():
    shown = repr(table(ROWS, caption="Bits", digits={"bits": 1})).splitlines()
    assert shown == ["Bits", "system    bits  layers", "absolute   2.9       3", "xl <b>    12.5   1,200"]


def test_a_table_is_html_with_names_of_rows_and_columns():
    html = table(ROWS)._repr_html_()
    assert html.count('scope="col"') == 3
    assert html.count('scope="row"') == 2
    first, second, *_ = re.findall(r'<th scope="col" style="text-align: (\w+)', html)
    assert (first, second) == ("left", "right")  # as their cells
    assert "xl &lt;b&gt;" in html


def test_no_line_of_a_header_ends_at_the_sign_of_a_formula():
    html = table([{"model": "small", "no window, (N + 1)·L − 1": 15}])._repr_html_()
    assert "no window, (N&nbsp;+&nbsp;1)·L&nbsp;−&nbsp;1</th>" in html


def test_two_dollars_in_a_table_make_no_formula():
    html = table([{"text": "$1 and $2"}])._repr_html_()
    assert html.startswith('<table class="mathjax_ignore"')
    assert "$1 and $2" in html


def test_rows_of_other_columns_are_refused():
    with pytest.raises(ValueError, match="all rows must have the columns system, bits, layers, got system"):
        table([ROWS[0], {"system": "one"}])


def test_a_grid_labels_its_axes_and_leaves_masked_cells_empty():
    mask = torch.ones(2, 2).tril().bool()
    shown = grid(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), mask=mask, digits=1, caption="scores")
    assert repr(shown).splitlines() == [
        "scores",
        "         key 0  key 1",
        "query 0    1.0",
        "query 1    3.0    4.0",
    ]
    assert shown._repr_html_().count("<td") == 4


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: table([]), "a table must have one row or more, got none"),
        (lambda: grid(torch.zeros(3)), r"a grid must have rows and columns, got the shape \[3\]"),
        (lambda: grid(torch.zeros(2, 3), rows=["a"]), "rows must hold 2 labels, got 1"),
        (lambda: grid(torch.zeros(2, 3), mask=torch.ones(2, 2)), r"shape \[2, 3\], got \[2, 2\]"),
    ],
)
def test_what_is_no_table_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_what_is_missing_is_a_dash_and_no_zero_is_negative():
    assert repr(table([{"a": "x", "b": None, "c": -0.001}])).splitlines()[1] == "x  –  0.00"
    assert repr(table([{"a": "-", "b": -1200, "c": -0.25}])).splitlines()[1] == "-  −1,200  −0.25"


def test_columns_of_words_are_flush_left_and_those_of_numbers_flush_right():
    rows = [{"name": "a", "memory": "helps", "at": "≥ 12", "shared": "–"}, {"name": "b", "memory": "level",
        "at": "never", "shared": None}]  # fmt: skip
    shown = table(rows, caption="two")
    assert repr(shown).splitlines()[1:] == [
        "name  memory     at  shared",
        "a     helps    ≥ 12       –",
        "b     level   never       –",
    ]
    html = shown._repr_html_()
    sides = re.findall(r'<th scope="col" style="text-align: (\w+)', html)
    assert sides == ["left", "left", "right", "right"]
    assert re.findall(r'<td style="text-align: (\w+)', html) == ["left", "right", "right"] * 2
