"""Checks of notebook 09: the shift, its mirror image, its two-sided form, and its inverse on a band."""

from collections.abc import Callable
from typing import Any

import torch
from einops import rearrange
from torch import Tensor
from torch.nn.functional import pad

from minitxl.course.checker import Verdict, judge
from minitxl.course.loops import Steps, without_loop
from minitxl.course.predictions import Predictions, Question
from minitxl.relative_shift import rel_shift

Shift = Callable[[Tensor], Any]

predictions = Predictions(
    Question(
        "saved",
        "Segment 512, memory 512: how many times fewer vectors, one for each distance and not for each pair?",
        answer=512,
        tolerance=0,
        why="512 · 1,024 pairs against 1,024 distances: the saving is the length of the segment",
        wrong={
            1024: "there are 512 · 1,024 pairs: dividing by the 1,024 distances leaves the number of queries",
            2: "that is keys to queries; compare all pairs, 512 · 1,024, with all distances, 1,024",
        },
    ),
    Question(
        "corner",
        "Three queries, five keys, numbered 0 to 14: which number ends in the last cell of row 0?",
        answer=5,
        tolerance=0,
        why="row 0 keeps three of its own numbers, then comes the padding, then the 5 that begins row 1",
        wrong={
            0: "the padding's zero is one cell before; behind it the next row begins, and that is the 5",
            4: "4 is the product with distance 0, and belongs to the query's own place, two cells earlier",
        },
    ),
    Question(
        "linear",
        "Is the cost of a whole head linear in the number of keys times queries' length then? 'yes' or 'no'",
        answer="no",
        choices=("yes", "no"),
        why="the keys of distance are made once for each distance; there still is a score for each pair",
    ),
)


def _line(padded: Tensor) -> Tensor:
    return rearrange(padded, "... query dist -> ... (query dist)")


def _rows(entries: Tensor, scores: Tensor) -> Tensor:
    return rearrange(entries, "... (query key) -> ... query key", query=scores.shape[-2])


def _each_row_moves(scores: Tensor, steps: Callable[[int, int], int]) -> Tensor:
    """Return row i rolled by ``steps(i, n_query)`` columns to the right."""
    n_query = scores.shape[-2]
    moved = [scores[..., i, :].roll(steps(i, n_query), dims=-1) for i in range(n_query)]
    return torch.stack(moved, dim=-2)


def _square(scores: Tensor) -> Tensor:
    n_key = scores.shape[-1]
    return _line(pad(scores, (1, 0))).unflatten(-1, (n_key + 1, n_key))[..., 1:, :]


def _from(scores: Tensor, start: int) -> Tensor:
    """Return as many entries of the padded line as the result has, in its rows, from this one on."""
    n_query, n_key = scores.shape[-2:]
    return _rows(_line(pad(scores, (1, 0)))[..., start : start + n_query * n_key], scores)


