"""Statements of a submission outside its functions that were left out or failed, in words for students."""

from collections.abc import Sequence
from typing import Any

from minitxl.course.marking.notebooks import GIVEN

MOST_TOLD = 20
"""Statements that failed of which a submission is told, at most."""
MOST_WORDS = 300
"""Characters of an error's words that are repeated, at most; long ones lose their middle."""
MOST_LINE = 60
"""Characters of a cell's first line that name the cell, at most."""


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


def in_words(cells: Sequence[tuple[str, str]], statements: Sequence[Sequence[Any]]) -> list[tuple[str, str]]:
    """Return where each statement stands, by the first line of its cell, and why it does not count.

    ``statements`` are names of cells, places in them, and reasons. The assignment's own cells are passed
    over: they may fail where the package is missing.
    """
    first = {name: _first_line(source) for name, source in cells}
    return [
        (f"statement {place + 1} of the cell that begins with '{first.get(cell, '')}'", why)
        for cell, place, why in statements
        if not cell.startswith(GIVEN)
    ]


def _first_line(source: str) -> str:
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    return lines[0][:MOST_LINE] if lines else ""
