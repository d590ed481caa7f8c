"""The benchmark: this package beside its peers."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from minitxl.figures.marks import HOLLOW, ticks_at, with_commas
from minitxl.figures.picture import (
    HIGHER,
    LEFT,
    LOWER,
    RIGHT,
    Data,
    Picture,
    drawing,
    fitted,
    headline,
    is_narrow,
    legend_outside,
    panels,
)
from minitxl.figures.systems import PEERS

SIZES = {
    "S": "4 layers of width 256",
    "M3": "3 layers of width 512",
    "M": "12 layers of width 512",
    "M16": "12 layers of width 512, 16 texts",
    "large": "24 layers of width 1,024",
    "words": "vocabulary of 10,000 words",
    "adaptive": "vocabulary of 267,735 words",
}
OVER_WORDS = {"words", "adaptive"}
"""Those sizes whose tokens are words."""
ON_TWO_LINES = {
    "minitxl-explicit": "minitxl, written\nout plainly",
    "vanilla": "minitxl, absolute,\nno memory",
}
"""Names that are too long for a line beside the axes."""


def bench(data: Data) -> Picture:
    """Draw each system's speed in training, against the reference: a panel a size."""
    return _races(data, "training")


def bench_reading(data: Data) -> Picture:
    """Draw each system's speed in cached evaluation, against the reference: a panel a size."""
    return _races(data, "cached evaluation")


def bench_words(data: Data) -> Picture:
    """Draw each system's speed in training with a large vocabulary, against the reference: a panel a size."""
    return _races(data, "training")


def bench_words_reading(data: Data) -> Picture:
    """Draw each system's speed in cached evaluation with a large vocabulary: a panel a size."""
    return _races(data, "cached evaluation")


def bench_generation(data: Data) -> Picture:
    """Draw each system's speed in generation, against the reference."""
    return _races(data, "generation")


def bench_memory(data: Data) -> Picture:
    """Draw the most RAM that each system holds in a training step."""
    return _races(data, "peak memory")


def _races(data: Data, *works: str) -> Picture:
    """Draw the items of these kinds of work side by side, and say what each mark is."""
    rows = [row for row in data["items"] if row["work"] in works]
    if not rows:
        with drawing(4, 1) as figure:
            figure.text(0.5, 0.5, "not measured", ha="center", va="center")
        return Picture(figure, f"{' and '.join(works)}: not measured.")
    with drawing(10, 4.6) as figure:
        raced = dict.fromkeys(name for row in rows for name in row["systems"])
        shown = panels(figure, len(rows), height=5.4, sharey=True)
        ours_first = sorted(raced, key=lambda name: not _name(name).startswith("minitxl"))
        alt = [_race(axes, row, ours_first, data["reference"]) for axes, row in zip(shown, rows, strict=True)]
        shown[0].set_yticks(range(len(raced)), [ON_TWO_LINES.get(name, _name(name)) for name in ours_first])
        shown[0].invert_yaxis()
        if "peak memory" not in works:
            _one_scale_a_work(shown, rows)
        shown[0].plot([], [], "o", color="#606060", ms=7, label="median")
        shown[0].plot([], [], "-", color="#606060", label="quartile to quartile")
        legend_outside(figure, *shown[0].get_legend_handles_labels(), ncols=2)
        finding = f"{_finding(rows, data['reference'])}, on {data['machine']}"
        headline(figure, finding)
    return Picture(figure, f"{finding}. {' '.join(alt)}")


def _one_scale_a_work(shown: Sequence[Axes], rows: Sequence[Data]) -> None:
    """Give the races of a kind of work one scale, so that lengths compare: that of generation is a log."""
    for work in {row["work"] for row in rows}:
        races = [axes for axes, row in zip(shown, rows, strict=True) if row["work"] == work]
        high = max(axes.get_xlim()[1] for axes in races)
        for axes in races:
            axes.set_xlim(0, high)
            if work == "generation":
                axes.set_xscale("log", base=2)
                axes.set_xlabel(axes.get_xlabel().replace("\n", ", log scale\n"))
                axes.set_xlim(0.7, 2 * high)
                ticks_at(axes, [speed for speed in (1, 4, 16, 64) if speed < 2 * high])


