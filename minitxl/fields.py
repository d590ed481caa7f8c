"""Values that come from outside: the type and range each must have, and errors that name value and file.

A wrong value is refused in one way everywhere: a ValueError of one sentence, "NAME must RULE, got VALUE".

    check(name, value, rule)            a value by itself, where a rule below says what is right
    require(holds, requirement, got)    a condition that compares several values
    checked(mapping, rules)             the values of a file, each by its rule
    dataclass_from, check_types         the fields of a dataclass, each by its annotation
    minitxl.arguments                   tensors and options that a caller passes
    naming(file)                        puts a file's name in front of the sentence

Python's own classes are kept where Python asks for them: a TypeError for an argument that does not exist, an
IndexError at the end of a sequence. The command line prints the sentence and exits with 2. A class of our own
exists only where the code that catches an error must tell it from others. These are the package's:

    data.tokenizer.UnknownSymbolError        a ValueError; the caller adds line and column
    data.downloads.FinalError                ends the tries of a download
    data.downloads.WrongContentError         counts as a failed try of a download
    commands.errors.RefusedFlagError         not a ValueError, which the parser of flags would reword
    course.grading.WrongAnswerError          an AssertionError, which nbgrader takes for a wrong answer
    course.checker.NotAskedForError          a result of another kind than an exercise asks for
    course.checks.shares.TruthOfTensorError  a RuntimeError, of a tensor that was asked whether it is true

Further ones pass between the parts of one file or folder: of ``course.marking``, of ``course.grading``, and
of the check of the training loop.

A *rule* is a function that returns None for a value that is allowed, and else the requirement it
breaks: ``whole(1, 8)("x")`` is "be a whole number". Rules stand in a table by name:

    RECORD = {"step": whole(1), "bits": number(0), "note": optional(text())}
    record = checked(json.loads(line), RECORD, required=("step", "bits"), file=path)

The fields of a dataclass need no table: its annotations are the rules.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from math import isfinite
from pathlib import Path
from reprlib import Repr
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

LONGEST = 2**31 - 1
"""Most tokens of a segment, a memory or a window, and most steps: more is a mistyped number."""

Rule = Callable[[object], str | None]
Rules = Mapping[str, Rule]
Made = TypeVar("Made")

_short = Repr()
_short.maxlevel, _short.maxlist, _short.maxtuple, _short.maxdict = 2, 6, 6, 4
_short.maxstring = _short.maxother = _short.maxlong = 80


def whole(low: int | None = None, high: int | None = None) -> Rule:
    """Return the rule of a whole number from ``low`` to ``high``; True and False are not numbers."""
    return lambda value: _outside(value, low, high) if type(value) is int else "be a whole number"


def number(low: float | int | None = None, high: float | int | None = None) -> Rule:
    """Return the rule of a finite number from ``low`` to ``high``, whole or not."""

    def broken(value: object) -> str | None:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return "be a number"
        return _outside(value, low, high) if _is_finite(value) else "be finite"

    return broken


def _is_finite(value: float | int) -> bool:
    try:
        return isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


def positive(value: object) -> str | None:
    """Return None for a finite number above 0."""
    return number(0)(value) or (None if value else "be positive")


def rate(value: object) -> str | None:
    """Return None for a rate of dropout: a number from 0 on and below 1."""
    return number(0)(value) or (None if value < 1 else "be below 1")  # type: ignore[operator]


def flag(value: object) -> str | None:
    """Return None for True and False."""
    return None if isinstance(value, bool) else "be true or false"


def text(*allowed: str, longest: int | None = None) -> Rule:
    """Return the rule of a text: any, or one of those allowed; of ``longest`` characters at most."""

    def broken(value: object) -> str | None:
        if allowed and value not in allowed:
            return f"be {', '.join(allowed[:-1])} or {allowed[-1]}" if allowed[1:] else f"be {allowed[0]}"
        if not isinstance(value, str):
            return "be text"
        return None if longest is None or len(value) <= longest else f"have at most {longest} characters"

    return broken


def optional(rule: Rule) -> Rule:
    """Return the rule of a value that may also be None, which JSON calls null."""
    return lambda value: None if value is None else rule(value)


def sequence(rule: Rule, *, longest: int | None = None) -> Rule:
    """Return the rule of a list or tuple, each of whose values meets ``rule``."""

    def broken(value: object) -> str | None:
        if not isinstance(value, list | tuple):
            return "be a list"
        if longest is not None and len(value) > longest:
            return f"have at most {longest} values"
        return next((f"{requirement} each" for one in value if (requirement := rule(one))), None)

    return broken


def _outside(value: float | int, low: float | int | None, high: float | int | None) -> str | None:
    if low is not None and value < low:
        return f"be {low} or more"
    return f"be at most {high:,}" if high is not None and value > high else None


def check(name: str, value: object, rule: Rule) -> None:
    """Raise a ValueError that names the value and what it must be, unless the rule holds."""
    if requirement := rule(value):
        raise ValueError(f"{name} must {requirement}, got {_short.repr(value)}")


def require(holds: bool, requirement: str, got: object) -> None:
    """Raise a ValueError "REQUIREMENT, got GOT" unless the condition holds."""
    if not holds:
        raise ValueError(f"{requirement}, got {got!r}")


SIZES: Mapping[str, Rule] = {
    "vocab_size": whole(1, LONGEST),
    "n_layer": whole(1, 1000),
    "d_model": whole(1, 2**20),
    "n_head": whole(1, 2**12),
    "d_head": whole(1, 2**16),
    "d_inner": whole(1, 2**20),
    "d_embed": optional(whole(1, 2**20)),
    "div_val": whole(1),
    "max_seg_len": whole(1, LONGEST),
    "max_distance": whole(0, LONGEST),
    "n_bucket": whole(2, 2**20),
    "bucket_distance": whole(1, LONGEST),
    "clamp_len": optional(whole(0, LONGEST)),
}
"""Least and greatest sizes; the greatest are far beyond every model, so that a mistyped one is refused."""


def check_buckets(n_bucket: int, bucket_distance: int) -> None:
    """Raise a ValueError unless T5's last bucket lies beyond the buckets that hold one distance each."""
    if bucket_distance <= n_bucket // 2:
        raise ValueError(
            f"bucket_distance must be greater than n_bucket / 2 = {n_bucket / 2:g}, got {bucket_distance}"
        )


