"""A course of one small assignment that `build.py` made, and what its students hand in."""

import importlib.util
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

FOLDER = Path(__file__).parents[2] / "notebooks" / "assignments"
NAME = "9_double"
IMPORTS = "import torch\n\nfrom minitxl.course.grading import variant"
DOUBLE = """def double(x):
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION"""
DOUBLE_TEST = """### BEGIN HIDDEN TESTS
from minitxl.course.grading import grade


def double_trial(seed):
    import torch

    from minitxl.course.grading import Trial

    draw = torch.Generator().manual_seed(seed)
    cases = [(torch.randn(3, generator=draw),) for _ in range(4)]
    return Trial(lambda x: 2 * x, cases, {"it is squared: double it": lambda x: x**2}, "notebook 99")


grade(double, double_trial)
### END HIDDEN TESTS"""
NUMBERS = """def my_numbers():
    ### BEGIN SOLUTION
    mine = variant("ada", layers=range(2, 99))
    return {"student": "ada", "layers": mine["layers"]}
    ### END SOLUTION"""
NUMBERS_TEST = """### BEGIN HIDDEN TESTS
from minitxl.course.grading import grade_numbers


def numbers_trial(student):
    return variant(student, layers=range(2, 99)), {}


grade_numbers(my_numbers, numbers_trial)
### END HIDDEN TESTS"""


def loaded(name):
    """Return a program of the assignments' folder as a module."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _flagged(cell, name, **flags):
    plain = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3}
    cell.id, cell.metadata.nbgrader = name, plain | flags | {"grade_id": name}
    return cell


def source():
    """Return the assignment as its instructor wrote it: 5 points, 3 points, and 2 by hand."""
    solution, test = {"solution": True}, {"grade": True, "locked": True}
    return new_notebook(
        cells=[
            _flagged(new_code_cell(IMPORTS), "imports", locked=True),
            _flagged(new_code_cell(DOUBLE), "double", **solution),
            _flagged(new_code_cell(DOUBLE_TEST), "double-test", **test, points=5),
            _flagged(new_code_cell(NUMBERS), "numbers", **solution),
            _flagged(new_code_cell(NUMBERS_TEST), "numbers-test", **test, points=3),
            _flagged(new_markdown_cell("An answer."), "written", **solution, grade=True, points=2),
        ],
        metadata={"kernelspec": {"name": "python3", "language": "python", "display_name": "Python 3"}},
    )


def build(course, folder):
    """Build the course in a folder, from a source notebook in another."""
    path = folder / f"{NAME}.ipynb"
    nbformat.write(source(), path)
    loaded("build").build(course, [path])
    return course


def numbers(student):
    """Return a solution of the numbers, as this student writes it."""
    return NUMBERS.replace("ada", student)


def notebook(**cells):
    """Return a blank submission with these cells in place of its own; ``top`` comes before all."""
    made = source()
    top = cells.pop("top", "")
    for cell in made.cells:
        if cell.metadata.nbgrader.solution and cell.cell_type == "code":
            cell.source = "raise NotImplementedError()"
        if cell.metadata.nbgrader.grade and cell.cell_type == "code":
            cell.source = "# a test"
        cell.source = cells.pop(cell.id, cell.source)
    assert not cells, cells
    if top:
        made.cells.insert(0, new_code_cell(top))
    return made


def hand_in(course, student, submission):
    """Save a submission as it comes back."""
    path = course / "downloaded" / NAME / f"{student}_{NAME}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(submission, path)
    return path
