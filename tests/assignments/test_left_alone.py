"""A right function that changes an argument in place loses one point, whatever function and argument."""

import inspect

import pytest
import torch
from sheet import ALL
from torch import Tensor

from minitxl.course.grading import LEFT_ALONE, points

FUNCTIONS = [(sheet, test) for sheet in ALL for test in sheet.tests if test != "numbers-test"]


def change(value):
    """Change a tensor that needs no gradient, a list or a dict; return False for anything else."""
    if isinstance(value, Tensor) and not value.requires_grad and value.numel():
        value.copy_(~value if value.dtype == torch.bool else value + 1)
    elif isinstance(value, dict):
        value["more"] = torch.zeros(1)
    elif isinstance(value, list) and value:
        value.reverse()
        value.append(value[0])
    else:
        return False
    return True


def copied(result):
    """Return a result that shares nothing with the arguments."""
    if isinstance(result, list | tuple):
        return [copied(one) for one in result]
    return result.clone() if isinstance(result, Tensor) else result


@pytest.mark.parametrize(
    ("sheet", "test"), FUNCTIONS, ids=lambda value: value if isinstance(value, str) else value.stem
)
def test_a_changed_argument_costs_one_point_and_is_named(sheet, test):
    attempt, trial = sheet.trial(test)
    right = sheet.handed_in()[attempt]
    for place, name in enumerate(inspect.signature(right).parameters):
        changed = []

        def changing(*case, place=place, changed=changed):
            result = copied(right(*case))
            changed.append(change(case[place]))
            return result

        verdict, groups = trial(0).shares(changing)
        most = sheet.points[test]
        if any(changed):
            assert points(most, groups) == most - 1
            assert groups.pop(LEFT_ALONE) is False
            assert f"{name} was changed in place" in verdict.message
            assert "One point less" in trial(0).judge(changing).message
        assert all(groups.values())


@pytest.mark.parametrize("function", ["3/look", "5/layer"])
def test_a_memory_that_is_cut_from_its_graph_in_place_costs_one_point(function):
    number, cell = function.split("/")
    (sheet,) = (sheet for sheet in ALL if sheet.stem.startswith(number))
    attempt, trial = sheet.trial(f"{cell}-test")
    names = sheet.handed_in(cell, "memory.detach()", "memory.detach_()")
    verdict, groups = trial(0).shares(names[attempt])
    assert verdict.message.startswith("memory was changed in place")
    assert groups.pop(LEFT_ALONE) is False
    assert all(groups.values())
    with pytest.raises(AssertionError, match="you cut memory from its graph, in place"):
        exec(sheet.cells[f"{cell}-check"].source, names)


def test_the_rules_of_each_sheet_say_so():
    for sheet in ALL:
        words = "To change an argument in place, as `masked_fill_` or `x[0] = 1` do, costs one point."
        assert words in sheet.cells["title"].source


CHECKED = {
    "1/attend": ("scores = ", "q /= 1.5\n    scores = "),
    "3/remember": ("    return", "    if memory[0].numel():\n        memory[0].mul_(2)\n    return"),
    "3/weigh": ("masked_fill(", "masked_fill_("),
    "6/likely": ("    T = ", "    temperature[greedy] = 1.0\n    T = "),
}
"""Functions whose *Check yourself* sees that an argument was changed, and a change."""


@pytest.mark.parametrize("function", CHECKED)
def test_a_check_for_oneself_sees_it(function):
    number, cell = function.split("/")
    (sheet,) = (one for one in ALL if one.stem.startswith(number))
    names = sheet.handed_in(cell, *CHECKED[function])
    with pytest.raises(AssertionError, match="you changed "):
        exec(sheet.cells[f"{cell}-check"].source, names)
