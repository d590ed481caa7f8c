import os
import platform
import subprocess
import sys

import pytest

from minitxl import allocator

FAULTS = """
import resource, sys
from minitxl.allocator import keep_freed_ram
kept = keep_freed_ram()
def touched():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    piece = bytearray(40_000_000)
    piece[::4096] = piece[::4096]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(kept, *(touched() for _ in range(4)))
"""


def pages(**variables: str) -> tuple[bool, list[int]]:
    """Return what keep_freed_ram says, and how many new pages each of four large pieces took in turn."""
    clean = {name: value for name, value in os.environ.items() if name not in allocator.OF_GLIBC}
    done = subprocess.run(
        [sys.executable, "-c", FAULTS], env=clean | variables, capture_output=True, text=True, check=True
    )
    kept, *counts = done.stdout.split()
    return kept == "True", [int(count) for count in counts]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the rule is glibc's")
def test_a_large_piece_takes_the_pages_of_the_one_before():
    kept, (first, *later) = pages()
    assert kept
    assert first > 5_000  # 9,766 pages of 4,096 bytes, but for larger ones
    assert max(later) < first / 10
    kept, counts = pages(MINITXL_MALLOC="system")
    assert not kept
    assert min(counts) > 5_000


@pytest.mark.parametrize("name", allocator.OF_GLIBC)
def test_a_rule_that_the_user_has_chosen_is_respected(name, monkeypatch):
    monkeypatch.setenv(name, "1")
    assert not allocator.keep_freed_ram()


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_other_systems_are_left_alone(system, monkeypatch):
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda name: pytest.fail("the C library was asked"))
    assert not allocator.keep_freed_ram()


def test_another_c_library_is_left_alone(monkeypatch):
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda name: object())
    assert not allocator.keep_freed_ram()


def test_a_wrong_word_is_told(monkeypatch):
    monkeypatch.setenv(allocator.VARIABLE, "none")
    with pytest.raises(ValueError, match=r"^MINITXL_MALLOC must be keep or system, got none$"):
        allocator.keep_freed_ram()
