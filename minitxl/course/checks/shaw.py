"""Judges the exercises of notebook 07: rows of the table, the gather version, the efficient form."""

from collections.abc import Callable
from math import sqrt

import torch
from einops import einsum, rearrange
from jaxtyping import Float, Int
from torch import Tensor

from minitxl.course.exercises import Largest, Verdict, judge

Queries = Float[Tensor, "head query dim"]
Keys = Float[Tensor, "head key dim"]
Weights = Float[Tensor, "head query key"]
Table = Float[Tensor, "row dim"]
Rows = Int[Tensor, "query key"]

SIZES = [(3, 3, 2), (2, 5, 1), (4, 9, 3), (1, 4, 0), (3, 8, 20)]
"""query, key and k: with and without memory, k below and beyond the distances that occur."""


def rows(query: int, key: int, k: int, *, memory: bool = True) -> Rows:
    """Row clip(j - i, -k, k) + k for each pair; the queries are the last of the keys."""
    return _ahead(query, key, memory=memory).clamp(-k, k) + k


def _ahead(query: int, key: int, *, memory: bool = True) -> Rows:
    """j - i."""
    i = torch.arange(query) + (key - query if memory else 0)
    return torch.arange(key)[None, :] - i[:, None]


def check_rows(attempt: Callable[[int, int, int], Rows]) -> Verdict:
    """``attempt(query, key, k)``: the row of the tables for each pair, [query key]."""
    mistakes: dict[str, Callable[[int, int, int], Rows]] = {
        "the sign is flipped: this is i - j, and the paper's row is clip(j - i), so the past comes first": (
            lambda query, key, k: (-_ahead(query, key)).clamp(-k, k) + k
        ),
        "the queries are counted from 0: with memory, query 0 stands at place key - query of the keys": (
            lambda query, key, k: rows(query, key, k, memory=False)
        ),
        "clip first, then add k: clipped after adding k, -k to k leaves out half of the distances": (
            lambda query, key, k: (_ahead(query, key) + k).clamp(-k, k)
        ),
        "k is not added: rows count from 0, and a negative row is read from the table's other end": (
            lambda query, key, k: _ahead(query, key).clamp(-k, k)
        ),
        "nothing is clipped: a distance beyond k has no row of its own": lambda query, key, k: (
            _ahead(query, key) + k
        ),
        "a remainder wraps a far key around to a near one's row: clamp it": lambda query, key, k: (
            (_ahead(query, key) + k) % (2 * k + 1)
        ),
        "the axes are swapped: [query key], so i changes along the rows and j along the columns": (
            lambda query, key, k: rows(query, key, k).T
        ),
    }
    return judge(attempt, reference=rows, cases=SIZES, mistakes=mistakes)


def check_gather(attempt: Callable[[Queries, Keys, Table, Rows], Weights]) -> Verdict:
    """``attempt(q, k, a_K, rows)``: e of equation 4, [head query key], with a vector for each pair."""
    draw = torch.Generator().manual_seed(7)
    cases = []
    for query, key, clip in SIZES:
        q, k = (torch.randn(2, size, 4, generator=draw) for size in (query, key))
        cases.append((q, k, torch.randn(2 * clip + 1, 4, generator=draw), rows(query, key, clip)))
    mistakes: dict[str, Callable[..., Weights]] = {
        "the key of the query itself, k_i, stands where k_j should: j is the key that is looked at": (
            lambda q, k, a_K, rows: scores(q, k[:, -q.shape[1] :], a_K, rows, own=True)
        ),
        "the distance term is missing: add a_K[rows] to the keys": lambda q, k, a_K, rows: scores(
            q, k, torch.zeros_like(a_K), rows
        ),
        "the key is missing: q meets k_j + a_ij, and here a_ij alone": lambda q, k, a_K, rows: scores(
            q, torch.zeros_like(k), a_K, rows
        ),
        "the division by √dim is missing": lambda q, k, a_K, rows: (
            scores(q, k, a_K, rows) * sqrt(q.shape[-1])
        ),
        "only the product with the key is divided by √dim: equation 4 divides the whole": (
            lambda q, k, a_K, rows: scores(q, k, a_K * sqrt(q.shape[-1]), rows)
        ),
        "the sign of the distance is flipped: rows already says which vector, do not turn it around": (
            lambda q, k, a_K, rows: scores(q, k, a_K.flip(0), rows)
        ),
        "softmax has been taken already: e is what goes into it": lambda q, k, a_K, rows: scores(
            q, k, a_K, rows
        ).softmax(-1),
    }
    return judge(attempt, reference=scores, cases=cases, mistakes=mistakes)


