"""The conclusions of the experiments on trainings of seconds."""

from collections.abc import Callable, Iterator, Mapping

from minitxl.experiments.conclusions.comparisons import Data


def _memory_costs(data: Data, cost: str) -> Iterator[tuple[float, float]]:
    """Return what shuffled lanes and what no memory cost in the longest training, seed by seed."""
    changes = data["rows"][-1]["changes"]
    return zip(*(changes[change][cost]["seeds"] for change in ("shuffled_lanes", "no_memory")), strict=True)


SHORT_TRAININGS: dict[str, Mapping[str, Callable[[Data], bool]]] = {
    "equal_bytes": {
        "after equally many steps longer segments win with a full context, in every seed": lambda data: (
            max(data["more"]["steps"]["full_context"]["seeds"]) < 0
        ),
        "after equally much text memory is ahead in every seed, read both ways": lambda data: all(
            min(data["more"][steps][way]["seeds"]) > 0
            for steps in ("fewer_steps", "more_steps")
            for way in ("in_segments", "full_context")
        ),
    },
    "training_parts": {
        "at the lowest peak a constant rate is ahead of the falling one, in every seed": lambda data: all(
            max(row["changes"]["constant_rate"]["cost"]["seeds"]) < 0 for row in data["rows"]
        ),
        "with more steps by less, in every seed": lambda data: all(
            few < more
            for few, more in zip(
                *(row["changes"]["constant_rate"]["cost"]["seeds"] for row in data["rows"]), strict=True
            )
        ),
        "each at its best peak, the falling rate is ahead, in every seed": lambda data: (
            min(data["schedules"]["at_best_peaks"]["cost"]["constant"]["seeds"]) > 0
        ),
        "at the lowest peak the longer training without warm-up ends worse, in every seed": lambda data: (
            min(data["rows"][-1]["changes"]["no_warmup"]["cost"]["seeds"]) > 0
        ),
        "each at its best peak, the seeds don't agree whether warm-up helps": lambda data: (
            len({cost > 0 for cost in data["schedules"]["at_best_peaks"]["cost"]["no_warmup"]["seeds"]}) == 2
        ),
        "lanes in another order at each step cost bits, in every seed": lambda data: all(
            min(row["changes"]["shuffled_lanes"]["cost"]["seeds"]) > 0 for row in data["rows"]
        ),
        "at the end of the longer training they cost more on its own text than no memory, in every seed": (
            lambda data: all(
                shuffled > without > 0 for shuffled, without in _memory_costs(data, "training_cost")
            )
        ),
        "read alike on the test text, the seeds don't agree which of the two is worse": lambda data: (
            len({shuffled > without for shuffled, without in _memory_costs(data, "cost_with_memory")}) == 2
        ),
        "nor whether training without memory costs anything": lambda data: (
            len({without > 0 for _, without in _memory_costs(data, "cost_with_memory")}) == 2
        ),
    },
    "short_segments": {
        "on short segments memory saves bits of the whole text, in every seed": lambda data: (
            min(data["gains"]["memory"]["seeds"]) > 0
        ),
        "and most at the first prediction of a segment, in every seed": lambda data: all(
            max(saved) == saved[0]
            for saved in zip(*(one["seeds"] for one in data["gains"]["memory_by_offset"]), strict=True)
        ),
        "relative positions save bits too, in every seed": lambda data: (
            min(data["gains"]["relative_positions"]["seeds"]) > 0
        ),
    },
}
