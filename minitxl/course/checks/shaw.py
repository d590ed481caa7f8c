"""Predictions of notebook 07, and the checks of its scores of section 3.3 and its lookups by distance."""

from collections.abc import Callable
from typing import Any

import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor

from minitxl.course.checker import Largest, Verdict, judge
from minitxl.course.predictions import Predictions, Question

Queries = Float[Tensor, "batch head query dim"]
Keys = Float[Tensor, "batch head key dim"]
Scores = Float[Tensor, "batch head query key"]
Table = Float[Tensor, "row dim"]
Rows = Int[Tensor, "query key"]

SIZES = [(1, 5, 2), (3, 3, 2), (3, 3, 1), (2, 5, 1), (4, 9, 3), (1, 4, 0), (3, 8, 20)]
"""query, key and k: with and without memory, k below and beyond the distances that occur."""

predictions = Predictions(
    Question(
        "vectors",
        "How many vectors for keys does one layer hold, with 4 heads and k = 16?",
        answer=33,
        why="2k + 1: 16 distances back, 16 ahead, and 0; the heads share them",
        wrong={
            132: "that is a table for each head; Shaw's heads share one",
            17: "those are the past and the token itself; the table also has rows for the future",
            32: "the distance 0, a token and itself, has a vector too",
            16: "there are 16 to each side, and one for the token itself",
        },
    ),
    Question(
        "used",
        "How many of them does a causal language model ever use?",
        answer=17,
        why="k + 1: the token itself, and the past; rows of the future can't occur",
        wrong={
            33: "a causal model never looks ahead, so the rows of the future can't occur",
            16: "the token itself has a vector as well, besides the 16 of the past",
            132: "the heads share one table, and a causal model never looks ahead",
        },
    ),
    Question(
        "loses_most",
        "Which k loses most when the memory is longer than in training: 1, 4, 16 or 64?",
        answer=64,
        why="its vector for '64 or more back' was never trained, and a longer memory is where it is read",
        wrong={
            1: "k = 1 is the worst of all from the start, but nothing new happens to it: its last vector was "
            "trained",
        },
    ),
)


def rows(n_query: int, n_key: int, k: int) -> Rows:
    """Return row k - clip(i - j, -k, k) for each pair; the queries are the last of the keys."""
    return k - distance(n_query, n_key).clamp(-k, k)


def distance(n_query: int, n_key: int) -> Rows:
    """Return i - j for each pair."""
    return torch.arange(n_key - n_query, n_key)[:, None] - torch.arange(n_key)


def solution_section_scores(q: Queries, k: Keys, a_K: Table, rows: Rows) -> Scores:
    """Return q_i · k_j + q_i · a^K_ij: two products, and a table of pairs for all heads and texts."""
    content = einsum(q, k, "batch head query dim, batch head key dim -> batch head query key")
    return content + einsum(q, a_K[rows], "batch head query dim, query key dim -> batch head query key")


