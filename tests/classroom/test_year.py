"""Another year: everyone's numbers are others, the year's own solution is right, and last year's is not."""

import shutil

import nbformat
import pytest
from support import small_course
from support.small_course import FOLDER, NAME, loaded

from minitxl.course.grading import number_shares, variant
from minitxl.course.marking.classroom import Course
from minitxl.course.marking.isolation import strongest
from minitxl.course.marking.judge import judged, trial_of
from minitxl.course.marking.notebooks import Assignment, Handed, read
from minitxl.course.marking.rules import EXAMPLE

BACK = 'write "2027" back into it'
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


@pytest.fixture
def other_year(course, tmp_path):
    """Return a copy of the course, with another year in its rules."""
    folder = shutil.copytree(course, tmp_path / "course")
    (folder / "course.toml").write_text('year = "2028"\n', "utf-8")
    return folder


def test_a_course_whose_year_was_changed_after_it_was_built_is_not_marked(other_year):
    small_course.hand_in(other_year, "ada", read(other_year / "solution" / NAME / f"{NAME}.ipynb"))
    with pytest.raises(ValueError, match=BACK) as error:
        Course.of(other_year, strongest(), 1).mark(NAME, again=False, progress=lambda _: None)
    assert str(error.value).startswith(
        f'{NAME} was built for year = "2027", and course.toml has year = "2028"'
    )


def test_before_anything_is_handed_in_the_year_may_change(other_year, tmp_path):
    small_course.build(other_year, tmp_path)
    assert Assignment.of(other_year, NAME).year == "2028"


@pytest.mark.parametrize("place", [f"downloaded/{NAME}/ada.ipynb", f"submitted/ada/{NAME}/{NAME}.ipynb"])
def test_once_something_is_handed_in_the_year_stays(other_year, tmp_path, place):
    (other_year / place).parent.mkdir(parents=True)
    nbformat.write(small_course.notebook(), other_year / place)
    with pytest.raises(ValueError, match=BACK):
        small_course.build(other_year, tmp_path)
    assert Assignment.of(other_year, NAME).year == "2027"


def test_a_project_has_no_numbers_and_so_no_year(other_year):
    Course.of(other_year, strongest(), 1).rules.check_year("project", None)
    assert Assignment("project", nbformat.v4.new_notebook()).year is None


def test_who_builds_a_new_course_is_told_to_write_the_year_first(tmp_path, monkeypatch, capsys):
    build = loaded("build")
    monkeypatch.setattr(build, "build", lambda course, _: (course / "course.toml").write_text(EXAMPLE))
    monkeypatch.setattr("sys.argv", ["build.py", str(tmp_path)])
    build.main()
    assert "write one into it and give this command again" in capsys.readouterr().out
    build.main()
    assert "the year" not in capsys.readouterr().out


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
