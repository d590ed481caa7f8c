"""The figures that are drawn from stored results, for the tests of all figures."""

from functools import cache
from pathlib import Path

from matplotlib.figure import Figure

from minitxl import figures
from minitxl.experiments.shared import results

FIGURES = Path(__file__).parents[2] / "figures"
DRAWN = {
    draw.__name__: (name, draw)
    for name, all_of_it in figures.OF_RESULT.items()
    for draw in all_of_it
    if draw is not figures.mechanism
}
"""By a figure's name: the name of its result, and the function that draws it."""


@cache
def figure_of(name: str) -> Figure:
    """Return a figure that is drawn from its stored result once, for all tests that look at it."""
    result, draw = DRAWN[name]
    return draw(results.read(FIGURES / f"{result}.json").data).figure


@cache
def laid_out(name: str) -> Figure:
    """Return such a figure once it was drawn but for its pixels: its ticks have their labels then."""
    figure = figure_of(name)
    figure.draw_without_rendering()
    return figure
