"""Text in pieces: what each token has before it, and what a cut costs."""

from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from minitxl.figures.picture import BITS, BLUE, GREEN, ORANGE, STYLE, Data, Picture, seed_band

COPIERS = {
    "vanilla": ("absolute, no memory", BLUE, "s--"),
    "xl": ("relative (XL), no memory", GREEN, "^:"),
    "xl_memory": ("relative (XL) + memory", ORANGE, "o-"),
}
READERS = {"absolute": COPIERS["vanilla"], "xl": COPIERS["xl"], "xl_memory": COPIERS["xl_memory"]}
GREY = "#707070"
CELLS = {
    "in its segment: seen": (BLUE, "white", ""),
    "behind a cut: lost": ("white", ORANGE, "////"),
    "in the future": ("white", "#DDDDDD", ""),
}
KNOWN = {
    "in its segment: read now": (BLUE, "white", ""),
    "earlier: told by memory": ("white", ORANGE, ""),
    "out of reach": ("white", "#B0B0B0", "////"),
}
KEPT = [("#A6CEE3", "white", ""), ("#FDD0A2", "white", "")]
TARGET, UNUSED = ("white", BLUE, ""), ("white", "#B0B0B0", "////")


def seen(data: Data) -> Picture:
    """Left: what each token of a cut text sees. Right: how many tokens that are, and how many are lost.

    ``sees`` is [query key]; ``tokens`` and ``targets`` have a character for each query.
    """
    tokens, sees = [_shown(token) for token in data["tokens"]], data["sees"]
    time, contexts = len(tokens), [sum(row) for row in data["sees"]]
    mean, uncut = sum(contexts) / time, (time + 1) / 2
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 4.6), layout="constrained")
        grid, counts = figure.subplots(1, 2, width_ratios=[1.15, 1])
        for query, row in enumerate(sees):
            for key, one in enumerate(row):
                kind = list(CELLS)[2 if key > query else int(not one)]
                grid.add_patch(_box(key, query, CELLS[kind]))
        counts.barh(range(time), range(1, time + 1), height=0.7, fill=False, edgecolor=ORANGE, hatch="////")
        counts.barh(range(time), contexts, height=0.7, color=BLUE)
        counts.axvline(mean, color="black", lw=1.5, ls="--")
        counts.annotate(f"mean {mean:g}", (mean, -0.7), (3, 0), textcoords="offset points", va="center")
        for query, amount in enumerate(contexts):
            counts.text(0.2, query, f"{amount}", va="center", color="white", fontweight="bold", fontsize=9)
        for axes in (grid, counts):
            for cut in range(data["seg_len"], time, data["seg_len"]):
                axes.axhline(cut - 0.5, color="black", lw=1, ls=":")
            axes.set(ylim=(time - 0.4, -1.1), yticks=range(time))
            axes.tick_params(length=0)
        for cut in range(data["seg_len"], time, data["seg_len"]):
            grid.axvline(cut - 0.5, color="black", lw=1, ls=":")
        grid.set_xticks(range(time), tokens, family="monospace")
        grid.set_yticklabels(tokens, family="monospace")
        grid.set(title=f"Cut into segments of {data['seg_len']}", xlim=(-0.6, time - 0.4))
        grid.set(xlabel="token (key)", ylabel="the last token read (query)")
        grid.spines[:].set_visible(False)
        counts.yaxis.tick_right()
        counts.set_yticklabels([_shown(token) for token in data["targets"]], family="monospace")
        counts.yaxis.set_label_position("right")
        counts.set(title="Predicted from", xlabel="tokens of context", ylabel="to be predicted")
        counts.spines["left"].set_visible(False)
        handles = [_box(0, 0, look, label=kind) for kind, look in CELLS.items()]
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return Picture(
        figure,
        f"{time} tokens in segments of {data['seg_len']}. Predictions are made from "
        f"{', '.join(map(str, contexts))} tokens, {mean:g} on average; without cuts it would be "
        f"{uncut:g}. The cuts take away {time * (time + 1) // 2 - sum(contexts)} of {time * (time + 1) // 2} "
        f"pairs of a query and a key.",
    )


def readable(data: Data) -> Picture:
    """What the next token can be guessed from, a row a model: only the tokens it is told of are written.

    ``rows[name]`` has a truth value for each of ``tokens``; the last segment is the one that is read now.
    """
    rows, seg_len, time = data["rows"], data["seg_len"], len(data["tokens"])
    begin = time - 1 - (time - 1) % seg_len
    counts = {name: sum(told) for name, told in rows.items()}
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.5, 0.3 * len(rows) + 0.8), layout="constrained")
        axes = figure.subplots()
        for y, told in enumerate(rows.values()):
            for x, (token, one) in enumerate(zip([*data["tokens"], "?"], [*told, True], strict=True)):
                look = (
                    list(KNOWN.values())[int(x < begin) if one else 2] if x < time else ("white", "black", "")
                )
                axes.add_patch(_box(x, y, look))
                ink = "white" if look[0] == BLUE else "black"
                words = _shown(token) if one else ""
                centred: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 11}
                axes.text(x, y, words, color=ink, family="monospace", weight="bold", **centred)
        for cut in range(seg_len, time, seg_len):
            axes.axvline(cut - 0.5, color="black", lw=1.5, ls=":")
        axes.set(xlim=(-0.6, time + 0.6), ylim=(len(rows) - 0.4, -0.6), xticks=[])
        axes.set_yticks(range(len(rows)), [f"{name}: {count} seen" for name, count in counts.items()])
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        handles = [_box(0, 0, look, label=kind) for kind, look in KNOWN.items()]
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
    seen = "; ".join(f"{name}: from the last {count}" for name, count in counts.items())
    return Picture(figure, f"Guess what follows {time} tokens in segments of {seg_len}. {seen}.")


