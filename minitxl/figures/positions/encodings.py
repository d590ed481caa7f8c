"""Positions in the score: keys that absolute ones confuse, distances that Shaw's clipping tells apart."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from minitxl.figures.marks import hide_frame, label_ends
from minitxl.figures.picture import BITS, BLUE, GREEN, ORANGE, PURPLE, Data, Picture, drawing, panels

LINES = ((BLUE, "s:"), (GREEN, "^-."), (ORANGE, "o-"), (PURPLE, "D--"))
HIDDEN = "#E4E4E4"


def indistinguishable(data: Data) -> Picture:
    """Draw weights of every query over memory and segment, a panel an encoding; one pair of keys is framed.

    ``data["panels"][name]`` is [query key] with None where a key is in the future; ``tokens``
    are those of the keys, and ``pair`` holds the keys that are compared at ``query``.
    """
    maps, tokens, mem_len = data["panels"], data["tokens"], data["mem_len"]
    query, pair, alt = data["query"], data["pair"], []
    largest = max(w for rows in maps.values() for row in rows for w in row if w is not None)
    with drawing(10.5, 3.3) as figure:
        all_axes = panels(figure, len(maps), sharey=True)
        for axes, (name, weights) in zip(all_axes, maps.items(), strict=True):
            image = _map(axes, weights)
            image.set_clim(0, largest)
            axes.axvline(mem_len - 0.5, color="white", lw=3)
            for key, colour in zip(pair, (ORANGE, BLUE), strict=True):
                for ink, width in (("white", 6), (colour, 3)):  # a white rim, to be seen on dark cells
                    corner = (key - 0.5, query - 0.5)
                    axes.add_patch(
                        Rectangle(corner, 1, 1, fill=False, ec=ink, lw=width, clip_on=False, zorder=3)
                    )
            first, second = (f"{weights[query][key]:.3f}" for key in pair)
            axes.set(title=f"{name}:\n{first} and {second}", xlabel="key: memory | segment")
            axes.set_xticks(range(len(tokens)), tokens)
            axes.set_yticks(range(len(weights)), tokens[mem_len:])
            alt.append(f"{name} {first} and {second}")
        all_axes[0].set(ylabel="query")
        figure.colorbar(image, ax=all_axes, shrink=0.7, label="attention weight")
    words = f"the key {tokens[pair[0]]!r} in memory and the same letter {pair[1] - pair[0]} later"
    return Picture(figure, f"Attention weights of query {query} for {words}: {'; '.join(alt)}.")


def _map(axes: Axes, rows: Sequence[Sequence[float | int | None]]) -> Any:
    cells = np.array([[np.nan if value is None else value for value in row] for row in rows])
    axes.set_facecolor(HIDDEN)
    hide_frame(axes)
    axes.tick_params(labelsize=8)
    return axes.imshow(cells, cmap="cividis", aspect="auto", interpolation="nearest")


def one_query(data: Data) -> Picture:
    """Draw the weight one query gives each key: ``weights``, of ``tokens``; ``pair`` is ringed."""
    tokens, weights, mem_len, pair = data["tokens"], data["weights"], data["mem_len"], data["pair"]
    first, second = (weights[key] for key in pair)
    apart = abs(first - second)
    verdict = "one weight for both" if apart < 1e-6 else f"{apart:.3f} apart"
    with drawing(9, 3.2) as figure:
        axes = figure.subplots()
        memory, segment = slice(0, mem_len), slice(mem_len, len(weights))
        for part, colour, mark, label in ((memory, ORANGE, "o", "memory"), (segment, BLUE, "s", "segment")):
            places = range(len(weights))[part]
            axes.vlines(places, 0, weights[part], color=colour, lw=1)
            axes.plot(places, weights[part], mark, color=colour, ms=6, label=label)
        axes.plot(pair, [first, second], "o", ms=15, mfc="none", mec="black", mew=1.5)
        axes.axhline(first, color="black", lw=1, ls=":")
        axes.axvline(mem_len - 0.5, color="#808080", lw=0.8, ls="--")
        axes.set_xticks(
            range(len(tokens)), [f"{t}\n{slot}" for t, slot in zip(tokens, data["slots"], strict=True)]
        )
        axes.set(
            title=f"{data['label']}: {first:.3f} in memory, {second:.3f} in the segment, {verdict}",
            xlabel="key, and its place in its own segment",
            ylabel=f"weight from the query at place {data['query']}",
            xlim=(-0.7, len(tokens) - 0.3),
            ylim=(0, 1.25 * max(weights)),
        )
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    letter = tokens[pair[0]]
    return Picture(
        figure,
        f"{data['label']}. {letter!r} gets the weight {first:.3f} in memory, {second:.3f} in the segment.",
    )


def by_place(data: Data) -> Picture:
    """Draw a line for each of ``curves`` over ``places``, named at its end, and ``levels`` across.

    ``before`` shades the places below it, under the name ``shaded``. ``colours`` are those of some curves by
    name; the others get theirs in turn. Where all curves end alike, ``legend`` has the names in a corner.
    """
    places, alt = data["places"], []
    with drawing(7.5, 3.4) as figure:
        axes = figure.subplots()
        if "before" in data:
            axes.axvspan(places[0] - 0.5, data["before"] - 0.5, color=HIDDEN, lw=0, label=data["shaded"])
        others = iter((LINES[0], ("black", "D--"), ("#808080", "^-.")))
        for name, curve in data["curves"].items():
            colour = data.get("colours", {}).get(name, ORANGE if name.startswith("XL") else None)
            colour, line = next(others) if colour is None else (colour, dict(LINES).get(colour, "D--"))
            axes.plot(places, curve, line, color=colour, label=name)
            alt.append(f"{name} {curve[0]:.2f} at {places[0]}, {curve[-1]:.2f} at {places[-1]}")
        for name, level in data.get("levels", {}).items():
            axes.axhline(level, color="black", lw=1, ls=(0, (1, 3)), label=f"{name}, {level:.2f}")
        axes.set(xlabel=data["xlabel"], ylabel=data["ylabel"], xlim=(places[0] - 0.5, places[-1] + 0.5))
        axes.set_xticks(places if len(places) <= 16 else places[::4])
        if "legend" in data:
            axes.legend(loc=data["legend"])
        else:
            label_ends(axes)
        if "before" in data:
            axes.legend(axes.patches[:1], [data["shaded"]], loc="upper right")
    return Picture(figure, f"{data['ylabel']} by {data['xlabel']}: {'; '.join(alt)}.")


def shaw_clipping(data: Data) -> Picture:
    """Draw loss by k at the attention length of training, and the loss that longer attention adds."""
    rows = data["by_clip"]
    with drawing(9.5, 3.5) as figure:
        trained, longer = panels(figure, 2)
        _by_clip(trained, rows)
        for row, (colour, line) in zip(rows, LINES, strict=True):
            lengths = [one["attention_len"] for one in row["by_length"]]
            added = np.array([one["bits"]["seeds"] for one in row["by_length"]])
            added = added - np.array(row["trained"]["bits"]["seeds"])
            longer.plot(lengths, added.mean(axis=1), line, color=colour, label=f"k = {row['max_distance']}")
            longer.fill_between(lengths, added.min(axis=1), added.max(axis=1), color=colour, alpha=0.2, lw=0)
        longer.axhline(0, color="#808080", lw=0.6)
        longer.fill_between([], [], [], color="#CCCCCC", label="range of the seeds")
        harmed = max(rows, key=lambda row: row["longest"]["bits"]["mean"] - row["trained"]["bits"]["mean"])
        longer.set_xticks(lengths)
        longer.set(
            title=f"Longer attention harms k = {harmed['max_distance']} most",
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
    best = min(rows, key=lambda row: row["trained"]["bits"]["mean"])["max_distance"]
    axes.set(
        title=f"With {length} keys, as trained, k = {best} is best",
        xlabel="clip distance k, tokens",
        ylabel=f"test {BITS}",
    )


def shaw_vectors(data: Data) -> Picture:
    """Draw one model's tables by distance i - j: how long each vector is, and how alike neighbours are.

    Above, a row of panels for each layer, keys left and values right; the dotted line is the longest of the
    vectors of the future, which were never used. Below, the cosine of each vector with the next farther one.
    """
    layers, k = data["layers"], data["max_distance"]
    names = {"a_K": "a_K, for the keys", "a_V": "a_V, for the values"}
    alt = []
    with drawing(9.5, 1.2 * len(layers) + 2.1) as figure:
        grid = figure.subplots(len(layers) + 1, 2, height_ratios=[1] * len(layers) + [0.8], sharex=True)
        for column, (table, name) in enumerate(names.items()):
            for axes, (number, layer) in zip(grid[:, column], enumerate(layers, start=1), strict=False):
                past, unused = layer[table]["norm"][k::-1], max(layer[table]["norm"][k + 1 :])
                axes.bar(range(k + 1), past, color=GREEN, width=0.8)
                axes.axhline(unused, color="black", lw=1.2, ls=":")
                axes.set_title(f"{name}" if number == 1 else "")
                axes.set(ylim=(0, 1.08 * max(max(one[table]["norm"]) for one in layers)))
                axes.set_ylabel(f"layer {number}" if column == 0 else "")
                alt.append(
                    f"{table} layer {number}: norm {past[0]:.2f} of itself, {past[1]:.2f} one back, "
                    f"{past[k]:.2f} at {k} and more, at most {unused:.2f} of the future"
                )
            strip = grid[-1, column]
            cosines = np.array([layer[table]["cosine"][k - 1 :: -1] for layer in layers])
            image = strip.imshow(
                cosines, cmap="cividis", vmin=-1, vmax=1, aspect="auto", extent=(0, k, len(layers), 0)
            )
            strip.set_xticks(range(0, k + 1, max(1, k // 8)))
            strip.set_yticks([number + 0.5 for number in range(len(layers))], [])
            if column == 0:
                strip.set_yticklabels([f"layer {number + 1}" for number in range(len(layers))])
            strip.tick_params(axis="y", length=0)
            strip.set_title("cosine of neighbours")
            strip.set(xlabel=f"distance i - j, tokens; {k}: {k} and more", xlim=(-0.6, k + 0.6))
            alt.append(f"{table} layer 1: cosine of itself and one back {cosines[0, 0]:.2f}")
        figure.colorbar(image, ax=grid[-1, :], pad=0.01)
        figure.supylabel("length of the vector", fontsize=10)
    return Picture(figure, f"Learned vectors by distance, k = {k}. {'; '.join(alt)}.")


def clip_choice(data: Data) -> Picture:
    """Draw for one k the vector of each pair, the distance's part of a score, and the measured loss.

    ``rows`` is [query key] of clipped distances i - j, None in the future; ``added`` is by distance 0, 1, ….
    """
    k, added = data["max_distance"], data["added"]
    with drawing(10.5, 3) as figure:
        pairs, plateau, loss = figure.subplots(1, 3, width_ratios=[1.25, 1, 0.9])
        image = _map(pairs, data["rows"])
        figure.colorbar(image, ax=pairs, shrink=0.8, label="clipped i - j")
        pairs.set(
            title=f"k = {k}: {data['used']} vectors used", xlabel="key, memory then segment", ylabel="query"
        )
        pairs.axvline(len(data["rows"][0]) - len(data["rows"]) - 0.5, color="black", lw=2.5)
        plateau.plot(range(len(added)), added, "-", color="#707070", lw=0.8)
        clipped = [min(distance, k) for distance in range(len(added))]
        plateau.scatter(range(len(added)), added, 22, clipped, cmap="cividis", ec="#707070", lw=0.5, zorder=3)
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
