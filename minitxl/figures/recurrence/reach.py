"""Dependency reach, and the distance over which copying is learned."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator

from minitxl.figures.marks import cut_lines, hide_frame, layer_ticks, seed_band
from minitxl.figures.picture import BLUE, GREEN, ORANGE, Data, Picture, drawing

GRADIENTS = {
    "stopped": ("stopped, as in the paper", BLUE, "o-"),
    "flowing": ("flowing through memory", GREEN, "s--"),
}


def dependency(data: Data) -> Picture:
    """Draw the paper's figures 1 and 2: what the last query depends on, without memory and with it."""
    graphs = data["graphs"]
    with drawing(8, 3.2 * len(graphs)) as figure:
        panels = figure.subplots(len(graphs), 1, squeeze=False)[:, 0]
        for axes, (name, graph) in zip(panels, graphs.items(), strict=True):
            _draw_graph(axes, name, graph)
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
    begin = last - last % graph["seg_len"]
    every = [[(key, layer), (query, layer + 1)] for layer in depth for query, key in graph["sees"]]
    axes.add_collection(LineCollection(every, colors="#D0D0D0", linewidths=0.5, zorder=1))
    for colour, own in ((ORANGE, False), (BLUE, True)):
        used = [
            [(key, layer), (query, layer + 1)]
            for layer in depth
            for query, key in graph["edges"][layer]
            if (key >= begin) == own
        ]
        axes.add_collection(LineCollection(used, colors=colour, linewidths=1.0, zorder=2))
    reached = {tuple(node) for node in graph["reached"]}
    for layer in range(graph["n_layer"] + 1):
        for time in range(graph["time"]):
            mark, colour = ("s", BLUE) if time >= begin else ("o", ORANGE)
            fill, edge = (colour, colour) if (layer, time) in reached else ("white", "#808080")
            axes.plot(time, layer, mark, ms=7, color=fill, markeredgecolor=edge, zorder=3)
    cut_lines(axes, graph["seg_len"], graph["time"], zorder=0)
    axes.set_xticks(
        range(last, -1, -graph["seg_len"]), [str(last - t) for t in range(last, -1, -graph["seg_len"])]
    )
    layer_ticks(axes, graph["n_layer"])
    axes.set(
        title=f"{name}: the last depends on {graph['reach']} tokens before it",
        xlabel="tokens back from the last",
    )
    hide_frame(axes)


def copying(data: Data) -> Picture:
    """Draw accuracy by offset, a panel a distance; shaded where one hop is not enough."""
    rows = data["rows"]
    with drawing(max(2.6 * len(rows), 5.6), 2.9) as figure:  # the legend needs 5.6 inches
        panels = figure.subplots(1, len(rows), sharey=True, squeeze=False)[0]
        for axes, row in zip(panels, rows, strict=True):
            offsets = range(data["seg_len"])
            for name, (label, colour, line) in GRADIENTS.items():
                style = {"color": colour, "label": label, "lw": 1.5}
                seed_band(axes, offsets, row[name]["by_offset"], line, alpha=0.25, **style)
            far = sum(hops > 1 for hops in row["hops"])
            axes.axvspan(-0.5, far - 0.5, color="#EEEEEE", zorder=0)
            axes.axhline(data["chance"], color="black", lw=1, ls=":")
            axes.set(title=f"{row['distance']} back", xlabel="offset in the segment", ylim=(0, 1.05))
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        panels[0].set_ylabel("accuracy")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, title="gradient at memory", loc="outside lower center", ncols=2)
    alt = []
    for row in rows:
        for name, (label, _, _) in GRADIENTS.items():
            by_hop = ", ".join(
                f"{value['mean']:.2f} in {key.removesuffix('_hop')} hop{'s' * (key[0] != '1')}"
                for key, value in row[name].items()
                if key.endswith("_hop")
            )
            alt.append(f"{row['distance']} back, gradient {label}: {by_hop}")
    seeds = len(rows[0]["stopped"]["by_offset"][0]["seeds"])
    return Picture(
        figure,
        f"Accuracy of copying a random token, mean of {seeds} seed{'s' * (seeds > 1)}, by how many hops it "
        f"takes with memory {data['mem_len']} and {data['n_layer']} layers; chance is {data['chance']:.2f}. "
        f"{'; '.join(alt)}.",
    )


def relay_routes(data: Data, *, seed: int = 0) -> Picture:
    """Draw for each distance the accuracy of one seed, and how far back its heads look in both layers.

    Only heads with at least half of their weight on one distance are drawn, larger with more weight.
    """
    rows, offsets = data["rows"], range(data["seg_len"])
    with drawing(4.6 * len(rows), 6.4) as figure:
        grid = figure.subplots(
            3, len(rows), sharex=True, sharey="row", height_ratios=[1, 2, 2], squeeze=False
        )
        for (accuracy, last, first), row in zip(grid.T, rows, strict=True):
            measured = row["seeds"][seed]
            accuracy.bar(offsets, measured["accuracy"], color="#505050")
            accuracy.axhline(data["chance"], color="black", lw=1, ls=":")
            accuracy.set(title=f"{row['distance']} back, seed {seed}")
            for axes, layer in ((last, 1), (first, 0)):
                for distances, weights in zip(
                    measured["distance"][layer], measured["weight"][layer], strict=True
                ):
                    for offset, distance, weight in zip(offsets, distances, weights, strict=True):
                        if weight >= 0.5:
                            mark, colour = ("s", BLUE) if distance <= offset else ("o", ORANGE)
                            axes.plot(offset, distance, mark, ms=9 * weight, mfc="none", mec=colour)
                farthest = [offset + data["mem_len"] for offset in offsets]
                axes.plot(offsets, farthest, color="black", lw=1, ls="--", label="oldest key in sight")
                axes.plot(offsets, offsets, color="#808080", lw=1, ls=":", label="its segment begins")
            far = sum(hops > 1 for hops in row["hops"])
            for axes in (accuracy, last):
                axes.axvspan(-0.5, far - 0.5, color="#EEEEEE", zorder=0)
            first.set(xlabel="offset in the segment")
        grid[0, 0].set(ylabel="accuracy")
        grid[1, 0].set(ylabel="layer 2 looks back, tokens")
        grid[2, 0].set(ylabel="layer 1 looks back, tokens")
        grid[1, 0].plot([], [], "o", mfc="none", mec=ORANGE, ms=8, label="head that looks into memory")
        grid[1, 0].plot([], [], "s", mfc="none", mec=BLUE, ms=8, label="into its own segment")
        handles, labels = grid[1, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return Picture(figure, " ".join(_route_in_words(row, seed) for row in rows))


def _route_in_words(row: Data, seed: int) -> str:
    """Return how far back the last layer's sharpest head looks, and how accurate the model is there."""
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
        f"(accuracy {sum(right) / len(right):.2f})"
        for low, high, distance, right in spans
    )
    return f"Copying {row['distance']} back, seed {seed}: the sharpest head of layer 2 looks {words}."
