"""Tests of figures against their data: marks, names at lines, titles and scales."""

import re
from collections import Counter
from itertools import pairwise
from statistics import mean
from xml.etree import ElementTree

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import ConnectionPatch
from matplotlib.text import Text
from numpy import ones, triu
from numpy.ma import getmaskarray
from support.drawn import DRAWN, FIGURES, figure_of, laid_out

from minitxl import figures
from minitxl.experiments.shared import results
from minitxl.figures import marks, systems
from minitxl.figures.attention import over_memory
from minitxl.figures.cost import evaluation_cost
from minitxl.figures.picture import BITS, HIGHER, LEFT, LOWER, ORANGE, PURPLE, RIGHT, for_phones
from minitxl.figures.positions import counting, depth
from minitxl.figures.recurrence import context_gains, context_length, dependency_graph, mechanism, reach
from minitxl.figures.training import (
    ablation,
    curves,
    equal_bytes,
    paired,
    parts,
    recurrence,
    short_dependency,
    treebank,
)


def stored(name):
    return results.read(FIGURES / f"{name}.json").data


def leaders(axes):
    return [patch for patch in axes.patches if isinstance(patch, ConnectionPatch)]


def test_a_line_leads_from_a_lines_end_to_its_name_where_the_name_was_moved():
    axes = Figure().subplots()
    for name, end, colour in (("low", 1.0, "black"), ("high", 3.0, PURPLE), ("nearly", 2.9, ORANGE)):
        axes.plot([0, 1], [2.0, end], label=name, color=colour)
    axes.set_ylim(0, 4)
    marks.label_ends(axes, least=0.1)
    low, nearly, high = axes.texts
    (leader,) = leaders(axes)  # from the one name that does not stand at its line's end
    assert low.xy[1] < nearly.xy[1] == pytest.approx(high.xy[1] - 0.1)
    assert (leader.xy1, leader.xy2) == ((1.0, 3.0), high.xy)
    assert to_hex(leader.get_edgecolor()) == PURPLE.lower()
    assert to_hex(high.get_color()) == systems.ink(PURPLE).lower()  # dark enough for a text


def test_names_near_the_top_are_moved_down_and_the_others_stay():
    heights = {"a": 0.2, "b": 0.97, "c": 0.98}
    assert marks.apart(heights, 0.1, top=1) == {"a": 0.2, "b": 0.9, "c": 1}
    assert marks.apart(heights, 0.1, top=2) == pytest.approx({"a": 0.2, "b": 0.97, "c": 1.07})


def test_the_leader_to_a_levels_name_begins_where_the_axes_end():
    axes = Figure().subplots()
    axes.plot([0, 8], [0, 1], label="rises")
    axes.axhline(1, color="black", label="level")
    axes.set_xlim(-1, 9)
    axes.set_ylim(0, 2)
    marks.label_ends(axes)
    (leader,) = leaders(axes)
    assert leader.xy1 == (9, 1)


def test_a_number_has_its_sign_but_0_has_none():
    written = [marks.signed(number, 2) for number in (0.126, -0.126, 10.0, 0.004, -0.004, 0.0)]
    assert written == ["+0.13", "−0.13", "+10.00", "0.00", "0.00", "0.00"]


@pytest.mark.parametrize("name", ["later_positions", "position_repairs", "ptb"])
def test_every_name_of_a_stored_figure_stands_at_its_lines_end_or_has_a_leader(name):
    for axes in laid_out(name).axes:
        to_axes = axes.transAxes.inverted()
        led = {leader.xy2 for leader in leaders(axes)}
        ends = [
            to_axes.transform(line.get_transform().transform(line.get_xydata()))[-1, 1] for line in axes.lines
        ]
        for text in (text for text in axes.texts if hasattr(text, "xy") and text.xycoords != "data"):
            near = min(abs(text.xy[1] - end) for end in ends)
            assert text.xy in led or near <= marks.MOVED + 1e-6, text.get_text()


@pytest.mark.parametrize("name", sorted(DRAWN.keys() - {"samples"}))
def test_a_number_of_thousands_has_its_comma(name):
    """But in the code of ``samples``."""
    texts = [text.get_text() for text in laid_out(name).findobj(Text)]
    assert not [text for text in texts if re.search(r"(?<![\d.])\d{4}", text)]


@pytest.mark.parametrize("name", DRAWN)
def test_lengths_of_a_text_of_characters_are_counted_in_characters(name):
    figure = figure_of(name)
    texts = " ".join(text.get_text() for text in figure.findobj(Text))
    assert "per character" not in texts or "tokens" not in texts


def test_each_row_of_the_legend_of_routes_is_off_the_bars():
    figure = figure_of("relay_routes")
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == ["the token to copy", *(name for name, _ in reach.LOOKS)]


