"""Checks of notebook 06b: its predictions, the gain, RECL, and a model that shortens another's RECL."""

from collections.abc import Callable
from functools import partial
from math import ceil, floor
from typing import Any

import torch

from minitxl.analysis import context_length
from minitxl.course.checker import Verdict, judge
from minitxl.course.checks import context_cases, context_mistakes
from minitxl.course.checks.context_mistakes import GroupLosses
from minitxl.course.predictions import Predictions, Question

PREDICTIONS = Predictions(
    Question(
        "third",
        "A third model joins the group, better with few tokens and worse with many. A's RECL of 88 is then?",
        answer=8,
        choices=(88, 44, 8),
        why="with few tokens the baseline is the third model, and A's first step adds nothing to it",
        wrong={
            88: "A's gain is measured against the best of the group: with few tokens, the third model",
            44: "shorter it is, but the very first step gains nothing, and there the walk stops",
        },
    ),
    Question(
        "noise",
        "Random numbers of mean 0 are added to a model's losses. RECL's rule then finds a gain that is?",
        answer="above 0",
        choices=("about 0", "below 0", "above 0"),
        why="the minimum counts each token whose loss fell, and none whose loss rose",
        wrong={
            "about 0": "the mean stays, but the rule takes the smaller loss at each token: only falls count",
            "below 0": "that can't be: the smaller of two losses is never above the first",
        },
    ),
    Question(
        "lstm",
        "With 128 characters an LSTM is about as good as Transformer-XL. At r = 0.5, its RECL beside that?",
        answer="about half as long",
        choices=("as long", "about half as long", "about twice as long"),
        why="at r = 0.5 it is 40 characters in each seed, beside 88, 72 and 72; at all shares it is 0.31 to "
        "0.71 of it. The losses with 128 characters are alike, and not equal: the LSTM's is lower in two "
        "seeds and higher in one",
        wrong={
            "as long": "losses that are alike in the end say nothing of where the last gains were made",
            "about twice as long": "its state holds all that it has read, but its gains end earlier",
        },
    ),
)


def gain(losses: GroupLosses, which: int, short: int, long: int, r: float) -> float:
    """Return g_i(c, c') of Appendix C; ``short`` and ``long`` are places on the axis of contexts."""
    group = {str(i): dict(enumerate(one)) for i, one in enumerate(losses)}
    return context_length.gain(group, str(which), short, long, r=r).relative


