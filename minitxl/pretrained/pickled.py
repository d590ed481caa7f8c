"""The content of a pickle, read without unpickling it.

A pickle is a program, and unpickling runs it: it may call whatever it names. Here its instructions
are only read, one after another. Texts, numbers, lists, tuples and dictionaries come out as they
are; an object that only a call would make comes out as a ``Call``, which says what would have been
called, and with what; anything else as ``OPAQUE``.
"""

import pickletools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

OPAQUE = object()
_MARK = object()
INSTRUCTIONS = 10_000_000
"""Instructions of a pickle, at most; a vocabulary of 800,000 words has 5 million."""


@dataclass(frozen=True)
class Name:
    """The name of a class or function, such as "collections.OrderedDict"; never looked up."""

    name: str


@dataclass(frozen=True)
class Stored:
    """A reference to what lies outside the pickle, such as a tensor's storage."""

    reference: Any


@dataclass(eq=False)
class Call:
    """A call that unpickling would have made, what was put into its result, and the result's state."""

    function: Any
    arguments: Any
    items: dict[Any, Any] = field(default_factory=dict)
    state: Any = None


def read(file: BytesIO, references: list[Any] | None = None) -> Any:
    """Return the object of the pickle that begins here; the file is left at its end.

    What it refers to outside itself is appended to ``references``.

    A ``BytesIO`` and not a file: an instruction may claim 2^62 bytes, which are only looked for in
    what is in RAM.
    """
    stack, memo = list[Any](), dict[int, Any]()
    try:
        for number, (code, given, _) in enumerate(pickletools.genops(file)):
            if code.name == "STOP":
                return stack.pop()
            if number == INSTRUCTIONS:
                raise ValueError(f"a pickle must have at most {INSTRUCTIONS:,} instructions")
            _follow(code, given, stack, memo)
            if code.name in ("PERSID", "BINPERSID") and references is not None:
                references.append(stack[-1].reference)
    except (IndexError, KeyError, TypeError, OverflowError, MemoryError) as error:
        raise ValueError("a pickle must be whole and in order") from error
    raise ValueError("a pickle must end with STOP")


def every(file: BytesIO) -> Iterator[Any]:
    """Yield the objects of a file of one pickle after another."""
    while file.tell() < len(file.getbuffer()):
        yield read(file)


def _follow(code: pickletools.OpcodeInfo, given: Any, stack: list[Any], memo: dict[int, Any]) -> None:
    """Do one instruction: take from the stack, and put on it."""
    if (construct := _CONSTRUCT.get(code.name)) is not None:
        construct(stack, given)
        return
    match code.name:
        case "PUT" | "BINPUT" | "LONG_BINPUT":
            memo[given] = stack[-1]
        case "MEMOIZE":
            memo[len(memo)] = stack[-1]
        case "GET" | "BINGET" | "LONG_BINGET":
            stack.append(memo[given])
        case "APPEND" | "APPENDS":
            values = _taken(stack) if code.name == "APPENDS" else [stack.pop()]
            if isinstance(stack[-1], list):
                stack[-1].extend(values)
        case "SETITEM" | "SETITEMS":
            values = _taken(stack) if code.name == "SETITEMS" else [stack.pop(-2), stack.pop()]
            target = stack[-1].items if isinstance(stack[-1], Call) else stack[-1]
            if isinstance(target, dict):
                target.update(_pairs(values))
        case "BUILD":
            state = stack.pop()
            if isinstance(stack[-1], Call):
                stack[-1].state = state
        case _:
            before = code.stack_before
            if pickletools.markobject in before:
                _taken(stack)
                before = before[: before.index(pickletools.markobject)]
            for _ in before:
                stack.pop()
            stack.extend(given if kind in _PLAIN else OPAQUE for kind in code.stack_after)


_PLAIN = (
    *(pickletools.pyunicode, pickletools.pybytes_or_str, pickletools.pyint, pickletools.pyinteger_or_bool),
    pickletools.pyfloat,
)
"""Kinds of values that an instruction carries with it. Bytes are not among them: no text is kept as bytes."""


def _taken(stack: list[Any]) -> list[Any]:
    """Return all above the last mark; they and the mark are taken away."""
    values = list[Any]()
    while (value := stack.pop()) is not _MARK:
        values.append(value)
    return values[::-1]


def _last(stack: list[Any], number: int) -> list[Any]:
    """Return the last ``number`` values; they are taken away."""
    return [stack.pop() for _ in range(number)][::-1]


def _pairs(values: list[Any]) -> dict[Any, Any]:
    return dict(zip(values[::2], values[1::2], strict=True))


_CONSTRUCT: dict[str, Callable[[list[Any], Any], None]] = {
    "MARK": lambda stack, _: stack.append(_MARK),
    "DUP": lambda stack, _: stack.append(stack[-1]),
    "NONE": lambda stack, _: stack.append(None),
    "NEWTRUE": lambda stack, _: stack.append(True),
    "NEWFALSE": lambda stack, _: stack.append(False),
    "EMPTY_LIST": lambda stack, _: stack.append([]),
    "EMPTY_DICT": lambda stack, _: stack.append({}),
    "EMPTY_TUPLE": lambda stack, _: stack.append(()),
    "LIST": lambda stack, _: stack.append(_taken(stack)),
    "DICT": lambda stack, _: stack.append(_pairs(_taken(stack))),
    "TUPLE": lambda stack, _: stack.append(tuple(_taken(stack))),
    "TUPLE1": lambda stack, _: stack.append(tuple(_last(stack, 1))),
    "TUPLE2": lambda stack, _: stack.append(tuple(_last(stack, 2))),
    "TUPLE3": lambda stack, _: stack.append(tuple(_last(stack, 3))),
    "GLOBAL": lambda stack, given: stack.append(Name(given.replace(" ", "."))),
    "STACK_GLOBAL": lambda stack, _: stack.append(Name(".".join(map(str, _last(stack, 2))))),
    "REDUCE": lambda stack, _: stack.append(Call(*_last(stack, 2))),
    "NEWOBJ": lambda stack, _: stack.append(Call(*_last(stack, 2))),
    "PERSID": lambda stack, given: stack.append(Stored(given)),
    "BINPERSID": lambda stack, _: stack.append(Stored(stack.pop())),
}
"""Instructions that put a new value on the stack."""
