"""The gain of each idea: the ablation, beside the paper's Table 6."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import mean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MultipleLocator

from minitxl.figures.marks import HOLLOW, SEED, seed_band, seeds_and_mean, signed, ticks_at
from minitxl.figures.picture import (
    BITS,
    LEFT,
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
from minitxl.figures.systems import SYSTEMS, System, of_label, positions_of
from minitxl.figures.training.recurrence import in_segments

LOSSES = {"full": "full loss: on all targets", "half": "half loss: on the later half of targets"}
"""Title of the panel of each training: on all targets of a segment, or on its later half."""
KEY: dict[str, dict[str, Any]] = {
    "with memory": {"marker": "o", **SEED},
    "no memory": {"marker": "o", **SEED, **HOLLOW},
    "mean of the seeds": {"marker": "|", "ms": 10, "mew": 2.5},
    "bits saved by memory (−: it costs bits)": {"marker": r"$\pm$", "ms": 8, "mew": 0.2},
}
"""Look of each mark of the ablation, by its words."""
TABLE_6 = {
    "XL, memory, full loss": 26.77,
    "Shaw, memory, full loss": 27.94,
    "XL, no memory, full loss": 29.02,
    "Shaw, no memory, full loss": 29.75,
    "absolute, sinusoidal, no memory, half loss": 30.97,
    "absolute, per layer, no memory, half loss": 31.16,
}
"""The paper's best perplexities on WikiText-103 at 128M parameters."""


def ablation(data: Data) -> Picture:
    """Draw for each kind of positions an arrow from the loss without memory to that with it, as trained.

    At it stand the bits that memory saves. There is a panel for each training.
    """
    rows = data["systems"]
    kinds = list(dict.fromkeys(_positions(row) for row in rows))
    with drawing(10, 4.5) as figure:
        shown = panels(figure, len(LOSSES), height=4.2, sharex=True, sharey=True)
        for axes, (loss, title) in zip(shown, LOSSES.items(), strict=True):
            of_loss = [row for row in rows if row["loss"] == loss]
            for place, kind in enumerate(kinds):
                of_kind = {"no memory" not in row["label"]: row for row in of_loss if _positions(row) == kind}
                if of_kind:
                    _arrow(axes, place, of_kind)
                else:
                    words = f"not trained with {loss} loss"
                    axes.annotate(words, (3.2, place), ha="center", va="center", color="#606060")
            axes.set(title=title, xlabel=f"test {BITS}, read in segments\n{LEFT}")
            axes.set_yticks(range(len(kinds)), kinds)
            axes.set_ylim(len(kinds) - 0.5, -0.8)
            axes.margins(x=0.14)
            axes.tick_params(labelbottom=True)
        for axes in shown if is_narrow() else shown[:1]:
            axes.set_ylabel("positions")
        marks = [Line2D([], [], color="#606060", ls="none", **look) for look in KEY.values()]
        legend_outside(figure, marks, list(KEY), ncols=4, columnspacing=1.5)
        headline(
            figure,
            "With full loss, memory helps Transformer-XL's and Shaw's positions\n"
            "and hurts absolute ones, in every seed"
            if _memory_divides(rows)
            else "Encoding, recurrence and loss at equal size",
        )
    alt = "; ".join(_in_words(row) for row in rows)
    seeds = len(rows[0]["best"]["bits"]["seeds"])
    return Picture(
        figure,
        f"Test {BITS}, mean of {seeds} seeds, equal parameters: {alt}. Cut as in training, a query has more "
        f"keys with memory than without. {against_table_6(data)}",
    )


def _positions(row: Data) -> str:
    """Return a system's name without its recurrence and its loss."""
    longer = ", longer segments" * row["equal_memory"]
    return f"{positions_of(row['label'])}{longer}".replace(", ", ",\n")


def _arrow(axes: Axes, place: int, of_kind: Mapping[bool, Data]) -> None:
    """Draw both systems of one kind of positions in a row, or the one that there is."""
    bits = {with_memory: in_segments(row) for with_memory, row in of_kind.items()}
    ends = {with_memory: mean(seeds) for with_memory, seeds in bits.items()}
    for with_memory, seeds in bits.items():
        system, _ = of_label(of_kind[with_memory]["label"])
        summary = {"seeds": seeds, "mean": ends[with_memory]}
        seeds_and_mean(axes, place, summary, system.colour, memory=with_memory)
    if len(ends) == 2:
        saved = [without - with_it for without, with_it in zip(bits[False], bits[True], strict=True)]
        arrow = {"arrowstyle": "->", "color": "#808080", "shrinkA": 0, "shrinkB": 0}
        below = place + 0.3  # the marks of near ends would cover it
        axes.annotate("", (ends[True], below), (ends[False], below), arrowprops=arrow)
        words = signed(mean(saved), 2)
        axes.annotate(words, (mean(ends.values()), place), (0, 11), textcoords="offset points", ha="center")


