"""Trained models and their past: context they use, and keys they attend to."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray

from minitxl.figures.marks import seed_band, ticks_at
from minitxl.figures.picture import (
    BITS,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    Data,
    Picture,
    drawing,
    fitted,
    is_narrow,
    legend_outside,
    panels,
)

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
KEYS_ON_A_PHONE = 44
PAPER_RECL = {"recurrent": ["xl_memory", "lstm"], "attentive": ["xl_memory", "shaw_memory", "xl", "absolute"]}
"""Table 8's order in each of its groups, the longest first."""


def context(data: Data) -> Picture:
    """Draw loss by context, where every target has exactly so many tokens before it."""
    lengths, systems = data["context_lens"], data["systems"]
    with drawing(6.4, 4) as figure:
        axes = figure.subplots()
        for name, (label, colour, line, _) in SYSTEMS.items():
            seed_band(axes, lengths, systems[name]["bits"], label=label, color=colour, ls=line, lw=1.4)
        gains = {
            name: min(one["tokens"] for one in systems[name]["effective_context_length"])
            for name in ("xl", "xl_memory")
        }
        axes.set(
            title=fitted("With memory, XL gains from a longer context")
            if gains["xl_memory"] > gains["xl"]
            else "Given exactly this context",
            xlabel="context, tokens",
            ylabel=f"test {BITS}",
            xscale="log",
        )
        ticks_at(axes, [length for length in lengths if (length // lengths[0]).bit_count() == 1])
        legend_outside(figure, ncols=3)
    alt = "; ".join(
        f"{label}: {BITS} {_at_ends(systems[name]['bits'], lengths)}" for name, (label, *_) in SYSTEMS.items()
    )
    return Picture(figure, f"Mean of the seeds over {data['targets']} targets. {alt}.")


def context_by_offset(data: Data) -> Picture:
    """Draw loss by offset in the segment, each model read in segments as it was trained."""
    shown = {name: look for name, look in SYSTEMS.items() if data["systems"][name]["bits_by_offset"]}
    first = {name: data["systems"][name]["bits_by_offset"][0]["mean"] for name in shown}
    with drawing(6.4, 4) as figure:
        axes = figure.subplots()
        for name, (label, colour, line, _) in shown.items():
            offsets = data["systems"][name]["bits_by_offset"]
            axes.plot([one["mean"] for one in offsets], color=colour, ls=line, lw=1.2, label=label)
        with_memory = max(bits for name, bits in first.items() if name.endswith("memory"))
        spared = with_memory < min(bits for name, bits in first.items() if not name.endswith("memory"))
        axes.set(
            title="Memory spares the first targets of a segment" if spared else "Read as trained",
            xlabel="offset in the segment, tokens",
            ylabel=f"test {BITS}",
        )
        legend_outside(figure, ncols=3)
    alt = "; ".join(
        f"{label}: {offsets[0]['mean']:.2f} at offset 0, {offsets[-1]['mean']:.2f} at {len(offsets) - 1}"
        for name, (label, *_) in shown.items()
        for offsets in [data["systems"][name]["bits_by_offset"]]
    )
    return Picture(figure, f"Test {BITS} by offset in the segment, mean of the seeds. {alt}.")


def context_recl(data: Data) -> Picture:
    """Draw the relative effective context length of each model, in the paper's two groups of models."""
    recl = data["recl"]
    with drawing(9, 3.6) as figure:
        shown = panels(figure, len(PAPER_RECL), height=2.3, sharex=True)
        for axes, (group, names) in zip(shown, PAPER_RECL.items(), strict=True):
            _recl(axes, recl[group], names)
            axes.set_title(f"Among {group} models")
        shown[-1].set_xlabel("relative effective context length, tokens")
        if not is_narrow():
            shown[0].set_xlabel("relative effective context length, tokens")
        legend_outside(figure, *shown[0].get_legend_handles_labels(), ncols=3)
    alt = "; ".join(f"{label} {_lengths(data, name)}" for name, (label, *_) in SYSTEMS.items())
    return Picture(figure, f"Relative effective context length in tokens. {alt}. {against_table_8(data)}")


def context_gains(data: Data) -> Picture:
    """Draw the gain of each pair of context lengths, a panel a model: the paper's Figure 3."""
    with drawing(10, 2.8) as figure:
        _gains(figure, data)
    first, last = data["context_lens"][0], data["context_lens"][-1]
    alt = []
    for name, (label, *_) in SYSTEMS.items():
        gains = {(pair["short"], pair["long"]): pair["perplexity"]["mean"] for pair in data["gains"][name]}
        alt.append(f"{label} {gains[first, last]:.2f}")
    return Picture(figure, f"Gain in perplexity of {last} tokens over {first}: {', '.join(alt)}.")


def _recl(axes: Axes, recl: Data, names: Sequence[str]) -> None:
    """Draw a row a model; a mark for each share of the hardest targets, a line over its seeds."""
    for place, name in enumerate(names):
        for at, (share, mark) in zip((-0.25, 0, 0.25), SHARES.items(), strict=True):
            tokens = [one["tokens"] for one in recl[name][share]]
            colour = SYSTEMS[name][1]
            axes.plot(tokens, [place + at] * len(tokens), "-", color=colour, lw=1)
            axes.plot(sum(tokens) / len(tokens), place + at, mark, color=colour, ms=5)
    for share, mark in SHARES.items():
        axes.plot([], [], mark, color="grey", label=f"hardest {float(share):.0%} of targets")
    axes.set_yticks(range(len(names)), [SYSTEMS[name][0].replace(", ", ",\n") for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(left=0)


def _gains(figure: Figure, data: Data) -> None:
    """Draw Figure 3: each model's gain of a longer context over the best of all with the shorter."""
    lengths = data["context_lens"]
    matrices = {name: _matrix(lengths, data["gains"][name]) for name in SYSTEMS}
    most = max(float(np.nanmax(matrix)) for matrix in matrices.values())
    shown = panels(figure, len(matrices), height=2.5, sharey=True, sharex=True)
    for axes, (name, matrix) in zip(shown, matrices.items(), strict=True):
        drawn = axes.imshow(matrix, cmap="cividis", vmin=0, vmax=most, origin="lower")
        axes.set_title(SYSTEMS[name][0].replace(", ", ",\n"), fontsize=9)
        places = range(3, len(lengths), 4)
        axes.set_xticks(places, [str(lengths[place]) for place in places], fontsize=9)
        axes.set_yticks(places, [str(lengths[place]) for place in places], fontsize=9)
    middle = shown[-1] if is_narrow() else shown[len(shown) // 2]
    middle.set_xlabel("longer context, tokens")
    shown[0].set_ylabel("shorter context")
    figure.colorbar(drawn, ax=shown, label="gain in perplexity", shrink=0.9 if not is_narrow() else 0.4)


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
    """Draw the bits that hiding or shuffling memory of each age costs."""
    with drawing(6.4, 3.8) as figure:
        _changes(figure.subplots(), data)
    return Picture(figure, _in_words(data))


def attention_by_distance(data: Data) -> Picture:
    """Draw the paper's figure 5: a row a head, its weight averaged by distance."""
    weights = np.array(data["weight_by_distance"])
    layers, heads, length = weights.shape
    rows = weights.reshape(layers * heads, -1)
    with drawing(7, 3.6) as figure:
        axes = figure.subplots()
        drawn = axes.imshow(rows, cmap="cividis", aspect="auto", norm=LogNorm(vmin=1e-4, vmax=1))
        axes.set_yticks(range(len(rows)), [f"{n // heads + 1}.{n % heads + 1}" for n in range(len(rows))])
        for layer in range(1, layers):
            axes.axhline(layer * heads - 0.5, color="white", lw=1)
        near = data["share_by_distance"][1]
        axes.set(
            title=fitted(
                f"{near['share']['mean']:.0%} of the weight lies {near['distances'][0]} to "
                f"{near['distances'][1]} tokens back"
            ),
            xlabel="tokens back from the query",
        )
        axes.set_ylabel("layer.head")
        figure.colorbar(drawn, ax=axes, label="mean weight")
    far = rows[:, length // 2 :].sum(axis=1)
    return Picture(
        figure,
        f"Mean weight of each of {heads} heads in {layers} layers by distance up to {length - 1} tokens. "
        f"{int((far > 0.05).sum())} heads have more than 5 % of it beyond {length // 2 - 1} tokens. "
        f"Share of attention by distance in tokens, mean of all heads: {_shares(data)}.",
    )


def widest_heads(data: Data) -> Picture:
    """Draw the paper's figure 6: the widest heads on one text, a row a query."""
    with drawing(10, 4) as figure:
        rows = figure.subplots(len(data["wide"]), 1, sharex=True)
        for axes, (layer, head), matrix in zip(rows, data["wide"], data["text"]["weights"], strict=True):
            _over_text(axes, np.array(matrix), data["text"], f"layer {layer + 1},\nhead {head + 1}")
        rows[0].set_title(fitted("The widest heads on one text: a row a query, memory left of the line"))
        _name_characters(rows[-1], data["text"])
    return Picture(figure, f"Weights of the widest heads on one text: {_widest(data)}. {_shown(data)}")


def terms_on_text(data: Data) -> Picture:
    """Draw the paper's figure 7: terms (a), (b) and (d) of one head on one text, before the softmax."""
    with drawing(10, 4) as figure:
        rows = figure.subplots(3, 1, sharex=True)
        for axes, name in zip(rows, ("a", "b", "d"), strict=True):
            matrix = np.array(data["text"]["terms"]["abcd".index(name)])
            _over_text(axes, _causal(matrix), data["text"], TERMS[name].replace(" ", "\n", 1))
        rows[0].set_title(fitted("Terms of one head before the softmax: a row a query"))
        _name_characters(rows[-1], data["text"])
    layer, head = data["wide"][0]
    return Picture(figure, f"Terms (a), (b) and (d) of layer {layer + 1} head {head + 1}. {_shown(data)}")


def _changes(axes: Axes, data: Data) -> None:
    """Draw the bits that hiding or shuffling memory of each age costs, a bar over all seeds' intervals."""
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
    hidden = [row["bits"]["mean"] for row in rows if row["how"] == "hide"][: len(ages)]
    falls = all(older < newer for newer, older in pairwise(hidden))
    axes.set(
        title="The older the memory, the less it is worth" if falls else "What memory of some age is worth",
        xlabel="age of the memory taken away, tokens",
        ylabel=f"more {BITS}",
    )
    axes.legend(title="memory is")


def _over_text(axes: Axes, matrix: NDArray[np.float64], text: Data, name: str) -> None:
    axes.imshow(matrix, cmap="cividis", aspect="auto", interpolation="nearest")
    if is_narrow():  # the last keys, or their characters could not be read
        axes.set_xlim(matrix.shape[1] - KEYS_ON_A_PHONE - 0.5, matrix.shape[1] - 0.5)
    axes.axvline(text["memory"] - 0.5, color="white", lw=1.5)
    axes.set_yticks([])
    axes.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)


def _name_characters(axes: Axes, text: Data) -> None:
    shown = text["characters"].replace("\n", "↵").replace(" ", "·")
    first = len(shown) - KEYS_ON_A_PHONE if is_narrow() else 0
    axes.set_xticks(range(first, len(shown)), shown[first:], family="monospace", fontsize=8)
    axes.tick_params(length=0)


def _causal(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the matrix without the entries of the future, which mean nothing."""
    queries, keys = matrix.shape
    future = np.triu(np.ones((queries, keys), dtype=bool), keys - queries + 1)
    return np.where(future, np.nan, matrix)


def _in_words(data: Data) -> str:
    """Return changes by age in words."""
    changes = "; ".join(
        f"{SYSTEMS[name][0]}, ages {row['ages'][0]} to {row['ages'][1]} "
        f"{CHANGES[row['how']][0]}: {row['bits']['mean']:+.3f}"
        for name, rows in data["changes"].items()
        for row in rows
    )
    seeds = len(data["changes"]["xl_memory"][0]["bits"]["seeds"])
    return f"Change in {BITS}, mean of {seeds} seeds, where memory is changed: {changes}."


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
