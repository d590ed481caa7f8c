"""Files that students handed in, as learning platforms name them: whose they are, and from when.

Looked for in ``submitted/STUDENT/ASSIGNMENT`` (nbgrader's exchange) and in ``downloaded/ASSIGNMENT``,
at any depth and in zip files: what Moodle, Canvas and nbgrader's own pages save.
"""

import csv
import filecmp
import hashlib
import os
import re
import shutil
import unicodedata
import zipfile
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from minitxl.data.archives import members, outsiders

AGAIN = r"(?:[ _-]?\((?P<a>\d+)\)|-(?P<b>\d+))?"
"""A counter that browsers and Canvas add to a file's name: " (1)", "-2"."""
EXCHANGE = re.compile(
    r"(?P<id>.+)\+(?P<assignment>[^+]+)\+(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^+]*)(?:\+[^+]*)?"
)
MOODLE = re.compile(r"(?P<name>.+?)_(?P<number>\d+)_assignsubmission_.*")
CANVAS = re.compile(r"(?P<name>[^_]+)_(?:LATE_)?(?P<number>\d+)_\d+_.+")
NEVER = re.compile(r"__MACOSX|\.ipynb_checkpoints|\..*")
"""Folders and files that systems put beside what is handed in."""
NOTEBOOK, ARCHIVE = ".ipynb", ".zip"
OF_THE_EXCHANGE = {"timestamp.txt", "submission_secret.txt"}
"""Files that nbgrader puts beside what is handed in."""
UNPACKED, DIGEST = ".unpacked", ".sha256"
"""Folder of an archive's files beside it, and the file in there that says which content was unpacked."""
NO_ONE = "no student of students.csv has this name, or more than one"
DEEPEST = 3
"""Zip files in zip files are unpacked so many times."""


@dataclass(frozen=True)
class Found:
    """A file of a student's: from when, and the counter in its name, which decides between equal times.

    ``files`` is how many notebooks of the student's there are, of which this is the newest.
    """

    student: str
    path: Path
    when: datetime
    version: int
    files: int = 1


class Damaged(NamedTuple):
    """An archive that cannot be unpacked, or not as a whole, and why."""

    path: Path
    why: str


class Lost(NamedTuple):
    """A file that was handed in and has no notebook to mark: whose it is if its name tells, and why."""

    path: Path
    why: str
    student: str | None = None
    when: datetime | None = None


@dataclass
class Roster:
    """The course's students by all names that a platform may give them; none where there is no list."""

    ids: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    people: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, course: Path) -> "Roster":
        """Read ``students.csv``: id, and where they are there first_name, last_name, email and canvas_id."""
        roster, path = cls(), course / "students.csv"
        if not path.is_file():
            return roster
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
        if rows and "id" not in rows[0]:
            raise ValueError(f"students.csv must have the column id, got {', '.join(map(str, rows[0]))}")
        for row in rows:
            student = row["id"].strip()
            first, last = ((row.get(key) or "").strip() for key in ("first_name", "last_name"))
            roster.people[student] = {key: value or "" for key, value in row.items() if key}
            roster.ids[student.casefold()] = student
            if number := (row.get("canvas_id") or "").strip():
                roster.names[f"#{number}"] = student
            for name in (f"{first} {last}", f"{last} {first}", f"{last}{first}", row.get("email") or ""):
                if name.strip():
                    key = _squashed(name)
                    roster.names[key] = "" if roster.names.get(key, student) != student else student
        return roster

    def find(self, name: str, number: str = "") -> str | None:
        """Return the user name of who has this number, name or user name; two of one name are no one."""
        return (
            (self.names.get(f"#{number}") if number else None)
            or self.ids.get(name.casefold())
            or self.names.get(_squashed(name))
            or (None if self.ids else name)
        )


def _squashed(name: str) -> str:
    """Return a name without what platforms and file systems change: case, accents, spaces and points."""
    plain = "".join(one for one in unicodedata.normalize("NFKD", name) if not unicodedata.combining(one))
    return re.sub(r"[\s.,'’_-]+", "", plain).casefold()


