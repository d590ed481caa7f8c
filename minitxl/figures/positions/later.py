"""Positions that came after: what memory brings to each kind, and what each adds to a score by distance."""

from collections.abc import Sequence
from typing import Any

from minitxl.figures.marks import box, hide_frame
from minitxl.figures.picture import BITS, BLUE, GREEN, ORANGE, PURPLE, Data, Picture, drawing

NAMES = {
    "none": "none",
    "absolute": "absolute",
    "shaw": "Shaw",
    "xl": "XL",
    "rotary": "rotary",
    "alibi": "ALiBi",
    "t5": "T5",
}
LINES = {
    "none": ("#808080", "x:"),
    "absolute": ("#606060", "+--"),
    "shaw": (PURPLE, "s:"),
    "xl": (ORANGE, "o-"),
    "rotary": (BLUE, "^-"),
    "alibi": (GREEN, "D-."),
    "t5": ("#000000", "v--"),
}


def later_positions(data: Data) -> Picture:
    """Draw what memory brings to each kind of positions, seed by seed, and loss by memory when read."""
    systems, gains = data["systems"], data["gains"]
    helped = [NAMES[kind] for kind, gain in gains.items() if min(gain["memory"]["seeds"]) > 0]
    worst = min(gains, key=lambda kind: float(gains[kind]["four_times_the_memory"]["mean"]))
    with drawing(10.5, 4.2) as figure:
        brings, read = figure.subplots(1, 2, width_ratios=[0.85, 1])
        for place, (kind, gain) in enumerate(gains.items()):
            colour, line = LINES[kind]
            seeds = gain["memory"]["seeds"]
            brings.plot(seeds, [place] * len(seeds), line[0], color=colour, ms=7, mew=1.5)
        brings.axvline(0, color="#808080", lw=0.8)
        brings.set_yticks(range(len(gains)), [NAMES[kind] for kind in gains])
        brings.invert_yaxis()
        brings.set(
            title=f"Memory helps {', '.join(helped) or 'none'} in every seed",
            xlabel=f"{BITS} saved by memory, a mark a seed",
        )
        ends = {}
        for kind in gains:
            rows = systems[f"{kind}_memory"]["by_memory"]
            means = [row["bits"]["mean"] for row in rows]
            read.plot(range(len(rows)), means, LINES[kind][1], color=LINES[kind][0], ms=6)
            ends[kind] = means[-1]
        right = len(rows) - 1
        for kind, height in _apart(ends, 0.06 * (max(ends.values()) - min(ends.values()))).items():
            read.text(right + 0.1, height, NAMES[kind], color=LINES[kind][0], va="center", fontsize=9)
        read.set_xticks(range(len(rows)), [f"{row['mem_len']:,}" for row in rows])
        read.set(
            title=f"Memory longer than in training harms {NAMES[worst]} most",
            xlabel=f"memory at test, tokens; in training {data['mem_len']}",
            ylabel=f"test {BITS}, mean of seeds",
            xlim=(-0.2, right + 0.75),
        )
    lengths = [row["mem_len"] for row in rows]
    words = "; ".join(
        f"{NAMES[kind]} {gain['memory']['mean']:+.3f}, "
        + ", ".join(f"{row['bits']['mean']:.2f}" for row in systems[f"{kind}_memory"]["by_memory"])
        for kind, gain in gains.items()
    )
    return Picture(
        figure,
        f"Test {BITS} that memory saves, and those of the models with memory at {lengths} tokens of it, "
        f"mean of {len(seeds)} seeds: {words}.",
    )


def _apart(heights: dict[str, float], least: float) -> dict[str, float]:
    """Move labels up until each stands ``least`` above the one below."""
    placed: dict[str, float] = {}
    below = float("-inf")
    for name in sorted(heights, key=lambda name: heights[name]):
        below = placed[name] = max(heights[name], below + least)
    return placed


def by_distance(data: Data) -> Picture:
    """Draw what a kind of positions makes of equal contents by distance: ``added`` over 0, 1, 2 ….

    ``title`` says which kind and head; ``chosen`` is the distance that is marked.
    """
    added: Sequence[Any] = data["added"]
    chosen = data["chosen"]
    with drawing(8, 3.2) as figure:
        axes = figure.subplots()
        axes.plot(range(len(added)), added, "-", color=BLUE)
        axes.plot(chosen, added[chosen], "o", ms=9, color=BLUE)
        axes.axhline(0, color="#808080", lw=0.8)
        axes.annotate(f"{added[chosen]:.2f}", (chosen, added[chosen]), (8, 8), textcoords="offset points")
        axes.axvspan(data["trained"], len(added) - 1, color="#E4E4E4", lw=0, zorder=0)
        axes.text(
            data["trained"] + 1, axes.get_ylim()[0], " farther than in training", va="bottom", fontsize=9
        )
        axes.set(title=data["title"], xlabel="distance i - j, tokens", ylabel="score, nats")
    return Picture(
        figure,
        f"{data['title']}: {added[0]:.2f} at distance 0, {added[chosen]:.2f} at {chosen}, "
        f"{added[-1]:.2f} at {len(added) - 1}.",
    )


def compressive(data: Data) -> Picture:
    """Draw ``compressed`` squares of ``rate`` states each, then ``memory`` states, then a ``segment``."""
    rate, parts = data["rate"], ("compressed", "memory", "segment")
    looks = {"compressed": "#E9C9DD", "memory": "#FDD0A2", "segment": "#A6CEE3"}
    x = 0.0
    with drawing(9, 1.6) as figure:
        axes = figure.subplots()
        for part in parts:
            axes.text(x, 1.15, part, fontsize=9)
            for _ in range(data[part]):
                box(axes, x, 0, str(rate) if part == "compressed" else "1", looks[part])
                x += 1
            x += 0.5
        axes.set(xlim=(-0.2, x), ylim=(-0.2, 1.7), xticks=[], yticks=[])
        hide_frame(axes)
    old = rate * data["compressed"]
    return Picture(
        figure,
        f"{data['compressed']} compressed states stand for {old} old tokens; then {data['memory']} states of "
        f"memory and {data['segment']} of the segment.",
    )
