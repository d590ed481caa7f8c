"""The course in JupyterLab, as a reader with a keyboard meets it."""

import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ipywidgets as ipw
import nbformat
import pytest
import torch
from excerpt import calls, code_of, excerpt, value_of
from lab import ROOT, complaints
from playwright.sync_api import Locator, TimeoutError, expect

from minitxl.figures import Picture

NOTEBOOKS = sorted((Path(__file__).parent.parent.parent / "notebooks").glob("[0-9]*.ipynb"))
WIDGETS = [
    (path.stem, cell)
    for path in NOTEBOOKS
    for cell, source in code_of(path).items()
    if calls(source, "explore", "Explorer")
]
WHOLE = ["09_relative_shift", "01_attention", "07_shaw"]
WAIT = "await dashboard.finished()\ndashboard.drawn"
SHOWN = """([alt, source]) => {
    const image = document.querySelector(".jp-NotebookPanel .widget-html img");
    return image?.alt === alt && image.src === source;
}"""
"""Whether a widget's picture is this one: asked in the page, in each frame that it draws."""
MILLISECONDS = 20_000


@dataclass(frozen=True)
class Control:
    """One control of a widget: what the kernel was told to make, and what the reader got."""

    made: ipw.Widget
    got: Locator

    @property
    def handles(self) -> Locator:
        """What Tab stops at, in a slider apart from its number."""
        return self.got.locator(".noUi-handle, input, button")

    @property
    def readout(self) -> Locator:
        return self.got.locator(".widget-readout")

    @property
    def value(self) -> Any:
        """As it is shown, not as it was asked for."""
        if isinstance(self.made, ipw.Checkbox):
            return self.handles.is_checked()
        if isinstance(self.made, ipw.IntSlider | ipw.FloatSlider):
            return type(self.made.value)(self.readout.inner_text())
        label = self.got.locator("button.mod-active").inner_text()
        return {str(option): option for option in self.made.options}[label]

    def moves(self) -> Iterator[None]:
        """From where Tab led, by every kind of key; a picture is due after each. It ends as it began."""
        keyboard, start = self.got.page.keyboard, self.made.value
        if isinstance(self.made, ipw.Checkbox):
            keyboard.press("Space")
            yield
            keyboard.press("Space")
        elif isinstance(self.made, ipw.ToggleButtons):
            at = self.made.options.index(start)
            self._choose(({0, 1} - {at}).pop())
            yield
            self._choose(at)
            self.handles.last.focus()
        else:
            keyboard.press("ArrowRight")
            yield
            keyboard.press("ArrowLeft")
            keyboard.press("Tab")
            self._type(max(self.made.min, self.made.max, key=lambda end: abs(end - start)))
            yield
            self._type(start)
        assert self.value == start

    def _choose(self, place: int) -> None:
        self.handles.nth(place).focus()
        self.got.page.keyboard.press("Space")

    def _type(self, number: float) -> None:
        for key in ("Control+A", *str(number), "Enter"):
            self.got.page.keyboard.press(key)
        self.readout.focus()


@dataclass(frozen=True)
class Screen:
    """A widget of the course on the screen, and the same in this process, to compare with."""

    panel: Locator
    explorer: Any
    drawn: dict[tuple, Picture] = field(default_factory=dict)

    @property
    def controls(self) -> list[Control]:
        boxes = self.panel.locator(".widget-vbox > :not(.widget-html, .names-for-readers)")
        expect(boxes).to_have_count(len(self.explorer.controls))
        return [Control(made, boxes.nth(i)) for i, made in enumerate(self.explorer.controls.values())]

    def assert_shows_what_is_chosen(self) -> str:
        """Wait for the picture that the package draws for the values shown; what it shows."""
        values = tuple(one.value for one in self.controls)
        chosen = dict(zip(self.explorer.controls, values, strict=True))
        if values not in self.drawn:
            self.drawn[values] = self.explorer.draw(**chosen)
        picture = self.drawn[values]
        source = f"data:image/png;base64,{b64encode(picture.png).decode()}"
        try:
            self.panel.page.wait_for_function(SHOWN, arg=[picture.alt, source], timeout=MILLISECONDS)
        except TimeoutError:
            image = self.panel.locator(".widget-html img")
            pytest.fail(f"the picture of {chosen} is not shown, but {image.get_attribute('alt')}")
        return picture.alt


