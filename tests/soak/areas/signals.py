"""Trainings that are killed, stopped by bursts of signals, or have no room, and go on later."""

import json
import os
import signal
from collections.abc import Callable
from functools import partial
from math import inf
from pathlib import Path
from random import Random

from soak.attempt import Attempt
from soak.world import SMALL, World
from support import faults
from support.children import Child, context

from minitxl.training import metrics_log, run_folder
from minitxl.training.signals import STOPPING

NAME = "kills, signals, full disks"
BREAKS = 4
"""Most that happens to one training."""
STEPS = ["--steps", "8"]


def attempt(draw: Random, world: World, place: Path) -> Attempt:
    """Break a training off some times; it must end as one that nothing happened to."""
    words = ["train", str(place / "run"), "--text", str(world.text), *SMALL, *STEPS]
    happened, said = [], ""
    for _ in range(draw.randrange(1, BREAKS + 1)):
        kind, code, said, room = _broken_off(draw, words, place)
        happened.append(f"{kind}: {code}")
        if wrong := _wrong_with(code, said, room):
            return Attempt(f"minitxl {' '.join(words)}", "; ".join(happened), said, wrong)
    child = Child(context(), words, said_in=place / "said")
    code = child.end(60)
    if code is None:
        child.process.kill()
        wrong = "slow: it doesn't end"
    elif code != 0:
        wrong = "lost: the run does not go on"
    else:
        wrong = _differs(place / "run", _whole(world))
    return Attempt(f"minitxl {' '.join(words)}", "; ".join(happened), child.said, wrong)


def _broken_off(draw: Random, words: list[str], place: Path) -> tuple[str, int | None, str, float]:
    """Run the command until something happens to it; return what, its exit code, and its words.

    The last value is how many bytes of words there is room for: they go into a file, as all it writes.
    """
    folder = Path(words[1])
    moment, size = draw.randrange(1, 200), draw.randrange(100, 20_000)
    options: dict[str, Callable[[], None]] = {
        "a kill after a while": faults.nothing,
        "a burst of signals": faults.nothing,
        f"a kill at moment {moment}": partial(faults.killed_at, moment, folder),
        f"no space at moment {moment}": partial(faults.no_space_at, moment, folder),
        f"files of at most {size} bytes": partial(faults.files_of_at_most, size),
        f"killed for more than {size} bytes": partial(faults.files_of_at_most, size, or_killed=True),
    }
    kind = draw.choice(list(options))
    child = Child(context(), words, options[kind], said_in=place / "said")
    if options[kind] is faults.nothing:
        child.wait_for_news(draw.randrange(1, 9))
        child.process.join(draw.uniform(0, 0.02))
        numbers = [getattr(signal, draw.choice(STOPPING)) for _ in range(draw.randrange(1, 6))]
        for number in [signal.SIGKILL] if kind.startswith("a kill") else numbers:
            if child.process.exitcode is None:
                os.kill(child.process.pid, number)
    code = child.end(60)
    if code is None:
        child.process.kill()
        child.process.join()
    return kind, code, child.said, size if kind.endswith("bytes") else inf


def _wrong_with(code: int | None, said: str, room: float) -> str:
    if code is None:
        return "slow: it doesn't end"
    if "Traceback" in said:
        return f"traceback: {said.strip().splitlines()[-1]}"
    if code == 2 and said.count("minitxl: ") != 1 and len(said.encode()) < room:
        return "unclear: no sentence"
    stopping = {128 + getattr(signal, name) for name in STOPPING} | {
        -getattr(signal, name) for name in STOPPING
    }
    allowed = {0, 2, 130, -signal.SIGKILL, -signal.SIGXFSZ, *stopping}
    return "" if code in allowed else f"unclear: exit code {code}"


def _whole(world: World) -> Path:
    """Return the folder of the run that nothing happens to."""
    folder = world.folder / "undisturbed"
    if not folder.exists():
        words = ["train", str(folder), "--text", str(world.text), *SMALL, *STEPS]
        child = Child(context(), words, said_in=world.folder / "undisturbed-said")
        assert child.end(120) == 0, child.said
    return folder


def _differs(folder: Path, whole: Path) -> str:
    """Return what is not the same in two runs that have ended; "" if all is."""
    for name in (run_folder.checkpoint(folder, 8).name, *(path.name for path in whole.glob("best-*"))):
        if (folder / name).read_bytes() != (whole / name).read_bytes():
            return f"silent: {name} is another than without the fault"
    logs = [(path / metrics_log.LOG).read_text().splitlines() for path in (folder, whole)]
    steps = [[json.loads(line)["step"] for line in log] for log in logs]
    if steps[0] != steps[1]:
        return f"lost: the log has the steps {steps[0]}, not {steps[1]}"
    half = [path.name for path in folder.iterdir() if path.name not in {one.name for one in whole.iterdir()}]
    return f"lost: left behind: {half}" if half else ""
