"""The computation of a head: one query from scores to result, all queries as a map, √d_head, and width."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from minitxl.figures.marks import write_numbers
from minitxl.figures.picture import BLUE, GREEN, ORANGE, PURPLE, Data, Picture, drawing

LARGEST = 3
"""Number of weights that a picture's words name."""
COLUMNS = 14
"""Columns of all matrices in a line, at most: each has room for a number of two decimals."""


def matrices(data: Data) -> Picture:
    """Draw small matrices in a row, with their numbers, and ``signs`` between them.

    ``matrices[title]`` is [row column]. The first row of those in ``framed`` is framed. Colours span each
    matrix's own values, or ``scale``, the lowest and highest, where it is given.
    """
    shown, signs = data["matrices"], [*data["signs"], ""]
    written = {
        title: [[f"{value:.2f}".rstrip("0").rstrip(".") for value in row] for row in matrix]
        for title, matrix in shown.items()
    }
    lines = _in_lines({title: len(matrix[0]) for title, matrix in shown.items()})
    tallest = max(len(matrix) for matrix in shown.values())
    broadest = max(sum(line.values()) for line in lines)
    with drawing(7, len(lines) * (5.6 * tallest / broadest + 0.7)) as figure:
        panels, rows = list[Axes](), figure.add_gridspec(len(lines), 1)
        for number, line in enumerate(lines):
            widths = [*line.values(), *[broadest - sum(line.values())] * (sum(line.values()) < broadest)]
            places = rows[number, 0].subgridspec(1, len(widths), width_ratios=widths)
            panels += [figure.add_subplot(places[0, column]) for column in range(len(line))]
        for axes, (title, matrix), sign in zip(panels, shown.items(), signs, strict=True):
            low, high = data.get("scale") or (min(map(min, matrix)), max(map(max, matrix)))
            axes.imshow(matrix, cmap="cividis", vmin=low, vmax=high)
            write_numbers(axes, matrix, written[title], dark=low + 0.55 * (high - low))
            axes.text(-0.5, -0.6, title, va="bottom", fontweight="bold")
            middle = (len(matrix) - 1) / 2
            axes.set(xticks=[], yticks=[], ylim=(middle + tallest / 2, middle - tallest / 2))
            axes.spines[:].set_visible(False)
            axes.annotate(
                sign, (1, 0.5), (8, 0), xycoords="axes fraction", textcoords="offset points", va="center",
                fontsize=14, ha="left",
            )  # fmt: skip
            if title in data.get("framed", ()):
                frame = Rectangle((-0.5, -0.5), len(matrix[0]), 1, fill=False)
                frame.set(edgecolor=ORANGE, lw=3, clip_on=False, zorder=3)
                axes.add_patch(frame)
    alt = "; ".join(
        f"{title.replace(chr(10), ' ')}: {', '.join(map(' '.join, rows))}" for title, rows in written.items()
    )
    return Picture(figure, f"Matrices, row by row. {alt}.")


def _in_lines(widths: dict[str, int]) -> list[dict[str, int]]:
    """Return the numbers of columns by title, on two lines where one has no room for the numbers."""
    if sum(widths.values()) <= COLUMNS:
        return [widths]
    titles, half = list(widths), sum(widths.values()) / 2
    sums = [sum(widths[title] for title in titles[: count + 1]) for count in range(len(titles))]
    first = min(range(1, len(titles)), key=lambda count: abs(sums[count - 1] - half))
    return [{title: widths[title] for title in part} for part in (titles[:first], titles[first:])]


def one_query(data: Data) -> Picture:
    """Draw scores, weights, values and their mean for ``tokens[query]``, top to bottom by key.

    ``scores`` and ``weights`` are [key], ``values`` [key column], ``result`` [column]; ``columns`` names the
    values' columns. A score of a masked key is None.
    """
    tokens, query = data["tokens"], data["query"]
    keys, named = range(len(tokens)), [f"{token} {place}" for place, token in enumerate(tokens)]
    with drawing(9, 4.2) as figure:
        grid = figure.add_gridspec(2, 3, height_ratios=[5, 1.3], width_ratios=[1, 1, 1.1])
        scores, weights, values = (figure.add_subplot(grid[0, column]) for column in range(3))
        result = figure.add_subplot(grid[1, 2])
        _bars(scores, [0.0 if score is None else score for score in data["scores"]], BLUE, "score, nats")
        _bars(weights, data["weights"], ORANGE, "weight, all sum to 1")
        scores.set(title="1  scores q·k / (T √d_head)", ylabel="key", yticks=keys, yticklabels=named)
        weights.set(title="2  weights: softmax", yticks=keys, yticklabels=[], xlim=(0, 1.16))
        for key, (score, weight) in enumerate(zip(data["scores"], data["weights"], strict=True)):
            weights.text(weight + 0.02, key, f"{weight:.2f}", va="center", fontsize=8)
            if score is None:
                scores.text(0, key, " masked", va="center", fontsize=8)
        scores.get_yticklabels()[query].set_fontweight("bold")
        values.imshow(data["values"], cmap="cividis", aspect="auto", vmin=0, vmax=1)
        values.set(title="3  values", yticks=keys, yticklabels=[], xticks=range(len(data["columns"])))
        values.set_xticklabels(data["columns"])
        result.imshow([data["result"]], cmap="cividis", aspect="auto", vmin=0, vmax=1)
        result.set(xticks=range(len(data["columns"])), xticklabels=data["columns"], yticks=[])
        result.set(title="4  result = Σ weight · value", xlabel="component of the value, one a letter")
        texts = [f"{amount:.2f}".removeprefix("0") for amount in data["result"]]
        write_numbers(result, [data["result"]], [texts], dark=0.5, fontsize=7)
        _inputs(figure.add_subplot(grid[1, :2]), data, named[query])
    first = sorted(keys, key=lambda key: -data["weights"][key])[:LARGEST]
    alt = ", ".join(f"{named[key]} {data['weights'][key]:.2f}" for key in first)
    return Picture(
        figure,
        f"Query {named[query]} of {len(tokens)} letters, head {data['head']}, temperature "
        f"{data['temperature']:g}: the largest weights are {alt}; all sum to {sum(data['weights']):.2f}. "
        f"The result is the mean of the values with these weights.",
    )


