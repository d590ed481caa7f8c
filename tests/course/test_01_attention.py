"""Notebook 01: its solutions, its checks, its pieces and its widget."""

from itertools import chain
from math import sqrt

import pytest
import torch
from page import Page

from minitxl.attention import MultiHeadAttention
from minitxl.course.checks import attention as checks
from minitxl.figures.attention.heads import maps, matrices

PAGE = Page("01_attention")

CHECKS = {
    "split_heads": checks.check_split,
    "merge_heads": checks.check_merge,
    "causal_mask": checks.check_causal_mask,
    "masked_weights": checks.check_masked_weights,
}


@pytest.mark.parametrize("name", CHECKS)
def test_the_folded_solution_is_right_and_the_stub_not_yet(name):
    state = torch.get_rng_state()
    assert CHECKS[name](PAGE.solutions()[name]).right
    stubs = {}
    for source in PAGE.cells.values():
        if f"def {name}(" in source and "raise NotImplementedError" in source:
            exec(source.split("\n\n\nprint")[0].split("\n\n\ncheck")[0], stubs)
    assert repr(CHECKS[name](stubs[name])) == "blank: there is nothing here yet"
    assert "nothing" in CHECKS[name](lambda *_: ...).message
    assert torch.equal(torch.get_rng_state(), state)


STUDENTS = {
    "split_heads": {
        "swapped inside the parentheses": lambda x, n: x.unflatten(-1, (-1, n)).permute(0, 3, 1, 2),
        "view alone": lambda x, n: x.reshape(x.shape[0], n, x.shape[1], -1),
        "before head": lambda x, n: x.unflatten(-1, (n, -1)),
        "pos and dim": lambda x, n: x.unflatten(-1, (n, -1)).permute(0, 2, 3, 1),
    },
    "merge_heads": {
        "swapped inside the parentheses": lambda h: h.permute(0, 2, 3, 1).flatten(2),
        "without a transpose": lambda h: h.reshape(h.shape[0], h.shape[2], -1),
        "summed": lambda h: h.sum(dim=1),
        "averaged": lambda h: h.mean(dim=1),
    },
    "causal_mask": {
        "strict": lambda q, k: torch.arange(k) < torch.arange(k - q, k)[:, None],
        "transposed": lambda q, k: torch.arange(k) >= torch.arange(k - q, k)[:, None],
        "inverted": lambda q, k: torch.arange(k) > torch.arange(k - q, k)[:, None],
        "as many keys as queries": lambda q, k: torch.arange(k) <= torch.arange(q)[:, None],
        "ones and zeros": lambda q, k: (torch.arange(k) <= torch.arange(k - q, k)[:, None]).float(),
        "additive": lambda q, k: torch.zeros(q, k).masked_fill(
            torch.arange(k) > torch.arange(k - q, k)[:, None], float("-inf")
        ),
    },
    "masked_weights": {
        "as if 1 meant hidden": lambda s, seen: torch.softmax(s + seen.float() * -1e9, dim=-1),
        "multiplied by the mask": lambda s, seen: torch.softmax(s * seen.float(), dim=-1),
        "after the softmax": lambda s, seen: torch.softmax(s, dim=-1).masked_fill(~seen, 0),
        "over the queries": lambda s, seen: s.masked_fill(~seen, torch.finfo(s.dtype).min).softmax(dim=2),
        "added": lambda s, seen: torch.softmax(s + seen.float(), dim=-1),
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


@pytest.mark.parametrize(
    ("cell", "old", "new"),
    [
        ("einsum", "softmax(dim=-1)", "softmax(dim=-2)"),
        ("einsum", "sqrt(q.shape[-1])", "q.shape[-1]"),
        ("layer", "(head dim) -> batch head", "(dim head) -> batch head"),
        ("layer", "layer.W_k(context), layer.W_v(context)", "layer.W_k(context), layer.W_v(context.flip(1))"),
    ],
)
def test_a_hand_built_piece_equals_the_packages_or_the_notebook_stops(cell, old, new):
    PAGE.after_setup("loop", "einsum", "layer")
    with pytest.raises(AssertionError):
        PAGE.after_setup("loop", "einsum", "layer", change=(old, new), within=cell)


def widths(axes):
    return torch.tensor([bar.get_width() for bar in axes.patches]).float()


def values_of(axes):
    return torch.tensor(axes.images[0].get_array().tolist())


@pytest.mark.parametrize("temperature", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("causal", [False, True])
def test_the_widget_draws_what_the_package_computes(temperature, causal):
    names = PAGE.after_setup("letters", "key-figure")
    word, x, reader = names["WORD"], names["x"], names["reader"]
    colder = MultiHeadAttention(26, 3, 26)
    colder.load_state_dict(reader.state_dict())
    with torch.no_grad():
        colder.W_q.weight.div_(temperature)
    weights = colder.attention_weights(x) if causal else colder.context_weights(x)
    for query, head in [(0, "same"), (4, "vowel"), (10, "near")]:
        drawn = names["one_head"](query, head, temperature, causal)
        scores, bars, values, result, _ = drawn.figure.axes
        row = weights[0, names["heads"].index(head), query]
        torch.testing.assert_close(widths(bars), row)
        seen = slice(0, query + 1 if causal else None)
        torch.testing.assert_close(widths(scores)[seen].softmax(0), row[seen])
        mean = row @ values_of(values)
        torch.testing.assert_close(values_of(result)[0], mean)
        assert f"Query {word[query]} {query}" in drawn.alt


def test_maps_draw_the_weights_and_leave_what_is_hidden_white():
    weights = [[1.0, 0.0], [0.25, 0.75]]
    drawn = maps({"tokens": "ab", "weights": {"causal": {"same": weights}}})
    shown = drawn.figure.axes[0].images[0].get_array()
    assert shown.mask.tolist() == [[False, True], [False, False]]
    assert shown.data.tolist() == weights
    assert "0% of the weight on later letters" in drawn.alt


def test_matrices_show_their_numbers_and_frame_the_first_row():
    shown = {"Q": [[2.0, 0.5]], "heads": [[1, 2, 3], [4, 5, 6]]}
    picture = matrices({"matrices": shown, "signs": ["→"], "framed": ["Q"]})
    for axes, (title, matrix) in zip(picture.figure.axes, shown.items(), strict=True):
        assert axes.images[0].get_array().tolist() == matrix
        words = [text.get_text() for text in axes.texts]
        assert [float(word) for word in words[: len(matrix) * len(matrix[0])]] == [*chain(*matrix)]
        assert title in words
        assert len(axes.patches) == (title == "Q")
    assert "Q: 2 0.5; heads: 1 2 3, 4 5 6" in picture.alt


def test_the_numbered_heads_are_those_of_the_solution():
    names = PAGE.after_setup("exercise-split-picture", change=("matrices(", "dict("))
    split = PAGE.solutions()["split_heads"](names["x_numbered"][None], 2)[0]
    assert names["heads_of"] == split.tolist() != names["mixed"]


def test_scores_are_divided_by_the_root_of_the_heads_width():
    names = PAGE.after_setup("letters")
    q = names["reader"].W_q(names["x"])[0, :, :26]
    wanted = names["wanted"][0][[ord(letter) - ord("a") for letter in "transformer"]]
    torch.testing.assert_close(q / sqrt(26), wanted)
