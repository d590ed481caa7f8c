"""The rectangle of queries and keys: numbers of its pairs, and one row of it where states are taken away."""

from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from minitxl.figures.marks import box, hide_frame
from minitxl.figures.picture import ORANGE, Data, Picture, drawing

LOOKS: list[dict[str, Any]] = [
    {"facecolor": "#B0B0B0", "edgecolor": "#606060"},
    {"facecolor": "white", "edgecolor": "black", "hatch": "////"},
]
"""Bars of a key that stays, and of a state that is to go."""


def numbered(data: Data) -> Picture:
    """Draw panels of ``numbers`` [row column], equal numbers in equal colours; None is the future, hatched.

    ``panels[title]`` may have ``notes``, words for each row, ``mem_len``, the columns left of a line,
    and ``framed``, pairs of a row and a column. It has ``rows`` and ``columns``, the names of both axes.
    """
    panels = data["panels"]
    most = max(number for panel in panels.values() for row in panel["numbers"] for number in row if number)
    widths = [len(panel["numbers"][0]) + 2.2 * ("notes" in panel) for panel in panels.values()]
    tallest = max(len(panel["numbers"]) for panel in panels.values())
    with drawing(7, 5 * tallest / sum(widths) + 1.35) as figure:
        grid = figure.subplots(1, len(panels), width_ratios=widths, squeeze=False)[0]
        for axes, (title, panel), width in zip(grid, panels.items(), widths, strict=True):
            for y, row in enumerate(panel["numbers"]):
                for x, number in enumerate(row):
                    _pair(axes, x, y, number, most)
                axes.text(len(row) + 0.2, y + 0.5, panel.get("notes", [""] * tallest)[y], va="center")
            for y, x in panel.get("framed", ()):
                frame = Rectangle((x, y), 1, 1, fill=False, ec=ORANGE, lw=3.5, zorder=3, clip_on=False)
                axes.add_patch(frame)
            if "mem_len" in panel:
                axes.plot([panel["mem_len"]] * 2, [-0.2, len(panel["numbers"]) + 0.2], color="black", lw=2.5)
            _name_axes(axes, panel, title)
            axes.set(xlim=(-0.1, width + 0.1), ylim=(tallest + 0.2, -0.2), aspect="equal", anchor="N")
    alt = "; ".join(
        f"{title.replace(chr(10), ' ')}: "
        + ", ".join(
            " ".join("–" if number is None else f"{number}" for number in row) for row in panel["numbers"]
        )
        for title, panel in panels.items()
    )
    return Picture(figure, f"Numbers row by row, – for the future. {alt}.")


def _pair(axes: Axes, x: int, y: int, number: int | None, most: int) -> None:
    """Draw a number in its box; colours go from 0, bright, to the largest, dark."""
    if number is None:
        box(axes, x, y, "", "white", hatched=True)
        return
    near = 1 - number / most
    ink = "black" if near > 0.5 else "white"
    box(axes, x, y, f"{number}", mpl.colormaps["cividis"](near), ink=ink, fontsize=10)


def _name_axes(axes: Axes, panel: Data, title: str) -> None:
    places = [range(len(panel["numbers"][0])), range(len(panel["numbers"]))]
    axes.set_xticks([x + 0.5 for x in places[0]], [str(x) for x in places[0]])
    axes.set_yticks([y + 0.5 for y in places[1]], [str(y) for y in places[1]] if panel["rows"] else [])
    axes.set(title=title, xlabel=panel["columns"], ylabel=panel["rows"])
    hide_frame(axes)


def taken(data: Data) -> Picture:
    """Draw a query's weights by key, a line a way to take states away; the first way takes none.

    ``ways[name]`` has a weight for each of ``keys``, None where the key is gone; ``taken`` marks the
    states that were to go. A step in each line is the first way again.
    """
    ways, places, gone = data["ways"], range(len(data["keys"])), data["taken"]
    whole, alt = next(iter(ways.values())), []
    with drawing(7, 1.15 * len(ways) + 0.5) as figure:
        lines = figure.subplots(len(ways), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, (name, weights) in zip(lines, ways.items(), strict=True):
            for place, weight in zip(places, weights, strict=True):
                axes.bar(place, weight or 0.0, width=0.8, **LOOKS[bool(gone[place])])
                if weight is None:
                    axes.text(place, 0, "×", ha="center", va="bottom", fontweight="bold")
            axes.stairs(whole, [place - 0.5 for place in range(len(whole) + 1)], color="black", lw=1)
            left = sum(weight or 0.0 for weight, is_gone in zip(weights, gone, strict=True) if is_gone)
            axes.set_title(f"{name}: the marked states get {left:.1%} of the weight")
            alt.append(f"{name} {left:.1%}")
        lines[-1].set_xticks(places, data["keys"])
        lines[-1].set(xlabel=data["label"])
        figure.supylabel("weight", fontsize=10)
    marked = sum(gone)
    return Picture(figure, f"What {marked} states of memory get of a query's weight: {'; '.join(alt)}.")
