"""The relative shift of Appendix B, step by step, and the vectors that it saves."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from minitxl.figures.marks import box
from minitxl.figures.picture import PHONE, Data, Picture, drawing, is_narrow

ROWS = ["#B8E0C8", "#E9C9DD", "#E8E8B0", "#A6CEE3", "#FDD0A2"]
"""Light colours, one for each query."""
DROPPED = "#D0D0D0"
WAYS = {
    "pair": ("for each pair", "#808080", "s--"),
    "distance": ("for each distance, and shift", "black", "o-"),
}
PAGE = 7
"""Inches of a page's column, more than which a picture is made smaller there."""
GAP = 1.5
"""Empty cells between two frames that stand side by side."""
ON_A_PAGE, ON_A_PHONE = 18, 14
"""Cells that have room beside each other, with letters in them."""


def shift_frames(data: Data) -> Picture:
    """Draw frames of the shift, each a matrix of tickets; the frames of one of ``lines`` stand side by side.

    Ticket i · key + c + 1 is the product of query i with column c, whose distance is key - 1 - c; 0 is the
    padding and -1 is not drawn. ``hatched`` marks cells of the future, and ``dropped`` says how many of the
    first cells go.
    """
    key, lines = data["key"], data["lines"]
    most = ON_A_PHONE if is_narrow() else ON_A_PAGE
    lines = [[_wrapped(frame, most) for frame in line] for line in lines]
    if is_narrow():
        lines = [[frame] for line in lines for frame in line]
    widths = [sum(len(frame["tickets"][0]) + GAP for frame in line) - GAP for line in lines]
    heights = [max(len(frame["tickets"]) for frame in line) + 1.3 for line in lines]
    width = most if is_narrow() else max(widths)
    cell = min(0.52, (PHONE - 0.3 if is_narrow() else PAGE) / width)
    with drawing(cell * width + 0.3, cell * sum(heights) + 0.2) as figure:
        axes = figure.subplots()
        top = 0.0
        for line, height in zip(lines, heights, strict=True):
            left = 0.0
            for frame in line:
                _draw_frame(axes, frame, key, left, top + 1)
                left += len(frame["tickets"][0]) + GAP
            top += height
        axes.set(xlim=(-0.1, width + 0.1), ylim=(sum(heights), 0), aspect="equal")
        axes.set_axis_off()
    alt = "; ".join(
        f"{frame['title']}: {len(frame['tickets'])} × {len(frame['tickets'][0])}, first row "
        + " ".join(_ticket(ticket, key, " ") or "blank" for ticket in frame["tickets"][0])
        for line in data["lines"]
        for frame in line
    )
    return Picture(figure, f"{data['query']} queries q and {key} distances d. {alt}.")


def _wrapped(frame: Data, most: int) -> Data:
    """Return a frame whose one line, if it has more than ``most`` cells, goes on in further lines."""
    (first, *more), count = frame["tickets"], -(-len(frame["tickets"][0]) // most)
    if more or count == 1:
        return frame
    each = -(-len(first) // count)
    cut = [first[begin : begin + each] for begin in range(0, len(first), each)]
    return {**frame, "tickets": cut, "title": f"{frame['title']} (wrapped)"}


def _draw_frame(axes: Axes, frame: Data, key: int, left: float, top: float) -> None:
    rows: Sequence[Sequence[int]] = frame["tickets"]
    hatched, dropped = frame.get("hatched"), frame.get("dropped", 0)
    for y, row in enumerate(rows):
        for x, ticket in enumerate(row):
            gone = y * len(rows[0]) + x < dropped
            future = bool(hatched is not None and hatched[y][x] and ticket >= 0)
            fill = DROPPED if gone else "white" if ticket < 1 else ROWS[(ticket - 1) // key % len(ROWS)]
            look: Any = {"ink": "#707070" if gone else "black", "edge": "#707070", "hatched": future}
            box(axes, left + x, top + y, _ticket(ticket, key, "\n"), fill, **look)
            if gone:
                axes.plot([left + x, left + x + 1], [top + y + 1, top + y], color="black", lw=0.8)
    axes.text(left, top - 0.15, frame["title"], fontsize=10, fontweight="bold", va="bottom")


def _ticket(ticket: int, key: int, between: str) -> str:
    """Return what a ticket stands for: query and distance."""
    if ticket < 1:
        return "0" if ticket == 0 else ""
    query, column = divmod(ticket - 1, key)
    return f"q{query}{between}d{key - 1 - column}"


def products(data: Data) -> Picture:
    """Draw how many vectors W_kR projects, against the number of keys, for each way to do it."""
    keys = data["keys"]
    with drawing(6, 3.2) as figure:
        axes = figure.subplots()
        for way, (label, colour, line) in WAYS.items():
            axes.plot(keys, data[way], line, color=colour, label=label, ms=5)
            axes.annotate(
                f"{data[way][-1]:,}", (keys[-1], data[way][-1]), (7, -3), textcoords="offset points"
            )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xticks(keys, [str(key) for key in keys])
        ticks = [2**power for power in range(3, max(data["pair"]).bit_length() + 1, 3)]
        axes.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.set(xlabel="keys, half of them memory", ylabel="vectors projected by W_kR")
        axes.margins(x=0.12)
        axes.legend(loc="upper left")
    alt = "; ".join(f"{label} {data[way][0]:,} … {data[way][-1]:,}" for way, (label, *_) in WAYS.items())
    return Picture(figure, f"Vectors projected by W_kR, with {keys[0]} … {keys[-1]} keys: {alt}.")
