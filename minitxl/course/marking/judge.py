"""Judges one submission: a process of its own, which reads a job and writes a verdict for each part.

    python -m minitxl.course.marking.judge < job.json > verdicts.jsonl

Each verdict is a line, written when it is known: what a later function costs takes none of them away.
It holds the trials, the references and the numbers of the cases; the sandbox holds the submission.
"""

import json
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from math import ceil
from time import process_time
from typing import Any

import torch

from minitxl.course.checker import NOTHING, Verdict
from minitxl.course.differences import written
from minitxl.course.grading import (
    Gone,
    NumbersTrial,
    name_said,
    number_in,
    number_shares,
    of_results,
    points,
)
from minitxl.course.marking.isolation import Isolation, strongest
from minitxl.course.marking.notebooks import graded
from minitxl.course.marking.remote import REPLAY, Remote
from minitxl.course.marking.workers import MarkAgainError, Worker

MEMORY = 12 * 2**30
"""Bytes of address space that a judge may take: operations that it repeats may be a stranger's."""
SECONDS = 10.0
"""Processor time of one function, for all its cases."""
JUDGE_SECONDS = REPLAY * SECONDS + 15
"""Processor time of the judge for one function, after which the system ends it, whatever it is at.

Between two operations it looks at the clock itself; a single operation cannot be stopped otherwise.
"""
CONSTANT = (
    "Some numbers here come from no operation of torch's, but from numpy, tolist() or a list, say: compute "
    "with torch's own operations on the tensors themselves, since the marking runs these again on other "
    "numbers"
)


def trial_of(imports: str, source: str) -> tuple[str, str, Callable[..., Any]]:
    """Return the marking's name, the function's name and the trial of a hidden test's source."""
    tree, (kind, attempt, trial) = graded(source)
    names: dict[str, Any] = {}
    exec(imports, names)
    exec(compile(tree, "<hidden test>", "exec"), names)
    return kind, attempt, names[trial]


def judged(job: dict[str, Any], isolation: Isolation) -> Iterator[dict[str, Any]]:
    """Yield for each graded cell its score, and what there is to say of it.

    ``job`` has the owner, and other names of theirs if any, the cells to run, the names that other
    cells define and the kind of these, the imports, the graded cells with points and source, a seed, and
    the number of graded cells that have a verdict already, if any.
    """
    worker = Worker(isolation, job["cells"])
    worth = {
        test["cell"].removesuffix("-test"): (graded(test["source"])[1][1], test["points"])
        for test in job["tests"]
    }
    try:
        for place, test in islice(enumerate(job["tests"]), job.get("done", 0), None):
            before = worker.used
            part = _part(job, test, job["seed"] + place, worker)
            cost = {"seconds": worker.used - before, "left_out": worker.left_out(worth)}
            yield {"cell": test["cell"], "most": test["points"], **part, **cost}
    finally:
        worker.stop()


