"""Gain and walk of the paper's Appendix C with one step of them wrong: mistakes that 06b's checks name."""

from collections.abc import Callable

import torch
from einops import reduce
from jaxtyping import Float
from torch import Tensor

GroupLosses = Float[Tensor, "system context target"]


def gain(
    losses: GroupLosses,
    which: int,
    short: int,
    long: int,
    r: float,
    *,
    own: bool = False,
    easiest: bool = False,
    everything: bool = False,
    no_minimum: bool = False,
    mean_first: bool = False,
    without_exp: bool = False,
    by_long: bool = False,
    undivided: bool = False,
    turned: bool = False,
    ranked_at_long: bool = False,
    ranked_by_own: bool = False,
    ranked_twice: bool = False,
    ranked_by_minimum: bool = False,
    own_ranked_twice: bool = False,
    mean_of_exp: bool = False,
    without_itself: bool = False,
    group_at_long: bool = False,
    own_before: bool = False,
    bare_after: bool = False,
    baseline_before: bool = False,
    base_2: bool = False,
    in_percent: bool = False,
    rest: bool = False,
    may_be_none: bool = False,
    all_after: bool = False,
    over_contexts: bool = False,
    best_so_far: bool = False,
    baseline_at_long: bool = False,
    ranked_by_mean: bool = False,
    ranked_at_short: bool = False,
    best_on_average: bool = False,
    rounding: Callable[[float], int] = round,
    reduction: str = "min",
) -> float:
    """Return Appendix C's gain with one step of it wrong."""
    best = reduce(losses, "system context target -> context target", "min")
    baseline = losses[which, short] if own else reduce(losses[:, short], "system target -> target", reduction)
    if without_itself:
        baseline = torch.cat([losses[:which, short], losses[which + 1 :, short]]).amin(dim=0)
    if best_on_average:
        baseline = losses[losses[:, short].mean(dim=1).argmin(), short]
    if over_contexts:
        baseline = losses[which].amin(dim=0)
    if best_so_far:
        baseline = best[: short + 1].amin(dim=0)
    if baseline_at_long:
        baseline = best[long]
    number = len(baseline) if everything else max(0 if may_be_none else 1, rounding(r * len(baseline)))
    ranked = best[long] if ranked_at_long else losses[which, short] if ranked_by_own else baseline
    ranked = losses[:, short].mean(dim=0) if ranked_by_mean else best[short] if ranked_at_short else ranked
    hardest = ranked.sort(descending=not easiest, stable=True).indices[:number]
    f = []
    for at in (short, long):
        own_losses = best[long] if group_at_long and at == long else losses[which, at]
        bare = no_minimum or (own_before if at == short else bare_after)
        if mean_first:
            f.append(torch.minimum(baseline[hardest].mean(), own_losses[hardest].mean()))
        else:
            targets = own_losses if bare else torch.minimum(baseline, own_losses)
            targets = baseline if baseline_before and at == short else targets
            if ranked_twice and at == long:
                hardest = best[long].sort(descending=not easiest, stable=True).indices[:number]
            if (ranked_by_minimum or own_ranked_twice) and at == long:
                again = own_losses if own_ranked_twice else targets
                hardest = again.sort(descending=True, stable=True).indices[:number]
            targets = targets if all_after and at == long else targets[hardest]
            f.append(targets.exp().mean().log() if mean_of_exp else targets.mean())
    before, after = f if without_exp else [2**one if base_2 else one.exp() for one in f]
    difference = after - before if turned else before - after
    share = difference if undivided else difference / (after if by_long else before)
    share = 1 - share if rest else share
    return float(100 * share if in_percent else share)


def mean_minimum(
    losses: GroupLosses,
    which: int,
    short: int,
    long: int,
    r: float,
    *,
    at_short: bool = False,
    exp: bool = False,
) -> float:
    """Return f(c, c') of Appendix C, f(c, c), or exp of one, in place of the gain that is made of them."""
    baseline = losses[:, short].amin(dim=0)
    hardest = baseline.sort(descending=True, stable=True).indices[: max(1, round(r * len(baseline)))]
    mean = torch.minimum(baseline, losses[which, short if at_short else long])[hardest].mean()
    return float(mean.exp() if exp else mean)


def walk(
    losses: GroupLosses,
    which: int,
    lengths: list[int],
    r: float,
    *,
    own: bool = False,
    ranked_once: bool = False,
    no_minimum: bool = False,
    without_exp: bool = False,
    later: bool = False,
    place: bool = False,
    short_of_end: bool = False,
    last: bool = False,
    last_gain: bool = False,
    everything: bool = False,
    place_at_end: bool = True,
    from_start: bool = False,
    increment: bool = False,
    added: bool = False,
    least: float = 0.01,
    before_last: bool = False,
    wraps: bool = False,
    turned: bool = False,
    to_last: bool = False,
    counted: bool = False,
    baseline_kept: bool = False,
    rivals_kept: bool = False,
    best_so_far: bool = False,
    strict: bool = False,
    begin: int = 0,
) -> int:
    """Return where Appendix C's walk stops, with one step of it wrong."""
    if rivals_kept:
        first_losses = losses[:, :1].repeat(1, len(lengths), 1)
        first_losses[which] = losses[which]
        losses = first_losses
    best = losses[which] if own else reduce(losses, "system context target -> context target", "min")
    if best_so_far:
        best = best.cummin(dim=0).values
    number = best.shape[1] if everything else max(1, round(r * best.shape[1]))
    stops: list[int] = []
    gaining, total, earlier = 0, 0.0, 0.0
    for at in range(begin, len(lengths) - 1):
        short = 0 if from_start else at
        baseline = best[0 if baseline_kept else short]
        order = best[0 if ranked_once else short].sort(descending=True, stable=True).indices[:number]
        f = [
            (losses[which, c] if no_minimum else torch.minimum(baseline, losses[which, c]))[order].mean()
            for c in (short, len(lengths) - 1 if to_last else at + 1)
        ]
        before, after = f if without_exp else [one.exp() for one in f]
        share = float((before - after) / before)
        total += share
        share, earlier = share - earlier if increment else share, share
        share = total if added else share
        if (share <= least if strict else share < least) != turned:
            stops.append(at)
        else:
            gaining = at + 1
    if counted:
        return lengths[len(lengths) - 1 - len(stops)]
    if last_gain:
        return lengths[gaining]
    if not stops:
        return len(lengths) - 1 if place and place_at_end else lengths[-2 if short_of_end else -1]
    stop = stops[-1] if last else stops[0] - before_last
    stop = stop if wraps else max(0, stop)
    return stop if place else lengths[stop + 1 if later else stop]
