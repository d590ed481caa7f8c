"""Each wrong solution that students hand in loses the same points for any seed, and is told why."""

import re
import runpy
from dataclasses import replace

import pytest
from sheet import ALL, SEEDS, SOURCES, WRONG

WRONG_OF = {sheet: runpy.run_path(str(WRONG / f"{sheet.stem}.py"))["WRONG"] for sheet in ALL}


@pytest.mark.parametrize(
    ("sheet", "words"),
    [(sheet, words) for sheet, wrong in WRONG_OF.items() for words in wrong],
    ids=lambda value: value if isinstance(value, str) else value.stem,
)
def test_a_wrong_solution_loses_the_same_points_for_any_seed_and_is_told_why(sheet, words):
    cell, *changes = WRONG_OF[sheet][words]
    sheet.check_wrong(words, cell, changes)


@pytest.mark.parametrize("size", ["q.shape[0]", "q.shape[1]", "q.shape[2]", "k.shape[2]"])
@pytest.mark.parametrize(
    "function", ["1/attend", "1/layer", "3/look", "4/scores", "4/layer", "5/terms", "5/layer"]
)
def test_the_root_of_another_size_loses_the_same_points_for_any_seed(function, size):
    """No two sizes of a case are the same, by which the wrong one would be right."""
    number, cell = function.split("/")
    (sheet,) = (one for one in ALL if one.stem[0] == number)
    width = "dim" if function == "5/layer" else "q.shape[-1]"
    names = sheet.handed_in(cell, f"sqrt({width})", f"sqrt({size})")
    attempt, trial = sheet.trial(f"{cell}-test")
    groups = [replace(trial(seed), mistakes={}).shares(names[attempt])[1] for seed in SEEDS]
    assert not all(groups[0].values())
    assert all(right == groups[0] for right in groups), groups


@pytest.mark.parametrize("sheet", ALL, ids=lambda sheet: sheet.stem)
def test_every_graded_function_meets_five_wrong_solutions(sheet):
    assert sheet.fewest(WRONG_OF[sheet]) >= 5


@pytest.mark.parametrize("sheet", ALL, ids=lambda sheet: sheet.stem)
def test_the_guide_says_how_many_wrong_solutions_cost_how_much_of_their_functions_points(sheet):
    costs = [sheet.cost(cell, changes) for cell, *changes in WRONG_OF[sheet].values()]
    small, every = sum(2 * lost <= most for lost, most in costs), sum(lost == most for lost, most in costs)
    guide = (SOURCES / "README.md").read_text("utf-8")
    row = f"  | {sheet.stem[0]} | {small} | {len(costs) - small - every} | {every} |\n"
    table = re.search(r"Of the wrong solutions that `make test` marks.*?\n\n(.*?\n)\n", guide, re.DOTALL)[1]
    assert row in table
