"""Positions in the score: keys that absolute positions confuse, and curves by position."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from minitxl.figures.marks import hide_frame, in_per_cent, label_ends
from minitxl.figures.picture import BLUE, Data, Picture, drawing, fitted, is_narrow, legend_outside, panels
from minitxl.figures.systems import MEMORY, SEGMENT, named

HIDDEN = "#E4E4E4"


def indistinguishable(data: Data) -> Picture:
    """Draw weights of every query over memory and segment, a panel an encoding; one pair of keys is framed.

    ``data["panels"][name]`` is [query key] with None where a key is in the future; ``tokens``
    are those of the keys, and ``pair`` holds the keys that are compared at ``query``.
    """
    maps, tokens, mem_len = data["panels"], data["tokens"], data["mem_len"]
    query, pair, alt = data["query"], data["pair"], []
    largest = max(w for rows in maps.values() for row in rows for w in row if w is not None)
    with drawing(7, 2.8 * len(maps)) as figure:
        all_axes = figure.subplots(len(maps), 1, squeeze=False)[:, 0]
        for axes, (name, weights) in zip(all_axes, maps.items(), strict=True):
            image = query_key_map(axes, weights)
            image.set_clim(0, largest)
            axes.axvline(mem_len - 0.5, color="white", lw=3)
            for key, place in zip(pair, (MEMORY, SEGMENT), strict=True):
                for ink, width in (("white", 6), (place.edge, 3)):  # a white rim, to be seen on dark cells
                    corner = (key - 0.5, query - 0.5)
                    axes.add_patch(
                        Rectangle(corner, 1, 1, fill=False, ec=ink, lw=width, clip_on=False, zorder=3)
                    )
            first, second = (f"{weights[query][key]:.3f}" for key in pair)
            axes.set(title=f"{name}:\n{first} and {second}", xlabel="key: memory | segment")
            axes.set_xticks(range(len(tokens)), tokens)
            axes.set_yticks(range(len(weights)), tokens[mem_len:])
            alt.append(f"{name} {first} and {second}")
            axes.set_ylabel("query")
        figure.colorbar(image, ax=all_axes, shrink=0.7, label="attention weight")
    words = f"the key {tokens[pair[0]]!r} in memory and the same letter {pair[1] - pair[0]} later"
    return Picture(figure, f"Attention weights of query {query} for {words}: {'; '.join(alt)}.")


def query_key_map(axes: Axes, rows: Sequence[Sequence[float | int | None]]) -> Any:
    cells = np.array([[np.nan if value is None else value for value in row] for row in rows])
    axes.set_facecolor(HIDDEN)
    hide_frame(axes)
    return axes.imshow(cells, cmap="cividis", aspect="auto", interpolation="nearest")


def one_query(data: Data) -> Picture:
    """Draw the weight one query gives each key: ``weights``, of ``tokens``; ``pair`` is ringed."""
    tokens, weights, mem_len, pair = data["tokens"], data["weights"], data["mem_len"], data["pair"]
    first, second = (weights[key] for key in pair)
    apart = abs(first - second)
    verdict = "one weight for both" if apart < 1e-6 else f"{apart:.3f} apart"
    with drawing(9, 3.2) as figure:
        (axes,), between = panels(figure, 1, height=3.6), "\n" if is_narrow() else " "
        memory, segment = slice(0, mem_len), slice(mem_len, len(weights))
        for part, place, mark, label in ((memory, MEMORY, "o", "memory"), (segment, SEGMENT, "s", "segment")):
            places = range(len(weights))[part]
            axes.vlines(places, 0, weights[part], color=place.edge, lw=1)
            axes.plot(places, weights[part], mark, ms=6, label=label, clip_on=False, zorder=3, **place.look())
        axes.plot(pair, [first, second], "o", ms=15, mfc="none", mec="black", mew=1.5, clip_on=False)
        axes.axhline(first, color="black", lw=1, ls=":")
        axes.axvline(mem_len - 0.5, color="#808080", lw=0.8, ls="--")
        axes.set_xticks(
            range(len(tokens)), [f"{t}\n{slot}" for t, slot in zip(tokens, data["slots"], strict=True)]
        )
        axes.set(
            title=fitted(
                f"{data['label']}: {first:.3f} in memory,{between}{second:.3f} in the segment, {verdict}"
            ),
            xlabel="key, and its place in its own segment",
            ylabel=f"weight from the query at place {data['query']}",
            xlim=(-0.7, len(tokens) - 0.3),
            ylim=(0, 1.25 * max(weights)),
        )
        legend_outside(figure, ncols=2)
    letter = tokens[pair[0]]
    return Picture(
        figure,
        f"{data['label']}. {letter!r} gets the weight {first:.3f} in memory, {second:.3f} in the segment.",
    )


def by_place(data: Data) -> Picture:
    """Draw a line for each of ``curves`` over ``places``, named at its end, and ``levels`` across.

    ``before`` shades the places below it, under the name ``shaded``. A curve that begins with a system's name
    looks as the system; ``colours`` are those of some others by name, and the rest get theirs in turn. Where
    ``ylabel`` ends with "%", the values are shares, 0 to 1, and are written as per cent. Where all curves end
    alike, ``legend`` has the names in a corner. ``bottom`` is where the vertical axis begins, ``errors`` are
    half the heights of a curve's bars by its name, and ``title`` stands above.
    """
    places, alt = data["places"], []
    shares = data["ylabel"].endswith("%")
    half = (places[1] - places[0]) / 2 if len(places) > 1 else 0.5  # a mark at the end is not cut

    def written(value: float) -> str:
        return f"{100 * value:.3g} %" if shares else f"{value:.2f}"

    with drawing(7, 3.4) as figure:
        axes = figure.subplots()
        if shares:
            in_per_cent(axes.yaxis)
        if "before" in data:
            axes.axvspan(places[0] - 0.5, data["before"] - 0.5, color=HIDDEN, lw=0, label=data["shaded"])
        others = iter(((BLUE, "s:"), ("black", "D--"), ("#808080", "^-.")))
        variants = Counter[str]()
        for name, curve in data["curves"].items():
            system, colour = named(name), data.get("colours", {}).get(name)
            look: dict[str, Any] = {} if system is None else system.look()
            if system is not None:  # a second curve of one system is a variant of it
                variant, variants[system.name] = variants[system.name], variants[system.name] + 1
                look |= {"color": system.shades(2)[1], "ls": ":"} if variant else {}
            if system is None:
                colour, line = (colour, "D--") if colour else next(others)
                look = {"color": colour, "marker": line[0], "ls": line[1:]}
            (line_of,) = axes.plot(places, curve, **look, label=name, clip_on=False)
            if name in data.get("errors", {}):
                bars: dict[str, Any] = {"ecolor": line_of.get_color(), "capsize": 3, "clip_on": False}
                axes.errorbar(places, curve, yerr=data["errors"][name], fmt="none", **bars)
            ends = f"{written(curve[0])} at {places[0]}, {written(curve[-1])} at {places[-1]}"
            alt.append(f"{name} {ends}".lstrip())
        for name, level in data.get("levels", {}).items():
            axes.axhline(level, color="black", lw=1, ls=(0, (1, 3)), label=f"{name}, {written(level)}")
            alt.append(f"{name} {written(level)}")
        axes.set(xlabel=data["xlabel"], ylabel=data["ylabel"], xlim=(places[0] - half, places[-1] + half))
        axes.set_title(data.get("title", ""), loc="left")
        crowded = len(places) > 12 and places[-1] >= 100  # three digits take more room
        axes.set_xticks(
            places[1::2] if crowded and len(places) <= 16 else places if len(places) <= 16 else places[::4]
        )
        if "bottom" in data:
            bottom = data["bottom"]
            most = max(*map(max, data["curves"].values()), *data.get("levels", {}).values(), bottom)
            axes.set_ylim(bottom, most + 0.06 * (most - bottom))  # the margin is one of all that is shown
        if "legend" in data:
            axes.legend(loc=data["legend"])
        else:
            label_ends(axes)
        if "before" in data:
            axes.legend(axes.patches[:1], [data["shaded"]], loc="upper right")
    return Picture(figure, f"{data['ylabel']} by {data['xlabel']}: {'; '.join(alt)}.")
