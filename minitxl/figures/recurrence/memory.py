"""Recurrence: what is computed and what memory holds at each step."""

from collections import Counter
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from minitxl.figures.marks import cell, hide_frame, write_numbers
from minitxl.figures.picture import Data, Picture, drawing, fitted, is_narrow, legend_outside
from minitxl.figures.systems import FUTURE, MEMORY, NO_EFFECT, SEGMENT

CELLS = {"memory": "memory", "now": "own segment", "past": "forgotten", "ahead": "future"}
LOOKS = {
    "memory": MEMORY.cell(),
    "now": SEGMENT.cell(),
    "past": NO_EFFECT.cell(),
    "ahead": FUTURE,
    "again": SEGMENT.cell("...."),
    "hidden": NO_EFFECT.cell(),
}
"""Fill, edge and hatch of each kind of cell."""
PALE = 0.4
"""Opacity of a cell with a letter in it."""
READ = {
    "now": "computed",
    "again": "computed again",
    "memory": "memory: not computed",
    "hidden": "hidden from every query",
}


def memory_step(data: Data) -> Picture:
    """Draw above the states kept at this step, a row a layer; below the keys of each query."""
    step, time, seg_len, n_layer = data["step"], data["time"], data["seg_len"], data["n_layer"]
    now, stored = data["queries"], data["memory"]
    with drawing(7, 5.6 if is_narrow() else 4.2) as figure:
        states, seen = figure.subplots(2, 1, sharex=True, height_ratios=[n_layer, seg_len + 0.5])
        for token in range(time):
            if token in stored:
                kind = "memory"
            elif token in now:
                kind = "now"
            else:
                kind = "past" if token < now[0] else "ahead"
            for layer in range(n_layer):
                states.add_patch(_patch(token, layer, kind))
        for row, sees in enumerate(data["sees"]):
            for key in [*stored, *now]:
                kind = "ahead" if key not in sees else "memory" if key in stored else "now"
                seen.add_patch(_patch(key, row, kind))
        then = ";\n" if is_narrow() else "; "
        words = f"Step {step}: memory holds {_span(stored)}{then}the model reads {_span(now)}"
        states.set_title(fitted(words))
        states.set_yticks(range(n_layer), [f"into layer {n + 1}" for n in range(n_layer)])
        seen.set_title(fitted("What each query sees: memory, and its own segment up to itself"))
        seen.set_yticks(range(len(now)), [f"query {query}" for query in now])
        seen.set(xlabel="token of the stream", ylim=(len(now) - 0.4, -0.6))
        states.set(xlim=(-0.6, time - 0.4), ylim=(-0.6, n_layer - 0.4))
        seen.set_xticks(range(0, time, 2 if is_narrow() and time > 16 else 1))
        for axes in (states, seen):
            hide_frame(axes)
        patches = [_patch(0, 0, kind, label=label) for kind, label in CELLS.items()]
        legend_outside(figure, patches, list(CELLS.values()), ncols=len(patches))
    rows = "; ".join(
        f"query {query} sees {_span(sees)}" for query, sees in zip(now, data["sees"], strict=True)
    )
    return Picture(
        figure,
        f"Step {step}, segments of {seg_len}, memory {data['mem_len']}: memory holds {_span(stored)}, "
        f"a state for each of {n_layer} layers; {rows}.",
    )


def _patch(x: int, y: int, kind: str, label: str = "") -> Rectangle:
    return cell(x, y, LOOKS[kind], side=0.88, label=label)


def _span(tokens: list[int]) -> str:
    return (
        f"tokens {tokens[0]} to {tokens[-1]}"
        if len(tokens) > 1
        else f"token {tokens[0]}"
        if tokens
        else "nothing"
    )


