"""Commands in processes of their own, which come from one that has imported torch already."""

import multiprocessing
import os
import sys
from contextlib import suppress
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest
from support import faults


@cache
def context() -> ForkServerContext:
    """Return where children come from that need not import torch: a process that has done so, and forks."""
    children = multiprocessing.get_context("forkserver")
    children.set_forkserver_preload(["pytest", "torch._dynamo", "support.preloaded"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # it finds what is found here
        forkserver.ensure_running()
    return children


class Child:
    """A command at work, or at its end."""

    def __init__(self, children, words, fault=faults.nothing, said_in=None):
        self.said_in = said_in or Path(f"{words[1]}-said")
        self.news, news = children.Pipe(duplex=False)
        work = (words, self.said_in, news, fault)
        self.process = children.Process(target=faults.command, args=work, daemon=True)
        self.process.start()
        news.close()

    def wait_for_news(self, count=1):
        """First of the folder, which it has, then of each step; or of its end."""
        with suppress(EOFError):
            for _ in range(count):
                assert self.news.poll(120)
                self.news.recv_bytes()

    def end(self, seconds=300):
        """The exit code; minus the signal that ended it."""
        self.process.join(seconds)
        return self.process.exitcode

    def signal(self, number):
        os.kill(self.process.pid, number)

    @property
    def said(self):
        return self.said_in.read_text()

    @property
    def sentence(self):
        """What it said of a failure, in one line and without a traceback."""
        (line,) = (line for line in self.said.splitlines() if line.startswith("minitxl: "))
        assert "Traceback" not in self.said
        return line
