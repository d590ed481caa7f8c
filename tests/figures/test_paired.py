"""Differences by seed: their interval, its verdict, and their picture."""

from math import sqrt
from statistics import mean, stdev

import pytest
from matplotlib.colors import same_color

from minitxl.figures.systems import SYSTEMS
from minitxl.figures.training import paired


@pytest.mark.parametrize(
    ("differences", "quantile"),  # 0.975 of Student's distribution with 2 and with 4 degrees of freedom
    [([-0.02, -0.01, -0.03], 4.302653), ([-0.02, -0.01, -0.03, 0.0, -0.05], 2.776445)],
)
def test_the_interval_is_students(differences, quantile):
    low, high = paired.interval(differences)
    half = quantile * stdev(differences) / sqrt(len(differences))
    assert (low, high) == pytest.approx((mean(differences) - half, mean(differences) + half), abs=1e-4)
    with pytest.raises(ValueError, match="3 and for 5 seeds, got 2"):
        paired.interval(differences[:2])


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ([-0.17, -0.20, -0.18], "counts"),
        ([0.17, 0.20, 0.18], "counts"),
        ([-0.02, -0.01, -0.03], "open"),  # the signs agree
        ([0.001, 0.2, 0.1], "open"),
        ([0.0, 0.0, 0.0], "open"),
        ([-0.02, -0.01, -0.03, -0.02, -0.02], "counts"),
        ([-0.02, 0.01, -0.03, 0.01, -0.02], "open"),
    ],
)
def test_a_difference_counts_where_its_interval_excludes_0(differences, expected):
    assert paired.verdict(differences) == expected


def test_differences_are_taken_seed_by_seed():
    assert paired.less([3.0, 2.0, 1.0], [1.0, 1.0, 1.0]) == [2.0, 1.0, 0.0]
    with pytest.raises(ValueError, match="zip"):
        paired.less([1.0], [1.0, 2.0])


def test_each_row_has_its_seeds_its_interval_and_its_verdict_in_a_word():
    clear, unclear = [-0.17, -0.20, -0.18], [-0.02, 0.01, -0.03, 0.0, 0.01]
    panels = {"left": {"one": clear, "other": unclear}, "right": {"one": unclear, "other": clear}}
    picture = paired.paired({"panels": panels, "label": "bits with less bits without", "digits": 3})
    for axes, rows in zip(picture.figure.axes, panels.values(), strict=True):
        assert [label.get_text() for label in picture.figure.axes[0].get_yticklabels()] == list(rows)
        dots = [list(line.get_xdata()) for line in axes.lines if line.get_marker() == "o"]
        assert dots == list(rows.values())
        colours = {line.get_color() for line in axes.lines if line.get_marker() == "o"}
        assert colours == {paired.SEED_INK}
        assert paired.SEED_INK not in {one.colour for one in SYSTEMS.values()}
        lines = [line for line in axes.lines if line.get_marker() == "None"][1:]  # the first is that of 0
        assert [tuple(line.get_xdata()) for line in lines] == [paired.interval(of) for of in rows.values()]
        for line, text, of in zip(lines, axes.texts, rows.values(), strict=True):
            counts = paired.verdict(of) == "counts"
            assert same_color(line.get_color(), paired.COUNTS if counts else paired.OPEN)
            assert line.get_linestyle() == ("-" if counts else "--")
            assert text.get_text().endswith(" counts" if counts else " open")
    assert "left: one −0.183 counts (−0.170, −0.200, −0.180; interval −0.221 to −0.145)" in picture.alt
