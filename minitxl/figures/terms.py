"""The four terms of Transformer-XL's score: apart, stacked, in a trained model, and one missing."""

import matplotlib as mpl
from matplotlib.figure import Figure

from minitxl.figures.picture import BITS, BLUE, ORANGE, STYLE, Data, Picture

WITHOUT = {
    "none": "all four terms",
    "a": "without (a), content × content",
    "b": "without (b), content × distance",
    "c": "without (c), bias of content",
    "d": "without (d), bias of distance",
}


def without_terms(data: Data) -> Picture:
    """Test loss of the whole model and of four that never had one of the terms."""
    rows = data["missing"]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 2.8), layout="constrained")
        axes = figure.subplots()
        whole = rows["none"]["bits"]["mean"]
        axes.axvline(whole, color="black", lw=1, ls=":")
        for place, (missing, row) in enumerate(rows.items()):
            colour = ORANGE if missing == "none" else BLUE
            bits = row["bits"]
            axes.plot(bits["seeds"], [place] * len(bits["seeds"]), "o", color=colour, ms=5, mfc="white")
            axes.plot(bits["mean"], place, "|", color=colour, ms=16, mew=2.5)
            words = f"{bits['mean']:.2f}" if missing == "none" else f"{row['cost']['mean']:+.2f}"
            axes.annotate(words, (max(bits["seeds"]), place), (10, -3), textcoords="offset points")
        axes.set_yticks(range(len(rows)), [WITHOUT[missing] for missing in rows])
        axes.invert_yaxis()
        axes.margins(x=0.15, y=0.15)
        axes.set(xlabel=f"test {BITS}: a circle for each seed, a bar at their mean")
    told = "; ".join(
        f"{WITHOUT[missing]} {row['bits']['mean']:.2f} (spread {row['bits']['spread']:.2f})"
        for missing, row in rows.items()
    )
    seeds = len(rows["none"]["bits"]["seeds"])
    return Picture(figure, f"Test {BITS} after {data['steps']} steps, mean of {seeds} seeds: {told}.")
