"""Notebook 02: its solutions, its checks, its pieces, its data and its widget."""

import re
from math import pi

import pytest
import torch
from page import Page

from minitxl.attention import MultiHeadAttention
from minitxl.course.checks import positions as checks
from minitxl.figures.positions.sinusoids import by_offset, changed
from minitxl.positions import sinusoids

PAGE = Page("02_positions")

CHECKS = {
    "my_sinusoids": checks.check_sinusoids,
    "move": checks.check_move,
    "my_pair": checks.check_alike,
}


@pytest.mark.parametrize("name", CHECKS)
def test_the_folded_solution_is_right_and_the_stub_not_yet(name):
    state = torch.get_rng_state()
    assert CHECKS[name](PAGE.solutions()[name]).right
    stub = next(
        source
        for source in PAGE.cells.values()
        if "check_" in source and re.search(rf"^(def )?{name}\b", source, re.MULTILINE)
    )
    names = {}
    exec(re.split(r"^check_", stub, flags=re.MULTILINE)[0], names)
    assert repr(CHECKS[name](names[name])).startswith("blank: there is nothing here yet")
    assert torch.equal(torch.get_rng_state(), state)


def angles(p, d, *, power=None):
    return torch.outer(p.float(), 10000.0 ** -(torch.arange(0, d, 2) / d if power is None else power))


def cat(angle):
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


def interleave(p, d):
    table = torch.empty(len(p), d)
    table[:, 0::2], table[:, 1::2] = angles(p, d).sin(), angles(p, d).cos()
    return table


def turn(rows, b):
    s, c = rows[:, : len(b)], rows[:, len(b) :]
    return torch.cat([s * b.cos() + c * b.sin(), c * b.cos() - s * b.sin()], dim=1)


def turn_neighbours(rows, k):
    b, result = k * 10000.0 ** (-torch.arange(0, rows.shape[1], 2) / rows.shape[1]), torch.empty_like(rows)
    s, c = rows[:, 0::2], rows[:, 1::2]
    result[:, 0::2], result[:, 1::2] = s * b.cos() + c * b.sin(), c * b.cos() - s * b.sin()
    return result


