"""Order and positions: which models learn it, where it shows, and what sinusoids say about a distance."""

import matplotlib as mpl
import numpy as np

from minitxl.figures.marks import in_per_cent, with_commas
from minitxl.figures.picture import BLUE, GREEN, ORANGE, PURPLE, Data, Picture, drawing, legend_outside

LINES = [(GREEN, "o-"), (PURPLE, "^--"), (ORANGE, "s:"), (BLUE, "D-"), ("black", "v-.")]
"""Colour, marker and dashes of each system, in the order given."""
SIZES = [14, 9, 5, 7, 7]
"""Sizes of their markers: the first three meet at chance, and each shows inside the one before."""
FLOOR = 0.003
"""Lower end of the scale of changes."""
MOST_PLACES = 8
"""Numbers of two digits that have room side by side; of more, every second is written."""


def order(curves: Data, *, steps: int) -> Picture:
    """Draw accuracy of each of up to five systems while it learns: ``{"step": [], "accuracy": []}``."""
    with drawing(7, 3.6) as figure:
        axes = figure.subplots()
        for (name, curve), (colour, line), size in zip(curves.items(), LINES, SIZES, strict=False):
            axes.plot(curve["step"], curve["accuracy"], line, label=name, color=colour, ms=size)
        axes.axhline(0.5, color="#808080", lw=1, zorder=0)
        axes.text(0, 0.51, " chance", color="#606060")
        axes.set(title="Which came first, A or B?", xlabel="training step", ylabel="right answers, %")
        with_commas(axes.xaxis)
        in_per_cent(axes.yaxis)
        axes.set(xlim=(0, steps * 1.02), ylim=(0.4, 1.03))
        legend_outside(figure, ncols=2)
    alt = ", ".join(f"{name} {100 * curve['accuracy'][-1]:.0f} %" for name, curve in curves.items())
    last = next(iter(curves.values()))["step"][-1]
    return Picture(figure, f"Right answers at step {last} of {steps}, chance 50 %: {alt}.")


def changed(data: Data) -> Picture:
    """Draw how far the outputs move if A and B are exchanged; ``changes[system]`` is [pos]."""
    systems, first, second = data["changes"], data["first"], data["second"]
    with drawing(7, 2.7) as figure:
        panels = figure.subplots(1, len(systems), sharey=True, squeeze=False)[0]
        for axes, (name, change) in zip(panels, systems.items(), strict=True):
            axes.bar(range(len(change)), change, color=BLUE)
            for place, amount in enumerate(change):
                if amount < data["rounding"]:
                    axes.text(place, FLOOR, "0", ha="center", va="bottom")
            named = {first: "A", second: "B", len(change) - 1: "?"}
            axes.set(title=name.replace(", ", ",\n"), xticks=list(named), xticklabels=named.values())
            axes.set(xlabel="position", yscale="log", ylim=(FLOOR, 20))
        panels[0].set_ylabel("change of the output (norm)")
    alt = "; ".join(
        f"{name}: moves at {sum(amount >= data['rounding'] for amount in change)} positions "
        f"of {len(change)}, by {change[-1]:.2f} at the last"
        for name, change in systems.items()
    )
    return Picture(figure, f"A at position {first} and B at {second} are exchanged. {alt}.")


def sinusoid_table(data: Data) -> Picture:
    """Draw the rows of ``sinusoids`` [pos model] as an image, and three of its sines as curves."""
    rows, columns = np.array(data["table"]), data["columns"]
    with drawing(7, 3.2) as figure:
        image, curves = figure.subplots(1, 2)
        drawn = image.imshow(rows, cmap="cividis", aspect="auto", vmin=-1, vmax=1)
        half = rows.shape[1] // 2
        image.axvline(half - 0.5, color="white", lw=1)
        image.set(title="sin ‖ cos", xlabel="component", ylabel="position")
        image.set(xticks=[0, half, 2 * half - 1])
        figure.colorbar(drawn, ax=image)
        for column, (colour, line) in zip(columns, LINES, strict=False):
            label = f"sine {column}"
            curves.plot(rows[:, column], line[1:], color=colour, label=label)
        curves.set(title="Fast and slow", xlabel="position", ylabel="component")
        legend_outside(figure, ncols=3)
    low, high = rows.min(), rows.max()
    places, width = rows.shape
    return Picture(
        figure,
        f"A table of sinusoids, {places} positions by {width} components from {low:.0f} to {high:.0f}: sines "
        f"in the left half, cosines in the right; sine 0 turns fastest, sine {half - 1} slowest.",
    )


def by_distance(data: Data) -> Picture:
    """Draw products of two positions against their distance i - j, a panel a kind.

    ``panels[name]`` has mean, low and high by distance, and spread: the largest high - low.
    """
    panels = data["panels"]
    with drawing(7, 3.3) as figure:
        plots = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axes, (name, panel) in zip(plots, panels.items(), strict=True):
            axes.fill_between(data["distance"], panel["low"], panel["high"], color=ORANGE, alpha=0.35, lw=0)
            axes.plot(data["distance"], panel["mean"], color=BLUE, lw=1.5)
            axes.set(title=f"{name}\nspread {_short(panel['spread'])}", xlabel="distance i − j, tokens")
        plots[0].set_ylabel("product of positions i and j")
        handles = [
            mpl.lines.Line2D([], [], color=BLUE, label="mean of all pairs of that distance"),
            mpl.patches.Patch(color=ORANGE, alpha=0.35, label="from the smallest pair to the largest"),
        ]
        legend_outside(figure, handles, [str(one.get_label()) for one in handles], ncols=2)
    alt = "; ".join(f"{name}: {_short(panel['spread'])}" for name, panel in panels.items())
    return Picture(
        figure,
        f"Products of {data['positions']} sinusoidal positions by distance. Largest spread between pairs of "
        f"one distance: {alt}.",
    )


