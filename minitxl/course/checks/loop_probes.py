"""Cause of a wrong test of a loop in notebook 13, found by errors of growing size, whatever its tolerance."""

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from minitxl.course.differences import equal

SIZES = [1.5e-4 * 2 ** (n / 2) for n in range(20)]
"""Errors that are tried, from just above the largest tolerance that is right, 0.0001."""
SIGNED = (
    "the difference is compared with its sign: a number that is too low by much passes then, or one that is "
    "too high. Take abs() of the differences first"
)
CANCELS = "compare each prediction, and not their mean or sum, in which errors cancel"
RAISES = (
    "where a loop is wrong, your test ends with an AssertionError: return False there. torch.allclose "
    "returns True or False, and torch.testing.assert_close raises"
)
DILUTED = (
    "a mean of absolute or squared differences is compared: in it one wrong number is diluted by many right "
    "ones. Compare each, as by their maximum"
)
RELATIVE = (
    "a relative tolerance is that share of a number, and logarithms of unlikely tokens are large: what is "
    "allowed grows with them. Give rtol=0, and an atol such as 1e-4"
)
SHARE = (
    "at unlikely tokens your test allows more. torch.allclose adds rtol to atol, by default 0.00001 of each "
    "number: at a log-probability of -20 that is 0.0002, however small atol is. Give rtol=0"
)
EXPONENTIAL = (
    "compare the logarithms as they are: by exp() unlikely tokens become so small that their errors pass "
    "below any tolerance"
)
TOO_WIDE = "the tolerance is too wide: right predictions agree to 0.0001, and small errors are errors"
LENGTH = "a loop that writes too few tokens, or none, is wrong too: look at the length"
LIKELIEST = "the predictions are compared, and not what was taken from them: that must be the likeliest"


def raises(attempt: Callable[..., Any], case: tuple[Any, ...]) -> bool:
    """Return True if an attempt ends with an AssertionError where the predictions of a loop are wrong."""
    *given, predicted = deepcopy(case)
    try:
        attempt(*given, predicted - 1)
    except Exception as error:  # another error is told as it is
        return isinstance(error, AssertionError)
    return False


def cause_of(attempt: Callable[..., Any], case: tuple[Any, ...]) -> str | None:
    """Return what is wrong with a test that accepts the right loop of ``case``, or None."""
    *given, written, predicted = deepcopy(case)

    def accepts(written: Tensor, predicted: Tensor) -> bool:
        with suppress(Exception):
            return equal(attempt(*given, written.clone(), predicted.clone()), True)
        return False

    if not accepts(written, predicted):
        return None
    ranks = predicted.argsort(dim=-1, descending=True).argsort(dim=-1)  # 0 is the likeliest
    row = int(predicted.topk(2).values[:, 1].argmax())  # where the second is most likely
    second, least = ((ranks == rank).double() for rank in (1, predicted.shape[-1] - 1))
    in_row = torch.zeros_like(predicted)
    in_row[row] = 1
    errors = {
        "higher": torch.ones_like(predicted),
        "lower": -torch.ones_like(predicted),
        "both": torch.where(ranks == 0, 0.0, torch.where(ranks % 2 == 0, 1.0, -1.0)),
        "one": -second * in_row,
        "unlikely": -least * in_row,
    }
    passing = {
        name: max([0.0, *(size for size in SIZES if accepts(written, predicted + size * error))])
        for name, error in errors.items()
    }

    def more(name: str, than: str, times: float) -> bool:
        return passing[name] >= times * max(passing[than], SIZES[0] / 2)

    if more("higher", "lower", 8) or more("lower", "higher", 8):
        return SIGNED
    if more("both", "higher", 8):
        return CANCELS
    if more("one", "both", 3):
        return DILUTED
    if more("unlikely", "one", 4):
        return EXPONENTIAL
    if more("unlikely", "one", 1.9):
        return RELATIVE
    if passing["both"]:
        return TOO_WIDE
    if accepts(written[:2], predicted[:2]):
        return LENGTH
    taken = written.clone()
    taken[-1] = predicted[-1].topk(2).indices[1]
    return LIKELIEST if accepts(taken, predicted) else None
