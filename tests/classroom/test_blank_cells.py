"""Cells that are filled in, told from those that a student left as they were handed out."""

import pytest
from support import small_course

from minitxl.course.marking.notebooks import Assignment, Handed

STUB = "raise NotImplementedError()"
FILLED = {
    "the error in a comment": f"def double(x):\n    # YOUR CODE HERE\n    # {STUB}\n    return 2 * x",
    "the error behind a return": f'def double(x):\n    """2x"""\n    return 2 * x\n    {STUB}',
    "the error where it never comes": f"def double(x):\n    if False: {STUB}\n    return 2 * x",
    "a name before it": f"def triple(x):\n    {STUB}\n\ndouble = torch.add",
    "a function in its place": f"@torch.compile\ndef double(x):\n    {STUB}",
}
BLANK = {
    "as it was handed out": f'def double(x):\n    """Twice."""\n    # YOUR CODE HERE\n    {STUB}',
    "the error alone": STUB,
}


def handed(*sources):
    """Return a submission with these copies of a cell, one after another."""
    notebook = small_course.notebook(double=sources[0])
    (place,) = (i for i, cell in enumerate(notebook.cells) if cell.id == "double")
    for source in sources[1:]:
        again = small_course.notebook(double=source).cells[place]
        notebook.cells.insert(place := place + 1, again)
    return Handed(Assignment(small_course.NAME, small_course.source()), notebook)


@pytest.mark.parametrize("source", FILLED.values(), ids=FILLED)
def test_code_is_compared_and_run_wherever_the_words_of_the_stub_stand(source):
    assert handed(source).code() == {"double": source}
    older = "def double(x):\n    return x"
    twice = handed(older, source)
    assert twice.code() == {"double": source}
    assert [one for name, one in twice.to_run() if name.startswith("double")] == [older, source]


@pytest.mark.parametrize("source", BLANK.values(), ids=BLANK)
def test_a_copy_that_is_still_blank_does_not_count(source):
    assert handed(source).code() == {}
    older = "def double(x):\n    return x"
    twice = handed(older, source)
    assert twice.code() == {"double": older}
    assert [one for name, one in twice.to_run() if name.startswith("double")] == [older]
