"""Each wrong solution that students hand in loses the same points for any seed, and is told why."""

import runpy

import pytest
from sheet import ALL, WRONG

WRONG_OF = {sheet: runpy.run_path(str(WRONG / f"{sheet.stem}.py"))["WRONG"] for sheet in ALL}


@pytest.mark.parametrize(
    ("sheet", "words"),
    [(sheet, words) for sheet, wrong in WRONG_OF.items() for words in wrong],
    ids=lambda value: value if isinstance(value, str) else value.stem,
)
def test_a_wrong_solution_loses_the_same_points_for_any_seed_and_is_told_why(sheet, words):
    cell, *changes = WRONG_OF[sheet][words]
    sheet.check_wrong(words, cell, changes)


@pytest.mark.parametrize("sheet", ALL, ids=lambda sheet: sheet.stem)
def test_every_graded_function_meets_five_wrong_solutions(sheet):
    assert sheet.fewest(WRONG_OF[sheet]) >= 5
