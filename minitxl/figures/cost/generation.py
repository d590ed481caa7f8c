"""Generation: the cost of a token as the text grows, and the distribution it is drawn from."""

from typing import Any

from matplotlib.ticker import LogLocator, NullLocator

from minitxl.figures.cost.evaluation_cost import MEDIANS, draw_medians
from minitxl.figures.marks import label_ends, ticks_at, with_commas
from minitxl.figures.picture import (
    LOWER,
    Data,
    Picture,
    drawing,
    fitted,
    legend_outside,
    panels,
)
from minitxl.figures.systems import SYSTEMS

XL = SYSTEMS["xl_memory"]
WAYS = {
    "anew": ("the whole text read anew", "s--", "#606060"),
    "states": ("write: hidden states kept", "o-", XL.colour),
    "cache": ("write_cached: keys, values, distances kept", "^-", XL.shades(2)[1]),
}
FILLS = {"anew": "white", "states": XL.colour, "cache": XL.shades(2)[1]}
"""Of the marks: what is read without memory is hollow."""
MOST = 24
"""Tokens shown of the distribution."""


def generation_cost(data: Data) -> Picture:
    """Draw the time of the next token by the length of the text, and the bytes of its cache."""
    blocks, anew = data["kept"], data["anew"]
    with drawing(6, 3.6) as figure:
        axes = figure.subplots()
        ways = (("the whole text read anew", "s--", "#606060"), ("KV cache", "o-", XL.colour))
        for rows, way in zip((anew, blocks), ways, strict=True):
            lengths, spreads = ([row[key] for row in rows] for key in ("length", "milliseconds"))
            draw_medians(axes, lengths, spreads, way, memory=rows is blocks)
        axes.axvline(data["mem_len"], color="black", lw=1, ls=":", zorder=0)
        full: Any = {"va": "top", "transform": axes.get_xaxis_transform()}
        axes.text(1.2 * data["mem_len"], 0.97, "← from here the cache is full", **full)
        level = max(block["milliseconds"]["median"] for block in blocks) < 2 * min(
            block["milliseconds"]["median"] for block in blocks
        )
        axes.set(
            title=fitted(
                f"With a KV cache of {data['mem_len']:,} tokens, the next token\n"
                "costs the same however long the text"
            )
            if level
            else "Time of the next token",
            xlabel=f"length of the text, tokens\n({MEDIANS})",
            ylabel=f"milliseconds for the next token,\nlog scale {LOWER}",
            yscale="log",
        )
        with_commas(axes.xaxis)
        with_commas(axes.yaxis)
        legend_outside(figure, ncols=3)
    first, last = blocks[0], blocks[-1]
    ratio = data["last_over_full"]
    low, high = ratio["quartiles"]
    read = "; ".join(f"{row['milliseconds']['median']:,.0f} at {row['length']:,}" for row in anew)
    return Picture(
        figure,
        f"Time of the next token by the length of the text. With a KV cache of the last "
        f"{data['mem_len']:,} tokens: {first['milliseconds']['median']:.1f} milliseconds up to token "
        f"{first['length']:,}, {last['milliseconds']['median']:.1f} up to {last['length']:,}; from the first "
        f"block with a full memory (dotted line) to the last the factor is {ratio['median']:.2f} (quartiles "
        f"{low:.2f} and {high:.2f}), and the cache holds {last['bytes'] / 1e6:,.0f} MB at the end. "
        f"With all of the text read anew: {read}.",
    )


