"""Predictions of notebook 10c, and its exercise on scores: which of them compare."""

from collections.abc import Mapping

from minitxl.course.checker import Verdict
from minitxl.course.predictions import Predictions, Question

predictions = Predictions(
    Question(
        "equal_context",
        "With 32 keys for each scored query: which XL predicts better after full loss?",
        answer="open",
        choices=("memory", "no memory", "open"),
        why="the interval of the five differences goes from a hundredth of a bit below 0 to seven above. "
        "In segments it is the context just before a cut that helps most",
        wrong={
            "memory": "read in segments it is ahead, but there its queries have more keys. With equally "
            "many, 0 lies in the interval",
            "no memory": "0 lies in the interval: five seeds don't tell which of the two is ahead",
        },
    ),
    Question(
        "shuffled",
        "On shuffled lines, read in segments: at which places of a segment does memory save bits?",
        answer="first four",
        choices=("first four", "later", "both", "neither"),
        why="there the near past is cut off, and memory has it: it helps although no line tells of another. "
        "At the later places, taken together, the difference is open",
    ),
    Question(
        "gains_more",
        "Which XL gains more by memory at the test, the one trained with memory or the one trained without?",
        answer="trained with",
        choices=("trained with", "trained without", "open"),
        why="more than three times as much, and the difference counts. It may miss what it was trained with, "
        "or have learned to use it better: the experiment does not tell these apart",
        wrong={
            "trained without": "it gains too, but less: it was trained to begin each segment without memory",
            "open": "0 lies outside of the interval of the three differences: it gains more in each seed",
        },
    ),
)

FAIR = {
    "A and B": (True, "the same targets, tokens and context, another model: that is what a comparison is"),
    "A and C": (
        False,
        "C predicts from 640 tokens and A from 128: the same weights may score better with more context",
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
