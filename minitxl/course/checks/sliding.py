"""Check of notebook 03: the sliding window, which scores the last prediction of every window."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from minitxl.course.checker import Verdict, judge

RowLosses = Callable[[Tensor, Tensor], Tensor]
"""From tokens and targets, [window seg] each, to the loss of every target, [window seg]."""


class Counting:
    """Losses that can be checked in one's head: 100 times the target, and the sum of the tokens up to it."""

    def __call__(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of every target."""
        return 100.0 * targets + tokens.cumsum(dim=-1)

    def __repr__(self) -> str:
        return "100 · target + the sum of the row up to there"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counting)

    __hash__ = None  # type: ignore[assignment]


def solution_sliding(losses_of_rows: RowLosses, stream: Tensor, seg_len: int) -> Tensor:
    """Return the loss of the last prediction of each window of ``seg_len`` tokens, [window]."""
    tokens, targets = (ids.unfold(0, seg_len, 1) for ids in (stream[:-1], stream[1:]))
    return losses_of_rows(tokens, targets)[:, -1]


def check_sliding(attempt: Callable[[RowLosses, Tensor, int], Any]) -> Verdict:
    """Judge ``attempt(losses_of_rows, stream, seg_len)``: [window], one loss a window."""

    def rows(stream: Tensor, seg_len: int, step: int = 1) -> tuple[Tensor, Tensor]:
        return stream[:-1].unfold(0, seg_len, step), stream[1:].unfold(0, seg_len, step)

    mistakes: dict[str, Callable[..., Tensor]] = {
        "the window moves by its whole length: these are isolated segments. It moves by one token": (
            lambda losses, stream, seg_len: losses(*rows(stream, seg_len, seg_len))[:, -1]
        ),
        "each window scores its first prediction, which is made from one token: take the last": (
            lambda losses, stream, seg_len: losses(*rows(stream, seg_len))[:, 0]
        ),
        "these are the losses of all predictions of every window: each window scores its last one": (
            lambda losses, stream, seg_len: losses(*rows(stream, seg_len))
        ),
        "this is the mean over each window: it scores its last prediction alone": (
            lambda losses, stream, seg_len: losses(*rows(stream, seg_len)).mean(dim=-1)
        ),
        "the targets are the tokens themselves: target t is token t + 1": lambda losses, stream, seg_len: (
            losses(rows(stream, seg_len)[0], rows(stream, seg_len)[0])[:, -1]
        ),
        "the last window is missing: a stream of n tokens has n - L windows with a target for each token": (
            lambda losses, stream, seg_len: losses(*rows(stream, seg_len))[:-1, -1]
        ),
        "the windows are one token too long: a window holds seg_len tokens": lambda losses, stream, seg_len: (
            losses(*rows(stream, seg_len + 1))[:, -1]
        ),
        "the windows are one token too short: a window holds seg_len tokens": (
            lambda losses, stream, seg_len: losses(*rows(stream, seg_len - 1))[:, -1]
        ),
        "this is the mean over all windows: every target has a loss of its own, [window]": (
            lambda losses, stream, seg_len: losses(*rows(stream, seg_len))[:, -1].mean()
        ),
    }
    cases = [
        (Counting(), torch.arange(1, 6), 2),
        (Counting(), torch.tensor([3, 1, 4, 1, 5, 9, 2, 6]), 3),
        (Counting(), torch.arange(20) * 7 % 11, 4),
        (Counting(), torch.tensor([2, 7, 1, 8]), 3),
    ]
    names = ("losses_of_rows", "stream", "seg_len")
    return judge(attempt, reference=solution_sliding, cases=cases, mistakes=mistakes, names=names)
