"""The result of the experiment ``ptb``: perplexity on the Penn Treebank by memory length."""

from collections.abc import Sequence
from statistics import mean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from minitxl.figures.marks import HOLLOW, seed_band, write_ends
from minitxl.figures.picture import (
    LOWER,
    Data,
    Picture,
    drawing,
    fitted,
    headline,
    is_narrow,
    legend_outside,
    panels,
)
from minitxl.figures.systems import SYSTEMS

TRAINED = {
    key: SYSTEMS[key]
    for key in ("xl_memory", "xl", "absolute", "absolute_memory", "shaw_memory", "rotary_memory", "lstm")
}
"""The systems of the experiment ``ptb``. An LSTM has no memory length: it carries its own state on."""
CITED = {
    "small_lstm": "LSTM, 4.6M",
    "medium_lstm": "LSTM, 20M",
    "awd_lstm": "AWD-LSTM, 24M",
    "xl": "the paper's Transformer-XL, 24M",
}


RATES = (
    "The learning rate was chosen for Transformer-XL with memory and for the LSTM; "
    "the other Transformers have that of the former."
)


def ptb(data: Data) -> Picture:
    """Draw test perplexity by memory length: seven systems of equal size, and the longer training."""
    longer = data["preset"]
    with drawing(10 if longer else 6, 5.4) as figure:
        shown = panels(figure, 2 if longer else 1, ratios=[1.4, 1] if longer else None, height=5.2)
        _systems(shown[0], data)
        if longer:
            _longer(shown[1], longer, data["preset_mem_len"], data["cited"])
    return Picture(figure, _alt(data))


def by_training(data: Data) -> Picture:
    """Draw Transformer-XL trained with memory and without, each read without memory and with it, by seed."""
    pair, read, said = {key: TRAINED[key] for key in ("xl", "xl_memory")}, (0, data["mem_len"]), []
    values = {key: [_seeds_at(data["systems"][key], mem_len) for mem_len in read] for key in pair}
    count = len(values["xl"][0])
    with drawing(7, 3.4) as figure:
        for seed, axes in enumerate(panels(figure, count, height=2.8, sharey=True)):
            for key, system in pair.items():
                points = [of[seed] for of in values[key]]
                axes.plot((0, 1), points, **system.look() | {"mfc": system.colour}, ms=6)
                axes.plot(0, points[0], system.marker, color=system.colour, ms=6, **HOLLOW)
                said.append(f"seed {seed}, {system.name}: {points[0]:.1f} and {points[1]:.1f}")
            axes.set_xticks((0, 1), ["none", f"{read[1]} words"])
            axes.set(title=f"seed {seed}", xlim=(-0.3, 1.3), xlabel="memory at the test")
        figure.axes[0].set_ylabel(f"test perplexity\n{LOWER}")
        names = [f"trained with{'' if system.memory else 'out'} memory" for system in pair.values()]
        legend_outside(figure, figure.axes[0].lines[::2], names, ncols=2)
        headline(figure, "Two trainings, each read in two ways")
    words = f"read without memory and with {read[1]} words of it"
    return Picture(figure, f"Test perplexity on the Penn Treebank, {words}; {'; '.join(said)}.")


def _seeds_at(system: Data, mem_len: int) -> list[float]:
    """Return the test perplexity of each seed, read with a memory of this length."""
    (row,) = (row for row in system["by_memory"] if row["mem_len"] == mem_len)
    return list(row["perplexity"]["seeds"])


def longer_training(data: Data) -> Picture:
    """Draw the longer training by memory length, beside what others report."""
    with drawing(6, 4.2) as figure:
        _longer(panels(figure, 1)[0], data["preset"], data["preset_mem_len"], data["cited"])
    cited = ", ".join(f"{name} {data['cited'][key]['perplexity']:g}" for key, name in CITED.items())
    return Picture(
        figure, f"Test perplexity on the Penn Treebank.{_said_of(data['preset'])} Reported: {cited}."
    )