STUDENTS = {
    "my_sinusoids": {
        "interleaved": interleave,
        "cosines first": lambda p, d: torch.cat([angles(p, d).cos(), angles(p, d).sin()], dim=1),
        "is m / d_model": lambda p, d: cat(angles(p, d, power=torch.arange(d // 2) / d)),
        "is 4m / d_model": lambda p, d: cat(angles(p, d, power=torch.arange(0, d, 2) / (d // 2))),
        "exactly 1/10000": lambda p, d: cat(angles(p, d, power=torch.arange(d // 2) / (d // 2 - 1))),
        "frequencies grow": lambda p, d: cat(torch.outer(p.float(), 10000.0 ** (torch.arange(0, d, 2) / d))),
        "is p / ω": lambda p, d: cat(p[:, None] / 10000.0 ** (-torch.arange(0, d, 2) / d)),
        "degrees": lambda p, d: cat(angles(p, d).deg2rad()),
        "2π": lambda p, d: cat(2 * pi * angles(p, d)),
        "from 1": lambda p, d: cat(angles(p + 1, d)),
    },
    "move": {
        "wrong way": lambda rows, k: turn(rows, -k * angles(torch.ones(1), rows.shape[1])[0]),
        "rolled": lambda rows, k: torch.roll(rows, -k, 0),
        "same angle": lambda rows, k: turn(rows, k * torch.ones(rows.shape[1] // 2)),
        "added": lambda rows, k: rows + cat(angles(torch.tensor([k]), rows.shape[1])),
        "neighbouring": turn_neighbours,
    },
    "my_pair": {
        "same word twice": ("abc", "abc"),
        "last letters are c and a": ("abc", "cba"),
        "has the letter b": ("abc", "dac"),
        "of the second": ("aab", "abb"),
        "no order in a word": ("aa", "aaa"),
        "empty": ("", "a"),
        "nothing here": "abc",
    },
}


@pytest.mark.parametrize(
    ("name", "words"), [(name, words) for name, wrong in STUDENTS.items() for words in wrong]
)
def test_a_named_mistake_gets_its_own_sentence(name, words):
    verdict = CHECKS[name](STUDENTS[name][words])
    assert not verdict.right
    assert words in verdict.message
    others = {CHECKS[name](wrong).message for wrong in STUDENTS[name].values()}
    assert len(others) == len(STUDENTS[name])


@pytest.mark.parametrize("check", [checks.check_sinusoids, checks.check_move])
def test_each_mistake_of_a_check_gets_its_own_sentence(check, monkeypatch):
    seen, judge = {}, checks.judge
    monkeypatch.setattr(checks, "judge", lambda attempt, **all_: seen.update(all_) or judge(attempt, **all_))
    check(lambda *_: 0)
    assert len(seen["mistakes"]) >= 5
    for sentence, mistake in seen["mistakes"].items():
        assert check(mistake).message == sentence


@pytest.mark.parametrize("steps", [-3, 1, 12])
def test_the_rotation_of_the_check_is_the_sinusoids_further_on(steps):
    places = torch.tensor([4.0, 20.0, 9.0])
    moved = checks.rotated(sinusoids(places, 10), steps)
    torch.testing.assert_close(moved, sinusoids(places + steps, 10), rtol=0, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_words_that_the_check_calls_alike_are_so_to_the_package_and_no_others(seed):
    torch.manual_seed(seed)
    layer, vectors = MultiHeadAttention(8, 2, 4).double(), torch.randn(4, 8).double()

    def last(word):
        return layer(vectors[["abcd".index(letter) for letter in word]][None])[0, -1]

    pairs = [
        ("abc", "bac"),
        ("abab", "baab"),
        ("ab", "aabb"),
        ("abc", "cba"),
        ("aab", "abb"),
        ("abc", "dac"),
        ("aabc", "abbc"),
    ]
    for pair in pairs:
        assert torch.allclose(last(pair[0]), last(pair[1])) == checks.check_alike(pair).right


@pytest.mark.parametrize(
    ("cell", "old", "new"),
    [
        ("sinusoids-by-hand", "-2 * m / d_model", "-m / d_model"),
        (
            "sinusoids-by-hand",
            "result[row, m], result[row, half + m]",
            "result[row, 2 * m], result[row, 2 * m + 1]",
        ),
        ("bag", "weights @ values}", "weights @ values.cumsum(0)}"),
        ("shares", '("ab", "aabb")', '("ab", "aab")'),
        ("count", "clock.W_v.weight.fill_(1.0)", "clock.W_v.weight.fill_(2.0)"),
    ],
)
def test_a_hand_built_piece_is_right_or_the_notebook_stops(cell, old, new):
    cells = dict.fromkeys(["shares", cell])
    PAGE.after_setup(*cells)
    with pytest.raises(AssertionError):
        PAGE.after_setup(*cells, change=(old, new), within=cell)


def test_the_two_sums_in_the_frames_are_those_of_attention_and_equal():
    names = PAGE.after_setup("bag")
    sums = [torch.tensor(names["shown"][name])[0] for name in names["framed"]]
    head, letters = names["head"], names["letters"]
    with torch.no_grad():
        head.W_v.weight.copy_(torch.eye(4))
        head.W_o.weight.copy_(torch.eye(4))
        for found, word in zip(sums, ("AcB?", "BcA?"), strict=True):
            x = letters[["ABc?".index(letter) for letter in word]][None]
            torch.testing.assert_close(found, head.attend(x)[0, -1])
    torch.testing.assert_close(*sums)
    first, second = (weights for name, weights in names["shown"].items() if name.endswith("weights"))
    assert first != second


def test_a_word_and_its_swap_hold_the_same_tokens_and_opposite_answers():
    names = PAGE.after_setup("task")
    tokens, answers = names["words"](50, torch.Generator().manual_seed(1))
    other = names["swapped"](tokens)
    assert torch.equal(tokens.sort(dim=1).values, other.sort(dim=1).values)
    a_first = tokens.eq(names["A"]).int().argmax(1) < tokens.eq(names["B"]).int().argmax(1)
    assert torch.equal(a_first.long(), answers)
    swapped_first = other.eq(names["A"]).int().argmax(1) < other.eq(names["B"]).int().argmax(1)
    assert torch.equal(swapped_first.long(), 1 - answers)
    assert tokens[:, -1].eq(names["ASK"]).all()


def test_a_fresh_model_is_moved_by_a_swap_where_the_notebook_says():
    PAGE.after_setup("task", "models", "where", "where-conclusion")


@pytest.mark.parametrize("shift", [1, 16, 64])
def test_the_widget_draws_what_the_package_computes(shift):
    names = PAGE.after_setup("widget-parts", "widget")
    layer, letters = names["absolute"], names["letters"]
    length, width = letters.shape[1:]
    expected = {}
    for start in (0, shift):
        P = sinusoids(torch.arange(start, start + length), width)
        expected[start] = {
            "added": layer.attention_weights(letters + P)[0, 0],
            "no positions": layer.attention_weights(letters)[0, 0],
            "P·P alone": (P @ P.T / width**0.5 - torch.ones(length, length).triu(1) * 1e9).softmax(-1),
            "P W·P W alone": layer.attention_weights(P[None])[0, 0],
            "distances": names["relative"].attention_weights(letters)[0, 0],
        }
    for kind in names["KINDS"]:
        drawn = names["shift_word"](shift, kind)
        before, after, curve, _ = drawn.figure.axes
        for axes, start in ((before, 0), (after, shift)):
            shown = torch.tensor(axes.images[0].get_array().filled(0).tolist())
            torch.testing.assert_close(shown, expected[start][kind])
        change = (expected[shift][kind] - expected[0][kind]).abs().max().item()
        assert curve.lines[1].get_ydata()[0] == pytest.approx(change, abs=1e-6)
        assert f"at most {change:.2f}" in drawn.alt


def test_the_key_figure_draws_its_data():
    found = {"mean": [2.0, 1.0], "low": [1.5, 0.5], "high": [2.5, 31.5], "spread": 31.0}
    drawn = by_offset({"panels": {"raw": found}, "offset": [0, 1], "places": 4})
    axes = drawn.figure.axes[0]
    assert axes.lines[0].get_ydata().tolist() == found["mean"]
    edge = {tuple(point) for point in axes.collections[0].get_paths()[0].vertices.tolist()}
    assert {(0, 1.5), (1, 0.5), (0, 2.5), (1, 31.5)} <= edge
    assert "raw: 31" in drawn.alt


def test_a_place_that_does_not_change_is_marked_zero():
    drawn = changed({"changes": {"causal": [1e-17, 2.0, 0.5]}, "first": 0, "second": 1, "rounding": 1e-9})
    axes = drawn.figure.axes[0]
    assert [bar.get_height() for bar in axes.patches] == [1e-17, 2.0, 0.5]
    assert [text.get_text() for text in axes.texts] == ["0"]
    assert "moves at 2 places of 3" in drawn.alt
