"""From a notebook of the course, one cell and the earlier cells that it needs, as a program of its own."""

import ast
import builtins
import dis
import symtable
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType
from typing import Any

import nbformat

SHELL = ("install",)
"""Cells that are no Python, and that nothing needs."""


def code_of(path: Path) -> dict[str, str]:
    """The source of each code cell, by id, in order."""
    cells = nbformat.read(path, as_version=4).cells
    return {cell.id: cell.source for cell in cells if cell.cell_type == "code" and cell.id not in SHELL}


def calls(source: str, *functions: str) -> bool:
    """Whether one of these is called by its name."""
    found = (node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return any(isinstance(one, ast.Name) and one.id in functions for one in found)


def excerpt(path: Path, last: str) -> list[str]:
    """The cell ``last`` behind every cell that gives a name which it, or one of those, uses."""
    code = code_of(path)
    before = list(code)[: list(code).index(last)]
    kept, wanted = [last], _names(code[last])[1]
    for cell in reversed(before):
        given, used = _names(code[cell])
        if given & wanted:
            kept.insert(0, cell)
            wanted = (wanted - given) | used
    return [code[cell] for cell in kept]


def _names(source: str) -> tuple[set[str], set[str]]:
    """The global names that a cell gives, and those that it uses and does not itself give before."""
    given, used = set(), set()
    for scope in _scopes(symtable.symtable(source, "cell", "exec")):
        for symbol in scope.get_symbols():
            if scope.get_type() != "module" and not symbol.is_global():
                continue
            if symbol.is_assigned() or symbol.is_imported():
                given.add(symbol.get_name())
            if symbol.is_referenced():
                used.add(symbol.get_name())
    return given, used - set(dir(builtins)) - _own_names(source)


def _own_names(source: str) -> set[str]:
    """The names that a cell always assigns before it uses them, such as those of its loops."""
    code = compile(source, "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    own, used = set(), set[str]()
    for step in dis.get_instructions(code):
        if step.opname == "STORE_NAME" and step.argval not in used:
            own.add(step.argval)
        elif step.opname in ("LOAD_NAME", "LOAD_GLOBAL"):
            used |= {step.argval} - own
        elif isinstance(step.argval, CodeType):
            used |= set(_mentioned(step.argval)) - own
    return own - _at_times(ast.parse(source))


def _mentioned(code: CodeType) -> Iterator[str]:
    """The names in a function that may be global."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _mentioned(inner)


def _at_times(tree: ast.AST) -> set[str]:
    """The names that are given under a condition."""
    branches = [node for node in ast.walk(tree) if isinstance(node, ast.If | ast.Try | ast.While | ast.Match)]
    given = set[str]()
    for node in (node for branch in branches for node in ast.walk(branch)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            given.add(node.id)
        elif isinstance(node, ast.alias):
            given.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            given.add(node.name)
    return given


def _scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _scopes(child)


def value_of(sources: Sequence[str]) -> Any:
    """Run the cells in this process; what the last expression gives."""
    *statements, expression = ast.parse("\n\n".join(sources)).body
    assert isinstance(expression, ast.Expr)
    space: dict[str, Any] = {"__name__": "__main__"}
    run: Callable[..., Any] = exec
    run(compile(ast.Module(statements, []), "excerpt", "exec"), space)
    return eval(compile(ast.Expression(expression.value), "excerpt", "eval"), space)
