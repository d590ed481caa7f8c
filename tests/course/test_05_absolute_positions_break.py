"""Notebook 05: its checks, its widget, its figures, and the models that count."""

import re
from collections import Counter

import pytest
import torch
from page import Page

from minitxl.config import ModelConfig
from minitxl.course.checks import collisions as checks
from minitxl.data import corpora
from minitxl.experiments import absolute_positions, deeper_layers
from minitxl.experiments.shared.runner import compute
from minitxl.figures.positions import counting, depth
from minitxl.figures.positions.sinusoids import one_vector
from minitxl.memory import extend
from minitxl.model import TransformerLM

PAGE = Page(
    "05_absolute_positions_break",
    extended_context=checks.extended_context,
    certain_places=checks.certain_places,
)
CHECKS = {
    "context-blank": checks.check_extended_context,
    "certain": checks.check_certain_places,
    "exercise-pairs": checks.check_pairs,
    "exercise-circle": checks.check_circle,
}


@pytest.mark.parametrize("cell", CHECKS)
def test_the_solution_is_right_and_the_stub_is_not_there_yet(cell):
    PAGE.assert_solved_by_its_solution_alone(cell, CHECKS[cell])


def seen(offset, seg_len, mem_len):
    return [key % seg_len for key in range(-mem_len, offset + 1)]


@pytest.mark.parametrize(
    "attempt",
    [
        lambda o, L, M: [p for p in range(L) if sum((k - p) % L == 0 for k in range(-M, o + 1)) == 1],
        lambda o, L, M: sorted(p for p, times in Counter(seen(o, L, M)).items() if times == 1),
        lambda o, L, M: (
            torch.tensor([*seen(o, L, M)]).bincount(minlength=L).eq(1).nonzero().flatten().tolist()
        ),
    ],
)
def test_certain_places_in_another_style_are_accepted(attempt):
    assert checks.check_certain_places(attempt).right


@pytest.mark.parametrize(
    ("attempt", "sentence"),
    [
        (lambda o, L, M: sorted({*seen(o, L, M)}), "keep those with exactly one"),
        (
            lambda o, L, M: [p for p in range(L) if seen(o, L, M).count(p) == 2],
            "first difference|you returned",
        ),
        (lambda o, L, M: [p for p in range(L) if seen(o, L, M).count(p) > 1], "the places in doubt"),
        (lambda o, L, M: [p for p in range(L) if seen(o - 1, L, M).count(p) == 1], "the query sees itself"),
        (lambda o, L, M: [p for p in range(L) if seen(o + 1, L, M).count(p) == 1], "the token after it"),
        (lambda o, L, M: [p for p in range(L) if p > o], "as long as the segment"),
        (lambda o, L, M: [*range(o + 1)], "memory has keys too"),
        (
            lambda o, L, M: [k for k in range(-M, o + 1) if seen(o, L, M).count(k % L) == 1],
            "the remainder by seg_len",
        ),
        (lambda o, L, M: None, "nothing"),
    ],
)
def test_wrong_certain_places_get_their_sentence(attempt, sentence):
    verdict = checks.check_certain_places(attempt)
    assert not verdict.right
    assert re.search(sentence, verdict.message)


@pytest.mark.parametrize(
    "attempt",
    [
        lambda E, U, L, M: torch.stack([E[p] + U[p % L] for p in range(max(0, len(E) - L - M), len(E))]),
        lambda E, U, L, M: (E.unflatten(0, (-1, L)) + U).flatten(0, 1)[-(L + M) :],
    ],
)
def test_an_extended_context_in_another_style_is_accepted(attempt):
    assert checks.check_extended_context(attempt).right


def test_a_start_below_zero_is_named():
    verdict = checks.check_extended_context(
        lambda E, U, L, M: (E + U[torch.arange(len(E)) % L])[len(E) - L - M :]
    )
    assert not verdict.right
    assert "the stream may be shorter" in verdict.message


