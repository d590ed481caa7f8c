"""Notebook 09 and its checks."""

import pytest
import torch
from page import Page
from torch.nn.functional import pad

from minitxl.attention import attention_mask
from minitxl.course.checks import shift as checks
from minitxl.figures.positions.query_key_grid import numbered
from minitxl.figures.positions.shift import ON_A_PAGE, products
from minitxl.position_encodings import distances
from minitxl.relative_shift import rel_shift

PAGE = Page("09_relative_shift")
BLANKS = {
    "shift": ("shift-text", checks.check_rel_shift),
    "exercise-1-code": ("exercise-1", checks.check_ascending),
    "exercise-2-code": ("exercise-2", checks.check_two_sided),
    "exercise-3-code": ("exercise-3", checks.check_banded),
}


def by_loop(scores):
    n_query, n_key = scores.shape[-2:]
    shifted = torch.full_like(scores, 7.0)
    for i in range(n_query):
        for j in range(n_key - n_query + i + 1):
            shifted[..., i, j] = scores[..., i, j + n_query - 1 - i]
    return shifted


def as_the_original(scores):
    n_query, n_key = scores.shape[-2:]
    tall = pad(scores, (1, 0)).reshape(*scores.shape[:-2], n_key + 1, n_query)
    return tall[..., 1:, :].reshape(scores.shape)


def by_index(scores):
    n_query, n_key = scores.shape[-2:]
    column = torch.arange(n_key) + n_query - 1 - torch.arange(n_query)[:, None]
    return scores.gather(-1, column.clamp(max=n_key - 1).expand_as(scores))


def two_sides_by_stack(scores):
    n_query, n_dist = scores.shape[-2:]
    rows = [scores[..., i, n_query - 1 - i :][..., : n_dist - n_query + 1] for i in range(n_query)]
    return torch.stack(rows, dim=-2)


def two_sides_by_index(scores):
    n_query, n_dist = scores.shape[-2:]
    column = torch.arange(n_dist - n_query + 1) + n_query - 1 - torch.arange(n_query)[:, None]
    return scores.gather(-1, column.expand(*scores.shape[:-2], *column.shape))


def band_by_loop(scores):
    n_query, window = scores.shape[-2:]
    result = torch.zeros(*scores.shape[:-1], window + n_query - 1)
    for i in range(n_query):
        result[..., i, i : i + window] = scores[..., i, :]
    return result


def band_by_index(scores):
    n_query, window = scores.shape[-2:]
    n_key = window + n_query - 1
    column = torch.arange(n_key) - torch.arange(n_query)[:, None]
    inside = (column >= 0) & (column < window)
    index = column.clamp(0, window - 1).expand(*scores.shape[:-1], n_key)
    return scores.gather(-1, index).where(inside, 0.0)


def band_as_a_view(scores):
    n_query, window = scores.shape[-2:]
    wide = pad(scores, (0, n_query)).flatten(-2)[..., : n_query * (n_query + window - 1)]
    return wide.reshape(*scores.shape[:-1], n_query + window - 1)


@pytest.mark.parametrize(
    ("check", "answer"),
    [
        (checks.check_rel_shift, as_the_original),
        (checks.check_rel_shift, by_index),
        (checks.check_ascending, lambda scores: by_loop(scores.flip(-1))),
        (checks.check_ascending, lambda scores: as_the_original(scores[..., range(scores.shape[-1])[::-1]])),
        (checks.check_two_sided, two_sides_by_stack),
        (checks.check_two_sided, two_sides_by_index),
        (checks.check_banded, band_by_index),
        (checks.check_banded, band_as_a_view),
    ],
)
def test_a_right_answer_in_another_style_is_right(check, answer):
    assert check(answer).right, check(answer)


def by_rows(scores):
    n_query = scores.shape[-2]
    rows = [pad(scores[..., i, n_query - 1 - i :], (0, n_query - 1 - i)) for i in range(n_query)]
    return torch.stack(rows, dim=-2)


def band_by_roll(scores):
    wide = pad(scores, (0, scores.shape[-2] - 1))
    return torch.stack([row.roll(i, dims=-1) for i, row in enumerate(wide.unbind(-2))], dim=-2)


@pytest.mark.parametrize(
    ("check", "loop"),
    [
        (checks.check_rel_shift, by_loop),
        (checks.check_rel_shift, by_rows),
        (checks.check_banded, band_by_loop),
        (checks.check_banded, band_by_roll),
    ],
)
def test_right_numbers_by_a_loop_over_the_queries_are_not_yet_right(check, loop):
    verdict = check(loop)
    assert verdict.word == "not yet"
    assert "right numbers, but the number of operations grows with the queries" in verdict.message


def test_the_loop_that_the_notebook_shows_is_refused_as_the_shift():
    loop = PAGE.run("loop", product=torch.zeros(2, 3), wanted=torch.zeros(2, 3))["shift_by_loop"]
    assert not checks.check_rel_shift(loop).right
    assert not checks.check_rel_shift(lambda scores: loop(scores)).right


