"""Notebook 06: its checks, its widget, and its hand-built pieces."""

import pytest
import torch
from page import Page

from minitxl import figures, memory
from minitxl.analysis import dependency_reach
from minitxl.course.checks import reach as checks
from minitxl.data import corpora
from minitxl.experiments import relay_routes
from minitxl.experiments.shared.runner import compute
from minitxl.figures.recurrence import dependency_graph

CHECKS = {
    "propagate-blank": checks.check_propagate,
    "derive": checks.check_second_hop,
    "exercise-reach": checks.check_reach,
    "exercise-gradient": checks.check_gradient_reach,
    "exercise-memory": checks.check_smallest_memory,
}
PAGE = Page("06_dependency_reach", propagate=checks.propagate, second_hop=checks.second_hop)


@pytest.mark.parametrize("cell", CHECKS)
def test_the_solution_is_right_and_the_stub_is_not_there_yet(cell):
    PAGE.assert_solved_by_its_solution_alone(cell, CHECKS[cell])


@pytest.mark.parametrize("sizes", [(8, 2, 2), (11, 4, 3), (9, 3, 0), (13, 5, 7)])
def test_who_sees_whom_is_the_packages_mask(sizes):
    time, seg_len, mem_len = sizes
    by_hand = PAGE.run("who-sees")["who_sees"](*sizes)
    assert torch.equal(by_hand, checks.who_sees(*sizes))
    graph = dependency_reach.propagate(
        (time - 1) % seg_len,
        n_layer=1,
        seg_len=seg_len,
        mem_len=mem_len,
        n_segment=1 + (time - 1) // seg_len,
    )
    assert torch.equal(by_hand, graph.sees)


def test_predictions_are_judged_on_their_own_merits():
    lengths = {"n_layer": 3, "seg_len": 4}
    answers = {
        "reach": memory.reach(3, mem_len=6, **lengths),
        "gradient": memory.reach(3, mem_len=0, **lengths),
        "relay": "not learned",
    }
    assert all(verdict.right for verdict in checks.PREDICTIONS.check(answers).verdicts)
    for question in checks.PREDICTIONS.questions:
        for guess, sentence in question.wrong.items():
            assert question.judge(guess).message.casefold().endswith(sentence.casefold())
        assert f"| `{question.name}` |" in PAGE.cells["predict"]


BY_HAND = "who-sees", "perturb", "backward", "agree", "formula"


@pytest.fixture(scope="module")
def by_hand():
    """The names after the hand-built pieces, which agree."""
    return PAGE.run(*BY_HAND)


@pytest.mark.usefixtures("by_hand")
@pytest.mark.parametrize(
    ("cell", "right", "wrong"),
    [
        ("formula", "offset + mem_len +", "mem_len +"),
        ("formula", "(n_layer - 1)", "n_layer"),
        ("formula", "second_hop(seg_len, mem_len)", "mem_len"),
        ("agree", "stopped == offset", "stopped == offset + mem_len"),
        ("backward", "update).max()", "memory.extend).max()"),
        ("perturb", "memory.extend)", "lambda past, states, mem_len: states[:, :, :0])"),
        ("who-sees", "query - query % seg_len - mem_len", "query - mem_len"),
    ],
)
def test_the_hand_built_pieces_agree_or_the_notebook_stops(cell, right, wrong):
    broken = PAGE.cells[cell].replace(right, wrong)
    assert broken != PAGE.cells[cell]
    with pytest.raises(AssertionError):
        PAGE.run(*(broken if name == cell else name for name in BY_HAND))


@pytest.mark.parametrize(("n_layer", "seg_len", "mem_len"), [(1, 4, 4), (2, 3, 5), (3, 4, 0)])
def test_perturbation_and_backward_by_hand_equal_the_packages(by_hand, n_layer, seg_len, mem_len):
    model, lengths = by_hand["random_model"](n_layer), {"seg_len": seg_len, "mem_len": mem_len}
    tokens = torch.arange(5 * seg_len) * 7 % 11
    changed = dependency_reach.changes(model, tokens, **lengths) > 0
    assert torch.equal(by_hand["perturb"](model, tokens, **lengths), changed)
    for update in (memory.extend, dependency_reach.extend_with_gradient):
        norms = dependency_reach.gradients(model, tokens, update=update, **lengths)
        torch.testing.assert_close(by_hand["backward"](model, tokens, update=update, **lengths), norms)


