"""Run the check of an exercise: compare an attempt with a reference, and say in a sentence what helps.

The check of each exercise, its cases and its named mistakes, stands in ``checks``.
"""

import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache
from html import escape
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from minitxl.course.differences import difference, equal, imprecise, unusable, written
from minitxl.course.tables import NO_FORMULAS

Function = Callable[..., Any]
Piece = TypeVar("Piece", bound=Function)
NOTHING = "there is nothing here yet"


@dataclass(frozen=True)
class Verdict:
    """The verdict of a check: right, not yet, or still blank, and one sentence for the learner.

    ``details`` shows where a named mistake was seen: the call, what it returned, and what is right.
    ``case`` is the number of the case that the message is about, from 0, where no mistake is named.
    """

    right: bool
    message: str
    blank: bool = False
    details: str = field(default="", compare=False)
    case: int | None = field(default=None, compare=False)

    @classmethod
    def of_nothing(cls, message: str = NOTHING) -> "Verdict":
        """Return the verdict on a blank that is not filled in."""
        return cls(False, message, blank=True)

    @property
    def word(self) -> str:
        """right, not yet or blank."""
        if self.right:
            return "right"
        return "blank" if self.blank else "not yet"

    def __repr__(self) -> str:
        return f"{self.word}: {self.message}" + (f"\n  ({self.details})" if self.details else "")

    def _repr_html_(self) -> str:
        mark, colour = MARKS[self.word]
        wrapped = "white-space: pre-wrap; overflow-wrap: anywhere"
        style = f"border-left: 4px solid {colour}; background: {colour}1A; padding: 2px 10px; {wrapped}"
        details = f"\n<small>{escape(self.details)}</small>" if self.details else ""
        words = f"<b>{mark} {self.word}</b>: {escape(self.message)}{details}"
        return f'<div {NO_FORMULAS} style="{style}">{words}</div>'


MARKS = {"right": ("✓", "#009E73"), "not yet": ("✗", "#E69F00"), "blank": ("…", "#888888")}
"""Sign and colour of each verdict; the word says the same."""


def use(attempt: Any, check: Callable[[Any], Verdict], otherwise: Piece) -> Piece:
    """Check a learner's function, show the verdict, and return the function that the cells below run on.

    That is the learner's if it is right, else ``otherwise``, so that a notebook with blanks runs to its end.
    """
    from IPython.display import Markdown, display  # here, since the marking loads this file and has no pages

    verdict = check(attempt)
    below = "Your function" if verdict.right else "The package's function"
    display(verdict, Markdown(f"*{below} is used in the cells below.*"))  # type: ignore[no-untyped-call]
    return cast(Piece, attempt) if verdict.right else otherwise


def listed(attempt: Any) -> Any:
    """Return an attempt that gives a list in place of a zip or a generator, which can be read only once."""

    def in_a_list(*case: Any) -> Any:
        result = attempt(*case)
        return list(result) if isinstance(result, Iterator) else result

    return in_a_list if callable(attempt) else attempt


def variants_of(wrong: Function | Sequence[Function]) -> Sequence[Function]:
    """Return the wrong functions that share a sentence in ``mistakes``: one, or several."""
    return [wrong] if callable(wrong) else wrong


