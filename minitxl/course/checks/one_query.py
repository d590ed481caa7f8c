"""Check of notebook 13's cache: attention of the new token alone, with keys and values that are kept."""

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from minitxl.attention import XLAttention
from minitxl.course.checker import Function, Verdict, judge
from minitxl.position_encodings import distances, sinusoids

Kept = Float[Tensor, "head mem dim"]
Step = tuple[Tensor, Tensor, Tensor]

NAMES = ["attention", "x", "keys", "values", "r", "mem_len"]
OF_BOTH: dict[str, dict[str, Any]] = {
    "r is read from its far end: its rows are distances … 2, 1, 0, and n keys have the last n": {
        "rows": "first"
    },
    "r is turned around: the keys run from the farthest to the token itself, as its rows do": {
        "rows": "turned"
    },
    "u and v are interchanged: u meets the keys, v the distances": {"biases": "vu"},
    "the biases are missing: q + u meets the keys, q + v the distances": {"biases": "--"},
    "u is added in both products: q + u meets the keys, q + v the distances": {"biases": "uu"},
    "v is added in both products: q + u meets the keys, q + v the distances": {"biases": "vv"},
    "q is changed when u is added, and has both when v is added: q + u meets the keys, q + v the distances": {
        "biases": ("u", "uv")
    },
    "u and v are added in both products: q + u meets the keys, q + v the distances": {"biases": ("uv", "uv")},
    "v is missing: q + u meets the keys, q + v the distances": {"biases": "u-"},
    "u is missing: q + u meets the keys, q + v the distances": {"biases": "-v"},
    "scores are divided by the root of the width of a key, √dim": {"power": 0.0},
    "scores are divided by d_head, and not by its root: d_head**0.5": {"power": 1.0},
    "a mem_len of 0 keeps nothing, and [-0:] is all there is: of n keys keep those from place "
    "max(0, n - mem_len) on": {"cut": "negative"},
    "a negative start counts from the end, so that n - mem_len keeps too few while n < mem_len: of n keys "
    "keep those from place max(0, n - mem_len) on": {"cut": "below zero"},
}
"""Mistakes that one query and a batch of them have in common, by their sentence."""


def solution_attend_one(
    attention: XLAttention, x: Tensor, keys: Kept, values: Kept, r: Tensor, mem_len: int
) -> Step:
    """Return the attention's output for one new token, [1 model], and the last ``mem_len`` keys and values.

    ``r`` [head dist dim] holds W_kR R of the distances dist-1 … 0, as many as there are keys or more.
    """
    return _attended(attention, x, keys, values, r, mem_len)


