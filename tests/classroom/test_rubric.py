"""The project as a notebook of tasks: made of its page, handed in, and marked by its rubric in formgrader."""

import csv
import re
from copy import deepcopy
from pathlib import Path

import nbformat
import pytest
from nbconvert.exporters import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from nbgrader.api import Gradebook
from nbgrader.nbgraderformat import MetadataValidator
from nbgrader.preprocessors import CheckCellMetadata, ClearMarkScheme
from nbgrader.server_extensions import formgrader
from support.small_course import FOLDER, loaded

from minitxl.course.marking.classroom import Course
from minitxl.course.marking.gradebook import marks, open_gradebook
from minitxl.course.marking.isolation import none

PAGE = (FOLDER / "project.md").read_text("utf-8")
ROWS = re.findall(r"^\| ([a-z ]+) \| (.+) \| (.+) \| (\d+) \|$", PAGE, re.MULTILINE)
POINTS = {part.replace(" ", "-"): int(points) for part, _, _, points in ROWS}


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    folder = tmp_path_factory.mktemp("course")
    build = loaded("build")
    build.build(folder, [build.PROJECT])
    (folder / "students.csv").write_text("id\nada\nbob\n")
    return folder


def version(course, name):
    return nbformat.read(course / name / "project" / "project.ipynb", as_version=4)


def tasks(notebook):
    return {one.metadata.nbgrader.grade_id: one for one in notebook.cells if "nbgrader" in one.metadata}


def test_each_row_of_the_rubric_is_a_task_with_its_points_and_a_mark_scheme(course):
    found = tasks(version(course, "source"))
    assert {name: cell.metadata.nbgrader.points for name, cell in found.items()} == POINTS
    assert sum(POINTS.values()) == 100
    for (_, full, half, points), cell in zip(ROWS, found.values(), strict=True):
        assert cell.metadata.nbgrader.task
        scheme = re.search(r"=== BEGIN MARK SCHEME ===\n(.*)=== END MARK SCHEME ===", cell.source, re.DOTALL)[
            1
        ]
        assert f"{points} points: {full}" in scheme
        assert f"{int(points) / 2:g} points: {half}" in scheme


@pytest.mark.parametrize("name", ["source", "release"])
def test_nbgrader_finds_both_versions_valid(course, name):
    notebook = version(course, name)
    nbformat.validate(notebook)
    MetadataValidator().validate_nb(notebook)
    CheckCellMetadata().preprocess(deepcopy(notebook), {})


def test_nbgrader_refuses_a_mark_scheme_that_is_in_no_task(course):
    notebook = version(course, "source")
    tasks(notebook)["question"].metadata.nbgrader.task = False
    with pytest.raises(RuntimeError, match="Manually graded task"):
        ClearMarkScheme().preprocess(notebook, {})


def test_students_get_the_tasks_without_the_scheme_and_the_page_with_the_rubric(course):
    released = version(course, "release")
    assert tasks(released).keys() == POINTS.keys()
    assert not [cell for cell in released.cells if "MARK SCHEME" in cell.source]
    assert "## Rubric" in released.cells[0].source
    assert not (course / "solution" / "project").exists()


def test_the_gradebook_has_the_points_of_each_part(course):
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        (book,) = gradebook.find_assignment("project").notebooks
        assert {cell.name: cell.max_score for cell in book.task_cells} == POINTS
        assert gradebook.find_assignment("project").max_score == 100


def report(course):
    """A student's project: own cells, a picture, a program in HTML, and text in a task's own cell."""
    notebook = version(course, "release")
    place = 1 + [cell.id for cell in notebook.cells].index("evaluation")
    outputs = [
        new_output("display_data", data={"image/png": "iVBORw0KGgo=", "text/html": "<script>x()</script>"}),
        new_output("stream", name="stdout", text="1.234 bits"),
    ]
    own = new_markdown_cell("Memory is worth 0.1 bits.")
    own.metadata.nbgrader = {"grade_id": "mine", "grade": True, "points": 1000}
    notebook.cells[place:place] = [own, new_code_cell("plot(runs)", outputs=outputs)]
    tasks(notebook)["question"].source += "\n\nDoes memory help?"
    notebook.cells = [cell for cell in notebook.cells if cell.id != "limits"]
    return notebook


