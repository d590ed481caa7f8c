"""Checks of the shapes in signatures: each function once for each combination of shapes and types.

jaxtyping checks every call, which took more than a quarter of the tests' time: a training calls the same
functions with the same shapes at each step, and the first call says all that the others would.
"""

from collections.abc import Callable, Hashable, Mapping
from functools import wraps
from types import FunctionType
from typing import Any

import jaxtyping
import torch
from torch import Tensor

EACH = 16
"""Longest sequence or mapping whose values are told apart; of a longer one its length is."""
_jaxtyped = jaxtyping.jaxtyped


def install() -> None:
    """Have the functions of minitxl checked that are imported from now on."""
    jaxtyping.jaxtyped = jaxtyped_once
    jaxtyping.install_import_hook("minitxl", "beartype.beartype")


def jaxtyped_once(*, typechecker: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return the decorator of a function or a class."""

    def decorated(what: Any) -> Any:
        checked = _jaxtyped(what, typechecker=typechecker)
        return _once(what, checked) if isinstance(what, FunctionType) else checked

    return decorated


def _once(function: Callable[..., Any], checked: Callable[..., Any]) -> Callable[..., Any]:
    known: set[Hashable] = set()

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or jaxtyping.config.jaxtyping_disable:
            return function(*args, **kwargs)
        key = _kind(args), _kind(kwargs)
        if key in known:
            return function(*args, **kwargs)
        result = checked(*args, **kwargs)
        known.add(key)
        return result

    return call


def _kind(value: Any) -> Hashable:
    """Return what a signature can tell of a value: shape and number format, number, word, or class."""
    if isinstance(value, Tensor):
        return type(value), tuple(map(str, value.shape)), value.dtype
    if isinstance(value, bool | int | str | None):
        return type(value), value
    if isinstance(value, tuple | list):
        return type(value), tuple(map(_kind, value)) if len(value) <= EACH else len(value)
    if isinstance(value, Mapping):
        inside = (
            tuple((str(key), _kind(one)) for key, one in value.items()) if len(value) <= EACH else len(value)
        )
        return type(value), inside
    return type(value)
