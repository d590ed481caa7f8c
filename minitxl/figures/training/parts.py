"""What a training loses without a part of its step."""

from collections.abc import Sequence

from minitxl.figures.picture import BITS, BLUE, Data, Picture, drawing, headline, legend_outside, panels

NAMES = {
    "no_warmup": "no warm-up",
    "constant_rate": "constant rate",
    "shuffled_lanes": "shuffled lanes",
    "no_memory": "no memory",
}
GREY = "#E4E4E4"


def training_parts(data: Data) -> Picture:
    """Draw how much more the test loss is than that of the unchanged training of the same seed.

    There is a panel for each length of training. A grey bar reaches from the smallest to the largest of a
    change's differences.
    """
    words = []
    with drawing(10, 3.2) as figure:
        shown = panels(figure, len(data["rows"]), height=3.0, sharex=True, sharey=True)
        for axes, row in zip(shown, data["rows"], strict=True):
            axes.axvline(0, color="black", lw=1, ls=":")
            said = []
            for place, (change, name) in enumerate(NAMES.items()):
                cost = row["changes"][change]["cost"]
                ends = min(cost["seeds"]), max(cost["seeds"])
                axes.plot(ends, [place, place], color=GREY, lw=10, solid_capstyle="butt", zorder=1)
                axes.plot(cost["seeds"], [place] * len(cost["seeds"]), "o", color=BLUE, ms=6, mfc="white")
                axes.plot(cost["mean"], place, "|", color=BLUE, ms=18, mew=2.5)
                axes.annotate(
                    f"{cost['mean']:+.3f}",
                    (cost["mean"], place),
                    (0, 12),
                    textcoords="offset points",
                    ha="center",
                    fontsize=9,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
                )
                said.append(
                    f"{name} {cost['mean']:+.3f} ({', '.join(f'{one:+.3f}' for one in cost['seeds'])})"
                )
            axes.set(title=f"{row['steps']} steps", ylim=(len(NAMES) - 0.5, -0.7))
            axes.margins(x=0.12)
            axes.set_xlabel(f"{BITS} more than\nthe unchanged training of the same seed")
            words.append(f"after {row['steps']} steps {'; '.join(said)}")
        shown[0].set_yticks(range(len(NAMES)), list(NAMES.values()))
        shown[0].plot([], [], "o", color=BLUE, ms=6, mfc="white", label="a seed")
        shown[0].plot([], [], "|", color=BLUE, ms=12, mew=2.5, ls="none", label="mean of the seeds")
        headline(figure, _finding(data["rows"]))
        legend_outside(figure, ncols=2)
    return Picture(
        figure,
        f"Test {BITS} more than the unchanged training of the same seed, mean and seeds: {'. '.join(words)}.",
    )


def _finding(rows: Sequence[Data]) -> str:
    """Return what saves bits in every seed of every length, and what costs most after the longest."""
    costs = [{change: row["changes"][change]["cost"] for change in NAMES} for row in rows]
    ahead = [NAMES[change] for change in NAMES if all(max(row[change]["seeds"]) < 0 for row in costs)]
    worst = max(NAMES, key=lambda change: costs[-1][change]["mean"])
    most = f"most after {rows[-1]['steps']} steps: {NAMES[worst]}"
    return f"Fewer bits in every seed: {' and '.join(ahead)}; {most}" if ahead else most.capitalize()
