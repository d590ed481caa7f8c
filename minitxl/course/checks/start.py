"""Judges the exercises of notebook 00: the prediction, and a choice of sizes with a reach of 1,000."""

from collections.abc import Mapping
from typing import Any

from minitxl import memory
from minitxl.course.exercises import NOTHING, Verdict

WANTED = 1000
"""Tokens that the second exercise asks for."""
ANSWERS = {
    "better_predictions": ("xl", "the past is information, and relative positions let the model use it"),
    "longest_reach": (
        127,
        "64 is about one hop: a query at offset 31 sees 32 + 31 = 63 back. But the states it sees had seen "
        "further, so each of the 2 layers below adds a segment",
    ),
    "cheaper": ("cached", "sliding computes the whole window again for every single character"),
}


def check_prediction(prediction: Mapping[str, Any]) -> dict[str, Verdict]:
    """Return a verdict for each answer, with the reason whether or not it was right."""
    return {
        name: Verdict(prediction.get(name) == answer, why)
        if prediction.get(name) not in (None, ...)
        else Verdict(False, NOTHING)
        for name, (answer, why) in ANSWERS.items()
    }


def check_choice(choice: Mapping[str, Any]) -> Verdict:
    """``n_layer``, ``seg_len`` and ``mem_len`` of a longest reach of exactly 1,000 tokens."""
    sizes = [choice.get(name) for name in ("n_layer", "seg_len", "mem_len")]
    if not all(isinstance(size, int) for size in sizes):
        return Verdict.of_nothing(f"{NOTHING}: n_layer, seg_len and mem_len are whole numbers")
    n_layer, seg_len, mem_len = map(int, sizes)  # type: ignore[arg-type]
    if n_layer < 1 or seg_len < 1 or mem_len < 0:
        return Verdict(False, "there must be 1 layer and 1 token of segment at least, and no negative memory")
    found = memory.longest_reach(n_layer=n_layer, seg_len=seg_len, mem_len=mem_len)
    if found == WANTED:
        return Verdict(True, f"{WANTED:,} tokens")
    one_hop = seg_len - 1 + mem_len
    mistakes = {
        f"that is one layer's reach; {n_layer} layers reach {found:,}": one_hop,
        f"off by one: {found:,}. The last offset is seg_len - 1, and a token does not reach itself": (
            found + (1 if found < WANTED else -1)
        ),
        f"that is N·M, which leaves the query's own offset out; the reach is {found:,}": n_layer * mem_len,
        f"that is N·(M + L), which counts the segment again in each layer; the reach is {found:,}": (
            n_layer * (mem_len + seg_len)
        ),
    }
    for why, guess in mistakes.items():
        if guess == WANTED:
            return Verdict(False, why)
    return Verdict(False, f"{found:,} tokens")
