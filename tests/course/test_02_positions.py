"""Notebook 02: its solutions, its checks, its pieces, its data and its widget."""

import re
from math import pi

import pytest
import torch
from page import Page

from minitxl.attention import MultiHeadAttention
from minitxl.course.checks import positions as checks
from minitxl.figures.positions.sinusoids import by_distance, changed
from minitxl.position_encodings import sinusoids

PAGE = Page("02_positions")

CHECKS = {
    "sinusoids": checks.check_sinusoids,
    "move": checks.check_move,
    "my_pair": checks.check_alike,
    "twin": checks.check_twin,
}


@pytest.mark.parametrize("name", CHECKS)
def test_the_folded_solution_is_right_and_the_stub_is_blank(name):
    state = torch.get_rng_state()
    assert CHECKS[name](PAGE.solutions()[name]).right
    stub = next(
        source
        for source in PAGE.cells.values()
        if "check_" in source and re.search(rf"^(def {name}\b|{name} = \()", source, re.MULTILINE)
    )
    names = {}
    exec(re.split(r"^(?:check_|\w+ = use\()", stub, flags=re.MULTILINE)[0], names)
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


def signed(rows, k, first, second):
    (s, c), b = rows.chunk(2, dim=1), k * angles(torch.ones(1), rows.shape[1])[0]
    return torch.cat([s * b.cos() + first * c * b.sin(), c * b.cos() + second * s * b.sin()], dim=1)


def far(d):
    rows = cat(angles(torch.arange(2000), d))
    return (rows[1:] - rows[0]).norm(dim=1)


def near(d, within):
    return [p + 1 for p, distance in enumerate(far(d).tolist()) if distance < within]