SHIFT_MISTAKES: dict[str, Shift] = {
    "the zero column is on the wrong side: pad(scores, (1, 0)) puts it in front": (
        lambda scores: _rows(_line(pad(scores, (0, 1)))[..., scores.shape[-2] :], scores)
    ),
    "the wrong end is sliced off: what goes are the first query entries of the line": (
        lambda scores: _rows(_line(pad(scores, (1, 0)))[..., : -scores.shape[-2]], scores)
    ),
    "a row of the padded matrix is sliced off: read it as one line first, then drop its start": (
        lambda scores: pad(scores, (1, 0))[..., 1:, :]
    ),
    "this works where query = key alone: the line is cut into rows as long as there are keys, "
    "and what is dropped is one entry for each query": _square,
    "query - 1 entries are dropped, and it must be query: every row lands one column too far right": (
        lambda scores: _from(scores, scores.shape[-2] - 1)
    ),
    "the zero column is missing: without it a row of the line is as long as a row of the result, and no row "
    "moves against another": (
        lambda scores: scores.flatten(-2)[..., scores.shape[-2] :].unflatten(-1, (scores.shape[-2], -1))
    ),
    "one entry is dropped in place of query: that takes the padding away and moves no row": (
        lambda scores: _from(scores, 1)
    ),
    "every row is moved alike: row i has to move by query - 1 - i": (
        lambda scores: scores.roll(1 - scores.shape[-2], dims=-1)
    ),
    "the rows move the wrong way: to the left, so that row 0 begins with a nearer distance": (
        lambda scores: _each_row_moves(scores, lambda i, n_query: n_query - 1 - i)
    ),
    "row i moves left by i, and should by query - 1 - i: the last row, whose query is the last key, stays": (
        lambda scores: _each_row_moves(scores, lambda i, n_query: -i)
    ),
    "off by one: row i moves left by query - i, and should by query - 1 - i": (
        lambda scores: _each_row_moves(scores, lambda i, n_query: i - n_query)
    ),
    "the columns are read backwards: they are the distances key-1 … 0 already, so there is nothing to flip": (
        lambda scores: rel_shift(scores.flip(-1))
    ),
    "nothing has moved: column c is the distance key-1-c for every query, and not yet key c": (
        lambda scores: scores
    ),
}


def _cases(*shapes: tuple[int, ...]) -> list[tuple[Tensor]]:
    """Return matrices to shift: a small one that can be followed by hand, then random ones."""
    draw = torch.Generator().manual_seed(9)
    small = torch.arange(8.0).reshape(2, 4)
    return [(small,), *((torch.randn(shape, generator=draw),) for shape in shapes)]


def _seen(shift: Shift) -> Shift:
    """Return the shift with zeros for keys of the future, which may hold anything."""

    def shifted(scores: Tensor) -> Any:
        result = shift(scores)
        if not isinstance(result, Tensor) or result.shape != scores.shape:
            return result
        return result.tril(scores.shape[-1] - scores.shape[-2])

    return shifted


