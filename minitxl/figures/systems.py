"""The systems that figures compare: one name, one colour, one line and one marker for each.

A model with memory and the same model without it are two systems. Colours are Okabe and Ito's, and dark ones
that are apart from them for colour-blind readers too; each has a contrast of at least 3 to white. Texts are
written in a system's ``ink``, whose contrast is at least 4.5.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.colors import to_hex, to_rgb

from minitxl.figures.picture import BLUE, GREEN, ORANGE, PURPLE

DARK = 5.5
"""Contrast to white above which a colour's shades are lighter than itself."""
LEAST_FOR_MARKS, LEAST_FOR_TEXT = 3, 4.5
"""Contrast of a mark and of a text to its ground that WCAG 2 asks for."""


@dataclass(frozen=True)
class System:
    """Name and look of a system; ``positions`` is the name of its kind of positions."""

    name: str
    positions: str
    colour: str
    marker: str
    line: str | tuple[int, tuple[int, ...]] = "-"

    @property
    def ink(self) -> str:
        """Colour of a text about the system."""
        return ink(self.colour)

    @property
    def memory(self) -> bool:
        """True if the system reads with memory, as it was trained; an LSTM's own state is one."""
        return not self.name.endswith("no memory")

    def look(self, *, marker: bool = True) -> dict[str, Any]:
        """Return colour, line and marker as matplotlib names them; a hollow marker is without memory."""
        marks = {"marker": self.marker, "mfc": self.colour if self.memory else "white"} if marker else {}
        return {"color": self.colour, "ls": self.line, **marks}

    def shades(self, count: int) -> list[str]:
        """Return so many colours for variants: the system's own and darker ones, or lighter if it is dark.

        Shades that are hardly darker are left out: they are near to other systems' colours.
        """
        near, far, grey = (13, 38, 255) if contrast(self.colour) > DARK else (45, 70, 0)
        while contrast(mixed(self.colour, grey, far / 100)) < LEAST_FOR_MARKS:
            far -= 1
        shares = [far - (far - near) * n / max(count - 2, 1) for n in reversed(range(count - 1))]
        return [self.colour, *(mixed(self.colour, grey, share / 100) for share in shares)]


def _kind(
    positions: str, without: tuple[str, str, Any], with_memory: tuple[str, str, Any]
) -> tuple[System, System]:
    """Return the two systems of a kind of positions, by colour, marker and line of each."""
    return (
        System(f"{positions}, no memory", positions, *without),
        System(f"{positions} + memory", positions, *with_memory),
    )


XL = "Transformer-XL"
SYSTEMS: Mapping[str, System] = {
    key: system
    for kind, pair in {
        "none": _kind("none", ("#8E8E8E", "x", ":"), ("#767676", "x", "-")),
        "absolute": _kind("absolute", (BLUE, "s", ":"), ("#001994", "P", (0, (8, 3)))),
        "shaw": _kind("Shaw", ("#9B4576", "d", ":"), (PURPLE, "D", "--")),
        "xl": (
            System(f"{XL}, no memory", XL, GREEN, "^", "-."),
            System(XL, XL, ORANGE, "o", "-"),
        ),
        "rotary": _kind("rotary", ("#4A0799", "<", ":"), ("#870FFF", "v", (0, (6, 2, 1, 2, 1, 2)))),
        "alibi": _kind("ALiBi", ("#8F2470", "1", ":"), ("#590D40", "X", "-.")),
        "t5": _kind("T5", ("#7A7C10", ">", ":"), ("#4A4B00", ">", "--")),
    }.items()
    for key, system in zip((kind, f"{kind}_memory"), pair, strict=True)
} | {"lstm": System("LSTM", "LSTM", "#000000", "h", (0, (5, 1)))}
"""A system's look by its key in the stored results; ``xl`` is Transformer-XL's model without memory."""

PEERS: Mapping[str, System] = {
    "minitxl": System("minitxl", XL, ORANGE, "o"),
    "minitxl-explicit": System("minitxl, written out plainly", XL, ORANGE, "s"),
    "minitxl-rotary": System("minitxl, rotary", "rotary", SYSTEMS["rotary_memory"].colour, "v"),
    "vanilla": System("minitxl, absolute, no memory", "absolute", BLUE, "s", ":"),
    "transformers": System("Hugging Face port", XL, "#000000", "D"),
    "labml-nn": System("labml-nn", XL, "#505050", "P"),
    "x-transformers": System("x-transformers", "rotary", "#767676", "X"),
    "x-transformers-cache": System("x-transformers, cache", "rotary", "#767676", "*"),
}
"""The systems of the benchmark by their keys there: models of this package, and other libraries in greys."""