def test_the_four_ways_to_read_the_rotary_model_have_its_colour_and_looks_of_their_own():
    axes = figure_of("position_repairs").axes[1]
    lines = [line for line in axes.lines if line.get_linestyle() != "None"]
    assert {to_hex(line.get_color()) for line in lines} == {systems.SYSTEMS["rotary_memory"].colour.lower()}
    assert len({(line.get_linestyle(), line.get_marker()) for line in lines}) == len(lines) == 4


def test_the_lstm_has_its_level_where_its_state_is_carried_on_and_a_hollow_mark_where_it_is_emptied():
    data = stored("ptb")
    emptied, carried = (row["perplexity"]["mean"] for row in data["systems"]["lstm"]["by_memory"])
    axes = figures.ptb(data).figure.axes[0]
    (level,) = [line for line in axes.lines if list(line.get_ydata()) == [carried] * 2]
    (mark,) = [line for line in axes.lines if list(line.get_ydata()) == [emptied]]
    begins = level.get_transform().transform(level.get_xydata())[0, 0]
    assert begins == pytest.approx(axes.transData.transform((1, 0))[0])  # 1: the first memory that is not 0
    assert list(mark.get_xdata()) == [0]
    assert mark.get_markerfacecolor() == "white"


@pytest.mark.parametrize("name", DRAWN)
def test_a_hollow_mark_was_measured_without_memory(name):
    """Lines that name a system without memory, and no others; graphs of states have marks of their own."""
    for axes in figure_of(name).axes if name != "dependency" else []:
        for line in axes.lines:
            system = systems.named(str(line.get_label()))
            if system is not None and line.get_marker() in Line2D.filled_markers:
                read_with_memory = system.memory or name == "ptb"
                assert (line.get_markerfacecolor() == "white") != read_with_memory, line.get_label()


def test_each_axis_of_bits_says_where_its_good_end_is():
    for name in DRAWN:
        for axes in (figure := figure_of(name)).axes:
            level, upright = axes.get_xlabel(), axes.get_ylabel()
            good = (LEFT,) if any(LOWER in one.get_ylabel() for one in figure.axes) else (LEFT, RIGHT)
            assert (
                BITS not in level or level.endswith(good) or re.search(r"\bright of 0: [^()]*\)$", level)
            ), (
                name,
                level,
            )
            assert (
                BITS not in upright
                or upright.endswith((LOWER, HIGHER))
                or re.search(r"\((above|below) 0: .*\)$", upright)
            ), (name, upright)
            assert not re.search("lower|higher", level), (name, level)
        shared = figure.get_supxlabel()
        assert BITS not in shared or "right of 0: " in shared, (name, shared)


def test_a_line_that_covers_another_leaves_it_seen_on_both_sides():
    read = figures.later_positions(stored("later_positions")).figure.axes[1]
    under, over = read.lines[:2]
    assert under.get_linewidth() > 2 * over.get_linewidth()


@pytest.mark.parametrize(
    ("name", "axis"), [("memory_and_positions", "marks: as trained"), ("ptb", "trained with")]
)
def test_where_models_are_read_with_another_memory_the_axis_says_what_is_as_trained(name, axis):
    figure = getattr(figures, name)(stored(name)).figure
    assert any(axis in axes.get_xlabel() for axes in figure.axes)


def test_the_four_marks_have_their_names_and_numbers():
    data = stored("memory_and_positions")
    memory = figures.memory_and_positions(data).figure.axes[1]
    named_marks = {text.get_text(): tuple(text.xy) for text in memory.texts}
    marked = {tuple(line.get_xydata()[0]) for line in memory.lines if line.get_marker() != "None"}
    for key in curves.GRID:
        place = data[key]["mem_len"], data[key]["bits"]["mean"]
        assert named_marks[f"{curves.GRID[key].name}: {place[1]:.2f}"] == place
        assert place in marked
    faded = [line for line in memory.lines if line.get_marker() == "None"]
    whole = {one.colour.lower() for one in curves.GRID.values()}
    assert not whole & {to_hex(line.get_color()) for line in faded}


def test_the_title_over_memory_holds_in_every_seed_and_is_left_out_where_it_does_not():
    data = stored("memory_and_positions")
    title = "Memory helps relative positions\nand hurts absolute ones"
    memory = figures.memory_and_positions(data).figure.axes[1]
    assert memory.get_title(loc="left") == title
    worse = data["xl_memory"]["bits"] | {"seeds": [2.0, 2.0, 9.0]}
    other = data | {"xl_memory": data["xl_memory"] | {"bits": worse}}
    assert figures.memory_and_positions(other).figure.axes[1].get_title(loc="left") == "After training"


