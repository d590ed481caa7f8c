"""Processor time is limited everywhere: no submission holds a worker or a judge for long."""

import ast
import subprocess
import sys
import time
from textwrap import dedent

import psutil
import pytest
from test_cheats import CHEATS, IMPORTS, TRIAL, body, judge

from minitxl.course.marking import classroom, frames, isolation
from minitxl.course.marking.classroom import Course
from minitxl.course.marking.isolation import strongest
from minitxl.course.marking.workers import ENDLESS

BURNING = """
import time

def burn(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
"""
DEAF = """
import signal

for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
"""
"""Ignores each signal that can be ignored, SIGXCPU among them."""
HANDLING = """
import signal

signal.signal(signal.SIGXCPU, lambda *_: 1 / 0)
"""
DEAR = """
def dear(x, how):
    draw = dict(op="aten.rand.default", args=dict(list=[dict(list=[6000, 6000])]), out=["a"])
    solve = dict(op="aten._linalg_eigvals.default", args=dict(list=[dict(tensor="a")]), out=["b"])
    steps = [one | dict(kwargs=dict(dict=[]), grad=False, inference=False) for one in (draw, solve)]
    return answer(b"", RESULT | dict(steps=steps))
"""
"""Tells of an operation that it does not compute itself, and that takes minutes."""
ASKING_TRIAL = """
def asking_trial(seed):
    import torch

    from minitxl.course.grading import Trial

    return Trial(lambda x, double: double(x), [(torch.ones(3), lambda x: 2 * x)], {}, "notebook 99")


grade(NAME, asking_trial)
"""


@pytest.fixture
def a_second(monkeypatch):
    """One second of processor time for each function."""
    monkeypatch.setattr("minitxl.course.marking.judge.SECONDS", 1.0)


def test_a_function_that_ignores_all_signals_is_ended_and_told(a_second):
    deaf = f"{DEAF}\n\ndef deaf(x, how):\n    while True:\n        pass"
    found = judge([("a", deaf)], ["deaf"])["deaf"]
    assert (found["score"], found["message"]) == (0, f"it takes more than 1 seconds: {ENDLESS}")


def test_a_function_that_asks_without_end_is_ended_though_each_answer_comes_at_once(monkeypatch):
    monkeypatch.setattr("minitxl.course.marking.judge.SECONDS", 0.5)
    cells = [
        ("a", body("asking", "while True:\n        how(x)")),
        ("b", body("right", "return how(x)")),
    ]
    found = judge(cells, ["asking", "right"], ASKING_TRIAL)
    assert found["asking"]["message"] == f"it takes more than 0.5 seconds: {ENDLESS}"
    assert found["right"]["score"] == 5


def test_many_statements_that_are_long_but_none_too_long_share_a_limit(monkeypatch):
    monkeypatch.setattr("minitxl.course.marking.workers.CELLS_SECONDS", 1.0)
    cells = [("a", BURNING + "burn(0.4)\n" * 50), ("b", body("one", "return x * 2"))]
    began = time.process_time()
    found = judge(cells, ["one", "two"])
    assert time.process_time() - began < 10
    words = f"its cells outside the functions take more than 1 seconds: {ENDLESS}"
    assert {(part["score"], part["message"]) for part in found.values()} == {(0, words)}


@pytest.mark.parametrize("top", [DEAF, HANDLING])
def test_a_worker_without_a_judge_is_killed_by_the_system_whatever_signal_it_ignores_or_handles(top):
    program = f"""
        import math, sys, time
        sys.path.insert(0, {str(isolation.HERE)!r})
        import worker
        worker.LIMITS["RLIMIT_CPU"] = math.ceil(time.process_time() + 1)  # after the imports
        worker.main()
    """
    endless = f"{top}\nwhile True:\n    try:\n        pass\n    except BaseException:\n        pass"
    with subprocess.Popen(
        [sys.executable, "-I", "-c", dedent(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdin.write(frames.pack({"cells": [["a", endless]], "skipped": []}))
        process.stdin.flush()
        try:
            assert process.wait(120) == -9
            assert process.stdout.read().count(b'"at": ["a", ') == len(ast.parse(endless).body), "it ran"
        finally:
            process.kill()


def test_one_operation_that_holds_the_judge_costs_its_own_points_at_once_and_no_others(tmp_path, monkeypatch):
    monkeypatch.setattr(classroom, "JUDGE_SECONDS", 2.0)
    cells = [("imports", IMPORTS), ("cheats", CHEATS.replace("MARKER", "''").replace("PORT", "1"))]
    cells += [("dear", DEAR), ("right", body("right", "return x * 2") + body("more", "return x + x"))]
    names = ["right", "dear", "more"]
    tests = [{"cell": f"{name}-test", "points": 5.0, "source": TRIAL.replace("NAME", name)} for name in names]
    job = {"owner": "ada", "cells": cells, "imports": f"{IMPORTS}, grade, grade_numbers", "seed": 7}
    course, before = Course.of(tmp_path, strongest(), 1), set(psutil.Process().children())
    verdict = course._judge(job | {"tests": tests, "isolation": strongest().name})
    assert verdict["again"] == "", "it is not tried again"
    assert [part["score"] for part in verdict["parts"]] == [5, 0, 5]
    words = "what it computes was stopped after 2 seconds: is there an operation on far more numbers than "
    assert verdict["parts"][1]["message"] == f"{words}the sheet asks for?"
    assert verdict["parts"][1].keys() == verdict["parts"][0].keys()
    assert set(psutil.Process().children()) <= before, "its processes are ended; a browser's may be there"
