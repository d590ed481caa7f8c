"""Notebook 01: its solutions, its checks, its pieces and its widget."""

from itertools import chain
from math import pi, sqrt

import pytest
import torch
from page import Page, assert_each_mistake_gets_its_own_sentence
from torch.nn.functional import scaled_dot_product_attention

from minitxl.attention import MultiHeadAttention
from minitxl.course.checks import attention as checks
from minitxl.course.checks import layer
from minitxl.figures.attention.heads import by_width, maps, matrices

PAGE = Page("01_attention")

CHECKS = {
    "attention": checks.check_attention,
    "layer_by_hand": layer.check_layer,
    "split_heads": checks.check_split,
    "merge_heads": checks.check_merge,
    "causal_mask": checks.check_causal_mask,
    "on_a_circle": checks.check_circle,
}


@pytest.mark.parametrize("name", CHECKS)
def test_the_folded_solution_is_right_and_the_stub_is_blank(name):
    state = torch.get_rng_state()
    assert CHECKS[name](PAGE.solutions()[name]).right
    stubs = {}
    for source in PAGE.cells.values():
        if f"def {name}(" in source and "raise NotImplementedError" in source:
            exec(source.split("\n\n\n")[0], stubs)
    assert repr(CHECKS[name](stubs[name])) == "blank: there is nothing here yet"
    assert "nothing" in CHECKS[name](lambda *_: ...).message
    assert torch.equal(torch.get_rng_state(), state)


def attend(q, k, v, mask=None, *, scale=None, fill=-float("inf"), dim=-1):
    scores = q @ k.transpose(-1, -2) / sqrt(q.shape[-1] if scale is None else scale(q))
    if mask is not None:
        scores = torch.where(mask, scores, torch.tensor(fill))
    return torch.softmax(scores, dim) @ v


def layered(layer, x, context, *, project=True, values=None, cut=None):
    q, k, v = layer.W_q(x), layer.W_k(context), (values or layer.W_v)(context)
    size = (layer.n_head, -1)
    q, k, v = ((cut or (lambda z: z.unflatten(2, size).transpose(1, 2)))(z) for z in (q, k, v))
    merged = scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    return layer.W_o(merged) if project else merged


def one_head_at_a_time(layer, x, context):
    width = layer.d_head
    parts = []
    for head in range(layer.n_head):
        own = slice(head * width, (head + 1) * width)
        q, k, v = layer.W_q(x)[..., own], layer.W_k(context)[..., own], layer.W_v(context)[..., own]
        parts.append((q @ k.mT / sqrt(width)).softmax(-1) @ v)
    return layer.W_o(torch.cat(parts, dim=-1))


def circle(radius, count=26):
    angles = torch.linspace(0, 2 * pi, count + 1)[:-1]
    return lambda: radius * torch.stack([angles.cos(), angles.sin()], dim=1)


RIGHT = {
    "attention": [
        lambda q, k, v, mask=None: scaled_dot_product_attention(q, k, v, attn_mask=mask),
        lambda q, k, v, mask=None: attend(q, k, v, mask, fill=-1e9),
        lambda q, k, v, m: torch.einsum(
            "bhqk,bhkd->bhqd",
            (
                torch.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5
                + (0 if m is None else torch.zeros(m.shape).masked_fill(~m, -float("inf")))
            ).softmax(3),
            v,
        ),
    ],
    "layer_by_hand": [layered, one_head_at_a_time],
    "split_heads": [
        lambda x, n: x.unflatten(-1, (n, -1)).transpose(1, 2),
        lambda x, n: torch.stack(x.chunk(n, dim=-1), dim=1),
    ],
    "merge_heads": [
        lambda h: torch.cat(list(h.unbind(1)), dim=-1),
        lambda h: h.permute(0, 2, 1, 3).flatten(2),
    ],
    "causal_mask": [
        lambda q, k: torch.ones(q, k, dtype=torch.bool).tril(k - q),
        lambda q, k: ~torch.ones(k, k).triu(1).bool()[k - q :],
    ],
    "on_a_circle": [circle(13), circle(-40)],
}


