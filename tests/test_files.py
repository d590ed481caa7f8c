"""Files are written whole or not at all, on Windows as well."""

import os
from types import SimpleNamespace

import pytest

from minitxl import files


def test_on_windows_no_folder_is_opened_and_what_is_synced_may_be_written(tmp_path, monkeypatch):
    def as_windows_does(path, flags):
        if os.path.isdir(path):
            raise PermissionError(13, "Permission denied", path)
        if not flags & os.O_RDWR:
            raise OSError(9, "Bad file descriptor")
        return os.open(path, flags)

    windows = SimpleNamespace(open=as_windows_does, fsync=os.fsync, close=os.close)
    windows.O_RDWR, windows.O_RDONLY = os.O_RDWR, os.O_RDONLY
    monkeypatch.setattr(files, "os", windows)
    with pytest.raises(OSError, match="Bad file"), files.atomic_write(tmp_path / "a.txt"):
        pass
    monkeypatch.setattr(files, "WINDOWS", True)
    with files.atomic_write(tmp_path / "a.txt") as temporary:
        temporary.write_text("one")
    assert (tmp_path / "a.txt").read_text() == "one"
