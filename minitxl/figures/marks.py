"""Marks that several figures share: cuts, cells and their numbers, ticks, and the range of the seeds."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex
from matplotlib.patches import ConnectionPatch, Rectangle
from matplotlib.ticker import MaxNLocator, PercentFormatter

from minitxl.figures.picture import SEEDS, Data, is_narrow
from minitxl.figures.systems import FUTURE, ink

Mark = TypeVar("Mark")
SEED: dict[str, Any] = {"ms": 5.5, "alpha": 0.7, "mew": 0}
"""Look of one seed's mark, beside that of the mean."""
HOLLOW: dict[str, Any] = {"mfc": "white", "mew": 1.5, "alpha": 1}
"""Look of a mark whose model was trained or read without memory. Hollow has no other meaning."""
MEAN: dict[str, Any] = {"ms": 14, "mew": 2.5}
DOTS_AND_BAR, LINE_AND_BAND = "dots: seeds; bar: mean", "line: mean; band: range of the seeds"
"""What ``seeds_and_mean`` and ``seed_band`` draw, for the label of an axis."""


def counted(marks: str, seeds: int) -> str:
    """Return words on marks, such as DOTS_AND_BAR, with the number of the seeds."""
    return re.sub("(the )?seeds", f"{seeds} seed{'s' * (seeds > 1)}", marks)


def cut_lines(axes: Axes, seg_len: int, time: int, **style: Any) -> None:
    """Draw a dotted line wherever ``time`` tokens, token i at x = i, are cut into segments."""
    for cut in range(seg_len, time, seg_len):
        axes.axvline(cut - 0.5, **{"color": "black", "lw": 1, "ls": ":", **style})


def hide_frame(axes: Axes) -> None:
    """Hide the axes' lines and ticks, where the drawing is frame enough; labels stay."""
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def seed_band(
    axes: Axes,
    x: Sequence[float | int],
    summaries: Sequence[Data],
    *line: str,
    alpha: float = 0.2,
    **style: Any,
) -> None:
    """Draw means as a line, and around it the range of the seeds, where there are several."""
    (drawn,) = axes.plot(x, [one["mean"] for one in summaries], *line, **style)
    low, high = ([end(one["seeds"]) for one in summaries] for end in (min, max))
    if len(summaries[0]["seeds"]) > 1:
        axes.fill_between(x, low, high, color=drawn.get_color(), alpha=alpha, lw=0, label=SEEDS)


def seeds_and_mean(
    axes: Axes,
    place: float,
    summary: Data,
    colour: str,
    *,
    marker: str = "o",
    memory: bool = True,
    upright: bool = False,
) -> None:
    """Draw a row, or upright a column: a small mark for each seed, and a bar at their mean.

    Without ``memory`` the marks are hollow.
    """
    look = SEED if memory else SEED | HOLLOW
    seeds = summary["seeds"], [place] * len(summary["seeds"])
    mean = [summary["mean"]], [place]
    axes.plot(*(seeds[::-1] if upright else seeds), marker, color=colour, **look)
    axes.plot(*(mean[::-1] if upright else mean), "_" if upright else "|", color=colour, **MEAN)


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
        words.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0 if is_narrow() else 1})


def ticks_at(axes: Axes, places: Sequence[int], **style: Any) -> None:
    """Label the x axis at these places alone, whatever its scale."""
    axes.set_xticks(places, [f"{place:,}" for place in places], **style)
    axes.set_xticks([], minor=True)


def name_offsets(axes: Axes, tokens: str = "characters") -> None:
    """Name the x axis, which is the offset in the segment, and tick whole numbers alone."""
    axes.set_xlabel(f"offset in the segment, {tokens}")
    axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10], integer=True))


def with_commas(axis: Axis) -> None:
    """Write the axis's numbers with commas between thousands."""
    axis.set_major_formatter("{x:,g}")


def signed(number: float, digits: int) -> str:
    """Return a number with its sign, a true minus as matplotlib writes it on an axis; 0 has none."""
    written = f"{number:+.{digits}f}".replace("-", "−")
    return written if written.strip("+−0.") else written[1:]


