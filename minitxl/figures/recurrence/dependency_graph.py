"""Plots of dependency reach: the cone of states, the map of reach, the gradient's end."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import matplotlib as mpl
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator

from minitxl.figures.marks import cut_lines, hide_frame, label_ends, layer_ticks, write_numbers
from minitxl.figures.picture import Data, Picture, drawing, is_narrow, legend_outside
from minitxl.figures.recurrence.reach import GRADIENTS
from minitxl.figures.systems import MEMORY, NO_EFFECT, SEGMENT, named

GUESSES = {"N·(M + L)": ("#505050", ":"), "N·M": ("#909090", "--")}
FEW = 8
"""Tokens of a stream so short that each gets its number on the axis of the cone."""
ROOM = {False: 420, True: 260}
"""Points that the tokens of a cone have together, so that their marks don't overlap; True is for a phone."""
LOOKS: list[tuple[str, Any, str]] = [
    ("black", "-", "P"),
    ("#7A7A7A", "--", "X"),
    ("#A8A8A8", "-.", "*"),
]
"""Colour, dashes and marker of models that are no systems of the package, in the order given."""


def cone(graph: Data) -> Picture:
    """Draw all states the query depends on, layer by layer, and the way to the farthest token."""
    last, begin = graph["time"] - 1, graph["time"] - 1 - graph["offset"]
    reached = {tuple(node) for node in graph["reached"]}
    depths = range(graph["n_layer"], -1, -1)
    oldest = [min(time for depth, time in reached if depth == layer) for layer in depths]
    way = [later - earlier for later, earlier in pairwise(oldest)]
    with drawing(7, 0.8 * graph["n_layer"] + (2.6 if is_narrow() else 2.1)) as figure:
        axes = figure.subplots()
        size = min(6, ROOM[is_narrow()] / graph["time"])
        for layer, edges in enumerate(graph["edges"]):
            own = [[(key, layer), (query, layer + 1)] for query, key in edges if key >= begin]
            past = [[(key, layer), (query, layer + 1)] for query, key in edges if key < begin]
            axes.add_collection(LineCollection(past, colors=MEMORY.edge, linewidths=0.6, zorder=1))
            axes.add_collection(LineCollection(own, colors=SEGMENT.edge, linewidths=1.0, zorder=2))
        nodes = [(time, layer) for layer in range(graph["n_layer"] + 1) for time in range(graph["time"])]
        kinds = {
            "no effect": ("o", NO_EFFECT.fill, NO_EFFECT.edge),
            "through memory: no gradient": ("o", MEMORY.fill, MEMORY.edge),
            "own segment: gradient": ("s", SEGMENT.fill, SEGMENT.edge),
        }
        for kind, (label, (mark, fill, edge)) in enumerate(kinds.items()):
            chosen = [(t, n) for t, n in nodes if kind == ((n, t) in reached) * (1 + (t >= begin))]
            if chosen:
                look: dict[str, Any] = {"ms": size, "color": fill, "markeredgecolor": edge, "zorder": 3}
                axes.plot(*zip(*chosen, strict=True), mark, **look, label=label)
        axes.plot(oldest, depths, "-", color="black", lw=1.8, label="the farthest way", zorder=2.5)
        for hop, start, layer in zip(way, oldest, depths, strict=False):
            if hop:
                axes.text(
                    start - hop / 2, layer - 0.5, f"{hop}", ha="center", va="center", fontweight="bold",
                    bbox={"facecolor": "white", "edgecolor": "black", "pad": 2}, zorder=5,
                )  # fmt: skip
        cut_lines(axes, graph["seg_len"], graph["time"], zorder=0)
        if graph["time"] <= FEW:
            axes.set_xticks(range(graph["time"]))
            axes.set_xlabel("token of the stream")
        else:
            _back_from(axes, last, [0, graph["reach"], graph["offset"]])
            axes.set_xlabel("tokens back from the query")
        layer_ticks(axes, graph["n_layer"])
        axes.set(title=f"reach {graph['reach']} tokens")
        axes.margins(x=0.02, y=0.1)
        hide_frame(axes)
        legend_outside(figure, ncols=4, handletextpad=0.4, columnspacing=1.2)
    window = f", window {graph['window']}" if graph["window"] else ""
    return Picture(
        figure,
        f"{graph['n_layer']} layer{'s' * (graph['n_layer'] > 1)}, segments of {graph['seg_len']}, memory "
        f"{graph['mem_len']}{window}: the query at offset {graph['offset']} depends on {len(reached)} "
        f"states, the farthest {graph['reach']} tokens before it. Its gradient goes "
        f"{graph['gradient_reach']} tokens back. The hops of the farthest way: {', '.join(map(str, way))}.",
    )


