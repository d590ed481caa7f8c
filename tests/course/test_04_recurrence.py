"""Notebook 04: its checks, its widget, and its hand-built pieces."""

import pytest
import torch
from page import Page, assert_each_mistake_gets_its_own_sentence

from minitxl import memory
from minitxl.analysis import dependency_reach
from minitxl.course.checks import recurrence as judges
from minitxl.figures.recurrence import memory as drawn
from minitxl.memory import extend

EXERCISES = {"exercise-extend": judges.check_extend, "exercise-keep": judges.check_keep}
PAGE = Page("04_recurrence", explore=lambda draw, **choices: choices)


@pytest.mark.parametrize("cell", EXERCISES)
def test_the_solution_is_right_and_the_stub_is_not_there_yet(cell):
    PAGE.assert_solved_by_its_solution_alone(cell, EXERCISES[cell])


@pytest.mark.parametrize("check", EXERCISES.values())
def test_each_mistake_gets_its_own_sentence(check, monkeypatch):
    assert_each_mistake_gets_its_own_sentence(check, judges, monkeypatch, wrong=torch.zeros(()), least=6)


@pytest.mark.parametrize(
    ("attempt", "sentence"),
    [
        (
            lambda old, new, mem_len: dependency_reach.extend_with_gradient(old, new, mem_len=mem_len),
            "stop-gradient is missing",
        ),
        (lambda old, new, mem_len: extend(old, new, mem_len=mem_len).requires_grad_(), "stop-gradient"),
        (
            lambda old, new, mem_len: (
                new.detach()[:, :, new.shape[2] - mem_len :]
                if mem_len <= new.shape[2]
                else extend(old, new, mem_len=mem_len)
            ),
            "is a view",
        ),
    ],
)
def test_an_extend_of_the_right_values_must_cut_the_graph_and_own_its_storage(attempt, sentence):
    verdict = judges.check_extend(attempt)
    assert not verdict.right
    assert sentence in verdict.message


def test_the_keep_of_the_check_equals_an_empty_memory_grown_by_the_present_text():
    space = PAGE.run("torch.manual_seed(0)", "read", "invariant")
    model, small = space["model"], space["small"]
    past = torch.randn(small.n_layer, 3, 4, small.d_model).double()
    tokens, read = torch.randint(16, (3, 3)), torch.tensor([0, 2, 9])
    found, _ = model(tokens, past, key_mask=judges.keep_flags(read, 4, 3))
    for lane, length in enumerate(read.clamp(max=4).tolist()):
        alone, _ = model(tokens[lane : lane + 1], past[:, lane : lane + 1, 4 - length :])
        torch.testing.assert_close(found[lane], alone[0], rtol=0, atol=1e-12)


def test_the_context_of_256_and_256_is_judged_number_by_number():
    right = {"fewest": 257, "mean": 384.5, "most": 512}
    asked = {"seg_len": 256, "mem_len": 256}
    for number in right.values():
        assert str(number) in PAGE.cells["exercise-context"]
    assert judges.check_context(right, **asked).right
    assert "nothing here yet" in judges.check_context(dict.fromkeys(right), **asked).message
    assert "sees itself too" in judges.check_context(right | {"fewest": 256}, **asked).message
    assert judges.check_context(right | {"mean": 512}, **asked).message.startswith("mean: ")


@pytest.mark.parametrize(("seg_len", "mem_len"), [(2, 0), (4, 4), (3, 1), (2, 12), (4, 6)])
def test_the_widget_shows_the_memory_and_the_sight_of_the_package(seg_len, mem_len):
    space = PAGE.run("widget")
    for step in range(space["STEPS"]):
        data = space["step_data"](step, seg_len, mem_len)
        graph = dependency_reach.propagate(
            seg_len - 1, n_layer=1, seg_len=seg_len, mem_len=mem_len, n_segment=step + 1
        )
        last = graph.sees[-seg_len:]
        assert data["sees"] == [row.nonzero()[:, 0].tolist() for row in last]
        states, seen = space["draw"](step, seg_len, mem_len).figure.axes
        kept = {round(cell.get_x() + 0.44) for cell in states.patches if cell.get_hatch()}
        assert sorted(kept) == data["memory"] == list(range(max(0, step * seg_len - mem_len), step * seg_len))
        hatched = sum(cell.get_hatch() is not None and bool(cell.get_hatch()) for cell in seen.patches)
        assert hatched == len(data["memory"]) * seg_len


