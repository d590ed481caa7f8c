"""Check of notebook 10's training loop: the segment, the memory and the rate of each step."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from minitxl.course.checker import Function, Verdict, judge
from minitxl.course.differences import written
from minitxl.data.batching import ContiguousBatches, Segment
from minitxl.training.step import Run

TakeStep = Callable[[Segment, Tensor | None, float], tuple[float, Tensor]]
"""take_step(segment, memory, rate) returns the loss and the memory of the next segment."""
CASES = [(3, 7, 0), (5, 2, 0), (2, 2, 0), (1, 3, 0), (3, 7, 4), (3, 8, 3)]
"""Number of segments, of steps, and of steps done before: passes that end and that don't, and trainings that
go on within a pass and at its end."""
SPARE = 3
"""Steps too many after which a loop is ended from outside."""
NUMBER = "number"
"""Key of a step's number among what is seen of it."""


def solution_train_steps(
    run: Run, segments: ContiguousBatches, take_step: TakeStep, rate_of: Callable[[int], float]
) -> Iterator[float]:
    """Take the steps that are left, and yield the loss of each; each pass begins without memory."""
    while run.step < run.settings.steps:
        index = run.step % len(segments)
        memory = run.memory if index else None
        loss, run.memory = take_step(segments[index], memory, rate_of(run.step + 1))
        run.step += 1
        yield loss


class _TooManyStepsError(Exception):
    """Ends a loop that does not end by itself."""


class _Watched:
    """A loop that returns what it does at each step, in words, in place of the losses."""

    def __init__(self, loop: Function) -> None:
        self.loop = loop

    def __call__(self, n_segments: int, steps: int, steps_done: int) -> Any:
        run = SimpleNamespace(
            step=steps_done,
            memory=_memory_of(steps_done) if steps_done else None,
            settings=SimpleNamespace(steps=steps),
        )
        segments = ContiguousBatches(torch.arange(n_segments + 1), batch=1, seg_len=1)
        seen, left = list[dict[str, str]](), steps - steps_done

        def take_step(segment: Segment, memory: Tensor | None, rate: float) -> tuple[float, Tensor]:
            if len(seen) >= left + SPARE:
                raise _TooManyStepsError
            step = steps_done + len(seen) + 1
            seen.append(
                {
                    NUMBER: str(step),
                    "reads": f"segment {int(segment.tokens)}",
                    "is given": _words_of(memory),
                    "has": f"the rate of step {10 * rate:.3g}",
                    "yields": "nothing",
                }
            )
            return _loss_of(step), _memory_of(step)

        try:
            losses = self.loop(run, segments, take_step, lambda step: step / 10)
            if not seen and (losses is None or losses is Ellipsis):
                return losses
            for loss in islice(losses, left + SPARE) if isinstance(losses, Iterator) else ():
                if not seen or seen[-1]["yields"] != "nothing":
                    seen.append({NUMBER: str(steps_done + len(seen) + 1), "reads": "no segment"})
                seen[-1]["yields"] = _words_of_loss(loss, _loss_of(int(seen[-1][NUMBER])))
                seen[-1]["leaves run.step at"] = written(run.step)
                if run.step % n_segments:  # else the next pass begins, which needs none
                    seen[-1]["leaves in run.memory"] = _words_of(run.memory)
        except _TooManyStepsError:
            pass
        return seen


def _loss_of(step: int) -> float:
    return 3 + 1 / step


def _memory_of(step: int) -> Tensor:
    """Return a memory [layer batch mem model] by whose one number its step is told."""
    return torch.full((1, 1, 1, 1), float(step))


def _words_of_loss(yielded: Any, loss: float) -> str:
    if isinstance(yielded, tuple | list):
        return "several values"
    return "its loss" if yielded == loss else written(yielded)


def _words_of(memory: Any) -> str:
    if isinstance(memory, Tensor) and memory.numel() == 1:
        return f"the memory of step {int(memory)}"
    return "no memory" if memory is None else written(memory)


