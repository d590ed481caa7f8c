"""The Containerfile without a container: what it installs and copies is what the sandbox starts and needs."""

import ast
import itertools
import os
import re
import shlex
import shutil
import sys
import time
from pathlib import Path

import psutil
import pytest
from support import small_course
from support.small_course import DOUBLE, numbers

from minitxl.course.marking import isolation
from minitxl.course.marking.isolation import WORKER, Isolation, container
from minitxl.course.marking.judge import judged
from minitxl.course.marking.notebooks import Assignment, Handed
from minitxl.course.marking.workers import MarkAgainError, Worker

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "notebooks" / "assignments" / "Containerfile").read_text("utf-8").splitlines()
COPIES = [shlex.split(line)[1:] for line in LINES if line.startswith("COPY ")]
SOURCES = [source for *sources, _ in COPIES for source in sources]
(INSTALL,) = (shlex.split(line)[1:] for line in LINES if line.startswith("RUN "))
PACKAGES = [
    word
    for before, word in itertools.pairwise(INSTALL)
    if not word.startswith("-") and before not in ("pip", "--constraint", "--extra-index-url")
]

PROGRAM = """#!{python}
import os, pathlib, signal, sys, time

folder = pathlib.Path(__file__).parent
action, *words = sys.argv[1:]
if action == "run":
    (folder / "name").write_text(words[words.index("--name") + 1])
    if not os.fork():
        os.setsid()
        if not os.fork():
            (folder / "pid").write_text(str(os.getpid()))
            os.execv(sys.executable, [sys.executable, *words[words.index("{image}") + 2 :]])
        os._exit(0)
    os.wait()
    os.closerange(0, 2)
    time.sleep(600)
name = (folder / "name").read_text()
if action == "ps":
    print(name if words[-1].removeprefix("name=") in name else "")
    sys.exit()
assert words[-1] == name
pid = (folder / "pid").read_text()
if action == "inspect":
    print(pid)
elif action == "kill":
    os.kill(int(pid), signal.SIGKILL)
"""
"""Stands for podman: what it runs is no child of the program that was started, and outlives it."""


def test_it_copies_the_workers_files_to_where_the_sandbox_starts_them():
    assert [Path(source).name for source in SOURCES if source.endswith(".py")] == list(WORKER)
    assert all((ROOT / source).is_file() for source in SOURCES)
    assert COPIES[-1][-1] == "/worker/"
    assert container("podman").command[-1] == "/worker/worker.py"


def test_what_is_sent_to_be_built_is_what_is_copied():
    everything, *named = (ROOT / ".dockerignore").read_text("utf-8").split()
    assert everything == "*"
    assert sorted(named) == sorted(f"!{source}" for source in SOURCES)


def test_it_installs_all_that_the_worker_imports_in_the_tested_versions():
    needed = set()
    for source in SOURCES:
        if source.endswith(".py"):
            for node in ast.walk(ast.parse((ROOT / source).read_text("utf-8"))):
                names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
                names += [node.module] if isinstance(node, ast.ImportFrom) else []
                needed |= {name.partition(".")[0] for name in names}
    ours = {Path(name).stem for name in WORKER}
    assert needed - set(sys.stdlib_module_names) - ours == {*PACKAGES}
    pinned = re.findall(r"^([\w-]+)==", (ROOT / "constraints.txt").read_text("utf-8"), re.MULTILINE)
    assert {*PACKAGES} <= {*pinned}
    assert INSTALL[INSTALL.index("--constraint") + 1] == COPIES[0][-1]
    assert COPIES[0][0] == "constraints.txt"


def test_the_copied_files_alone_judge_a_submission(tmp_path):
    for source in SOURCES:
        shutil.copy(ROOT / source, tmp_path)
    alone = Isolation(
        "none", "the files of the container", (sys.executable, "-I", str(tmp_path / "worker.py"))
    )
    assignment = Assignment(small_course.NAME, small_course.source())
    handed = Handed(assignment, small_course.notebook(double=DOUBLE, numbers=numbers("ada")))
    job = {"owner": "ada", "cells": handed.to_run(), "imports": assignment.imports, "seed": 3}
    assert [part["score"] for part in judged(job | {"tests": assignment.tests}, alone)] == [5, 3]


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A program that stands for podman, with the container's files beside it."""
    for source in SOURCES:
        shutil.copy(ROOT / source, tmp_path)
    monkeypatch.setattr(isolation, "INSIDE", str(tmp_path / "worker.py"))
    path = tmp_path / "podman"
    path.write_text(PROGRAM.format(python=sys.executable, image=isolation.IMAGE))
    path.chmod(0o700)
    return path


