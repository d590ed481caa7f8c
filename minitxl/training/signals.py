"""Signals that ask a training to stop: noted where they arrive, obeyed between two steps."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

STOPPING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1")
"""Ctrl-C, an order to end, a closed terminal, and a scheduler's warning that time is running out."""
AGAIN = 2.0
"""Seconds after the first signal, from which on a Ctrl-C stops at once, without saving. An earlier one is
ignored, as part of the same wish to stop."""


@dataclass
class Stop:
    """The signal that arrived. Its attributes are plain numbers: if one handler interrupts another, both can
    still set them."""

    number: int = 0
    """0 while there was none."""
    arrived: float = 0.0
    """When the first one arrived, by the monotonic clock."""


@contextmanager
def watching(outer: Stop | None = None) -> Iterator[Stop]:
    """Yield a ``Stop`` that holds the first signal to stop, however many arrive and however fast.

    Signals that the process ignores, as a hangup under nohup, stay ignored. Afterwards the handlers are those
    of before. An inner ``watching(outer)`` yields the ``Stop`` of the outer block. Outside of the main
    thread, which alone has signals, nothing is ever noted.
    """
    if outer is not None:
        yield outer
        return
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    numbers = [getattr(signal, name) for name in STOPPING if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}

    def note(number: int, _frame: FrameType | None) -> None:
        if not stop.number:
            stop.arrived, stop.number = time.monotonic(), number
        elif number == signal.SIGINT and time.monotonic() > stop.arrived + AGAIN:
            raise KeyboardInterrupt

    watched = [number for number in numbers if before[number] != signal.SIG_IGN]
    for number in watched:
        signal.signal(number, note)
    try:
        yield stop
    finally:
        for number in watched:
            signal.signal(number, before[number])