def check_section_scores(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(q, k, a_K, rows)``: q_i · (k_j + a^K_ij), with no tensor [batch head query key dim]."""

    def content(q: Queries, k: Keys) -> Scores:
        return einsum(q, k, "batch head query dim, batch head key dim -> batch head query key")

    def own_key(last: bool) -> Callable[..., Scores]:
        def scores(q: Queries, k: Keys, a_K: Table, rows: Rows) -> Scores:
            own = k[:, :, -q.shape[2] :] if last else k[:, :, : q.shape[2]]
            return solution_section_scores(q, 0 * k, a_K, rows) + (q * own).sum(-1, keepdim=True)

        return scores

    mistakes: dict[str, Callable[..., Any] | list[Callable[..., Any]]] = {
        "i stands for j: the key is that of the token that is looked at, k_j, and not the query's own": [
            own_key(last=True),
            own_key(last=False),
        ],
        "this is the content alone, q · k: the product with the vector of the distance is missing": (
            lambda q, k, a_K, rows: content(q, k)
        ),
        "this is the distance alone: the product with the key, q · k, is missing": (
            lambda q, k, a_K, rows: solution_section_scores(q, 0 * k, a_K, rows)
        ),
        "this is divided by √dim: that comes later, before the softmax": (
            lambda q, k, a_K, rows: solution_section_scores(q, k, a_K, rows) / q.shape[-1] ** 0.5
        ),
        "the sign of the distance is turned round: rows already says which vector": (
            lambda q, k, a_K, rows: solution_section_scores(q, k, a_K.flip(0), rows)
        ),
        "here the key meets the vector of the distance: in q · (k + a), the query does": (
            lambda q, k, a_K, rows: (
                content(q, k) + einsum(k, a_K[rows], "b h key dim, query key dim -> b h query key")
            )
        ),
        "the vectors of the distance are added up over dim without q: each has to meet the query": (
            lambda q, k, a_K, rows: content(q, k) + a_K[rows].sum(-1)
        ),
        "both products are multiplied: the product with a sum is the sum of the products": (
            lambda q, k, a_K, rows: content(q, k) * solution_key_lookup(q, a_K, rows)
        ),
    }
    draw = torch.Generator().manual_seed(9)
    cases = [
        (q, torch.randn(*q.shape[:2], len(pairs[0]), q.shape[-1], generator=draw), table, pairs)
        for q, _, table, pairs in _cases()
    ]
    verdict = judge(
        attempt,
        reference=solution_section_scores,
        cases=cases,
        mistakes=mistakes,
        names=("q", "k", "a_K", "rows"),
    )
    if not verdict.right:
        return verdict
    q = torch.ones(2, 4, 16, 32)
    with Largest() as largest:
        attempt(q, q, torch.ones(9, 32), rows(16, 16, 4))
    if largest.numbers >= q.numel() * 16:
        return Verdict(
            False,
            f"right, but it builds {largest.numbers:,} numbers for 16 queries and 16 keys: a vector for each "
            "pair in every head of every text. Let q meet k, and the table of pairs, each in a product",
        )
    return Verdict(True, "equal in every case, and one table of pairs serves all heads and texts")


def solution_key_lookup(q: Queries, a_K: Table, rows: Rows) -> Scores:
    """Return q_i · a^K_ij for each pair: q meets each row once, and each pair looks its product up."""
    met = einsum(q, a_K, "batch head query dim, row dim -> batch head query row")
    return met.gather(-1, rows.expand(*q.shape[:2], *rows.shape))


def check_key_lookup(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(q, a_K, rows)``: q_i · a^K_ij, with no tensor larger than the scores."""
    mistakes: dict[str, Callable[..., Any]] = {
        "the sign of the distance is turned round: rows already says which vector": (
            lambda q, a_K, rows: solution_key_lookup(q, a_K.flip(0), rows)
        ),
        "this is divided by √dim: that comes later, for content and distance together": (
            lambda q, a_K, rows: solution_key_lookup(q, a_K, rows) / q.shape[-1] ** 0.5
        ),
        "these are the products with all rows of the table, [query row]: each pair still has to look up the "
        "one of its own row": (
            lambda q, a_K, rows: einsum(q, a_K, "batch head query dim, row dim -> batch head query row")
        ),
        "every query looks up the rows of the last one: rows differs from query to query": (
            lambda q, a_K, rows: solution_key_lookup(q, a_K, rows[-1:].expand_as(rows))
        ),
        "every query looks up the rows of the first one: rows differs from query to query": (
            lambda q, a_K, rows: solution_key_lookup(q, a_K, rows[:1].expand_as(rows))
        ),
        "the vector's numbers are added up, without the query: each has to be multiplied with q": (
            lambda q, a_K, rows: solution_key_lookup(torch.ones_like(q), a_K, rows)
        ),
        "off by one row": lambda q, a_K, rows: solution_key_lookup(q, a_K, (rows - 1).clamp(min=0)),
        "gather looks along the axis of the queries: the rows of the table are the last axis, -1": (
            lambda q, a_K, rows: einsum(
                q, a_K, "batch head query dim, row dim -> batch head query row"
            ).gather(-2, rows.expand(*q.shape[:2], *rows.shape))
        ),
    }
    verdict = judge(
        attempt,
        reference=solution_key_lookup,
        cases=[(q, table, pairs) for q, _, table, pairs in _cases()],
        mistakes=mistakes,
        names=("q", "a_K", "rows"),
    )
    given = torch.ones(1, 4, 32, 32), torch.ones(9, 32), rows(32, 32, 4)
    meet = "Let q meet the table once, then look a number up for each pair, not a vector"
    return _frugal(attempt, given, meet) if verdict.right else verdict


def solution_value_lookup(weights: Scores, a_V: Table, rows: Rows) -> Queries:
    """Return Σ_j α_ij a^V_ij: the weights are added up by row, and meet the table once."""
    by_row = weights.new_zeros(*weights.shape[:-1], len(a_V))
    by_row = by_row.scatter_add(-1, rows.expand_as(weights), weights)
    return einsum(by_row, a_V, "batch head query row, row dim -> batch head query dim")


def check_value_lookup(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(weights, a_V, rows)``: Σ_j α_ij a^V_ij, with no tensor larger than the scores."""

    def overwritten(weights: Scores, a_V: Table, rows: Rows) -> Queries:
        by_row = weights.new_zeros(*weights.shape[:-1], len(a_V))
        return by_row.scatter(-1, rows.expand_as(weights), weights) @ a_V

    def in_place(weights: Scores, a_V: Table, rows: Rows) -> Queries:
        by_row = weights.new_zeros(*weights.shape[:-1], len(a_V))
        by_row[..., rows] += weights
        return by_row @ a_V

    def in_place_by_query(weights: Scores, a_V: Table, rows: Rows) -> Queries:
        by_row = weights.new_zeros(*weights.shape[:-1], len(a_V))
        for query, row in enumerate(rows):
            by_row[..., query, row] += weights[..., query, :]
        return by_row @ a_V

    def read(weights: Scores, a_V: Table, rows: Rows) -> Queries:
        return weights.gather(-1, rows.clamp(max=weights.shape[-1] - 1).expand_as(weights)) @ a_V[rows[0]]

    mistakes: dict[str, Callable[..., Any] | list[Callable[..., Any]]] = {
        "several keys share a row, and one of their weights is left: scatter overwrites, and "
        "by_row[index] += weights adds an index that is repeated only once; scatter_add adds up all": (
            [overwritten, in_place, in_place_by_query]
        ),
        "the sign of the distance is turned round: rows already says which vector": (
            lambda weights, a_V, rows: solution_value_lookup(weights, a_V.flip(0), rows)
        ),
        "every query adds up by the rows of the last one: rows differs from query to query": (
            lambda weights, a_V, rows: solution_value_lookup(weights, a_V, rows[-1:].expand_as(rows))
        ),
        "every query adds up by the rows of the first one: rows differs from query to query": (
            lambda weights, a_V, rows: solution_value_lookup(weights, a_V, rows[:1].expand_as(rows))
        ),
        "this is the mean over the keys without their weights": lambda weights, a_V, rows: (
            solution_value_lookup(torch.full_like(weights, 1 / weights.shape[-1]), a_V, rows)
        ),
        "these are the weights added up by row: they still have to be multiplied with the table": (
            lambda weights, a_V, rows: solution_value_lookup(weights, torch.eye(len(a_V)), rows)
        ),
        "gather reads, and here something has to be added up: scatter_add is its counterpart": read,
    }
    verdict = judge(
        attempt,
        reference=solution_value_lookup,
        cases=[(weights, table, pairs) for _, weights, table, pairs in _cases()],
        mistakes=mistakes,
        names=("weights", "a_V", "rows"),
    )
    given = torch.ones(1, 4, 32, 32), torch.ones(9, 32), rows(32, 32, 4)
    return (
        _frugal(attempt, given, "Add the weights up by row, then meet the table")
        if verdict.right
        else verdict
    )


def _cases() -> list[tuple[Queries, Scores, Table, Rows]]:
    """Return queries, weights, a table and rows: a case with small numbers, then random ones."""
    draw = torch.Generator().manual_seed(7)
    table = torch.tensor([[-1.0, 0], [1, 1], [0, 0.5], [9, 9], [9, 9]])
    weights = torch.tensor([[[[0.1, 0.2, 0.1, 0.2, 0.4]]]])
    cases = [(torch.tensor([[[[1.0, 2]]]]), weights, table, rows(1, 5, 2))]
    for n_query, n_key, k in SIZES:
        q = torch.randn(2, 2, n_query, 4, generator=draw)
        weights = torch.randn(2, 2, n_query, n_key, generator=draw).softmax(-1)
        cases.append((q, weights, torch.randn(2 * k + 1, 4, generator=draw), rows(n_query, n_key, k)))
    return cases


def _frugal(attempt: Callable[..., Any], given: tuple[Tensor, ...], instead: str) -> Verdict:
    """Measure the largest tensor of 4 heads, 32 queries, 32 keys, 32 dimensions and 9 rows."""
    with Largest() as largest:
        attempt(*given)
    if largest.numbers > 4 * 32**2:
        return Verdict(
            False,
            f"right, but it builds {largest.numbers:,} numbers for 1,024 pairs: a vector for each. {instead}",
        )
    return Verdict(True, "equal in every case, and no tensor is larger than the scores")
