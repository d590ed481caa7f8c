"""Output that works whatever the standard streams are: closed, in ASCII, or read by somebody who has left."""

import io
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

NARROWEST, WIDEST = 40, 200
"""Columns between which help is laid out, whatever the terminal says: it takes minutes for very few."""


def open_streams() -> None:
    """Put a stream in place of each that is closed, and write what an encoding lacks as an escape.

    Without this the next file to be opened would be the standard output or error stream.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def discard(stream: Any) -> None:
    """Send all that is written to the stream from now on, and what it has not written yet, nowhere."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


class Enduring:
    """A stream that is written to as before, and nowhere once its reader has gone, as ``| head`` does."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write the text, or drop it where nobody reads."""
        try:
            return int(self.stream.write(text))
        except BrokenPipeError:
            discard(self.stream)
            return len(text)

    def flush(self) -> None:
        """Flush what was written, or drop it where nobody reads."""
        try:
            self.stream.flush()
        except BrokenPipeError:
            discard(self.stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def readable_width() -> Iterator[None]:
    """Give help a width between ``NARROWEST`` and ``WIDEST`` columns."""
    before, columns = os.environ.get("COLUMNS"), shutil.get_terminal_size().columns
    os.environ["COLUMNS"] = str(min(max(columns, NARROWEST), WIDEST))
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
