import re
import shutil
from contextlib import nullcontext
from functools import cache
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from support.drawn import DRAWN, FIGURES

from minitxl import figures
from minitxl.__main__ import main
from minitxl.experiments.shared import fingerprints, results
from minitxl.figures import picture, systems


@cache
def drawn_again(name: str) -> figures.Picture:
    """Draw a stored figure from its data, once for all tests; for phones if its name says so."""
    result, draw = DRAWN[name.removesuffix("-phone")]
    with picture.for_phones() if name.endswith("-phone") else nullcontext():
        return draw(results.read(FIGURES / f"{result}.json").data)


def test_every_stored_figure_is_one_of_a_stored_result():
    stored = {path.stem for path in FIGURES.glob("*.svg")}
    assert stored == {*DRAWN, "mechanism", *(f"{draw.__name__}-phone" for draw in figures.FOR_PHONES)}
    assert all((FIGURES / f"{result}.json").exists() for result, _ in DRAWN.values())


@pytest.mark.parametrize("name", [*DRAWN, *(f"{draw.__name__}-phone" for draw in figures.FOR_PHONES)])
def test_a_stored_figure_is_redrawn_from_its_data(name, tmp_path):
    """Byte for byte, but for the sixth decimal of a coordinate, which differs between CPUs."""
    drawn_again(name).save(tmp_path / f"{name}.svg")
    again, stored = ((folder / f"{name}.svg").read_text() for folder in (tmp_path, FIGURES))
    texts, coordinates = zip(*(split_at_decimals(svg) for svg in (again, stored)), strict=True)
    assert texts[0] == texts[1]
    assert coordinates[0] == pytest.approx(coordinates[1], rel=0, abs=2e-6)


def test_the_command_stores_the_layout_for_phones_of_the_readmes_figures(tmp_path, monkeypatch):
    shutil.copy(FIGURES / "memory_and_positions.json", tmp_path)
    stored = results.read(tmp_path / "memory_and_positions.json")
    monkeypatch.setattr(fingerprints, "compute", lambda name: stored.fingerprint)
    asked = ["--profile", "quick", "--device", "cpu", "--folder", str(tmp_path)]
    main(["figures", "memory_and_positions", *asked])
    widths = [
        float(ElementTree.parse(tmp_path / f"memory_and_positions{ending}.svg").getroot().get("width")[:-2])
        for ending in ("", "-phone")
    ]
    assert widths == pytest.approx([504, 72 * picture.PHONE])


def split_at_decimals(svg):
    """The text between numbers of six decimals, and those numbers."""
    decimal = re.compile(r"-?\d+\.\d{6}(?!\d)")
    return decimal.split(svg), [float(number) for number in decimal.findall(svg)]


@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_carries_its_numbers_in_words(name):
    words = ElementTree.parse(FIGURES / f"{name}.svg").find(
        ".//{http://purl.org/dc/elements/1.1/}description"
    )
    assert words.text == drawn_again(name).alt


def test_the_demo_shows_the_numbers_of_its_data():
    data = results.read(FIGURES / "demo.json").data
    learned, cost = figures.demo(data).figure.axes
    for line, name in zip(learned.lines, ("vanilla", "relative", "xl"), strict=True):
        assert list(line.get_ydata()) == data["systems"][name]["validation"]["bits"]
    equal = [row for row in data["evaluation"] if row["evaluation"] in ("sliding window", "cached")]
    shown = {(line.get_xdata()[0], line.get_ydata()[0]) for line in cost.lines if len(line.get_xdata()) == 1}
    assert shown == {(row["microseconds_per_token"], row["bits"]) for row in equal}
    assert {row["attention_len"] for row in equal if row["evaluation"] == "cached"} == {32, 64}


