"""A notebook of the course, cell by cell, for tests of its pieces and of its exercises."""

import ast
import re
from pathlib import Path

import nbformat
import pytest
import torch

from minitxl.course import tables, widgets

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def imported(source):
    """The names that the import statements of a cell bind."""
    kinds = ast.Import, ast.ImportFrom
    statements = [node for node in ast.parse(source).body if isinstance(node, kinds)]
    names = {}
    exec(compile(ast.Module(statements, type_ignores=[]), "imports", "exec"), names)
    return names


class Page:
    """Cells by id, run with the names that the notebook imports, some of them replaced by ``names``."""

    def __init__(self, stem, **names):
        cells = nbformat.read(NOTEBOOKS / f"{stem}.ipynb", as_version=4).cells
        self.cells = {cell.id: cell.source for cell in cells}
        self.names = imported(self.cells["setup"]) | names

    def run(self, *cells, **names):
        """The names after these cells, given by id or as text.

        A widget shows its picture as words: to draw it takes longer than most cells, and no test looks at it.
        """
        space = self.names | names
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(widgets, "image", lambda picture: picture.alt)
            for cell in cells:
                exec(self.cells.get(cell, cell), space)
        return space

    def rows_of(self, cell, *before, **names):
        """The rows of the table at the end of a cell, after the cells that it builds on."""
        shown = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tables, "table", lambda rows, **look: shown.append(rows))
            self.run(*before, cell, **names)
        return shown[-1]

    def after_setup(self, *cells, change=("", ""), within=None):
        """The names after the notebook's own set-up and these cells, a text in them, or in one, changed."""
        before = {cell: self.cells[cell] for cell in ("setup", *cells)}
        after = {
            cell: source.replace(*change) if within in (None, cell) else source
            for cell, source in before.items()
        }
        assert change == ("", "") or before != after
        return self.run(*after.values())

    def solutions(self):
        """All that the exercises fold away, by name."""
        return self.run(
            "import torch",
            *(
                block
                for source in self.cells.values()
                for block in re.findall(r"<details>.*?```python\n(.*?)```", source, flags=re.DOTALL)
            ),
        )

    def solution(self, cell):
        """The function that an exercise folds away."""
        (code,) = re.findall(r"```python\n(.*?)```", self.cells[cell], flags=re.DOTALL)
        return self.run(code)[re.search(r"def (\w+)", code)[1]]

    def stub(self, cell):
        """The function that an exercise begins with."""
        code = self.cells[f"{cell}-stub"].partition("\n\n\n")[0]
        return self.run(code)[re.search(r"def (\w+)", code)[1]]

    def assert_solved_by_its_solution_alone(self, cell, check):
        assert check(self.solution(cell)).right
        verdict = check(self.stub(cell))
        assert (verdict.right, verdict.message) == (False, "there is nothing here yet")

    def assert_folded_solution_is_right_and_stub_blank(self, blank, text, check, **names):
        """``text`` folds the solution away, and ``blank`` is the code cell that begins with the stub."""
        (code,) = re.findall(r"```python\n(.*?)```", self.cells[text], flags=re.DOTALL)
        stub = self.cells[blank].partition("\n\n\n")[0]
        name = re.search(r"def (\w+)", stub)[1]
        answer = self.run(code, **names)[name]
        assert check(answer).right, check(answer)
        assert check(self.run(stub)[name]).word == "blank"


def assert_each_mistake_gets_its_own_sentence(check, judges, monkeypatch, *, wrong, least):
    """``judges`` is the room of the check, ``wrong`` an answer that is none of the mistakes."""
    seen, judge = {}, judges.judge
    monkeypatch.setattr(judges, "judge", lambda attempt, **all_: seen.update(all_) or judge(attempt, **all_))
    state = torch.get_rng_state()
    check(lambda *case: wrong)
    assert len(seen["mistakes"]) >= least
    for sentence, mistakes in seen["mistakes"].items():
        for mistake in [mistakes] if callable(mistakes) else mistakes:
            verdict = check(mistake)
            assert (verdict.right, verdict.message) == (False, sentence)
    assert torch.equal(torch.get_rng_state(), state)
