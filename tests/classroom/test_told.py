"""Pages and tables of a small course: what a student is told of names, missing functions and imports."""

import csv
import json
import re
from html import unescape

import pytest
from nbformat.v4 import new_code_cell
from support import small_course
from support.small_course import DOUBLE, NAME, hand_in, loaded, notebook, numbers

from minitxl.course.marking import suspicion
from minitxl.course.marking.calls import UNFINISHED, with_calls
from minitxl.course.marking.classroom import Course
from minitxl.course.marking.isolation import strongest
from minitxl.course.marking.judge import CONSTANT, _as_json, _of_other_numbers, judged
from minitxl.course.marking.notebooks import Assignment, Handed, read, released
from minitxl.course.marking.report import tables

STUDENTS = "id,first_name,last_name,email\ndora,Dora,Rossi,\ngus,Gus,Olsen,\nzoe,Zoe,,zoe@x.org\n"
STUDENTS += "lea,,,\nned,,,\nola,,,\npia,,,\nrob,,,\neve,,,\nfrida,,,\nhal,,,\nivo,,,\nkim,,,\n4711,,,\n"
STUDENTS += "jo,,,\nmax,,,\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("you returned 3, right is 4", "it returned 3, right is 4"),
        (
            "first difference at [0, 1]: you -15.53, right 2 (3 of 4 differ)",
            "first difference at [0, 1]: it returned -15.53, right 2 (3 of 4 differ)",
        ),
    ],
)
def test_a_result_of_the_markings_own_run_is_told_as_what_the_function_returned(words, told):
    assert _of_other_numbers(words) == f"{CONSTANT}. In the marking's own run: {told}"


def test_what_is_neither_number_nor_text_in_a_students_numbers_is_no_name_of_another():
    given = _as_json({"student": Name(), "layers": 5, "width": [1]})
    assert given == {"student": None, "layers": 5, "width": "[1]"}
    assert suspicion.of_another(given, ["eve"], lambda student: ({"layers": 3}, {}), ["eve", "ivo"]) is None


class Name:
    """What some student returned as their name."""


def named(student, written):
    """Return a student's own right numbers, under a name as written."""
    return numbers(student).replace(f'"student": "{student}"', f'"student": {written!r}')


def calling(student):
    """Return numbers of a student's that call ``double``, by a function of their own."""
    own = f"def half(n):\n    return int(double(torch.ones(1))) * n // 2\n\n\n{numbers(student)}"
    return own.replace('mine["layers"]', 'half(mine["layers"])')


IMPORTS = """import math
import os.path
import no_such_module
import torch


def variant(*_, **__):
    return {"layers": 0}"""
HANDED_IN = {
    "dora": {"double": DOUBLE, "numbers": named("dora", "Dora Rossi")},
    "eve": {
        "imports": IMPORTS,
        "double": "def double(x):\n    return math.sqrt(4) * x",
        "numbers": numbers("eve"),
    },
    "frida": {"double": DOUBLE.replace("double", "doubled"), "numbers": "my_numbers = 3"},
    "gus": {"double": DOUBLE, "numbers": named("gus", "Dora Rossi")},
    "4711": {"double": DOUBLE, "numbers": named("4711", 4711)},
    "zoe": {"double": DOUBLE, "numbers": named("zoe", "Zoe@x.org")},
    "hal": {"double": "def double(x):\n    raise NotImplementedError()"},
    "ivo": {"double": "def double(x):\n    return twice(x)"},
    "lea": {"double": "def double(x):\n    raise NotImplementedError()", "numbers": calling("lea")},
    "ned": {"double": "def double(x):\n    return x", "numbers": calling("ned")},
    "ola": {"double": "def double(x)\n    return 2 * x", "numbers": calling("ola")},
    "pia": {
        "double": DOUBLE.replace("return", "if x is None:\n        raise NotImplementedError\n    return")
    },
    "rob": {
        "double": "def double(x):\n    if len(x) == 3:\n        raise NotImplementedError\n    return 2 * x"
    },
    "jo": {"double": "# see below"},
    "max": {},
    "kim": {"double": "def double(x):\n    return thrice(x)\n\n\nhalf = thrice(1) / 6"},
}
CHECK = "# Check yourself\nimport math\n\n\ndef twice(x):\n    return 2 * x\n\n\nassert double(1) == 2"


def judged_here(course, job):
    """Judge in this process, for each judge of its own imports torch; ``test_whole_notebooks`` has those."""
    return json.loads(json.dumps([*judged(job, course.isolation)]))


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course that is marked, with its pages."""
    folder = small_course.build(tmp_path_factory.mktemp("course"), tmp_path_factory.mktemp("source"))
    (folder / "students.csv").write_text(STUDENTS)
    for student, cells in HANDED_IN.items():
        submission = notebook(**cells)
        if student in ("ivo", "kim"):
            submission.cells.insert(1, new_code_cell(CHECK))
        if student == "jo":
            submission.cells.insert(
                3, new_code_cell(f"# Check yourself\n{DOUBLE}\n\n\nassert double(1) == 2")
            )
        if student == "max":
            (test,) = (cell for cell in submission.cells if cell.id == "double-test")
            test.source = DOUBLE
        hand_in(folder, student, submission)
    course = Course.of(folder, strongest(), 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Course, "_parts", judged_here)
        tables(course, course.mark(NAME, again=False, progress=lambda _: None))
    loaded("mark").write_feedback(course, NAME)
    return folder


def told(course, student, function):
    """Return the points of a function on a student's page, and what is said of it."""
    page = (course / "feedback" / student / NAME / f"{NAME}.html").read_text("utf-8")
    row = rf'<code>{function}</code></td><td class="points">(\S+) of \S+</td><td>(.*?)</td>'
    points, message = re.search(row, page, re.DOTALL).groups()
    return float(points), unescape(message)