@pytest.mark.parametrize(
    ("zero", "sentence"),
    [
        (lambda begin, M: max(0, begin - M), "from the first key"),
        (lambda begin, M: begin, "where the segment begins"),
    ],
)
def test_pairs_by_relative_places_are_named(zero, sentence):
    def attempt(tokens, seg_len, mem_len):
        last = len(tokens) - 1
        shift = zero(last - last % seg_len, mem_len)
        return [(a - shift, b - shift) for a, b in checks.pairs(tokens, seg_len, mem_len)]

    verdict = checks.check_pairs(attempt)
    assert not verdict.right
    assert sentence in verdict.message


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (..., "nothing here yet"),
        ("abc", "a text of 12 letters"),
        (["abcdef", "abcdef"], "a text of 12 letters"),
        ("abcdefghijkl", "no letter comes twice"),
        ("aacdefghijkl", "1 apart, at places 0 and 1"),
        ("abcdefghajkl", "8 apart, at places 0 and 2"),
        ("abcdefabijkl", "2 pairs collide: 'a' at 0 and 6, 'b' at 1 and 7"),
    ],
)
def test_a_text_that_does_not_collide_once_is_told_why(text, sentence):
    verdict = checks.check_text(text)
    assert not verdict.right
    assert sentence in verdict.message


def test_the_folded_text_collides_once():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.cells["exercise-text"], re.DOTALL)
    assert checks.check_text(PAGE.run(code)["my_text"]).right


@pytest.mark.parametrize(("seg_len", "mem_len"), [(4, 4), (3, 5), (4, 8), (5, 2)])
def test_the_pairs_of_the_check_are_those_a_model_cannot_tell_apart(seg_len, mem_len):
    torch.manual_seed(0)
    config = ModelConfig(3, n_layer=1, d_model=16, n_head=2, d_head=8, d_inner=8, attention="absolute")
    model = TransformerLM(config).double().eval()
    stream, past = torch.randint(3, (1, 4 * seg_len - 1)), None
    for segment in stream.split(seg_len, dim=1):
        scores = model.attention_weights(segment, past)[0, 0, :, -1].log()
        past = extend(past, model(segment, past)[1], mem_len=mem_len)
    first = stream.shape[1] - scores.shape[1]
    gap = (scores[:, :, None] - scores[:, None, :]).abs().amax(dim=0)
    measured = [(first + a, first + b) for a, b in (gap < 1e-9).nonzero().tolist() if a < b]
    assert checks.pairs(stream[0].tolist(), seg_len, mem_len) == measured


def test_predictions_are_judged_on_their_own_merits():
    answers = {"early": 0.96, "late": 0.5, "text": "worse", "counting": "in between"}
    assert all(verdict.right for verdict in checks.PREDICTIONS.check(answers).verdicts)
    for question in checks.PREDICTIONS.questions:
        for guess, sentence in question.wrong.items():
            assert question.judge(guess).message.casefold().endswith(sentence.casefold())
        assert f"| `{question.name}` |" in PAGE.cells["example-after"]


def test_the_example_by_hand_has_the_scores_of_the_text():
    space = PAGE.run("example")
    restart, count_on = space["scores"].tolist()
    assert restart == [0, 2.5, 0, 2.5]
    assert count_on[1] != count_on[3] == 2.5


@pytest.mark.parametrize(
    "wrong", [lambda E, U, L, M: E[-(L + M) :], lambda E, U, L, M: checks.extended_context(E, U, L, 0)]
)
def test_a_context_that_is_not_the_packages_stops_the_notebook(wrong):
    PAGE.run("context-check")
    with pytest.raises(AssertionError):
        PAGE.run("context-check", extended_context=wrong)


