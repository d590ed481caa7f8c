"""Helpers of every notebook: show source, choose profile and device, judge an attempt."""

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import torch
from IPython.display import Code
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

Profile = Literal["quick", "full"]
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
    """The verdict of a check: right or not, and one sentence for the learner."""

    right: bool
    message: str

    def __repr__(self) -> str:
        return f"{'right' if self.right else 'not yet'}: {self.message}"


def judge(
    attempt: Callable[..., Any],
    *,
    reference: Callable[..., Any],
    cases: Iterable[tuple[Any, ...]],
    mistakes: Mapping[str, Callable[..., Any]],
    praise: str = "equal to the package's in every case",
) -> Verdict:
    """Compare an attempt with the reference on each case, a tuple of arguments.

    ``mistakes`` are wrong solutions by the sentence that helps who wrote one: where the attempt
    gives what a mistake gives, in every case that tells them apart, it gets that sentence.
    """
    cases = list(cases)
    for case in cases:
        verdict = _try(attempt, reference, case)
        if verdict is not None:
            found = [why for why, mistake in mistakes.items() if _same(attempt, mistake, cases)]
            return Verdict(False, found[0]) if found else verdict
    return Verdict(True, praise)


def _try(attempt: Callable[..., Any], reference: Callable[..., Any], case: tuple[Any, ...]) -> Verdict | None:
    """Return what is wrong with the attempt in this case, or None."""
    given, expected = deepcopy(case), reference(*deepcopy(case))
    try:
        got = attempt(*given)
    except NotImplementedError:
        return Verdict(False, NOTHING)
    except Exception as error:
        return Verdict(False, f"it raised {type(error).__name__}: {error} (given {_sizes(case)})")
    if got is None or got is Ellipsis:
        return Verdict(False, "it returns nothing: end it with a return")
    if not _equal(given, case):
        return Verdict(False, "it changes what it was given, in place: make a new value")
    if _equal(got, expected):
        return None
    return Verdict(False, f"given {_sizes(case)}, {_difference(got, expected)}")


def _difference(got: Any, expected: Any) -> str:
    if isinstance(got, tuple | list) and isinstance(expected, tuple | list):
        if len(got) != len(expected):
            return f"it returns {len(got)} values, and should return {len(expected)}"
        for place, (one, other) in enumerate(zip(got, expected, strict=True)):
            if not _equal(one, other):
                return f"of what it returns, at place {place}, {_difference(one, other)}"
    if isinstance(got, Tensor) and isinstance(expected, Tensor):
        if got.shape != expected.shape:
            return f"the result has the shape {list(got.shape)}, and should have {list(expected.shape)}"
        if got.dtype != expected.dtype:
            return f"the result holds {got.dtype}, and should hold {expected.dtype}"
    elif type(got) is not type(expected):
        return f"the result is of type {type(got).__name__}, and should be of type {type(expected).__name__}"
    return "the values differ from the right ones"


def _same(attempt: Callable[..., Any], mistake: Callable[..., Any], cases: list[tuple[Any, ...]]) -> bool:
    """Return True if the attempt does what the mistake does, errors included."""
    return all(_equal(_outcome(attempt, case), _outcome(mistake, case)) for case in cases)


def _outcome(function: Callable[..., Any], case: tuple[Any, ...]) -> Any:
    given = deepcopy(case)
    try:
        return function(*given), given
    except Exception as error:
        return type(error).__name__


def _equal(one: Any, other: Any) -> bool:
    """Equal up to rounding, shapes and types included; what holds no numbers by ==."""
    if isinstance(one, tuple | list):
        return type(one) is type(other) and len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if not isinstance(one, Tensor | bool | int | float):
        return bool(one == other)
    try:
        torch.testing.assert_close(one, other, equal_nan=True)
    except (AssertionError, TypeError, ValueError):
        return False
    return True


def _sizes(case: Iterable[Any]) -> str:
    return ", ".join(map(_size, case))


def _size(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor {list(value.shape)}"
    if isinstance(value, tuple | list):
        return f"[{_sizes(value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_size(inside)}" for key, inside in value.items()) + "}"
    return repr(value)


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