@pytest.mark.parametrize("blank", BLANKS)
def test_the_folded_solution_is_right_and_the_stub_is_blank(blank):
    PAGE.assert_folded_solution_is_right_and_stub_blank(blank, *BLANKS[blank], shift=rel_shift)


def of_line(scores, start, *, sides=(1, 0)):
    n_query, n_key = scores.shape[-2:]
    line = pad(scores, sides).flatten(-2)[..., start : start + n_query * n_key]
    return line.unflatten(-1, (n_query, n_key))


def rest_of_line(scores, start):
    return pad(scores, (1, 0)).flatten(-2)[..., start:].unflatten(-1, scores.shape[-2:])


def square(scores):
    n_key = scores.shape[-1]
    return pad(scores, (1, 0)).flatten(-2).unflatten(-1, (n_key + 1, n_key))[..., 1:, :]


def rolled(scores, step):
    rows = [scores[..., i, :].roll(step(i, scores.shape[-2]), dims=-1) for i in range(scores.shape[-2])]
    return torch.stack(rows, dim=-2)


def n_key(scores):
    return scores.shape[-1] - scores.shape[-2] + 1


def band_with_zeros_in_front(scores):
    n_query = scores.shape[-2]
    return pad(scores, (n_query, 0)).flatten(-2)[..., :-n_query].unflatten(-1, (n_query, -1))


def band_without_its_start(scores):
    n_query = scores.shape[-2]
    return pad(scores, (0, n_query)).flatten(-2)[..., n_query:].unflatten(-1, (n_query, -1))


@pytest.mark.parametrize(
    ("check", "wrong", "sentence"),
    [
        (checks.check_rel_shift, lambda s: of_line(s, s.shape[-2], sides=(0, 1)), "on the wrong side"),
        (checks.check_rel_shift, lambda s: of_line(s, 0), "wrong end is sliced"),
        (checks.check_rel_shift, lambda s: pad(s, (1, 0))[..., 1:, :], "row of the padded matrix"),
        (checks.check_rel_shift, square, "query = key alone"),
        (checks.check_rel_shift, lambda s: of_line(s, 1), "one entry is dropped"),
        (checks.check_rel_shift, lambda s: of_line(s, s.shape[-2] - 1), "query - 1 entries are dropped"),
        (checks.check_rel_shift, lambda s: rest_of_line(s, s.shape[-2] - 1), "query - 1 entries are dropped"),
        (checks.check_rel_shift, lambda s: rest_of_line(s, s.shape[-2] + 1), "query + 1 entries are dropped"),
        (checks.check_rel_shift, lambda s: s.flatten(-2)[..., s.shape[-2] :].view(s.shape), "zero column is"),
        (
            checks.check_rel_shift,
            lambda s: s.flatten(-2)[..., s.shape[-2] :].unflatten(-1, (s.shape[-2], -1)),
            "the zero column is missing",
        ),
        (checks.check_rel_shift, lambda s: s.no_such_method(), "it raised AttributeError"),
        (checks.check_rel_shift, lambda s: s.roll(1 - s.shape[-2], dims=-1), "moved alike"),
        (checks.check_rel_shift, lambda s: rolled(s, lambda i, n: n - 1 - i), "move the wrong way"),
        (checks.check_rel_shift, lambda s: rolled(s, lambda i, n: -i), "moves left by i"),
        (checks.check_rel_shift, lambda s: rolled(s, lambda i, n: i - n), "off by one"),
        (checks.check_rel_shift, lambda s: as_the_original(s.flip(-1)), "read backwards"),
        (checks.check_rel_shift, lambda s: s.clone(), "nothing has moved"),
        (checks.check_rel_shift, lambda s: 2 * by_loop(s), "scores = [[0, 1, 2, 3], [4, 5, 6, 7]]"),
        (checks.check_ascending, rel_shift, "still in their old order"),
        (checks.check_ascending, lambda s: rel_shift(s).flip(-1), "turned round after the shift"),
        (checks.check_ascending, lambda s: rel_shift(s.flip(-2)), "queries are turned round"),
        (checks.check_ascending, lambda s: s.flip(-1), "nothing is shifted"),
        (checks.check_ascending, lambda s: s.clone(), "nothing has moved"),
        (checks.check_ascending, lambda s: rel_shift(s.flip(-1)) + 1, "first difference at"),
        (checks.check_two_sided, lambda s: rel_shift(s[..., : n_key(s)]), "before the shift"),
        (checks.check_two_sided, lambda s: rel_shift(s)[..., s.shape[-2] - 1 :], "the first of the shifted"),
        (checks.check_two_sided, rel_shift, "but the width"),
        (checks.check_two_sided, lambda s: s[..., : n_key(s)], "cut and not shifted"),
        (checks.check_two_sided, lambda s: rel_shift(s)[..., : n_key(s) - 1], "one column too few"),
        (checks.check_banded, lambda s: pad(s, (0, s.shape[-2] - 1)), "rows have not moved"),
        (checks.check_banded, lambda s: band_by_loop(s.flip(-2)).flip(-2), "the wrong way"),
        (checks.check_banded, band_with_zeros_in_front, "zeros stand in front"),
        (checks.check_banded, band_without_its_start, "it is the end that must go"),
        (checks.check_banded, lambda s: band_by_loop(s.flip(-1)), "read backwards"),
        (checks.check_banded, lambda s: s, "you returned the shape"),
    ],
)
def test_a_wrong_answer_is_told_what_is_wrong(check, wrong, sentence):
    before = torch.get_rng_state()
    verdict = check(wrong)
    assert not verdict.right
    assert sentence in verdict.message
    assert torch.equal(torch.get_rng_state(), before)


