"""Attention over memory beside what memory is worth: by age, cell by cell, and on the text itself.

Layers and heads are counted from 1 in words, from 0 in data. An age is how many tokens a state
of memory stands before the segment; 1 is the youngest.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike, NDArray

from minitxl.figures.marks import hide_frame
from minitxl.figures.picture import BITS, BLUE, ORANGE, Data, Picture, drawing

GREY = "#808080"
"""Colour of weights; costs are black."""
SHADES = LinearSegmentedColormap.from_list("white to blue", ["white", BLUE, "#00213A"])
SHADINGS = ("attention", "loss change")
"""Shadings of the browser's boxes: weights of one head, or bits where one state is hidden from all heads."""
DARKEST = 0.1
"""Bits from which on a box is as dark as can be."""


def heads_by_distance(weights: ArrayLike) -> Picture:
    """Draw the paper's Figure 5 in small, from [layer head dist]: mean weight, a row a head."""
    by_head = np.asarray(weights)
    layers, heads, _ = by_head.shape
    rows = by_head.reshape(layers * heads, -1)
    with drawing(7, 0.24 * len(rows) + 1.3) as figure:
        axes = figure.subplots()
        drawn = axes.imshow(
            rows, cmap="cividis", aspect="auto", norm=LogNorm(1e-4, 1), interpolation="nearest"
        )
        axes.set_yticks(range(len(rows)), [f"{n // heads + 1}.{n % heads + 1}" for n in range(len(rows))])
        for layer in range(1, layers):
            axes.axhline(layer * heads - 0.5, color="white", lw=2)
        axes.set(xlabel="distance, characters back from the query", ylabel="layer.head")
        figure.colorbar(drawn, ax=axes, label="mean weight, log scale")
    near = rows[:, :9].sum(1)
    widest, nearest = near.argmin(), near.argmax()
    return Picture(
        figure,
        f"Mean attention weight by distance, {len(rows)} heads. Within 8 characters: "
        f"layer {nearest // heads + 1} head {nearest % heads + 1} has {near[nearest]:.0%} of its weight, "
        f"layer {widest // heads + 1} head {widest % heads + 1} has {near[widest]:.0%}, "
        f"the mean head {near.mean():.0%}.",
    )


