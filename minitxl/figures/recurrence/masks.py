"""A cut text, cell by cell: the keys of each token, the tokens within reach, the lanes of a batch."""

from typing import Any

from minitxl.figures.marks import cell, cut_lines, hide_frame
from minitxl.figures.picture import PHONE, Data, Picture, drawing, legend_outside, printed
from minitxl.figures.systems import FUTURE, MEMORY, NO_EFFECT, SEGMENT

SEEN = {
    "own segment": SEGMENT.cell(),
    "out of reach": NO_EFFECT.cell(),
    "future": FUTURE,
}
KNOWN = {
    "own segment": SEGMENT.cell(),
    "through memory": MEMORY.cell(),
    "out of reach": NO_EFFECT.cell(),
}
KEPT = [("#B8E0C8", "white", ""), ("#E8E8B0", "white", "")]
TARGET, UNUSED = ("white", "black", ""), NO_EFFECT.cell()


def seen(data: Data) -> Picture:
    """Draw the keys of each token of a cut text, and beside them their number, and the lost ones.

    ``sees`` is [query key]; ``tokens`` and ``targets`` have a character for each query.
    """
    tokens, sees = [printed(token) for token in data["tokens"]], data["sees"]
    time, contexts = len(tokens), [sum(row) for row in data["sees"]]
    mean, uncut = sum(contexts) / time, (time + 1) / 2
    with drawing(7, 4.8) as figure:
        grid, counts = figure.subplots(1, 2, width_ratios=[1.15, 1])
        for query, row in enumerate(sees):
            for key, one in enumerate(row):
                kind = list(SEEN)[2 if key > query else int(not one)]
                grid.add_patch(cell(key, query, SEEN[kind]))
        counts.barh(
            range(time), range(1, time + 1), height=0.7, facecolor=NO_EFFECT.fill, edgecolor=NO_EFFECT.edge
        )
        counts.barh(range(time), contexts, height=0.7, facecolor=SEGMENT.fill, edgecolor=SEGMENT.edge)
        counts.axvline(mean, color="black", lw=1.5, ls="--")
        counts.annotate(f"mean {mean:g}", (mean, -0.7), (3, 0), textcoords="offset points", va="center")
        for query, amount in enumerate(contexts):
            counts.text(0.2, query, f"{amount}", va="center", fontweight="bold")
        for axes in (grid, counts):
            for cut in range(data["seg_len"], time, data["seg_len"]):
                axes.axhline(cut - 0.5, color="black", lw=1, ls=":")
            axes.set(ylim=(time - 0.4, -1.1), yticks=range(time))
            axes.tick_params(length=0)
        cut_lines(grid, data["seg_len"], time)
        grid.set_xticks(range(time), tokens, family="monospace")
        grid.set_yticklabels(tokens, family="monospace")
        grid.set(title=f"Cut into segments of {data['seg_len']}", xlim=(-0.6, time - 0.4))
        grid.set(xlabel="token (key)", ylabel="the last token read (query)")
        hide_frame(grid)
        counts.yaxis.tick_right()
        counts.set_yticklabels([printed(token) for token in data["targets"]], family="monospace")
        counts.yaxis.set_label_position("right")
        counts.set(title="Predicted from", xlabel="tokens of context", ylabel="to be predicted")
        counts.spines["left"].set_visible(False)
        handles = [cell(0, 0, look, label=kind) for kind, look in SEEN.items()]
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return Picture(
        figure,
        f"{time} tokens in segments of {data['seg_len']}. Predictions are made from "
        f"{', '.join(map(str, contexts))} tokens, {mean:g} on average; without cuts it would be "
        f"{uncut:g}. The cuts take away {time * (time + 1) // 2 - sum(contexts)} of {time * (time + 1) // 2} "
        f"pairs of a query and a key.",
    )


def readable(data: Data) -> Picture:
    """Draw the tokens that the next one can be guessed from, a row a model; others are left blank.

    A row's name stands above it, so that 40 tokens are no wider than a phone, which shows all at once.
    ``rows[name]`` has a truth value for each of ``tokens``; the last segment is the one that is read now.
    """
    rows, seg_len, time = data["rows"], data["seg_len"], len(data["tokens"])
    begin = time - 1 - (time - 1) % seg_len
    counts = {name: sum(alt) for name, alt in rows.items()}
    cuts = [cut - 0.5 for cut in range(seg_len, time, seg_len)]
    with drawing(PHONE, 0.55 * len(rows) + 0.45) as figure:
        axes = figure.subplots()
        for row, (name, alt) in enumerate(rows.items()):
            y = 2 * row
            axes.text(-0.5, y - 0.6, f"{name}: the last {counts[name]}", va="bottom")
            axes.vlines(cuts, y - 0.55, y + 0.55, color="black", lw=1.5, ls=":")  # not through the name
            for x, (token, one) in enumerate(zip([*data["tokens"], "?"], [*alt, True], strict=True)):
                look = (
                    list(KNOWN.values())[int(x < begin) if one else 2] if x < time else ("white", "black", "")
                )
                axes.add_patch(cell(x, y, look))
                words = printed(token) if one else ""
                centred: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 11}
                axes.text(x, y, words, family="monospace", weight="bold", **centred)
        axes.set(xlim=(-0.6, time + 0.6), ylim=(2 * len(rows) - 1.4, -1.4), xticks=[], yticks=[])
        hide_frame(axes)
        handles = [cell(0, 0, look, label=kind) for kind, look in KNOWN.items()]
        figure.legend(handles=handles, loc="outside lower center", ncols=3, columnspacing=1)
    seen = "; ".join(f"{name}: the last {count}" for name, count in counts.items())
    return Picture(figure, f"Guess what follows {time} tokens in segments of {seg_len}. {seen}.")


def lanes(data: Data) -> Picture:
    """Draw a stream of ``time`` tokens in lanes; ``segments`` is [segment lane seg], the tokens read."""
    segments, time = data["segments"], data["time"]
    begins = [lane[0] for lane in segments[0]]
    inputs = {token: number for number, rows in enumerate(segments) for row in rows for token in row}
    looks = {f"read in segment {number}": KEPT[number % 2] for number in range(len(segments))}
    looks |= {"a target only": TARGET, "not used": UNUSED}
    with drawing(7, 0.45 * len(begins) + 1.5) as figure:
        axes = figure.subplots()
        for token in range(time):
            lane = sum(begin <= token for begin in begins) - 1
            number = inputs.get(token, -1)
            target = token - 1 in inputs
            look = KEPT[number % 2] if number >= 0 else TARGET if target else UNUSED
            axes.add_patch(cell(token - begins[lane], lane, look))
            axes.text(token - begins[lane], lane, f"{token}", ha="center", va="center")
        width = time - begins[-1]
        cut_lines(axes, len(segments[0][0]), width)
        axes.set(xlim=(-0.6, width - 0.4), ylim=(len(begins) - 0.4, -0.6), xticks=[])
        axes.set_yticks(range(len(begins)), [f"lane {lane}" for lane in range(len(begins))])
        hide_frame(axes)
        handles = [cell(0, 0, look, label=kind) for kind, look in looks.items()]
        legend_outside(figure, handles, list(looks), ncols=len(looks))
    alt = "; ".join(
        f"segment {number} reads {' and '.join(f'{row[0]} to {row[-1]}' for row in rows)}"
        for number, rows in enumerate(segments)
    )
    return Picture(figure, f"A stream of {time} tokens in {len(begins)} lanes: {alt}.")
