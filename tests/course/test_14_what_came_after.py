"""Notebook 14 and its checks."""

from math import log

import pytest
import torch
from page import NOTEBOOKS, Page, assert_each_mistake_gets_its_own_sentence

from minitxl.course.checks import later as checks
from minitxl.experiments import results
from minitxl.figures.positions import later
from minitxl.later_attention import T5Attention, rotate

PAGE = Page("14_what_came_after")
STORED = results.read(NOTEBOOKS.parent / "figures" / "later_positions.json").data
BLANKS = {
    "rotate": ("rotate-text", checks.check_rotate),
    "alibi": ("alibi-text", checks.check_alibi_bias),
    "buckets": ("buckets-text", checks.check_buckets),
    "keep-first": ("sinks-text", checks.check_keep_first),
    "exercise-1-code": ("exercise-1", checks.check_slopes),
    "exercise-2-code": ("exercise-2", checks.check_move_keys),
    "exercise-3-code": ("exercise-3", checks.check_window_for),
}


def rotate_by_complex_numbers(x, positions):
    half = x.shape[-1] // 2
    speeds = 10000.0 ** (-torch.arange(half) / half)
    turns = torch.polar(torch.ones(len(positions), half), positions[:, None] * speeds)
    turned = torch.complex(x[..., :half], x[..., half:]) * turns
    return torch.cat([turned.real, turned.imag], dim=-1)


def rotate_by_matrices(x, positions):
    half = x.shape[-1] // 2
    out = torch.empty_like(x)
    for place, position in enumerate(positions.tolist()):
        for m in range(half):
            angle = torch.tensor(position * 10000 ** (-m / half))
            matrix = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()]).reshape(2, 2)
            out[:, :, place, [m, m + half]] = x[:, :, place, [m, m + half]] @ matrix.T
    return out


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


@pytest.mark.parametrize(
    ("check", "answer"),
    [
        (checks.check_rotate, rotate_by_complex_numbers),
        (checks.check_rotate, rotate_by_matrices),
        (checks.check_alibi_bias, bias_by_loop),
        (
            checks.check_alibi_bias,
            lambda q, k, slope: slope.view(-1, 1, 1) * (torch.arange(k) - torch.arange(k)[-q:].view(-1, 1)),
        ),
        (checks.check_buckets, buckets_one_by_one),
        (checks.check_buckets, buckets_by_logarithms),
        (checks.check_buckets, lambda d, n, last: T5Attention(2, 1, 2, n, last).buckets(d)),
        (checks.check_keep_first, first_by_index),
        (
            checks.check_keep_first,
            lambda m, s, mem_len, first: torch.cat(
                [m[:, :, :first], torch.cat([m, s], 2).flip(2)[:, :, : mem_len - first].flip(2)], dim=2
            ),
        ),
        (checks.check_slopes, lambda n: [(2 ** (-8 / n)) ** h for h in range(1, n + 1)]),
        (checks.check_slopes, lambda n: [1 / 2 ** (8 * h / n) for h in range(1, n + 1)]),
        (checks.check_move_keys, lambda k, cached, wanted: rotate(rotate(k, -cached), wanted)),
        (checks.check_move_keys, lambda k, cached, wanted: rotate(rotate(k, wanted), -cached)),
        (checks.check_window_for, lambda reach, n: (reach + n - 1) // n + 1),
        (checks.check_window_for, lambda reach, n: 1 + reach // n + (reach % n > 0)),
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

    def told(attempt):
        verdict = check(attempt)
        return checks.Verdict(verdict.right, verdict.message)

    assert_each_mistake_gets_its_own_sentence(told, checks, monkeypatch, wrong="nothing like it", least=5)


def test_the_answers_of_the_predictions_are_the_measured_ones():
    best, worst, reach = checks.predictions.questions
    longer = {
        later.NAMES[kind]: STORED["systems"][f"{kind}_memory"]["by_memory"][2]["bits"]["seeds"]
        for kind in STORED["gains"]
    }
    for seed in range(3):
        assert best.answer == min(longer, key=lambda kind: longer[kind][seed])
    lost = {later.NAMES[k]: max(g["four_times_the_memory"]["seeds"]) for k, g in STORED["gains"].items()}
    assert worst.answer == min(lost, key=lost.get)
    assert set(best.choices) == set(later.NAMES.values())
    assert reach.answer == 4 * (9 - 1)


@pytest.mark.parametrize("change", [("mem_len=W - 1", "mem_len=W - 2"), ("window=W)[0]", "window=W + 1)[0]")])
def test_a_cache_of_another_size_is_not_the_window_and_the_notebook_stops(change):
    with pytest.raises(AssertionError):
        PAGE.after_setup("rolling", change=change, within="rolling")


def test_the_four_ways_agree_in_the_notebook():
    assert set(PAGE.after_setup("rolling", "reach")["four_ways"].values()) == {12}


def test_the_widget_draws_what_each_kind_adds_and_marks_the_distance():
    draw = PAGE.after_setup("rotate", "buckets", "rotary-picture", "widget")["draw"]
    (axes,) = draw(kind="ALiBi", head=2, distance=10).figure.axes
    line, mark = axes.lines[:2]
    assert line.get_ydata()[10] == pytest.approx(-10 * 2**-4)
    assert mark.get_xydata().tolist() == [[10, line.get_ydata()[10]]]
    assert "rotary" in draw(kind="rotary", head=1, distance=0).alt


def test_the_picture_of_compressive_memory_counts_its_squares():
    drawn = later.compressive({"compressed": 2, "memory": 3, "segment": 1, "rate": 4})
    assert len(drawn.figure.axes[0].patches) == 6
    assert "2 compressed states stand for 8 old tokens" in drawn.alt
