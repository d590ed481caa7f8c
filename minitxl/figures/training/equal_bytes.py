"""Memory or longer segments at equal bytes, after equally many steps and after equally much text."""

from matplotlib.ticker import MaxNLocator

from minitxl.figures.marks import DOTS_AND_BAR, counted, seeds_and_mean, signed
from minitxl.figures.picture import BITS, Data, Picture, drawing, fitted, panels

EQUAL = {"steps": "equal steps", "fewer_steps": "equal text", "more_steps": "equal text"}
NO_FINDING = "with memory, or with longer segments"
WAYS = {"in_segments": "Read in segments", "full_context": "Read with a full context"}


def equal_bytes(data: Data) -> Picture:
    """Draw what memory saves over longer segments, paired by seed: in segments, and with full context."""
    said, count = [], len(data["more"]["steps"]["in_segments"]["seeds"])
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
                f"{BITS} that memory saves against longer segments without it,\n"
                "which take as many bytes of RAM in training\n"
                f"({counted(DOTS_AND_BAR, count)}; right of 0: memory is better)"
            ),
            fontsize=10,
        )
    return Picture(
        figure,
        f"Test {BITS} that memory saves Transformer-XL against longer segments without memory that take as "
        f"many bytes of RAM in training, for each of {count} seeds; below 0 longer segments are better. "
        f"{'; '.join(said)}.",
    )


def _finding(data: Data, way: str) -> str:
    """Return what memory saves, or costs, on average, if the seeds of each training agree on which."""
    means: dict[str, list[float]] = {}
    for kind, row in data["more"].items():
        if min(row[way]["seeds"]) <= 0 <= max(row[way]["seeds"]):
            return NO_FINDING
        means.setdefault(EQUAL[kind], []).append(row[way]["mean"])
    every = [mean for some in means.values() for mean in some]
    if min(every) > 0:
        return f"memory saves {min(every):.2f} to {max(every):.2f} bits"
    better = [equal for equal, some in means.items() if min(some) > 0]
    worse = [equal for equal, some in means.items() if max(some) < 0]
    if not len(better) == len(worse) == 1:
        return NO_FINDING
    saves, costs = (" and ".join(f"{abs(one):.2f}" for one in means[equal]) for equal in (*better, *worse))
    return f"memory saves {saves}\nbits at {better[0]},\ncosts {costs} at {worse[0]}"
