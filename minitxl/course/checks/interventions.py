"""Predictions of notebook 11, and the check of an intervention by distance."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from minitxl.attention import attention_mask, masked_softmax
from minitxl.course.checker import Function, Verdict, judge
from minitxl.course.predictions import Predictions, Question

Weights = Float[Tensor, "batch head query key"]

predictions = Predictions(
    Question(
        "falls",
        "From ages 1–8 to ages 65–128: does cost fall less than weight, as much, or more?",
        answer="more",
        choices=("less", "as much", "more"),
        why="weight levels off, since a softmax gives each key something; cost goes on to about zero",
        wrong={
            "as much": "both fall, and that far they agree; but weight levels off, and cost goes on to zero",
            "less": "weight can't fall to zero in a softmax, and it levels off; the cost of a state can",
        },
    ),
    Question(
        "worse",
        "Is it worse to hide all memory, or to shuffle it?",
        answer="hide",
        choices=("hide", "shuffle"),
        why="shuffled memory has lost its order and still holds what it held",
        wrong={
            "shuffle": "wrong order misleads, but less than having nothing: what memory holds counts, "
            "besides where it stands"
        },
    ),
    Question(
        "zeros",
        "Is a memory of zeros the same as no memory?",
        answer=False,
        choices=(True, False),
        why="a state of zeros is still a key: it has a score, and takes its part of the softmax",
    ),
    Question(
        "harmless",
        "In how many of 100 predictions does hiding the brightest state cost nothing, or help?",
        answer=None,
        tolerance=10,
        why="a weight says how much a state moves a prediction, and not whether towards what comes next",
    ),
)


def solution_within(weights: Weights, most: int) -> Weights:
    """Return the weights of the keys at distance 0 … most, each row divided by its sum."""
    query, key = weights.shape[-2:]
    i = rearrange(torch.arange(key - query, key), "query -> query 1")
    near = weights * (i - torch.arange(key) <= most)
    return near / near.sum(-1, keepdim=True)


def check_within(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(weights, most)``: causal weights [batch head query key], none beyond a distance.

    The queries are the last of the keys, and the rest of each row sums to 1 again.
    """

    def kept(weights: Weights, most: int, *, late: int | None = None) -> Weights:
        """Return the near weights, not renormalised; ``late`` is the place of the first query."""
        query, key = weights.shape[-2:]
        late = key - query if late is None else late
        i = rearrange(torch.arange(late, late + query), "query -> query 1")
        return weights * (i - torch.arange(key) <= most)

    def normed(near: Tensor) -> Tensor:
        return near / near.sum(-1, keepdim=True)

    mistakes: dict[str, Function | Sequence[Function]] = {
        "the weight of the far keys is lost: divide what is left by its sum": kept,
        "the distance `most` is gone too: keys at 0 … most stay": (
            lambda weights, most: normed(kept(weights, most - 1))
        ),
        "one key too many: the query itself is distance 0, so `most` + 1 keys stay": (
            lambda weights, most: normed(kept(weights, most + 1))
        ),
        "the first query does not stand at key 0: the queries are the last of the keys, so query q stands "
        "at key - query + q": lambda weights, most: normed(kept(weights, most, late=0)),
        "that hides the same columns from every query, as an age does; a distance moves on with the query": (
            lambda weights, most: normed(
                weights * (torch.arange(weights.shape[-1]) >= weights.shape[-1] - weights.shape[-2] - most)
            ),
            lambda weights, most: normed(
                weights * (torch.arange(weights.shape[-1]) >= weights.shape[-1] - 1 - most)
            ),
        ),
        "that keeps the far keys and hides the near ones": (
            lambda weights, most: torch.nan_to_num(normed(weights - kept(weights, most)))
        ),
        "the softmax is taken twice: to renormalise is to divide by the sum": (
            lambda weights, most: kept(weights, most).softmax(-1)
        ),
        "nothing is hidden yet": lambda weights, most: weights.clone(),
    }
    random = torch.Generator().manual_seed(21)
    cases = []
    for batch, head, query, key, most in [(1, 1, 2, 5, 1), (2, 2, 4, 9, 3), (1, 3, 3, 7, 2), (2, 1, 4, 8, 1)]:
        scores = 2 * torch.randn(batch, head, query, key, generator=random)
        cases.append((masked_softmax(scores, attention_mask(query, key)), most))
    return judge(attempt, reference=solution_within, cases=cases, mistakes=mistakes)
