"""Checks of notebook 12 about costs: of a window, of a cache, of hidden states; and its predictions."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any, Literal

from minitxl.course.checker import Function, Verdict, judge
from minitxl.course.predictions import Predictions, Question

predictions = Predictions(
    Question(
        "advantage",
        "Is the cache's advantage at 3,800 smaller than, the same as, or larger than at 800?",
        answer="larger",
        choices=("smaller", "the same", "larger"),
        why="a window computes A tokens anew for each that it scores, a cache one: the ratio grows with A",
        wrong={
            "the same": "no constant is built in: a window computes A tokens anew for each that it scores",
            "smaller": "attention grows on both sides, but a window pays it for each of its A tokens",
        },
    ),
    Question(
        "cut",
        "Every query sees the same number of keys. Do other cuts change the log-probabilities?",
        answer="equal",
        choices=("change", "equal"),
        why="with one window for every query, the cut decides what is computed together, and nothing else",
        wrong={
            "change": "without a window later queries of a segment see more keys; here all see equally many"
        },
    ),
    Question(
        "window",
        "12 layers, every query sees 3,800 keys: how many tokens repeat one prediction exactly?",
        answer=45_589,
        why="12 · 3,799 + 1: each layer adds the tokens that the states it reads had read before",
        wrong={
            3800: "those are what one layer attends to; the states it reads had read older tokens",
            45_600: "a query sees itself too: each layer adds 3,799 older tokens, and the token counts once",
        },
    ),
)


def check_cost(attempt: Callable[..., Any]) -> Verdict:
    """``attempt(n_layer, d_model, d_inner, mem_len, seg_len)``: operations of the layers for one token."""
    mistakes: dict[str, Callable[..., float]] = {
        "this is the cost of a whole segment: divide it by the tokens it scores, L": partial(
            solution_cost, of=1
        ),
        "keys and values of the memory are missing: W_k and W_v of M states, anew in every segment": (
            partial(solution_cost, remembered=0)
        ),
        "the memory has values as well as keys: two products for each of its states": partial(
            solution_cost, remembered=2
        ),
        "memory is not a longer segment: it has no queries, no W_o and no feed-forward layer": partial(
            solution_cost, remembered=None
        ),
        "W_kR is missing: it projects one R for each of the M + L distances": partial(
            solution_cost, placed=False
        ),
        "W_kR projects one R for each of M + L distances: these are M, those of the memory alone": partial(
            solution_cost, placed="memory"
        ),
        "keys and values of the segment's own tokens are in their 8 d² already: 4 d² more for the M states "
        "of memory alone, not for all M + L": partial(solution_cost, twice=True),
        "each query meets M + L keys, not M": partial(solution_cost, keys_of_segment=False),
        "a pair has three products: with the key, with the distance, and in the mean of the values": partial(
            solution_cost, products=2
        ),
    }
    cases = [
        (2, 8, 32, 6, 4),
        (1, 4, 4, 0, 3),
        (12, 512, 2048, 3800, 128),
        (3, 128, 512, 64, 64),
        (2, 10, 7, 5, 1),
    ]
    return judge(
        attempt, reference=solution_cost, cases=cases, mistakes=mistakes, praise="right in every case"
    )


def solution_cost(
    n_layer: int,
    d_model: int,
    d_inner: int,
    mem_len: int,
    seg_len: int,
    *,
    of: int | None = None,
    remembered: int | None = 4,
    placed: bool | Literal["memory"] = True,
    twice: bool = False,
    keys_of_segment: bool = True,
    products: int = 3,
) -> float:
    """Return the operations for a token where memory holds hidden states; the options make mistakes.

    ``remembered`` is the operations of a state of memory per d_model², None those of a token. ``placed``
    "memory" projects the distances of memory alone, ``twice`` keys and values of the segment once more.
    """
    square, key = d_model * d_model, mem_len + seg_len
    token = 8 * square + 4 * d_model * d_inner
    memory = mem_len * (token if remembered is None else remembered * square)
    memory += 4 * square * seg_len if twice else 0
    distances = 2 * square * (mem_len if placed == "memory" else key) if placed else 0
    attended = 2 * products * d_model * seg_len * (key if keys_of_segment else mem_len)
    return n_layer * (seg_len * token + memory + distances + attended) / (of or seg_len)


def solution_longest_seg(d_model: int, d_inner: int) -> int:
    """Return the longest L with p + 2d(A + 1) ≥ (p + 6d(A + L)) / 3 for every A: L - 1 ≤ p / 3d."""
    return (8 * d_model + 4 * d_inner) // 3 + 1


def check_longest_seg(attempt: Callable[..., Any]) -> Verdict:
    """``attempt(d_model, d_inner)``: the longest segment with which f is 1/3 or more, whatever A is."""
    mistakes: dict[str, Function | Sequence[Function]] = {
        "one too short: A + 1 stands above and A + L below, so it is L - 1 that is at most p / 3d": (
            lambda d, inner: (8 * d + 4 * inner) // 3
        ),
        "one too long: rounded up, f is a little below 1/3. Round down": (
            lambda d, inner: -(-(8 * d + 4 * inner) // 3) + 1
        ),
        "this holds for d_inner = 4d alone: p has d_inner in it": lambda d, inner: 8 * d + 1,
        "this is p / 3d + 1, and not rounded down: a segment is a whole number of tokens": (
            lambda d, inner: (8 * d + 4 * inner) / 3 + 1
        ),
        "3p less p is 2p, and 2p over 6d is p / 3d: here one of both was left out": (
            lambda d, inner: (8 * d + 4 * inner) // 6 + 1,
            lambda d, inner: (8 * d + 4 * inner) // 2 + 1,
        ),
        "this is p / 3: divide by d, too": lambda d, inner: (8 * d * d + 4 * d * inner) // 3 + 1,
    }
    cases = [(64, 256), (10, 7), (100, 30), (512, 2048), (5, 5)]
    return judge(
        attempt,
        reference=solution_longest_seg,
        cases=cases,
        mistakes=mistakes,
        names=("d_model", "d_inner"),
    )


def solution_sliding(n_layer: int, d_model: int, d_inner: int, attention_len: int) -> int:
    """Return the operations of the layers for one token that a sliding window scores."""
    return _sliding(n_layer, d_model, d_inner, attention_len)


def solution_cached(n_layer: int, d_model: int, d_inner: int, mem_len: int, seg_len: int) -> int:
    """Return the operations of the layers for one token that is scored with a cache."""
    return _cached(n_layer, d_model, d_inner, mem_len, seg_len)


def _token(d_model: int, d_inner: int, *, inner: bool = True, matrices: int = 4) -> int:
    """Return p: the operations of a token in one layer."""
    return 2 * matrices * d_model**2 + 4 * d_model * d_inner * inner


def _sliding(
    n_layer: int,
    d_model: int,
    d_inner: int,
    attention_len: int,
    *,
    causal: bool = True,
    last: Literal["one", "whole", "bare", "token"] = "one",
    products: int = 2,
    half: bool = False,
    **token: Any,
) -> Any:
    """Return the operations of a window; the options make mistakes."""
    A, p = attention_len, _token(d_model, d_inner, **token)
    pairs = A * (A + 1) // 2 if causal else A * A
    whole = A * p + 2 * products * d_model * pairs
    others = (A - 1) * {"one": 4 * d_model**2, "bare": 0, "token": p, "whole": p}[last]
    final = whole if last == "whole" else others + p + 2 * products * d_model * A
    cost = (n_layer - 1) * whole + final
    return cost / 2 if half else cost


def _cached(
    n_layer: int,
    d_model: int,
    d_inner: int,
    mem_len: int,
    seg_len: int,
    *,
    causal: bool = False,
    segment: bool = True,
    products: int = 3,
    total: bool = False,
    half: bool = False,
    **token: Any,
) -> Any:
    """Return the operations with a cache; the options make mistakes."""
    own: float = (seg_len + 1) / 2 if causal else seg_len * segment
    p = _token(d_model, d_inner, **token)
    cost = n_layer * (p + 2 * products * d_model * (mem_len + own)) * (seg_len if total else 1)
    return cost / 2 if half else cost


OF_A_TOKEN: dict[str, dict[str, Any]] = {
    "each product is counted once: [m k] times [k n] takes 2 m k n, a product and a sum each": {"half": True},
    "the feed-forward layer is missing: 4 d · d_inner for each token": {"inner": False},
    "W_o is missing, or one of W_q, W_k, W_v: four matrices, 8 d² for each token": {"matrices": 3},
}
OF_SLIDING: dict[str, dict[str, Any]] = {
    "the window's last layer is counted in full: one query is scored, so it needs keys and values of all "
    "tokens, and the rest for one": {"last": "whole"},
    "the window's last layer needs keys and values of the A - 1 other tokens too: 4 d² each": {
        "last": "bare"
    },
    "in the window's last layer the A - 1 other tokens need keys and values alone: 4 d² each, not p": {
        "last": "token"
    },
    "each query of the window meets all A keys here: a causal one meets those before it and itself, "
    "A (A + 1) / 2 pairs": {"causal": False},
    "a vanilla model has no distance product: a pair of the window has two, 4 d": {"products": 3},
}
OF_CACHED: dict[str, dict[str, Any]] = {
    "a pair of the cache has a third product, the one of the distance: 6 d": {"products": 2},
    "a query of the cache meets A + L keys, memory and segment": {"segment": False},
    "the segment multiplies all its queries with all its keys, and masks afterwards: A + L keys for each "
    "query, not A + 1 up to A + L": {"causal": True},
    "this is the cost of a whole segment: divide it by the tokens it scores, L": {"total": True},
}
"""Options of the cached count that make a mistake, by the sentence that names it."""


def _mistakes(function: Function, options: Mapping[str, dict[str, Any]]) -> dict[str, Function]:
    """Return the function with each change, and with each two of them that go together."""
    mistakes: dict[str, Function] = {name: partial(function, **change) for name, change in options.items()}
    for (one, first), (other, second) in combinations(options.items(), 2):
        if not first.keys() & second.keys() and (first | second).keys() != {"causal", "segment"}:
            mistakes[f"two things. First: {one}. Second: {other}"] = partial(function, **first, **second)
    return mistakes


def check_sliding(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(n_layer, d_model, d_inner, attention_len)``: operations for one scored token.

    They are those of the layers, heads × head width being d_model. The window computes all its
    ``attention_len`` tokens in each layer but the last, and there keys and values of all and one query.
    """
    cases = [(2, 8, 32, 6), (1, 4, 4, 1), (12, 512, 2048, 3800), (3, 128, 512, 64), (1, 8, 20, 5)]
    mistakes = _mistakes(_sliding, OF_A_TOKEN | OF_SLIDING)
    return judge(
        attempt, reference=solution_sliding, cases=cases, mistakes=mistakes, praise="right in every case"
    )


def check_cached(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(n_layer, d_model, d_inner, mem_len, seg_len)``: operations for one scored token.

    They are those of the layers. The cache holds keys and values of ``mem_len`` tokens, and each query meets
    mem_len + seg_len keys.
    """
    cases = [(2, 8, 32, 6, 4), (1, 4, 4, 1, 3), (12, 512, 2048, 3800, 128), (3, 128, 512, 64, 64)]
    mistakes = _mistakes(_cached, OF_A_TOKEN | OF_CACHED)
    return judge(
        attempt, reference=solution_cached, cases=cases, mistakes=mistakes, praise="right in every case"
    )
