"""A token's time and memory as sizes grow, measured and as counted."""

from matplotlib.axes import Axes

from minitxl.figures.marks import ticks_at
from minitxl.figures.picture import BLUE, ORANGE, Data, Picture, drawing

LABELS = {
    "attention": "tokens of a segment, without memory",
    "memory": "tokens of memory",
    "vocabulary": "words of the vocabulary",
    "layers": "layers",
}
COSTS = {
    "time": ("microseconds", "counted_kiloflops", "µs for a token"),
    "memory": ("kilobytes", "counted_kilobytes", "kB for a token"),
}


def cost_at_scale(data: Data) -> Picture:
    """Draw time above and memory below, a column a size; the counted line begins at the first measurement."""
    alt = []
    with drawing(12, 5.6) as figure:
        panels = figure.subplots(len(COSTS), len(data["sweeps"]), squeeze=False)
        for row, (cost, names) in zip(panels, COSTS.items(), strict=True):
            for axes, (sweep, rows) in zip(row, data["sweeps"].items(), strict=True):
                alt.append(_panel(axes, cost, LABELS[sweep], rows, names))
            row[0].set_ylabel(names[2])
        panels[0, 0].legend()
    return Picture(
        figure, f"A training step's time and memory for a token, measured and counted. {' '.join(alt)}"
    )


def _panel(axes: Axes, cost: str, label: str, rows: list[Data], names: tuple[str, str, str]) -> str:
    measured, counted, unit = names
    values = [row["value"] for row in rows]
    found = [row[measured]["median"] for row in rows]
    low, high = zip(*(row[measured]["quartiles"] for row in rows), strict=True)
    expected = [found[0] * row[counted] / rows[0][counted] for row in rows]
    axes.fill_between(values, low, high, color=ORANGE, alpha=0.3, lw=0)
    axes.plot(values, found, "o-", color=ORANGE, label="measured")
    axes.plot(values, expected, "--", color=BLUE, label="grows as counted")
    axes.set(xscale="log", yscale="log", xlabel=label)
    ticks_at(axes, values, rotation=45)
    over = rows[-1][f"{cost}_over_counted"]
    return (
        f"{label}, {unit}: {found[0]:,.3g} at {values[0]:,}, {found[-1]:,.3g} at {values[-1]:,}, "
        f"{over:.2f} times what is counted."
    )
