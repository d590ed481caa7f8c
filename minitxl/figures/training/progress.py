"""Training as it goes: the dashboard's four panels."""

from typing import Any

from matplotlib.axes import Axes

from minitxl.figures.marks import with_commas
from minitxl.figures.picture import BITS, LOWER, Data, Picture, drawing
from minitxl.figures.systems import SYSTEMS

XL = SYSTEMS["xl_memory"]
"""The system whose training the dashboard shows."""
LAYERS = list(zip(("-", "--", "-.", ":"), XL.shades(4), strict=True))
"""Line and shade of each layer that is drawn."""


def progress(data: Data) -> Picture:
    """Draw a run so far: loss, attention by distance, what hiding memory costs, time per token."""
    with drawing(10, 5.4) as figure:
        (loss, attention), (reach, cost) = figure.subplots(2, 2)
        alt = [_loss(loss, data), _attention(attention, data["attention"])]
        alt += [_reach(reach, data["reach"]), _cost(cost, data)]
        for axes in (loss, cost):
            axes.set(xlabel="training step", xlim=(0, data["steps"]))
            with_commas(axes.xaxis)
    return Picture(figure, f"Step {data['step']} of {data['steps']}. {' '.join(alt)}")


def _loss(axes: Axes, data: Data) -> str:
    alt = []
    for name, line, colour in (("training", ".-", XL.colour), ("validation", "o--", "black")):
        curve = data[name]
        axes.plot(curve["step"], curve["bits"], line, color=colour, label=name)
        alt += [f"{name} {curve['bits'][-1]:.2f}"] if curve["bits"] else []
    axes.set(title="Loss", ylabel=f"{BITS}\n{LOWER}")
    axes.legend()
    return f"Loss in {BITS}: {', '.join(alt) or 'none yet'}."


def _attention(axes: Axes, data: Data) -> str:
    deepest = len(data["layers"]) - 1
    shown = sorted({deepest * third // 3 for third in range(4)})
    for layer, (line, colour) in zip(shown, LAYERS, strict=False):
        weights = data["layers"][layer]
        axes.plot(range(len(weights)), weights, line, color=colour, lw=1.5, label=f"layer {layer + 1}")
    share = f"{data['memory_share']:.0%} of the weight is on memory"
    axes.set(title=f"Attention: {share}", xlabel="tokens back from the query", ylabel="mean weight")
    axes.set_yscale("log")
    axes.legend(ncols=2, fontsize=8)
    here = ", ".join(f"{weights[0]:.2f}" for weights in data["layers"])
    return f"Attention: {share}; on the token itself, layer by layer, {here}."


def _reach(axes: Axes, data: Data) -> str:
    bands, alt = data["bands"], []
    for place, band in enumerate(bands):
        first, last = band["ages"]
        style: dict[str, Any] = {"color": XL.colour} if band["costs"] else {"color": "white", "hatch": "//"}
        axes.bar(place, band["mean"], edgecolor=XL.colour, width=0.6, **style)
        axes.plot([place, place], [band["low"], band["high"]], "-", color="black", lw=1.5)
        alt.append(f"of age {first} to {last} {band['mean']:.3f} ({band['low']:.3f} to {band['high']:.3f})")
    axes.axhline(0, color="black", lw=0.8)
    rule = f"filled: the whole interval lies above {data['worth']} bits"
    axes.axhline(data["worth"], color="black", ls=":", lw=1, label=rule)
    names = [f"{first}–{last}" if first < last else str(last) for first, last in (b["ages"] for b in bands)]
    axes.set_xticks(range(len(bands)), names)
    tokens = f"{data['tokens']} token{'s' * (data['tokens'] > 1)}"
    reach = f"at least {tokens} into memory" if data["tokens"] else "none shown"
    title = f"Learned reach: {reach if bands else 'no memory'}"
    axes.set(title=title, xlabel="age of the memory that is hidden, tokens", ylabel="bits it costs")
    if not bands:
        return f"{title}, 0 tokens."
    axes.legend(fontsize=8)
    return f"{title} ({rule}). Bits that hiding memory costs: {', '.join(alt)}."


def _cost(axes: Axes, data: Data) -> str:
    steps, costs = data["cost"]["step"], data["cost"]["microseconds"]
    axes.plot(steps, costs, ".-", color=XL.colour)
    axes.set(ylabel=f"microseconds per token\n{LOWER}", title=f"Cost: {data['tokens']:,} tokens so far")
    axes.set_ylim(0, 1.3 * max(costs, default=1))
    now = f"{costs[-1]:.0f} microseconds a token" if costs else "no step yet"
    return f"Cost: {now}, {data['tokens']:,} tokens so far."
