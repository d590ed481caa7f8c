"""Marks that several figures share: cuts, cells and their numbers, ticks, and the range of the seeds."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from minitxl.figures.picture import SEEDS, Data

Mark = TypeVar("Mark")


def cut_lines(axes: Axes, seg_len: int, time: int, **style: Any) -> None:
    """Draw a dotted line wherever ``time`` tokens, token i at x = i, are cut into segments."""
    for cut in range(seg_len, time, seg_len):
        axes.axvline(cut - 0.5, **{"color": "black", "lw": 1, "ls": ":", **style})


def hide_frame(axes: Axes) -> None:
    """Hide the axes' lines and ticks, where the drawing is frame enough; labels stay."""
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def seed_band(
    axes: Axes, x: Sequence[int], summaries: Sequence[Data], *line: str, alpha: float = 0.2, **style: Any
) -> None:
    """Draw means as a line, and around it the range of the seeds."""
    (drawn,) = axes.plot(x, [one["mean"] for one in summaries], *line, **style)
    low, high = ([end(one["seeds"]) for one in summaries] for end in (min, max))
    axes.fill_between(x, low, high, color=drawn.get_color(), alpha=alpha, lw=0, label=SEEDS)


def write_numbers(
    axes: Axes,
    values: Iterable[Iterable[float | int]],
    texts: Sequence[Sequence[str]],
    *,
    dark: float,
    **style: Any,
) -> None:
    """Write a text into each cell of an image, white where the cell's value is at most ``dark``."""
    for y, row in enumerate(values):
        for x, value in enumerate(row):
            if texts[y][x]:
                ink = "black" if value > dark else "white"
                axes.text(x, y, texts[y][x], ha="center", va="center", color=ink, **style)


def cell(x: int, y: int, look: tuple[str, str, str], *, side: float = 0.86, label: str = "") -> Rectangle:
    """Return a square around (x, y); ``look`` is its fill, its edge and its hatch."""
    fill, edge, hatch = look
    corner = x - side / 2, y - side / 2
    return Rectangle(corner, side, side, facecolor=fill, edgecolor=edge, hatch=hatch, label=label)


def box(
    axes: Axes,
    x: float | int,
    y: float | int,
    text: str,
    fill: Any,
    *,
    ink: str = "black",
    edge: str = "#B0B0B0",
    hatched: bool = False,
    fontsize: float | int = 9,
) -> None:
    """Draw a unit square with its corner at (x, y) and a text in it, on white where it is hatched."""
    hatch = "////" if hatched else ""
    axes.add_patch(Rectangle((x, y), 1, 1, facecolor=fill, edgecolor=edge, lw=0.8, hatch=hatch))
    words = axes.text(x + 0.5, y + 0.5, text, ha="center", va="center", color=ink, fontsize=fontsize)
    if hatched:
        words.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1})


def ticks_at(axes: Axes, places: Sequence[int], **style: Any) -> None:
    """Label the x axis at these places alone, whatever its scale."""
    axes.set_xticks(places, [f"{place:,}" for place in places], **style)
    axes.set_xticks([], minor=True)


def label_ends(axes: Axes, *, least: float = 0.07) -> None:
    """Write the name of each labelled line at its right end, in its colour, names at least so far apart.

    ``least`` is a share of the axes' height.
    """
    low, high = (float(axes.transScale.transform((1, y))[1]) for y in axes.get_ylim())  # also of a log scale
    ends = {
        line: (float(axes.transScale.transform((1, np.asarray(line.get_ydata())[-1]))[1]) - low)
        / (high - low)
        for line in axes.lines
        if not str(line.get_label()).startswith("_")
    }
    heights = apart(ends, least)
    over = max([0.0, *(height - 1 for height in heights.values())])
    for line, height in heights.items():
        axes.annotate(
            str(line.get_label()),
            (1.01, height - over),
            xycoords="axes fraction",
            color=line.get_color(),
            va="center",
            annotation_clip=False,
        )


def apart(heights: Mapping[Mark, float], least: float) -> dict[Mark, float]:
    """Return the heights in rising order, each moved up until it is ``least`` above the one below."""
    placed: dict[Mark, float] = {}
    below = float("-inf")
    for mark in sorted(heights, key=lambda mark: heights[mark]):
        below = placed[mark] = max(heights[mark], below + least)
    return placed


def layer_ticks(axes: Axes, n_layer: int) -> None:
    """Name the heights 0 … n_layer of a graph: the input, and each layer's output."""
    axes.set_yticks(range(n_layer + 1), ["input", *(f"layer {n + 1}" for n in range(n_layer))])