@pytest.mark.parametrize(
    ("cell", "right", "wrong"),
    [
        ("deque", "deque(maxlen=mem_len)", "deque(maxlen=mem_len + 1)"),
        ("layer", "1 + past.shape[1]", "1"),
        ("layer", "layer.W_q(x)", "layer.W_q(context)[:, : x.shape[1]]"),
        ("invariant", "mem_len=24", "mem_len=20"),
        ("invariant", "range(4 + mem_len)", "range(mem_len)"),
        ("gradient-split", "context[:, :4]", "context[:, 1:5]"),
        ("without-cut", "update is extend else 12", "update is extend else 11"),
    ],
)
def test_a_hand_built_piece_is_right_or_the_notebook_stops(cell, right, wrong):
    before = ["torch.manual_seed(0)", "read", "invariant", "gradient", "gradient-split", "without-cut"]
    needed = before[: before.index(cell)] if cell in before else before[:1]
    space = PAGE.run(*needed)
    exec(PAGE.cells[cell], space)
    broken = PAGE.cells[cell].replace(right, wrong)
    assert broken != PAGE.cells[cell]
    space = PAGE.run(*needed)
    with pytest.raises(AssertionError):
        exec(broken, space)


def test_without_the_stop_gradient_the_old_states_get_one_and_the_notebook_stops():
    needed = [
        "read",
        "invariant",
        PAGE.cells["gradient"].replace("extend(", "dependency_reach.extend_with_gradient("),
    ]
    with pytest.raises(AssertionError):
        PAGE.run(*needed, "gradient-split")


def test_cut_edges_shows_each_edge_once_and_the_lengths():
    graph = dependency_reach.propagate(3, n_layer=2, seg_len=4, mem_len=4, n_segment=3)
    data = {"n_layer": 2, "seg_len": 4, "mem_len": 4, "time": 12}
    data |= {"edges": [graph.edges(n).tolist() for n in range(2)], "reached": graph.reached.tolist()}
    lengths = {"W_k": {"segment": 2.0, "memory": 3.0}, "states": {"segment": 1.0, "memory": 0.0}}
    states, bars = drawn.cut_edges(data, lengths).figure.axes
    own, cut, behind = (collection.get_segments() for collection in states.collections)
    assert len(own) + len(cut) + len(behind) == sum(map(len, data["edges"]))
    assert all(line[0][0] < 8 <= line[1][0] for line in cut)
    assert all(line[1][0] < 8 for line in behind)
    assert [bar.get_height() for bar in bars.patches] == [1.0, 1.5, 1.0, 0.0]
    assert memory.longest_reach(n_layer=2, seg_len=4, mem_len=4) == 11


def test_sides_shows_each_value_and_tells_both_sides_of_the_line():
    data = {"title": "T", "label": "accuracy", "xlabel": "offset", "sides": ("before", "after")}
    data |= {"rows": ["M = 0", "M = 2"], "columns": range(3), "cuts": [2, 0]}
    picture = drawn.sides(data | {"values": [[0.1, 0.2, 1.0], [1.0, 1.0, None]]})
    axes, _ = picture.figure.axes
    assert [text.get_text() for text in axes.texts] == [".10", ".20", "1", "1", "1"]
    assert axes.lines[0].get_xdata().tolist() == [1.5, -0.5, -0.5]
    assert "M = 0: 0.10 to 0.20 before, 1.00 after; M = 2: none before, 1.00 after" in picture.alt