def stopped(job: dict[str, Any], test: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return the verdict on the function at which a judge was ended for its processor time."""
    _, name, _ = trial_of(job["imports"], test["source"])
    words = (
        f"what it computes was stopped after {seconds:g} seconds: is there an operation on far more numbers "
        "than the sheet asks for?"
    )
    verdict = Verdict(False, words)
    return {
        "cell": test["cell"],
        "most": test["points"],
        "function": name,
        "score": 0.0,
        "word": verdict.word,
        "message": verdict.message,
        "groups": {},
        "undefined": "",
        "numbers": None,
        "seconds": 0.0,
        "left_out": [],
    }


def _part(job: dict[str, Any], test: dict[str, Any], seed: int, worker: Worker) -> dict[str, Any]:
    kind, name, trial = trial_of(job["imports"], test["source"])
    given: Any = None
    function, not_run = Remote(worker, name, SECONDS), job.get("not_run", {})
    try:
        with torch.random.fork_rng(devices=[]):
            if kind == "grade_numbers":
                owner = job["owner"], job.get("names", ())
                verdict, right, given = _number_shares(function, trial, *owner)
            else:
                drawn = trial(seed)
                function.hidden = drawn.hidden
                verdict, right = drawn.shares(function)
                message, case = verdict.message, verdict.case
                if drawn.hidden and function.constants_made and not all(of_results(right).values()):
                    message = f"{message}. {CONSTANT}" if case is None else _of_other_numbers(message)
                message += _of_a_helper(message, not_run)
                if case is not None:
                    message = f"{message}. {_drawn(case, seed)}"
                verdict = replace(verdict, message=message)
            if name in not_run and (function.is_missing or verdict.message == NOTHING):
                words = f"{_defined_in(name, not_run[name])}: put it into the cell that the sheet has for it"
                verdict = replace(verdict, message=words)
    except MarkAgainError as again:
        return {"function": name, "score": None, "again": str(again), "message": str(again), "groups": {}}
    return {
        "function": name,
        "score": points(test["points"], right),
        "word": verdict.word,
        "message": verdict.message,
        "groups": right,
        "undefined": function.undefined,
        "numbers": _as_json(given) if isinstance(given, dict) else None,
    }


def _of_other_numbers(message: str) -> str:
    """Return what is wrong with a result of constants: the marking's numbers, which the student never got."""
    words = re.sub(r"\byou returned\b|(?<=\]: )you\b", "it returned", message)
    return f"{CONSTANT}. In the marking's own run: {words}"


def _defined_in(name: str, kind: str) -> str:
    return f"your notebook defines {name} in {kind}, and the marking runs none of these"


def _of_a_helper(message: str, not_run: Mapping[str, str]) -> str:
    """Return where the student defines a name that is missing, if it is in a cell that is not run here."""
    missing = re.search(r"NameError: “name '(\w+)' is not defined", message)
    if missing is None or missing[1] not in not_run:
        return ""
    words = _defined_in(missing[1], not_run[missing[1]])
    return f". {words[0].upper()}{words[1:]}: put it into a cell of your own"


def _drawn(case: int, seed: int) -> str:
    """Return by which numbers a teacher finds a case again."""
    return f"(For the person who marks: case {case}, seed {seed})"


def _as_json(given: dict[Any, Any]) -> dict[str, Any]:
    """Return what ``my_numbers`` returned, tensors of one number as numbers, and other values in words.

    A ``student`` that is no name is None: words for it would be taken for another one's name.
    """
    numbers = {str(name): number_in(one) for name, one in given.items()}
    found: dict[str, Any] = {
        name: one if isinstance(one, int | float | str) else written(one) for name, one in numbers.items()
    }
    if "student" in given:
        found["student"] = name_said(given["student"]) or None
    return found


def _number_shares(
    attempt: Callable[[], Any], trial: NumbersTrial, owner: str, others: Sequence[str]
) -> tuple[Verdict, dict[str, bool], Any]:
    """Return verdict and shares of ``my_numbers``, and what it returned."""
    try:
        given = attempt()
    except NotImplementedError:
        given = None
    except Gone as gone:
        return Verdict(False, str(gone)), dict.fromkeys(trial(owner)[0], False), None
    except Exception as error:
        words = f"it raised {type(error).__name__}: {error}"
        return Verdict(False, words), dict.fromkeys(trial(owner)[0], False), None
    return *number_shares(given, trial, owner, others), given


def _end_after(seconds: float) -> None:
    """Have the system end this process by SIGXCPU after so many seconds of processor time more."""
    import resource  # which Windows lacks: a teacher needs Linux or a Mac

    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (ceil(process_time() + seconds), most))


def main() -> None:
    import resource

    for limit, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CORE, 0)):
        with suppress(ValueError, OSError):
            resource.setrlimit(limit, (most, most))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the sandbox ends too
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)  # no handler runs within an operation
    torch.set_num_threads(1)
    job = json.load(sys.stdin)
    _end_after(job["judge_seconds"])
    for part in judged(job, strongest(job["isolation"])):
        print(json.dumps(part), flush=True)
        _end_after(job["judge_seconds"])


if __name__ == "__main__":
    main()