def _back_from(axes: mpl.axes.Axes, last: int, distances: Sequence[int]) -> None:
    """Set ticks at these distances from the last place, each if it doesn't collide with one before it."""
    shown: list[int] = []
    for distance in distances:
        if all(abs(distance - one) > 1 for one in shown):
            shown.append(distance)
    axes.set_xticks([last - distance for distance in shown], [str(distance) for distance in shown])


def reach_map(data: Data) -> Picture:
    """Draw reach by layers and M / L; below it one number of layers, and common guesses."""
    layers, ratios, curve = data["layers"], data["ratios"], data["curve"]
    with drawing(7, 7) as figure:
        grid, line = figure.subplots(2, 1)
        image = grid.imshow(data["reach"], cmap="cividis", aspect="auto", origin="lower")
        texts = [[f"{value:,}" for value in row] for row in data["reach"]]
        write_numbers(grid, data["reach"], texts, dark=0.55 * max(map(max, data["reach"])))
        grid.set_xticks(range(len(ratios)), [f"{ratio:g}" for ratio in ratios])
        grid.set_yticks(range(len(layers)), [str(n) for n in layers])
        hide_frame(grid)
        grid.set(xlabel="M / L", ylabel="layers N", title=f"Reach of the last query, L = {data['seg_len']}")
        figure.colorbar(image, ax=grid, label="tokens back")
        for name, (colour, dashes) in GUESSES.items():
            line.plot(curve["ratio"], curve["guesses"][name], dashes, color=colour, label=f"guess {name}")
        line.plot(curve["ratio"], curve["reach"], "-", color="black", label="exact")
        line.set(
            xlabel="M / L", ylabel="tokens back", title=f"N = {curve['n_layer']}: a step at each M = k·L"
        )
        line.legend()
    alt = "; ".join(
        f"{n} layers: {', '.join(f'{value:,}' for value in row)}"
        for n, row in zip(layers, data["reach"], strict=True)
    )
    ends = ", ".join(f"{name} {values[-1]:,}" for name, values in curve["guesses"].items())
    return Picture(
        figure,
        f"Reach in tokens of the last query of a segment of {data['seg_len']}, at M / L of "
        f"{', '.join(f'{ratio:g}' for ratio in ratios)}. {alt}. With {curve['n_layer']} layers and "
        f"M / L = {curve['ratio'][-1]:g} the exact reach is {curve['reach'][-1]:,}; guesses: {ends}.",
    )


def gradient_lengths(data: Data) -> Picture:
    """Draw the length of one prediction's gradient at each token before it, stopped and flowing."""
    with drawing(7, 3.2) as figure:
        axes = figure.subplots()
        for name in reversed(GRADIENTS):
            label, colour, line = GRADIENTS[name]
            back = [distance for distance, value in enumerate(data[name]) if value]
            style: dict[str, Any] = {"color": colour, "label": label, "lw": 1.2, "ms": 5, "clip_on": False}
            axes.plot(back, [data[name][distance] for distance in back], line, **style)
        axes.axvline(data["offset"] + 0.5, color="black", lw=1, ls=":")
        for words, place, side in (("own segment", 0.2, "right"), ("older tokens", 0.8, "left")):
            below: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "ha": side, "va": "bottom"}
            axes.annotate(words, (data["offset"] + place, 0.02), **below)
        axes.set(yscale="log", xlabel="tokens back from the query", ylabel="length of the gradient")
        axes.legend(title="gradient at memory")
    ends = {name: max(d for d, value in enumerate(data[name]) if value) for name in GRADIENTS}
    return Picture(
        figure,
        f"Length of the gradient of one prediction with respect to each token's embedding. Its segment "
        f"begins {data['offset']} tokens back. Stopped at memory, the gradient ends "
        f"{ends['stopped']} tokens back; flowing through memory, {ends['flowing']} tokens back.",
    )


