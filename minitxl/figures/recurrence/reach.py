"""Dependency reach, and the distance over which copying is learned."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patches import Patch

from minitxl.figures.marks import cut_lines, hide_frame, in_per_cent, layer_ticks, name_offsets, seed_band
from minitxl.figures.picture import (
    Data,
    Picture,
    drawing,
    fitted,
    headline,
    is_narrow,
    legend_outside,
    panels,
)
from minitxl.figures.recurrence.mechanism import KINDS, capitalized, kind_of, reached_from
from minitxl.figures.systems import MEMORY, NO_EFFECT, SEGMENT, SYSTEMS

XL = SYSTEMS["xl_memory"]
GRADIENTS = {
    "stopped": ("gradient stopped, as in the paper", XL.colour, "o-"),
    "flowing": ("gradient flowing through memory", XL.shades(2)[1], "s--"),
}
MARKS: dict[str, dict[str, Any]] = {
    "own": {"marker": "s", "ms": 7, **SEGMENT.look()},
    "memory": {"marker": "o", "ms": 7, **MEMORY.look()},
    "older": {"marker": "D", "ms": 6, **MEMORY.look()},
    "unused": {"marker": "o", "ms": 7, **NO_EFFECT.look()},
}
"""A state as the animated picture draws it."""
LINES = {"own": "-", "memory": "-", "older": "--", "unused": ""}
"""Dashes of the lines that lead from a state to what depends on it."""
OUT_OF_REACH: dict[str, Any] = {"fc": "none", "ec": "#C0C0C0", "hatch": "////", "lw": 0, "zorder": 0}
"""Look of offsets from which one layer does not reach the token; the range of the seeds is grey."""


def dependency(data: Data) -> Picture:
    """Draw the paper's figures 1 and 2: what the last query depends on, without memory and with it."""
    graphs = data["graphs"]
    with drawing(8, 2.8 * len(graphs)) as figure:
        rows = figure.subplots(len(graphs), 1, squeeze=False)[:, 0]
        for axes, (name, graph) in zip(rows, graphs.items(), strict=True):
            _draw_graph(axes, name, graph)
        for kind, (place, label) in KINDS.items():
            rows[0].plot([], [], LINES[kind], color=place.edge, lw=1, label=label, **MARKS[kind])
        rows[0].axvline(-9, color="black", lw=1, ls=":", label="cut")
        rows[0].set_xlim(-0.7, next(iter(graphs.values()))["time"] - 0.3)
        legend_outside(figure, *rows[0].get_legend_handles_labels(), ncols=5)
    alt = "; ".join(
        f"{name}, {graph['n_layer']} layers, segments of {graph['seg_len']}, memory {graph['mem_len']}: "
        f"the last token depends on {graph['reach']} tokens before it"
        for name, graph in graphs.items()
    )
    return Picture(figure, f"States and what they read, layer by layer. {alt}.")


def _draw_graph(axes: Axes, name: str, graph: Data) -> None:
    """Draw times across, layers up; states that the last query depends on stand out."""
    depth = range(graph["n_layer"])
    last = graph["time"] - 1
    reached = reached_from(graph, last)
    every = [[(key, layer), (query, layer + 1)] for layer in depth for query, key in graph["sees"]]
    axes.add_collection(LineCollection(every, colors="#D0D0D0", linewidths=0.5, zorder=1))
    for kind, (place, _) in KINDS.items():
        used = [
            [(key, layer), (query, layer + 1)]
            for layer in depth
            for query, key in graph["edges"][layer]
            if kind_of(graph, reached, layer, key, last) == kind
        ]
        look: dict[str, Any] = {"colors": place.edge, "linestyles": LINES[kind]}
        axes.add_collection(LineCollection(used, linewidths=1.0, zorder=2, **look))
    for layer in range(graph["n_layer"] + 1):
        for time in range(graph["time"]):
            axes.plot(time, layer, **MARKS[kind_of(graph, reached, layer, time, last)], zorder=3)
    cut_lines(axes, graph["seg_len"], graph["time"], zorder=0)
    axes.set_xticks(
        range(last, -1, -graph["seg_len"]), [str(last - t) for t in range(last, -1, -graph["seg_len"])]
    )
    layer_ticks(axes, graph["n_layer"])
    axes.set(
        title=fitted(
            f"{capitalized(name)}: the last depends on {graph['reach'] + 1} tokens, "
            f"itself and {graph['reach']} before"
        ),
        xlabel="tokens back from the last",
    )
    hide_frame(axes)