def _short(spread: float) -> str:
    return f"{spread:.0f}" if spread >= 1 else f"{spread:.0e}"


def clocks(data: Data) -> Picture:
    """Draw the first hands of two positions, a clock each, and below them the product at every shift.

    ``hands["i"]`` and ``hands["j"]`` are [hand (sine, cosine)], of which the first ``drawn`` get a clock;
    ``turns`` are the tokens of a full turn [hand]; ``raw`` and ``projected`` have a product for each of
    ``shifts``.
    """
    hands, shift, distance = data["hands"], data["shift"], data["distance"]
    number, drawn = len(hands["i"]), data["drawn"]
    parts = [i[0] * j[0] + i[1] * j[1] for i, j in zip(hands["i"], hands["j"], strict=True)]
    with drawing(7, 4.8) as figure:
        grid = figure.add_gridspec(2, drawn + 1, height_ratios=[1, 1.3])
        for place in range(drawn):
            i, j = hands["i"][place], hands["j"][place]
            axes = figure.add_subplot(grid[0, place])
            axes.add_patch(mpl.patches.Circle((0, 0), 1, fill=False, color="#808080"))
            for (sine, cosine), colour, line in ((i, ORANGE, "-"), (j, BLUE, "--")):
                axes.plot([0, sine], [0, cosine], line, color=colour)
            axes.set(title=f"hand {place}", xlabel=f"cos {parts[place]:.2f}", aspect="equal")
            axes.text(0, 1.12, f"a turn in\n{data['turns'][place]:.3g} tokens", ha="center", va="bottom")
            axes.set(xlim=(-1.1, 1.1), ylim=(-1.1, 2.1), xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
        rest = figure.add_subplot(grid[0, drawn])
        rest.set_axis_off()
        words = f"hands {drawn} to {number - 1},\nslower: cos\ntogether {sum(parts[drawn:]):.2f}"
        rest.text(0.5, 0.5, words, ha="center", va="center", transform=rest.transAxes)
        below = figure.add_subplot(grid[1, :])
        for name, colour, line in (("raw", BLUE, "-"), ("projected", ORANGE, "--")):
            below.plot(data["shifts"], data[name], line, color=colour, label=LABELS[name])
            below.plot(shift, data[name][data["shifts"].index(shift)], "o", color=colour, ms=8)
        below.set(title=f"Product of positions {distance} apart", xlabel="shift of both, tokens")
        below.set_ylabel("product")
        handles = [
            mpl.lines.Line2D([], [], color=ORANGE, label=f"hand of i = {shift + distance}"),
            mpl.lines.Line2D([], [], color=BLUE, ls="--", label=f"hand of j = {shift}"),
        ]
        figure.legend(handles=handles, loc="outside upper left", ncols=2)
        figure.legend(*below.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    spreads = "; ".join(f"{name} {max(data[name]) - min(data[name]):.2f}" for name in LABELS)
    return Picture(
        figure,
        f"The {number} hands of positions {shift + distance} and {shift}: the cosines of their angles are "
        f"{', '.join(f'{part:.2f}' for part in parts)}, in all {sum(parts):.2f}. Over {len(data['shifts'])} "
        f"shifts the product changes by: {spreads}.",
    )


LABELS = {"raw": "$P_i \\cdot P_j$", "projected": "$(P_i W_q) \\cdot (P_j W_k)$"}


def one_vector(data: Data) -> Picture:
    """Draw how far apart the vectors of all keys are, a panel a way to number them; equal ones are marked.

    ``panels[name]`` has distances [key key] and places, the number each key was given.
    """
    tokens, alt = data["tokens"], []
    lines = -(-len(data["panels"]) // 2)
    with drawing(7, 3.9 * lines + 0.7) as figure:
        grid = figure.subplots(lines, 2, squeeze=False).ravel()
        for empty in grid[len(data["panels"]) :]:
            empty.remove()
        row = list(grid[: len(data["panels"])])
        for axes, (name, panel) in zip(row, data["panels"].items(), strict=True):
            apart = np.array(panel["distances"])
            image = axes.imshow(apart, cmap="cividis")
            same = np.argwhere((apart < data["rounding"]) & ~np.eye(len(tokens), dtype=bool))
            axes.plot(same[:, 1], same[:, 0], "s", ms=7, mfc="none", mec="white", mew=2)
            for side in (axes.axvline, axes.axhline):
                side(data["mem_len"] - 0.5, color="white", lw=2)
            places = [str(place) for place in panel["places"]]
            if len(places) > MOST_PLACES and max(map(len, places)) > 1:
                places[1::2] = [""] * len(places[1::2])
            given = [f"{token}\n{place}" for token, place in zip(tokens, places, strict=True)]
            axes.set_xticks(range(len(tokens)), given)
            axes.set_yticks(range(len(tokens)), tokens)
            axes.set(title=f"{name}:\n{len(same) // 2} pairs are one vector", xlabel="memory | segment")
            axes.tick_params(length=0)
            alt.append(f"{name}: {len(same) // 2}")
        figure.colorbar(
            image, ax=row, label="distance of the vectors", location="bottom", shrink=0.6, aspect=30
        )
    return Picture(
        figure, f"Pairs of {len(tokens)} keys that are one vector, by the numbers given: {'; '.join(alt)}."
    )
