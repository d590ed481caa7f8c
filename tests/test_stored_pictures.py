"""Pictures of results that notebooks store are those that today's code draws from today's results.

To run a notebook takes up to a minute. A picture of a stored result needs few of its statements: those that
set the names that the picture's statement uses, and before them those that set the names that these use.
"""

import ast
import dis
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_output

from minitxl.course import widgets

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))
CHANGING = {"append", "extend", "update"}
"""Methods of a list or a dict that change it."""


def names_of(code: CodeType) -> tuple[set[str], set[str]]:
    """Names that a statement uses before it sets them, and names that it sets."""
    used, assigned = set(), set()
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_NAME", "LOAD_GLOBAL") and instruction.argval not in assigned:
            used.add(instruction.argval)
        elif instruction.opname == "STORE_NAME":
            assigned.add(instruction.argval)
        elif isinstance(instruction.argval, CodeType):  # of a function
            used |= names_of(instruction.argval)[0]
    return used, assigned


def changed_by(statement: ast.stmt) -> set[str]:
    """Names whose list or dict a statement changes: ``rows.append(row)``, ``row["bits"] = 1``."""
    if isinstance(statement, ast.FunctionDef):
        return set()
    bases = set()
    for node in ast.walk(statement):
        item = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
        if item or (isinstance(node, ast.Attribute) and node.attr in CHANGING):
            while isinstance(node, ast.Subscript | ast.Attribute):
                node = node.value
            bases |= {node.id} if isinstance(node, ast.Name) else set()
    return bases


class Statement:
    """A statement of a cell, and its names."""

    def __init__(self, tree: ast.stmt) -> None:
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        self.tree = tree
        self.used, self.assigned = names_of(compile(ast.Module([tree], []), "cell", "exec", flags))
        self.changed = changed_by(tree)
        self.sets_anew = not isinstance(tree, ast.For | ast.While | ast.If | ast.With | ast.AugAssign)
        """Not where it sets a name perhaps, or from what the name was."""


def behind(picture: Statement, before: list[Statement]) -> list[Statement]:
    """Those of the statements before a picture's that it needs, and itself."""
    needed, found = set(picture.used), [picture]
    for statement in reversed(before):
        if needed & (statement.assigned | statement.changed):
            if statement.sets_anew:
                needed -= statement.assigned
            needed |= statement.used
            found.append(statement)
    return found[::-1]


def of_results(cells: list[Any]) -> Iterator[tuple[Any, list[Statement]]]:
    """Each cell whose stored picture is of a stored result, and not of a training, with what draws it."""
    before: list[Statement] = []
    for cell in cells:
        if cell.cell_type != "code" or cell.id == "install":
            continue
        statements = [Statement(tree) for tree in ast.parse(cell.source).body]
        if pictures_of(cell):
            needed = behind(statements[-1], [*before, *statements[:-1]])
            used = set().union(*(statement.used for statement in needed))
            if "results" in used and "loop" not in used:  # minitxl.training.loop
                yield cell, needed
        before += statements


def pictures_of(cell: Any) -> list[Any]:
    """Alternative text and width of each picture that a cell stores."""
    return [one.metadata["image/png"] for one in cell.outputs if "image/png" in one.get("data", {})]


def draw(statements: list[Statement]) -> Any:
    """The picture of the last statement, or that with which its widget begins."""
    *needed, picture = (statement.tree for statement in statements)
    names: dict[str, Any] = {}
    exec(compile(ast.Module(needed, []), "cells", "exec"), names)
    value = eval(compile(ast.Expression(picture.value), "picture", "eval"), names)
    return value.drawn if isinstance(value, widgets.Explorer) else value


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_stored_picture_of_a_result_is_that_which_is_drawn_today(path, monkeypatch):
    """Its words, with the numbers, and its width; ``make notebooks`` stores them anew."""
    monkeypatch.chdir(path.parent)
    monkeypatch.setenv("MINITXL_PROFILE", "quick")
    monkeypatch.setattr(widgets, "image", lambda picture: "")  # pixels, which none looks at here
    cells = nbformat.read(path, as_version=4).cells
    stored, today = {}, {}
    for cell, statements in of_results(cells):
        (stored[cell.id],) = pictures_of(cell)
        drawn = draw(statements)
        today[cell.id] = {"alt": drawn.alt, "width": drawn.width}
    assert today == stored
    assert bool(stored) == any("results.read(" in cell.source for cell in cells if cell.cell_type == "code")


def test_a_picture_needs_the_statements_behind_its_names_and_no_training():
    lines = {
        "import": "from minitxl.experiments.shared import results",
        "train": "rows = [loop.train(system) for system in systems]",
        "length": "LENGTH = 3",
        "function": "def short(row):\n    return row[:LENGTH]",
        "read": "data = results.read(path).data",
        "empty": "rows = []",
        "other": "others.append(1)",
        "fill": "for system in data:\n    rows.append(short(system))\n    last = system",
        "change": "rows[0]['bits'] = 2",
    }
    output = new_output("display_data", {"image/png": ""}, metadata={"image/png": {"alt": "1", "width": 2}})
    code = [*lines.values(), "bits(rows)", "bits(rows, loop)", "bits(others)"]
    cells = [new_code_cell(one, outputs=[output] if one.startswith("bits") else []) for one in code]
    ((cell, statements),) = of_results(cells)
    assert cell.source == "bits(rows)"
    needed = [ast.unparse(statement.tree) for statement in statements]
    names = ("import", "length", "function", "read", "empty", "fill", "change")
    assert needed == [*(lines[name] for name in names), "bits(rows)"]