def _said(got: Any, right: list[dict[str, str]]) -> str:
    """Say where a loop differs first: in a step, or in how many it takes."""
    for mine, its in zip(got, right, strict=False):
        for what in its:
            if mine.get(what) != its[what]:
                there = mine.get(what, "nothing")
                return f"step {its[NUMBER]} {what} {there}, right is {its[what]}"
    return f"it takes {len(got)} steps, right are {len(right)}"


def _loop(
    *,
    goes_on: Callable[[Any, int], bool] = lambda run, n: run.step < run.settings.steps,
    index_of: Callable[[int, int], int] = lambda step, n: step % n,
    memory_of: Callable[[Any, int], Any] = lambda run, n: run.memory if run.step % n else None,
    numbered: Callable[[int, int], int] = lambda step, n: step + 1,
    keeps: bool = True,
    counts: bool = True,
    counts_late: bool = False,
    yielded: Callable[[float, float], Any] = lambda loss, rate: loss,
) -> _Watched:
    """Return the loop with one part of it as given."""

    def loop(
        run: Any, segments: ContiguousBatches, take_step: TakeStep, rate_of: Callable[[int], float]
    ) -> Iterator[Any]:
        n = len(segments)
        while goes_on(run, n):
            rate = rate_of(numbered(run.step, n))
            loss, memory = take_step(segments[index_of(run.step, n)], memory_of(run, n), rate)
            run.memory = memory if keeps else run.memory
            run.step += counts and not counts_late
            yield yielded(loss, rate)
            run.step += counts_late

    return _Watched(loop)


def _own_names(*, first: bool = False, step: bool = False, memory: bool = False) -> _Watched:
    """Return the loop with variables of its own: the first step, the step or the memory is not the run's."""

    def loop(
        run: Any, segments: ContiguousBatches, take_step: TakeStep, rate_of: Callable[[int], float]
    ) -> Iterator[float]:
        mine = None if memory else run.memory
        for number in range(0 if first else run.step, run.settings.steps):
            index = number % len(segments)
            loss, mine = take_step(segments[index], mine if index else None, rate_of(number + 1))
            run.memory = run.memory if memory else mine
            run.step = run.step if step else number + 1
            yield loss

    return _Watched(loop)


def _whole_passes(
    run: Any, segments: ContiguousBatches, take_step: TakeStep, rate_of: Callable[[int], float]
) -> Iterator[float]:
    while run.step < run.settings.steps:
        yield from _each_segment_once(run, segments, take_step, rate_of)


def _each_segment_once(
    run: Any,
    segments: ContiguousBatches,
    take_step: TakeStep,
    rate_of: Callable[[int], float],
    *,
    drops: bool = True,
) -> Iterator[float]:
    for index in range(len(segments)):
        memory = None if drops and not index else run.memory
        loss, run.memory = take_step(segments[index], memory, rate_of(run.step + 1))
        run.step += 1
        yield loss


def _listed(*case: Any) -> list[float]:
    return list(solution_train_steps(*case))


