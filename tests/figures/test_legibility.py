"""Every stored figure can be read on a phone and on a slide: letters are large, whole, and apart.

The two layouts are drawn, and matplotlib's own boxes of the texts that it drew are compared.
"""

import ast
import re
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from itertools import combinations, pairwise
from pathlib import Path

import matplotlib as mpl
import numpy as np
import play
import pytest
from excerpt import excerpt, value_of
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from PIL import Image
from support.drawn import DRAWN, FIGURES

from minitxl.experiments.shared import results
from minitxl.figures import Picture, picture
from minitxl.figures.picture import PHONE, STYLE, drawing, for_phones, legend_outside, panels
from minitxl.figures.training import recurrence

ROOT = FIGURES.parent
SCREEN, SLIDE = 390 - 2 * 16, (1152, 648)
"""Pixels that margins leave: of a phone's width, and of both sides of a slide of 1280 by 720."""
LEAST = {"phone": 7, "slide": 16}
"""Pixels of the smallest letters, from the top of the highest to the bottom of the lowest."""


@dataclass(frozen=True)
class Drawn:
    """A figure that was drawn, and where its texts stand."""

    figure: Figure
    boxes: list[tuple[Text, Bbox]]

    def pixels(self, layout: str) -> float:
        """Return how many pixels of the screen or slide a pixel of the figure becomes."""
        box = self.figure.bbox
        if layout == "phone":
            return SCREEN / box.width
        return min(SLIDE[0] / box.width, SLIDE[1] / box.height)


def rendered(figure: Figure) -> Drawn:
    """Draw the figure but for its pixels, and note every text that is really drawn.

    It is laid out once, as where it is saved: a second layout, from where the first ended, moves letters.
    """
    seen: list[Text] = []
    true_draw = Text.draw

    def draw(text, renderer, *rest, **more):
        if text.get_visible() and text.get_text().strip():
            seen.append(text)
        return true_draw(text, renderer, *rest, **more)

    with mpl.rc_context(STYLE), pytest.MonkeyPatch.context() as patch:
        canvas = FigureCanvasAgg(figure)
        patch.setattr(Text, "draw", draw)
        figure.draw_without_rendering()
        boxes = [(text, text.get_window_extent(canvas.get_renderer())) for text in dict.fromkeys(seen)]
    return Drawn(figure, boxes)


def small(drawn: Drawn, layout: str) -> list[str]:
    """Return the texts whose letters are too small; a size in points is the height of a line."""
    scale = drawn.pixels(layout) * drawn.figure.dpi / 72
    sizes = [(text.get_text(), round(text.get_fontsize() * scale, 1)) for text, _ in drawn.boxes]
    return [f"{words!r} {size}" for words, size in sizes if size < LEAST[layout]]


def cut_off(drawn: Drawn) -> list[str]:
    whole = drawn.figure.bbox.padded(1)
    return [
        text.get_text()
        for text, box in drawn.boxes
        if box.x0 < whole.x0 or box.y0 < whole.y0 or box.x1 > whole.x1 or box.y1 > whole.y1
    ]


def overlapping(drawn: Drawn) -> list[tuple[str, str]]:
    """Return pairs of texts that cover each other, by more than the air around their letters."""
    inner = [(text, box.padded(-0.12 * box.height, -0.12 * box.height)) for text, box in drawn.boxes]
    return [
        (one.get_text(), other.get_text())
        for (one, first), (other, second) in combinations(inner, 2)
        if first.x0 < second.x1 and second.x0 < first.x1 and first.y0 < second.y1 and second.y0 < first.y1
    ]


def covered_by_legends(drawn: Drawn) -> list[str]:
    """Return the axes' legends that stand over a line or a mark of their axes."""
    found = []
    for axes in drawn.figure.axes:
        legend = axes.get_legend()
        if legend is None:
            continue
        box = legend.get_window_extent()
        for line in axes.lines:
            places = line.get_transform().transform(np.column_stack(line.get_data(orig=False)).astype(float))
            between = [a + (b - a) * share for a, b in pairwise(places) for share in STEPS]
            found += [str(line.get_label()) for x, y in [*places, *between] if box.contains(x, y)][:1]
        for marks in axes.collections:
            if isinstance(marks, PathCollection):
                places = axes.transData.transform(marks.get_offsets())
                found += [str(marks.get_label()) for x, y in places if box.contains(x, y)][:1]
    return found


def struck(drawn: Drawn) -> list[str]:
    """Return the texts within axes that a line or edge of theirs crosses, but those on their own ground."""
    found = []
    for axes in drawn.figure.axes:
        lines = [line for line in axes.lines if line.get_visible() and line.get_linestyle() != "None"]
        edges = [edge for edge in axes.spines.values() if edge.get_visible()]
        paths = [one.get_transform().transform_path(one.get_path()) for one in [*lines, *edges]]
        for text, box in drawn.boxes:
            if text in axes.texts and text.get_bbox_patch() is None:
                letters = box.padded(-0.2 * box.height, -0.2 * box.height)
                if any(path.intersects_bbox(letters, filled=False) for path in paths):
                    found.append(text.get_text())
    return found


