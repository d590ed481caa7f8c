"""Positions that came after: what memory brings to each kind, and two repairs."""

from typing import Any

from matplotlib.axes import Axes

from minitxl.figures.marks import (
    DOTS_AND_BAR,
    HOLLOW,
    LINE_AND_BAND,
    End,
    counted,
    seed_band,
    seeds_and_mean,
    write_ends,
)
from minitxl.figures.picture import BITS, HELPS, LOWER, Data, Picture, drawing, fitted, is_narrow, panels
from minitxl.figures.systems import SYSTEMS

WIDTHS = {"none": 5}
"""Of a line that another one covers, in points: it is seen on both sides of it."""


def later_positions(data: Data) -> Picture:
    """Draw each kind of positions without and with memory, seed by seed, and loss by memory at evaluation."""
    systems, gains = data["systems"], data["gains"]
    most_first = sorted(gains, key=lambda kind: -gains[kind]["memory"]["mean"])
    models = {kind: SYSTEMS[f"{kind}_memory"] for kind in most_first}
    helped = [one.positions for kind, one in models.items() if min(gains[kind]["memory"]["seeds"]) > 0]
    hurt = [kind for kind, gain in gains.items() if max(gain["memory"]["seeds"]) < 0]
    others = "\nand hurts the others" if helped and len(helped) + len(hurt) == len(gains) else ""
    worst = min(gains, key=lambda kind: float(gains[kind]["four_times_the_memory"]["mean"]))
    with drawing(10, 4.6) as figure:
        brings, read = panels(figure, 2, ratios=[0.75, 1], height=3.9)
        for place, kind in enumerate(models):
            colour, saved = models[kind].colour, gains[kind]["memory"]
            seeds_and_mean(brings, place, saved, colour)
        brings.axvline(0, color="black", lw=1, ls=":")
        brings.set_yticks(range(len(gains)), [one.positions for one in models.values()])
        brings.set_ylim(len(gains) - 0.4, -0.6)
        brings.set(
            title=fitted(
                f"In every seed memory helps\n{', '.join(helped)}{others}"
                if helped
                else "What memory brings in training"
            ),
            xlabel=fitted(
                f"{BITS} saved by training and\nreading with {data['mem_len']} characters of memory\n"
                f"({DOTS_AND_BAR}; {HELPS})"
            ),
            ylabel="positions",
        )
        ends = list[End]()
        for kind in gains:
            rows = systems[f"{kind}_memory"]["by_memory"]
            means = [row["bits"]["mean"] for row in rows]
            one = models[kind]
            read.plot(range(len(rows)), means, **one.look(), lw=WIDTHS.get(kind, 2), ms=6)
            ends.append((one.name, one.colour, right := len(rows) - 1, means[-1]))
        for kind in gains:
            without = systems[f"{kind}_memory"]["by_memory"][0]["bits"]["mean"]
            read.plot(0, without, models[kind].marker, color=models[kind].colour, ms=6, **HOLLOW)
        read.margins(y=0.1)
        read.set_xticks(range(len(rows)), [f"{row['mem_len']:,}" for row in rows])
        read.set(
            title=fitted(f"Four times the memory of training\nhurts {models[worst].positions} most"),
            xlabel=fitted(
                "memory at evaluation, characters; 0, then log scale\n"
                f"(every model trained with {data['mem_len']};\nhollow: no memory)"
            ),
            ylabel=f"test {BITS}, mean of seeds\n{LOWER}",
            xlim=(-0.2, right + (2.8 if is_narrow() else 1.75)),
        )
        write_ends(read, ends, at=right + 0.2, least=0.085 if is_narrow() else 0.06)
    lengths = [row["mem_len"] for row in rows]
    words = "; ".join(
        f"{models[kind].positions} {systems[kind]['by_memory'][0]['bits']['mean']:.2f} without, "
        + ", ".join(f"{row['bits']['mean']:.2f}" for row in systems[f"{kind}_memory"]["by_memory"])
        for kind in gains
    )
    return Picture(
        figure,
        f"Test {BITS} of models trained and read without memory, and of those trained with "
        f"{data['mem_len']} characters of it, read with {lengths}, mean of "
        f"{len(gains['xl']['memory']['seeds'])} seeds: {words}.",
    )


T5, ROTARY = SYSTEMS["t5_memory"], SYSTEMS["rotary_memory"]
Look = tuple[str, str, tuple[Any, str]]
"""Name, colour, and line and marker."""
BIASES: dict[str, Look] = {
    "t5_memory": (f"{T5.name},\nas published", T5.colour, ("--", ">")),
    "xl_memory": (SYSTEMS["xl_memory"].name, SYSTEMS["xl_memory"].colour, ("-", "o")),
    "t5_scaled_memory": (f"{T5.name},\ntrained with its\nbiases × {{factor:g}}", T5.shades(2)[1], ("-", "D")),
}
WAYS: dict[str, Look] = {
    way: (f"{ROTARY.name},\n{words}", ROTARY.colour, look)
    for way, words, look in (
        ("as_trained", "as trained", (ROTARY.line, ROTARY.marker)),
        ("interpolated", "interpolated", (":", "s")),
        ("base_raised", "base raised", ("-.", "D")),
        ("clamped", "distances clamped", ("--", "o")),
    )
}
"""Name, colour, line and marker of each system and each way of the experiment ``position_repairs``.

A system that is trained otherwise has a shade of the system's own colour. One model that is read in four ways
has one colour: lines and marks tell the ways apart.
"""