def copying(data: Data) -> Picture:
    """Draw accuracy by offset, a panel a distance; hatched where one layer does not reach the token."""
    rows = data["rows"]
    with drawing(max(2.5 * len(rows), 6.1), 3.2) as figure:  # the legend needs 6.1 inches
        shown = panels(figure, len(rows), height=2.2, sharey=True)
        for axes, row in zip(shown, rows, strict=True):
            offsets = range(data["seg_len"])
            for name, (label, colour, line) in GRADIENTS.items():
                style = {"color": colour, "label": label, "lw": 1.5}
                seed_band(axes, offsets, row[name]["by_offset"], line, alpha=0.25, **style)
            far = sum(hops > 1 for hops in row["hops"])
            if far:
                axes.axvspan(-0.5, far - 0.5, **OUT_OF_REACH)
            axes.axhline(data["chance"], color="black", lw=1, ls=":")
            axes.set(title=f"copy the token {row['distance']} back", ylim=(0, 1.05))
            in_per_cent(axes.yaxis)
            name_offsets(axes, "tokens")
            if is_narrow() and axes is not shown[-1]:
                axes.set_xlabel("")
        for axes in shown if is_narrow() else shown[:1]:
            axes.set_ylabel("right copies, %")
        label = "two hops: two layers must pass it on"
        shown[0].axvspan(-9, -8, **OUT_OF_REACH, label=label)
        shown[0].axhline(-9, color="black", lw=1, ls=":", label="chance")
        shown[0].set_xlim(-0.9, data["seg_len"] - 0.1)
        legend_outside(figure, *shown[0].get_legend_handles_labels(), ncols=2 if len(rows) < 4 else 4)
        if (found := _what_is_copied(rows)) and len(rows) > 1:
            headline(figure, found)
    alt = []
    for row in rows:
        for name, (label, _, _) in GRADIENTS.items():
            by_hop = ", ".join(
                f"{100 * value['mean']:.0f} % through {key.removesuffix('_hop')} layer{'s' * (key[0] != '1')}"
                for key, value in row[name].items()
                if key.endswith("_hop")
            )
            alt.append(f"{row['distance']} back, {label}: {by_hop}")
    seeds = len(rows[0]["stopped"]["by_offset"][0]["seeds"])
    return Picture(
        figure,
        f"Right copies of a random token, mean of {seeds} seed{'s' * (seeds > 1)}, by how many layers must "
        f"pass it on, with memory {data['mem_len']} and {data['n_layer']} layers; chance is "
        f"{100 * data['chance']:.0f} %. "
        f"{'; '.join(alt)}. {_dips(rows)}".rstrip(),
    )


def _what_is_copied(rows: Sequence[Data]) -> str:
    """Return what the gradient through memory decides, if stopping it loses just what takes two layers."""
    stopped = [row["stopped"] for row in rows]
    if not all(row["1_hop"]["mean"] > 0.9 > 0.5 > row.get("2_hop", {"mean": 0})["mean"] for row in stopped):
        return ""
    far = [row for row in rows if "2_hop" in row["flowing"]]
    if not far:
        return "With the gradient stopped, a model copies only what one layer reaches"
    if all(row["flowing"]["2_hop"]["mean"] <= 0.5 for row in far):
        return "A token two hops away is seldom copied, even if the gradient flows through memory"
    right = [
        _range([100 * row[gradient]["2_hop"]["mean"] for row in far]) for gradient in ("stopped", "flowing")
    ]
    return (
        f"A token two hops away: {right[1]} % of the copies are right\n"
        f"if the gradient flows through memory, {right[0]} % if it stops there"
    )


def _range(values: Sequence[float]) -> str:
    """Return the least and the largest of them, or the one number that both round to."""
    return " to ".join(dict.fromkeys(f"{one:.0f}" for one in (min(values), max(values))))


def _dips(rows: Sequence[Data]) -> str:
    """Return where copies fail although the gradient flows through memory, with the share of right ones."""
    said = []
    for row in rows:
        right = [one["mean"] for one in row["flowing"]["by_offset"]]
        low = [f"{offset} ({100 * one:.0f} %)" for offset, one in enumerate(right) if one < 0.9]
        if low:
            said.append(f"{row['distance']} back at offset{'s' * (len(low) > 1)} {', '.join(low)}")
    return f"With the gradient flowing fewer than 90 % are right {'; '.join(said)}." if said else ""


SHARP = 0.5
"""Least weight on one distance of a head whose look counts."""
LOOKS = (("how far layer 2 looks back", "#808080"), ("how far layer 1 looks back from there", "#E4E4E4"))
"""Name and grey of both parts of a route."""


