"""Positions in the score: keys that absolute ones confuse, distances that Shaw's clipping tells apart."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from minitxl.figures.marks import hide_frame
from minitxl.figures.picture import BITS, BLUE, GREEN, ORANGE, PURPLE, Data, Picture, drawing

LINES = ((BLUE, "s:"), (GREEN, "^-."), (ORANGE, "o-"), (PURPLE, "D--"))
HIDDEN = "#E4E4E4"


def indistinguishable(data: Data) -> Picture:
    """Draw scores of every query over memory and segment, a panel an encoding; one pair of keys is framed.

    ``data["panels"][name]`` is [query key] with None where a key is in the future; ``tokens``
    are those of the keys, and ``pair`` holds the keys that are compared at ``query``.
    """
    panels, tokens, mem_len = data["panels"], data["tokens"], data["mem_len"]
    query, pair, alt = data["query"], data["pair"], []
    with drawing(10.5, 3.1) as figure:
        all_axes = figure.subplots(1, len(panels), sharey=True)
        for axes, (name, scores) in zip(all_axes, panels.items(), strict=True):
            image = _map(axes, scores)
            axes.axvline(mem_len - 0.5, color="white", lw=3)
            for key in pair:
                axes.add_patch(Rectangle((key - 0.5, query - 0.5), 1, 1, fill=False, ec=ORANGE, lw=2.5))
            first, second = (f"{scores[query][key]:.2f}" for key in pair)
            axes.set(title=f"{name}: {first} and {second}", xlabel="key: memory | segment")
            axes.set_xticks(range(len(tokens)), tokens)
            axes.set_yticks(range(len(scores)), tokens[mem_len:])
            figure.colorbar(image, ax=axes, shrink=0.7, label="score")
            alt.append(f"{name} {first} and {second}")
        all_axes[0].set(ylabel="query")
    words = f"the key {tokens[pair[0]]!r} in memory and the same letter {pair[1] - pair[0]} later"
    return Picture(figure, f"Scores of query {query} for {words}: {'; '.join(alt)}.")


def _map(axes: Axes, rows: Sequence[Sequence[float | int | None]]) -> Any:
    cells = np.array([[np.nan if value is None else value for value in row] for row in rows])
    axes.set_facecolor(HIDDEN)
    hide_frame(axes)
    axes.tick_params(labelsize=8)
    return axes.imshow(cells, cmap="cividis", aspect="auto", interpolation="nearest")


def one_query(data: Data) -> Picture:
    """Draw one query's ``scores`` of the keys ``tokens``; the two of ``pair`` are ringed."""
    tokens, scores, mem_len, pair = data["tokens"], data["scores"], data["mem_len"], data["pair"]
    first, second = (scores[key] for key in pair)
    apart = abs(first - second)
    verdict = "one score for both" if apart < 1e-4 else f"{apart:.2f} apart"
    with drawing(9, 3.2) as figure:
        axes = figure.subplots()
        memory, segment = slice(0, mem_len), slice(mem_len, len(scores))
        for part, colour, mark, label in ((memory, BLUE, "s", "memory"), (segment, ORANGE, "o", "segment")):
            places = range(len(scores))[part]
            axes.vlines(places, 0, scores[part], color=colour, lw=1)
            axes.plot(places, scores[part], mark, color=colour, ms=6, label=label)
        axes.plot(pair, [first, second], "o", ms=15, mfc="none", mec="black", mew=1.5)
        axes.axhline(first, color="black", lw=1, ls=":")
        axes.axhline(0, color="#808080", lw=0.6)
        axes.axvline(mem_len - 0.5, color="#808080", lw=0.8, ls="--")
        axes.set_xticks(
            range(len(tokens)), [f"{t}\n{slot}" for t, slot in zip(tokens, data["slots"], strict=True)]
        )
        axes.set(
            title=f"{data['label']}: {first:.2f} in memory, {second:.2f} in the segment, {verdict}",
            xlabel="key, and its place in its own segment",
            ylabel=f"score of the query at place {data['query']}",
            xlim=(-0.7, len(tokens) - 0.3),
        )
        axes.margins(y=0.2)
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    letter = tokens[pair[0]]
    return Picture(
        figure,
        f"{data['label']}. {letter!r} scores {first:.2f} in memory, {second:.2f} in the segment.",
    )


