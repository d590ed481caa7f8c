"""Absolute positions and memory: accuracy beyond the positions of training, and harm by offset."""

from typing import Any

from minitxl.figures.marks import End, seed_band, write_ends
from minitxl.figures.picture import (
    BLUE,
    ORANGE,
    Data,
    Picture,
    drawing,
    fitted,
    legend_outside,
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
    "restarted": "restarted",
    "counted_on": "counted on",
    "fast_hands": "fast hands only",
    "circle": "in a circle",
    "xl": "XL: distances",
}
"""Of the lines, at their ends."""
WIDTHS = {"circle": 5, "xl": 2.5}
"""Of a line that another one covers, in points: it is seen on both sides of it."""


def absolute_positions(data: Data) -> Picture:
    """Draw accuracy by segment, mean and range of the seeds; the segments of training are shaded."""
    trained, words, ends = data["trained_segments"], [], list[End]()
    with drawing(9, 3.8) as figure:
        axes = figure.subplots()
        axes.axvspan(0.5, trained + 0.5, color="#E4E4E4", lw=0)
        for name, (label, colour, line) in SYSTEMS.items():
            rows = data["copiers"][name]["by_segment"]
            style: dict[str, Any] = {"color": colour, "lw": WIDTHS.get(name, 1.5)}
            ends.append((NAMES[name], colour, len(rows), rows[-1]["mean"]))
            seed_band(axes, range(1, len(rows) + 1), rows, line, **style)
            beyond = data["copiers"][name]["beyond_training"]
            words.append(
                f"{label}: {rows[trained - 1]['mean']:.2f} in segment {trained}, then "
                f"{min(beyond['worst']['seeds']):.2f} to {max(beyond['best']['seeds']):.2f}"
            )
        axes.axhline(data["chance"], color="black", lw=1, ls=":")
        axes.annotate(
            f"chance, {data['chance']:.2f}", (len(rows), data["chance"]), (0, 3),
            textcoords="offset points", ha="right",
        )  # fmt: skip
        right = [
            label
            for name, (label, *_) in SYSTEMS.items()
            if min(data["copiers"][name]["beyond_training"]["worst"]["seeds"]) > 0.99
        ]
        axes.set(
            title=fitted(f"Still right past the positions of training: {' and '.join(right) or 'none'}"),
            xlabel="segment of the stream",
            ylabel=f"share right, {data['distance']} back",
            ylim=(0, 1.05),
            xlim=(0.5, len(rows) + 0.5),
        )
        write_ends(axes, ends, at=1.03 * len(rows), least=0.08, fontsize=9)
        legend_outside(figure, axes.patches[:1], ["positions of training"], ncols=2)
    seeds = len(rows[0]["seeds"])
    return Picture(
        figure,
        f"Accuracy of copying the token {data['distance']} back, by segment of the stream, {seeds} "
        f"seed{'s' * (seeds > 1)}; training has segments 1 to {trained}. {'; '.join(words)}.",
    )


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
