"""Sliders over pictures. What is drawn is a function of what is chosen, and of nothing else.

    explore(draw, n_layer=range(1, 6), mem_len=[0, 8, 16])

``draw(n_layer=, mem_len=)`` returns a ``Picture``. Tab leads to every control; arrow keys move a
slider, or its number is typed; Space presses a button or ticks a box. There are no drop-down lists:
JupyterLab takes their arrow keys for itself, and Notebook 7 those of sliders. Where there is no
kernel, or no widgets, the picture of the first setting is shown instead. The latest pictures are kept:
to set a control back draws nothing.
"""

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from html import escape
from itertools import pairwise
from threading import Lock
from typing import Any

import ipywidgets as ipw

from minitxl.figures import Picture

KEPT = 16
"""Pictures of a widget that are not drawn again."""


def image(picture: Picture) -> str:
    """Return the picture as HTML, its words as the alternative text."""
    data = b64encode(picture.png).decode()
    look = f"width: {picture.width}px; max-width: 100%"
    return f'<img src="data:image/png;base64,{data}" alt="{escape(picture.alt)}" style="{look}">'


def with_fallback(box: ipw.Widget, picture: Picture, **asked: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the mimebundle of a widget, with the picture for those who don't draw widgets."""
    data, metadata = picture._repr_mimebundle_()
    return box._repr_mimebundle_(**asked) | data, metadata


NAMES = """
const name = (left) => {
    const box = element.closest(".widget-vbox");
    for (const control of box ? box.querySelectorAll(".widget-inline-hbox") : []) {
        const label = control.querySelector(".widget-label");
        for (const part of label ? control.querySelectorAll(".noUi-handle, .widget-readout") : [])
            part.setAttribute("aria-label", label.textContent);
    }
    if (left) setTimeout(name, 200, left - 1);
};
name(25);
"""
"""Gives each slider's handle and number the name of its control, once they are drawn."""


def names_for_readers() -> ipw.Output:
    """Return what tells a screen reader the names of the sliders beside it: ipywidgets does not."""
    script = {"output_type": "display_data", "metadata": {}, "data": {"application/javascript": NAMES}}
    return ipw.Output(outputs=(script,)).add_class("names-for-readers")


class Explorer:
    """Controls over a picture; displayed as a widget with the picture as its fallback."""

    def __init__(
        self,
        draw: Callable[..., Picture],
        controls: Mapping[str, ipw.Widget],
    ) -> None:
        self.draw, self.controls = draw, dict(controls)
        self.picture = ipw.HTML()
        self._picture_of = lru_cache(KEPT)(draw)
        self._drawing = Lock()
        self._drawn_for: dict[str, Any] | None = None
        self.box = ipw.VBox([*self.controls.values(), self.picture, names_for_readers()])
        named_before = [one for one in self.controls.values() if not isinstance(one, ipw.Checkbox)]
        room = max((len(one.description) for one in named_before), default=0)
        for control in self.controls.values():
            # long names would be cut; with one width, sliders begin in line
            control.style.description_width = f"{room}ch" if control in named_before else "initial"
            if isinstance(control, ipw.ToggleButtons):
                control.add_class("widget-inline-hbox")  # its name beside it, as that of a slider
                control.layout.margin = "2px"  # that of a slider
            control.observe(self._redraw, names="value")
        self._redraw()

    @property
    def chosen(self) -> dict[str, Any]:
        """The value of each control."""
        return {name: control.value for name, control in self.controls.items()}

    def _redraw(self, _: Any = None) -> None:
        """Controls may be heard in threads of their own: the last picture is of what is chosen last."""
        with self._drawing:
            if (chosen := self.chosen) != self._drawn_for:
                self.drawn, self._drawn_for = self._picture_of(**chosen), chosen
                self.picture.value = image(self.drawn)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return with_fallback(self.box, self.drawn, **kwargs)


def explore(
    draw: Callable[..., Picture],
    *,
    start: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    **choices: Iterable[Any],
) -> Explorer:
    """A control for each argument of ``draw``: a slider over whole numbers in equal steps, a box for two
    booleans, else buttons.

    ``start`` names other values to begin with than the first; ``labels`` other names than the arguments'.
    """
    start, labels = start or {}, labels or {}
    controls = {}
    for name, values in choices.items():
        options = list(values)
        value, label = start.get(name, options[0]), labels.get(name, name)
        if value not in options:
            raise ValueError(f"{name} must start at one of {options}, got {value!r}")
        if set(options) == {True, False} and all(isinstance(option, bool) for option in options):
            controls[name] = ipw.Checkbox(value=value, description=label)
        elif (step := _step(options)) is not None:
            ends = {"min": options[0], "max": options[-1], "step": step}
            about = {"continuous_update": False, "layout": {"width": "60%"}}
            controls[name] = ipw.IntSlider(value, **ends, description=label, **about)
        else:
            style = {"button_width": "auto"}
            controls[name] = ipw.ToggleButtons(options=options, value=value, description=label, style=style)
    return Explorer(draw, controls)


def _step(options: list[Any]) -> int | None:
    """From each to the next, if all are whole numbers and as far apart. A slider over others could not be
    typed into, where an application takes the arrow keys."""
    if not all(isinstance(option, int) for option in options):
        return None
    steps = {after - before for before, after in pairwise(options)}
    return steps.pop() if len(steps) == 1 else None
