"""Positions that came after: what memory brings to each kind, and two repairs."""

from matplotlib.axes import Axes

from minitxl.figures.picture import BITS, BLUE, GREEN, ORANGE, PURPLE, Data, Picture, drawing, panels

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
    """Draw each kind of positions without and with memory, seed by seed, and loss by memory when read."""
    systems, gains = data["systems"], data["gains"]
    helped = [NAMES[kind] for kind, gain in gains.items() if min(gain["memory"]["seeds"]) > 0]
    worst = min(gains, key=lambda kind: float(gains[kind]["four_times_the_memory"]["mean"]))
    with drawing(10.5, 4.4) as figure:
        brings, read = panels(figure, 2, ratios=[0.9, 1], height=3.4)
        for place, kind in enumerate(gains):
            colour, saved = LINES[kind][0], gains[kind]["memory"]
            brings.plot(saved["seeds"], [place] * len(saved["seeds"]), "o", color=colour, mfc="white", ms=6)
            brings.plot(saved["mean"], place, "|", color=colour, ms=18, mew=2.5)
        brings.axvline(0, color="black", lw=1, ls=":")
        brings.set_yticks(range(len(gains)), [NAMES[kind] for kind in gains])
        brings.invert_yaxis()
        brings.set(
            title=f"Memory helps in every seed:\n{', '.join(helped) or 'none'}",
            xlabel=f"{BITS} that memory saves\nwith the same seed; a bar is the mean",
        )
        ends = {}
        for kind in gains:
            rows = systems[f"{kind}_memory"]["by_memory"]
            means = [row["bits"]["mean"] for row in rows]
            read.plot(range(len(rows)), means, LINES[kind][1], color=LINES[kind][0], ms=6)
            ends[kind] = means[-1]
        right = len(rows) - 1
        end_labels(
            read, right, {kind: (NAMES[kind], LINES[kind][0], height) for kind, height in ends.items()}
        )
        read.set_xticks(range(len(rows)), [f"{row['mem_len']:,}" for row in rows])
        read.set(
            title=f"A memory longer than in training\nharms {NAMES[worst]} most",
            xlabel=f"memory at test, tokens; trained with {data['mem_len']}",
            ylabel=f"test {BITS}, mean of seeds",
            xlim=(-0.2, right + 0.75),
        )
    lengths = [row["mem_len"] for row in rows]
    words = "; ".join(
        f"{NAMES[kind]} {systems[kind]['by_memory'][0]['bits']['mean']:.2f} without, "
        + ", ".join(f"{row['bits']['mean']:.2f}" for row in systems[f"{kind}_memory"]["by_memory"])
        for kind in gains
    )
    return Picture(
        figure,
        f"Test {BITS} of models trained and read without memory, and of those trained with "
        f"{data['mem_len']} tokens of it, read with {lengths}, mean of "
        f"{len(gains['xl']['memory']['seeds'])} seeds: {words}.",
    )


SYSTEMS = {
    "t5_memory": ("T5 as published", "#000000", "v--"),
    "xl_memory": ("XL", ORANGE, "o-"),
    "t5_scaled_memory": ("T5, table × {factor:g}", GREEN, "D-"),
}
WAYS = {
    "interpolated": ("interpolated", PURPLE, "s:"),
    "as_trained": ("as trained", BLUE, "^-"),
    "base_raised": ("base raised", GREEN, "D-."),
    "clamped": ("clamped", ORANGE, "o--"),
}
"""Name, colour and line of each system and each way of the experiment ``position_repairs``."""


def position_repairs(data: Data) -> Picture:
    """Draw bits by memory when read: T5 with and without its table multiplied; rotary, read in four ways."""
    said = []
    with drawing(10.5, 4.2) as figure:
        shown = panels(figure, 2, height=3.4)
        for axes, looks, series in zip(
            shown, (SYSTEMS, WAYS), (data["systems"], data["rotary"]), strict=True
        ):
            ends = {}
            for key, (name, colour, line) in looks.items():
                rows = [row for row in series[key] if row["mem_len"]]
                means = [row["bits"]["mean"] for row in rows]
                seeds = list(zip(*(row["bits"]["seeds"] for row in rows), strict=True))
                axes.plot(range(len(rows)), means, line, color=colour, ms=6)
                for one in seeds:
                    axes.plot(range(len(rows)), one, line[0], color=colour, ms=3, alpha=0.6)
                ends[key] = (name.format(factor=data["factor"]), colour, means[-1])
                said.append(f"{ends[key][0]} {', '.join(f'{bits:.2f}' for bits in means)}")
            lengths = [row["mem_len"] for row in rows]
            axes.set_xticks(range(len(rows)), [f"{length:,}" for length in lengths])
            axes.set(xlabel=f"memory at test, tokens; trained with {data['mem_len']}")
            axes.set_xlim(-0.2, len(rows) - 1 + 1.1)
            end_labels(axes, len(rows) - 1, ends)
        ahead = min(data["scaled_before_xl"][f"{data['mem_len']}"]["seeds"]) > 0
        best = {min(series, key=lambda way: series[way][place]["bits"]["mean"]) for place in (1, 2)}
        shown[0].set(title="Multiplied, T5's table keeps up with XL" if ahead else "T5 beside XL")
        shown[0].set(ylabel=f"test {BITS}")
        mended = best == {"clamped"}
        shown[1].set(title="Rotary reads on where distances are clamped" if mended else "Rotary in four ways")
    return Picture(
        figure,
        f"Test {BITS} with {lengths} tokens of memory, mean of {len(seeds)} seeds: {'; '.join(said)}.",
    )


def end_labels(axes: Axes, right: int, ends: dict[str, tuple[str, str, float]]) -> None:
    """Write each line's name behind its end; ``ends`` holds name, colour and height."""
    heights = {key: height for key, (_, _, height) in ends.items()}
    least = 0.06 * (max(heights.values()) - min(heights.values()))
    for key, height in _apart(heights, least).items():
        axes.text(right + 0.1, height, ends[key][0], color=ends[key][1], va="center", fontsize=9)


def _apart(heights: dict[str, float], least: float) -> dict[str, float]:
    """Move labels up until each stands ``least`` above the one below."""
    placed: dict[str, float] = {}
    below = float("-inf")
    for name in sorted(heights, key=lambda name: heights[name]):
        below = placed[name] = max(heights[name], below + least)
    return placed