def test_the_close_up_names_its_memory_lengths():
    axes = figures.position_repairs(stored("position_repairs")).figure.axes[0]
    (inset,) = axes.child_axes
    assert [label.get_text() for label in inset.get_xticklabels()] == ["32", "128", "512"]


def test_the_cost_of_a_token_has_one_unit_and_no_empty_decade():
    data = stored("evaluation_cost")
    _, cost = figures.evaluation_cost(data).figure.axes
    drawn = [lines[0].get_ydata().tolist() for lines in cost.containers]
    expected = [
        [row["microseconds_per_token"][side]["median"] / 1000 for row in data["lengths"]]
        for side in evaluation_cost.WAYS
    ]
    assert drawn == expected
    assert cost.get_ylabel().startswith("milliseconds")
    assert " ms " in cost.get_title(loc="left")
    low, high = cost.get_ylim()
    assert low > min(map(min, drawn)) / 3
    assert high < 3 * max(map(max, drawn))


@pytest.mark.parametrize("draw", [figures.bench, figures.bench_reading, figures.bench_generation])
def test_the_title_of_a_race_rounds_as_its_marks_do(draw):
    figure = draw(stored("bench")).figure
    said = re.findall(r"[0-9]+\.[0-9]+", figure.get_suptitle())
    labels = {text.get_text() for axes in figure.axes for text in axes.texts}
    assert len(said) >= 2
    assert set(said) <= labels


@pytest.mark.parametrize("name", [name for name in DRAWN if name.startswith("bench")])
def test_the_title_of_a_race_says_what_it_ran_on_and_whether_over_words(name):
    result, draw = DRAWN[name]
    whole = results.read(FIGURES / f"{result}.json")
    assert whole.provenance["device"].startswith("CPU")
    ran_on = f"{whole.settings['threads']} CPU threads"
    title = figure_of(name).get_suptitle()
    assert title.endswith(f", on {ran_on}")
    assert ("over words" in title) == ("words" in name)
    other = draw(whole.data | {"machine": "a GPU"})
    assert other.figure.get_suptitle() == title.replace(ran_on, "a GPU")


@pytest.mark.parametrize("draw", [figures.bench, figures.bench_reading, figures.bench_generation])
def test_the_races_of_one_kind_of_work_have_one_scale(draw):
    axes = draw(stored("bench")).figure.axes
    assert axes[0].get_xlim() == axes[1].get_xlim()
    for one in axes if draw is figures.bench_reading else ():  # the scale of the other is a logarithm
        marks_ = [
            line.get_xdata()[0] for line in one.lines if line.get_marker() != "None" and len(line.get_xdata())
        ]
        assert max(marks_) > one.get_xlim()[1] / 2


@pytest.mark.parametrize("name", DRAWN)
def test_a_logarithmic_axis_says_so(name):
    for axes in figure_of(name).axes:
        for axis in (axes.xaxis, axes.yaxis):
            plain = axis.get_scale() not in ("log", "symlog")
            assert plain or "log scale" in axis.get_label_text(), axis.get_label_text()


@pytest.mark.parametrize("name", sorted(DRAWN.keys() - {"samples"}))
def test_numbers_with_unequal_steps_are_on_an_axis_that_says_so(name):
    """But on a table of colours, where each number names a row or a column."""
    for axes in (axes for axes in figure_of(name).axes if not axes.images):
        written = [tick.get_text().replace(",", "") for tick in axes.get_xticklabels()]
        if axes.get_xlabel() and written and all(re.fullmatch(r"[0-9]+", one) for one in written):
            places, numbers = axes.get_xticks(), [int(one) for one in written]
            steps = {
                round((b - a) / (y - x), 6)
                for (a, b), (x, y) in zip(pairwise(numbers), pairwise(places), strict=True)
            }
            said = "scale" in axes.get_xlabel()
            assert len(steps) < 2 or said, (axes.get_xlabel(), numbers)


@pytest.mark.parametrize("name", ["widest_heads", "terms_on_text"])
def test_the_future_is_hatched_where_attention_is_drawn_as_an_image(name):
    maps = [axes for axes in figure_of(name).axes if axes.images]
    assert len(maps) == 3
    for axes in maps:
        shown = axes.images[0].get_array()
        queries, keys = shown.shape
        future = triu(ones((queries, keys), dtype=bool), keys - queries + 1)
        assert (getmaskarray(shown) == future).all()
        assert [patch.get_hatch() for patch in axes.patches] == [systems.FUTURE[2]]


def test_the_panels_of_the_widest_heads_stand_in_the_order_of_layers_and_heads():
    maps = [axes for axes in figure_of("widest_heads").axes if axes.images]
    names = [axes.get_ylabel().partition(":")[0] for axes in maps]
    wide = stored("attention_over_memory")["wide"]
    assert names == [f"layer {layer + 1}, head {head + 1}" for layer, head in sorted(wide)]


