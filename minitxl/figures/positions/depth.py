"""Copying with absolute positions and memory, by the number of layers."""

from collections.abc import Iterable

from matplotlib.axes import Axes

from minitxl.figures.marks import DOTS_AND_BAR, in_per_cent, seeds_and_mean
from minitxl.figures.picture import Data, Picture, drawing, headline, panels

DEPTHS = {"one_layer": ("1 layer", "#808080"), "two_layers": ("2 layers", "black")}
"""Name and colour of each depth of the experiment ``deeper_layers``."""


def deeper_layers(data: Data) -> Picture:
    """Draw each seed's accuracy where two keys share a position, and a coin's, by task."""
    words = []
    with drawing(9.5, 3) as figure:
        shown = panels(figure, len(data["tasks"]), height=2.7, sharex=True, sharey=True)
        for axes, task in zip(shown, data["tasks"].values(), strict=True):
            words.append(_task(axes, task))
        headline(figure, _finding(data["tasks"].values()))
        seeds = len(next(iter(task["depths"].values()))["late"]["seeds"])
    return Picture(
        figure,
        "Copies that are right with absolute positions and memory, at the offsets where two keys share a "
        f"position, in segment {data['test_segments']} of the stream, mean of {seeds} "
        f"seed{'s' * (seeds > 1)}. {'; '.join(words)}. Chance is above half, for the wrong key may hold the "
        "same token.",
    )


def _finding(tasks: Iterable[Data]) -> str:
    """Return how both depths stand to a coin: one layer never beats it, two do in most trainings."""
    late = [(task["coin"], *(task["depths"][name]["late"]["seeds"] for name in DEPTHS)) for task in tasks]
    better = [seed > coin + 0.1 for coin, _, two in late for seed in two]
    if all(max(one) < coin + 0.05 for coin, one, _ in late) and sum(better) > len(better) / 2:
        return (
            "Two keys share a position: one layer guesses, two layers tell them apart in "
            f"{sum(better)} of {len(better)} trainings"
        )
    return "Two keys share a position: one layer, two layers and chance"


def _task(axes: Axes, task: Data) -> str:
    """Draw one task, and say it."""
    distance, seg_len, said = task["distance"], task["seg_len"], []
    for place, (name, (label, colour)) in enumerate(DEPTHS.items()):
        late = task["depths"][name]["late"]
        low, high = min(late["seeds"]), max(late["seeds"])
        seeds_and_mean(axes, place, late, colour)
        said.append(f"{label} {100 * late['mean']:.0f} % ({100 * low:.0f} to {100 * high:.0f})")
    axes.axvline(task["coin"], color="black", lw=1, ls=(0, (1, 3)))
    axes.annotate(
        f"guess: {100 * task['coin']:.0f} %", (task["coin"], -0.62), (-4, 0),
        textcoords="offset points", ha="right", va="center",
    )  # fmt: skip
    axes.set_yticks(range(len(DEPTHS)), [label for label, _ in DEPTHS.values()])
    axes.set(
        title=f"copy the token {distance} back; segments and memory of {seg_len}",
        xlabel=f"copies that are right, %\n({DOTS_AND_BAR}; dotted: a guess between\n"
        "the two keys, which at times hold the same token)",
        xlim=(0, 1.03),
        ylim=(len(DEPTHS) - 0.5, -0.9),
    )
    in_per_cent(axes.xaxis)
    return (
        f"{distance} back in segments of {seg_len}, from offset {distance} on: {', '.join(said)}; "
        f"chance {100 * task['coin']:.0f} %"
    )