def relay_routes(data: Data, *, seed: int = 0) -> Picture:
    """Draw how far both looks of a route lead together, at each offset that needs two hops, of one seed.

    Only heads with at least half of their weight on one distance count; of all pairs, the one whose looks
    add up most nearly to the distance is drawn. Above it stands the accuracy.
    """
    rows = data["rows"]
    far = [sum(hops > 1 for hops in row["hops"]) for row in rows]
    with drawing(4.8 * len(rows), 4) as figure:
        shown = panels(figure, len(rows), ratios=far, height=3.4, sharey=True)
        for axes, row, offsets in zip(shown, rows, far, strict=True):
            measured, distance = row["seeds"][seed], row["distance"]
            line = axes.axhline(distance, color="black", lw=1.5)
            routes = [_route(measured, distance, offset) for offset in range(offsets)]
            for offset, (near, more) in enumerate(routes):
                for bottom, height, (_, grey) in zip((0, near), (near, more), LOOKS, strict=True):
                    axes.bar(offset, height, 0.8, bottom=bottom, color=grey, edgecolor="#404040", lw=0.8)
                right = measured["accuracy"][offset]
                axes.annotate(f"{100 * right:.0f}", (offset, distance + 2), ha="center")
            middle = offsets / 2 - 0.5
            words = "copies that are right, %"
            axes.annotate(words, (middle, distance + 5), ha="center")
            axes.set(
                title=f"copy the token {distance} back (seed {seed})",
                xlabel="offset of the query in its segment, tokens",
                ylim=(0, max(one["distance"] for one in rows) + 8),
                xlim=(-0.6, offsets - 0.4),
            )
            axes.set_xticks(range(offsets))
        for axes in shown if is_narrow() else shown[:1]:
            axes.set_ylabel("tokens back from the query")
        looks = [Patch(facecolor=grey, edgecolor="#404040", lw=0.8, label=name) for name, grey in LOOKS]
        legend_outside(figure, [line, *looks], ["the token to copy", *(name for name, _ in LOOKS)], ncols=3)
        if all(_adds_up(row, measured) for row in rows for measured in row["seeds"]):
            headline(
                figure,
                "A copy is right only where both layers together look back as far as the token",
            )
    return Picture(figure, " ".join(_route_in_words(row, seed) for row in rows))


def _sharp(measured: Data, layer: int, offset: int) -> list[int]:
    """Return how far back those heads of a layer look that have at least half of their weight there."""
    heads = zip(measured["distance"][layer], measured["weight"][layer], strict=True)
    return [looks[offset] for looks, weights in heads if weights[offset] >= SHARP]


def _route(measured: Data, distance: int, offset: int) -> tuple[int, int]:
    """Return the looks of layers 2 and 1 that add up most nearly to the distance; 0 where none is sharp."""
    seg_len = len(measured["accuracy"])
    pairs = [
        (near, more)
        for near in _sharp(measured, 1, offset)
        for more in _sharp(measured, 0, (offset - near) % seg_len) or [0]
    ]
    return min(pairs, key=lambda pair: abs(sum(pair) - distance), default=(0, 0))


def _adds_up(row: Data, measured: Data) -> bool:
    """True if the copy over two hops succeeds at just those offsets from which two sharp looks lead there."""
    return all(
        (sum(_route(measured, row["distance"], offset)) == row["distance"]) == (accuracy > 0.5)
        for offset, (hops, accuracy) in enumerate(zip(row["hops"], measured["accuracy"], strict=True))
        if hops > 1
    )


def _route_in_words(row: Data, seed: int) -> str:
    """Return how far back the last layer's sharpest head looks, and how often the model is right there."""
    measured, spans = row["seeds"][seed], list[list[Any]]()
    for offset, accuracy in enumerate(measured["accuracy"]):
        weights, distances = ([head[offset] for head in measured[name][1]] for name in ("weight", "distance"))
        distance = distances[weights.index(max(weights))]
        if not spans or spans[-1][2] != distance:
            spans.append([offset, offset, distance, []])
        spans[-1][1] = offset
        spans[-1][3].append(accuracy)
    words = ", ".join(
        f"{distance} back at offset{'s' * (low < high)} {low}{f' to {high}' * (low < high)} "
        f"({100 * sum(right) / len(right):.0f} % right)"
        for low, high, distance, right in spans
    )
    return f"Copying {row['distance']} back, seed {seed}: the sharpest head of layer 2 looks {words}."
