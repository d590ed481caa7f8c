"""Pages and tables of a small course: what a student is told of names, missing functions and imports."""

import csv
import re
from html import unescape

import pytest
from support import small_course
from support.small_course import DOUBLE, NAME, hand_in, loaded, notebook, numbers

from minitxl.course.marking.classroom import Course
from minitxl.course.marking.isolation import strongest
from minitxl.course.marking.report import tables

STUDENTS = "id,first_name,last_name\ndora,Dora,Rossi\ngus,Gus,Olsen\n"


def named(student, written):
    """Return a student's own right numbers, under a name as written."""
    return numbers(student).replace(f'"student": "{student}"', f'"student": {written!r}')


HANDED_IN = {
    "dora": {"double": DOUBLE, "numbers": named("dora", "Dora Rossi")},
    "gus": {"double": DOUBLE, "numbers": named("gus", "Dora Rossi")},
}


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course that is marked, with its pages."""
    folder = small_course.build(tmp_path_factory.mktemp("course"), tmp_path_factory.mktemp("source"))
    (folder / "students.csv").write_text(STUDENTS)
    for student, cells in HANDED_IN.items():
        hand_in(folder, student, notebook(**cells))
    course = Course.of(folder, strongest(), 2)
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


def test_own_numbers_under_the_full_name_of_the_list_count_and_are_no_sign(course):
    assert told(course, "dora", "my_numbers") == (3, "right")
    assert "another one's numbers" not in signs(course, "dora")


def test_who_writes_another_name_is_told_which_one_to_write(course):
    points, message = told(course, "gus", "my_numbers")
    assert points == 0
    assert message == (
        "student is 'Dora Rossi', and must be the user name 'gus', by which this was handed in: "
        "write it there, and draw your numbers with it"
    )
    assert "another one's numbers" not in signs(course, "gus"), "they are his own"
