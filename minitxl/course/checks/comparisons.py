"""Predictions of notebook 10, and its exercises on scores: bits over unequal segments, which compare."""

from collections.abc import Callable, Mapping
from math import exp, log

import torch
from jaxtyping import Float
from torch import Tensor

from minitxl.course.predictions import Predictions, Question
from minitxl.course.verdicts import Verdict, judge

predictions = Predictions(
    Question(
        "first",
        "How many bits does memory save XL at the first character of a segment?",
        answer=None,
        tolerance=0.4,
        why="without memory the first prediction is made from one character alone, and with it there are 32 "
        "more keys",
    ),
    Question(
        "equal_context",
        "With 32 keys for each query: which XL predicts better?",
        answer="level",
        choices=("memory", "no memory", "level"),
        why="the seeds don't agree on a winner, although with memory three layers reach 93 characters back, "
        "and without it 31. In segments it is the context just before a cut that helps most",
        wrong={
            "memory": "read in segments it wins, but there its queries have more keys. With equally many, "
            "the seeds don't agree",
            "no memory": "the seeds don't agree on a winner: one of three is for it, two are for memory",
        },
    ),
    Question(
        "absolute",
        "Read in segments: does memory help or hurt the sinusoidal absolute positions?",
        answer="hurts",
        choices=("helps", "hurts"),
        why="in each seed. Slots of memory and of the segment carry the same positions, so equal letters "
        "there can't be told apart (notebook 05)",
    ),
    Question(
        "loss_for_xl",
        "Which loss is better for XL?",
        answer="full",
        choices=("full", "half"),
        why="half loss learns from half of the targets alone, and here no encoding gains by it",
    ),
    Question(
        "read_without",
        "Read without memory: which XL is better, the one trained with memory or the one trained without?",
        answer="trained without",
        choices=("trained with", "trained without", "level"),
        why="in each seed. The model that was trained with memory had one before nearly every segment, and "
        "is most behind at a segment's first word",
        wrong={
            "trained with": "it is better when it is read as it was trained. Without memory it is worse in "
            "each seed, most of all at a segment's first word",
            "level": "the seeds agree: the one that was trained with memory is worse without",
        },
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


FAIR = {
    "A and B": (True, "the same targets, tokens and context, another model: that is what a comparison is"),
    "A and C": (
        False,
        "C predicts from 640 tokens and A from 128: the same weights would score better with more context",
    ),
    "A and D": (
        False,
        "D skips the targets at the start of each segment, the hard ones: both must score the same tokens",
    ),
    "A and E": (
        False,
        "a word is several characters: perplexities per token of other tokens do not compare, total bits do",
    ),
}
"""The pairs of scores that are comparable, and why."""


def check_comparisons(answers: Mapping[str, object]) -> Verdict:
    """``answers`` says of each pair whether its perplexities compare."""
    if all(answers.get(pair) is None for pair in FAIR):
        return Verdict.of_nothing()
    missing = [pair for pair in FAIR if not isinstance(answers.get(pair), bool)]
    if missing:
        return Verdict(False, f"{', '.join(missing)}: answer with True or False")
    wrong = [f"{pair}: {why}" for pair, (fair, why) in FAIR.items() if answers[pair] is not fair]
    return Verdict(not wrong, "; ".join(wrong) or "the same targets, the same tokens, the same context")
