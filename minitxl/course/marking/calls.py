"""Which functions of a submission call others of theirs: why points are lost, and which answers changed."""

import ast
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from minitxl.course.checker import NOTHING
from minitxl.course.marking.names import UNREADABLE, of_statement
from minitxl.course.marking.notebooks import Handed, is_stub
from minitxl.course.marking.statements import statements

UNFINISHED = "there is code, and it raises NotImplementedError: take that line out, or never reach it"


def with_calls(parts: Sequence[dict[str, Any]], cells: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return verdicts that also say where a function lost points and calls one that lost points itself.

    ``cells`` are the names and sources of what a worker ran, from which it is read who calls whom.
    """
    defined = dict(_definitions(cells))
    functions = {part["function"]: part for part in parts}
    told = []
    for part in parts:
        statement = defined.get(part["function"])
        if statement is None or part["score"] in (None, part["most"]):
            told.append(part)
            continue
        reached = _read_by(part["function"], defined, functions.keys())
        called = [one for name, one in functions.items() if name in reached and one is not part]
        told.append(part | _words(part, called, defined))
    return told


def answers(handed: Handed) -> dict[str, str]:
    """Return a digest of what is marked, by graded cell: other digests are other answers.

    Of a function that is its code and all of the student's own that it reads, whatever the layout; a cell
    that is no code counts as it is.
    """
    cells = handed.to_run()
    every, sources = [*_definitions(cells)], {name.rpartition(" ")[0]: of for name, of in cells}
    defined = dict(every)
    text_of = dict.fromkeys(handed.assignment.by_hand, handed.answer())
    for test in handed.assignment.tests:
        name, cell = handed.assignment.titles[test["cell"]], test["cell"].removesuffix("-test")
        text_of[test["cell"]] = sources.get(cell, "")
        if name in defined:
            with suppress(*UNREADABLE):  # of what is nested too deeply
                read = _read_by(name, defined)
                text_of[test["cell"]] = "\n".join(ast.unparse(code) for one, code in every if one in read)
    return {cell: _digest(text) for cell, text in text_of.items()}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _words(
    part: Mapping[str, Any], called: Sequence[Mapping[str, Any]], defined: Mapping[str, ast.stmt]
) -> dict[str, str]:
    """Return the new message of a function that lost points, if any."""
    if part["message"] == NOTHING and not is_stub(defined[part["function"]]):
        blank = [one for one in called if (code := defined.get(one["function"])) and is_stub(code)]
        message = f"it calls your {blank[0]['function']}, which is blank" if blank else UNFINISHED
        return {"message": message, "word": "not yet"}
    lost = [one for one in called if one["score"] is not None and one["score"] < one["most"]]
    for of in lost:
        if f"NameError: “name '{of['function']}' is not defined" in part["message"]:
            why = ", because its cell fails" if of["undefined"] else ""
            return {"message": f"it calls your {of['function']}, which is not defined{why}"}
    if not lost or part["message"] == NOTHING:
        return {}
    names = " and ".join(f"your {one['function']}" for one in lost)
    own = "which lost points itself" if len(lost) == 1 else "which lost points themselves"
    return {"message": f"{part['message']}. It calls {names}, {own}: mend that first"}


def _definitions(cells: Iterable[tuple[str, str]]) -> Iterator[tuple[str, ast.stmt]]:
    """Yield names and the statements of cells that define them, as they are run; the last one counts."""
    for _, source in cells:
        try:
            found = statements(source)
        except UNREADABLE:
            continue
        yield from ((name, one) for one in found for name in of_statement(one))


def _read_by(function: str, defined: Mapping[str, ast.stmt], graded: Collection[str] = ()) -> set[str]:
    """Return a function's name and those of the submission's own that it reads, directly or by others.

    ``graded`` are names that count though the submission defines no such function.
    """
    found, todo = {function}, [function]
    while todo:
        new = _read(defined[todo.pop()]) & {*defined, *graded} - found
        found |= new
        todo += new & defined.keys()
    return found


def _read(statement: ast.stmt) -> set[str]:
    """Return the names that a statement reads, and gives to nothing of its own."""
    read, own = set[str](), set[str]()
    for one in ast.walk(statement):
        if isinstance(one, ast.Name):
            (read if isinstance(one.ctx, ast.Load) else own).add(one.id)
        elif isinstance(one, ast.arg):
            own.add(one.arg)
        elif isinstance(one, ast.FunctionDef) and one is not statement:
            own.add(one.name)
    return read - own
