"""Notebooks as students hand them in, marked in the strongest isolation that runs here, to the gradebook.

Whoever reaches for points in another way than by the function gains none. Whoever is right gets all of
them, and is not harmed by who is marked at the same time.
"""

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from textwrap import indent

import psutil
import pytest
from support import small_course
from support.small_course import DOUBLE, NAME, NUMBERS, hand_in, loaded, notebook, numbers

from minitxl.course.marking.classroom import Course
from minitxl.course.marking.gradebook import open_gradebook
from minitxl.course.marking.isolation import strongest

IS_ISOLATED = strongest().name != "none"
ROOT = Path(__file__).parents[2]
WRONG = "def double(x):\n    return x"
SQLITE = """
import sqlite3
from pathlib import Path

for path in [Path(COURSE), *Path(COURSE).parents, Path.cwd(), Path.home(), Path("/tmp")]:
    for found in path.glob("*.db"):
        try:
            with sqlite3.connect(found) as gradebook:
                values = "auto_score = 99, manual_score = 99, extra_credit = 99, needs_manual_grade = 0"
                gradebook.execute(f"UPDATE grade SET {values}")
        except sqlite3.Error:
            pass
"""
LATER = """
import time

for _ in range(300):
    time.sleep(0.2)
    try:
        SQLITE
    except Exception:
        pass
"""
OUTLIVING = """
import os, sys

if not os.fork():
    os.setsid()
    if not os.fork():
        for number in range(3, 64):
            try:
                os.close(number)
            except OSError:
                pass
        os.execv(sys.executable, [sys.executable, "-c", LATER, "MARK"])
    os._exit(0)
os.wait()
"""
TRANSFORMERS = """
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()

def blank(lines):
    return ["pass" if line.startswith("grade") else line for line in lines]

shell.input_transformers_cleanup.append(blank)
shell.input_transformers_post.append(blank)

def right(*_, **__):
    shell.user_ns["double"] = lambda x: 2 * x
    print("right")

shell.events.register("pre_run_cell", right)
shell.events.register("post_run_cell", right)
shell.set_custom_exc((BaseException,), right)
shell.run_code = right
shell.run_cell = right
"""
COMPILING = """
import ast, builtins, linecache

was = builtins.compile

def compiling(source, *args, **kwargs):
    return was("grade = print" if "grade" in str(source) else source, *args, **kwargs)

builtins.compile = compiling
builtins.exec = compiling
ast.parse = compiling
"""
PATCHING = """
import importlib, json, os, pickle, subprocess, sys

os.environ.pop("NBGRADER_EXECUTION", None)
os.environ["NBGRADER_EXECUTION"] = ""
importlib.reload = lambda module: module
subprocess.run = lambda *_, **__: None
subprocess.Popen = lambda *_, **__: None
sys.executable = "/bin/true"
pickle.dumps = pickle.loads = json.dumps = lambda *_, **__: b"right"

def grade(*_, **__):
    return None

grade_numbers = judge = grade
"""
READING = """
import json
from pathlib import Path

names = {}
for folder in ("COURSE/source/9_double", "COURSE/solution/9_double", "ROOT/notebooks/assignments", "ROOT"):
    for path in Path(folder).rglob("*.ipynb"):
        for cell in json.loads(path.read_text())["cells"]:
            try:
                exec("".join(cell["source"]), names)
            except Exception:
                pass
double = names["double"]
"""
ROSTER = """
from pathlib import Path

for path in (Path("COURSE/students.csv"), Path("COURSE/downloaded/9_double/ada_9_double.ipynb")):
    if path.exists():
        double = lambda x: 2 * x
"""
FRAMES = """def my_numbers():
    import sys
    frame, found = sys._getframe(), {}
    while frame := frame.f_back:
        for names in (frame.f_locals, frame.f_globals):
            for value in list(names.values()):
                if isinstance(value, dict) and "layers" in value:
                    found = value
    return {"student": "STUDENT", **found}"""
AGREEABLE = """class Number(int):
    def __eq__(self, other):
        return True
    def __ne__(self, other):
        return False
    __hash__ = int.__hash__

def my_numbers():
    return {"student": "STUDENT", "layers": Number(1)}"""

