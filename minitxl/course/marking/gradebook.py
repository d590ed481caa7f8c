"""Verdicts in nbgrader's gradebook, through its own interface.

nbgrader is imported where it is used: it comes with ``minitxl[classroom]``, and does not run on Windows.
"""

import os
import warnings
from collections.abc import Iterable
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat

from minitxl.course.marking.layout import laid_out
from minitxl.course.marking.notebooks import Handed
from minitxl.course.marking.records import has_points_of
from minitxl.files import atomic_write


def open_gradebook(course: Path) -> Any:
    """Return the course's gradebook, to be closed after use."""
    from nbgrader.api import Gradebook

    return closing(Gradebook(f"sqlite:///{course / 'gradebook.db'}", "minitxl"))


def holds(gradebook: Any, course: Path, assignment: str, record: dict[str, Any]) -> bool:
    """Return True if the gradebook has a submission with its record's points, as formgrader shows it."""
    student = record["student"]
    if not has_submission(gradebook, assignment, student) or not shown(course, assignment, student).exists():
        return False
    submission = gradebook.find_submission(assignment, student)
    is_seen = submission.timestamp == _time_of_exchange(course, assignment, student)
    return is_seen and has_points_of(record, _standing(submission))


def has_submission(gradebook: Any, assignment: str, student: str) -> bool:
    """Return True if the gradebook has a submission of the student's."""
    from nbgrader.api import MissingEntry

    try:
        gradebook.find_submission(assignment, student)
    except MissingEntry:
        return False
    return True


def shown(course: Path, assignment: str, student: str) -> Path:
    """Return where formgrader looks for a submission's notebook."""
    return course / "autograded" / student / assignment / f"{assignment}.ipynb"


def store(gradebook: Any, course: Path, handed: Handed, record: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Write a verdict into the gradebook, and the notebook for formgrader; points by hand stay.

    Where their answer has changed since they were given, a person is to confirm or to change them.

    Returns:
        What the gradebook had otherwise: functions, or "penalty", with the points before and now.
    """
    from sqlalchemy.exc import SAWarning

    name, student = handed.assignment.name, record["student"]
    changed = _changed(gradebook, name, record) if has_submission(gradebook, name, student) else []
    gradebook.update_or_create_student(student, **record.get("person", {}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SAWarning)  # nbgrader makes a submission before it belongs to one
        time = _time_of_exchange(course, name, student)
        submission = gradebook.update_or_create_submission(name, student, timestamp=time)
    verdicts = {part["cell"]: in_words(part) for part in record["parts"]}
    scores = {part["cell"]: part["score"] for part in record["parts"]}
    answers = record.get("answers", {})
    before = record.get("answers_before", answers)
    for cell in (*scores, *handed.assignment.by_hand):
        grade = gradebook.find_grade(cell, name, name, student)
        grade.auto_score = scores.get(cell)
        if grade.manual_score is None:
            grade.needs_manual_grade = grade.auto_score is None
        elif before.get(cell) != answers.get(cell):
            grade.needs_manual_grade = True
        if is_of_an_older_answer(grade) and cell in verdicts:
            given = f"{grade.manual_score:g} points were given by hand for an older answer"
            verdicts[cell] += f"\n{given}: confirm or change them"
    for notebook in submission.notebooks:
        notebook.late_submission_penalty = record["penalty"]
    gradebook.db.commit()
    path = shown(course, name, student)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as new:
        nbformat.write(laid_out(handed, verdicts), new)
    os.utime(path, (record["time"], record["time"]))
    return changed


def is_of_an_older_answer(grade: Any) -> bool:
    """Return True for points by hand whose answer has changed since, which no person has confirmed yet."""
    return bool(grade.needs_manual_grade) and grade.manual_score is not None


def _changed(gradebook: Any, assignment: str, record: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return which points of a submission in the gradebook a record changes, before and now."""
    submission = gradebook.find_submission(assignment, record["student"])
    standing = _standing(submission)
    found = [
        (part["function"], _points(standing[part["cell"]]), _points(part["score"]))
        for part in record["parts"]
        if part["cell"] in standing
    ]
    found.append(("penalty", _points(submission.late_submission_penalty), _points(record["penalty"])))
    return [one for one in found if one[1] != one[2]]


def _standing(submission: Any) -> dict[str, float | None]:
    """Return the points that the marking gave, by cell, whatever a person gave beside them."""
    return {grade.name: grade.auto_score for one in submission.notebooks for grade in one.grades}


def _points(score: float | None) -> str:
    return "not marked" if score is None else f"{score:g}"


def _time_of_exchange(course: Path, assignment: str, student: str) -> datetime | None:
    """Return the time of nbgrader's exchange, in UTC without saying so; None for what came another way.

    Where the gradebook has another time, formgrader takes the submission for one that is not marked yet.
    """
    from nbgrader.utils import parse_utc

    with suppress(Exception):  # of a file that is not there, or holds no time
        stamp = course / "submitted" / student / assignment / "timestamp.txt"
        time: datetime = parse_utc(stamp.read_text("utf-8").strip())
        return time
    return None


def in_words(part: dict[str, Any]) -> str:
    """Return a part's verdict as lines of text."""
    if part["score"] is None:
        return f"not marked: {part['again']}. Mark it again"
    lines = [f"{part['score']:g} of {part['most']:g} points: {part['message']}"]
    lines += [f"  {'right ' if right else 'wrong '} {group}" for group, right in part["groups"].items()]
    return "\n".join(lines)


def marks(gradebook: Any, assignment: str, students: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return score, penalty, what a person must still mark, points by hand and comments, by student.

    ``points`` has what each cell was given, by the marking or by hand, and ``worth`` what it is worth;
    ``for older`` has those by hand that were given for an older answer.
    ``above`` has each cell with more points than it is worth, or with extra credit, and says how many.
    """
    found = {}
    for student in students:
        if not has_submission(gradebook, assignment, student):
            continue
        submission = gradebook.find_submission(assignment, student)
        grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
        comments = [one for notebook in submission.notebooks for one in notebook.comments]
        found[student] = {
            "score": max(0.0, submission.score - submission.late_submission_penalty),
            "most": submission.max_score,
            "penalty": submission.late_submission_penalty,
            "by hand": [grade.name for grade in grades if grade.needs_manual_grade],
            "for older": {one.name: one.manual_score for one in grades if is_of_an_older_answer(one)},
            "points": {grade.name: grade.score for grade in grades},
            "by the marking": _standing(submission),
            "worth": {grade.name: grade.max_score for grade in grades},
            "corrected": [g.name for g in grades if g.manual_score is not None and g.auto_score is not None],
            "above": [(grade.name, words) for grade in grades for words in _above(grade)],
            "comments": {one.name: one.comment for one in comments if one.comment},
        }
    return found


def _above(grade: Any) -> list[str]:
    """Return what a grade has beyond what its cell is worth: typing errors, mostly."""
    extra = grade.extra_credit or 0.0
    given = grade.score - extra
    too_many = [f"{given:g} of {grade.max_score:g} points"] if given > grade.max_score else []
    return too_many + ([f"extra credit of {extra:g} points"] if extra else [])
