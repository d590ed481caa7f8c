"""Tables of a notebook: rows with names, and small matrices with labelled axes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

from torch import Tensor

MINUS = "−"
"""Sign of a negative number, as wide as a digit; a hyphen is shorter."""
NUMBER = re.compile(r"[^\w\s]?\s?\d")
NO_FORMULAS = 'class="mathjax_ignore"'
"""Attribute of an element of HTML whose text is no LaTeX: JupyterLab sets what is between two $ elsewhere."""
Digits = int | Mapping[str, int]


@dataclass(frozen=True)
class Table:
    """Cells as text; HTML in a notebook, aligned text elsewhere. A cell that is None is grey and empty.

    A column of numbers is flush right, one of words flush left.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str | None]]
    caption: str = ""

    def __repr__(self) -> str:
        lines = [list(self.header), *([cell or "" for cell in row] for row in self.rows)]
        columns = list(zip(*lines, strict=True))
        widths = [max(map(len, column)) for column in columns]
        aligned = [
            "  ".join(
                cell.rjust(width) if number else cell.ljust(width)
                for cell, width, number in zip(line, widths, self._of_numbers, strict=True)
            )
            for line in lines
        ]
        return "\n".join(([self.caption] if self.caption else []) + [line.rstrip() for line in aligned])

    def _repr_html_(self) -> str:
        caption = f'<caption style="{CAPTION}">{escape(self.caption)}</caption>' if self.caption else ""
        head = "".join(
            f'<th scope="col" style="{NUMBERS if number else WORDS}">{_whole_formulas(escape(cell))}</th>'
            for cell, number in zip(self.header, self._of_numbers, strict=True)
        )
        body = "".join(f"<tr>{self._row(row)}</tr>" for row in self.rows)
        inside = f"{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
        return f'<table {NO_FORMULAS} style="border-collapse: collapse">{inside}</table>'

    @cached_property
    def _of_numbers(self) -> list[bool]:
        """True for each column but the first that has a number, or no words at all."""
        _names, *others = zip(*self.rows, strict=True)
        return [False, *(_has_numbers([cell for cell in column if cell]) for column in others)]

    def _row(self, row: Sequence[str | None]) -> str:
        name, *cells = row
        values = "".join(
            f'<td style="{MASKED}"></td>'
            if cell is None
            else f'<td style="{NUMBERS if number else WORDS}">{escape(cell)}</td>'
            for cell, number in zip(cells, self._of_numbers[1:], strict=True)
        )
        return f'<th scope="row" style="{NAME}">{escape(name or "")}</th>{values}'


NUMBERS = "text-align: right; padding: 2px 10px; font-variant-numeric: tabular-nums"
WORDS = "text-align: left; padding: 2px 10px"
NAME = f"{WORDS}; font-weight: normal"
MASKED = "background: rgba(128, 128, 128, 0.35); padding: 2px 10px"
CAPTION = "text-align: left; caption-side: top; padding: 2px 10px; font-weight: bold"


def _whole_formulas(html: str) -> str:
    """Return words of a header such that no line ends at the sign of a formula."""
    return re.sub(" ([−+=]) ", r"&nbsp;\1&nbsp;", html)


def table(rows: Sequence[Mapping[str, Any]], *, caption: str = "", digits: Digits = 2) -> Table:
    """Return a table with a row for each mapping; all have the same names, and the first is the row's name.

    ``digits`` are those of numbers that are not whole: for all columns, or by the column's name.
    """
    if not rows:
        raise ValueError("a table must have one row or more, got none")
    header = list(rows[0])
    if odd := next((row for row in rows if list(row) != header), None):
        raise ValueError(f"all rows must have the columns {', '.join(header)}, got {', '.join(odd)}")
    cells = [[_cell(value, _digits(digits, name)) for name, value in row.items()] for row in rows]
    return Table(header, cells, caption)


def grid(
    values: Tensor,
    *,
    rows: Sequence[Any] | str = "query",
    columns: Sequence[Any] | str = "key",
    caption: str = "",
    digits: int = 2,
    mask: Tensor | None = None,
) -> Table:
    """Return a small matrix [row column] as a table; False in ``mask`` leaves a cell grey and empty.

    ``rows`` and ``columns`` are labels, or the name of the axis, whose entries are then counted from 0.
    """
    if values.ndim != 2:
        raise ValueError(f"a grid must have rows and columns, got the shape {list(values.shape)}")
    names = [
        [f"{labels} {i}" for i in range(size)] if isinstance(labels, str) else list(map(str, labels))
        for labels, size in zip((rows, columns), values.shape, strict=True)
    ]
    for axis, (labels, size) in enumerate(zip(names, values.shape, strict=True)):
        if len(labels) != size:
            raise ValueError(f"{('rows', 'columns')[axis]} must hold {size} labels, got {len(labels)}")
    if mask is not None and mask.shape != values.shape:
        raise ValueError(f"mask must have the shape {list(values.shape)}, got {list(mask.shape)}")
    shown = [[True] * values.shape[1]] * values.shape[0] if mask is None else mask.tolist()
    cells = [
        [name, *(_cell(value, digits) if seen else None for value, seen in zip(row, flags, strict=True))]
        for name, row, flags in zip(names[0], values.tolist(), shown, strict=True)
    ]
    return Table(["", *names[1]], cells, caption)


def _has_numbers(cells: Sequence[str]) -> bool:
    """Return True if a cell begins with a number, whatever its sign, or none has a letter."""
    return any(NUMBER.match(cell) for cell in cells) or not any(map(str.isalpha, "".join(cells)))


def _digits(digits: Digits, name: str) -> int:
    return digits if isinstance(digits, int) else digits.get(name, 2)


def _cell(value: Any, digits: int) -> str:
    if isinstance(value, Tensor):
        value = value.item()
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, float):
        text = f"{value:,.{digits}f}"
        return text.removeprefix("-") if not text.strip("-0.") else text.replace("-", MINUS)  # no -0.00
    return f"{value:,}".replace("-", MINUS) if isinstance(value, int) else str(value)
