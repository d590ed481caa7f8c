"""nbgrader beside the marking: its lists have the marks, its buttons undo none, its exchange hands back."""

from datetime import datetime

import nbformat
import pytest
from nbconvert.filters import markdown2html
from nbgrader.utils import notebook_hash
from support import small_course
from support.small_course import DOUBLE, NAME, hand_in, loaded, notebook, numbers

from minitxl.course.marking.classroom import Course
from minitxl.course.marking.gradebook import marks, open_gradebook
from minitxl.course.marking.isolation import none
from minitxl.course.marking.layout import STYLE


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course with a submission that came by the exchange and was marked; its code leaves a trace."""
    folder = small_course.build(tmp_path_factory.mktemp("course"), tmp_path_factory.mktemp("sources"))
    trace = f"from pathlib import Path\n\nPath({str(folder / 'trace')!r}).write_text('run')"
    path = hand_in(folder, "ada", notebook(top=trace, double=DOUBLE, numbers=numbers("ada")))
    submitted = folder / "submitted" / "ada" / NAME / f"{NAME}.ipynb"
    submitted.parent.mkdir(parents=True)
    path.rename(submitted)
    submitted.with_name("timestamp.txt").write_text("2026-10-12 12:30:00.123456 UTC")
    submitted.with_name("submission_secret.txt").write_text("abc")
    hand_in(folder, "bob", notebook())
    mark(folder)
    (folder / "trace").unlink()  # without isolation, marking runs it too
    return folder


def mark(course):
    return Course.of(course, none(), 1).mark(NAME, again=False, progress=lambda _: None)


def api_of(course):
    return loaded("build").api_of(course.resolve())


def write_feedback(course, monkeypatch):
    monkeypatch.setattr("sys.argv", ["mark.py", str(course), "--isolation", "none", "--feedback"])
    loaded("mark").main()


def points(course):
    with open_gradebook(course) as gradebook:
        return marks(gradebook, NAME, ["ada"])["ada"]["points"]


def test_formgraders_lists_have_the_marks_of_each_student_whatever_way_a_notebook_came(course):
    api = api_of(course)
    (assignment,) = api.get_assignments()
    assert (assignment["average_score"], assignment["max_score"]) == (4, 10)
    to_mark = {one["student"]: one for one in api.get_notebook_submissions(NAME, NAME)}
    for student, score in (("ada", 8), ("bob", 0)):
        (of_student,) = api.get_student_submissions(student)
        assert of_student["submitted"]
        for found in (of_student, to_mark[student]):
            assert (found["score"], found["max_score"], found["max_written_score"]) == (score, 10, 2)
            assert found["needs_manual_grade"]


def test_a_list_that_took_a_marked_notebook_for_none_is_right_after_the_next_marking(course):
    with open_gradebook(course) as gradebook:
        gradebook.update_or_create_submission(NAME, "bob", timestamp=datetime(2026, 10, 12))
    assert not api_of(course).get_submission(NAME, "bob")["submitted"]
    assert mark(course).anew == []
    assert api_of(course).get_submission(NAME, "bob")["submitted"]


def test_autograde_runs_nothing_says_who_marks_and_changes_neither_points_nor_notebook(course):
    before = points(course)
    assert before["double-test"] == 5
    made = api_of(course).autograde(NAME, "ada")
    assert not made["success"]
    assert "submissions are marked by 'make mark'" in made["error"]
    assert not (course / "trace").exists()
    assert points(course) == before
    found = course / "autograded" / "ada" / NAME / f"{NAME}.ipynb"
    assert "5 of 5 points: right" in str(nbformat.read(found, as_version=4))


def test_generate_feedback_leaves_the_pages_which_have_no_answer_to_the_written_question(course, monkeypatch):
    write_feedback(course, monkeypatch)
    for_the_grader = nbformat.read(course / "autograded" / "ada" / NAME / f"{NAME}.ipynb", as_version=4)
    rubric = markdown2html(for_the_grader.cells[-1].source)
    assert "An answer." in rubric
    assert STYLE in rubric  # as HTML, not as text
    page = course / "feedback" / "ada" / NAME / f"{NAME}.html"
    before = page.read_bytes()
    for student in ("ada", None):
        made = api_of(course).generate_feedback(NAME, student)
        assert not made["success"]
        assert "'make feedback' writes the pages" in made["error"]
        assert page.read_bytes() == before


@pytest.mark.filterwarnings("ignore:Passing unrecognized arguments:DeprecationWarning")  # nbgrader's own,
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # and its unclosed files
def test_the_exchange_hands_each_page_back_by_the_secret_of_its_submission(course, tmp_path, monkeypatch):
    write_feedback(course, monkeypatch)
    exchange = tmp_path / "exchange"
    exchange.mkdir()
    exchange.chmod(0o777)
    with (course / "nbgrader_config.py").open("a") as config:
        config.write(f"c.Exchange.root = {str(exchange)!r}\n")
    api = api_of(course)
    for words in ("first", "second"):
        page = course / "feedback" / "ada" / NAME / f"{NAME}.html"
        page.write_text(words)
        made = api.release_feedback(NAME)
        assert made["success"], made
        released = exchange / "minitxl" / "feedback" / f"{notebook_hash(secret='abc', notebook_id=NAME)}.html"
        assert released.read_text() == words
    assert len(list(released.parent.iterdir())) == 2
