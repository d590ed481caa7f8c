"""Mean loss against context, and below it the context length that each seed's model has."""

from minitxl.figures.marks import label_ends, write_ends
from minitxl.figures.picture import Data, Picture, drawing
from minitxl.figures.systems import BY_NAME


def lengths_by_seed(data: Data) -> Picture:
    """Draw the mean loss of each of ``models``, systems by name, and a row for each seed's context length.

    ``models[name]`` has ``lengths``, ``loss`` at each, and ``of_seeds``, a context length for each seed;
    ``title`` and ``marks`` say what the two drawings show.
    """
    models, marks = data["models"], data["marks"]
    seeds = len(next(iter(models.values()))["of_seeds"])
    rows = len(models) * (seeds + 1)
    with drawing(7, 3.0 + 0.2 * rows) as figure:
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2.4, 0.2 * rows])
        ends, ticks, alt = [], [], []
        for number, (name, one) in enumerate(models.items()):
            system = BY_NAME[name]
            above.plot(one["lengths"], one["loss"], **system.look(), ms=3, lw=1.3, label=name)
            for seed, length in enumerate(one["of_seeds"]):
                y = -number * (seeds + 1) - seed
                ticks.append((y, f"seed {seed}"))
                below.axhline(y, color="#DDDDDD", lw=0.8, zorder=0)
                below.plot([length], [y], **system.look() | {"ls": "none"}, ms=8)
                below.annotate(
                    f"{length}", (length, y), (8, 0), textcoords="offset points", va="center", fontsize=9,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
                )  # fmt: skip
            ends.append((name, system.colour, one["lengths"][-1], y + (seeds - 1) / 2))
            lengths = " / ".join(map(str, one["of_seeds"]))
            alt.append(f"{name} {lengths} ({one['loss'][-1]:.2f} in the end)")
        above.set(title=data["title"], ylabel=data["unit"])
        below.set(
            title=f"{marks[0].upper()}{marks[1:]}, {data['tokens']}", xlabel=f"context, {data['tokens']}"
        )
        below.set_yticks([y for y, _ in ticks], [text for _, text in ticks], fontsize=8)
        below.tick_params(axis="y", length=0)
        below.set_ylim(min(ticks)[0] - 0.8, 0.8)
        label_ends(above)
        write_ends(below, ends)
    return Picture(
        figure,
        f"{data['unit'].capitalize()} against context (means), and {marks} in {data['tokens']} by seed: "
        f"{', '.join(alt)}.",
    )
