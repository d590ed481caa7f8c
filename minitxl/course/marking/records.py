"""Records of marked submissions: ``marks/ASSIGNMENT/STUDENT.json``, read back whole or refused."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from minitxl.fields import Rule, check, checked, flag, number, optional, sequence, text, whole
from minitxl.files import read_json

WHAT_TO_DO = (
    "give make mark, which marks this student anew and keeps the damaged file beside the new one, and then "
    "make feedback; points by hand stay in the gradebook, and are to be confirmed"
)


def read_record(path: Path) -> dict[str, Any]:
    """Return a record; ValueError in one sentence where the file was damaged, or written half."""
    record = read_json(path)
    try:
        checked(record, RECORD, required=NEEDED)
        for part in record["parts"]:
            checked(part, PART, required=NEEDED_OF_PARTS)
            check("score", part["score"], optional(number(0, part["most"])))
    except ValueError as error:
        raise ValueError(f"{path} must be a record of make mark: {error}") from None
    return dict(record)


def has_points_of(record: dict[str, Any], standing: Mapping[str, float | None]) -> bool:
    """Return True if each part has the points that stand in the gradebook, by cell."""
    return all(standing.get(part["cell"]) == part["score"] for part in record["parts"])


def put_aside(path: Path) -> None:
    """Rename a damaged record, so that the next one does not overwrite it."""
    path.replace(path.with_name(f"{path.name}.damaged"))


def _mapping(rule: Rule | None = None) -> Rule:
    """Return the rule of an object of names and values, each of which meets ``rule``."""

    def broken(value: object) -> str | None:
        if not isinstance(value, Mapping):
            return "be an object of names and values"
        return sequence(rule)([*value.values()]) if rule else None

    return broken


def _date(value: object) -> str | None:
    """Return None for a time with the offset of its clock."""
    try:
        return None if datetime.fromisoformat(str(value)).tzinfo else "have the offset of its clock"
    except ValueError:
        return "be a time such as 2026-10-12T23:59:00+02:00"


NEEDED = (
    *("student", "digest", "time", "on_time", "penalty", "person", "answer", "file", "files", "seed"),
    *("parts", "again", "stored"),
)
RECORD: Mapping[str, Rule] = {
    **dict.fromkeys(("student", "digest", "answer", "file", "isolation", "moodle", "canvas"), text()),
    "again": text(),
    "time": number(-6e10, 2.5e11),  # seconds, of the years that a datetime has
    "due": optional(_date),
    "penalty": number(0),
    "person": _mapping(text()),
    "answers": _mapping(text()),
    "answers_before": _mapping(text()),
    "files": whole(1),
    "seed": whole(0),
    "tries": whole(1),
    "stored": flag,
    "on_time": flag,
    "seconds": number(0),
    "before": _mapping(),
    "parts": sequence(_mapping()),
}
NEEDED_OF_PARTS = ("cell", "most", "function", "score", "message", "groups")
PART: Mapping[str, Rule] = {
    **dict.fromkeys(("cell", "function", "message", "word", "undefined", "again"), text()),
    "most": number(0),
    "groups": _mapping(flag),
    "numbers": optional(_mapping()),
    "seconds": number(0),
    "left_out": sequence(sequence(text())),
}
