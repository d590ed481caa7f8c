import re
from pathlib import Path

import nbformat
import pytest
import torch
from torch.nn.functional import pad

from minitxl.attention import attention_mask
from minitxl.course.checks import shift as checks
from minitxl.figures.positions.query_key_grid import numbered
from minitxl.figures.positions.terms import products
from minitxl.positions import distances, rel_shift

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "09_relative_shift.ipynb"
CELLS = {cell.id: cell.source for cell in nbformat.read(NOTEBOOK, as_version=4).cells}
CHECKS = {
    "exercise-1": ("my_shift", checks.check_rel_shift),
    "exercise-2-code": ("column", checks.check_column),
    "exercise-3-code": ("two_sided", checks.check_two_sided),
}


def run(*cells):
    found = {}
    for cell in cells:
        exec(CELLS[cell], found)
    return found


@pytest.mark.parametrize("cell", CHECKS)
def test_a_folded_solution_is_right_and_the_stub_is_not_yet(cell):
    name, check = CHECKS[cell]
    answers = CELLS[f"{cell.removesuffix('-code')}-help"]
    (solution,) = re.findall(r"```python\n(.*?)```", answers, flags=re.DOTALL)
    found = {"pad": pad, "rel_shift": rel_shift, "checks": checks}
    exec(solution, found)
    assert check(found[name]).right, check(found[name])
    exec(CELLS[cell], found)
    assert str(check(found[name])) == "blank: there is nothing here yet"


def of_line(scores, start, *, sides=(1, 0)):
    query, key = scores.shape[-2:]
    line = pad(scores, sides).flatten(-2)[..., start : start + query * key]
    return line.unflatten(-1, (query, key))


def square(scores):
    key = scores.shape[-1]
    return pad(scores, (1, 0)).flatten(-2).unflatten(-1, (key + 1, key))[..., 1:, :]


@pytest.mark.parametrize(
    ("check", "wrong", "sentence"),
    [
        (checks.check_rel_shift, lambda s: of_line(s, s.shape[-2], sides=(0, 1)), "on the wrong side"),
        (checks.check_rel_shift, lambda s: of_line(s, 0), "wrong end is sliced"),
        (checks.check_rel_shift, lambda s: pad(s, (1, 0))[..., 1:, :], "row of the padded matrix"),
        (checks.check_rel_shift, square, "query = key alone"),
        (checks.check_rel_shift, lambda s: of_line(s, 1), "one entry is dropped"),
        (checks.check_rel_shift, lambda s: s.roll(1 - s.shape[-2], dims=-1), "moved alike"),
        (checks.check_column, lambda i, j, query, key: key - 1 - (i - j), "behind the memory"),
        (checks.check_column, lambda i, j, query, key: key - query + i - j, "that is the distance"),
        (checks.check_column, lambda i, j, query, key: j + query - i, "off by one"),
        (checks.check_column, lambda i, j, query, key: i + j, "sign is wrong"),
        (
            checks.check_two_sided,
            lambda s: rel_shift(s[..., : s.shape[-1] - s.shape[-2] + 1]),
            "before the shift",
        ),
        (checks.check_two_sided, lambda s: rel_shift(s)[..., s.shape[-2] - 1 :], "the first of the shifted"),
        (checks.check_two_sided, rel_shift, "but the width"),
        (checks.check_two_sided, lambda s: s[..., : s.shape[-1] - s.shape[-2] + 1], "cut and not shifted"),
    ],
)
def test_a_mistake_is_called_by_its_name(check, wrong, sentence):
    before = torch.get_rng_state()
    verdict = check(wrong)
    assert not verdict.right
    assert sentence in verdict.message
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("old", "new"),
    [("(1, 0)", "(0, 1)"), ("[..., query:]", "[..., : -query]")],
)
def test_the_hand_built_shift_equals_the_packages_or_the_notebook_stops(old, new):
    names = run("setup", "loop", "trick")
    broken = CELLS["trick"].replace(old, new)
    assert broken != CELLS["trick"]
    with pytest.raises(AssertionError):
        exec(broken, names)


def test_vectors_are_counted_for_each_pair_and_for_each_distance():
    counted = run("setup", "two-ways", "count")["counted"]
    assert counted["pair"] == [key * key // 2 for key in counted["keys"]]
    assert counted["distance"] == counted["keys"]
    (axes,) = products(counted).figure.axes
    assert [list(line.get_ydata()) for line in axes.lines] == [counted["pair"], counted["distance"]]


@pytest.mark.parametrize(("query", "memory"), [(3, 2), (4, 0), (1, 3), (2, 1)])
def test_the_stepper_shows_what_the_package_computes(query, memory):
    names, key = run("setup", "frames", "widget"), memory + query
    shown = [names["stepper"](step, query, memory).figure.axes[0] for step in range(1, 7)]
    words = [[text.get_text() for text in axes.texts] for axes in shown]
    tickets = torch.arange(1.0, query * key + 1).reshape(query, key)
    last = rel_shift(tickets).flatten().int().tolist()
    label = {t: f"q{(t - 1) // key} d{key - 1 - (t - 1) % key}" for t in range(1, query * key + 1)} | {0: "0"}
    assert words[0] == [label[t] for t in range(1, query * key + 1)]
    assert words[4] == [label[t] for t in last]
    seen = attention_mask(query, key).flatten().tolist()
    assert words[5] == [label[t] if see else "" for t, see in zip(last, seen, strict=True)]
    hatched = [bool(box.get_hatch()) for box in shown[4].patches]
    assert hatched == [not see for see in seen]
    for i in range(query):  # along each row the distance falls to 0 at the query's own place
        own = memory + i
        assert words[5][i * key : i * key + own + 1] == [f"q{i} d{own - j}" for j in range(own + 1)]


def test_the_pictures_of_distances_hold_what_the_shift_puts_in_place():
    found = run("setup", "pairs-picture", "misplaced-picture")
    product, pairs = torch.tensor(found["product"]["numbers"]), found["pairs"]
    query, key = product.shape
    assert torch.equal(product, distances(key).expand(query, key))
    seen, moved = attention_mask(query, key)[0], rel_shift(product.float())
    wanted = [
        [number if see else None for number, see in zip(*rows, strict=True)]
        for rows in zip(moved.tolist(), seen.tolist(), strict=True)
    ]
    assert pairs["numbers"] == wanted
    assert found["seen"] == seen.sum()
    assert found["product"]["notes"] == [f"← by {query - 1 - i}" for i in range(query)]
    for panel in (pairs, found["product"], found["once"]):
        assert {panel["numbers"][row][column] for row, column in panel["framed"]} == {3}


def test_a_picture_of_pairs_writes_each_number_and_hatches_the_future():
    panels = {"one": {"numbers": [[1, 0, None], [2, 1, 0]], "rows": "query", "columns": "key", "mem_len": 1}}
    picture = numbered({"panels": panels})
    (axes,) = picture.figure.axes
    assert [words.get_text() for words in axes.texts if words.get_text()] == ["1", "0", "2", "1", "0"]
    assert [bool(box.get_hatch()) for box in axes.patches] == [False, False, True, False, False, False]
    assert list(axes.lines[0].get_xdata()) == [1, 1]
    assert "one: 1 0 –, 2 1 0." in picture.alt
