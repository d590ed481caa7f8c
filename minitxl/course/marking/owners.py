"""Whose a file is by the names that Moodle, Canvas, nbgrader's exchange, teachers and students give."""

import csv
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

AGAIN = r"(?:[ _-]?\((?P<a>\d+)\)|-(?P<b>\d+))?"
"""A counter that browsers and Canvas add to a file's name: " (1)", "-2"."""
EXCHANGE = re.compile(
    r"(?P<id>.+)\+(?P<assignment>[^+]+)\+(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^+]*)(?:\+[^+]*)?"
)
MOODLE = re.compile(r"(?P<head>(?P<name>.+?)_\d+_assignsubmission_(?:file_?)?)(?P<rest>.*)")
CANVAS = re.compile(r"(?P<name>[^_]+)_(?P<late>LATE_)?(?P<number>\d+)_\d+_(?P<rest>.+)")
ARCHIVE = ".zip"
UNPACKED = ".unpacked"
"""End of the name of a folder of an archive's files, beside it."""


@dataclass
class Roster:
    """The course's students by all names that a platform may give them; none where there is no list.

    ``names`` have the first name first, or are Canvas's numbers or email addresses, and ``turned`` have the
    last name first.
    """

    ids: dict[str, str] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)
    turned: dict[str, list[str]] = field(default_factory=dict)
    people: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, course: Path) -> "Roster":
        """Read ``students.csv``: id, and where they are there first_name, last_name, email and canvas_id."""
        roster, path = cls(), course / "students.csv"
        if not path.is_file():
            return roster
        with path.open(newline="", encoding="utf-8-sig") as file:
            table = csv.DictReader(file)
            rows, columns = list(table), list(table.fieldnames or [])
        if "id" not in columns:
            raise ValueError(_without_ids(columns))
        if not rows:
            raise ValueError(
                "students.csv must have a row for each student, and has none below its column names"
            )
        for place, row in enumerate(rows, 1):
            student = (row["id"] or "").strip()
            if not student:
                raise ValueError(
                    f"students.csv must have an id for each student, and its row {place} has none"
                )
            if student.casefold() in roster.ids:
                raise ValueError(
                    f"students.csv must have each id once, and has {student} twice: see row {place}"
                )
            first, last = ((row.get(key) or "").strip() for key in ("first_name", "last_name"))
            roster.people[student] = {key: value or "" for key, value in row.items() if key}
            roster.ids[student.casefold()] = student
            if number := (row.get("canvas_id") or "").strip():
                roster.names[f"#{number}"] = [student]
            email = (row.get("email") or "").strip()
            for order, names in (
                (roster.names, {f"{first}{last}", email}),
                (roster.turned, {f"{last}{first}"}),
            ):
                for name in names - {""}:
                    order.setdefault(_squashed(name), []).append(student)
        return roster

    def find(self, name: str, number: str = "", *, last_first: bool = False) -> list[str]:
        """Return the user names of those who have this number, name or user name: several have one name.

        A name is read as first and last name, and the other way round only where that is no one's; with
        ``last_first`` in the other order.
        """
        if number and (known := self.names.get(f"#{number}")):
            return known
        if known_id := self.ids.get(name.casefold()):
            return [known_id]
        key, orders = _squashed(name), [self.names, self.turned]
        for order in reversed(orders) if last_first else orders:
            if key in order:
                return order[key]
        return [] if self.ids else [name]


def _without_ids(columns: Sequence[str]) -> str:
    """Return what is wrong with the first line of a list of students, which has no column of ids."""
    if not columns:
        return "students.csv must have the column id, and is empty"
    got = ", ".join(columns)
    if len(columns) == 1 and (mark := re.search(r"[;\t]", got)):
        sign = {";": "semicolons", "\t": "tabs"}[mark[0]]
        return (
            f"students.csv must have commas between its columns, and has {sign}: save it as CSV with commas"
        )
    return f"students.csv must have the column id, got {got}"


def _squashed(name: str) -> str:
    """Return a name without what platforms and file systems change: case, accents, spaces and points."""
    plain = "".join(one for one in unicodedata.normalize("NFKD", name) if not unicodedata.combining(one))
    return re.sub(r"[\s.,'’_-]+", "", plain).casefold()


class Told(NamedTuple):
    """The student and the time of a hand-in, as names of folders and files tell them.

    ``part`` is the name that decided, "" for none, and ``others`` are students whom names below it tell of.
    ``same`` are the students who have one name, of whom the name does not tell which. ``on_time`` is True for
    a file in Canvas's archive whose name does not say LATE: the archive holds no times but its own.
    """

    student: str | None
    time: str | None = None
    part: str = ""
    others: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    on_time: bool = False


