"""A picture is a matplotlib figure with the words, numbers included, for those who can't see it.

Colours are Okabe and Ito's, and line style or marker says the same again; ``systems`` has those of systems.
A figure has two layouts: panels side by side, as for a page or a slide, and inside ``for_phones`` one below
the other, no wider than ``PHONE``.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO, StringIO
from pathlib import Path
from textwrap import wrap
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.legend import Legend
from matplotlib.patches import Patch
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from PIL import Image

from minitxl.files import atomic_write

Data = Mapping[str, Any]
BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "lines.linewidth": 2,
    "lines.markersize": 4,
    "svg.hashsalt": "minitxl",
}
BITS = "bits per character"
LOWER, HIGHER = "(lower is better)", "(higher is better)"
"""Where the good end of an upright axis is: the last line of its label."""
LEFT, RIGHT = "(left is better)", "(right is better)"
"""Where the good end of a level axis is."""
HELPS = "right of 0: it helps"
"""The same of a level axis of saved bits, in its bracket: they are positive where something is better."""
AHEAD = "(above 0: it is ahead)"
"""The same of an upright axis of the bits that one system saves against others with the same seed."""
SEEDS = "_seeds"
"""Label of an area between the smallest and the largest value of the seeds; a legend names it once."""
DPI, SHARP = 110, 2
"""Pixels of an inch on a page, and of a picture for each of those: screens with fine pixels show it sharp."""
PHONE = 4.7
"""Inches: at this width a screen of 390 pixels, less the margins of a page, shows 7 points as 7 pixels."""
ROUNDS = 6
"""Times that a picture is drawn again at most, until its texts stand on it."""
TITLE = 36
"""Characters of a title that fit there on a line."""
_narrow: ContextVar[bool] = ContextVar("narrow", default=False)


def printed(text: str) -> str:
    """Return the same characters, blanks and ends of lines such that they can be seen."""
    return text.replace(" ", "␣").replace("\n", "↵")


@contextmanager
def for_phones() -> Iterator[None]:
    """Draw what is drawn in the block for a narrow screen."""
    before = _narrow.set(True)
    try:
        yield
    finally:
        _narrow.reset(before)


def is_narrow() -> bool:
    """True inside ``for_phones``."""
    return _narrow.get()


@contextmanager
def drawing(width: float | int, height: float | int) -> Iterator[Figure]:
    """Yield an empty figure of so many inches; what is drawn in the block has the course's style."""
    with mpl.rc_context(STYLE):
        yield Figure(figsize=(min(width, PHONE) if is_narrow() else width, height), layout="constrained")


def panels(
    figure: Figure,
    count: int,
    *,
    ratios: Sequence[float | int] | None = None,
    height: float | int | None = None,
    **shared: Any,
) -> list[Any]:
    """Return panels side by side, or for a phone one below the other, each ``height`` inches high."""
    if not is_narrow():
        return list(figure.subplots(1, count, squeeze=False, width_ratios=ratios, **shared)[0])
    each = height or 0.85 * figure.get_figheight()
    figure.set_figheight(each * count)
    return list(figure.subplots(count, 1, squeeze=False, **shared)[:, 0])


def fitted(words: str) -> str:
    """Return a title or a label, each line of it on as many lines as a phone's width needs."""
    return "\n".join(map(_balanced, words.splitlines())) if is_narrow() else words


def _balanced(line: str) -> str:
    """Break a line into as few lines as fit, at blanks, all about as long: no word is left alone."""
    broken = [
        wrap(line, width, break_long_words=False, break_on_hyphens=False) for width in range(1, TITLE + 1)
    ]
    return "\n".join(next(lines for lines in broken if len(lines) <= len(broken[-1])))


def headline(figure: Figure, words: str) -> None:
    """Write above all panels what they show together; their own titles, which must be there, get lighter."""
    for axes in figure.axes:
        axes.set_title(axes.get_title(loc="left"), fontweight="normal")
    figure.suptitle(fitted(words), x=0.01, ha="left", fontsize=10, fontweight="bold")