def candidates(course: Path, assignment: str, roster: Roster) -> Iterator[Path | Damaged]:
    """Yield all notebooks that were handed in for an assignment, and the archives that cannot be read.

    Zip files are unpacked beside themselves, those inside them too, and again when their content has
    changed. A file in one that would lie outside the archive's folder is left out, and told each time.
    """
    downloaded = course / "downloaded" / assignment
    damaged: dict[Path, str] = {}
    for _ in range(DEEPEST):
        archives = _files(downloaded, ARCHIVE)
        for archive in sorted(archives, key=lambda path: len(path.parts)):  # the outer decide on the inner
            target = archive.with_suffix(UNPACKED)
            if archive in damaged:
                continue
            try:
                if outside := outsiders(archive):
                    names = ", ".join(outside)
                    damaged[archive] = f"left out, since it is no plain file inside the archive: {names}"
                digest = _digest(archive)
                if not (target / DIGEST).is_file() or (target / DIGEST).read_text("utf-8") != digest:
                    is_own = told(archive, course, assignment, roster).student is not None
                    _unpack(archive, target, outside, is_own=is_own)
                    (target / DIGEST).write_text(digest, "utf-8")
            except (ValueError, OSError) as error:
                damaged[archive] = str(error)
    yield from (Damaged(*pair) for pair in sorted(damaged.items()))
    yield from _files(downloaded, NOTEBOOK)
    yield from sorted((course / "submitted").glob(f"*/{assignment}/*{NOTEBOOK}"))


def _files(folder: Path, suffix: str = "") -> list[Path]:
    """Return the files with a suffix, or all, at any depth but those that systems put there."""
    found = (path for path in folder.rglob("*") if suffix in ("", path.suffix.lower()) and path.is_file())
    return sorted(path for path in found if not any(map(NEVER.fullmatch, path.relative_to(folder).parts)))


def _without_notebook(course: Path, assignment: str) -> Iterator[Path]:
    """Yield the files that were handed in and are no notebook, and archives with nothing in them."""
    for path in _files(course / "downloaded" / assignment):
        if path.suffix.lower() == ARCHIVE:
            target = path.with_suffix(UNPACKED)
            if target.is_dir() and not _files(target):
                yield path
        elif path.suffix.lower() != NOTEBOOK:
            yield path
    for folder in sorted((course / "submitted").glob(f"*/{assignment}")):
        files = _files(folder)
        yield from (one for one in files if one.suffix != NOTEBOOK and one.name not in OF_THE_EXCHANGE)


def _digest(archive: Path) -> str:
    with archive.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unpack(archive: Path, target: Path, leave_out: list[str], *, is_own: bool) -> None:
    """Write the notebooks and archives of a zip file into a folder, or nothing if it is damaged.

    Of any other file an empty one is written, so that it is known who handed it in.
    A platform's archive tells the time of each; in one that a student made they are all from when
    it was handed in. Files that an earlier archive of this name had, and this one lacks, stay.
    """
    half, whole = archive.with_suffix(".half"), archive.stat().st_mtime
    times: dict[str, tuple[int, int, int, int, int, int]] = {}
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir()
    try:
        with suppress(zipfile.BadZipFile), zipfile.ZipFile(archive) as file:
            times = {one.filename: one.date_time for one in file.infolist()}
        for name, blocks in members(archive, leave_out=leave_out):
            path = half / name
            is_read = path.suffix.lower() in (NOTEBOOK, ARCHIVE)
            with nullcontext() if is_read else suppress(OSError):  # of a name that no file may have
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"".join(blocks) if is_read else b"")
                when = whole
                with suppress(ValueError, OverflowError):  # no day of the calendar
                    when = whole if is_own else datetime(*times[name]).timestamp()
                os.utime(path, (when, when))
        target.mkdir(exist_ok=True)
        for path in sorted(one for one in half.rglob("*") if one.is_file()):
            _take_over(path, target / path.relative_to(half))
    finally:
        shutil.rmtree(half, ignore_errors=True)


def _take_over(new: Path, place: Path) -> None:
    """Put a file in its place, unless a newer one is there, or the same, which keeps its earlier time."""
    if place.is_file():
        old, when = place.stat().st_mtime, new.stat().st_mtime
        if filecmp.cmp(new, place, shallow=False):
            os.utime(new, (min(old, when),) * 2)
        elif old > when:
            return
    place.parent.mkdir(parents=True, exist_ok=True)
    new.replace(place)