def by_place(data: Data) -> Picture:
    """Draw a line for each of ``curves`` over ``places``; ``levels`` are named horizontal lines.

    ``before`` shades the places below it, under the name ``shaded``.
    """
    places, alt = data["places"], []
    with drawing(7.5, 3.4) as figure:
        axes = figure.subplots()
        if "before" in data:
            axes.axvspan(places[0] - 0.5, data["before"] - 0.5, color=HIDDEN, lw=0, label=data["shaded"])
        others = iter((LINES[0], LINES[3], LINES[1]))
        for name, curve in data["curves"].items():
            colour, line = LINES[2] if name.startswith("XL") else next(others)
            axes.plot(places, curve, line, color=colour, label=name)
            alt.append(f"{name} {curve[0]:.2f} at {places[0]}, {curve[-1]:.2f} at {places[-1]}")
        for name, level in data.get("levels", {}).items():
            axes.axhline(level, color="black", lw=1, ls=(0, (1, 3)))
            axes.annotate(
                f"{name}, {level:.2f}", (places[-1], level), (0, 3), textcoords="offset points", ha="right"
            )
        axes.set(xlabel=data["xlabel"], ylabel=data["ylabel"], xlim=(places[0] - 0.5, places[-1] + 0.5))
        axes.set_xticks(places if len(places) <= 16 else places[::4])
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return Picture(figure, f"{data['ylabel']} by {data['xlabel']}: {'; '.join(alt)}.")


def shaw_clipping(data: Data) -> Picture:
    """Draw loss by k at the attention length of training, and the loss that longer attention adds."""
    rows = data["by_clip"]
    with drawing(9.5, 3.5) as figure:
        trained, longer = figure.subplots(1, 2)
        _by_clip(trained, rows)
        for row, (colour, line) in zip(rows, LINES, strict=True):
            lengths = [one["attention_len"] for one in row["by_length"]]
            added = np.array([one["bits"]["seeds"] for one in row["by_length"]])
            added = added - np.array(row["trained"]["bits"]["seeds"])
            longer.plot(lengths, added.mean(axis=1), line, color=colour, label=f"k = {row['max_distance']}")
            longer.fill_between(lengths, added.min(axis=1), added.max(axis=1), color=colour, alpha=0.2, lw=0)
        longer.axhline(0, color="#808080", lw=0.6)
        longer.set_xticks(lengths)
        longer.set(
            title="Longer attention after training",
            xlabel="attention length at test, tokens",
            ylabel=f"added {BITS}",
        )
        longer.legend()
    ends = "; ".join(
        f"k = {row['max_distance']}: "
        f"{row['trained']['bits']['mean']:.2f} at {row['trained']['attention_len']}, "
        f"{row['longest']['bits']['mean']:.2f} at {row['longest']['attention_len']}"
        for row in rows
    )
    return Picture(
        figure,
        f"Test {BITS} by attention length, mean of {len(rows[0]['trained']['bits']['seeds'])} seeds: {ends}.",
    )


def _by_clip(axes: Axes, rows: Sequence[Data]) -> None:
    for row, (colour, line) in zip(rows, LINES, strict=True):
        k, bits = row["max_distance"], row["trained"]["bits"]
        axes.plot([k] * len(bits["seeds"]), bits["seeds"], line[0], color=colour, ms=7)
        axes.annotate(f"{bits['mean']:.2f}", (k, bits["mean"]), (9, 4), textcoords="offset points")
    axes.set_xscale("log", base=2)
    axes.set_xticks([row["max_distance"] for row in rows], [str(row["max_distance"]) for row in rows])
    axes.minorticks_off()
    axes.margins(x=0.15, y=0.12)
    length = rows[0]["trained"]["attention_len"]
    axes.set(
        title=f"Attention over {length}, as trained", xlabel="clip distance k, tokens", ylabel=f"test {BITS}"
    )


