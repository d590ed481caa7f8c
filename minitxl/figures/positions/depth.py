"""Copying with absolute positions and memory, by the number of layers."""

from collections.abc import Iterable

from matplotlib.axes import Axes

from minitxl.figures.marks import seed_band
from minitxl.figures.picture import Data, Picture, drawing, headline, legend_outside, panels

DEPTHS = {"one_layer": ("1 layer", "#808080", "^-"), "two_layers": ("2 layers", "black", "o--")}
"""Name, colour and line of each depth of the experiment ``deeper_layers``."""


def deeper_layers(data: Data) -> Picture:
    """Draw accuracy by offset, a panel a task: mean and range of the seeds, and a coin between two keys."""
    words = []
    with drawing(9.5, 3.6) as figure:
        shown = panels(figure, len(data["tasks"]), height=2.8, sharey=True)
        for axes, task in zip(shown, data["tasks"].values(), strict=True):
            words.append(_task(axes, task))
        shown[0].set(ylabel="share of right answers")
        headline(figure, _finding(data["tasks"].values()))
        handles, labels = shown[0].get_legend_handles_labels()
        legend_outside(figure, handles, labels, ncols=len(labels))
        seeds = len(next(iter(task["depths"].values()))["late"]["seeds"])
    return Picture(
        figure,
        f"Accuracy of copying with absolute positions and memory, segment {data['test_segments']} of the "
        f"stream, mean of {seeds} seed{'s' * (seeds > 1)}. {'; '.join(words)}.",
    )


def _finding(tasks: Iterable[Data]) -> str:
    """Return how both depths stand to a coin, and if that holds in every seed."""
    late = [(task["coin"], *(task["depths"][name]["late"] for name in DEPTHS)) for task in tasks]
    if not all(one["mean"] < coin + 0.02 and two["mean"] > coin + 0.05 for coin, one, two in late):
        return "One layer, two layers and a coin"
    always = all(min(two["seeds"]) > max(coin, *one["seeds"]) for coin, one, two in late)
    return f"One layer does as a coin does, two do better{'' if always else ' on average'}"


def _task(axes: Axes, task: Data) -> str:
    """Draw one task, and say it; offsets whose token lies in memory alone are shaded."""
    distance, seg_len, said = task["distance"], task["seg_len"], []
    axes.axvspan(-0.5, distance - 0.5, color="#EEEEEE", zorder=0, lw=0, label="one key at the place")
    for name, (label, colour, line) in DEPTHS.items():
        row = task["depths"][name]
        seed_band(axes, range(seg_len), row["by_offset"], line, color=colour, label=label, lw=1.5)
        low, high = min(row["late"]["seeds"]), max(row["late"]["seeds"])
        said.append(f"{label} {row['late']['mean']:.2f} ({low:.2f} to {high:.2f})")
    axes.axhline(task["coin"], color="black", lw=1, ls=(0, (1, 3)))
    axes.annotate(  # below all that is drawn
        f"dotted: a fair coin, {task['coin']:.2f}", (seg_len - 0.55, 0.05), ha="right", fontsize=9
    )
    axes.set(
        title=f"{distance} back, L = M = {seg_len}, {task['letters']} letters",
        xlabel="offset of the query in its segment",
        xlim=(-0.5, seg_len - 0.5),
        ylim=(0, 1.05),
    )
    axes.set_xticks(range(seg_len) if seg_len <= 8 else range(0, seg_len, 4))
    return (
        f"{distance} back in segments of {seg_len}, from offset {distance} on: {', '.join(said)}; "
        f"a coin {task['coin']:.2f}"
    )
