"""Speed of a training step on N GPUs, and the memory each of them holds."""

import matplotlib as mpl
from matplotlib.colors import to_hex

from minitxl.figures.marks import End, write_ends
from minitxl.figures.picture import (
    Data,
    Picture,
    drawing,
    fitted,
    headline,
    is_narrow,
    legend_outside,
)

SHOWN = "wikitext103-large"
"""The preset whose efficiency is drawn."""
MOST = 8
"""GPUs whose memory is drawn, or as many fewer as share the batch."""
HELD = {
    "weights, gradients, Adam's moments": (("weights", "gradients", "moments", "average"), 0.8, ""),
    "copies of gradients being sent": (("buckets",), 0.5, "//"),
    "states kept for the backward pass": (("activations", "states"), 0.1, ".."),
}
"""Parts of what a GPU holds: names in the result, place in the scale of colours, and hatch."""
LINKS = {
    "measured": ("two processes", "o", 0.0),
    "ethernet": ("10-gigabit Ethernet", "s", 0.3),
    "pcie": ("PCIe 4.0 x16", "^", 0.5),
    "nvlink": ("NVLink", "D", 0.68),
}
"""Name and marker of each link, and its place in the scale of colours: the brighter, the faster."""
DASHES = {"measured": "--", "ethernet": "-", "pcie": "-", "nvlink": "-"}
"""Of both lines of a link; those of the slowest two lie close together."""
COLOURS = mpl.colormaps["cividis"]


def scaling(data: Data) -> Picture:
    """Draw the efficiency of N GPUs by link for one preset, without overlap and with."""
    name = SHOWN if SHOWN in data["presets"] else next(iter(data["presets"]))
    assumed = data["assumed"]
    rate = assumed["teraflops"] * assumed["utilisation"]
    alt, ends = [], list[End]()
    with drawing(9.4, 5 if is_narrow() else 4.2) as figure:
        axes = figure.subplots()
        for link, (where, mark, place) in LINKS.items():
            colour = COLOURS(place)
            rows = data["presets"][name]["scaling"]["assumed"][link]
            gpus = [row["gpus"] for row in rows]
            apart, overlapped = (
                [100 * row[way]["efficiency"] for row in rows] for way in ("apart", "overlapped")
            )
            label = f"{where}, {data['links'][link]:,.3g} GB/s"
            axes.plot(gpus, apart, f"{mark}{DASHES[link]}", color=colour)
            said = label.replace(", ", ",\n") if is_narrow() else label
            ends.append((said, to_hex(colour), gpus[-1], apart[-1]))
            if link != "measured":  # it would cover that of Ethernet, which is about as fast
                axes.fill_between(gpus, apart, overlapped, color=colour, alpha=0.2, lw=0)
                axes.plot(gpus, overlapped, DASHES[link], color=colour, lw=0.8)
            alt.append(f"{label}: {apart[-1]:.0f} to {overlapped[-1]:.0f} %")
        axes.plot([], [], color="grey", label="gradients sent after the backward pass")
        label = fitted("largest possible gain, if gradients are sent during the backward pass")
        axes.fill_between([], [], [], color="grey", alpha=0.3, label=label)
        measured = "rate measured between two processes of one machine"
        axes.plot([], [], "--", color="grey", label=fitted(measured))
        axes.set_xscale("log", base=2)
        axes.set_xticks(gpus, [str(number) for number in gpus])
        axes.set(
            title=fitted(_by_link(name, data["presets"][name]["scaling"]["assumed"])),
            xlabel=fitted(f"number of GPUs, each of {rate:.0f} TFLOP/s (assumed), log scale"),
            ylabel="speed of each GPU,\n% of one GPU alone",
            ylim=(-8 if is_narrow() else 0, 105),  # room for the lowest name
        )
        write_ends(axes, ends, least=0.2 if is_narrow() else 0.06)
        legend_outside(figure, ncols=2)
    return Picture(
        figure,
        f"Share of {gpus[-1]} times one GPU's speed that {gpus[-1]} GPUs would reach with {name}, without "
        f"and with overlap, each at an assumed {rate:.0f} TFLOP/s, by link; {'; '.join(alt)}.",
    )


def _by_link(name: str, rows: Data) -> str:
    """Say whether many GPUs stay efficient by the fastest link that is sold, and not by the slowest."""
    slow, fast = (rows[link][-1]["apart"]["efficiency"] for link in ("ethernet", "nvlink"))
    if not slow < 0.25 < 0.75 < fast:
        return f"Estimate for {name}, by the link between GPUs"
    count = rows["nvlink"][-1]["gpus"]
    return (
        f"Estimate for {name}: with {count} GPUs each keeps\n"
        f"{100 * fast:.0f} % of its speed over NVLink, {100 * slow:.0f} % over 10-gigabit Ethernet"
    )


def scaling_memory(data: Data) -> Picture:
    """Draw the gigabytes that each GPU holds, for all presets."""
    alt = []
    with drawing(6.4, 4.4) as figure:
        axes = figure.subplots()
        for place, (name, preset) in enumerate(data["presets"].items()):
            row = [one for one in preset["gigabytes"] if one["gpus"] <= MOST][-1]
            left = 0.0
            for label, (parts, shade, hatch) in HELD.items():
                width = sum(row[part] for part in parts)
                axes.barh(
                    place, width, left=left, color=COLOURS(shade), hatch=hatch, edgecolor="white",
                    label=label if not place else None,
                )  # fmt: skip
                left += width
            axes.annotate(
                f"{row['whole']:,.3g}", (left, place), (4, 0), textcoords="offset points", va="center"
            )
            alt.append(f"{name} on {row['gpus']}: {row['whole']:,.3g}")
        axes.set_yticks(range(len(alt)), [one.partition(":")[0] for one in alt])
        headline(figure, _what_takes_most(data["presets"]))
        axes.set_ylabel("preset, and its number of GPUs")
        axes.set(xlabel="GB on each GPU\n(float32, published batch)")
        axes.margins(x=0.14)
        axes.invert_yaxis()
        legend_outside(figure, ncols=2)
    return Picture(
        figure,
        f"Gigabytes that each GPU holds in float32 when its backward pass begins; {'; '.join(alt)}.",
    )


def _what_takes_most(presets: Data) -> str:
    """Return in how many of the presets the backward pass's states are most of what a GPU holds."""
    rows = [[one for one in preset["gigabytes"] if one["gpus"] <= MOST][-1] for preset in presets.values()]
    parts, _, _ = HELD["states kept for the backward pass"]
    most = sum(sum(row[part] for part in parts) > row["whole"] / 2 for row in rows)
    if most > len(rows) / 2:
        return (
            f"In {most} of the {len(rows)} presets, states kept for the\n"
            "backward pass are most of what a GPU holds"
        )
    return "Memory of each GPU"
