"""Pictures of notebook 14: turns, scores by distance, learned biases, reading farther, compressive memory."""

from collections.abc import Sequence
from math import cos, sin
from typing import Any

from matplotlib.patches import Rectangle

from minitxl.figures.marks import End, hide_frame, write_ends
from minitxl.figures.picture import BITS, LOWER, Data, Picture, drawing
from minitxl.figures.systems import SYSTEMS, named


def turned_arrows(data: Data) -> Picture:
    """Draw an arrow turned by each of ``positions`` times each of ``speeds`` radians, a panel a speed."""
    positions, said = list(data["positions"]), []
    with drawing(6.5, 2.9) as figure:
        for axes, speed in zip(figure.subplots(1, len(data["speeds"])), data["speeds"], strict=True):
            for position in positions:
                x, y = cos(position * speed), sin(position * speed)
                arrow = {
                    "arrowstyle": "-|>",
                    "color": SYSTEMS["rotary_memory"].colour,
                    "shrinkA": 0,
                    "shrinkB": 0,
                }
                axes.annotate("", (x, y), (0, 0), arrowprops=arrow)
                axes.text(1.18 * x, 1.18 * y, str(position), ha="center", va="center")
            axes.set(xlim=(-1.4, 1.4), ylim=(-1.4, 1.4), aspect="equal", xticks=[], yticks=[])
            axes.set(title=f"{speed:g} rad a position")
            hide_frame(axes)
            said.append(f"at {speed:g} radians a position the last stands at {positions[-1] * speed:.2f}")
    return Picture(
        figure, f"Arrows of positions {positions[0]} to {positions[-1]}: {'; '.join(said)} radians."
    )


def by_distance(data: Data) -> Picture:
    """Draw what a kind of positions makes of equal contents by distance: ``added`` over 0, 1, 2 ….

    ``title`` begins with the kind of positions; ``chosen`` is the distance that is marked.
    """
    added: Sequence[Any] = data["added"]
    chosen, system = data["chosen"], named(data["title"])
    colour = system.colour if system else "black"
    with drawing(7, 3.2) as figure:
        axes = figure.subplots()
        axes.plot(range(len(added)), added, "-", color=colour)
        axes.plot(chosen, added[chosen], "o", ms=9, color=colour)
        axes.axhline(0, color="#808080", lw=0.8)
        label = axes.annotate(
            f"{added[chosen]:.2f}", (chosen, added[chosen]), (8, 12), textcoords="offset points", va="bottom"
        )
        label.set_bbox({"facecolor": "white", "edgecolor": "#B0B0B0", "lw": 0.6, "pad": 1.5})
        axes.axvspan(data["trained"], len(added) - 1, color="#E4E4E4", lw=0, zorder=0)
        axes.margins(y=0.3)
        axes.text(
            data["trained"] + 1,
            0.98,
            "farther than in training",
            va="top",
            transform=axes.get_xaxis_transform(),
        )
        axes.set(title=data["title"], xlabel="distance i − j, tokens", ylabel="added to the score, nats")
    return Picture(
        figure,
        f"{data['title']}: {added[0] + 0:.2f} at distance 0, {added[chosen]:.2f} at {chosen}, "
        f"{added[-1]:.2f} at {len(added) - 1}.",
    )