@pytest.mark.parametrize(
    ("name", "number"), [(name, i) for name, all_ in RIGHT.items() for i in range(len(all_))]
)
def test_a_right_answer_in_another_style_is_accepted(name, number):
    assert CHECKS[name](RIGHT[name][number]).right


STUDENTS = {
    "attention": {
        "not divided": lambda q, k, v, mask: attend(q, k, v, mask, scale=lambda q: 1),
        "divided by d,": lambda q, k, v, mask: attend(q, k, v, mask, scale=lambda q: q.shape[-1] ** 2),
        "all heads together": lambda q, k, v, mask: attend(
            q, k, v, mask, scale=lambda q: q.shape[1] * q.shape[-1]
        ),
        "no effect": lambda q, k, v, mask: attend(q, k, v),
        "turned round:": lambda q, k, v, mask: attend(q, k, v, None if mask is None else ~mask),
        "multiplied by the mask": lambda q, k, v, mask: (
            (q @ k.mT / sqrt(q.shape[-1]) * (1 if mask is None else mask)).softmax(-1) @ v
        ),
        "not a number": lambda q, k, v, mask: (
            (q @ k.mT / sqrt(q.shape[-1]) + (0 if mask is None else (~mask) * -float("inf"))).softmax(-1) @ v
        ),
        "not low enough": lambda q, k, v, mask: attend(q, k, v, mask, fill=-100.0),
        "after the softmax": lambda q, k, v, mask: (
            ((q @ k.mT / sqrt(q.shape[-1])).softmax(-1) * (1 if mask is None else mask)) @ v
        ),
        "over the queries": lambda q, k, v, mask: attend(q, k, v, mask, dim=2),
        "over the heads": lambda q, k, v, mask: attend(q, k, v, mask, dim=1),
        "the weights: the result": lambda q, k, v, mask: attend(
            q, k, torch.eye(k.shape[2]).expand(*k.shape[:2], -1, -1), mask
        ),
    },
    "layer_by_hand": {
        "W_o is missing": lambda layer, x, context: layered(layer, x, context, project=False),
        "in cross-attention they come from the context": lambda layer, x, context: layered(layer, x, x),
        "each query is a token of x": lambda layer, x, context: layered(layer, context, context),
        "the other way round": lambda layer, x, context: layered(layer, context, x),
        "a matrix of their own, W_v": lambda layer, x, context: layered(layer, x, context, values=layer.W_k),
        "one wide head": lambda layer, x, context: layered(layer, x, context, cut=lambda z: z[:, None]),
        "deals the numbers out in turn": lambda layer, x, context: layered(
            layer, x, context, cut=lambda z: z.unflatten(2, (-1, layer.n_head)).permute(0, 3, 1, 2)
        ),
        "the layer alone": lambda layer, x, context: x + layered(layer, x, context),
        "first difference": lambda layer, x, context: layered(layer, x, context) + 1,
    },
    "split_heads": {
        "swapped inside the parentheses": lambda x, n: x.unflatten(-1, (-1, n)).permute(0, 3, 1, 2),
        "view alone": lambda x, n: x.reshape(x.shape[0], n, x.shape[1], -1),
        "before head": lambda x, n: x.unflatten(-1, (n, -1)),
        "pos and dim": lambda x, n: x.unflatten(-1, (n, -1)).permute(0, 2, 3, 1),
        "you returned the shape": lambda x, n: x.unflatten(-1, (n, -1)).permute(2, 0, 1, 3),
    },
    "merge_heads": {
        "swapped inside the parentheses": lambda h: h.permute(0, 2, 3, 1).flatten(2),
        "without a transpose": lambda h: h.reshape(h.shape[0], h.shape[2], -1),
        "summed": lambda h: h.sum(dim=1),
        "averaged": lambda h: h.mean(dim=1),
        "you returned the shape": lambda h: h.transpose(1, 2),
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
    "on_a_circle": {
        "a larger radius": circle(5),
        "puts 0.04 of its weight": circle(0),
        "vectors differ in length": lambda: circle(15)() * torch.linspace(1, 4, 26)[:, None],
        "[26, 2], and is [2, 26]": lambda: circle(15)().T,
        "no numbers": lambda: circle(1e200)(),
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


@pytest.mark.parametrize("fill", [-20.0, -100.0, -1000.0])
def test_a_masked_score_that_others_may_lie_below_is_refused_however_low(fill):
    verdict = checks.check_attention(lambda q, k, v, mask: attend(q, k, v, mask, fill=fill))
    assert "not low enough" in verdict.message


def test_each_mistake_of_the_layer_gets_its_own_sentence(monkeypatch):
    assert_each_mistake_gets_its_own_sentence(layer.check_layer, layer, monkeypatch, wrong=0, least=5)


def test_the_layer_that_the_notebook_runs_on_equals_the_packages_or_the_notebook_stops():
    PAGE.after_setup("attention-stub", "layer-stub", "torch", "layer")
    with pytest.raises(AssertionError):
        PAGE.run("setup", "layer", layer_by_hand=lambda layer, x, context: layered(layer, x, context.flip(2)))


def test_the_notebook_runs_on_the_learners_attention_if_it_is_right_and_on_the_packages_if_not():
    for body, used in (("return attend(q, k, v, mask)", True), ("return attend(q, k, v)", False)):
        filled = PAGE.cells["attention-stub"].replace("raise NotImplementedError  # your lines here", body)
        names = PAGE.run(PAGE.cells["setup"], "attend = theirs", filled, theirs=attend)
        assert (names["attention"] is not checks.solution_attention) == used
        PAGE.run("torch", "letters", **names)


def widths(axes):
    return torch.tensor([bar.get_width() for bar in axes.patches]).float()


def values_of(axes):
    return torch.tensor(axes.images[0].get_array().tolist())


@pytest.mark.parametrize("temperature", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("causal", [False, True])
def test_the_widget_draws_what_the_package_computes(temperature, causal):
    names = PAGE.after_setup("attention-stub", "letters", "key-figure")
    word, x, reader = names["WORD"], names["x"][None], letter_reader(names["wanted"])
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


def letter_reader(wanted):
    """The package's layer of the three heads: the wanted scores, times √26, as W_q."""
    reader = MultiHeadAttention(26, 3, 26)
    with torch.no_grad():
        reader.W_q.weight.copy_((wanted * sqrt(26)).transpose(1, 2).flatten(0, 1))
        for projection in (reader.W_k, reader.W_v):
            projection.weight.copy_(torch.eye(26).repeat(3, 1))
    return reader


def test_what_the_three_heads_collect_is_the_packages_layer_of_them():
    names = PAGE.after_setup("attention-stub", "letters")
    reader, x = letter_reader(names["wanted"]), names["x"][None]
    expected = reader.context_weights(x)[0] @ names["x"]
    torch.testing.assert_close(names["collected"], expected)


def test_heads_of_other_widths_are_drawn_with_their_distances():
    drawn = by_width(
        {"width": [1, 2], "distance": {"same": [1.5, 1.0], "vowel": [0.5, 0.0], "near": [1, 0.25]}}
    )
    (axes,) = drawn.figure.axes
    assert [line.get_ydata().tolist() for line in axes.lines] == [[1.5, 1.0], [0.5, 0.0], [1, 0.25]]
    assert "near: 1.00, 0.25" in drawn.alt


def test_a_prediction_is_answered_on_its_own_merits():
    questions = {question.name: question for question in checks.predictions.questions}
    assert questions["ratio"].judge(7.4).right
    assert "difference" in questions["ratio"].judge(3).message
    assert not questions["parameters"].judge("more").right
    assert questions["shuffled"].judge("same").right
    PAGE.after_setup("prediction", "check-prediction")
