"""Where positions enter the score: collisions of absolute ones, Shaw's clipped distances."""

import matplotlib as mpl
from matplotlib.figure import Figure

from minitxl.figures.picture import BITS, BLUE, GREEN, ORANGE, PURPLE, STYLE, Data, Picture

CLIPS = ((BLUE, "s:"), (GREEN, "^-."), (ORANGE, "o-"), (PURPLE, "D--"))
"""Colour and line of each k, from the smallest."""


def shaw_clipping(data: Data) -> Picture:
    """Left: loss by attention length, a line a k. Right: one model's vectors by distance."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10, 3.8), layout="constrained")
        axes = figure.subplots()
        for row in data["by_clip"]:
            axes.plot(
                [one["attention_len"] for one in row["by_length"]],
                [one["bits"]["mean"] for one in row["by_length"]],
            )
    return Picture(figure, BITS)
