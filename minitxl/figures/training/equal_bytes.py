"""Memory or longer segments at equal bytes, after equally many steps and after equally much text."""

from matplotlib.ticker import MaxNLocator

from minitxl.figures.marks import DOTS_AND_BAR, seeds_and_mean, signed
from minitxl.figures.picture import BITS, Data, Picture, drawing, fitted, panels

EQUAL = {"steps": "equal steps", "fewer_steps": "equal text", "more_steps": "equal text"}
WAYS = {"in_segments": "Read in segments", "full_context": "Read with a full context"}


def equal_bytes(data: Data) -> Picture:
    """Draw what memory saves over longer segments, paired by seed: in segments, and with full context."""
    said = []
    names = [
        f"{EQUAL[kind]}:\n{row['steps_with_memory']:,} steps with memory,\n"
        f"{row['steps_without']:,} with longer segments"
        for kind, row in data["more"].items()
    ]
    with drawing(10, 3.6) as figure:
        both = panels(figure, 2, height=3, sharex=True, sharey=True)
        for axes, (way, title) in zip(both, WAYS.items(), strict=True):
            for place, (name, row) in enumerate(zip(names, data["more"].values(), strict=True)):
                seeds_and_mean(axes, place, row[way], "black")
                seeds = ", ".join(signed(one, 3) for one in row[way]["seeds"])
                said.append(f"{title.lower()}, {name} {seeds}".replace("\n", " "))
            axes.axvline(0, color="black", lw=1, ls=":")
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.set_yticks(range(len(names)), names)
            axes.set_ylim(len(names) - 0.5, -0.5)
            axes.set_title(f"{title}:\n{_finding(data, way)}")
        figure.supxlabel(
            fitted(
                f"{BITS} saved by memory, against a model without it whose longer segments\n"
                "take as many bytes of RAM in training\n"
                f"({DOTS_AND_BAR}; right of 0: memory is better)"
            ),
            fontsize=10,
        )
    return Picture(
        figure,
        f"Test {BITS} that memory saves Transformer-XL against longer segments that take as many bytes of "
        f"RAM in training, by seed; below 0 longer segments are better. {'; '.join(said)}.",
    )


def _finding(data: Data, way: str) -> str:
    """Return after which trainings memory is better than longer segments in every seed, or worse."""
    seeds = {kind: row[way]["seeds"] for kind, row in data["more"].items()}
    ahead = {EQUAL[kind] for kind, more in seeds.items() if min(more) > 0}
    behind = {EQUAL[kind] for kind, more in seeds.items() if max(more) < 0}
    if len(ahead | behind) < len(set(EQUAL.values())) or ahead & behind:
        return "with memory, or with longer segments"
    if not behind:
        return "memory saves bits in every seed"
    return f"memory saves bits at {' and '.join(sorted(ahead))},\nnot at {' and '.join(sorted(behind))}"
