"""Checks of notebook 08's exercises: a head of one term, and one of two that work together.

A head must give more than 0.9 of each query's weight to the keys that are right, where there are any.
"""

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

import torch
from einops import einsum, rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from minitxl.attention import attention_mask
from minitxl.course.checker import Verdict, judge
from minitxl.position_encodings import distances, sinusoids
from minitxl.relative_shift import rel_shift

D_MODEL, KEYS = 64, 24
ENOUGH = 0.9
"""Share of a query's weight that its right keys together must exceed."""
SHARP = 100.0
"""Factor of the reference answers; see notebook 08, where heads are made by hand."""
Looks = Bool[Tensor, "text query key"]
"""The keys that share a query's largest score."""


def _head(looks: Callable[..., Any], answer: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that says where the head of an answer looks; a blank is passed on."""

    def head(*case: Any) -> Any:
        result = answer(*case)
        return result if result is None or result is Ellipsis else looks(result, *case)

    return head


def _texts(number: int) -> list[Int[Tensor, " key"]]:
    """Return random texts of five tokens that begin with each of them."""
    generator = torch.Generator().manual_seed(8)
    begin = torch.arange(5)
    return [torch.cat([begin, torch.randint(5, (KEYS - 5,), generator=generator)]) for _ in range(number)]


TEXTS = [*_texts(4), torch.where(torch.arange(KEYS) < 2, 0, 1 + torch.arange(KEYS) % 4)]
"""The last has the token 0 at its first two places alone."""


def _tokens(text: Int[Tensor, " key"]) -> Float[Tensor, "key model"]:
    return one_hot(text, D_MODEL).double()


def _largest(scores: Float[Tensor, "query key"]) -> Bool[Tensor, "query key"]:
    """Return the keys that share a query's largest score, up to rounding in float64."""
    seen = attention_mask(*scores.shape)[0]
    shown = scores.masked_fill(~seen, float("-inf"))
    best = shown.amax(-1, keepdim=True)
    return shown >= best - 1e-14 * best.abs()


def _places(looks: Sequence[bool], text: Int[Tensor, " key"]) -> str:
    places = [place for place, looked_at in enumerate(looks) if looked_at]
    words = [f"place {place} (token {text[place]})" for place in places[:3]]
    return " and ".join(words) + (f" and {len(places) - 3} more" if len(places) > 3 else "")


def _say_where(got: Looks, expected: Looks) -> str:
    """Name the first query whose head looks elsewhere than it should."""
    text, query = (got != expected).any(-1).nonzero()[0].tolist()
    tokens = TEXTS[text]
    return (
        f"in the text {' '.join(map(str, tokens.tolist()))} your head's query at place {query} "
        f"(token {tokens[query]}) looks at {_places(got[text, query].tolist(), tokens)}, and should look at "
        f"{_places(expected[text, query].tolist(), tokens)}"
    )


def _sharp(verdict: Verdict, scores: Float[Tensor, "*text query key"], right: Looks) -> Verdict:
    """Refuse a head that looks at the right keys, but with hardly more weight than at others."""
    seen = attention_mask(*scores.shape[-2:])[0]
    weights = (scores / sqrt(D_MODEL)).masked_fill(~seen, float("-inf")).softmax(-1)
    least = (weights * right).sum(-1).min().item()
    if least > ENOUGH:
        return verdict
    return Verdict(
        False,
        f"the largest score is at the right keys, but a query gives them only {least:.3g} of its weight, and "
        f"it must be more than {ENOUGH}: multiply your answer by a large factor, which sharpens the softmax",
    )


def check_partner(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(partner, d_model)``: a weight of W_q with which tokens look for partners, by (a)."""

    def scores(W_q: Tensor) -> Float[Tensor, "text query key"]:
        x = torch.stack([_tokens(text) for text in TEXTS])
        q = einsum(W_q.double(), x, "dim model, text key model -> text key dim")
        return einsum(q, x, "text query dim, text key dim -> text query key")

    def looks(W_q: Tensor, partner: Tensor, d_model: int) -> Looks:
        return torch.stack([_largest(one) for one in scores(W_q)])

    def reference(partner: Tensor, d_model: int) -> Tensor:
        return rearrange(_wide(partner, d_model), "model dim -> dim model")

    mistakes: dict[str, Callable[..., Tensor]] = {
        "each token is looked for by its partner: a weight of nn.Linear is [out, in], here [dim, model], "
        "so the column of token t holds what t looks for": _wide,
        "each token looks for itself: that is W_q = W_kE = 1, the partner is not in it yet": (
            lambda partner, d_model: torch.eye(d_model)
        ),
        "each token looks for itself as much as for its partner: start from zeros, not from torch.eye": (
            lambda partner, d_model: reference(partner, d_model) + torch.eye(d_model)
        ),
        "every query is zero, so it looks at all keys alike": (
            lambda partner, d_model: torch.zeros(d_model, d_model)
        ),
        "each token looks away from its partner: the sign is turned round": (
            lambda partner, d_model: -reference(partner, d_model)
        ),
    }
    try:
        first = attempt(torch.tensor([1, 2, 3, 4, 0]), D_MODEL)
    except Exception:
        first = None  # blank or broken, as judge says below
    if isinstance(first, Tensor) and first.shape != (D_MODEL, D_MODEL):
        return Verdict(
            False,
            f"W_q is [dim model], here [{D_MODEL} {D_MODEL}], and yours is "
            f"[{' '.join(map(str, first.shape))}]: there are fewer tokens than dimensions, "
            "so fill up with zeros",
        )
    partners = [torch.tensor(row) for row in ([1, 2, 3, 4, 0], [3, 3, 0, 1, 1], [2, 0, 4, 4, 3])]
    verdict = judge(
        _head(looks, attempt),
        reference=_head(looks, reference),
        cases=[(partner, D_MODEL) for partner in partners],
        mistakes={why: _head(looks, mistake) for why, mistake in mistakes.items()},
        praise="each token gives its partner more than 0.9 of its weight, wherever it stands, by (a) alone",
        names=("partner", "d_model"),
        say=_say_where,
    )
    for partner in partners:
        if verdict.right:
            right = looks(reference(partner, D_MODEL), partner, D_MODEL)
            verdict = _sharp(verdict, scores(attempt(partner, D_MODEL)), right)
    return verdict


def _wide(partner: Tensor, d_model: int) -> Tensor:
    """Return a matrix whose row t holds the one-hot vector of t's partner."""
    rows = torch.zeros(d_model, d_model)
    rows[: len(partner)] = one_hot(partner, d_model).float()
    return rows


def check_look_back(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(distance, W_kR, R)``: a v that looks ``distance`` back, by (d); W_kR is a rotation."""

    def scores(v: Tensor, W_kR: Tensor, R: Tensor) -> Float[Tensor, " dist"]:
        r = einsum(W_kR, R, "dim model, dist model -> dist dim")
        return einsum(v.to(r.dtype), r, "dim, dist dim -> dist")

    def looks(v: Tensor, distance: int, W_kR: Tensor, R: Tensor) -> int:
        return len(R) - 1 - int(scores(v, W_kR, R).argmax())

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
        "the head looks away from the distance: the sign is turned round": (
            lambda d, W_kR, R: -W_kR @ R[-1 - d]
        ),
    }
    generator = torch.Generator().manual_seed(8)
    cases = []
    for distance, key in ((3, 20), (7, 24), (11, 32), (1, 9)):
        rotation = torch.linalg.qr(torch.randn(D_MODEL, D_MODEL, generator=generator))[0]
        cases.append((distance, rotation, sinusoids(distances(key).float(), D_MODEL)))
    verdict = judge(
        _head(looks, attempt),
        reference=_head(looks, reference),
        cases=cases,
        mistakes={why: _head(looks, mistake) for why, mistake in mistakes.items()},
        praise="more than 0.9 of the weight lies exactly as far back as it should, whatever the words are",
        names=("distance", "W_kR", "R"),
        say=lambda got, expected: f"your head looks {got} back, and should look {expected} back",
    )
    for distance, W_kR, R in cases:
        if verdict.right:
            right = torch.arange(len(R) - 1, -1, -1)[None, None] == distance
            verdict = _sharp(verdict, scores(attempt(distance, W_kR, R), W_kR, R)[None, None], right)
    return verdict


def check_last_blank(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(blank, R)``: u and v that look at the last blank, by (c) and (d) together."""
    exact = sinusoids(distances(KEYS).double(), D_MODEL)

    def scores(biases: Any) -> Float[Tensor, "text query key"]:
        u, v = (bias.double() for bias in biases)
        d = rel_shift(einsum(v, exact, "dim, dist dim -> dist").expand(KEYS, KEYS))
        c = (einsum(u, _tokens(text), "dim, key dim -> key").expand(KEYS, KEYS) for text in TEXTS)
        return torch.stack([one + d for one in c])

    def looks(biases: Any, blank: Tensor, R: Tensor) -> Looks:
        return torch.stack([_largest(one) for one in scores(biases)])

    def cosine(R: Tensor, number: int) -> Tensor:
        """Return a v that picks the cosine of this number: cos(10^(-number / 8) · distance)."""
        v = torch.zeros_like(R[-1])
        v[len(v) // 2 + number] = 1.0
        return v

    def slow(R: Tensor) -> Tensor:
        return cosine(R, 8)

    mistakes: dict[str, Callable[..., Any]] = {
        "this is one bias used twice: u meets the keys of content and v those of distance, "
        "so the blank belongs in u alone and the distance in v alone": (
            lambda blank, R: (100 * blank + slow(R), 100 * blank + slow(R))
        ),
        "u and v are swapped: u meets W_kE x, what a key is, and v meets W_kR R, how far it is": (
            lambda blank, R: (slow(R), 100 * blank)
        ),
        "this looks at blanks, but at all of them alike: v is zero, so no distance is better": (
            lambda blank, R: (100 * blank, 0 * R[-1])
        ),
        "nearly: R_0 · R_d adds up all cosines and wobbles as it falls, so a farther blank may win; "
        "take one slow cosine, which falls all the way": lambda blank, R: (100 * blank, R[-1]),
        "R[0] is the farthest distance, key-1; the nearest, 0, is R[-1]": (
            lambda blank, R: (100 * blank, R[0])
        ),
        "that column is a sine: it begins at 0 and rises, so farther blanks win. The cosines are the second "
        "half of a row": lambda blank, R: (100 * blank, cosine(R, 8 - len(R[-1]) // 2)),
    }
    R = sinusoids(distances(KEYS).float(), D_MODEL)
    blank = one_hot(torch.tensor(0), D_MODEL).float()
    verdict = judge(
        _head(looks, attempt),
        reference=_head(looks, lambda blank, R: (SHARP * blank, slow(R))),
        cases=[(blank, R)],
        mistakes={why: _head(looks, mistake) for why, mistake in mistakes.items()},
        praise="every query gives the last blank more than 0.9 of its weight: what from u, where from v",
        names=("blank", "R"),
        say=_say_where,
    )
    if verdict.right:
        return _sharp(verdict, scores(attempt(blank, R)), looks((SHARP * blank, slow(R)), blank, R))
    unnamed = " your head's query at place " in verdict.message
    u, v = attempt(blank, R) if unnamed else (None, None)
    why = _why_not_the_last_blank(u, v, exact) if unnamed else None
    return Verdict(False, why, details=verdict.message) if why else verdict


def _why_not_the_last_blank(u: Any, v: Any, R: Tensor) -> str | None:
    """Say whether u is too weak beside v, and from which distance on the score of v rises."""
    lead = (u[0] - u[1:5].max()).item()  # token 0 is the blank
    curve = einsum(v.double(), R, "dim, dist dim -> dist").flip(0)  # by distance, from 0 on
    takes, reasons = (curve.max() - curve.min()).item(), []
    if lead <= takes:
        reasons.append(
            f"u is too weak: over the {KEYS} distances the score of v differs by up to {takes:.3g}, and "
            f"being a blank adds {lead:.3g}. Make u much larger, or v smaller"
        )
    rises = (curve.diff() >= 0).nonzero().flatten().tolist()
    if rises:
        reasons.append(
            f"the score of v does not fall all the way: it rises from distance {rises[0]} to {rises[0] + 1}, "
            "so a farther blank may win. Take a column with a slow cosine, which falls over all distances"
        )
    return ". And ".join(reasons) or None
