"""A course from the teacher's guide, by its own commands, with the real nbgrader: from release to grades."""

import csv
import os
import re
import shlex
import shutil
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
    lines = re.sub(r"git clone .*\ncd .*\n", "", block).splitlines()
    return [shlex.join(shlex.split(line, comments=True)) for line in lines if line.strip()]


def run(words, where):
    """Run one command of the guide."""
    done = subprocess.run(words, cwd=where, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def made(words, stamps):
    """The recipe of a target of make, which would install what is missing, with this Python."""
    for stamp in ("ready", "ready-test", "ready-book", "ready-classroom"):
        (stamps / stamp).touch()
    shown = run([*words, "--dry-run", "--no-print-directory", f"VENV={stamps}"], ROOT)
    return shlex.split(shown.replace(f"{stamps}/bin/python", sys.executable))


def follow(course, name, stamps, by_hand):
    """Give the guide's commands one after the other, for one assignment and another folder."""
    where, said = ROOT, []
    for command in commands():
        words = shlex.split(command.replace("../classroom", str(course)).replace(NAMES[0], name))
        words = [f"NAMES={name[0]}" if word.startswith("NAMES=") else word for word in words]
        if words[0] == "make":
            built = [name[0]] if words[1] == "assignments" else []
            said.append(run(made(words, stamps) + built, where))
        elif words[0] == "cd":
            where = ROOT if words[1] == "-" else Path(words[1])
        elif words[:2] == ["jupyter", "lab"]:
            by_hand(course, name)
        elif words[0] == "mkdir":
            run(words, where)
            hand_in(course, name)
        elif words[0] != ".":
            run([sys.executable if words[0] == "python" else words[0], *words[1:]], where)
    return said


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


LOST = {}
"""Cells that the careless student lost, by assignment."""


def hand_in(course, name):
    """Save what comes back: all right, careless, and blank."""
    downloaded = course / "downloaded" / name
    (course / "students.csv").write_text("id,first_name,last_name\nada,,\nblank,,\ncareless,,\nmissing,,\n")
    solved = nbformat.read(course / "solution" / name / f"{name}.ipynb", as_version=4)
    nbformat.write(solved, downloaded / f"ada_{name}.ipynb")
    LOST[name] = careless(solved)
    nbformat.write(solved, downloaded / f"careless_{name} (1).ipynb")
    shutil.copy(course / "release" / name / f"{name}.ipynb", downloaded / f"blank_{name}.ipynb")


def written_by_hand(course, name):
    """Full points for Ada's answer, as Formgrader gives them."""
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        grade = gradebook.find_grade("written", name, name, "ada")
        grade.manual_score, grade.needs_manual_grade = grade.max_score, False
        gradebook.db.commit()


@pytest.fixture(scope="module", params=each_assignment)
def marked(request, tmp_path_factory):
    """A course in which one assignment was handed out, collected, marked and handed back by the guide."""
    name, course = request.param, tmp_path_factory.mktemp("classroom")
    said = follow(course, name, tmp_path_factory.mktemp("stamps"), written_by_hand)
    return name, course, said


def marks(course, name, student):
    """Points by graded cell, and which of them a person must mark."""
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        grades = gradebook.find_submission_notebook(name, name, student).grades
        return {grade.name: (grade.score, grade.max_score, grade.needs_manual_grade) for grade in grades}


def test_the_reference_gets_every_point(marked):
    name, course, _ = marked
    for cell, (score, most, by_hand) in marks(course, name, "ada").items():
        assert not by_hand, cell
        assert score == most, cell


def test_what_was_handed_in_blank_gets_none(marked):
    name, course, _ = marked
    assert {score for score, *_ in marks(course, name, "blank").values()} == {0}


def test_mistakes_loops_and_edited_tests_cost_their_own_points_alone(marked):
    name, course, _ = marked
    found = marks(course, name, "careless")
    assert {cell for cell, (score, most, by_hand) in found.items() if score < most and not by_hand} == {
        *LOST[name],
        "numbers-test",
    }


def test_feedback_says_why(marked):
    name, course, _ = marked
    page = (course / "feedback" / "careless" / name / f"{name}.html").read_text("utf-8")
    assert "it takes more than 10 seconds: is there a loop or a recursion that never ends?" in page
    assert "by which this was handed in: write it there, and draw your numbers with it" in page
    assert "Look at" in page
    assert "Trial(" not in page
    assert "not yet" not in (course / "feedback" / "ada" / name / f"{name}.html").read_text("utf-8")


def test_the_tables_and_the_export_have_everyone(marked):
    name, course, said = marked
    *_, last = said
    assert "0 marked in" in last, "the second marking judges no one again"
    with (course / "marks" / name / "marks.csv").open(newline="") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    assert (rows["ada"]["points"], rows["ada"]["state"]) == ("30", "marked")
    assert rows["careless"]["state"] == "to mark by hand: the written question"
    assert rows["missing"]["state"] == "nothing handed in"
    with (course / "marks" / name / "suspicious.csv").open(newline="") as file:
        signs = {(row["student"], row["sign"]) for row in csv.DictReader(file)}
    assert {("careless", "tests edited or deleted"), ("careless", "another one's numbers")} <= signs
    with (course / "grades.csv").open(newline="") as file:
        exported = {row["student_id"]: row for row in csv.DictReader(file)}
    assert float(exported["ada"]["score"]) == float(exported["ada"]["max_score"]) == 30
    assert float(exported["blank"]["score"]) == 0


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
