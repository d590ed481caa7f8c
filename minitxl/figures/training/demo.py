"""The demo's result: how its three models learned, and what reading with a memory costs."""

from typing import Any

from matplotlib.axes import Axes

from minitxl.figures.marks import ticks_at, with_commas, write_ends
from minitxl.figures.picture import (
    BITS,
    LEFT,
    LOWER,
    Data,
    Picture,
    drawing,
    fitted,
    panels,
)
from minitxl.figures.systems import SYSTEMS
from minitxl.figures.training.curves import ONE_CHANGE_APART

SLIDING, CACHED = "sliding window", "cached"


def demo(data: Data) -> Picture:
    """Draw how all three models learned, and bits against the cost of a character at equal context."""
    systems = data["systems"]
    curves = {name: systems[name]["validation"] for name in ONE_CHANGE_APART}
    with drawing(10, 4.5) as figure:
        learned, cost = panels(figure, 2, height=3.7)
        for name, system in ONE_CHANGE_APART.items():
            curve = curves[name]
            learned.plot(curve["step"], curve["bits"], **system.look())
        vanilla, relative, xl = (curve["bits"][-1] for curve in curves.values())
        positions_save_most = vanilla - relative > abs(relative - xl)
        title = "In this run, on the validation text,\nrelative positions save more bits than memory"
        learned.set(
            title=fitted(title if positions_save_most else "While training"),
            xlabel="training step",
            ylabel=f"{BITS} of the validation text\n{LOWER}",
        )
        with_commas(learned.xaxis)
        said = _bits_and_cost(cost, data)
        ends = {name: (curve["step"][-1], curve["bits"][-1]) for name, curve in curves.items()}
        last = max(step for step, _ in ends.values())
        learned.set_xlim(0, 1.9 * last)
        learned.set_xticks([step for step in learned.get_xticks() if step <= last])
        names = [(one.name, one.colour, *ends[name]) for name, one in ONE_CHANGE_APART.items()]
        write_ends(learned, names, at=1.05 * last)
    learned_alt = ", ".join(
        f"{ONE_CHANGE_APART[name].name} {systems[name]['validation']['bits'][-1]:.2f}" for name in systems
    )
    return Picture(figure, f"Two panels. Validation {BITS} after training: {learned_alt}. {said}")


def bits_and_cost(data: Data) -> Picture:
    """Draw what scoring a character costs the model with memory by both ways that give it equal context."""
    cached = max(
        (row for row in data["evaluation"] if row["evaluation"] == CACHED),
        key=lambda row: row["attention_len"],
    )
    (sliding,) = (
        row
        for row in data["evaluation"]
        if row["evaluation"] == SLIDING
        and (row["system"], row["attention_len"]) == (cached["system"], cached["attention_len"])
    )
    ways = {"sliding\nwindow": sliding, "cached\nevaluation": cached}
    cost = {way: row["microseconds_per_token"] for way, row in ways.items()}
    before, after = cost.values()
    bits = {way: f"{row['bits']:.2f}" for way, row in ways.items()}
    same = len(set(bits.values())) == 1
    alike = "Same model, context and bits" if same else "Same model and context, other bits"
    takes = f"takes 1/{before / after:.0f} of the time" if before > after else "takes no less time"
    colour = SYSTEMS["xl_memory"].colour
    with drawing(6.4, 2.5) as figure:
        axes = figure.subplots()
        for place, (way, row) in enumerate(ways.items()):
            fill = "white" if row["evaluation"] == SLIDING else colour
            axes.barh(place, cost[way], 0.5, color=fill, edgecolor=colour, lw=2)
            axes.plot(row["microseconds_range"], [place, place], color="black", lw=1.2)
            axes.annotate(
                f"{cost[way]:,.0f} µs, {bits[way]} bits",
                (max(row["microseconds_range"]) if place else 0, place),
                (8, 0),
                textcoords="offset points",
                va="center",
            )
        axes.set_yticks(range(len(ways)), list(ways))
        axes.set(
            title=fitted(f"{alike}:\ncached evaluation {takes}"),
            xlabel="microseconds to score a character\n"
            f"with {cached['attention_len']} characters of context\n"
            "(line: fastest to slowest run; left is better)",
            ylim=(1.5, -0.5),
        )
    alt = (
        f"Scoring a character with {cached['attention_len']} characters of context: {before:,.0f} "
        f"microseconds by a sliding window, {after:,.0f} by cached evaluation, which reads on with memory, "
        f"by the same model; test {BITS} {sliding['bits']:.2f} and {cached['bits']:.2f}."
    )
    return Picture(figure, alt)


def _bits_and_cost(axes: Axes, data: Data) -> str:
    """Draw the ways that give every prediction as much context, and say them."""
    rows = [row for row in data["evaluation"] if row["evaluation"] in (SLIDING, CACHED)]
    cached = [row for row in rows if row["evaluation"] == CACHED]
    alt = []
    for name, system in ONE_CHANGE_APART.items():
        for row in (row for row in rows if row["system"] == name):
            time, bits, length = row["microseconds_per_token"], row["bits"], row["attention_len"]
            look: dict[str, Any] = {"color": system.colour, "ms": 8}
            if row["evaluation"] == CACHED:  # a white edge parts discs that cover each other
                look |= {"mec": "white", "ms": 9}
            else:
                look |= {"mfc": "white"}
            axes.plot(time, bits, system.marker, **look)
            if row["evaluation"] == SLIDING:
                words = f"{system.name},\nwindow of {length}"
                _label(axes, words, time, bits, system.ink, above=name == "xl")
            way = row["evaluation"] if row["evaluation"] == SLIDING else "cached evaluation"
            alt.append(f"{system.name} by {way} of {length}: {bits:.2f} at {time:,.0f}")
    times = [row["microseconds_per_token"] for row in cached]
    bits = min(row["bits"] for row in cached)
    lengths = " and ".join(str(length) for length in sorted(row["attention_len"] for row in cached))
    xl = SYSTEMS["xl_memory"]
    words = f"{xl.name},\ncached, {lengths}"
    _label(axes, words, sum(times) / len(times), bits, xl.ink, above=True)
    no_fewer = bits > min(row["bits"] for row in rows if row not in cached)
    cheaper = max(times) < min(row["microseconds_per_token"] for row in rows if row not in cached)
    axes.set(
        title=fitted(_what_memory_saves(cheaper, no_fewer)),
        xlabel=f"microseconds to score a character, log scale\n{LEFT}",
        ylabel=f"{BITS} of the test text\n{LOWER}",
        xscale="log",
    )
    axes.margins(x=0.34, y=0.32)
    low, high = axes.get_xlim()
    ticks_at(axes, [time for time in (50, 100, 200, 500, 1000, 2000, 5000) if low < time < high])
    return (
        f"Test {BITS} and microseconds a character where every prediction has as many characters of "
        f"context: {'; '.join(alt)}."
    )


def _what_memory_saves(cheaper: bool, no_fewer: bool) -> str:
    """Say whether reading with memory takes the least time, and if something else has fewer bits."""
    if not cheaper:
        return "Bits against cost"
    other = ",\nand a sliding window has the fewest bits" if no_fewer else ""
    return f"In this run, with equal context, memory saves time{other}"


def _label(axes: Axes, text: str, x: float, y: float, ink: str, *, above: bool = False) -> None:
    """Write a text below a point or above it."""
    style: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "color": ink}
    axes.annotate(text, (x, y), (0, 7 if above else -7), va="bottom" if above else "top", **style)
