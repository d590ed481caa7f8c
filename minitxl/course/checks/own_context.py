"""Checks of notebook 06b's effective context length of one model, and of a draw of tokens anew."""

from collections.abc import Callable, Sequence
from math import exp
from typing import Any

import torch
from torch import Tensor

from minitxl.course.checker import Function, Verdict, judge

Losses = Sequence[float]
"""Mean losses of one model in nats, one for each context length, in the order of the lengths."""
Step = Callable[[Losses, int], float]
"""The gain of the step from a place to the next."""
THRESHOLD = 0.01


def _falls(losses: Losses, at: int) -> float:
    """Return the share by which the perplexity falls from one place to the next."""
    return 1 - exp(losses[at + 1] - losses[at])


def solution_ecl(losses: Losses, lengths: Sequence[int]) -> int:
    """Return the first context from which the next lowers the perplexity by less than 1 %, or the longest."""
    return lengths[_stop(losses, _falls)]


def check_ecl(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(losses, lengths)``; the first case is the small one of the text."""
    mistakes: dict[str, Function | Sequence[Function]] = {
        "that asks for 0.01 nats: 1 % of the perplexity is asked, and that is e to the loss": _ecl(
            lambda losses, at: losses[at] - losses[at + 1]
        ),
        "that is a share of the loss: take it of the perplexity, e to the loss": _ecl(
            lambda losses, at: (losses[at] - losses[at + 1]) / losses[at]
        ),
        "losses are in nats, so perplexity is e to the loss; 2 is for bits": _ecl(
            lambda losses, at: 1 - 2 ** (losses[at + 1] - losses[at])
        ),
        "the fall of the perplexity is not divided: it is a share of the one at the shorter length": _ecl(
            lambda losses, at: exp(losses[at]) - exp(losses[at + 1])
        ),
        "the fall is a share of the perplexity at the shorter length, and not at the longer": _ecl(
            lambda losses, at: exp(losses[at] - losses[at + 1]) - 1
        ),
        "1 % is 0.01: no step lowers the perplexity by all of it": _ecl(_falls, least=1.0),
        "the comparison is turned round: stop where a step lowers the perplexity by less than 1 %": _ecl(
            lambda losses, at: -_falls(losses, at), least=-THRESHOLD
        ),
        "a rise is no fall: leave the sign in": _ecl(lambda losses, at: abs(_falls(losses, at))),
        "the first step goes from the shortest length: begin at place 0": (
            lambda losses, lengths: lengths[1 + _stop(losses[1:], _falls)]
        ),
        "each step goes to the next length, and not to the last": _ecl(
            lambda losses, at: 1 - exp(losses[-1] - losses[at])
        ),
        "each step begins where the one before it ended, and not at the shortest length: gains are not "
        "added up": (
            _ecl(lambda losses, at: 1 - exp(losses[at + 1] - losses[0])),
            _ecl(lambda losses, at: sum(_falls(losses, place) for place in range(at + 1))),
        ),
        "that takes one fall since the shortest length from another: a step's fall is a share of the "
        "perplexity where the step begins": _ecl(
            lambda losses, at: exp(losses[at] - losses[0]) - exp(losses[at + 1] - losses[0])
        ),
        "that looks for the lowest loss: compare each with the next one, and stop where little is gained": (
            lambda losses, lengths: lengths[losses.index(min(losses))],
            _ecl(lambda losses, at: 1 - exp(min(losses) - losses[at])),
        ),
        "that is one length too late: return the one from which the step goes": lambda losses, lengths: (
            lengths[min(len(lengths) - 1, _stop(losses, _falls) + 1)]
        ),
        "that is the last length whose step still lowers it by 1 %: return the next": (
            lambda losses, lengths: lengths[max(0, _stop(losses, _falls) - 1)],
            _unless_all_fall(lambda lengths, stop: lengths[max(0, stop - 1)]),
            _unless_all_fall(lambda lengths, stop: lengths[stop - 1]),
        ),
        "you return the place in lengths, and not the tokens": (
            lambda losses, lengths: _stop(losses, _falls),
            _unless_all_fall(lambda lengths, stop: stop),
        ),
        "lengths is not used: not every model is read with 8, 16, 24, … tokens": lambda losses, lengths: (
            8 * (_stop(losses, _falls) + 1)
        ),
        "where every step lowers it by 1 % or more, the answer is the longest length": (
            lambda losses, lengths: lengths[min(_stop(losses, _falls), len(lengths) - 2)]
        ),
        "later steps do not count: stop at the first that lowers it by less than 1 %": (
            lambda losses, lengths: lengths[_last_fall(losses)],
            lambda losses, lengths: lengths[
                sum(_falls(losses, at) >= THRESHOLD for at in range(len(losses) - 1))
            ],
        ),
    }
    praise = "the first length whose next step lowers the perplexity by less than 1 %"
    return judge(attempt, reference=solution_ecl, cases=_cases(), mistakes=mistakes, praise=praise)


def _stop(losses: Losses, step: Step, least: float = THRESHOLD) -> int:
    """Return the first place whose step gains less, or the last place."""
    places = range(len(losses) - 1)
    return next((at for at in places if step(losses, at) < least), len(losses) - 1)


def _ecl(step: Step, *, least: float = THRESHOLD) -> Function:
    """Return the measure with another gain of a step, a mistake."""
    return lambda losses, lengths: lengths[_stop(losses, step, least)]


def _unless_all_fall(returned: Callable[[Sequence[int], int], int]) -> Function:
    """Return the measure that returns this where the walk stops, a mistake, and else the longest length."""

    def ecl(losses: Losses, lengths: Sequence[int]) -> int:
        stop = _stop(losses, _falls)
        return lengths[-1] if stop == len(lengths) - 1 else returned(lengths, stop)

    return ecl


def _last_fall(losses: Losses) -> int:
    """Return the place after the last step that lowers the perplexity by 1 % or more, a mistake."""
    return max((at + 1 for at in range(len(losses) - 1) if _falls(losses, at) >= THRESHOLD), default=0)


def _cases() -> list[tuple[list[float], list[int]]]:
    """Return curves that fall at different paces, that rise on the way, and that fall to their end."""
    lengths = list(range(8, 65, 8))
    by_hand = [
        [2.8, 2.6, 2.5, 2.49, 2.44, 2.37, 2.3, 2.2],  # stops, and falls on
        [2.8, 2.7, 2.6, 2.65, 2.6, 2.55, 2.5, 2.45],  # rises on the way
        [2.8, 2.7, 2.6, 2.5, 2.4, 2.3, 2.2, 2.1],  # falls to its end
        [2.5, 2.4, 2.3899, 2.3799, 2.37, 2.36, 2.35, 2.34],  # 0.0101 nats, just 1 % and more, and then less
        [2.5, 2.4, 2.38998, 2.3, 2.2, 2.1, 2.0, 1.9],  # 0.01002 nats, and less than 1 %
        [2.5, 2.4, 2.387, 2.35, 2.348, 2.347, 2.346, 2.346],  # 0.013 nats: more than 1 %, and 0.9 % in bits
    ]
    random = torch.Generator().manual_seed(66)
    for _ in range(20):
        falls = 0.1 * torch.rand(8, generator=random, dtype=torch.float64).pow(2)
        noise = 0.005 * torch.randn(8, generator=random, dtype=torch.float64)
        by_hand.append((2.5 - falls.cumsum(0) + noise).tolist())
    cases = [(losses, [lengths, list(range(100, 801, 100))][at % 2]) for at, losses in enumerate(by_hand)]
    return [([2.0, 1.9, 1.895], [8, 16, 24]), *cases]


def solution_drawn_anew(losses: Tensor, random: torch.Generator) -> Tensor:
    """Return losses [system context target] of tokens drawn with replacement, the same for all models."""
    number = losses.shape[-1]
    return losses[..., torch.randint(number, (number,), generator=random)]


TOKENS, DRAWS = 40, 60
DIFFERENT = TOKENS * (1 - (1 - 1 / TOKENS) ** TOKENS)
"""Tokens that differ in a draw with replacement, on average: about 63 % of all."""


def check_drawn_anew(attempt: Callable[[Tensor, torch.Generator], Any]) -> Verdict:
    """Judge ``attempt(losses, random)``, which draws as many targets as there are, with replacement."""
    token, system, context = (torch.arange(number) for number in (TOKENS, 3, 4))
    losses = (
        100 * token + 10 * system[:, None, None] + context[:, None]
    ).double()  # each number tells its place
    given, draws = losses.clone(), list[Tensor]()
    random, again = (torch.Generator().manual_seed(66) for _ in range(2))
    try:
        with torch.random.fork_rng(devices=[]):
            for _ in range(DRAWS):
                draw = attempt(given, random)
                if draw is None or draw is Ellipsis:
                    return Verdict.of_nothing()
                draws.append(torch.as_tensor(draw).double().clone())
            repeated = torch.as_tensor(attempt(given, again)).double()
    except NotImplementedError:
        return Verdict.of_nothing()
    except Exception as error:
        return Verdict(False, f"it raised {type(error).__name__}: {error}")
    wrong = (
        "it changes the losses that it was given, in place: make a new tensor"
        if not torch.equal(given, losses)
        else _wrong_with(draws, losses) or _wrong_with_chance(draws, repeated)
    )
    praise = "as many tokens, drawn with replacement, and the same for all models and contexts"
    return Verdict(not wrong, wrong or praise)


def _wrong_with(draws: list[Tensor], losses: Tensor) -> str:
    """Return what is wrong with the numbers of a draw, or ""."""
    shape = next((list(draw.shape) for draw in draws if draw.shape != losses.shape), None)
    if shape is not None:
        return f"draw as many tokens as there are: the losses are {list(losses.shape)}, and yours {shape}"
    for draw in draws:
        if not torch.isin(draw, losses).all():
            return "these are not the losses of tokens: draw the tokens, and take their losses as they are"
        if not torch.equal(draw % 100, losses % 100):
            return "models or contexts are drawn too: tokens are drawn, on the last axis alone"
        if not (draw // 100 == draw[0, 0] // 100).all():
            return "a token's losses belong together: draw once, the same tokens for all models and contexts"
    return ""


def _wrong_with_chance(draws: list[Tensor], repeated: Tensor) -> str:
    """Return what is wrong with how the tokens are drawn, or ""."""
    tokens = [(draw[0, 0] // 100).int().tolist() for draw in draws]
    every = set(range(TOKENS))
    if all(one == sorted(every) for one in tokens):
        return "no token is drawn: these are the losses as they were"
    if all(set(one) == every for one in tokens):
        return (
            "each token is drawn once, so no mean changes: with replacement one may come twice, or not at all"
        )
    if all(one == tokens[0] for one in tokens):
        return "each call draws the same tokens: seed nothing in your function, and draw by random"
    if max(len(set(one)) for one in tokens) < TOKENS // 3:
        return f"a draw has few tokens, each many times: draw {TOKENS} numbers, one for each place"
    if missing := every - {token for one in tokens for token in one}:
        return f"token {min(missing)} of {TOKENS} is never drawn: draw from 0 to number - 1"
    if not torch.equal(repeated, draws[0]):
        return "random is not used: hand it on, generator=random"
    if always := [token for token in every if all(token in one for one in tokens)]:
        return f"token {always[0]} is in every draw: each place is drawn, and none is set by hand"
    different = sum(len(set(one)) for one in tokens) / DRAWS
    if abs(different - DIFFERENT) > 0.06 * TOKENS:
        return (
            f"with replacement, about {DIFFERENT:.0f} of {TOKENS} tokens differ in a draw (63 %), and in "
            f"yours {different:.0f}: each place is drawn from all tokens, whatever was drawn before"
        )
    if _equal_neighbours(tokens) > 0.39:  # 0.31 where each is drawn by itself
        return "neighbours are drawn together, in pairs or blocks: draw a number for each place by itself"
    return ""


def _equal_neighbours(tokens: list[list[int]]) -> float:
    """Return in what share of cases a token and the next one are drawn equally often."""
    pairs = [one.count(token) == one.count(token + 1) for one in tokens for token in range(TOKENS - 1)]
    return sum(pairs) / len(pairs)