def throughput(data: Data) -> Picture:
    """Draw milliseconds of one more token by the length of the text so far, and the tokens read in all.

    ``anew``, ``states`` and ``cache`` hold seconds at each length, one for each run: a mark is the least, and
    a bar reaches up to the most. A dotted line stands at the length that fills memory.
    """
    lengths = data["lengths"]
    read = {"anew": [n * (n + 1) // 2 for n in lengths], "states": lengths}
    with drawing(7, 3.8) as figure:
        cost, total = figure.subplots(1, 2)
        for name, (label, line, colour) in WAYS.items():
            least, most = ([1e3 * end(runs) for runs in data[name]] for end in (min, max))
            above = [high - low for low, high in zip(least, most, strict=True)]
            bars = [[0.0] * len(lengths), above]
            style = {"capsize": 3, "elinewidth": 1, "ms": 5, "mfc": FILLS[name]}
            cost.errorbar(lengths, least, bars, fmt=line, color=colour, label=label, **style)
        for (name, numbers), label in zip(read.items(), ("read anew", "with memory"), strict=True):
            _, line, colour = WAYS[name]
            total.plot(lengths, numbers, line, color=colour, label=label, ms=5, mfc=FILLS[name])
        runs = len(data["states"][0])
        cost.set(title=f"One more token: best of {runs} runs", ylabel=f"milliseconds; bar: slowest\n{LOWER}")
        total.set(title="The whole text: tokens read, counted", ylabel="tokens read until there")
        cost.axvline(data["mem_len"], color="0.4", ls=":", label=f"memory is full: {data['mem_len']:,}")
        for axes in (cost, total):
            axes.set(xscale="log", yscale="log", xlabel="tokens in the text so far")
            ticks_at(axes, lengths, rotation=45)
        cost.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        cost.yaxis.set_major_formatter("{x:g}")
        cost.yaxis.set_minor_locator(NullLocator())
        label_ends(total)
        legend_outside(figure, *cost.get_legend_handles_labels(), ncols=2)
    alt = "; ".join(
        f"{label} "
        + ", ".join(
            f"{1e3 * min(runs):.3g} to {1e3 * max(runs):.3g} at {length:,}"
            for length, runs in zip(lengths, data[name], strict=True)
        )
        for name, (label, _, _) in WAYS.items()
    )
    return Picture(
        figure,
        f"Milliseconds for one more token in the best and the slowest of {runs} runs, by tokens in the text "
        f"so far, memory full at {data['mem_len']:,}: {alt}. Tokens read in all for "
        f"{lengths[-1]:,} tokens: {read['anew'][-1]:,} anew, {lengths[-1]:,} with memory.",
    )


def what_memory_holds(data: Data) -> Picture:
    """Draw the token of the text that each slot of memory holds, oldest first, a panel a way of reading."""
    with drawing(7, 3) as figure:
        panels = figure.subplots(1, len(data), sharex=True, sharey=True)
        marks = (("o", XL.colour), ("s", XL.shades(2)[1]))
        for axes, (mark, colour), (name, slots) in zip(panels, marks, data.items(), strict=True):
            axes.plot(range(-len(slots), 0), slots, mark, color=colour, ms=3)
            axes.set(title=name, xlabel="slot of memory, the youngest last")
        panels[0].set_ylabel("place in the text")
    alt = "; ".join(
        f"{name}: {len(slots)} slots hold {len(set(slots))} tokens of the text"
        for name, slots in data.items()
    )
    return Picture(figure, f"What memory holds. {alt}.")


LINES, COLUMNS = 15, 54
"""Lines of the text that have a place beside the bars, and characters of a line."""


def shorten_line(line: str) -> str:
    """Return the line, cut with an ellipsis where it is longer than its place is wide."""
    return line if len(line) <= COLUMNS else line[: COLUMNS - 1] + "…"


def sampling_distribution(data: Data) -> Picture:
    """Draw the next token's probabilities by the model and as they are drawn from; a text beside."""
    names, model, drawn = (data[name][:MOST] for name in ("names", "model", "drawn"))
    text = "".join(one if one == "\n" or " " <= one <= "~" else "�" for one in data["text"])
    places = range(len(names))
    with drawing(10, 3.2) as figure:
        bars, page = panels(figure, 2, ratios=[1.25, 1], height=3.2)
        bars.bar(places, drawn, color=XL.colour, width=0.8, label="drawn from")
        bars.bar(
            places, model, fill=False, edgecolor="black", ls="--", lw=1.2, width=0.8, label="the model's"
        )
        bars.set_xticks(places, names, family="monospace")
        bars.set(ylabel="probability", title=f"After {data['after']!r}, the next character")
        bars.legend()
        shown = "\n".join(shorten_line(line) for line in text.split("\n")[:LINES])
        lines = page.text(0, 1, shown, va="top", family="monospace", fontsize=8.5, parse_math=False)
        lines.set_in_layout(False)  # however much text, the bars keep their place
        page.text(0, 1.03, "How the text goes on:", va="bottom", fontsize=9, color="#404040")
        page.set_axis_off()
    return Picture(
        figure,
        f"Drawn from {data['kept']} of {data['vocab']} characters; the likeliest is {names[0]}, "
        f"{model[0]:.2f} by the model and {drawn[0]:.2f} as drawn. The text: {text}",
    )