def running(program):
    """Return the workers of a program that still run."""
    words = [sys.executable, "-I", str(program.parent / "worker.py")]
    return [one for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"] == words]


def test_a_container_whose_judge_was_ended_is_ended_and_no_other_judges(program):
    contained = container(str(program))
    sandbox = contained.start()
    try:
        while not running(program):
            time.sleep(0.1)
        contained.end_those_of(os.getpid() + 1)
        assert running(program)
        contained.end_those_of(os.getpid())
        psutil.wait_procs(running(program), 10)
        assert running(program) == []
    finally:
        sandbox.process.kill()
        sandbox.process.communicate()


def test_a_container_is_timed_and_ended_though_the_program_only_asked_for_it(program, monkeypatch):
    monkeypatch.setattr("minitxl.course.marking.judge.SECONDS", 1.0)
    assignment = Assignment(small_course.NAME, small_course.source())
    endless = DOUBLE.replace("return", "while True:\n        pass\n    return")
    assert endless != DOUBLE
    handed = Handed(assignment, small_course.notebook(double=endless, numbers=numbers("ada")))
    job = {"owner": "ada", "cells": handed.to_run(), "imports": assignment.imports, "seed": 3}
    parts = [*judged(job | {"tests": assignment.tests}, container(str(program)))]
    assert "is there a loop or a recursion that never ends?" in parts[0]["message"]
    assert [part["score"] for part in parts] == [0, 3]
    assert parts[0]["seconds"] >= 1
    assert running(program) == []


@pytest.fixture
def only_bubblewrap(tmp_path, monkeypatch):
    """A bubblewrap that is installed and fails, and no container."""
    path = tmp_path / "bwrap"
    path.write_text("#!/bin/sh\necho bwrap: setting up >&2\necho bwrap: no permission >&2\nexit 1\n")
    path.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    isolation.strongest.cache_clear()
    yield path
    isolation.strongest.cache_clear()


def test_a_bubblewrap_that_fails_is_said_to_fail_and_why(only_bubblewrap):
    found = isolation.strongest()
    assert found.name == "none"
    assert found.words == (
        "no isolation, since bubblewrap is installed and failed (“bwrap: no permission”), and no container "
        "runs here: marks are only as safe as the students are honest"
    )
    with pytest.raises(ValueError, match=r'got "bubblewrap", which failed \(“bwrap: no permission”\)$'):
        isolation.strongest("bubblewrap")


def test_no_isolation_that_was_asked_for_does_not_speak_of_what_runs_here(only_bubblewrap):
    assert isolation.strongest("none").words.startswith("no isolation, as you asked: ")


def test_a_bubblewrap_that_is_not_there_is_said_to_be_missing_and_what_brings_it(only_bubblewrap):
    only_bubblewrap.unlink()
    words = isolation.strongest().words
    assert words.startswith("no isolation, since bubblewrap is not installed, and no container runs here: ")
    assert "'apt-get install bubblewrap' brings it" in words


def test_an_image_with_a_worker_of_another_version_costs_no_points_and_is_to_be_built_again():
    program = f"import os, sys; sys.path.insert(0, {str(isolation.HERE)!r}); import frames; "
    program += "os.write(1, frames.pack(dict(ready=1)))"
    older = Worker(Isolation("container of another version", "", (sys.executable, "-I", "-c", program)), [])
    try:
        with pytest.raises(MarkAgainError, match="has a worker of another version: build it again"):
            older.start()
    finally:
        older.stop()


def test_a_program_that_cannot_be_started_costs_no_points(tmp_path):
    program = tmp_path / "podman"
    program.write_text("this is no program")
    program.chmod(0o700)
    with pytest.raises(MarkAgainError, match=r"the sandbox does not start: .*podman"):
        Worker(container(str(program)), []).start()