def _bars(axes: Axes, lengths: Sequence[float], colour: str, unit: str) -> None:
    axes.barh(range(len(lengths)), lengths, color=colour, height=0.7)
    axes.set(xlabel=unit, ylim=(len(lengths) - 0.5, -0.5))
    axes.axvline(0, color="black", lw=0.8)
    axes.tick_params(axis="y", length=0)


def _inputs(axes: Axes, data: Data, named: str) -> None:
    """Name query, head and temperature in a corner where nothing is drawn."""
    axes.axis("off")
    words = f"query {named}      head {data['head']}      temperature T = {data['temperature']:g}"
    axes.text(0, 0.6, words, va="center", fontsize=12)


def maps(data: Data) -> Picture:
    """Draw weights of every query (down) over every key (across): a column a head, a row a mask.

    A weight of exactly 0, which only a mask makes, is white.
    ``weights[mask][head]`` is [query key]; ``tokens`` are the letters.
    """
    tokens, rows = data["tokens"], data["weights"]
    heads, ticks = list(next(iter(rows.values()))), range(len(tokens))
    with drawing(7, 2.5 * len(rows)) as figure:
        panels = figure.subplots(len(rows), len(heads), squeeze=False)
        for line, (mask, of_head) in zip(panels, rows.items(), strict=True):
            for axes, head in zip(line, heads, strict=True):
                weights = np.ma.masked_equal(of_head[head], 0)
                drawn = axes.imshow(weights, cmap="cividis", vmin=0, vmax=1)
                axes.set(title=f"{head}, {mask}", xticks=ticks, yticks=ticks)
                axes.set(xticklabels=tokens, yticklabels=tokens)
                axes.tick_params(length=0)
            line[0].set_ylabel("query")
        for axes in panels[-1]:
            axes.set_xlabel("key")
        figure.colorbar(drawn, ax=panels, label="weight", shrink=0.6)
    alt = []
    for mask, of_head in rows.items():
        for head, weights in of_head.items():
            ahead = sum(sum(row[place + 1 :]) for place, row in enumerate(weights)) / len(tokens)
            alt.append(f"head {head}, {mask}: {ahead:.0%} of the weight on later letters")
    return Picture(
        figure,
        f"Weights of {len(tokens)} queries over {len(tokens)} keys, as maps; masked keys are white. "
        f"{'; '.join(alt)}.",
    )


SCALES = {
    "raw": ("q·k", ORANGE, "o-"),
    "scaled": ("q·k / √d_head", BLUE, "s--"),
}


def scaling(data: Data) -> Picture:
    """Draw the spread of scores and the largest weight against ``d_head``, raw and scaled."""
    with drawing(7, 3) as figure:
        spread, largest = figure.subplots(1, 2)
        for name, (label, colour, line) in SCALES.items():
            spread.plot(data["d_head"], data[name]["spread"], line, color=colour, label=label)
            largest.plot(data["d_head"], data[name]["largest"], line, color=colour, label=label)
        spread.set(title="Standard deviation of a score", ylabel="standard deviation", yscale="log")
        largest.set(title=f"Largest weight over {data['key']} keys", ylabel="weight", ylim=(0, 1))
        largest.axhline(1 / data["key"], color=GREEN, lw=1, ls=":", label="uniform")
        for axes in (spread, largest):
            axes.set_xscale("log", base=2)
            axes.set(xlabel="d_head", xticks=data["d_head"], xticklabels=data["d_head"])
        largest.legend(loc="center right")
    alt = "; ".join(
        f"{label}: standard deviation {data[name]['spread'][0]:.1f} to {data[name]['spread'][-1]:.1f}, "
        f"largest weight {data[name]['largest'][0]:.2f} to {data[name]['largest'][-1]:.2f}"
        for name, (label, _, _) in SCALES.items()
    )
    ends = data["d_head"][0], data["d_head"][-1]
    return Picture(
        figure, f"Random queries and {data['key']} random keys, d_head from {ends[0]} to {ends[1]}. {alt}."
    )


def by_width(data: Data) -> Picture:
    """Draw how far heads of each ``width`` are from the weights they were to learn: ``distance[head]``."""
    widths, looks = data["width"], [(PURPLE, "^-", 11), (BLUE, "s--", 7), (ORANGE, "o-.", 4)]
    with drawing(7, 3) as figure:
        axes = figure.subplots()
        for (head, distances), (colour, line, size) in zip(data["distance"].items(), looks, strict=True):
            axes.plot(widths, distances, line, color=colour, label=head, ms=size)
        axes.set_xscale("log", base=2)
        axes.set(xlabel="width of the head, d_head", xticks=widths, xticklabels=widths, ylim=(-0.05, None))
        axes.set(title="What a narrow head can learn", ylabel="distance in nats")
        axes.legend()
    alt = "; ".join(
        f"{head}: " + ", ".join(f"{distance:.2f}" for distance in distances)
        for head, distances in data["distance"].items()
    )
    named = ", ".join(map(str, widths))
    return Picture(figure, f"Distance from the wanted weights in nats, at widths {named}. {alt}.")
