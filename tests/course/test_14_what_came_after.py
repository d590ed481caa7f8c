"""Notebook 14 and its checks."""

import sys
from math import log, sqrt

import pytest
import torch
from page import NOTEBOOKS, Page, assert_each_mistake_gets_its_own_sentence

from minitxl.course.checks import later as checks
from minitxl.course.checks import rolling, rotary
from minitxl.experiments.shared import results
from minitxl.figures.positions import later_pictures
from minitxl.figures.systems import SYSTEMS
from minitxl.later_attention import buckets, rotate

PAGE = Page("14_what_came_after", rotate=rotate, rotary_scores=rotary.solution_rotary_scores)
STORED = results.read(NOTEBOOKS.parent / "figures" / "later_positions.json").data
REPAIRS = results.read(NOTEBOOKS.parent / "figures" / "position_repairs.json").data
BLANKS = {
    "rotate": ("rotate-text", checks.check_rotate),
    "scores": ("scores-text", rotary.check_rotary_scores),
    "repair": ("repair-text", rotary.check_clamped_scores),
    "ring": ("repairs-read", rolling.check_ring_step),
    "alibi": ("alibi-text", checks.check_alibi_bias),
    "buckets": ("buckets-text", checks.check_buckets),
    "keep-first": ("sinks-text", rolling.check_keep_first),
    "exercise-1-code": ("exercise-1", checks.check_slopes),
    "exercise-2-code": ("exercise-2", rotary.check_raised_base),
    "exercise-3-code": ("exercise-3", rolling.check_move_keys),
    "exercise-4-code": ("exercise-4", rolling.check_window_for),
}


def rotate_by_complex_numbers(x, positions):
    half = x.shape[-1] // 2
    speeds = 10000.0 ** (-torch.arange(half) / half)
    turns = torch.polar(torch.ones(len(positions), half), positions[:, None] * speeds)
    turned = torch.complex(x[..., :half], x[..., half:]) * turns
    return torch.cat([turned.real, turned.imag], dim=-1)


def rotate_by_rows(x, positions):
    half = x.shape[-1] // 2
    speeds, rows = 10000.0 ** (-torch.arange(half) / half), []
    for place, position in enumerate(positions.tolist()):
        sin, cos = (position * speeds).sin(), (position * speeds).cos()
        low, high = x[:, :, place, :half], x[:, :, place, half:]
        rows.append(torch.cat([low * cos - high * sin, low * sin + high * cos], dim=-1))
    return torch.stack(rows, dim=2)


def rotate_by_a_sum(x, positions):
    half = x.shape[-1] // 2
    angles = torch.outer(positions.float(), 10000.0 ** (-torch.arange(half) / half)).repeat(1, 2)
    turned_by_90 = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
    return x * angles.cos() + turned_by_90 * angles.sin()


def bias_by_loop(n_query, n_key, slope):
    rows = [[[-(n_key - n_query + q - k) * m for k in range(n_key)] for q in range(n_query)] for m in slope]
    return torch.tensor(rows)


def buckets_one_by_one(distance, n_bucket, last):
    near = n_bucket // 2

    def bucket(d):
        far = near + int(log(d / near) / log(last / near) * (n_bucket - near)) if d >= near else d
        return min(far, n_bucket - 1)

    return torch.tensor([bucket(d) for d in distance.tolist()])


def buckets_by_logarithms(distance, n_bucket, last):
    near = n_bucket // 2
    far = (distance.clamp(min=near) / near).log() / log(last / near)
    return torch.where(distance < near, distance, near + (far * (n_bucket - near)).int()).clamp(
        max=n_bucket - 1
    )


def first_by_index(memory, states, mem_len, first):
    both = torch.cat([memory, states], dim=2)
    time = torch.arange(both.shape[2])
    return both[:, :, (time < first) | (time >= len(time) - mem_len + first)]


def scores_by_rows(q, k):
    first, turned = k.shape[2] - q.shape[2], rotate(k, torch.arange(k.shape[2]))
    rows = [
        rotate(q[:, :, i : i + 1], torch.tensor([first + i])) @ turned.mT / sqrt(q.shape[3])
        for i in range(q.shape[2])
    ]
    return torch.cat(rows, dim=2)