STEPS = np.linspace(0, 1, 12)[1:-1]


@cache
def picture_of(name: str, layout: str) -> Picture:
    result, draw = DRAWN[name]
    data = results.read(FIGURES / f"{result}.json").data
    if layout == "slide":
        return draw(data)
    with for_phones():
        return draw(data)


@pytest.mark.parametrize("layout", LEAST)
@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_can_be_read(name, layout):
    drawn = rendered(picture_of(name, layout).figure)
    assert drawn.boxes
    assert small(drawn, layout) == []
    assert cut_off(drawn) == []
    assert overlapping(drawn) == []
    assert covered_by_legends(drawn) == []
    assert struck(drawn) == []
    if layout == "phone":
        assert drawn.figure.get_figwidth() <= PHONE


@pytest.mark.parametrize("loss", ["full", "half"])
@pytest.mark.parametrize("encoding", ["XL", "Shaw", "absolute, sinusoidal", "absolute, per layer"])
def test_one_encoding_with_memory_and_without_can_be_read(encoding, loss):
    data = results.read(FIGURES / "ablation.json").data
    drawn = rendered(recurrence.pair(data, encoding=encoding, loss=loss).figure)
    assert cut_off(drawn) == []
    assert overlapping(drawn) == []
    assert covered_by_legends(drawn) == []
    assert struck(drawn) == []
    lengths = drawn.figure.axes[0]
    assert {tick.get_rotation() for tick in lengths.get_xticklabels()} == {0}
    assert [tick.get_text() for tick in lengths.get_xticklabels()][-1] == "256"
    read_once = [text for text in lengths.texts if "the length of training alone" in text.get_text()]
    assert len(read_once) == encoding.startswith("absolute")


@pytest.mark.parametrize("stem", ["06_dependency_reach", "09_relative_shift", "12_evaluation_cost"])
def test_a_widgets_picture_can_be_read_on_a_phone_and_does_not_scroll_there(stem, monkeypatch):
    path = ROOT / "notebooks" / f"{stem}.ipynb"
    monkeypatch.chdir(path.parent)
    (cell,) = play.widgets_of(path)
    explorer = value_of([play.SEED, *excerpt(path, cell)])
    values = {name: play.values_of(control) for name, control in explorer.controls.items()}
    start = {name: control.value for name, control in explorer.controls.items()}
    ends = [{name: every[end] for name, every in values.items()} for end in (0, -1)]
    for chosen in (start, *ends):
        wide = explorer.draw(**chosen)
        narrow = play.stacked_for_phones(explorer, chosen, wide)
        assert narrow is not None
        assert narrow.figure.get_figwidth() == pytest.approx(PHONE)
        assert narrow.alt == wide.alt
        drawn = rendered(narrow.figure)
        assert small(drawn, "phone") == []
        assert cut_off(drawn) == []
        assert overlapping(drawn) == []


FOLDER = Path(picture.__file__).parent


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: path.stem)
def test_no_letter_has_less_than_7_points(path):
    """In the book a picture opens at its own size, on a phone too, where these have 10 pixels."""
    sizes = re.findall(r"(?:fontsize|labelsize)=([\d.]+)", path.read_text("utf-8"))
    assert all(float(size) >= 7 for size in sizes)


def calls(tree: ast.AST, name: str) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    ]


def sizes_in(tree: ast.AST) -> list[float]:
    """Return the sizes of letters that a function gives, but for those of the layout for phones."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in ("fontsize", "labelsize"):
            value = node.value.orelse if isinstance(node.value, ast.IfExp) else node.value
            found += [value.value] if isinstance(value, ast.Constant) else []
    return found


def width_of(value: ast.expr) -> float | None:
    """Return the inches that a figure has at most, None where its code does not say it."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "min":
        return min((one.value for one in value.args if isinstance(one, ast.Constant)), default=None)
    if isinstance(value, ast.Constant):
        return value.value
    return PHONE if ast.unparse(value) == "PHONE" else None


def on_a_phone(source: str) -> dict[str, float | None]:
    """Return the pixels of the smallest letters of each picture that is drawn once, for page and phone.

    The book draws those with ``panels`` once more for a phone, where they stand one below the other.
    """
    tree = ast.parse(source)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    found: dict[str, float | None] = {}
    for name, function in functions.items():
        drawn = calls(function, "drawing")
        if not drawn or calls(function, "panels") or name in DRAWN:
            continue
        used, wanted = set[str](), {name}
        while wanted:
            used.add(one := wanted.pop())
            names = {node.id for node in ast.walk(functions[one]) if isinstance(node, ast.Name)}
            wanted |= (names & functions.keys()) - used
        least = min([STYLE["font.size"], *(size for one in used for size in sizes_in(functions[one]))])
        width = width_of(drawn[0].args[0])
        found[name] = None if width is None else least * SCREEN / (72 * width)
    return found


