"""Measured times: a sliding window beside a memory (Table 9)."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from minitxl.figures.marks import ticks_at
from minitxl.figures.picture import Data, Picture, drawing, panels
from minitxl.figures.systems import SYSTEMS

SHOWN = (128, 512, 1800, 3800)
"""Attention lengths that the axis names."""
GREY = "#707070"
WAYS = {
    "sliding": (f"{SYSTEMS['absolute'].name}: sliding window", "s--", SYSTEMS["absolute"].colour),
    "cached": (f"{SYSTEMS['xl_memory'].name}: cached", "o-", SYSTEMS["xl_memory"].colour),
}


def evaluation_cost(data: Data) -> Picture:
    """Draw how much longer a sliding window takes, measured and counted, and the time of both."""
    rows = data["lengths"]
    lengths = [row["attention_len"] for row in rows]
    published = [row for row in rows if row["paper"]]
    with drawing(8.5, 3.6) as figure:
        longer, cost = panels(figure, 2)
        longer.plot(
            lengths, [row["counted"]["computed"] for row in rows], "--", color=GREY, label="operations"
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
            draw_medians(cost, lengths, [_milliseconds(row, side) for row in rows], way)
        longer.set(
            title="A sliding window costs many times as much",
            ylabel="sliding ÷ cached, times",
        )
        sliding, cached = (_milliseconds(rows[-1], side)["median"] for side in WAYS)
        cost.set(
            title=f"Attention length {lengths[-1]:,}: a token takes\n"
            f"{cached:,.1f} ms cached, {sliding:,.0f} ms by sliding window",
            ylabel="milliseconds to score a token",
        )
        for axes in (longer, cost):
            axes.set(xscale="log", yscale="log", xlabel="attention length, tokens")
            ticks_at(axes, [length for length in lengths if length in SHOWN] or lengths)
        longer.legend(fontsize=9)
        cost.legend(fontsize=9, loc="center left", bbox_to_anchor=(0, 0.4))  # between both lines
    return Picture(figure, _in_words(data))


def _milliseconds(row: Data, side: str) -> Data:
    """Return median and quartiles of a token's time."""
    spread = row["microseconds_per_token"][side]
    return {"median": spread["median"] / 1000, "quartiles": [end / 1000 for end in spread["quartiles"]]}


def draw_medians(
    axes: Axes, x: Sequence[int], spreads: Sequence[Data], way: tuple[str, str, str], **style: Any
) -> None:
    """Draw a line through medians, with a bar from quartile to quartile."""
    label, line, colour = way
    middles = [one["median"] for one in spreads]
    bars = [[abs(one["median"] - one["quartiles"][end]) for one in spreads] for end in (0, 1)]
    style = {"capsize": 3, "elinewidth": 1, **style}
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
        f"How much more a sliding window takes to score one token than a cached memory, by attention length: "
        f"{'; '.join(alt)}. At {row['attention_len']:,} the time's ratio is {share:.0%} of the operations': "
        f"a window is computed at {rate['sliding']:,.0f} billion operations a second, "
        f"a segment with its memory at {rate['cached']:,.0f}. Equal attention is not equal answer: "
        f"a window would need {row['exact_window']:,} tokens to give Transformer-XL's where each query sees "
        f"{row['attention_len']:,} keys in each of {data['n_layer']} layers."
    )
