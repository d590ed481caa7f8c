"""One table has the name and the colour of every system, and every figure takes them from there."""

import re
from itertools import combinations
from math import dist
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.text import Text
from numpy import array, clip
from support.drawn import DRAWN, FIGURES, figure_of, laid_out

from minitxl.config import ModelConfig
from minitxl.experiments import demo
from minitxl.figures import systems
from minitxl.figures.training import curves

SYSTEMS = {**systems.SYSTEMS, **systems.PEERS}
NAMING = {
    "ablation", "ablation_lengths", "absolute_positions", "bench", "bench_generation", "bench_memory",
    "bench_reading", "bench_words", "bench_words_reading", "context", "context_by_offset",
    "context_gains", "context_recl", "demo",
    "evaluation_cost", "every_system", "far_attention", "later_positions", "memory_and_positions",
    "position_repairs", "ptb", "segment_copying", "short_dependency", "short_segments",
}  # fmt: skip
"""The stored figures in which a system is named."""
TOGETHER = (
    (
        "none_memory",
        "absolute_memory",
        "shaw_memory",
        "xl_memory",
        "rotary_memory",
        "alibi_memory",
        "t5_memory",
    ),
    ("xl_memory", "xl", "absolute", "absolute_memory", "shaw_memory", "rotary_memory", "lstm"),
    ("xl_memory", "xl", "shaw_memory", "shaw", "absolute", "absolute_memory"),
)
"""Systems of one figure."""
SEEN_BY = {
    "most": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopes": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopes": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopes": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
"""Linear red, green and blue as each sees them (Machado, Oliveira and Fernandes 2009)."""


def texts(figure: Figure) -> list[str]:
    return [" ".join(one.get_text().split()) for one in figure.findobj(Text) if one.get_text().strip()]


def colours_of(name: str, *, with_positions: bool = False) -> set[str]:
    """Colours that may stand for a name: its system's, or of all with its positions, and their shades."""
    named = systems.named(name)
    if named is None:
        return set()
    allowed = [named]
    if with_positions and " ".join(name.split()).partition(",")[0] == named.positions:
        allowed += [one for one in systems.SYSTEMS.values() if one.positions == named.positions]
    shades = {shade for one in allowed for count in (2, 4) for shade in one.shades(count)}
    return {to_hex(colour) for shade in shades for colour in (shade, systems.ink(shade))}


def wrong(figure: Figure) -> list[tuple[str, str]]:
    """Name and colour of each line, bar, text and row that names a system and is drawn in another colour."""
    found, seen = [], 0
    for axes in figure.axes:
        marks = [(line.get_label(), line.get_color()) for line in axes.lines]
        marks += [(bars.get_label(), colour_of(bars)) for bars in axes.containers]
        marks += [(text.get_text(), text.get_color()) for text in axes.texts if is_name(text.get_text())]
        for name, colour in marks:
            if allowed := colours_of(str(name)):
                seen += 1
                found += [(name, to_hex(colour))] if to_hex(colour) not in allowed else []
        for name, colours in rows_of(axes):
            if allowed := colours_of(name, with_positions=True):
                seen += 1
                found += [(name, colour) for colour in colours - allowed]
    figure.seen = seen
    return found


def colour_of(drawn):
    """Colour of the first bar, or of the line between bars of errors."""
    return drawn[0].get_facecolor() if isinstance(drawn, BarContainer) else drawn[0].get_color()


def is_name(text: str) -> bool:
    """True for a name by itself or at a line's end, not for a sentence about a system."""
    words = " ".join(text.split())
    return len(words) < 60 and not re.search(r"[.:]\s", words)


def rows_of(axes: Axes) -> list[tuple[str, set[str]]]:
    """Label of each row of an axes, and the colours of the marks in it, but for greys of the ground."""
    level = [
        (line.get_ydata()[0], to_hex(line.get_color()))
        for line in axes.lines
        if len(set(line.get_ydata())) == 1 and line.get_transform() == axes.transData
    ]
    labels = zip(axes.get_yticks(), axes.get_yticklabels(), strict=False)
    return [
        (label.get_text(), {colour for y, colour in level if abs(y - place) < 0.4} - GROUND)
        for place, label in labels
    ]


GROUND = {"#e4e4e4", "#cccccc"}


@pytest.mark.parametrize("name", DRAWN)
def test_every_figure_that_names_a_system_draws_it_in_its_colour(name):
    figure = laid_out(name)
    assert wrong(figure) == []
    if name not in NAMING:
        assert figure.seen == 0
    elif name != "context_gains":  # its panels have a scale of colours
        assert figure.seen > 0


def test_a_colour_of_its_own_is_found():
    figure = Figure()
    left, right = figure.subplots(1, 2)
    left.plot([0, 1], [0, 1], color="black", label="Transformer-XL, no memory")
    left.plot([0, 1], [1, 1], color=SYSTEMS["lstm"].colour, label="LSTM")
    left.annotate("rotary + memory", (1, 1), color="#0072B2")
    right.plot([0.5], [0], "o", color="#0072B2")
    right.plot([0.5], [1], "o", color=SYSTEMS["xl"].colour)
    right.set_yticks([0, 1], ["Shaw + memory", "Transformer-XL"])
    figure.draw_without_rendering()
    assert [name for name, _ in wrong(figure)] == [
        "Transformer-XL, no memory",
        "rotary + memory",
        "Shaw + memory",
    ]


@pytest.mark.parametrize("name", DRAWN)
def test_no_figure_has_another_name_for_a_system(name):
    for text in texts(figure_of(name)):
        assert not re.search(
            r"(?<!Transformer-)\bXL\b|[Rr]elative \(|relative positions \+|\bexplicit\b",
            text,
        )
        assert "vanilla" not in text.lower()
        assert not re.search("(trained|read) without memory", text)
        assert not re.search(r"(?<!x-)\btransformers\b", text)


KINDS = {one.positions for one in systems.SYSTEMS.values()} - {one.name for one in systems.SYSTEMS.values()}


@pytest.mark.parametrize("name", DRAWN)
def test_a_line_is_named_by_its_system_not_by_the_kind_of_its_positions(name):
    """A row that compares a kind with memory and without it has the kind's name; a line is of one system."""
    for axes in figure_of(name).axes:
        names = {str(line.get_label()) for line in axes.lines} | {text.get_text() for text in axes.texts}
        for words in (" ".join(one.split()) for one in names):
            assert words.split(",")[0] not in KINDS or "no memory" in words


def test_the_animated_picture_has_these_names_too():
    svg = (FIGURES / "mechanism.svg").read_text("utf-8")
    assert ">No memory<" in svg
    assert ">Transformer-XL<" in svg
    assert "vanilla" not in svg.lower()


def test_the_demo_s_table_and_its_figure_have_the_same_names():
    assert {key: one.name for key, one in curves.ONE_CHANGE_APART.items()} == demo.NAMES


def test_names_lead_to_their_system():
    for key, system in SYSTEMS.items():
        assert systems.named(system.name).name == system.name, key
    assert systems.named("absolute,\nper layer, no memory") is systems.SYSTEMS["absolute"]
    assert systems.named("Transformer-XL, trained without memory") is systems.SYSTEMS["xl"]
    assert systems.named("rotary") is systems.SYSTEMS["rotary_memory"]
    assert systems.named("nonesuch") is None
    label = "absolute, per layer, no memory, half loss"
    assert systems.of_label(label) == (SYSTEMS["absolute"], "absolute, per layer, no memory")
    longer = "XL, no memory, longer segments, full loss"
    assert systems.of_label(longer) == (SYSTEMS["xl"], "Transformer-XL, no memory, longer segments")


def test_names_and_looks_are_each_of_one_system():
    every = systems.SYSTEMS.values()
    assert len({one.name for one in every}) == len({one.colour for one in every}) == len(every)
    for together in TOGETHER:
        looks = {(SYSTEMS[key].line, SYSTEMS[key].marker) for key in together}
        assert len(looks) == len(together)
    assert len({one.line for one in curves.GRID.values()}) == len(curves.GRID)  # these lines have no markers


def test_colours_stand_out_from_white_and_texts_can_be_read():
    for one in SYSTEMS.values():
        assert min(map(systems.contrast, one.shades(4))) >= 3, one.name
        assert systems.contrast(one.ink) >= 4.5
    assert systems.ink("#001994") == "#001994"


def lab(colour: str, seen) -> list[float]:
    """CIE L*a*b* of a colour as somebody sees it."""
    channels = array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    to_xyz = array([[0.434, 0.376, 0.190], [0.213, 0.715, 0.072], [0.018, 0.109, 0.873]])  # over white's
    x, y, z = (
        c ** (1 / 3) if c > 0.008856 else 7.787 * c + 16 / 116
        for c in to_xyz @ clip(array(seen) @ linear, 0, 1)
    )
    return [116 * y - 16, 500 * (x - y), 200 * (y - z)]


def test_a_variant_s_shade_is_far_from_every_other_system_s_colour():
    drawn = {"shaw_memory": 4, "rotary_memory": 4, "xl_memory": 4, "t5_memory": 2}
    for key, count in drawn.items():
        own, *shades = systems.SYSTEMS[key].shades(count)
        assert own == systems.SYSTEMS[key].colour
        for shade in shades:
            for other in (one for one in SYSTEMS.values() if one.positions != systems.SYSTEMS[key].positions):
                assert dist(lab(shade, SEEN_BY["most"]), lab(other.colour, SEEN_BY["most"])) > 15, key


def test_the_default_k_has_shaw_s_own_look_and_the_others_lines_of_their_own():
    longer = figure_of("shaw_clipping").axes[1]
    looks = {line.get_label(): line for line in longer.lines if line.get_label().startswith("k = ")}
    shaw = SYSTEMS["shaw_memory"]
    for label, line in looks.items():
        is_own = label == f"k = {ModelConfig().max_distance}"
        assert (to_hex(line.get_color()) == shaw.colour.lower()) == is_own
        assert ((line.get_linestyle(), line.get_marker()) == (shaw.line, shaw.marker)) == is_own
    assert len({(line.get_linestyle(), line.get_marker()) for line in looks.values()}) == 4


def test_what_transformer_xl_is_trained_without_is_drawn_in_its_colours():
    xl, without = (SYSTEMS[key].colour.lower() for key in ("xl_memory", "xl"))
    for axes in figure_of("training_parts").axes:
        rows = [colours for _, colours in rows_of(axes)] or [set()] * 4
        assert [*rows[:3], rows[3]] in ([{xl}] * 3 + [{without}], [set()] * 4)
    assert all(colours == {xl} for _, colours in rows_of(figure_of("without_terms").axes[0]))


def test_memory_and_segment_have_the_colour_of_no_system():
    """Neither as a colour nor nearly: see ``lab``; they differ from each other for everybody."""
    places = (systems.MEMORY, systems.SEGMENT)
    for colour in (one for place in places for one in (place.fill, place.edge)):
        for key, system in SYSTEMS.items():
            assert dist(lab(colour, SEEN_BY["most"]), lab(system.colour, SEEN_BY["most"])) > 18, key
    for who in SEEN_BY.values():
        assert dist(*(lab(place.fill, who) for place in places)) > 12
        assert dist(*(lab(place.edge, who) for place in places)) > 12
    assert all(systems.contrast(place.edge) >= systems.LEAST_FOR_TEXT for place in places)


DRAWS_PLACES = ("dependency_graph", "gradient_cut", "masks", "mechanism", "memory", "reach", "segments")


def test_drawings_of_memory_and_segment_use_no_colour_of_a_system():
    """Their modules take none by its name, but for ``LOOKS``, the models of the curves by context."""
    folder = Path(systems.__file__).parent
    for name in DRAWS_PLACES:
        text = (folder / "recurrence" / f"{name}.py").read_text("utf-8")
        code = re.sub(r"^LOOKS: .*?^\]", "", text, flags=re.MULTILINE | re.DOTALL)
        body = code.partition("\nfrom minitxl.figures.picture import")[2].partition("\n")[2]
        assert not re.search(r"\b(BLUE|ORANGE|GREEN|PURPLE)\b", body), name
    svg = (FIGURES / "mechanism.svg").read_text("utf-8")
    assert not {one.colour for one in systems.SYSTEMS.values()} & set(re.findall("#[0-9A-F]{6}", svg)) - {
        "#000000"
    }
    for axes in figure_of("dependency").axes:
        marked = {to_hex(line.get_markeredgecolor()) for line in axes.lines} - {"#000000"}
        assert not marked & {one.colour.lower() for one in systems.SYSTEMS.values()}


@pytest.mark.parametrize("who", SEEN_BY)
def test_systems_of_one_figure_are_told_apart_by_colour_blind_readers_too(who):
    for together in TOGETHER:
        for one, other in combinations(together, 2):
            colours = [lab(SYSTEMS[key].colour, SEEN_BY[who]) for key in (one, other)]
            assert dist(*colours) > 12, (one, other)
