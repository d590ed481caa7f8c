"""Examples in docstrings, of every module that has one."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import minitxl

PACKAGE = Path(minitxl.__file__).parent
WITH_EXAMPLES = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in PACKAGE.rglob("*.py")
    if ">>> " in path.read_text("utf-8")
)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_print_what_they_say(name):
    found = doctest.testmod(import_module(name))
    assert found.attempted
    assert not found.failed
