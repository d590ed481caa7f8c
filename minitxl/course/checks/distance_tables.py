"""Checks of notebook 07's exercises: rows with two limits, T5's groups of distances, a ruler of values."""

from collections.abc import Callable
from math import log
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from minitxl.course.checker import Verdict, judge
from minitxl.course.checks.shaw import Rows, distance, rows, solution_value_lookup
from minitxl.course.loops import without_loop

Distances = Int[Tensor, " pos"]


def check_two_limits(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(n_query, n_key, left, right)``: row left - clip(i - j, -right, left), no loop."""

    def reference(n_query: int, n_key: int, left: int, right: int) -> Rows:
        return left - distance(n_query, n_key).clamp(-right, left)

    mistakes: dict[str, Callable[..., Rows]] = {
        "the sign is turned round: row 0 is the farthest past, so the rows grow with j": (
            lambda n_query, n_key, left, right: right + distance(n_query, n_key).clamp(-right, left)
        ),
        "the sign is turned round: take the clipped distance off left, since row 0 is the farthest past": (
            lambda n_query, n_key, left, right: left + distance(n_query, n_key).clamp(-right, left)
        ),
        "the limits are in each other's place: left is for the past, where i - j is positive": (
            lambda n_query, n_key, left, right: left - distance(n_query, n_key).clamp(-left, right)
        ),
        "left and right are swapped in the offset alone: 'itself' is row left, so its row is left - "
        "the clipped distance": (
            lambda n_query, n_key, left, right: right - distance(n_query, n_key).clamp(-right, left)
        ),
        "the queries are counted from 0: query 0 is key number n_key - n_query": (
            lambda n_query, n_key, left, right: (
                left - (torch.arange(n_query)[:, None] - torch.arange(n_key)).clamp(-right, left)
            )
        ),
        "both sides have the same limit here: the future has one of its own": (
            lambda n_query, n_key, left, right: left - distance(n_query, n_key).clamp(-left, left)
        ),
        "nothing is clipped: a distance beyond the limit has no row of its own": (
            lambda n_query, n_key, left, right: left - distance(n_query, n_key)
        ),
        "these are clipped distances and no rows: the farthest past has row 0": (
            lambda n_query, n_key, left, right: distance(n_query, n_key).clamp(-right, left)
        ),
        "the axes are swapped: i changes along the rows, [query key]": (
            lambda n_query, n_key, left, right: reference(n_query, n_key, left, right).T
        ),
    }
    verdict = judge(
        attempt,
        reference=reference,
        cases=[(2, 5, 2, 1), (4, 4, 1, 2), (3, 9, 4, 0), (1, 6, 0, 3), (5, 7, 64, 8)],
        mistakes=mistakes,
        praise="right for limits that differ, with memory and without",
        names=("n_query", "n_key", "left", "right"),
    )
    return without_loop(verdict, attempt, (4, 40, 3, 2), (32, 40, 3, 2))


def check_t5_group(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(distance)``: T5's group of each distance 0, 1, …, 32 groups up to 128, causal."""

    def groups(distance: Distances, *, base: float = 8.0, start: int = 16, most: int = 31) -> Distances:
        far = start + (distance.clamp(min=1).double() / 16).log() / log(base) * 16
        return torch.where(distance < 16, distance, far.floor().long().clamp(max=most))

    mistakes: dict[str, Callable[[Distances], Any]] = {
        "no group is the last: all from 128 on share group 31": lambda distance: groups(distance, most=10**6),
        "the far groups begin at 0 again: the first 16 are taken, so 16 is added": (
            lambda distance: groups(distance, start=0)
        ),
        "the groups grow by the wrong factor: from 16 to 128 is a factor of 8, in 16 steps": (
            lambda distance: groups(distance, base=128.0)
        ),
        "the far groups are equally wide, and should grow: equal steps of the logarithm": (
            lambda distance: torch.where(distance < 16, distance, (16 + (distance - 16) // 7).clamp(max=31))
        ),
        "far distances are all in one group: that is Shaw's clip": lambda distance: distance.clamp(max=16),
        "the logarithm is rounded to the nearest: round down, so that a group begins where it should": (
            lambda distance: torch.where(
                distance < 16,
                distance,
                (16 + (distance.clamp(min=1) / 16).log() / log(8) * 16).round().long().clamp(max=31),
            )
        ),
    }
    cases = [(torch.tensor([0, 1, 15, 16, 17, 20, 30, 64, 127, 128, 500]),), (torch.arange(300),)]
    return judge(
        attempt,
        reference=groups,
        cases=cases,
        mistakes=mistakes,
        praise="32 numbers for each head serve every distance",
        names=("distance",),
    )


def check_ruler(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(max_distance, dim)``: a_V whose output's first number is the mean distance."""

    def measured(table: Callable[..., Any]) -> Callable[..., Any]:
        """Return the outputs of a head with values of zero, some weights, and this table."""

        def outputs(k: int, dim: int) -> Any:
            a_V = table(k, dim)
            if not isinstance(a_V, Tensor) or a_V.shape != (2 * k + 1, dim):
                return a_V
            draw = torch.Generator().manual_seed(k)
            weights = torch.randn(1, 1, 4, 6, generator=draw).softmax(-1)
            return solution_value_lookup(weights, a_V.float(), rows(4, 6, k))[..., 0]

        return outputs

    def with_column(column: Callable[[int], Tensor]) -> Callable[[int, int], Tensor]:
        def table(k: int, dim: int) -> Tensor:
            a_V = torch.zeros(2 * k + 1, dim)
            a_V[:, 0] = column(k)
            return a_V

        return table

    right = with_column(lambda k: k - torch.arange(2 * k + 1.0))
    mistakes: dict[str, Callable[..., Any]] = {
        "the sign is turned round: row 0 is k back, a distance of +k": (
            with_column(lambda k: torch.arange(2 * k + 1.0) - k)
        ),
        "these are numbers of rows: the distance of row r is k - r": (
            with_column(lambda k: torch.arange(2 * k + 1.0))
        ),
        "this is the distance without its sign: a key ahead counts -1, -2, …": (
            with_column(lambda k: (k - torch.arange(2 * k + 1.0)).abs())
        ),
        "this is off by one: row k is the token itself, at distance 0": (
            with_column(lambda k: k + 1 - torch.arange(2 * k + 1.0))
        ),
        "only the past is measured: rows k + 1 … 2k are the future, at distances -1 … -k": (
            with_column(lambda k: (k - torch.arange(2 * k + 1.0)).clamp(min=0))
        ),
        "the output is the same wherever the head looks": with_column(lambda k: torch.zeros(2 * k + 1)),
    }
    return judge(
        measured(attempt),
        reference=measured(right),
        cases=[(2, 3), (1, 1), (6, 4)],
        mistakes={why: measured(mistake) for why, mistake in mistakes.items()},
        praise="the head's output says how far back it looks: the values carry position",
        names=("max_distance", "dim"),
        say=lambda got, expected: _say_measured(got, expected),
    )


def _say_measured(got: Any, expected: Tensor) -> str:
    if not isinstance(got, Tensor) or got.shape != expected.shape:
        shape = list(got.shape) if isinstance(got, Tensor) else type(got).__name__
        return f"you returned {shape}, and it must be a table [2k + 1, dim]"
    pairs = zip(got.flatten().tolist(), expected.flatten().tolist(), strict=True)
    mine, right = next((mine, right) for mine, right in pairs if abs(mine - right) > 1e-5)
    return f"a query whose keys lie at the mean distance {right:.2f} gets the output {mine:.2f}"