def test_the_title_of_the_windows_cost_holds_by_the_ratios_median_and_by_that_of_the_medians():
    row = stored("evaluation_cost")["lengths"][-1]
    times = row["microseconds_per_token"]
    medians = times["sliding"]["median"] / times["cached"]["median"]
    said = figure_of("evaluation_cost").axes[0].get_title(loc="left")
    assert said.endswith("\nmore than 1,100 times as long as cached evaluation")
    assert 1100 < min(row["ratio"]["median"], medians) < 1200
    other = {**row, "ratio": {"median": 987.0}}
    assert "more than 980 times" in evaluation_cost._how_much_longer(other)


def test_the_title_of_every_system_names_the_norm_with_which_memory_hurts_shaw():
    systems = stored("every_system")["systems"]
    helps = "\nand helps Transformer-XL with either norm"
    title = f"One seed each: memory hurts absolute positions and post-norm Shaw,{helps}"
    assert curves._what_memory_does(systems) == title
    others = [row for row in systems if row["encoding"] != "Shaw"]
    assert curves._what_memory_does(others) == title.replace(" and post-norm Shaw", "")


def test_the_offset_at_which_most_is_saved_is_named_only_if_it_is_so_in_every_seed():
    rows = stored("short_dependency")["systems"]
    assert short_dependency._where_most(rows).endswith("saves most at a segment's beginning")
    swapped = [{**row, "bits_by_offset": row["bits_by_offset"][::-1]} for row in rows]
    assert short_dependency._where_most(swapped) == "Transformer-XL beside the others"


def test_what_reading_on_costs_is_said_once():
    (axes,) = figures.bits_and_cost(stored("demo")).figure.axes
    said = [axes.get_title(loc="left"), *(text.get_text() for text in axes.texts)]
    assert sum("of the time" in words for words in said) == 1


def test_the_graph_of_dependencies_marks_its_states_as_the_animated_picture_does():
    data = stored("dependency")
    drawn = figures.dependency(data).figure
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == [
        *(label for _, label in mechanism.KINDS.values()),
        "cut",
    ]
    for axes, graph in zip(drawn.axes, data["graphs"].values(), strict=True):
        reached = mechanism.reached_from(graph, graph["time"] - 1)
        kinds = Counter(
            mechanism.kind_of(graph, reached, layer, time, graph["time"] - 1)
            for layer in range(graph["n_layer"] + 1)
            for time in range(graph["time"])
        )
        looks = Counter(
            (line.get_marker(), line.get_markerfacecolor())
            for line in axes.lines
            if len(line.get_xdata()) == 1
        )
        for kind, count in kinds.items():
            look = reach.MARKS[kind]
            assert looks[look["marker"], look.get("mfc", look.get("color"))] == count


def test_what_memory_passed_on_is_a_diamond_in_the_colours_of_memory_and_no_state_is_hollow():
    svg = ElementTree.parse(FIGURES / "mechanism.svg").getroot()
    by_kind = {
        kind: {
            (one.get("fill"), one.get("stroke"), "rotate" in one.get("transform", ""))
            for one in svg.iter()
            if one.get("class") == kind
        }
        for kind in mechanism.KINDS
    }
    assert by_kind["older"] == {(systems.MEMORY.fill, systems.MEMORY.edge, True)}
    assert by_kind["memory"] == {(systems.MEMORY.fill, systems.MEMORY.edge, False)}
    assert by_kind["unused"] == {(systems.NO_EFFECT.fill, systems.NO_EFFECT.edge, False)}
    dashed = [
        one for one in svg.iter() if one.get("stroke-dasharray") and one.get("stroke") == systems.MEMORY.edge
    ]
    assert dashed


def test_the_second_system_begins_well_below_the_first():
    graph = next(iter(stored("dependency")["graphs"].values()))
    lowest = mechanism._y(graph, 0) + 13
    top_of_title = mechanism.PANEL + 22 - 15
    assert top_of_title - lowest >= 12


@pytest.mark.parametrize(
    ("draw", "name"), [(figures.context_by_offset, "context"), (figures.short_dependency, "short_dependency")]
)
def test_what_xl_saves_by_offset_is_what_each_seed_of_the_others_has_more(draw, name):
    data = stored(name)
    systems = (
        data["systems"]
        if name == "short_dependency"
        else [data["systems"][key] for key in ("xl_memory", "shaw_memory", "xl", "absolute")]
    )
    base, *others = (system["bits_by_offset"] for system in systems)
    *lines, level = draw(data).figure.axes[0].lines
    assert list(level.get_ydata()) == [0, 0]
    for line, rows in zip(lines, others, strict=True):
        more = [
            mean(a - b for a, b in zip(row["seeds"], one["seeds"], strict=True))
            for row, one in zip(rows, base, strict=True)
        ]
        assert line.get_ydata() == pytest.approx(more)


