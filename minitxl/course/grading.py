"""Grades an attempt in a process of its own, which sees the cases and neither the checker nor the notebook.

A notebook's graded cell hands over two functions: the attempt, and ``trial``, which makes the
cases anew from a seed. The grader, a fresh Python, draws the cases and compares. The attempt runs
in a worker of the grader, where nothing of minitxl can be imported, and only data come back::

    notebook ── attempt, trial ──▶ grader ── arguments ──▶ worker
             ◀── verdict ──────           ◀── results ──

For Linux and macOS: the worker is forked.
"""

import builtins
import hashlib
import json
import multiprocessing
import os
import pickle
import secrets
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from io import BytesIO
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from torch import Tensor

from minitxl.course.exercises import Verdict, judge, names_of

STARTING = 15
"""Seconds that the grader's own start may take, on a busy machine."""


class WrongAnswerError(AssertionError):
    """Says why in one sentence, which is all that a notebook shows of it."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def call(attempt: Callable[..., Any], *case: Any) -> Any:
    """Return what the attempt returns for the case."""
    return attempt(*case)


@dataclass(frozen=True)
class Trial:
    """The reference and the cases that a graded function is compared with.

    ``mistakes`` are wrong solutions by the sentence that helps who wrote one, ``where`` says where
    to look when none of them fits. ``probe(attempt, *case)`` gives what is compared, by default
    what the attempt returns.
    """

    reference: Callable[..., Any]
    cases: Sequence[tuple[Any, ...]]
    mistakes: Mapping[str, Callable[..., Any]]
    where: str
    probe: Callable[..., Any] = call

    def judge(self, attempt: Callable[..., Any]) -> Verdict:
        """Compare an attempt with the reference; a tensor it was given must stay as it was."""
        return self._judge(partial(self.probe, attempt))

    def _judge(self, probed: Callable[..., Any]) -> Verdict:
        mistakes = {why: partial(self.probe, mistake) for why, mistake in self.mistakes.items()}
        verdict = judge(
            probed,
            reference=partial(self.probe, self.reference),
            cases=self.cases,
            mistakes=mistakes,
            names=names_of(self.reference, len(self.cases[0])),
        )
        if verdict.right or verdict.message in mistakes or verdict.word == "blank":
            return verdict
        return replace(verdict, message=f"{verdict.message}. Look at {self.where}")


def grade(attempt: Callable[..., Any], trial: Callable[[int], Trial], *, seconds: float = 10) -> None:
    """Raise WrongAnswerError with the verdict's sentence, unless the attempt is right on fresh random cases.

    ``trial(seed)`` must import what it uses. ``seconds`` is for all calls of the attempt together.
    """
    import cloudpickle  # with minitxl[classroom]: only who grades needs it

    try:
        work = cloudpickle.dumps(attempt)
    except Exception as error:
        raise WrongAnswerError(f"it cannot be handed to the grader ({error}): use arguments only") from None
    seed = secrets.randbelow(2**31)
    asked = pickle.dumps((work, cloudpickle.dumps(trial), seed, seconds))
    grader = subprocess.run(
        [sys.executable, "-I", "-m", "minitxl.course.grading"],
        input=asked,
        capture_output=True,
        timeout=seconds + STARTING,
        check=False,
    )
    if grader.returncode:
        raise RuntimeError(f"the grader itself failed:\n{grader.stderr.decode()}")
    verdict = Verdict(**json.loads(grader.stdout))
    if not verdict.right:
        raise WrongAnswerError(f"{verdict.message} (cases drawn with seed {seed})")


def main() -> None:
    """The grader: reads what :func:`grade` asks on its input, writes the verdict as JSON."""
    work, packed, seed, seconds = pickle.load(sys.stdin.buffer)
    torch.set_num_threads(1)
    here, there = multiprocessing.Pipe()
    worker = multiprocessing.get_context("fork").Process(target=_work, args=(work, packed, seed, there))
    worker.start()
    there.close()
    try:
        verdict = pickle.loads(packed)(seed)._judge(_Remote(here, seconds))
    except _Gone as gone:
        verdict = Verdict(False, str(gone))
    finally:
        worker.kill()
    print(json.dumps(asdict(verdict)))


class _Gone(BaseException):
    """The worker will not answer: no case after this one can be tried, so judge must not catch it."""


class _Remote:
    """Calls the attempt, probed, in the worker."""

    def __init__(self, worker: Connection, seconds: float) -> None:
        self.worker, self.seconds, self.until = worker, seconds, monotonic() + seconds

    def __call__(self, *case: Any) -> Any:
        try:
            self.worker.send_bytes(_packed(case))
            if not self.worker.poll(max(0, self.until - monotonic())):
                raise _Gone(f"it takes more than {self.seconds:g} seconds: is there a loop that never ends?")
            kind, answer, after = _unpacked(self.worker.recv_bytes())
        except (EOFError, OSError):
            raise _Gone("it ended the process it ran in") from None
        if kind == "gone":
            raise _Gone(answer)
        if kind != "result":
            known = getattr(builtins, kind, None)
            raise (known if known is NotImplementedError else type(kind, (Exception,), {}))(answer)
        _change(case, after)
        return answer


def _change(given: Any, after: Any) -> None:
    """Make the tensors that were given what the worker made of its copies."""
    if isinstance(given, Tensor) and not torch.equal(given, after):
        given.data = after
    elif isinstance(given, dict):
        _change(list(given.values()), list(after.values()))
    elif isinstance(given, tuple | list):
        for one, changed in zip(given, after, strict=True):
            _change(one, changed)


def _work(work: bytes, packed: bytes, seed: int, grader: Connection) -> None:
    """The worker: runs the attempt on each case that comes, and sends back nothing but data."""
    probe = pickle.loads(packed)(seed).probe
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    for name in [name for name in sys.modules if name.split(".")[0] == "minitxl"]:
        del sys.modules[name]
    sys.meta_path.insert(0, _NoAnswers())
    for module in (torch.nn.functional, torch._C._nn):
        for name in ("scaled_dot_product_attention", "multi_head_attention_forward"):
            setattr(module, name, _ready_made)
    try:
        attempt = pickle.loads(work)
    except Exception as error:
        grader.send_bytes(_packed(("gone", f"it cannot be run by itself: {error}", ())))
        return
    while True:
        case = _unpacked(grader.recv_bytes())
        try:
            answer = _packed(("result", probe(attempt, *case), case))
            _unpacked(answer)
        except pickle.UnpicklingError:
            answer = _packed(("TypeError", "it returns something else than tensors and numbers", ()))
        except Exception as error:
            answer = _packed((type(error).__name__, str(error), ()))
        grader.send_bytes(answer)


class _NoAnswers:
    """Refuses minitxl to an attempt: what is asked for is what stands in there."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name.split(".")[0] == "minitxl":
            raise ImportError("it uses minitxl, which holds the answer: write it with torch and einops")