@pytest.fixture(scope="module")
def marked(course):
    path = course / "downloaded" / "project" / "ada_project.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(report(course), path)
    other = nbformat.read(FOLDER / "3_memory.ipynb", as_version=4)
    nbformat.write(other, path.with_name("bob_project.ipynb"))
    return Course.of(course, none(), 1).mark("project", again=False, progress=lambda _: None)


def test_a_project_waits_for_a_person_and_another_notebook_is_none(course, marked):
    assert marked.unmarked == [("bob", "it must be project, and has none of its tasks")]
    with open_gradebook(course) as gradebook:
        (found,) = marks(gradebook, "project", ["ada", "bob"]).values()
    assert sorted(found["by hand"]) == sorted(POINTS)
    assert (found["score"], found["most"]) == (0, 100)


def test_formgrader_shows_each_scheme_with_a_field_for_its_points_among_the_students_cells(course, marked):
    path = course / "autograded" / "ada" / "project" / "project.ipynb"
    MetadataValidator().validate_nb(nbformat.read(path, as_version=4))
    templates = Path(formgrader.__file__).parent / "templates"
    exporter = HTMLExporter(template_name="formgrade", extra_template_basedirs=[str(templates)])
    names = (
        "assignment_id",
        "notebook_id",
        "submission_id",
        "student",
        "first_name",
        "last_name",
        "base_url",
    )
    resources = dict.fromkeys((*names, "notebook_path"), "x") | {"index": 0, "total": 1}
    page, _ = exporter.from_filename(str(path), resources=resources)
    for name, points in POINTS.items():
        assert re.search(rf'<input class="score tabbable" id="{name}".*/ {points}\.0', page), name
    assert page.count("BEGIN MARK SCHEME") == len(POINTS)
    for words in ("Memory is worth 0.1 bits.", "Does memory help?", "iVBORw0KGgo=", "1.234 bits"):
        assert words in page
    assert page.index("three seeds, curves") < page.index("Memory is worth 0.1 bits.")
    assert "<script>x()" not in page
    assert 'id="mine"' not in page


def test_the_points_by_hand_are_the_mark_and_stand_on_the_students_page(course, marked, capsys, monkeypatch):
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        for name, points in POINTS.items():
            grade = gradebook.find_grade(name, "project", "project", "ada")
            grade.manual_score, grade.needs_manual_grade = points / 2, False
        gradebook.find_comment("limits", "project", "project", "ada").manual_comment = "One seed & no more?"
        gradebook.db.commit()
    program = loaded("mark")
    for words in ([], ["--feedback"]):
        argv = ["mark.py", str(course), "project", "--isolation", "none", *words]
        monkeypatch.setattr("sys.argv", argv)
        program.main()
    with (course / "marks" / "project" / "marks.csv").open(newline="") as file:
        (ada, bob) = csv.DictReader(file)
    assert (ada["points"], ada["of"], ada["state"]) == ("50", "100", "marked")
    assert bob["state"] == "look at it: it must be project, and has none of its tasks"
    page = (course / "feedback" / "ada" / "project" / "project.html").read_text("utf-8")
    assert "<b>50 of 100 points</b>" in page
    assert re.search(
        r"<td>limits</td><td class=\"points\">5 of 10 points</td><td>One seed &amp; no more\?</td>", page
    )
    assert "MARK SCHEME" not in page


def test_a_notebook_that_formgrader_lost_is_laid_out_again(course, marked):
    path = course / "autograded" / "ada" / "project" / "project.ipynb"
    path.unlink()
    Course.of(course, none(), 1).mark("project", again=False, progress=lambda _: None)
    assert path.exists()