def test_one_vector_marks_each_pair_of_keys_at_no_distance():
    near, apart = [[0.0, 0.0], [0.0, 0.0]], [[0.0, 2.0], [2.0, 0.0]]
    panels = {
        "restarted": {"distances": near, "places": [0, 0]},
        "on": {"distances": apart, "places": [0, 1]},
    }
    picture = one_vector({"panels": panels, "tokens": "aa", "mem_len": 1, "rounding": 1e-5})
    restarted, on, _ = picture.figure.axes
    assert sorted(map(tuple, restarted.lines[0].get_xydata().tolist())) == [(0, 1), (1, 0)]
    assert len(on.lines[0].get_xydata()) == 0
    assert [label.get_text() for label in on.get_xticklabels()] == ["a\n0", "a\n1"]
    assert "restarted: 1; on: 0" in picture.alt


@pytest.mark.parametrize(("cell", "pairs"), [("numbers", [16, 0, 8]), ("circle", [4, 2, 0])])
def test_restarted_numbers_make_a_letter_one_vector_with_its_copy_in_memory(cell, pairs):
    source = PAGE.cells[cell].replace("\none_vector(", "\ndrawn = one_vector(")
    titles = [axes.get_title(loc="left") for axes in PAGE.run(source)["drawn"].figure.axes]
    assert [int(title.split("\n")[1].split()[0]) for title in titles if title] == pairs


def test_the_widget_draws_the_packages_weights():
    before = ["context-check", "L = 8", "weights", "widget"]
    space = PAGE.run(*before, explore=lambda draw, **choices: choices)
    places = [(3, 3), (0, 6), (2, 2), (5, 1)]
    for positions, (in_memory, in_segment) in zip(space["tried"], places, strict=True):
        axes = space["draw"](positions, in_memory, in_segment).figure.axes[0]
        weights = torch.tensor([y for line in axes.lines[:2] for y in line.get_ydata()])
        letters = list("abcdefghijklmnop")
        letters[in_memory] = letters[8 + in_segment] = "N"
        model, ids = space["tried"][positions], space["ids"]("".join(letters))
        attention = model.blocks[0].attention
        expected = attention.attention_weights(model.embed(ids[:, 8:]), model.embed(ids[:, :8]))[0, 1, -1]
        torch.testing.assert_close(weights.float(), expected)
        collides = (
            positions == "absolute + memory" and in_memory == in_segment
        ) or positions == "Shaw + memory, k = 2"
        assert ("one weight for both" in axes.get_title(loc="left")) == collides
        assert axes.lines[2].get_xdata().tolist() == [in_memory, 8 + in_segment]


def test_memory_by_offset_draws_the_mean_of_the_seeds_differences():
    rows = [{"seeds": [-1.0, -3.0], "mean": -2.0}, {"seeds": [1.0, 2.0], "mean": 1.5}]
    picture = counting.memory_by_offset({"curves": {"absolute": rows}})
    (axes,) = picture.figure.axes
    assert axes.lines[0].get_ydata().tolist() == [-2.0, 1.5]
    assert "absolute: −2.00 at offset 0, +1.50 at 1" in picture.alt


@pytest.mark.parametrize(("positions", "width", "turning"), [(48, 64, 8), (6, 4, 0), (7, 4, 1), (700, 4, 2)])
def test_a_hand_counts_as_fast_if_it_turns_once_within_the_positions(positions, width, turning):
    assert absolute_positions.full_turns(positions, width) == turning


def test_a_counting_model_adds_the_positions_it_is_told_to():
    config = ModelConfig(5, n_layer=1, d_model=8, n_head=2, d_head=4, d_inner=8, attention="absolute")
    torch.manual_seed(0)
    model, tokens = absolute_positions.CountingLM(config).eval(), torch.zeros(1, 3, dtype=torch.int64)
    first = model.embed(tokens)
    plain = first - model.add_positions(torch.zeros(1, 3, 8), layer=0)
    model.begin, model.period = 6, 6
    torch.testing.assert_close(model.embed(tokens), first)
    model.begin = 4
    assert not torch.equal(model.embed(tokens)[:, :2], first[:, :2])
    torch.testing.assert_close(model.embed(tokens)[:, 2], first[:, 0])
    model.begin, model.period, model.hands = 0, None, 1
    added = model.embed(tokens) - plain
    assert added[..., [1, 2, 3, 5, 6, 7]].abs().max() < 1e-6
    torch.testing.assert_close(added[0, :, 0], torch.arange(3.0).sin())


