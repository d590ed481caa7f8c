"""Text in pieces: the cost of a cut."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from minitxl.figures.marks import hide_frame, in_per_cent, name_offsets, seed_band
from minitxl.figures.picture import (
    BITS,
    LOWER,
    Data,
    Picture,
    drawing,
    legend_outside,
)
from minitxl.figures.systems import SEGMENT, SYSTEMS

COPIERS = {"vanilla": SYSTEMS["absolute"], "xl": SYSTEMS["xl"], "xl_memory": SYSTEMS["xl_memory"]}
"""The systems of the experiment ``segment_copying`` by their keys there."""
READERS = {"absolute": COPIERS["vanilla"], "xl": COPIERS["xl"], "xl_memory": COPIERS["xl_memory"]}
GREY = "#707070"


def segment_copying(data: Data) -> Picture:
    """Draw accuracy by offset: without memory, what stands in the segment before can't be copied."""
    with drawing(7, 3.4) as figure:
        alt = _copied(figure.subplots(), data)
        legend_outside(figure, ncols=3)
    return Picture(figure, alt)


def _copied(axes: Axes, data: Data) -> str:
    """Draw accuracy by offset of the systems there are, and say it."""
    shown = {name: copier for name, copier in COPIERS.items() if name in data["systems"]}
    for name, copier in shown.items():
        curve = data["systems"][name]["by_offset"]
        large = {"ms": 9} if name == "vanilla" else {}  # it is seen around the one that covers it
        seed_band(axes, range(len(curve)), curve, **copier.look(), label=copier.name, lw=1.5, **large)
    distance = data["distance"]
    axes.axvspan(-0.5, distance - 0.5, color="#EEEEEE", zorder=0, lw=0)
    axes.axhline(data["chance"], color="black", lw=1, ls=":")
    axes.annotate(
        "chance", (data["seg_len"] - 1, data["chance"]), (0, 3), textcoords="offset points", ha="right"
    )
    for middle, words in (
        (distance / 2, "the token is in\nthe segment before"),
        ((distance + data["seg_len"]) / 2, "the token is in\nthe same segment"),
    ):
        axes.annotate(words, (middle - 0.5, 0.53), ha="center", color=GREY)
    axes.set(
        title=f"Without memory, a token {distance} back is lost at the cut",
        ylabel="right copies, %",
        xlim=(-0.5, data["seg_len"] - 0.5),
        ylim=(0, 1.05),
    )
    name_offsets(axes, "tokens")
    in_per_cent(axes.yaxis)
    numbers = "; ".join(
        f"{copier.name}: {100 * system['token_in_segment_before']['mean']:.0f} % at offsets below "
        f"{distance}, {100 * system['token_in_segment']['mean']:.0f} % from there on"
        for name, copier in shown.items()
        for system in [data["systems"][name]]
    )
    seeds = len(curve[0]["seeds"])
    return (
        f"Right copies of a random token {distance} back in segments of {data['seg_len']}, mean of "
        f"{seeds} seed{'s' * (seeds > 1)}; chance is {100 * data['chance']:.0f} %. {numbers}."
    )


