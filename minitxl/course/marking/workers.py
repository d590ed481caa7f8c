"""A worker, as the judge sees it: a sandbox with a submission in it, its limits and its end."""

import os
import secrets
import selectors
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

import psutil

from minitxl.course.grading import Gone
from minitxl.course.marking import frames
from minitxl.course.marking.isolation import Isolation, Sandbox
from minitxl.course.marking.left_out import as_failed, in_words

STATEMENT_SECONDS = 5.0
"""Processor time that one statement of a submission may take outside its functions."""
CELLS_SECONDS = 60.0
"""Processor time of all statements of a submission outside its functions, however often they run."""
WAITING = 15
"""How many times longer than its processor time a function may last, on a busy machine."""
ASLEEP = 15.0
"""Seconds that a statement, or all calls of a function, may sleep, in all."""
STARTING = 300.0
"""Seconds that the start of a worker may last."""
POLL = 0.25
"""Seconds between two looks at a worker that does not answer."""
ATTEMPTS = 6
"""Workers that are started for one submission's cells, each without the statement that ended the last."""
ENDLESS = "is there a loop or a recursion that never ends?"

ONE_AT_A_TIME = "mark fewer submissions at a time, by notebooks/assignments/mark.py with --processes 1"


class MarkAgainError(BaseException):
    """The machine failed, and not the submission: no points are given or taken."""


class UnaskedError(Gone):
    """An answer came to another question than the last: the worker has sent more than it was asked for."""

    def __init__(self) -> None:
        super().__init__("it sends more answers than it is asked for: none of its results can be read")


