"""Files that students handed in, as learning platforms name them: whose they are, and from when.

Looked for in ``submitted/STUDENT/ASSIGNMENT`` (nbgrader's exchange) and in ``downloaded/ASSIGNMENT``,
at any depth and in zip files: what Moodle, Canvas and nbgrader's own pages save.
"""

import csv
import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from minitxl.data.archives import members
from minitxl.files import atomic_write

AGAIN = r"(?:[ _-]?\((?P<a>\d+)\)|-(?P<b>\d+))?"
"""A counter that browsers and Canvas add to a file's name: " (1)", "-2"."""
EXCHANGE = re.compile(r"(?P<id>.+)\+(?P<assignment>[^+]+)\+(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^+]*)")
MOODLE = re.compile(r"(?P<name>.+?)_(?P<number>\d+)_assignsubmission_\w+?(?:_.*)?")
CANVAS = re.compile(r"(?P<name>[^_]+)_(?:LATE_)?(?P<number>\d+)_\d+_.+")


@dataclass(frozen=True)
class Found:
    """A file of a student's: from when, and the counter in its name, which decides between equal times."""

    student: str
    path: Path
    when: datetime
    version: int


@dataclass
class Roster:
    """The course's students by all names that a platform may give them; none where there is no list."""

    ids: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    people: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, course: Path) -> "Roster":
        """Read ``students.csv``: id, and if there are any first_name, last_name, email, moodle_id, canvas_id."""
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
            for number in (row.get("moodle_id"), row.get("canvas_id")):
                if number:
                    roster.names[f"#{number.strip()}"] = student
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
    return re.sub(r"[\s.,'’_-]+", "", name).casefold()


def candidates(course: Path, assignment: str) -> Iterator[Path]:
    """Yield all notebooks that were handed in for an assignment; zip files are unpacked beside them."""
    downloaded = course / "downloaded" / assignment
    for archive in sorted(downloaded.rglob("*.zip")):
        with suppress(ValueError):  # a damaged one is told as a file of no one
            _unpack(archive, archive.with_suffix(".unpacked"))
    yield from sorted(path for path in downloaded.rglob("*.*") if path.suffix in (".ipynb", ".zip"))
    yield from sorted((course / "submitted").glob(f"*/{assignment}/*.ipynb"))


def _unpack(archive: Path, target: Path) -> None:
    """Write the notebooks of a zip file into a folder, with the times that it tells."""
    if target.is_dir():
        return
    for name, blocks in members(archive):
        if name.endswith(".ipynb"):
            with zipfile.ZipFile(archive) as file:
                when = datetime(*file.getinfo(name).date_time).timestamp()
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as new:
                new.write_bytes(b"".join(blocks))
            os.utime(path, (when, when))


def owner(path: Path, assignment: str, roster: Roster) -> str | None:
    """Return whose notebook it is, by the names of its folders and its own; None if they do not say."""
    if path.parent.name == assignment and path.parents[2].name == "submitted":
        return roster.find(path.parents[1].name)
    folders = [one.name for one in path.parents]
    folders = folders[: folders.index("downloaded")] if "downloaded" in folders else folders[:1]
    for part in [path.stem, *folders]:
        if match := EXCHANGE.fullmatch(part):
            return roster.find(match["id"])
        if match := MOODLE.fullmatch(part):
            return roster.find(match["name"], match["number"])
    if match := CANVAS.fullmatch(path.stem):
        if student := roster.find(match["name"], match["number"]):
            return student
    if match := re.fullmatch(rf"(?P<id>.+?)_{re.escape(assignment)}{AGAIN}", path.stem):
        return roster.find(match["id"])
    if re.fullmatch(rf"{re.escape(assignment)}{AGAIN}", path.stem) and folders[0] != assignment:
        return roster.find(folders[0])
    return None


def time_of(path: Path) -> datetime:
    """Return when a notebook was handed in: by the exchange's word, else by the file's time."""
    said = [match["time"] for one in path.parents if (match := EXCHANGE.fullmatch(one.name))]
    stamp = path.parent / "timestamp.txt"
    if stamp.is_file():
        said.append(stamp.read_text("utf-8").strip())
    if said:
        from nbgrader.utils import parse_utc  # with minitxl[classroom]

        return parse_utc(said[0]).replace(tzinfo=UTC)
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def newest(course: Path, assignment: str, roster: Roster) -> tuple[dict[str, Found], list[tuple[Path, str]]]:
    """Return each student's newest notebook, and the files that belong to no one, with the reason."""
    found: dict[str, Found] = {}
    lost = []
    for path in candidates(course, assignment):
        if path.suffix == ".zip":
            if not path.with_suffix(".unpacked").is_dir():
                lost.append((path, "it cannot be unpacked, or holds no notebook"))
            continue
        student = owner(path, assignment, roster)
        if student is None:
            lost.append((path, "no student of students.csv has this name"))
            continue
        match = re.search(rf"{AGAIN}$", path.stem)
        version = int((match["a"] or match["b"] or 0) if match else 0)
        one = Found(student, path, time_of(path), version)
        old = found.get(student)
        if old is None or (one.when, one.version) > (old.when, old.version):
            found[student] = one
    return found, lost
