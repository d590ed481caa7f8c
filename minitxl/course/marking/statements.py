"""Statements of a submission's cells: read, and told where they fail."""

import ast
from contextlib import suppress


def words(error: BaseException) -> str:
    """Return what an error says."""
    with suppress(BaseException):
        return str(error)[:2000]
    return "an error that cannot be written"


def statements(source: str) -> list[ast.stmt]:
    """Return the statements of a cell, without the lines that only a notebook understands."""
    try:
        return ast.parse(source).body
    except SyntaxError:
        lines = ["" if line.lstrip().startswith(("%", "!", "?")) else line for line in source.splitlines()]
        return ast.parse("\n".join(lines)).body


def is_told(statement: ast.stmt, error: BaseException) -> bool:
    """Return True where a failure may matter: not of what calls a blank, or only shows something."""
    if isinstance(error, NotImplementedError):
        return False
    return not isinstance(statement, ast.Expr) or not isinstance(error, Exception)


def bound(statement: ast.stmt) -> list[str]:
    """Return the names that a statement gives to functions, classes and values."""
    stored = [
        one.id for one in ast.walk(statement) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    ]
    return [*stored, *(one for one in [getattr(statement, "name", None)] if one)]


def words_of_cell(error: BaseException) -> str:
    """Return an error of a cell in words, and of code that cannot be read the line, counted in the cell."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__} in line {error.lineno}: {error.msg}"
    return f"{type(error).__name__}: {words(error)}"
