"""Everything that needs a GPU, in pieces of ten minutes at most, into one folder of results.

    make gpu                          all pieces that have no result yet
    make gpu PIECES="tests steps"     these, even if they have one
    make gpu DEVICE=cpu SIZE=tiny     a rehearsal without a GPU: tiny shapes, whose times say nothing

A piece is a command in a process of its own. Its output is NAME.log; pieces.json has the machine and, of
each piece, its command, its exit code and its seconds. A piece that failed, or took too long, is run again
by the next call; the others need not be. bench_gpu.json has the items of the benchmark that are done, as one
result.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from minitxl.benchmark import bench
from minitxl.experiments.shared import results
from minitxl.files import atomic_write

LONGEST = 600
"""Seconds that a piece may take."""
ITEMS: tuple[bench.Name, ...] = (
    *("training-M", "evaluation-M", "generation-M", "generation-M16", "memory-M"),
    *("training-large", "memory-large"),
)
NOTEBOOKS = "08_xl_four_terms", "10_training", "11_attention_over_memory"
TESTED = "fast/test_cuda.py", "training/test_loop.py", "benchmark/test_bench.py"
HERE = Path(__file__).parent.parent
Command = list[str]


def pieces(device: str, size: str, folder: Path) -> dict[str, Command]:
    """Return the command of each piece."""
    python, sized = sys.executable, ["--device", device, "--size", size, "--folder", str(folder)]
    tests = [str(HERE / name) for name in TESTED]
    benches = {item: [python, "-m", "gpu.bench_item", item, *sized] for item in ITEMS}
    notebooks = {
        f"notebook-{stem[:2]}": [
            *(python, "-m", "nbconvert", "--to", "notebook", "--execute"),
            *("--output-dir", str(folder), str(HERE.parent / "notebooks" / f"{stem}.ipynb")),
        ]
        for stem in NOTEBOOKS
    }
    return {
        "tests": [python, "-m", "pytest", "-q", "-k", "gpu or cuda", *tests],
        "steps": [python, "-m", "gpu.steps", *sized],
        **benches,
        **notebooks,
    }


def run(command: Command, log: Path, *, size: str) -> dict[str, Any]:
    """Run a piece and return what is remembered of it; the exit code is None where it took too long."""
    profile = "full" if size == "real" else "quick"
    paths = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    settings = {**os.environ, "MINITXL_PROFILE": profile, "PYTHONPATH": paths}
    began, code = time.perf_counter(), None
    with log.open("w", encoding="utf-8") as words:
        try:
            done = subprocess.run(
                command, stdout=words, stderr=subprocess.STDOUT, env=settings, timeout=LONGEST, check=False
            )
            code = done.returncode
        except subprocess.TimeoutExpired:
            words.write(f"\nlonger than {LONGEST} seconds\n")
    return {"command": command, "code": code, "seconds": round(time.perf_counter() - began, 1)}


def main(words: list[str] | None = None) -> int:
    """Run pieces and return the exit code: 0 where all have succeeded."""
    parser = argparse.ArgumentParser(prog="make gpu", description=__doc__)
    parser.add_argument("pieces", nargs="*", metavar="PIECE")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--size", choices=["real", "tiny"], default="real")
    parser.add_argument("--folder", type=Path, default=Path("runs/gpu"))
    flags = parser.parse_args(words)
    if flags.device == "cuda" and not torch.cuda.is_available():
        parser.error("device must be cpu where there is no CUDA GPU, got cuda")
    commands = pieces(flags.device, flags.size, flags.folder)
    if unknown := [name for name in flags.pieces if name not in commands]:
        parser.error(f"a piece must be one of {', '.join(commands)}, got {unknown[0]}")
    flags.folder.mkdir(parents=True, exist_ok=True)
    path = flags.folder / "pieces.json"
    done: dict[str, Any] = json.loads(path.read_text("utf-8"))["pieces"] if path.exists() else {}
    for name in flags.pieces or [name for name in commands if not _succeeded(done, name)]:
        print(f"{name} …", flush=True)
        done[name] = run(commands[name], flags.folder / f"{name}.log", size=flags.size)
        print(f"{name}: exit code {done[name]['code']} after {done[name]['seconds']} s", flush=True)
        seconds = sum(piece["seconds"] for piece in done.values())
        machine = results.provenance(flags.device, seconds=seconds)
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps({"machine": machine, "pieces": done}, indent=1), "utf-8")
    joined_items(flags.folder)
    failed = [name for name in done if not _succeeded(done, name)]
    print(
        f"{flags.folder}: " + (f"not done: {', '.join(failed)}" if failed else "all pieces so far are done")
    )
    return int(bool(failed))


def joined_items(folder: Path) -> None:
    """Write the items of the benchmark that have a result, in the order of ``ITEMS``, as one result."""
    parts = [folder / item / "bench.json" for item in ITEMS]
    measured = [results.read(part) for part in parts if part.exists()]
    if not measured:
        return
    last, data = measured[-1], {"reference": measured[-1].data["reference"]}
    items = {name: size for part in measured for name, size in part.settings["items"].items()}
    data["items"] = [row for part in measured for row in part.data["items"]]
    data["versions"] = {name: told for part in measured for name, told in part.data["versions"].items()}
    seconds = round(sum(part.provenance["seconds"] for part in measured), 1)
    joined = results.Result(
        name="bench_gpu",
        settings={**last.settings, "items": items},
        seeds=last.seeds,
        fingerprint=None,
        data=data,
        provenance={**last.provenance, "seconds": seconds, "systems": data["versions"]},
    )
    results.write(joined, folder)


def _succeeded(done: Mapping[str, Any], name: str) -> bool:
    return name in done and done[name]["code"] == 0


if __name__ == "__main__":
    sys.exit(main())
