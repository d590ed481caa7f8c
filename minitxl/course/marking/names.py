"""Names that a student's code defines."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""Errors of reading code that is none."""


@dataclass(frozen=True)
class Names:
    """Names of functions, classes and values, and those of methods and fields of the classes."""

    values: frozenset[str] = frozenset()
    members: frozenset[str] = frozenset()

    @classmethod
    def of_cells(cls, sources: Iterable[str]) -> "Names":
        """Return what cells define for one another; a cell that is no code defines nothing."""
        trees = [tree for tree in map(_tree, sources) if tree is not None]
        values = (name for tree in trees for node in tree.body for name in _of_statement(node))
        return cls(frozenset(values), frozenset(name for tree in trees for name in _members(tree)))

    @classmethod
    def of_code(cls, tree: ast.AST) -> "Names":
        """Return all names that code gives, in functions too."""
        values = (name for node in ast.walk(tree) for name in _bound(node))
        return cls(frozenset(values), frozenset(_members(tree)))

    def __or__(self, other: "Names") -> "Names":
        return Names(self.values | other.values, self.members | other.members)


NO_NAMES = Names()


def _tree(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except UNREADABLE:
        return None


def _of_statement(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement gives to functions, classes, values and imports."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
        return
    for one in ast.walk(node):
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
            yield one.id
        elif isinstance(one, ast.alias):
            yield one.asname or one.name.partition(".")[0]


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name


def _members(tree: ast.AST) -> Iterator[str]:
    """Yield the names of methods and fields of the classes that code defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for statement in node.body:
                yield from _of_statement(statement)
            for one in ast.walk(node):
                if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store):
                    yield one.attr


def is_text(node: ast.AST) -> bool:
    """Return True for a statement that is a constant alone, as a docstring is."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
