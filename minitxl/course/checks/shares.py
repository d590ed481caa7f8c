"""Check of notebook 10's division of a batch among several GPUs: each lane keeps its own memory."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from minitxl.course.checker import Function, Verdict, judge, listed

Share = tuple[Tensor, Tensor, Tensor | None]


def solution_shares(tokens: Tensor, targets: Tensor, memory: Tensor | None, n_gpu: int) -> list[Share]:
    """Return the share of each GPU: tokens and targets of its lanes, and their memory, which may be None."""
    return _shares(tokens, targets, memory, n_gpu)


def check_shares(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(tokens, targets, memory, n_gpu)``: a list of tokens, targets and memory of each GPU."""
    mistakes: dict[str, Function | Sequence[Function]] = {
        f"memory is divided along {axis}: its lanes are axis 1, [layer batch mem model]": [
            _divided(cut, memory_axis, knows_none=knows)
            for cut in (_chunks, _slices)
            for knows in (True, False)
        ]
        for memory_axis, axis in {0: "its layers", 2: "its tokens", 3: "the numbers of a state"}.items()
    } | {
        "every GPU gets the memory of all lanes: it reads only some of them": lambda *case: _shares(
            *case, to_all=True
        ),
        "split takes the size of a part, chunk the number of parts: chunk(n_gpu)": lambda *case: _shares(
            *case, split=True
        ),
        "memory is dropped, and each segment would be read without context": (
            lambda tokens, targets, memory, n_gpu: _shares(tokens, targets, None, n_gpu)
        ),
        "the segment is divided along its tokens: lanes are axis 0, [batch seg]": lambda *case: _shares(
            *case, axis=1
        ),
        "lanes and memory do not belong together: the first GPU has the memory of the last": lambda *case: (
            _shares(*case, turned=True)
        ),
        "the lanes are dealt out in turn: give the first GPU the first lanes, as chunk does": _dealt,
        "before the first segment memory is None, which has no lanes to divide: then each GPU gets None": [
            _divided(cut, 1, knows_none=False) for cut in (_chunks, _slices)
        ],
        "a tensor of many numbers is neither true nor false: ask whether memory is None": _truth_told(
            lambda tokens, targets, memory, n_gpu: _shares(tokens, targets, memory if memory else None, n_gpu)
        ),
        "of each GPU three things: tokens, targets and memory": lambda tokens, targets, memory, n_gpu: [
            share[:2] for share in _shares(tokens, targets, memory, n_gpu)
        ],
        "first the GPUs, then what each of them gets: here the tokens of all come first": lambda *case: list(
            zip(*_shares(*case), strict=True)
        ),
    }
    generator, cases = torch.Generator().manual_seed(13), []
    for batch, seg, mem, n_gpu in ((4, 3, 2, 2), (6, 4, 4, 2), (4, 6, 4, 4), (6, 6, 6, 3), (4, 3, 0, 2)):
        tokens = torch.randint(90, (batch, seg + 1), generator=generator)
        memory = torch.randn(12, batch, mem, 12, generator=generator) if mem else None
        cases.append((tokens[:, :-1], tokens[:, 1:], memory, n_gpu))

    return judge(
        _truth_told(listed(attempt)),
        reference=solution_shares,
        cases=cases,
        mistakes=mistakes,
        praise="each lane has its own memory, and the first segment has none",
        names=["tokens", "targets", "memory", "n_gpu"],
    )


def _shares(
    tokens: Tensor,
    targets: Tensor,
    memory: Tensor | None,
    n_gpu: int,
    *,
    axis: int = 0,
    to_all: bool = False,
    turned: bool = False,
    split: bool = False,
) -> list[Share]:
    if split:
        parts = (tokens.split(n_gpu), targets.split(n_gpu))
        return list(zip(*parts, [None] * n_gpu if memory is None else memory.split(n_gpu, 1), strict=False))
    if memory is None or to_all:
        memories: Sequence[Tensor | None] = [memory] * n_gpu
    else:
        memories = memory.chunk(n_gpu, dim=1)[:: -1 if turned else 1]
    return list(zip(tokens.chunk(n_gpu, axis), targets.chunk(n_gpu, axis), memories, strict=False))


def _chunks(memory: Any, n_gpu: int, axis: int, n_lane: int) -> Sequence[Tensor]:
    chunks: Sequence[Tensor] = memory.chunk(n_gpu, dim=axis)
    return chunks


def _slices(memory: Any, n_gpu: int, axis: int, n_lane: int) -> Sequence[Tensor]:
    """Return slices as long as a GPU has lanes, whatever the axis is."""
    before = (slice(None),) * axis
    return [memory[(*before, slice(gpu * n_lane, (gpu + 1) * n_lane))] for gpu in range(n_gpu)]


def _divided(cut: Function, axis: int, *, knows_none: bool) -> Function:
    """Return a function that cuts memory along an axis, and fails at None unless it ``knows_none``."""

    def divided(tokens: Tensor, targets: Tensor, memory: Tensor | None, n_gpu: int) -> list[Share]:
        is_none = knows_none and memory is None
        memories = [None] * n_gpu if is_none else cut(memory, n_gpu, axis, len(tokens) // n_gpu)
        return list(zip(tokens.chunk(n_gpu), targets.chunk(n_gpu), memories, strict=True))

    return divided


class TruthOfTensorError(RuntimeError):
    """A tensor of several numbers that stands where True or False is asked for."""


def _truth_told(attempt: Any) -> Any:
    """Return an attempt whose question ``if memory`` raises an error that no other mistake raises."""

    def told(*case: Any) -> Any:
        try:
            return attempt(*case)
        except RuntimeError as error:
            if "Boolean value of Tensor" in str(error):
                raise TruthOfTensorError(str(error)) from error
            raise

    return told if callable(attempt) else attempt


def _dealt(tokens: Tensor, targets: Tensor, memory: Tensor | None, n_gpu: int) -> list[Share]:
    return [
        (tokens[gpu::n_gpu], targets[gpu::n_gpu], None if memory is None else memory[:, gpu::n_gpu])
        for gpu in range(n_gpu)
    ]