def shaw_vectors(data: Data) -> Picture:
    """Draw one model's tables by j - i: the norm of each vector, and its cosine with the next."""
    places, k = data["j_minus_i"], data["max_distance"]
    alt = []
    with drawing(9.5, 5.2) as figure:
        grid = figure.subplots(2, 2, sharex=True, sharey="row")
        for column, table in enumerate(("a_K", "a_V")):
            norm, cosine = grid[:, column]
            for number, (layer, (colour, line)) in enumerate(
                zip(data["layers"], LINES, strict=False), start=1
            ):
                norm.plot(places, layer[table]["norm"], line, color=colour, lw=1.4, label=f"layer {number}")
                between = [place + 0.5 for place in places[:-1]]
                cosine.plot(between, layer[table]["cosine"], line, color=colour, lw=1.4)
                itself, one_back, farthest = (layer[table]["norm"][row] for row in (k, k - 1, 0))
                alt.append(
                    f"{table} layer {number}: norm {itself:.2f} of itself, {one_back:.2f} one back, "
                    f"{farthest:.2f} at {k} and more"
                )
            norm.set(title=f"{table}: {'for the keys' if table == 'a_K' else 'for the values'}")
            cosine.set(xlabel="j - i, tokens")
            cosine.axhline(0, color="#808080", lw=0.6)
            for axes in (norm, cosine):
                axes.axvspan(0.5, k + 0.5, color=HIDDEN, lw=0, zorder=0)
            norm.annotate(
                "the future:\nnever used",
                (k / 2 + 0.5, 0.85),
                xycoords=("data", "axes fraction"),
                ha="center",
                va="top",
            )
        grid[0, 0].set(ylabel="length of the vector")
        grid[1, 0].set(ylabel="cosine with the next one", xticks=range(-k, k + 1, max(1, k // 4)))
        grid[0, 0].legend(loc="upper left")
    return Picture(figure, f"Learned vectors by distance, k = {k}. {'; '.join(alt)}.")


def clip_choice(data: Data) -> Picture:
    """Draw for one k the vector of each pair, the distance's part of a score, and the measured loss.

    ``rows`` is [query key] of clipped j - i, None in the future; ``added`` is by distance 0, 1, ….
    """
    k, added = data["max_distance"], data["added"]
    with drawing(10.5, 3) as figure:
        pairs, plateau, loss = figure.subplots(1, 3, width_ratios=[1.25, 1, 0.9])
        image = _map(pairs, data["rows"])
        figure.colorbar(image, ax=pairs, shrink=0.8, label="clipped j - i")
        pairs.set(
            title=f"k = {k}: {data['used']} vectors used", xlabel="key, memory then segment", ylabel="query"
        )
        if k < len(added):
            plateau.axvspan(k, len(added) - 1, color=HIDDEN, lw=0)
        plateau.plot(range(len(added)), added, ".-", color=BLUE, lw=1.2)
        plateau.set(
            title=f"Flat from {k} on" if k < len(added) else "Flat nowhere",
            xlabel="distance i - j, tokens",
            ylabel="distance term, one query",
        )
        _by_clip(loss, data["by_clip"])
        chosen = next(row for row in data["by_clip"] if row["max_distance"] == k)
        loss.plot(k, chosen["trained"]["bits"]["mean"], "o", ms=16, mfc="none", mec="black", mew=1.5)
    return Picture(
        figure,
        f"With k = {k}, {data['used']} vectors serve {len(added)} distances; the term of the farthest is "
        f"{added[-1]:.2f}; test {BITS} {chosen['trained']['bits']['mean']:.2f}.",
    )
