"""A notebook's widgets without a kernel: the picture of each state, drawn when the book is built.

    python notebooks/book/play.py 09_relative_shift FOLDER

runs the cells that the notebook's widgets need, and writes FOLDER/states.json and the pictures. What a
control can be set to is finite; where all states together are more than ``MOST``, each control keeps its
start, its ends and values between them, as many as fit; ``ASKED`` has those that the text asks for. Where
a picture has a layout for phones, each state is drawn once more for it.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import ipywidgets as ipw
from excerpt import calls, code_of, excerpt, value_of

from minitxl.figures.picture import PHONE, Picture, for_phones

NOTEBOOKS = Path(__file__).parent.parent
MOST = 64
"""States of a widget that are drawn."""
Asked = Mapping[str, Sequence[Any]]
"""Values by the name of their control."""
ASKED: Mapping[str, Asked] = {
    "06_dependency_reach": {"mem_len": [4, 5]},
    "11_attention_over_memory": {"token": [2]},
    "12_evaluation_cost": {"n_layer": [1, 12], "d_model": [64], "seg_len": [2048]},
    "13_generation": {"temperature": [0.1, 2.0], "top_p": [0.5]},
}
"""Values that the text beside a notebook's widget asks its reader to choose: each is drawn."""
SEED = "import torch\n\ntorch.manual_seed(0)"


def widgets_of(path: Path) -> list[str]:
    """Return the ids of the cells that show a widget over pictures."""
    return [cell for cell, source in code_of(path).items() if calls(source, "explore", "Explorer")]


def values_of(control: ipw.Widget) -> list[Any]:
    """Return all values that a control can be set to."""
    if isinstance(control, ipw.Checkbox):
        return [False, True]
    if isinstance(control, ipw.ToggleButtons):
        return list(control.options)
    if isinstance(control, ipw.IntSlider):
        return list(range(control.min, control.max + 1, control.step))
    if isinstance(control, ipw.FloatSlider):
        steps = round((control.max - control.min) / control.step)
        return [round(control.min + step * control.step, 10) for step in range(steps + 1)]
    raise TypeError(f"no states are known of a {type(control).__name__}")


def some_of(values: list[Any], kept: Sequence[Any], count: int) -> list[Any]:
    """Return ``count`` of the values in their order: the kept, and others as evenly spread as can be."""
    places = {values.index(value) for value in kept}
    for place in _spread(len(values)):
        if len(places) == count:
            break
        places.add(place)
    return [values[place] for place in sorted(places)]


def _spread(length: int) -> Iterator[int]:
    """Yield 0 … length - 1, both ends first and then the middle of the widest gap."""
    yield from (0, length - 1)
    gaps = [(0, length - 1)]
    while gaps:
        gaps.sort(key=lambda gap: gap[0] - gap[1])
        low, high = gaps.pop(0)
        if high - low > 1:
            middle = (low + high) // 2
            yield middle
            gaps += [(low, middle), (middle, high)]


def shown_values(
    controls: Mapping[str, ipw.Widget], asked: Asked | None = None, *, most: int = MOST
) -> dict[str, list[Any]]:
    """Return the values of each control that are drawn: all, or so many that ``most`` states are enough.

    The start is among them, and where values are ``asked`` for, these and both ends.
    """
    every = {name: values_of(control) for name, control in controls.items()}
    kept = {name: [control.value] for name, control in controls.items()}
    for name, wanted in (asked or {}).items():
        kept[name] = list(dict.fromkeys([*kept[name], *wanted, every[name][0], every[name][-1]]))
    counts = {name: len(values) for name, values in kept.items()}
    if prod(counts.values()) > most:
        raise ValueError(f"at most {most} states are drawn, got {prod(counts.values())} that are asked for")
    grown = True
    while grown:
        grown = False
        for name in sorted(every, key=lambda name: counts[name]):  # each has two values before one has three
            more = counts | {name: counts[name] + 1}
            if more[name] <= len(every[name]) and prod(more.values()) <= most:
                counts, grown = more, True
                break
    return {name: some_of(every[name], kept[name], count) for name, count in counts.items()}


def render(stem: str, folder: Path) -> None:
    """Draw the states of a notebook's widgets; ``states.json`` has for each its controls and its pictures."""
    path, found = NOTEBOOKS / f"{stem}.ipynb", {}
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(NOTEBOOKS)
    for cell in widgets_of(path):
        explorer = value_of([SEED, *excerpt(path, cell)])
        values = shown_values(explorer.controls, ASKED.get(stem))
        states = []
        for number, every in enumerate(product(*values.values())):
            chosen = dict(zip(values, every, strict=True))
            picture = explorer.draw(**chosen)
            file = f"{cell}-{number}.png"
            (folder / file).write_bytes(picture.png)
            states.append({"file": file, "alt": picture.alt, "width": picture.width})
            if stacked := stacked_for_phones(explorer, chosen, picture):
                states[-1]["phone"] = f"{cell}-{number}-phone.png"
                (folder / states[-1]["phone"]).write_bytes(stacked.png)
        found[cell] = {
            "controls": [
                {
                    "name": name,
                    "label": explorer.controls[name].description,
                    "values": [value if isinstance(value, bool) else str(value) for value in shown],
                    "start": shown.index(explorer.controls[name].value),
                    "all": len(shown) == len(values_of(explorer.controls[name])),
                }
                for name, shown in values.items()
            ],
            "states": states,
        }
    (folder / "states.json").write_text(json.dumps(found), "utf-8")


def stacked_for_phones(explorer: Any, chosen: Mapping[str, Any], picture: Picture) -> Picture | None:
    """Return a state's picture in the layout for phones, unless it is only squeezed there."""
    with for_phones():
        narrow: Picture = explorer.draw(**chosen)
    width, height = picture.figure.get_size_inches()
    squeezed = [min(width, PHONE), height]
    return narrow if narrow.figure.get_size_inches().tolist() != squeezed else None


def html_of(widget: Mapping[str, Any], address: str) -> str:
    """Return a widget for the page: the picture of its start, and its states for the script."""
    place = 0
    for control in widget["controls"]:
        place = place * len(control["values"]) + control["start"]
    start, hint = widget["states"][place], "Change a control: the picture follows."
    if not all(control["all"] for control in widget["controls"]):
        hint += " Here it has some of its values; in JupyterLab, by make lab, it has all."
    data = json.dumps(widget | {"address": address}).replace("<", "\\u003c")
    file = f"{address}/{start['file']}"
    image = f'<img src="{file}" alt="{escape(start["alt"])}" width="{start["width"]}">'
    if "phone" in start:
        image = or_for_phones(f"{address}/{start['phone']}", image)
    return (
        f'<div class="play"><script type="application/json">{data}</script>'
        f'<p class="play-hint" hidden>{hint}</p>{enlarging(file, image)}</div>'
    )


def or_for_phones(narrow: str, image: str) -> str:
    """Return an image in whose place a phone shows the file of the narrow layout."""
    return f'<picture><source media="(max-width: 46em)" srcset="{escape(narrow)}">{image}</picture>'


def enlarging(file: str, image: str) -> str:
    """Return a link around an image that opens its file large."""
    return f'<a class="enlarge" href="{file}">{image}</a>'


if __name__ == "__main__":
    os.environ.setdefault("MINITXL_PROFILE", "quick")
    render(sys.argv[1], Path(sys.argv[2]).resolve())
