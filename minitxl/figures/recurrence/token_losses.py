"""Losses of single tokens, side by side."""

from minitxl.figures.picture import LOWER, Data, Picture, drawing

GREY = "#9A9A9A"
LOOKS = (("black", "////", "white"), ("black", "", "black"), (GREY, "....", "white"), (GREY, "", GREY))
"""Edge, hatch and fill of each bar of a token: two models, each with a short and a long context."""


def token_losses(data: Data) -> Picture:
    """Draw a bar for each of four ``rows`` or fewer at each token, and ``baseline``, a line across them."""
    rows, baseline = data["rows"], data["baseline"]
    with drawing(7, 3.2) as figure:
        axes = figure.subplots()
        for place, ((name, losses), (edge, hatch, fill)) in enumerate(zip(rows.items(), LOOKS, strict=False)):
            middles = [token + 0.2 * (place - (len(rows) - 1) / 2) for token in range(len(losses))]
            axes.bar(middles, losses, 0.17, label=name, edgecolor=edge, hatch=hatch, facecolor=fill)
        left, right = ([token + side for token in range(len(baseline))] for side in (-0.42, 0.42))
        axes.hlines(baseline, left, right, color="black", lw=1.5, ls="--", label="baseline")
        axes.set_xticks(range(len(baseline)), [f"token {token}" for token in range(len(baseline))])
        axes.set(ylabel=f"loss, nats\n{LOWER}")
        axes.tick_params(axis="x", length=0)
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    said = "; ".join(f"{name} {', '.join(f'{one:.1f}' for one in losses)}" for name, losses in rows.items())
    return Picture(figure, f"Loss of {len(baseline)} tokens in nats: {said}.")
