"""The figures that are drawn from stored results, for the tests of all figures."""

from pathlib import Path

from minitxl import figures

FIGURES = Path(__file__).parents[2] / "figures"
DRAWN = {
    draw.__name__: (name, draw)
    for name, all_of_it in figures.OF_RESULT.items()
    for draw in all_of_it
    if draw is not figures.mechanism
}
"""By a figure's name: the name of its result, and the function that draws it."""