def negated(summary: Data) -> Data:
    """Return the seeds and the mean of what is saved, from those of a cost."""
    return {"seeds": [-one for one in summary["seeds"]], "mean": -summary["mean"]}


def hatch_future(axes: Axes) -> None:
    """Hatch the cells of an image that are NaN, those of the future."""
    fill, edge, hatch = FUTURE
    look: dict[str, Any] = {"facecolor": fill, "edgecolor": edge, "hatch": hatch, "lw": 0, "zorder": -1}
    axes.add_patch(Rectangle((0, 0), 1, 1, transform=axes.transAxes, **look))


def in_per_cent(axis: Axis) -> None:
    """Write the axis's shares, 0 to 1, as numbers of per cent; its label has the sign."""
    axis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=""))


End = tuple[str, str, float | int, float | int]
"""Name and colour of a line, and the place in the data where it ends."""
MOVED = 0.02
"""Share of the axes' height that a name may stand beside its line's end before a leader joins them."""


def label_ends(axes: Axes, *, least: float = 0.07) -> None:
    """Write the name of each labelled line at its right end: see ``write_ends``."""
    ends = list[End]()
    for line in axes.lines:
        if not (name := str(line.get_label())).startswith("_"):
            x, y = (float(np.asarray(data)[-1]) for data in line.get_data())
            if not line.get_transform().contains_branch_seperately(axes.transData)[0]:
                x = axes.get_xlim()[1]  # a level goes right across
            ends.append((name, to_hex(line.get_color()), x, y))
    write_ends(axes, ends, least=least)


def write_ends(
    axes: Axes, ends: Sequence[End], *, least: float = 0.06, at: float | int | None = None, **style: Any
) -> None:
    """Write each line's name beside its end, in its colour or a darker one; names are at least so far apart.

    Names begin at ``at`` on the x axis, by default right of the axes; ``least`` is a share of the axes'
    height. A thin line of the same colour leads from an end to a name that had to move away from it. Where
    names begin within the axes, the x axis ends with the lines; its limits must be set before.
    """
    low, high = (float(axes.transScale.transform((1, y))[1]) for y in axes.get_ylim())  # also of a log scale
    true = {end: (float(axes.transScale.transform((1, end[3]))[1]) - low) / (high - low) for end in ends}
    beside = axes.transAxes if at is None else axes.get_xaxis_transform()
    if at is not None:
        axes.spines["bottom"].set_bounds(axes.get_xlim()[0], max(x for _, _, x, _ in ends))
    for (name, colour, x, y), height in apart(true, least, top=1).items():
        place = 1.01 if at is None else at, height
        axes.annotate(
            name,
            place,
            xycoords=beside,
            color=ink(to_hex(colour)),
            va="center",
            annotation_clip=False,
            **style,
        )
        if abs(height - true[name, colour, x, y]) > MOVED:
            leader = ConnectionPatch(
                (x, y), place, axes.transData, beside, color=colour, lw=0.8, clip_on=False, shrinkB=1
            )
            leader.set_in_layout(False)
            axes.add_artist(leader)


def apart(heights: Mapping[Mark, float], least: float, *, top: float | int) -> dict[Mark, float]:
    """Return the heights in rising order, each moved up until it is ``least`` above the one below.

    Where they would come to lie above ``top``, they are moved down from there.
    """
    placed: dict[Mark, float] = {}
    below = float("-inf")
    for mark in sorted(heights, key=lambda mark: heights[mark]):
        below = placed[mark] = max(heights[mark], below + least)
    above = top + least
    for mark in reversed(placed):
        above = placed[mark] = min(placed[mark], above - least)
    return placed


def layer_ticks(axes: Axes, n_layer: int) -> None:
    """Name the heights 0 … n_layer of a graph: the input, and each layer's output."""
    axes.set_yticks(range(n_layer + 1), ["input", *(f"layer {n + 1}" for n in range(n_layer))])
