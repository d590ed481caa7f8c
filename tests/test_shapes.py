"""The tests' own check of shapes, which is made once for each combination."""

import pytest
import torch
from beartype import beartype
from jaxtyping import Float, TypeCheckError
from support.shapes import QUIET, SELDOM, jaxtyped_once
from torch import Tensor

from minitxl.position_encodings import sinusoids


def checked(bodies):
    """A function that wants a square, and notes each call."""

    @jaxtyped_once(typechecker=beartype)
    def doubled(x: Float[Tensor, "side side"], times: int = 1) -> Float[Tensor, "side side"]:
        bodies.append(times)
        return x[:, :times] if times < 0 else x * 2

    return doubled


def test_a_wrong_shape_is_told_also_behind_a_right_one():
    doubled = checked([])
    for _ in range(3):
        doubled(torch.ones(2, 2))
        with pytest.raises(TypeCheckError):
            doubled(torch.ones(2, 3))
    with pytest.raises(TypeCheckError):
        doubled(torch.ones(2, 2, dtype=torch.int64))


def test_what_comes_back_is_checked_for_each_combination_of_arguments():
    bodies = []
    doubled = checked(bodies)
    for _ in range(2):
        doubled(torch.ones(2, 2), 1)
        with pytest.raises(TypeCheckError):
            doubled(torch.ones(2, 2), -1)
        with pytest.raises(TypeCheckError):
            doubled(torch.ones(2, 2), times="two")
    assert bodies == [1, -1, 1, -1]


def test_a_call_that_was_not_checked_does_not_count_as_checked(as_users_run_it):
    import jaxtyping

    doubled = checked([])
    assert doubled(torch.ones(2, 3)).shape == (2, 3)
    jaxtyping.config.update("jaxtyping_disable", False)
    with pytest.raises(TypeCheckError):
        doubled(torch.ones(2, 3))


def told_of(call, times):
    """How many of so many equal calls are refused by the check of shapes."""
    told = 0
    for _ in range(times):
        try:
            call()
        except TypeCheckError:
            told += 1
        except ValueError:
            pass
    return told


def test_the_package_is_checked():
    # Other tests of this process may have called the function often: then one call of SELDOM is checked.
    assert told_of(lambda: sinusoids("three", 4), SELDOM)


def test_after_many_known_calls_one_of_a_few_is_still_checked():
    doubled = checked([])
    for _ in range(QUIET + 1):
        doubled(torch.ones(2, 2))
    assert told_of(lambda: doubled(torch.ones(2, 3)), 3 * SELDOM) == 3


def test_functions_that_one_def_makes_share_what_is_checked_and_are_decorated_when_they_are_called():
    decorated = []

    def counting(function):
        decorated.append(function)
        return beartype(function)

    def made():
        @jaxtyped_once(typechecker=counting)
        def doubled(x: Float[Tensor, "side side"]) -> Float[Tensor, "side side"]:
            return x * 2

        return doubled

    one, other = made(), made()
    assert not decorated
    one(torch.ones(2, 2))
    count = len(decorated)
    other(torch.ones(2, 2))
    assert len(decorated) == count
    with pytest.raises(TypeCheckError):
        other(torch.ones(2, 3))
