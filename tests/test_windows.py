"""What Windows lacks is not asked for: modules, signals, synced folders, flags of mappings."""

import mmap
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from minitxl import files
from minitxl.data import token_file

ROOT = Path(__file__).parent.parent
IMPORT_ALL = """
import asyncio, importlib, mmap, multiprocessing, os, pkgutil, signal, subprocess, sys
import huggingface_hub, ipywidgets, matplotlib.figure, pooch, psutil, requests, safetensors.torch, torch, tqdm
import tyro
import torch.distributed, torch.utils.flop_counter

for name in ("fcntl", "grp", "pwd", "resource", "termios", "tty"):
    sys.modules[name] = None
for module, names in {
    mmap: ("MAP_PRIVATE", "PROT_READ", "PROT_WRITE"),
    signal: ("SIGHUP", "SIGUSR1", "SIGKILL", "SIGPIPE", "SIGALRM", "setitimer", "pthread_sigmask"),
    os: ("fork", "killpg", "setsid", "getuid", "mkfifo", "statvfs", "fchmod", "O_NOFOLLOW"),
}.items():
    for name in names:
        delattr(module, name)
import minitxl

for found in pkgutil.walk_packages(minitxl.__path__, "minitxl."):
    importlib.import_module(found.name)
    print(found.name)
"""


def test_every_module_can_be_imported_where_there_is_no_posix():
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) > 100


def test_no_folder_is_opened_and_what_is_synced_may_be_written(tmp_path, monkeypatch):
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


def test_tokens_are_mapped_without_flags_and_what_is_written_stays_in_memory(tmp_path, monkeypatch):
    np.save(tmp_path / "tokens.npy", np.arange(9, dtype=np.uint8))
    before = (tmp_path / "tokens.npy").read_bytes()
    for name in ("MAP_PRIVATE", "PROT_READ", "PROT_WRITE"):
        monkeypatch.delattr(mmap, name)
    monkeypatch.setattr(token_file.sys, "platform", "win32")
    tokens = token_file.mapped(tmp_path / "tokens.npy")
    assert tokens.tolist() == list(range(9))
    tokens[0] = 5
    assert (tmp_path / "tokens.npy").read_bytes() == before
