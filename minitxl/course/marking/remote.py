"""A submission's function, called in a worker and run here: see ``worker`` and ``replay``."""

from collections.abc import Callable
from time import monotonic, process_time
from typing import Any

import torch
from torch import nn

from minitxl.course.grading import Gone
from minitxl.course.marking import frames
from minitxl.course.marking.arguments import Sent, change_as_told
from minitxl.course.marking.left_out import quoted, shortened
from minitxl.course.marking.replay import RefusedError, Replay, ReplayError, TooLongError
from minitxl.course.marking.workers import ASLEEP, ENDLESS, WAITING, MarkAgainError, UnaskedError, Worker

REPLAY = 3
"""Limit of the judge's processor time for a function, in those of its worker: it computes gradients too."""


class Remote:
    """One function of a submission, as the judge calls it; ``seconds`` of processor time are for all calls.

    ``hidden`` keeps the numbers of the cases from the worker: it computes with others of the same
    shapes, so that only operations on tensors can give the right result, and no table of numbers.
    """

    def __init__(self, worker: Worker, name: str, seconds: float) -> None:
        self.worker, self.name, self.limit, self.hidden = worker, name, seconds, False
        self.left, self.sleep_left = seconds, ASLEEP
        self.lasting = max(seconds, 1) * WAITING
        self.until = process_time() + REPLAY * seconds
        self.constants_made = False  # tensors of numbers that no operation made, as by numpy or from a list
        self.is_called = False
        self.is_missing = False  # no such function is there, and its name in no cell that failed
        self.undefined = ""  # why no such function is there, where its cell was filled in

    def __call__(self, *case: Any) -> Any:
        try:
            try:
                return self._started(case)
            except UnaskedError:
                if self.is_called:
                    raise
                self.worker.stop()  # what another function of this worker sent costs this one nothing
                return self._started(case)
            finally:
                self.is_called = True
        except (Gone, MarkAgainError):
            if not (self.is_missing or self.undefined):  # a worker without the function is as good as before
                self.worker.stop()
            raise
        except Exception as error:  # is kept, and would keep by its frames all tensors of the call
            raise error.with_traceback(None) from None
        finally:
            self.sleep_left = self.worker.sleep_left

    def _started(self, case: tuple[Any, ...]) -> Any:
        self.worker.start()
        self.worker.sleep_left = self.sleep_left
        return self._call(case)

    def _call(self, case: tuple[Any, ...]) -> Any:
        replay, given = Replay(self.until), dict[int, Callable[..., Any]]()
        sent = Sent(replay.tensors, given, self.hidden)
        self.worker.send({"function": self.name, "args": sent.encode(list(case))}, sent.values)
        while True:
            told, values = self._receive()
            try:
                if told["then"] == "error":  # it gives no result, and may have filled all memory it had
                    kind, words = map(str, told["error"])
                    raise _error(kind, words)
                self._run(replay, told, values)
                made = [values[step["constant"]] for step in told["steps"] if "constant" in step]
                self.constants_made |= any(one.is_floating_point() and one.numel() > 1 for one in made)
                if told["then"] == "ask":
                    self._answer(told, replay, given)
                elif told["then"] == "requires_grad":
                    needs_gradient = replay.tensors[str(told["of"])].requires_grad
                    self.worker.send({"requires_grad": needs_gradient})
                elif told["then"] == "undefined":
                    self.undefined = shortened(str(told["undefined"]))
                    raise self._no_function()
                else:
                    return self._result(case, told, replay, values, given)
            except RefusedError as refused:
                raise Gone(str(refused)) from None
            except TooLongError:
                raise self._too_long() from None
            except (ReplayError, KeyError, RecursionError):
                raise Gone("it writes to where its results are read") from None
            except Exception:
                if told["then"] == "ask":
                    self.worker.stop()  # it still waits for an answer
                raise

    def _run(self, replay: Replay, told: dict[str, Any], values: frames.Tensors) -> None:
        """Run operations again; the words of an error of theirs are quoted, as those of the worker are."""
        try:
            replay.run(told.get("steps"), values)
        except (RefusedError, TooLongError, ReplayError, KeyError, RecursionError):
            raise
        except Exception as error:
            failed = _error(type(error).__name__, str(error))
        else:
            return
        raise failed  # here, where it keeps nothing of the error that it tells, nor of its tensors

    def _no_function(self) -> Gone:
        self.is_missing = not self.undefined
        if self.is_missing:
            return Gone(f"no function {self.name} is defined: leave the names of the functions as they are")
        return Gone(f"there is no function {self.name}, for its cell fails: {quoted(self.undefined)}")

    def _too_long(self) -> Gone:
        return Gone(f"it takes more than {self.limit:g} seconds: {ENDLESS}")

    def _receive(self) -> tuple[dict[str, Any], frames.Tensors]:
        before, began = self.worker.used, monotonic()
        try:
            answer = self.worker.receive(self.left, self.lasting)
        except Gone as gone:
            if "takes more than" in str(gone):
                raise self._too_long() from None
            raise
        finally:
            self.left -= self.worker.used - before
            self.lasting -= monotonic() - began
        if self.left <= 0:  # by many short answers, of which none takes long
            raise self._too_long()
        return answer

    def _answer(self, told: dict[str, Any], replay: Replay, given: dict[int, Callable[..., Any]]) -> None:
        """Call a function of the judge's for the worker, on the judge's tensors."""
        if process_time() > self.until:
            raise TooLongError
        function = given[told["given"]]
        args, kwargs = replay.decode(told["args"]), replay.decode(told["kwargs"])
        if isinstance(function, nn.Module):
            function.train(bool(told["training"]))
        try:
            with torch.set_grad_enabled(torch.is_grad_enabled() and bool(told["grad"])):
                result = function(*args, **kwargs)
        except Exception as error:
            self.worker.send({"error": [type(error).__name__, str(error)]})
            return
        sent = Sent(replay.tensors, given, self.hidden)
        self.worker.send({"value": sent.encode(result)}, sent.values)

    def _result(
        self,
        case: tuple[Any, ...],
        told: dict[str, Any],
        replay: Replay,
        values: frames.Tensors,
        given: dict[int, Callable[..., Any]],
    ) -> Any:
        constants = {step.get("constant") for step in told["steps"]}
        said = {} if self.hidden else {name: of for name, of in values.items() if name not in constants}
        change_as_told(list(case), told["after"], replay, said, given)
        return replay.values(told["value"], said)


def _error(kind: str, words: str) -> Exception:
    """Return the error that a function raised, as far as it can be told."""
    words = quoted(words)
    if kind == "NotImplementedError":
        return NotImplementedError(words)
    return type(kind[:60] if kind.isidentifier() else "Error", (Exception,), {})(words)