def test_a_difference_by_offset_is_of_equal_seeds():
    rows = [{"seeds": [3.0, 5.0]}, {"seeds": [1.0, 1.0]}]
    base = [{"seeds": [1.0, 4.0]}, {"seeds": [2.0, 1.0]}]
    assert context_length.more_by_offset(rows, base) == [
        {"seeds": [2.0, 1.0], "mean": 1.5},
        {"seeds": [-1.0, 0.0], "mean": -0.5},
    ]


def test_the_ablation_draws_each_system_as_trained_and_what_memory_saves():
    data = stored("ablation")
    figure = figures.ablation(data).figure
    for axes, loss in zip(figure.axes, ablation.LOSSES, strict=True):
        systems = [row for row in data["systems"] if row["loss"] == loss]
        means = {row["label"]: mean(recurrence.in_segments(row)) for row in systems}
        bars = {line.get_xdata()[0] for line in axes.lines if line.get_marker() == "|"}
        assert bars == set(means.values())
        saved = [
            means[label.replace(", memory", ", no memory")] - means[label]
            for label in means
            if ", memory" in label
        ]
        texts = [text.get_text() for text in axes.texts]
        assert [f"{one:+.2f}".replace("-", "−") for one in saved] == [
            text for text in texts if text[:1] in "+−" and text
        ]
        assert ("not trained with half loss" in texts) == (loss == "half")
    key = [text.get_text() for text in figure.legends[0].get_texts()]
    assert key == ["with memory", "no memory", "mean of the seeds", "bits saved by memory (−: it costs bits)"]


def test_the_title_of_the_ablation_holds_in_every_seed():
    rows = stored("ablation")["systems"]
    assert ablation._memory_divides(rows)
    worse = [{"seeds": [bits + 1 for bits in one["seeds"]]} for one in rows[0]["bits_by_offset"]]
    assert rows[0]["label"] == "XL, memory, full loss"
    assert not ablation._memory_divides([{**rows[0], "bits_by_offset": worse}, *rows[1:]])


def test_each_way_to_count_has_a_panel_with_its_name():
    data = stored("absolute_positions")
    axes = figures.absolute_positions(data).figure.axes
    for one, (name, (system, how, _)) in zip(axes, counting.COUNTED.items(), strict=True):
        assert {line.get_marker() for line in one.lines} == {"None"}
        said = f"{100 * data['copiers'][name]['beyond_training']['mean']['mean']:.0f} %"
        words = one.texts[0].get_text()
        assert words.startswith(system.name)
        assert how.split()[0] in words if how else words.count("\n") == 1
        assert words.endswith(said)


def test_the_route_that_is_drawn_adds_up_just_where_the_copy_succeeds():
    for row in stored("relay_routes")["rows"]:
        for measured in row["seeds"]:
            assert reach._adds_up(row, measured)
            swapped = {**measured, "accuracy": [1 - one for one in measured["accuracy"]]}
            assert not reach._adds_up(row, swapped)


def test_the_share_of_each_head_by_distance_is_written_into_its_cell():
    data = stored("attention_over_memory")
    (axes,) = figures.attention_by_distance(data).figure.axes
    (first, last) = data["share_by_distance"][1]["distances"]
    head = data["weight_by_distance"][0][0]
    shares = {text.get_position(): text.get_text() for text in axes.texts}
    assert shares[1, 0] == f"{100 * sum(head[first : last + 1]):.0f}"
    assert len(shares) == 12 * 6
    assert axes.get_title(loc="left").startswith("On average over the heads")


@pytest.mark.parametrize("name", ["attention_by_distance", "every_system", "relay_routes"])
def test_a_figure_of_one_seed_says_so(name):
    texts = " ".join(text.get_text() for text in figure_of(name).findobj(Text))
    assert re.search(r"[Oo]ne seed|seed \d", texts)


def test_both_panels_of_the_demo_speak_of_one_run():
    figure = figure_of("demo")
    assert all(axes.get_title(loc="left").startswith("In this run") for axes in figure.axes)
    for axes in figure.axes:  # and no line of a mark is left unexplained
        assert all(line.get_marker() != "None" for line in axes.lines)


def test_a_panel_of_context_lengths_names_its_group_and_explains_only_marks_that_it_has():
    for axes in figure_of("context_recl").axes:
        hollow = any(line.get_markerfacecolor() == "white" for line in axes.lines)
        assert ("hollow" in axes.get_xlabel()) == hollow
        assert f"the best of these {len(axes.get_yticks())} models" in axes.get_xlabel()
        assert "3 seeds" in axes.get_xlabel()
        assert [line.get_label() for line in axes.lines][-1] == "all targets"


