"""Results of training: learning curves, memory and positions, every system."""

from collections.abc import Sequence
from statistics import mean
from typing import Any

from minitxl.figures.marks import (
    DOTS_AND_BAR,
    HOLLOW,
    name_offsets,
    seed_band,
    seeds_and_mean,
    with_commas,
)
from minitxl.figures.picture import (
    BITS,
    HELPS,
    LEFT,
    LOWER,
    Data,
    Picture,
    drawing,
    fitted,
    legend_outside,
    panels,
)
from minitxl.figures.systems import LABELS, SYSTEMS, mixed, of_label, positions_of

ONE_CHANGE_APART = {"vanilla": SYSTEMS["absolute"], "relative": SYSTEMS["xl"], "xl": SYSTEMS["xl_memory"]}
"""The three systems of the demo and of ``short_segments`` by their keys there."""
GRID = {key: SYSTEMS[key] for key in ("absolute", "absolute_memory", "xl", "xl_memory")}
"""The systems of the experiment ``memory_and_positions``."""


def learning(curves: Data, *, steps: int, unit: str = BITS) -> Picture:
    """Draw loss of each model so far: ``curves[name]`` holds ``step`` and ``bits``."""
    with drawing(6, 3.2) as figure:
        axes = figure.subplots()
        for name, curve in curves.items():
            system = ONE_CHANGE_APART[name]
            axes.plot(curve["step"], curve["bits"], **system.look(), label=system.name, clip_on=False)
        axes.set(xlabel="training step", ylabel=f"training {unit}\n{LOWER}", xlim=(0, steps))
        with_commas(axes.xaxis)
        axes.legend(loc="upper right")
    last = ", ".join(
        f"{ONE_CHANGE_APART[name].name} {curve['bits'][-1]:.2f}" for name, curve in curves.items()
    )
    return Picture(figure, f"Training {unit} at step {curve['step'][-1]} of {steps}: {last}.")


def bits_by_offset_curves(curves: Data) -> Picture:
    """Draw the loss of each model at each offset of a segment: ``curves[name]`` is [offset], in bits."""
    length = len(next(iter(curves.values())))
    with drawing(6, 3.4) as figure:
        axes = figure.subplots()
        for name, bits in curves.items():
            system = ONE_CHANGE_APART[name]
            axes.plot(range(length), bits, **system.look(), label=system.name, lw=1.5, ms=4)
        axes.set_title("Bits by offset")
        name_offsets(axes)
        axes.set_ylabel(f"test {BITS}\n{LOWER}")
        legend_outside(figure, ncols=3)
    alt = "; ".join(
        f"{ONE_CHANGE_APART[name].name}: {bits[0]:.2f} at offset 0, {bits[1]:.2f} at offset 1, "
        f"{sum(bits[length // 2 :]) / (length - length // 2):.2f} on average in the later half"
        for name, bits in curves.items()
    )
    return Picture(figure, f"Test {BITS} by offset in segments of {length}. {alt}.")


def short_segments(data: Data) -> Picture:
    """Draw the loss of each model by offset with the range of its seeds, and what each change saves."""
    length, gains = data["seg_len"], data["gains"]
    saved = {"positions": gains["relative_positions"], "memory": gains["memory"]}
    with drawing(10, 3.6) as figure:
        by_offset, whole = panels(figure, 2, ratios=[1.6, 1], height=3.2)
        for name, system in data["systems"].items():
            one = ONE_CHANGE_APART[name]
            style: dict[str, Any] = {**one.look(), "label": one.name, "lw": 1.5, "ms": 4}
            seed_band(by_offset, range(length), system["bits_by_offset"], **style)
        by_offset.set(
            title=fitted(_most_at_the_beginning(gains["memory_by_offset"])),
            ylabel=f"test {BITS}\n{LOWER}",
        )
        name_offsets(by_offset)
        legend_outside(figure, *by_offset.get_legend_handles_labels(), ncols=3)
        whole.axvline(0, color="black", lw=1, ls=":")
        for place, gain in enumerate(saved.values()):
            seeds_and_mean(whole, place, gain, "black")
        without = {key: one.name.replace(", ", ",\n") for key, one in ONE_CHANGE_APART.items()}
        names = [
            f"relative positions,\nagainst {without['vanilla']}",
            f"memory, against\n{without['relative']}",
        ]
        whole.set_yticks(range(len(saved)), names)
        both = all(min(gain["seeds"]) > 0 for gain in saved.values())
        title = "Both save in every seed" if both else "Saved over the whole text"
        whole.set(title=title, xlabel=f"{BITS} saved\n({DOTS_AND_BAR};\n{HELPS})", ylim=(1.6, -0.6))
    words = "; ".join(
        f"{name} {gain['mean']:.2f} ({', '.join(f'{one:.2f}' for one in gain['seeds'])})"
        for name, gain in saved.items()
    )
    first = "; ".join(
        f"{ONE_CHANGE_APART[name].name} {system['bits_by_offset'][0]['mean']:.2f}"
        for name, system in data["systems"].items()
    )
    return Picture(
        figure,
        f"Segments of {length}. Test {BITS} at offset 0, mean of the seeds: {first}. Saved over the whole "
        f"text, mean and seeds: {words}.",
    )