def clamped_by_query(q, k, longest):
    rows, place = [], torch.arange(k.shape[2])
    for i in range(q.shape[2]):
        away = (k.shape[2] - q.shape[2] + i - place).clamp(max=longest)
        rows.append(q[:, :, i : i + 1] @ rotate(k, -away).mT / sqrt(q.shape[3]))
    return torch.cat(rows, dim=2)


def scores_by_complex_numbers(q, k):
    half, place = q.shape[-1] // 2, torch.arange(k.shape[2])
    speeds = 10000.0 ** (-torch.arange(half) / half)
    turns = torch.polar(torch.ones(k.shape[2], half), place[:, None] * speeds)
    q, k = (torch.complex(x[..., :half], x[..., half:]) for x in (q, k))
    return ((q * turns[-q.shape[2] :]) @ (k * turns).conj().mT).real / (2 * half) ** 0.5


def clamped_by_rows(q, k, longest):
    place = torch.arange(k.shape[2])
    own = place[-q.shape[2] :]
    near = rotate(q, own) @ rotate(k, place).mT
    far = q @ rotate(k, torch.full_like(place, -longest)).mT
    mask = own.view(-1, 1) > place + longest
    return torch.stack([far * mask, near * ~mask]).sum(0) * q.shape[-1] ** -0.5


def ring_by_modulo(q, k, v, keys, values, t):
    here = torch.arange(len(keys)) == t % len(keys)
    keys, values = torch.where(here[:, None], k, keys), torch.where(here[:, None], v, values)
    scores = keys @ q / len(q) ** 0.5
    scores[torch.arange(len(keys)) > t] = -torch.inf
    return torch.softmax(scores, 0) @ values, keys, values


def ring_by_index_copy(q, k, v, keys, values, t):
    slot = torch.tensor([t % keys.shape[0]])
    keys, values = keys.index_copy(0, slot, k[None]), values.index_copy(0, slot, v[None])
    n = len(keys) if t >= len(keys) else t + 1
    weights = torch.softmax(torch.mv(keys[:n], q) / sqrt(q.numel()), dim=-1)
    return (weights[:, None] * values[:n]).sum(0), keys, values


def bias_hidden_ahead(n_query, n_key, slope):
    away = torch.arange(n_key - n_query, n_key)[:, None] - torch.arange(n_key)
    return torch.where(away < 0, -torch.inf, -slope[:, None, None] * away)


