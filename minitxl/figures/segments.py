"""Text in pieces: what each token has before it, what a cut costs, what memory holds and what learns."""

from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from minitxl.figures.picture import BITS, BLUE, GREEN, ORANGE, STYLE, Data, Picture

COPIERS = {
    "vanilla": ("absolute, no memory", BLUE, "s--"),
    "xl": ("relative (XL), no memory", GREEN, "^:"),
    "xl_memory": ("relative (XL) + memory", ORANGE, "o-"),
}
READERS = {"absolute": COPIERS["vanilla"], "xl": COPIERS["xl"], "xl_memory": COPIERS["xl_memory"]}
GREY = "#707070"


def segment_copying(data: Data) -> Picture:
    """Accuracy by offset: without memory, what stands in the segment before can't be copied."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 3.4), layout="constrained")
        told = _copied(figure.subplots(), data)
        figure.legend(loc="outside lower center", ncols=3, fontsize=9)
    return Picture(figure, told)


def _copied(axes: Axes, data: Data) -> str:
    """Draw accuracy by offset, and say it."""
    for name, (label, colour, line) in COPIERS.items():
        curve = data["systems"][name]["by_offset"]
        _band(axes, curve, label, colour, line)
    distance = data["distance"]
    axes.axvspan(-0.5, distance - 0.5, color="#EEEEEE", zorder=0, lw=0)
    axes.axhline(data["chance"], color="black", lw=1, ls=":")
    axes.annotate(
        "chance", (data["seg_len"] - 1, data["chance"]), (0, 3), textcoords="offset points", ha="right"
    )
    for middle, words in (
        (distance / 2, "in the segment before"),
        ((distance + data["seg_len"]) / 2, "in this one"),
    ):
        axes.annotate(words, (middle - 0.5, 0.53), ha="center", fontsize=9, color=GREY)
    axes.set(
        title=f"Copy the token {distance} back",
        xlabel="offset in the segment, tokens",
        ylabel="accuracy",
        xlim=(-0.5, data["seg_len"] - 0.5),
        ylim=(0, 1.05),
    )
    found = "; ".join(
        f"{label}: {system['token_in_segment_before']['mean']:.2f} at offsets below {distance}, "
        f"{system['token_in_segment']['mean']:.2f} from there on"
        for name, (label, _, _) in COPIERS.items()
        for system in [data["systems"][name]]
    )
    return (
        f"Accuracy of copying a random token {distance} back in segments of {data['seg_len']}, mean of "
        f"{len(curve[0]['seeds'])} seeds; chance is {data['chance']:.2f}. {found}."
    )


def _band(axes: Axes, curve: list[Data], label: str, colour: str, line: str) -> None:
    """The mean at each offset, and between which values all seeds lie."""
    offsets = range(len(curve))
    low, high = ([end(one["seeds"]) for one in curve] for end in (min, max))
    axes.plot(offsets, [one["mean"] for one in curve], line, color=colour, label=label, lw=1.5)
    axes.fill_between(offsets, low, high, color=colour, alpha=0.2, lw=0)


def fragmentation(copied: Data, text: Data) -> Picture:
    """Left: the copy task by offset. Right: text by offset. A cut shows at the left edge of both."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10, 3.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        told = _copied(left, copied)
        for name, (label, colour, line) in READERS.items():
            _band(right, text["systems"][name]["bits_by_offset"], label, colour, line.strip("so^"))
        right.set(
            title=f"Predict text, segments of {text['seg_len']}",
            xlabel="offset in the segment, characters",
            ylabel=f"test {BITS}",
        )
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=9)
    found = "; ".join(
        f"{label}: {bits[0]['mean']:.2f} at offset 0, {bits[1]['mean']:.2f} at offset 1, "
        f"{sum(one['mean'] for one in bits[half:]) / half:.2f} on average in the later half"
        for name, (label, _, _) in READERS.items()
        for bits in [text["systems"][name]["bits_by_offset"]]
        for half in [text["seg_len"] // 2]
    )
    return Picture(figure, f"{told} Test {BITS} by offset in segments of {text['seg_len']}: {found}.")


def context_lengths(data: Data) -> Picture:
    """How many tokens each prediction is made from, and the mean that the loss sees."""
    contexts, most = data["contexts"], data["attention_len"]
    mean = sum(contexts) / len(contexts)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 2.9), layout="constrained")
        axes = figure.subplots()
        axes.bar(range(len(contexts)), contexts, width=0.8, color=BLUE)
        axes.axhline(mean, color=ORANGE, ls="--")
        axes.axhline(most, color="black", lw=1, ls=":")
        for height, words, colour in ((mean, f"mean {mean:.1f}", ORANGE), (most, f"L = {most}", "black")):
            axes.annotate(
                words, (1.01, height), xycoords=("axes fraction", "data"), color=colour, va="center"
            )
        axes.set(
            title=f"Windows of {most}, moved by {data['stride']}: {data['cost']:g} positions a token",
            xlabel="token of the stream",
            ylabel="tokens of context",
            ylim=(0, 1.12 * most),
        )
        axes.margins(x=0.01)
    return Picture(
        figure,
        f"Context of each of {len(contexts)} tokens, windows of {most} moved by {data['stride']}: between "
        f"{min(contexts)} and {max(contexts)} tokens, {mean:.1f} on average, at {data['cost']:g} positions "
        "computed for each token scored.",
    )


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
        "computed earlier, behind the cut": ("#A0A0A0", ":", 0.8),
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
    axes.margins(y=0.2)
    axes.legend(title="through", loc="upper right", ncols=2)


