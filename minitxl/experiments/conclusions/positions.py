"""The conclusions of the experiments on absolute positions with memory."""

from collections.abc import Callable, Mapping

from minitxl.experiments.conclusions.comparisons import Data, apart

ABSOLUTE_POSITIONS: dict[str, Mapping[str, Callable[[Data], bool]]] = {
    "absolute_positions": {
        "where positions restart, late queries are right no more often than a coin": lambda data: (
            data["copiers"]["restarted"]["late"]["mean"] < data["coin"] + 0.01
        ),
        "and answer with one of the two tokens at the position they look for": lambda data: (
            min(data["copiers"]["restarted"]["late_either"]["seeds"]) > 0.9
        ),
        "counting on is learned for the positions of training": lambda data: all(
            min(one["seeds"]) > 0.95
            for one in data["copiers"]["counted_on"]["by_segment"][: data["trained_segments"]]
        ),
        "beyond them it is worse in every seed, and far above chance": lambda data: (
            2 * data["chance"]
            < min(data["copiers"]["counted_on"]["beyond_training"]["worst"]["seeds"])
            <= max(data["copiers"]["counted_on"]["beyond_training"]["mean"]["seeds"])
            < 0.95
        ),
        "with fast hands alone the mean is better, and the worst segment no good either": lambda data: (
            apart(
                data["copiers"]["counted_on"]["beyond_training"]["mean"],
                data["copiers"]["fast_hands"]["beyond_training"]["mean"],
            )
            and max(data["copiers"]["fast_hands"]["beyond_training"]["worst"]["seeds"]) < 0.95
        ),
        "a circle of positions and distances read on without loss": lambda data: all(
            min(data["copiers"][system]["beyond_training"]["worst"]["seeds"]) > 0.95
            for system in ("circle", "xl")
        ),
        "on text the circle mends most of what memory had worsened, is worse than no memory, and far behind "
        "distances": lambda data: (
            apart(data["readers"]["circle"], data["readers"]["restarted"])
            and apart(data["readers"]["no_memory"], data["readers"]["circle"])
            and apart(data["readers"]["xl"], data["readers"]["circle"])
        ),
    },
    "deeper_layers": {
        "one layer is right no more often than a coin where two keys stand at the place": lambda data: all(
            task["depths"]["one_layer"]["late"]["mean"] < task["coin"] + 0.02
            for task in data["tasks"].values()
        ),
        "two layers tell the near token from the old one, in every seed": lambda data: (
            min(data["tasks"]["near"]["depths"]["two_layers"]["late"]["seeds"])
            > data["tasks"]["near"]["coin"] + 0.2
        ),
        "on the far task the seed decides: one finds it, and one does no better than a coin": lambda data: (
            max((far := data["tasks"]["far"])["depths"]["two_layers"]["late"]["seeds"]) > far["coin"] + 0.2
            and min(far["depths"]["two_layers"]["late"]["seeds"]) < far["coin"] + 0.02
        ),
        "where one key stands at the place, every model is right": lambda data: all(
            min(row["early"]["seeds"]) > 0.9
            for task in data["tasks"].values()
            for row in task["depths"].values()
        ),
    },
}
