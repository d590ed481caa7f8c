"""Predictions of notebook 08, and the check of its four terms."""

from collections.abc import Callable
from math import sqrt
from typing import Any

import torch
from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor

from minitxl.attention import Heads, Keys, Scores
from minitxl.course.checker import Verdict, judge, variants_of
from minitxl.course.differences import difference, equal, is_list
from minitxl.course.predictions import Predictions, Question

PairKeys = Float[Tensor, "head query key dim"]
Bias = Float[Tensor, "head dim"]
FourTerms = tuple[Scores, Scores, Scores, Scores]

COMPUTED = "the rows are computed and not learned, so there is one for every distance, trained or not"
predictions = Predictions(
    Question(
        "changed",
        "Absolute positions, the same text 10 places farther on: how many of the four products change?",
        answer=3,
        why="only content × content has no position in it",
        wrong={
            4: "content × content has no position in it, so it stays as it was",
            2: "three products hold a position: the key's alone, the query's alone, and both",
            1: "each product that holds a position changes, and one position is enough",
        },
    ),
    Question(
        "learned",
        "A row of sines for each distance, and a matrix that makes keys of rows: which is learned?",
        answer="matrix",
        choices=("rows", "matrix", "both"),
        why="R is a fixed table of sinusoids, computed when it is needed; W_kR is learned",
        wrong={
            "rows": COMPUTED,
            "both": COMPUTED,
        },
    ),
    Question(
        "missed",
        "Trained without one term, three seeds: for how many of the four is the loss higher in all three?",
        answer=1,
        why="only without (b) is the loss higher than the whole model's in each of the three seeds; for the "
        "others the seeds disagree on the sign",
        wrong={
            4: "the terms can stand in for each other: a model that never had one hardly misses it",
            0: "without (b), content × distance, the loss is a little higher in each seed",
        },
    ),
)


def solution_four_terms(q: Heads, k: Keys, r: PairKeys, u: Bias, v: Bias) -> FourTerms:
    """Return (a) (b) (c) (d), each divided by √d_head; r has a vector for each pair."""
    a = einsum(q, k, "batch head query dim, batch head key dim -> batch head query key")
    b = einsum(q, r, "batch head query dim, head query key dim -> batch head query key")
    c = rearrange(einsum(u, k, "head dim, batch head key dim -> batch head key"), "b h key -> b h 1 key")
    d = rearrange(einsum(v, r, "head dim, head query key dim -> head query key"), "... -> 1 ...")
    scale = sqrt(q.shape[-1])
    return a / scale, b / scale, c.expand_as(a) / scale, d.expand_as(a) / scale


