"""Attention of Transformer-XL and rotary positions over a longer memory than in training."""

from minitxl.figures.marks import DOTS_AND_BAR, in_per_cent, seeds_and_mean, with_commas
from minitxl.figures.picture import Data, Picture, drawing, legend_outside, panels
from minitxl.figures.systems import SYSTEMS

LOOKING = {key: SYSTEMS[key] for key in ("xl_memory", "rotary_memory")}


def far_attention(data: Data) -> Picture:
    """Draw the mean weight by distance, and the share of weight on distances that training never met."""
    trained, words = data["trained_distance"], []
    with drawing(10, 3.8) as figure:
        weights, shares = panels(figure, 2, ratios=[1.3, 1], height=3.4)
        for place, (key, system) in enumerate(LOOKING.items()):
            name, colour, row = system.name, system.colour, data["longer"][key]
            curve, longer = row["by_distance"], row["rows"][1:]
            weights.plot(range(len(curve)), curve, color=colour, ls=system.line, label=name)
            for group, one in enumerate(longer):
                y = group + 0.3 * place
                seeds_and_mean(shares, y, one["far"], colour)
            said = ", ".join(f"{100 * one['far']['mean']:.0f} % with {one['mem_len']}" for one in longer)
            words.append(f"{name} {said}")
        for group, one in enumerate(longer):
            ends = [group - 0.18, group + 0.48]
            shares.plot([one["alike"]] * 2, ends, color="black", lw=1.2, ls=":")
            left, label = one["alike"] > 0.7, f"with equal\nweights: {100 * one['alike']:.0f} %"
            shares.annotate(
                label, (one["alike"], group), (-5 if left else 5, 0),
                textcoords="offset points", ha="right" if left else "left", va="center",
            )  # fmt: skip
        xl, rotary = ([one["far"]["seeds"] for one in data["longer"][name]["rows"][1:]] for name in LOOKING)
        farther = all(max(near) < min(far) for near, far in zip(xl, rotary, strict=True))
        weights.axvspan(trained, len(curve) - 1, color="#E4E4E4", lw=0, zorder=0)
        weights.text(
            trained + 1,
            0.97,
            "beyond training",
            va="top",
            transform=weights.get_xaxis_transform(),
        )
        weights.set_yscale("log")
        weights.set(
            title=f"A memory of {longer[0]['mem_len']}: rotary attends\nbeyond the distances of its training"
            if farther
            else f"Attention with a memory of {longer[0]['mem_len']}",
            xlabel="distance of key and query, characters",
            ylabel="mean weight, log scale",
        )
        with_commas(weights.yaxis)
        shares.set_yticks(
            [group + 0.15 for group in range(len(longer))], [f"memory {one['mem_len']}" for one in longer]
        )
        shares.invert_yaxis()
        shares.set(
            title="Transformer-XL gives distances\nbeyond training much less weight"
            if farther
            else "Weight beyond the distances of training",
            xlabel=f"weight beyond the distances of training, %\n({DOTS_AND_BAR})",
            xlim=(0, 1),
        )
        in_per_cent(shares.xaxis)
        legend_outside(figure, *weights.get_legend_handles_labels(), ncols=2)
    alike = " and ".join(f"{100 * one['alike']:.0f} %" for one in longer)
    return Picture(
        figure,
        f"Share of attention on distances beyond {trained}, mean of {len(one['far']['seeds'])} seeds: "
        f"{'; '.join(words)} characters of memory; {alike} with equal weights.",
    )