def compressive(data: Data) -> Picture:
    """Draw ``compressed`` slots of ``rate`` states each, then ``memory`` states, then a ``segment``.

    Below stand the tokens that each slot stands for, so that the widths show how far the past reaches.
    """
    rate, parts = data["rate"], ("compressed", "memory", "segment")
    looks = {"compressed": "#E9C9DD", "memory": "#FDD0A2", "segment": "#A6CEE3"}
    titles = {
        "compressed": f"compressed memory:\na slot for {rate} old tokens",
        "memory": "memory:\na slot a token",
        "segment": "segment",
    }
    x, old = 0.0, rate * data["compressed"]
    with drawing(7, 1.9) as figure:
        axes = figure.subplots()
        for part in parts:
            width = rate if part == "compressed" else 1
            axes.text(x, 1.25, titles[part])
            for _ in range(data[part]):
                slot = Rectangle((x, 0), 0.94 * width, 1, facecolor=looks[part], edgecolor="#606060")
                axes.add_patch(slot)
                x += width
        for tick, at in ((old, 0), (0, old + data["memory"])):
            axes.text(at, -0.35, f"{data['memory'] + tick} tokens back" if tick else "now")
        axes.set(xlim=(-0.2, x), ylim=(-0.6, 1.7), xticks=[], yticks=[])
        hide_frame(axes)
    return Picture(
        figure,
        f"{data['compressed']} compressed states stand for {old} old tokens; then {data['memory']} states of "
        f"memory and {data['segment']} of the segment.",
    )


def learned_bias(data: Data) -> Picture:
    """Draw what T5's heads add by bucket, a panel a head, grey up to ``limit``.

    ``series`` holds two tables by name, [head bucket] each: that of the published model, and one multiplied.
    """
    series = data["series"]
    looks = zip(SYSTEMS["t5_memory"].shades(2), ("--", "-"), strict=True)
    n_head, looks_of = len(next(iter(series.values()))), dict(zip(series, looks, strict=True))
    with drawing(7, 2.6 * -(-n_head // 2)) as figure:
        grid = figure.subplots(-(-n_head // 2), 2, sharex=True, sharey=True, squeeze=False)
        for head, axes in enumerate(grid.flat[:n_head]):
            for name, heads in series.items():
                colour, line = looks_of[name]
                axes.plot(range(len(heads[head])), heads[head], line, color=colour, label=name, lw=1.5)
            axes.axhspan(-data["limit"], data["limit"], color="#E4E4E4", lw=0, zorder=0)
            axes.set_title(f"head {head + 1}")
        for axes in grid[-1]:
            axes.set_xlabel("bucket, near to far")
        for axes in grid[:, 0]:
            axes.set_ylabel("bias, nats")
        figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(series))
    spans = (f"{name}: {min(map(min, of)):.1f} to {max(map(max, of)):.1f}" for name, of in series.items())
    return Picture(
        figure,
        f"Learned biases of {n_head} heads in nats, {'; '.join(spans)}; grey: up to {data['limit']:.1f}, "
        "farther than no gradients can move them as published.",
    )


def read_longer(data: Data) -> Picture:
    """Draw bits by memory at evaluation: ``bits`` by the model's name, at each of ``lengths``.

    Models with rotary positions, and those whose name is not in ``systems``, have rotary's colour; a line and
    a marker for each tell them apart.
    """
    lengths, said, rotary = data["lengths"], [], SYSTEMS["rotary_memory"]
    with drawing(7, 3.4) as figure:
        axes, ends = figure.subplots(), list[End]()
        lines = iter(((rotary.marker, rotary.line), ("s", "--")))
        for name, bits in data["bits"].items():
            system = named(name)
            look: dict[str, Any] = system.look() if system else {}
            if system is None or system.positions == "rotary":
                marker, line = next(lines)
                look = {"color": rotary.colour, "marker": marker, "ls": line}
            axes.plot(range(len(lengths)), bits, **look, ms=6)
            ends.append((name, look["color"], len(lengths) - 1, bits[-1]))
            said.append(f"{name} {', '.join(f'{one:.2f}' for one in bits)}")
        axes.set_xticks(range(len(lengths)), [f"{length:,}" for length in lengths])
        axes.set(
            xlabel=f"memory at evaluation, characters; in training {data['trained']}",
            ylabel=f"test {BITS}\n{LOWER}",
        )
        axes.set_xlim(-0.2, len(lengths) - 0.1)
        write_ends(axes, ends, at=len(lengths) - 0.9)
    return Picture(figure, f"Test {BITS} with {list(lengths)} characters of memory: {'; '.join(said)}.")
