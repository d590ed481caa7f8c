"""Trained models and their past: context they use, and keys they attend to."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import FigureBase
from numpy.typing import NDArray

from minitxl.figures.marks import seed_band, ticks_at
from minitxl.figures.picture import BITS, BLUE, GREEN, ORANGE, PURPLE, Data, Picture, drawing

SYSTEMS = {
    "xl_memory": ("XL, memory", ORANGE, "-", "o"),
    "shaw_memory": ("Shaw, memory", BLUE, "--", "s"),
    "xl": ("XL, no memory", GREEN, "-.", "^"),
    "absolute": ("absolute, no memory", PURPLE, ":", "v"),
    "lstm": ("LSTM", "black", (0, (5, 1)), "D"),
}
CHANGES = {"hide": ("hidden", ORANGE, "o"), "shuffle": ("shuffled", BLUE, "s")}
TERMS = {"a": "(a) content", "b": "(b) content and distance", "c": "(c) key alone", "d": "(d) distance alone"}
SHARES = {"0.1": "o", "0.5": "s", "1.0": "^"}
PAPER_RECL = {"recurrent": ["xl_memory", "lstm"], "attentive": ["xl_memory", "shaw_memory", "xl", "absolute"]}
"""Table 8's order in each of its groups, the longest first."""