@pytest.mark.parametrize(
    ("check", "answer"),
    [
        (rotary.check_rotary_scores, PAGE.solution("scores-text")),
        (rotary.check_rotary_scores, scores_by_complex_numbers),
        (rotary.check_clamped_scores, PAGE.solution("repair-text")),
        (rotary.check_clamped_scores, clamped_by_rows),
        (rotary.check_raised_base, lambda base, s, d: base * s * s ** (2 / (d - 2))),
        (rotary.check_raised_base, lambda base, s, d: (base ** ((d - 2) / d) * s) ** (d / (d - 2))),
        (rolling.check_ring_step, ring_by_modulo),
        (rolling.check_ring_step, ring_by_index_copy),
        (checks.check_alibi_bias, bias_hidden_ahead),
        (
            checks.check_alibi_bias,
            lambda q, k, slope: (
                -slope.view(-1, 1, 1) * (torch.arange(k - q, k)[:, None] - torch.arange(k)).abs()
            ),
        ),
        (
            checks.check_alibi_bias,
            lambda q, k, slope: (
                -slope.view(-1, 1, 1) * (torch.arange(k - q, k)[:, None] - torch.arange(k)).clamp(min=0)
            ),
        ),
        (checks.check_rotate, rotate_by_complex_numbers),
        (checks.check_rotate, rotate_by_a_sum),
        (checks.check_alibi_bias, bias_by_loop),
        (
            checks.check_alibi_bias,
            lambda q, k, slope: slope.view(-1, 1, 1) * (torch.arange(k) - torch.arange(k)[-q:].view(-1, 1)),
        ),
        (checks.check_buckets, buckets_one_by_one),
        (checks.check_buckets, buckets_by_logarithms),
        (checks.check_buckets, buckets),
        (rolling.check_keep_first, first_by_index),
        (
            rolling.check_keep_first,
            lambda m, s, mem_len, first: torch.stack(
                [
                    torch.cat([m, s], 2)[:, :, place]
                    for place in range(m.shape[2] + s.shape[2])
                    if place < first or place >= m.shape[2] + s.shape[2] - mem_len + first
                ],
                dim=2,
            ),
        ),
        (checks.check_slopes, lambda n: [(2 ** (-8 / n)) ** h for h in range(1, n + 1)]),
        (checks.check_slopes, lambda n: [1 / 2 ** (8 * h / n) for h in range(1, n + 1)]),
        (rolling.check_move_keys, lambda k, cached, wanted: rotate(rotate(k, -cached), wanted)),
        (rolling.check_move_keys, lambda k, cached, wanted: rotate(rotate(k, wanted), -cached)),
        (rolling.check_window_for, lambda reach, n: (reach + n - 1) // n + 1),
        (rolling.check_window_for, lambda reach, n: 1 + reach // n + (reach % n > 0)),
    ],
)
def test_a_right_answer_in_another_style_is_right(check, answer):
    assert check(answer).right, check(answer)


@pytest.mark.parametrize("blank", BLANKS)
def test_the_folded_solution_is_right_and_the_stub_is_blank(blank):
    PAGE.assert_folded_solution_is_right_and_stub_blank(blank, *BLANKS[blank])


@pytest.mark.parametrize("blank", BLANKS)
def test_every_named_mistake_is_told_by_its_own_sentence(blank, monkeypatch):
    check = BLANKS[blank][1]
    judges = sys.modules[check.__module__]

    def told(attempt):
        verdict = check(attempt)
        return judges.Verdict(verdict.right, verdict.message)

    assert_each_mistake_gets_its_own_sentence(told, judges, monkeypatch, wrong="nothing like it", least=5)


@pytest.mark.parametrize(
    ("check", "loop", "rows"),
    [
        (checks.check_rotate, rotate_by_rows, "positions"),
        (rotary.check_rotary_scores, scores_by_rows, "queries"),
        (rotary.check_clamped_scores, clamped_by_query, "queries"),
    ],
)
def test_a_loop_that_would_make_training_take_minutes_is_refused(check, loop, rows):
    assert f"right numbers, but the number of operations grows with the {rows}" in check(loop).message


def test_kept_first_tokens_are_checked_where_all_fits_and_where_nothing_new_is_kept():
    def without_the_length(memory, states, mem_len, first):
        both = torch.cat([memory, states], dim=2)
        return torch.cat([both[:, :, :first], both[:, :, -(mem_len - first) :]], dim=2)

    def without_the_zero(memory, states, mem_len, first):
        both = torch.cat([memory, states], dim=2)
        return both if both.shape[2] <= mem_len else without_the_length(memory, states, mem_len, first)

    assert "may be shorter than mem_len" in rolling.check_keep_first(without_the_length).message
    assert "[-0:] is everything" in rolling.check_keep_first(without_the_zero).message


def test_the_answers_of_the_predictions_are_the_measured_ones():
    worst, t5, repair, reach = checks.predictions.questions
    names = {kind: SYSTEMS[kind].positions for kind in STORED["gains"]}
    lost = {names[k]: max(g["four_times_the_memory"]["seeds"]) for k, g in STORED["gains"].items()}
    assert worst.answer == min(lost, key=lost.get)
    assert set(worst.choices) == set(names.values())
    assert t5.answer is (min(REPAIRS["memory_gain"]["t5_scaled"]["seeds"]) > 0)
    regained = {way: min(by_memory["128"]["seeds"]) for way, by_memory in REPAIRS["regained"].items()}
    named = dict(zip(("clamped", "interpolated", "base_raised"), repair.choices, strict=True))
    assert repair.answer == named[max(regained, key=regained.get)]
    assert reach.answer == 4 * (9 - 1)


@pytest.mark.parametrize("change", [("mem_len=W - 1", "mem_len=W - 2"), ("window=W)[0]", "window=W + 1)[0]")])
def test_a_cache_of_another_size_is_not_the_window_and_the_notebook_stops(change):
    with pytest.raises(AssertionError):
        PAGE.after_setup("ring", "ring-run", "rolling", "rolling-table", change=change, within="rolling")


def test_a_ring_of_another_size_is_not_the_window_and_the_notebook_stops():
    change = "torch.zeros(W, dim), torch.zeros(W, dim)", "torch.zeros(W + 1, dim), torch.zeros(W + 1, dim)"
    with pytest.raises(AssertionError):
        PAGE.after_setup("ring", "ring-run", change=change, within="ring-run")


def test_the_four_ways_agree_in_the_notebook():
    assert set(PAGE.after_setup("ring", "ring-run", "rolling", "reach")["four_ways"].values()) == {12}


def test_the_widget_draws_what_each_kind_adds_and_marks_the_distance(monkeypatch):
    monkeypatch.chdir(NOTEBOOKS)
    draw = PAGE.after_setup("rotate", "buckets", "rotary-picture", "bound", "widget")["draw"]
    (axes,) = draw(kind="ALiBi", head=2, distance=10).figure.axes
    line, mark = axes.lines[:2]
    assert line.get_ydata()[10] == pytest.approx(-10 * 2**-4)
    assert mark.get_xydata().tolist() == [[10, line.get_ydata()[10]]]
    assert "rotary, alike in every head" in draw(kind="rotary", head=1, distance=0).alt
    curves = [
        draw(kind=kind, head=head, distance=0).figure.axes[0].lines[0].get_ydata()
        for kind in ("T5", "Transformer-XL (d)")
        for head in (1, 2)
    ]
    assert all(len(set(curve)) > 1 for curve in curves)
    assert list(curves[2]) != list(curves[3])


def test_the_notebooks_term_d_is_that_of_the_trained_model(monkeypatch):
    monkeypatch.chdir(NOTEBOOKS)
    names = PAGE.after_setup("rotate", "buckets", "rotary-picture", "bound", "widget")
    attention, x = names["attention"], torch.zeros(1, 9, names["attention"].d_model)
    with torch.no_grad():
        d = attention.terms(x).d[0, :, -1]  # by key, for the last query
    torch.testing.assert_close(names["term_d"][:, :9].flip(1), d)


def test_the_picture_of_compressive_memory_counts_its_squares():
    drawn = later_pictures.compressive({"compressed": 2, "memory": 3, "segment": 1, "rate": 4})
    assert len(drawn.figure.axes[0].patches) == 6
    assert "2 compressed states stand for 8 old tokens" in drawn.alt


def test_arrows_turn_by_position_times_speed_and_far_reading_names_every_model():
    drawn = later_pictures.turned_arrows({"positions": range(4), "speeds": [1.0, 0.5]})
    assert [len(axes.texts) for axes in drawn.figure.axes] == [8, 8]  # an arrow and a number each
    assert "at 0.5 radians a position the last stands at 1.50" in drawn.alt
    bits = {"XL": [3.0, 3.1], "yours": [3.2, 3.9]}
    drawn = later_pictures.read_longer({"lengths": (32, 128), "trained": 32, "bits": bits})
    assert {text.get_text() for text in drawn.figure.axes[0].texts} == set(bits)
    assert (
        drawn.alt
        == "Test bits per character with [32, 128] characters of memory: XL 3.00, 3.10; yours 3.20, 3.90."
    )


def test_learned_biases_stand_before_the_range_that_adam_could_reach():
    series = {"one": [[0.0, 1.0], [0.5, 0.2]], "other": [[-2.0, 5.0], [3.0, 4.0]]}
    drawn = later_pictures.learned_bias({"series": series, "limit": 2.5})
    for head, axes in enumerate(drawn.figure.axes):
        assert [list(line.get_ydata()) for line in axes.lines] == [heads[head] for heads in series.values()]
        assert {line.get_color() for line in axes.lines} == {*SYSTEMS["t5_memory"].shades(2)}
    assert "one: 0.0 to 1.0; other: -2.0 to 5.0; grey: up to 2.5" in drawn.alt
