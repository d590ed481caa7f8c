"""Made-up losses of groups of models, on which 06b's checks of the gain and of the walk run."""

import torch

from minitxl.course.checks.context_mistakes import GroupLosses


def falling_groups(number: int) -> list[tuple[GroupLosses, int, list[int], float]]:
    """Return groups of three systems whose losses fall with context, each at its own pace and floor."""
    random = torch.Generator().manual_seed(60)
    groups = []
    for one in range(number):
        rates, floors = (0.3 + torch.rand(3, 1, 40, generator=random) for _ in range(2))
        rates = rates * (0.2 if one % 5 == 4 else 1.0)  # some gain to the end
        steps = torch.arange(8).reshape(1, 8, 1)
        noise = 0.05 * torch.rand(3, 8, 40, generator=random)
        losses = (2 * floors + 2 * torch.exp(-rates * steps) + noise).double()
        losses = losses.flip(1) if one % 7 == 6 else losses  # more context may do harm
        lengths = list(range(100, 801, 100)) if one % 4 == 3 else list(range(8, 65, 8))
        groups.append((losses, one % 3, lengths, (0.1, 0.5, 1.0)[one // 3 % 3]))
    return groups


def group_that_recovers() -> tuple[GroupLosses, int, list[int], float]:
    """Return a group whose first token is predicted worse with 16 tokens of context than with 8 or with 24.

    From 16 tokens to 24 that loss is regained: beside a baseline that had kept the smaller one nothing would
    be gained.
    """
    walking = torch.tensor([[2.0, 3.0], [2.4, 2.0], [2.0, 2.0]], dtype=torch.float64)
    return torch.stack([walking, torch.full_like(walking, 9.0)]), 0, [8, 16, 24], 1.0


def threshold_groups() -> list[tuple[GroupLosses, int, list[int], float]]:
    """Return groups of a model whose first step gains 0.01 to the last digit, and of one that falls behind.

    Whatever way the gain is written, that step's is not below 0.01. In the first group it is just 0.01 as a
    part of exp f(c, c); in the second also where what is left is compared with
    0.99, or its log. Written as 1 minus what is left, no gain is just 0.01: there < and <= are the same.
    """
    just = ((1.000030517578125, 0.9899801817246235), (0.013133127260789274, 0.003082791407287823))
    threshold = [[[before, after, after], [9.0, 9.0, 9.0]] for before, after in just]
    behind = [[3.0, 2.8, 2.6], [2.5, 2.5, 2.5]]
    all_groups = torch.tensor([*threshold, behind], dtype=torch.float64)
    return [(losses[:, :, None].repeat(1, 1, 2), 0, [8, 16, 24], 1.0) for losses in all_groups]
