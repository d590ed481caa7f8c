"""A course from the teacher's guide, by its own commands, with the real nbgrader: from release to grades."""

import csv
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook

ROOT = Path(__file__).parents[2]
ASSIGNMENTS = ROOT / "notebooks" / "assignments"
NAMES = [path.stem for path in sorted(ASSIGNMENTS.glob("*.ipynb"))]
IN_EVERY_TEST = "3_memory"
"""The assignment that `make test` takes through nbgrader; `make classroom-check` takes all."""
GUIDE = (ASSIGNMENTS / "README.md").read_text("utf-8")
ENVIRONMENT = os.environ | {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "JUPYTER_PLATFORM_DIRS": "1",
    "OMP_NUM_THREADS": "1",
}


def commands():
    """The guide's commands, one a line, without their comments."""
    block = re.search(r"## A course, command by command.*?```sh\n(.*?)```", GUIDE, re.DOTALL)[1]
    return [shlex.join(shlex.split(line, comments=True)) for line in block.splitlines() if line.strip()]


def run(command, where):
    """Run one command of the guide, as it stands there."""
    done = subprocess.run(
        shlex.split(command), cwd=where, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def cells_of(notebook):
    return {cell.id: cell for cell in notebook.cells}


def careless(solved):
    """A submission with what goes wrong in classrooms: a mistake, a loop, a test that was edited."""
    cells = cells_of(solved)
    solutions = [
        c for c in cells.values() if (f := c.metadata.get("nbgrader")) and f.solution and not f.grade
    ]
    first, second, third, *_ = solutions
    for cell, body in ((first, "return 0"), (second, "while True:\n        pass"), (third, "return 0")):
        cell.source = re.sub(r"\):\n.*", f"):\n    {body}", cell.source, count=1, flags=re.DOTALL)
    third.source += "\n\n\nimport minitxl.course.grading\n\nminitxl.grading.grade = print"
    cells[f"{third.id}-test"].source = "pass"
    return {f"{cell.id}-test" for cell in (first, second, third)}


each_assignment = [
    pytest.param(name, marks=() if name == IN_EVERY_TEST else pytest.mark.every_assignment) for name in NAMES
]


@pytest.fixture(scope="module", params=each_assignment)
def marked(request, tmp_path_factory):
    """A course in which one assignment was handed out, collected and marked; and which cells lost points."""
    name, course = request.param, tmp_path_factory.mktemp("classroom")
    run(f"{sys.executable} {ASSIGNMENTS / 'build.py'} {course} {name}", ROOT)
    (course / "students.csv").write_text("id,first_name,last_name\nada,,\nblank,,\ncareless,,\n")
    archive = course / "downloaded" / name / "archive"
    archive.mkdir(parents=True)
    solved = nbformat.read(course / "solution" / name / f"{name}.ipynb", as_version=4)
    nbformat.write(solved, archive / f"ada_{name}.ipynb")
    lost = careless(solved)
    nbformat.write(solved, archive / f"careless_{name}.ipynb")
    (archive / f"blank_{name}.ipynb").write_bytes((course / "release" / name / f"{name}.ipynb").read_bytes())
    for command in commands():
        if command.startswith("nbgrader"):
            run(command.replace(NAMES[0], name), course)
    return name, course, lost


def marks(course, name, student):
    """Points by graded cell, and which of them a person must mark."""
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        grades = gradebook.find_submission_notebook(name, name, student).grades
        return {grade.name: (grade.score, grade.max_score, grade.needs_manual_grade) for grade in grades}


def test_the_reference_gets_every_point_but_those_a_person_gives(marked):
    name, course, _ = marked
    for cell, (score, most, by_hand) in marks(course, name, "ada").items():
        assert by_hand == (cell == "written")
        assert score == (0 if by_hand else most), cell


def test_what_was_handed_in_blank_gets_none(marked):
    name, course, _ = marked
    assert {score for score, *_ in marks(course, name, "blank").values()} == {0}


def test_mistakes_loops_and_edited_tests_cost_their_own_points_alone(marked):
    name, course, lost = marked
    found = marks(course, name, "careless")
    assert {cell for cell, (score, _, by_hand) in found.items() if score == 0 and not by_hand} == {
        *lost,
        "numbers-test",
    }


def test_feedback_says_why(marked):
    name, course, _ = marked
    page = (course / "feedback" / "careless" / name / f"{name}.html").read_text("utf-8")
    assert "it takes more than 10 seconds: is there a loop that never ends?" in page
    assert "these are the numbers of" in page
    assert "Look at" in page
    assert "Trial(" not in page
    assert "output_error" not in (course / "feedback" / "ada" / name / f"{name}.html").read_text("utf-8")


def test_a_mark_by_hand_makes_it_full_and_grades_are_exported(marked):
    name, course, _ = marked
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        submission = gradebook.find_submission(name, "ada")
        grade = gradebook.find_grade("written", name, name, "ada")
        grade.manual_score = grade.max_score
        gradebook.db.commit()
        assert submission.score == submission.max_score == 30
    run("nbgrader export --to grades.csv", course)
    exported = (course / "grades.csv").read_text("utf-8").splitlines()
    rows = {row["student_id"]: row for row in csv.DictReader(exported)}
    assert float(rows["ada"]["score"]) == float(rows["ada"]["max_score"]) == 30
    assert float(rows["blank"]["score"]) == 0


def test_no_secret_is_handed_out(marked):
    name, course, _ = marked
    assert [path.name for path in (course / "release" / name).iterdir()] == [f"{name}.ipynb"]
    handed_out = (course / "release" / name / f"{name}.ipynb").read_text("utf-8")
    instructors = nbformat.read(course / "source" / name / f"{name}.ipynb", as_version=4)
    assert not re.search(r"BEGIN|HIDDEN|Trial\(|mistakes", handed_out)
    written = cells_of(instructors)["written"].source
    assert not [line for line in written.splitlines() if len(line) > 20 and line in handed_out]


def test_the_solution_that_is_handed_out_afterwards_has_no_hidden_tests(marked):
    name, course, _ = marked
    solution = (course / "solution" / name / f"{name}.ipynb").read_text("utf-8")
    assert "BEGIN SOLUTION" in solution
    assert not re.search(r"HIDDEN|Trial\(|mistakes", solution)