def judge(
    attempt: Any,
    *,
    reference: Function,
    cases: Iterable[tuple[Any, ...]],
    mistakes: Mapping[str, Function | Sequence[Function]],
    praise: str = "equal to the package's in every case",
    names: Sequence[str] | None = None,
    say: Callable[[Any, Any], str] = difference,
    precise: bool = False,
    outcome: "Callable[[int], Outcome] | None" = None,
) -> Verdict:
    """Compare an attempt with the reference on each case, a tuple of arguments.

    ``mistakes`` are wrong solutions, one or several, by the sentence that helps who wrote one. An attempt
    that gives what a mistake gives, in every case, gets that sentence.
    ``names`` are those of the arguments in messages, by default the attempt's own, or the reference's; a
    case may hold more than they name, which is not shown. ``say`` words the difference of what came out
    and what is right. With ``precise``, a result that should be float64 must be right to its digits.
    ``outcome`` gives what the attempt does in a case, by its number, where it was called before.
    Nobody's random numbers change.
    """
    if attempt is None or attempt is Ellipsis:
        return Verdict.of_nothing()
    cases = list(cases)
    outcome = outcome or outcomes(attempt, cases)
    with torch.random.fork_rng(devices=[]):
        for index, case in enumerate(cases):
            expected = _expected(reference, case)
            argument_names = names or names_of(attempt, len(case), reference)
            verdict = _verdict(outcome(index), case, expected, argument_names, say)
            if verdict is None and precise and (why := imprecise(outcome(index)[0], expected)):
                return Verdict(False, f"called with {_call(argument_names, case)}: {why}", case=index)
            if verdict is None:
                continue
            for sentence, wrong in {} if verdict.blank else mistakes.items():
                if any(_same(outcome, variant, cases, index) for variant in variants_of(wrong)):
                    return Verdict(False, sentence, details=verdict.message)
            return verdict if verdict.blank else replace(verdict, case=index)
    return Verdict(True, praise)


def outcomes(
    attempt: Function, cases: Sequence[tuple[Any, ...]], *, may_change: bool = False
) -> "Callable[[int], Outcome]":
    """Return a function that calls an attempt once for each case, by its number, and returns its outcome.

    With ``may_change``, arguments count as unchanged, whatever the attempt did to its copies of them.
    """
    models = copies_of(_models(cases))

    def outcome(index: int) -> Outcome:
        result, given = _outcome(attempt, cases[index], models)
        return result, list(cases[index]) if may_change and given else given

    return cache(outcome)


class NotAskedForError(Exception):
    """A result of another kind than is asked for, as the probe of a hidden test finds it."""

    def __init__(self, got: Any, wanted: str) -> None:
        super().__init__(f"it returns {written(got)}, and {wanted} is asked for")


class _Raised:
    """An error in place of a result."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Raised) and type(self.error).__name__ == type(other.error).__name__

    __hash__ = None  # type: ignore[assignment]


Outcome = tuple[Any, list[Any]]
"""What a function returns or raises, and its arguments as they are then: those of the case if unchanged."""


def _models(cases: Iterable[tuple[Any, ...]]) -> Iterator[nn.Module]:
    return (one for case in cases for one in case if isinstance(one, nn.Module))


def copies_of(models: Iterable[nn.Module]) -> dict[int, nn.Module]:
    """Return copies of models by the identity of each.

    Their empty dicts, as of hooks, are copied beforehand: deepcopy would take four times as long for a model.
    """
    own = {id(one): one for one in models}
    values = (value for model in own.values() for part in model.modules() for value in vars(part).values())
    return deepcopy(own, {id(one): OrderedDict() for one in values if type(one) is OrderedDict and not one})


def _copied(case: tuple[Any, ...], models: Mapping[int, nn.Module] | None = None) -> tuple[Any, ...]:
    """Return a copy of the arguments; in place of a model stands its copy in ``models``, by its identity.

    Without ``models``, it stands for itself: our own functions change none. An attempt has one copy for all
    cases, since a copy takes longer than most attempts. One that changes it is told so at the first case.
    """
    own = {id(one): one for one in _models([case])} if models is None else models
    return deepcopy(case, {**own, **{id(one): one.clone() for one in _cloned(case)}})


def _cloned(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in an argument of which a clone does for a copy: deepcopy takes ten times as long."""
    if type(value) is Tensor:
        if not value.requires_grad and value.is_contiguous():
            yield value
    elif isinstance(value, dict | list | tuple):
        for inside in value.values() if isinstance(value, dict) else value:
            yield from _cloned(inside)


def _expected(reference: Function, case: tuple[Any, ...]) -> Any:
    """Return what is right in a case."""
    return reference(*_copied(case))


def _outcome(
    function: Function, case: tuple[Any, ...], models: Mapping[int, nn.Module] | None = None
) -> Outcome:
    given = _copied(case, models)
    try:
        result = function(*given)
    except Exception as error:
        return _Raised(error), []
    return result, [own if equal(copy, own) else copy for copy, own in zip(given, case, strict=True)]


