"""Names that a student's code defines."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""Errors of reading code that is none."""


@dataclass(frozen=True)
class Names:
    """Names of functions, classes and values, of methods and fields of the classes, and of imports.

    ``modules`` has the full name of what is imported, by the name that the code gives it.
    """

    values: frozenset[str] = frozenset()
    members: frozenset[str] = frozenset()
    modules: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_cells(cls, sources: Iterable[str]) -> "Names":
        """Return what cells define for one another; a cell that is no code defines nothing."""
        trees = [tree for tree in map(_tree, sources) if tree is not None]
        statements = [node for tree in trees for node in tree.body]
        values = (name for node in statements for name in of_statement(node))
        modules = {name: path for node in statements for name, path in _imported_by(node)}
        return cls(frozenset(values), frozenset(name for tree in trees for name in members(tree)), modules)

    @classmethod
    @lru_cache(maxsize=1024)
    def of_cell(cls, source: str) -> "Names":
        """Return what one cell defines; most of these stand in each student's notebook as they were given."""
        return cls.of_cells([source])


NO_NAMES = Names()


def _tree(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except UNREADABLE:
        return None


def of_statement(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement gives to functions, classes and values."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
        return
    for one in ast.walk(node):
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
            yield one.id


def _imported_by(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield names and full names of what a statement of a cell imports, in a ``try`` or an ``if`` too."""
    if not isinstance(node, ast.FunctionDef | ast.ClassDef):
        for one in ast.walk(node):
            if isinstance(one, ast.Import | ast.ImportFrom):
                yield from imported(one)


def imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Yield the names that an import gives, and the full names of what they name."""
    for one in node.names:
        if isinstance(node, ast.ImportFrom):
            yield one.asname or one.name, f"{node.module}.{one.name}"
        else:
            first = one.name.partition(".")[0]
            yield one.asname or first, one.name if one.asname else first


def members(tree: ast.AST) -> Iterator[str]:
    """Yield the names of methods and fields of the classes that code defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for statement in node.body:
                yield from of_statement(statement)
            for one in ast.walk(node):
                if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store):
                    yield one.attr


def is_text(node: ast.AST) -> bool:
    """Return True for a statement that is a constant alone, as a docstring is."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