def check_gain(attempt: Callable[..., Any]) -> Verdict:
    """Judge ``attempt(losses, which, short, long, r)``. The first case is the example of the notebook."""
    mistake = partial(partial, context_mistakes.gain)
    mistakes: dict[str, Callable[..., Any] | list[Callable[..., Any]]] = {
        "the baseline is the model's own loss: b(c, t) is the smallest of the whole group": [
            mistake(own=True),
            mistake(own=True, no_minimum=True),
        ],
        "the baseline is the mean of the group, and not its smallest loss": [
            mistake(reduction="mean", ranked_at_short=by_smallest, baseline_before=begins, bare_after=bare)
            for by_smallest in (False, True)
            for begins, bare in ((False, False), (True, False), (True, True))
        ],
        "the baseline is one model's, the best on average: b(c, t) is the smallest loss of each target, "
        "whichever model has it": mistake(best_on_average=True),
        "that is 0 for every model: b is the minimum over the systems, at the short context alone, and f "
        "takes the losses at c once and those at c' once": [
            lambda *case: 0.0,
            mistake(over_contexts=True),
        ],
        "b(c, t) is the smallest loss with c tokens alone: losses with fewer tokens do not count": mistake(
            best_so_far=True
        ),
        "the baseline is taken with c' tokens: b(c, t) is the smallest loss with c tokens": [
            mistake(baseline_at_long=True),
            mistake(baseline_at_long=True, ranked_at_short=True),
        ],
        "that is f, a mean loss: g is the share by which exp f falls from c to c'": [
            context_mistakes.mean_minimum,
            partial(context_mistakes.mean_minimum, at_short=True),
        ],
        "that is exp f, a perplexity: g is the share by which it falls from c to c'": [
            partial(context_mistakes.mean_minimum, exp=True),
            partial(context_mistakes.mean_minimum, at_short=True, exp=True),
        ],
        "T holds one target at least, also where r is small": mistake(may_be_none=True),
        "T is the same for both contexts: the mean at c' is over [hardest] too": [
            mistake(all_after=True),
            mistake(ranked_twice=True),
            mistake(ranked_twice=True, group_at_long=True),
            mistake(ranked_by_minimum=True),
            mistake(own_ranked_twice=True),
        ],
        "T holds the easiest targets: take those of the largest b(c, t)": mistake(easiest=True),
        "all targets are used: T is the share r of them": mistake(everything=True),
        "f lacks its minimum with the baseline b(c, t)": mistake(no_minimum=True),
        "the mean comes before the minimum here: take the minimum at each target, then the mean": mistake(
            mean_first=True
        ),
        "perplexity is e to the mean loss: g compares exp f, and not f": mistake(without_exp=True),
        "g is a part of the perplexity at the short context: divide by exp f(c, c)": mistake(by_long=True),
        "that is the difference of the mean losses: g compares perplexities, e to the mean losses": mistake(
            without_exp=True, undivided=True
        ),
        "that is what is left of the perplexity, exp f(c, c') / exp f(c, c): the gain is 1 minus it": mistake(
            rest=True
        ),
        "the gain is not divided: it is a share of exp f(c, c)": mistake(undivided=True),
        "the sign is turned: a gain is positive where the longer context has the smaller loss": mistake(
            turned=True
        ),
        "the hardest targets are chosen at the longer context: T belongs to c": mistake(ranked_at_long=True),
        "the mean of each target's perplexity is taken: perplexity is e to the mean loss": mistake(
            mean_of_exp=True
        ),
        "the hardest targets are chosen by the model's own loss: T is where b(c, t) is largest": mistake(
            ranked_by_own=True
        ),
        "the hardest targets are chosen by the mean loss of the group: T is where the smallest is largest": (
            mistake(ranked_by_mean=True)
        ),
        "the model itself is of the group: its own loss counts in b(c, t)": mistake(without_itself=True),
        "f(c, c') takes this model's losses at c', and not the smallest of the group": [
            mistake(group_at_long=True),
            mistake(group_at_long=True, bare_after=True),
            mistake(group_at_long=True, no_minimum=True),
        ],
        "f(c, c) is the mean of b(c, t): the group's smallest losses, and not the model's own": mistake(
            own_before=True
        ),
        "f(c, c') lacks its minimum with the baseline b(c, t)": mistake(bare_after=True),
        "losses are in nats, so perplexity is e to their mean; 2 is for bits": mistake(base_2=True),
        "that is in per cent: return 0.095, not 9.5": mistake(in_percent=True),
        "the number of hard targets is rounded to the nearest, and here it is rounded down": [
            mistake(rounding=floor, may_be_none=none) for none in (False, True)
        ],
        "the number of hard targets is rounded to the nearest, and here it is rounded up": mistake(
            rounding=ceil
        ),
    }
    cases = [(example(), which, 0, 1, 0.5) for which in (0, 1)]
    for losses, which, _, r in context_cases.falling_groups(9):
        few = losses[:, :3, :5]  # of which 5 % are no target, were it not for "at least one"
        cases += [(few, which, 0, 1, share) for share in (0.35, 0.25, 0.05)]
        cases += [(losses, which, 1, 2, r), (losses, which, 0, 2, r), (losses.flip(1), which, 1, 2, r)]
        cases.append((losses[:, [1, 0, 2]], which, 1, 2, r))  # they rise to c, and fall from there to c'
    names = ("losses", "which", "short", "long", "r")
    return judge(attempt, reference=gain, cases=cases, mistakes=mistakes, names=names)


def example() -> GroupLosses:
    """Return the losses of the example: two models, two context lengths, four targets."""
    return torch.tensor(
        [
            [[2.0, 1.0, 3.0, 0.4], [1.3, 0.9, 2.7, 0.4]],
            [[1.5, 1.2, 2.5, 0.6], [1.5, 1.1, 2.4, 0.6]],
        ],
        dtype=torch.float64,
    )


