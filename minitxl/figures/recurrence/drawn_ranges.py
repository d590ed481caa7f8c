"""Lengths as measured, and the ranges that random draws give them."""

from minitxl.figures.marks import write_ends
from minitxl.figures.picture import Data, Picture, drawing
from minitxl.figures.systems import BY_NAME


def drawn_ranges(data: Data) -> Picture:
    """Draw for each of ``rows`` the measured length, and the ranges of the draws of two kinds.

    A row has ``name``, a system's, ``r``, ``measured``, and the ends ``anew`` and ``tossed`` of the ranges.
    Rows of one name follow each other. ``longest`` is the longest length, where walks are cut off.
    """
    rows, ends, ticks, alt = data["rows"], [], [], []
    names = list(dict.fromkeys(row["name"] for row in rows))
    with drawing(7, 1.5 + 0.36 * len(rows)) as figure:
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
