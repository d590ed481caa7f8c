"""The result of the experiment ``ptb``: perplexity on the Penn Treebank by memory length."""

from typing import Any

from matplotlib.axes import Axes

from minitxl.figures.marks import HOLLOW, LINE_AND_BAND, seed_band, write_ends
from minitxl.figures.picture import LOWER, Data, Picture, drawing, fitted, is_narrow, panels
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


RATES = "The learning rate was chosen for Transformer-XL and for the LSTM; the other Transformers have XL's."


def ptb(data: Data) -> Picture:
    """Draw test perplexity by memory length: seven systems of equal size, and the longer training."""
    longer = data["preset"]
    with drawing(10.5 if longer else 6, 5.4) as figure:
        shown = panels(figure, 2 if longer else 1, ratios=[1.35, 1] if longer else None, height=5.2)
        _systems(shown[0], data)
        if longer:
            _longer(shown[1], longer, data["preset_mem_len"], data["cited"])
    return Picture(figure, _alt(data))


def _systems(axes: Axes, data: Data) -> None:
    """Draw means as lines and ranges of the seeds as bands; names stand at the ends.

    Where a system reads without memory its mark is hollow.
    """
    systems, ends, at = data["systems"], dict[str, float](), dict[str, float]()
    lengths = [row["mem_len"] for row in systems["xl_memory"]["by_memory"]]
    right = len(lengths) - 1
    begin, end = -0.35, right + 2.7  # of the x axis; the names stand right of the last length
    right_end = (right + 0.3 - begin) / (end - begin)
    for key, system in TRAINED.items():
        colour, line = system.colour, system.line
        if key == "lstm":  # no memory length: its state is emptied at each segment, or carried on
            emptied, carried = (row["perplexity"] for row in systems[key]["by_memory"])
            axes.plot(0, emptied["mean"], system.marker, color=colour, ms=5, **HOLLOW)
            if not is_narrow():
                axes.annotate(
                    "state\nemptied\nat each\nsegment", (0, emptied["mean"]), (-12, -6),
                    textcoords="offset points", va="top", fontsize=9,
                )  # fmt: skip
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
    axes.set_ylim(low - 0.06 * (top - low), top + 0.08 * (top - low))
    names = {key: TRAINED[key].name + (f" ({end:,.0f})" if end > top else "") for key, end in ends.items()}
    placed = [(names[key], TRAINED[key].colour, at[key], min(end, top)) for key, end in ends.items()]
    axes.set_xticks(range(len(lengths)), [f"{length:,}" for length in lengths])
    axes.set_xlim(begin, end)
    write_ends(axes, placed, at=right + 0.42, least=0.04, fontsize=9)
    axes.set(
        xlabel=f"memory at evaluation, words; 0, then log scale\n"
        f"(hollow: no memory; names: as trained,\nwith {data['mem_len']} or no memory;\n{LINE_AND_BAND})",
        ylabel=f"test perplexity\n{LOWER}",
        title=fitted(_who_is_ahead(data["behind_xl"])),
    )


def _who_is_ahead(behind: Data) -> str:
    """Say where Transformer-XL stands among the systems, in every seed."""
    not_behind = [key for key, one in behind.items() if min(one["seeds"]) < 0]
    if not not_behind:
        return "Transformer-XL is best of seven"
    if not_behind != ["lstm"]:
        return "Seven systems, equally large and long trained"
    is_ahead = max(behind["lstm"]["seeds"]) < 0
    return (
        "The LSTM leads, then Transformer-XL"
        if is_ahead
        else "As trained, Transformer-XL leads the Transformers;\nof these, it alone has a rate chosen for it"
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
    words = f"{xl.name}, {longer['millions']:.1f}M,\nmemory as trained: {trained:.1f}"
    axes.annotate(
        words, (place, trained), (0, -8), textcoords="offset points", color=xl.ink, ha="left", va="top"
    )
    for key, name in CITED.items():
        height = cited[key]["perplexity"]
        axes.axhline(height, color="#666666", lw=1, ls=":")
        words = f"{name}: {height:g}"
        axes.text(right / 2, height + 0.4, words, color="#444444", fontsize=9, ha="center", va="bottom")
    axes.set_ylim(bottom=min(one["perplexity"] for one in cited.values()) - 3)
    axes.set_xticks(range(len(rows)), [f"{row['mem_len']:,}" for row in rows])
    ahead = trained < cited["medium_lstm"]["perplexity"]
    words = "below the LSTM of 20M" if ahead else "below the LSTM of 4.6M"
    beaten = ahead or trained < cited["small_lstm"]["perplexity"]
    axes.set(
        xlabel="memory at evaluation, words, not to scale",
        ylabel=f"test perplexity\n{LOWER}",
        title=f"{xl.name} of {longer['millions']:.1f}M,\nread as trained, is {words}"
        if beaten
        else f"{xl.name} of {longer['millions']:.1f}M, longer trained",
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
        values = ", ".join(f"{row['perplexity']:.1f} with {row['mem_len']}" for row in longer["by_memory"])
        words += f" The longer training of Transformer-XL: {values}."
    return words
