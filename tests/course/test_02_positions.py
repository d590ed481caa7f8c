"""Notebook 02: its solutions, its checks and its pieces."""

import re
from pathlib import Path

import nbformat
import pytest
import torch

from minitxl.checks import positions as checks
from minitxl.positions import sinusoids

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "02_positions.ipynb"
CELLS = {cell.id: cell.source for cell in nbformat.read(NOTEBOOK, as_version=4).cells}
EXERCISES = {
    "exercise-sinusoids": (checks.check_sinusoids, "my_sinusoids"),
    "exercise-move": (checks.check_move, "move"),
    "exercise-alike": (checks.check_alike, "my_pair"),
}


def solution(cell):
    names = {"torch": torch}
    (code,) = re.findall(r"```python\n(.*?)```", CELLS[cell], flags=re.DOTALL)
    exec(code, names)
    return names[EXERCISES[cell][1]]


@pytest.mark.parametrize("cell", EXERCISES)
def test_the_folded_solution_is_right_and_the_stub_not_yet(cell):
    check, name = EXERCISES[cell]
    state = torch.get_rng_state()
    assert check(solution(cell)).right
    stub = {}
    exec(CELLS[f"{cell}-stub"].partition("\ncheck_")[0], stub)
    assert repr(check(stub[name])).startswith("not yet: there is nothing here yet")
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("check", [checks.check_sinusoids, checks.check_move])
def test_each_mistake_gets_its_own_sentence(check, monkeypatch):
    seen, judge = {}, checks.judge
    monkeypatch.setattr(checks, "judge", lambda attempt, **all_: seen.update(all_) or judge(attempt, **all_))
    check(lambda *_: 0)
    assert len(seen["mistakes"]) >= 5
    for sentence, mistake in seen["mistakes"].items():
        assert repr(check(mistake)) == f"not yet: {sentence}"


@pytest.mark.parametrize(
    ("pair", "told"),
    [
        (("ab", "ab"), "the same word twice"),
        (("ab", "ba"), "the query itself differs"),
        (("aa", "aaa"), "no order in a word of one letter"),
        (("abc", "adc"), "only one of the words has the letter b"),
        (("aabc", "abbc"), "the letter a is 1/2 of the first word and 1/4 of the second"),
        (("", "a"), "a word is empty"),
        ("ab", "nothing here yet"),
    ],
)
def test_two_words_that_one_layer_tells_apart_are_told_apart_by_a_reason(pair, told):
    verdict = checks.check_alike(pair)
    assert not verdict.right
    assert told in verdict.message


@pytest.mark.parametrize("pair", [("abc", "bac"), ("abab", "baab"), ("ab", "aabb")])
def test_two_words_of_one_bag_are_alike(pair):
    assert checks.check_alike(pair).right


@pytest.mark.parametrize("steps", [-3, 1, 12])
def test_turning_the_sinusoids_moves_them(steps):
    places = torch.tensor([4.0, 20.0, 9.0])
    moved = checks.rotated(sinusoids(places, 10), steps)
    torch.testing.assert_close(moved, sinusoids(places + steps, 10), rtol=0, atol=1e-5)


def test_the_hand_built_sinusoids_equal_the_packages_or_the_notebook_stops():
    names = {}
    exec(CELLS["setup"], names)
    source = CELLS["sinusoids-by-hand"]
    exec(source, names)
    for right, wrong in (("-2 * m", "-m"), ("sin(angle), cos(angle)", "cos(angle), sin(angle)")):
        assert right in source
        with pytest.raises(AssertionError):
            exec(source.replace(right, wrong), names)
