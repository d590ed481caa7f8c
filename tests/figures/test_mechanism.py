"""The animated picture shows what the package's own masks let a prediction depend on."""

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from minitxl import figures
from minitxl.analysis.dependency_reach import farthest, propagate
from minitxl.experiments.shared import results
from minitxl.figures.recurrence.mechanism import KINDS, TEXT, kind_of, reached_from

FIGURES = Path(__file__).parents[2] / "figures"
SVG = "{http://www.w3.org/2000/svg}"
DATA = results.read(FIGURES / "dependency.json").data
STORED = (FIGURES / "mechanism.svg").read_text("utf-8")
ROOT = ElementTree.fromstring(STORED)
STAGES = [
    (name, stage)
    for name, graph in DATA["graphs"].items()
    for stage in range(graph["time"] // graph["seg_len"])
]


def propagated(graph, stage):
    sizes = {name: graph[name] for name in ("n_layer", "seg_len", "mem_len")}
    return propagate(graph["seg_len"] - 1, n_segment=stage + 1, **sizes)


def groups(name, kind, stage):
    """The groups of one panel that have this class and stage."""
    panel = ROOT.findall(f"{SVG}g")[list(DATA["graphs"]).index(name)]
    return [one for one in panel if {kind, f"s{stage}"} <= set(one.get("class", "").split())]


def test_the_stored_mechanism_is_what_the_code_draws(tmp_path):
    figures.mechanism(DATA).save(tmp_path / "mechanism.svg")
    assert (tmp_path / "mechanism.svg").read_text("utf-8") == STORED


@pytest.mark.parametrize(("name", "stage"), STAGES)
def test_marked_states_and_numbers_are_those_of_the_masks(name, stage):
    graph = DATA["graphs"][name]
    expected = propagated(graph, stage).reached
    query = expected.shape[1] - 1
    reached = reached_from(graph, query)
    assert [sorted(times) for times in reached] == [row.nonzero().flatten().tolist() for row in expected]
    (nodes,), (count,) = groups(name, "nodes", stage), groups(name, "count", stage)
    marks = [mark.get("class") for mark in nodes if mark.get("class")]
    assert marks == [
        kind_of(graph, reached, depth, time, query)
        for depth in range(graph["n_layer"] + 1)
        for time in range(query + 1)
    ]
    assert [mark != "unused" for mark in marks] == expected.flatten().tolist()
    assert count[0].text == f"depends on {farthest(expected[0]) + 1} characters"


@pytest.mark.parametrize(("name", "stage"), STAGES)
def test_a_line_is_drawn_for_every_state_read_on_the_way(name, stage):
    graph = propagated(DATA["graphs"][name], stage)
    lines = [len(edges) for edges in groups(name, "edges", stage)]
    assert lines == [len(graph.edges(layer)) for layer in reversed(range(len(graph.reached) - 1))]


def test_every_token_of_the_graphs_has_a_character():
    assert {graph["time"] for graph in DATA["graphs"].values()} == {len(TEXT)}


def test_the_mechanism_needs_no_script_and_nothing_from_elsewhere():
    tags = {element.tag.removeprefix(SVG) for element in ROOT.iter()}
    assert tags == {"svg", "title", "desc", "style", "rect", "g", "line", "circle", "text"}
    assert not re.search(r"href|url\(|@import|\bon\w+=|https?:(?!//www\.w3\.org/2000/svg\")", STORED)


def test_the_mechanism_has_its_numbers_in_words():
    drawn = figures.mechanism(DATA)
    assert ROOT.find(f"{SVG}title").text
    assert ROOT.find(f"{SVG}desc").text == drawn.alt
    for name in DATA["graphs"]:
        counts = [groups(name, "count", stage)[0][0].text for one, stage in STAGES if one == name]
        assert f"depends on {', then '.join(re.findall(r'[0-9]+', ' '.join(counts)))} characters" in drawn.alt


def test_without_motion_the_last_picture_stands_still():
    style = ROOT.find(f"{SVG}style").text
    moving = {one.get("class").split()[0] for one in ROOT.iter() if one.get("class", "").find(" s") > 0}
    (still,) = re.findall(
        r"@media \(prefers-reduced-motion: reduce\) \{ ([^{]+) \{ animation: none; \} \}", style
    )
    assert {name.strip(" .") for name in still.split(",")} == moving | {"ahead-key"}
    hidden, shown = re.findall(r"^(\.[^{]+) \{ opacity: (?:0|1); \}$", style, re.MULTILINE)
    assert hidden == still
    assert shown == f".s{max(stage for _, stage in STAGES)}"


def opacity(name, at):
    """The opacity of a group so many percent into the loop; its keyframes are joined by straight lines."""
    style = ROOT.find(f"{SVG}style").text
    (frames,) = re.findall(rf"@keyframes {name} \{{ (.*) \}}$", style, re.MULTILINE)
    points = [(float(x), float(y)) for x, y in re.findall(r"([0-9.]+)% \{ opacity: (\d); \}", frames)]
    times, values = zip(*points, strict=True)
    assert list(times) == sorted(times)
    return np.interp(at, times, values)


def test_the_whole_picture_is_seen_first_and_for_as_long_each_time_the_loop_returns_to_it():
    style = ROOT.find(f"{SVG}style").text
    ((loop, begin),) = set(re.findall(r"animation: \S+ ([0-9.]+)s linear -([0-9.]+)s", style))
    last = max(stage for _, stage in STAGES)
    layers = [
        name for name in re.findall(r"@keyframes (\S+)", style) if re.match(rf"[nc]{last}$|e{last}-", name)
    ]
    times = np.linspace(0, 100, 2001)
    whole = times[np.stack([opacity(name, times) for name in layers]).min(axis=0) > 0.99]
    assert whole[0] == pytest.approx(100 * float(begin) / float(loop), abs=0.1)
    assert 4 <= (whole[-1] - whole[0]) / 100 * float(loop) <= 5


def test_the_legend_has_what_is_not_read_yet_only_while_some_is_not():
    (group,) = [one for one in ROOT.iter(f"{SVG}g") if one.get("class") == "ahead-key"]
    assert "".join(group.itertext()).strip() == "not read yet"
    every = np.linspace(0, 100, 2001)
    *before, last = [opacity(f"n{stage}", every) for stage in range(1 + max(stage for _, stage in STAGES))]
    named = opacity("ahead-key", every)
    assert (named[last > 0.01] < 0.01).all()
    assert (named[np.max(before, axis=0) > 0.99] > 0.99).all()


def test_the_legend_shows_the_line_of_each_kind_that_has_one():
    lines = [(line.get("stroke"), line.get("stroke-dasharray")) for line in ROOT.findall(f"{SVG}line")]
    kinds = [KINDS[kind][0].edge for kind in ("own", "memory", "older")]
    assert lines == list(zip(kinds, (None, None, "4 3"), strict=True))


@pytest.mark.parametrize("name", DATA["graphs"])
def test_what_is_not_read_yet_is_pale_and_never_blank(name):
    """A mark stands for every state, whatever is seen; a stage's own marks are larger and hide it."""
    (ahead,) = [
        one
        for one in ROOT.findall(f"{SVG}g")[list(DATA["graphs"]).index(name)]
        if one.get("class") == "ahead"
    ]
    graph = DATA["graphs"][name]
    places = {(mark.get("cx"), mark.get("cy")) for mark in ahead.iter(f"{SVG}circle")}
    assert len(places) == graph["time"] * (graph["n_layer"] + 1)
    assert "".join(text.text for text in ahead.iter(f"{SVG}text")) == TEXT.replace(" ", "␣")


def test_the_count_is_always_that_of_the_states_and_no_two_stages_are_seen_at_once():
    every = np.linspace(0, 100, 2001)
    stages = range(1 + max(stage for _, stage in STAGES))
    states = np.stack([opacity(f"n{stage}", every) for stage in stages])
    assert ((states > 0.01).sum(axis=0) <= 1).all()
    assert (states.max(axis=1) == 1).all()
    for stage in stages:
        assert (opacity(f"c{stage}", every) == states[stage]).all()
        lines = re.findall(rf"@keyframes (e{stage}-\d+)", STORED)
        assert lines
        assert all((opacity(name, every) <= states[stage] + 0.01).all() for name in lines)


def test_both_systems_are_in_view_below_the_first_lines_of_a_page():
    assert float(ROOT.get("height")) <= 430
    *_, height = map(float, ROOT.get("viewBox").split())
    assert max(float(mark.get("y")) for mark in ROOT.iter(f"{SVG}text")) < height


def test_letters_are_large_enough_to_read_on_a_phone_and_on_a_slide():
    _, _, width, height = map(float, ROOT.get("viewBox").split())
    smallest = min(int(text.get("font-size")) for text in ROOT.iter(f"{SVG}text"))
    assert smallest * 350 / width >= 10
    assert smallest * min(1280 / width, 720 / height) >= 14