def test_the_titles_of_context_lengths_hold_in_every_seed_at_every_share():
    recl = stored("context")["recl"]
    titles = [axes.get_title(loc="left").replace("\n", " ") for axes in figure_of("context_recl").axes]
    hardest = "(hardest 10 %)"
    assert titles == [
        f"Transformer-XL beside the LSTM: 99 characters, the LSTM 37 {hardest}",
        f"Transformer-XL among Transformers: 67 characters with memory, 27 without {hardest}",
    ]
    equal = {**recl["attentive"], "xl": recl["attentive"]["xl_memory"]}
    assert context_length._recl_title(equal, "attentive") == "Models with attention"


def test_the_title_of_copying_says_what_a_flowing_gradient_teaches_and_the_words_what_not():
    rows = stored("copying")["rows"]
    title = (
        "A token two hops away: {} % of the copies are right\n"
        "if the gradient flows through memory, {} % if it stops there"
    )
    assert reach._what_is_copied(rows) == title.format("23 to 93", "7 to 13")
    dips = [
        "20 back at offsets 0 (18 %), 1 (18 %), 2 (25 %), 3 (30 %)",
        "24 back at offsets 6 (68 %), 7 (69 %)",
    ]
    dips.append("28 back at offset 3 (21 %)")
    assert reach._dips(rows) == f"With the gradient flowing fewer than 90 % are right {'; '.join(dips)}."
    assert reach._dips(rows[:1]) == ""
    seldom = "A token two hops away is seldom copied, even if the gradient flows through memory"
    assert reach._what_is_copied(rows[:2]) == seldom
    assert reach._what_is_copied([rows[0], *rows[2:]]) == title.format("92 to 93", "13")
    assert reach._what_is_copied(rows[:1]).endswith("copies only what one layer reaches")
    assert reach._what_is_copied([{**row, "stopped": row["flowing"]} for row in rows]) == ""


def test_a_colour_means_the_same_score_in_each_term_and_grey_means_0():
    data = stored("attention_over_memory")
    figure = figures.terms_on_text(data).figure
    assert sum(axes.get_label() == "<colorbar>" for axes in figure.axes) == 1
    (scale,) = {axes.images[0].norm for axes in figure.axes if axes.images}
    assert scale(0) == 0.5
    seen = [abs(axes.images[0].get_array()).max() for axes in figure.axes if axes.images]
    assert max(seen) == scale.vmax == -scale.vmin


def test_the_title_of_training_parts_holds_in_every_seed():
    rows = stored("training_parts")["rows"]
    title = (
        "Constant learning rate, peak 0.002: bits saved\n"
        "0.18 after 300 steps (counts), 0.09 after 900 steps (open)"
    )
    assert parts._finding(rows, 0.002) == title
    for change in parts.NAMES:
        always = all(max(row["changes"][change]["cost_with_memory"]["seeds"]) < 0 for row in rows)
        assert always == (change == "constant_rate")


def test_each_mean_of_training_parts_says_whether_it_counts():
    for axes, row in zip(figure_of("training_parts").axes, stored("training_parts")["rows"], strict=True):
        costs = [row["changes"][change]["cost_with_memory"]["seeds"] for change in parts.NAMES]
        assert [text.get_text().split()[1] for text in axes.texts] == [paired.verdict(cost) for cost in costs]


def test_absolute_positions_have_no_more_context_than_their_model_reads():
    data = stored("context")
    ends = {line.get_label(): line.get_xdata()[-1] for line in figure_of("context").axes[0].lines}
    longest, limit = data["context_lens"][-1], data["seg_len"]
    name = systems.SYSTEMS["absolute"].name
    assert ends == dict.fromkeys(ends, longest) | {name: limit}
    panels = [axes for axes in figure_of("context_gains").axes if axes.images]
    dashes = [[text.get_position() for text in axes.texts if text.get_text() == "–"] for axes in panels]
    assert [bool(places) for places in dashes] == [
        axes.get_title(loc="left").replace("\n", " ") == name for axes in panels
    ]
    (((x, y),),) = [places for places in dashes if places]
    lengths = context_gains.doubled(data["context_lens"])
    assert (lengths[y], lengths[x]) == (limit, longest)
    assert all(
        axes.images[0].get_array().mask[y, x] == bool(d) for axes, d in zip(panels, dashes, strict=True)
    )


def test_bars_of_times_say_what_they_are():
    for name in ("evaluation_cost", "generation_cost"):
        assert all(evaluation_cost.MEDIANS in axes.get_xlabel() for axes in figure_of(name).axes)


