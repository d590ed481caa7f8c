"""Shaw's clipping: the loss by k, the learned vectors, and what one k tells apart."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from minitxl.figures.marks import DOTS_AND_BAR, label_ends, seeds_and_mean
from minitxl.figures.picture import BITS, LOWER, Data, Picture, drawing, panels
from minitxl.figures.positions.encodings import query_key_map
from minitxl.figures.systems import SYSTEMS

SHAW, OWN_K = SYSTEMS["shaw_memory"], 16
"""The system, and the k that the package gives it if none is chosen."""
OTHERS = (("s", ":"), ("^", "-."), ("o", "-"))
"""Marker and line of each k of the experiment ``shaw_clipping`` but the package's own, in rising order."""


def shaw_clipping(data: Data) -> Picture:
    """Draw loss by k at the attention length of training, and what longer attention saves, or costs."""
    rows = data["by_clip"]
    with drawing(9.5, 3.5) as figure:
        trained, longer = panels(figure, 2)
        _by_clip(trained, rows)
        for row, look in zip(rows, _looks(rows), strict=True):
            lengths = [one["attention_len"] for one in row["by_length"]]
            read = np.array([one["bits"]["seeds"] for one in row["by_length"]])
            saved = np.array(row["trained"]["bits"]["seeds"]) - read
            longer.plot(lengths, saved.mean(axis=1), **look, label=f"k = {row['max_distance']}")
            band = {"color": look["color"], "alpha": 0.2, "lw": 0}
            longer.fill_between(lengths, saved.min(axis=1), saved.max(axis=1), **band)
        label_ends(longer)
        longer.plot([lengths[0], lengths[-1]], [0, 0], color="#808080", lw=0.6)
        band = longer.fill_between([], [], [], color="#CCCCCC", label="range of the seeds")
        hurt = max(rows, key=lambda row: row["longest"]["bits"]["mean"] - row["trained"]["bits"]["mean"])
        longer.set_xticks(lengths)
        longer.set(
            title=f"Longer attention hurts k = {hurt['max_distance']} most",
            xlabel="attention length at test, characters",
            ylabel=f"{BITS} saved by\nlonger attention\n(below 0: it hurts)",
        )
        longer.legend(handles=[band], loc="lower left")
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


def _looks(rows: Sequence[Data]) -> list[dict[str, Any]]:
    """Return colour, marker and line of each k: Shaw's own for the package's k, shades of it for others."""
    others = iter(zip(SHAW.shades(4)[1:], OTHERS, strict=True))
    looks = list[dict[str, Any]]()
    for row in rows:
        if row["max_distance"] == OWN_K:
            looks.append(SHAW.look())
        else:
            colour, (marker, line) = next(others)
            looks.append({"color": colour, "marker": marker, "ls": line})
    return looks


def _by_clip(axes: Axes, rows: Sequence[Data]) -> None:
    for row, look in zip(rows, _looks(rows), strict=True):
        k, bits = row["max_distance"], row["trained"]["bits"]
        seeds_and_mean(axes, k, bits, look["color"], marker=look["marker"], upright=True)
        axes.annotate(f"{bits['mean']:.2f}", (k, bits["mean"]), (11, 4), textcoords="offset points")
    axes.set_xscale("log", base=2)
    axes.set_xticks([row["max_distance"] for row in rows], [f"{row['max_distance']:,}" for row in rows])
    axes.minorticks_off()
    axes.margins(x=0.15, y=0.12)
    length = rows[0]["trained"]["attention_len"]
    best = min(rows, key=lambda row: row["trained"]["bits"]["mean"])["max_distance"]
    axes.set(
        title=f"With {length} keys, as trained, k = {best} is best",
        xlabel=f"clip distance k, characters, log scale\n({DOTS_AND_BAR})",
        ylabel=f"test {BITS}\n{LOWER}",
    )


def shaw_vectors(data: Data) -> Picture:
    """Draw one model's tables by distance i - j: how long each vector is, and how alike neighbours are.

    Above, a row of panels for each layer, keys left and values right; the dotted line is the longest of the
    vectors of the future, which were never used. Below, the cosine of each vector with the next farther one.
    """
    layers, k = data["layers"], data["max_distance"]
    names = {"a_K": "a_K, for the keys", "a_V": "a_V, for the values"}
    alt = []
    with drawing(7, 1.2 * len(layers) + 2.1) as figure:
        grid = figure.subplots(len(layers) + 1, 2, height_ratios=[1] * len(layers) + [0.8], sharex=True)
        for column, (table, name) in enumerate(names.items()):
            for axes, (number, layer) in zip(grid[:, column], enumerate(layers, start=1), strict=False):
                past, unused = layer[table]["norm"][k::-1], max(layer[table]["norm"][k + 1 :])
                axes.bar(range(k + 1), past, color=SYSTEMS["shaw_memory"].colour, width=0.8)
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
            strip.set(xlabel=f"distance i − j; {k}: {k} and more", xlim=(-0.6, k + 0.6))
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
        pairs, plateau, loss = panels(figure, 3, ratios=[1.25, 1, 0.9], height=2.8)
        image = query_key_map(pairs, data["rows"])
        figure.colorbar(image, ax=pairs, shrink=0.8, label="clipped i − j")
        pairs.set(
            title=f"k = {k}: {data['used']} vectors used", xlabel="key, memory then segment", ylabel="query"
        )
        pairs.axvline(len(data["rows"][0]) - len(data["rows"]) - 0.5, color="black", lw=2.5)
        plateau.plot(range(len(added)), added, "-", color="#707070", lw=0.8)
        clipped = [min(distance, k) for distance in range(len(added))]
        plateau.scatter(range(len(added)), added, 22, clipped, cmap="cividis", ec="#707070", lw=0.5, zorder=3)
        plateau.set(
            title=f"Flat from {k} on" if k < len(added) else "Flat nowhere",
            xlabel="distance i − j, characters",
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