@pytest.fixture
def screen(lab, monkeypatch):
    """Show a widget of the course, alone with the cells that it needs."""

    def show(stem, cell):
        sources = excerpt(lab.folder / "notebooks" / f"{stem}.ipynb", cell)
        panel = lab.show(f"{stem}-{cell}", sources)
        monkeypatch.setenv("MINITXL_PROFILE", "quick")
        monkeypatch.chdir(lab.folder / "notebooks")
        torch.manual_seed(0)
        explorer = value_of(sources)
        lab.finish()
        assert complaints(panel) == []
        return Screen(panel, explorer)

    return show


def test_every_notebook_has_a_widget():
    assert [stem for stem, _ in WIDGETS] == [path.stem for path in NOTEBOOKS]


IN_MAKE_TEST = "01_attention", "03_vanilla_segments", "06b_context_length", "14_what_came_after"
"""Notebooks whose widgets have every kind of control between them and are soon drawn; `make test-browser`
tries the others too, and tests of the book compare the pictures of all."""


@pytest.mark.parametrize(
    ("stem", "cell"),
    [
        pytest.param(*each, marks=() if each[0] in IN_MAKE_TEST else pytest.mark.every_notebook)
        for each in WIDGETS
    ],
)
def test_each_control_obeys_the_keyboard_and_the_picture_is_of_what_the_controls_show(
    screen, keep, lab, stem, cell
):
    shown = screen(stem, cell)
    first = shown.assert_shows_what_is_chosen()
    named_before = [one for one in shown.controls if not isinstance(one.made, ipw.Checkbox)]
    names = [one.got.locator(".widget-label").first.bounding_box() for one in named_before]
    ends = [name["x"] + name["width"] for name in names]
    assert max(ends) - min(ends) < 1  # the controls begin in line
    shown.controls[0].handles.first.focus()
    for control in shown.controls:
        expect(control.handles.first).to_be_focused()
        if isinstance(control.made, ipw.IntSlider | ipw.FloatSlider):
            for part in (control.handles.first, control.readout):
                expect(part).to_have_accessible_name(control.made.description)
        seen = {first} | {shown.assert_shows_what_is_chosen() for _ in control.moves()}
        assert len(seen) > 1, f"{control.made.description} changes nothing"
        lab.page.keyboard.press("Tab")
    assert shown.assert_shows_what_is_chosen() == first
    assert complaints(shown.panel) == []
    keep(lab.page, f"lab-{stem}", near=".jp-NotebookPanel .widget-html img")


@pytest.mark.parametrize(
    "stem", [WHOLE[0], *(pytest.param(stem, marks=pytest.mark.every_notebook) for stem in WHOLE[1:])]
)
def test_a_notebook_runs_whole_without_a_complaint(lab, keep, stem):
    path = lab.folder / "notebooks" / f"{stem}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(notebook, path)
    panel = lab.open(path)
    lab.run_all()
    lab.finish()
    expect(panel.locator(".widget-html img")).to_have_count(sum(one == stem for one, _ in WIDGETS))
    for image in panel.locator(".jp-OutputArea img").all():
        assert image.evaluate("image => image.complete && image.naturalWidth > 0")
    assert not panel.get_by_text("Error displaying widget").count()
    keep(lab.page, f"lab-{stem}-whole", near=".jp-NotebookPanel .widget-html img")
    lab.leave()
    code = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert [one for one in outputs if one.output_type == "error" or one.get("name") == "stderr"] == []


