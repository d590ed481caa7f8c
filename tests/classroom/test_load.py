"""A busy machine changes no mark: processor time is limited, and its clock starts after the imports."""

import os
import subprocess
import sys
from contextlib import ExitStack
from time import perf_counter, process_time

import pytest
from support import small_course
from support.small_course import numbers
from test_shipped_assignments import OTHER_STYLES
from test_shipped_assignments import verdicts as verdicts_of

from minitxl.course.marking.isolation import strongest
from minitxl.course.marking.judge import judged
from minitxl.course.marking.notebooks import Assignment, Handed

BUSY = max(8, 4 * (os.cpu_count() or 1))
LIMIT = 1.0
"""Seconds of processor time that the test gives a function."""
SLOW = """
from time import process_time

def double(x):
    until = process_time() + 0.15
    while process_time() < until:
        pass
    return 2 * x
"""
"""A right function that computes for 0.6 seconds in its four cases, beside others longer than the limit."""


def verdicts(**cells):
    """Return the verdict of each part of a small submission."""
    assignment = Assignment(small_course.NAME, small_course.source())
    handed = Handed(assignment, small_course.notebook(**cells))
    job = {"owner": "ada", "cells": handed.to_run(), "imports": assignment.imports, "seed": 3}
    return {part["function"]: part for part in judged(job | {"tests": assignment.tests}, strongest())}


@pytest.fixture
def busy(request):
    """Processes that compute without end beside the marking: eight, or four a processor, or so many."""
    with ExitStack() as stack:
        for _ in range(getattr(request, "param", BUSY)):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(process.kill)
        yield


def slowness():
    """Return how many times longer than its processor time a computation of this process lasts."""
    used, began = process_time(), perf_counter()
    while process_time() < used + 0.2:
        pass
    return (perf_counter() - began) / 0.2


def test_beside_eight_busy_processes_who_is_right_gets_every_point_and_is_not_timed_out(busy, monkeypatch):
    monkeypatch.setattr("minitxl.course.marking.judge.SECONDS", LIMIT)
    found = verdicts(double=SLOW, numbers=numbers("ada"))
    assert {name: (part["score"], part["message"]) for name, part in found.items()} == {
        "double": (5, "right"),
        "my_numbers": (3, "right"),
    }
    assert 0.2 < found["double"]["seconds"] < LIMIT
    assert slowness() > 2, "the machine is not busy, so the test shows nothing"


@pytest.mark.parametrize("busy", [BUSY // 2], indirect=True)
def test_beside_busy_processes_right_functions_of_an_assignment_get_every_point(busy):
    found = verdicts_of("3_memory", OTHER_STYLES, top="from copy import deepcopy")
    assert {cell: part["message"] for cell, part in found.items()} == dict.fromkeys(OTHER_STYLES, "right")
    assert all(part["score"] == part["most"] for part in found.values())
