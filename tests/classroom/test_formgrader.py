"""nbgrader beside the marking: its Autograde runs nothing, and its exchange hands the pages back."""

import nbformat
import pytest
from nbgrader.utils import notebook_hash
from support import small_course
from support.small_course import DOUBLE, NAME, hand_in, loaded, notebook, numbers

from minitxl.course.marking.classroom import Course
from minitxl.course.marking.gradebook import marks, open_gradebook
from minitxl.course.marking.isolation import none


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


def points(course):
    with open_gradebook(course) as gradebook:
        return marks(gradebook, NAME, ["ada"])["ada"]["points"]


def test_autograde_runs_nothing_says_who_marks_and_changes_no_points(course):
    before = points(course)
    assert before["double-test"] == 5
    made = loaded("build").api_of(course.resolve()).autograde(NAME, "ada")
    assert not made["success"]
    assert "submissions are marked by 'make mark'" in made["log"]
    assert not (course / "trace").exists()
    assert points(course) == before


def test_the_notebook_that_autograde_took_away_is_there_again_after_marking(course):
    loaded("build").api_of(course.resolve()).autograde(NAME, "ada")
    found = course / "autograded" / "ada" / NAME / f"{NAME}.ipynb"
    assert not found.exists()
    assert mark(course).anew == []
    assert "5 of 5 points: right" in str(nbformat.read(found, as_version=4))


@pytest.mark.filterwarnings("ignore:Passing unrecognized arguments:DeprecationWarning")  # nbgrader's own,
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # and its unclosed files
def test_the_exchange_hands_each_page_back_by_the_secret_of_its_submission(course, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["mark.py", str(course), "--isolation", "none", "--feedback"])
    loaded("mark").main()
    exchange = tmp_path / "exchange"
    exchange.mkdir()
    exchange.chmod(0o777)
    with (course / "nbgrader_config.py").open("a") as config:
        config.write(f"c.Exchange.root = {str(exchange)!r}\n")
    api = loaded("build").api_of(course.resolve())
    for words in ("first", "second"):
        page = course / "feedback" / "ada" / NAME / f"{NAME}.html"
        page.write_text(words)
        made = api.release_feedback(NAME)
        assert made["success"], made
        released = exchange / "minitxl" / "feedback" / f"{notebook_hash(secret='abc', notebook_id=NAME)}.html"
        assert released.read_text() == words
    assert len(list(released.parent.iterdir())) == 2
