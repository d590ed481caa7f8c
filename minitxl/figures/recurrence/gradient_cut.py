"""The end of the gradient at memory: the graph with its cut, what still learns, and what the cut saves."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from minitxl.figures.marks import hide_frame, layer_ticks
from minitxl.figures.picture import Data, Picture, drawing, legend_outside
from minitxl.figures.recurrence.reach import GRADIENTS
from minitxl.figures.systems import MEMORY, NO_EFFECT, SEGMENT

EDGES: dict[str, tuple[str, str, float]] = {
    "own segment: weights and states learn": (SEGMENT.edge, "-", 1.2),
    "memory: the weights learn, the states behind do not": (MEMORY.edge, "-", 1.0),
    "earlier steps: nothing learns now": ("#808080", ":", 0.9),
}
"""Colour, dashes and width of each kind of edge."""


def cut_edges(graph: Data, norms: Data) -> Picture:
    """Draw all that the last query depends on, and where the gradient ends; below, what gets a gradient."""
    with drawing(7, 6.4) as figure:
        states, weights = figure.subplots(2, 1)
        _draw_states(states, graph)
        _draw_norms(weights, norms)
        handles, labels = states.get_legend_handles_labels()
        legend_outside(figure, handles, labels, place="upper center", ncols=2, handletextpad=0.4)
    words = "; ".join(
        f"{name}: {value['segment']:.3g} through the segment, {value['memory']:.3g} through memory"
        for name, value in norms.items()
    )
    return Picture(
        figure,
        f"States and what they read: {graph['n_layer']} layers, segments of {graph['seg_len']}, memory "
        f"{graph['mem_len']}. No gradient passes from the last segment to the states of memory. "
        f"Norm of the gradient of the loss: {words}.",
    )


def _draw_states(axes: Axes, graph: Data) -> None:
    """Three kinds of edges into the last query: in its segment, from memory, and behind memory."""
    begin = graph["time"] - graph["seg_len"]
    lines: dict[str, list[Any]] = {kind: [] for kind in EDGES}
    for layer, edges in enumerate(graph["edges"]):
        for query, key in edges:
            kind = list(EDGES)[2 if query < begin else int(key < begin)]
            lines[kind].append([(key, layer), (query, layer + 1)])
    for place, (kind, (colour, dashes, width)) in enumerate(EDGES.items()):
        axes.add_collection(
            LineCollection(lines[kind], colors=colour, linestyles=dashes, linewidths=width, zorder=3 - place)
        )
        axes.plot([], [], dashes, color=colour, label=kind, lw=2)
    for layer, row in enumerate(graph["reached"]):
        for time, reached in enumerate(row):
            own = time >= begin
            side = SEGMENT if own else MEMORY
            look = side.look() if reached else NO_EFFECT.look()
            axes.plot(time, layer, "s" if own else "o", ms=7, zorder=4, **look)
    top = graph["n_layer"]
    for cut in range(graph["seg_len"], graph["time"], graph["seg_len"]):
        axes.axvline(cut - 0.5, color="black", lw=2 if cut == begin else 1, ls="-" if cut == begin else ":")
    axes.annotate("SG: the gradient ends here", (begin - 0.7, top + 0.28), ha="right")
    axes.set_xticks(range(graph["time"]))
    layer_ticks(axes, top)
    axes.set(
        title="All that the last query depends on", xlabel="token of the stream", ylim=(-0.25, top + 0.5)
    )
    hide_frame(axes)


def _draw_norms(axes: Axes, norms: Data) -> None:
    """Draw two marks for each name on a logarithmic scale; a gradient of 0 is a word."""
    smallest = min(norm for value in norms.values() for norm in value.values() if norm)
    for place, value in enumerate(norms.values()):
        for shift, (source, look, mark) in zip(
            (-0.12, 0.12), (("segment", SEGMENT, "s"), ("memory", MEMORY, "o")), strict=True
        ):
            if value[source]:
                axes.plot(place + shift, value[source], mark, ms=9, label=source, **look.look())
            else:
                axes.annotate("0: cut", (place + shift, smallest / 3), ha="center", color=look.edge)
    axes.set_xticks(range(len(norms)), list(norms))
    axes.set(
        title="Norm of the gradient, by the way it comes",
        yscale="log",
        ylim=(smallest / 5, None),
        xlim=(-0.5, len(norms) - 0.5),
    )
    axes.margins(y=0.3)
    handles, labels = axes.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    axes.legend(unique.values(), unique, title="through", loc="upper left")


def growth(data: Data) -> Picture:
    """Draw what a training step holds and how long its backward pass takes, by the number of segments read.

    ``megabytes`` and ``milliseconds`` have a list for each of ``ways``, one value a segment.
    """
    with drawing(7, 3.2) as figure:
        panels = figure.subplots(1, 2)
        for axes, (quantity, title) in zip(
            panels,
            {"megabytes": "held for the backward pass, MB", "milliseconds": "backward pass, ms"}.items(),
            strict=True,
        ):
            for way, (_, colour, line) in GRADIENTS.items():
                values = data[quantity][way]
                axes.plot(range(1, len(values) + 1), values, line, color=colour, label=data["ways"][way])
            axes.set(title=title, xlabel="segment of the stream", ylim=(0, None))
        legend_outside(figure, *panels[0].get_legend_handles_labels(), ncols=2, title="gradient at memory")
    words = "; ".join(
        f"{name}: {data['megabytes'][way][0]:.2f} to {data['megabytes'][way][-1]:.2f} MB, "
        f"{data['milliseconds'][way][0]:.1f} to {data['milliseconds'][way][-1]:.1f} ms"
        for way, name in data["ways"].items()
    )
    return Picture(
        figure,
        f"A training step in each of {len(data['megabytes']['stopped'])} segments of a stream. {words}.",
    )