def context(data: Data) -> Picture:
    """Draw loss by offset and by context; RECL; and below, the gain of each pair of context lengths."""
    lengths, systems = data["context_lens"], data["systems"]
    with drawing(10, 6.4) as figure:
        upper, lower = figure.subfigures(2, 1, height_ratios=[1.5, 1], squeeze=False)[:, 0]
        by_offset, by_length, recl = upper.subplots(1, 3)
        for name, (label, colour, line, _) in SYSTEMS.items():
            seed_band(by_length, lengths, systems[name]["bits"], label=label, color=colour, ls=line, lw=1.2)
            if offsets := systems[name]["bits_by_offset"]:
                by_offset.plot([one["mean"] for one in offsets], color=colour, ls=line, lw=1.2)
        by_offset.set(title="Read as trained", xlabel="offset in the segment, tokens", ylabel=f"test {BITS}")
        by_length.set(
            title="Given exactly this context", xlabel="context, tokens", ylabel=f"test {BITS}", xscale="log"
        )
        ticks = [length for length in lengths if (length // lengths[0]).bit_count() == 1]
        ticks_at(by_length, ticks)
        by_length.legend(fontsize=7.5, loc=(0.42, 0.48))
        _recl(recl, data["recl"])
        _gains(lower, data)
    alt = "; ".join(
        f"{label}: {BITS} {_at_ends(systems[name]['bits'], lengths)}, RECL {_lengths(data, name)}"
        for name, (label, *_) in SYSTEMS.items()
    )
    return Picture(
        figure, f"Mean of the seeds over {data['targets']} targets. {alt}. {against_table_8(data)}"
    )


def context_gains(data: Data) -> Picture:
    """Draw the gain of each pair of context lengths, a panel a model: the paper's Figure 3."""
    with drawing(10, 2.6) as figure:
        _gains(figure, data)
    first, last = data["context_lens"][0], data["context_lens"][-1]
    alt = []
    for name, (label, *_) in SYSTEMS.items():
        gains = {(pair["short"], pair["long"]): pair["perplexity"]["mean"] for pair in data["gains"][name]}
        alt.append(f"{label} {gains[first, last]:.2f}")
    return Picture(figure, f"Gain in perplexity of {last} tokens over {first}: {', '.join(alt)}.")


def _recl(axes: Axes, recl: Data) -> None:
    """Draw a row a model, the paper's two groups apart; a mark for each share of the hardest targets."""
    rows = [(group, name) for group in PAPER_RECL for name in recl[group]]
    for place, (group, name) in enumerate(rows):
        for at, (share, mark) in zip((-0.2, 0, 0.2), SHARES.items(), strict=True):
            tokens = [one["tokens"] for one in recl[group][name][share]]
            colour = SYSTEMS[name][1]
            axes.plot(tokens, [place + at] * len(tokens), "-", color=colour, lw=1)
            axes.plot(sum(tokens) / len(tokens), place + at, mark, color=colour, ms=5)
    for share, mark in SHARES.items():
        axes.plot([], [], mark, color="grey", label=f"r = {share}")
    axes.axhline(len(recl["recurrent"]) - 0.5, color="black", lw=0.8, ls=":")
    axes.set_yticks(range(len(rows)), [SYSTEMS[name][0] for _, name in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.set(title="RECL, two groups", xlabel="tokens")
    axes.legend(fontsize=8)


def _gains(figure: FigureBase, data: Data) -> None:
    """Draw Figure 3: each model's gain of a longer context over the best of all with the shorter."""
    lengths = data["context_lens"]
    matrices = {name: _matrix(lengths, data["gains"][name]) for name in SYSTEMS}
    most = max(float(np.nanmax(matrix)) for matrix in matrices.values())
    panels = figure.subplots(1, len(matrices), sharey=True)
    for axes, (name, matrix) in zip(panels, matrices.items(), strict=True):
        drawn = axes.imshow(matrix, cmap="cividis", vmin=0, vmax=most, origin="lower")
        axes.set_title(SYSTEMS[name][0], fontsize=9)
        places = range(1, len(lengths), 4)
        axes.set_xticks(places, [str(lengths[place]) for place in places])
        axes.set_yticks(places, [str(lengths[place]) for place in places])
        axes.set_xlabel("longer context")
    panels[0].set_ylabel("shorter context, tokens")
    figure.colorbar(drawn, ax=panels, label="gain in perplexity", shrink=0.8)


def _matrix(lengths: list[int], pairs: Sequence[Data]) -> NDArray[np.float64]:
    """Return [short long], nan where long is not longer."""
    matrix = np.full((len(lengths), len(lengths)), np.nan)
    for pair in pairs:
        matrix[lengths.index(pair["short"]), lengths.index(pair["long"])] = pair["perplexity"]["mean"]
    return matrix


def _at_ends(bits: Sequence[Data], lengths: Sequence[int]) -> str:
    return f"{bits[0]['mean']:.2f} with {lengths[0]} tokens and {bits[-1]['mean']:.2f} with {lengths[-1]}"


def _lengths(data: Data, name: str) -> str:
    """Return mean RECL of the seeds at each r, in the group of all."""
    recl = data["recl"]["all"][name]
    return " / ".join(f"{_mean_length(recl[share]):.0f}" for share in SHARES) + " at r = 0.1 / 0.5 / 1.0"


def _mean_length(seeds: Sequence[Data]) -> float:
    return sum(one["tokens"] for one in seeds) / len(seeds)


def against_table_8(data: Data) -> str:
    """Return a sentence on the order of each group at r = 0.1, the paper's or not, and its lengths here."""
    alt = []
    for group, paper in PAPER_RECL.items():
        recl = {name: _mean_length(data["recl"][group][name]["0.1"]) for name in paper}
        ordered = all(recl[longer] >= recl[shorter] for longer, shorter in pairwise(paper))
        listed = ", ".join(f"{SYSTEMS[name][0]} {recl[name]:.0f}" for name in paper)
        alt.append(f"{'' if ordered else 'not '}the order of the paper ({listed})")
    return (
        f"Against Table 8 at r = 0.1: among recurrent models {alt[0]}; among attentive ones {alt[1]}. "
        "The paper's lengths are hundreds of words: models of this size, trained this briefly on characters, "
        "have not learned to use more."
    )


def attention_over_memory(data: Data) -> Picture:
    """Draw figures 5, 6 and 7 in small, and the loss where memory of some ages is taken away."""
    with drawing(10, 9.6) as figure:
        upper, middle, lower = figure.subfigures(3, 1, height_ratios=[1.15, 1.1, 1.0], squeeze=False)[:, 0]
        heads, changes = upper.subplots(1, 2, width_ratios=[1.1, 1])
        _heads(upper, heads, data)
        _changes(changes, data)
        wide = middle.subplots(len(data["wide"]), 1, sharex=True)
        for axes, (layer, head), matrix in zip(wide, data["wide"], data["text"]["weights"], strict=True):
            _over_text(axes, np.array(matrix), data["text"], f"layer {layer + 1},\nhead {head + 1}")
        wide[0].set_title("The widest heads on one text: a row a query, memory left of the line")
        _name_characters(wide[-1], data["text"])
        terms = lower.subplots(3, 1, sharex=True)
        for axes, name in zip(terms, ("a", "b", "d"), strict=True):
            matrix = np.array(data["text"]["terms"]["abcd".index(name)])
            _over_text(axes, _causal(matrix), data["text"], TERMS[name].replace(" ", "\n", 1))
        terms[0].set_title("Terms of the first of these heads, before the softmax")
        _name_characters(terms[-1], data["text"])
    return Picture(figure, _in_words(data))


def _heads(figure: FigureBase, axes: Axes, data: Data) -> None:
    """Figure 5: a row a head, weight averaged by distance."""
    weights = np.array(data["weight_by_distance"])
    layers, heads, _ = weights.shape
    rows = weights.reshape(layers * heads, -1)
    drawn = axes.imshow(rows, cmap="cividis", aspect="auto", norm=LogNorm(vmin=1e-4, vmax=1))
    axes.set_yticks(range(len(rows)), [f"{n // heads + 1}.{n % heads + 1}" for n in range(len(rows))])
    for layer in range(1, layers):
        axes.axhline(layer * heads - 0.5, color="white", lw=1)
    axes.set(title="Where heads look, on average", xlabel="tokens back from the query", ylabel="layer.head")
    figure.colorbar(drawn, ax=axes, label="mean weight")


def _changes(axes: Axes, data: Data) -> None:
    """Draw the bits that hiding or shuffling memory of each age costs."""
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
    axes.axhline(0, color="black", lw=0.8)
    axes.set_xticks(range(len(ages)), ages)
    axes.set(title="What memory of some age is worth", xlabel="age, tokens before the segment")
    axes.set_ylabel(f"more {BITS}")
    axes.legend()


def _over_text(axes: Axes, matrix: NDArray[np.float64], text: Data, name: str) -> None:
    axes.imshow(matrix, cmap="cividis", aspect="auto", interpolation="nearest")
    axes.axvline(text["memory"] - 0.5, color="white", lw=1.5)
    axes.set_yticks([])
    axes.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)


def _name_characters(axes: Axes, text: Data) -> None:
    shown = text["characters"].replace("\n", "↵").replace(" ", "·")
    axes.set_xticks(range(len(shown)), shown, family="monospace", fontsize=7)
    axes.tick_params(length=0)


def _causal(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the matrix without the entries of the future, which mean nothing."""
    queries, keys = matrix.shape
    future = np.triu(np.ones((queries, keys), dtype=bool), keys - queries + 1)
    return np.where(future, np.nan, matrix)


def _in_words(data: Data) -> str:
    """Return changes by age, and the share of attention by distance, in words."""
    changes = "; ".join(
        f"{SYSTEMS[name][0]}, ages {row['ages'][0]} to {row['ages'][1]} "
        f"{CHANGES[row['how']][0]}: {row['bits']['mean']:+.3f}"
        for name, rows in data["changes"].items()
        for row in rows
    )
    shares = ", ".join(
        f"{one['distances'][0]} to {one['distances'][1]}: {one['share']['mean']:.0%}"
        for one in data["share_by_distance"]
    )
    wide = ", ".join(f"layer {layer + 1} head {head + 1}" for layer, head in data["wide"])
    seeds = len(data["changes"]["xl_memory"][0]["bits"]["seeds"])
    return (
        f"Change in {BITS}, mean of {seeds} seeds, where memory is changed: {changes}. "
        f"Share of attention by distance in tokens, mean of all heads: {shares}. Widest heads: {wide}."
    )
