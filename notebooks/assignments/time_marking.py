"""How long ``make mark`` takes for twelve submissions of each assignment, into ``figures/classroom.json``.

python notebooks/assignments/time_marking.py
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from build import HERE, build
from tqdm import tqdm

from minitxl.course.marking.classroom import Course
from minitxl.course.marking.isolation import strongest
from minitxl.experiments.shared import results

STUDENTS = 12


def seconds(course: Path, name: str, processes: int) -> float:
    """From the start of marking twelve solved notebooks to their points in the gradebook."""
    solved = (course / "solution" / name / f"{name}.ipynb").read_bytes()
    for number in range(STUDENTS):
        path = course / "downloaded" / name / f"student{number}_{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(solved)
    marked = Course.of(course, strongest(), processes).mark(name, again=True, progress=lambda _: None)
    if marked.unmarked:
        raise RuntimeError(f"all of {name} must be marked, got {marked.unmarked}")
    return marked.seconds


def main() -> None:
    sources = sorted(HERE.glob("*.ipynb"))
    processes = os.cpu_count() or 1
    with TemporaryDirectory() as folder:
        build(Path(folder), sources)
        whole = {source.stem: seconds(Path(folder), source.stem, processes) for source in tqdm(sources)}
    data = {
        name: {"seconds": spent / STUDENTS, "minutes_for_200": spent / STUDENTS * 200 / 60}
        for name, spent in whole.items()
    }
    longest = max(row["minutes_for_200"] for row in data.values())
    data["longest"] = {"minutes_for_200": longest}
    provenance = results.provenance("cpu", seconds=sum(whole.values()))
    settings = {"submissions": STUDENTS, "processes": processes, "isolation": strongest().name}
    results.write(
        results.Result("classroom", settings, [], None, data, provenance), HERE.parents[1] / "figures"
    )
    print(f"at most {longest:.0f} minutes for 200 submissions", file=sys.stderr)


if __name__ == "__main__":
    main()
