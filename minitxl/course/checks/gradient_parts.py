"""Check of notebook 04: the gradient of a weight in two parts, through memory and through the segment."""

from collections.abc import Callable
from typing import Any

import torch
from einops import einsum
from torch import Tensor

from minitxl.course.checker import Verdict, judge


def split_gradient(context: Tensor, slopes: Tensor, mem: int) -> tuple[Tensor, Tensor]:
    """Return the gradient of a weight [inner model] through the first ``mem`` keys, and the others."""
    return _slope(context[:, :mem], slopes[:, :mem]), _slope(context[:, mem:], slopes[:, mem:])


def _slope(states: Tensor, slopes: Tensor) -> Tensor:
    return einsum(states, slopes, "batch key model, batch key inner -> inner model")


def check_split_gradient(attempt: Callable[[Tensor, Tensor, int], Any]) -> Verdict:
    """Judge ``attempt(context, slopes, mem)``: memory's part of a gradient [inner model], then the rest."""

    def listed(context: Tensor, slopes: Tensor, mem: int) -> Any:
        parts = attempt(context, slopes, mem)
        return tuple(parts) if isinstance(parts, list) else parts

    mistakes: dict[str, Callable[..., Any]] = {
        "both sums are exchanged: memory's comes first": lambda context, slopes, mem: split_gradient(
            context, slopes, mem
        )[::-1],
        "these are [model inner], as in the equation: PyTorch stores a weight as its transpose, "
        "[inner model]": lambda context, slopes, mem: tuple(
            part.T for part in split_gradient(context, slopes, mem)
        ),
        "memory is taken from the end: it is the front of the axis key, and the segment comes last": (
            lambda context, slopes, mem: split_gradient(context, slopes, context.shape[1] - mem)[::-1]
        ),
        "the rows of the batch are kept apart: the loss is one number for all, so sum over batch too": (
            lambda context, slopes, mem: tuple(
                einsum(context[:, part], slopes[:, part], "b key model, b key inner -> b inner model")
                for part in (slice(0, mem), slice(mem, None))
            )
        ),
        "that is the mean over the batch: the gradient is the sum": lambda context, slopes, mem: tuple(
            part / len(context) for part in split_gradient(context, slopes, mem)
        ),
        "one of them is the whole gradient: cut the keys in two, and each sum gets one part": (
            lambda context, slopes, mem: (
                split_gradient(context, slopes, mem)[0],
                _slope(context, slopes),
            )
        ),
        "that is the whole gradient: cut the keys in two, at mem, and return two sums": (
            lambda context, slopes, mem: _slope(context, slopes)
        ),
    }
    draw = torch.Generator().manual_seed(14)
    sizes = [(1, 3, 2, 1, 1), (2, 5, 2, 3, 2), (3, 4, 3, 3, 3), (2, 4, 2, 3, 0)]
    cases = [
        (
            torch.randn(batch, key, model, generator=draw),
            torch.randn(batch, key, inner, generator=draw),
            mem,
        )
        for batch, key, model, inner, mem in sizes
    ]
    names = ("context", "slopes", "mem")
    return judge(
        listed,
        reference=split_gradient,
        cases=cases,
        mistakes=mistakes,
        names=names,
        praise="both sums, and together they are the whole gradient",
    )
