"""What a pickle holds of texts, lists and dictionaries, read without unpickling it.

A pickle is a program, and unpickling runs it: it may call whatever it names. Here its
instructions are only read, one after another. What it would make by calling something,
and all numbers, come out as ``OPAQUE``.
"""

import pickletools
from collections.abc import Iterator
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

OPAQUE = object()
_MARK = object()
_TEXTS = (pickletools.pyunicode, pickletools.pybytes_or_str)


def read(file: BufferedReader | BytesIO) -> Any:
    """Return the object of the pickle that begins here; the file is left at its end."""
    stack, memo = list[Any](), dict[int, Any]()
    try:
        for code, given, _ in pickletools.genops(file):
            if code.name == "STOP":
                break
            _follow(code, given, stack, memo)
        return stack.pop()
    except (IndexError, KeyError, TypeError) as error:
        raise ValueError("a pickle must be whole and in order") from error


def every(path: Path) -> Iterator[Any]:
    """Objects of a file that ``pickle`` or ``torch`` wrote, without what only a call would make."""
    if is_zipfile(path):
        with ZipFile(path) as archive:
            for name in archive.namelist():
                if name.endswith("/data.pkl"):
                    yield read(BytesIO(archive.read(name)))
        return
    with path.open("rb") as file:
        while file.peek(1):
            yield read(file)


def _follow(code: pickletools.OpcodeInfo, given: Any, stack: list[Any], memo: dict[int, Any]) -> None:
    """One instruction: what it takes from the stack, and what it puts there."""
    match code.name:
        case "MARK":
            stack.append(_MARK)
        case "PUT" | "BINPUT" | "LONG_BINPUT":
            memo[given] = stack[-1]
        case "MEMOIZE":
            memo[len(memo)] = stack[-1]
        case "GET" | "BINGET" | "LONG_BINGET":
            stack.append(memo[given])
        case "EMPTY_LIST":
            stack.append([])
        case "EMPTY_DICT":
            stack.append({})
        case "LIST":
            stack.append(_taken(stack))
        case "DICT":
            stack.append(_pairs(_taken(stack)))
        case "APPEND" | "APPENDS":
            values = _taken(stack) if code.name == "APPENDS" else [stack.pop()]
            if isinstance(stack[-1], list):
                stack[-1].extend(values)
        case "SETITEM" | "SETITEMS":
            values = _taken(stack) if code.name == "SETITEMS" else [stack.pop(-2), stack.pop()]
            if isinstance(stack[-1], dict):
                stack[-1].update(_pairs(values))
        case _:
            before = code.stack_before
            if pickletools.markobject in before:
                _taken(stack)
                before = before[: before.index(pickletools.markobject)]
            for _ in before:
                stack.pop()
            stack.extend(given if kind in _TEXTS else OPAQUE for kind in code.stack_after)


def _taken(stack: list[Any]) -> list[Any]:
    """Return all above the last mark; they and the mark are taken away."""
    values = list[Any]()
    while (value := stack.pop()) is not _MARK:
        values.append(value)
    return values[::-1]


def _pairs(values: list[Any]) -> dict[Any, Any]:
    return dict(zip(values[::2], values[1::2], strict=True))