def _same(
    outcome: Callable[[int], Outcome], mistake: Function, cases: Sequence[tuple[Any, ...]], wrong_at: int
) -> bool:
    """Return True if the attempt does what the mistake does, errors included.

    The case that the attempt got wrong comes first: most other mistakes are right there, and are told apart
    by it alone.
    """
    order = sorted(range(len(cases)), key=lambda index: index != wrong_at)
    return all(equal(outcome(index), _outcome(mistake, cases[index])) for index in order)


def _verdict(
    outcome: Outcome,
    case: tuple[Any, ...],
    expected: Any,
    names: Sequence[str],
    say: Callable[[Any, Any], str],
) -> Verdict | None:
    """Return what is wrong with an outcome, or None."""
    result, given = outcome
    call = f"called with {_call(names, case)}"
    if isinstance(result, _Raised):
        if isinstance(result.error, NotImplementedError):
            return Verdict.of_nothing()
        if isinstance(result.error, NotAskedForError):
            return Verdict(False, f"{call}, {result.error}")
        return Verdict(False, f"{call}, it raised {type(result.error).__name__}: {result.error}")
    if result is Ellipsis:
        return Verdict.of_nothing()
    if result is None and expected is not None:
        return Verdict.of_nothing(f"{call}, it returns nothing: end it with a return")
    if not equal(given, list(case)):
        return Verdict(False, f"{call}, it changes what it was given, in place: make a new value")
    if equal(result, expected):
        why = unusable(result, expected)
        return None if why is None else Verdict(False, f"{call}: {why}")
    return Verdict(False, f"{call}, {say(result, expected)}")


def names_of(attempt: Function, count: int, *others: Function) -> list[str]:
    """Return the names of a function's arguments, or of the first of others' that tells as many."""
    for function in (attempt, *others):
        try:
            names = list(inspect.signature(function).parameters)
        except (TypeError, ValueError):
            continue
        if len(names) >= count:
            return names[:count]
    return [f"argument {i + 1}" for i in range(count)]


LONGEST_CALL = 200
"""Characters of a call in which its arguments are shown in full, at most."""


def _call(names: Sequence[str], case: tuple[Any, ...]) -> str:
    """Return the arguments by their names; in a long call, tensors by shapes and dicts by keys."""
    for show in (written, _briefly):
        call = ", ".join(f"{name} = {show(value)}" for name, value in zip(names, case, strict=False))
        if len(call) <= LONGEST_CALL:
            break
    return call


def _briefly(value: Any) -> str:
    if isinstance(value, Tensor) and value.ndim:
        return f"a tensor {list(value.shape)}"
    if isinstance(value, Mapping):
        return f"a dict of {', '.join(map(str, value))}"
    if isinstance(value, list) and any(isinstance(one, Tensor) for one in value):
        return f"[{', '.join(map(_briefly, value))}]"
    return written(value)


NUMBER_BYTES = 4
"""Bytes of a float32 number, as which a complex number's bytes are counted."""


class Watch(TorchDispatchMode):
    """Sees each operation on tensors."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Tell torch not to load its compiler for this, which takes longer than most checks."""
        return False


class Largest(Watch):
    """Watches how many numbers the largest tensor of all results holds; a view holds what it repeats once.

    ``total`` is how many numbers all operations made, one after another; a view makes none. A complex
    number counts as four or two, since a view makes one of as many float32 numbers.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.numbers = self.total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        given = {one.untyped_storage().data_ptr() for one in args if isinstance(one, Tensor)}
        for part in result if isinstance(result, tuple | list) else [result]:
            if isinstance(part, Tensor):
                stored = part.untyped_storage().nbytes() // part.element_size()
                width = part.element_size() // NUMBER_BYTES if part.is_complex() else 1
                self.numbers = max(self.numbers, min(part.numel(), stored) * width)
                self.total += 0 if part.untyped_storage().data_ptr() in given else part.numel() * width
        return result
