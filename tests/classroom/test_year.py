"""Another year: everyone's numbers are others, the year's own solution is right, and last year's is not."""

import nbformat
import pytest
from support import small_course
from support.small_course import FOLDER, NAME, loaded

from minitxl.course.grading import number_shares, variant
from minitxl.course.marking.isolation import strongest
from minitxl.course.marking.judge import judged, trial_of
from minitxl.course.marking.notebooks import Assignment, Handed, read

SHEETS = sorted(FOLDER.glob("[1-9]_*.ipynb"))


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    folder = tmp_path_factory.mktemp("course of 2027")
    (folder / "course.toml").write_text('year = "2027"\n', "utf-8")
    return small_course.build(folder, tmp_path_factory.mktemp("source"))


def points(course, submission):
    """Return the points for each function of a submission of Ada's."""
    assignment = Assignment.of(course, NAME)
    job = {"owner": "ada", "cells": Handed(assignment, submission).to_run(), "imports": assignment.imports}
    found = judged(job | {"tests": assignment.tests, "seed": 3}, strongest())
    return {part["function"]: part["score"] for part in found}


@pytest.mark.parametrize("version", ["source", "release", "solution"])
def test_each_version_of_a_course_draws_the_numbers_of_its_year(course, version):
    imports = Assignment(NAME, read(course / version / NAME / f"{NAME}.ipynb")).imports
    names = {}
    exec(imports, names)
    assert names["variant"]("ada", layers=range(2, 99)) == variant("ada", year="2027", layers=range(2, 99))


def test_the_years_solution_gets_full_points(course):
    solved = read(course / "solution" / NAME / f"{NAME}.ipynb")
    assert points(course, solved) == {"double": 5, "my_numbers": 3}


@pytest.mark.parametrize("year", ["", "2026"])
def test_last_years_numbers_get_none(course, year):
    old = variant("ada", year=year, layers=range(2, 99))
    assert old != variant("ada", year="2027", layers=range(2, 99))
    numbers = f'def my_numbers():\n    return {{"student": "ada", "layers": {old["layers"]}}}'
    submission = small_course.notebook(double=small_course.DOUBLE, numbers=numbers)
    assert points(course, submission) == {"double": 5, "my_numbers": 0}


def numbers_of(path, year):
    """Return what an assignment's solution counts for Ada in a year, and the trial of that year."""
    notebook = loaded("build").of_year(nbformat.read(path, as_version=4), year)
    assignment, names = Assignment(path.stem, notebook), {}
    exec(assignment.imports, names)
    exec(assignment.cells["numbers"].source, names)
    (test,) = (one for one in assignment.tests if one["cell"] == "numbers-test")
    return names["my_numbers"](), trial_of(assignment.imports, test["source"])[2]


@pytest.mark.parametrize("path", SHEETS, ids=lambda path: path.stem)
def test_the_numbers_of_each_assignment_are_those_of_the_year(path):
    given, trial = numbers_of(path, "2027")
    assert number_shares(given, trial, "ada")[0].right
    for year in ("", "2026"):
        old, _ = numbers_of(path, year)
        _, right = number_shares(old, trial, "ada")
        assert right == {name: given[name] == old[name] for name in right}
        assert not all(right.values())
