"""Recurrence: what memory holds at each step, and where the gradient ends."""

from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from minitxl.figures.picture import BLUE, ORANGE, STYLE, Data, Picture

CELLS = {"memory": "in memory", "now": "read now", "past": "forgotten", "ahead": "not read yet, or not seen"}


def cut_edges(graph: Data, lengths: Data) -> Picture:
    """Left: all that the last query rests on, and where the gradient ends. Right: what gets a gradient."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.5, 4.2), layout="constrained")
        states, weights = figure.subplots(1, 2, width_ratios=[1.9, 1])
        _draw_states(states, graph)
        _draw_lengths(weights, lengths)
        handles, labels = states.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, handletextpad=0.4, fontsize=9)
    found = "; ".join(
        f"{name}: {value['segment']:.3g} through the segment, {value['memory']:.3g} through memory"
        for name, value in lengths.items()
    )
    return Picture(
        figure,
        f"States and what they read: {graph['n_layer']} layers, segments of {graph['seg_len']}, memory "
        f"{graph['mem_len']}. All edges from memory into the last segment are cut for the gradient. "
        f"Length of the gradient of the loss: {found}.",
    )


def _draw_states(axes: Axes, graph: Data) -> None:
    """Three kinds of edges into the last query: with gradient, cut, and behind the cut."""
    begin = graph["time"] - graph["seg_len"]
    kinds: dict[str, tuple[str, str, float]] = {
        "read, and learned through": (BLUE, "-", 1.2),
        "read from memory: cut for the gradient": (ORANGE, "--", 1.0),
        "computed earlier, behind the cut": ("#808080", ":", 0.9),
    }
    lines: dict[str, list[Any]] = {kind: [] for kind in kinds}
    for layer, edges in enumerate(graph["edges"]):
        for query, key in edges:
            kind = list(kinds)[2 if query < begin else int(key < begin)]
            lines[kind].append([(key, layer), (query, layer + 1)])
    for place, (kind, (colour, dashes, width)) in enumerate(kinds.items()):
        axes.add_collection(
            LineCollection(lines[kind], colors=colour, linestyles=dashes, linewidths=width, zorder=3 - place)
        )
        axes.plot([], [], dashes, color=colour, label=kind, lw=2)
    for layer, row in enumerate(graph["reached"]):
        for time, seen in enumerate(row):
            own = time >= begin
            colour = (BLUE if own else ORANGE) if seen else "#A0A0A0"
            fill = colour if seen else "white"
            axes.plot(time, layer, "s" if own else "o", ms=7, color=fill, markeredgecolor=colour, zorder=4)
    top = graph["n_layer"]
    for cut in range(graph["seg_len"], graph["time"], graph["seg_len"]):
        axes.axvline(cut - 0.5, color="black", lw=2 if cut == begin else 1, ls="-" if cut == begin else ":")
    axes.annotate("SG: the gradient ends here", (begin - 0.7, top + 0.28), ha="right", fontsize=9)
    axes.set_xticks(range(graph["time"]))
    axes.set_yticks(range(top + 1), ["input", *(f"layer {n + 1}" for n in range(top))])
    axes.set(title="What the last query rests on", xlabel="token of the stream", ylim=(-0.25, top + 0.5))
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)


def _draw_lengths(axes: Axes, lengths: Data) -> None:
    """A pair of bars for each, relative to the part that comes through the segment."""
    for place, value in enumerate(lengths.values()):
        shown = {"segment": 1.0, "memory": value["memory"] / value["segment"]}
        for shift, (source, colour, hatch) in zip(
            (-0.2, 0.2), (("segment", BLUE, ""), ("memory", ORANGE, "//")), strict=True
        ):
            axes.bar(
                place + shift, shown[source], 0.38, color=colour, hatch=hatch, edgecolor="white",
                label=None if place else source,
            )  # fmt: skip
            number = "0" if not shown[source] else f"{shown[source]:.2f}"
            axes.annotate(
                number, (place + shift, shown[source]), (0, 3), textcoords="offset points", ha="center"
            )
    axes.set_xticks(range(len(lengths)), list(lengths))
    axes.set(title="Length of the gradient", ylabel="relative to that through the segment")
    axes.margins(y=0.35)
    axes.legend(title="through", loc="upper right", ncols=2)


def memory_step(data: Data) -> Picture:
    """Above: which states are kept at this step, a row a layer. Below: which query sees which."""
    step, time, seg_len, n_layer = data["step"], data["time"], data["seg_len"], data["n_layer"]
    now, kept = data["queries"], data["memory"]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 4.0), layout="constrained")
        states, seen = figure.subplots(2, 1, sharex=True, height_ratios=[n_layer, seg_len + 0.5])
        for token in range(time):
            if token in kept:
                kind = "memory"
            elif token in now:
                kind = "now"
            else:
                kind = "past" if token < now[0] else "ahead"
            for layer in range(n_layer):
                _cell(states, token, layer, kind)
        for row, sees in enumerate(data["sees"]):
            for key in [*kept, *now]:
                kind = "ahead" if key not in sees else "memory" if key in kept else "now"
                _cell(seen, key, row, kind)
        states.set_title(f"Step {step}: memory holds {_span(kept)}; the model reads {_span(now)}")
        states.set_yticks(range(n_layer), [f"into layer {n + 1}" for n in range(n_layer)])
        seen.set_title("What each query sees: memory (hatched), and its own segment up to itself")
        seen.set_yticks(range(len(now)), [f"query {query}" for query in now])
        seen.set(xlabel="token of the stream", ylim=(len(now) - 0.4, -0.6))
        states.set(xlim=(-0.6, time - 0.4), ylim=(-0.6, n_layer - 0.4))
        seen.set_xticks(range(time))
        for axes in (states, seen):
            axes.spines[:].set_visible(False)
            axes.tick_params(length=0)
        patches = [_patch(0, 0, kind, label=label) for kind, label in CELLS.items()]
        figure.legend(handles=patches, loc="outside lower center", ncols=len(patches), fontsize=9)
    rows = "; ".join(
        f"query {query} sees {_span(sees)}" for query, sees in zip(now, data["sees"], strict=True)
    )
    return Picture(
        figure,
        f"Step {step}, segments of {seg_len}, memory {data['mem_len']}: memory holds {_span(kept)}, "
        f"a state for each of {n_layer} layers; {rows}.",
    )


def _cell(axes: Axes, x: int, y: int, kind: str) -> None:
    axes.add_patch(_patch(x, y, kind))


def _patch(x: int, y: int, kind: str, label: str = "") -> Rectangle:
    fill, edge, hatch = {
        "memory": (ORANGE, "white", "////"),
        "now": (BLUE, "white", ""),
        "past": ("#CCCCCC", "white", ""),
        "ahead": ("white", "#CCCCCC", ""),
    }[kind]
    side = 0.88
    return Rectangle(
        (x - side / 2, y - side / 2),
        side,
        side,
        facecolor=fill,
        edgecolor=edge,
        hatch=hatch,
        label=label,
    )


def _span(tokens: list[int]) -> str:
    return (
        f"tokens {tokens[0]} to {tokens[-1]}"
        if len(tokens) > 1
        else f"token {tokens[0]}"
        if tokens
        else "nothing"
    )