def _shown(token: str) -> str:
    return {" ": "␣", "\n": "↵"}.get(token, token)


def _box(x: int, y: int, look: tuple[str, str, str], *, label: str = "") -> Rectangle:
    fill, edge, hatch = look
    side = 0.86
    return Rectangle(
        (x - side / 2, y - side / 2), side, side, facecolor=fill, edgecolor=edge, hatch=hatch, label=label
    )


def lanes(data: Data) -> Picture:
    """A stream of ``time`` tokens in lanes; ``segments`` is [segment lane seg], the tokens that are read."""
    segments, time = data["segments"], data["time"]
    begins = [lane[0] for lane in segments[0]]
    inputs = {token: number for number, rows in enumerate(segments) for row in rows for token in row}
    looks = {f"read in segment {number}": KEPT[number % 2] for number in range(len(segments))}
    looks |= {"a target only": TARGET, "not used": UNUSED}
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 0.55 * len(begins) + 1.3), layout="constrained")
        axes = figure.subplots()
        for token in range(time):
            lane = sum(begin <= token for begin in begins) - 1
            number = inputs.get(token, -1)
            target = token - 1 in inputs
            look = KEPT[number % 2] if number >= 0 else TARGET if target else UNUSED
            axes.add_patch(_box(token - begins[lane], lane, look))
            words = axes.text(token - begins[lane], lane, f"{token}", ha="center", va="center", fontsize=9)
            if look is UNUSED:
                words.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1})
        width = time - begins[-1]
        for cut in range(len(segments[0][0]), width, len(segments[0][0])):
            axes.axvline(cut - 0.5, color="black", lw=1, ls=":")
        axes.set(xlim=(-0.6, width - 0.4), ylim=(len(begins) - 0.4, -0.6), xticks=[])
        axes.set_yticks(range(len(begins)), [f"lane {lane}" for lane in range(len(begins))])
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        figure.legend(
            handles=[_box(0, 0, look, label=kind) for kind, look in looks.items()],
            loc="outside lower center",
            ncols=len(looks),
        )
    told = "; ".join(
        f"segment {number} reads {' and '.join(f'{row[0]} to {row[-1]}' for row in rows)}"
        for number, rows in enumerate(segments)
    )
    return Picture(figure, f"A stream of {time} tokens in {len(begins)} lanes: {told}.")


def segment_copying(data: Data) -> Picture:
    """Accuracy by offset: without memory, what stands in the segment before can't be copied."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 3.4), layout="constrained")
        told = _copied(figure.subplots(), data)
        figure.legend(loc="outside lower center", ncols=3, fontsize=9)
    return Picture(figure, told)


def _copied(axes: Axes, data: Data) -> str:
    """Draw accuracy by offset of the systems there are, and say it."""
    shown = {name: look for name, look in COPIERS.items() if name in data["systems"]}
    for name, (label, colour, line) in shown.items():
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
        for name, (label, _, _) in shown.items()
        for system in [data["systems"][name]]
    )
    seeds = len(curve[0]["seeds"])
    return (
        f"Accuracy of copying a random token {distance} back in segments of {data['seg_len']}, mean of "
        f"{seeds} seed{'s' * (seeds > 1)}; chance is {data['chance']:.2f}. {found}."
    )


def _band(axes: Axes, curve: list[Data], label: str, colour: str, line: str) -> None:
    """The mean at each offset, and between which values all seeds lie."""
    hollow: dict[str, Any] = {"ms": 8, "markerfacecolor": "none"} if "^" in line else {}
    seed_band(axes, range(len(curve)), curve, line, color=colour, label=label, lw=1.5, **hollow)


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
        for height, words, colour, side in (
            (mean, f"mean {mean:.1f}", ORANGE, "top"),
            (most, f"L = {most}", "black", "bottom"),
        ):
            axes.annotate(words, (1.01, height), xycoords=("axes fraction", "data"), color=colour, va=side)
        axes.set(
            title=f"Windows of {most}, moved by {data['stride']}: each token computed {data['cost']:g}×",
            xlabel="token of the stream",
            ylabel="tokens of context",
            ylim=(0, 1.12 * most),
        )
        axes.margins(x=0.01)
    return Picture(
        figure,
        f"Context of each of {len(contexts)} tokens, windows of {most} moved by {data['stride']}: between "
        f"{min(contexts)} and {max(contexts)} tokens, {mean:.1f} on average; each token is "
        f"computed {data['cost']:g} times.",
    )


def offset_curve(data: Data) -> Picture:
    """Loss of the same characters at each offset; its mean and its last point are two evaluations."""
    bits = data["bits"]
    mean, last = sum(bits) / len(bits), len(bits) - 1
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 3), layout="constrained")
        axes = figure.subplots()
        axes.plot(range(len(bits)), bits, ".-", color=BLUE, lw=1.2)
        axes.axhline(mean, color=GREEN, ls="--", label=f"isolated segments: the mean, {mean:.3f}")
        axes.plot(
            last, bits[last], "o", color=ORANGE, ms=9, label=f"sliding window: the last, {bits[last]:.3f}"
        )
        axes.set(xlabel="offset in the segment, characters", ylabel=BITS)
        axes.legend()
    return Picture(
        figure,
        f"Loss of the same characters at each of {len(bits)} offsets, in {BITS}: {bits[0]:.3f} at offset 0, "
        f"{min(bits):.3f} at the best offset, {bits.index(min(bits))}. Isolated segments cost the mean of "
        f"all offsets, {mean:.3f}; a sliding window costs what the last one does, {bits[last]:.3f}.",
    )
