"""The context that trained models use: loss by context and by offset, and effective context lengths."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from minitxl.figures.marks import DOTS_AND_BAR, seed_band, seeds_and_mean, signed, ticks_at, write_numbers
from minitxl.figures.picture import (
    AHEAD,
    BITS,
    LOWER,
    Data,
    Picture,
    drawing,
    fitted,
    headline,
    is_narrow,
    legend_outside,
    panels,
)
from minitxl.figures.systems import SYSTEMS

READERS = {key: SYSTEMS[key] for key in ("xl_memory", "shaw_memory", "xl", "absolute", "lstm")}
"""The systems of the experiment ``context``."""
BEYOND: dict[str, Any] = {"color": "#606060", "lw": 1.2, "ls": "--"}
"""Look of the line between the gains of a long context and those of a longer one."""
SHARES = {"0.1": "o", "0.5": "s", "1.0": "^"}
PAPER_RECL = {"recurrent": ["xl_memory", "lstm"], "attentive": ["xl_memory", "shaw_memory", "xl", "absolute"]}
"""Table 8's order in each of its groups, the longest first."""


def context(data: Data) -> Picture:
    """Draw loss by context, where every target has exactly so many tokens before it."""
    lengths, systems = data["context_lens"], data["systems"]
    with drawing(6.4, 4) as figure:
        axes = figure.subplots()
        for name, one in READERS.items():
            read = _read(data, name)
            bits = systems[name]["bits"][: len(read)]
            seed_band(axes, read, bits, label=one.name, **one.look(marker=False), lw=1.4)
        gains = {
            name: min(one["tokens"] for one in systems[name]["effective_context_length"])
            for name in ("xl", "xl_memory")
        }
        axes.set(
            title=fitted(
                "Transformer-XL uses more context with memory than without"
                if gains["xl_memory"] > gains["xl"]
                else _lowest(systems, lengths)
            ),
            xlabel=f"context, characters, log scale\n({_limit(data)})",
            ylabel=f"test {BITS}\n{LOWER}",
            xscale="log",
        )
        ticks_at(axes, [length for length in lengths if (length // lengths[0]).bit_count() == 1])
        legend_outside(figure, ncols=3)
    alt = "; ".join(
        f"{one.name}: {BITS} {_at_ends(systems[name]['bits'], _read(data, name))}"
        for name, one in READERS.items()
    )
    return Picture(
        figure,
        f"Mean of the seeds over {data['targets']} targets; {_limit(data)}. {alt}. "
        f"{_lowest(systems, lengths)}.",
    )


def _read(data: Data, name: str) -> list[int]:
    """Return the contexts that a system reads whole: learned positions end with the segment of training."""
    lengths = data["context_lens"]
    return [length for length in lengths if name != "absolute" or length <= data["seg_len"]]


def _limit(data: Data) -> str:
    return f"{READERS['absolute'].name}: it reads {data['seg_len']} at most"


def _lowest(systems: Data, lengths: Sequence[int]) -> str:
    """Say whose mean is lowest with the longest context, and from which context on it is."""
    best = [
        min(READERS, key=lambda name: float(systems[name]["bits"][place]["mean"]))
        for place in range(len(lengths))
    ]
    others = [length for length, name in zip(lengths, best, strict=True) if name != best[-1]]
    since = lengths[lengths.index(others[-1]) + 1] if others else lengths[0]
    name = READERS[best[-1]].name
    return f"{'The LSTM' if name == 'LSTM' else name} is lowest on average from {since} characters on"


def context_by_offset(data: Data) -> Picture:
    """Draw by offset what XL with memory saves against each other model, all read as trained.

    The same seed on the same text is taken off: what an offset's text makes hard, it makes hard for all.
    """
    by_offset = {name: one["bits_by_offset"] for name, one in data["systems"].items()}
    base, *others = (name for name in READERS if by_offset[name])
    first = {name: by_offset[name][0]["mean"] for name in (base, *others)}
    more = {name: more_by_offset(by_offset[name], by_offset[base]) for name in others}
    with drawing(6.4, 4) as figure:
        axes = figure.subplots()
        for name in others:
            one = SYSTEMS[name]
            style = {**one.look(marker=False), "lw": 1.4, "label": one.name}
            seed_band(axes, range(len(more[name])), more[name], **style)
        axes.axhline(0, color=SYSTEMS[base].colour, lw=1.4, label=SYSTEMS[base].name)
        with_memory = max(bits for name, bits in first.items() if name.endswith("memory"))
        spared = with_memory < min(bits for name, bits in first.items() if not name.endswith("memory"))
        axes.set(
            title=fitted(
                f"At a segment's first prediction {SYSTEMS[base].name}\n"
                "saves most against models without memory"
                if spared
                else "Read as trained"
            ),
            xlabel="offset in the segment, characters",
            ylabel=f"{BITS} that\n{SYSTEMS[base].name} saves\nagainst each system\n{AHEAD}",
        )
        legend_outside(figure, ncols=2)
    alt = "; ".join(
        f"{SYSTEMS[name].name}: {signed(rows[0]['mean'], 2)} at offset 0, "
        f"{signed(rows[-1]['mean'], 2)} at {len(rows) - 1}"
        for name, rows in more.items()
    )
    return Picture(
        figure,
        f"Test {BITS} that {SYSTEMS[base].name} saves against each by offset in the segment, mean of the "
        f"seeds; at offset 0 it has {first[base]:.2f}. {alt}.",
    )


def more_by_offset(rows: Sequence[Data], base: Sequence[Data]) -> list[Data]:
    """Return at each offset what the loss is more than the other system's, of each seed and on average."""
    more = [
        [one - other for one, other in zip(row["seeds"], least["seeds"], strict=True)]
        for row, least in zip(rows, base, strict=True)
    ]
    return [{"seeds": seeds, "mean": sum(seeds) / len(seeds)} for seeds in more]


def context_recl(data: Data) -> Picture:
    """Draw the relative effective context length of each model, in the paper's two groups of models."""
    recl = data["recl"]
    with drawing(9, 4.8) as figure:
        shown = panels(figure, len(PAPER_RECL), height=4, sharex=True)
        for axes, (group, names) in zip(shown, PAPER_RECL.items(), strict=True):
            _recl(axes, recl[group], names)
            hollow = "" if all(SYSTEMS[name].memory for name in names) else "; hollow: no memory"
            axes.set(
                title=_recl_title(recl[group], group),
                xlabel="relative effective context length, characters:\n"
                "the longest context from which a model gains\n"
                f"against the best of these {len(names)} models\n({DOTS_AND_BAR}{hollow})",
            )
            axes.tick_params(labelbottom=True)
        legend_outside(figure, *shown[0].get_legend_handles_labels(), ncols=4, title="measured on")
    alt = "; ".join(f"{one.name} {_lengths(data, name)}" for name, one in READERS.items())
    return Picture(
        figure,
        f"Relative effective context length in characters, on the hardest 10 %, half and all of the targets. "
        f"{alt}. {against_table_8(data)}",
    )


def _recl_title(recl: Data, group: str) -> str:
    """Say what holds of a group in every seed and at every share of the targets."""

    def is_longer(one: str, other: str) -> bool:
        pairs = ((recl[one][share], recl[other][share]) for share in SHARES)
        return all(
            a["tokens"] > b["tokens"] for mine, theirs in pairs for a, b in zip(mine, theirs, strict=True)
        )

    if group == "recurrent" and is_longer("xl_memory", "lstm"):
        return "Transformer-XL uses more context\nthan the LSTM"
    if group == "attentive" and is_longer("xl_memory", "xl"):
        return "Transformer-XL uses more context\nwith memory than without"
    return {"recurrent": "Recurrent models", "attentive": "Models with attention"}[group]


def context_gains(data: Data) -> Picture:
    """Draw the gain of each pair of context lengths, a panel a model: the paper's Figure 3."""
    with drawing(10, 4) as figure:
        _gains(figure, data)
        middle = middle_of(data)
        first, last = data["context_lens"][0], data["context_lens"][-1]
        if all(3 * far < whole for name in READERS for far, whole in _far_and_whole(data, name, middle)):
            headline(
                figure,
                f"Most of what a context of {last} characters saves beyond {first} "
                f"is saved by its nearest {middle}",
            )
    alt = [f"{one.name} {_gain(data, name, first)['mean']:.2f}" for name, one in READERS.items()]
    return Picture(
        figure,
        f"Perplexity saved where the context grows from {first} to {last} characters ({_limit(data)}): "
        f"{', '.join(alt)}. "
        f"Each target is compared with the best of the models that has {first}; one that is predicted worse "
        "counts as nothing saved.",
    )


def doubled(lengths: Sequence[int]) -> list[int]:
    """Return those lengths that are the first one times a power of 2: their gains have room for numbers."""
    return [length for length in lengths if (length // lengths[0]).bit_count() == 1]


def middle_of(data: Data) -> int:
    """Return a quarter of the longest context: a dashed line divides the gains from there."""
    lengths = data["context_lens"]
    middle: int = lengths[len(lengths) // 4 - 1]
    return middle


def _gain(data: Data, name: str, short: int) -> Data:
    """Return the gain of the longest context over all models' best with a shorter one, by seed and mean."""
    (pair,) = (
        pair
        for pair in data["gains"][name]
        if (pair["short"], pair["long"]) == (short, data["context_lens"][-1])
    )
    gain: Data = pair["perplexity"]
    return gain


def _far_and_whole(data: Data, name: str, middle: int) -> Iterator[tuple[float, float]]:
    """Yield for each seed the gain over the ``middle`` context, and that over the shortest."""
    far, whole = _gain(data, name, middle), _gain(data, name, data["context_lens"][0])
    return zip(far["seeds"], whole["seeds"], strict=True)


def _recl(axes: Axes, recl: Data, names: Sequence[str]) -> None:
    """Draw three rows a model, one for each share of the hardest targets."""
    for place, name in enumerate(names):
        for at, (share, mark) in zip((-0.28, 0, 0.28), SHARES.items(), strict=True):
            tokens = [one["tokens"] for one in recl[name][share]]
            summary = {"seeds": tokens, "mean": sum(tokens) / len(tokens)}
            look: dict[str, Any] = {"marker": mark, "memory": SYSTEMS[name].memory}
            seeds_and_mean(axes, place + at, summary, SYSTEMS[name].colour, **look)
    for share, mark in SHARES.items():
        label = "all targets" if share == "1.0" else f"hardest {100 * float(share):.0f} % of targets"
        axes.plot([], [], mark, color="grey", label=label)
    axes.set_yticks(range(len(names)), [SYSTEMS[name].name.replace(", ", ",\n") for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(left=0)


def _gains(figure: Figure, data: Data) -> None:
    """Draw Figure 3: each model's gain of a longer context over the best of all with the shorter.

    The best is chosen for each target, so it has a smaller loss than any one model, and no gain is negative.
    """
    lengths = doubled(data["context_lens"])
    matrices = {name: _matrix(lengths, data["gains"][name]) for name in READERS}
    for name, matrix in matrices.items():
        matrix[lengths.index(_read(data, name)[-1]) :] = np.nan  # there is no more to read, so none to save
    most = max(float(np.nanmax(matrix)) for matrix in matrices.values())
    shown = panels(figure, len(matrices), height=1.9, sharey=True, sharex=True)
    for axes, (name, matrix) in zip(shown, matrices.items(), strict=True):
        look = PowerNorm(0.5, vmin=0, vmax=most)  # small gains differ from none
        drawn = axes.imshow(matrix, cmap="cividis", norm=look, origin="lower", aspect="auto")
        texts = [["" if np.isnan(one) else f"{one:.2f}" for one in row] for row in matrix]
        write_numbers(axes, matrix, texts, dark=0.07)
        for short in range(lengths.index(_read(data, name)[-1]), len(lengths) - 1):
            axes.text(len(lengths) - 1, short, "–", ha="center", va="center")
        axes.axhline(lengths.index(middle_of(data)) - 0.5, **BEYOND)
        axes.set_title(SYSTEMS[name].name.replace(", ", ",\n"), fontsize=10)
        names = [f"{length:,}" for length in lengths]
        axes.set_xticks(range(1, len(lengths)), names[1:])
        axes.set_yticks(range(len(lengths) - 1), names[:-1])
        axes.set(xlim=(0.5, len(lengths) - 0.5), ylim=(-0.5, len(lengths) - 1.5))
    line = Line2D([], [], **BEYOND)
    words = f"above this line: what is saved beyond {middle_of(data)} characters of context"
    none = Line2D([], [], color="black", marker="$–$", ls="none", ms=6)
    names = [fitted(words), fitted(_limit(data))]
    legend_outside(figure, [line, none], names, place="lower left", ncols=2)
    middle = shown[-1] if is_narrow() else shown[len(shown) // 2]
    middle.set_xlabel("… to this longer context, characters")
    shown[0].set_ylabel("from this context …")
    bar = figure.colorbar(drawn, ax=shown, shrink=0.9 if not is_narrow() else 0.4)
    bar.set_label(
        "perplexity saved, for each target against\n"
        f"the best of all {len(matrices)} models with the\n"
        "shorter context; worse counts as 0\n(square-root scale)"
    )
    bar.set_ticks([0.0, 0.05, 0.2], labels=["0", "0.05", "0.2"])


def _matrix(lengths: list[int], pairs: Sequence[Data]) -> NDArray[np.float64]:
    """Return [short long], nan where long is not longer."""
    matrix = np.full((len(lengths), len(lengths)), np.nan)
    for pair in (one for one in pairs if one["short"] in lengths and one["long"] in lengths):
        matrix[lengths.index(pair["short"]), lengths.index(pair["long"])] = pair["perplexity"]["mean"]
    return matrix


def _at_ends(bits: Sequence[Data], lengths: Sequence[int]) -> str:
    first, last = bits[0]["mean"], bits[len(lengths) - 1]["mean"]
    return f"{first:.2f} with {lengths[0]} characters and {last:.2f} with {lengths[-1]}"


def _lengths(data: Data, name: str) -> str:
    """Return mean RECL of the seeds at each r, in the group of all."""
    recl = data["recl"]["all"][name]
    return ", ".join(f"{_mean_length(recl[share]):.0f}" for share in SHARES)


def _mean_length(seeds: Sequence[Data]) -> float:
    return sum(one["tokens"] for one in seeds) / len(seeds)


def against_table_8(data: Data) -> str:
    """Return a sentence on the order of each group at r = 0.1, the paper's or not, and its lengths here."""
    alt = []
    for group, paper in PAPER_RECL.items():
        recl = {name: _mean_length(data["recl"][group][name]["0.1"]) for name in paper}
        ordered = all(recl[longer] >= recl[shorter] for longer, shorter in pairwise(paper))
        listed = ", ".join(f"{SYSTEMS[name].name} {recl[name]:.0f}" for name in paper)
        alt.append(f"{'' if ordered else 'not '}the order of the paper ({listed})")
    return (
        f"Against Table 8 at r = 0.1: among recurrent models {alt[0]}; among attentive ones {alt[1]}. "
        "The paper's lengths are hundreds of words: models of this size, trained this briefly on characters, "
        "have not learned to use more."
    )
