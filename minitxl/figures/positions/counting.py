"""Absolute positions and memory: accuracy beyond the positions of training, and harm by offset."""

from typing import Any

from minitxl.figures.marks import seed_band
from minitxl.figures.picture import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    Data,
    Picture,
    drawing,
    fitted,
    legend_outside,
)

SYSTEMS = {
    "restarted": ("restarted in each segment", BLUE, "s-."),
    "counted_on": ("counted on", PURPLE, "^-"),
    "fast_hands": ("counted on, fast hands only", GREEN, "v--"),
    "circle": ("counted in a circle", "black", "x-"),
    "xl": ("XL: distances", ORANGE, "o:"),
}
"""Name, colour and line of each system of the experiment ``absolute_positions``."""
WIDTHS = {"circle": 4.5}
"""Of a line that another one covers, in points: it is seen on both sides of it."""


def absolute_positions(data: Data) -> Picture:
    """Draw accuracy by segment, mean and range of the seeds; the segments of training are shaded."""
    trained, words = data["trained_segments"], []
    with drawing(9, 3.8) as figure:
        axes = figure.subplots()
        axes.axvspan(0.5, trained + 0.5, color="#E4E4E4", lw=0, label="positions of training")
        for name, (label, colour, line) in SYSTEMS.items():
            rows = data["copiers"][name]["by_segment"]
            style: dict[str, Any] = {"color": colour, "label": label, "lw": WIDTHS.get(name, 1.3)}
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
        legend_outside(figure, ncols=3)
    seeds = len(rows[0]["seeds"])
    return Picture(
        figure,
        f"Accuracy of copying the token {data['distance']} back, by segment of the stream, {seeds} "
        f"seed{'s' * (seeds > 1)}; training has segments 1 to {trained}. {'; '.join(words)}.",
    )


def memory_harm(data: Data) -> Picture:
    """Draw what memory adds to the loss at each offset: ``curves[name]`` has a summary for each of them."""
    looks = ((PURPLE, "^-"), (ORANGE, "o--"))
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