def legend_outside(
    figure: Figure,
    handles: Sequence[Any] | None = None,
    labels: Sequence[str] | None = None,
    *,
    place: str = "lower center",
    ncols: int = 1,
    **look: Any,
) -> Legend:
    """Add a legend above or below all panels, in at most ``ncols`` columns; bands of seeds get their entry.

    It has fewer columns where so many are wider than the figure, and one on a phone. Without handles, the
    labelled lines and areas of all panels are listed.
    """
    each = [axes.get_legend_handles_labels() for axes in figure.axes]
    drawn = [one for lines, _ in each for one in lines] if handles is None else list(handles)
    names = [one for _, words in each for one in words] if labels is None else list(labels)
    if any(area.get_label() == SEEDS for axes in figure.axes for area in axes.collections):
        drawn, names = [*drawn, Patch(color="#CCCCCC")], [*names, "range of the seeds"]
    add: Any = figure.legend
    columns = 1 if is_narrow() else ncols
    while True:
        legend = add(drawn, names, loc=f"outside {place}", ncols=columns, **look)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return legend
        legend.remove()
        columns -= 1


def _leave_room(figure: Figure, dpi: int) -> bool:
    """Make the panels smaller if titles or labels of the drawn figure end off it; return whether they did.

    The layout, which leaves room for the height of these texts, does not count their width.
    """
    engine, texts = figure.get_layout_engine(), [text for axes in figure.axes for text in _around(axes)]
    if not texts or not isinstance(engine, ConstrainedLayoutEngine):
        return False
    written = Bbox.union([text.get_window_extent(dpi=dpi) for text in texts])
    size = dpi * figure.get_size_inches()
    before, beyond = np.maximum(0, -written.p0), np.maximum(0, written.p1 - size)
    if max(*before, *beyond) < 1:
        return False
    x, y, width, height = engine.get()["rect"]
    (left, low), (less_width, less_height) = 2 * before / size, 2 * (before + beyond) / size
    engine.set(rect=(x + left, y + low, width - less_width, height - less_height))
    return True


def _around(axes: Any) -> list[Text]:
    """Return the titles and labels of a panel that have words."""
    texts = (axes.title, axes._left_title, axes._right_title, axes.xaxis.label, axes.yaxis.label)
    return [text for text in texts if text.get_visible() and text.get_text()]


def _with_counted_clips(svg: str) -> str:
    """Number clip paths in their order: their names hash a layout whose last digits vary."""
    names = re.findall(r'<clipPath id="(\w+)"', svg)
    numbers = {name: f"clip{number}" for number, name in enumerate(names, start=1)}
    return re.sub(r"\bp[0-9a-f]{10}\b", lambda name: numbers.get(name[0], name[0]), svg)


@dataclass(frozen=True)
class Picture:
    """A figure and what it says; notebooks show it, with its alternative text."""

    figure: Figure
    alt: str

    def save(self, path: Path) -> None:
        """Write an SVG that is the same, byte for byte, whenever its data are."""
        drawn = StringIO()
        with mpl.rc_context(STYLE):
            self.figure.savefig(drawn, format="svg", metadata={"Date": None, "Description": self.alt})
        with atomic_write(path) as temporary:
            temporary.write_text(_with_counted_clips(drawn.getvalue()), "utf-8")

    @property
    def width(self) -> int:
        """Pixels of a page that the picture takes from left to right."""
        return round(DPI * self.figure.get_figwidth())

    @cached_property
    def png(self) -> bytes:
        """The figure as notebooks and widgets show it, ``SHARP`` times as wide as its place.

        With 256 colours it has fewer bytes than a picture half as wide with all of them. Of Pillow's ways to
        choose the colours this one changes none by more than 12 of 255, and neither white nor black.
        """
        for _ in range(ROUNDS):
            drawn, png = BytesIO(), BytesIO()
            self.figure.savefig(drawn, format="png", dpi=SHARP * DPI, pil_kwargs={"compress_level": 0})
            if not _leave_room(self.figure, SHARP * DPI):
                break
        colours = Image.open(drawn).convert("RGB")
        few = colours.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        few.save(png, format="png")
        return png.getvalue()

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        metadata = {"image/png": {"alt": self.alt, "width": self.width}}
        return {"image/png": self.png, "text/plain": self.alt}, metadata