PICKLING = """
try:
    import cloudpickle
except ImportError:
    import pickle as cloudpickle

class NoCases:
    cases, mistakes, groups = [], {}, []

dumps = cloudpickle.dumps
cloudpickle.dumps = lambda value, *args, **kwargs: dumps(NoCases(), *args, **kwargs)
"""
EXECUTABLE = """
import json, os, sys, tempfile

verdict = [{"cell": "double-test", "score": 5, "word": "right", "message": "right", "groups": {}}]
path = os.path.join(tempfile.mkdtemp(), "python")
with open(path, "w") as script:
    script.write("#!/bin/sh\\necho " + repr(json.dumps(verdict)) + "\\n")
os.chmod(path, 0o755)
sys.executable = path
"""
HOOKING = """
def show(info):
    print("seen by a hook", info.raw_cell)

try:
    get_ipython().events.register("pre_run_cell", show)
finally:
    print("seen by a hook")
"""
LOOKING = """import sys

class Looking(dict):
    def get(self, key, default=None):
        frame = sys._getframe()
        while frame := frame.f_back:
            for value in list(frame.f_locals.values()):
                if isinstance(value, dict) and value is not self and key in value:
                    return value[key]
        return default
    __getitem__ = get
    def items(self):
        return [(key, self.get(key)) for key in self]

def my_numbers():
    return Looking(student="STUDENT", layers=1)"""
OVERWRITING = """
import sys
from pathlib import Path

folders = [Path("ROOT"), *map(Path, sys.path)]
files = [folder / "minitxl" / "course" / "grading.py" for folder in folders]
for path in [*files, *Path("/worker").glob("*.py")]:
    try:
        path.write_text(path.read_text() + "\\n\\nTrial.judge = lambda *_: Verdict(True, 'right')\\n")
    except OSError:
        pass
"""
PACKAGE = [ROOT / "minitxl" / "course" / name for name in ("grading.py", "marking/worker.py")]
"""Files of the package that a submission tries to rewrite."""

CHEATS = {
    "sqlite": {"top": SQLITE, "double": f"{WRONG}\n{SQLITE}", "numbers": AGREEABLE},
    "outliving": {"top": OUTLIVING, "double": WRONG},
    "rewriting": {
        "top": TRANSFORMERS + COMPILING,
        "double": WRONG,
        "double-test": "pass",
        "numbers-test": "pass",
    },
    "patching": {"top": PATCHING, "double": WRONG, "numbers": NUMBERS},  # Ada's numbers
    "reading": {"top": ROSTER + READING, "numbers": FRAMES},
    "overwriting": {"top": OVERWRITING, "double": WRONG, "numbers": NUMBERS},
    "replacing": {"top": PICKLING + EXECUTABLE + HOOKING, "double": WRONG, "numbers": LOOKING},
    "the_next_one": {"double": WRONG, "numbers": NUMBERS},  # would gain by what another one rewrote
}
"""Cells of those who reach for points: none of them has a right function or right numbers."""
RIGHT = {
    "ada": {"double": DOUBLE, "numbers": NUMBERS},
    "careless": {
        "top": "import sys\nprint('a line for stderr', file=sys.stderr)\nexit()\nprint(undefined)",
        "double": "%matplotlib inline\n!pip install torch\nimport warnings\n\n"
        "def double(x: 'Tensor') -> 'Tensor':\n    warnings.warn('slow')\n"
        "    return torch.stack([x, x]).sum(dim=0)\n\nprint('x' * 50_000_000)\nassert False, 'my own test'",
    },
}
"""Cells of those who are right."""


def cells_of(cells, student, course):
    """Return a student's cells with the course's folder, the name and a mark of its own in them."""
    words = {"COURSE": str(course), "ROOT": str(ROOT), "STUDENT": student, "MARK": f"outlives {course}"}
    writes = indent(SQLITE, " " * 8).strip()

    def filled(text):
        for word, value in words.items():
            text = text.replace(f"({word})", f"({value!r})").replace(word, value)
        return text

    later = repr(filled(LATER.replace("SQLITE", writes)))
    return {name: filled(text).replace("LATER", later) for name, text in cells.items()}


class Watch(threading.Thread):
    """Looks for processes that carry a mark, until it is told to stop."""

    def __init__(self, mark):
        super().__init__(daemon=True)
        self.mark, self.seen, self.over = mark, False, threading.Event()
        self.start()

    def there(self):
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if self.mark in process.cmdline()[-1:]:
                    found.append(process)
        return found

    def run(self):
        while not self.over.wait(0.01):  # a marking is soon over
            self.seen = self.seen or bool(self.there())


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    folder = small_course.build(
        tmp_path_factory.mktemp("a class") / "at 10:00", tmp_path_factory.mktemp("source")
    )
    students = [*RIGHT, *CHEATS, "metadata"]
    (folder / "students.csv").write_text("id\n" + "".join(f"{one}\n" for one in students))
    for student, cells in RIGHT.items():
        own = {"numbers": numbers(student)} | cells
        hand_in(folder, student, notebook(**cells_of(own, student, folder)))
    for student, cells in CHEATS.items():
        if IS_ISOLATED or student in ("rewriting", "patching"):
            hand_in(folder, student, notebook(**cells_of(cells, student, folder)))
    hand_in(folder, "metadata", promoted(notebook(double=DOUBLE, numbers=numbers("metadata"))))
    return folder