def _most_at_the_beginning(gains: Sequence[Data]) -> str:
    """Return where memory saves most, if that is at the beginning in every seed."""
    first, *others = (gain["seeds"] for gain in gains)
    if all(_above(first, other) for other in others):
        return "Memory saves most at a segment's beginning"
    return "Mean and range of the seeds"


FADED = 0.35
"""Share of white in the lines of models that are read with another memory than they were trained with."""
MARK_NAMES = {
    "absolute": (11, 1, "left"),
    "absolute_memory": (0, -9, "center"),
    "xl": (12, -22, "left"),
    "xl_memory": (6, 10, "center"),
}
"""Where each mark's name stands: points to the right and above, and which of its sides is there."""
LEADER: dict[str, Any] = {"arrowstyle": "-", "lw": 0.8, "shrinkA": 1, "shrinkB": 5, "relpos": (0, 0.5)}
LED = {"xl"}
"""Look of the line that leads from a mark to its name, and which marks have one: a curve is between."""


def memory_and_positions(data: Data) -> Picture:
    """Draw learning curves, mean and range of the seeds, and loss against the memory at evaluation."""
    with drawing(7.0, 5.2) as figure:
        learned, memory = panels(figure, 2)
        for name, one in GRID.items():
            system, rows = data[name], data[name]["by_memory"]
            curve = system["validation"]
            by_step = [{"mean": mean(seeds), "seeds": seeds} for seeds in zip(*curve["bits"], strict=True)]
            seed_band(learned, curve["step"], by_step, **one.look(), lw=1.2, ms=3.5, label=one.name)
            lengths = [row["mem_len"] for row in rows]
            band: dict[str, Any] = {"color": mixed(one.colour, 255, FADED), "ls": one.line, "lw": 1.4}
            seed_band(memory, lengths, [row["bits"] for row in rows], **band, alpha=0.3)
            memory.plot(system["mem_len"], system["bits"]["mean"], **one.look() | {"ls": "none"}, ms=8)
        memory.margins(y=0.25)
        for name, (right, above, side) in MARK_NAMES.items():
            one, trained = GRID[name], (data[name]["mem_len"], data[name]["bits"]["mean"])
            memory.annotate(
                f"{one.name}: {trained[1]:.2f}", trained, (right, above), color=one.ink,
                textcoords="offset points", ha=side, va="bottom" if above > 5 else "top",
                arrowprops=LEADER | {"color": one.colour} if name in LED else None,
            )  # fmt: skip
        last = {name: [bits[-1] for bits in data[name]["validation"]["bits"]] for name in GRID}
        faster = max(*last["xl"], *last["xl_memory"]) < min(*last["absolute"], *last["absolute_memory"])
        learned.set(
            title="Relative positions are\nahead in every seed" if faster else "While training",
            xlabel="training step",
            ylabel=f"validation {BITS}\n{LOWER}",
        )
        with_commas(learned.xaxis)
        legend_outside(figure, *learned.get_legend_handles_labels(), ncols=2)
        memory.set_xscale("symlog", base=2, linthresh=lengths[1])
        memory.set_xticks(lengths, [f"{length:,}" for length in lengths])
        bits = {name: data[name]["bits"]["seeds"] for name in GRID}
        both = _above(bits["absolute_memory"], bits["absolute"]) and _above(bits["xl"], bits["xl_memory"])
        helps = "Memory helps relative positions\nand hurts absolute ones"
        memory.set(
            title=fitted(helps if both else "After training"),
            xlabel="memory at evaluation, characters\n(log scale after 0; marks: as trained)",
            ylabel=f"test {BITS}\n{LOWER}",
        )
    numbers = ", ".join(
        f"{one.name} {data[name]['bits']['mean']:.2f} (spread {data[name]['bits']['spread']:.2f})"
        for name, one in GRID.items()
    )
    seeds = len(data["xl"]["bits"]["seeds"])
    return Picture(figure, f"Test {BITS}, mean of {seeds} seeds, with the memory trained with: {numbers}.")


def _above(more: Sequence[float], less: Sequence[float]) -> bool:
    """True if the first is larger in every seed."""
    return all(one > other for one, other in zip(more, less, strict=True))


