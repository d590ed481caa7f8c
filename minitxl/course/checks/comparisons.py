"""Predictions of notebook 10c, and its exercise on scores: which of them compare."""

from collections.abc import Mapping

from minitxl.course.checker import Verdict
from minitxl.course.predictions import Predictions, Question

predictions = Predictions(
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
        "shuffled",
        "On shuffled lines, read in segments: does memory help XL, hurt it, or neither?",
        answer="helps",
        choices=("helps", "hurts", "level"),
        why="in each seed. At the start of a segment the near past is cut off, and memory has it. So it "
        "helps although no line tells of another",
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
        "a word is several characters: perplexities per token of other tokens do not compare, and 128 words "
        "are another context than 128 characters",
    ),
    "C and F": (True, "the same targets, tokens and context, 640 before each, and another model"),
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