def wide_heads(text: Data, wide: Sequence[Sequence[int]]) -> Picture:
    """Draw Figure 6 in small: queries and keys, a panel a head; memory left of the line."""
    shown, memory = _printed(text["characters"]), text["memory"]
    alt = []
    with drawing(10, 1.75 * len(wide) + 0.3) as figure:
        panels = figure.subplots(len(wide), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (layer, head), matrix in zip(panels, wide, text["weights"], strict=True):
            rows = np.asarray(matrix)
            axes.imshow(rows**0.5, cmap="cividis", aspect="auto", interpolation="nearest")
            axes.axvline(memory - 0.5, color="white", lw=2, ls="--")
            axes.set_ylabel(
                f"layer {layer + 1}\nhead {head + 1}", rotation=0, ha="right", va="center", labelpad=12
            )
            queries = shown[memory : memory + len(rows)]
            axes.set_yticks(range(len(rows)), queries, family="monospace", fontsize=7)
            axes.tick_params(length=0)
            alt.append(
                f"layer {layer + 1} head {head + 1} gives {rows[:, :memory].sum(1).mean():.2f} of a query's "
                "weight to it"
            )
        panels[-1].set_xticks(range(len(shown)), shown, family="monospace", fontsize=7)
        panels[-1].set_xlabel(
            "keys: memory, and right of the dashed line the segment; the rows are its characters too"
        )
    return Picture(figure, f"Of memory, the last {memory} characters are shown: {'; '.join(alt)}.")


def weight_and_cost(ages: Sequence[tuple[int, int]], seeds: Sequence[Data]) -> Picture:
    """Draw what a state of memory gets and what it is worth, by age, in groups of equally many states.

    A seed holds, per state, ``weight`` [age], a part of all attention, and ``cost`` [age] of (mean, low,
    high) in bits, where the states of that age are hidden together.
    """
    if len({last - first for first, last in ages}) != 1:
        raise ValueError(f"ages must be groups of equally many states, got {list(ages)}")
    middles = [(first + last) / 2 for first, last in ages]
    with drawing(7, 4.6) as figure:
        looked, cost = figure.subplots(2, 1, sharex=True)
        for number, (seed, mark) in enumerate(zip(seeds, "osD^v" * len(seeds), strict=False)):
            shift = 1.2 * (number - (len(seeds) - 1) / 2)
            at = [middle + shift for middle in middles]
            label = f"model {number + 1}" if len(seeds) > 1 else None
            percent = [100 * weight for weight in seed["weight"]]
            looked.plot(at, percent, mark, color=GREY, ms=5, label=label)
            for x, (mean, low, high) in zip(at, seed["cost"], strict=True):
                cost.plot([x, x], [1000 * low, 1000 * high], "-", color="black", lw=1.2)
                cost.plot(x, 1000 * mean, mark, color="black", ms=5)
        looked.set(title="Weight of a state", ylabel="per cent of all attention", ylim=(0, None))
        if len(seeds) > 1:
            looked.legend()
        cost.axhline(0, color="black", lw=0.8)
        cost.set_yscale("symlog", linthresh=0.3)
        cost.set_yticks([-0.3, 0, 0.3, 1, 3, 10], ["−0.3", "0", "0.3", "1", "3", "10"])
        cost.set(title="Cost of hiding it", ylabel="thousandths of a bit")
        cost.set(xlabel=f"age, characters before the segment; {ages[0][1] - ages[0][0] + 1} states a mark")
        cost.set_xticks([1, *(last for _, last in ages[1::2])])
    alt = "; ".join(
        f"ages {first}–{last}: {100 * _mean(seeds, 'weight', place):.2f} % and "
        f"{1000 * _mean(seeds, 'cost', place):.2f}"
        for place, (first, last) in enumerate(ages)
    )
    return Picture(
        figure,
        f"For one state of memory, its weight and what hiding it costs, in thousandths of a bit: {alt}.",
    )


def _mean(seeds: Sequence[Data], name: str, place: int) -> float:
    return float(np.mean([np.ravel(seed[name][place])[0] for seed in seeds]))


def change_by_offset(bits: ArrayLike) -> Picture:
    """Draw the bits that all of memory is worth to each query of a segment, from [seg]."""
    worth = np.asarray(bits)
    eighth = -(-len(worth) // 8)
    part = worth[:eighth].sum() / worth.sum()
    with drawing(7, 2.6) as figure:
        axes = figure.subplots()
        axes.bar(range(len(worth)), worth, color="black", width=0.8)
        axes.axhline(0, color="black", lw=0.8)
        axes.set(
            xlabel="offset of the query in its segment, characters", ylabel=f"more {BITS},\nall memory hidden"
        )
    return Picture(
        figure,
        f"Without memory the first query of a segment costs {worth[0]:.2f} bits more. The first {eighth} of "
        f"{len(worth)} offsets bear {part:.0%} of all that is lost; the mean of the others is "
        f"{worth[eighth:].mean():.3f} bits.",
    )


def cell_by_cell(weights: ArrayLike, changes: ArrayLike) -> Picture:
    """Draw a dot a query and state, both [query mem]: its mean weight, and the bits where it is hidden."""
    bright, cost = np.asarray(weights), np.asarray(changes)
    rows, brightest = np.arange(len(bright)), bright.argmax(1)
    harmless = int((cost[rows, brightest] <= 0).sum())
    hit = int((brightest == cost.argmax(1)).sum())
    with drawing(7, 3.6) as figure:
        axes = figure.subplots()
        axes.plot(
            bright.ravel(), cost.ravel(), ".", color="#999999", ms=3, label="a state, for one prediction"
        )
        label = "the brightest state of a prediction"
        axes.plot(bright[rows, brightest], cost[rows, brightest], "D", color="black", ms=4, label=label)
        axes.axhline(0, color="black", lw=0.8)
        axes.set_xscale("log")
        axes.set_yscale("symlog", linthresh=0.01)
        axes.set_ylim(2 * cost.min() - 0.05, 4 * cost.max() + 0.05)
        axes.set(xlabel="weight, mean of all heads, log scale", ylabel="more bits where it is hidden")
        axes.legend(loc="upper left")
    return Picture(
        figure,
        f"{bright.size} pairs of a prediction and a state of memory. In {hit} of {len(bright)} predictions "
        f"the brightest state is the one that costs most; in {harmless} hiding it costs nothing or helps. "
        f"Largest cost {cost.max():.2f} bits, largest gain {-cost.min():.2f}.",
    )


def browser(reading: Data, *, layer: int, head: int, query: int, shading: str = "attention") -> Picture:
    """Draw a text as boxes, memory above its segment, as one query sees it; layer and head from 1.

    ``reading`` holds ``characters``, how many of them are ``memory``, ``weights`` [layer head query
    key] and ``changes`` [query mem] in bits.
    """
    text, memory = _printed(reading["characters"]), reading["memory"]
    here = memory + query
    goal = f"after {_quoted(text[here])}"
    if here + 1 < len(text):
        goal += f", to predict {_quoted(text[here + 1])}"
    if shading == "attention":
        values = np.asarray(reading["weights"][layer - 1][head - 1][query])[: here + 1]
        shades = (values / values.max()) ** 0.5
        title = f"layer {layer}, head {head}: where it looks {goal}"
    else:
        values = np.asarray(reading["changes"][query])
        shades = np.clip(values / DARKEST, -1, 1)
        title = f"what hiding each state of memory costs {goal}; darkest: {DARKEST} bits or more"
    columns = memory // 4
    rows = -(-len(text) // columns)
    with drawing(10, 0.42 * rows + 1.5) as figure:
        axes = figure.subplots()
        for place, character in enumerate(text):
            shade = float(shades[place]) if place < len(shades) else 0.0
            _box(axes, _where(place, memory, columns), character, shade, future=place > here)
        x, y = _where(here, memory, columns)
        axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, ec=ORANGE, lw=3, zorder=4))
        axes.axhline(3.8, color="black", lw=1, ls="--")
        starts = range(0, len(text), columns)
        axes.set_yticks(
            [_where(place, memory, columns)[1] for place in starts],
            [_row_name(place, memory, columns) for place in starts],
        )
        axes.set_xticks([])
        axes.set(xlim=(-0.6, columns - 0.4), ylim=(_where(len(text) - 1, memory, columns)[1] + 0.6, -0.6))
        hide_frame(axes)
        said = _strongest(text, values, memory, here, shading)
        axes.set(title=title)
        axes.set_xlabel(said.replace(" Strongest", "\nStrongest").replace(" Costliest", "\nCostliest"))
    return Picture(figure, f"Offset {query} of its segment, {title}. {said}")


def _box(axes: Axes, at: tuple[float, float], character: str, shade: float, *, future: bool) -> None:
    """Draw a character on its shade, -1 … 1; negative ones are hatched too."""
    axes.add_patch(
        Rectangle(
            (at[0] - 0.5, at[1] - 0.5),
            1,
            1,
            facecolor="#EEEEEE" if future else SHADES(abs(shade)),
            edgecolor="#BBBBBB",
            lw=0.5,
            hatch="\\\\\\" if shade < -0.1 else None,
        )
    )
    ink = "#AAAAAA" if future else "white" if abs(shade) > 0.6 else "black"
    axes.text(*at, character, color=ink, family="monospace", fontsize=9, ha="center", va="center")


def _where(place: int, memory: int, columns: int) -> tuple[float, float]:
    """Return column and row of a character; the segment stands a little below the memory."""
    return float(place % columns), place // columns + (0.6 if place >= memory else 0.0)


def _row_name(place: int, memory: int, columns: int) -> str:
    if place < memory:
        return f"memory, ages {memory - place}–{memory - place - columns + 1}"
    return f"segment, offsets {place - memory}–{place - memory + columns - 1}"


def _strongest(text: str, values: NDArray[Any], memory: int, here: int, shading: str) -> str:
    """Return the three largest in words, and the sum over memory."""
    largest = np.argsort(-values)[:3]
    listed = ", ".join(
        f"{_quoted(text[place])} {values[place]:{'.2f' if shading == 'attention' else '+.3f'}} "
        f"({f'age {memory - place}' if place < memory else f'{here - place} back in the segment'})"
        for place in largest
    )
    if shading == "attention":
        return f"{values[:memory].sum():.2f} of its weight lies on memory. Strongest: {listed}."
    harmless = int((values <= 0).sum())
    return (
        f"Of the {memory} states, hiding one costs nothing or helps (hatched) for {harmless}. "
        f"Costliest, in bits: {listed}."
    )


def _quoted(character: str) -> str:
    return {"·": "a space", "↵": "a line's end"}.get(character, f"“{character}”")


def _printed(characters: str) -> str:
    """Return one visible mark for each character."""
    marks = {" ": "·", "\n": "↵", "\t": "→"}
    return "".join(marks.get(one, one if one.isprintable() else "¤") for one in characters)
