"""Checks of the shapes in signatures: each function once for each combination of shapes and types.

jaxtyping checks every call, which took more than a quarter of the tests' time: a training calls the same
functions with the same shapes at each step, and the first call says all that the others would. A function is
decorated when it is first called: a function within another is made anew at each call of that one, and to
decorate it took more time than all else in some tests.
"""

from collections.abc import Callable, Hashable, Mapping
from functools import cache, partial, wraps
from types import CodeType, FunctionType
from typing import Any, get_args

import jaxtyping
import torch
from torch import Tensor

EACH = 16
"""Longest sequence or mapping whose values are told apart; of a longer one its length is."""
QUIET, SELDOM = 256, 16
"""After QUIET calls of known combinations one call of SELDOM is looked at, and the others are not."""
PLAIN = {bool, int, str, type(None)}
"""Types whose values are told apart."""
_jaxtyped = jaxtyping.jaxtyped


def install() -> None:
    """Have the functions of minitxl checked that are imported from now on."""
    jaxtyping.jaxtyped = jaxtyped_once
    jaxtyping.install_import_hook("minitxl", "beartype.beartype")


def jaxtyped_once(*, typechecker: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return the decorator of a function or a class."""

    def decorated(what: Any) -> Any:
        checked = _jaxtyped(typechecker=typechecker)
        if not any(map(_shaped, getattr(what, "__annotations__", {}).values())):
            return what
        return _once(what, checked) if isinstance(what, FunctionType) else checked(what)

    return decorated


def _shaped(annotation: Any) -> bool:
    """Return True if an annotation names a shape, itself or in what it holds; mypy checks all others."""
    if isinstance(annotation, type) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    return isinstance(annotation, str) or any(map(_shaped, get_args(annotation)))


_known: dict[CodeType, set[Hashable]] = {}
"""Combinations that were checked, by the code of a function: all that one ``def`` makes share it."""


def _once(function: FunctionType, decorate: Callable[[Any], Any]) -> Callable[..., Any]:
    known = _known.setdefault(function.__code__, set())
    checked = cache(partial(decorate, function))
    quiet = 0

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal quiet
        if torch.compiler.is_compiling() or jaxtyping.config.jaxtyping_disable:
            return function(*args, **kwargs)
        quiet += 1
        if quiet > QUIET and quiet % SELDOM:
            return function(*args, **kwargs)
        key = _kind(args), _kind(kwargs)
        if key in known:
            return function(*args, **kwargs)
        result = checked()(*args, **kwargs)
        known.add(key)
        quiet = 0
        return result

    return call


def _kind(value: Any) -> Hashable:
    """Return what a signature can tell of a value: shape and number format, number, word, or class."""
    kind = type(value)
    if kind in PLAIN:
        return kind, value
    family = _family(kind)
    if family is None:
        return kind
    if family is Tensor:
        return kind, value.shape, value.dtype
    if len(value) > EACH:
        return kind, len(value)
    if family is Mapping:
        return kind, tuple([(str(key), _kind(one)) for key, one in value.items()])
    return kind, tuple([_kind(one) for one in value])


@cache
def _family(kind: type) -> type | None:
    """Return which kind of value ``_kind`` looks into this is, if any."""
    return next((one for one in (Tensor, tuple, list, Mapping) if issubclass(kind, one)), None)
