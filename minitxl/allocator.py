"""The C library's rule for large pieces of memory, which costs training on words a quarter of its time.

glibc asks the system for each large tensor and gives it back when it is freed, and the system clears
every page before it hands it out again. The scores of 10,000 words are such tensors at each step. The
commands, and the benchmark for our own systems, tell glibc to keep what it has for the next tensor.
"""

import ctypes
import os
import sys

VARIABLE = "MINITXL_MALLOC"
"""Environment variable: ``system`` leaves the C library's own rule."""
OF_GLIBC = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES")
"""Environment variables by which a user chooses the rule; they are respected."""
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Numbers of ``mallopt``'s options in glibc's malloc.h: what is kept at the end, what is asked for apart."""
KEPT, ASKED_FOR_APART = 2_000_000_000, 1_000_000_000


def keep_freed_ram() -> bool:
    """Have freed RAM kept for the next tensor; return True if the C library does so."""
    chosen = os.environ.get(VARIABLE, "keep")
    if chosen not in ("keep", "system"):
        raise ValueError(f"{VARIABLE} must be keep or system, got {chosen}")
    if chosen == "system" or sys.platform != "linux" or any(name in os.environ for name in OF_GLIBC):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    options = {MMAP_THRESHOLD: ASKED_FOR_APART, TRIM_THRESHOLD: KEPT}
    return all(library.mallopt(option, size) == 1 for option, size in options.items())