def checked(
    mapping: object,
    rules: Rules,
    *,
    file: Path | str | None = None,
    required: Iterable[str] = (),
    others: Literal["refused", "dropped"] = "dropped",
) -> dict[str, Any]:
    """Return the entries of ``mapping`` that ``rules`` names, each checked.

    Raises a ValueError of one sentence that names the file: for a value that is no mapping, for a
    ``required`` name that is missing, for a value that breaks its rule, and with
    others="refused" for a name that ``rules`` does not have.
    """
    with naming(file):
        if not isinstance(mapping, Mapping):
            raise ValueError(f"the content must be an object of names and values, got {_short.repr(mapping)}")
        if others == "refused" and (unknown := [name for name in mapping if name not in rules]):
            raise ValueError(f"each name must be one of {', '.join(rules)}, got {_short.repr(unknown[0])}")
        for name, rule in rules.items():
            if name in mapping:
                check(name, mapping[name], rule)
        if missing := [name for name in required if name not in mapping]:
            raise ValueError(f"{missing[0]} must be given, got only {_listed(mapping)}")
    return {name: mapping[name] for name in rules if name in mapping}


def check_types(config: Any) -> None:
    """Raise a ValueError for a field of a dataclass whose value its annotation does not allow.

    A list becomes a tuple, so that a frozen dataclass stays hashable.
    """
    for name, rule in rules_of(type(config)).items():  # type: ignore[arg-type]  # a class is hashable
        value = getattr(config, name)
        check(name, value, rule)
        object.__setattr__(config, name, _tuple_if_list(value))


def dataclass_from(
    cls: type[Made], mapping: object, *, file: Path | str, required: Iterable[str] = (), **more: Any
) -> Made:
    """Return the dataclass that a file's names and values describe; lists become tuples.

    ``more`` are further fields. Names the class does not have are refused, and whatever the class
    itself refuses is told with the file's name.
    """
    rules = rules_of(cls)  # type: ignore[arg-type]  # a class is hashable
    values = checked(mapping, rules, file=file, required=required, others="refused")
    with naming(file):
        # Before the class is called: where the shape checks are on, they refuse a list for a tuple.
        return cls(**{name: _tuple_if_list(value) for name, value in values.items()}, **more)


def _tuple_if_list(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


@cache
def rules_of(cls: type) -> Mapping[str, Rule]:
    """Return a rule for each field of a dataclass, from its annotation."""
    hints = get_type_hints(cls)
    return {field.name: _rule_of(hints[field.name]) for field in fields(cls)}


def _rule_of(annotation: Any) -> Rule:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        (inner,) = (arg for arg in args if arg is not NoneType)
        return optional(_rule_of(inner))
    if origin is Literal:
        return text(*args)
    if origin is tuple:
        return sequence(_rule_of(args[0]))
    simple: dict[type, Rule] = {int: whole(), float: number(), bool: flag, str: text()}
    return simple[annotation]


@contextmanager
def naming(file: Path | str | None) -> Iterator[None]:
    """Put the file's name in front of a ValueError of the block; None leaves it as it is."""
    try:
        yield
    except ValueError as error:
        if file is None or str(error).startswith(str(file)):
            raise
        raise ValueError(f"{file}: {error}") from error


def _listed(mapping: Mapping[Any, Any]) -> str:
    names = [_short.repr(name) for name in list(mapping)[:8]]
    return ", ".join(names) + (", …" if len(mapping) > 8 else "") if names else "nothing"