def scores(q: Queries, k: Keys, a_K: Table, rows: Rows, *, own: bool = False) -> Weights:
    """Equation 4, before the softmax; ``own`` takes the key of i in place of j's."""
    keys = rearrange(k, "head query dim -> head query 1 dim" if own else "head key dim -> head 1 key dim")
    return einsum(q, keys + a_K[rows], "head query dim, head query key dim -> head query key") / sqrt(
        q.shape[-1]
    )


def check_efficient(attempt: Callable[[Weights, Keys, Table, Rows], Queries]) -> Verdict:
    """``attempt(weights, v, a_V, rows)``: z of equation 3, with no tensor as large as [query key dim]."""
    draw = torch.Generator().manual_seed(7)
    cases = []
    for query, key, clip in SIZES:
        weights = torch.randn(2, query, key, generator=draw).softmax(-1)
        v, a_V = (torch.randn(*size, 4, generator=draw) for size in ((2, key), (2 * clip + 1,)))
        cases.append((weights, v, a_V, rows(query, key, clip)))
    mistakes: dict[str, Callable[..., Queries]] = {
        "the value term is lost: a_V must be averaged with the same weights": (
            lambda weights, v, a_V, rows: values(weights, v, torch.zeros_like(a_V), rows)
        ),
        "the content is lost: this is the average of a_V alone, add that of v": (
            lambda weights, v, a_V, rows: values(weights, torch.zeros_like(v), a_V, rows)
        ),
        "scatter overwrites: several keys share a row, so their weights must add up, with scatter_add": (
            lambda weights, v, a_V, rows: values(weights, v, a_V, rows, add=False)
        ),
        "the value of the query itself, v_i, stands where v_j should: the weights sum to 1, so they would "
        "change nothing": lambda weights, v, a_V, rows: (
            v[:, -weights.shape[1] :] + values(weights, torch.zeros_like(v), a_V, rows)
        ),
        "the sign of the distance is flipped: rows already says which vector": (
            lambda weights, v, a_V, rows: values(weights, v, a_V.flip(0), rows)
        ),
    }
    verdict = judge(attempt, reference=values, cases=cases, mistakes=mistakes)
    return _frugal(attempt) if verdict.right else verdict


def values(weights: Weights, v: Keys, a_V: Table, rows: Rows, *, add: bool = True) -> Queries:
    """Equation 3, the weights of a row summed first; without ``add`` each overwrites the one before."""
    empty = weights.new_zeros(*weights.shape[:-1], len(a_V))
    index = rows.expand_as(weights)
    by_row = empty.scatter_add(-1, index, weights) if add else empty.scatter(-1, index, weights)
    return weights @ v + by_row @ a_V


def _frugal(attempt: Callable[[Weights, Keys, Table, Rows], Queries]) -> Verdict:
    query = key = dim = 32
    draw = torch.Generator().manual_seed(7)
    weights = torch.rand(1, query, key, generator=draw)
    with Largest() as seen:
        attempt(
            weights,
            torch.rand(1, key, dim, generator=draw),
            torch.rand(9, dim, generator=draw),
            rows(query, key, 4),
        )
    if seen.numbers >= query * key * dim:
        return Verdict(
            False,
            f"right, but it builds {seen.numbers:,} numbers for {query * key:,} pairs: a vector for each. "
            "Sum the weights by row first, then meet the table once",
        )
    return Verdict(True, "equal in every case, and no tensor has the size [query key dim]")
