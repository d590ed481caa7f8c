"""The four terms of Transformer-XL's score, and the shift that puts two of them in place."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, PowerNorm

from minitxl.figures.marks import box, hide_frame
from minitxl.figures.picture import BITS, BLUE, GREEN, ORANGE, PURPLE, Data, Picture, drawing, printed

NAMES = {
    "a": "(a) content × content",
    "b": "(b) content × distance",
    "c": "(c) bias of content",
    "d": "(d) bias of distance",
}
BARS = {"a": (BLUE, ""), "b": (ORANGE, "////"), "c": (GREEN, "...."), "d": (PURPLE, "xxxx")}
ROWS = ["#A6CEE3", "#FDD0A2", "#B8E0C8", "#E9C9DD", "#E8E8B0"]
WAYS = {"pair": ("for each pair", BLUE, "s--"), "distance": ("for each distance, and shift", ORANGE, "o-")}


def without_terms(data: Data) -> Picture:
    """Draw test loss of the whole model and of four that never had one of the terms."""
    rows = data["missing"]
    labels = {missing: f"without {NAMES[missing]}" if missing in NAMES else "all four" for missing in rows}
    with drawing(7, 2.8) as figure:
        axes = figure.subplots()
        axes.axvline(rows["none"]["bits"]["mean"], color="black", lw=1, ls=":")
        for place, (missing, row) in enumerate(rows.items()):
            colour, bits = ORANGE if missing == "none" else BLUE, row["bits"]
            axes.plot(bits["seeds"], [place] * len(bits["seeds"]), "o", color=colour, ms=5, mfc="white")
            axes.plot(bits["mean"], place, "|", color=colour, ms=16, mew=2.5)
            words = f"{bits['mean']:.2f}" if missing == "none" else f"{row['cost']['mean']:+.2f}"
            axes.annotate(words, (max(bits["seeds"]), place), (10, -3), textcoords="offset points")
        axes.set_yticks(range(len(rows)), list(labels.values()))
        axes.invert_yaxis()
        axes.margins(x=0.15, y=0.15)
        axes.set(xlabel=f"test {BITS}: a circle for each seed, a bar at their mean")
    alt = "; ".join(
        f"{labels[missing]} {row['bits']['mean']:.2f} (spread {row['bits']['spread']:.2f})"
        for missing, row in rows.items()
    )
    seeds = len(rows["none"]["bits"]["seeds"])
    return Picture(figure, f"Test {BITS} after {data['steps']} steps, mean of {seeds} seeds: {alt}.")


def stacked(data: Data) -> Picture:
    """Draw one query's terms, stacked key by key, each less its mean; below, the weights they give.

    ``terms`` holds a list for each term that is on, ``weights`` the softmax of their sum and
    ``whole`` that of all four.
    """
    keys, terms, weights = [printed(key) for key in data["keys"]], data["terms"], np.array(data["weights"])
    places = np.arange(len(keys))
    with drawing(9, 4.4) as figure:
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
        up, down = np.zeros(len(keys)), np.zeros(len(keys))
        for name, values in terms.items():
            heights = np.array(values)
            colour, hatch = BARS[name]
            base = np.where(heights > 0, up, down)
            style = {"color": colour, "hatch": hatch, "edgecolor": "white", "lw": 0.5}
            above.bar(places, heights, bottom=base, label=NAMES[name], **style)
            up, down = up + heights.clip(min=0), down + heights.clip(max=0)
        above.plot(places, up + down, "D", color="black", ms=4, label="their sum")
        above.axhline(0, color="black", lw=0.8)
        above.set(title=data["title"], ylabel="score, nats,\nless each term's mean")
        above.legend(ncols=1, loc="center left", bbox_to_anchor=(1, 0.5))
        below.bar(places, weights, color="#505050", label="of these terms")
        below.plot(places, data["whole"], "_", color=ORANGE, ms=10, mew=2, label="of all four")
        below.set(ylabel="weight", xlabel="key: the characters before the query, and itself", ylim=(0, None))
        below.legend(loc="center left", bbox_to_anchor=(1, 0.5))
        below.set_xticks(places, keys, family="monospace")
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
    """Draw a panel for each matrix [query key] of ``panels``, all on one scale; NaN is not drawn.

    Where no value is negative, the scale is that of square roots, so that small ones can be seen.
    """
    keys, queries = ([printed(label) for label in data[axis]] for axis in ("keys", "queries"))
    panels = data["panels"]
    matrices = {title: np.array(matrix, dtype=float) for title, matrix in panels.items()}
    columns = 1 if len(keys) > 48 else 2
    rows = -(-len(panels) // columns)
    low = min(np.nanmin(matrix) for matrix in matrices.values())
    high = max(np.nanmax(matrix) for matrix in matrices.values())
    scale = PowerNorm(0.5, low, high) if low >= 0 else Normalize(low, high)
    with drawing(10, rows * max(2.0, 0.155 * len(queries))) as figure:
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for axes, (title, matrix) in zip(grid.flat, matrices.items(), strict=True):
            drawn = axes.imshow(matrix, cmap="cividis", norm=scale, aspect="auto")
            axes.set_title(title)
            axes.set_xticks(range(len(keys)), keys, family="monospace", fontsize=7)
            axes.set_yticks(range(len(queries)), queries, family="monospace", fontsize=7)
            axes.tick_params(length=0)
        figure.supxlabel("key", fontsize=10)
        figure.supylabel("query", fontsize=10)
        figure.colorbar(drawn, ax=grid, label=data["quantity"], shrink=0.8, pad=0.01)
    alt = "; ".join(
        f"{title}, {np.nanmin(matrix):.2f} to {np.nanmax(matrix):.2f}" for title, matrix in matrices.items()
    )
    return Picture(
        figure, f"{data['quantity']} of {len(keys)} keys for each of {len(queries)} queries: {alt}."
    )


def side_by_side(data: Data) -> Picture:
    """Draw a line of panels for each of ``lines``, by its name; None leaves a place empty, as the one above.

    A panel is its ``name``, its ``formula`` and ``matrix`` [query key], from its lowest value,
    dark, to its highest, bright; NaN is not drawn. A line parts ``mem_len`` keys from the others.
    """
    keys, queries = ([printed(label) for label in data[axis]] for axis in ("keys", "queries"))
    lines = data["lines"]
    columns, alt = max(map(len, lines.values())), []
    width, height = columns * (0.5 + 0.13 * len(keys)), len(lines) * (0.6 + 0.1 * len(queries))
    with drawing(0.6 + width, 0.5 + height) as figure:
        grid = figure.subplots(len(lines), columns, sharex=True, sharey=True, squeeze=False)
        for row, (label, line) in zip(grid, lines.items(), strict=True):
            row[0].set_ylabel(label, fontweight="bold")
            for axes, panel in zip(row, line, strict=True):
                hide_frame(axes)
                axes.tick_params(labelsize=7)
                if panel is None:
                    axes.tick_params(labelleft=False)
                    axes.text(0.5, 0.5, "as above", transform=axes.transAxes, ha="center", color="#606060")
                    continue
                matrix = np.array(panel["matrix"], dtype=float)
                low, high = np.nanmin(matrix), np.nanmax(matrix)
                axes.imshow(matrix, cmap="cividis", vmin=low, vmax=high, aspect="auto")
                axes.axvline(data.get("mem_len", 0) - 0.5, color="white", lw=2.5)
                formula = panel["formula"].replace("·", r"\cdot")
                axes.set_title(f"{panel['name']}\n${formula}$")
                alt.append(f"{label}{', ' if label else ''}{panel['name']}: {low:.2f} to {high:.2f}")
        grid[0, 0].set_xticks(range(len(keys)), keys, family="monospace")
        grid[0, 0].set_yticks(range(len(queries)), queries, family="monospace")
        figure.align_ylabels(grid[:, 0])
        parted = ": memory, then segment" if "mem_len" in data else ""
        figure.supxlabel(f"key{parted} (each panel: dark its lowest score, bright its highest)", fontsize=9)
        figure.supylabel("query", fontsize=9)
    words = f"Scores of {len(keys)} keys for each of {len(queries)} queries"
    return Picture(figure, f"{words}. {'; '.join(alt)}.")


def shift_frames(data: Data) -> Picture:
    """Draw the frames of pad, reshape and slice, each a matrix of tickets.

    Ticket i · key + c + 1 is the product of query i with column c, whose distance is key - 1 - c;
    0 is the padding and -1 is not drawn. In ``hidden`` frames the future is hatched or blank.
    """
    query, key, frames = data["query"], data["key"], data["frames"]
    columns = min(3, len(frames))
    rows = -(-len(frames) // columns)
    width = max(0.62 * (key + 1) * columns, 4.5)
    tallest = max(len(frame["tickets"]) for frame in frames)
    with drawing(width, rows * (0.42 * tallest + 0.75)) as figure:
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes, frame in zip(grid.flat, frames, strict=False):
            _draw_frame(axes, frame, key=key, tallest=tallest)
        for axes in grid.flat[len(frames) :]:
            axes.set_axis_off()
    alt = "; ".join(
        f"{frame['title']}: {len(frame['tickets'])} × {len(frame['tickets'][0])}, first row "
        + " ".join(_ticket(ticket, key) or "blank" for ticket in frame["tickets"][0])
        for frame in frames
    )
    return Picture(figure, f"{query} queries q and {key} distances d. {alt}.")


def _draw_frame(axes: Axes, frame: Data, *, key: int, tallest: int) -> None:
    for y, row in enumerate(frame["tickets"]):
        for x, ticket in enumerate(row):
            future = frame["garbage"] is not None and frame["garbage"][y][x]
            fill = "white" if ticket < 1 else ROWS[(ticket - 1) // key % len(ROWS)]
            hatched = bool(future and ticket >= 0)
            box(axes, x, y, _ticket(ticket, key), fill, edge="#707070", hatched=hatched, fontsize=8)
    wide = len(frame["tickets"][0])
    axes.set(xlim=(-0.1, max(wide, key + 1) + 0.1), ylim=(tallest + 0.1, -0.1), aspect=0.75)
    axes.set_title(frame["title"], fontsize=9)
    axes.set_axis_off()


def _ticket(ticket: int, key: int) -> str:
    """Return query and distance of a ticket."""
    if ticket < 1:
        return "0" if ticket == 0 else ""
    query, column = divmod(ticket - 1, key)
    return f"q{query} d{key - 1 - column}"


def products(data: Data) -> Picture:
    """Draw the number of vectors that W_kR projects against the number of keys, for each way to do it."""
    keys = data["keys"]
    with drawing(6, 3.2) as figure:
        axes = figure.subplots()
        for way, (label, colour, line) in WAYS.items():
            axes.plot(keys, data[way], line, color=colour, label=label, ms=5)
            axes.annotate(
                f"{data[way][-1]:,}", (keys[-1], data[way][-1]), (7, -3), textcoords="offset points"
            )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xticks(keys, [str(key) for key in keys])
        ticks = [2**power for power in range(3, max(data["pair"]).bit_length() + 1, 3)]
        axes.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.set(xlabel="keys, half of them memory", ylabel="vectors projected by W_kR")
        axes.margins(x=0.12)
        axes.legend(loc="upper left")
    alt = "; ".join(f"{label} {data[way][0]:,} … {data[way][-1]:,}" for way, (label, *_) in WAYS.items())
    return Picture(figure, f"Vectors projected by W_kR, with {keys[0]} … {keys[-1]} keys: {alt}.")
