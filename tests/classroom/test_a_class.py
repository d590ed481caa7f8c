"""A class as a teacher meets it: tables, feedback, and what fails on the way; the verdicts are made up."""

import csv
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import dedent
from zipfile import ZipFile, ZipInfo

import nbformat
import nbgrader.api
import pytest
from nbformat.v4 import new_code_cell
from nbgrader.api import Gradebook

from minitxl.course.marking import feedback, suspicion
from minitxl.course.marking.classroom import Course
from minitxl.course.marking.gradebook import marks, open_gradebook
from minitxl.course.marking.isolation import none
from minitxl.course.marking.notebooks import Assignment
from minitxl.course.marking.report import TAKEN_AWAY, tables

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "notebooks" / "assignments"
NAME = "3_memory"
DUE = datetime(2026, 10, 12, 22, tzinfo=UTC)
STUDENTS = """id,first_name,last_name,email
ada,Ada,Lovelace,ada@x.org
bob,Bob,B,
cleo,Cleo,C,
van_dijk,Jan,van Dijk,
"""
RULES = f'[due]\n"{NAME}" = 2026-10-13T00:00:00+02:00\n'


def loaded(name):
    """A program of the folder, as a module."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A course that make assignments built."""
    course = tmp_path_factory.mktemp("built")
    loaded("build").build(course, [FOLDER / f"{NAME}.ipynb"])
    (course / "students.csv").write_text(STUDENTS)
    (course / "course.toml").write_text(RULES)
    return course


@pytest.fixture(scope="module", autouse=True)
def compiled_once():
    """Each gradebook compiles the same statements to SQL; here what one compiled serves all that follow."""
    create = nbgrader.api.create_engine
    first = create("sqlite://")
    first.connect().close()

    def create_engine(*args, **options):
        engine = create(*args, **options)
        engine.dialect, engine._compiled_cache = first.dialect, first._compiled_cache
        return engine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nbgrader.api, "create_engine", create_engine)
        patch.setattr("minitxl.files._sync", lambda *_: None)  # no machine loses power here
        yield


@pytest.fixture(scope="module", autouse=True)
def searched_once():
    """The forms of the one reference, with which all these tests compare, are found once and not for each."""
    found, find = {}, suspicion.solved_forms

    def solved_forms(reference, imports):
        known = (*reference.items(), imports)
        if known not in found:
            found[known] = find(reference, imports)
        return found[known]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suspicion, "solved_forms", solved_forms)
        yield


@pytest.fixture
def course(built, tmp_path):
    return shutil.copytree(built, tmp_path / "course")


def solved(course):
    return nbformat.read(course / "solution" / NAME / f"{NAME}.ipynb", as_version=4)


def cell_of(notebook, name):
    return next(cell for cell in notebook.cells if cell.id == name)


def hand_in(course, student, notebook=None, *, when=DUE, name=None):
    """Save a notebook as a platform does; the solved one if there is none."""
    path = course / "downloaded" / NAME / (name or f"{student}_{NAME}.ipynb")
    path.parent.mkdir(parents=True, exist_ok=True)
    text = notebook if isinstance(notebook, str) else nbformat.writes(notebook or solved(course))
    path.write_text(text, "utf-8")
    os.utime(path, (when.timestamp(), when.timestamp()))
    return path


class Verdicts:
    """Judges without a worker: all right, but for what is asked for, by student."""

    def __init__(self, monkeypatch, course):
        self.judged = []
        self.wrong = {}
        monkeypatch.setattr(Course, "_judge", lambda _, job: self.judge(job))
        self.assignment = Assignment.of(course, NAME)

    def judge(self, job):
        self.judged.append(job["owner"])
        parts = [self.part(job["owner"], test) for test in job["tests"]]
        whys = [part["again"] for part in parts if part["score"] is None]
        return {"parts": parts, "again": "; ".join(whys), "seconds": 1.5}

    def part(self, owner, test):
        groups = {"with a memory": True, "at the start": True}
        names = {"cell": test["cell"], "most": test["points"], "seconds": 0.25}
        right = {"score": test["points"], "word": "right", "message": "right", "groups": groups}
        numbers = {"student": "ada", "kept": 1} if test["cell"] == "numbers-test" else None
        function = test["cell"].removesuffix("-test")
        return (
            names | right | {"numbers": numbers, "function": function} | self.wrong.get((owner, function), {})
        )


@pytest.fixture
def verdicts(monkeypatch, course):
    return Verdicts(monkeypatch, course)


def mark(course, *, again=False):
    return Course.of(course, none(), 2).mark(NAME, again=again, progress=lambda _: None)


def told(course, capsys, monkeypatch, *words):
    """What make mark or make feedback prints."""
    program = loaded("mark")
    monkeypatch.setattr(sys, "argv", ["mark.py", str(course), "--isolation", "none", *words])
    program.main()
    return capsys.readouterr().out


