"""Make a course that nbgrader can run: student, solution and instructor versions of every assignment.

    python notebooks/assignments/build.py FOLDER             all
    python notebooks/assignments/build.py FOLDER 1 4         these

``FOLDER/source`` is the instructor's, ``FOLDER/release`` the students', ``FOLDER/solution`` what to hand
out afterwards: solved, without hidden tests. ``FOLDER/course.toml`` has the course's rules, and is written if
there is none. Submissions, marks and feedback that are there already stay.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path

import nbformat
from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import ClearHiddenTests
from traitlets.config import Config, PyFileConfigLoader

from minitxl.course.marking.rules import EXAMPLE, Rules

HERE = Path(__file__).parent
CONFIG = "nbgrader_config.py"


def api_of(course: Path) -> NbGraderAPI:
    """nbgrader itself, for a course that was built."""
    config = Config(PyFileConfigLoader(CONFIG, path=str(course)).load_config())
    config.CourseDirectory.root = str(course)
    return NbGraderAPI(CourseDirectory(config=config), config=config)


def of_year(notebook: nbformat.NotebookNode, year: str) -> nbformat.NotebookNode:
    """The notebook with everyone's numbers drawn anew for a year."""
    if year:
        (imports,) = (cell for cell in notebook.cells if cell.id == "imports")
        imports.source = (
            f"from functools import partial\n{imports.source}\n\nvariant = partial(variant, year={year!r})"
        )
    return notebook


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
    api = api_of(course.resolve())
    for source in sources:
        for version in ("source", "solution"):
            (course / version / source.stem).mkdir(parents=True, exist_ok=True)
        notebook = of_year(nbformat.read(source, as_version=4), year)
        nbformat.write(notebook, course / "source" / source.stem / source.name)
        made = api.generate_assignment(source.stem)
        if not made["success"]:
            raise RuntimeError(made["log"] or made["error"])
        solved, _ = ClearHiddenTests().preprocess(notebook, {})
        nbformat.write(solved, course / "solution" / source.stem / source.name)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make a course that nbgrader can run.")
    parser.add_argument("folder", type=Path, help="where the course lies, or is to lie")
    parser.add_argument("names", nargs="*", help="beginnings of the assignments' names; none means all")
    asked = parser.parse_args()
    every = sorted(HERE.glob("*.ipynb"))
    sources = [path for path in every if not asked.names or path.name.startswith(tuple(asked.names))]
    if not sources:
        sys.exit(
            f"no assignment begins with {' or '.join(asked.names)}: there are "
            + ", ".join(path.stem for path in every)
        )
    build(asked.folder, sources)
    print(f"{len(sources)} assignments: hand out {asked.folder / 'release'}, keep {asked.folder / 'source'}")


if __name__ == "__main__":
    main()
