"""Notebook 04: its checks, its widget, and its hand-built pieces."""

import pytest
import torch
from matplotlib.colors import to_rgba
from page import Page

from minitxl import memory
from minitxl.analysis import dependency_reach
from minitxl.course.checks import gradient_parts, recurrence, segment_loop
from minitxl.figures.recurrence import gradient_cut
from minitxl.figures.recurrence import memory as drawn
from minitxl.figures.systems import MEMORY
from minitxl.memory import extend

CHECKS = {
    "extend-blank": recurrence.check_extend,
    "read-blank": segment_loop.check_read,
    "split-blank": gradient_parts.check_split_gradient,
    "exercise-lifetime": recurrence.check_segments_in_memory,
    "exercise-keep": recurrence.check_keep,
    "exercise-cuts": segment_loop.check_read_with_cuts,
}
PAGE = Page("04_recurrence", explore=lambda draw, **choices: choices, extend=extend)


@pytest.mark.parametrize("cell", CHECKS)
def test_the_solution_is_right_and_the_stub_is_not_there_yet(cell):
    PAGE.assert_solved_by_its_solution_alone(cell, CHECKS[cell])


@pytest.mark.parametrize(
    ("attempt", "sentence"),
    [
        (dependency_reach.extend_with_gradient, "stop-gradient is missing"),
        (lambda old, new, mem_len: extend(old, new, mem_len=mem_len).requires_grad_(), "stop-gradient"),
        (
            lambda old, new, mem_len: (
                new.detach()[:, :, new.shape[2] - mem_len :]
                if mem_len <= new.shape[2]
                else extend(old, new, mem_len=mem_len)
            ),
            "is a view",
        ),
        (lambda old, new, mem_len: None, "it returns nothing"),
        (
            lambda old, new, mem_len: extend(old, new, mem_len=mem_len) + 1,
            "mem_len = 3, you returned [[[[3], [4], [5]]]], right is [[[[2], [3], [4]]]]",
        ),
    ],
)
def test_an_extend_is_told_what_is_missing(attempt, sentence):
    verdict = recurrence.check_extend(attempt)
    assert not verdict.right
    assert sentence in verdict.message


def test_the_adding_model_says_what_each_query_sees():
    model = segment_loop.Adder()
    sums = segment_loop.read(model, torch.arange(1, 7)[None], 2, 2)
    assert sums[0, :, 0].tolist() == [1, 3, 1 + 2 + 3, 1 + 2 + 3 + 4, 3 + 4 + 5, 3 + 4 + 5 + 6]


def test_predictions_are_judged_on_their_own_merits():
    answers = {"first_query": 257, "staircase": 12, "weights": "yes", "old_states": "no"}
    assert all(verdict.right for verdict in recurrence.PREDICTIONS.check(answers).verdicts)
    for question in recurrence.PREDICTIONS.questions:
        assert question.answer == answers[question.name]
        for guess, sentence in question.wrong.items():
            assert question.judge(guess).message.casefold().endswith(sentence.casefold())
        assert f"| `{question.name}` |" in PAGE.cells["example-after"]


def test_the_answers_to_the_predictions_are_those_of_the_package():
    graph = dependency_reach.propagate(0, n_layer=1, seg_len=256, mem_len=256, n_segment=3)
    assert graph.sees[-1].sum() == 257
    assert sum(memory.reach(offset, n_layer=1, seg_len=16, mem_len=4) >= 8 for offset in range(16)) == 12


def test_the_lanes_of_the_check_equal_an_empty_memory_grown_by_the_present_text():
    space = PAGE.run("torch.manual_seed(0)", PAGE.cells["invariant"], read=segment_loop.read)
    model, small = space["model"], space["small"]
    past = torch.randn(small.n_layer, 3, 4, small.d_model).double()
    tokens, lengths = torch.randint(16, (3, 3)), torch.tensor([0, 2, 9])
    masked, _ = model(tokens, past, key_mask=recurrence.keep_flags(lengths, 4, 3))
    for lane, length in enumerate(lengths.clamp(max=4).tolist()):
        alone, _ = model(tokens[lane : lane + 1], past[:, lane : lane + 1, 4 - length :])
        torch.testing.assert_close(masked[lane], alone[0], rtol=0, atol=1e-12)


def in_memory(cell):
    return cell.get_facecolor() == to_rgba(MEMORY.fill)


@pytest.mark.parametrize(("seg_len", "mem_len"), [(2, 0), (4, 4), (3, 1), (2, 12), (4, 6)])
def test_the_widget_shows_the_memory_and_the_sight_of_the_package(seg_len, mem_len):
    space = PAGE.run("example-figure")
    for step in range(space["STEPS"]):
        data = space["step_data"](step, seg_len, mem_len)
        graph = dependency_reach.propagate(
            seg_len - 1, n_layer=1, seg_len=seg_len, mem_len=mem_len, n_segment=step + 1
        )
        last = graph.sees[-seg_len:]
        assert data["sees"] == [row.nonzero()[:, 0].tolist() for row in last]
        states, seen = space["draw"](step, seg_len, mem_len).figure.axes
        kept = {round(cell.get_x() + 0.44) for cell in states.patches if in_memory(cell)}
        assert sorted(kept) == data["memory"] == list(range(max(0, step * seg_len - mem_len), step * seg_len))
        assert sum(map(in_memory, seen.patches)) == len(data["memory"]) * seg_len
        assert (
            sum(bool(cell.get_hatch()) for cell in seen.patches) == seg_len * (seg_len - 1) // 2
        )  # the future


