"""Predictions of notebook 10, and its exercise on bits over segments of unequal lengths."""

from collections.abc import Callable
from math import exp, log

import torch
from jaxtyping import Float
from torch import Tensor

from minitxl.course.checker import Verdict, judge
from minitxl.course.predictions import Predictions, Question

predictions = Predictions(
    Question(
        "memory_share",
        "How many per cent of the attention lie on memory before the first step?",
        answer=None,
        tolerance=6,
        per_cent=True,
        why="each key gets nearly the same weight, and a query sees all of memory, but of the segment only "
        "what stands before it and itself: on average memory has more than half",
        wrong={
            50: "a query does not see the characters after it: it has all of memory, and on average only "
            "half of the segment, so memory has more than half"
        },
    ),
    Question(
        "rate",
        "With a peak of 0.002, which rate leads to fewer bits after 300 steps?",
        answer="constant",
        choices=("falls", "constant"),
        why="in each of three seeds, and that counts. It is so at this peak after 300 steps: after 900, at "
        "a peak of 0.008, the falling rate is ahead",
    ),
    Question(
        "wrong_memory",
        "After 900 steps with the memory of another row: on which text is the loss worse by more than a "
        "twentieth of a bit than with the right memory?",
        answer="training",
        choices=("training", "test", "both", "neither"),
        why="there each row reads unrelated text as its past. At the test rows are in order, so the bug is "
        "absent. The loss is worse there too, in each seed, but by a few hundredths at most",
    ),
    Question(
        "exchanged",
        "What must GPUs exchange at each step, if each takes some lanes of the batch?",
        answer="gradients",
        choices=("memory", "gradients", "both"),
        why="a lane stays on its GPU, and so does its memory; the weights are common, so their gradients are "
        "averaged",
        wrong={
            "memory": "a lane stays on its GPU, and no other lane reads its memory. Without common gradients "
            "the weights would part",
            "both": "gradients alone: a lane stays on its GPU, and no other lane reads its memory",
        },
    ),
)


def bits_per_token(segments: list[Float[Tensor, "_"]]) -> float:
    """Return mean bits over all tokens of segments with losses in nats, whatever their lengths."""
    return torch.cat(segments).mean().item() / log(2)


def check_bits(attempt: Callable[..., float]) -> Verdict:
    """``attempt(segments)`` is given losses in nats, a tensor a segment, the last of them shorter."""
    generator = torch.Generator().manual_seed(11)

    def losses(*lengths: int) -> list[Tensor]:
        return [4 * torch.rand(length, generator=generator, dtype=torch.float64) for length in lengths]

    def of_segments(segments: list[Tensor]) -> float:
        return sum(segment.mean().item() for segment in segments) / len(segments) / log(2)

    return judge(
        attempt,
        reference=bits_per_token,
        cases=[(losses(7, 7, 2),), (losses(5),), (losses(9, 9, 9, 1),)],
        mistakes={
            "a short segment counts as much as a long one: sum over all tokens, then divide": of_segments,
            "these are nats: a bit is log 2 of them": lambda segments: torch.cat(segments).mean().item(),
            "a nat is more than a bit, so there are more bits than nats: divide by log 2, don't multiply": (
                lambda segments: torch.cat(segments).mean().item() * log(2)
            ),
            "that is the perplexity, and bits are its logarithm to the base 2": lambda segments: exp(
                torch.cat(segments).mean().item()
            ),
            "that is a sum: divide it by the number of tokens": lambda segments: (
                torch.cat(segments).sum().item() / log(2)
            ),
        },
        praise="every token counts once, and the unit is a bit",
    )
