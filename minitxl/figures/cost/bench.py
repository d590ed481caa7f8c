"""The benchmark: this package beside its peers."""

from math import ceil

from matplotlib.axes import Axes

from minitxl.figures.picture import BLUE, GREEN, ORANGE, Data, Picture, drawing

RACERS = {
    "minitxl": ("o", ORANGE, ORANGE),
    "minitxl-rotary": ("D", ORANGE, ORANGE),
    "minitxl-explicit": ("o", ORANGE, "white"),
    "vanilla": ("^", GREEN, GREEN),
}
"""Marker, colour and fill of our own systems; the peers are blue squares."""


def bench(data: Data) -> Picture:
    """Draw each system's speed against the reference, and its memory: a panel an item."""
    items, reference = data["items"], data["reference"]
    rows = ceil(len(items) / 2)
    with drawing(10, 2.4 * rows) as figure:
        panels = figure.subplots(rows, 2, squeeze=False).ravel()
        alt = [_race(axes, row, reference) for axes, row in zip(panels, items, strict=False)]
        for axes in panels[len(items) :]:
            axes.remove()
    return Picture(figure, " ".join(alt))


def _race(axes: Axes, row: Data, reference: str) -> str:
    """Draw an item, one system below the other, and return it in words."""
    title, timed, alt = f"{row['work']}, size {row['size']}", row["work"] != "peak memory", []
    what = f"speed, {reference} = 1, more is better" if timed else "MB, less is better"
    for place, (name, system) in enumerate(row["systems"].items()):
        measured = system["speed" if timed else "megabytes"]
        value, (low, high) = measured["median"], measured["quartiles"]
        number, first, last = (f"{one:.2f}" if timed else f"{one:,.0f}" for one in (value, low, high))
        mark, colour, fill = RACERS.get(name, ("s", BLUE, BLUE))
        axes.plot([low, high], [place, place], "-", color=colour)
        axes.plot(value, place, mark, color=colour, markerfacecolor=fill, ms=7)
        label = axes.annotate(number, (high, place), (8, 0), textcoords="offset points", va="center")
        label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1})
        alt.append(f"{name} {number} (quartiles {first} and {last})")
    if timed:
        axes.axvline(1, color="black", lw=1, ls=":", zorder=0)
    names = [name.replace("-cache", "\n-cache") for name in row["systems"]]
    axes.set_yticks(range(len(names)), names)
    axes.set(title=title, xlabel=what)
    axes.margins(x=0.2, y=0.12)
    axes.set_xlim(left=0)
    axes.invert_yaxis()
    return f"{title}, {what}: {', '.join(alt)}."