def _ready_made(*_: Any, **__: Any) -> None:
    raise ImportError("it uses PyTorch's own attention: write it from its parts")


def _packed(data: Any) -> bytes:
    """Return the value with every tensor detached."""
    written = BytesIO()
    torch.save(_detached(data), written)
    return written.getvalue()


def _detached(data: Any) -> Any:
    if isinstance(data, Tensor):
        return data.detach()
    if type(data) in (tuple, list):
        return type(data)(map(_detached, data))
    if type(data) is dict:
        return {key: _detached(value) for key, value in data.items()}
    return data


def _unpacked(written: bytes) -> Any:
    return torch.load(BytesIO(written), weights_only=True)


def variant(student: str, **choices: Sequence[int]) -> dict[str, int]:
    """Return one of each of the choices, always the same for the same student."""

    def drawn(name: str, among: Sequence[int]) -> int:
        digest = hashlib.sha256(f"{student.strip().casefold()}/{name}".encode()).digest()
        return among[int.from_bytes(digest[:8]) % len(among)]

    return {name: drawn(name, among) for name, among in choices.items()}


def grade_numbers(
    given: Mapping[str, Any],
    trial: Callable[[str], tuple[Mapping[str, float], Mapping[str, tuple[str, float]]]],
) -> None:
    """Raise WrongAnswerError where a number of a student's variant is missing or wrong.

    ``given`` holds the student's name and the numbers. ``trial(student)`` returns the right ones, and
    by the sentence that helps, the name and value that a usual mistake leads to. Where nbgrader
    marks, the name must be that of the folder that was handed in.
    """
    student, owner = given["student"], Path.cwd().parent.name
    if os.environ.get("NBGRADER_EXECUTION") == "autograde" and student != owner:
        raise WrongAnswerError(f"these are the numbers of {student!r}, handed in by {owner!r}: use your own")
    right, mistakes = trial(student)
    for name, expected in right.items():
        if name not in given:
            raise WrongAnswerError(f"{name} is missing")
        if given[name] != expected:
            named = [why for why, wrong in mistakes.items() if wrong == (name, given[name])]
            why = named[0] if named else "count again, axis by axis"
            raise WrongAnswerError(f"{name} is not {given[name]}: {why}")


if __name__ == "__main__":
    main()