def passes(data: Data) -> Picture:
    """Draw a row for each time the model runs: the tokens it computes, and those whose states it finds kept.

    ``panels[name]`` is a list of rows: a name, the columns that are now computed, and those of memory,
    hidden or framed, if any; ``letters``, one a column, are written into the cells. With ``counted``,
    rows follow in time: what an earlier one has computed is computed again, and each column is added up.
    """
    panels, alt, kinds = data["panels"], [], dict[str, None]()
    depths = [len(rows) + ("counted" in data) for rows in panels.values()]
    with drawing(7, 0.28 * sum(depths) + 1.1 * len(panels) + 0.4) as figure:
        each = figure.subplots(len(panels), 1, squeeze=False, height_ratios=depths)[:, 0]
        for axes, (name, rows), depth in zip(each, panels.items(), depths, strict=True):
            times, labels = Counter[int](), [row["name"] for row in rows]
            for y, row in enumerate(rows):
                of = {kind: row.get(kind, []) for kind in ("now", "memory", "hidden")}
                if "counted" in data:
                    of["again"] = [column for column in row["now"] if times[column]]
                    of["now"] = [column for column in row["now"] if not times[column]]
                times.update(row["now"])
                _row(axes, y, row, of)
                kinds |= dict.fromkeys(kind for kind, columns in of.items() if columns)
            if "counted" in data:
                for column in range(data["columns"]):
                    axes.text(column, len(rows), times[column], ha="center", va="center", weight="bold")
                labels.append(data["counted"])
            axes.set_yticks(range(len(labels)), labels)
            axes.set(title=name, xlabel=data.get("xlabel", "token of the stream"))
            axes.set(xlim=(-0.6, data["columns"] - 0.4), ylim=(depth - 0.4, -0.6))
            axes.spines["bottom"].set_position(("data", len(labels) - 0.4))  # numbers below the last row
            axes.set_xticks(range(0, data["columns"], 1 if data["columns"] <= 16 else 4))
            hide_frame(axes)
            counts = [f"{len(rows)} rows, {sum(times.values())} tokens computed"]
            counts += [f"each at most {max(times.values())}×"] if "counted" in data else []
            counts += [
                f"{sum(len(row.get(kind, [])) for row in rows)} {words}"
                for kind, words in (("memory", "from memory"), ("hidden", "hidden"), ("framed", "framed"))
                if any(row.get(kind) for row in rows)
            ]
            alt.append(f"{name}: {', '.join(counts)}")
        handles = [_patch(0, 0, kind, label=READ[kind]) for kind in READ if kind in kinds]
        for handle in handles:
            handle.set_alpha(PALE if "letters" in row else None)
        handles += [_frame(0, 0, label=data["framed"])] if "framed" in data else []
        legend_outside(figure, handles, [str(one.get_label()) for one in handles], ncols=len(handles))
    meaning = f" A frame: {data['framed']}." if "framed" in data else ""
    return Picture(figure, f"Which tokens are computed, row by row. {'; '.join(alt)}.{meaning}")


def _row(axes: Axes, y: int, row: Data, of: dict[str, list[int]]) -> None:
    """Draw the cells of one row, pale where a letter has to be read."""
    letters = row.get("letters", "").replace("\n", "↵")
    for kind, columns in of.items():
        for column in columns:
            axes.add_patch(_patch(column, y, kind)).set_alpha(PALE if letters else None)
    for column, letter in enumerate(letters):
        axes.text(column, y, letter, ha="center", va="center", family="monospace")
    for column in row.get("framed", []):
        axes.add_patch(_frame(column, y))


def _frame(x: int, y: int, label: str = "") -> Rectangle:
    return Rectangle((x - 0.42, y - 0.42), 0.84, 0.84, fill=False, edgecolor="black", lw=2, label=label)


def sides(data: Data) -> Picture:
    """Draw values [row column], and in each row a line before column ``cuts[row]``.

    None is a cell that has no value. ``sides`` names what is to the left of the line, and to the right. Where
    ``label`` ends with "%", values are per cent.
    """
    cells = np.array([[np.nan if one is None else one for one in row] for row in data["values"]])
    with drawing(min(7, 0.42 * cells.shape[1] + 2.4), 0.36 * len(cells) + 1.3) as figure:
        axes = figure.subplots()
        image = axes.imshow(cells, cmap="cividis", aspect="auto", vmin=0)
        written = _whole if (per_cent := data["label"].endswith("%")) else _short
        texts = [[written(value) for value in row] for row in cells]
        write_numbers(axes, cells.tolist(), texts, dark=0.55 * np.nanmax(cells))
        cuts = data["cuts"]
        steps = [one - 0.5 for one in (*cuts, cuts[-1])], np.arange(len(cells) + 1) - 0.5
        for colour, width in (("black", 4), ("white", 2)):  # a black rim, to be seen on bright cells
            axes.step(*steps, color=colour, lw=width)
        axes.set_yticks(range(len(cells)), data["rows"])
        axes.set_xticks(range(len(data["columns"])), data["columns"])
        axes.set(title=data["title"], xlabel=data["xlabel"])
        hide_frame(axes)
        figure.colorbar(image, ax=axes, label=data["label"])
    alt = list[str]()
    for name, row, cut in zip(data["rows"], cells, cuts, strict=True):
        before, after = (_range(part, per_cent) for part in (row[:cut], row[cut:]))
        alt.append(f"{name}: {before} {data['sides'][0]}, {after} {data['sides'][1]}")
    return Picture(figure, f"{data['title']}, {data['label']}. {'; '.join(alt)}.")


def _short(value: float) -> str:
    """Return two decimals without what a reader can do without; nothing where there is no value."""
    if np.isnan(value):
        return ""
    return "1" if value == 1 else f"{value:.2f}".lstrip("0") if value > 0.005 else "0"


def _whole(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.0f}"


def _range(values: Any, per_cent: bool) -> str:
    """Return the smallest and the largest of these that have a value."""
    known = values[~np.isnan(values)]
    ends = (
        dict.fromkeys(f"{one:.{0 if per_cent else 2}f}" for one in (known.min(), known.max()))
        if len(known)
        else ["none"]
    )
    return " to ".join(ends)