def _finding(rows: Sequence[Data], reference: str) -> str:
    """Return what the races say of minitxl and the reference; what was raced where one of them was not."""
    if any({"minitxl", reference} - row["systems"].keys() for row in rows):
        return f"{' and '.join(dict.fromkeys(row['work'] for row in rows)).capitalize()}, system by system"
    if rows[0]["work"] == "peak memory":
        shares = [
            row["systems"]["minitxl"]["megabytes"]["median"]
            / row["systems"][reference]["megabytes"]["median"]
            for row in rows
        ]
        per_cent = _between([100 * one for one in shares], 0)
        return f"A training step of minitxl holds {per_cent} % of the RAM of the {_name(reference)}"
    doing = {"training": "trains", "cached evaluation": "evaluates", "generation": "writes"}
    speeds: dict[str, list[float]] = {}
    for row in rows:
        speeds.setdefault(doing[row["work"]], []).append(row["systems"]["minitxl"]["speed"]["median"])
    told = " and ".join(f"{verb} {_between(found)} times" for verb, found in speeds.items())
    over = " over words" if {row["size"] for row in rows} <= OVER_WORDS else ""
    return f"minitxl {told} as fast as the {_name(reference)}{over}"


def _name(system: str) -> str:
    return PEERS[system].name if system in PEERS else system


def _between(numbers: Sequence[float], digits: int = 2) -> str:
    """Return the range of the numbers, rounded as beside the marks."""
    low, high = (f"{number:.{digits}f}" for number in (min(numbers), max(numbers)))
    return low if low == high else f"{low} to {high}"


def _race(axes: Axes, row: Data, raced: Sequence[str], reference: str) -> str:
    """Draw an item, one system below the other, and return it in words.

    ``raced`` are the systems of all panels: each has its row in every one.
    """
    shape = SIZES.get(row["size"], f"size {row['size']}")
    timed, alt = row["work"] != "peak memory", list[str]()
    title = f"{row['work'] if timed else 'peak RAM'}, {shape}"
    what = f"speed, {_name(reference)} = 1" if timed else "MB of RAM"
    for place, name in enumerate(raced):
        if (system := row["systems"].get(name)) is None:
            beside: Any = {"ha": "right", "va": "center", "transform": axes.get_yaxis_transform()}
            axes.text(0.98, place, "not raced", color="#606060", **beside)
            continue
        measured = system["speed" if timed else "megabytes"]
        value, (low, high) = measured["median"], measured["quartiles"]
        number, first, last = (f"{one:.2f}" if timed else f"{one:,.0f}" for one in (value, low, high))
        colour, marker = (PEERS[name].colour, PEERS[name].marker) if name in PEERS else ("black", "o")
        axes.plot([low, high], [place, place], "-", color=colour)
        hollow = {} if name not in PEERS or PEERS[name].memory else HOLLOW
        axes.plot(value, place, marker, color=colour, ms=7, **hollow)
        label = axes.annotate(number, (high, place), (8, 0), textcoords="offset points", va="center")
        label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1})
        alt.append(f"{_name(name)} {number} (quartiles {first} and {last})")
    if timed:
        axes.axvline(1, color="black", lw=1, ls=":", zorder=0)
    axes.set(title=fitted(title) if is_narrow() else title.replace(", ", ",\n"))
    axes.set_xlabel(f"{what}\n{RIGHT if timed else LEFT}")
    axes.margins(x=0.3, y=0.12)
    axes.set_xlim(left=0)
    if not timed:
        with_commas(axes.xaxis)
    return f"{title}, {what} {HIGHER if timed else LOWER}: {', '.join(alt)}."
