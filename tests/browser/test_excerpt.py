"""An excerpt of a notebook holds the cells that its last one needs, and no others."""

import nbformat
import pytest
from excerpt import excerpt, value_of
from nbformat.v4 import new_code_cell, new_notebook


@pytest.fixture
def kept(tmp_path):
    """Return the numbers of the cells that the last of these needs."""

    def needed(*sources):
        path = tmp_path / "notebook.ipynb"
        cells = [new_code_cell(source, id=str(number)) for number, source in enumerate(sources)]
        nbformat.write(new_notebook(cells=cells), path)
        found = excerpt(path, cells[-1].id)
        return [sources.index(source) for source in found], found

    return needed


def test_a_cell_is_kept_that_gives_a_name_to_one_that_is_kept(kept):
    numbers, sources = kept("a = 2", "unused = 3", "def b():\n    return a", "b() + 1")
    assert numbers == [0, 2, 3]
    assert value_of(sources) == 3


@pytest.mark.parametrize(
    "anew",
    [
        "a = 1\nb = a",
        "for a in [1]:\n    b = a",
        "a = 1\n\ndef c():\n    return a\n\nb = c()",
        "import math as a\nb = 1",
        "from contextlib import nullcontext\nwith nullcontext(1) as a:\n    b = a",
    ],
)
def test_a_name_that_a_cell_gives_before_it_uses_it_is_asked_of_no_other(kept, anew):
    numbers, _ = kept("a = 0", anew, "b")
    assert numbers == [1, 2]


@pytest.mark.parametrize(
    "old",
    [
        "a = a + 1\nb = a",
        "b = a\na = 1",
        "if a:\n    a = 1\nb = a",
        "if a:\n    import math as a\nb = int(not a)",
        "if a:\n\n    def a():\n        pass\n\nb = a",
        "try:\n    a = 1\nexcept ValueError:\n    pass\nb = a",
        "b = [a for _ in range(1)][0]\na = 1",
        "def c():\n    return a\n\nb = c()\na = 1",
        "a += 1\nb = a",
    ],
)
def test_a_name_that_a_cell_uses_first_or_gives_under_a_condition_is_asked_of_an_earlier_one(kept, old):
    numbers, sources = kept("a = 0", old, "b")
    assert numbers == [0, 1, 2]
    assert value_of(sources) in (0, 1)