def check_attend_one(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(attention, x, keys, values, r, mem_len)``: output, keys and values after one token."""

    def with_(**change: Any) -> Function:
        return lambda *case: _attended(*case, **change)

    mistakes: dict[str, Function | Sequence[Function]] = {
        "the token does not see itself: add its key and value first, then attend": with_(own=False),
        "the cache is cut before the token attends, so it sees one token too few: itself and mem_len before "
        "it. Attend first, then cut": [with_(cut_first=cut) for cut in ("negative", "last", "below zero")],
        "r is one row off: its last row is distance 0, of the token itself, and n keys have the last n rows, "
        "r[:, -n:]": [with_(rows=slice(*ends)) for ends in ((-1, -1), (1, None), (-1, None), (0, -1))],
        "the distances are missing: add (q + v) · r to (q + u) · k": with_(by_distance=False),
        **{sentence: with_(**change) for sentence, change in OF_BOTH.items()},
        "scores are divided by the root of a head's width, d_head, and not of the model's": with_(wide=True),
        "q is [head 1 dim] and attention.u is [head dim]: their sum is [head head dim]. Give u "
        "and v an axis for the query, as in rearrange(attention.u, 'head dim -> head 1 dim')": with_(
            bias_axes="head dim -> head dim"
        ),
        "only one of the two products is divided by √d_head: add them first, and divide the sum. Without "
        "brackets / comes before +": (
            with_(divided=("distances",)),
            with_(divided=("keys",)),
        ),
        "the heads lie one after the other in the projected vector: split it as (head dim)": (
            with_(split="1 (dim head) -> head 1 dim"),
            with_(split="1 (dim head) -> head 1 dim", merged="head 1 dim -> 1 (dim head)"),
        ),
        "the cache is not cut: keep the last mem_len keys and values": with_(cut=None),
        "the first keys are kept: the oldest stand first, and are the ones to drop": with_(cut="first"),
        "the cache is returned as it was: the new key and value belong into it": with_(grows=False),
        "the new key and value stand first: the oldest stand first, the new one at the end": with_(
            front=True
        ),
        "keys come from W_kE, values from W_v: here they are interchanged": with_(
            matrices=("W_q", "W_v", "W_kE")
        ),
        "values come from W_v, and here from W_kE": with_(matrices=("W_q", "W_kE", "W_kE")),
        "keys come from W_kE, and here from W_v": with_(matrices=("W_q", "W_v", "W_v")),
        "the values are returned before the keys: return output, keys, values": with_(turned=True),
        "W_o is missing: it multiplies the heads' outputs, side by side": with_(projected=False),
        "the heads are not side by side: merge them as head dim, head by head": with_(
            merged="head 1 dim -> 1 (dim head)"
        ),
        "the softmax goes over the keys, the last axis of the scores": with_(axis=0),
    }
    praise = "the output is that of the whole layer, and the cache holds the last mem_len keys and values"
    return judge(
        attempt,
        reference=solution_attend_one,
        cases=_cases(),
        mistakes=mistakes,
        praise=praise,
        names=NAMES,
    )


def _cases() -> list[tuple[Any, ...]]:
    """Return a cache that is empty, one that fills, one that is full, and more distances than are needed."""
    generator, cases = torch.Generator().manual_seed(13), []
    for n_head, d_head, kept, mem_len in (
        (2, 16, 0, 4),
        (2, 16, 2, 4),
        (3, 12, 4, 4),
        (2, 16, 4, 4),
        (1, 32, 1, 1),
        (2, 16, 0, 0),
    ):
        attention, r = drawn_layer(n_head, d_head, mem_len, generator)
        sizes = (1, n_head * d_head), (n_head, kept, d_head), (n_head, kept, d_head)
        drawn = [torch.randn(size, generator=generator, dtype=torch.float64) for size in sizes]
        cases.append((attention, *drawn, r, mem_len))
    return cases


def drawn_layer(
    n_head: int, d_head: int, mem_len: int, generator: torch.Generator, *, std: float = 1.0
) -> tuple[XLAttention, Float[Tensor, "head dist dim"]]:
    """Return a layer in float64 whose parameters the generator draws, and r for a query and its memory."""
    with torch.random.fork_rng(devices=[]):  # a new layer draws random numbers
        attention = XLAttention(n_head * d_head, n_head, d_head).double().requires_grad_(False)
    for parameter in attention.parameters():
        parameter.normal_(std=std, generator=generator)
    R = sinusoids(distances(mem_len + 1), n_head * d_head, dtype=torch.float64)
    return attention, rearrange(attention.W_kR(R), "dist (head dim) -> head dist dim", head=n_head)


def with_biases(
    attention: XLAttention, q: Tensor, biases: Sequence[str], axes: str = "head dim -> head 1 dim"
) -> list[Tensor]:
    """Return q with the biases that each string names, as "uv"; "-" names none."""
    named = [[attention.get_parameter(name) for name in names if name != "-"] for names in biases]
    return [reduce(add, (rearrange(bias, axes) for bias in of_product), q) for of_product in named]


def _attended(
    attention: XLAttention,
    x: Tensor,
    keys: Kept,
    values: Kept,
    r: Tensor,
    mem_len: int,
    *,
    own: bool = True,
    cut_first: str | None = None,
    rows: str | slice = "last",
    by_distance: bool = True,
    biases: str | tuple[str, str] = "uv",
    divided: tuple[str, ...] = ("keys", "distances"),
    wide: bool = False,
    power: float = 0.5,
    split: str = "1 (head dim) -> head 1 dim",
    cut: str | None = "last",
    grows: bool = True,
    front: bool = False,
    matrices: tuple[str, str, str] = ("W_q", "W_kE", "W_v"),
    turned: bool = False,
    projected: bool = True,
    merged: str = "head 1 dim -> 1 (head dim)",
    axis: int = -1,
    bias_axes: str = "head dim -> head 1 dim",
) -> Step:
    """Return a step of the cache; the options make mistakes."""
    projections = (attention.get_submodule(name)(x) for name in matrices)
    q, k, value = (rearrange(one, split, head=attention.n_head) for one in projections)
    for_keys, for_distances = with_biases(attention, q, biases, bias_axes)
    longer = [
        torch.cat([new, past] if front else [past, new], dim=1) for past, new in ((keys, k), (values, value))
    ]
    begin = longer[0].shape[1] - mem_len
    cuts = {
        "last": slice(max(0, begin), None),
        "below zero": slice(begin, None),
        "negative": slice(-mem_len, None),
        "first": slice(mem_len),
    }
    seen = cuts[cut_first] if cut_first else slice(None if own else -1)
    seen_keys, seen_values = (one[:, seen] for one in longer)
    n_key = seen_keys.shape[1]
    nearest = r[:, r.shape[1] - n_key :]
    if isinstance(rows, slice):  # begin and end are moved by so many rows
        ordered = r[:, rows.start - n_key : rows.stop]
    else:
        ordered = {"last": nearest, "first": r[:, :n_key], "turned": nearest.flip(1)}[rows]
    root = (attention.d_model if wide else attention.d_head) ** power
    by_keys, by_rows = (root if name in divided else 1 for name in ("keys", "distances"))
    scores = for_keys @ seen_keys.mT / by_keys
    scores = scores + (for_distances @ ordered.mT / by_rows if by_distance else 0)
    weights = scores.softmax(dim=axis)
    heads = rearrange(weights @ seen_values, merged)
    places = slice(None) if cut is None else cuts[cut]
    left = [one[:, places] for one in (longer if grows else [keys, values])][:: -1 if turned else 1]
    return attention.W_o(heads) if projected else heads, left[0], left[1]
