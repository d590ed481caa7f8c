"""Memory or longer segments at equal bytes, after equally many steps and after equally much text."""

from matplotlib.ticker import MaxNLocator

from minitxl.figures.marks import DOTS_AND_BAR, seeds_and_mean, signed
from minitxl.figures.picture import BITS, Data, Picture, drawing, fitted, is_narrow, panels
from minitxl.figures.systems import SYSTEMS

EQUAL = {"steps": "equally many steps", "fewer_steps": "equally much text", "more_steps": "equally much text"}
WAYS = {"in_segments": "Read in segments", "full_context": "With a full context"}


def equal_bytes(data: Data) -> Picture:
    """Draw what longer segments lose more than memory, paired by seed: in segments, and with full context."""
    colour, said = SYSTEMS["xl"].colour, []
    names = [
        f"{EQUAL[kind]}:\n{row['steps_with_memory']:,} with memory, {row['steps_without']:,} without"
        for kind, row in data["more"].items()
    ]
    with drawing(10, 3.6) as figure:
        both = panels(figure, 2, height=3, sharex=True, sharey=True)
        between = "\n" if is_narrow() else " "
        for axes, (way, title) in zip(both, WAYS.items(), strict=True):
            for place, (name, row) in enumerate(zip(names, data["more"].values(), strict=True)):
                seeds_and_mean(axes, place, row[way], colour)
                seeds = ", ".join(signed(one, 3) for one in row[way]["seeds"])
                said.append(f"{title.lower()}, {name} {seeds}".replace("\n", " "))
            axes.axvline(0, color="black", lw=1, ls=":")
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.set_yticks(range(len(names)), names)
            axes.set_ylim(len(names) - 0.5, -0.5)
            where = _where(data, way).replace("behind ", f"behind{between}")
            axes.set_title(fitted(f"{title}:\nmemory is ahead{between}{where}"))
        figure.supxlabel(
            fitted(
                f"{BITS} saved by memory against longer segments, with the same seed\n"
                f"({DOTS_AND_BAR}; right of 0: memory is ahead)"
            ),
            fontsize=10,
        )
    return Picture(
        figure,
        "Test bits per character that Transformer-XL with longer segments needs more than with memory of the "
        f"same bytes, by seed: {'; '.join(said)}.",
    )


def _where(data: Data, way: str) -> str:
    """Say after which trainings memory is ahead of longer segments in every seed, and behind them."""
    seeds = {kind: row[way]["seeds"] for kind, row in data["more"].items()}
    ahead = {EQUAL[kind] for kind, more in seeds.items() if min(more) > 0}
    behind = {EQUAL[kind] for kind, more in seeds.items() if max(more) < 0}
    if len(ahead | behind) < len(set(EQUAL.values())) or ahead & behind:
        return "right of 0"
    if not behind:
        return "in every seed"
    return f"after {' and '.join(sorted(ahead))},\nbehind after {' and '.join(sorted(behind))}"
