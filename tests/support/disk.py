"""A disk that fills up while a file is written."""

import errno
import io
from pathlib import Path

import pytest


def fill_disk(monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    """Make the second write to each file whose name ends so fail as on a full disk."""
    open_file = Path.open

    def open_on_full_disk(path, mode="r", *rest, **more):
        file = open_file(path, mode, *rest, **more)
        if str(path).endswith(ending) and mode in ("wb", "ab"):
            file = FullDisk(file.detach())
        return file

    monkeypatch.setattr(Path, "open", open_on_full_disk)


class FullDisk(io.BufferedWriter):
    """A file whose first write succeeds and whose second finds no space left."""

    written = False

    def write(self, data):
        if self.written:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.written = True
        return super().write(data)
