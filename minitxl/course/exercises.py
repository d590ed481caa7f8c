"""Helpers of every notebook: show source, choose profile and device, judge an attempt."""

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, TypeVar, cast, get_args

import torch
from IPython.display import Code, Markdown, display
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from minitxl.course.differences import difference, equal, unusable, written

Profile = Literal["quick", "full"]
Piece = TypeVar("Piece", bound=Callable[..., Any])
NOTHING = "there is nothing here yet"

LARGER = {"n_layer": 4, "d_model": 192, "n_head": 6, "d_inner": 768}
"""Sizes of the models that notebooks train in the full profile."""


def show(piece: Any) -> Code:
    """Return the source of a function, class or module of the package, as it stands there."""
    return Code(inspect.getsource(piece), language="python")  # type: ignore[no-untyped-call]


def device() -> str:
    """cuda where there is a GPU."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def profile() -> Profile:
    """quick or full: what MINITXL_PROFILE says, and without it full where there is a GPU."""
    chosen = os.environ.get("MINITXL_PROFILE", "full" if device() == "cuda" else "quick")
    if chosen not in get_args(Profile):
        raise ValueError(f"MINITXL_PROFILE must be quick or full, got {chosen!r}")
    return cast(Profile, chosen)


@dataclass(frozen=True)
class Verdict:
    """The verdict of a check: right, not yet, or still blank, and one sentence for the learner."""

    right: bool
    message: str

    @property
    def word(self) -> str:
        return "right" if self.right else "blank" if self.message.startswith(NOTHING) else "not yet"

    def __repr__(self) -> str:
        return f"{self.word}: {self.message}"

    def _repr_html_(self) -> str:
        mark, colour = MARKS[self.word]
        wrapped = "white-space: pre-wrap; overflow-wrap: anywhere"
        style = f"border-left: 4px solid {colour}; padding: 2px 10px; {wrapped}"
        return f'<div style="{style}"><b>{mark} {self.word}</b>: {escape(self.message)}</div>'


MARKS = {"right": ("✓", "#009E73"), "not yet": ("✗", "#E69F00"), "blank": ("…", "#888888")}
"""Sign and colour of each verdict; the word says the same."""


def use(attempt: Piece, check: Callable[[Piece], Verdict], *, otherwise: Piece) -> Piece:
    """Check a learner's function, show the verdict, and return the function that the cells below run on.

    That is the learner's if it is right, else ``otherwise``, so that a notebook with blanks runs to its end.
    """
    verdict = check(attempt)
    below = "Your function" if verdict.right else "The package's function"
    display(verdict, Markdown(f"*{below} is used in the cells below.*"))  # type: ignore[no-untyped-call]
    return attempt if verdict.right else otherwise


def judge(
    attempt: Callable[..., Any],
    *,
    reference: Callable[..., Any],
    cases: Iterable[tuple[Any, ...]],
    mistakes: Mapping[str, Callable[..., Any]],
    praise: str = "equal to the package's in every case",
    names: Sequence[str] | None = None,
) -> Verdict:
    """Compare an attempt with the reference on each case, a tuple of arguments.

    ``mistakes`` are wrong solutions by the sentence that helps who wrote one: where the attempt
    gives what a mistake gives, in every case that tells them apart, it gets that sentence. ``names``
    are those of the arguments in messages; by default the attempt's own.
    """
    cases = list(cases)
    for case in cases:
        verdict = _try(attempt, reference, case, names or names_of(attempt, len(case)))
        if verdict is not None:
            named = [why for why, mistake in mistakes.items() if _same(attempt, mistake, cases)]
            return Verdict(False, named[0]) if named and not verdict.message.startswith(NOTHING) else verdict
    return Verdict(True, praise)


def _try(
    attempt: Callable[..., Any],
    reference: Callable[..., Any],
    case: tuple[Any, ...],
    names: Sequence[str],
) -> Verdict | None:
    """Return what is wrong with the attempt in this case, or None."""
    given, expected = deepcopy(case), reference(*deepcopy(case))
    call = f"called with {_call(names, case)}"
    try:
        got = attempt(*given)
    except NotImplementedError:
        return Verdict(False, NOTHING)
    except Exception as error:
        return Verdict(False, f"{call}, it raised {type(error).__name__}: {error}")
    if got is Ellipsis or (got is None and expected is not None):
        return Verdict(False, f"{call}, it returns nothing: end it with a return")
    if not equal(given, case):
        return Verdict(False, f"{call}, it changes what it was given, in place: make a new value")
    if equal(got, expected):
        why = unusable(got, expected)
        return None if why is None else Verdict(False, f"{call}: {why}")
    return Verdict(False, f"{call}, {difference(got, expected)}")


def names_of(attempt: Callable[..., Any], count: int) -> list[str]:
    """Return the names of a function's arguments, as far as it tells them."""
    try:
        names = list(inspect.signature(attempt).parameters)
    except (TypeError, ValueError):
        names = []
    return names[:count] if len(names) >= count else [f"argument {i + 1}" for i in range(count)]


def _call(names: Sequence[str], case: tuple[Any, ...]) -> str:
    return ", ".join(f"{name} = {written(value)}" for name, value in zip(names, case, strict=True))


def _same(attempt: Callable[..., Any], mistake: Callable[..., Any], cases: list[tuple[Any, ...]]) -> bool:
    """Return True if the attempt does what the mistake does, errors included."""
    return all(equal(_outcome(attempt, case), _outcome(mistake, case)) for case in cases)


def _outcome(function: Callable[..., Any], case: tuple[Any, ...]) -> Any:
    given = deepcopy(case)
    try:
        return [function(*given), list(given)]
    except Exception as error:
        return type(error).__name__


class Largest(TorchDispatchMode):
    """Watches how many numbers the largest tensor of all results holds."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        for part in result if isinstance(result, tuple | list) else [result]:
            if isinstance(part, Tensor):
                self.numbers = max(self.numbers, part.numel())
        return result
