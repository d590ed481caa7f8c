"""Shapes in signatures are checked while the tests run, and the longest files run first."""

import gc
from pathlib import Path

import jaxtyping
import pytest
import torch
from hypothesis import settings
from support import shapes

shapes.install()
torch.set_num_threads(1)  # the tensors are tiny
settings.register_profile("minitxl", deadline=None, max_examples=60)
settings.load_profile("minitxl")


ROOT = Path(__file__).parent.parent
LONGEST_FIRST = (
    "tests/browser/test_book.py",
    "tests/browser/test_lab.py",
    "notebooks/06b_context_length.ipynb",
    "tests/training/test_distributed.py",
    "tests/course/test_checks.py",
    "notebooks/10_training.ipynb",
    "notebooks/13_generation.ipynb",
    "notebooks/13b_your_own_text.ipynb",
    "notebooks/11_attention_over_memory.ipynb",
    "notebooks/00_start_here.ipynb",
    "tests/training/test_faults.py",
    "tests/training/test_loop.py",
    "notebooks/06_dependency_reach.ipynb",
    "tests/experiments/test_fingerprints.py",
    "tests/assignments/test_wrong_solutions.py",
    "tests/figures/test_legibility.py",
    "tests/classroom/test_round_trip.py",
    "tests/classroom/test_whole_notebooks.py",
    "tests/commands/test_main.py",
    "tests/course/test_dashboard.py",
    "tests/course/test_solutions.py",
    "notebooks/14_what_came_after.ipynb",
    "notebooks/05_absolute_positions_break.ipynb",
)
"""Files that take longest, the longest first, so that no processor is left with one of them at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {ROOT / name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: order.get(item.path, len(order)))


def pytest_collection_finish() -> None:
    """Let the garbage collector leave the imported modules and the tests alone, which stay to the end."""
    gc.freeze()


@pytest.fixture
def as_users_run_it():
    """Without the shape checks, which would speak before the package's own errors do."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
