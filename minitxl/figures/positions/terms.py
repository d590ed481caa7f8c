"""The four terms of Transformer-XL's score: apart, stacked, and what a model loses without each."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.colors import Normalize, PowerNorm

from minitxl.figures.marks import DOTS_AND_BAR, hide_frame, seeds_and_mean, signed
from minitxl.figures.picture import (
    BITS,
    HELPS,
    Data,
    Picture,
    drawing,
    fitted,
    is_narrow,
    legend_outside,
    printed,
)
from minitxl.figures.systems import SYSTEMS

NAMES = {
    "a": "(a) content × content",
    "b": "(b) content × distance",
    "c": "(c) content alone",
    "d": "(d) distance alone",
}
"""The four terms of the score."""
ABOVE: Any = {
    "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.5},
    "textcoords": "offset points",
    "ha": "center",
}
XL = SYSTEMS["xl_memory"]
BARS = {"a": ("#B0B0B0", ""), "b": ("#E8E8B0", "////"), "c": ("#B8E0C8", "...."), "d": ("#E9C9DD", "xxxx")}


def _finding(missed: Sequence[str]) -> str:
    """Say which terms save bits in every seed."""
    if not missed:
        return "No term saves bits in every seed"
    terms = " and ".join(f"({name})" for name in missed)
    return f"{f'Only term {terms} saves' if len(missed) == 1 else f'Terms {terms} save'} bits in every seed"


def without_terms(data: Data) -> Picture:
    """Draw what each term saves, seed by seed: the loss of the model without it less that of the whole."""
    rows = {name: row for name, row in data["missing"].items() if name != "none"}
    with drawing(8, 3.4) as figure:
        axes = figure.subplots()
        axes.axvline(0, color="black", lw=1, ls=":")
        for place, row in enumerate(rows.values()):
            cost = row["cost"]
            seeds_and_mean(axes, place, cost, XL.colour)
            axes.annotate(signed(cost["mean"], 3), (cost["mean"], place), (0, 12), **ABOVE)
        between = "\n" if is_narrow() else " "
        axes.set_yticks(range(len(rows)), [NAMES[name].replace(" ", between, 1) for name in rows])
        missed = [name for name, row in rows.items() if min(row["cost"]["seeds"]) > 0]
        axes.set(
            title=fitted(_finding(missed)),
            ylim=(len(rows) - 0.5, -0.7),
            xlabel=f"test {BITS} saved by the term\n({DOTS_AND_BAR}; {HELPS})",
        )
    alt = "; ".join(
        f"{NAMES[name]} {signed(row['cost']['mean'], 3)} ("
        + ", ".join(signed(one, 3) for one in row["cost"]["seeds"])
        + ")"
        for name, row in rows.items()
    )
    return Picture(
        figure,
        f"Test {BITS} that each term of the score saves after {data['steps']} steps, against the same seed "
        f"trained without it, mean and seeds: {alt}.",
    )


def stacked(data: Data) -> Picture:
    """Draw one query's terms, stacked key by key, each less its mean; below, the weights they give.

    ``terms`` holds a list for each term that is on, ``weights`` the softmax of their sum and
    ``whole`` that of all four.
    """
    keys, terms, weights = [printed(key) for key in data["keys"]], data["terms"], np.array(data["weights"])
    places = np.arange(len(keys))
    with drawing(7, 5.6) as figure:
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
        up, down = np.zeros(len(keys)), np.zeros(len(keys))
        for name, values in terms.items():
            heights = np.array(values)
            colour, hatch = BARS[name]
            base = np.where(heights > 0, up, down)
            style = {"color": colour, "hatch": hatch, "edgecolor": "#505050", "lw": 0.5}
            above.bar(places, heights, bottom=base, label=NAMES[name], **style)
            up, down = up + heights.clip(min=0), down + heights.clip(max=0)
        above.plot(places, up + down, "D", color="black", ms=4, label="their sum")
        above.axhline(0, color="black", lw=0.8)
        above.set(title=fitted(data["title"]), ylabel="score, nats,\nless each term's mean")
        below.bar(places, weights, color="#505050", label="weight of these terms")
        below.plot(places, data["whole"], "_", color=XL.colour, ms=10, mew=2, label="weight of all four")
        below.set(ylabel="weight", xlabel="key: the characters before the query, and itself", ylim=(0, None))
        legend_outside(figure, ncols=3)
        below.set_xticks(places, keys, family="monospace", fontsize=8 if is_narrow() else 10)
        below.set_xlim(-0.6, len(keys) - 0.4)
    on = ", ".join(f"({name})" for name in terms) or "none"
    best = int(weights.argmax())
    return Picture(
        figure,
        f"{data['title']}. Terms shown: {on}. The largest weight, {weights[best]:.2f}, lies "
        f"{len(keys) - 1 - best} back, on {keys[best]}; with all four terms this key has "
        f"{data['whole'][best]:.2f}.",
    )


def maps(data: Data) -> Picture:
    """Draw a panel for each matrix [query key] of ``panels``; NaN is not drawn.

    ``scales`` names the panels that share a scale of colour, and a bar; by default all do. Where no value
    of them is negative, the scale is that of square roots, so that small ones can be seen.
    """
    keys, queries = ([printed(label) for label in data[axis]] for axis in ("keys", "queries"))
    panels = {title: np.array(matrix, dtype=float) for title, matrix in data["panels"].items()}
    columns = 1 if len(keys) > 48 else 2
    rows = -(-len(panels) // columns)
    with drawing(10, rows * max(2.0, 0.155 * len(queries))) as figure:
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        places = dict(zip(panels, grid.flat, strict=True))
        for titles in data.get("scales", [list(panels)]):
            low = min(np.nanmin(panels[title]) for title in titles)
            high = max(np.nanmax(panels[title]) for title in titles)
            scale = PowerNorm(0.5, low, high) if low >= 0 else Normalize(low, high)
            for title in titles:
                drawn = places[title].imshow(panels[title], cmap="cividis", norm=scale, aspect="auto")
            beside = grid if len(titles) == len(panels) else [places[title] for title in titles]
            figure.colorbar(drawn, ax=beside, label=data["quantity"], shrink=0.9, pad=0.01)
        for title, axes in places.items():
            axes.set_title(title)
            axes.set_xticks(range(len(keys)), keys, family="monospace", fontsize=7)
            axes.set_yticks(range(len(queries)), queries, family="monospace", fontsize=7)
            axes.tick_params(length=0)
        figure.supxlabel("key", fontsize=10)
        figure.supylabel("query", fontsize=10)
    alt = "; ".join(
        f"{title}, {np.nanmin(matrix):.2f} to {np.nanmax(matrix):.2f}" for title, matrix in panels.items()
    )
    return Picture(
        figure, f"{data['quantity']} of {len(keys)} keys for each of {len(queries)} queries: {alt}."
    )


def _in_pairs(lines: Data) -> list[tuple[str, Any]]:
    """Return lines of panels with their names; one of four is two of two, or a phone shows it too small."""
    halves = {label: [line] if len(line) != 4 else [line[:2], line[2:]] for label, line in lines.items()}
    return [(label, line) for label, parts in halves.items() for line in parts]


def side_by_side(data: Data) -> Picture:
    """Draw a line of panels for each of ``lines``, by its name; None leaves a place empty.

    A panel is its ``name``, its ``formula``, if any, and ``matrix`` [query key]; NaN is not drawn. Each panel
    has its own scale of colour and a bar, or with ``shared`` all of a line have one. A line parts ``mem_len``
    keys from the others.
    """
    keys, queries = ([printed(label) for label in data[axis]] for axis in ("keys", "queries"))
    lines, shared = _in_pairs(data["lines"]), data.get("shared", False)
    columns, alt = max(len(line) for _, line in lines), list[str]()
    width, height = columns * (0.8 + 0.13 * len(keys)), len(lines) * (0.7 + 0.13 * len(queries))
    with drawing(0.6 + width, 0.5 + height) as figure:
        grid = figure.subplots(len(lines), columns, sharex=True, sharey=True, squeeze=False)
        for row, (label, line) in zip(grid, lines, strict=True):
            row[0].set_ylabel(label, fontweight="bold")
            drawn = [panel for panel in line if panel is not None]
            together = np.concatenate([np.array(panel["matrix"], dtype=float).ravel() for panel in drawn])
            for axes, panel in zip(row, line, strict=True):
                hide_frame(axes)
                axes.tick_params(labelsize=9)
                if panel is None:
                    axes.tick_params(labelleft=False, labelbottom=False)
                    continue
                matrix = np.array(panel["matrix"], dtype=float)
                scale = together if shared else matrix
                ends = {"vmin": np.nanmin(scale), "vmax": np.nanmax(scale)}
                image = axes.imshow(matrix, cmap="cividis", aspect="auto", **ends)
                if not shared:
                    figure.colorbar(image, ax=axes, shrink=0.85, pad=0.02).ax.tick_params(labelsize=8)
                if data.get("mem_len"):
                    axes.axvline(data["mem_len"] - 0.5, color="white", lw=2.5)
                formula = panel.get("formula", "").replace("·", r"\cdot")
                axes.set_title(panel["name"] + (f"\n${formula}$" if formula else ""))
                low, high = np.nanmin(matrix), np.nanmax(matrix)
                alt.append(f"{label}{', ' if label else ''}{panel['name']}: {low:.2f} to {high:.2f}")
            if shared:
                figure.colorbar(image, ax=row, shrink=0.85, pad=0.01, label=data["quantity"])
        grid[0, 0].set_xticks(range(len(keys)), keys, family="monospace")
        grid[0, 0].set_yticks(range(len(queries)), queries, family="monospace")
        figure.align_ylabels(grid[:, 0])
        figure.supxlabel("key: memory, then segment" if data.get("mem_len") else "key", fontsize=9)
        figure.supylabel("query", fontsize=9)
    first = f"{data['quantity']} of {len(keys)} keys for each of {len(queries)} queries"
    return Picture(figure, f"{first[0].upper()}{first[1:]}. {'; '.join(alt)}.")