class Told(NamedTuple):
    """What names of folders and files tell of a notebook: whose it is, and when it was handed in."""

    student: str | None
    time: str | None = None


def told(path: Path, course: Path, assignment: str, roster: Roster) -> Told:
    """Return whose notebook it is, by the names of its folders and its own.

    Platforms name the outer folders, students what is inside: the outermost name that tells counts.
    """
    if path.is_relative_to(course / "submitted"):
        return Told(roster.find(path.relative_to(course / "submitted").parts[0]))
    *folders, _ = path.relative_to(course / "downloaded" / assignment).parts
    parts = [*(one.removesuffix(UNPACKED) for one in folders), path.stem]
    for part in parts:
        if match := EXCHANGE.fullmatch(part):
            return Told(roster.find(match["id"]), match["time"])
        if match := MOODLE.fullmatch(part):
            return Told(roster.find(match["name"]))
    named = re.compile(rf"(?P<id>.+?)_{re.escape(assignment)}{AGAIN}")
    if not roster.ids:
        is_plain = re.fullmatch(rf"{re.escape(assignment)}{AGAIN}", parts[-1]) and folders
        name = parts[-2] if is_plain else parts[-1]
        match = named.fullmatch(name)
        return Told(match["id"] if match else name if is_plain else None)
    for part in parts:
        student = roster.find(part) if part is not parts[-1] else None
        if match := CANVAS.fullmatch(part):
            student = student or roster.find(match["name"], match["number"])
        if match := named.fullmatch(part):
            student = student or roster.find(match["id"])
        if student:
            return Told(student)
    return Told(None)


def moodle_name(path: Path, course: Path, assignment: str) -> str:
    """Return what Moodle's name of a submission begins with, and "" for one from elsewhere.

    A page for this student comes back by a zip file of Moodle's "Upload multiple feedback files" under
    the same beginning.
    """
    downloaded = course / "downloaded" / assignment
    parts = path.relative_to(downloaded).parts if path.is_relative_to(downloaded) else ()
    matches = (re.match(r".+?_\d+_assignsubmission_file_?", part) for part in parts)
    return next((match[0] for match in matches if match), "")


def time_of(path: Path, course: Path, said: str | None) -> datetime:
    """Return when a notebook was handed in: by the exchange's word, else by the file's time."""
    stamp = path.parent / "timestamp.txt"
    if path.is_relative_to(course / "submitted") and stamp.is_file():
        said = stamp.read_text("utf-8", errors="replace").strip()
    if said:
        from nbgrader.utils import parse_utc  # with minitxl[classroom]

        with suppress(ValueError, OverflowError):
            return parse_utc(said).replace(tzinfo=UTC)
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def newest(course: Path, assignment: str, roster: Roster) -> tuple[dict[str, Found], list[Lost]]:
    """Return each student's newest notebook, and the files that belong to no one or cannot be read.

    Files of another kind are among these where their student handed in no notebook, or is not known.
    """
    found: dict[str, Found] = {}
    lost = []
    for path in candidates(course, assignment, roster):
        if isinstance(path, Damaged):
            student, said = told(path.path, course, assignment, roster)
            lost.append(Lost(*path, student, time_of(path.path, course, said)))
            continue
        student, said = told(path, course, assignment, roster)
        if student is None:
            lost.append(Lost(path, NO_ONE))
            continue
        match = re.search(rf"{AGAIN}$", path.stem)
        version = int((match["a"] or match["b"] or 0) if match else 0)
        one = Found(student, path, time_of(path, course, said), version)
        old = found.get(student)
        if old is not None:
            newer = one if (one.when, one.version) > (old.when, old.version) else old
            one = replace(newer, files=old.files + 1)
        found[student] = one
    for path in _without_notebook(course, assignment):
        student, said = told(path, course, assignment, roster)
        if student not in found:
            why = f"{path.name} {'holds' if path.suffix.lower() == ARCHIVE else 'is'} no notebook"
            why = why if student else f"{why}, and {NO_ONE}"
            lost.append(Lost(path, why, student, time_of(path, course, said)))
    return found, lost
