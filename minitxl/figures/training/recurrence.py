"""Systems of the ablation with and without memory: in segments, and from equally many characters."""

from collections.abc import Sequence
from statistics import mean
from typing import Any

from matplotlib.axes import Axes

from minitxl.figures.marks import (
    DOTS_AND_BAR,
    HOLLOW,
    SEED,
    name_offsets,
    seed_band,
    seeds_and_mean,
    signed,
    ticks_at,
)
from minitxl.figures.picture import BITS, LEFT, LOWER, Data, Picture, drawing, fitted, legend_outside, panels
from minitxl.figures.systems import of_label

LABELS = {True: "with memory", False: "no memory"}


def look_of(row: Data) -> dict[str, Any]:
    """Return the look of a row's system."""
    return of_label(f"{row['encoding']}, {'memory' if row['recurrence'] else 'no memory'}")[0].look()


def name_of(row: Data) -> str:
    """Return a row's encoding and whether it has memory, as the notebook's tables name them."""
    return f"{row['encoding']}, {LABELS[row['recurrence']]}"


def in_segments(row: Data) -> list[float]:
    """Return bits of each seed, read in segments as trained: the mean over the offsets."""
    by_seed = zip(*(one["seeds"] for one in row["bits_by_offset"]), strict=True)
    return [mean(offsets) for offsets in by_seed]


def at_length(row: Data, attention_len: int) -> list[float] | None:
    """Return bits of each seed, every target predicted from so many characters; None if not measured."""
    return next(
        (one["bits"]["seeds"] for one in row["by_length"] if one["attention_len"] == attention_len), None
    )


def by_recurrence(data: Data) -> Picture:
    """Draw each encoding and loss, with memory and without, read in segments."""
    rows = [row for row in data["systems"] if not row["equal_memory"]]
    kinds = list(dict.fromkeys((row["encoding"], row["loss"]) for row in rows))
    said = []
    with drawing(7, 4.6) as figure:
        axes = figure.subplots()
        for row in rows:
            memory, bits = row["recurrence"], in_segments(row)
            place = kinds.index((row["encoding"], row["loss"])) + (-0.16 if memory else 0.16)
            summary = {"seeds": bits, "mean": mean(bits)}
            seeds_and_mean(axes, place, summary, look_of(row)["color"], memory=memory)
            said.append(f"{name_of(row)}, {row['loss']} loss {mean(bits):.2f}")
        axes.set(title="Read in segments", xlabel=f"test {BITS}\n({DOTS_AND_BAR})\n{LEFT}")
        axes.set_yticks(range(len(kinds)), [f"{encoding},\n{loss} loss" for encoding, loss in kinds])
        axes.set_ylim(len(kinds) - 0.5, -0.5)
        for with_memory, label in LABELS.items():
            axes.plot([], [], "o", color="black", label=label, **SEED if with_memory else SEED | HOLLOW)
        axes.legend(loc="upper right")
    return Picture(figure, f"Test {BITS}, mean of the seeds, read in segments: {'; '.join(said)}.")


def pair(data: Data, *, encoding: str, loss: str) -> Picture:
    """Draw one encoding with memory and without: loss by attention length, and by offset in the segment."""
    shown = [row for row in data["systems"] if not row["equal_memory"]]
    rows = [row for row in shown if (row["encoding"], row["loss"]) == (encoding, loss)]
    alt = []
    with drawing(10, 3.9) as figure:
        lengths, offsets = panels(figure, 2, height=3)
        for row in rows:
            label, look = LABELS[row["recurrence"]], look_of(row)
            lengths.plot([], [], **look, ms=6, label=label)
            trained, (every, bits) = row["trained"], _by_length(row)
            if len(every) > 1:
                seed_band(lengths, every, bits, **look, ms=6)
            else:
                colour, memory = look["color"], row["recurrence"]
                seeds_and_mean(lengths, every[0], bits[0], colour, memory=memory, upright=True)
            lengths.plot(
                trained["attention_len"], trained["bits"]["mean"], "o", color="black", ms=16, mfc="none"
            )
            by_offset = row["bits_by_offset"]
            seed_band(offsets, range(len(by_offset)), by_offset, **{**look, "marker": ""})
            alt.append(
                f"{label} {trained['bits']['mean']:.2f} at the attention length of training, "
                f"{trained['attention_len']}; in segments {by_offset[0]['mean']:.2f} at offset 0 and "
                f"{by_offset[-1]['mean']:.2f} at the last"
            )
        if all(len(row["by_length"]) == 1 for row in rows):
            lengths.text(
                0.97, 0.5, f"read with the length of training alone\n({DOTS_AND_BAR})", color="#606060",
                ha="right", va="center", fontsize=9, transform=lengths.transAxes,
            )  # fmt: skip
        _name_axes(lengths, offsets, rows, shown)
        legend_outside(figure, ncols=3)
        figure.suptitle(f"{encoding}, {loss} loss\n{_gaps(rows)}", fontsize=10, x=0.01, ha="left")
    return Picture(figure, f"{encoding}, {loss} loss, test {BITS}: {'; '.join(alt)}. {_gaps(rows)}.")