def memory_step(data: Data) -> Picture:
    """Above: which states are kept at this step, a row a layer. Below: which query sees which."""
    step, time, seg_len, n_layer = data["step"], data["time"], data["seg_len"], data["n_layer"]
    now, kept = data["queries"], data["memory"]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 4.0), layout="constrained")
        states, seen = figure.subplots(2, 1, sharex=True, height_ratios=[n_layer, seg_len + 0.5])
        for token in range(time):
            kind = (
                "memory"
                if token in kept
                else "now"
                if token in now
                else "past"
                if token < now[0]
                else "ahead"
            )
            for layer in range(n_layer):
                _cell(states, token, layer, kind)
        for row, query in enumerate(now):
            for key in [*kept, *now]:
                kind = "blind" if key not in data["sees"][row] else "memory" if key in kept else "now"
                _cell(seen, key, row, kind)
            seen.annotate(f"query {query}", (-0.7, row), ha="right", va="center", fontsize=9)
        states.set_title(f"Step {step}: memory holds {_span(kept)}; the model reads {_span(now)}")
        states.set_yticks(range(n_layer), [f"into layer {n + 1}" for n in range(n_layer)])
        seen.set_title("What each query sees: memory (hatched), and its own segment up to itself")
        seen.set_yticks([])
        seen.set(xlabel="token of the stream", ylim=(len(now) - 0.4, -0.6))
        states.set(xlim=(-0.6, time - 0.4), ylim=(-0.6, n_layer - 0.4))
        seen.set_xticks(range(time))
        for axes in (states, seen):
            axes.spines[:].set_visible(False)
            axes.tick_params(length=0)
    rows = "; ".join(
        f"query {query} sees {_span(sees)}" for query, sees in zip(now, data["sees"], strict=True)
    )
    return Picture(
        figure,
        f"Step {step}, segments of {seg_len}, memory {data['mem_len']}: memory holds {_span(kept)}, "
        f"a state for each of {n_layer} layers; {rows}.",
    )


def _cell(axes: Axes, x: float, y: float, kind: str) -> None:
    fill, edge, hatch = {
        "memory": (ORANGE, "white", "////"),
        "now": (BLUE, "white", ""),
        "past": ("#DDDDDD", "white", ""),
        "ahead": ("white", "#CCCCCC", ""),
        "blind": ("white", "#CCCCCC", ""),
    }[kind]
    axes.add_patch(Rectangle((x - 0.44, y - 0.44), 0.88, 0.88, facecolor=fill, edgecolor=edge, hatch=hatch))


def _span(tokens: list[int]) -> str:
    return (
        f"tokens {tokens[0]} to {tokens[-1]}"
        if len(tokens) > 1
        else f"token {tokens[0]}"
        if tokens
        else "nothing"
    )
