"""Make a course that nbgrader can run: student, solution and instructor versions of every assignment.

    python notebooks/assignments/build.py FOLDER             all
    python notebooks/assignments/build.py FOLDER 1 4         these

``FOLDER/source`` is the instructor's, ``FOLDER/release`` the students', ``FOLDER/solution`` what to hand
out afterwards: solved, without hidden tests. The project's notebook is made of its page, ``project.md``:
each row of the rubric becomes a task, with the row as its mark scheme. ``FOLDER/course.toml`` has the
course's rules, and is written if there is none. Submissions, marks and feedback that are there already stay.
"""

import argparse
import os
import re
import shutil
import sys
from pathlib import Path

import nbformat
from nbformat.v4 import new_markdown_cell, new_notebook
from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import ClearHiddenTests
from traitlets.config import Config, PyFileConfigLoader

from minitxl.course.marking.notebooks import Assignment
from minitxl.course.marking.rules import EXAMPLE, Rules, toml

HERE = Path(__file__).parent
CONFIG = "nbgrader_config.py"
PROJECT = HERE / "project.md"
KERNEL = {"name": "python3", "language": "python", "display_name": "Python 3 (ipykernel)"}


def api_of(course: Path) -> NbGraderAPI:
    """nbgrader itself, for a course that was built."""
    config = Config(PyFileConfigLoader(CONFIG, path=str(course)).load_config())
    config.CourseDirectory.root = str(course)
    return NbGraderAPI(CourseDirectory(config=config), config=config)


def project(page: str) -> nbformat.NotebookNode:
    """The project's notebook: its page, and for each row of the rubric a task, which a person marks."""
    cells = [new_markdown_cell(page.strip(), id="page")]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| (\d+) \|$", page, re.MULTILINE)
    for part, full, half, points in rows:
        name = part.replace(" ", "-")
        scheme = f"- {points} points: {full}\n- {int(points) / 2:g} points: {half}"
        task = new_markdown_cell(
            f"## {part.capitalize()} ({points} points)\n\n=== BEGIN MARK SCHEME ===\n\n{scheme}\n\n"
            "=== END MARK SCHEME ===",
            id=name,
        )
        task.metadata.nbgrader = {"grade": False, "solution": False, "locked": True, "task": True}
        task.metadata.nbgrader |= {"grade_id": name, "points": int(points), "schema_version": 3}
        cells += [task, new_markdown_cell("*Here, in as many cells as you need*", id=f"{name}-here")]
    return new_notebook(cells=cells, metadata={"kernelspec": KERNEL})


def of_year(notebook: nbformat.NotebookNode, year: str) -> nbformat.NotebookNode:
    """The notebook with everyone's numbers drawn anew for a year."""
    for cell in notebook.cells if year else ():
        if cell.id == "imports":
            cell.source = (
                f"from functools import partial\n{cell.source}\n\nvariant = partial(variant, year={year!r})"
            )
    return notebook


def is_handed_in(course: Path, name: str) -> bool:
    """Return True if anything came back for an assignment."""
    places = [
        *(course / "submitted").glob(f"*/{name}"),
        *(course / at / name for at in ("downloaded", "marks")),
    ]
    return any(path.is_dir() and any(path.iterdir()) for path in places)


def check_years(course: Path, names: list[str], year: str) -> None:
    """Refuse another year for what was handed in: it has the numbers of the year before."""
    for name in names:
        if not (course / "source" / name).is_dir() or not is_handed_in(course, name):
            continue
        built = Assignment.of(course, name).year
        if built not in (None, year):
            raise ValueError(
                f"{name} was handed in for year = {toml(built)}, and course.toml has year = {toml(year)}: "
                f"write {toml(built)} back into it, and begin another year in a folder of its own"
            )


def build(course: Path, sources: list[Path]) -> None:
    """Write the three versions; raise RuntimeError with nbgrader's own words where it refuses."""
    os.environ["PATH"] = os.pathsep.join(
        [str(Path(sys.executable).parent), os.environ["PATH"]]
    )  # for alembic
    course.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / CONFIG, course)
    if not (course / "course.toml").exists():
        (course / "course.toml").write_text(EXAMPLE, "utf-8")
    year = Rules.of(course).year
    check_years(course, [source.stem for source in sources], year)
    api = api_of(course.resolve())
    for source in sources:
        name, is_project = source.stem, source == PROJECT
        notebook = project(PROJECT.read_text("utf-8")) if is_project else nbformat.read(source, as_version=4)
        write(of_year(notebook, year), course / "source", name)
        made = api.generate_assignment(name)
        if not made["success"]:
            raise RuntimeError(made["log"] or made["error"])
        if not is_project:
            solved, _ = ClearHiddenTests().preprocess(notebook, {})
            write(solved, course / "solution", name)


def write(notebook: nbformat.NotebookNode, version: Path, name: str) -> None:
    """Write one of an assignment's versions."""
    (version / name).mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, version / name / f"{name}.ipynb")


def main() -> None:
    parser = argparse.ArgumentParser(description="Make a course that nbgrader can run.")
    parser.add_argument("folder", type=Path, help="where the course lies, or is to lie")
    parser.add_argument("names", nargs="*", help="beginnings of the assignments' names; none means all")
    asked = parser.parse_args()
    every = [*sorted(HERE.glob("*.ipynb")), PROJECT]
    sources = [path for path in every if not asked.names or path.name.startswith(tuple(asked.names))]
    if not sources:
        sys.exit(
            f"no assignment begins with {' or '.join(asked.names)}: there are "
            + ", ".join(path.stem for path in every)
        )
    try:
        build(asked.folder, sources)
    except ValueError as error:
        sys.exit(str(error))
    print(f"{len(sources)} built: hand out {asked.folder / 'release'}, keep {asked.folder / 'source'}")
    if not Rules.of(asked.folder).year:
        print(
            f"{asked.folder / 'course.toml'} has no year: before you hand anything out, write one into it "
            "and give this command again"
        )


if __name__ == "__main__":
    main()
