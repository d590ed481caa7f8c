"""Judges the exercises of notebook 11: hiding states, counting their age, summing attention by age."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from einops import einsum, rearrange, reduce, repeat
from jaxtyping import Bool, Float
from torch import Tensor

from minitxl.attention import masked_softmax, weighted_sum
from minitxl.course.checker import Function, Verdict, judge

Scores = Float[Tensor, "batch head query key"]
Values = Float[Tensor, "batch head key dim"]
Keep = Bool[Tensor, "batch key"]
Weights = Float[Tensor, "layer batch head query key"]
Ages = list[tuple[int, int]]


def check_attend_without(attempt: Callable[..., Any]) -> Verdict:
    """``attempt(scores, values, keep)``: [batch head query dim], without the keys where key_mask is False."""

    def right(scores: Scores, values: Values, key_mask: Keep) -> Tensor:
        seen = repeat(key_mask, "batch key -> batch query key", query=scores.shape[2])
        return weighted_sum(masked_softmax(scores, seen), values)

    def shown(key_mask: Keep) -> Tensor:
        return rearrange(key_mask, "batch key -> batch 1 1 key").float()

    def not_shared(scores: Scores, values: Values, key_mask: Keep) -> Tensor:
        return weighted_sum(scores.softmax(-1) * shown(key_mask), values)

    def zeroed(scores: Scores, values: Values, key_mask: Keep) -> Tensor:
        gone = rearrange(key_mask, "batch key -> batch 1 key 1")
        return weighted_sum((scores * shown(key_mask)).softmax(-1), values * gone)

    def zero_scores(scores: Scores, values: Values, key_mask: Keep) -> Tensor:
        return weighted_sum((scores * shown(key_mask)).softmax(-1), values)

    def softmax_again(scores: Scores, values: Values, key_mask: Keep) -> Tensor:
        return weighted_sum((scores.softmax(-1) * shown(key_mask)).softmax(-1), values)

    def filled_with(low: float) -> Callable[..., Tensor]:
        def attended(scores: Scores, values: Values, key_mask: Keep) -> Tensor:
            hidden = rearrange(~key_mask, "batch key -> batch 1 1 key")
            return weighted_sum(scores.masked_fill(hidden, low).softmax(-1), values)

        return attended

    mistakes: dict[str, Function | Sequence[Function]] = {
        "right, but where the other scores are very low too, a hidden key with a low score takes weight: "
        "float('-inf') gives none, whatever the others are": [
            filled_with(low) for low in (-20.0, -30.0, -50.0, -100.0)
        ],
        "the weight of the hidden keys is lost: divide what is left by its sum, so that each row sums to 1": (
            not_shared
        ),
        "that is a state of zeros, and zeros are keys too: a score of 0 counts as exp(0) = 1 in the softmax. "
        "Fill the hidden scores with a very low number instead": zeroed,
        "a score of 0 is not a weight of 0, since exp(0) = 1: fill hidden scores with a very low number": (
            zero_scores
        ),
        "the softmax is taken twice: to renormalise is to divide by the sum": softmax_again,
        "it keeps what is to be hidden: key_mask is True for a key that is seen": (
            lambda scores, values, key_mask: right(scores, values, ~key_mask)
        ),
        "nothing is hidden yet: key_mask has no effect": (
            lambda scores, values, key_mask: weighted_sum(scores.softmax(-1), values)
        ),
    }
    random = torch.Generator().manual_seed(11)
    cases = []
    for batch, head, query, key, dim in [(1, 1, 2, 5, 3), (2, 3, 4, 9, 2), (3, 2, 1, 7, 4)]:
        scores = 3 * torch.randn(batch, head, query, key, generator=random)
        values = torch.randn(batch, head, key, dim, generator=random)
        key_mask = torch.rand(batch, key, generator=random) < 0.6
        key_mask[:, 0], key_mask[:, 1] = True, False
        cases.append((scores, values, key_mask))
    cases.append((cases[1][0] - 300, *cases[1][1:]))  # a softmax doesn't change where all scores fall alike
    return judge(attempt, reference=right, cases=cases, mistakes=mistakes)


def solution_intervention(weights: Scores, key_mask: Keep) -> Scores:
    """Return the weights without the hidden keys, the rest of a row divided by its sum; 0 where none is."""
    left = weights * rearrange(key_mask, "batch key -> batch 1 1 key")
    total = left.sum(dim=-1, keepdim=True)
    return left / total.masked_fill(total == 0, 1.0)


def check_intervention(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(weights, key_mask)``: attention [batch head query key] without some keys.

    ``key_mask`` is [batch key], False for those. The rest of each row sums to 1 again; a row with nothing
    left is all zeros.
    """

    def shown(key_mask: Tensor) -> Tensor:
        return rearrange(key_mask, "batch key -> batch 1 1 key").float()

    def spread_evenly(weights: Tensor, key_mask: Tensor) -> Tensor:
        left = weights * shown(key_mask)
        lost = 1 - left.sum(-1, keepdim=True)
        return left + lost * shown(key_mask) / shown(key_mask).sum(-1, keepdim=True).clamp(min=1)

    def over_queries(weights: Tensor, key_mask: Tensor) -> Tensor:
        left = weights * shown(key_mask)
        return left / left.sum(-2, keepdim=True).clamp(min=1e-30)

    mistakes: dict[str, Function | Sequence[Function]] = {
        "the weight of the hidden keys is lost: divide what is left by its sum, so that each row sums to 1": (
            lambda weights, key_mask: weights * shown(key_mask)
        ),
        "key_mask [batch key] is laid over query and key here: make it [batch 1 1 key], and then divide "
        "what is left of each row by its sum": (
            lambda weights, key_mask: weights * key_mask,
            lambda weights, key_mask: weights * key_mask / (weights * key_mask).sum(-1, keepdim=True),
        ),
        "the softmax is taken twice: to renormalise is to divide by the sum": (
            lambda weights, key_mask: (weights * shown(key_mask)).softmax(-1),
            lambda weights, key_mask: weights.masked_fill(shown(key_mask) == 0, float("-inf")).softmax(-1),
        ),
        "the lost weight is shared out evenly: a softmax without those keys shares it in proportion, so "
        "divide by the sum of what is left": spread_evenly,
        "it keeps what is to be hidden: key_mask is True for a key that is seen": (
            lambda weights, key_mask: solution_intervention(weights, ~key_mask)
        ),
        "each column sums to 1: the weights of a query sum to 1 over its keys, dim=-1": over_queries,
        "right, but for a query that has no key left: 0 / 0 is not a number; it attends to nothing, so its "
        "row is zeros": lambda weights, key_mask: (
            (weights * shown(key_mask)) / (weights * shown(key_mask)).sum(-1, keepdim=True)
        ),
        "nothing is hidden yet: key_mask has no effect": lambda weights, key_mask: weights.clone(),
    }
    random = torch.Generator().manual_seed(15)
    cases = []
    for batch, head, query, key in [(1, 1, 2, 4), (2, 3, 4, 6), (3, 2, 1, 5)]:
        weights = (2 * torch.randn(batch, head, query, key, generator=random)).softmax(-1)
        key_mask = torch.rand(batch, key, generator=random) < 0.6
        key_mask[:, 0], key_mask[:, 1] = True, False
        cases.append((weights, key_mask))
    causal = masked_softmax(torch.randn(2, 2, 4, 4, generator=random), torch.ones(1, 4, 4).tril() > 0)
    cases.append((causal, torch.tensor([[False, True, False, True], [True, False, True, True]])))
    return judge(attempt, reference=solution_intervention, cases=cases, mistakes=mistakes)


