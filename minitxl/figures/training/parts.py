"""What changes of the training step save or cost, and what its rate and the peak of the rate do."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from minitxl.figures.marks import (
    DOTS_AND_BAR,
    HOLLOW,
    SEED,
    counted,
    negated,
    seeds_and_mean,
    signed,
)
from minitxl.figures.picture import (
    BITS,
    HELPS,
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
from minitxl.figures.recurrence.mechanism import capitalized
from minitxl.figures.systems import SYSTEMS, System
from minitxl.figures.training.paired import verdict

NAMES = {
    "no_warmup": "no warm-up",
    "constant_rate": "constant\nlearning rate",
    "shuffled_lanes": "memory of\nunrelated text",
    "no_memory": "no memory\nin training",
}
COST = "cost_with_memory"
"""The difference that is drawn: of test losses that are read alike."""


def training_parts(data: Data) -> Picture:
    """Draw the bits that each change of the training saves against the same seed's unchanged training.

    All are read with the same memory. There is a panel for each length of training.
    """
    words = []
    with drawing(10, 3.7) as figure:
        shown = panels(figure, len(data["rows"]), height=3.6, sharex=True, sharey=True)
        for axes, row in zip(shown, data["rows"], strict=True):
            axes.axvline(0, color="black", lw=1, ls=":")
            said = []
            for place, (change, name) in enumerate(NAMES.items()):
                saved = negated(row["changes"][change][COST])
                _row(axes, place, saved, SYSTEMS["xl" if change == "no_memory" else "xl_memory"])
                seeds = ", ".join(signed(one, 3) for one in saved["seeds"])
                said.append(f"{' '.join(name.split())} {_judged(saved)} ({seeds})")
            axes.set(title=f"after {row['steps']} steps", ylim=(len(NAMES) - 0.5, -0.6))
            axes.margins(x=0.35)
            marks = counted(DOTS_AND_BAR, len(saved["seeds"]))
            axes.set_xlabel(f"{BITS} saved by the change,\nall read with memory\n({marks}; {HELPS})")
            words.append(f"after {row['steps']} steps {'; '.join(said)}")
        if is_narrow():
            low, high = shown[0].get_xlim()
            shown[0].set_xlim(right=high + 0.3 * (high - low))  # room for the numbers' words
        shown[0].set_yticks(range(len(NAMES)), list(NAMES.values()))
        looks = {
            "memory in training": {"color": SYSTEMS["xl_memory"].colour, **SEED},
            "no memory in training": {"color": SYSTEMS["xl"].colour, **SEED, **HOLLOW},
        }
        handles = [Line2D([], [], marker="o", ls="none", **look) for look in looks.values()]
        words_of_verdicts = fitted(
            "counts: 0 lies outside the 95 % interval of the mean; open: 0 lies within\n"
            "(where nothing differs, chance makes one in twenty count)"
        )
        legend_outside(figure, handles, list(looks), ncols=2, title=words_of_verdicts)
        headline(figure, _finding(data["rows"], data["schedules"]["at_peaks"][0]["peaks"]["constant"]))
    return Picture(
        figure,
        f"Test {BITS} that each change of the training saves against the same seed's unchanged training, all "
        f"read with memory, mean and seeds: {'. '.join(words)}.",
    )


def _row(axes: Axes, place: int, saved: Data, system: System) -> None:
    """Draw the seeds of one change, their mean, and its number, in the system's colour."""
    seeds_and_mean(axes, place, saved, system.colour, memory=system.memory)
    style: dict[str, Any] = {"textcoords": "offset points", "va": "center"}
    axes.annotate(_judged(saved), (max(*saved["seeds"], 0), place), (9, 0), **style)


def _judged(saved: Data) -> str:
    """Return the mean and whether it counts."""
    return f"{signed(saved['mean'], 3)} {_verdict(saved['seeds'])}"


def _verdict(seeds: Sequence[float]) -> str:
    """Return the verdict of three seeds; fewer leave it open."""
    return verdict(seeds) if len(seeds) == 3 else "open"


