"""Checks of notebook 09: the shift, its index, and its two-sided form."""

from collections.abc import Callable
from typing import Any

import torch
from einops import rearrange
from torch import Tensor
from torch.nn.functional import pad

from minitxl.course.exercises import Verdict, judge
from minitxl.positions import rel_shift


def check_rel_shift(attempt: Callable[..., Any]) -> Verdict:
    """``attempt(scores)`` for [..., query, dist]; entries of the future may be anything."""

    def causal(shift: Callable[..., Any]) -> Callable[..., Any]:
        def shifted(scores: Tensor) -> Any:
            found = shift(scores)
            if not isinstance(found, Tensor) or found.shape != scores.shape:
                return found
            return found.tril(scores.shape[-1] - scores.shape[-2])

        return shifted

    def line(padded: Tensor) -> Tensor:
        return rearrange(padded, "... query dist -> ... (query dist)")

    def rows_of(entries: Tensor, scores: Tensor) -> Tensor:
        return rearrange(entries, "... (query key) -> ... query key", query=scores.shape[-2])

    def right(scores: Tensor) -> Tensor:
        return rows_of(line(pad(scores, (0, 1)))[..., scores.shape[-2] :], scores)

    def end(scores: Tensor) -> Tensor:
        return rows_of(line(pad(scores, (1, 0)))[..., : -scores.shape[-2]], scores)

    def row(scores: Tensor) -> Tensor:
        return pad(scores, (1, 0))[..., 1:, :]

    def square(scores: Tensor) -> Tensor:
        key = scores.shape[-1]
        tall = line(pad(scores, (1, 0))).unflatten(-1, (key + 1, key))
        return tall[..., 1:, :]

    def one(scores: Tensor) -> Tensor:
        query, key = scores.shape[-2:]
        return rows_of(line(pad(scores, (1, 0)))[..., 1 : 1 + query * key], scores)

    def alike(scores: Tensor) -> Tensor:
        return scores.roll(1 - scores.shape[-2], dims=-1)

    mistakes = {
        "the zero column is on the wrong side: pad(scores, (1, 0)) puts it in front": right,
        "the wrong end is sliced off: what goes are the first query entries of the line": end,
        "a row of the padded matrix is sliced off: read it as one line first, then drop its start": row,
        "this works where query = key alone: the rows of the reshaped matrix are query long, not key": square,
        "one entry is dropped in place of query: that takes the padding away and moves no row": one,
        "every row is moved alike: row i has to move by query - 1 - i": alike,
    }
    generator = torch.Generator().manual_seed(9)
    shapes = [(4, 4), (3, 5), (1, 6), (2, 3, 4, 7), (5, 6)]
    return judge(
        causal(attempt),
        reference=causal(rel_shift),
        cases=[(torch.randn(shape, generator=generator),) for shape in shapes],
        mistakes={why: causal(wrong) for why, wrong in mistakes.items()},
        praise="equal to the package's on every entry that a causal mask leaves",
    )


def check_column(attempt: Callable[..., Any]) -> Verdict:
    """``attempt(i, j, query, key)``: the column, before the shift, of query i and key j."""
    mistakes: dict[str, Callable[..., int]] = {
        "query i of the segment stands at position key - query + i, behind the memory, and not at i": (
            lambda i, j, query, key: key - 1 - i + j
        ),
        "that is the distance; the columns run from distance key-1 down to 0": (
            lambda i, j, query, key: key - query + i - j
        ),
        "off by one: the last query moves by nothing, so its column is j": (
            lambda i, j, query, key: query - i + j
        ),
        "the sign is wrong: later queries move less to the left, not more": (lambda i, j, query, key: i + j),
    }
    cases = [
        (i, j, query, key)
        for query, key in ((4, 4), (3, 5), (1, 6), (2, 9))
        for i in range(query)
        for j in range(key - query + i + 1)
    ]
    return judge(
        attempt,
        reference=lambda i, j, query, key: query - 1 - i + j,
        cases=cases,
        mistakes=mistakes,
        praise="right for every query and every key it may see",
    )


def check_two_sided(attempt: Callable[..., Any]) -> Verdict:
    """``attempt(scores)``: [..., query, dist] of the distances key-1 … -(query-1) to [..., query, key]."""

    def reference(scores: Tensor) -> Tensor:
        query, dist = scores.shape[-2:]
        rows = [scores[..., i, query - 1 - i : dist - i] for i in range(query)]
        return torch.stack(rows, dim=-2)

    def narrow(scores: Tensor) -> Tensor:
        query, dist = scores.shape[-2:]
        return rel_shift(scores[..., : dist - query + 1])

    def last(scores: Tensor) -> Tensor:
        return rel_shift(scores)[..., scores.shape[-2] - 1 :]

    def whole(scores: Tensor) -> Tensor:
        return rel_shift(scores)

    def unshifted(scores: Tensor) -> Tensor:
        query, dist = scores.shape[-2:]
        return scores[..., : dist - query + 1]

    mistakes = {
        "the columns of the future are cut off before the shift, so its rows slide into each other: "
        "shift all columns, then cut": narrow,
        "the wrong columns are kept: the keys are the first of the shifted row": last,
        "nothing is wrong but the width: after the shift, only the first key columns are keys": whole,
        "the rows are cut and not shifted": unshifted,
    }
    generator = torch.Generator().manual_seed(9)
    shapes = [(3, 7), (4, 7), (1, 5), (2, 2, 3, 6)]
    return judge(
        attempt,
        reference=reference,
        cases=[(torch.randn(shape, generator=generator),) for shape in shapes],
        mistakes=mistakes,
        praise="right on both sides of the diagonal, and nothing to mask",
    )