def test_a_notebook_that_was_only_read_is_saved_as_it_was(lab):
    stored = ROOT / "notebooks" / "02_positions.ipynb"
    path = lab.folder / "notebooks" / stored.name
    path.write_bytes(stored.read_bytes())
    lab.open(path)
    lab.page.wait_for_function(
        "jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'"
    )
    lab.page.evaluate("jupyterapp.shell.currentWidget.content.model.setMetadata('note', 'of JupyterLab')")
    lab.page.evaluate("jupyterapp.shell.currentWidget.context.save()")
    assert path.read_bytes() == stored.read_bytes()
    lab.leave()


def test_a_notebook_that_is_opened_does_not_count_as_changed_and_nobody_asks_about_news(lab):
    path = lab.folder / "notebooks/00_start_here.ipynb"
    before = path.read_bytes()
    lab.open(path)
    shown = "jupyterapp.shell.currentWidget"
    lab.page.wait_for_function(f"{shown}.sessionContext.session?.kernel?.status === 'idle'")
    assert lab.page.evaluate(f"{shown}.context.model.getMetadata('language_info').version")
    assert not lab.page.evaluate(f"{shown}.context.model.dirty")
    assert lab.page.locator(".jp-mod-dirty, .Toastify__toast").count() == 0
    lab.leave()
    assert path.read_bytes() == before


def test_the_dashboards_button_stops_training_and_goes_on_with_it(lab, keep):
    course = lab.folder / "notebooks" / "10_training.ipynb"
    sources = [*excerpt(course, "train"), WAIT, "print(run.step, dashboard.running)"]
    panel = lab.show("10_training-dashboard", sources)
    button, words = panel.locator(".widget-button"), panel.locator(".widget-hbox .widget-html")
    bar, printed = panel.locator(".progress-bar"), panel.locator(".jp-OutputArea-output pre").last

    def stop():
        """Press Stop once a step has been made since; how many there are then."""
        before = bar.get_attribute("style")
        expect(button).to_have_text("Stop")
        expect(bar).not_to_have_attribute("style", before, timeout=MILLISECONDS)
        button.press("Space")
        expect(words).to_contain_text("stopped after", timeout=MILLISECONDS)
        expect(button).to_have_text("Go on")
        return int(words.inner_text().split()[2])

    steps = stop()
    lab.finish()  # the cell that waits, too
    assert 0 < steps < 250
    expect(words).to_have_text(f"stopped after {steps} of 250 steps")
    expect(panel.locator("img[alt]").last).to_have_attribute("alt", re.compile(f"Step {steps} of 250"))
    expect(printed).to_have_text(f"{steps} False")
    keep(lab.page, "lab-10_training-dashboard", near=".jp-NotebookPanel .widget-hbox")
    button.press("Space")
    more = stop()
    assert steps < more < 250
    assert complaints(panel) == []


def test_a_page_opens_as_it_is_read_and_not_as_its_source(lab):
    asked = {"path": "notebooks/benchmark.md"}
    lab.page.evaluate("asked => jupyterapp.commands.execute('docmanager:open', asked).then(() => {})", asked)
    shown = lab.page.locator(".jp-MarkdownViewer .jp-RenderedMarkdown")
    expect(shown.get_by_role("heading", name="Against its peers")).to_be_visible()
    expect(shown).not_to_contain_text("<!--")
    lab.page.evaluate("jupyterapp.commands.execute('application:close-all')")


def test_the_list_of_files_has_the_course_and_none_of_its_tools(lab):
    listed = "jupyterapp.serviceManager.contents.get('notebooks').then(folder => folder.content)"
    names = {one["name"] for one in lab.page.evaluate(listed)}
    assert {path.name for path in NOTEBOOKS} | {"glossary.md", "recipes"} <= names
    assert {"execute.py", "home.py", "jupyter_server_config.py", "book", "lab"}.isdisjoint(names)
