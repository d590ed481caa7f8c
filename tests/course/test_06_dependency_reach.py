"""Notebook 06: its checks, its widget, and its hand-built pieces."""

import re
from itertools import product
from pathlib import Path

import nbformat
import pytest
import torch
from einops import rearrange, reduce

from minitxl import context, memory, reach
from minitxl.checks import reach as judges
from minitxl.figures import hops

ROOT = Path(__file__).parent.parent.parent
CELLS = {
    cell.id: cell.source
    for cell in nbformat.read(ROOT / "notebooks" / "06_dependency_reach.ipynb", as_version=4).cells
}
EXERCISES = {
    "exercise-reach": judges.check_reach,
    "exercise-gradient": judges.check_gradient_reach,
    "exercise-recl": judges.check_recl,
}
NAMES = {
    "context": context,
    "hops": hops,
    "memory": memory,
    "product": product,
    "reach": reach,
    "rearrange": rearrange,
    "reduce": reduce,
    "torch": torch,
}


def run(*cells: str, **names) -> dict:
    space = NAMES | names
    for cell in cells:
        exec(CELLS.get(cell, cell), space)
    return space


def solution(cell: str):
    (code,) = re.findall(r"```python\n(.*?)```", CELLS[cell], flags=re.DOTALL)
    return run(code)[re.search(r"def (\w+)", code)[1]]


@pytest.mark.parametrize("cell", EXERCISES)
def test_the_solution_is_right_and_the_stub_is_not_there_yet(cell):
    check = EXERCISES[cell]
    assert check(solution(cell)).right
    stub = CELLS[f"{cell}-stub"].partition("\n\n\n")[0]
    verdict = check(run(stub)[re.search(r"def (\w+)", stub)[1]])
    assert (verdict.right, verdict.message) == (False, "there is nothing here yet")


@pytest.mark.parametrize("check", EXERCISES.values())
def test_each_mistake_gets_its_own_sentence(check, monkeypatch):
    seen = {}
    judge = judges.judge
    monkeypatch.setattr(judges, "judge", lambda attempt, **all_: seen.update(all_) or judge(attempt, **all_))
    state = torch.get_rng_state()
    check(lambda *case: 0)
    assert len(seen["mistakes"]) >= 5
    for sentence, mistake in seen["mistakes"].items():
        verdict = check(mistake)
        assert (verdict.right, verdict.message) == (False, sentence)
    assert torch.equal(torch.get_rng_state(), state)


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
    run(*before, cell)
    broken = CELLS[cell].replace(right, wrong, 1)
    assert broken != CELLS[cell]
    with pytest.raises(AssertionError):
        run(*before, broken)


@pytest.mark.parametrize("window", ["none", 3])
@pytest.mark.parametrize(
    ("n_layer", "seg_len", "mem_len", "offset"), [(3, 4, 4, 3), (2, 3, 5, 9), (4, 6, 8, 0)]
)
def test_the_cone_shows_the_states_that_the_package_says_are_reached(
    n_layer, seg_len, mem_len, offset, window
):
    draw = run(CELLS["widget"].partition("\n\n\nexplore(")[0])["cone"]
    picture = draw(n_layer, seg_len, mem_len, offset, window)
    offset, window = min(offset, seg_len - 1), None if window == "none" else window
    lengths = {"n_layer": n_layer, "seg_len": seg_len, "mem_len": mem_len, "window": window}
    graph = reach.propagate(offset, **lengths)
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


def test_the_map_shows_the_formula():
    shown = []
    run("map", hops=type("Figures", (), {"reach_map": lambda data: shown.append(data)}))
    (data,) = shown
    grid, line, _ = hops.reach_map(data).figure.axes
    for row, n_layer in enumerate(data["layers"]):
        for column, ratio in enumerate(data["ratios"]):
            expected = memory.longest_reach(n_layer=n_layer, seg_len=64, mem_len=int(64 * ratio))
            assert grid.images[0].get_array()[row, column] == expected
    assert line.lines[-1].get_ydata().tolist() == data["curve"]["reach"]
    assert [text.get_text() for text in grid.texts][:2] == ["63", "95"]
