"""The programme: areas, what an attempt of each may take, and the table of what came out."""

import os
import re
import signal
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from types import FrameType, ModuleType

import torch
from soak.areas import (
    bits,
    command_line,
    downloads,
    environment,
    python_api,
    released,
    run_folders,
    signals,
    tensor_bits,
    texts,
)
from soak.attempt import COLUMNS, FAULTS, Attempt, TooSlowError
from soak.world import World


@dataclass(frozen=True)
class Area:
    """A kind of attempts."""

    module: ModuleType
    share: float = 1.0
    """Attempts of it for one of another area."""
    seconds: float = 10
    """Longest that an attempt may take; it takes a hundredth where nothing is wrong."""

    @property
    def name(self) -> str:
        """Its name in the table."""
        return str(self.module.NAME)


AREAS = (
    Area(command_line),
    Area(texts),
    Area(run_folders, share=1.5),
    Area(released),
    Area(downloads, share=0.5, seconds=20),
    Area(python_api, share=4),
    Area(environment, share=0.5),
    Area(bits, share=4),
    Area(tensor_bits, share=2),
    Area(signals, share=0.03, seconds=200),
)
MEMORY = 512
"""MiB by which an attempt may increase what the process takes at most."""
ADDRESSES = 64 * 2**30
"""Bytes that a process of the programme may ask for: the system refuses more, as if none were left."""


def area_of(name: str) -> Area:
    """Return the area of this name."""
    return next(area for area in AREAS if area.name == name)


def attempt(area: Area, world: World, *, seed: int, number: int) -> Attempt:
    """Make one attempt, in a folder of its own; the same seed and number give the same again."""
    draw = Random(f"{seed} {area.name} {number}")
    torch.manual_seed(draw.randrange(2**31))
    before, environment_before = _peak(), dict(os.environ)
    with tempfile.TemporaryDirectory(dir=world.folder, ignore_cleanup_errors=True) as folder:
        try:
            with _within(area.seconds):
                further = (number,) if area.module is bits else ()
                made = area.module.attempt(draw, world, Path(folder), *further)
        except TooSlowError as slow:
            made = Attempt(str(slow), wrong=f"slow: more than {area.seconds} seconds")
    os.environ.clear()
    os.environ.update(environment_before)
    grown = (_peak() - before) // 1024
    if grown > MEMORY and not made.wrong:
        made = replace(made, wrong=f"slow: it took {grown:,} MiB of memory")
    return made


def order(seed: int, areas: Iterable[Area] = AREAS) -> Iterator[tuple[Area, int]]:
    """Yield areas, each with the number of its attempt, without end, each as often as its share says."""
    chosen, draw = list(areas), Random(seed)
    shares, numbers = [area.share for area in chosen], Counter[str]()
    while True:
        (area,) = draw.choices(chosen, weights=shares)
        yield area, numbers[area.name]
        numbers[area.name] += 1


def table(counts: Mapping[str, Mapping[str, int]]) -> str:
    """Return the table of attempts by area and verdict, in Markdown."""
    rows = [
        [name, sum(row.values()), *(row.get(column, 0) for column in COLUMNS)] for name, row in counts.items()
    ]
    total = ["together", *(sum(column) for column in list(zip(*rows, strict=True))[1:])] if rows else []
    head = ["kind", "attempts", *COLUMNS]
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows, *([total] if total else [])]
    return "\n".join(
        "| " + " | ".join(f"{cell:,}" if isinstance(cell, int) else cell for cell in line) + " |"
        for line in lines
    )


def faults(counts: Mapping[str, Mapping[str, int]]) -> int:
    """Return the number of attempts that were not answered well."""
    return sum(row.get(fault, 0) for row in counts.values() for fault in FAULTS)


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Raise a ``TooSlowError`` in the block after so many seconds, with the line that was at work."""

    def ring(_number: int, frame: FrameType | None) -> None:
        where = f"{frame.f_code.co_filename}, line {frame.f_lineno}" if frame else "no line"
        raise TooSlowError(where)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _peak() -> int:
    """Return the most KiB that the process had since the last call; 0 where the system does not say."""
    with suppress(OSError):
        peak = re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())
        Path("/proc/self/clear_refs").write_text("5")
        return int(peak[1]) if peak else 0
    return 0