SMALL_ON_A_PHONE = {
    "browser.browser": "a box for each of dozens of characters",
    "browser.wide_heads": "a character at each of dozens of keys",
    "dependency_graph.effective_lengths": "as many panels as it is given; two are 7 inches wide",
    "drawn_ranges.drawn_ranges": "only its legend, which the text of notebook 06b repeats",
    "heads.one_query": "four steps of a head that are read across, key by key",
    "lengths_by_seed.lengths_by_seed": "a number at each seed's mark",
    "progress.progress": "the dashboard of a training, which JupyterLab shows",
    "shift.shift_frames": "as many cells as the matrix has; it has a layout for phones",
    "terms.maps": "a character at each of dozens of keys",
    "terms.side_by_side": "three panels, one the sum of the others; those of four are 5.3 inches wide",
}
"""Pictures of notebooks that a tap opens large, for their letters may be small on a phone; and why."""


def test_on_a_phone_the_letters_of_a_notebooks_picture_can_be_read():
    """A notebook stores a picture as wide as its code says, and a phone shows it as wide as the page."""
    found = {
        f"{path.stem}.{name}": pixels
        for path in FOLDER.rglob("*.py")
        for name, pixels in on_a_phone(path.read_text("utf-8")).items()
    }
    assert len(found) > 40
    assert {name for name, size in found.items() if (size or 0) < LEAST["phone"]} == SMALL_ON_A_PHONE.keys()


def test_a_picture_that_is_too_wide_or_whose_letters_are_too_small_is_found():
    code = """
def wide(): drawing(9, 3)
def narrow(): drawing(min(7, 2 * count), 3)
def unknown(): drawing(2 * count, 3)
def helped(): drawing(7, 3); helper()
def helper(): axes.text(0, 0, "tiny", fontsize=8)
def stacked(): drawing(10, 3); panels(figure, 2)
"""
    found = on_a_phone(code)
    assert list(found) == ["wide", "narrow", "unknown", "helped"]
    assert [name for name, size in found.items() if (size or 0) >= LEAST["phone"]] == ["narrow"]


def test_both_layouts_say_the_same():
    for name in DRAWN:
        assert picture_of(name, "phone").alt == picture_of(name, "slide").alt


def test_what_cannot_be_read_is_found():
    figure = Figure(figsize=(10, 4))
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], label="rises")
    axes.text(0.5, 0.5, "one")
    axes.text(0.5, 0.5, "other")
    long = "much too long for the place where it stands"
    axes.text(0.95, 0.2, long)
    axes.text(0.1, 0.8, "tiny", fontsize=3)
    axes.text(0.4, 0.4, "struck")
    axes.text(-0.2, 0.9, "across the edge of the axes")
    axes.text(0.3, 0.3, "on a ground", bbox={"facecolor": "white"})
    axes.legend(loc="upper right")
    drawn = rendered(figure)
    assert [one.split()[0] for one in small(drawn, "slide")] == ["'tiny'"]
    assert cut_off(drawn) == [long]
    assert ("one", "other") in overlapping(drawn)
    assert covered_by_legends(drawn) == ["rises"]
    assert struck(drawn) == ["one", "other", long, "struck", "across the edge of the axes"]


def edges_of(shown: Picture) -> list[int]:
    """Return the darkest value along each side of the picture, of 255."""
    pixels = np.asarray(Image.open(BytesIO(shown.png)).convert("L"))
    return [int(side.min()) for side in (pixels[:, 0], pixels[:, -1], pixels[0], pixels[-1])]


@pytest.mark.parametrize("text", ["title", "xlabel"])
def test_a_notebooks_picture_holds_a_title_or_label_wider_than_its_panel(text):
    """A number in it may have more digits than when the figure was designed."""
    with drawing(6, 2) as figure:
        _, right = panels(figure, 2)
        right.set(**{text: "half as long again as the panel that it stands at"})
    assert cut_off(rendered(figure)) != []
    assert edges_of(Picture(figure, "")) == [255] * 4
    assert figure.get_size_inches().tolist() == [6, 2]


def test_a_picture_whose_texts_fit_keeps_its_layout():
    with drawing(6, 2) as figure:
        figure.subplots().set_title("short")
    before = figure.get_layout_engine().get()
    assert edges_of(Picture(figure, "")) == [255] * 4
    assert figure.get_layout_engine().get() == before


def test_a_legend_has_as_many_columns_as_fit():
    nearly_all = "a name as long as nearly the whole figure"
    for name, columns in (("short", 3), ("long enough for two", 2), (nearly_all, 1)):
        with drawing(5, 3) as figure:
            axes = figure.subplots()
            axes.plot([0, 1], label=name)
            axes.plot([1, 0], label=name)
            axes.plot([1, 1], label=name)
            legend = legend_outside(figure, ncols=3)
        assert legend._ncols == columns
        assert figure.legends == [legend]
        assert cut_off(rendered(figure)) == []


def test_panels_stand_side_by_side_and_on_a_phone_one_below_the_other():
    with drawing(10, 4) as figure:
        side_by_side = panels(figure, 3)
    assert len({axes.get_position().y0 for axes in side_by_side}) == 1
    with for_phones(), drawing(10, 4) as figure:
        stacked = panels(figure, 3, height=3)
    assert len({axes.get_position().x0 for axes in stacked}) == 1
    assert figure.get_size_inches().tolist() == [PHONE, 9]