def _gaps(rows: Sequence[Data]) -> str:
    """Say how many bits memory saves on average: where both have equally many keys, and in segments."""
    with_memory, without = sorted(rows, key=lambda row: not row["recurrence"])
    said = []
    for length in (one["attention_len"] for one in without["by_length"]):
        both = at_length(with_memory, length), at_length(without, length)
        if both[0] and both[1]:
            said.append(f"{signed(mean(both[1]) - mean(both[0]), 3)} with {length} keys")
    said.append(f"{signed(mean(in_segments(without)) - mean(in_segments(with_memory)), 3)} in segments")
    return f"bits that memory saves: {', '.join(said)}"


def by_offset(data: Data) -> Picture:
    """Draw loss by offset of every system, read in segments."""
    alt = []
    with drawing(7, 4.2) as figure:
        axes = figure.subplots()
        for row in data["systems"]:
            bits = row["bits_by_offset"]
            name = name_of(row)
            seed_band(axes, range(len(bits)), bits, **{**look_of(row), "marker": "", "lw": 1.6}, label=name)
            alt.append(f"{name} {bits[0]['mean']:.2f} at offset 0 and {bits[-1]['mean']:.2f} at the last")
        name_offsets(axes)
        axes.set_ylabel(f"test {BITS}\n{LOWER}")
        legend_outside(figure, ncols=2)
    return Picture(figure, f"Test {BITS}, read in segments: {'; '.join(alt)}.")


def _by_length(row: Data) -> tuple[list[int], list[Data]]:
    return [one["attention_len"] for one in row["by_length"]], [one["bits"] for one in row["by_length"]]


def _name_axes(lengths: Axes, offsets: Axes, rows: Sequence[Data], all_rows: Sequence[Data]) -> None:
    """Name the axes of ``pair``; their scales are the same for each choice of ``rows`` of ``all_rows``."""
    every = sorted({one["attention_len"] for row in all_rows for one in row["by_length"]})
    lengths.set_xscale("log", base=2)
    lengths.set_xlim(0.85 * every[0], every[-1] / 0.85)
    ticks_at(lengths, every)
    kinds = {(row["encoding"], row["loss"]) for row in all_rows}
    of_kinds = [[row for row in all_rows if (row["encoding"], row["loss"]) == kind] for kind in kinds]
    height = max(top - bottom for bottom, top in map(_range_of_lengths, of_kinds))
    middle = mean(_range_of_lengths(rows))
    lengths.set_ylim(middle - height / 2, middle + height / 2)
    offsets.set_ylim(_range_of([one for row in all_rows for one in row["bits_by_offset"]]))
    title = fitted("By how many keys a query has (ring: as trained)")
    lengths.set(title=title, ylabel=f"test {BITS}\n{LOWER}")
    lengths.set_xlabel("attention length, characters")
    name_offsets(offsets)
    offsets.set_title("Read in segments")


def _range_of_lengths(rows: Sequence[Data]) -> tuple[float, float]:
    return _range_of([one["bits"] for row in rows for one in row["by_length"]])


def _range_of(summaries: Sequence[Data]) -> tuple[float, float]:
    """Return the ends of an axis that has all seeds, and some room beyond them."""
    seeds = [one for summary in summaries for one in summary["seeds"]]
    room = 0.05 * (max(seeds) - min(seeds))
    return min(seeds) - room, max(seeds) + room