def influence(data: Data) -> Picture:
    """Draw the change of a trained model's prediction when one token changes, by its distance."""
    with drawing(7, 3.2) as figure:
        axes = figure.subplots()
        edges = [0, data["offset"] + 0.5, data["one_hop"] + 0.5, data["reach"] + 0.5]
        names = ["own segment", "one hop", "only by relay"]
        fills = ["white", "#EEEEEE", "#DDDDDD"]
        for low, high, name, fill in zip(edges, edges[1:], names, fills, strict=False):
            axes.axvspan(low, high, color=fill, zorder=0, lw=0)
            axes.annotate(
                name, ((low + high) / 2, 0.98), xycoords=("data", "axes fraction"), ha="center", va="top"
            )
        for low, high, mark, place in zip(edges, edges[1:], "soo", (SEGMENT, MEMORY, MEMORY), strict=False):
            back = [d for d, value in enumerate(data["change"]) if value and low < d <= high]
            fill = "none" if low == edges[2] else place.fill
            axes.plot(back, [data["change"][d] for d in back], mark, mfc=fill, mec=place.edge, ms=4)
        axes.set(
            yscale="log", xlabel="tokens back from the query", ylabel="change of a log-probability, nats"
        )
        axes.margins(x=0.01, y=0.12)
    alt = ", ".join(f"{name} {mean:.2g}" for name, mean in zip(names, data["means"], strict=True))
    return Picture(
        figure,
        f"A token is replaced: by how many nats the prediction changes, queries averaged: {data['queries']}. "
        f"Mean over the tokens of each part, in nats: {alt}. The reach is {data['reach']} tokens.",
    )


def effective_lengths(data: Data) -> Picture:
    """Draw loss against context, a curve a model and a panel a group; each ends its walk at a large mark.

    ``panels[title][name]`` has ``lengths``, ``loss`` at each and ``recl``, the lengths where the walk stops,
    with ``at_least`` where its last step still gained; ``marks`` names these if they are not RECL, and
    ``tokens`` says what the tokens are. A model whose name is in ``systems`` looks as there, another as its
    place among those that are drawn says; ``colours`` are those of some by name.
    """
    marks, tokens = data.get("marks", "RECL"), data.get("tokens", "tokens")
    panels = data["panels"]
    names = dict.fromkeys(name for group in panels.values() for name in group)
    looks = dict(zip(names, LOOKS, strict=False))
    looks |= {name: (colour, *looks[name][1:]) for name, colour in data.get("colours", {}).items()}
    looks |= {name: (one.colour, one.line, one.marker) for name in names if (one := named(name))}
    with drawing(max(7.0, 3.2 * len(panels)), 3.4) as figure:
        plots = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
        for axes, (title, group) in zip(plots, panels.items(), strict=True):
            for name, one in group.items():
                colour, line, mark = looks[name]
                look: dict[str, Any] = {"marker": mark, "ms": 3, "ls": line, "color": colour, "lw": 1.3}
                axes.plot(one["lengths"], one["loss"], label=name, **look)
                stops = [one["loss"][one["lengths"].index(recl)] for recl in one["recl"]]
                axes.plot(one["recl"], stops, mark, ms=10, color=colour, mec="black", zorder=4)
                if all(len(set(other["recl"])) == 1 for other in group.values()):
                    place = one["lengths"].index(one["recl"][0])
                    rises = place > 0 and one["loss"][place - 1] < stops[0]  # then the curve comes from below
                    axes.annotate(
                        _stops(one), (one["recl"][0], stops[0]), (0, 9 if rises else -9),
                        textcoords="offset points", ha="center", va="bottom" if rises else "top",
                    )  # fmt: skip
            axes.margins(y=0.12)  # room for these numbers
            axes.set(title=f"{title}; large mark: {marks}", xlabel=f"context, {tokens}")
        plots[0].set_ylabel(data["unit"])
        plots[0].yaxis.set_major_locator(MaxNLocator(steps=[1, 2, 5, 10]))
        for axes in plots:
            label_ends(axes)
    alt = "; ".join(
        f"{title}: "
        + ", ".join(f"{name} {_stops(one)} ({one['loss'][-1]:.2f} in the end)" for name, one in group.items())
        for title, group in panels.items()
    )
    return Picture(figure, f"{data['unit'].capitalize()} against context, and {marks} in {tokens}. {alt}.")


def _stops(one: Data) -> str:
    """Return the lengths where a model's walks stop, each once, with ≥ where the last step still gained."""
    return " / ".join(f"{'≥ ' * one.get('at_least', False)}{length}" for length in dict.fromkeys(one["recl"]))