class Worker:
    """A sandbox with a submission in it; ``cells`` are the names and sources of what it runs first."""

    def __init__(self, isolation: Isolation, cells: Sequence[tuple[str, str]]) -> None:
        self.isolation, self.cells = isolation, cells
        self.skipped: list[list[Any]] = []  # cell, place of a statement in it, and why it is left out
        self.failed: list[list[Any]] = []  # the same, of statements that raised an error
        self.sandbox: Sandbox | None = None
        self.first: psutil.Process | None = None
        self.used = 0.0
        self.attempts, self.left = ATTEMPTS, CELLS_SECONDS
        self.sleep_left = ASLEEP
        self.asked: str | None = None  # random mark of the last frame sent

    def start(self) -> None:
        """Start a worker if none runs, and run the cells; what ends or stops it is left out next time."""
        if self.sandbox is not None:
            return
        used = self.used
        while self.attempts and self.left > 0:
            self._launch()
            place: list[Any] = ["", -1]
            try:
                self.send({"cells": self.cells, "skipped": self.skipped})
                while self.left > 0:
                    told, _ = self._statement()
                    if "prepared" in told:
                        self.failed = as_failed(told["prepared"])
                        self.used = used  # the clock of its functions starts here
                        return
                    match told.get("at"):
                        case [str(cell), int(number)]:
                            place = [cell, number]
            except Gone as gone:
                self.attempts -= 1
                self.skipped.append([*place, str(gone)])
            self.stop()
        if self.left > 0:
            raise Gone("its cells end the process they run in, one after another")
        raise Gone(f"its cells outside the functions take more than {CELLS_SECONDS:g} seconds: {ENDLESS}")

    def _statement(self) -> tuple[dict[str, Any], frames.Tensors]:
        """Return the frame after a statement."""
        before, self.sleep_left = self.used, ASLEEP
        try:
            return self.receive(STATEMENT_SECONDS, max(STATEMENT_SECONDS, 1) * WAITING)
        finally:
            self.left -= self.used - before

    def _is_asleep(self) -> bool:
        """Return True if the worker and all its children sleep, and could not compute on a free processor."""
        assert self.first is not None
        if self.isolation.name == "container" and self.first.pid == self.process.pid:
            return False  # it runs in a virtual machine
        with suppress(psutil.Error):
            every = [self.first, *self.first.children(recursive=True)]
            return all(one.status() == psutil.STATUS_SLEEPING for one in every)
        return False

    def _launch(self) -> None:
        try:
            self.sandbox, self.asked = self.isolation.start(), None
        except OSError as error:
            raise MarkAgainError(f"the sandbox does not start: {error}") from error
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
        try:
            told, _ = self.receive(None, STARTING)
        except Gone as gone:
            raise MarkAgainError(f"the sandbox does not start: {gone}") from None
        if "ready" not in told:
            raise MarkAgainError("the sandbox does not start")
        if "asked" not in told:
            raise MarkAgainError(
                "the container's image has a worker of another version: build it again, as the first lines "
                "of notebooks/assignments/Containerfile say"
            )
        self.first = self.sandbox.first()

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process that was started here."""
        assert self.sandbox is not None
        return self.sandbox.process

    def left_out(self, worth: Mapping[str, tuple[str, float]]) -> list[tuple[str, str]]:
        """Return in words which statements are left out or failed, and why, as ``in_words`` does."""
        return in_words(self.cells, [*self.skipped, *self.failed], worth)

    def seconds(self) -> float:
        """Return the processor time of the worker and all its children, in seconds."""
        total = 0.0
        with suppress(psutil.Error):
            top = self.first or psutil.Process(self.process.pid)
            for one in [top, *top.children(recursive=True)]:
                with suppress(psutil.Error):
                    times = one.cpu_times()
                    total += times.user + times.system
        return total

    def send(self, header: dict[str, Any], tensors: frames.Tensors | None = None) -> None:
        """Send a frame; a worker that does not read it is gone."""
        assert self.process.stdin is not None
        self.asked = secrets.token_hex(8)
        frame = frames.pack(header | {"asked": self.asked}, tensors)
        left, until = memoryview(frame), monotonic() + STARTING
        while left:
            self._wait(self.process.stdin, selectors.EVENT_WRITE, until, None)
            try:
                left = left[os.write(self.process.stdin.fileno(), left[: 2**16]) :]
            except OSError:
                raise self._gone() from None

    def receive(self, seconds: float | None, lasting: float) -> tuple[dict[str, Any], frames.Tensors]:
        """Return the next frame; Gone where it takes more than so many seconds of processor time, or sleeps.

        UnaskedError where it does not answer the frame that was sent last.

        ``lasting`` are the seconds by the clock after which the machine is taken to be too busy. On a busy
        machine a worker is ready to compute, and does not sleep.
        """
        began = self.seconds()
        until = monotonic() + lasting
        limit = None if seconds is None else (began, seconds)
        try:
            text, blob = frames.lengths(self._read(frames.HEAD, until, limit))
            told, tensors = frames.unpack(self._read(text, until, limit), self._read(blob, until, limit))
        except frames.FrameError:
            raise Gone("it writes to where its results are read, or they are too large to read") from None
        finally:
            self.used += max(0.0, self.seconds() - began)
        if told.get("asked") != self.asked:
            raise UnaskedError
        return told, tensors

    def _read(self, length: int, until: float, limit: tuple[float, float] | None) -> bytes:
        assert self.process.stdout is not None
        found = bytearray()
        while len(found) < length:
            self._wait(self.process.stdout, selectors.EVENT_READ, until, limit)
            try:
                piece = os.read(self.process.stdout.fileno(), min(2**20, length - len(found)))
            except BlockingIOError:
                continue
            if not piece:
                raise self._gone()
            found += piece
        return bytes(found)

    def _wait(self, stream: Any, event: int, until: float, limit: tuple[float, float] | None) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(stream, event)
            while not selector.select(POLL):
                if limit is not None:
                    if self.seconds() - limit[0] > limit[1]:
                        raise Gone(f"it takes more than {limit[1]:g} seconds: {ENDLESS}")
                    self.sleep_left -= POLL * self._is_asleep()
                    if self.sleep_left <= 0:
                        raise Gone(f"it waits for {ASLEEP:g} seconds, and computes nothing")
                if monotonic() > until:
                    raise MarkAgainError("no answer in time, and it did not compute either")

    def _gone(self) -> BaseException:
        try:
            code = self.process.wait(5)
        except subprocess.TimeoutExpired:
            return Gone("it closed the channel of its results")
        if code in (-signal.SIGKILL, 128 + signal.SIGKILL):
            words = "the system ended the process it ran in, for want of memory perhaps"
            return MarkAgainError(f"{words}: {ONE_AT_A_TIME}")
        return Gone("it ended the process it ran in")

    def stop(self) -> None:
        """End the worker and all that it started."""
        if self.sandbox is None:
            return
        self.sandbox.end()
        for stream in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                stream.close()  # type: ignore[union-attr]
        self.sandbox = self.first = None
