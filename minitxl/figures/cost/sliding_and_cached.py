"""Notebook 12's pictures: the work of scoring a token, two ways, and the difference of their answers."""

from matplotlib.axes import Axes

from minitxl.figures.cost.evaluation_cost import GREY, WAYS, draw_medians
from minitxl.figures.marks import ticks_at
from minitxl.figures.picture import BITS, LEFT, LOWER, Data, Picture, drawing, fitted, panels
from minitxl.figures.systems import SYSTEMS

XL = SYSTEMS["xl_memory"]
"""The one model of the pictures of answers: it is read in several ways."""
FLOOR = 1e-17
"""Height of a difference of exactly 0 on a log scale."""


def cost_per_token(data: Data) -> Picture:
    """Draw time per token, measured and predicted by operations, and the ratio, beside the paper's."""
    rows, predicted = data["lengths"], data["predicted"]
    lengths = [row["attention_len"] for row in rows]
    published = [row for row in rows if row["paper"]]
    with drawing(7, 6.8) as figure:
        cost, ratio = figure.subplots(2, 1)
        for side, (label, line, colour) in WAYS.items():
            measured = [row["microseconds_per_token"][side] for row in rows]
            cost.plot(predicted["attention_len"], predicted[side], line[1:], color=colour, lw=1.2)
            way = label, line[0], colour
            draw_medians(cost, lengths, measured, way, memory=side == "cached", ms=6, elinewidth=None)
        cost.plot([], [], "-", color="#606060", lw=1.2, label="lines: operations ÷ one speed")
        longest = predicted["attention_len"]
        ratio.fill_between(longest, [a / 3 for a in longest], longest, color="#E8E8E8", label="A/3 … A")
        ratio.plot(longest, predicted["ratio"], "--", color=GREY, label="operations")
        ratio.plot(lengths, [row["ratio"]["median"] for row in rows], "ko", ms=6, label="time, measured here")
        ratio.plot(
            [row["attention_len"] for row in published],
            [row["paper"] for row in published],
            "^",
            color=GREY,
            ms=7,
            label="the paper's Table 9",
        )
        cost.set(title="Cost of scoring one token", ylabel=f"microseconds\n{LOWER}")
        ratio.set(title="Sliding window ÷ cached evaluation", ylabel="times")
        for axes in (cost, ratio):
            _by_attention(axes, lengths)
            axes.legend()
    alt = "; ".join(
        f"at {row['attention_len']:,}, {row['microseconds_per_token']['sliding']['median']:,.0f} and "
        f"{row['microseconds_per_token']['cached']['median']:,.0f} microseconds, a ratio of "
        f"{row['ratio']['median']:,.0f}, by operations {row['counted']['computed']:,.0f}"
        + (f", in the paper {row['paper']:,}" if row["paper"] else "")
        for row in rows
    )
    return Picture(
        figure,
        f"Time to score one token, by a sliding window and by cached evaluation, by attention length: {alt}.",
    )


def _by_attention(axes: Axes, lengths: list[int]) -> None:
    """Make both axes logarithmic, with ticks where something was measured."""
    axes.set(xscale="log", yscale="log", xlabel="attention length A, tokens")
    ticks_at(axes, lengths, rotation=45)


def shape(data: Data) -> Picture:
    """Draw the ratio of both ways over attention length: ``curves`` by model, between two limits."""
    lengths, alt = data["attention_len"], []
    with drawing(7, 3.1) as figure:
        axes = figure.subplots()
        for (name, curve), (line, colour) in zip(
            data["curves"].items(), (("o-", "black"), ("s--", GREY)), strict=True
        ):
            axes.plot(lengths, curve, line, color=colour, label=name)
            alt.append(f"{name} {curve[0]:.2f} at {lengths[0]:,}, {curve[-1]:.2f} at {lengths[-1]:,}")
        limits = (
            (1, "A: a window does everything A times", lengths[-1], "right"),
            (1 / 3, "A/3: attention outweighs all else", lengths[0], "left"),
        )
        for level, words, place, side in limits:
            axes.axhline(level, color="black", lw=1, ls=":")
            axes.annotate(f"ratio = {words}", (place, level), (0, 4), textcoords="offset points", ha=side)
        axes.set(xscale="log", xlabel="attention length A, tokens", ylabel="ratio / A", ylim=(0.2, 1.12))
        axes.legend()
    return Picture(
        figure,
        f"Operations of a sliding window ÷ those of cached evaluation, divided by A: {'; '.join(alt)}.",
    )


def calculator(data: Data) -> Picture:
    """Draw operations for one token both ways, and the ratio at every attention length."""
    curve, totals = data["curve"], data["operations"]
    times = f"{data['ratio']:,.0f}" if data["ratio"] >= 10 else f"{data['ratio']:.1f}"
    with drawing(10, 2.9) as figure:
        bars, ratio = panels(figure, 2, ratios=[1.2, 1])
        for place, (side, (_, _, colour)) in enumerate(WAYS.items()):
            bars.barh(
                place, totals[side], color=colour, height=0.5, hatch="//" if side == "sliding" else None
            )
            bars.annotate(f" {_count(totals[side])}", (totals[side], place), va="center")
        bars.set_yticks(range(len(WAYS)), ["sliding\nwindow", "cached\nevaluation"])
        bars.set(xscale="log", xlim=(1e5, 1e15), xlabel="operations for one token, log scale", title="Work")
        bars.invert_yaxis()
        lengths, values = curve["attention_len"], curve["ratio"]
        ratio.fill_between(lengths, [a / 3 for a in lengths], lengths, color="#E8E8E8", label="A/3 … A")
        ratio.plot(lengths, values, "--", color=GREY)
        ratio.plot(data["attention_len"], data["ratio"], "o", ms=9, color="black")
        ratio.set(xscale="log", yscale="log", xlabel="attention length A, tokens", ylabel="times")
        ratio.set(title=fitted(f"Sliding window ÷ cached evaluation: {times} times"))
        ratio.legend()
    return Picture(
        figure,
        f"{data['n_layer']} layers of width {data['d_model']}, attention length {data['attention_len']:,}, "
        f"segments of {data['seg_len']}: {_count(totals['sliding'])} operations for a token by a window, "
        f"{_count(totals['cached'])} by cached evaluation, {times} times.",
    )