@dataclass(frozen=True)
class Place:
    """Pale fill and dark edge of what stands in one part of the text; lines have the edge's colour."""

    fill: str
    edge: str

    def look(self) -> dict[str, Any]:
        """Return the colours of a mark as matplotlib names them."""
        return {"mfc": self.fill, "mec": self.edge}

    def cell(self, hatch: str = "") -> tuple[str, str, str]:
        """Return fill, edge and hatch of a cell."""
        return self.fill, self.edge, hatch


MEMORY, SEGMENT = Place("#FDD0A2", "#8A4B08"), Place("#A6CEE3", "#2F5D73")
"""Looks of memory and of the current segment in drawings of one model: no system has these colours."""
NO_EFFECT = Place("#DDDDDD", "#808080")
"""Look of what a prediction cannot depend on: out of reach, forgotten or hidden."""
FUTURE = ("white", "#B0B0B0", "////")
"""Fill, edge and hatch of a cell of the future. Hatched cells have no other meaning."""
LABELS = {"XL": "xl", "Shaw": "shaw", "absolute": "absolute"}
"""Keys of the kinds of positions by the first word of a label in the result ``ablation``."""
VARIANTS = {"sinusoidal", "learned", "per layer"}
"""Of absolute positions, as such a label names them."""


def of_label(label: str) -> tuple[System, str]:
    """Return the system of a label such as "absolute, per layer, no memory, full loss", and its name.

    The name is the system's own with the variant of its positions or segments.
    """
    first, *rest = label.split(", ")
    key = LABELS[first] if "no memory" in rest or "memory" not in rest else f"{LABELS[first]}_memory"
    system = SYSTEMS[key]
    name = system.name
    for word in rest:
        if "segments" in word:
            name = f"{name}, {word}"
        elif word in VARIANTS:
            name = name.replace(system.positions, f"{system.positions}, {word}", 1)
    return system, name


def positions_of(label: str) -> str:
    """Return the name of the positions in such a label: "absolute, per layer"."""
    first, *rest = label.split(", ")
    return ", ".join([SYSTEMS[LABELS[first]].positions, *(word for word in rest if word in VARIANTS)])


BY_NAME = {one.name: one for one in (*PEERS.values(), *SYSTEMS.values())}
"""The systems by their names."""


def named(text: str) -> System | None:
    """Return the system whose name a text begins with, the longest that fits, or None.

    The name of a kind of positions may have a variant after it. It stands for the system with memory if the
    text has no "no memory" or "without memory".
    """
    words = " ".join(text.split())
    kinds = {one.positions: one for key, one in SYSTEMS.items() if key.endswith("_memory")}
    begins = {name: re.compile(rf"{re.escape(name)}(?![\w-])", re.IGNORECASE) for name in (*BY_NAME, *kinds)}
    names = [name for name, begin in begins.items() if begin.match(words)]
    if not names:
        return None
    longest = max(names, key=len)
    if longest in kinds and re.search("(no|without) memory", words):
        return BY_NAME[f"{longest}, no memory"]
    return BY_NAME.get(longest) or kinds[longest]


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour "#rrggbb", from 0 for black to 1 for white."""
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in to_rgb(colour)]
    return sum(weight * one for weight, one in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(colour: str) -> float:
    """Return the contrast of a colour to white, from 1 to 21."""
    return 1.05 / (luminance(colour) + 0.05)


def mixed(colour: str, grey: int, share: float) -> str:
    """Return a colour of which this share is a grey of 0, black, to 255, white."""
    red, green, blue = ((1 - share) * one + share * grey / 255 for one in to_rgb(colour))
    return to_hex((red, green, blue))


def ink(colour: str) -> str:
    """Return the colour, darker where its contrast to white is too small for a text."""
    shades = (mixed(colour, 0, percent / 100) for percent in range(101))
    return next(shade for shade in shades if contrast(shade) >= LEAST_FOR_TEXT)
