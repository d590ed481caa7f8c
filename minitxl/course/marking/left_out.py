"""Statements of a submission outside its functions that were left out or failed, in words for students."""

import ast
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from minitxl.course.marking.notebooks import GIVEN, beginning, first_line

MOST_TOLD = 20
"""Statements that failed of which a submission is told, at most."""
MOST_WORDS = 300
"""Characters of an error's words that are repeated, at most; long ones lose their middle."""


def shortened(words: str) -> str:
    """Return an error's words, of long ones the beginning and the end, which mostly says what is wrong."""
    if len(words) <= MOST_WORDS:
        return words
    half = (MOST_WORDS - 3) // 2
    return f"{words[:half]} … {words[-half:]}"


def quoted(words: str) -> str:
    """Return a student's words in one line, in quotation marks that no word of theirs can end."""
    line = shortened(" ".join(words.split())).replace("“", '"').replace("”", '"')
    return f"“{line}”" if line else ""


def as_failed(told: Any) -> list[list[Any]]:
    """Return the statements that a worker says failed, as far as it says it in the right form."""
    found = []
    for one in told[:MOST_TOLD] if isinstance(told, list) else []:
        match one:
            case [str(cell), int(place), str(why)]:
                found.append([cell, place, shortened(why)])
    return found


def in_words(
    cells: Sequence[tuple[str, str]],
    statements: Sequence[Sequence[Any]],
    worth: Mapping[str, tuple[str, float]],
) -> list[tuple[str, str]]:
    """Return where each statement stands, with its first line, and why it does not count.

    A cell is told by the function that it should define, and the points of this part, or else by its
    first line. ``statements`` are names of cells, places in them, and reasons, ``worth`` has function and
    points by the names of graded cells. The assignment's own cells are passed over: they may fail where the
    package is missing.
    """
    sources = dict(cells)
    return [
        (_where(cell, sources.get(cell, ""), place, worth), why)
        for cell, place, why in statements
        if not cell.startswith(GIVEN)
    ]


def _where(cell: str, source: str, place: int, worth: Mapping[str, tuple[str, float]]) -> str:
    part, words = cell.rpartition(" ")[0], beginning(source)
    if part in worth:
        function, points = worth[part]
        words = f"the cell of {function} ({points:g} points)"
    line = _statement(source, place)
    return f"statement {place + 1} of {words}" + (f", {quoted(line)}" if line and line not in words else "")


def _statement(source: str, place: int) -> str:
    """Return the first line of a statement, or "" where the cell is no plain Python."""
    with suppress(Exception):
        return first_line(source.splitlines()[ast.parse(source).body[place].lineno - 1])
    return ""