def told(path: Path, course: Path, assignment: str, roster: Roster) -> Told:
    """Return whose notebook it is, by the names of its folders and its own.

    Platforms name the outer folders, students what is inside: the outermost name that tells a student
    decides, for the time too. A name as Moodle or the exchange gives it decides where no one has it, and
    so does one as Canvas gives it, but for the outermost: course and term may look like it.
    """
    if path.is_relative_to(course / "submitted"):
        folder, *_ = path.relative_to(course / "submitted").parts
        owner = _only(roster.find(folder))
        others = _others([path.stem], owner, assignment, roster)
        return Told(owner, None, folder, others)
    *folders, _ = path.relative_to(course / "downloaded" / assignment).parts
    parts = [*(one.removesuffix(UNPACKED) for one in folders), path.stem]
    if not roster.ids:
        return _told_without_list(parts, assignment)
    same = list[str]()
    for place, part in enumerate(parts):
        is_plain = place < len(folders) or path.suffix.lower() == ARCHIVE or not folders
        students, rest = _students(part, assignment, roster, is_plain=is_plain)
        student, same = _only(students), same or students
        exchange = EXCHANGE.fullmatch(part)
        moodle, canvas = MOODLE.fullmatch(part), CANVAS.fullmatch(part) if place else None
        is_platforms = exchange or moodle or canvas
        if student or is_platforms:
            is_inbound = part in folders[place : place + 1]  # and no archive, whose maker named it
            time = exchange["time"] if exchange and is_inbound else None
            inner = [one for one in (rest, *parts[place + 1 :]) if one]
            others = _others(inner, student, assignment, roster)
            on_time = bool(canvas and not exchange and not moodle and not canvas["late"])
            return Told(student, time, part, others, () if student else tuple(same), on_time)
    return Told(None, same=tuple(same))


def _only(students: Sequence[str]) -> str | None:
    """Return the student whom a name tells; None where it is no one's, or several have it."""
    return students[0] if len(students) == 1 else None


def _told_without_list(parts: list[str], assignment: str) -> Told:
    """Return whose notebook it is where no list says which names are students'."""
    for part in parts:
        if match := EXCHANGE.fullmatch(part):
            return Told(match["id"], match["time"], part)
        if match := MOODLE.fullmatch(part):
            return Told(match["name"], None, part)
    is_plain = re.fullmatch(rf"{re.escape(assignment)}{AGAIN}", parts[-1]) and len(parts) > 1
    name = parts[-2] if is_plain else parts[-1]
    match = re.fullmatch(rf"(?P<id>.+?)_{re.escape(assignment)}{AGAIN}", name)
    student = match["id"] if match else name if is_plain else None
    return Told(student, None, name if student else "")


def _students(part: str, assignment: str, roster: Roster, *, is_plain: bool) -> tuple[list[str], str]:
    """Return the students of whom one name tells, and what the student may have added to the name.

    ``is_plain`` names may be a student's alone: those of folders and archives, and of files in no folder.
    """
    if (match := EXCHANGE.fullmatch(part)) and (students := roster.find(match["id"])):
        return students, ""
    if match := MOODLE.fullmatch(part):
        return roster.find(match["name"]), match["rest"]
    if is_plain and (students := roster.find(part)):
        return students, ""
    match = CANVAS.fullmatch(part)
    if match and (students := roster.find(match["name"], match["number"], last_first=True)):
        return students, match["rest"]
    match = re.fullmatch(rf"(?P<id>.+?)_{re.escape(assignment)}{AGAIN}", part)
    return roster.find(match["id"]) if match else [], ""


def _others(parts: list[str], owner: str | None, assignment: str, roster: Roster) -> tuple[str, ...]:
    """Return the students but the owner of whom names within a student's own files tell."""
    last = len(parts) - 1
    each = (_students(part, assignment, roster, is_plain=i < last)[0] for i, part in enumerate(parts))
    return tuple(sorted({one for one in map(_only, each) if one and one != owner}))


def way_to_be_found(path: Path, course: Path, assignment: str, part: str, student: str) -> str:
    """Return what a teacher does to have a file counted as a student's.

    ``part`` is the name that decided that it is no one's: a name further inside changes nothing.
    """
    if path.is_relative_to(course / "submitted"):
        return f"rename the folder submitted/{part} to submitted/{student}"
    exchange, moodle, canvas = (form.fullmatch(part) for form in (EXCHANGE, MOODLE, CANVAS))
    if canvas and not exchange and not moodle:  # LATE in its name has to stay
        return f"write {canvas['number']} as the canvas_id of {student} into students.csv"
    *folders, _ = path.relative_to(course / "downloaded" / assignment).parts
    new = f"{student}_{assignment}"
    if exchange:
        new = student + part[exchange.end("id") :]
    elif moodle:
        new = student + part[moodle.end("name") :]
    for folder in folders:
        if folder == part:
            return f"rename the folder {part} to {new}"
        if folder.removesuffix(UNPACKED) == part:
            return f"rename the zip file {part} to {new}{ARCHIVE}, and delete the folder {folder} beside it"
    return f"rename it to {new}{path.suffix}"


def names_back(path: Path, course: Path, assignment: str, roster: Roster) -> dict[str, str]:
    """Return by which names Moodle and Canvas take a page for a submission back, "" for one from elsewhere.

    Moodle's is the folder in a zip file of its "Upload multiple feedback files", and Canvas's the file's name
    without its ending in one of its "Upload Submissions".
    """
    part = told(path, course, assignment, roster).part
    moodle, canvas = MOODLE.fullmatch(part), CANVAS.fullmatch(part)
    takes_files = moodle and moodle["head"].rstrip("_").endswith("_file")
    return {"moodle": moodle["head"] if moodle and takes_files else "", "canvas": part if canvas else ""}
