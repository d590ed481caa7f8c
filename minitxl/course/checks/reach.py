"""Judges the exercises of notebook 06: reach by formula, reach of the gradient, RECL."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from einops import reduce
from jaxtyping import Float
from torch import Tensor

from minitxl import memory
from minitxl.analysis import context_length
from minitxl.course.exercises import Verdict, judge

GroupLosses = Float[Tensor, "system context target"]


def check_reach(attempt: Callable[..., Any]) -> Verdict:
    """``attempt(offset, n_layer, seg_len, mem_len)``: tokens back, without a window."""

    def right(offset: int, n_layer: int, seg_len: int, mem_len: int) -> int:
        return memory.reach(offset, n_layer=n_layer, seg_len=seg_len, mem_len=mem_len)

    def last_query(offset: int, n_layer: int, seg_len: int, mem_len: int) -> int:
        return right(seg_len - 1, n_layer, seg_len, mem_len)

    mistakes: dict[str, Callable[..., int]] = {
        "N·(M + L) counts a segment in each layer: a state in memory sees its own offset and M more": (
            lambda offset, n_layer, seg_len, mem_len: n_layer * (mem_len + seg_len)
        ),
        "o + N·M is right where L divides M; elsewhere the oldest state in memory is not the first "
        "of its segment, and sees its own offset beside M": lambda offset, n_layer, seg_len, mem_len: (
            offset + n_layer * mem_len
        ),
        "M / L is rounded down: a part of a segment counts as one, so round up, -(-M // L)": (
            lambda offset, n_layer, seg_len, mem_len: (
                offset + mem_len + (n_layer - 1) * seg_len * (mem_len // seg_len)
            )
        ),
        "the first layer has its own M, so only N - 1 layers add a hop: you count N": (
            lambda offset, n_layer, seg_len, mem_len: (
                offset + mem_len + n_layer * seg_len * -(-mem_len // seg_len)
            )
        ),
        "this is the last query's reach: put the offset that was asked in place of L - 1": last_query,
        "one too many: the query itself is 0 tokens back": lambda *case: right(*case) + 1,
    }
    random = torch.Generator().manual_seed(6)
    cases = [(3, 3, 4, 4), (0, 1, 5, 7), (2, 4, 6, 0), (1, 3, 4, 6)]
    for _ in range(60):
        seg_len = int(torch.randint(1, 12, (), generator=random))
        offset = int(torch.randint(seg_len, (), generator=random))
        n_layer, mem_len = (int(torch.randint(low, 30, (), generator=random)) for low in (1, 0))
        cases.append((offset, n_layer, seg_len, mem_len))
    return judge(attempt, reference=right, cases=cases, mistakes=mistakes)


def check_gradient_reach(attempt: Callable[..., Any]) -> Verdict:
    """``attempt(offset, n_layer, seg_len, mem_len, window)``, with the stop-gradient; window may be None."""

    def right(offset: int, n_layer: int, seg_len: int, mem_len: int, window: int | None) -> int:
        return memory.reach(offset, n_layer=n_layer, seg_len=seg_len, mem_len=0, window=window)

    def flowing(offset: int, n_layer: int, seg_len: int, mem_len: int, window: int | None) -> int:
        return memory.reach(offset, n_layer=n_layer, seg_len=seg_len, mem_len=mem_len, window=window)

    mistakes: dict[str, Callable[..., int]] = {
        "this is how far information goes; the stop-gradient cuts every edge into memory": flowing,
        "one hop into memory is one too many: the states there are read, but no gradient enters them": (
            lambda offset, n_layer, seg_len, mem_len, window: offset + mem_len
        ),
        "the window is forgotten: N layers go back no more than N·(W - 1) tokens": (
            lambda offset, n_layer, seg_len, mem_len, window: offset
        ),
        "a window of W holds the query itself, so one layer goes back W - 1": (
            lambda offset, n_layer, seg_len, mem_len, window: (
                offset if window is None else min(offset, n_layer * window)
            )
        ),
        "each layer goes back W - 1 from where the last one landed: N of them N·(W - 1)": (
            lambda offset, n_layer, seg_len, mem_len, window: (
                offset if window is None else min(offset, window - 1)
            )
        ),
    }
    cases = [
        (offset, n_layer, 16, mem_len, window)
        for offset in (0, 5, 15)
        for n_layer in (1, 2, 4)
        for mem_len in (0, 16, 24)
        for window in (None, 1, 3, 9)
    ]
    return judge(attempt, reference=right, cases=cases, mistakes=mistakes)


def check_recl(attempt: Callable[..., Any]) -> Verdict:
    """``attempt(losses, which, lengths, r)``: RECL in tokens of one system of a group.

    ``losses`` is [system context target] in nats, ``which`` the system, ``lengths`` the contexts.
    """
    mistakes: dict[str, Callable[..., int]] = {
        "the baseline is the model's own loss: b(c, t) is the smallest of the whole group": partial(
            _walk, own=True
        ),
        "T is chosen once: rank the targets anew at every c": partial(_walk, ranked_once=True),
        "f(c, c') lacks its minimum with the baseline b(c, t)": partial(_walk, no_minimum=True),
        "T holds the easiest targets: take those of the largest b(c, t)": partial(_walk, easiest=True),
        "you return c', and the context that no longer gains is c": partial(_walk, later=True),
    }
    return judge(attempt, reference=_recl, cases=list(_groups(30)), mistakes=mistakes)


def _recl(losses: GroupLosses, which: int, lengths: list[int], r: float) -> int:
    group = {str(i): dict(zip(lengths, one, strict=True)) for i, one in enumerate(losses)}
    return context_length.recl(group, r=r)[str(which)].tokens


def _walk(
    losses: GroupLosses,
    which: int,
    lengths: list[int],
    r: float,
    *,
    own: bool = False,
    ranked_once: bool = False,
    no_minimum: bool = False,
    easiest: bool = False,
    later: bool = False,
) -> int:
    """Appendix C with one step of it wrong."""
    best = losses[which] if own else reduce(losses, "system context target -> context target", "min")
    count = max(1, round(r * best.shape[1]))
    for at in range(len(lengths) - 1):
        baseline = best[at]
        order = best[0 if ranked_once else at].sort(descending=not easiest, stable=True).indices[:count]
        before, after = (
            (losses[which, c] if no_minimum else torch.minimum(baseline, losses[which, c]))[order]
            .mean()
            .exp()
            for c in (at, at + 1)
        )
        if (before - after) / before < 0.01:
            return lengths[at + 1 if later else at]
    return lengths[-1]


def _groups(number: int) -> list[tuple[GroupLosses, int, list[int], float]]:
    """Groups of three systems whose losses fall with context, each at its own pace and to its own floor."""
    random = torch.Generator().manual_seed(60)
    groups = []
    for one in range(number):
        rates, floors = (0.3 + torch.rand(3, 1, 40, generator=random) for _ in range(2))
        steps = torch.arange(8).reshape(1, 8, 1)
        noise = 0.05 * torch.rand(3, 8, 40, generator=random)
        losses = (2 * floors + 2 * torch.exp(-rates * steps) + noise).double()
        groups.append((losses, one % 3, list(range(8, 65, 8)), (0.1, 0.5, 1.0)[one // 3 % 3]))
    return groups
