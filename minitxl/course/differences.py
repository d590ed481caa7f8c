"""Differences between what a learner's function returned and what is right, in words with numbers."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from operator import is_
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

SHORT = 12
"""Numbers of a tensor that are written out; a larger tensor is described by its shape."""
MOST_DIGITS = 20
"""Digits of a whole number that are written out; of a longer one the first six, and how many there are."""
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}
PRECISE = {"rtol": 1e-8, "atol": 1e-9}
"""Tolerance for float64, which float32 does not keep: it has seven digits."""
NUMBERS = (bool, int, float)
"""Types of Python's own numbers."""


class Observed(dict[str, Any]):
    """A result under the name "", and what a probe saw while it was computed, by the words that name it.

    What is right or wrong, without a number, is a Finding where it is wrong, and None where it is right.
    """


class Finding(str):
    """Words of a probe for what is wrong with a result whose values are right."""


def equal(one: Any, other: Any) -> bool:
    """Return True where values agree up to rounding, whatever holds them: 2 is 2.0, a list is its tensor."""
    if one is other or (isinstance(one, NUMBERS) and isinstance(other, NUMBERS) and one == other):
        return True
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return _agree(one.detach(), other.detach())
    if is_list(one) and is_list(other):
        if len(one) != len(other):
            return False
        if all(map(is_, one, other)):
            return True  # a function's arguments, which it left as they were
        if not _of_numbers(one) or not _of_numbers(other):
            return all(map(equal, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    first, second = as_tensor(one), as_tensor(other)
    if first is not None and second is not None:
        return _agree(first, second)
    if is_list(one) and is_list(other):
        return all(map(equal, one, other))  # of numbers that are too large for a tensor
    if isinstance(one, nn.Module) and isinstance(other, nn.Module):
        states = _state(one), _state(other)
        return states[0].keys() == states[1].keys() and all(map(equal, *(one.values() for one in states)))
    if isinstance(one, Tensor | np.ndarray) or isinstance(other, Tensor | np.ndarray):
        return False
    return bool(one == other)


def _state(module: nn.Module) -> dict[tuple[int, str], Tensor | None]:
    """Return the parameters and buffers of a module and of those in it, by place and name.

    state_dict() has them too, and takes three times as long, which is half the time of many a check.
    """
    parts = [module]
    for part in parts:  # which grows by the modules in each
        parts += [one for one in part._modules.values() if one is not None]
    return {
        (at, name): one
        for at, part in enumerate(parts)
        for name, one in (*part._parameters.items(), *part._buffers.items())
    }


def unusable(got: Any, expected: Any) -> str | None:
    """Return why a right value would still stop the code that uses it, or None."""
    if isinstance(expected, Tensor) and not isinstance(got, Tensor) and expected.ndim:
        return f"the values are right, but they stand in {kind_of(got)}: return a tensor"
    if isinstance(expected, Tensor) and isinstance(got, Tensor):
        if any(kind(expected) != kind(got) for kind in (Tensor.is_complex, _is_bool)):
            return f"the values are right, but the dtype is {got.dtype}, and must be {expected.dtype}"
    elif is_list(expected) and is_list(got):
        return next(filter(None, map(unusable, got, expected)), None)
    elif isinstance(expected, Mapping) and isinstance(got, Mapping):
        return next(filter(None, (unusable(got[key], expected[key]) for key in expected)), None)
    return None


def imprecise(got: Any, expected: Any) -> str | None:
    """Return why a float64 value that is right to a few digits was computed with too few, or None."""
    if isinstance(expected, Observed) and isinstance(got, Observed):
        return imprecise(got[""], expected[""])
    if not isinstance(expected, Tensor) or not isinstance(got, Tensor) or expected.dtype != torch.float64:
        return None
    if got.dtype == torch.float64 and torch.isclose(got, expected, equal_nan=True, **PRECISE).all():
        return None
    digits = "the values are right to the seven digits of float32 alone, and the arguments are float64"
    if got.dtype != torch.float64:
        return f"{digits}: compute in the dtype of the arguments, and return it"
    one = "one number of float32 on the way, such as torch.sqrt(torch.tensor(d)), is enough"
    return f"{digits}: compute in the dtype of the arguments, since {one}"


def difference(got: Any, expected: Any, *, at: str = "") -> str:
    """Return what was returned, what is right, and the first place where they differ."""
    where = f"in the value at {at}, " if at else ""
    if isinstance(got, Finding):
        return f"the values are right, but {got}"
    if isinstance(got, Observed) and isinstance(expected, Observed):
        name = next(key for key in expected if not equal(got[key], expected[key]))
        if not name or isinstance(got[name], Finding):
            return difference(got[name], expected[name])
        return f"{name}: {_seen(got[name], expected[name])}"
    if isinstance(got, Mapping) and isinstance(expected, Mapping) and got.keys() == expected.keys():
        key = next(key for key in expected if not equal(got[key], expected[key]))
        return difference(got[key], expected[key], at=f"{at}[{key!r}]")
    mine, right = as_tensor(got), as_tensor(expected)
    one_by_one = is_list(got) and is_list(expected) and any(isinstance(one, Tensor) for one in expected)
    if mine is not None and right is not None and (mine.shape == right.shape or not one_by_one):
        return where + _tensors(mine, right)
    if is_list(got) and is_list(expected):
        if len(got) != len(expected):
            return f"{where}you returned {len(got)} values, right are {len(expected)}"
        place = next(i for i, (a, b) in enumerate(zip(got, expected, strict=True)) if not equal(a, b))
        return difference(got[place], expected[place], at=f"{at}[{place}]")
    return f"{where}you returned {written(got)}, right is {written(expected)}"


def kind_of(value: Any) -> str:
    """Return the name of a value's type with its article, as in "a list" and "an ndarray"."""
    name = type(value).__name__
    return f"an {name}" if name[:1].lower() in {*"aeio"} or name == "ndarray" else f"a {name}"


def written(value: Any) -> str:
    """Return a value as a learner would write it; a large tensor by its shape."""
    if isinstance(value, np.ndarray):
        return written(value.tolist()) if value.size <= SHORT else f"an array {list(value.shape)}"
    if isinstance(value, Tensor):
        return f"a tensor {list(value.shape)}" if value.numel() > SHORT else _number(value.tolist())
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {written(inside)}" for key, inside in value.items()) + "}"
    if is_list(value):
        inside = ", ".join(map(written, value[:SHORT])) + (", …" if len(value) > SHORT else "")
        return f"({inside})" if isinstance(value, tuple) else f"[{inside}]"
    if isinstance(value, nn.Module):
        return kind_of(value)
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    return _number(value)


def as_tensor(value: Any) -> Tensor | None:
    """Return numbers, arrays and even lists of numbers as a tensor; None for anything else."""
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, np.ndarray | np.generic):
        return torch.from_numpy(np.array(value)) if value.dtype.kind in "biuf" else None
    if isinstance(value, NUMBERS):
        return _in_float64(value)
    if not is_list(value) or not value:
        return None
    if _of_numbers(value):  # at once, which is faster
        return _in_float64(list(value))
    inside = list[Tensor]()
    for tensor in map(as_tensor, value):
        if tensor is None or (inside and tensor.shape != inside[0].shape):
            return None
        inside.append(tensor)
    return torch.stack([tensor.double() for tensor in inside])