STUDENTS = {
    "sinusoids": {
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
        "not taken from the argument": lambda p, d: cat(angles(torch.arange(len(p)), d)),
        "a row for each position": lambda p, d: cat(angles(p, d)).mT,
    },
    "move": {
        "as they came": lambda rows, k: rows.clone(),
        "steps has no part": lambda rows, k: turn(rows, angles(torch.ones(1), rows.shape[1])[0]),
        "wrong way": lambda rows, k: turn(rows, -k * angles(torch.ones(1), rows.shape[1])[0]),
        "rolled": lambda rows, k: torch.roll(rows, -k, 0),
        "same angle": lambda rows, k: turn(rows, k * torch.ones(rows.shape[1] // 2)),
        "added": lambda rows, k: rows + cat(angles(torch.tensor([k]), rows.shape[1])),
        "neighbouring": turn_neighbours,
        "the sign in the cosine": lambda rows, k: signed(rows, k, 1, 1),
        "the sign in the sine": lambda rows, k: signed(rows, k, -1, -1),
        "every second column": lambda rows, k: turn(
            torch.cat([rows[:, ::2], rows[:, 1::2]], dim=1), k * angles(torch.ones(1), rows.shape[1])[0]
        ),
        "exchanged in the result": lambda rows, k: torch.cat(
            turn(rows, k * angles(torch.ones(1), rows.shape[1])[0]).chunk(2, dim=1)[::-1], dim=1
        ),
    },
    "my_pair": {
        "same word twice": ("abc", "abc"),
        "last letters are c and a": ("abc", "cba"),
        "has the letter b": ("abc", "dac"),
        "of the second": ("aab", "abb"),
        "no order in a word": ("aa", "aaa"),
        "empty": ("", "a"),
        "not 'abc'": "abc",
        "not 3": ("ab", "ba", "ab"),
    },
    "twin": {
        "its own nearest": lambda d, within: 0,
        "one too few": lambda d, within: near(d, within)[0] - 1,
        "one too many": lambda d, within: near(d, within)[0] + 1,
        "nearest of all": lambda d, within: int(far(d).argmin()) + 1,
        "*farther*": lambda d, within: int((far(d) >= within).nonzero()[0]) + 1,
        "only the sine": lambda d, within: (
            int((angles(torch.arange(1, 2000), d).sin()[:, 0].abs() < within).nonzero()[0]) + 1
        ),
    },
}


RIGHT = {
    "sinusoids": [lambda p, d: cat(angles(p, d)), lambda p, d: sinusoids(p.double(), d).float()],
    "move": [
        lambda rows, k: turn(rows, k * angles(torch.ones(1), rows.shape[1])[0]),
        lambda rows, k: signed(rows, k, 1, -1),
    ],
    "my_pair": [["abc", "bac"], ("ab", "aabb")],
    "twin": [lambda d, within: near(d, within)[0], lambda d, within: float(near(d, within)[0])],
}


@pytest.mark.parametrize(("name", "number"), [(name, i) for name in RIGHT for i in range(2)])
def test_a_right_answer_in_another_style_is_accepted(name, number):
    assert CHECKS[name](RIGHT[name][number]).right


@pytest.mark.parametrize(
    ("name", "words"), [(name, words) for name, wrong in STUDENTS.items() for words in wrong]
)
def test_a_named_mistake_gets_its_own_sentence(name, words):
    verdict = CHECKS[name](STUDENTS[name][words])
    assert not verdict.right
    assert words in verdict.message
    others = {CHECKS[name](wrong).message for wrong in STUDENTS[name].values()}
    assert len(others) == len(STUDENTS[name])


@pytest.mark.parametrize("check", [checks.check_sinusoids, checks.check_move, checks.check_twin])
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


def test_the_two_sums_are_compared_or_the_notebook_stops():
    PAGE.after_setup("bag")
    with pytest.raises(AssertionError):
        PAGE.after_setup("bag", change=("weights @ values}", "weights @ values.cumsum(0)}"), within="bag")


def test_the_notebook_runs_on_the_learners_sinusoids_if_they_are_right_and_on_the_packages_if_not():
    for given, used in ((lambda p, d: cat(angles(p, d)), True), (lambda p, d: cat(angles(p + 1, d)), False)):
        filled = PAGE.cells["sinusoids-stub"].replace(
            "raise NotImplementedError  # your lines here", "return theirs(positions, d_model)"
        )
        names = PAGE.run("setup", filled, theirs=given)
        assert (names["sinusoids"] is not sinusoids) == used


def test_the_two_sums_in_the_frames_are_those_of_attention_and_equal():
    names = PAGE.after_setup("bag")
    sums = [torch.tensor(names["shown"][name])[0] for name in names["framed"]]
    head, letters = names["head"], names["letters"]
    with torch.no_grad():
        head.W_v.weight.copy_(torch.eye(4))
        head.W_o.weight.copy_(torch.eye(4))
        for found, word in zip(sums, ("AcB?", "BcA?"), strict=True):
            x = letters[["ABc?".index(letter) for letter in word]][None]
            torch.testing.assert_close(found, head.context_output(x)[0, -1])
    torch.testing.assert_close(*sums)
    first, second = (weights for name, weights in names["shown"].items() if name.endswith("weights"))
    assert first != second


def test_a_word_and_its_exchange_hold_the_same_tokens_and_opposite_answers():
    names = PAGE.after_setup("task")
    tokens, answers = names["words"](50, torch.Generator().manual_seed(1))
    other = names["exchanged"](tokens)
    assert torch.equal(tokens.sort(dim=1).values, other.sort(dim=1).values)
    a_first = tokens.eq(names["A"]).int().argmax(1) < tokens.eq(names["B"]).int().argmax(1)
    assert torch.equal(a_first.long(), answers)
    swapped_first = other.eq(names["A"]).int().argmax(1) < other.eq(names["B"]).int().argmax(1)
    assert torch.equal(swapped_first.long(), 1 - answers)
    assert tokens[:, -1].eq(names["ASK"]).all()


def test_a_fresh_model_is_moved_by_an_exchange_where_the_notebook_says():
    PAGE.after_setup("task", "models", "train-parts", "where")


@pytest.mark.parametrize(("distance", "shift"), [(0, 0), (3, 10), (20, 60)])
def test_the_widget_draws_what_the_package_computes(distance, shift):
    names = PAGE.after_setup("sinusoids-stub", "widget-parts")
    drawn = names["two_positions"](distance, shift)
    *dials, rest, below = drawn.figure.axes
    number = names["HANDS"]
    i, j = sinusoids(torch.tensor([shift + distance, shift]), 2 * number)
    slower = [*range(len(dials), number), *range(number + len(dials), 2 * number)]
    assert f"together {(i * j)[slower].sum():.2f}" in rest.texts[0].get_text()
    for hand, axes in enumerate(dials):
        tips = [(line.get_xdata()[1], line.get_ydata()[1]) for line in axes.lines]
        cosines = [row[number + hand].item() for row in (i, j)]
        assert tips == [
            pytest.approx(tip) for tip in zip((i[hand].item(), j[hand].item()), cosines, strict=True)
        ]
        assert axes.get_xlabel() == f"cos {i[hand] * j[hand] + cosines[0] * cosines[1]:.2f}"
    raw, _, projected, _ = (line.get_ydata() for line in below.lines)
    assert raw[shift] == pytest.approx((i @ j).item(), abs=1e-4)
    expected = (i @ names["W_q"]) @ (j @ names["W_k"])
    assert projected[shift] == pytest.approx(expected.item(), abs=1e-4)
    assert f"in all {(i @ j).item():.2f}" in drawn.alt


def test_the_key_figure_draws_its_data():
    found = {"mean": [2.0, 1.0], "low": [1.5, 0.5], "high": [2.5, 31.5], "spread": 31.0}
    drawn = by_distance({"panels": {"raw": found}, "distance": [0, 1], "positions": 4})
    axes = drawn.figure.axes[0]
    assert axes.lines[0].get_ydata().tolist() == found["mean"]
    edge = {tuple(point) for point in axes.collections[0].get_paths()[0].vertices.tolist()}
    assert {(0, 1.5), (1, 0.5), (0, 2.5), (1, 31.5)} <= edge
    assert "raw: 31" in drawn.alt


def test_a_prediction_is_answered_on_its_own_merits():
    answers = {question.name: question.answer for question in checks.predictions.questions}
    assert answers.keys() == PAGE.run("prediction")["my_predictions"].keys()
    assert [name for name, learns in answers.items() if not learns] == PAGE.run("train-parts")["BLIND"]
    for question in checks.predictions.questions:
        assert question.judge(question.answer).right
        assert not question.judge(not question.answer).right
        assert question.judge(str(question.answer)).blank
        assert "without quotes" in question.judge(str(question.answer)).message


def test_a_position_that_does_not_change_is_marked_zero():
    drawn = changed({"changes": {"causal": [1e-17, 2.0, 0.5]}, "first": 0, "second": 1, "rounding": 1e-9})
    axes = drawn.figure.axes[0]
    assert [bar.get_height() for bar in axes.patches] == [1e-17, 2.0, 0.5]
    assert [text.get_text() for text in axes.texts] == ["0"]
    assert "moves at 2 positions of 3" in drawn.alt
