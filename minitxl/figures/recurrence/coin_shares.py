"""What chance makes of a measure: shares of tosses, step by step, and the ranges of drawn walks."""

from minitxl.figures.marks import write_ends
from minitxl.figures.picture import Data, Picture, drawing, panels
from minitxl.figures.systems import BY_NAME

FEW = 5
"""Per cent of the tosses: a step that so few come up to stands out."""


def coin_shares(data: Data) -> Picture:
    """Draw a dot for each step of each model, in per cent, a panel for each measure.

    ``panels[title][name]`` are the shares in per cent at each of ``places``, where the steps begin. Dots of
    ``FEW`` or less are filled, and lie in a grey band; the others are hollow.
    """
    places, alt = data["places"], []
    side = (places[1] - places[0]) / 8  # models stand beside each other
    with drawing(10, 3.6) as figure:
        shown = panels(figure, len(data["panels"]), sharey=True)
        for axes, (title, models) in zip(shown, data["panels"].items(), strict=True):
            axes.axhspan(-4, FEW, color="#DDDDDD", lw=0, label=f"{FEW} % or less", zorder=0)
            for number, (name, shares) in enumerate(models.items()):
                system = BY_NAME[name]
                moved = [place + side * (2 * number - 1) for place in places]
                few = [share <= FEW for share in shares]
                for filled in (False, True):
                    points = [
                        (x, y) for x, y, is_few in zip(moved, shares, few, strict=True) if is_few == filled
                    ]
                    x, y = zip(*points, strict=True) if points else ((), ())
                    fill = system.colour if filled else "white"
                    axes.plot(
                        x, y, system.marker, ms=7, color=system.colour, mfc=fill, mew=1.5, clip_on=False,
                        label=name if filled else "_hollow", zorder=3,
                    )  # fmt: skip
                ahead = [
                    f"{place} ({share:.1f})"
                    for place, share in zip(places, shares, strict=True)
                    if share <= FEW
                ]
                alt.append(f"{title}, {name}: {', '.join(ahead) or 'none'}")
            axes.set(title=title, xlabel="step begins at c characters", ylim=(-4, 104))
            axes.set_xticks(places)
            axes.grid(axis="x", color="#EEEEEE", lw=0.8)
            axes.set_axisbelow(True)
        shown[0].set_ylabel("tosses that come to as much, %")
        handles, labels = shown[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9)
    return Picture(
        figure, f"Steps that at most {FEW} % of the tosses come up to, by where they begin: {'; '.join(alt)}."
    )


def drawn_ranges(data: Data) -> Picture:
    """Draw for each of ``rows`` the measured length, and the ranges of the draws of two kinds.

    A row has ``name``, a system's, ``r``, ``measured``, and the ends ``anew`` and ``tossed`` of the ranges.
    Rows of one name follow each other. ``longest`` is the longest length, where walks are cut off.
    """
    rows, ends, ticks, alt = data["rows"], [], [], []
    names = list(dict.fromkeys(row["name"] for row in rows))
    with drawing(8, 1.5 + 0.36 * len(rows)) as figure:
        axes = figure.subplots()
        for number, row in enumerate(rows):
            system = BY_NAME[row["name"]]
            y = -number - names.index(row["name"])
            ticks.append((y, f"r = {row['r']}"))
            first = "" if number == 0 else "_"
            axes.plot(
                row["tossed"], (y, y), "|-", color="#C4C4C4", lw=11, ms=11, mew=4, solid_capstyle="butt",
                label=f"{first}whole curve tossed", zorder=1,
            )  # fmt: skip
            axes.plot(
                row["anew"], (y, y), "|-", color="black", lw=1.5, ms=11, label=f"{first}tokens drawn anew"
            )
            axes.plot(
                [row["measured"]], [y], system.marker, ms=9, color=system.colour, mec="black", zorder=3,
                label="_measured",
            )  # fmt: skip
            alt.append(
                f"{row['name']} at r = {row['r']} {row['measured']}, "
                + ", ".join(f"{kind} {row[kind][0]} to {row[kind][1]}" for kind in ("anew", "tossed"))
            )
        for name in names:
            heights = [y for (y, _), row in zip(ticks, rows, strict=True) if row["name"] == name]
            ends.append((name, BY_NAME[name].colour, data["longest"], sum(heights) / len(heights)))
        axes.axvline(data["longest"], color="black", lw=1, ls=":")
        axes.set_yticks([y for y, _ in ticks], [text for _, text in ticks])
        axes.tick_params(axis="y", length=0)
        axes.set(
            title="RECL; large mark: measured", xlabel="context, characters", ylim=(ticks[-1][0] - 0.8, 0.8)
        )
        axes.set_xlim(0, data["longest"] + 6)
        axes.set_xticks(range(0, data["longest"] + 1, 16))
        write_ends(axes, ends)
        figure.legend(loc="outside lower center", ncols=2, fontsize=9)
    return Picture(
        figure, f"RECL in characters, measured and of the middle nine tenths of draws: {'; '.join(alt)}."
    )