def check_recl(attempt: Callable[..., Any]) -> Verdict:
    """Judge ``attempt(losses, which, lengths, r)``: RECL in tokens of one system of a group.

    ``losses`` is [system context target] in nats, ``which`` the system, ``lengths`` the contexts.
    """
    mistake = partial(partial, context_mistakes.walk)
    mistakes: dict[str, Callable[..., Any] | list[Callable[..., Any]]] = {
        "the baseline is the model's own loss: b(c, t) is the smallest of the whole group": mistake(own=True),
        "T is chosen once: rank the targets anew at every c": mistake(ranked_once=True),
        "f(c, c') lacks its minimum with the baseline b(c, t)": mistake(no_minimum=True),
        "perplexity is e to the mean loss: compare exp f, and not f": mistake(without_exp=True),
        "you return c', and the context that no longer gains is c": mistake(later=True),
        "you return the last context that still gains: RECL is the next, where the step gains too little": [
            mistake(before_last=True, wraps=wraps) for wraps in (False, True)
        ],
        "you return the place in lengths, and not the tokens": [
            mistake(place=True, place_at_end=at_end) for at_end in (True, False)
        ],
        "where every step gains, the answer is the longest length": mistake(short_of_end=True),
        "the walk goes on after its first step that gains less than 1 %: stop there": [
            mistake(last=True),
            mistake(last_gain=True),
        ],
        "that counts all steps that gain: the walk ends at the first that gains less than 1 %": mistake(
            counted=True
        ),
        "the baseline is kept from the shortest context: b(c, t) is found anew where the walk stands": [
            mistake(baseline_kept=True),
            mistake(baseline_kept=True, ranked_once=True),
            mistake(rivals_kept=True),
        ],
        "the baseline is the smallest loss so far: b(c, t) is the smallest with the c of the step, "
        "and rises where the losses do": mistake(best_so_far=True),
        "the first step goes from the shortest length: begin at place 0": mistake(begin=1),
        "a step that gains just 0.01 is walked: stop where the gain is less, < 0.01 and not <= 0.01": mistake(
            strict=True
        ),
        "all targets are used: hand r on to gain": mistake(everything=True),
        "gain is a share: 1 % is 0.01, and no step gains 1": mistake(least=1.0),
        "each step is measured from where the walk stands, and not from the start: gains are not added up": [
            mistake(from_start=True),
            mistake(added=True),
        ],
        "that takes one gain from the start from another: a step's gain is a share of the perplexity where "
        "the step begins. Ask gain for at and at + 1": mistake(from_start=True, increment=True),
        "each step goes to the next length: ask gain for at and at + 1": mistake(to_last=True),
        "the comparison is turned round: the walk goes on where a step gains 1 % or more": mistake(
            turned=True
        ),
        "which is not used, and the first model walks: hand which on to gain": (
            lambda losses, which, lengths, r: recl(losses, 0, lengths, r)
        ),
        "lengths is not used: not every group has 8, 16, 24, … tokens of context, so return lengths[at]": (
            lambda losses, which, lengths, r: recl(
                losses, which, [8 * (at + 1) for at in range(len(lengths))], r
            )
        ),
    }
    names = ("losses", "which", "lengths", "r")
    cases = [*context_cases.falling_groups(60), *context_cases.threshold_groups()]
    cases.append(context_cases.group_that_recovers())
    if at_the_end := _beyond_the_end(attempt, cases):
        return Verdict(False, at_the_end)
    return judge(attempt, reference=recl, cases=cases, mistakes=mistakes, names=names)


def _beyond_the_end(attempt: Callable[..., Any], cases: list[Any]) -> str:
    """Say what goes wrong where every step gains and nothing where the walk stops before; "" if nothing."""

    def outcome(case: Any) -> Any:
        try:
            return attempt(*case)
        except Exception as error:
            return error

    ends = [next(case for case in cases if (recl(*case) == case[2][-1]) is last) for last in (False, True)]
    stops, goes_on = map(outcome, ends)
    if isinstance(stops, LookupError):
        return (
            "gain takes places on the axis of contexts, 0, 1, 2, …, and your walk asks for one that is not "
            "there: lengths tells how many tokens a place stands for"
        )
    if stops is None or isinstance(stops, Exception):
        return ""  # judge says what is wrong with it
    if goes_on is None:
        return "your function ends without a return where every step gains: return the longest length there"
    if isinstance(goes_on, LookupError):
        return "where every step gains, your walk looks past the last place: its last step ends there"
    return ""


def recl(losses: GroupLosses, which: int, lengths: list[int], r: float) -> int:
    """Return RECL in tokens."""
    group = {str(i): dict(zip(lengths, one, strict=True)) for i, one in enumerate(losses)}
    return context_length.recl(group, r=r)[str(which)].tokens
