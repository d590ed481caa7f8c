"""The gain of each pair of context lengths: the paper's Figure 3."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from minitxl.figures.marks import write_numbers
from minitxl.figures.picture import (
    Data,
    Picture,
    drawing,
    fitted,
    headline,
    is_narrow,
    legend_outside,
    panels,
)
from minitxl.figures.recurrence.context_length import READERS, contexts_read, most_read
from minitxl.figures.systems import SYSTEMS

BEYOND: dict[str, Any] = {"color": "#606060", "lw": 1.2, "ls": "--"}
"""Look of the line between the gains of a long context and those of a longer one."""


def context_gains(data: Data) -> Picture:
    """Draw the gain of each pair of context lengths, a panel a model: the paper's Figure 3."""
    with drawing(10, 4) as figure:
        _gains(figure, data)
        middle = middle_of(data)
        first, last = data["context_lens"][0], data["context_lens"][-1]
        if all(3 * far < whole for name in READERS for far, whole in _far_and_whole(data, name, middle)):
            headline(
                figure,
                f"From {first} to {middle} characters of context most is gained; "
                f"from {middle} to {last} little",
            )
    alt = [f"{one.name} {_gain(data, name, first)['mean']:.2f}" for name, one in READERS.items()]
    return Picture(
        figure,
        f"Perplexity saved where the context grows from {first} to {last} characters ({most_read(data)}): "
        f"{', '.join(alt)}. "
        f"Each target is compared with the best of the models that has {first}; one that is predicted worse "
        "counts as nothing saved.",
    )


def doubled(lengths: Sequence[int]) -> list[int]:
    """Return those lengths that are the first one times a power of 2: their gains have room for numbers."""
    return [length for length in lengths if (length // lengths[0]).bit_count() == 1]


def middle_of(data: Data) -> int:
    """Return a quarter of the longest context: a dashed line divides the gains from there."""
    lengths = data["context_lens"]
    middle: int = lengths[len(lengths) // 4 - 1]
    return middle


def _gain(data: Data, name: str, short: int) -> Data:
    """Return the gain of the longest context over all models' best with a shorter one, by seed and mean."""
    (pair,) = (
        pair
        for pair in data["gains"][name]
        if (pair["short"], pair["long"]) == (short, data["context_lens"][-1])
    )
    gain: Data = pair["perplexity"]
    return gain


def _far_and_whole(data: Data, name: str, middle: int) -> Iterator[tuple[float, float]]:
    """Yield for each seed the gain over the ``middle`` context, and that over the shortest."""
    far, whole = _gain(data, name, middle), _gain(data, name, data["context_lens"][0])
    return zip(far["seeds"], whole["seeds"], strict=True)


def _gains(figure: Figure, data: Data) -> None:
    """Draw Figure 3: each model's gain of a longer context over the best of all with the shorter.

    The best is chosen for each target, so it has a smaller loss than any one model, and no gain is negative.
    """
    lengths = doubled(data["context_lens"])
    matrices = {name: _matrix(lengths, data["gains"][name]) for name in READERS}
    whole = {name: lengths.index(contexts_read(data, name)[-1]) for name in READERS}
    for name, matrix in matrices.items():
        matrix[whole[name] :] = np.nan  # the model has no more to read
    most = max(float(np.nanmax(matrix)) for matrix in matrices.values())
    shown = panels(figure, len(matrices), height=1.9, sharey=True, sharex=True)
    for axes, (name, matrix) in zip(shown, matrices.items(), strict=True):
        look = PowerNorm(0.5, vmin=0, vmax=most)  # small gains differ from none
        drawn = axes.imshow(matrix, cmap="cividis", norm=look, origin="lower", aspect="auto")
        texts = [["" if np.isnan(one) else f"{one:.2f}" for one in row] for row in matrix]
        write_numbers(axes, matrix, texts, dark=0.07)
        for short in range(whole[name], len(lengths) - 1):
            axes.text(len(lengths) - 1, short, "–", ha="center", va="center")
        axes.axhline(lengths.index(middle_of(data)) - 0.5, **BEYOND)
        axes.set_title(SYSTEMS[name].name.replace(", ", ",\n"), fontsize=10)
        names = [f"{length:,}" for length in lengths]
        axes.set_xticks(range(1, len(lengths)), names[1:])
        axes.set_yticks(range(len(lengths) - 1), names[:-1])
        axes.set(xlim=(0.5, len(lengths) - 0.5), ylim=(-0.5, len(lengths) - 1.5))
    line = Line2D([], [], **BEYOND)
    words = f"above this line: what is saved beyond {middle_of(data)} characters of context"
    none = Line2D([], [], color="black", marker="$–$", ls="none", ms=6)
    names = [fitted(words), fitted(most_read(data))]
    legend_outside(figure, [line, none], names, place="lower left", ncols=2)
    middle = shown[-1] if is_narrow() else shown[len(shown) // 2]
    middle.set_xlabel("… to this longer context, characters")
    shown[0].set_ylabel("from this context …")
    bar = figure.colorbar(drawn, ax=shown, shrink=0.9 if not is_narrow() else 0.4)
    bar.set_label(
        "perplexity saved, for each target against\n"
        f"the best of all {len(matrices)} models with the\n"
        "shorter context; worse counts as 0\n(square-root scale)"
    )
    bar.set_ticks([0.0, 0.05, 0.2], labels=["0", "0.05", "0.2"])


def _matrix(lengths: list[int], pairs: Sequence[Data]) -> NDArray[np.float64]:
    """Return [short long], nan where long is not longer."""
    matrix = np.full((len(lengths), len(lengths)), np.nan)
    for pair in (one for one in pairs if one["short"] in lengths and one["long"] in lengths):
        matrix[lengths.index(pair["short"]), lengths.index(pair["long"])] = pair["perplexity"]["mean"]
    return matrix
