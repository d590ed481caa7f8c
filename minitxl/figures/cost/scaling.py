"""Speed of a training step on N GPUs, and the memory each of them holds."""

from matplotlib.axes import Axes

from minitxl.figures.picture import BLUE, GREEN, ORANGE, PURPLE, Data, Picture, drawing

SHOWN = "wikitext103-large"
"""The preset of the left panel."""
MOST = 8
"""GPUs of the right panel, or as many fewer as share the batch."""
HELD = {
    "weights, gradients, moments": (("weights", "gradients", "moments", "average"), BLUE, ""),
    "buckets to send gradients": (("buckets",), ORANGE, "//"),
    "kept for the backward pass": (("activations", "states"), GREEN, ".."),
}
LINKS = {
    "measured": ("two processes here, measured", "o", PURPLE),
    "ethernet": ("10-gigabit Ethernet", "s", ORANGE),
    "pcie": ("PCIe 4.0 x16", "^", GREEN),
    "nvlink": ("NVLink", "D", BLUE),
}


def scaling(data: Data) -> Picture:
    """Draw the efficiency of N GPUs by link for one preset, and gigabytes on each GPU for all."""
    name = SHOWN if SHOWN in data["presets"] else next(iter(data["presets"]))
    with drawing(10, 4.8) as figure:
        several, each = figure.subplots(1, 2)
        alt = [_efficiency(several, data, name), _memory(each, data)]
    return Picture(figure, " ".join(alt))


def _efficiency(axes: Axes, data: Data, name: str) -> str:
    assumed = data["assumed"]
    rate = assumed["teraflops"] * assumed["utilisation"]
    alt = []
    for link, (where, mark, colour) in LINKS.items():
        rows = data["presets"][name]["scaling"]["assumed"][link]
        gpus = [row["gpus"] for row in rows]
        apart, overlapped = (
            [100 * row[way]["efficiency"] for row in rows] for way in ("apart", "overlapped")
        )
        label = f"{where}, {data['links'][link]:,.3g} GB/s"
        axes.plot(gpus, apart, f"{mark}-", color=colour, label=label)
        axes.plot(gpus, overlapped, "--", color=colour, lw=1)
        alt.append(f"{label}: {apart[-1]:.0f} to {overlapped[-1]:.0f} %")
    axes.set_xscale("log", base=2)
    axes.set_xticks(gpus, [str(number) for number in gpus])
    axes.set(title=f"{name}, GPUs of {rate:.0f} TFLOP/s (assumed)", xlabel="GPUs", ylabel="efficiency, %")
    axes.set_ylim(0, 105)
    axes.legend(title="no overlap; dashed: perfect overlap", loc="upper center", bbox_to_anchor=(0.5, -0.16))
    return (
        f"Left: share of {gpus[-1]} times one GPU's speed that {gpus[-1]} GPUs would reach with {name}, "
        f"without and with overlap, each at an assumed {rate:.0f} TFLOP/s, by link; {'; '.join(alt)}."
    )


def _memory(axes: Axes, data: Data) -> str:
    alt = []
    for place, (name, preset) in enumerate(data["presets"].items()):
        row = [one for one in preset["gigabytes"] if one["gpus"] <= MOST][-1]
        left = 0.0
        for label, (parts, colour, hatch) in HELD.items():
            width = sum(row[part] for part in parts)
            axes.barh(
                place,
                width,
                left=left,
                color=colour,
                hatch=hatch,
                edgecolor="white",
                label=label if not place else None,
            )
            left += width
        axes.annotate(f"{row['whole']:,.3g}", (left, place), (4, 0), textcoords="offset points", va="center")
        alt.append(f"{name} on {row['gpus']}: {row['whole']:,.3g}")
    axes.set_yticks(range(len(alt)), [one.partition(":")[0] for one in alt])
    axes.set(title="Held by each of so many GPUs", xlabel="GB in float32, published batch")
    axes.margins(x=0.12)
    axes.invert_yaxis()
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16))
    return f"Right: gigabytes that each GPU holds in float32 when its backward pass begins; {'; '.join(alt)}."