def _count(number: float | int) -> str:
    """Return three digits of a large number, and a word."""
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if number >= size:
            return f"{number / size:.3g} {word}" if number < 1000 * size else f"{number / size:,.0f} {word}"
    return f"{number:,.0f}"


def cuts(data: Data) -> Picture:
    """Draw the largest difference between log-probabilities of a text cut into pieces of T, and of T = 1."""
    kinds = {
        "changes": ("no window: a query sees memory and segment", "s--", XL.shades(2)[1]),
        "equal": ("one window for every query", "o-", XL.colour),
    }
    with drawing(7, 3) as figure:
        axes = figure.subplots()
        for name, (label, line, colour) in kinds.items():
            axes.plot(data["cut"], [max(one, FLOOR) for one in data[name]], line, color=colour, label=label)
        axes.set(
            yscale="log", ylim=(FLOOR / 3, 30), xlabel="tokens read at once, T", ylabel="difference, nats"
        )
        axes.legend(loc="center right")
    worst, least = max(data["equal"]), min(data["changes"])
    return Picture(
        figure,
        f"Largest difference of any log-probability from reading token by token, for T = {data['cut'][0]} … "
        f"{data['cut'][-1]} tokens at once: with one window for every query at most {worst:.0e} nats, "
        f"without a window at least {least:.0e} nats.",
    )


def recomputed(data: Data) -> Picture:
    """Draw the difference of a loss computed anew from some tokens to the cached one."""
    exact, attention = data["exact_window"], data["attention_len"]
    with drawing(7, 3) as figure:
        axes = figure.subplots()
        axes.plot(data["tokens"], [max(one, FLOOR) for one in data["difference"]], "o-", color=XL.colour)
        for place, label, align in (
            (attention, f"equal attention: {attention}", "left"),
            (exact, f"equal answer: {exact}", "right"),
        ):
            axes.axvline(place, color="black", lw=1.2, ls=":" if place == attention else "--")
            offset = (4, 0) if align == "left" else (-4, 0)
            axes.annotate(
                label, (place, 10), offset, textcoords="offset points", ha=align, va="top", color="black"
            )
        axes.set(yscale="log", ylim=(FLOOR / 3, 30), ylabel="difference, nats")
        axes.set(xlabel="tokens in the window that is computed anew")
    at = dict(zip(data["tokens"], data["difference"], strict=True))
    return Picture(
        figure,
        f"Difference of a loss that is computed anew from the cached one, {data['n_layer']} layers, every "
        f"query sees {attention} keys: {at[attention]:.1g} nats with a window of {attention} tokens, "
        f"{at[exact - 1]:.1g} with {exact - 1}, {at[exact]:.1g} with {exact}.",
    )


def readings(data: Data) -> Picture:
    """Draw the number of keys that each reading's predictions see, fewest to most, and its score.

    ``interval`` is a range around the score.
    """
    names, alt = list(data), []
    most = max(reading["keys"][1] for reading in data.values())
    with drawing(7, 0.4 * len(names) + 1.2) as figure:
        keys, score = figure.subplots(1, 2, sharey=True)
        for place, (name, reading) in enumerate(data.items()):
            low, high = reading["keys"]
            mark, colour = ("o" if name.startswith("cached") else "s"), XL.colour
            fill = colour if mark == "o" else "white"  # hollow: without cached memory
            keys.plot([low, high], [place, place], f"{mark}-", color=colour, mfc=fill, ms=6)
            span = f"{low} … {high}" if low < high else str(high)
            keys.annotate(span, (high, place), (7, 0), textcoords="offset points", va="center")
            score.plot(reading["interval"], [place, place], "-", color=colour, lw=1.5)
            score.plot(reading["bits"], place, mark, color=colour, mfc=fill, ms=8)
            bits = f"{reading['bits']:.3f}"
            score.annotate(bits, (reading["bits"], place), (0, 6), textcoords="offset points", ha="center")
            alt.append(f"{name}, {span} keys: {reading['bits']:.3f}")
        keys.set_yticks(range(len(names)), names)
        keys.set(title="What a prediction sees", xlabel="keys that its query sees (memory is full)")
        keys.set_xlim(-0.05 * most, 1.4 * most)
        score.set(title="The score", xlabel=f"{BITS}\n{LEFT}")
        score.margins(x=0.25)
        for axes in (keys, score):
            axes.grid(axis="y", color="#E8E8E8")
        keys.set_ylim(len(names) - 0.5, -0.5)
    return Picture(figure, f"One model, one text, in {BITS}: {'; '.join(alt)}.")