def check_train_steps(attempt: Any) -> Verdict:
    """Check ``attempt(run, segments, take_step, rate_of)``, which takes all steps and yields their losses."""
    if attempt is None or attempt is Ellipsis:
        return Verdict.of_nothing()
    return judge(
        attempt if isinstance(attempt, _Watched) else _Watched(attempt),
        reference=_Watched(solution_train_steps),
        cases=CASES,
        mistakes={
            "memory is never dropped: a pass over the text begins at its beginning again, and what was read "
            "last is no past of that. At the first segment of each pass the memory is None": [
                _loop(memory_of=lambda run, n: run.memory),
                _loop(memory_of=lambda run, n: run.memory if run.step else None),
            ],
            "each step begins without memory: hand in run.memory, and None only at the first segment of a "
            "pass": _loop(memory_of=lambda run, n: None),
            "the memory that take_step returns is not handed on: keep it, in run.memory": [
                _loop(keeps=False),
                _loop(keeps=False, memory_of=lambda run, n: run.memory),
            ],
            "that is the wrong way round: None at the first segment of a pass, run.memory at the others": (
                _loop(memory_of=lambda run, n: None if run.step % n else run.memory)
            ),
            "memory is dropped one segment too late: the first segment of a pass is number 0": _loop(
                memory_of=lambda run, n: None if run.step % n == 1 else run.memory
            ),
            "memory is dropped one segment too early: it is None at the first segment of a pass, and the "
            "last one still has its own": [
                _loop(memory_of=lambda run, n: run.memory if (run.step + 1) % n else None),
                _loop(memory_of=lambda run, n: run.memory if run.step and (run.step + 1) % n else None),
            ],
            "the rate is that of the step before: run.step counts the steps done, and the first step is "
            "number 1, so this one is run.step + 1": _loop(numbered=lambda step, n: step),
            "the rate is that of the step after: the first step is number 1": _loop(
                numbered=lambda step, n: step + 2
            ),
            "the rate begins anew with each pass: number the steps of the whole training": [
                _loop(numbered=lambda step, n: step % n + 1),
                _loop(numbered=lambda step, n: step % n),
            ],
            "the first step reads the second segment: segments are counted from 0, as the steps done are": [
                _loop(index_of=lambda step, n: (step + 1) % n),
                _loop(
                    index_of=lambda step, n: (step + 1) % n,
                    memory_of=lambda run, n: run.memory if (run.step + 1) % n else None,
                ),
            ],
            "after the last segment comes the first again: its number is run.step % len(segments)": [
                _loop(index_of=lambda step, n: step),
                _loop(index_of=lambda step, n: min(step, n - 1)),
            ],
            "each step reads the first segment: read them in their order, by run.step % len(segments)": _loop(
                index_of=lambda step, n: 0
            ),
            "training stops one step early: the last step is number run.settings.steps": _loop(
                goes_on=lambda run, n: run.step < run.settings.steps - 1
            ),
            "training goes on for a step too many: stop once run.step is run.settings.steps": _loop(
                goes_on=lambda run, n: run.step <= run.settings.steps
            ),
            "training does not stop: stop once run.step is run.settings.steps": _loop(
                goes_on=lambda run, n: True
            ),
            "each pass is read to its end, though the last step comes within it, or from segment 0, though "
            "a training that was stopped goes on within it: look at run.step before each step": _Watched(
                _whole_passes
            ),
            "each segment is read once, whatever run.settings.steps says: passes follow each other until all "
            "steps are done": [
                _Watched(_each_segment_once),
                _Watched(partial(_each_segment_once, drops=False)),
                _loop(goes_on=lambda run, n: run.step < min(n, run.settings.steps)),
            ],
            "run.step never grows, so the first step is taken again and again: add 1 to it": _loop(
                counts=False
            ),
            "run.step or run.memory stays as it was. The dashboard looks at the run, and a training that was "
            "stopped goes on from there: keep both in run, and not in variables of the function alone": [
                _own_names(step=True),
                _own_names(memory=True),
                _own_names(step=True, memory=True),
                _own_names(step=True, first=True),
                _own_names(step=True, memory=True, first=True),
            ],
            "a training that was stopped begins anew: go on from run.step and run.memory": [
                _own_names(first=True),
                _own_names(memory=True, first=True),
            ],
            "the loss is yielded before the step is counted, and a training that is stopped there takes the "
            "step twice: first add 1 to run.step, then yield": _loop(counts_late=True),
            "the losses are not handed out one by one, so nobody sees the training before its end: yield the "
            "loss of each step, in place of a list or a return": _Watched(_listed),
            "yield the loss alone": [
                _loop(yielded=lambda loss, rate: (loss, rate)),
                _loop(yielded=lambda loss, rate: rate),
            ],
        },
        praise="each step has its segment, its memory and its rate, and a training that was stopped goes on",
        names=["n_segments", "steps", "steps_done"],
        say=_said,
    )
