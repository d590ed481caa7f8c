"""Made-up models of notebook 06b, and the check of a rival that shortens another's RECL."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from minitxl.analysis import context_length
from minitxl.course.checker import Verdict
from minitxl.course.checks.used_context import numbers_at, told_apart

LENGTHS = list(range(8, 129, 8))
BEHIND = 32
"""Context length from which on the rival must be worse than A."""


def curves(lengths: list[int] = LENGTHS) -> dict[str, dict[int, Tensor]]:
    """Return made-up losses of a group of two: A goes on gaining, B is soon done, and worse in the end."""
    return {
        "A": {c: torch.full((10,), 1.0 + 0.5 * 2 ** (-c / 24), dtype=torch.float64) for c in lengths},
        "B": {c: torch.full((10,), 1.2 + 0.5 * 2 ** (-c / 12), dtype=torch.float64) for c in lengths},
    }


def check_rival(attempt: Callable[[int], Any]) -> Verdict:
    """Judge ``attempt(c)``: losses in nats of a model C beside which A's RECL is at most half.

    C must be worse than A from ``BEHIND`` tokens on, and may not lose by more context.
    """
    group = curves()
    before = context_length.recl(group, r=1.0)["A"].tokens
    numbers = numbers_at(attempt, LENGTHS, "return a loss in nats for each context length c")
    if isinstance(numbers, Verdict):
        return numbers
    losses = dict(zip(LENGTHS, numbers, strict=True))
    if any(losses[long] > losses[short] + 1e-9 for short, long in pairwise(LENGTHS)):
        return Verdict(False, "a longer context raises your loss: let it fall, or stay as it is")
    own = {c: of.mean().item() for c, of in group["A"].items()}
    ahead = next((c for c in LENGTHS if c >= BEHIND and losses[c] <= own[c]), None)
    if ahead is not None:
        mine, of_a = told_apart(losses[ahead], own[ahead])
        both = f"C has {mine} nats and A {of_a}" if mine != of_a else f"C and A both have {mine} nats, a tie"
        return Verdict(False, f"with {ahead} tokens {both}: C must be worse there")
    third = {c: torch.full((10,), float(loss), dtype=torch.float64) for c, loss in losses.items()}
    after = context_length.recl(group | {"C": third}, r=1.0)["A"].tokens
    if after > before / 2:
        first, own_first = told_apart(losses[LENGTHS[0]], own[LENGTHS[0]])
        why = (
            f"with {LENGTHS[0]} tokens C has {first} nats, no better than A's {own_first}"
            if losses[LENGTHS[0]] >= own[LENGTHS[0]]
            else "C must be ahead of A for longer, or by more, at short contexts"
        )
        return Verdict(False, f"A's RECL is {after} beside C, and {before} without: {why}")
    return Verdict(
        True, f"beside C, A's RECL is {after} tokens and not {before}, though A is better from {BEHIND} on"
    )
