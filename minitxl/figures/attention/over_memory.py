"""Attention over memory: where heads look, and what memory of each age is worth."""

from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import AsinhNorm, PowerNorm
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from minitxl.figures.marks import hatch_future, signed, write_numbers
from minitxl.figures.picture import BITS, Data, Picture, drawing, fitted, headline, is_narrow, printed
from minitxl.figures.positions.terms import NAMES
from minitxl.figures.systems import SYSTEMS

CHANGES = {
    "hide": ("hidden: what the states save", "black", "o"),
    "shuffle": ("shuffled: what their order saves", "#808080", "s"),
}
KEYS, KEYS_ON_A_PHONE = 48, 44
"""The last keys of a text that are drawn: of more, the characters could not be read."""

NEAREST = 8
"""Keys of a query that are called the nearest."""
FINE = 2.0
"""Nats up to which the colours of terms are about linear, so that the weak term is seen beside the strong."""


def attention_over_memory(data: Data) -> Picture:
    """Draw the bits that memory of each age saves: what hiding or shuffling it costs."""
    with drawing(6.4, 3.8) as figure:
        _changes(figure.subplots(), data)
    return Picture(figure, _in_words(data))


def attention_by_distance(data: Data) -> Picture:
    """Draw the paper's figure 5 in numbers: a row a head, its weight summed over spans of distances."""
    weights = np.array(data["weight_by_distance"])
    layers, heads, length = weights.shape
    rows = weights.reshape(layers * heads, -1)
    spans = [one["distances"] for one in data["share_by_distance"]]
    shares = np.stack([rows[:, first : last + 1].sum(axis=1) for first, last in spans], axis=1)
    with drawing(7, 4.2) as figure:
        axes = figure.subplots()
        axes.imshow(shares, cmap="cividis", aspect="auto", vmin=0, vmax=1)
        write_numbers(
            axes, shares, [[f"{100 * one:.0f}" for one in row] for row in shares], dark=0.5, fontsize=9
        )
        axes.set_yticks(
            range(len(rows)), [f"layer {n // heads + 1}, head {n % heads + 1}" for n in range(len(rows))]
        )
        axes.set_xticks(range(len(spans)), [str(a) if a == b else f"{a}–{b}" for a, b in spans])
        for layer in range(1, layers):
            axes.axhline(layer * heads - 0.5, color="white", lw=2)
        near = data["share_by_distance"][1]
        (first, last), seeds = near["distances"], near["share"]["seeds"]
        axes.set(
            title=fitted(
                "On average over the heads,\n"
                f"more than half of the weight goes {first} to {last} characters back"
                if min(seeds) > 0.5
                else "Attention by distance"
            ),
            xlabel="characters back from the query\n(numbers: % of the head's attention, one seed)",
        )
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    far = rows[:, length // 2 :].sum(axis=1)
    return Picture(
        figure,
        f"Mean weight of each of {heads} heads in {layers} layers by distance up to {length - 1} characters. "
        f"{int((far > 0.05).sum())} heads have more than 5 % of it beyond {length // 2 - 1} characters. "
        f"Share of attention by distance in characters, mean of all heads: {_shares(data)}.",
    )


def widest_heads(data: Data) -> Picture:
    """Draw the paper's figure 6: the widest heads on one text, by layer, a row a query."""
    weights, memory = np.array(data["text"]["weights"]), data["text"]["memory"]
    shares = weights[..., :memory].sum(-1).mean(1) * 100
    with drawing(10, 5.6) as figure:
        rows = figure.subplots(len(data["wide"]), 1, sharex=True)
        by_layer = sorted(zip(map(tuple, data["wide"]), range(len(shares)), strict=True))
        for axes, ((layer, head), place) in zip(rows, by_layer, strict=True):
            matrix, share = weights[place], shares[place]
            name = f"layer {layer + 1}, head {head + 1}:\n{share:.0f} % to memory"
            drawn = _over_text(axes, _causal(matrix), data["text"], name, norm=PowerNorm(0.5, vmin=0, vmax=1))
        share_to_memory = f"{min(shares):.0f} to {max(shares):.0f}\N{NO-BREAK SPACE}%"
        headline(
            figure,
            f"The {len(shares)} heads that look farthest back\n"
            f"give {share_to_memory} of their attention to memory",
        )
        above = 1.2 if is_narrow() else 1.03
        for words, side, shift in (("keys in memory", "right", -4), ("keys of the segment", "left", 4)):
            rows[0].annotate(
                words, (memory - 0.5, above), (shift, 0), xycoords=("data", "axes fraction"),
                textcoords="offset points", ha=side, va="bottom",
            )  # fmt: skip
        rows[-1].set_xlabel(fitted(f"{_shown_of(*weights.shape[1:])}\none text, model of one seed"))
        _name_characters(rows[-1], data["text"])
        figure.colorbar(
            drawn,
            ax=rows,
            pad=0.01,
            fraction=0.02,
            label="attention weight (square-root scale)",
            ticks=[0, 0.1, 0.5, 1],
        )
    return Picture(figure, f"Weights of the widest heads on one text: {_widest(data)}. {_shown(data)}")


def terms_on_text(data: Data) -> Picture:
    """Draw the paper's figure 7: terms (a), (b) and (d) of one head on one text, before the softmax.

    A colour means the same score in every panel.
    """
    layer, head = data["wide"][0]
    name = f"layer {layer + 1}, head {head + 1}"
    terms = {term: _causal(np.array(data["text"]["terms"]["abcd".index(term)])) for term in "abd"}
    most = max(np.nanmax(abs(matrix)) for matrix in terms.values())
    scale = AsinhNorm(FINE, vmin=-most, vmax=most)
    with drawing(10, 5.2) as figure:
        rows = figure.subplots(3, 1, sharex=True)
        for axes, (term, matrix) in zip(rows, terms.items(), strict=True):
            drawn = _over_text(axes, matrix, data["text"], NAMES[term].replace(" ", "\n", 1), norm=scale)
        figure.colorbar(
            drawn,
            ax=rows,
            pad=0.01,
            fraction=0.02,
            label="score, nats\n(colours change fastest near 0)",
            ticks=[-10, -3, 0, 3, 10],
            format="{x:g}",
        )
        headline(
            figure,
            _favours_the_near(data["text"]) or f"Terms of the score of {name}",
        )
        rows[-1].set_xlabel(
            fitted(
                f"{_shown_of(*matrix.shape)}\n{name}, one text, model of one seed; "
                "not drawn: (c), which depends on the key alone"
            )
        )
        _name_characters(rows[-1], data["text"])
    return Picture(
        figure,
        f"Terms (a), (b) and (d) of {name}; (c), one number for each key, is left out. {_shown(data)}",
    )


def _changes(axes: Axes, data: Data) -> None:
    """Draw the bits that memory of each age saves, by hiding or shuffling it, with all seeds' intervals."""
    ages = [f"{first}–{last}" for first, last in data["ages"]]
    rows = data["changes"]["xl_memory"]
    for shift, (how, (label, colour, mark)) in zip((-0.1, 0.1), CHANGES.items(), strict=True):
        for place, row in enumerate([row for row in rows if row["how"] == how][: len(ages)]):
            lows, highs = zip(*row["intervals"], strict=True)
            low, high = min(lows), max(highs)
            axes.plot([place + shift] * 2, [low, high], "-", color=colour, lw=1.5)
            axes.plot(
                place + shift, row["bits"]["mean"], mark, color=colour, label=label if place == 0 else None
            )
    axes.plot([], [], "-", color="#808080", lw=1.5, label="95 % interval (all seeds)")
    axes.axhline(0, color="black", lw=0.8)
    axes.set_xticks(range(len(ages)), ages)
    hidden = [row["bits"]["mean"] for row in rows if row["how"] == "hide"][: len(ages)]
    falls = all(older < newer for newer, older in pairwise(hidden))
    newest = max(hidden[1:], default=0) < hidden[0] / 2
    title = f"The newest {data['ages'][0][1]} states of memory save by far the most"
    axes.set(
        title=fitted("The older the memory, the less it saves")
        if falls
        else fitted(title)
        if newest
        else "What memory of some age saves",
        xlabel="age of the states that are changed, characters back",
        ylabel=f"{BITS} that these states\nof memory, or their order, save\n(above 0: it helps)",
    )
    axes.legend(title="These states of memory are", alignment="left")


def _over_text(axes: Axes, matrix: NDArray[np.float64], text: Data, name: str, **scale: Any) -> AxesImage:
    """Draw a row for each query, hatched where a key is of the future.

    The name stands at its left, or above it where a phone has no room there.
    """
    drawn = axes.imshow(matrix, cmap="cividis", aspect="auto", interpolation="nearest", **scale)
    hatch_future(axes)
    axes.set_xlim(matrix.shape[1] - _shown_keys() - 0.5, matrix.shape[1] - 0.5)
    axes.axvline(text["memory"] - 0.5, color="white", lw=2.5)
    axes.set_yticks([])
    axes.tick_params(length=0)
    if is_narrow():
        axes.set_title(name.replace("\n", " "), fontweight="normal")
    else:
        axes.set_ylabel(name, rotation=0, ha="right", va="center")
    return drawn


def _shown_keys() -> int:
    """Return how many keys have room."""
    return KEYS_ON_A_PHONE if is_narrow() else KEYS


def _shown_of(queries: int, keys: int) -> str:
    return (
        f"across: the last {_shown_keys()} of {keys} keys (white line: the segment begins)\n"
        f"down: {queries} queries, the last one lowest (hatched: keys of the future)"
    )


def _favours_the_near(text: Data) -> str:
    """Say for how many queries each term that is drawn is larger on the nearest keys; if (d) is for all."""
    count = {}
    for name in "abd":
        rows = _causal(np.array(text["terms"]["abcd".index(name)]))
        keys = [row[~np.isnan(row)] for row in rows]
        count[name] = sum(row[-NEAREST:].mean() > row[:-NEAREST].mean() for row in keys)
    if not max(count["a"], count["b"]) < count["d"] == len(rows):
        return ""
    return (
        f"On average term (d), distance alone, scores the {NEAREST} nearest keys above the others\n"
        f"for all {len(rows)} queries; term (a) does for {count['a']}, term (b) for {count['b']}"
    )


def _name_characters(axes: Axes, text: Data) -> None:
    shown = printed(text["characters"])
    first = len(shown) - _shown_keys()
    axes.set_xticks(
        range(first, len(shown)), shown[first:], family="monospace", fontsize=8 if is_narrow() else 10
    )


def _causal(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the matrix without the entries of the future, which mean nothing."""
    queries, keys = matrix.shape
    future = np.triu(np.ones((queries, keys), dtype=bool), keys - queries + 1)
    return np.where(future, np.nan, matrix)


def _in_words(data: Data) -> str:
    """Return changes by age in words."""
    changes = "; ".join(
        f"{SYSTEMS[name].name}, ages {row['ages'][0]} to {row['ages'][1]} "
        f"{CHANGES[row['how']][0].partition(':')[0]}: {signed(row['bits']['mean'], 3)}"
        for name, rows in data["changes"].items()
        for row in rows
    )
    seeds = len(data["changes"]["xl_memory"][0]["bits"]["seeds"])
    return f"{BITS} that memory saves, mean of {seeds} seeds, by what of it is changed: {changes}."


def _shares(data: Data) -> str:
    return ", ".join(
        f"{one['distances'][0]} to {one['distances'][1]}: {one['share']['mean']:.0%}"
        for one in data["share_by_distance"]
    )


def _widest(data: Data) -> str:
    return ", ".join(f"layer {layer + 1} head {head + 1}" for layer, head in data["wide"])


def _shown(data: Data) -> str:
    text = data["text"]
    queries = len(text["characters"]) - text["memory"]
    return f"{queries} queries, and as keys {text['memory']} characters of memory and the queries' own."
