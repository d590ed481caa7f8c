"""Differences of two models, paired by seed, and the rule by which one counts."""

from collections.abc import Sequence
from statistics import mean, stdev
from typing import Any

from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from minitxl.figures.marks import SEED, signed
from minitxl.figures.picture import Data, Picture, drawing, fitted, legend_outside, panels

FACTORS = {3: 2.48, 5: 1.24}
"""Half the length of a 95 % interval over so many seeds, in standard deviations: Student's t over √n.

4.30 over √3, and 2.78 over √5.
"""
COUNTS, OPEN = "#000000", "#8A8A8A"
"""Colours of a difference that counts, and of one that is open; its line and its word say it too."""
SEED_INK = "#404040"
"""Colour of the seeds: that of no system, for a difference is of two."""


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the mean of differences, one a seed: mean ± factor · standard deviation."""
    if len(differences) not in FACTORS:
        raise ValueError(f"the interval is known for 3 and for 5 seeds, got {len(differences)}")
    half = FACTORS[len(differences)] * stdev(differences)
    return mean(differences) - half, mean(differences) + half


def verdict(differences: Sequence[float]) -> str:
    """Return "counts" if 0 lies outside of the interval, else "open"."""
    low, high = interval(differences)
    return "counts" if low > 0 or high < 0 else "open"


def less(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """Return one less the other, seed by seed."""
    return [a - b for a, b in zip(one, other, strict=True)]


def paired(data: Data) -> Picture:
    """Draw differences: in a row of each panel a dot for each seed, their interval, mean and verdict.

    ``panels[title][row]`` has the differences of the seeds. All panels have the same rows. ``label`` says
    what is less what, ``digits`` how many the means are written with.
    """
    rows = list(next(iter(data["panels"].values())))
    said = []
    with drawing(5.6 + 3.4 * (len(data["panels"]) - 1), 0.42 * len(rows) + 1.9) as figure:
        shown = panels(figure, len(data["panels"]), sharex=True, sharey=True)
        for axes, (title, differences) in zip(shown, data["panels"].items(), strict=True):
            axes.axvline(0, color="black", lw=1, ls=":")
            words = []
            for place, row in enumerate(rows):
                seeds, found = differences[row], verdict(differences[row])
                ends = interval(seeds)
                ink, line = (COUNTS, "-") if found == "counts" else (OPEN, "--")
                axes.plot(ends, [place] * 2, line, color=ink, lw=1.8)
                axes.plot(ends, [place] * 2, ls="none", marker="|", color=ink, ms=7, mew=1.2)
                axes.plot(seeds, [place - 0.22] * len(seeds), "o", color=SEED_INK, **SEED)
                axes.plot(mean(seeds), place, "|", color=ink, ms=12, mew=2.5)
                number = f"{signed(mean(seeds), data['digits'])} {found}"
                below: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "top"}
                white = {"fc": "white", "ec": "none", "pad": 0.5, "alpha": 0.85}
                axes.annotate(number, (mean(seeds), place), (0, -6), **below, fontsize=9, bbox=white)
                each = ", ".join(signed(one, data["digits"]) for one in seeds)
                low, high = (signed(end, data["digits"]) for end in ends)
                words.append(f"{' '.join(row.split())} {number} ({each}; interval {low} to {high})")
            axes.set_title(fitted(title))
            said.append(f"{' '.join(title.split())}: {'; '.join(words)}" if title else "; ".join(words))
        shown[0].set_yticks(range(len(rows)), rows)
        shown[0].set_ylim(len(rows) - 0.4, -0.6)
        shown[0].margins(x=0.12)
        shown[0].xaxis.set_major_locator(MaxNLocator(5))  # more of three decimals would touch
        figure.supxlabel(fitted(data["label"]), fontsize=10)
        marks = [
            Line2D([], [], marker="o", ls="none", color=SEED_INK, **SEED),
            Line2D([], [], color=COUNTS, lw=1.8),
            Line2D([], [], color=OPEN, lw=1.8, ls="--"),
        ]
        names = ["a seed", "interval without 0: counts", "interval with 0: open"]
        legend_outside(figure, marks, names, place="upper center", ncols=3, fontsize=9)
    return Picture(figure, f"{' '.join(data['label'].split())}. {'. '.join(said)}.")
