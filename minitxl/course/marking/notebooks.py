"""Cells of a submission: matched with the assignment's, and repaired.

A submission is matched by the names of its cells and never trusted for more: tests, points and
rubric come from the assignment. A cell that was copied is there twice, and the last filled one counts.
"""

import ast
import hashlib
import json
import re
import warnings
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.warnings import DuplicateCellId

from minitxl.course.marking.frames import from_json
from minitxl.course.marking.names import UNREADABLE, Names, is_text
from minitxl.files import read_bytes

LARGEST = 2**28
"""Bytes of a notebook, at most: students print much."""
MOST_LINE = 60
"""Characters of a line that tell of a cell or a statement, at most."""
STUB = "raise NotImplementedError"
CHECK = "# Check yourself"
CHECKED, TESTED = "a 'Check yourself' cell", "a test cell"
"""Kinds of cells that a worker does not run, in words for students."""
IMPORTS = "imports"
"""Name of the first cell of code, with the assignment's imports."""
YEAR = re.compile(r"^variant = partial\(variant, year=(.+)\)$", re.MULTILINE)
"""Line of the first cell that draws everyone's numbers for the year of a course."""
WRITTEN = "the written question"
"""Its name in tables and pages."""
GIVEN = "given "
"""Beginning of the name of a cell that the assignment gives, and that a student left as it is."""