def signs(course, student):
    with (course / "marks" / NAME / "suspicious.csv").open(newline="") as file:
        return [row["sign"] for row in csv.DictReader(file) if row["student"] == student]


@pytest.mark.parametrize("student", ["dora", "4711", "zoe"])
def test_own_numbers_under_a_name_of_the_list_count_and_are_no_sign(course, student):
    assert told(course, student, "my_numbers") == (3, "right")
    assert "another one's numbers" not in signs(course, student)


def test_who_writes_another_name_is_told_which_one_to_write(course):
    points, message = told(course, "gus", "my_numbers")
    assert points == 0
    assert message == (
        "student is 'Dora Rossi', and must be the user name 'gus', by which this was handed in: "
        "write it there, and draw your numbers with it"
    )
    assert "another one's numbers" not in signs(course, "gus"), "they are his own"


@pytest.mark.parametrize("function", ["double", "my_numbers"])
def test_a_filled_cell_without_the_function_is_told_that_its_name_is_missing(course, function):
    points, message = told(course, "frida", function)
    assert points == 0
    assert message == f"no function {function} is defined: leave the names of the functions as they are"


@pytest.mark.parametrize(
    ("student", "words"),
    [
        ("lea", "it calls your double, which is blank"),
        ("ola", "it calls your double, which is not defined, because its cell fails"),
        ("ned", ". It calls your double, which lost points itself: mend that first"),
    ],
)
def test_who_calls_an_own_function_that_lost_points_is_told_so(course, student, words):
    points, message = told(course, student, "my_numbers")
    assert points == 0
    assert message.endswith(words), message


def test_a_function_with_code_is_never_called_blank(course):
    assert told(course, "rob", "double") == (0, UNFINISHED)
    assert told(course, "pia", "double") == (5, "right")


def test_a_local_name_is_no_call():
    parts = [
        {"function": name, "score": 0.0, "most": 1, "message": "wrong", "undefined": ""} for name in "fg"
    ]
    found = with_calls(
        parts, [("f 0", "def f(g):\n    return g"), ("g 1", "def g():\n    f = 1\n    return f")]
    )
    assert found == parts


def test_a_function_that_is_still_blank_is_told_so(course):
    assert told(course, "hal", "double") == (0, "there is nothing here yet")


def test_who_defines_a_helper_in_a_check_is_told_where_it_stands(course):
    points, message = told(course, "ivo", "double")
    assert points == 0
    assert (
        "it raised NameError: “name 'twice' is not defined”. Look at notebook 99. Your notebook " in message
    )
    assert (
        "defines twice in a 'Check yourself' cell, and the marking runs none of these: put it into "
        in message
    )
    _, message = told(course, "kim", "double")
    assert "name 'thrice' is not defined”. Look at notebook 99. (For the person who marks" in message


@pytest.mark.parametrize(("student", "kind"), [("jo", "a 'Check yourself' cell"), ("max", "a test cell")])
def test_who_defines_the_function_in_a_cell_that_is_not_run_is_told_where_it_belongs(course, student, kind):
    points, message = told(course, student, "double")
    assert points == 0
    assert message == (
        f"your notebook defines double in {kind}, and the marking runs none of these: "
        "put it into the cell that the sheet has for it"
    )


def test_what_a_student_imports_in_the_first_cell_is_there_and_changes_no_name_of_the_assignments(course):
    assert told(course, "eve", "double") == (5, "right")
    assert told(course, "eve", "my_numbers") == (3, "right")


def test_an_import_that_the_marking_lacks_is_named_on_the_page(course):
    page = (course / "feedback" / "eve" / NAME / f"{NAME}.html").read_text("utf-8")
    words = "Left out of your notebook: statement 3 of the cell that begins with 'import math', "
    words += "“import no_such_module”: it raised ModuleNotFoundError: No module"
    assert words in unescape(page)


def test_a_statement_that_is_left_out_of_a_functions_cell_is_quoted_with_the_function_and_its_points(course):
    page = (course / "feedback" / "kim" / NAME / f"{NAME}.html").read_text("utf-8")
    words = (
        "Left out of your notebook: statement 2 of the cell of double (5 points), “half = thrice(1) / 6”: "
    )
    assert f"{words}it raised NameError: name 'thrice' is not defined." in unescape(page)


def test_a_first_cell_with_more_imports_is_no_edited_test_and_one_that_reaches_out_is_a_sign():
    assignment = Assignment(NAME, small_course.source())
    imports = "import math\nimport torch\nfound = open('answers.txt')"
    handed = Handed(assignment, notebook(imports=imports))
    assert "imports" not in handed.edited
    assert handed.own_code()["imports 0"] == imports
    assert suspicion.reaching(handed.own_code()) == {"imports 0": "open("}


def changed(cell, source):
    """Return assignment 2 handed in with a cell that was changed, or deleted where there is no source."""
    path = small_course.FOLDER / "2_segments.ipynb"
    submission = read(path)
    for one in submission.cells:
        one.source = source if one.id == cell else released(one.source)
    submission.cells = [one for one in submission.cells if one.source is not None]
    return Handed(Assignment(path.stem, read(path)), submission)


def test_a_check_that_prints_more_or_is_gone_is_no_edited_test_and_a_graded_test_is():
    assert changed("lanes-check", "# Check yourself\nprint(got)").edited == []
    assert changed("lanes-check", None).edited == []
    assert changed("lanes-test", "pass").edited == ["into_lanes"]
    assert changed("lanes-test", None).edited == ["into_lanes (deleted)"]