@pytest.mark.parametrize(
    ("cell", "right", "wrong"),
    [
        ("layer", "1 + past.shape[1]", "1"),
        ("layer", "layer.W_q(x)", "layer.W_q(context)[:, : x.shape[1]]"),
        ("invariant", "seg_len * (mem_len // seg_len + 1)", "seg_len + mem_len"),
        ("invariant", "(mem_len // seg_len + 1)", "(mem_len / seg_len + 1)"),
        ("gradient-split", "context, made.grad, 4", "context, made.grad.flip(1), 4"),
    ],
)
def test_a_hand_built_piece_is_right_or_the_notebook_stops(cell, right, wrong):
    before = ["torch.manual_seed(0)", "invariant", "gradient", "split-blank-stub", "gradient-split"]
    needed = before[: before.index(cell)] if cell in before else before[:1]
    space = PAGE.run(*needed, read=segment_loop.read)
    exec(PAGE.cells[cell], space)
    broken = PAGE.cells[cell].replace(right, wrong)
    assert broken != PAGE.cells[cell]
    space = PAGE.run(*needed, read=segment_loop.read)
    with pytest.raises(AssertionError):
        exec(broken, space)


def test_without_the_stop_gradient_the_old_states_get_one_and_the_notebook_stops():
    flowing = PAGE.cells["gradient"].replace("extend(", "dependency_reach.extend_with_gradient(")
    with pytest.raises(AssertionError):
        PAGE.run("invariant", flowing, "split-blank-stub", "gradient-split", read=segment_loop.read)


def test_a_step_holds_the_same_bytes_at_every_segment_or_the_notebook_stops():
    before = ["SEG_LEN, MEM_LEN = 16, 16"]
    few = PAGE.cells["cost"].replace("range(5)", "range(1)")
    costs = PAGE.run(*before, few, device="cpu")["costs"]
    bytes_held = [megabytes for megabytes, _ in costs["stopped"]]
    assert len(set(bytes_held[1:])) == 1
    with pytest.raises(AssertionError):
        PAGE.run(*before, few.replace("if update is memory.extend and", "if False and"), device="cpu")


def test_cut_edges_shows_each_edge_once_and_the_norms():
    graph = dependency_reach.propagate(3, n_layer=2, seg_len=4, mem_len=4, n_segment=3)
    data = {"n_layer": 2, "seg_len": 4, "mem_len": 4, "time": 12}
    data |= {"edges": [graph.edges(n).tolist() for n in range(2)], "reached": graph.reached.tolist()}
    norms = {"W_k": {"segment": 2.0, "memory": 3.0}, "states": {"segment": 1.0, "memory": 0.0}}
    states, marks = gradient_cut.cut_edges(data, norms).figure.axes
    own, cut, behind = (collection.get_segments() for collection in states.collections)
    assert len(own) + len(cut) + len(behind) == sum(map(len, data["edges"]))
    assert all(line[0][0] < 8 <= line[1][0] for line in cut)
    assert all(line[1][0] < 8 for line in behind)
    assert [mark.get_ydata()[0] for mark in marks.lines] == [2.0, 3.0, 1.0]
    assert [text.get_text() for text in marks.texts] == ["0: cut"]
    assert memory.longest_reach(n_layer=2, seg_len=4, mem_len=4) == 11


def test_growth_shows_both_quantities_for_both_ways():
    ways = {"stopped": "cut", "flowing": "not cut"}
    numbers = {"megabytes": {"stopped": [1.0, 2.0], "flowing": [1.0, 5.0]}}
    numbers["milliseconds"] = {"stopped": [3.0, 3.0], "flowing": [3.0, 9.0]}
    picture = gradient_cut.growth({"ways": ways} | numbers)
    for axes, quantity in zip(picture.figure.axes, numbers.values(), strict=True):
        assert [list(line.get_ydata()) for line in axes.lines] == list(quantity.values())
    assert "not cut: 1.00 to 5.00 MB, 3.0 to 9.0 ms" in picture.alt


def test_sides_shows_each_value_and_tells_both_sides_of_the_line():
    data = {"title": "T", "label": "accuracy", "xlabel": "offset", "sides": ("before", "after")}
    data |= {"rows": ["M = 0", "M = 2"], "columns": range(3), "cuts": [2, 0]}
    picture = drawn.sides(data | {"values": [[0.1, 0.2, 1.0], [1.0, 1.0, None]]})
    axes, _ = picture.figure.axes
    assert [text.get_text() for text in axes.texts] == [".10", ".20", "1", "1", "1"]
    assert axes.lines[0].get_xdata().tolist() == [1.5, -0.5, -0.5]
    assert "M = 0: 0.10 to 0.20 before, 1.00 after; M = 2: none before, 1.00 after" in picture.alt
    picture = drawn.sides(data | {"label": "right, %", "values": [[10, 20, 100], [100, 100, None]]})
    assert [text.get_text() for text in picture.figure.axes[0].texts] == ["10", "20", "100", "100", "100"]
    assert "M = 0: 10 to 20 before, 100 after" in picture.alt
