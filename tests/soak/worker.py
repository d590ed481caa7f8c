"""A process in which attempts are made; one that crashes or hangs costs the programme one attempt."""

import multiprocessing
import os
import resource
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from soak import programme, world
from soak.attempt import Attempt

START = 120
"""Seconds that a new process may take to import the package and make its world."""


class Worker:
    """A process in which attempts are made, one after the other."""

    def __init__(self, folder: Path) -> None:
        children = multiprocessing.get_context("spawn")
        self.connection, theirs = children.Pipe()
        self.process = children.Process(target=_work, args=(folder, theirs))
        self.process.start()
        theirs.close()
        self.gone = False
        if started := self._answer(START):
            raise RuntimeError(started.wrong)

    def attempt(self, area: programme.Area, seed: int, number: int) -> Attempt:
        """Return the attempt that was made, or how the process ended in it."""
        self.connection.send((area.name, seed, number))
        made = self._answer(2 * area.seconds)
        assert made is not None
        return made

    def end(self) -> None:
        """Stop the process."""
        self.connection.close()
        self.process.join(20)
        self.process.kill()
        self.gone = True

    def _answer(self, seconds: float) -> Attempt | None:
        try:
            if self.connection.poll(seconds):
                return self.connection.recv()
            wrong = f"slow: nothing came back in {seconds:g} seconds"
        except EOFError:
            self.process.join(20)
            wrong = f"traceback: the process ended with {self.process.exitcode}"
        self.end()
        return Attempt("the process of the attempt", wrong=wrong)


def _work(folder: Path, connection: Connection) -> None:
    limit()
    here = world.make(folder / "world")
    connection.send(None)
    while True:
        try:
            name, seed, number = connection.recv()
        except EOFError:
            return
        connection.send(programme.attempt(programme.area_of(name), here, seed=seed, number=number))


def limit() -> None:
    """Compute with one thread, and within the addresses of ``programme.ADDRESSES``."""
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (programme.ADDRESSES, programme.ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name in ("FORCE_COLOR", "COLUMNS"):
        os.environ.pop(name, None)
