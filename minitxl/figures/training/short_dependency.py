"""The gain of each idea on shuffled lines, beside the paper's Table 7."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import mean

from minitxl.figures.marks import DOTS_AND_BAR, name_offsets, seed_band, seeds_and_mean
from minitxl.figures.picture import (
    AHEAD,
    BITS,
    Data,
    Picture,
    drawing,
    fitted,
    legend_outside,
    panels,
)
from minitxl.figures.recurrence.context_length import more_by_offset
from minitxl.figures.systems import SYSTEMS
from minitxl.figures.training.ablation import kind_of, system_of
from minitxl.figures.training.recurrence import in_segments


def short_dependency(data: Data) -> Picture:
    """Draw on shuffled lines what the first system saves against the others: by offset, and over all offsets.

    Both are paired by seed, on the same text.
    """
    rows = data["systems"]
    first, others = rows[0], rows[1:]
    with drawing(10, 3.8) as figure:
        by_offset, whole = panels(figure, 2, ratios=[1.3, 1], height=3)
        for row in others:
            at_each = more_by_offset(row["bits_by_offset"], first["bits_by_offset"])
            style = {**system_of(row).look(marker=False), "label": kind_of(row)}
            seed_band(by_offset, range(len(at_each)), at_each, **style)
        by_offset.axhline(0, color=system_of(first).colour, label=kind_of(first))
        behind = [
            [bits - best for bits, best in zip(in_segments(row), in_segments(first), strict=True)]
            for row in others
        ]
        for place, (row, more) in enumerate(zip(others, behind, strict=True)):
            summary, system = {"seeds": more, "mean": mean(more)}, system_of(row)
            seeds_and_mean(whole, place, summary, system.colour, memory=system.memory)
        by_offset.set(
            title=fitted(_where_most(rows)),
            ylabel=f"{BITS} that\n{kind_of(first)} saves\nagainst each system\n{AHEAD}",
        )
        name_offsets(by_offset)
        legend_outside(figure, *by_offset.get_legend_handles_labels(), ncols=3)
        whole.axvline(0, color="black", lw=1, ls=":")
        whole.set_yticks(range(len(others)), [kind_of(row).replace(", ", ",\n", 1) for row in others])
        whole.set_ylim(len(others) - 0.5, -0.5)
        whole.set(
            title=fitted(
                f"{kind_of(first)}: best in every seed"
                if min(map(min, behind)) > 0
                else f"Beside {kind_of(first)}"
            ),
            xlabel=f"{BITS} that {kind_of(first)}\nsaves against each system\n"
            f"({DOTS_AND_BAR};\nhollow: no memory;\nright of 0: it is ahead)",
        )
    alt = "; ".join(
        f"{kind_of(row)} {mean(bits):.2f} ({row['bits_by_offset'][0]['mean']:.2f} at offset 0, "
        f"{row['bits_by_offset'][-1]['mean']:.2f} at the last), and {row['trained']['bits']['mean']:.2f} "
        f"where every target has {row['trained']['attention_len']} characters of attention"
        for row in rows
        for bits in [in_segments(row)]
    )
    words = f"Test {BITS} on shuffled lines, read in segments as trained: {alt}."
    return Picture(figure, f"{words} {against_table_7(data)}")


def _where_most(rows: Sequence[Data]) -> str:
    """Return where the first system saves most against those without memory, if that is so in every seed."""
    first, *others = rows
    for row in (row for row in others if not system_of(row).memory):
        at_first, *later = more_by_offset(row["bits_by_offset"], first["bits_by_offset"])
        if any(
            one >= other
            for rest in later
            for one, other in zip(rest["seeds"], at_first["seeds"], strict=True)
        ):
            return f"{kind_of(first)} beside the others"
    return f"Against models without memory {kind_of(first)}\nsaves most at a segment's beginning"


def against_table_7(data: Data) -> str:
    """Return a sentence that says if the paper's order on One Billion Word is that here, in every seed."""
    bits = {kind_of(row): in_segments(row) for row in data["systems"]}
    paper = tuple(SYSTEMS[key].name for key in ("xl_memory", "shaw_memory", "xl"))
    same = all(max(bits[better]) < min(bits[worse]) for better, worse in pairwise(paper))
    alt = f"Against the paper's Table 7 (25.2, 25.7 and 27.1 perplexity): {'; '.join(paper)} stand here"
    if same:
        return f"{alt} in its order in all seeds."
    return (
        f"{alt}\nin another order, or overlap. Likely reason: lines are short and few steps were made, "
        "so the encoding is worth as much as what the cut costs."
    )
