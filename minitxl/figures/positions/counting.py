"""Absolute positions and memory: accuracy beyond the positions of training, and loss by offset."""

from typing import Any

from minitxl.figures.marks import LINE_AND_BAND, counted, in_per_cent, seed_band, signed
from minitxl.figures.picture import BITS, Data, Picture, drawing, fitted, headline, is_narrow, legend_outside
from minitxl.figures.systems import SYSTEMS, named

COUNTED = {
    "xl": (SYSTEMS["xl_memory"], "", "-"),
    "circle": (SYSTEMS["absolute_memory"], "counted in a circle", "-"),
    "fast_hands": (SYSTEMS["absolute_memory"], "counted on, fast sinusoids only", "--"),
    "counted_on": (SYSTEMS["absolute_memory"], "counted on", "-"),
    "restarted": (SYSTEMS["absolute_memory"], "restarted in each segment", "-."),
}
"""Each system of the experiment ``absolute_positions``, how its positions are given, and its line.

The panels stand in this order.
"""


def absolute_positions(data: Data) -> Picture:
    """Draw accuracy by segment, a panel a system: mean and range of the seeds; training is shaded."""
    trained, words = data["trained_segments"], []
    seeds = len(data["copiers"]["xl"]["by_segment"][0]["seeds"])
    with drawing(9, 6.4 if is_narrow() else 5.4) as figure:
        shown = figure.subplots(len(COUNTED), 1, sharex=True, sharey=True)
        for axes, (name, (system, how, line)) in zip(shown, COUNTED.items(), strict=True):
            rows = data["copiers"][name]["by_segment"]
            axes.axvspan(0.5, trained + 0.5, color="#E4E4E4", lw=0)
            axes.axhline(data["chance"], color="black", lw=1, ls=":")
            seed_band(axes, range(1, len(rows) + 1), rows, line, color=system.colour)
            axes.set_yticks([0, 1])
            in_per_cent(axes.yaxis)
            mean = data["copiers"][name]["beyond_training"]["mean"]["mean"]
            axes.annotate(
                f"{_written(system.name, how)}\nmean {mean:.0%}".replace("%", " %"), (1.01, 0.5),
                xycoords="axes fraction", va="center", color=system.ink, annotation_clip=False,
            )  # fmt: skip
        for name, (system, how, _) in COUNTED.items():
            label = ", ".join(filter(None, (system.name, how)))
            rows, beyond = (data["copiers"][name][key] for key in ("by_segment", "beyond_training"))
            words.append(
                f"{label}: {100 * rows[trained - 1]['mean']:.0f} % in segment {trained}, then "
                f"{100 * min(beyond['worst']['seeds']):.0f} to {100 * max(beyond['best']['seeds']):.0f} %"
            )
        style: dict[str, Any] = {"va": "bottom", "color": "#404040"}
        training = "training" if is_narrow() else f"segments 1 to {trained}: training"
        shown[0].annotate(f"← {training}", (trained + 0.8, 0.3), **style)
        shown[-1].annotate(
            f"dotted: chance, {100 * data['chance']:.0f} %",
            (len(rows) - 2, data["chance"] + 0.06),
            ha="right",
            **style,
        )
        shown[-1].set(
            xlabel=fitted(
                f"segment of the stream ({counted(LINE_AND_BAND, seeds)})\n"
                "positions counted on: from segment to segment; fast sinusoids: without the slow ones;\n"
                "in a circle: from 0 again after as many as a query sees; restarted: from 0 in each segment"
            ),
            ylim=(0, 1.1),
            xlim=(0.5, len(rows) + 0.5),
        )
        figure.supylabel(f"right copies of the token {data['distance']} back, %", fontsize=10)
        headline(figure, _finding(data))
    return Picture(
        figure,
        f"Accuracy of copying the token {data['distance']} back, by segment of the stream, {seeds} "
        f"seed{'s' * (seeds > 1)}; training has segments 1 to {trained}. {'; '.join(words)}.",
    )


def _written(name: str, how: str) -> str:
    """Return the name at a panel, on two lines where positions are given in a way of their own."""
    return f"{name},\n{how.replace(' in each segment', '').removesuffix(' only')}" if how else name


def _finding(data: Data) -> str:
    """Return which systems stay right in every later segment of every seed."""
    right = {
        name for name in COUNTED if min(data["copiers"][name]["beyond_training"]["worst"]["seeds"]) > 0.995
    }
    if right == {"xl", "circle"}:
        others = [
            100 * data["copiers"][name]["beyond_training"]["mean"]["mean"] for name in COUNTED.keys() - right
        ]
        return (
            "Beyond training, Transformer-XL and positions counted in a circle\n"
            f"copy 100 % right, and the others {min(others):.0f} to {max(others):.0f} %"
        )
    return "Copying in segments that training did not reach"


def memory_by_offset(data: Data) -> Picture:
    """Draw the bits that memory saves at each offset: ``curves[name]`` has a summary for each of them."""
    with drawing(7, 3.6) as figure:
        axes = figure.subplots()
        for name, rows in data["curves"].items():
            system = named(name)
            look = system.look() if system else {"color": "black"}
            seed_band(axes, range(len(rows)), rows, **look, label=name, lw=1.5)
        axes.axhline(0, color="black", lw=1)
        for words, height, side in (("memory helps", 0.02, "bottom"), ("memory hurts", -0.02, "top")):
            axes.annotate(words, (len(rows) - 0.4, height), ha="right", va=side, color="#606060")
        axes.set(
            xlabel="offset of the query in its segment",
            ylabel=f"{BITS} saved by memory",
            xlim=(-0.5, len(rows) - 0.5),
        )
        legend_outside(figure, ncols=2)
    words = "; ".join(
        f"{name}: {signed(rows[0]['mean'], 2)} at offset 0, {signed(rows[1]['mean'], 2)} at 1, "
        f"{signed(rows[-1]['mean'], 2)} at {len(rows) - 1}"
        for name, rows in data["curves"].items()
    )
    return Picture(figure, f"Bits per character that memory saves, by offset, mean of the seeds. {words}.")
