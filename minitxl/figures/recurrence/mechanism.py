"""The mechanism as an animated SVG: segments are read, and memory lets a prediction depend on more of them.

It is written as SVG with CSS keyframes and without a script, so that it plays where a page shows it as an
image. Without movement, the styles as they stand show the last picture.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from minitxl.figures.picture import Data, printed
from minitxl.figures.systems import MEMORY, NO_EFFECT, SEGMENT
from minitxl.files import atomic_write

TEXT = "the cat sat down"
"""A character for each token of the graphs."""
STAGE, REST, FADE = 2.0, 3.6, 0.2
"""Seconds for each segment, more of them for the last, whose picture is the whole one, and of each fade."""
WIDTH, LEFT, STEP, ROW, PANEL, TOP, KEY = 520, 94, 27, 30, 168, 4, 76
"""Units: the picture, the first token, token to token, layer to layer, a panel, the margin above, the legend.

A phone shows 520 units in some 350 pixels, so letters are no smaller than 16 units."""
ENLARGED = 1.03
"""Pixels of a unit where there is room: both systems are seen at once below a page's first lines."""
KINDS = {
    "own": (SEGMENT, "own segment"),
    "memory": (MEMORY, "memory"),
    "older": (MEMORY, "older text, through memory"),
    "unused": (NO_EFFECT, "no effect"),
}
"""Colours and name of each kind of state."""
AHEAD = ("#F4F4F4", "#D0D0D0", "#777777")
"""Fill and edge of a state of the segments that follow, and the colour of its letter."""
LEGEND = [(24, 62), (24, 38), (250, 62), (250, 38), (24, 14), (400, 14)]
"""Places of the kinds, of the prediction and of the segments ahead in the legend, from the left and below."""


@dataclass(frozen=True)
class Animation:
    """An SVG with movement, and the words, numbers included, for those who can't see it."""

    svg: str
    alt: str

    def save(self, path: Path) -> None:
        """Write the SVG, the same byte for byte whenever its data are."""
        with atomic_write(path) as temporary:
            temporary.write_text(self.svg, "utf-8")


def reached_from(graph: Data, query: int) -> list[set[int]]:
    """Return for each depth, input first, the times of the states that the output at ``query`` depends on."""
    reached = [{query}]
    for _ in range(graph["n_layer"]):
        reached.insert(0, {key for time, key in graph["sees"] if time in reached[0]})
    return reached


def kind_of(graph: Data, reached: Sequence[set[int]], depth: int, time: int, query: int) -> str:
    """Return how the output at ``query``, the last of its segment, depends on a state: a key of KINDS."""
    begin = query - query % graph["seg_len"]
    if time not in reached[depth]:
        return "unused"
    return "own" if time >= begin else "memory" if time >= begin - graph["mem_len"] else "older"


