"""The sandbox of a submission: bubblewrap, else a container, else a process with limits alone."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from uuid import uuid4

import psutil

from minitxl.files import reason

HERE = Path(__file__).parent
WORKER = ("worker.py", "frames.py", "guards.py", "statements.py", "variants.py")
"""All that a worker has of the package."""
IMAGE = "minitxl-worker"
INSIDE = "/worker/worker.py"
"""The worker's file in a sandbox."""
TMP = 2**26
"""Bytes that a submission may write to its /tmp, which is in RAM; it can write nowhere else."""
CONTAINERS = ("podman", "docker")
NOBODY = "65534"
NO_ISOLATION = "no isolation, {why}: marks are only as safe as the students are honest"
MISSING = (
    "since bubblewrap is not installed, and no container runs here",
    "On Debian or Ubuntu, 'apt-get install bubblewrap' brings it; the teacher's guide has the container",
)
AS_ROOT = (
    "you are root: the limit on processes that a submission may start does not hold for root. "
    "Mark as another user"
)
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
    "PYTHONDONTWRITEBYTECODE": "1",
}


@dataclass(frozen=True)
class Sandbox:
    """A worker that was started: the process here, and of a container its program and name."""

    process: subprocess.Popen[bytes]
    container: tuple[str, str] | None = None

    def first(self) -> psutil.Process:
        """Return the worker's first process; a container's is no child of the process here.

        Where the container runs in a virtual machine it cannot be seen, and the process here is returned.
        """
        if self.container is not None:
            program, name = self.container
            words = (program, "inspect", "--format", "{{.State.Pid}}", name)
            pid = subprocess.run(words, capture_output=True, text=True, check=False).stdout
            with suppress(psutil.Error, ValueError):
                worker = psutil.Process(int(pid))
                if worker.cmdline()[-1:] == [INSIDE]:
                    return worker
        return psutil.Process(self.process.pid)

    def end(self) -> None:
        """End the worker and all that it started."""
        if self.container is not None:  # it would outlive the process here
            program, name = self.container
            subprocess.run((program, "kill", name), capture_output=True, check=False)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass(frozen=True)
class Isolation:
    """A way to start a worker: its name, what it means in words, and the command."""

    name: str
    words: str
    command: tuple[str, ...]

    def start(self, errors: int = subprocess.DEVNULL) -> Sandbox:
        """Start a worker in a process group of its own."""
        command, inherited, named = self.command, dict[str, str](), None
        if self.name == "container":
            program, run, *options = command
            named = program, f"{IMAGE}-{os.getpid()}-{uuid4().hex}"
            command = (program, run, "--name", named[1], *options)
            inherited = {key: os.environ[key] for key in ("PATH", "HOME")}
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd="/",
            env=ENVIRONMENT | inherited,
            start_new_session=True,
        )
        return Sandbox(process, named)

    def end_those_of(self, judge: int) -> None:
        """End the containers of a judge that was ended itself: they outlive it, as no other sandbox does."""
        if self.name == "container":
            program = self.command[0]
            listing = (program, "ps", "--quiet", "--filter", f"name={IMAGE}-{judge}-")
            left = subprocess.run(listing, capture_output=True, text=True, check=False).stdout.split()
            if left:
                subprocess.run((program, "kill", *left), capture_output=True, check=False)


def bubblewrap() -> Isolation:
    """No network, no other process in sight, another user, nothing to write but a /tmp of its own."""
    package = importlib.util.find_spec("minitxl")
    answers = Path(str(package.origin)).parent if package else HERE
    paths = {"/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", sys.prefix, sys.base_prefix}
    for folder in map(Path, sys.path):
        if folder.is_dir() and "site-packages" in folder.parts:
            paths.add(str(folder))
    words = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]
    words += ["--cap-drop", "ALL", "--uid", NOBODY, "--gid", NOBODY, "--hostname", "worker"]
    words += ["--proc", "/proc", "--dev", "/dev", "--size", str(TMP), "--tmpfs", "/tmp", "--chdir", "/tmp"]
    for path in sorted(paths):
        words += ["--ro-bind-try", path, path]
    if any(answers.is_relative_to(path) for path in paths):
        words += ["--tmpfs", str(answers), "--remount-ro", str(answers)]
    for file in WORKER:
        words += ["--ro-bind", str(HERE / file), f"/worker/{file}"]
    words += ["--remount-ro", "/dev", "--remount-ro", "/"]  # else they are in RAM, and without a limit
    for name, value in ENVIRONMENT.items():
        words += ["--setenv", name, value]
    words += ["--as-pid-1", sys.executable, "-I", INSIDE]
    return Isolation("bubblewrap", "bubblewrap: no network, no files of yours, another user", tuple(words))


def container(program: str) -> Isolation:
    """The same by podman or docker, in the image that the shipped Containerfile makes."""
    words = [program, "run", "--rm", "--interactive", "--network=none", "--read-only", "--cap-drop=ALL"]
    words += ["--security-opt=no-new-privileges", "--pids-limit=64", "--memory=3g", f"--user={NOBODY}"]
    words += [f"--tmpfs=/tmp:size={TMP}", "--workdir=/tmp"]
    for name, value in ENVIRONMENT.items():
        words += ["--env", f"{name}={value}"] if name != "PATH" else []
    words += [IMAGE, "python", "-I", INSIDE]
    return Isolation("container", f"a container of {program}: no network, no files of yours", tuple(words))


def none(why: str = "as you asked", advice: str = "") -> Isolation:
    """A process of its own, which sees all that you see."""
    words = ". ".join(filter(None, (NO_ISOLATION.format(why=why), advice)))
    return Isolation("none", words, (sys.executable, "-I", str(HERE / "worker.py")))


def warning(isolation: Isolation) -> str:
    """Return a sentence on a limit that does not hold here, or "": a container has limits of its own."""
    return AS_ROOT if isolation.name != "container" and os.geteuid() == 0 else ""


@cache
def strongest(asked: str | None = None) -> Isolation:
    """Return the strongest isolation that runs here, or the one asked for."""
    failure = ""
    if asked in (None, "bubblewrap") and shutil.which("bwrap"):
        found = bubblewrap()
        place = found.command.index("--as-pid-1")
        trial = (*found.command[: place + 2], "-I", "-c", "pass")
        if not (failure := _failure(trial)):
            return found
    for program in CONTAINERS if asked in (None, "container") else ():
        if shutil.which(program) and not _failure((program, "image", "inspect", IMAGE)):
            isolation = container(program)
            if not _failure((*isolation.command[:-1], "-c", "pass")):
                return isolation
    if asked == "none":
        return none()
    if asked is None and failure:
        return none(f"since bubblewrap is installed and failed (“{failure}”), and no container runs here")
    if asked is None:
        return none(*MISSING)
    why = f", which failed (“{failure}”)" if failure else ""
    raise ValueError(f"isolation must be one that runs here, got {json.dumps(asked)}{why}")


def _failure(command: tuple[str, ...]) -> str:
    """Return why a command fails, in the last line of its own words if it has any; "" where it runs."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return reason(error) if isinstance(error, OSError) else "it takes more than 60 seconds"
    lines = done.stderr.decode(errors="replace").split("\n")
    said = next((line.strip() for line in reversed(lines) if line.strip()), f"exit code {done.returncode}")
    return said if done.returncode else ""
