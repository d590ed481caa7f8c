"""Tells a loop over the queries from operations on whole tensors, by counting the steps of both."""

import inspect
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from torch import Tensor

from minitxl.course.checker import Verdict, Watch

SELECTS = {"gather", "index", "index_select", "take", "embedding", "masked_select"}
SELECTS |= {"mm", "bmm", "mv", "dot", "addmm", "addmv", "baddbmm", "addbmm", "convolution"}
SELECTS |= {"grid_sampler", "grid_sampler_2d", "grid_sampler_3d", "_embedding_bag"}
"""Operations that pick numbers by a table of places: of indices, or a matrix of ones and zeros."""
WRITES = {"index_put", "scatter", "scatter_add", "index_add", "index_copy", "put", "masked_scatter"}
WRITES |= {"scatter_reduce", "index_reduce"}
"""Operations that write numbers to the places in a table; one number for all places moves none."""
HIDES = {"mul", "div", "where", "masked_fill", "addcmul", "minimum", "maximum"}
"""Operations that leave, of many numbers, those that a table of ones and zeros chooses, to be added up."""


class Steps(Watch):
    """Counts tensors that operations make, and the lines of Python that run in the file of ``function``.

    A loop on one line counts anew in each round, and an operation counts once for each piece that it cuts.
    ``shapes`` holds the shape of each slice, ``tables`` counts operations that move numbers by a table, and
    ``chosen_from`` is how many numbers the largest result of an operation that hides some of them has.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.file = getattr(getattr(inspect.unwrap(function), "__code__", None), "co_filename", None)
        self.steps, self.tables, self.shapes = 0, 0, list[tuple[int, ...]]()
        self.chosen_from = 0

    def __enter__(self) -> "Steps":
        self.before = sys.gettrace()
        super().__enter__()  # type: ignore[no-untyped-call]
        sys.settrace(self._enter_frame)
        return self

    def __exit__(self, *error: Any) -> None:
        sys.settrace(self.before)
        super().__exit__(*error)  # type: ignore[no-untyped-call]

    def _enter_frame(self, frame: FrameType, event: str, value: Any) -> Callable[..., Any] | None:
        return self._line if frame.f_code.co_filename == self.file else None

    def _line(self, frame: FrameType, event: str, value: Any) -> Callable[..., Any]:
        self.steps += event == "line"
        return self._line

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        self.steps += len(result) if isinstance(result, tuple | list) else 1
        operation = func.overloadpacket.__name__.rstrip("_")
        self.tables += _moves_by_table(operation, args)
        if operation in HIDES:
            self.chosen_from = max(self.chosen_from, result.numel())
        if func.__name__.startswith("slice") and isinstance(result, Tensor):
            self.shapes.append(tuple(result.shape))
        return result


def _moves_by_table(operation: str, args: tuple[Any, ...]) -> bool:
    if operation in SELECTS:
        return True
    numbers = [one for one in args[1:] if isinstance(one, Tensor) and one.is_floating_point()]
    return operation in WRITES and any(one.numel() > 1 for one in numbers)


def without_loop(
    verdict: Verdict,
    attempt: Callable[..., Any],
    few: tuple[Any, ...],
    many: tuple[Any, ...],
    *,
    rows: str = "queries",
) -> Verdict:
    """Return the verdict, or a refusal if a right attempt takes more steps for many queries than for few.

    ``few`` and ``many`` are the arguments for 4 and for 32 queries, or other ``rows``.
    """
    if not verdict.right:
        return verdict
    counts = []
    for case in (few, many):
        with Steps(attempt) as counted:
            attempt(*case)
        counts.append(counted.steps)
    if counts[1] <= counts[0]:
        return verdict
    return Verdict(
        False,
        f"right numbers, but the number of operations grows with the {rows}: {counts[0]} for 4, "
        f"{counts[1]} for 32. Work on all rows at once, without a loop",
    )
