"""Absolute positions and memory: accuracy beyond the positions of training, and harm by offset."""

from typing import Any

from minitxl.figures.marks import seed_band
from minitxl.figures.picture import (
    BLUE,
    ORANGE,
    Data,
    Picture,
    drawing,
    headline,
)

SYSTEMS = {
    "restarted": ("restarted in each segment", BLUE, "-."),
    "counted_on": ("counted on", "#909090", "-"),
    "fast_hands": ("counted on, fast hands only", "#404040", "--"),
    "circle": ("counted in a circle", "black", "-"),
    "xl": ("XL: distances", ORANGE, ":"),
}
"""Name, colour and line of each system of the experiment ``absolute_positions``."""
NAMES = {
    "xl": "XL:\ndistances",
    "circle": "absolute,\nin a circle",
    "fast_hands": "counted on,\nfast hands",
    "counted_on": "absolute,\ncounted on",
    "restarted": "absolute,\nrestarted",
}
"""Of the panels, from the top."""


def absolute_positions(data: Data) -> Picture:
    """Draw accuracy by segment, a panel a system: mean and range of the seeds; training is shaded."""
    trained, words = data["trained_segments"], []
    with drawing(9, 5) as figure:
        shown = figure.subplots(len(NAMES), 1, sharex=True, sharey=True)
        for axes, (name, written) in zip(shown, NAMES.items(), strict=True):
            _, colour, line = SYSTEMS[name]
            rows = data["copiers"][name]["by_segment"]
            axes.axvspan(0.5, trained + 0.5, color="#E4E4E4", lw=0)
            axes.axhline(data["chance"], color="black", lw=1, ls=":")
            seed_band(axes, range(1, len(rows) + 1), rows, line, color=colour)
            axes.set_yticks([0, 1])
            mean = data["copiers"][name]["beyond_training"]["mean"]["mean"]
            axes.annotate(
                f"{written}\nmean {mean:.2f}", (1.01, 0.5), xycoords="axes fraction",
                va="center", color=colour, fontsize=9, annotation_clip=False,
            )  # fmt: skip
        for name, (label, *_) in SYSTEMS.items():
            rows, beyond = (data["copiers"][name][key] for key in ("by_segment", "beyond_training"))
            words.append(
                f"{label}: {rows[trained - 1]['mean']:.2f} in segment {trained}, then "
                f"{min(beyond['worst']['seeds']):.2f} to {max(beyond['best']['seeds']):.2f}"
            )
        style: dict[str, Any] = {"va": "bottom", "fontsize": 9, "color": "#404040"}
        shown[0].annotate(f"← segments 1 to {trained}: training", (trained + 0.8, 0.3), **style)
        shown[-1].annotate(
            f"dotted: chance, {data['chance']:.2f}", (len(rows), data["chance"] + 0.06), ha="right", **style
        )
        shown[-1].set(
            xlabel="segment of the stream\n(line: mean, band: range of the seeds)",
            ylim=(0, 1.1),
            xlim=(0.5, len(rows) + 0.5),
        )
        figure.supylabel(f"share of right copies, {data['distance']} back", fontsize=10)
        headline(figure, _finding(data))
    seeds = len(rows[0]["seeds"])
    return Picture(
        figure,
        f"Accuracy of copying the token {data['distance']} back, by segment of the stream, {seeds} "
        f"seed{'s' * (seeds > 1)}; training has segments 1 to {trained}. {'; '.join(words)}.",
    )


def _finding(data: Data) -> str:
    """Return which systems stay right in every later segment of every seed."""
    right = {name for name in NAMES if min(data["copiers"][name]["beyond_training"]["worst"]["seeds"]) > 0.99}
    if right == {"xl", "circle"}:
        return "Past the positions of training only XL and positions in a circle stay right"
    return "Copying in segments that training did not reach"


def memory_harm(data: Data) -> Picture:
    """Draw what memory adds to the loss at each offset: ``curves[name]`` has a summary for each of them."""
    looks = ((BLUE, "^-"), (ORANGE, "o--"))
    with drawing(8, 3.4) as figure:
        axes = figure.subplots()
        for (name, rows), (colour, line) in zip(data["curves"].items(), looks, strict=False):
            seed_band(axes, range(len(rows)), rows, line, color=colour, label=name, lw=1.5)
        axes.axhline(0, color="black", lw=1)
        for words, height, side in (("memory harms", 0.02, "bottom"), ("memory helps", -0.02, "top")):
            axes.annotate(words, (len(rows) - 0.4, height), ha="right", va=side, fontsize=9, color="#606060")
        axes.set(
            xlabel="offset of the query in its segment",
            ylabel="bits with memory − bits without",
            xlim=(-0.5, len(rows) - 0.5),
        )
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    words = "; ".join(
        f"{name}: {rows[0]['mean']:+.2f} at offset 0, {rows[1]['mean']:+.2f} at 1, "
        f"{rows[-1]['mean']:+.2f} at {len(rows) - 1}"
        for name, rows in data["curves"].items()
    )
    return Picture(figure, f"Bits per character that memory adds, by offset, mean of the seeds. {words}.")
