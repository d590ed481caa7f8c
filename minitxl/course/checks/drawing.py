"""Check of notebook 13's first exercise: the probabilities to draw from, by temperature and top p."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from minitxl.course.checker import Function, Verdict, judge
from minitxl.inference.sampling import sampling_probs

Rule = Callable[[Tensor, Tensor, float], Tensor]
"""Of sorted probabilities, their running sums and ``top_p``: which tokens stay."""


EIGHTHS = torch.tensor([[0.125, 0.5, 0.25, 0.125]], dtype=torch.float64).log()
"""Probabilities of which one, two or three have a sum without rounding."""

TIED = torch.tensor([[0.4, 0.3, 0.3]], dtype=torch.float64).log()
"""Probabilities of which two are equal, and one of those two is enough."""


def solution_probs(log_probs: Tensor, temperature: float, top_p: float) -> Tensor:
    """Return the probabilities of the fewest likeliest tokens that have ``top_p`` together; they sum to 1."""
    return sampling_probs(log_probs, temperature=temperature, top_p=top_p)


def check_probs(attempt: Callable[..., Tensor]) -> Verdict:
    """Check ``attempt(log_probs, temperature, top_p)``, which gives the probabilities to draw from.

    Where tokens have exactly ``top_p`` together, widely used code keeps one more: right, and told.
    """
    generator = torch.Generator().manual_seed(14)
    scores = 2 * torch.randn(5, 6, 9, generator=generator, dtype=torch.float64)
    *drawn, whole = scores.log_softmax(dim=-1)
    ways = ((1.0, 0.3), (1.0, 0.5), (0.5, 0.9), (2.0, 0.9))
    cases = [(one, *way) for one, way in zip(drawn, ways, strict=True)]
    praise = "the temperature first, and then the fewest likeliest tokens that have this probability together"
    judged = partial(judge, attempt, reference=solution_probs, praise=praise)
    verdict = judged(cases=cases, mistakes=_mistakes())
    verdict = judged(cases=[(whole, 0.7, 1.0)], mistakes={}) if verdict.right else verdict
    if verdict.right and int((attempt(TIED.clone(), 1.0, 0.6) > 0).sum()) > 2:
        return Verdict(
            False,
            "of 0.4, 0.3 and 0.3 with top_p 0.6 you keep all three, where two are enough: of equally likely "
            "tokens keep as many as are needed, by their place in the order and not by their probability",
        )
    if verdict.right and int((attempt(EIGHTHS.clone(), 1.0, 0.5) > 0).sum()) == 2:
        message = (
            f"{praise}. Where some have exactly top_p together, yours keeps one token more, as widely used"
        )
        return Verdict(True, f"{message} code does: < in place of <= keeps the fewest")
    return verdict


def _tempered(log_probs: Tensor, temperature: float) -> Tensor:
    return (log_probs / temperature).softmax(dim=-1)


def _divided(log_probs: Tensor, temperature: float) -> Tensor:
    return log_probs.exp() / temperature


def _summing_to_1(numbers: Tensor) -> Tensor:
    return numbers / numbers.sum(dim=-1, keepdim=True)


def _back(kept: Tensor, order: Tensor) -> Tensor:
    return torch.zeros_like(kept).scatter(-1, order, kept)


def _right(probs: Tensor, sums: Tensor, top_p: float) -> Tensor:
    return sums - probs < top_p


def _keeping(
    rule: Rule = _right,
    *,
    tempered: Callable[[Tensor, float], Tensor] = _tempered,
    after: Callable[[Tensor, float], Tensor] = lambda kept, temperature: kept,
    normed: bool = True,
    whole: Callable[[Tensor], Tensor] = lambda kept: kept.sum(dim=-1, keepdim=True),
    summed: Callable[[Tensor], Tensor] = lambda probs: probs.cumsum(dim=-1),
    back: Callable[[Tensor, Tensor], Tensor] = _back,
    descending: bool = True,
) -> Function:
    """Return the probabilities with one step of them as given."""

    def probabilities(log_probs: Tensor, temperature: float, top_p: float) -> Tensor:
        probs, order = tempered(log_probs, temperature).sort(dim=-1, descending=descending)
        nucleus = after(probs * rule(probs, summed(probs), top_p), temperature)
        return back(nucleus / whole(nucleus) if normed else nucleus, order)

    return probabilities


def _mistakes() -> dict[str, Function | Sequence[Function]]:
    """Return wrong ways to make the probabilities, by what to say of them."""

    def too_few(probs: Tensor, sums: Tensor, top_p: float) -> Tensor:
        return sums <= top_p

    def too_few_but_one(probs: Tensor, sums: Tensor, top_p: float) -> Tensor:
        return (sums <= top_p) | (torch.arange(probs.shape[-1]) == 0)

    def unscaled(log_probs: Tensor, temperature: float) -> Tensor:
        return log_probs.exp()

    return {
        "the token that crosses top_p belongs in: compare the sum before it, cumsum - probs, with top_p": (
            _keeping(too_few),
            _keeping(too_few_but_one),
            _keeping(too_few, normed=False),
        ),
        "one token too many: a token stays if those before it have less than top_p together": _keeping(
            lambda probs, sums, top_p: (sums - probs < top_p).roll(1, -1) | (sums == probs)
        ),
        "the temperature changes nothing: it is not used, or it divides the probabilities and cancels when "
        "they are made to sum to 1. Divide the logarithms by it": (
            _keeping(tempered=unscaled),
            _keeping(tempered=lambda log_probs, temperature: _summing_to_1(_divided(log_probs, temperature))),
        ),
        "the logarithms are divided by the temperature, not multiplied": _keeping(
            tempered=lambda log_probs, temperature: _tempered(log_probs, 1 / temperature)
        ),
        "divide the logarithms, not the probabilities: the sum takes a common factor out again": (
            _keeping(tempered=_divided),
            _keeping(tempered=_divided, normed=False),
            _keeping(tempered=unscaled, after=lambda kept, temperature: kept / temperature, normed=False),
            lambda log_probs, temperature, top_p: solution_probs(log_probs, 1.0, top_p) / temperature,
        ),
        "top_p is not used: after the temperature only the likeliest stay that have top_p together": (
            lambda log_probs, temperature, top_p: _tempered(log_probs, temperature)
        ),
        "divided by the temperature, they do not sum to 1: make probabilities of them before top_p": (
            _keeping(tempered=lambda log_probs, temperature: (log_probs / temperature).exp())
        ),
        "the temperature comes first, and top_p counts the probabilities that it leaves": _keeping(
            tempered=unscaled, after=lambda kept, temperature: kept ** (1 / temperature)
        ),
        "the probabilities still stand in the order of the sort: put each back to its token, with scatter": (
            _keeping(back=lambda kept, order: kept),
            _keeping(back=lambda kept, order: kept, normed=False),
        ),
        "they are put back the wrong way round: order says where each came from, so scatter, not gather": (
            _keeping(back=lambda kept, order: kept.gather(-1, order))
        ),
        "what is kept must sum to 1 again: divide by its sum": _keeping(normed=False),
        "softmax takes logarithms: of probabilities it makes others, also of those that were cut": (
            _keeping(after=lambda kept, temperature: kept.softmax(dim=-1), normed=False),
            _keeping(tempered=lambda log_probs, temperature: _divided(log_probs, temperature).softmax(-1)),
        ),
        "top_p bounds the sum of the likeliest, not the probability of each": (
            _keeping(lambda probs, sums, top_p: probs >= 1 - top_p),
            _keeping(lambda probs, sums, top_p: probs >= top_p),
        ),
        "each row of the batch is a distribution of its own: sum, sort and softmax go along the last axis, "
        "dim=-1, and not over the rows": (
            _keeping(tempered=lambda log_probs, temperature: (log_probs / temperature).softmax(dim=0)),
            _keeping(whole=lambda kept: kept.sum()),
            _keeping(whole=lambda kept: kept.sum(dim=0)),
            _keeping(summed=lambda probs: probs.cumsum(dim=0)),
            lambda log_probs, temperature, top_p: solution_probs(log_probs.mT, temperature, top_p).mT,
        ),
        "these are logarithms: return probabilities": lambda *case: solution_probs(*case).log(),
        "the least likely are kept: sort from the likeliest down": _keeping(descending=False),
    }