def mechanism(data: Data) -> Animation:
    """Draw segment after segment what its last prediction depends on: vanilla above, XL below."""
    graphs = data["graphs"]
    stages = next(iter(graphs.values()))["time"] // next(iter(graphs.values()))["seg_len"]
    height = TOP + PANEL * len(graphs) + KEY
    svg = Element(
        "svg",
        {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {WIDTH} {height}", "role": "img"},
        width=f"{ENLARGED * WIDTH:g}",
        height=f"{ENLARGED * height:g}",
    )
    ends = {name: [len(reached_from(g, q)[0]) for q in _queries(g)] for name, g in graphs.items()}
    alt = "Text is read segment by segment. " + " ".join(
        f"{capitalized(name)}, {g['n_layer']} layers, segments of {g['seg_len']}, memory {g['mem_len']}: "
        f"the newest prediction depends on {', then '.join(map(str, ends[name]))} characters, "
        "its own included."
        for name, g in graphs.items()
    )
    SubElement(svg, "title").text = "What a prediction depends on, without memory and with it"
    SubElement(svg, "desc").text = alt
    SubElement(svg, "style").text = _style(stages, max(graph["n_layer"] for graph in graphs.values()))
    SubElement(svg, "rect", width=str(WIDTH), height=str(height), rx="8", fill="#FFFFFF")
    for number, (name, graph) in enumerate(graphs.items()):
        panel = SubElement(svg, "g", transform=f"translate(0 {TOP + PANEL * number})")
        _panel(panel, name, graph)
    for (kind, (place, label)), (x, y) in zip(KINDS.items(), LEGEND, strict=False):
        if kind != "unused":
            _edge(svg, kind, (x - 15, height - y), (x + 15, height - y), stroke=place.edge)
        _mark(svg, kind, x, height - y, 8)
        _text(svg, x + 20, height - y + 6, label, fill="#333333", size=16)
    (x, y), (x_ahead, y_ahead) = LEGEND[-2:]
    _ring(svg, x, height - y, 9)
    _text(svg, x + 20, height - y + 6, "the prediction of the next character", fill="#333333", size=16)
    ahead = SubElement(svg, "g", {"class": "ahead-key"})
    _mark_ahead(ahead, x_ahead, height - y_ahead, 6)
    _text(ahead, x_ahead + 16, height - y_ahead + 6, "not read yet", fill="#333333", size=16)
    ElementTree.indent(svg, " ")
    return Animation(ElementTree.tostring(svg, encoding="unicode") + "\n", alt)


def capitalized(name: str) -> str:
    """Return the name with a capital, and its other letters as they are."""
    return name[0].upper() + name[1:]


def _queries(graph: Data) -> range:
    """Return the last token of each segment."""
    return range(graph["seg_len"] - 1, graph["time"], graph["seg_len"])


def _panel(panel: Element, name: str, graph: Data) -> None:
    """Draw one system: what stands still, and above it a group for each segment that is read."""
    n_layer, seg_len, time = graph["n_layer"], graph["seg_len"], graph["time"]
    _text(panel, 14, 22, capitalized(name), fill="#000000", size=20, weight="bold")
    for depth in range(n_layer + 1):
        label = f"layer {depth}" if depth else "input"
        _text(panel, 14, _y(graph, depth) + 6, label, fill="#555555", size=17)
    for cut in range(seg_len, time, seg_len):
        x = f"{_x(cut) - STEP / 2:g}"
        SubElement(
            panel,
            "line",
            {"stroke-dasharray": "3 5"},
            x1=x,
            x2=x,
            y1="34",
            y2=str(PANEL - 2),
            stroke="#999999",
        )
    _ahead(panel, graph)
    for stage, query in enumerate(_queries(graph)):
        reached = reached_from(graph, query)
        for layer in reversed(range(n_layer)):
            edges = SubElement(panel, "g", {"class": f"edges s{stage} e{stage}-{n_layer - 1 - layer}"})
            for above, key in graph["sees"]:
                if above in reached[layer + 1]:
                    kind = kind_of(graph, reached, layer, key, query)
                    place, _ = KINDS[kind]
                    ends = (_x(key), _y(graph, layer)), (_x(above), _y(graph, layer + 1))
                    _edge(edges, kind, *ends, stroke=place.edge)
    for stage, query in enumerate(_queries(graph)):
        reached = reached_from(graph, query)
        nodes = SubElement(panel, "g", {"class": f"nodes s{stage} n{stage}"})
        for depth in range(n_layer + 1):
            for token in range(query + 1):
                kind = kind_of(graph, reached, depth, token, query)
                _mark(nodes, kind, _x(token), _y(graph, depth), 8 if depth else 13)
                if not depth:
                    ink = "#5F5F5F" if kind == "unused" else "#000000"
                    _letter(nodes, graph, token, ink)
        _ring(nodes, _x(query), _y(graph, n_layer), 12)
        words = f"depends on {len(reached[0])} characters"
        count = SubElement(panel, "g", {"class": f"count s{stage} c{stage}"})
        _text(count, WIDTH - 14, 22, words, fill="#000000", size=20, weight="bold", anchor="end")


def _ahead(panel: Element, graph: Data) -> None:
    """Draw all states as of segments ahead; a segment that is read hides them, for its marks are larger."""
    states = SubElement(panel, "g", {"class": "ahead"})
    for depth in range(graph["n_layer"] + 1):
        for token in range(graph["time"]):
            _mark_ahead(states, _x(token), _y(graph, depth), 5 if depth else 9)
            if not depth:
                _letter(states, graph, token, AHEAD[2])


def _mark_ahead(parent: Element, x: int, y: int, radius: int) -> None:
    fill, edge, _ = AHEAD
    SubElement(parent, "circle", fill=fill, stroke=edge, cx=str(x), cy=str(y), r=str(radius))


def _letter(parent: Element, graph: Data, token: int, ink: str) -> None:
    """Write the token's character, a blank such that it can be seen, into its state below the first layer.

    The sign of a blank is wide and stands low: it is written higher, where a diamond is wide enough.
    """
    down = 2 if TEXT[token] == " " else 6
    look: dict[str, Any] = {"fill": ink, "size": 17, "weight": "bold", "anchor": "middle"}
    _text(parent, _x(token), _y(graph, 0) + down, printed(TEXT[token]), **look)


def _x(time: int) -> int:
    return LEFT + STEP * time


def _y(graph: Data, depth: int) -> int:
    return 48 + ROW * (graph["n_layer"] - depth) + (4 if depth == 0 else 0)


def _edge(parent: Element, kind: str, start: tuple[int, int], end: tuple[int, int], *, stroke: str) -> None:
    """Draw a line from a state of this kind to what depends on it, dashed where memory passed it on."""
    dashes = {"stroke-dasharray": "4 3"} if kind == "older" else {}
    (x1, y1), (x2, y2) = (map(str, at) for at in (start, end))
    SubElement(parent, "line", dashes, x1=x1, y1=y1, x2=x2, y2=y2, stroke=stroke)


def _mark(parent: Element, kind: str, x: int, y: int, radius: int) -> None:
    """Draw a state: a square in the query's own segment, a diamond where memory passed it on, else a disc."""
    place, _ = KINDS[kind]
    look = {"fill": place.fill, "stroke": place.edge, "class": kind}
    if kind in ("own", "older"):
        half = radius - 1 if kind == "own" else 0.72 * radius
        size = {"width": f"{2 * half:g}", "height": f"{2 * half:g}", "rx": "3"}
        turn = {"transform": f"rotate(45 {x} {y})"} if kind == "older" else {}
        SubElement(parent, "rect", look | turn, x=f"{x - half:g}", y=f"{y - half:g}", **size)
    else:
        SubElement(parent, "circle", look, cx=str(x), cy=str(y), r=str(radius))


def _ring(parent: Element, x: int, y: int, radius: int) -> None:
    """Draw the ring around the state that the prediction is made from."""
    look = {"stroke-width": "2.5", "fill": "none", "stroke": "#000000"}
    SubElement(parent, "circle", look, cx=str(x), cy=str(y), r=str(radius))


def _text(
    parent: Element,
    x: int,
    y: int,
    text: str,
    *,
    fill: str,
    size: int,
    weight: str = "normal",
    anchor: str = "start",
) -> None:
    look = {"font-size": str(size), "font-weight": weight, "text-anchor": anchor}
    SubElement(parent, "text", look, x=str(x), y=str(y), fill=fill).text = text


def _style(stages: int, n_layer: int) -> str:
    """Return the styles: at rest the last stage is seen, and nothing is named that is not read yet.

    While it moves, a stage fades out before the next one fades in.

    The number in words comes and goes with the states that it counts. The loop begins where the last stage is
    whole, so that the whole picture is seen first, and as long as each time it returns.
    """
    last = (stages - 1) * STAGE
    whole = last + (n_layer + 1) * FADE
    loop = last + STAGE + REST
    rules = [
        "text { font-family: system-ui, 'Segoe UI', Helvetica, Arial, sans-serif; }",
        ".edges line { stroke-width: 1.6; }",
        ".edges, .nodes, .count, .ahead-key { opacity: 0; }",
        f".s{stages - 1} {{ opacity: 1; }}",
    ]
    for stage in range(stages):
        begin = stage * STAGE
        end = loop if stage == stages - 1 else begin + STAGE
        starts = {f"n{stage}": begin, f"c{stage}": begin}
        starts |= {f"e{stage}-{layer}": begin + (layer + 1) * FADE for layer in range(n_layer)}
        for name, start in starts.items():
            rules += _shown(name, start, end, loop, whole)
    rules += _shown("ahead-key", 0, last, loop, whole)
    still = ".edges, .nodes, .count, .ahead-key { animation: none; }"
    rules.append(f"@media (prefers-reduced-motion: reduce) {{ {still} }}")
    return "\n" + "\n".join(rules) + "\n"


def _shown(name: str, start: float, end: float, loop: float, whole: float) -> list[str]:
    """Return the rules that show the elements of a class between two times of the loop."""
    frames = [(0, 0), (start, 0), (start + FADE, 1), (end - FADE, 1), (end, 0), (loop, 0)]
    steps = " ".join(f"{100 * at / loop:.2f}% {{ opacity: {value}; }}" for at, value in frames)
    return [
        f"@keyframes {name} {{ {steps} }}",
        f".{name} {{ animation: {name} {loop:g}s linear -{whole:g}s infinite; }}",
    ]