def position_repairs(data: Data) -> Picture:
    """Draw bits by memory at evaluation: T5 with and without its table multiplied; rotary, read in four ways.

    Both panels have one scale; a close-up in the first tells the systems apart that lie near each other.
    """
    said, labels, seeds = [], [], len(data["memory_gain"]["t5"]["seeds"])
    with drawing(10, 5.4) as figure:
        shown = panels(figure, 2, height=4.4, sharey=True)
        for axes, looks, series in zip(shown, (BIASES, WAYS), (data["systems"], data["rotary"]), strict=True):
            ends = list[End]()
            for key, (name, colour, look) in looks.items():
                means = _by_memory(axes, series[key], colour, look)
                ends.append((name.format(factor=data["factor"]), colour, len(means) - 1, means[-1]))
                said.append(f"{' '.join(ends[-1][0].split())} {', '.join(f'{bits:.2f}' for bits in means)}")
            lengths = [row["mem_len"] for row in series[key] if row["mem_len"]]
            axes.set_xticks(range(len(lengths)), [f"{length:,}" for length in lengths])
            axes.set_xlabel(
                "characters of memory at evaluation, log scale;\n"
                f"trained with {data['mem_len']} ({counted(LINE_AND_BAND, seeds)})"
            )
            axes.set_xlim(-0.2, len(lengths) - 1 + 0.85)
            labels.append((axes, ends))
        low, high = shown[0].get_ylim()
        shown[0].set_ylim(low, high + 0.15 * (high - low))  # room above the lines for the close-up
        for axes, ends in labels:  # both panels have their scale by now
            write_ends(axes, ends, at=len(lengths) - 0.8, least=0.12)
        _close_up(shown[0], data["systems"])
        shown[0].set(title=fitted(_scaled(data)), ylabel=f"test {BITS}\n{LOWER}")
        shown[1].set(
            title=fitted(_repaired(data["rotary"])),
            xlabel=f"{shown[1].get_xlabel()}\n"
            "interpolated: all rotations slowed; base raised: slow ones most;\n"
            "clamped: longer distances count as the longest of training",
        )
    return Picture(
        figure, f"Test {BITS} with {lengths} characters of memory, mean of {seeds} seeds: {'; '.join(said)}."
    )


def _scaled(data: Data) -> str:
    """Say the bits of T5 with multiplied biases, if with the memory of training it is ahead in every seed."""
    if min(data["scaled_before_xl"][f"{data['mem_len']}"]["seeds"]) <= 0:
        return "T5 and Transformer-XL"
    t5, xl = (
        next(row["bits"]["mean"] for row in data["systems"][key] if row["mem_len"] == data["mem_len"])
        for key in ("t5_scaled_memory", "xl_memory")
    )
    return (
        f"With biases × {data['factor']:g} and a memory of {data['mem_len']}, T5 has\n"
        f"{t5:.2f} bits, and Transformer-XL {xl:.2f}"
    )


def _repaired(rotary: Data) -> str:
    """Say what a longer memory costs with distances clamped, if that is least with each longer memory."""
    lengths = [row["mem_len"] for row in rotary["clamped"]]
    bits = {way: [row["bits"]["mean"] for row in rows] for way, rows in rotary.items()}
    if any(min(of[place] for of in bits.values()) < bits["clamped"][place] for place in range(len(lengths))):
        return "Rotary in four ways"
    costs = {way: of[-1] - of[0] for way, of in bits.items()}
    others = min(cost for way, cost in costs.items() if way != "clamped")
    return (
        f"A memory of {lengths[-1]} instead of {lengths[0]} costs rotary\n"
        f"{costs['clamped']:.2f} bits with distances clamped, else {others:.2f} or more"
    )


def _by_memory(axes: Axes, rows: list[Data], colour: str, look: tuple[Any, str]) -> list[float]:
    """Draw mean and range of the seeds of the rows that have a memory, and return the means."""
    line, marker = look
    bits = [row["bits"] for row in rows if row["mem_len"]]
    style: dict[str, Any] = {"color": colour, "ls": line, "marker": marker, "ms": 6}
    seed_band(axes, range(len(bits)), bits, **style)
    return [one["mean"] for one in bits]


def _close_up(axes: Axes, systems: Data) -> None:
    """Draw Transformer-XL and the multiplied T5 once more, in the upper part of the axes, enlarged."""
    inset = axes.inset_axes((0.17, 0.72, 0.46, 0.22))
    for key in ("xl_memory", "t5_scaled_memory"):
        _, colour, look = BIASES[key]
        _by_memory(inset, systems[key], colour, look)
    lengths = [row["mem_len"] for row in systems[key] if row["mem_len"]]
    inset.set_xticks(range(len(lengths)), [f"{length:,}" for length in lengths])
    inset.set_title("close-up: the two lowest", fontweight="normal")