def test_the_answers_of_the_predictions_are_what_the_package_computes():
    saved, corner, _ = checks.predictions.questions
    assert saved.answer == (512 * 1024) // len(distances(1024))
    assert corner.answer == rel_shift(torch.arange(15.0).reshape(3, 5))[0, -1]


def test_the_cells_below_the_blank_run_on_the_readers_shift_if_it_is_right():
    blank = PAGE.cells["shift"]
    mine = blank.replace("raise NotImplementedError", "return by_index(scores)")
    assert mine != blank
    names = PAGE.run(mine, by_index=by_index)
    assert names["shift"] is not rel_shift
    assert PAGE.run(blank.replace("raise NotImplementedError", "return -scores"))["shift"] is rel_shift
    cells = "setup", "two-ways", "not-the-mask", "whole"
    by_distance = PAGE.run(*cells, shift=names["shift"])["by_distance"]
    assert by_distance.shape == (1, 4, 1, 21)


def test_vectors_are_counted_for_each_pair_and_for_each_distance():
    names = PAGE.run("setup", "two-ways", "count")
    counted = {"keys": names["sizes"]} | names["counted"]
    assert counted["pair"] == [key * key // 2 for key in counted["keys"]]
    assert counted["distance"] == counted["keys"]
    (axes,) = products(counted).figure.axes
    assert [list(line.get_ydata()) for line in axes.lines] == [counted["pair"], counted["distance"]]


@pytest.mark.parametrize(("query", "memory"), [(3, 2), (4, 0), (1, 3), (2, 1)])
def test_the_stepper_shows_what_the_package_computes(query, memory):
    names, key = PAGE.run("setup", "frames", "widget"), memory + query
    (axes,) = names["stepper"](query, memory).figure.axes
    words = [text.get_text().replace("\n", " ") for text in axes.texts]
    label = {t: f"q{(t - 1) // key} d{key - 1 - (t - 1) % key}" for t in range(1, query * key + 1)} | {0: "0"}
    tickets = torch.arange(1.0, query * key + 1).reshape(query, key)
    seen = attention_mask(query, key).flatten().tolist()
    shifted = [label[int(t)] for t in rel_shift(tickets).flatten()]
    padded = [label[int(t)] for t in pad(tickets, (1, 0)).flatten()]
    assert words == [
        *(label[int(t)] for t in tickets.flatten()),
        "the product",
        *padded,
        "1. a zero in front of each row",
        *padded,
        f"2. one line; its first {query} go" + " (wrapped)" * (len(padded) > ON_A_PAGE),
        *shifted,
        f"3. rows of {key} again",
        *(word if see else "" for word, see in zip(shifted, seen, strict=True)),
        "with the mask",
    ]
    assert sum(bool(box.get_hatch()) for box in axes.patches) == seen.count(False)
    assert len(axes.lines) == query  # a stroke through each entry that is dropped


def test_the_pictures_of_distances_hold_what_the_shift_puts_in_place():
    names = PAGE.run("setup", "pairs-picture", "misplaced-picture")
    before, pairs = torch.tensor(names["before"]["numbers"]), names["pairs"]
    query, key = before.shape
    assert torch.equal(before, distances(key).expand(query, key))
    seen, moved = attention_mask(query, key)[0], rel_shift(before.float())
    wanted = [
        [number if see else None for number, see in zip(*rows, strict=True)]
        for rows in zip(moved.tolist(), seen.tolist(), strict=True)
    ]
    assert pairs["numbers"] == wanted
    assert names["seen"] == seen.sum()
    assert names["before"]["notes"] == [f"← by {query - 1 - i}" for i in range(query)]
    for panel in (pairs, names["before"], names["once"]):
        assert {panel["numbers"][row][column] for row, column in panel["framed"]} == {3}


def test_a_picture_of_pairs_writes_each_number_and_hatches_the_future():
    panels = {"one": {"numbers": [[1, 0, None], [2, 1, 0]], "rows": "query", "columns": "key", "mem_len": 1}}
    picture = numbered({"panels": panels})
    (axes,) = picture.figure.axes
    assert [words.get_text() for words in axes.texts if words.get_text()] == ["1", "0", "2", "1", "0"]
    assert [bool(box.get_hatch()) for box in axes.patches] == [False, False, True, False, False, False]
    assert list(axes.lines[0].get_xdata()) == [1, 1]
    assert "one: 1 0 –, 2 1 0." in picture.alt
