"""Notebook 06: its checks, its widget, and its hand-built pieces."""

import pytest
from page import Page, assert_each_mistake_gets_its_own_sentence

from minitxl import memory
from minitxl.analysis import context_length, dependency_reach
from minitxl.course.checks import reach as judges
from minitxl.figures.recurrence import dependency_graph

EXERCISES = {
    "exercise-reach": judges.check_reach,
    "exercise-gradient": judges.check_gradient_reach,
    "exercise-recl": judges.check_recl,
}
PAGE = Page("06_dependency_reach")


@pytest.mark.parametrize("cell", EXERCISES)
def test_the_solution_is_right_and_the_stub_is_not_there_yet(cell):
    PAGE.assert_solved_by_its_solution_alone(cell, EXERCISES[cell])


@pytest.mark.parametrize("check", EXERCISES.values())
def test_each_mistake_gets_its_own_sentence(check, monkeypatch):
    assert_each_mistake_gets_its_own_sentence(check, judges, monkeypatch, wrong=0, least=5)


@pytest.mark.parametrize(
    ("cell", "right", "wrong"),
    [
        ("formula-by-hand", "(-mem_len) % seg_len + mem_len", "mem_len"),
        ("formula-by-hand", "(n_layer - 1)", "n_layer"),
        ("propagate-by-hand", "range(n_layer):", "range(n_layer - 1):"),
        ("propagate-by-hand", "query - query % seg_len - mem_len", "query - mem_len"),
        ("gain-by-hand", '"min")', '"max")'),
        ("gain-by-hand", "topk(", "neg().topk("),
    ],
)
def test_the_hand_built_equals_the_packages_or_the_notebook_stops(cell, right, wrong):
    before = ("formula-by-hand",) if cell == "propagate-by-hand" else ()
    PAGE.run(*before, cell)
    broken = PAGE.cells[cell].replace(right, wrong, 1)
    assert broken != PAGE.cells[cell]
    with pytest.raises(AssertionError):
        PAGE.run(*before, broken)


@pytest.mark.parametrize("window", ["none", 3])
@pytest.mark.parametrize(
    ("n_layer", "seg_len", "mem_len", "offset"), [(3, 4, 4, 3), (2, 3, 5, 9), (4, 6, 8, 0)]
)
def test_the_cone_shows_the_states_that_the_package_says_are_reached(
    n_layer, seg_len, mem_len, offset, window
):
    draw = PAGE.run("one-hop-cone")["cone"]
    picture = draw(n_layer, seg_len, mem_len, offset, window)
    offset, window = min(offset, seg_len - 1), None if window == "none" else window
    lengths = {"n_layer": n_layer, "seg_len": seg_len, "mem_len": mem_len, "window": window}
    graph = dependency_reach.propagate(offset, **lengths)
    hidden, through_memory, own = (
        {tuple(node) for node in line.get_xydata().astype(int).tolist()}
        for line in picture.figure.axes[0].lines[:3]
    )
    last = max(time for time, _ in own)
    back = {(last - time, layer) for time, layer in own | through_memory}
    expected = {
        (graph.reached.shape[1] - 1 - time, layer) for layer, time in graph.reached.nonzero().tolist()
    }
    assert back == expected
    assert all(last - time <= offset for time, _ in own)
    assert all(last - time > offset for time, _ in hidden & through_memory | through_memory)
    assert f"told of {memory.reach(offset, **lengths)} tokens" in picture.alt
    gradient = memory.reach(offset, **lengths | {"mem_len": 0})
    assert max(last - time for time, _ in own) == gradient
    assert f"takes it {gradient} tokens back" in picture.alt
    farthest = [last - time for time in picture.figure.axes[0].lines[3].get_xdata()]
    assert farthest == [dependency_reach.farthest(row) for row in graph.reached.flip(0)]


def test_large_marks_stand_on_the_curves_where_the_walk_stops():
    shown = []
    figures = type("Figures", (), {"effective_lengths": lambda data: shown.append(data)})
    space = PAGE.run("recl-relative-code", dependency_graph=figures)
    picture = dependency_graph.effective_lengths(shown[0])
    for axes, (title, group) in zip(picture.figure.axes, space["groups"].items(), strict=True):
        found = context_length.recl(group, r=1.0)
        for (name, losses), line, mark in zip(group.items(), axes.lines[::2], axes.lines[1::2], strict=True):
            curve = {length: loss.mean().item() for length, loss in losses.items()}
            assert dict(line.get_xydata().tolist()) == curve
            assert mark.get_xydata().tolist() == [[found[name].tokens, curve[found[name].tokens]]]
        told = ", ".join(f"{name} {one.tokens} (" for name, one in found.items()).split(", ")
        assert all(f"{title}: " in picture.alt and words in picture.alt for words in told)


def test_the_map_shows_the_formula():
    shown = []
    PAGE.run("map", dependency_graph=type("Figures", (), {"reach_map": lambda data: shown.append(data)}))
    (data,) = shown
    grid, line, _ = dependency_graph.reach_map(data).figure.axes
    for row, n_layer in enumerate(data["layers"]):
        for column, ratio in enumerate(data["ratios"]):
            expected = memory.longest_reach(n_layer=n_layer, seg_len=64, mem_len=int(64 * ratio))
            assert grid.images[0].get_array()[row, column] == expected
    assert line.lines[-1].get_ydata().tolist() == data["curve"]["reach"]
    assert [text.get_text() for text in grid.texts][:2] == ["63", "95"]
