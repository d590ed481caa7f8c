"""Shaw's vector of each pair, and the few products that the pairs of one query need."""

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes

from minitxl.figures.marks import box, hide_frame
from minitxl.figures.picture import Data, Picture, drawing
from minitxl.figures.systems import MEMORY, SEGMENT


def which_vector(data: Data) -> Picture:
    """Draw the table of 2k+1 vectors, and ``rows`` [query key], the number of each pair's vector.

    Pairs that are not in ``seen`` [query key] are of the future, and hatched.
    """
    k, rows, seen, mem_len = data["max_distance"], data["rows"], data["seen"], data["mem_len"]
    words = [f"{k} back and more", *(f"{back} back" for back in range(k - 1, 0, -1)), "itself"]
    words += [*(f"{ahead} ahead" for ahead in range(1, k)), f"{k} ahead and more"]
    used = {
        row for line, see in zip(rows, seen, strict=True) for row, is_ in zip(line, see, strict=True) if is_
    }
    with drawing(7, 3.2) as figure:
        table, pairs = figure.subplots(1, 2, width_ratios=[1, 2.6])
        for row, meaning in enumerate(words):
            _box(table, 0, row, row, k, hatched=row not in used)
            table.text(1.15, row + 0.5, meaning, va="center")
        table.set(xlim=(0, 4.6), ylim=(2 * k + 1, 0), title=f"The table, k = {k}")
        table.set_axis_off()
        for y, (line, see) in enumerate(zip(rows, seen, strict=True)):
            for x, (row, is_seen) in enumerate(zip(line, see, strict=True)):
                _box(pairs, x, y, row, k, hatched=not is_seen)
        pairs.axvline(mem_len, color="black", lw=2.5)
        places = range(len(rows[0]))
        pairs.set_xticks([place + 0.5 for place in places], [str(place) for place in places])
        pairs.set_yticks([y + 0.5 for y in range(len(rows))], [str(mem_len + y) for y in range(len(rows))])
        for label, place in zip(pairs.get_xticklabels(), places, strict=True):
            label.set_color((MEMORY if place < mem_len else SEGMENT).edge)
        pairs.tick_params(axis="y", labelcolor=SEGMENT.edge)
        hide_frame(pairs)
        pairs.set(
            title="The row of each pair; hatched: the future",
            xlabel="place j of the key: memory | segment",
            ylabel="place i of the query",
            xlim=(0, len(places)),
            ylim=(len(rows), 0),
        )
    count = sum(row == 0 for line in rows for row in line)
    return Picture(
        figure,
        f"Rows of the table for {len(rows)} queries and {len(places)} keys, {mem_len} of them memory, "
        f"k = {k}. {len(used)} of {2 * k + 1} rows are used; row 0, {words[0]}, by {count} pairs. "
        f"The last query reads {' '.join(str(row) for row in rows[-1])}.",
    )


def _box(axes: Axes, x: int, y: int, row: int, k: int, *, hatched: bool) -> None:
    """Draw a cell with the number of its row."""
    fill, ink = ("white", "#707070") if hatched else _colours(row, k)
    box(axes, x, y, str(row), fill, ink=ink, hatched=hatched, fontsize=10)


def _colours(row: int, k: int) -> tuple[Any, str]:
    """Return the colour of a row of the past, bright for far, and that of the text on it."""
    back = (k - row) / max(k, 1)
    return mpl.colormaps["cividis"](back), "white" if back < 0.6 else "black"


def by_row(data: Data) -> Picture:
    """Draw one query's way from a product for each row to its weights, clockwise.

    ``met`` and ``added`` are [row], rows of the past alone; ``looked_up`` and ``weights`` are [key],
    and ``rows`` holds the row of each key.
    """
    rows, k = data["rows"], data["max_distance"]
    by_row, by_key = list(range(k + 1)), list(rows)
    with drawing(7, 4.8) as figure:
        grid = figure.subplots(2, 2, width_ratios=[k + 2, len(rows)], sharex="col", sharey="row")
        _bars(grid[0, 0], data["met"], by_row, k, f"1. q meets {k + 1} rows\nof a_K")
        _bars(grid[0, 1], data["looked_up"], by_key, k, f"2. each of {len(rows)} keys looks\nits number up")
        _bars(grid[1, 1], data["weights"], by_key, k, "3. scores, softmax:\na weight for each key")
        _bars(grid[1, 0], data["added"], by_row, k, "4. added up by row,\nfor a_V")
        grid[0, 0].set(ylabel="product with q")
        grid[1, 0].set(ylabel="weight", xlabel="row")
        grid[1, 1].set(xlabel="row of the key, from the farthest to the query itself")
    return Picture(
        figure,
        f"One query and {len(rows)} keys, k = {k}. Products with rows 0 to {k}: {_alt(data['met'])}; "
        f"looked up by the keys: {_alt(data['looked_up'])}; their weights: {_alt(data['weights'])}; "
        f"added up by row: {_alt(data['added'])}.",
    )


def _bars(axes: Axes, heights: Sequence[float], rows: Sequence[int], k: int, title: str) -> None:
    axes.bar(range(len(rows)), heights, color=[_colours(row, k)[0] for row in rows], edgecolor="#707070")
    axes.axhline(0, color="black", lw=0.8)
    axes.set_xticks(range(len(rows)), [str(row) for row in rows])
    axes.tick_params(axis="x", length=0, labelbottom=True)
    axes.set_title(title)


def _alt(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)