def test_absolute_positions_runs_end_to_end_at_toy_size():
    corpus = corpora.from_bytes("toy", b"some words that come again and again " * 400)
    settings = absolute_positions.settings("quick", corpus)
    small = {"n_layer": 1, "d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 32}
    settings["text"]["model"] |= small
    settings["text"]["train"] |= {"steps": 3, "warmup": 1}
    settings |= {"steps": 2, "batch": 2, "test_streams": 8, "read_segments": 5}
    settings["text"]["test_tokens"] = 200
    steps = []
    values = compute(
        absolute_positions.parts(settings, corpus, seeds=[0, 1], device="cpu"),
        report=lambda label, number, record: steps.append((label, number)),
    )
    data = absolute_positions.collect(settings, corpus, values)
    assert set(data["copiers"]) == set(absolute_positions.COPIERS)
    assert set(data["readers"]) == set(absolute_positions.READERS)
    for copier in data["copiers"].values():
        assert [len(copier["by_segment"]), len(copier["by_offset"])] == [5, 16]
        late = copier["by_offset"][8:]
        assert copier["late"]["seeds"][1] == pytest.approx(sum(one["seeds"][1] for one in late) / 8)
        assert copier["late"]["mean"] <= copier["late_either"]["mean"]
        beyond = copier["by_segment"][3:]
        assert copier["beyond_training"]["worst"]["seeds"][0] == min(one["seeds"][0] for one in beyond)
    assert len(steps) == 2 * (2 * len(data["copiers"]) + 3 * len(data["readers"]))
    picture = counting.absolute_positions(data)
    lines = [line for axes in picture.figure.axes for line in axes.lines if len(line.get_xdata()) == 5]
    means = [[one["mean"] for one in data["copiers"][name]["by_segment"]] for name in counting.COUNTED]
    assert [line.get_ydata().tolist() for line in lines] == means


def test_deeper_layers_runs_end_to_end_at_toy_size():
    corpus = corpora.from_bytes("none", b"x")
    settings = deeper_layers.settings("quick", corpus)
    settings["model"] |= {"d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 32}
    settings |= {"steps": 2, "batch": 2, "test_streams": 8, "test_segments": 5}
    steps = []
    values = compute(
        deeper_layers.parts(settings, corpus, seeds=[0, 1], device="cpu"),
        report=lambda label, number, record: steps.append((label, number)),
    )
    data = deeper_layers.collect(settings, corpus, values)
    assert len(steps) == 2 * 2 * 2 * 2
    assert data["tasks"]["near"]["coin"] == 0.625
    for task in data["tasks"].values():
        for row in task["depths"].values():
            late = [one["seeds"][1] for one in row["by_offset"][task["distance"] :]]
            assert len(row["by_offset"]) == task["seg_len"]
            assert row["late"]["seeds"][1] == pytest.approx(sum(late) / len(late))
            assert row["late"]["mean"] <= row["late_either"]["mean"]
    panels = depth.deeper_layers(data).figure.axes
    for axes, task in zip(panels, data["tasks"].values(), strict=True):
        drawn = [tuple(line.get_xdata()) for line in axes.lines]
        for name in depth.DEPTHS:
            assert tuple(task["depths"][name]["late"]["seeds"]) in drawn


def test_the_two_depths_of_a_task_differ_in_layers_alone():
    settings = deeper_layers.settings("quick", corpora.from_bytes("none", b"x"))
    one, two = (deeper_layers._task(settings, "near", depth) for depth in ("one_layer", "two_layers"))
    assert (one["model"].pop("n_layer"), two["model"].pop("n_layer")) == (1, 2)
    assert one == two
    assert one["mem_len"] == one["seg_len"] == 4
