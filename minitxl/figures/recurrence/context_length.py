"""The context that trained models use: loss by context and by offset, and effective context lengths."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes

from minitxl.figures.marks import (
    DOTS_AND_BAR,
    counted,
    name_offsets,
    seed_band,
    seeds_and_mean,
    signed,
    ticks_at,
)
from minitxl.figures.picture import (
    AHEAD,
    BITS,
    LOWER,
    Data,
    Picture,
    drawing,
    fitted,
    legend_outside,
    panels,
)
from minitxl.figures.systems import SYSTEMS

READERS = {key: SYSTEMS[key] for key in ("xl_memory", "shaw_memory", "xl", "absolute", "lstm")}
"""The systems of the experiment ``context``."""
SHARES = {"0.1": "o", "0.5": "s", "1.0": "^"}
PAPER_RECL = {"recurrent": ["xl_memory", "lstm"], "attentive": ["xl_memory", "shaw_memory", "xl", "absolute"]}
"""Table 8's order in each of its groups, the longest first."""


def context(data: Data) -> Picture:
    """Draw loss by context, where every target has exactly so many tokens before it."""
    lengths, systems = data["context_lens"], data["systems"]
    with drawing(6.4, 4) as figure:
        axes = figure.subplots()
        for name, one in READERS.items():
            read = contexts_read(data, name)
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
            xlabel=f"context, characters, log scale\n({most_read(data)})",
            ylabel=f"test {BITS}\n{LOWER}",
            xscale="log",
        )
        ticks_at(axes, [length for length in lengths if (length // lengths[0]).bit_count() == 1])
        legend_outside(figure, ncols=3)
    alt = "; ".join(
        f"{one.name}: {BITS} {_at_ends(systems[name]['bits'], contexts_read(data, name))}"
        for name, one in READERS.items()
    )
    return Picture(
        figure,
        f"Mean of the seeds over {data['targets']} targets; {most_read(data)}. {alt}. "
        f"{_lowest(systems, lengths)}.",
    )


def contexts_read(data: Data, name: str) -> list[int]:
    """Return the contexts that a system reads whole: learned positions end with the segment of training."""
    lengths = data["context_lens"]
    return [length for length in lengths if name != "absolute" or length <= data["seg_len"]]


def most_read(data: Data) -> str:
    """Say how much of a context the model with learned positions reads at most."""
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
            ylabel=f"{BITS} that\n{SYSTEMS[base].name} saves\nagainst each system\n{AHEAD}",
        )
        name_offsets(axes)
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
    seeds = len(recl["all"]["xl_memory"]["0.1"])
    with drawing(9, 4.8) as figure:
        shown = panels(figure, len(PAPER_RECL), height=4, sharex=True)
        for axes, (group, names) in zip(shown, PAPER_RECL.items(), strict=True):
            _recl(axes, recl[group], names)
            hollow = "" if all(SYSTEMS[name].memory for name in names) else ";\nhollow: no memory"
            axes.set(
                title=fitted(_recl_title(recl[group], group)),
                xlabel="relative effective context length, characters:\n"
                "up to this length, more context saves\n"
                f"perplexity against the best of these {len(names)} models\n"
                f"({counted(DOTS_AND_BAR, seeds)}{hollow})",
            )
            axes.tick_params(labelbottom=True)
        legend_outside(figure, *shown[0].get_legend_handles_labels(), ncols=4, title="measured on")
    alt = "; ".join(f"{one.name} {_lengths(data, name)}" for name, one in READERS.items())
    return Picture(
        figure,
        "Relative effective context length in characters, for each model and seed: up to this length, "
        "more context still saves perplexity against the best of all models. Mean of "
        f"{seeds} seeds on the hardest 10 %, half and all of the targets: {alt}. {against_table_8(data)}",
    )


def _recl_title(recl: Data, group: str) -> str:
    """Say two mean lengths of a group, if one is the longer in every seed and at every share of targets."""

    def is_longer(one: str, other: str) -> bool:
        pairs = ((recl[one][share], recl[other][share]) for share in SHARES)
        return all(
            a["tokens"] > b["tokens"] for mine, theirs in pairs for a, b in zip(mine, theirs, strict=True)
        )

    def length(name: str) -> str:
        return f"{_mean_length(recl[name]['0.1']):.0f}"

    if group == "recurrent" and is_longer("xl_memory", "lstm"):
        return (
            "Transformer-XL beside the LSTM:\n"
            f"{length('xl_memory')} characters,\nthe LSTM {length('lstm')} (hardest 10 %)"
        )
    if group == "attentive" and is_longer("xl_memory", "xl"):
        with_it, without = length("xl_memory"), length("xl")
        lengths = f"{with_it} characters with memory,\n{without} without (hardest 10 %)"
        return f"Transformer-XL among Transformers:\n{lengths}"
    return {"recurrent": "Recurrent models", "attentive": "Models with attention"}[group]


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
