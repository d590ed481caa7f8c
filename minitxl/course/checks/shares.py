"""Check of notebook 10's division of a batch among several GPUs: each lane keeps its own memory."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from minitxl.course.verdicts import Function, Verdict, judge

Share = tuple[Tensor, Tensor, Tensor | None]


def solution_shares(tokens: Tensor, targets: Tensor, memory: Tensor | None, n_gpu: int) -> list[Share]:
    """Return the share of each GPU: tokens and targets of its lanes, and their memory, which may be None."""
    return _shares(tokens, targets, memory, n_gpu)


def check_shares(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(tokens, targets, memory, n_gpu)``: a list of tokens, targets and memory of each GPU."""
    mistakes: dict[str, Function] = {
        "memory is divided along its layers: its lanes are axis 1, [layer batch mem model]": lambda *case: (
            _shares(*case, memory_axis=0)
        ),
        "memory is divided along its tokens: its lanes are axis 1, [layer batch mem model]": lambda *case: (
            _shares(*case, memory_axis=2)
        ),
        "memory is divided along the numbers of a state: its lanes are axis 1, [layer batch mem model]": (
            lambda *case: _shares(*case, memory_axis=3)
        ),
        "every GPU gets the memory of all lanes: it reads only some of them": lambda *case: _shares(
            *case, memory_axis=None
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
        "before the first segment memory is None, which has no lanes to divide: then each GPU gets None": (
            lambda tokens, targets, memory, n_gpu: list(
                zip(tokens.chunk(n_gpu), targets.chunk(n_gpu), _chunks_of(memory, n_gpu), strict=True)
            )
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

    def listed(*case: Any) -> Any:
        """A zip can be gone through once, which is enough for the notebook, and not for a comparison."""
        shares = attempt(*case)
        return list(shares) if isinstance(shares, zip) else shares

    return judge(
        listed if callable(attempt) else attempt,
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
    memory_axis: int | None = 1,
    turned: bool = False,
    split: bool = False,
) -> list[Share]:
    if split:
        parts = (tokens.split(n_gpu), targets.split(n_gpu))
        return list(zip(*parts, [None] * n_gpu if memory is None else memory.split(n_gpu, 1), strict=False))
    if memory is None or memory_axis is None:
        memories: Sequence[Tensor | None] = [memory] * n_gpu
    else:
        memories = memory.chunk(n_gpu, dim=memory_axis)[:: -1 if turned else 1]
    return list(zip(tokens.chunk(n_gpu, axis), targets.chunk(n_gpu, axis), memories, strict=False))


def _chunks_of(memory: Any, n_gpu: int) -> tuple[Tensor, ...]:
    chunks: tuple[Tensor, ...] = memory.chunk(n_gpu, dim=1)
    return chunks


def _dealt(tokens: Tensor, targets: Tensor, memory: Tensor | None, n_gpu: int) -> list[Share]:
    return [
        (tokens[gpu::n_gpu], targets[gpu::n_gpu], None if memory is None else memory[:, gpu::n_gpu])
        for gpu in range(n_gpu)
    ]
