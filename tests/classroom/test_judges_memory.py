"""Memory: a function that fills its worker costs its own points, and not the judge."""

import weakref
from types import SimpleNamespace

import pytest
from test_cheats import IMPORTS, TRIAL, body, judge

from minitxl.course.marking import remote
from minitxl.course.marking.classroom import Course
from minitxl.course.marking.isolation import strongest
from minitxl.course.marking.replay import Replay

GROUPED = TRIAL.replace('"notebook 99"', '"notebook 99", groups=["a", "b", "c", "d"]')


@pytest.fixture
def watched(monkeypatch):
    """What the judge runs: how many earlier runs are kept as each begins, and operations; it may fail."""
    every, seen = weakref.WeakSet(), SimpleNamespace(kept=[], steps=[], fails=False)

    class Watched(Replay):
        def __init__(self, until):
            super().__init__(until)
            seen.kept.append(len(every))
            every.add(self)

        def run(self, steps, values):
            super().run(steps, values)
            seen.steps.append(len(steps))
            if seen.fails:
                raise RuntimeError("no memory is left")

    monkeypatch.setattr(remote, "Replay", Watched)
    return seen


def test_what_a_function_made_before_its_error_is_not_made_again(watched):
    found = judge(
        [("a", body("full", "kept = [x * 2, x * 3]\n    raise ValueError(len(kept))"))], ["full"], GROUPED
    )
    assert "it raised ValueError" in found["full"]["message"]
    assert watched.kept == [0, 0, 0, 0]
    assert watched.steps == []


def test_what_an_operation_fails_for_in_the_judge_is_not_kept_for_the_next_case(watched):
    watched.fails = True
    found = judge([("a", body("full", "return x * 2"))], ["full"], GROUPED)
    assert "it raised RuntimeError: “no memory is left”" in found["full"]["message"]
    assert watched.kept == [0, 0, 0, 0]


@pytest.mark.parametrize(
    "end", ["raise MemoryError", "import os, signal\n\nos.kill(os.getpid(), signal.SIGKILL)"]
)
def test_a_judge_without_memory_says_how_to_mark_again(tmp_path, end):
    tests = [{"cell": "a-test", "points": 5.0, "source": f"{end}\n{TRIAL.replace('NAME', 'a')}"}]
    job = {"owner": "ada", "cells": [], "imports": f"{IMPORTS}, grade, grade_numbers", "seed": 7}
    verdict = Course.of(tmp_path, strongest(), 1)._judge(
        job | {"tests": tests, "isolation": strongest().name}
    )
    assert verdict["again"] == (
        "there was too little memory for the judge: mark fewer submissions at a time, by "
        "notebooks/assignments/mark.py with --processes 1"
    )
    assert verdict["parts"] == []