@pytest.mark.parametrize("window", ["none", 3])
@pytest.mark.parametrize(
    ("n_layer", "seg_len", "mem_len", "offset"), [(3, 4, 4, 3), (2, 3, 5, 9), (4, 6, 8, 0)]
)
def test_the_cone_shows_the_states_that_the_package_says_are_reached(
    n_layer, seg_len, mem_len, offset, window
):
    draw = PAGE.run("example-cone")["cone"]
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
    assert f"the farthest {memory.reach(offset, **lengths)} tokens before it" in picture.alt
    gradient = memory.reach(offset, **lengths | {"mem_len": 0})
    assert max(last - time for time, _ in own) == gradient
    assert f"gradient goes {gradient} tokens back" in picture.alt
    farthest = [last - time for time in picture.figure.axes[0].lines[3].get_xdata()]
    assert farthest == [dependency_reach.farthest(row) for row in graph.reached.flip(0)]


def test_a_short_stream_is_numbered_by_its_tokens_and_a_long_one_by_the_distance_to_the_query():
    draw = PAGE.run("example-cone")["cone"]
    short, long = (draw(2, 2, 2, 1).figure.axes[0], draw(3, 4, 4, 3).figure.axes[0])
    assert [label.get_text() for label in short.get_xticklabels()] == [str(t) for t in range(8)]
    assert short.get_xlabel() == "token of the stream"
    assert long.get_xlabel() == "tokens back from the query"


def test_offsets_are_whole_numbers_on_the_axis_of_the_copying_figure():
    row = {"distance": 6, "hops": [2, 2, 1, 1]}
    curve = [{"mean": 0.5, "seeds": [0.5]}] * 4
    ends = {"1_hop": {"mean": 0.5}, "2_hop": {"mean": 0.5}}
    row |= {name: {"by_offset": curve} | ends for name in ("stopped", "flowing")}
    sizes = {"seg_len": 4, "mem_len": 4, "n_layer": 2, "chance": 0.125}
    (axes,) = figures.copying(sizes | {"rows": [row]}).figure.axes
    assert all(tick == int(tick) for tick in axes.get_xticks())


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


def test_relay_routes_runs_end_to_end_at_toy_size_and_draws_the_sharp_heads():
    no_text = corpora.from_bytes("none", b"x")
    settings = relay_routes.settings("quick", no_text)
    settings |= {"seg_len": 4, "mem_len": 4, "distances": [6], "steps": 2, "batch": 2, "test_streams": 8}
    values = compute(relay_routes.parts(settings, no_text, seeds=[0, 1], device="cpu"))
    data = relay_routes.collect(settings, no_text, values)
    (row,) = data["rows"]
    assert row["hops"] == [2, 2, 1, 1]
    assert [len(seed["accuracy"]) for seed in row["seeds"]] == [4, 4]
    for seed in row["seeds"]:
        distances = torch.tensor(seed["distance"])  # [layer head offset]
        assert distances.shape == (2, 4, 4)
        assert ((distances >= 0) & (distances <= torch.arange(4) + 4)).all()
    first = row["seeds"][0]
    first["weight"] = [[[0.9, 0.1, 0.4, 0.5]] * 4] * 2
    first["distance"] = [[[2, 0, 2, 3]] * 4, [[4, 4, 4, 4]] * 4]
    (axes,) = figures.relay_routes(data).figure.axes
    drawn = [(bar.get_x() + 0.4, bar.get_y(), bar.get_height()) for bar in axes.patches]
    assert drawn == [(0, 0, 4), (0, 4, 2), (1, 0, 0), (1, 0, 0)]  # at offset 1 no head is sharp
