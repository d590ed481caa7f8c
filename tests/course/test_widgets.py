from threading import Event, Thread

import ipywidgets as ipw
import pytest
from ipywidgets.embed import dependency_state
from matplotlib.figure import Figure

from minitxl.course.widgets import explore
from minitxl.figures import Picture


def draw(n_layer, causal, kind):
    figure = Figure(figsize=(1, 1))
    figure.subplots().plot([n_layer])
    return Picture(figure, f"{n_layer} layers, causal {causal}, <{kind}>")


@pytest.fixture
def explorer():
    choices = {"n_layer": range(1, 4), "causal": [True, False], "kind": ["xl", "shaw"]}
    return explore(draw, **choices, start={"n_layer": 2}, labels={"n_layer": "layers N"})


def test_each_argument_has_a_control_that_the_keyboard_moves(explorer):
    kinds = {name: type(control) for name, control in explorer.controls.items()}
    assert kinds == {"n_layer": ipw.IntSlider, "causal": ipw.Checkbox, "kind": ipw.ToggleButtons}
    assert explorer.controls["n_layer"].description == "layers N"
    assert not explorer.controls["n_layer"].continuous_update
    widths = {name: control.style.description_width for name, control in explorer.controls.items()}
    assert widths == {"n_layer": "8ch", "causal": "initial", "kind": "8ch"}  # as long as "layers N"
    assert explorer.chosen == {"n_layer": 2, "causal": True, "kind": "xl"}


def test_moving_a_control_redraws_the_picture_of_what_is_chosen(explorer):
    before = explorer.picture.value
    explorer.controls["n_layer"].value = 3
    assert explorer.drawn.alt == "3 layers, causal True, <xl>"
    assert explorer.picture.value != before
    explorer.controls["kind"].value = "shaw"
    assert 'alt="3 layers, causal True, &lt;shaw&gt;"' in explorer.picture.value


def test_a_control_that_is_set_back_shows_the_picture_that_was_drawn_before():
    drawn = []

    def counted(n_layer):
        drawn.append(n_layer)
        return draw(n_layer, True, "xl")

    explorer = explore(counted, n_layer=range(1, 4))
    first = explorer.picture.value
    for n_layer in (2, 1, 2, 3, 1):
        explorer.controls["n_layer"].value = n_layer
    assert explorer.picture.value == first
    assert drawn == [1, 2, 3]


def test_of_two_moves_at_once_the_later_one_is_shown():
    at_work, go_on = Event(), Event()

    def slow(n_layer, causal, kind):
        if n_layer == 3 and causal:
            at_work.set()
            go_on.wait(10)
        return draw(n_layer, causal, kind)

    explorer = explore(slow, n_layer=range(1, 4), causal=[True, False], kind=["xl", "shaw"])
    first, second = (
        Thread(target=setattr, args=(explorer.controls[name], "value", value))
        for name, value in (("n_layer", 3), ("causal", False))
    )
    first.start()
    assert at_work.wait(10)
    second.start()
    second.join(0.1)
    go_on.set()
    first.join()
    second.join()
    assert explorer.drawn.alt == "3 layers, causal False, <xl>"
    assert explorer.drawn.alt.replace("<xl>", "&lt;xl&gt;") in explorer.picture.value


def test_where_widgets_are_not_drawn_the_picture_is(explorer):
    data, metadata = explorer._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["image/png"].startswith(b"\x89PNG")
    assert data["text/plain"] == metadata["image/png"]["alt"] == explorer.drawn.alt


def test_it_is_made_of_what_every_front_end_has_built_in():
    choices = {"n_layer": range(1, 4), "causal": [True, False], "kind": [0.5, 1.0, 4.0]}
    parts = dependency_state([explore(draw, **choices).box]).values()
    assert {part["model_module"].removeprefix("@jupyter-widgets/") for part in parts} == {
        *("base", "controls", "output")
    }


def test_a_start_that_is_no_choice_is_refused():
    with pytest.raises(ValueError, match=r"n_layer must start at one of \[1, 2\], got 9"):
        explore(draw, n_layer=[1, 2], causal=[True], kind=["xl"], start={"n_layer": 9})


@pytest.mark.parametrize("choices", [[0.5, 1.0, 4.0], [1, 2, 4], [3], ["xl", 2]])
def test_numbers_in_equal_steps_are_a_slider_and_others_buttons(choices):
    controls = explore(draw, n_layer=range(0, 7, 2), causal=[True, False], kind=choices).controls
    number = controls["n_layer"]
    assert (number.min, number.max, number.step) == (0, 6, 2)
    assert isinstance(controls["kind"], ipw.ToggleButtons)
    assert controls["kind"].options == tuple(choices)