def rows(course, table):
    with (course / "marks" / NAME / f"{table}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


PUBLISHED = "the published solution after renaming"


def suspicious(course):
    """The table of signs but for the one that a hand-in of the solution gets, as in most of these tests."""
    return [row for row in rows(course, "suspicious") if row["sign"] != PUBLISHED]


def in_gradebook(course):
    with open_gradebook(course) as gradebook:
        return marks(gradebook, NAME, ["ada", "bob", "cleo", "van_dijk"])


def test_the_commands_are_those_of_make():
    for target, added in (("mark", ""), ("feedback", " --feedback")):
        done = subprocess.run(
            ["make", "--dry-run", target, "COURSE=../class", "NAMES=1 3"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert re.search(rf"python notebooks/assignments/mark\.py \.\./class 1 3{added}$", done.stdout, re.M)


def test_the_tables_say_who_has_what_who_is_missing_and_what_it_took(course, verdicts, capsys, monkeypatch):
    hand_in(course, "ada")
    hand_in(course, "bob", when=DUE + timedelta(days=1, hours=1))
    hand_in(course, "cleo")
    hand_in(course, "stranger")
    verdicts.wrong["cleo", "weigh"] = {"score": None, "again": "the machine was busy", "message": "busy"}
    said = told(course, capsys, monkeypatch)
    found = {row["id"]: row for row in rows(course, "marks")}
    assert found["ada"]["points"] == "26"
    assert (found["bob"]["points"], found["bob"]["penalty"]) == ("20", "6")
    assert [found[one]["state"] for one in ("ada", "bob", "cleo", "van_dijk")] == [
        *["to mark by hand: the written question"] * 2,
        *("mark again", "nothing handed in"),
    ]
    assert found["ada"]["email"] == "ada@x.org"
    late = "2026-10-14 01:00 UTC+02:00"  # on the clock of the due date, as on the page
    assert found["bob"]["handed in"] == late
    unmarked = {row["who"]: row["why"] for row in rows(course, "unmarked")}
    assert unmarked["cleo"] == "the machine was busy"
    assert "no student of students.csv" in unmarked[f"downloaded/{NAME}/stranger_{NAME}.ipynb"]
    assert [found[one]["name"] for one in ("ada", "van_dijk")] == ["Ada Lovelace", "Jan van Dijk"]
    assert re.search(
        r"machine time: 3 marked in \d+ seconds, \d+ at a time, and 0 as before; the mean of all 3, earlier "
        r"runs' too, is 1\.5 seconds a submission, of which \d+\.\d are in its own code",
        said,
    )
    for words in ("van_dijk", "nothing handed in", "stranger", "the machine was busy", late):
        assert words in said


def test_what_could_not_be_judged_is_no_zero_and_is_judged_again(course, verdicts):
    hand_in(course, "ada")
    verdicts.wrong["ada", "weigh"] = {"score": None, "again": "the machine was busy", "message": "busy"}
    mark(course)
    assert "weigh-test" in in_gradebook(course)["ada"]["by hand"]
    verdicts.wrong.clear()
    mark(course)
    assert verdicts.judged == ["ada", "ada"]
    assert in_gradebook(course)["ada"]["by hand"] == ["written"]
    assert in_gradebook(course)["ada"]["score"] == 26


def test_a_submission_that_cannot_be_marked_is_tried_three_times_and_then_shown(course, verdicts):
    hand_in(course, "ada")
    verdicts.wrong["ada", "weigh"] = {"score": None, "again": "the system ended it", "message": "ended"}
    for _ in range(5):
        marked = mark(course)
    assert verdicts.judged == ["ada"] * 3
    tables(Course.of(course, none(), 2), marked)
    (unmarked,) = rows(course, "unmarked")
    assert unmarked["why"].startswith("the system ended it: 3 tries")
    (sign,) = suspicious(course)
    assert (sign["sign"], sign["where"]) == ("never lets itself be marked", "the system ended it")
    assert (
        next(row["state"] for row in rows(course, "marks") if row["id"] == "ada")
        == "look at it: the system ended it"
    )
    newer = solved(course)
    cell_of(newer, "weigh").source += "\n# another"
    hand_in(course, "ada", newer, name=f"ada_{NAME} (1).ipynb", when=DUE + timedelta(minutes=1))
    mark(course)
    mark(course, again=True)
    assert len(verdicts.judged) == 5


@pytest.mark.parametrize(
    "line",
    ["os._exit(137)", "import signal; signal.pause()", "time.sleep(1e9)", "os.write(1, b'')", "os.fork()"],
)
def test_a_cell_of_the_students_own_that_reaches_out_is_a_sign(course, verdicts, line):
    handed = solved(course)
    handed.cells.append(new_code_cell(f"import os, time\n{line}"))
    cell_of(handed, "look").source += "\n\n\nanswers = open('answers.txt')"
    hand_in(course, "ada", handed)
    tables(Course.of(course, none(), 2), mark(course))
    ((sign, where),) = ((row["sign"], row["where"]) for row in suspicious(course))
    assert sign == "reaches for what is not its own"
    assert where.startswith("look_back: open(; the cell that begins with 'import os, time': ")


UNSEARCHED = {
    "a long sum": (f"def look(h):\n    plan, end = [], 0{' + 0' * 900}\n    return h", "nested too deeply"),
    "many branches": (
        "def look(h):\n    if h == 1:\n        h = 0\n" + "    elif h == 2:\n        h = 0\n" * 300,
        "nested too deeply",
    ),
    "much code": ("x = 1\n\n\n" * 10_000, "more than 50,000 characters"),
}
"""Code that cannot be searched, and why."""


@pytest.mark.parametrize("kind", UNSEARCHED)
def test_code_that_cannot_be_searched_is_a_sign_and_stops_no_one(course, verdicts, kind):
    odd = solved(course)
    cell_of(odd, "look").source, why = UNSEARCHED[kind]
    hand_in(course, "ada", odd)
    copied = solved(course)
    cell_of(copied, "look").source = RENAMED
    for student in ("bob", "cleo"):
        hand_in(course, student, copied)
    tables(Course.of(course, none(), 2), mark(course))
    found = {(row["student"], row["sign"]): row["where"] for row in suspicious(course)}
    assert why in found["ada", "cannot be searched: read the code"]
    assert found["bob and cleo", "equal code after renaming"] == "look_back"
    assert [row["points"] for row in rows(course, "marks")] == ["26", "26", "26", ""]


def test_a_sign_that_cannot_be_computed_stops_no_one(course, verdicts, monkeypatch):
    for student in ("ada", "bob"):
        hand_in(course, student)

    def failing(code):
        raise MemoryError

    marked = mark(course)
    monkeypatch.setattr("minitxl.course.marking.suspicion.reaching", failing)
    tables(Course.of(course, none(), 2), marked)
    found = [(row["student"], row["where"]) for row in suspicious(course) if "cannot" in row["sign"]]
    assert found == [("ada", "MemoryError"), ("bob", "MemoryError")]


def test_half_a_character_stands_as_a_sign_on_page_and_notebook_and_stops_no_one(
    course, verdicts, capsys, monkeypatch
):
    mine = solved(course)
    cell_of(mine, "written").source = "A smile: HALF."
    text = nbformat.writes(mine).replace("HALF", r"\ud83d").replace("A smile", r"A smile \ud83d\ude00")
    hand_in(course, "ada", text, name="Ada Lovelace_1_assignsubmission_file_/x.ipynb")
    hand_in(course, "bob")
    told(course, capsys, monkeypatch)
    assert rows(course, "unmarked") == []
    shown = nbformat.read(course / "autograded" / "ada" / NAME / f"{NAME}.ipynb", as_version=4)
    assert "A smile \U0001f600: \ufffd." in [cell.source for cell in shown.cells]
    assert "2 pages" in told(course, capsys, monkeypatch, "--feedback")
    page = (course / "feedback" / "ada" / NAME / f"{NAME}.html").read_text("utf-8")
    assert "A smile \U0001f600: \ufffd." in page
    assert (course / "feedback" / f"{NAME}-for-moodle.zip").is_file()


def test_a_page_that_cannot_be_written_stops_no_one_and_is_told(course, verdicts, capsys, monkeypatch):
    for student in ("Ada Lovelace", "Bob B", "Cleo C"):
        hand_in(course, "", name=f"{student}_1_assignsubmission_file_/x.ipynb")
    mark(course)
    (course / "feedback").mkdir()
    (course / "feedback" / "bob").write_text("a file where a folder should be")
    with pytest.raises(SystemExit) as end:
        told(course, capsys, monkeypatch, "--feedback")
    assert str(end.value).startswith(f"{NAME}: no page of bob: NotADirectoryError: ")
    assert "2 pages" in capsys.readouterr().out
    with ZipFile(course / "feedback" / f"{NAME}-for-moodle.zip") as archive:
        assert [name.split("_")[0] for name in archive.namelist()] == ["Ada Lovelace", "Cleo C"]


DAMAGED = {
    "half": lambda text: text[: len(text) // 2],
    "empty": lambda text: "",
    "no record": lambda text: "[]",
    "without the penalty": lambda text: text.replace('"penalty"', '"penny"'),
    "parts of another form": lambda text: json.dumps(json.loads(text) | {"parts": [1]}),
    "text for a number": lambda text: text.replace('"most": 5', '"most": "x"'),
    "more points than there are": lambda text: text.replace('"score": 5', '"score": 50', 1),
    "points below zero": lambda text: text.replace('"score": 5', '"score": -1', 1),
    "a penalty that is none": lambda text: text.replace('"penalty": 0.0', '"penalty": NaN'),
    "groups that are none": lambda text: text.replace('"at the start": true', '"at the start": "yes"', 1),
    "a date that is none": lambda text: json.dumps(json.loads(text) | {"due": "tomorrow"}),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_record_is_named_with_what_to_do_stops_no_one_and_is_kept(
    course, verdicts, capsys, monkeypatch, kind
):
    for student in ("ada", "bob"):
        hand_in(course, student)
    mark(course)
    path = course / "marks" / NAME / "ada.json"
    damaged = DAMAGED[kind](path.read_text("utf-8"))
    path.write_text(damaged, "utf-8")
    with pytest.raises(SystemExit) as end:
        told(course, capsys, monkeypatch, "--feedback")
    (line,) = str(end.value).splitlines()
    assert line.startswith(f"{NAME}: no page: {path} must be ")
    assert "give make mark, which marks this student anew" in line
    assert f"{NAME}: 1 pages in " in capsys.readouterr().out
    assert path.read_text("utf-8") == damaged
    told(course, capsys, monkeypatch)
    assert verdicts.judged == ["ada", "bob", "ada"]
    assert path.with_name("ada.json.damaged").read_text("utf-8") == damaged
    assert "2 pages" in told(course, capsys, monkeypatch, "--feedback")


def test_who_cannot_be_written_into_the_gradebook_stops_no_one(course, verdicts, monkeypatch):
    for student in ("ada", "bob", "cleo"):
        hand_in(course, student)
    monkeypatch.setattr(
        "minitxl.course.marking.gradebook._time_of_exchange",
        lambda course, assignment, student: "no time" if student == "bob" else None,
    )
    (unmarked,) = mark(course).unmarked
    assert unmarked[0] == "bob"
    assert [one for one, found in in_gradebook(course).items() if found["score"]] == ["ada", "cleo"]


@pytest.mark.parametrize("name", ["[]", "{}", "1"])
def test_a_cell_whose_name_is_no_text_is_the_students_own(course, verdicts, name):
    odd = solved(course)
    odd.cells.append(new_code_cell("x = 1", metadata={"nbgrader": {"grade_id": json.loads(name)}}))
    hand_in(course, "ada", odd)
    assert mark(course).unmarked == []


def test_a_notebook_that_is_built_as_none_is_told_with_what_to_do(course, verdicts, monkeypatch):
    def failing(handed):
        raise TypeError("unhashable type: 'NotebookNode'")

    monkeypatch.setattr("minitxl.course.marking.notebooks.Handed.check", failing)
    hand_in(course, "ada")
    (unmarked,) = mark(course).unmarked
    assert unmarked[1].endswith("): have it opened in Jupyter, saved and handed in again")


def unreadable(course):
    """Files that hold no notebook to mark, by what the tables say of them."""
    whole = solved(course)
    text = nbformat.writes(whole)
    stripped = nbformat.from_dict(whole | {"cells": [cell | {"metadata": {}} for cell in whole.cells]})
    bare = json.loads(text)
    del bare["cells"][3]["metadata"]
    return {
        "truncated": (text[: len(text) // 2], "must be a notebook"),
        "stripped": (
            nbformat.writes(stripped),
            "its functions are there, but its cells have lost their names",
        ),
        "empty": ("", "must be a notebook"),
        "bare": (json.dumps(bare), "must be a notebook"),
    }


@pytest.mark.parametrize("kind", ["truncated", "stripped", "empty", "bare"])
@pytest.mark.parametrize("was_marked", [False, True])
def test_who_handed_in_what_cannot_be_read_is_to_be_looked_at_with_the_whole_reason(
    course, verdicts, capsys, monkeypatch, kind, was_marked
):
    if was_marked:
        hand_in(course, "ada")
        mark(course)
    text, why = unreadable(course)[kind]
    hand_in(course, "ada", text, when=DUE + timedelta(minutes=1))
    said = told(course, capsys, monkeypatch)
    state = next(row["state"] for row in rows(course, "marks") if row["id"] == "ada")
    assert state.startswith("look at it: ")
    assert why in state
    assert said.count(state.removeprefix("look at it: ")) == 2
    assert rows(course, "complete") == []


def test_a_damaged_archive_is_its_students_to_be_looked_at_until_a_newer_file_comes(course, verdicts):
    path = course / "downloaded" / NAME / f"ada_{NAME}.zip"
    hand_in(course, "bob")
    path.write_bytes(b"PK torn")
    os.utime(path, (DUE.timestamp(), DUE.timestamp()))

    def state():
        tables(Course.of(course, none(), 2), mark(course))
        return next(row["state"] for row in rows(course, "marks") if row["id"] == "ada")

    assert state().startswith(f"look at it: the archive ada_{NAME}.zip can't be read")
    hand_in(course, "ada", when=DUE + timedelta(minutes=1))
    assert state() == "to mark by hand: the written question"


def test_who_handed_in_a_file_of_another_kind_is_to_be_looked_at(course, verdicts):
    hand_in(course, "ada", "%PDF", name=f"ada_{NAME}.pdf")
    tables(Course.of(course, none(), 2), mark(course))
    state = next(row["state"] for row in rows(course, "marks") if row["id"] == "ada")
    assert state == f"look at it: ada_{NAME}.pdf is no notebook"
    (unmarked,) = rows(course, "unmarked")
    assert unmarked == {"who": f"downloaded/{NAME}/ada_{NAME}.pdf", "why": f"ada_{NAME}.pdf is no notebook"}


def test_after_an_appeal_one_student_is_marked_again_and_a_table_has_what_changed(
    course, verdicts, capsys, monkeypatch
):
    for student in ("ada", "bob"):
        hand_in(course, student)
        verdicts.wrong[student, "weigh"] = {"score": 2.5, "message": "there is a loop"}
    assert "changed: none" in told(course, capsys, monkeypatch)
    verdicts.wrong.clear()
    told(course, capsys, monkeypatch, "--student", "ada")
    assert verdicts.judged == ["ada", "bob", "ada"]
    changed = {"student": "ada", "function": "weigh", "points before": "2.5", "points now": "5"}
    assert rows(course, "changed") == [changed]
    assert {one: mark["points"]["weigh-test"] for one, mark in in_gradebook(course).items()} == {
        "ada": 5,
        "bob": 2.5,
    }
    before = json.loads((course / "marks" / NAME / "ada.json").read_text("utf-8"))["before"]
    assert [part["score"] for part in before["parts"] if part["cell"] == "weigh-test"] == [2.5]
    assert "changed: none" in told(course, capsys, monkeypatch)
    told(course, capsys, monkeypatch, "--again")
    assert [row["student"] for row in rows(course, "changed")] == ["bob"]


@pytest.mark.parametrize("newer", [False, True])
def test_what_an_interrupted_run_marked_anew_has_no_page_and_is_told_as_changed_by_the_next(
    course, verdicts, capsys, monkeypatch, newer
):
    verdicts.wrong["ada", "weigh"] = {"score": 2.5, "message": "there is a loop"}
    for student in ("ada", "bob"):
        hand_in(course, student)
    mark(course)
    verdicts.wrong.clear()
    if newer:
        mended = solved(course)
        cell_of(mended, "weigh").source += "\n# mended"
        hand_in(course, "ada", mended, when=DUE + timedelta(minutes=1))
    with monkeypatch.context() as patch:
        patch.setattr(Course, "_store", lambda *_: interrupt())
        with pytest.raises(KeyboardInterrupt):
            mark(course, again=[] if newer else ["ada"])
    with pytest.raises(SystemExit) as end:
        told(course, capsys, monkeypatch, "--feedback")
    words = "its newest points are not in the gradebook yet: give make mark, and then make feedback"
    assert str(end.value) == f"{NAME}: no page of ada: {words}"
    assert f"{NAME}: 1 pages in " in capsys.readouterr().out
    assert not (course / "feedback" / "ada").exists()
    told(course, capsys, monkeypatch)
    assert verdicts.judged == ["ada", "bob", "ada"]
    changed = {"student": "ada", "function": "weigh", "points before": "2.5", "points now": "5"}
    assert rows(course, "changed") == [changed]
    assert "2 pages" in told(course, capsys, monkeypatch, "--feedback")
    assert "changed: none" in told(course, capsys, monkeypatch)


def test_what_is_marked_anew_for_a_damaged_record_is_told_as_changed(course, verdicts, capsys, monkeypatch):
    hand_in(course, "ada")
    mark(course)
    (course / "marks" / NAME / "ada.json").write_text("", "utf-8")
    verdicts.wrong["ada", "weigh"] = {"score": 2.5, "message": "there is a loop"}
    told(course, capsys, monkeypatch)
    changed = {"student": "ada", "function": "weigh", "points before": "5", "points now": "2.5"}
    assert rows(course, "changed") == [changed]


def test_an_older_gradebook_gets_no_page_and_then_the_points_of_the_records(
    course, verdicts, capsys, monkeypatch
):
    verdicts.wrong["ada", "weigh"] = {"score": 2.5, "message": "there is a loop"}
    hand_in(course, "ada")
    mark(course)
    older = (course / "gradebook.db").read_bytes()
    verdicts.wrong.clear()
    mark(course, again=True)
    (course / "gradebook.db").write_bytes(older)
    with pytest.raises(SystemExit, match="no page of ada: its newest points are not"):
        told(course, capsys, monkeypatch, "--feedback")
    told(course, capsys, monkeypatch)
    assert in_gradebook(course)["ada"]["score"] == 26
    assert "1 pages" in told(course, capsys, monkeypatch, "--feedback")


def test_who_handed_in_nothing_cannot_be_marked_again(course, verdicts):
    hand_in(course, "ada")
    with pytest.raises(ValueError, match="a student must have handed in 3_memory, got cleo"):
        mark(course, again=["cleo"])
    assert verdicts.judged == []


@pytest.mark.parametrize("sign", "=+-@")
def test_what_a_student_wrote_is_text_in_a_terminal_and_in_a_spreadsheet(
    course, verdicts, capsys, monkeypatch, sign
):
    hand_in(course, "ada")
    written = f"{sign}1+1\x1b[31mRED\nm1  m1@x.org  30\u202e"
    verdicts.wrong["ada", "my_numbers"] = verdicts.wrong["ada", "numbers"] = {"numbers": {"student": written}}
    said = told(course, capsys, monkeypatch)
    shown = rf"{sign}1+1\x1b[31mRED\nm1  m1@x.org  30\u202e"
    assert re.search(rf"another one's numbers +{re.escape(shown)}\n", said)
    assert "\x1b" not in said
    (row,) = suspicious(course)
    assert row["where"] == f"'{shown}"


def test_a_file_whose_name_no_terminal_can_write_is_told_and_stops_no_one(
    course, verdicts, capsys, monkeypatch
):
    hand_in(course, "ada")
    hand_in(course, "", name="\udce9t\x1b[2J.ipynb")
    assert r"\udce9t\x1b[2J.ipynb" in told(course, capsys, monkeypatch)
    assert rows(course, "unmarked")[0]["who"] == rf"downloaded/{NAME}/\udce9t\x1b[2J.ipynb"


def test_without_a_list_a_student_of_a_name_that_no_gradebook_can_hold_is_told_and_stops_no_one(
    course, verdicts
):
    (course / "students.csv").unlink()
    hand_in(course, "\udce9t")
    hand_in(course, "ada")
    tables(Course.of(course, none(), 2), mark(course))
    assert [row["id"] for row in rows(course, "marks")] == ["ada"]
    assert [row["who"] for row in rows(course, "unmarked")] == [rf"downloaded/{NAME}/\udce9t_{NAME}.ipynb"]


def test_what_a_student_wrote_turns_no_line_of_a_page_around(course, verdicts, capsys, monkeypatch):
    mine = solved(course)
    cell_of(mine, "written").source = "A point for \u202esith\u202c,\n\tmy \u05e9 and 10\u00a0% \x1b[2J"
    hand_in(course, "ada", mine)
    verdicts.wrong["ada", "weigh"] = {"score": 0, "message": "it raised E: \u201c\u2066x\ud83d\u201d"}
    told(course, capsys, monkeypatch)
    assert rows(course, "unmarked") == []
    told(course, capsys, monkeypatch, "--feedback")
    page = (course / "feedback" / "ada" / NAME / f"{NAME}.html").read_text("utf-8")
    assert "A point for \\u202esith\\u202c,\n\tmy \u05e9 and 10\u00a0% \\x1b[2J" in page
    assert "it raised E: \u201c\\u2066x\\ud83d\u201d" in page


def test_a_function_whose_cell_fails_stands_in_a_table_with_the_reason(course, verdicts, capsys, monkeypatch):
    hand_in(course, "ada")
    why = "SyntaxError in line 3: expected ':'"
    verdicts.wrong["ada", "weigh"] = {"score": 0, "message": "there is none", "undefined": why}
    said = told(course, capsys, monkeypatch)
    assert rows(course, "failed") == [{"student": "ada", "where": "weigh", "why": why}]
    assert why in said


def test_statements_that_were_left_out_stand_in_a_table_and_on_the_page_once(
    course, verdicts, capsys, monkeypatch
):
    hand_in(course, "ada")
    where, why = "statement 2 of the cell that begins with import", "it waits, and never ends"
    for function in ("weigh", "look"):
        verdicts.wrong["ada", function] = {"left_out": [[where, "does it end?"], ["statement 3", why]]}
    told(course, capsys, monkeypatch)
    assert [list(row.values()) for row in rows(course, "failed")] == [
        ["ada", where, "does it end?"],
        ["ada", "statement 3", why],
    ]
    told(course, capsys, monkeypatch, "--feedback")
    page = (course / "feedback" / "ada" / NAME / f"{NAME}.html").read_text("utf-8")
    assert page.count(f"Left out of your notebook: {where}: does it end?</p>") == 1
    assert page.count(f"Left out of your notebook: statement 3: {why}.</p>") == 1


def test_nothing_is_marked_twice_and_what_is_new_is(course, verdicts):
    hand_in(course, "ada")
    hand_in(course, "bob")
    mark(course)
    mark(course)
    assert sorted(verdicts.judged) == ["ada", "bob"]
    newer = solved(course)
    cell_of(newer, "weigh").source += "\n# better"
    hand_in(course, "ada", newer, name=f"ada_{NAME} (1).ipynb", when=DUE + timedelta(minutes=1))
    mark(course)
    assert sorted(verdicts.judged) == ["ada", "ada", "bob"]
    mark(course, again=True)
    assert len(verdicts.judged) == 5


def test_another_due_date_changes_the_penalty_and_judges_no_one(course, verdicts):
    hand_in(course, "ada", when=DUE + timedelta(hours=1))
    mark(course)
    assert in_gradebook(course)["ada"]["score"] == 23
    (course / "course.toml").write_text(RULES + f'[extensions."{NAME}"]\nada = 2026-10-14T22:00:00Z\n')
    tables(Course.of(course, none(), 2), mark(course))
    assert in_gradebook(course)["ada"]["score"] == 26
    assert verdicts.judged == ["ada"]
    (changed,) = rows(course, "changed")
    assert changed == {"student": "ada", "function": "penalty", "points before": "3", "points now": "0"}


def test_the_same_notebook_handed_in_again_later_counts_as_it_came_last(
    course, verdicts, capsys, monkeypatch
):
    hand_in(course, "ada", when=DUE - timedelta(hours=3))
    mark(course)
    (course / "students.csv").write_text("id,first_name,last_name\nada,Ada,Byron\n")
    moodles = "Ada Byron_4211_assignsubmission_file_/anything.ipynb"
    (course / "downloaded" / NAME / moodles).parent.mkdir()
    hand_in(course, "ada", name=moodles, when=DUE + timedelta(hours=1))
    mark(course)
    assert verdicts.judged == ["ada"]
    told(course, capsys, monkeypatch, "--feedback")
    page = (course / "feedback" / "ada" / NAME / f"{NAME}.html").read_text("utf-8")
    assert "Ada Byron: anything.ipynb, the newest of 2 files, handed in on 2026-10-13 01:00" in page
    assert "Handed in late, on 2026-10-13 01:00 UTC+02:00, due 2026-10-13 00:00" in page
    with ZipFile(next((course / "feedback").glob("*moodle*.zip"))) as pages:
        assert any("Ada Byron_4211" in name for name in pages.namelist())


def test_canvass_word_that_a_notebook_came_in_time_counts_more_than_its_archives_times(course, verdicts):
    (course / "students.csv").write_text(
        "id,first_name,last_name,canvas_id\nada,Ada,Lovelace,501\nbob,Bob,Bee,502\n"
    )
    archive = course / "downloaded" / NAME / "submissions.zip"
    archive.parent.mkdir(parents=True)
    with ZipFile(archive, "w") as file:  # as Canvas writes it: each entry has the time of the download
        for name in ("lovelaceada_501_98765_hw.ipynb", "beebob_LATE_502_98766_hw.ipynb"):
            info = ZipInfo(name, (2026, 10, 13, 12, 0, 0))
            file.writestr(info, nbformat.writes(solved(course)))
    tables(Course.of(course, none(), 2), mark(course))
    ada, bob = rows(course, "marks")
    assert (ada["penalty"], bob["penalty"]) == ("0", "3")
    assert ada["handed in"].endswith(", on time as Canvas says")
    assert "Canvas" not in bob["handed in"]


MOODLES = ["Ada Lovelace_1_assignsubmission_file_/x.ipynb", "Bob B_2_assignsubmission_file_x.ipynb"]
"""Two notebooks in Moodle's archive."""


@pytest.mark.parametrize(
    ("hours", "day", "who"),
    [
        ((12, 12), 13, "ada, bob"),
        ((9, 12), 13, ""),
        ((12, 12), 12, ""),  # in time, also by the time of the download
        ((0, 0), 1, "ada, bob"),  # of 1980, where the calendar of zip files begins
    ],
)
def test_who_gets_a_penalty_for_the_time_of_a_download_from_moodle_is_told_with_what_to_do(
    course, verdicts, capsys, monkeypatch, hours, day, who
):
    archive = course / "downloaded" / NAME / "submissions.zip"
    archive.parent.mkdir(parents=True)
    date = (1980, 1, 1) if day == 1 else (2026, 10, day)
    with ZipFile(archive, "w") as file:
        for name, hour in zip(MOODLES, hours, strict=True):
            file.writestr(ZipInfo(name, (*date, hour, 0, 0)), nbformat.writes(solved(course)))
    os.utime(archive, ((DUE + timedelta(days=2)).timestamp(),) * 2)
    hand_in(course, "cleo", when=DUE + timedelta(days=2))
    said = told(course, capsys, monkeypatch)
    found = re.search(r"^no time of hand-in: .* is taken for (.*), and costs a penalty: give .*$", said, re.M)
    assert ", ".join(re.findall(r"(\w+) \(2026-", found[1] if found else "")) == who
    assert not found or f'under [extensions."{NAME}"] in course.toml' in found[0]
    if found:
        (course / "course.toml").write_text(
            f'{RULES}[extensions."{NAME}"]\nada = 2026-10-30T00:00:00Z\nbob = 2026-10-30T00:00:00Z\n'
        )
        assert "no time of hand-in" not in told(course, capsys, monkeypatch)


def test_who_hands_in_the_published_solution_is_shown_and_who_wrote_one_function_like_it_is_not(
    course, verdicts
):
    renamed, own = solved(course), solved(course)
    for cell in renamed.cells:
        cell.source = cell.source.replace("scores", "s_")
    cells = [test["cell"].removesuffix("-test") for test in Assignment.of(course, NAME).tests]
    for name in cells[:-1]:
        cell_of(own, name).source += "\n\n\ndef mine(x):\n    return x + 1"
    hand_in(course, "ada", renamed)
    hand_in(course, "bob", own)
    tables(Course.of(course, none(), 2), mark(course))
    where = {row["student"]: row["where"] for row in rows(course, "suspicious") if row["sign"] == PUBLISHED}
    assert where.keys() == {"ada"}
    assert {"look_back", "weigh"} <= {*where["ada"].split(", ")}


def test_points_by_hand_stay_until_the_answer_changes(course, verdicts):
    hand_in(course, "ada")
    mark(course)
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        grade = gradebook.find_grade("written", NAME, NAME, "ada")
        grade.manual_score, grade.needs_manual_grade = 3, False
        gradebook.db.commit()
    mark(course, again=True)
    assert (in_gradebook(course)["ada"]["score"], in_gradebook(course)["ada"]["by hand"]) == (29, [])
    newer = solved(course)
    cell_of(newer, "written").source = "Something else."
    hand_in(course, "ada", newer, when=DUE + timedelta(minutes=1))
    mark(course)
    assert in_gradebook(course)["ada"]["by hand"] == ["written"]


def give(course, cell, points, comment=None):
    """Give Ada points by hand, as Formgrader does, and confirm them."""
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        grade = gradebook.find_grade(cell, NAME, NAME, "ada")
        grade.manual_score, grade.needs_manual_grade = points, False
        if comment:
            gradebook.find_comment(cell.removesuffix("-test"), NAME, NAME, "ada").manual_comment = comment
        gradebook.db.commit()


def state_of(course, **options):
    """Mark, and return Ada's state in the table."""
    tables(Course.of(course, none(), 2), mark(course, **options))
    return next(row["state"] for row in rows(course, "marks") if row["id"] == "ada")


def with_helper(course, helper, *, more=""):
    """The solved notebook whose ``weigh`` calls a function of another cell."""
    notebook = solved(course)
    again = f"right = weigh\n{more}\n\ndef weigh(s, b):\n    return mine(s, b)"
    cell_of(notebook, "weigh").source += f"\n\n\n{again}"
    notebook.cells.append(new_code_cell(f"def mine(s, b):\n    return {helper}"))
    cell_of(notebook, "look").source += more
    return notebook


def test_points_by_hand_of_a_function_that_changed_are_asked_for_again_until_they_are_given(
    course, verdicts, capsys, monkeypatch
):
    hand_in(course, "ada", with_helper(course, "right(s, b)"))
    verdicts.wrong["ada", "weigh"] = {"score": 0, "message": "it is refused"}
    mark(course)
    for cell, points in (("written", 4), ("weigh-test", 5), ("look-test", 6)):
        give(course, cell, points, "As right as ours." if cell == "weigh-test" else None)
    assert state_of(course) == state_of(course, again=True) == "marked"
    hand_in(
        course, "ada", with_helper(course, "right(s, b)", more="  # a word"), when=DUE + timedelta(minutes=1)
    )
    assert state_of(course) == "marked", "no code has changed"
    hand_in(course, "ada", with_helper(course, "2 * right(s, b)"), when=DUE + timedelta(minutes=2))
    waiting = "to mark by hand: weigh (5 points for an older answer)"
    assert state_of(course) == waiting
    assert rows(course, "complete") == []
    told(course, capsys, monkeypatch, "--feedback")
    page = (course / "feedback" / "ada" / NAME / f"{NAME}.html").read_text("utf-8")
    assert "<b>24 of 25 points so far; weigh is not marked yet</b>" in page
    older = "a person gave points for an older answer, and will look at this one"
    assert f'<code>weigh</code></td><td class="points">not marked yet</td><td>{older}' in page
    assert "(on an older answer) As right as ours." in page
    shown = nbformat.read(course / "autograded" / "ada" / NAME / f"{NAME}.ipynb", as_version=4)
    assert "5 points were given by hand for an older answer: confirm or change them" in str(shown)
    assert state_of(course, again=True) == waiting, "the same notebook, marked anew"
    newer = with_helper(course, "2 * right(s, b)")
    cell_of(newer, "stream").source += "\n\n\nsecond = 2"
    hand_in(course, "ada", newer, when=DUE + timedelta(hours=1))
    assert state_of(course) == waiting, "another notebook with the same answer"
    give(course, "weigh-test", 1)
    assert state_of(course) == state_of(course, again=True) == "marked"
    assert rows(course, "complete")[0]["points"] == "22"


@pytest.mark.parametrize("lost", ["deleted", "damaged", "interrupted"])
def test_points_by_hand_are_asked_for_again_where_it_is_not_known_what_they_were_given_for(
    course, verdicts, monkeypatch, lost
):
    hand_in(course, "ada")
    mark(course)
    give(course, "written", 4)
    give(course, "look-test", 7)
    path = course / "marks" / NAME / "ada.json"
    if lost == "interrupted":  # twice, by the newest of which the answer is that of the one before
        newer = solved(course)
        cell_of(newer, "written").source = "Something else."
        for more in ("", "\n# more"):
            cell_of(newer, "weigh").source += more
            hand_in(course, "ada", newer, when=DUE + timedelta(minutes=1))
            with monkeypatch.context() as patch:
                patch.setattr(Course, "_store", lambda *_: interrupt())
                with pytest.raises(KeyboardInterrupt):
                    mark(course)
        assert state_of(course) == "to mark by hand: the written question (4 points for an older answer)"
        return
    path.unlink() if lost == "deleted" else path.write_text("", "utf-8")
    asked = state_of(course).removeprefix("to mark by hand: ").split(", ")
    assert sorted(asked) == [
        "look_back (7 points for an older answer)",
        "the written question (4 points for an older answer)",
    ]


@pytest.mark.parametrize(
    ("points", "extra", "words"),
    [
        (124, 0, "124 of 4 points in the written question"),
        (4, 7, "extra credit of 7 points in the written question"),
        (124, 7, "124 of 4 points in the written question, extra credit of 7 points in the written question"),
        (4, 0, ""),
    ],
)
def test_more_points_than_there_are_is_a_sign_and_no_complete_mark(course, verdicts, points, extra, words):
    hand_in(course, "ada")
    mark(course)
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        grade = gradebook.find_grade("written", NAME, NAME, "ada")
        grade.manual_score, grade.extra_credit, grade.needs_manual_grade = points, extra, False
        gradebook.db.commit()
    tables(Course.of(course, none(), 2), mark(course))
    signs = [(row["sign"], row["where"]) for row in suspicious(course)]
    assert signs == ([("more points than there are", words)] if words else [])
    state = next(row["state"] for row in rows(course, "marks") if row["id"] == "ada")
    assert state == (f"look at it: {words}" if words else "marked")


@pytest.mark.parametrize(("user", "is_warned"), [(0, True), (1000, False)])
def test_who_marks_as_root_is_told_that_a_limit_does_not_hold(
    course, verdicts, capsys, monkeypatch, user, is_warned
):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    program = loaded("mark")
    monkeypatch.setattr(sys, "argv", ["mark.py", str(course), "--isolation", "none"])
    program.main()
    assert ("you are root: the limit on processes" in capsys.readouterr().err) is is_warned


def test_the_file_for_a_platform_has_complete_marks_alone_and_no_zero_for_others(course, verdicts):
    for student in ("ada", "bob", "cleo"):
        hand_in(course, student)
    verdicts.wrong["bob", "weigh"] = {"score": None, "again": "the machine was busy", "message": "busy"}
    mark(course)
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        for student in ("ada", "bob"):
            grade = gradebook.find_grade("written", NAME, NAME, student)
            grade.manual_score, grade.needs_manual_grade = 4, False
        gradebook.db.commit()
    tables(Course.of(course, none(), 2), mark(course))
    states = {row["id"]: row["state"] for row in rows(course, "marks")}
    assert states == {
        "ada": "marked",
        "bob": "mark again",
        "cleo": "to mark by hand: the written question",
        "van_dijk": "nothing handed in",
    }
    (complete,) = rows(course, "complete")
    assert complete == {
        "id": "ada",
        "first_name": "Ada",
        "last_name": "Lovelace",
        "email": "ada@x.org",
        "canvas_id": "",
        "points": "30",
        "of": "30",
    }


def test_feedback_before_all_is_marked_says_what_to_do_first(course, verdicts, capsys, monkeypatch):
    first = f"{NAME}: nothing is marked yet: give make mark first\n"
    assert told(course, capsys, monkeypatch, "--feedback").endswith(first)
    hand_in(course, "ada")
    mark(course)
    assert "give make mark first" not in told(course, capsys, monkeypatch, "--feedback")
    hand_in(course, "bob")
    hand_in(course, "cleo")
    with monkeypatch.context() as patch:
        patch.setattr(Course, "_store", lambda *_: interrupt())
        with pytest.raises(KeyboardInterrupt):
            mark(course)
    said = told(course, capsys, monkeypatch, "--feedback")
    assert f"{NAME}: 1 pages in " in said
    assert f"{NAME}: 2 not in the gradebook yet: give make mark first\n" in said


def interrupt():
    raise KeyboardInterrupt


def test_what_is_interrupted_is_kept_and_the_next_run_goes_on(course, verdicts, monkeypatch):
    for student in ("ada", "bob", "cleo"):
        hand_in(course, student)

    def interrupted(_, job):
        if job["owner"] == "cleo":
            raise KeyboardInterrupt
        return verdicts.judge(job)

    with monkeypatch.context() as patch:
        patch.setattr(Course, "_judge", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Course.of(course, none(), 1).mark(NAME, again=False, progress=lambda _: None)
    assert verdicts.judged == ["ada", "bob"]
    mark(course)
    assert verdicts.judged == ["ada", "bob", "cleo"]
    assert [one["score"] for one in in_gradebook(course).values()] == [26, 26, 26]


def test_a_copied_cell_a_torn_file_and_another_assignment_stop_no_one(course, verdicts):
    doubled = solved(course)
    place = doubled.cells.index(cell_of(doubled, "weigh"))
    copied = nbformat.from_dict(
        doubled.cells[place] | {"id": "copy", "source": "def weigh(scores, begins):\n    return 1"}
    )
    doubled.cells.insert(place + 1, copied)
    hand_in(course, "ada", doubled)
    hand_in(course, "bob", '{"cells": [')
    other = nbformat.read(FOLDER / "1_heads_and_masks.ipynb", as_version=4)
    hand_in(course, "cleo", other)
    hand_in(course, "van_dijk")
    found = mark(course)
    assert sorted(verdicts.judged) == ["ada", "van_dijk"]
    unmarked = dict(found.unmarked)
    assert "must be a notebook" in unmarked["bob"]
    assert unmarked["cleo"] == "it must be assignment 3_memory, and has none of its functions"
    assert found.handed["ada"].repaired == ["weigh"]
    assert "return 1" in found.handed["ada"].code()["weigh"]


def test_cells_of_one_id_are_read_without_a_warning(course, verdicts, recwarn):
    doubled = nbformat.writes(solved(course)).replace('"id": "weigh"', '"id": "look"')
    hand_in(course, "ada", doubled)
    mark(course)
    assert verdicts.judged == ["ada"]
    assert not [one for one in recwarn if "DuplicateCellId" in str(one.category)]


RENAMED = """def look_back(h, old, M, heads, far):
    # my own way
    return layer(h, old, M, heads, far)


def layer(h, old, M, heads, far):
    both = h if old is None else torch.cat([old.detach(), h], dim=1)
    size = h.shape[2] // heads
    asks = (h @ M["q"]).unflatten(-1, (heads, -1)).transpose(1, 2)
    keys = (both @ M["k"]).unflatten(-1, (heads, -1)).transpose(1, 2)
    said = (both @ M["v"]).unflatten(-1, (heads, -1)).transpose(1, 2)
    place = torch.arange(both.shape[1])
    away = place[-h.shape[1] :][:, None] - place[None]
    ok = torch.logical_and(away >= 0, away < far)
    worth = (asks @ keys.transpose(2, 3)) / sqrt(asks.shape[-1])
    worth = torch.where(ok, worth, torch.tensor(float("-inf")))
    mixed = worth.softmax(-1) @ said
    return mixed.transpose(1, 2).flatten(2)
"""


def test_edited_tests_others_numbers_and_renamed_code_are_shown_and_cost_nothing(
    course, verdicts, capsys, monkeypatch
):
    edited = solved(course)
    cell_of(edited, "look-test").source = "pass"
    cell_of(edited, "look").source = RENAMED
    hand_in(course, "bob", edited)
    names = {"asks": "queries", "keys": "looked_at", "said": "values", "worth": "s", "away": "distance"}
    renamed = solved(course)
    cell_of(renamed, "look").source = re.sub(
        r"\b(" + "|".join(names) + r")\b", lambda one: names[one[0]], RENAMED
    ).replace("# my own way", "# looks back")
    hand_in(course, "van_dijk", renamed)
    hand_in(course, "ada")
    said = told(course, capsys, monkeypatch)
    found = {(row["student"], row["sign"]): row["where"] for row in suspicious(course)}
    assert found == {
        ("bob", "tests edited or deleted"): "look_back",
        ("bob", "another one's numbers"): "ada",
        ("van_dijk", "another one's numbers"): "ada",
        ("bob and van_dijk", "equal code after renaming"): "look_back",
    }
    assert {row["points"] for row in rows(course, "marks")} == {"26", ""}
    assert "tests edited or deleted" in said


def test_feedback_has_a_page_a_student_with_functions_reasons_and_parts_of_points(
    course, verdicts, capsys, monkeypatch
):
    hand_in(course, "ada", when=DUE + timedelta(hours=1))
    hand_in(course, "bob")
    verdicts.wrong["ada", "weigh"] = {
        "score": 2.5,
        "message": "a later key <b>is seen</b>: look at notebook 04",
        "groups": {"with a memory": True, "three beginnings": False},
    }
    mark(course)
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        comment = gradebook.find_comment("written", NAME, NAME, "ada")
        comment.manual_comment = "The cost of a step is missing & needed.\nSo is **its memory**."
        gradebook.db.commit()
    said = told(course, capsys, monkeypatch, "--feedback")
    assert "2 pages" in said
    page = (course / "feedback" / "ada" / NAME / f"{NAME}.html").read_text("utf-8")
    assert re.search(r"<code>weigh</code></td><td class=\"points\">2\.5 of 5</td>", page)
    assert "a later key &lt;b&gt;is seen&lt;/b&gt;: look at notebook 04" in page
    assert "✓ right: with a memory" in page
    assert "✗ not yet: three beginnings" in page
    words = "The cost of a step is missing &amp; needed.<br>So is **its memory**."
    assert f"<p><b>Comment:</b> {words}</p>" in page
    times = "on 2026-10-13 01:00 UTC+02:00, due 2026-10-13 00:00 UTC+02:00"
    assert f"Handed in late, {times}: 3 points less (10% of 30), already taken off" in page
    assert "for which arguments\n(any that the assignment allows" in page
    assert "<b>20.5 of 26 points so far; the written question is not marked yet</b>" in page
    for test in verdicts.assignment.tests:
        assert f"<code>{test['cell'].removesuffix('-test')}</code>" in page
    theirs = (course / "feedback" / "bob" / NAME / f"{NAME}.html").read_text("utf-8")
    assert "missing &amp; needed" not in theirs
    assert "Handed in late" not in theirs


def test_a_page_says_whose_it_is_and_which_file_was_marked_also_where_a_second_run_finds_an_older_one(
    course, verdicts, capsys, monkeypatch
):
    hand_in(course, "ada", when=DUE)
    mark(course)
    path = course / "feedback" / "ada" / NAME / f"{NAME}.html"
    when = "2026-10-13 00:00 UTC+02:00"
    told(course, capsys, monkeypatch, "--feedback")
    assert f"<p>Ada Lovelace: ada_{NAME}.ipynb, handed in on {when}</p>" in path.read_text("utf-8")
    hand_in(course, "ada", "{}", when=DUE - timedelta(hours=1), name=f"ada_{NAME} (1).ipynb")
    mark(course)
    told(course, capsys, monkeypatch, "--feedback")
    words = f"<p>Ada Lovelace: ada_{NAME}.ipynb, the newest of 2 files, handed in on {when}</p>"
    assert words in path.read_text("utf-8")
    assert verdicts.judged == ["ada"]


def test_a_time_names_its_zone_also_without_a_due_date(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        assert feedback.clock(0.0) == "1970-01-01 01:00 CET"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_an_archive_that_is_saved_again_marks_who_is_new_and_keeps_who_was_marked(course, verdicts):
    path = course / "downloaded" / NAME / "submissions.zip"
    path.parent.mkdir(parents=True)
    for students in (["Ada Lovelace"], ["Bob B", "Cleo C"]):
        with ZipFile(path, "w") as archive:
            for student in students:
                member = f"{student}_4211_assignsubmission_file_/{NAME}.ipynb"
                archive.writestr(member, nbformat.writes(solved(course)))
        marked = mark(course)
    assert sorted(marked.records) == ["ada", "bob", "cleo"]
    assert sorted(verdicts.judged) == ["ada", "bob", "cleo"]


def test_a_students_archive_that_names_another_counts_for_its_student_and_is_a_sign(
    course, verdicts, capsys, monkeypatch
):
    forged = "ada+3_memory+2026-10-01 09:00:00 UTC/Ada Lovelace_1_assignsubmission_file_/x.ipynb"
    path = course / "downloaded" / NAME / "bb_LATE_502_98767_hw.zip"
    path.parent.mkdir(parents=True)
    with ZipFile(path, "w") as archive:
        archive.writestr(forged, nbformat.writes(solved(course)))
    late = (DUE + timedelta(days=2)).timestamp()
    os.utime(path, (late, late))
    (course / "students.csv").write_text(
        "id,first_name,last_name,canvas_id\nada,Ada,Lovelace,501\nbob,B,B,502\n"
    )
    told(course, capsys, monkeypatch)
    states = {row["id"]: (row["state"], float(row["penalty"] or 0) > 0) for row in rows(course, "marks")}
    assert states == {
        "ada": ("nothing handed in", False),
        "bob": ("to mark by hand: the written question", True),
    }
    sign = {(row["student"], row["sign"]): row["where"] for row in suspicious(course)}
    where = f"ada: {(path.with_suffix('.unpacked') / forged).relative_to(course)}"
    assert sign["bob", "one hand-in names two students"] == where
    told(course, capsys, monkeypatch, "--feedback")
    assert not [*(course / "feedback").glob("*for-moodle*")]


def test_pages_of_who_came_by_moodle_go_back_under_the_names_that_moodle_gave(
    course, verdicts, capsys, monkeypatch
):
    hand_in(course, "ada", name="Ada Lovelace_4211_assignsubmission_file_/mine.ipynb")
    hand_in(course, "cleo", name="Cleo C_4212_assignsubmission_file_mine (1).ipynb")
    hand_in(course, "bob")
    mark(course)
    told(course, capsys, monkeypatch, "--feedback")
    with ZipFile(course / "feedback" / f"{NAME}-for-moodle.zip") as archive:
        assert archive.namelist() == [
            f"Ada Lovelace_4211_assignsubmission_file_/{NAME}.html",
            f"Cleo C_4212_assignsubmission_file_/{NAME}.html",
        ]
        page = archive.read(archive.namelist()[0]).decode("utf-8")
    assert page == (course / "feedback" / "ada" / NAME / f"{NAME}.html").read_text("utf-8")


def test_pages_of_who_came_by_canvas_go_back_under_the_numbers_that_canvas_gave(
    course, verdicts, capsys, monkeypatch
):
    (course / "students.csv").write_text(
        "id,first_name,last_name,canvas_id\nada,Ada,Lovelace,501\nbob,Bob,B,502\ncleo,Cleo,C,\n"
    )
    archive = course / "downloaded" / NAME / "submissions.zip"
    archive.parent.mkdir(parents=True)
    with ZipFile(archive, "w") as file:
        file.writestr("lovelaceada_501_98765_my work-1.ipynb", nbformat.writes(solved(course)))
    own = archive.with_name("bbob_LATE_502_98766_hw.zip")
    with ZipFile(own, "w") as file:
        file.writestr("hw.ipynb", nbformat.writes(solved(course)))
    hand_in(course, "cleo")
    mark(course)
    told(course, capsys, monkeypatch, "--feedback")
    assert not [*(course / "feedback").glob("*for-moodle*")]
    with ZipFile(course / "feedback" / f"{NAME}-for-canvas.zip") as pages:
        names = pages.namelist()
        assert names == ["lovelaceada_501_98765_my work-1.html", "bbob_LATE_502_98766_hw.html"]
        page = pages.read(names[1]).decode("utf-8")
    assert page == (course / "feedback" / "bob" / NAME / f"{NAME}.html").read_text("utf-8")


def test_no_page_and_no_table_tells_a_hidden_test(course, verdicts, capsys, monkeypatch):
    hand_in(course, "ada")
    said = told(course, capsys, monkeypatch) + told(course, capsys, monkeypatch, "--feedback")
    said += (course / "feedback" / "ada" / NAME / f"{NAME}.html").read_text("utf-8")
    hidden = [
        line for test in verdicts.assignment.tests for line in test["source"].splitlines() if len(line) > 30
    ]
    assert len(hidden) > 100
    assert not [line for line in hidden if line.strip() in said]
    assert "Trial" not in said


def test_who_marks_sees_the_rubric_beside_the_answer_and_the_student_does_not(
    course, verdicts, capsys, monkeypatch
):
    mine = solved(course)
    cell_of(mine, "written").source = "My own answer."
    hand_in(course, "ada", mine)
    mark(course)
    shown = nbformat.read(course / "autograded" / "ada" / NAME / f"{NAME}.ipynb", as_version=4)
    place = next(place for place, cell in enumerate(shown.cells) if cell.source == "My own answer.")
    assert "| rubric | points |" in shown.cells[place + 1].source
    told(course, capsys, monkeypatch, "--feedback")
    page = (course / "feedback" / "ada" / NAME / f"{NAME}.html").read_text("utf-8")
    assert "My own answer." in page
    assert "rubric" not in page


def test_a_record_holds_what_an_appeal_needs(course, verdicts):
    hand_in(course, "ada")
    mark(course)
    record = json.loads((course / "marks" / NAME / "ada.json").read_text("utf-8"))
    assert {"seed", "time", "penalty", "isolation", "parts", "answer"} <= record.keys()


def test_the_guides_lines_draw_a_case_again(course, capsys):
    guide = (FOLDER / "README.md").read_text("utf-8")
    (lines,) = re.findall(r"```python\n(.*?trial_of.*?)```", guide, re.DOTALL)
    exec(dedent(lines.replace("../classroom", str(course))), {})
    assert "tensor(" in capsys.readouterr().out


def test_a_misspelt_assignment_in_the_rules_stops_before_anything_is_marked(course, verdicts):
    hand_in(course, "ada")
    (course / "course.toml").write_text('[due]\n"3_memry" = 2026-10-12T22:00:00Z\n')
    with pytest.raises(ValueError, match="got 3_memry"):
        mark(course)
    assert verdicts.judged == []


def test_a_page_needs_no_gradebook(course, verdicts):
    """The page is made of a verdict and marks alone, so that it can be tested without nbgrader."""
    hand_in(course, "ada")
    record = mark(course).records["ada"]
    standing = in_gradebook(course)["ada"] | {"corrected": ["weigh-test"]}
    page = feedback.page(verdicts.assignment, record, standing)
    assert "(corrected by hand)" in page


def test_a_correction_by_hand_stands_before_what_was_found(course, verdicts):
    hand_in(course, "ada")
    groups = {"with a memory": False, "at the start": False}
    verdicts.wrong["ada", "weigh"] = {"score": 0, "message": "there is a loop", "groups": groups}
    record = mark(course).records["ada"]
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        grade = gradebook.find_grade("weigh-test", NAME, NAME, "ada")
        grade.manual_score = 5
        gradebook.find_comment("weigh", NAME, NAME, "ada").manual_comment = "As right as ours."
        gradebook.db.commit()
    page = feedback.page(verdicts.assignment, record, in_gradebook(course)["ada"])
    found = "there is a loop<ul><li>✗ not yet: with a memory</li><li>✗ not yet: at the start</li></ul>"
    said = f"a person looked at it and gave these points. The marking had found: {found}"
    assert f"5 of 5 (corrected by hand)</td><td>{said}<p><b>Comment:</b> As right as ours.</p>" in page


def test_a_page_says_what_was_marked_so_far_and_of_how_many_points(course, verdicts):
    hand_in(course, "ada", when=DUE + timedelta(hours=1))
    verdicts.wrong["ada", "weigh"] = {"score": None, "again": "the machine was busy", "message": "busy"}
    record = mark(course).records["ada"]

    def page():
        return feedback.page(verdicts.assignment, record, in_gradebook(course)["ada"])

    assert "<b>18 of 21 points so far; weigh, the written question are not marked yet</b>" in page()
    verdicts.wrong.clear()
    record = mark(course).records["ada"]
    assert "<b>23 of 26 points so far; the written question is not marked yet</b>" in page()
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        grade = gradebook.find_grade("written", NAME, NAME, "ada")
        grade.manual_score, grade.needs_manual_grade = 3, False
        gradebook.db.commit()
    assert "<b>26 of 30 points</b>" in page()
    assert "The written question: 3 of 4 points" in page()
    assert "What each point is given for, and an answer, stand below the question in the solved" in page()
    assert "| rubric | points |" in cell_of(solved(course), "written").source


def test_two_students_of_one_name_are_to_be_looked_at_with_the_file(course, verdicts, capsys, monkeypatch):
    (course / "students.csv").write_text("id,first_name,last_name\nlee1,Lee,Chan\nlee2,Lee,Chan\nada,Ada,L\n")
    hand_in(course, "", name="Lee Chan_4_assignsubmission_file_/my.ipynb")
    told(course, capsys, monkeypatch)
    states = {row["id"]: row["state"] for row in rows(course, "marks")}
    assert states["ada"] == "nothing handed in"
    for student in ("lee1", "lee2"):
        file = (
            f"look at it: downloaded/{NAME}/Lee Chan_4_assignsubmission_file_/my.ipynb: students.csv has more"
        )
        assert states[student].startswith(file)
    hand_in(course, "lee1", when=DUE + timedelta(minutes=1))
    told(course, capsys, monkeypatch)
    states = {row["id"]: row["state"] for row in rows(course, "marks")}
    assert states["lee1"].startswith("to mark by hand")


def test_who_was_marked_and_has_no_file_any_more_is_to_be_looked_at(course, verdicts, capsys, monkeypatch):
    path = hand_in(course, "ada")
    told(course, capsys, monkeypatch)
    path.unlink()
    told(course, capsys, monkeypatch)
    states = {row["id"]: row["state"] for row in rows(course, "marks")}
    assert states["ada"] == f"look at it: {TAKEN_AWAY}"
    assert states["bob"] == "nothing handed in"


def test_a_statement_whose_error_holds_an_address_is_told_once():
    parts = [{"left_out": [["statement 1", f"it raised OSError: <f at 0x7f{n}a>"]]} for n in range(3)]
    assert feedback.left_out({"parts": parts}) == [("statement 1", "it raised OSError: <f at 0x…>")]
