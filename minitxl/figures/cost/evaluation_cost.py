"""Measured times: a sliding window beside a memory (Table 9)."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from minitxl.figures.marks import ticks_at, with_commas
from minitxl.figures.picture import LOWER, Data, Picture, drawing, fitted, panels
from minitxl.figures.systems import SYSTEMS

SHOWN = (128, 512, 1800, 3800)
"""Attention lengths that the axis names."""
GREY = "#707070"
MEDIANS = "line: median; bar: quartile to quartile"
"""Words on the marks of ``draw_medians``, for the label of an axis."""
WAYS = {
    "sliding": (f"{SYSTEMS['absolute'].name}: sliding window", "s--", SYSTEMS["absolute"].colour),
    "cached": (f"{SYSTEMS['xl_memory'].name}: cached evaluation", "o-", SYSTEMS["xl_memory"].colour),
}


def evaluation_cost(data: Data) -> Picture:
    """Draw how much longer a sliding window takes, measured and counted, and the time of both."""
    rows = data["lengths"]
    lengths = [row["attention_len"] for row in rows]
    published = [row for row in rows if row["paper"]]
    with drawing(10, 3.8) as figure:
        longer, cost = panels(figure, 2, height=3.7)
        longer.plot(
            lengths,
            [row["counted"]["computed"] for row in rows],
            "--",
            color=GREY,
            label="operations, counted",
        )
        longer.plot(
            [row["attention_len"] for row in published],
            [row["paper"] for row in published],
            "^:",
            color=GREY,
            ms=6,
            label="the paper's Table 9",
        )
        draw_medians(longer, lengths, [row["ratio"] for row in rows], ("time, measured", "o-", "black"))
        for side, way in WAYS.items():
            spreads = [_milliseconds(row, side) for row in rows]
            draw_medians(cost, lengths, spreads, way, memory=side == "cached")
        longer.set(
            title=fitted(_how_much_longer(rows[-1])),
            ylabel="a sliding window takes so many times\nas much as cached evaluation, log scale",
        )
        sliding, cached = (_milliseconds(rows[-1], side)["median"] for side in WAYS)
        cost.set(
            title=fitted(
                f"Attention length {lengths[-1]:,}: a token takes {cached:,.1f} ms\n"
                f"by cached evaluation, {sliding:,.0f} ms by sliding window"
            ),
            ylabel=f"milliseconds to score a token, log scale\n{LOWER}",
        )
        for axes in (longer, cost):
            axes.set(xscale="log", yscale="log", xlabel=f"attention length, tokens, log scale\n({MEDIANS})")
            with_commas(axes.yaxis)
            ticks_at(axes, [length for length in lengths if length in SHOWN] or lengths)
        longer.legend()
        cost.legend(loc="center left", bbox_to_anchor=(0, 0.4))  # between both lines
    return Picture(figure, _in_words(data))


def _how_much_longer(row: Data) -> str:
    """Say how often as long a window takes at least: by the median of the ratios and the ratio of medians."""
    sliding, cached = (_milliseconds(row, side)["median"] for side in WAYS)
    least = int(min(row["ratio"]["median"], sliding / cached))
    size = max(10 ** (len(str(least)) - 2), 1)
    return (
        f"Attention length {row['attention_len']:,}: a sliding window takes\n"
        f"more than {least // size * size:,} times as long as cached evaluation"
    )


def _milliseconds(row: Data, side: str) -> Data:
    """Return median and quartiles of a token's time."""
    spread = row["microseconds_per_token"][side]
    return {"median": spread["median"] / 1000, "quartiles": [end / 1000 for end in spread["quartiles"]]}


def draw_medians(
    axes: Axes,
    x: Sequence[int],
    spreads: Sequence[Data],
    way: tuple[str, str, str],
    *,
    memory: bool = True,
    **style: Any,
) -> None:
    """Draw a line through medians, with a bar from quartile to quartile; hollow marks without memory."""
    label, line, colour = way
    middles = [one["median"] for one in spreads]
    bars = [[abs(one["median"] - one["quartiles"][end]) for one in spreads] for end in (0, 1)]
    style = {"capsize": 3, "elinewidth": 1, "mfc": colour if memory else "white", **style}
    axes.errorbar(x, middles, bars, fmt=line, color=colour, label=label, **style)


def _in_words(data: Data) -> str:
    """Return the numbers of both panels, and how their ratio differs from that of the operations."""
    alt = []
    for row in data["lengths"]:
        ratio, times = row["ratio"], row["microseconds_per_token"]
        low, high = (f"{end:,.0f}" for end in ratio["quartiles"])
        paper = f", the paper {row['paper']:,}" if row["paper"] else ""
        alt.append(
            f"at {row['attention_len']:,}, time {ratio['median']:,.0f} (quartiles {low} and {high}), "
            f"operations {row['counted']['computed']:,.0f}{paper}, "
            f"from {times['sliding']['median']:,.0f} and {times['cached']['median']:,.0f} microseconds"
        )
    rate = {side: count / 1e9 for side, count in row["operations_per_second"].items()}
    share = ratio["median"] / row["counted"]["computed"]
    return (
        "How much more a sliding window takes to score one token than cached evaluation, by attention "
        f"length: {'; '.join(alt)}. At {row['attention_len']:,} the time's ratio is {share:.0%} of the "
        "operations': "
        f"a window is computed at {rate['sliding']:,.0f} billion operations a second, "
        f"a segment with its memory at {rate['cached']:,.0f}. Equal attention is not equal answer: "
        f"a window would need {row['exact_window']:,} tokens to give Transformer-XL's where each query sees "
        f"{row['attention_len']:,} keys in each of {data['n_layer']} layers."
    )