def solution_keep_for_ages(mem_len: int, seg_len: int, first: int, last: int) -> Bool[Tensor, " key"]:
    """Return flags of memory and segment, False for the ages first … last; age a is slot mem_len - a."""
    key_mask = torch.ones(mem_len + seg_len, dtype=torch.bool)
    key_mask[mem_len - last : mem_len - first + 1] = False
    return key_mask


def check_keep_for_ages(attempt: Callable[..., Any]) -> Verdict:
    """``attempt(mem_len, seg_len, first, last)``: flags [key], False for memory of these ages."""

    def slots(mem_len: int, seg_len: int, begin: int, end: int) -> Tensor:
        """True but for the keys begin … end - 1."""
        key_mask = torch.ones(mem_len + seg_len, dtype=torch.bool)
        key_mask[max(begin, 0) : max(end, 0)] = False
        return key_mask

    mistakes: dict[str, Callable[..., Tensor]] = {
        "that counts from the wrong end: the first slot of memory is the oldest, of age mem_len": (
            lambda mem_len, seg_len, first, last: slots(mem_len, seg_len, first - 1, last)
        ),
        "that takes the age for an index: slot 0 is the oldest, and the youngest has age 1, not 0": (
            lambda mem_len, seg_len, first, last: slots(mem_len, seg_len, first, last + 1)
        ),
        "one too young: the youngest state has age 1 and slot mem_len - 1": (
            lambda mem_len, seg_len, first, last: slots(mem_len, seg_len, mem_len - 1 - last, mem_len - first)
        ),
        "the age of `last` is still there: both ends are included": (
            lambda mem_len, seg_len, first, last: slots(
                mem_len, seg_len, mem_len - last + 1, mem_len - first + 1
            )
        ),
        "the age of `first` is still there: both ends are included": (
            lambda mem_len, seg_len, first, last: slots(mem_len, seg_len, mem_len - last, mem_len - first)
        ),
        "that counts back from the end of the segment: age starts where the segment does": (
            lambda mem_len, seg_len, first, last: slots(
                mem_len, seg_len, mem_len + seg_len - last, mem_len + seg_len - first + 1
            )
        ),
        "these are the flags of memory alone: the segment's own keys need one each too, all True": (
            lambda mem_len, seg_len, first, last: solution_keep_for_ages(mem_len, 0, first, last)
        ),
        "True and False are swapped: key_mask is False for what is hidden": (
            lambda *case: ~solution_keep_for_ages(*case)
        ),
    }
    random = torch.Generator().manual_seed(12)
    cases = [(8, 4, 1, 3), (8, 4, 6, 8), (5, 7, 2, 4), (6, 2, 1, 6)]
    for _ in range(20):
        mem_len, seg_len = (int(torch.randint(3, 20, (), generator=random)) for _ in range(2))
        first = int(torch.randint(1, mem_len, (), generator=random))
        last = int(torch.randint(first, mem_len + 1, (), generator=random))
        cases.append((mem_len, seg_len, first, last))
    return judge(attempt, reference=solution_keep_for_ages, cases=cases, mistakes=mistakes)