def test_each_panel_of_the_ablation_has_numbers_on_a_phone():
    with for_phones():
        shown = figures.ablation(stored("ablation")).figure.axes
    assert all(axes.xaxis.get_tick_params()["labelbottom"] for axes in shown)


def test_the_title_of_the_terms_counts_the_queries_whose_near_keys_each_term_favours():
    text = stored("attention_over_memory")["text"]
    assert over_memory._favours_the_near(text) == (
        "On average term (d), distance alone, scores the 8 nearest keys above the others\n"
        "for all 16 queries; term (a) does for 15, term (b) for 1"
    )
    terms = text["terms"]
    assert over_memory._favours_the_near(text | {"terms": [terms[3], terms[1], terms[2], terms[0]]}) == ""


def test_the_title_of_absolute_positions_names_the_two_that_stay_right_and_what_the_others_copy():
    data = stored("absolute_positions")
    said = "copy 100 % right, and the others 73 to 94 %"
    assert counting._finding(data).endswith(said)
    copiers = data["copiers"] | {"circle": data["copiers"]["counted_on"]}
    assert counting._finding(data | {"copiers": copiers}).startswith("Copying in segments")


def test_the_title_of_the_schedules_names_what_counts_as_ahead():
    found = stored("training_parts")["schedules"]
    open_ = "Each at its best peak: no clear difference"
    assert parts._ahead(found) == f"Peak 0.008: a falling rate saves 0.07 bits.\n{open_}"
    clear = {"cost": {"constant": {"seeds": [-0.2, -0.21, -0.19], "mean": -0.2}}, "peaks": {"falling": 0.1}}
    title = (
        "Peak 0.1: a constant rate saves 0.20 bits.\nEach at its best peak: a constant rate saves 0.20 bits"
    )
    assert parts._ahead({"at_peaks": [clear], "at_best_peaks": clear}) == title
    few = {"cost": {"constant": {"seeds": [-0.2, -0.2], "mean": -0.2}}, "peaks": {"falling": 0.1}}
    assert (
        parts._ahead({"at_peaks": [few], "at_best_peaks": few})
        == f"Both at one peak: no clear difference.\n{open_}"
    )


def test_a_hollow_mark_of_training_parts_is_explained():
    figure = figure_of("training_parts")
    (legend,) = figure.legends
    explained = {
        (line.get_color(), line.get_markerfacecolor() == "white"): text.get_text()
        for line, text in zip(legend.get_lines(), legend.get_texts(), strict=True)
    }
    drawn = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert [explained[line.get_color(), line.get_markerfacecolor() == "white"] for line in drawn] == [
        *["memory in training"] * 3,
        "no memory in training",
    ]


def test_the_title_of_deeper_layers_holds_in_every_seed():
    tasks = stored("deeper_layers")["tasks"].values()
    assert depth._finding(tasks).endswith("one layer guesses, two layers tell them apart in 5 of 6 trainings")
    better = []
    for task in tasks:
        assert max(task["depths"]["one_layer"]["late"]["seeds"]) < task["coin"] + 0.05
        better += [seed > task["coin"] + 0.1 for seed in task["depths"]["two_layers"]["late"]["seeds"]]
    assert sorted(better) == [False] + 5 * [True]
    coins = [{**task, "coin": 1.0} for task in tasks]
    assert depth._finding(coins) == "Two keys share a position: one layer, two layers and chance"


def test_the_titles_of_equal_bytes_hold_in_every_seed():
    data = stored("equal_bytes")
    more = data["more"].values()
    assert equal_bytes._finding(data, "in_segments") == "memory saves 0.03 to 0.15 bits"
    assert all(min(row["in_segments"]["seeds"]) > 0 for row in more)
    finding = equal_bytes._finding(data, "full_context")
    assert finding == "memory saves 0.06 and 0.07\nbits at equal text,\ncosts 0.05 at equal steps"
    assert max(data["more"]["steps"]["full_context"]["seeds"]) < 0
    mixed = {"more": data["more"] | {"more_steps": {"full_context": {"seeds": [-1, 1]}}}}
    assert equal_bytes._finding(mixed, "full_context") == equal_bytes.NO_FINDING
    worse = {"more": {"steps": data["more"]["steps"]}}
    assert equal_bytes._finding(worse, "full_context") == equal_bytes.NO_FINDING


def test_the_schedules_have_a_bar_from_seed_to_seed_and_none_covers_another():
    (axes,) = figure_of("schedules").axes
    rows = stored("training_parts")["schedules"]["at_peaks"]
    places = []
    for name, drawn in zip(parts.LINES, axes.containers, strict=True):
        (bars,) = drawn[2]
        for row, segment in zip(rows, bars.get_segments(), strict=True):
            seeds = row["bits"][name]["seeds"]
            assert segment[:, 1].tolist() == pytest.approx([min(seeds), max(seeds)])
            places.append(round(float(segment[0, 0]), 6))
    assert len(set(places)) == len(places)