def fragmentation(copied: Data, text: Data) -> Picture:
    """Draw the copy task and text by offset; a cut shows at the left edge of both."""
    with drawing(7, 6.4) as figure:
        copy, predict = figure.subplots(2, 1)
        alt = _copied(copy, copied)
        for name, reader in READERS.items():
            bits = text["systems"][name]["bits_by_offset"]
            seed_band(predict, range(len(bits)), bits, **reader.look(marker=False), label=reader.name, lw=1.5)
        predict.set(
            title=f"Predict text, segments of {text['seg_len']}",
            ylabel=f"test {BITS}\n{LOWER}",
        )
        name_offsets(predict)
        legend_outside(figure, *copy.get_legend_handles_labels(), ncols=3)
    numbers = "; ".join(
        f"{reader.name}: {bits[0]['mean']:.2f} at offset 0, {bits[1]['mean']:.2f} at offset 1, "
        f"{sum(one['mean'] for one in bits[half:]) / half:.2f} on average in the later half"
        for name, reader in READERS.items()
        for bits in [text["systems"][name]["bits_by_offset"]]
        for half in [text["seg_len"] // 2]
    )
    return Picture(figure, f"{alt} Test {BITS} by offset in segments of {text['seg_len']}: {numbers}.")


def context_lengths(data: Data) -> Picture:
    """Draw the number of tokens each prediction is made from, and the mean that the loss sees."""
    contexts, most = data["contexts"], data["attention_len"]
    mean = sum(contexts) / len(contexts)
    with drawing(7, 2.9) as figure:
        axes = figure.subplots()
        axes.bar(range(len(contexts)), contexts, width=0.8, facecolor=SEGMENT.fill, edgecolor=SEGMENT.edge)
        axes.axhline(mean, color="black", ls="--")
        axes.axhline(most, color="black", lw=1, ls=":")
        for height, words, side in (
            (mean, f"mean {mean:.1f}", "top"),
            (most, f"L = {most}", "bottom"),
        ):
            axes.annotate(words, (1.01, height), xycoords=("axes fraction", "data"), va=side)
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


PARTS = [("LN₁", 1.6), ("Attention", 3.4), ("LN₂", 7.1), ("FF", 8.7)]
"""Parts of a pre-norm block, and where each stands between input and output."""


def block_diagram() -> Picture:
    """Draw the way through a pre-norm block: two halves, and a residual connection around each."""
    with drawing(7, 1.8) as figure:
        axes = figure.subplots()
        axes.annotate("", (11.4, 0), (0.2, 0), arrowprops={"arrowstyle": "->", "lw": 2})
        for begin, end in ((0.8, 5.4), (6.3, 10.2)):
            axes.plot([begin, begin, end, end], [0, 1.4, 1.4, 0.28], color=GREY, lw=2, ls="--")
            axes.text(
                (begin + end) / 2, 1.5, "x itself" if begin < 1 else "a itself", ha="center", color=GREY
            )
            axes.plot(end, 0, "o", ms=20, mfc="white", mec="black")
            axes.text(end, 0, "+", ha="center", va="center", fontsize=14)
        for name, middle in PARTS:
            width = 1.0 if len(name) < 4 else 1.7
            grey = "#DDDDDD" if name.startswith("LN") else "#A6CEE3"
            axes.add_patch(
                Rectangle((middle - width / 2, -0.5), width, 1, facecolor=grey, edgecolor="black", zorder=3)
            )
            axes.text(middle, 0, name, ha="center", va="center", zorder=4)
        for name, place in (("x", 0.0), ("a", 5.95), ("y", 11.6)):
            axes.text(place, 0.12, f"$\\mathbf{{{name}}}$", ha="center", va="bottom", fontsize=13)
        axes.set(xlim=(-0.4, 12), ylim=(-0.8, 2), xticks=[], yticks=[])
        hide_frame(axes)
    return Picture(
        figure,
        "A pre-norm block in 4 parts. The input x goes through LN 1 and attention, and x itself is added: a. "
        "Then a goes through LN 2 and the feed-forward layer, and a itself is added: y.",
    )


def all_cuts(data: Data) -> Picture:
    """Draw the offsets of ``time`` tokens for each of ``seg_len`` ways to cut; the last offset is framed."""
    seg_len, time = data["seg_len"], data["time"]
    with drawing(7, 0.42 * seg_len + 0.9) as figure:
        axes = figure.subplots()
        for cut in range(seg_len):
            for token in range(time):
                offset = (token - cut) % seg_len
                last = offset == seg_len - 1
                frame: dict[str, Any] = {
                    "edgecolor": "black" if last else "#C0C0C0",
                    "lw": 2.5 if last else 1,
                }
                box = Rectangle((token - 0.42, cut - 0.42), 0.84, 0.84, facecolor="white", **frame)
                axes.add_patch(box)
                axes.text(token, cut, f"{offset}", ha="center", va="center", fontsize=11)
                if offset == 0 and token:
                    axes.plot([token - 0.5] * 2, [cut - 0.5, cut + 0.5], color="black", lw=2)
        axes.set(xlim=(-0.6, time - 0.4), ylim=(seg_len - 0.4, -0.6), xticks=range(time))
        axes.set_yticks(range(seg_len), [f"cut at {cut}" for cut in range(seg_len)])
        axes.set(xlabel="token of the text", title=f"Offset of each token, for {seg_len} ways to cut")
        hide_frame(axes)
    return Picture(
        figure,
        f"The {seg_len} ways to cut {time} tokens into segments of {seg_len}, a row each, with the offset "
        f"of each token. A column has every offset from 0 to {seg_len - 1} once; {seg_len - 1} is framed.",
    )


def offset_curve(data: Data) -> Picture:
    """Draw loss of the same characters at each offset; its mean and its last point are two evaluations."""
    bits = data["bits"]
    mean, last, vanilla = sum(bits) / len(bits), len(bits) - 1, SYSTEMS["absolute"]
    with drawing(7, 3) as figure:
        axes = figure.subplots()
        axes.plot(range(len(bits)), bits, ".-", color=vanilla.colour, lw=1.2)
        axes.axhline(mean, color="black", lw=1, ls="--", label=f"isolated segments: the mean, {mean:.3f}")
        axes.plot(
            last, bits[last], "o", ms=9, mfc="white", mec=vanilla.colour, mew=2,
            label=f"sliding window: the last, {bits[last]:.3f}",
        )  # fmt: skip
        name_offsets(axes)
        axes.set_ylabel(f"{BITS}\n{LOWER}")
        axes.legend()
    return Picture(
        figure,
        f"Loss of the same characters at each of {len(bits)} offsets, in {BITS}: {bits[0]:.3f} at offset 0, "
        f"{min(bits):.3f} at the best offset, {bits.index(min(bits))}. Isolated segments cost the mean of "
        f"all offsets, {mean:.3f}; a sliding window costs what the last one does, {bits[last]:.3f}.",
    )
