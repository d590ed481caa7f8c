"""What happens to a command in a child process; ``children`` starts it and looks on."""

import ctypes
import errno
import gc
import io
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from math import log
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from threading import RLock

import torch
from torch import Tensor
from tqdm import tqdm

from minitxl.__main__ import main
from minitxl.training import checkpointed_loop, checkpoints, metrics_log, run_folder, step
from minitxl.training.step import Record, Run

Fault = Callable[[], None]
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = {"os.mkdir", "os.chmod", "os.rename", "os.remove", "os.rmdir", "tempfile.mkdtemp"}


def command(words: list[str], said: Path, news: Connection, fault: Fault) -> None:
    """Run it. What it prints goes to ``said``; ``news`` are of a run's folder, once held, and each step."""
    gc.freeze()  # or the first collection would copy all that the fork shares
    with said.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    tqdm.set_lock(RLock())  # its own lock, of several processes, a killed one would leave behind
    fault()
    have, steps = run_folder.run_lock, checkpointed_loop.train_steps

    @contextmanager
    def telling(folder: Path) -> Iterator[None]:
        with have(folder):
            news.send_bytes(b"held")
            yield

    def telling_steps(*what: object) -> Iterator[Record]:
        for record in steps(*what):
            news.send_bytes(b"step")
            yield record

    run_folder.run_lock, checkpointed_loop.train_steps = telling, telling_steps
    main(words)


def nothing() -> None:
    """Run undisturbed."""


def killed_at(moment: int | set[str], folder: Path) -> None:
    """SIGKILL at the moment of this number, from 1, or at the first that is none of these; say at which."""

    def happens(moment: str) -> None:
        print(f"\nat: {moment}", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    _each_moment(folder, _at(moment, happens))


def no_space_at(moment: int | set[str], folder: Path) -> None:
    """ENOSPC at the moment of this number, from 1, or at the first that is none of these; say at which."""

    def happens(moment: str) -> None:
        print(f"\nat: {moment}", flush=True)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    _each_moment(folder, _at(moment, happens))


def files_of_at_most(size: int, *, or_killed: bool = False) -> None:
    """The system itself refuses to write more bytes than that into one file, or kills who tries."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL if or_killed else signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def without_privileges() -> None:
    """What a file's mode forbids is forbidden to root too: the process gives up all capabilities."""
    if os.geteuid() == 0:
        version_3, none_of_them = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        if ctypes.CDLL(None, use_errno=True).capset(version_3, none_of_them):
            raise OSError(ctypes.get_errno(), "the capabilities could not be given up")


def clock_running_backwards(*, minutes_a_look: float = 0) -> None:
    """Only the clock on the wall; the monotonic one leaps ahead by so many minutes a look."""
    wall, steady, looks = time.time(), time.monotonic, iter(range(10**9))
    time.time = lambda: wall - 3600 * next(looks)
    time.time_ns = lambda: int(time.time() * 1e9)
    time.monotonic = lambda: steady() + 60 * minutes_a_look * next(looks)


def loss_at(step_number: int, bits: float) -> None:
    """The loss of this step is ``bits``."""
    backward = step._forward_and_backward

    def patched(run: Run, *segment: object) -> tuple[list[Tensor], object]:
        losses, memory = backward(run, *segment)
        return ([torch.tensor(bits * log(2))] if run.step + 1 == step_number else losses), memory

    step._forward_and_backward = patched


def at_the_same_moment(ready: Barrier, tried: Barrier) -> None:
    """All ask for the folder at once, and who gets it keeps it until all have asked."""
    have = run_folder.run_lock

    @contextmanager
    def racing(folder: Path) -> Iterator[None]:
        with ExitStack() as stack:
            ready.wait(60)
            try:
                stack.enter_context(have(folder))
            finally:
                tried.wait(60)
            yield

    run_folder.run_lock = racing


def _at(wanted: int | set[str], happens: Callable[[str], None]) -> Callable[[str], None]:
    moments, done = iter(range(1, 10**9)), []

    def passes(moment: str) -> None:
        number = next(moments)
        if not done and (number == wanted if isinstance(wanted, int) else moment not in wanted):
            done.append(moment)
            happens(moment)

    return passes


def _each_moment(folder: Path, passes: Callable[[str], None]) -> None:
    """Call ``passes`` before every change of a file in ``folder``, around every sync, and half-way through
    whatever is written."""

    def audit(event: str, arguments: tuple) -> None:
        if _changes(event, arguments) and Path(arguments[0]).is_relative_to(folder):
            passes(f"{event} {_name(arguments[0])}")

    sync, write_text, save_file, opened = os.fsync, Path.write_text, checkpoints.save_file, Path.open

    def patched_sync(descriptor: int) -> None:
        name = _name(os.readlink(f"/proc/self/fd/{descriptor}"))
        passes(f"before the sync of {name}")
        sync(descriptor)
        passes(f"after the sync of {name}")

    def patched_write_text(path: Path, text: str, *how: str) -> int:
        write_text(path, text[: len(text) // 2], *how)
        passes(f"half of {_name(path)}")
        return write_text(path, text, *how)

    def patched_save_file(tensors: object, path: Path, metadata: dict[str, str]) -> None:
        save_file(tensors, path, metadata=metadata)
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        passes(f"half of {_name(path)}")
        path.write_bytes(whole)

    class Halting(io.TextIOWrapper):
        def write(self, text: str) -> int:
            super().write(text[: len(text) // 2])
            self.flush()
            passes("half of a line")
            super().write(text[len(text) // 2 :])
            return len(text)

    def patched_open(path: Path, mode: str = "r", *how: object, **more: object) -> object:
        if path.name == metrics_log.LOG and mode == "a":
            return Halting(opened(path, "ab"), encoding="utf-8")
        return opened(path, mode, *how, **more)

    os.fsync, Path.write_text, checkpoints.save_file = patched_sync, patched_write_text, patched_save_file
    Path.open = patched_open
    sys.addaudithook(audit)


def _changes(event: str, arguments: tuple) -> bool:
    """A folder that is there is not made again, and a file that is not there not removed."""
    if event == "open":
        return isinstance(arguments[0], str | os.PathLike) and bool(arguments[2] & WRITING)
    return event in CHANGES and Path(arguments[0]).exists() == (event not in ("os.mkdir", "tempfile.mkdtemp"))


def _name(path: str | os.PathLike) -> str:
    """Without what changes from run to run."""
    path = Path(path)
    inside = re.fullmatch(r"\..+(\.safetensors|\.jsonl?)\.\w{8}", path.parent.name)
    name = re.sub(r"(\.safetensors|\.jsonl?)\.\w{8}$", r"\1.tmp", re.sub(r"\d{8}", "N", path.name))
    return f"hidden {name}" if inside else name