def read(path: Path) -> NotebookNode:
    """Return a notebook; a ValueError of one sentence if it is none."""
    try:
        text = json.dumps(from_json(read_bytes(path, at_most=LARGEST)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DuplicateCellId)  # cells go by nbgrader's names
            notebook = nbformat.reads(text, as_version=4)
        for cell in notebook.cells:
            cell.source, cell.metadata, cell.cell_type  # noqa: B018
    except (ValueError, AttributeError, RecursionError, nbformat.ValidationError) as error:
        words = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{path.name} must be a notebook: {words[:120]}") from None
    return notebook


def flags(cell: NotebookNode) -> dict[str, Any]:
    """Return nbgrader's remarks on a cell; none where it has no name of nbgrader's."""
    found = cell.metadata.get("nbgrader")
    return found if isinstance(found, dict) and isinstance(found.get("grade_id"), str) else {}


@dataclass(frozen=True)
class Assignment:
    """An assignment as its instructor wrote it."""

    name: str
    notebook: NotebookNode

    @classmethod
    def of(cls, course: Path, name: str) -> "Assignment":
        return cls(name, read(course / "source" / name / f"{name}.ipynb"))

    @cached_property
    def cells(self) -> dict[str, NotebookNode]:
        """Cells that nbgrader names, by their names."""
        return {flags(cell)["grade_id"]: cell for cell in self.notebook.cells if flags(cell)}

    @cached_property
    def solutions(self) -> list[str]:
        """Names of the cells that students fill in with code."""
        return [name for name, cell in self.cells.items() if flags(cell)["solution"] and _is_code(cell)]

    @cached_property
    def tests(self) -> list[dict[str, Any]]:
        """Graded cells of code: name, points, source."""
        return [
            {"cell": name, "points": float(flags(cell)["points"]), "source": _hidden(cell.source)}
            for name, cell in self.cells.items()
            if flags(cell)["grade"] and _is_code(cell)
        ]

    @cached_property
    def titles(self) -> dict[str, str]:
        """Names in tables and pages of the cells that give points, and of their functions, by cell name."""
        titles = {name: WRITTEN if self.solutions else name for name in self.by_hand}
        for test in self.tests:
            function = graded(test["source"])[1][1]
            titles |= {test["cell"]: function, test["cell"].removesuffix("-test"): function}
        return titles

    @cached_property
    def by_hand(self) -> list[str]:
        """Names of the cells with points that a person gives: written questions, and a project's tasks."""
        return [
            name
            for name, cell in self.cells.items()
            if flags(cell).get("task") or (flags(cell)["grade"] and not _is_code(cell))
        ]

    @property
    def imports(self) -> str:
        return str(self.cells[IMPORTS].source) if IMPORTS in self.cells else ""

    @property
    def year(self) -> str | None:
        """The year that everyone's numbers are drawn for, "" for none; None where no numbers are drawn."""
        if not self.imports:
            return None
        line = YEAR.search(self.imports)
        return str(ast.literal_eval(line[1])) if line else ""

    @property
    def digest(self) -> str:
        """A digest of what decides a mark."""
        words = [self.imports, *(f"{test['cell']} {test['points']} {test['source']}" for test in self.tests)]
        return hashlib.sha256("\0".join(words).encode()).hexdigest()

    @property
    def most(self) -> float:
        """Points in all."""
        return float(sum(flags(cell).get("points", 0) for cell in self.cells.values()))


@dataclass(frozen=True)
class Handed:
    """A notebook that was handed in for an assignment."""

    assignment: Assignment
    notebook: NotebookNode

    @cached_property
    def named(self) -> dict[str, NotebookNode]:
        """The cell that counts, of each name: of several the last that is filled in."""
        found: dict[str, NotebookNode] = {}
        for cell in self.notebook.cells:
            name = flags(cell).get("grade_id")
            if name in self.assignment.cells and (name not in found or not _blank(cell)):
                found[name] = cell
        return found

    def check(self) -> None:
        """Refuse a notebook of another assignment: it has nothing that is asked for here."""
        mine = {flags(cell).get("grade_id") for cell in self.notebook.cells}
        name = self.assignment.name
        solutions = [one for one in self.assignment.solutions if one != "numbers"]
        if solutions and not mine & {*solutions}:
            sources = "\n".join(str(cell.source) for cell in self.notebook.cells)
            if any(_defined(self.assignment.cells[one].source) & _defined(sources) for one in solutions):
                raise ValueError(
                    "its functions are there, but its cells have lost their names, which stand in their "
                    f"metadata: copy what it holds into the cells of release/{name}, and mark that"
                )
            raise ValueError(f"it must be assignment {name}, and has none of its functions")
        if not self.assignment.solutions and not mine & {*self.assignment.by_hand}:
            raise ValueError(f"it must be {name}, and has none of its tasks")

    @property
    def repaired(self) -> list[str]:
        """Names of cells that stand there more than once."""
        names = [flags(cell).get("grade_id") for cell in self.notebook.cells]
        return sorted({name for name in names if name in self.assignment.cells and names.count(name) > 1})

    @property
    def edited(self) -> list[str]:
        """Functions whose graded tests were changed or deleted; with other cells a student may play."""
        found = []
        for test in self.assignment.tests:
            name, title = test["cell"], self.assignment.titles[test["cell"]]
            if name not in self.named:
                found.append(f"{title} (deleted)")
            elif _words(self.named[name].source) != _words(released(self.assignment.cells[name].source)):
                found.append(title)
        return found

    def to_run(self) -> list[tuple[str, str]]:
        """Return names and sources of what a worker runs: imports, solutions and the student's own cells.

        A first cell that a student changed comes before the assignment's own, so that what they import
        there is known, and no name of the assignment's is another one.
        """
        changed, cells = list[tuple[str, str]](), list[tuple[str, str]]()
        for place, cell in enumerate(self.notebook.cells):
            name = str(flags(cell).get("grade_id", ""))
            theirs = self.assignment.cells.get(name)
            if not _is_code(cell) or (theirs is not None and flags(theirs)["locked"] and name != IMPORTS):
                continue
            if theirs is not None and cell is not self.named[name] and _blank(cell):
                continue
            if cell.source.startswith(CHECK) or _words(cell.source) == _words(self.assignment.imports):
                continue
            if name == IMPORTS:
                changed.append((f"{name} {place}", cell.source))
            elif theirs is None and _words(cell.source) in self._given:
                cells.append((f"{GIVEN}{place}", cell.source))
            else:
                cells.append((f"{name if theirs is not None else 'cell'} {place}", cell.source))
        return [*changed, (IMPORTS, self.assignment.imports), *cells]

    @cached_property
    def _given(self) -> list[list[str]]:
        """Words of the cells of code that the assignment gives to run, without a name of nbgrader's."""
        cells = self.assignment.notebook.cells
        return [_words(cell.source) for cell in cells if _is_code(cell) and not flags(cell)]

    def not_run(self) -> dict[str, str]:
        """Return names that cells define which a worker does not run, and what kind of cell defines each."""
        run, kind_of = {source for _, source in self.to_run()}, dict[str, str]()
        for cell in self.notebook.cells:
            if not _is_code(cell) or cell.source in run or _blank(cell):
                continue
            theirs = self.assignment.cells.get(str(flags(cell).get("grade_id", "")))
            is_test = theirs is not None and flags(theirs)["grade"]
            names = Names.of_cell(cell.source)
            kind_of |= dict.fromkeys([*names.values, *names.modules], TESTED if is_test else CHECKED)
        return kind_of

    def code(self) -> dict[str, str]:
        """Return the source of each solution that is filled in."""
        found = {name: self.named[name].source for name in self.assignment.solutions if name in self.named}
        return {name: source for name, source in found.items() if not _blank(self.named[name])}

    def own_code(self) -> dict[str, str]:
        """Return all code that a worker runs and the student may have written, by cell."""
        cells = dict(self.to_run())
        cells.pop(IMPORTS)
        return {name: source for name, source in cells.items() if not name.startswith(GIVEN)}

    def answer(self) -> str:
        """Return what a person marks: the written answer, or all that stands in a project."""
        if self.assignment.solutions:
            return "\n\n".join(
                str(self.named[name].source) for name in self.assignment.by_hand if name in self.named
            )
        return "\n\n".join(str(cell.source) for cell in self.notebook.cells)


@cache
def graded(source: str) -> tuple[ast.Module, tuple[str, str, str]]:
    """Return a hidden test without its last line, and this line's marking, function and trial."""
    tree = ast.parse(source)
    last = tree.body.pop()
    if not isinstance(last, ast.Expr) or not isinstance(last.value, ast.Call):
        raise ValueError("a hidden test must end with grade(function, trial)")
    kind, function, trial = (ast.unparse(one) for one in (last.value.func, *last.value.args))
    return tree, (kind, function, trial)


def beginning(source: str) -> str:
    """Return in words which cell it is, by its first line."""
    return f"the cell that begins with '{first_line(source)}'"


def first_line(source: str) -> str:
    """Return the first line that has words, cut where it is long."""
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    return lines[0][:MOST_LINE] if lines else ""


def released(source: str) -> str:
    """Return a cell as students get it: without what is hidden."""
    lines, hidden = [], False
    for line in source.splitlines():
        hidden = hidden or "### BEGIN HIDDEN TESTS" in line or "BEGIN MARK SCHEME" in line
        if not hidden:
            lines.append(line)
        hidden = hidden and "### END HIDDEN TESTS" not in line and "END MARK SCHEME" not in line
    return "\n".join(lines)


def _is_code(cell: NotebookNode) -> bool:
    return bool(cell.cell_type == "code")


def _blank(cell: NotebookNode) -> bool:
    """Return True for functions as they were handed out: a docstring, and the error of a blank.

    The words of the error in a comment, behind a return or in an if make no blank: the code counts.
    """
    if not _is_code(cell) or STUB not in cell.source:
        return False
    try:
        statements = ast.parse(cell.source).body
    except UNREADABLE:
        return False
    return all(is_stub(one) for one in statements)


def is_stub(node: ast.stmt) -> bool:
    """Return True for a text, the error, and a function of nothing else."""
    if isinstance(node, ast.FunctionDef):
        return not node.decorator_list and all(map(is_stub, node.body))
    return is_text(node) or ast.unparse(node).removesuffix("()") == STUB


def _defined(source: str) -> set[str]:
    """Return the names of the functions that are defined at the beginning of a line."""
    return {*re.findall(r"^def (\w+)", source, re.MULTILINE)}


def _hidden(source: str) -> str:
    """Return a hidden test without nbgrader's marks."""
    return "\n".join(line for line in source.splitlines() if "HIDDEN TESTS" not in line)


def _words(source: str) -> list[str]:
    return source.split()