def test_the_axis_says_up_to_which_length_models_without_memory_were_read():
    (axes,) = figure_of("ablation_lengths").axes
    longest = {line.get_label(): max(line.get_xdata()) for line in axes.lines}
    without = {length for name, length in longest.items() if name.endswith("no memory")}
    assert without == {64}
    assert "without memory were read with at most 64" in axes.get_xlabel()


def test_the_title_of_the_longer_training_says_the_perplexity_with_each_memory():
    preset = {0: 90.0, 64: 70.0, 1280: 75.0}
    rows = [{"mem_len": length, "perplexity": perplexity} for length, perplexity in preset.items()]
    words = "Trained longer: perplexity 70 with\n64 words of memory, 90 without"
    assert treebank._perplexities(rows, 64) == words


def test_in_every_figure_a_saved_bit_is_positive_and_the_axis_says_so():
    """Also where the result holds what something costs."""
    parts, row = figure_of("training_parts").axes[0], stored("training_parts")["rows"][0]
    bars = [line.get_xdata()[0] for line in parts.lines if line.get_marker() == "|" and len(line.get_xdata())]
    assert bars == [-row["changes"][change]["cost_with_memory"]["mean"] for change in NAMES_OF_PARTS]
    terms = figure_of("without_terms").axes[0]
    bars = [line.get_xdata()[0] for line in terms.lines if line.get_marker() == "|" and len(line.get_xdata())]
    assert bars == [stored("without_terms")["missing"][name]["cost"]["mean"] for name in "abcd"]
    labels = {
        name: [axes.get_xlabel() + axes.get_ylabel() for axes in figure_of(name).axes] for name in SAVING
    }
    assert all(any(re.search("saved|saves?$|saves?\\n", words) for words in said) for said in labels.values())
    for name in DRAWN:
        for axes in figure_of(name).axes:
            words = axes.get_xlabel() + axes.get_ylabel()
            assert not re.search(rf"(added {BITS}|{BITS} (more than|added))|bits it costs", words), name


NAMES_OF_PARTS = list(parts.NAMES)
SAVING = (
    "attention_over_memory", "context_by_offset", "later_positions", "shaw_clipping", "short_dependency",
    "short_segments", "training_parts", "without_terms",
)  # fmt: skip
"""The figures that have an axis of saved bits."""


def test_offsets_are_ticked_in_whole_numbers_on_a_phone_too():
    with for_phones():
        axes = figures.short_segments(stored("short_segments")).figure.axes[0]
    assert all(place == round(place) for place in axes.get_xticks())


def test_a_legend_names_the_range_of_the_seeds_only_where_there_are_several():
    data = stored("copying")
    legends = []
    for seeds in (1, 3):
        row = dict(data["rows"][1])
        for gradient in ("stopped", "flowing"):
            offsets = [one | {"seeds": one["seeds"][:seeds]} for one in row[gradient]["by_offset"]]
            row[gradient] = row[gradient] | {"by_offset": offsets}
        (legend,) = figures.copying(data | {"rows": [row]}).figure.legends
        legends.append([text.get_text() for text in legend.get_texts()])
    assert legends[1] == [*legends[0], "range of the seeds"]


def test_the_picture_of_both_gradients_names_what_lies_on_each_side_of_the_cut():
    data = {"offset": 7, "stopped": [1.0] * 8 + [0.0] * 24, "flowing": [1.0] * 32}
    axes = dependency_graph.gradient_lengths(data).figure.axes[0]
    sides = {text.get_text(): (text.get_position()[0] > 7.5, text.get_ha()) for text in axes.texts}
    assert sides == {"own segment": (False, "right"), "older tokens": (True, "left")}


@pytest.mark.parametrize(
    ("offset", "far", "window", "ticks"),
    [(3, 15, None, ["0", "15", "3"]), (1, 15, None, ["0", "15"]), (7, 4, 3, ["0", "4", "7"])],
)
def test_the_axis_of_a_cone_has_a_0_and_its_legend_only_what_is_drawn(offset, far, window, ticks):
    graph = {
        "n_layer": 1, "seg_len": 8, "mem_len": 8, "window": window, "offset": offset, "time": 17,
        "reach": far, "gradient_reach": min(offset, far), "edges": [[[16, 16 - far]]],
        "reached": [[1, 16], [0, 16], [0, 16 - far]],
    }  # fmt: skip
    figure = dependency_graph.cone(graph).figure
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ticks
    (legend,) = figure.legends
    named = [text.get_text() for text in legend.get_texts()]
    assert ("through memory: no gradient" in named) == (far > offset)
    assert "own segment: gradient" in named