def _of_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(one, NUMBERS) for one in values)


def _in_float64(numbers: Any) -> Tensor | None:
    with suppress(OverflowError):  # of a whole number that is too large for a float
        return torch.tensor(numbers, dtype=torch.float64)
    return None


def is_list(value: Any) -> bool:
    """Return True for lists and tuples, and not for text."""
    if isinstance(value, list | tuple):  # most are, and Sequence takes longer to ask
        return True
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _agree(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and (_identical(one, other) or not _apart(one, other).any())


def _identical(one: Tensor, other: Tensor) -> bool:
    """Return True for the same bits of numbers: what was not changed is, and that is soon seen."""
    return one.dtype == other.dtype and torch.equal(one, other)


def _is_bool(tensor: Tensor) -> bool:
    return tensor.dtype == torch.bool


def _apart(one: Tensor, other: Tensor) -> Tensor:
    if one.is_complex() or other.is_complex():
        one, other = one.to(torch.complex128), other.to(torch.complex128)
    else:
        one, other = one.double(), other.double()
    return ~torch.isclose(one, other, equal_nan=True, **TOLERANCE)


def _seen(got: Any, expected: Any) -> str:
    """Return what a probe saw beside the result, and what is right; of long lists from where they differ."""
    if isinstance(got, Tensor) and isinstance(expected, Tensor):
        return _tensors(got, expected, verb="here")
    where = ""
    if is_list(got) and is_list(expected) and max(len(got), len(expected)) > SHORT:
        alike = takewhile(lambda pair: equal(*pair), zip(got, expected, strict=False))
        place = len(list(alike))
        got, expected, where = got[place:], expected[place:], f"from number {place + 1} on, "
    return f"{where}here {written(got)}, right is {written(expected)}"


def _tensors(mine: Tensor, right: Tensor, verb: str = "you returned") -> str:
    if mine.shape != right.shape:
        return f"{verb} the shape {list(mine.shape)}, right is {list(right.shape)}"
    if not right.ndim:
        you, expected = _told_apart(mine.item(), right.item())
        return f"{verb} {you}, right is {expected}"
    apart = _apart(mine, right)
    place = tuple(apart.nonzero()[0].tolist())
    you, expected = _told_apart(mine[place].item(), right[place].item())
    here = f"you {you}, right {expected}"
    both = f"{verb} {written(mine)}, right is {written(right)}; " if right.numel() <= SHORT else ""
    return f"{both}first difference at {list(place)}: {here} ({int(apart.sum())} of {apart.numel()} differ)"


def _told_apart(one: Any, other: Any) -> tuple[str, str]:
    """Return two numbers with as many digits as it takes to tell them apart."""
    if not isinstance(one, float) or not isinstance(other, float) or _number(one) != _number(other):
        return _number(one), _number(other)
    digits = next((n for n in range(5, 17) if f"{one:.{n}g}" != f"{other:.{n}g}"), 17)
    return f"{one:.{digits}g}", f"{other:.{digits}g}"


def _number(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_number, value)) + "]"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e9 else f"{value:.4g}"
    if isinstance(value, int) and abs(value) >= 10**MOST_DIGITS:
        digits = str(value)
        return f"{digits[:6]}… ({len(digits.lstrip('-'))} digits)"
    return repr(value)
