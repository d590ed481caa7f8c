"""Checks of notebook 14 about a rotary attention: its scores, and how it reads farther than in training."""

from collections.abc import Callable
from math import inf, sqrt
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from minitxl.course.checker import Verdict, judge
from minitxl.course.loops import without_loop
from minitxl.later_attention import RotaryAttention, rotate

Queries = Float[Tensor, "batch head query dim"]
Keys = Float[Tensor, "batch head key dim"]
Scores = Float[Tensor, "batch head query key"]
Score = Callable[[Any, Any], Any]


def solution_rotary_scores(q: Queries, k: Keys) -> Scores:
    """Return the products of rotated queries and keys, divided by √dim."""
    return _attention(q).scores(q, k, None)


def _attention(q: Tensor) -> RotaryAttention:
    return RotaryAttention(2, 1, q.shape[-1])


def _places(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    places = torch.arange(k.shape[2])
    return places[k.shape[2] - q.shape[2] :], places


def check_rotary_scores(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(q, k)``: scores of rotary attention, where the queries are the last of the keys.

    A loop over the queries is refused: the layer is trained with it.
    """
    right = solution_rotary_scores

    def turned(queries: Score, keys: Score, power: float = 0.5) -> Score:
        return lambda q, k: queries(q, k) @ keys(q, k).mT / q.shape[-1] ** power

    def q_turned(q: Any, k: Any) -> Any:
        return rotate(q, _places(q, k)[0])

    def k_turned(q: Any, k: Any) -> Any:
        return rotate(k, _places(q, k)[1])

    mistakes: dict[str, Score] = {
        "the queries are counted from 0: they are the last of the keys": turned(
            lambda q, k: rotate(q, torch.arange(q.shape[2])), k_turned
        ),
        "the scores are not divided by √dim": turned(q_turned, k_turned, 0.0),
        "the scores are divided by dim: it is √dim": turned(q_turned, k_turned, 1.0),
        "only the keys are turned: the queries turn as well": turned(lambda q, k: q, k_turned),
        "only the queries are turned: the keys turn as well": turned(q_turned, lambda q, k: k),
        "nothing is turned": turned(lambda q, k: q, lambda q, k: k),
        "this is a softmax already: scores come before it": lambda q, k: right(q, k).softmax(-1),
    }
    verdict = judge(attempt, reference=right, cases=_cases(), mistakes=mistakes, names=("q", "k"))
    return without_loop(verdict, attempt, _queries(4), _queries(32))


def _queries(count: int) -> tuple[Tensor, Tensor]:
    return torch.ones(1, 1, count, 4), torch.ones(1, 1, 40, 4)


def _cases() -> list[tuple[Any, ...]]:
    draw = torch.Generator().manual_seed(21)
    shapes = ((1, 1, 1, 3, 2), (2, 2, 3, 3, 4), (1, 2, 2, 7, 6))
    return [
        (
            torch.randn(batch, head, query, dim, generator=draw),
            torch.randn(batch, head, key, dim, generator=draw),
        )
        for batch, head, query, key, dim in shapes
    ]


def solution_clamped_scores(q: Queries, k: Keys, longest: int) -> Scores:
    """Return rotary scores in which keys farther than ``longest`` count as that far."""
    return _attention(q).scores(q, k, longest)


def check_clamped_scores(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(q, k, longest)``: rotary scores with distances clamped."""
    right = solution_clamped_scores

    def instead(far: Callable[[Any, Any, int], Any]) -> Callable[..., Any]:
        def scores(q: Any, k: Any, longest: int) -> Any:
            i, j = _places(q, k)
            return torch.where(i[:, None] - j > longest, far(q, k, longest), solution_rotary_scores(q, k))

        return scores

    def product(q: Any, k: Any) -> Any:
        return q @ k.mT / sqrt(q.shape[-1])

    def all_at(q: Any, longest: int) -> Any:
        return rotate(q, torch.full((q.shape[2],), longest))

    def positions_clamped(q: Any, k: Any, longest: int) -> Any:
        i, j = (places.clamp(max=longest) for places in _places(q, k))
        return product(rotate(q, i), rotate(k, j))

    mistakes: dict[str, Callable[..., Any]] = {
        "nothing is clamped": lambda q, k, longest: solution_rotary_scores(q, k),
        "far keys get 0: they count as if they were longest away": instead(lambda q, k, longest: 0.0),
        "far keys are hidden: they count as if they were longest away": instead(lambda q, k, longest: -inf),
        "the positions are clamped: it is the distances": positions_clamped,
        "the far query turns the other way: q R(-c) k is (R(c) q) k": instead(
            lambda q, k, longest: product(all_at(q, -longest), k)
        ),
        "far keys are turned as well: the query alone turns, by longest": instead(
            lambda q, k, longest: product(all_at(q, longest), rotate(k, _places(q, k)[1]))
        ),
        "far scores are not turned at all: the query turns by longest": instead(
            lambda q, k, longest: product(q, k)
        ),
        "far scores are not divided by √dim": instead(lambda q, k, longest: all_at(q, longest) @ k.mT),
    }
    cases = [(q, k, longest) for (q, k), longest in zip(_cases(), (1, 1, 3), strict=True)]
    verdict = judge(attempt, reference=right, cases=cases, mistakes=mistakes, names=("q", "k", "longest"))
    return without_loop(verdict, attempt, (*_queries(4), 3), (*_queries(32), 3))


def solution_raised_base(base: float, stretch: float, dim: int) -> float:
    """Return the base with which the slowest of dim / 2 pairs turns ``stretch`` times slower."""
    return base * stretch ** (dim / (dim - 2))


def check_raised_base(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(base, stretch, dim)``: the base that stretches the slowest pair."""
    mistakes: dict[str, Callable[..., Any]] = {
        "the base times stretch stretches the slowest pair a little too little: it has m = dim/2 - 1": (
            lambda base, stretch, dim: base * stretch
        ),
        "the power is turned over: solve base^((dim - 2)/dim) · stretch for the new base": (
            lambda base, stretch, dim: base * stretch ** ((dim - 2) / dim)
        ),
        "the base is lowered: slower turns need a greater base": (
            lambda base, stretch, dim: base / stretch ** (dim / (dim - 2))
        ),
        "this is the slowest pair's frequency: return the base": (
            lambda base, stretch, dim: base ** (-(dim - 2) / dim) / stretch
        ),
        "the power is dim/2: the slowest pair's exponent is (dim - 2)/dim": (
            lambda base, stretch, dim: base * stretch ** (dim / 2)
        ),
    }
    return judge(
        attempt,
        reference=solution_raised_base,
        cases=[(10_000.0, 2.0, 4), (10_000.0, 2.5, 32), (500_000.0, 4.0, 128)],
        mistakes=mistakes,
        names=("base", "stretch", "dim"),
    )
