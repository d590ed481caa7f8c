"""Notebooks as a reader leaves them who has filled every blank with its printed solution."""

import re

import nbformat
import pytest
from nbclient import NotebookClient
from page import NOTEBOOKS

IN_EVERY_TEST = ("01_attention",)
"""Notebooks whose run is part of `make test`; `make test-solutions` runs all."""
STEMS = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
BLANK = re.compile(r"^def (\w+)\((?:(?!^def |\n\n\n).)*?\n    raise NotImplementedError[^\n]*", re.S | re.M)


def solved(notebook):
    """The notebook with the solutions in the blanks, and the names of the blanks."""
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    folded = "\n\n\n".join(re.findall(r"<details>.*?</details>", prose, re.S))
    blocks = re.findall(r"```python\n(.*?)```", folded, re.S)
    names = []

    def solution(blank):
        names.append(blank[1])
        (block,) = (one for one in blocks if re.search(rf"^def {blank[1]}\(", one, re.M))
        return block.strip()

    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = BLANK.sub(solution, cell.source)
    return notebook, names


def said(cell):
    """Return the text of a cell's outputs."""
    return "\n".join(
        output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs
    )


@pytest.mark.parametrize(
    "stem",
    [pytest.param(stem, marks=() if stem in IN_EVERY_TEST else pytest.mark.every_notebook) for stem in STEMS],
)
def test_with_its_printed_solutions_a_notebook_runs_to_its_end_on_the_readers_code(stem, monkeypatch):
    monkeypatch.setenv("MINITXL_PROFILE", "quick")
    notebook, names = solved(nbformat.read(NOTEBOOKS / f"{stem}.ipynb", as_version=4))
    assert names
    NotebookClient(notebook, timeout=300).execute(cwd=str(NOTEBOOKS))
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell in code:
        if re.search(rf"\b(use|check_\w+)\(({'|'.join(names)})\b", cell.source):
            shown = said(cell)
            assert "not yet:" not in shown, shown
            assert "package's function is used" not in shown, shown
    assert sum(said(cell).count("right: ") for cell in code) >= len(names)


@pytest.mark.parametrize("stem", STEMS)
def test_every_blank_of_every_notebook_has_a_printed_solution(stem):
    notebook, names = solved(nbformat.read(NOTEBOOKS / f"{stem}.ipynb", as_version=4))
    assert names
    assert "raise NotImplementedError" not in "".join(
        cell.source for cell in notebook.cells if cell.cell_type == "code"
    )