def _systems(axes: Axes, data: Data) -> None:
    """Draw means as lines and ranges of the seeds as bands; names stand at the ends.

    Where a system reads without memory its mark is hollow.
    """
    systems, ends, at = data["systems"], dict[str, float](), dict[str, float]()
    seeds = len(systems["xl_memory"]["trained"]["seeds"])
    lengths = [row["mem_len"] for row in systems["xl_memory"]["by_memory"]]
    right = len(lengths) - 1
    begin, end = -0.35, right + 2.7  # of the x axis; the names stand right of the last length
    right_end = (right + 0.3 - begin) / (end - begin)
    for key, system in TRAINED.items():
        colour, line = system.colour, system.line
        if key == "lstm":  # no memory length: its state is emptied at each segment, or carried on
            emptied, carried = (row["perplexity"] for row in systems[key]["by_memory"])
            axes.plot(0, emptied["mean"], system.marker, color=colour, ms=5, **HOLLOW)
            between = "\n" if is_narrow() else " "
            words = f"LSTM,{between}reset\nat each\nsegment"
            at_mark = (0, emptied["mean"])
            below: dict[str, Any] = {"xytext": (-12, -6), "textcoords": "offset points", "va": "top"}
            axes.annotate(words, at_mark, **below, color=system.ink)
            level: dict[str, Any] = {"color": colour, "xmin": (1 - begin) / (end - begin), "xmax": right_end}
            axes.axhline(carried["mean"], ls=line, lw=1.6, **level)
            axes.axhspan(min(carried["seeds"]), max(carried["seeds"]), alpha=0.2, lw=0, **level)
            ends[key], at[key] = carried["mean"], right + 0.3
            continue
        rows = [row["perplexity"] for row in systems[key]["by_memory"]]
        seed_band(axes, range(len(lengths)), rows, **system.look() | {"mfc": colour}, ms=5, lw=1.6)
        for place, (row, length) in enumerate(zip(rows, lengths, strict=True)):
            if length == 0:
                axes.plot(place, row["mean"], system.marker, color=colour, ms=5, **HOLLOW)
        ends[key], at[key] = rows[-1]["mean"], right
    worst = max(row["perplexity"]["mean"] for row in systems["xl_memory"]["by_memory"])
    top = min(max(ends.values()), 1.6 * worst)
    low = min(row["perplexity"]["mean"] for one in systems.values() for row in one["by_memory"])
    axes.set_ylim(low - (0.2 if is_narrow() else 0.09) * (top - low), top + 0.08 * (top - low))
    names = {key: TRAINED[key].name + (f" ({end:,.0f})" if end > top else "") for key, end in ends.items()}
    placed = [(names[key], TRAINED[key].colour, at[key], min(end, top)) for key, end in ends.items()]
    axes.set_xticks(range(len(lengths)), [f"{length:,}" for length in lengths])
    axes.set_xlim(begin, end)
    write_ends(axes, placed, at=right + 0.42, least=0.05)
    marks: dict[str, Any] = {
        "no memory": Line2D([], [], color="black", ls="none", marker="o", ms=5, **HOLLOW),
        "mean": Line2D([], [], color="black", lw=1.6),
        f"range of {seeds} seeds": Patch(color="#CCCCCC"),
    }
    axes.legend(list(marks.values()), list(marks), loc="center right", bbox_to_anchor=(1, 0.5))
    axes.set(
        xlabel=fitted(
            "words of memory at evaluation, not to scale\n"
            f"(“+ memory” and Transformer-XL: trained with {data['mem_len']})"
        ),
        ylabel=f"test perplexity\n{LOWER}",
        title=fitted(_who_is_ahead(systems)),
    )


