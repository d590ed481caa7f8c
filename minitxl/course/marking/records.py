"""Records of marked submissions: ``marks/ASSIGNMENT/STUDENT.json``, read back whole or refused."""

from pathlib import Path
from typing import Any

from minitxl.files import read_json

NEEDED = {"student", "digest", "time", "penalty", "person", "answer", "file", "files", "seed", "parts"}
NEEDED |= {"again"}
NEEDED_OF_PARTS = {"cell", "most", "function", "score", "message", "groups"}
WHAT_TO_DO = (
    "give make mark, which marks this student anew and keeps the damaged file beside the new one, and then "
    "make feedback; points by hand are in the gradebook and stay"
)


def read_record(path: Path) -> dict[str, Any]:
    """Return a record; ValueError in one sentence where the file was damaged, or written half."""
    record = read_json(path)
    if not isinstance(record, dict):
        raise ValueError(f"{path} must be a record of make mark, got a {type(record).__name__}")
    missing = NEEDED - record.keys()
    if not missing and not isinstance(record["parts"], list):
        raise ValueError(f"{path} must be a record of make mark, and its parts are no list")
    for part in record.get("parts", []) if not missing else []:
        missing |= NEEDED_OF_PARTS - (part.keys() if isinstance(part, dict) else set())
    if missing:
        raise ValueError(f"{path} must be a record of make mark, and lacks {', '.join(sorted(missing))}")
    return record


def put_aside(path: Path) -> None:
    """Rename a damaged record, so that the next one does not overwrite it."""
    path.replace(path.with_name(f"{path.name}.damaged"))