def test_the_cost_of_reading_is_that_of_the_two_ways_with_equal_context():
    data = results.read(FIGURES / "demo.json").data
    sliding, cached = (
        next(row for row in data["evaluation"] if (row["evaluation"], row["attention_len"]) == (way, 64))
        for way in ("sliding window", "cached")
    )
    drawn = figures.bits_and_cost(data)
    (axes,) = drawn.figure.axes
    costs = [row["microseconds_per_token"] for row in (sliding, cached)]
    assert [bar.get_width() for bar in axes.patches[:2]] == costs
    title = "Same model, context and bits:\ncached evaluation takes 1/{:.0f} of the time"
    assert axes.get_title(loc="left") == title.format(costs[0] / costs[1])
    assert f"{sliding['bits']:.2f} and {cached['bits']:.2f}" in drawn.alt
    worse = [row | ({"bits": row["bits"] + 0.1} if row == cached else {}) for row in data["evaluation"]]
    other = figures.bits_and_cost(data | {"evaluation": worse}).figure.axes[0]
    assert other.get_title(loc="left").startswith("Same model and context, other bits:\ncached")


def test_a_chosen_memory_is_marked_at_its_measured_values():
    system = results.read(FIGURES / "memory_and_positions.json").data["xl_memory"]
    for row in system["by_memory"]:
        bits, reach, _ = figures.memory_choice(system, mem_len=row["mem_len"]).figure.axes
        assert bits.lines[1].get_xydata().tolist() == [[row["mem_len"], row["bits"]["mean"]]]
        assert reach.lines[1].get_xydata().tolist() == [[row["mem_len"], row["longest_reach"]]]


def test_a_picture_in_a_notebook_has_alternative_text():
    drawn = figures.learning({"xl": {"step": [1, 2], "bits": [4.0, 3.0]}}, steps=2)
    bundle, metadata = drawn._repr_mimebundle_()
    assert bundle["image/png"].startswith(b"\x89PNG")
    assert bundle["text/plain"] == metadata["image/png"]["alt"] == drawn.alt
    assert "Transformer-XL 3.00" in drawn.alt


def test_a_picture_has_two_pixels_for_each_of_its_place_and_its_colours_are_kept():
    drawn = drawn_again("attention_by_distance")
    few = np.asarray(Image.open(BytesIO(drawn.png)).convert("RGB")).astype(int)
    assert few.shape[1] == picture.SHARP * drawn.width
    assert drawn._repr_mimebundle_()[1]["image/png"]["width"] == drawn.width
    whole = BytesIO()
    drawn.figure.savefig(whole, format="png", dpi=picture.SHARP * picture.DPI)
    every = np.asarray(Image.open(whole).convert("RGB")).astype(int)
    assert abs(few - every).max() <= 12
    for end in (0, 255):
        assert (few[(every == end).all(axis=-1)] == end).all()


PALE = {
    "#00213A",
    *(colour for one in (systems.MEMORY, systems.SEGMENT) for colour in (one.fill, one.edge)),
    "#A6CEE3",
    "#B8E0C8",
    "#E8E8B0",
    "#E9C9DD",
    "#FDD0A2",
}
"""Grounds and fills, each beside a label or a hatch that says the same."""


@pytest.mark.parametrize(
    "path", sorted(Path(picture.__file__).parent.rglob("*.py")), ids=lambda path: path.stem
)
def test_colours_are_those_that_everybody_can_tell_apart_or_greys(path):
    text = path.read_text("utf-8")
    okabe_ito = {picture.BLUE, picture.ORANGE, picture.GREEN, picture.PURPLE}
    if path.stem == "systems":  # test_systems looks at these
        okabe_ito |= {one.colour for one in (*systems.SYSTEMS.values(), *systems.PEERS.values())}
    for colour in re.findall(r'"(#[0-9A-Fa-f]{6})"', text):
        assert colour in okabe_ito | PALE or colour[1:3] == colour[3:5] == colour[5:7], colour
    assert set(re.findall(r'cmap="(\w+)"', text)) <= {"cividis"}


def test_every_reference_of_a_saved_figure_leads_to_something_in_it(tmp_path):
    figure = Figure()
    figure.subplots(1, 2)[0].bar([1], [2], hatch="//")
    figure.axes[1].plot([1, 2])
    picture.Picture(figure, "2 panels").save(tmp_path / "saved.svg")
    for path in (tmp_path / "saved.svg", *FIGURES.glob("*.svg")):
        text = path.read_text("utf-8")
        asked = set(re.findall(r"url\(#(\w+)\)", text))
        assert asked <= set(re.findall(r'id="(\w+)"', text)), path
    assert any(name.startswith("clip") for name in asked)
