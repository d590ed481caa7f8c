"""Appendix C's gain and walk for many draws at once, for notebook 06b's controls."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

Measure = Callable[[Tensor], Tensor]
"""A number for each row of losses [... target]."""


def gain_over(losses: Float[Tensor, "system target"], r: float) -> Measure:
    """Return Appendix C's gain over these losses of a group, as a measure of a model's losses with c'.

    ``losses`` are those with c. The baseline and the hard tokens belong to c, so they serve every row.
    """
    baseline = losses.amin(dim=0)
    hardest = baseline.topk(max(1, round(r * len(baseline)))).indices

    def gain(longer: Tensor) -> Tensor:
        after = torch.minimum(baseline, torch.as_tensor(longer))[..., hardest].mean(dim=-1)
        return 1 - (after - baseline[hardest].mean()).exp()

    return gain


def recls(
    groups: Float[Tensor, "draw system context target"], which: int, lengths: Sequence[int], r: float
) -> Int[Tensor, " draw"]:
    """Return the RECL in tokens of one system in each of many groups: all walks go on side by side."""
    tokens = torch.full((len(groups),), lengths[-1])
    going = torch.arange(len(groups))  # the draws whose walk has not stopped yet
    number = max(1, round(r * groups.shape[-1]))
    for at, length in enumerate(lengths[:-1]):
        baseline = groups[going, :, at].amin(dim=1)
        after = torch.minimum(baseline, groups[going, which, at + 1])
        if number < groups.shape[-1]:
            hardest = baseline.topk(number, dim=-1).indices
            baseline, after = (losses.gather(1, hardest) for losses in (baseline, after))
        goes_on = 1 - (after.mean(dim=1) - baseline.mean(dim=1)).exp() >= 0.01
        tokens[going[~goes_on]] = length
        going = going[goes_on]
    return tokens
