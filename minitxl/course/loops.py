"""Tells a loop over the queries from operations on whole tensors, by counting the steps of both."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from minitxl.course.verdicts import Verdict


class Steps(TorchDispatchMode):
    """Counts tensor operations, and the lines of Python that run in the file of ``function``.

    A loop on one line counts anew in each round. ``shapes`` holds the shape of each slice.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.file = getattr(getattr(function, "__code__", None), "co_filename", None)
        self.steps, self.shapes = 0, list[tuple[int, ...]]()

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
        self.steps += 1
        if func.__name__.startswith("slice") and isinstance(result, Tensor):
            self.shapes.append(tuple(result.shape))
        return result


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
