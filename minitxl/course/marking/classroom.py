"""Marks all submissions of a course: one process a student, as many at once as there are processors.

A verdict is a file of its own, ``marks/ASSIGNMENT/STUDENT.json``, written whole when it is there.
Whoever interrupts loses what is being marked at that moment, and a second run goes on from there.
"""

import hashlib
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any

from minitxl.course.marking.calls import answers, with_calls
from minitxl.course.marking.collecting import Found, newest
from minitxl.course.marking.feedback import other_names
from minitxl.course.marking.gradebook import holds, open_gradebook, store
from minitxl.course.marking.isolation import Isolation
from minitxl.course.marking.judge import JUDGE_SECONDS, stopped
from minitxl.course.marking.notebooks import Assignment, Handed, read
from minitxl.course.marking.owners import Roster, names_back
from minitxl.course.marking.records import put_aside, read_record
from minitxl.course.marking.rules import Rules
from minitxl.course.marking.workers import ONE_AT_A_TIME
from minitxl.files import atomic_write, read_bytes

SECONDS = 3600.0
"""Seconds that the marking of one submission may last, on a busy machine."""
TRIES = 3
"""Times that one and the same submission is tried, before a person has to look at it."""
OF_HANDING_IN = "time", "on_time", "penalty", "due", "person", "moodle", "canvas", "file", "files"
"""Fields of a record that say whose a notebook is, and how and when it came: renewed also where the notebook
is the same."""


class _JudgeError(Exception):
    """The judge failed, and not the submission."""


@dataclass
class Marked:
    """One assignment after a run: verdicts by student, and what could not be marked, with the reason.

    ``unreadable`` says why, by student, where the newest file that was handed in is no notebook to mark,
    ``changed`` has which points in the gradebook this run changed: student, function, before and now;
    ``others`` has the students whom names in one's own files tell of, each with such a file, and ``untimed``
    has who gets a penalty though no one knows when their notebook came.
    """

    assignment: Assignment
    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    handed: dict[str, Handed] = field(default_factory=dict)
    unmarked: list[tuple[str, str]] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    anew: list[str] = field(default_factory=list)
    changed: list[tuple[str, str, str, str]] = field(default_factory=list)
    others: dict[str, dict[str, Path]] = field(default_factory=dict)
    untimed: list[str] = field(default_factory=list)
    seconds: float = 0.0


