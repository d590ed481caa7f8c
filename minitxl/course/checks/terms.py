"""Checks of notebook 08: a term alone, and two that work together.

What counts is where a head looks, so an answer may be as sharp as its author likes.
"""

from collections.abc import Callable
from typing import Any

import torch
from einops import einsum, rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from minitxl.attention import attention_mask
from minitxl.course.exercises import Verdict, judge
from minitxl.positions import distances, rel_shift, sinusoids

D_MODEL, KEYS = 64, 24
Text = Int[Tensor, " key"]


def _then(use: Callable[..., Any], solution: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that computes the head an attempt makes; an empty attempt is passed on."""

    def head(*case: Any) -> Any:
        answer = solution(*case[:-1])
        return answer if answer is None or answer is Ellipsis else use(answer, *case)

    return head


def _tokens(text: Text) -> Float[Tensor, "key model"]:
    return one_hot(text, D_MODEL).float()


def _texts(number: int) -> list[Text]:
    """Return random texts of five tokens that begin with each of them."""
    generator = torch.Generator().manual_seed(8)
    begin = torch.arange(5)
    return [torch.cat([begin, torch.randint(5, (KEYS - 5,), generator=generator)]) for _ in range(number)]


def _largest(scores: Float[Tensor, "query key"]) -> Bool[Tensor, "query key"]:
    """Return the keys that share a query's largest score."""
    seen = attention_mask(*scores.shape)[0]
    shown = scores.masked_fill(~seen, float("-inf"))
    return shown >= shown.amax(-1, keepdim=True) - 1e-4


def check_partner(attempt: Callable[..., Any]) -> Verdict:
    """``attempt(partner, d_model)``: a weight of W_q with which a token looks for its partner, by (a)."""

    def use(W_q: Tensor, partner: Tensor, d_model: int, text: Text) -> Tensor:
        x = _tokens(text)
        q = einsum(W_q.float(), x, "dim model, key model -> key dim")
        return _largest(einsum(q, x, "query dim, key dim -> query key"))

    def reference(partner: Tensor, d_model: int) -> Tensor:
        return rearrange(_wide(partner, d_model), "model dim -> dim model")

    def transposed(partner: Tensor, d_model: int) -> Tensor:
        return _wide(partner, d_model)

    def itself(partner: Tensor, d_model: int) -> Tensor:
        return torch.eye(d_model)

    def keys_side(partner: Tensor, d_model: int) -> Tensor:
        return reference(partner, d_model) + torch.eye(d_model)

    partners = [torch.tensor(row) for row in ([1, 2, 3, 4, 0], [3, 3, 0, 1, 1], [2, 0, 4, 4, 3])]
    mistakes = {
        "each token is looked for by its partner: a weight of nn.Linear is [out, in], here [dim, model], "
        "so the column of token t holds what t looks for": transposed,
        "each token looks for itself: that is W_q = W_kE = 1, the partner is not in it yet": itself,
        "each token looks for itself as much as for its partner: start from zeros, not from torch.eye": (
            keys_side
        ),
    }
    return judge(
        _then(use, attempt),
        reference=_then(use, reference),
        cases=[(partner, D_MODEL, text) for partner, text in zip(partners, _texts(3), strict=True)],
        mistakes={why: _then(use, wrong) for why, wrong in mistakes.items()},
        praise="each token finds its partner, wherever it stands, and (b), (c), (d) are zero",
    )


def _wide(partner: Tensor, d_model: int) -> Tensor:
    """Row t holds the one-hot vector of t's partner."""
    rows = torch.zeros(d_model, d_model)
    rows[: len(partner)] = one_hot(partner, d_model).float()
    return rows


def check_look_back(attempt: Callable[..., Any]) -> Verdict:
    """``attempt(distance, W_kR, R)``: a v that looks ``distance`` back, by (d); W_kR is a rotation."""

    def use(v: Tensor, distance: int, W_kR: Tensor, R: Tensor, key: int) -> Tensor:
        r = einsum(W_kR, R, "dim model, dist model -> dist dim")
        found = einsum(v, r, "dim, dist dim -> dist").argmax()
        return key - 1 - found

    def reference(distance: int, W_kR: Tensor, R: Tensor) -> Tensor:
        return W_kR @ R[len(R) - 1 - distance]

    mistakes: dict[str, Callable[..., Any]] = {
        "this looks at the wrong end: the rows of R are the distances key-1 … 0, "
        "so the row of a distance is key - 1 - distance": lambda d, W_kR, R: W_kR @ R[d],
        "v meets r = W_kR R and not R: turn the row of R by W_kR as well": lambda d, W_kR, R: R[-1 - d],
        "W_kR is transposed: r = W_kR R is W_kR @ row for a row of R, or R @ W_kR.T for all": (
            lambda d, W_kR, R: W_kR.T @ R[-1 - d]
        ),
        "off by one: the last row of R is distance 0, the query's own": lambda d, W_kR, R: W_kR @ R[-d],
    }
    generator = torch.Generator().manual_seed(8)
    cases = []
    for distance, key in ((3, 20), (7, 24), (11, 32), (1, 9)):
        rotation = torch.linalg.qr(torch.randn(D_MODEL, D_MODEL, generator=generator))[0]
        cases.append((distance, rotation, sinusoids(distances(key).float(), D_MODEL), key))
    return judge(
        _then(use, attempt),
        reference=_then(use, reference),
        cases=cases,
        mistakes={why: _then(use, wrong) for why, wrong in mistakes.items()},
        praise="the head looks exactly as far back as it should, whatever the words are",
    )


def check_last_blank(attempt: Callable[..., Any]) -> Verdict:
    """``attempt(blank, R)``: u and v that look at the last blank, by (c) and (d) together."""

    def use(biases: Any, blank: Tensor, R: Tensor, text: Text) -> Tensor:
        u, v = biases
        c = einsum(u, _tokens(text), "dim, key dim -> key").expand(KEYS, KEYS)
        d = rel_shift(einsum(v, R, "dim, dist dim -> dist").expand(KEYS, KEYS))
        return _largest(c + d)

    def slow(R: Tensor) -> Tensor:
        v = torch.zeros_like(R[-1])
        v[len(v) // 2 + 8] = 1.0
        return v

    def reference(blank: Tensor, R: Tensor) -> tuple[Tensor, Tensor]:
        return 100 * blank, slow(R)

    def one_bias(blank: Tensor, R: Tensor) -> tuple[Tensor, Tensor]:
        return 100 * blank + slow(R), 100 * blank + slow(R)

    mistakes: dict[str, Callable[..., Any]] = {
        "this is one bias used twice: u meets the keys of content and v those of distance, "
        "so the blank belongs in u alone and the distance in v alone": one_bias,
        "u and v are swapped: u meets W_kE x, what a key is, and v meets W_kR R, how far it is": (
            lambda blank, R: (slow(R), 100 * blank)
        ),
        "this looks at blanks, but at all of them alike: v is zero, so no distance is better": (
            lambda blank, R: (100 * blank, 0 * R[-1])
        ),
        "this looks at the query itself: v outweighs u, so make u much larger": (
            lambda blank, R: (blank, 100 * slow(R))
        ),
        "nearly: R_0 · R_d adds up all cosines and wobbles as it falls, so a farther blank may win; "
        "take one slow cosine, which falls all the way": lambda blank, R: (100 * blank, R[-1]),
        "R[0] is the farthest distance, key-1; the nearest, 0, is R[-1]": (
            lambda blank, R: (100 * blank, R[0])
        ),
    }
    rare = 1 + torch.arange(KEYS) % 4
    rare[:2] = 0
    R = sinusoids(distances(KEYS).float(), D_MODEL)
    blank = one_hot(torch.tensor(0), D_MODEL).float()
    return judge(
        _then(use, attempt),
        reference=_then(use, reference),
        cases=[(blank, R, text) for text in [*_texts(4), rare]],
        mistakes={why: _then(use, wrong) for why, wrong in mistakes.items()},
        praise="every query finds the last blank: what from u, where from v, and no query needed",
    )