def check_four_terms(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(q, k, r, u, v)``: (a) (b) (c) (d); axes of size 1 may stand for whole ones."""

    def whole(terms: Callable[..., Any]) -> Callable[..., Any]:
        def expanded(q: Heads, k: Keys, r: PairKeys, u: Bias, v: Bias) -> Any:
            result = terms(q, k, r, u, v)
            if not is_list(result) or not all(isinstance(term, Tensor) for term in result):
                return result
            shape = (*q.shape[:3], k.shape[2])
            try:
                return tuple(term.expand(shape) for term in result)
            except RuntimeError:
                return result

        return expanded

    def changed(**swap: Callable[..., Tensor]) -> Callable[..., FourTerms]:
        """Return the solution with some of its arguments made from the others."""

        def mistake(q: Heads, k: Keys, r: PairKeys, u: Bias, v: Bias) -> FourTerms:
            given = {"q": q, "k": k, "r": r, "u": u, "v": v}
            return solution_four_terms(**given | {name: make(**given) for name, make in swap.items()})

        return mistake

    def scaled(*factors: bool | int) -> Callable[..., FourTerms]:
        def mistake(*given: Tensor) -> Any:
            pairs = zip(solution_four_terms(*given), factors, strict=True)
            return tuple(term * (sqrt(given[0].shape[-1]) if factor else 1) for term, factor in pairs)

        return mistake

    def ordered(*places: int) -> Callable[..., Any]:
        return lambda *given: tuple(solution_four_terms(*given)[place] for place in places)

    mistakes: dict[str, Callable[..., Any] | list[Callable[..., Any]]] = {
        "u and v are swapped: u meets the keys of content, k, and v those of distance, r": (
            changed(u=lambda u, v, **_: v, v=lambda u, v, **_: u)
        ),
        "one bias is used twice: (c) is u · k and (d) is v · r": changed(v=lambda u, **_: u),
        "none of the terms is divided by √d_head": scaled(1, 1, 1, 1),
        "(c) and (d) are not divided by √d_head: all four are": scaled(0, 0, 1, 1),
        "one of the four is not divided by √d_head: all four are": [
            scaled(*(place == left_out for place in range(4))) for left_out in range(4)
        ],
        "(c) and (d) are in each other's place: (c) is u with the key's content, (d) is v with a distance": (
            ordered(0, 1, 3, 2)
        ),
        "(b) and (c) are in each other's place: (b) is the query's content with the distance": (
            ordered(0, 2, 1, 3)
        ),
        "this is the sum of the four: return them apart, as (a), (b), (c), (d)": (
            lambda *given: sum(solution_four_terms(*given))
        ),
        "these are the two products that a model computes, (a) + (c) and (b) + (d): return the four apart": (
            lambda *given: _two(solution_four_terms(*given))
        ),
        "(c) and (d) hold the query's own content too: the biases replace q there, and are not added to it": (
            lambda q, k, r, u, v: (
                *solution_four_terms(q, k, r, u, v)[:2],
                *solution_four_terms(q + u[:, None], k, r, u, v)[:1],
                *solution_four_terms(q + v[:, None], k, r, u, v)[1:2],
            )
        ),
    }

    def u_meets_query(q: Heads, k: Keys, r: PairKeys, u: Bias, v: Bias) -> FourTerms:
        a, b, _, d = solution_four_terms(q, k, r, u, v)
        c = einsum(u, q, "head dim, batch head query dim -> batch head query") / sqrt(q.shape[-1])
        return a, b, rearrange(c, "batch head query -> batch head query 1"), d

    def scaled_twice(*given: Tensor) -> Any:
        return tuple(term / sqrt(given[0].shape[-1]) for term in solution_four_terms(*given))

    mistakes |= {
        "(c) is u with the query: it is u with the key's content": u_meets_query,
        "(b) stands in the place of (d): (d) is v with the distance, and not the query": ordered(0, 1, 2, 1),
        "the terms are divided by √d_head twice: once is enough": scaled_twice,
    }
    draw = torch.Generator().manual_seed(8)
    by_hand = [torch.tensor(numbers) for numbers in ([[[[1.0, 2]]]], [[[[1.0, 0], [1, 2]]]])]
    by_hand += [torch.tensor(numbers) for numbers in ([[[[3.0, 1], [0, 1]]]], [[0.0, 1]], [[1.0, 0]])]
    cases: list[tuple[Tensor, ...]] = [tuple(by_hand)]
    for batch, head, query, key, dim in ((1, 1, 3, 3, 4), (2, 3, 4, 7, 5), (2, 2, 1, 3, 4)):
        shapes = (
            (batch, head, query, dim),
            (batch, head, key, dim),
            (head, query, key, dim),
            *[(head, dim)] * 2,
        )
        cases.append(tuple(torch.randn(shape, generator=draw) for shape in shapes))
    return judge(
        whole(attempt),
        reference=solution_four_terms,
        cases=cases,
        mistakes={why: [whole(variant) for variant in variants_of(wrong)] for why, wrong in mistakes.items()},
        praise="each of the four terms is right, and in its place",
        names=("q", "k", "r", "u", "v"),
        say=_say_which,
    )


def _two(terms: FourTerms) -> tuple[Scores, Scores]:
    a, b, c, d = terms
    return a + c, b + d


def _say_which(got: Any, expected: FourTerms) -> str:
    """Name the first term that is wrong."""
    if not is_list(got) or len(got) != len(expected):
        return difference(got, expected)
    pairs = zip("abcd", got, expected, strict=True)
    name, mine, right = next((name, mine, right) for name, mine, right in pairs if not equal(mine, right))
    return f"for the term ({name}) {difference(mine, right)}"