def ablation_lengths(data: Data) -> Picture:
    """Draw the loss of the systems of full loss by their attention length at test."""
    rows = [row for row in data["systems"] if row["loss"] == "full" and not row["equal_memory"]]
    rows = [row for row in rows if len(row["by_length"]) > 1]
    with drawing(7, 4) as figure:
        axes = figure.subplots()
        for row in rows:
            _curve(axes, row)
        axes.set(
            title=_finding(rows),
            xlabel="attention length at test, characters,\nlog scale (each query has so many keys;\n"
            f"models without memory were read with at most {_longest_without_memory(rows)})",
            ylabel=f"test {BITS}\n{LOWER}",
        )
        axes.set_xscale("log", base=2)
        lengths = [one["attention_len"] for one in rows[0]["by_length"]]
        ticks_at(axes, lengths[:: 2 if is_narrow() else 1])
        axes.yaxis.set_major_locator(MultipleLocator(0.05))
        legend_outside(figure, ncols=2)
    alt = "; ".join(
        f"{kind_of(row)}: "
        + ", ".join(f"{one['bits']['mean']:.2f} at {one['attention_len']}" for one in row["by_length"])
        for row in rows
    )
    return Picture(
        figure,
        f"Test {BITS} by attention length, where each query has exactly so many keys, all trained with the "
        f"full loss. {alt}.",
    )


def _longest_without_memory(rows: Sequence[Data]) -> int:
    """Return the longest attention with which a model without memory was read."""
    return max(row["by_length"][-1]["attention_len"] for row in rows if not system_of(row).memory)


def _memory_divides(rows: Sequence[Data]) -> bool:
    """True if memory saves XL and Shaw bits and costs absolute positions some, on all targets, as trained."""
    bits = {row["label"]: in_segments(row) for row in rows if row["loss"] == "full"}
    pairs = [(label, label.replace(", memory", ", no memory")) for label in bits if ", memory" in label]
    return all(
        (less > more) == memory.startswith("absolute")
        for memory, none in pairs
        for less, more in zip(bits[memory], bits[none], strict=True)
    )


def _finding(rows: Sequence[Data]) -> str:
    """Return what the longest attention does to the models trained with memory, if that is clear."""
    added = {kind_of(row): _added(row) for row in rows}
    shaw, xl = added.get(SYSTEMS["shaw_memory"].name), added.get(SYSTEMS["xl_memory"].name)
    if shaw and xl and min(shaw) > 0 and mean(shaw) > 3 * max(map(abs, xl)):
        return fitted("With more keys for each query\nTransformer-XL stays level, Shaw + memory gets worse")
    return "Loss by attention length"


def _added(row: Data) -> list[float]:
    """Return the bits that the longest attention adds to those of the shortest, of each seed."""
    shortest, longest = (row["by_length"][end]["bits"]["seeds"] for end in (0, -1))
    return [more - less for less, more in zip(shortest, longest, strict=True)]


def kind_of(row: Data) -> str:
    """Return a system's name with its variant, without its loss."""
    return of_label(row["label"])[1]


def system_of(row: Data) -> System:
    return of_label(row["label"])[0]


def _curve(axes: Axes, row: Data) -> None:
    lengths = [one["attention_len"] for one in row["by_length"]]
    bits = [one["bits"] for one in row["by_length"]]
    seed_band(axes, lengths, bits, **system_of(row).look(), label=kind_of(row), ms=5)


def _in_words(row: Data) -> str:
    trained, best = row["trained"], row["best"]
    return (
        f"{kind_of(row)}, {row['loss']} loss {trained['bits']['mean']:.2f} "
        f"(spread {trained['bits']['spread']:.2f}) at attention {trained['attention_len']}, "
        f"best {best['bits']['mean']:.2f} at {best['attention_len']}, "
        f"cut as in training {mean(in_segments(row)):.2f}"
    )


def against_table_6(data: Data) -> str:
    """Return a sentence on the pairs of systems whose order is not the paper's, beyond the seeds' ranges."""
    best = {row["label"]: row["best"]["bits"] for row in data["systems"] if not row["equal_memory"]}
    pairs = list(combinations(TABLE_6, 2))
    reversed_, level = [], 0
    for better, worse in pairs:
        if max(best[worse]["seeds"]) < min(best[better]["seeds"]):
            reversed_.append(
                " beats ".join(f"{of_label(one)[1]}, {one.split(', ')[-1]}" for one in (worse, better))
            )
        elif max(best[better]["seeds"]) >= min(best[worse]["seeds"]):
            level += 1
    alt = (
        f"Of the {len(pairs)} pairs of systems in the paper's Table 6, "
        f"{len(pairs) - level - len(reversed_)} stand here in its order in all seeds and {level} overlap"
    )
    if not reversed_:
        return f"{alt}; none is reversed."
    return (
        f"{alt};\nreversed: {'; '.join(reversed_)}.\n"
        "Likely reason: characters, short segments and few steps, so most of what a model gains lies in the "
        "nearest tokens, which every system sees."
    )
