"""Files that students handed in, each student's newest, and from when it is.

Looked for in ``submitted/STUDENT/ASSIGNMENT`` (nbgrader's exchange) and in ``downloaded/ASSIGNMENT``,
at any depth and in zip files: what Moodle, Canvas and nbgrader's own pages save.
"""

import filecmp
import hashlib
import os
import re
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

from minitxl.course.marking.owners import AGAIN, ARCHIVE, MOODLE, UNPACKED, Roster, told, way_to_be_found
from minitxl.data.archives import members, outsiders
from minitxl.files import reason

NEVER = re.compile(r"__MACOSX|\.ipynb_checkpoints|\..*")
"""Folders and files that systems put beside what is handed in."""
NOTEBOOK = ".ipynb"
OF_THE_EXCHANGE = {"timestamp.txt", "submission_secret.txt"}
"""Files that nbgrader puts beside what is handed in."""
DIGEST = ".sha256"
"""File in the folder of an archive's files that says which content was unpacked."""
OWN, PLATFORMS = " of a student", " of a platform"
"""Ends of what that file says: who made the archive."""
NO_ONE = "no student of students.csv has this name"
LONGEST_NAME, LONGEST_PATH = 150, 1000
"""Bytes of a folder's or file's name in an archive, and of a whole path, that are taken over as they are."""
EARLIEST, LATEST = datetime(1980, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
"""Times between which something can have been handed in; a file or a student may name any other."""
TOGETHER = 600.0
"""Seconds within which no whole class hands in: Moodle wrote the time of the download to each file."""
DEEPEST = 3
"""Zip files in zip files are unpacked so many times."""


@dataclass(frozen=True)
class Found:
    """A file of a student's: from when, and the counter in its name, which decides between equal times.

    ``files`` is how many notebooks of the student's there are, of which this is the newest. ``others`` are
    students whom names in the student's own files and archives tell of, each with the first such file.
    ``on_time`` is Canvas's word. ``has_time`` is False where Moodle's archive has no times but its own.
    """

    student: str
    path: Path
    when: datetime
    version: int
    files: int = 1
    others: dict[str, Path] = field(default_factory=dict)
    on_time: bool = False
    has_time: bool = True


class Damaged(NamedTuple):
    """An archive that cannot be unpacked, or not as a whole, and why."""

    path: Path
    why: str


class Lost(NamedTuple):
    """A file that was handed in and has no notebook to mark: whose it is if its name tells, and why.

    ``same`` are the students who have one name, where it is one of theirs.
    """

    path: Path
    why: str
    student: str | None = None
    when: datetime | None = None
    same: tuple[str, ...] = ()


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
            if archive in damaged or not archive.is_file():  # its archive has another content now
                continue
            try:
                if outside := outsiders(archive):
                    names = ", ".join(outside)
                    damaged[archive] = f"left out, since it is no plain file inside the archive: {names}"
                is_own = told(archive, course, assignment, roster).part != ""
                digest, owner = _digest(archive), OWN if is_own else PLATFORMS
                old = (target / DIGEST).read_text("utf-8") if (target / DIGEST).is_file() else ""
                if old and not old.endswith(owner):
                    shutil.rmtree(target)  # its times are others now
                if old != digest + owner:
                    _unpack(archive, target, outside, is_own=is_own)
                    (target / DIGEST).write_text(digest + owner, "utf-8")
            except Exception as error:
                damaged[archive] = str(error) or type(error).__name__
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
    it was handed in. Files that an earlier archive of this name had, and this one lacks, stay where a
    platform made it, and are deleted where a student did.
    """
    half, whole = archive.with_suffix(".half"), archive.stat().st_mtime
    times: dict[str, tuple[int, int, int, int, int, int]] = {}
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir()
    try:
        with suppress(zipfile.BadZipFile), zipfile.ZipFile(archive) as file:
            times = {one.filename: one.date_time for one in file.infolist()}
        for name, blocks in members(archive, leave_out=leave_out):
            is_read = Path(name).suffix.lower() in (NOTEBOOK, ARCHIVE)
            path = _written(half, _shortened(Path(name)), b"".join(blocks) if is_read else b"")
            when = None if is_own else _time_in(times[name])
            os.utime(path, (whole if when is None else when,) * 2)
        target.mkdir(exist_ok=True)
        new = sorted(one for one in half.rglob("*") if one.is_file())
        if is_own:
            _delete_others(target, {one.relative_to(half) for one in new})
        for path in new:
            _take_over(path, target / path.relative_to(half))
    finally:
        shutil.rmtree(half, ignore_errors=True)


def _written(folder: Path, place: Path, content: bytes) -> Path:
    """Write a file and return its path: another, where its name or its folder's is taken."""
    own = f"{_digest_of(str(place))}{place.suffix}"
    for one in (place, *(parent / own for parent in place.parents)):
        path = folder / one
        with suppress(FileExistsError, NotADirectoryError, IsADirectoryError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            return path
    raise ValueError(f"{place} can't be written")


def _shortened(path: Path) -> Path:
    """Return a member's path with names that any system can write, which begin and end as they did.

    Of a path of too many folders the outermost two stay, whose names tell whose it is.
    """
    parts = [_shortened_name(one) for one in path.parts]
    if len(os.fsencode("/".join(parts))) > LONGEST_PATH:
        parts = [*parts[:2], _digest_of(str(path)), parts[-1]]
    return Path(*parts)


def _shortened_name(name: str) -> str:
    if len(name.encode("utf-8", "replace")) <= LONGEST_NAME:
        return name
    stem, suffix = name[: -len(Path(name).suffix) or None], Path(name).suffix
    beginning = stem.encode("utf-8", "replace")[:LONGEST_NAME].decode("utf-8", "ignore")
    return f"{beginning}…{_digest_of(name)}{suffix if len(suffix) < 10 else ''}"


def _digest_of(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:12]


def _delete_others(folder: Path, kept: set[Path]) -> None:
    """Delete the files of a folder but these, and what was unpacked from archives among these."""
    unpacked = {path.with_suffix(UNPACKED) for path in kept if path.suffix.lower() == ARCHIVE}
    for path in [one for one in folder.rglob("*") if one.is_file()]:
        place = path.relative_to(folder)
        if place not in kept and unpacked.isdisjoint(place.parents):
            path.unlink()


def _take_over(new: Path, place: Path) -> None:
    """Put a file in its place, unless a newer one is there, or the same, which keeps its earlier time."""
    if place.is_file():
        old, when = place.stat().st_mtime, new.stat().st_mtime
        if filecmp.cmp(new, place, shallow=False):
            os.utime(new, (min(old, when),) * 2)
        elif old > when:
            return
    for one in (place, *place.parents):  # a file that an earlier archive had where this one has a folder
        if one.is_file():
            one.unlink()
    if place.is_dir():
        shutil.rmtree(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    new.replace(place)


def _archive_of(path: Path, downloaded: Path) -> Path | None:
    """Return the outermost archive that a file was unpacked from, if any."""
    folders = [one for one in path.parents if one.is_relative_to(downloaded) and one.suffix == UNPACKED]
    return folders[-1].with_suffix(ARCHIVE) if folders else None


def _has_times(archive: Path) -> bool:
    """Return False for an archive of Moodle's that does not say when each file of it was handed in.

    All of its files are from one moment then, that of the download, or from no day of the calendar.
    """
    times: dict[str, float | None] = {}
    with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(archive) as file:
        for one in file.infolist():
            heads = (match["head"] for part in Path(one.filename).parts if (match := MOODLE.fullmatch(part)))
            if not one.is_dir() and (head := next(heads, None)):
                times[head] = _time_in(one.date_time)
    known = [when for when in times.values() if when is not None]
    return not times or len(known) == 1 or (len(known) > 1 and max(known) - min(known) > TOGETHER)


def _time_in(told: tuple[int, int, int, int, int, int]) -> float | None:
    """Return the time that a zip file tells of a member; None for the first one that it can, or no day."""
    with suppress(ValueError, OverflowError):
        when = datetime(*told)
        return None if when == datetime(1980, 1, 1) else when.timestamp()
    return None


def time_of(path: Path, course: Path, said: str | None) -> datetime:
    """Return when a notebook was handed in: by the exchange's word, else by the file's time."""
    stamp = path.parent / "timestamp.txt"
    if path.is_relative_to(course / "submitted") and stamp.is_file():
        said = stamp.read_text("utf-8", errors="replace").strip()
    if said:
        from nbgrader.utils import parse_utc  # with minitxl[classroom]

        with suppress(Exception):  # of a text that is no time
            when: datetime = parse_utc(said).replace(tzinfo=UTC)
            if EARLIEST < when < LATEST:
                return when
    seconds = path.stat().st_mtime
    return datetime.fromtimestamp(min(max(seconds, EARLIEST.timestamp()), LATEST.timestamp()), UTC)


def _version(path: Path) -> int:
    """Return the counter that browsers and Canvas added to a file's name, 0 for none."""
    match = re.search(rf"{AGAIN}$", path.stem)
    return int((match["a"] or match["b"] or "0")[:9]) if match else 0


def newest(course: Path, assignment: str, roster: Roster) -> tuple[dict[str, Found], list[Lost]]:
    """Return each student's newest notebook, and the files that belong to no one or cannot be read.

    Files of another kind are among these where their student handed in no notebook, or is not known.
    """
    found: dict[str, Found] = {}
    lost = []
    has_times = cache(_has_times)  # once an archive
    for path in candidates(course, assignment, roster):
        if isinstance(path, Damaged):
            student, said, *_ = told(path.path, course, assignment, roster)
            lost.append(Lost(*path, student, time_of(path.path, course, said)))
            continue
        student, said, part, others, same, on_time = told(path, course, assignment, roster)
        if same:
            why = _whose(path, course, assignment, part, same)
            lost.append(Lost(path, why, None, time_of(path, course, said), same))
            continue
        if student is None or not student.isprintable():  # no table and no gradebook can hold such a name
            lost.append(Lost(path, _whose(path, course, assignment, part)))
            continue
        try:
            when = time_of(path, course, said)
        except OSError as error:  # of a link to nowhere
            lost.append(Lost(path, reason(error)))
            continue
        archive = _archive_of(path, course / "downloaded" / assignment)
        has_time = archive is None or has_times(archive)
        one = Found(student, path, when, _version(path), 1, dict.fromkeys(others, path), on_time, has_time)
        old = found.get(student)
        if old is not None:
            newer = one if (one.when, one.version) > (old.when, old.version) else old
            one = replace(newer, files=old.files + 1, others=one.others | old.others)
        found[student] = one
    for path in _without_notebook(course, assignment):
        student, said, part, _, same, _ = told(path, course, assignment, roster)
        if student not in found:
            why = f"{path.name} {'holds' if path.suffix.lower() == ARCHIVE else 'is'} no notebook"
            why = why if student else f"{why}, and {_whose(path, course, assignment, part, same)}"
            lost.append(Lost(path, why, student, time_of(path, course, said), same))
    return found, lost


def _whose(path: Path, course: Path, assignment: str, part: str, students: Sequence[str] = ()) -> str:
    """Return why a file is no one's, or one of several students', and what to do."""
    way = way_to_be_found(path, course, assignment, part, students[0] if students else "USER")
    if not students:
        return f"{NO_ONE}: {way}, where USER is the student's id in students.csv"
    names = " and ".join(students)
    return f"students.csv has more than one of this name, {names}: {way}, if it is {students[0]}'s"