def memory_choice(system: Data, *, mem_len: int) -> Picture:
    """Draw loss, reach and time, with its range, of one memory length at evaluation among the others."""
    rows, xl = system["by_memory"], SYSTEMS["xl_memory"]
    chosen = next(row for row in rows if row["mem_len"] == mem_len)
    shown: dict[str, tuple[str, list[float], float]] = {
        "Prediction": (
            f"test {BITS}\n{LOWER}",
            [row["bits"]["mean"] for row in rows],
            chosen["bits"]["mean"],
        ),
        "Longest reach": ("characters back", [row["longest_reach"] for row in rows], chosen["longest_reach"]),
        "Time": (
            f"microseconds per character\n{LOWER}",
            [row["microseconds_per_token"]["mean"] for row in rows],
            chosen["microseconds_per_token"]["mean"],
        ),
    }
    with drawing(9, 2.8) as figure:
        for axes, (title, (label, values, value)) in zip(panels(figure, 3), shown.items(), strict=True):
            axes.plot([row["mem_len"] for row in rows], values, ".-", color=xl.colour, lw=1.2)
            axes.plot(mem_len, value, "o", color=xl.colour, mec="black", mew=2, ms=11)
            number = f"{value:.2f}" if value < 10 else f"{value:.0f}"
            words = axes.annotate(
                number, (mem_len, value), (0, 13), textcoords="offset points", ha="center", va="bottom"
            )
            words.set_bbox({"facecolor": "white", "edgecolor": "#B0B0B0", "lw": 0.6, "pad": 1.5})
            axes.set(title=title, xlabel="memory at evaluation, characters", ylabel=label)
            axes.set_xscale("symlog", base=2, linthresh=rows[1]["mem_len"])
            axes.set_xticks(
                [row["mem_len"] for row in rows], [f"{row['mem_len']:,}" for row in rows], fontsize=8
            )
            axes.margins(x=0.1, y=0.25)
            if title == "Longest reach":
                axes.set_ylim(bottom=0)
        seeds = [row["microseconds_per_token"]["seeds"] for row in rows]
        low, high = ([end(values) for values in seeds] for end in (min, max))
        axes.vlines([row["mem_len"] for row in rows], low, high, color=xl.colour, lw=1)
        axes.set_ylim(0, 1.25 * max(map(max, seeds)))
    return Picture(
        figure,
        f"With {mem_len} characters of memory at evaluation: {chosen['bits']['mean']:.2f} {BITS}, "
        f"longest reach {chosen['longest_reach']} characters, "
        f"{chosen['microseconds_per_token']['mean']:.0f} microseconds per character.",
    )


NORMS = {"pre": "o", "post": "s"}
"""Marker of each place of the LayerNorm."""


def every_system(data: Data) -> Picture:
    """Draw test loss of every system, of one seed, against a bigram model's; hollow: without memory."""
    encodings = dict.fromkeys(row["encoding"] for row in data["systems"])
    labels = sorted(encodings, key=lambda label: list(LABELS).index(label.split(", ")[0]))
    with drawing(8, 4) as figure:
        axes = figure.subplots()
        for row in data["systems"]:
            place = labels.index(row["encoding"]) + (0.15 if row["norm"] == "post" else -0.15)
            system, _ = of_label(f"{row['encoding']}, {'memory' if row['mem_len'] else 'no memory'}")
            look = {} if system.memory else HOLLOW
            axes.plot(row["bits"], place, NORMS[row["norm"]], color=system.colour, ms=7, **look)
        axes.axvline(data["bigram_bits"], color="black", lw=1, ls=":")
        axes.annotate(
            "bigram model", (data["bigram_bits"], -0.45), (-4, 0), textcoords="offset points", ha="right"
        )
        for norm, mark in NORMS.items():
            for look, label in (({}, "with memory"), (HOLLOW, "no memory")):
                axes.plot([], [], mark, color="black", ms=7, **look, label=f"{norm}-norm, {label}")
        axes.set_yticks(range(len(labels)), [positions_of(label) for label in labels])
        axes.set_ylim(len(labels) - 0.5, -0.7)
        axes.set(
            title=fitted(_what_memory_does(data["systems"])),
            xlabel=f"test {BITS}\n{LEFT}",
        )
        legend_outside(figure, ncols=2)
    numbers = "; ".join(
        f"{positions_of(row['encoding'])}, {row['norm']}-norm, memory {row['mem_len']}: {row['bits']:.2f}"
        for row in data["systems"]
    )
    return Picture(figure, f"Test {BITS}; a bigram model needs {data['bigram_bits']:.2f}. {numbers}.")


def _what_memory_does(systems: Sequence[Data]) -> str:
    """Return what memory hurts, absolute positions with either norm, and what it helps with either."""
    bits = {(row["encoding"], row["norm"], bool(row["mem_len"])): row["bits"] for row in systems}
    added: dict[str, dict[str, float]] = {}
    for encoding, norm, memory in bits:
        if memory:
            more = bits[encoding, norm, True] - bits[encoding, norm, False]
            added.setdefault(encoding, {})[norm] = more
    of_absolute = [two for encoding, two in added.items() if encoding.startswith("absolute")]
    helped = [encoding for encoding, two in added.items() if max(two.values()) < 0]
    hurt = [
        f"{norm}-norm {positions_of(encoding)}"
        for encoding, two in added.items()
        for norm, more in two.items()
        if more > 0 and not encoding.startswith("absolute")
    ]
    if helped and all(min(two.values()) > 0 for two in of_absolute):
        names = " and ".join(map(positions_of, helped))
        worse = " and ".join(["absolute positions", *hurt])
        return f"One seed each: memory hurts {worse},\nand helps {names} with either norm"
    return "One seed of every system with memory, and without"
