"""How long nbgrader takes to mark one submission of each assignment, into ``figures/classroom.json``.

python notebooks/assignments/time_marking.py
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from time import perf_counter

from build import HERE, build
from tqdm import tqdm

from minitxl.experiments import results

ROUNDS = 3


def seconds(course: Path, name: str) -> float:
    """From the start of ``nbgrader autograde`` to its end, for a submission that is all right."""
    began = perf_counter()
    subprocess.run(
        ["nbgrader", "autograde", name, "--student=ada", "--create", "--force"],
        cwd=course,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=True,
        capture_output=True,
    )
    return perf_counter() - began


def main() -> None:
    sources = sorted(HERE.glob("*.ipynb"))
    measured: dict[str, list[float]] = {source.stem: [] for source in sources}
    with TemporaryDirectory() as folder:
        course = Path(folder)
        build(course, sources)
        shutil.copytree(course / "solution", course / "submitted" / "ada")
        for _ in tqdm(range(ROUNDS), unit="round"):
            for name, found in measured.items():
                found.append(seconds(course, name))
    data = {
        name: {"seconds": median(found), "shortest": min(found), "longest": max(found)}
        for name, found in measured.items()
    }
    each = mean(row["seconds"] for row in data.values())
    data["mean"] = {"seconds": each, "hours_for_200": 200 * each / 3600}
    provenance = results.provenance("cpu", seconds=sum(map(sum, measured.values())))
    results.write(
        results.Result("classroom", {"rounds": ROUNDS}, [], None, data, provenance),
        HERE.parents[1] / "figures",
    )
    print(f"{each:.0f} seconds a submission", file=sys.stderr)


if __name__ == "__main__":
    main()