def _finding(rows: Sequence[Data], peak: float) -> str:
    """Say what the one change saves that saves bits in every seed of every length, at the one peak rate."""
    costs = [{change: row["changes"][change][COST] for change in NAMES} for row in rows]
    ahead = [change for change in NAMES if all(max(row[change]["seeds"]) < 0 for row in costs)]
    if len(ahead) != 1:
        return "What one change of the training saves"
    (change,) = ahead
    name = capitalized(" ".join(NAMES[change].split()))
    saved = [
        f"{-row['changes'][change][COST]['mean']:.2f} after {row['steps']} steps "
        f"({_verdict(row['changes'][change][COST]['seeds'])})"
        for row in rows
    ]
    return f"{name}, peak {peak:g}: bits saved\n{', '.join(saved)}"


LINES = {
    "falling": ("#000000", "o-", -0.06, "falls to 0"),
    "constant": ("#606060", "s--", 0, "stays at its peak"),
    "no_warmup": ("#949494", "^:", 0.06, "falls to 0, without warm-up"),
}
"""Colour, mark and line, place beside the peak, and words of each schedule."""


def schedules(data: Data) -> Picture:
    """Draw the test loss with each schedule of the rate, by the peak of the rate."""
    found = data["schedules"]
    peaks = [row["peaks"]["falling"] for row in found["at_peaks"]]
    said, seeds = [], len(found["at_peaks"][0]["bits"]["falling"]["seeds"])
    with drawing(6, 3.8) as figure:
        axes = panels(figure, 1, height=4.4)[0]
        for name, (colour, line, aside, words) in LINES.items():
            bits = [row["bits"][name] for row in found["at_peaks"]]
            means = [one["mean"] for one in bits]
            below = [one["mean"] - min(one["seeds"]) for one in bits]
            above = [max(one["seeds"]) - one["mean"] for one in bits]
            places = [place + aside for place in range(len(peaks))]  # the bars would cover each other
            style: dict[str, Any] = {"lw": 1.6, "ms": 5, "elinewidth": 1.2, "capsize": 3, "label": words}
            axes.errorbar(places, means, (below, above), fmt=line, color=colour, **style)
            numbers = ", ".join(f"{mean:.2f} at {peak:g}" for peak, mean in zip(peaks, means, strict=True))
            said.append(f"{words} {numbers}")
        axes.set_xticks(range(len(peaks)), [f"{peak:g}" for peak in peaks])
        axes.set(
            xlabel="peak of the learning rate, log scale\n"
            f"(line: mean; bar: range of {seeds} seeds;\n"
            "no clear difference: 0 lies within the 95 %\ninterval of the mean difference)",
            ylabel=f"test loss, {BITS}\n{LOWER}",
            title=fitted(_ahead(found)),
        )
        axes.legend()
    return Picture(
        figure,
        f"Test {BITS} after {found['steps']} steps, by the peak of the learning rate, mean of {seeds} seeds: "
        f"{'; '.join(said)}. {' '.join(_ahead(found).split())}.",
    )


def _ahead(found: Data) -> str:
    """Say where falling or constant is ahead so that it counts, by the peak of both and each at its best."""

    def ahead(row: Data) -> str:
        cost = row["cost"]["constant"]
        return "open" if _verdict(cost["seeds"]) == "open" else "falling" if cost["mean"] > 0 else "constant"

    def saved(row: Data) -> str:
        return f"a {ahead(row)} rate saves {abs(row['cost']['constant']['mean']):.2f} bits"

    unclear = "no clear difference"
    counts = [
        f"Peak {row['peaks']['falling']:g}: {saved(row)}" for row in found["at_peaks"] if ahead(row) != "open"
    ]
    said = "; ".join(counts) or f"Both at one peak: {unclear}"
    best = found["at_best_peaks"]
    return f"{said}.\nEach at its best peak: {unclear if ahead(best) == 'open' else saved(best)}"
