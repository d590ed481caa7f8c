"""Attempts to break the package, for so many minutes: ``make soak MINUTES=10``.

All that is random comes from a seed. Each attempt that is not answered well is printed with the command
that repeats it, and written to a file beside the table. A process that crashes or hangs is replaced.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from soak import programme, world
from soak.attempt import Attempt
from soak.worker import Worker, limit


def main() -> int:
    """Run the programme, or one attempt of it; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long")
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().randrange(10**6), help="of all attempts"
    )
    parser.add_argument("--area", choices=[area.name for area in programme.AREAS], help="only this kind")
    parser.add_argument("--number", type=int, help="only this attempt of it")
    parser.add_argument("--folder", type=Path, default=Path("build/soak"), help="where the table is written")
    flags = parser.parse_args()
    if flags.number is not None:
        return _one(flags.area, flags.seed, flags.number)
    flags.folder.mkdir(parents=True, exist_ok=True)
    return _run(flags)


def _one(name: str, seed: int, number: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        limit()
        made = programme.attempt(programme.area_of(name), world.make(Path(folder)), seed=seed, number=number)
    print(_told(name, seed, number, made))
    return int(bool(made.wrong))


def _run(flags: argparse.Namespace) -> int:
    areas = [programme.area_of(flags.area)] if flags.area else programme.AREAS
    counts = {area.name: Counter[str]() for area in areas}
    print(f"seed {flags.seed}, {flags.minutes:g} minutes", flush=True)
    with tempfile.TemporaryDirectory() as folder, (flags.folder / "faults.txt").open("w") as faults:
        worker = Worker(Path(folder))
        ends = time.monotonic() + 60 * flags.minutes
        for area, number in programme.order(flags.seed, areas):
            if time.monotonic() > ends:
                break
            if worker.gone:
                worker = Worker(Path(folder))
            made = worker.attempt(area, flags.seed, number)
            counts[area.name][made.verdict] += 1
            if made.wrong:
                text = _told(area.name, flags.seed, number, made)
                print(f"\n{text}", flush=True)
                print(text, end="\n\n", file=faults, flush=True)
        worker.end()
    table = programme.table(counts)
    (flags.folder / "table.md").write_text(f"seed {flags.seed}, {flags.minutes:g} minutes\n\n{table}\n")
    print(
        f"\n{table}\n\nwritten to {flags.folder / 'table.md'}, what failed to {flags.folder / 'faults.txt'}"
    )
    return int(programme.faults(counts) > 0)


def _told(name: str, seed: int, number: int, made: Attempt) -> str:
    again = f'PYTHONPATH=tests {sys.executable} -m soak --seed {seed} --area "{name}" --number {number}'
    return (
        f"{made.wrong or made.verdict}\n  {made.tried}\n  given: {made.given[:1500]}\n"
        f"  {made.came_out[:3000]}\n  again: {again}"
    )


if __name__ == "__main__":
    sys.exit(main())
