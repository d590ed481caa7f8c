"""A worker of the benchmark, forked from a process that has imported torch already."""

import os
import sys

from support.children import context

from minitxl.benchmark import peers


def serve(connection) -> None:
    """Be a worker that is asked and answers over the connection, and whose turns are short."""
    for stream in (0, 1):
        os.dup2(connection.fileno(), stream)
    sys.stdin = os.fdopen(0, closefd=False)
    peers.TURN = {"cpu": 0.05}
    peers.main()


class Forked:
    """Stands in for the worker's ``Popen``."""

    def __init__(self, command, **how):
        here, there = context().Pipe()
        self.stdin, self.stdout = (
            os.fdopen(os.dup(here.fileno()), mode, buffering=0) for mode in ("wb", "rb")
        )
        self.process = context().Process(target=serve, args=(there,), daemon=True)
        self.process.start()
        self.kill = self.process.kill
        here.close()
        there.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stdin.close()
        self.stdout.close()
        self.process.join()