def check_share_by_age(attempt: Callable[..., Any]) -> Verdict:
    """``attempt(weights, mem_len, ages)``: the part of each head's attention by age, [layer head age]."""

    def by_age(weights: Weights, mem_len: int) -> Tensor:
        """Return sum over slots comes later: [layer head mem], the youngest first."""
        return reduce(weights[..., :mem_len], "layer batch head query mem -> layer head mem", "mean").flip(-1)

    def total(found: Tensor, ages: Ages, how: str = "sum") -> Tensor:
        parts = [getattr(found[..., first - 1 : last], how)(-1) for first, last in ages]
        return torch.stack(parts, dim=-1)

    def right(weights: Weights, mem_len: int, ages: Ages) -> Tensor:
        return total(by_age(weights, mem_len), ages)

    def of_memory(weights: Weights, mem_len: int, ages: Ages) -> Tensor:
        found = by_age(weights, mem_len)
        return total(found / found.sum(-1, keepdim=True), ages)

    def of_memory_by_query(weights: Weights, mem_len: int, ages: Ages) -> Tensor:
        in_memory = weights[..., :mem_len]
        return right(in_memory / in_memory.sum(-1, keepdim=True), mem_len, ages)

    def summed(weights: Weights, mem_len: int, ages: Ages) -> Tensor:
        count = weights.shape[1] * weights.shape[3]
        return right(weights, mem_len, ages) * count

    def off_by_one(weights: Weights, mem_len: int, ages: Ages) -> Tensor:
        slots = by_age(weights, mem_len)
        return torch.stack([slots[..., first:last].sum(-1) for first, last in ages], dim=-1)

    def last_missing(weights: Weights, mem_len: int, ages: Ages) -> Tensor:
        slots = by_age(weights, mem_len)
        return torch.stack([slots[..., first - 1 : last - 1].sum(-1) for first, last in ages], dim=-1)

    def both_moved(weights: Weights, mem_len: int, ages: Ages) -> Tensor:
        slots = by_age(weights, mem_len)
        return torch.stack([slots[..., first : last + 1].sum(-1) for first, last in ages], dim=-1)

    def over_heads(weights: Weights, mem_len: int, ages: Ages) -> Tensor:
        return einsum(right(weights, mem_len, ages), "layer head age -> age") / weights[:, 0, :, 0, 0].numel()

    mistakes: dict[str, Function | Sequence[Function]] = {
        "that counts from the wrong end: slot 0 of memory is the oldest, so turn the axis round": (
            lambda weights, mem_len, ages: total(by_age(weights, mem_len).flip(-1), ages)
        ),
        "that counts back from the last key: those are the segment's own. Cut memory out first": (
            lambda weights, mem_len, ages: total(by_age(weights, weights.shape[-1]), ages)
        ),
        "that is the mean weight of a slot; the share of an age is the sum over its slots": (
            lambda weights, mem_len, ages: total(by_age(weights, mem_len), ages, "mean")
        ),
        "that is the share of what memory gets; the whole of attention, the segment's too, is 1": (
            of_memory,
            of_memory_by_query,
        ),
        "that adds up over queries and rows; a share is their mean": summed,
        "the first slot of every age is missing: age 1 has index 0": off_by_one,
        "the last slot of every age is missing: a slice ends before its end, and age `last` has index "
        "last - 1": last_missing,
        "one too old: age 1 has index 0, so first … last are the indices first - 1 … last - 1": both_moved,
        "the heads are averaged too: keep layer and head apart": over_heads,
    }
    random = torch.Generator().manual_seed(13)
    cases: list[tuple[Tensor, int, Ages]] = []
    for shape, mem_len in [((1, 1, 2, 3, 9), 6), ((2, 3, 2, 4, 16), 12), ((3, 2, 4, 5, 21), 16)]:
        weights = torch.randn(*shape, generator=random).softmax(-1)
        cases.append((weights, mem_len, [(1, 2), (3, mem_len - 2), (mem_len - 1, mem_len)]))
    return judge(attempt, reference=right, cases=cases, mistakes=mistakes)