@dataclass
class Course:
    """A course's folder, and how its submissions are marked."""

    folder: Path
    isolation: Isolation
    processes: int
    roster: Roster
    rules: Rules
    judges: set[subprocess.Popen[str]] = field(default_factory=set)
    lock: Lock = field(default_factory=Lock)

    @classmethod
    def of(cls, folder: Path, isolation: Isolation, processes: int) -> "Course":
        return cls(folder, isolation, processes, Roster.of(folder), Rules.of(folder))

    def assignments(self) -> list[str]:
        """Return the names of the assignments that were built here."""
        return sorted(path.stem for path in (self.folder / "source").glob("*/*.ipynb"))

    def mark(self, name: str, *, again: bool | Collection[str], progress: Callable[[int], Any]) -> Marked:
        """Mark what is new of one assignment; interrupted, it ends its processes.

        Args:
            name: The assignment.
            again: Whose unchanged submissions are marked anew: everyone's, or these students'.
            progress: Is called with the number of submissions to mark, then with -1 after each.
        """
        self.rules.check(self.assignments(), self.roster.people)
        result = Marked(Assignment.of(self.folder, name))
        self.rules.check_year(name, result.assignment.year)
        found, lost = newest(self.folder, name, self.roster)
        for path, why, student, when, same in lost:
            file = str(path.relative_to(self.folder))
            result.unmarked.append((file, why))
            for one in [student] if student else same:
                if when and (one not in found or found[one].when < when):
                    result.unreadable[one] = f"{file}: {why}" if same else why
        result.others = {student: one.others for student, one in found.items() if one.others}
        chosen = set() if isinstance(again, bool) else {*again}
        if missing := sorted(chosen - found.keys()):
            raise ValueError(f"a student must have handed in {name}, got {', '.join(missing)}")
        jobs = dict(self._jobs(result, found, {*found} if again is True else chosen))
        progress(len(jobs))
        began = perf_counter()
        with ThreadPoolExecutor(self.processes) as pool:
            running: dict[Future[dict[str, Any]], dict[str, Any]] = {}
            try:
                waiting = list(jobs.items())
                while waiting or running:
                    while waiting and len(running) < self.processes:
                        _, job = waiting.pop(0)
                        running[pool.submit(self._judge, job["job"])] = job["record"]
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        record = running.pop(future) | future.result()
                        self._keep(result, record)
                        progress(-1)
            finally:
                self._end()
        result.anew, result.seconds = sorted(jobs), perf_counter() - began
        self._store(result)
        return result

    def _jobs(
        self, result: Marked, found: dict[str, Found], again: Collection[str]
    ) -> Iterator[tuple[str, Any]]:
        """Yield what must be marked; take up what was marked before and has not changed."""
        for student, one in sorted(found.items()):
            try:
                content = read_bytes(one.path, at_most=2**28)
                handed = Handed(result.assignment, read(one.path))
                handed.check()
                cells, not_run, answer = handed.to_run(), handed.not_run(), handed.answer()
                digests = answers(handed)
            except Exception as error:
                is_told = isinstance(error, ValueError) and str(error)
                result.unreadable[student] = str(error) if is_told else _damaged(error)
                result.unmarked.append((student, result.unreadable[student]))
                continue
            result.handed[student] = handed
            digest = hashlib.sha256(content + result.assignment.digest.encode()).hexdigest()
            old = self._old(result.assignment.name, student)
            most = result.assignment.most
            late = self.rules.penalty(result.assignment.name, student, one.when, most)
            record = {"student": student, "digest": digest, "time": one.when.timestamp()}
            record |= {"on_time": one.on_time, "penalty": 0.0 if one.on_time else late}
            if record["penalty"] and not one.has_time:
                result.untimed.append(student)
            due = self.rules.due_of(result.assignment.name, student)
            record["due"] = None if due is None else due.isoformat()
            person = self.roster.people.get(student, {})
            record["person"] = {k: v for k, v in person.items() if k in ("first_name", "last_name", "email")}
            record |= names_back(one.path, self.folder, result.assignment.name, self.roster)
            record |= {"answer": answer, "isolation": self.isolation.name}
            record |= {"answers": digests, "file": str(one.path.relative_to(self.folder)), "files": one.files}
            same = old if old and old.get("digest") == digest else None
            if same and student not in again and (not same["again"] or is_given_up(same)):
                rated = {key: record[key] for key in OF_HANDING_IN}
                stored = same["stored"] and rated.items() <= same.items()
                result.records[student] = same | rated | {"stored": stored}
                continue
            record["answers_before"] = {}  # what the gradebook's points by hand were given for
            if old:
                record["answers_before"] = old.get("answers_before", old.get("answers", {}))
                record["before"] = {key: old.get(key) for key in ("digest", "seed", "parts")}
            seed = secrets.randbelow(2**31)
            job = {"owner": student, "names": other_names(person), "cells": cells, "seed": seed}
            job["not_run"] = not_run
            job |= {"imports": result.assignment.imports, "tests": result.assignment.tests}
            job["isolation"] = self.isolation.name
            record |= {"seed": seed, "stored": False, "tries": 1 + (same or {}).get("tries", 0)}
            yield student, {"job": job, "record": record}

    def path(self, assignment: str, student: str) -> Path:
        """Return where a verdict lies."""
        name = "".join(one if one.isalnum() or one in "._-@" else f"%{ord(one):x}" for one in student)
        return self.folder / "marks" / assignment / f"{name}.json"

    def _old(self, assignment: str, student: str) -> dict[str, Any] | None:
        path = self.path(assignment, student)
        if not path.is_file():
            return None
        try:
            return read_record(path)
        except ValueError:
            put_aside(path)
            return None

    def _judge(self, job: dict[str, Any]) -> dict[str, Any]:
        """Return the verdict of judge processes; what fails there is to be marked again.

        That a judge is ended for its processor time is no failure: it says the same of the function it was
        at on any machine. This function gets no points, and another judge goes on with the next.
        """
        began, why = perf_counter(), ""
        parts: list[dict[str, Any]] = []
        try:
            while len(parts) < len(job["tests"]):  # there is none where a person marks it all
                parts += self._parts(job | {"done": len(parts), "judge_seconds": JUDGE_SECONDS})
        except _JudgeError as error:
            parts, why = [], str(error)
        whys = {part["again"] for part in parts if part["score"] is None}
        parts = with_calls(parts, job["cells"])
        return {"parts": parts, "again": why or "; ".join(sorted(whys)), "seconds": perf_counter() - began}

    def _parts(self, job: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the verdicts of one judge, and one more on the function that cost it too much."""
        judge = subprocess.Popen(
            [sys.executable, "-m", "minitxl.course.marking.judge"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        )
        with self.lock:
            self.judges.add(judge)
        try:
            said, errors = judge.communicate(json.dumps(job), timeout=SECONDS)
            parts = [json.loads(line) for line in said.splitlines()]
        except subprocess.TimeoutExpired:
            raise _JudgeError(f"the judge took more than {SECONDS:g} seconds") from None
        except ValueError as error:
            raise _JudgeError(f"the judge's words are no verdict: {error}") from None
        finally:
            _end(judge)
            with self.lock:
                self.judges.discard(judge)
            if judge.returncode:
                self.isolation.end_those_of(judge.pid)
        left = job["tests"][job["done"] + len(parts) :]
        if judge.returncode == -signal.SIGXCPU and left:
            return [*parts, stopped(job, left[0], job["judge_seconds"])]
        if judge.returncode or left:
            lines = errors.strip().splitlines() or [f"ended with {judge.returncode}"]
            if judge.returncode == -signal.SIGKILL or lines[-1].startswith("MemoryError"):
                raise _JudgeError(f"there was too little memory for the judge: {ONE_AT_A_TIME}")
            raise _JudgeError(f"the judge failed: {lines[-1][:300]}")
        return parts

    def _end(self) -> None:
        with self.lock:
            judges = list(self.judges)
        for judge in judges:
            _end(judge)

    def _keep(self, result: Marked, record: dict[str, Any]) -> None:
        path = self.path(result.assignment.name, record["student"])
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as new:
            new.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
        result.records[record["student"]] = record

    def _store(self, result: Marked) -> None:
        """Write into the gradebook what does not stand there yet."""
        name = result.assignment.name
        with open_gradebook(self.folder) as gradebook:
            for student, record in sorted(result.records.items()):
                if record["again"]:
                    result.unmarked.append((student, _why_unmarked(record)))
                is_failed = record["again"] and not record["parts"]
                if is_failed or (record["stored"] and holds(gradebook, self.folder, name, record)):
                    continue
                try:
                    changed = store(gradebook, self.folder, result.handed[student], record)
                except Exception as error:
                    gradebook.db.rollback()
                    result.unmarked.append((student, f"not in the gradebook: {error}"))
                    continue
                result.changed += [(student, *one) for one in changed]
                record.pop("answers_before", None)
                self._keep(result, record | {"stored": True})


def is_given_up(record: dict[str, Any]) -> bool:
    """True if a submission was tried as often as is allowed, and never gave all its verdicts."""
    return bool(record.get("again")) and record.get("tries", 0) >= TRIES


def _damaged(error: Exception) -> str:
    """Return what to do with a notebook that is read, and is not built as Jupyter builds one."""
    return (
        f"the notebook is damaged ({type(error).__name__}: {error}): have it opened in Jupyter, saved and "
        "handed in again"
    )


def _why_unmarked(record: dict[str, Any]) -> str:
    why = str(record["again"])
    if not is_given_up(record):
        return why
    return f"{why}: {record['tries']} tries, and no more without --again: look at the notebook"


def _end(judge: subprocess.Popen[str]) -> None:
    """End a judge and its sandbox."""
    if judge.poll() is not None:
        return
    with suppress(ProcessLookupError):
        os.killpg(judge.pid, signal.SIGTERM)
    try:
        judge.wait(5)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(judge.pid, signal.SIGKILL)
        judge.wait()