def _who_is_ahead(systems: Data) -> str:
    """Say which systems Transformer-XL is not ahead of in every seed, each read as it was trained."""
    xl = systems["xl_memory"]["trained"]["seeds"]
    others = {key: systems[key]["trained"]["seeds"] for key in TRAINED if key != "xl_memory"}
    level = [
        f"{TRAINED[key].name} ({mean(seeds):.0f})"
        for key, seeds in others.items()
        if min(xl) < max(seeds) and min(seeds) < max(xl)
    ]
    behind = sum(min(seeds) > max(xl) for seeds in others.values())
    if len(level) > 2 or len(level) + behind < len(others):
        return "Seven systems, equally large and long trained"
    reached = f"Transformer-XL, perplexity {mean(xl):.0f}, is"
    if not level:
        return f"{reached} ahead of all others in every seed"
    return (
        f"{reached}\nahead of {behind} of {len(others)} others in every seed;\n"
        f"it overlaps with {' and '.join(level)}"
    )


def _longer(axes: Axes, longer: Data, mem_len: int, cited: Data) -> None:
    """Draw the preset, trained with ``mem_len``, by memory length beside what others report."""
    rows = longer["by_memory"]
    right, values = len(rows) - 1, [row["perplexity"] for row in rows]
    xl = SYSTEMS["xl_memory"]
    axes.plot(range(len(rows)), values, **xl.look())
    axes.plot(0, values[0], xl.marker, color=xl.colour, **HOLLOW)
    place = next(number for number, row in enumerate(rows) if row["mem_len"] == mem_len)
    trained = values[place]
    words = f"{xl.name}, {longer['millions']:.1f}M\nparameters; as trained: {trained:.1f}"
    axes.annotate(
        words, (place, trained), (0, -8), textcoords="offset points", color=xl.ink, ha="left", va="top"
    )
    for key, name in CITED.items():
        height = cited[key]["perplexity"]
        axes.axhline(height, color="#666666", lw=1, ls=":")
        words = f"{name}: {height:g}"
        axes.text(right / 2, height + 0.4, words, color="#444444", ha="center", va="bottom")
    axes.set_ylim(bottom=min(one["perplexity"] for one in cited.values()) - 3)
    axes.set_xticks(range(len(rows)), [f"{row['mem_len']:,}" for row in rows])
    axes.set(
        xlabel="words of memory at evaluation, not to scale\n"
        f"(trained with {mem_len} in {longer['epochs']:.0f} passes, one seed;\ndotted: published results)",
        ylabel=f"test perplexity\n{LOWER}",
        title=fitted(_perplexities(rows, mem_len)),
    )


def _perplexities(rows: Sequence[Data], mem_len: int) -> str:
    """Say the perplexity with memory as in training, and without it."""
    perplexity = {row["mem_len"]: row["perplexity"] for row in rows}
    return (
        f"Trained longer: perplexity {perplexity[mem_len]:.0f} with\n"
        f"{mem_len} words of memory, {perplexity[0]:.0f} without"
    )


def _alt(data: Data) -> str:
    systems: dict[str, Any] = data["systems"]
    said = []
    for key, system in TRAINED.items():
        name = system.name
        means = [f"{row['perplexity']['mean']:.0f}" for row in systems[key]["by_memory"]]
        if key == "lstm":
            said.append(f"{name}: {means[1]}, and {means[0]} where it is emptied at each segment")
        else:
            said.append(f"{name} {', '.join(means)}")
    lengths = [row["mem_len"] for row in systems["xl_memory"]["by_memory"]]
    seeds = len(systems["xl_memory"]["trained"]["seeds"])
    words = (
        f"Test perplexity on the Penn Treebank with {lengths} words of memory, mean of {seeds} seeds: "
        f"{'; '.join(said)}. {RATES}"
    )
    if longer := data["preset"]:
        words += _said_of(longer)
    return words


def _said_of(longer: Data) -> str:
    values = ", ".join(f"{row['perplexity']:.1f} with {row['mem_len']}" for row in longer["by_memory"])
    return f" The longer training of Transformer-XL: {values}."