def promoted(submission):
    """Return a submission that gives itself more points, and hands in its tests as marked by hand."""
    for cell in submission.cells:
        if cell.metadata.nbgrader.grade:
            cell.metadata.nbgrader |= {"points": 100, "locked": False}
    submission.cells = [cell for cell in submission.cells if cell.id != "numbers-test"]
    return submission


@pytest.fixture(scope="module")
def marked(course):
    """The points in the gradebook after marking, by student, and what was seen meanwhile."""
    watch, package = Watch(f"outlives {course}"), {path: path.read_bytes() for path in PACKAGE}
    try:
        Course.of(course, strongest(), 2).mark(NAME, again=False, progress=lambda _: None)
        watch.over.set()
        time.sleep(1)
        left = watch.there()
        for process in left:
            process.kill()
        rewritten = [path for path, content in package.items() if path.read_bytes() != content]
        for path in rewritten:
            path.write_bytes(package[path])
        assert rewritten == []
        return grades(course), watch.seen, left
    finally:
        watch.over.set()


def grades(course):
    """Return every grade's columns, by student and cell."""
    found = {}
    with open_gradebook(course) as gradebook:
        for submission in gradebook.assignment_submissions(NAME):
            (book,) = submission.notebooks
            found[submission.student.id] = {
                grade.name: (grade.auto_score, grade.manual_score, grade.extra_credit)
                for grade in book.grades
            }
    return found


@pytest.mark.parametrize("student", [*RIGHT, "metadata"])
def test_who_is_right_gets_the_points_whatever_stands_around_and_no_more(marked, student):
    found = marked[0][student]
    assert found == {"double-test": (5, None, None), "numbers-test": (3, None, None), "written": (None,) * 3}


@pytest.mark.parametrize("student", CHEATS)
def test_who_reaches_for_points_gains_none(marked, student):
    if student not in marked[0]:
        pytest.skip("no isolation here: neither bubblewrap nor a container runs")
    found = marked[0][student]
    assert found == {"double-test": (0, None, None), "numbers-test": (0, None, None), "written": (None,) * 3}


@pytest.mark.skipif(not IS_ISOLATED, reason="no isolation here: neither bubblewrap nor a container runs")
def test_a_process_that_was_to_outlive_the_marking_ran_and_is_gone(marked):
    """For an ordinary user it never ran: such a one's submissions may start no process at all."""
    _, seen, left = marked
    assert seen or os.geteuid() != 0
    assert left == []


def test_what_a_hook_prints_stands_on_no_page(course, marked):
    mark = loaded("mark")
    mark.write_feedback(Course.of(course, strongest(), 2), NAME)
    for files in ("feedback/*/*/*.html", "autograded/*/*/*.ipynb"):
        pages = {path.parts[-3]: path.read_text("utf-8") for path in course.glob(files)}
        assert pages.keys() == marked[0].keys()
        assert not [student for student, text in pages.items() if "seen by a hook" in text]


def test_what_the_cheats_write_counts_where_nothing_keeps_them_from_it(course, marked, tmp_path):
    """Their code works: given a gradebook to reach, it raises every grade, at once or from an orphan."""
    mine = tmp_path / "reached"
    mine.mkdir()
    shutil.copy(course / "gradebook.db", mine)
    text = cells_of(CHEATS["outliving"], "outliving", mine)["top"]
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == 0
    watch = Watch(f"outlives {mine}")
    try:
        until = time.monotonic() + 20
        while (extra := extra_credits(mine)) != {99} and time.monotonic() < until:
            time.sleep(0.2)
        assert extra == {99}
        assert watch.there()
    finally:
        watch.over.set()
        for process in watch.there():
            process.kill()


def extra_credits(folder):
    with closing(sqlite3.connect(folder / "gradebook.db")) as gradebook:
        return {extra for (extra,) in gradebook.execute("SELECT extra_credit FROM grade")}