def check_rel_shift(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(scores)`` for [..., query, dist], without a loop; the future may be anything."""
    verdict = judge(
        _seen(attempt),
        reference=_seen(rel_shift),
        cases=_cases((4, 4), (3, 5), (1, 6), (2, 3, 4, 7), (5, 6)),
        mistakes={why: _seen(mistake) for why, mistake in SHIFT_MISTAKES.items()},
        praise="equal to the package's on every entry that a causal mask leaves, and without a loop",
    )
    if not (verdict.right or verdict.blank or verdict.details) and (why := _length_of_line(attempt)):
        return Verdict(False, why, details=verdict.message)
    return without_loop(verdict, attempt, (torch.zeros(4, 40),), (torch.zeros(32, 40),))


def _length_of_line(attempt: Callable[..., Any]) -> str | None:
    """Return why the line that the attempt cuts into rows has a wrong length, for 3 queries and 5 keys."""
    with Steps(attempt) as watched:
        try:
            attempt(torch.zeros(3, 5))
        except Exception:
            last = watched.shapes[-1:]
        else:
            return None
    sentences = {
        16: "query - 1 entries are dropped, and it must be query: the line is left with one entry too many",
        14: "query + 1 entries are dropped, and it must be query: the line is left with one entry too few",
        12: "the zero column is missing: pad first, then the line is long enough to drop query entries",
    }
    return sentences.get(last[0][-1]) if last and len(last[0]) == 1 else None


def check_ascending(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(scores)``: [..., query, dist] with columns of distance 0 … key-1."""

    def reference(scores: Tensor) -> Tensor:
        return rel_shift(scores.flip(-1))

    mistakes: dict[str, Shift] = {
        "the columns are still in their old order: distance 0 comes first here, so the shift for key-1 … 0 "
        "puts each product at the wrong key": rel_shift,
        "the columns are turned round after the shift: turn them before, as shifted columns are keys": (
            lambda scores: rel_shift(scores).flip(-1)
        ),
        "the queries are turned round instead of the columns: distances are the last axis": (
            lambda scores: rel_shift(scores.flip(-2))
        ),
        "the columns are turned round and nothing is shifted": lambda scores: scores.flip(-1),
        "nothing has moved: column c is the distance c for every query": lambda scores: scores,
    }
    return judge(
        _seen(attempt),
        reference=_seen(reference),
        cases=_cases((4, 4), (1, 6), (2, 3, 4, 7)),
        mistakes={why: _seen(mistake) for why, mistake in mistakes.items()},
        praise="each distance stands at its key, whichever order its table has",
    )


def check_two_sided(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(scores)``: [..., query, dist] of the distances key-1 … -(query-1), to every key."""

    def reference(scores: Tensor) -> Tensor:
        n_query, n_dist = scores.shape[-2:]
        rows = [scores[..., i, n_query - 1 - i : n_dist - i] for i in range(n_query)]
        return torch.stack(rows, dim=-2)

    def n_key(scores: Tensor) -> int:
        return scores.shape[-1] - scores.shape[-2] + 1

    mistakes: dict[str, Shift] = {
        "the columns of the future are cut off before the shift, so its rows slide into each other: "
        "shift all columns, then cut": lambda scores: rel_shift(scores[..., : n_key(scores)]),
        "the wrong columns are kept: the keys are the first of the shifted row": (
            lambda scores: rel_shift(scores)[..., scores.shape[-2] - 1 :]
        ),
        "nothing is wrong but the width: after the shift, only the first key columns are keys": rel_shift,
        "the rows are cut and not shifted": lambda scores: scores[..., : n_key(scores)],
        "one column too few is kept: there are dist - query + 1 keys": (
            lambda scores: rel_shift(scores)[..., : n_key(scores) - 1]
        ),
    }
    return judge(
        attempt,
        reference=reference,
        cases=_cases((4, 7), (1, 5), (2, 2, 3, 6)),
        mistakes=mistakes,
        praise="right on both sides of the diagonal, and nothing to mask",
    )


def check_banded(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(scores)``, without a loop: [..., query, window], oldest key first, to every key."""

    def reference(scores: Tensor) -> Tensor:
        n_query = scores.shape[-2]
        rows = [pad(scores[..., i, :], (i, n_query - 1 - i)) for i in range(n_query)]
        return torch.stack(rows, dim=-2)

    def cut(line: Tensor, n_query: int) -> Tensor:
        """Return the line in n_query rows, without its last n_query entries."""
        return line[..., :-n_query].unflatten(-1, (n_query, -1))

    mistakes: dict[str, Shift] = {
        "the rows have not moved: query i sees keys i … i + window - 1, so row i moves right by i": (
            lambda scores: pad(scores, (0, scores.shape[-2] - 1))
        ),
        "the rows move the wrong way: the first query sees the first keys": (
            lambda scores: reference(scores.flip(-2)).flip(-2)
        ),
        "the zeros stand in front of each row, so the first row begins with them: put them behind": (
            lambda scores: cut(_line(pad(scores, (scores.shape[-2], 0))), scores.shape[-2])
        ),
        "the start of the line is dropped, and it is the end that must go: the first row stays": (
            lambda scores: _line(pad(scores, (0, scores.shape[-2])))[..., scores.shape[-2] :].unflatten(
                -1, (scores.shape[-2], -1)
            )
        ),
        "the columns are read backwards: the oldest key of the window comes first already": (
            lambda scores: reference(scores.flip(-1))
        ),
    }
    small = torch.arange(1.0, 7).reshape(2, 3)
    verdict = judge(
        attempt,
        reference=reference,
        cases=[(small,), *_cases((4, 4), (3, 1), (2, 2, 4, 3))],
        mistakes=mistakes,
        praise="each query's scores stand over the keys of its own window, and zeros elsewhere",
    )
    return without_loop(verdict, attempt, (torch.zeros(4, 3),), (torch.zeros(32, 3),))
