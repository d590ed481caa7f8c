"""Notebook 08, its checks and its experiment."""

import re

import pytest
import torch
from page import NOTEBOOKS, Page

from minitxl import figures
from minitxl.attention import XLAttention, attention_mask, masked_softmax
from minitxl.course.checks import heads, terms
from minitxl.data import corpora
from minitxl.experiments import without_terms
from minitxl.experiments.shared import results
from minitxl.experiments.shared.runner import compute
from minitxl.figures.positions.terms import maps, side_by_side
from minitxl.inference.config import EvaluateConfig
from minitxl.inference.evaluation import cached_losses
from minitxl.model import TransformerLM
from minitxl.training.checkpoints import model_config

PAGE = Page("08_xl_four_terms")
FIGURES = NOTEBOOKS.parent / "figures"
BLANKS = {
    "four-terms": ("four-terms-text", terms.check_four_terms),
    "exercise-1-code": ("exercise-1", heads.check_partner),
    "exercise-2-code": ("exercise-2", heads.check_look_back),
    "exercise-3-code": ("exercise-3-hints", heads.check_last_blank),
}


def run(*cells, change=("", "")):
    """The names that these cells of the notebook define; ``change`` is a replacement in the last one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(NOTEBOOKS)
        return PAGE.after_setup(*cells, change=change, within=cells[-1])


@pytest.mark.parametrize("blank", BLANKS)
def test_the_folded_solution_is_right_and_the_stub_is_blank(blank):
    text, check = BLANKS[blank]
    *_, solution = re.findall(r"```python\n(.*?)```", PAGE.cells[text], flags=re.DOTALL)
    stub = PAGE.cells[blank].partition("\n\n\n")[0]
    name = re.search(r"def (\w+)", stub)[1]
    assert check(PAGE.run(solution)[name]).right, check(PAGE.run(solution)[name])
    assert check(PAGE.run(stub)[name]).word == "blank"


def by_matmul(q, k, r, u, v):
    return (
        q @ k.mT / q.shape[-1] ** 0.5,
        (q[:, :, :, None] * r).sum(-1) / q.shape[-1] ** 0.5,
        u[:, None] @ k.mT / q.shape[-1] ** 0.5,
        (v[:, None, None] * r).sum(-1)[None] / q.shape[-1] ** 0.5,
    )


def scaled_first(q, k, r, u, v):
    q, u, v = (each / q.shape[-1] ** 0.5 for each in (q, u, v))
    a, b = torch.einsum("bhqd,bhkd->bhqk", q, k), torch.einsum("bhqd,hqkd->bhqk", q, r)
    c, d = torch.einsum("hd,bhkd->bhk", u, k), torch.einsum("hd,hqkd->hqk", v, r)
    return [a, b, c[:, :, None].expand_as(a), d.expand_as(a)]


def unscaled(q, k, r, u, v):
    return [term * q.shape[-1] ** 0.5 for term in by_matmul(q, k, r, u, v)]


def with_own_content(q, k, r, u, v):
    return (
        *by_matmul(q, k, r, u, v)[:2],
        *by_matmul(q + u[:, None], k, r, u, v)[:1],
        by_matmul(q + v[:, None], k, r, u, v)[1],
    )


def without_scale_of_biases(q, k, r, u, v):
    return *by_matmul(q, k, r, u, v)[:2], *unscaled(q, k, r, u, v)[2:]


def undivided(place):
    def four_terms(*given):
        whole, mine = unscaled(*given), list(by_matmul(*given))
        mine[place] = whole[place]
        return mine

    return four_terms


def two_products(q, k, r, u, v):
    a, b, c, d = by_matmul(q, k, r, u, v)
    return a + c, b + d


def partners_by_loop(partner, d_model):
    W = torch.zeros(d_model, d_model)
    for token, wanted in enumerate(partner.tolist()):
        W[wanted, token] = 70.0
    return W


def cosine(number, *, what=1e8, where=1e6):
    def biases(blank, R):
        return what * blank, where * torch.eye(64)[number]

    return biases


@pytest.mark.parametrize(
    ("check", "answer"),
    [
        (terms.check_four_terms, by_matmul),
        (terms.check_four_terms, scaled_first),
        (heads.check_partner, partners_by_loop),
        (
            heads.check_partner,
            lambda partner, d_model: 60 * torch.eye(d_model)[:, partner] @ torch.eye(5, d_model),
        ),
        (heads.check_look_back, lambda distance, W_kR, R: 30 * (R @ W_kR.T)[-1 - distance]),
        (heads.check_look_back, lambda distance, W_kR, R: (1e3 * W_kR @ R.flip(0)[distance]).double()),
        (heads.check_last_blank, cosine(48)),
        (heads.check_last_blank, cosine(40, what=1e5, where=1e4)),
        (heads.check_last_blank, cosine(42)),
        (heads.check_last_blank, lambda blank, R: (1e6 * blank, 1e4 * R[-1] * (torch.arange(64) >= 40))),
    ],
)
def test_a_right_answer_in_another_style_is_right(check, answer):
    assert check(answer).right, check(answer)


@pytest.mark.parametrize(
    ("check", "answer", "weight"),
    [
        (heads.check_partner, lambda *given: partners_by_loop(*given) / 70, "only 0.049"),
        (heads.check_partner, lambda *given: partners_by_loop(*given) / 2, "only 0.783"),
        (heads.check_look_back, lambda distance, W_kR, R: W_kR @ R[-1 - distance], "only 0.117"),
        (heads.check_last_blank, cosine(40, what=100, where=1), "only 0.15"),
        (heads.check_last_blank, cosine(40, what=1e5, where=1e2), "only 0.36"),
    ],
)
def test_a_head_that_hardly_prefers_the_right_keys_is_told_to_be_sharper(check, answer, weight):
    verdict = check(answer)
    assert verdict.word == "not yet"
    assert weight in verdict.message
    assert "multiply your answer by a large factor" in verdict.message


def slow(R):
    return torch.eye(64)[40]


def transposed(partner, d_model):
    return 3 * partners_by_loop(partner, d_model).T


def from_eye(partner, d_model):
    return partners_by_loop(partner, d_model) / 70 + torch.eye(d_model)


@pytest.mark.parametrize(
    ("check", "wrong", "sentence"),
    [
        (terms.check_four_terms, lambda q, k, r, u, v: by_matmul(q, k, r, v, u), "u and v are swapped"),
        (terms.check_four_terms, lambda q, k, r, u, v: by_matmul(q, k, r, u, u), "one bias is used twice"),
        (terms.check_four_terms, unscaled, "none of the terms is divided"),
        (terms.check_four_terms, without_scale_of_biases, "(c) and (d) are not divided"),
        (terms.check_four_terms, lambda *given: by_matmul(*given)[::-1], "for the term (a) you returned"),
        (
            terms.check_four_terms,
            lambda *given: [by_matmul(*given)[i] for i in (0, 2, 1, 3)],
            "other's place",
        ),
        (
            terms.check_four_terms,
            lambda *given: [by_matmul(*given)[i] for i in (0, 1, 3, 2)],
            "(c) and (d) are in each other's place",
        ),
        *(
            (terms.check_four_terms, undivided(place), "one of the four is not divided by √d_head")
            for place in range(4)
        ),
        (terms.check_four_terms, lambda *given: sum(by_matmul(*given)), "the sum of the four"),
        (terms.check_four_terms, two_products, "two products that a model computes"),
        (terms.check_four_terms, with_own_content, "hold the query's own content"),
        (heads.check_partner, transposed, "looked for by its partner"),
        (heads.check_partner, lambda partner, d_model: torch.eye(d_model), "looks for itself: that"),
        (heads.check_partner, from_eye, "start from zeros"),
        (heads.check_partner, lambda partner, d_model: torch.zeros(d_model, d_model), "all keys alike"),
        (heads.check_partner, lambda *given: -partners_by_loop(*given), "looks away"),
        (
            heads.check_partner,
            lambda partner, d_model: torch.eye(d_model)[partner[0]][:, None].expand(d_model, d_model),
            "query at place 1 (token 1) looks at place 1 (token 1), and should look at place 0 (token 0) and "
            "place 1 (token 1)",
        ),
        (heads.check_look_back, lambda d, W, R: W @ R[d], "wrong end"),
        (heads.check_look_back, lambda d, W, R: 5 * R[len(R) - 1 - d], "not R: turn"),
        (heads.check_look_back, lambda d, W, R: R[len(R) - 1 - d] @ W, "transposed"),
        (heads.check_look_back, lambda d, W, R: W @ R[len(R) - d], "off by one"),
        (heads.check_look_back, lambda d, W, R: -(W @ R[len(R) - 1 - d]), "looks away"),
        (
            heads.check_look_back,
            lambda d, W, R: W @ R[len(R) - 2 - d] if d + 2 <= len(R) else W @ R[0],
            "looks 4 back, and should look 3 back",
        ),
        (heads.check_last_blank, lambda blank, R: (100 * blank + slow(R),) * 2, "one bias used twice"),
        (heads.check_last_blank, lambda blank, R: (slow(R), 100 * blank), "swapped"),
        (heads.check_last_blank, lambda blank, R: (blank, torch.zeros(64)), "all of them alike"),
        (heads.check_last_blank, lambda blank, R: (blank, 100 * slow(R)), "u is too weak: over the 24"),
        (heads.check_last_blank, lambda blank, R: (blank, R[-1]), "being a blank adds 1. Make u"),
        (heads.check_last_blank, lambda blank, R: (blank, slow(R)), "differs by up to 1.67, and being"),
        (
            heads.check_last_blank,
            cosine(40, what=1e5, where=1e8),
            "up to 1.67e+08, and being a blank adds 1e+05",
        ),
        (heads.check_last_blank, lambda blank, R: (1e9 * blank, 1e8 * R[-1]), "adds 1e+09. Make u"),
        (heads.check_last_blank, lambda blank, R: (50 * blank, R[-1]), "wobbles"),
        (heads.check_last_blank, cosine(32), "it rises from distance 3 to 4"),
        (heads.check_last_blank, cosine(36), "it rises from distance 10 to 11"),
        (heads.check_last_blank, cosine(38), "it rises from distance 18 to 19"),
        (heads.check_last_blank, cosine(8), "that column is a sine"),
        (heads.check_last_blank, lambda blank, R: (100 * blank, R[0]), "farthest"),
    ],
)
def test_a_wrong_answer_is_told_what_is_wrong(check, wrong, sentence):
    before = torch.get_rng_state()
    verdict = check(wrong)
    assert not verdict.right
    assert sentence in verdict.message
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("check", [heads.check_partner, heads.check_look_back, heads.check_last_blank])
def test_a_check_of_a_head_names_the_arguments_that_the_function_takes_and_no_others(check):
    def wrong(*given):
        raise ValueError(f"got {len(given)}")

    named = re.search(r"called with (.*), it raised ValueError: got (\d)", check(wrong).message)
    assert named[1].count(" = ") == int(named[2])


def test_the_answers_of_the_predictions_are_the_measured_ones():
    changed, _, missed = terms.predictions.questions
    moved = run("multiply", "multiply-picture", "change-1", "change-1-picture")["moves"](
        run("multiply")["absolute"]
    )
    assert changed.answer == sum(by > 1e-4 for by in moved.values())
    rows = results.read(FIGURES / "without_terms.json").data["missing"]
    costs = {name: rows[name]["cost"]["seeds"] for name in "abcd"}
    assert missed.answer == sum(min(seeds) > 0 for seeds in costs.values())
    assert [name for name, seeds in costs.items() if min(seeds) > 0] == ["b"]
    assert all(min(costs[name]) < 0 < max(costs[name]) for name in "acd")


TERMS = ("four-terms", "terms-of")


def test_the_hand_built_terms_equal_the_packages_or_the_notebook_stops():
    names = run(*TERMS, "equal")
    assert max(names["off"].values()) < 1e-5
    for change in ((", xl.u, xl.v", ", xl.v, xl.u"), ("arange(n_key - n_query, n_key)", "arange(n_query)")):
        broken = PAGE.cells["terms-of"].replace(*change)
        assert broken != PAGE.cells["terms-of"]
        exec(broken, names)
        with pytest.raises(AssertionError):
            exec(PAGE.cells["equal"], names)


def test_the_cells_below_the_blank_run_on_the_readers_terms_if_they_are_right():
    mine = PAGE.cells["four-terms"].replace("raise NotImplementedError", "return by_matmul(q, k, r, u, v)")
    assert mine != PAGE.cells["four-terms"]
    right = PAGE.run(mine, by_matmul=by_matmul)["four_terms"]
    assert right is not terms.solution_four_terms
    assert PAGE.run(mine, by_matmul=unscaled)["four_terms"] is terms.solution_four_terms
    names = PAGE.run("setup", "terms-of", "equal", four_terms=right)
    assert max(names["off"].values()) < 1e-5


def test_the_row_by_hand_is_what_the_text_computes():
    rows = run("four-terms", "one-row")["rows"]
    middle = [rows[1][name] * 2**0.5 for name in ("(a)", "(b)", "(c)", "(d)", "score")]
    assert [round(value, 2) for value in middle[:4]] == [2, 1.92, 1, 0.84]
    assert f"Together {middle[4]:.2f}, " in PAGE.cells["equation"]
    assert f"this is {rows[1]['score']:.2f}" in PAGE.cells["equation"]


CHANGES = ("multiply", "multiply-picture", "change-1", "change-1-picture")


def test_each_change_does_what_the_text_says_or_the_notebook_stops():
    names = run(*CHANGES, "change-2", "change-2-picture", "change-3", "change-3-picture")
    moves = names["moves"]
    assert moves(names["change_1"])["b"] < 1e-4 < moves(names["change_1"])["d"]
    assert max(moves(names["change_3"]).values()) < 1e-4
    with pytest.raises(AssertionError):
        run(*CHANGES, change=("moves(change_1)", "moves(absolute)"))
    here = names["change_3"](0)
    torch.testing.assert_close(here["c"][1:], here["c"][:-1])
    torch.testing.assert_close(here["d"][1:, 1:], here["d"][:-1, :-1])


def test_a_head_of_one_term_does_its_task_alone_or_the_notebook_stops():
    cells = (*TERMS, "alone", "alone-picture", "tasks")
    assert run(*cells)["shares"].diagonal().min() > 0.99
    names = run(*TERMS, "alone", change=("to_content[[0, 2]]", "to_content[[0, 1, 2]]"))
    with pytest.raises(AssertionError, match="not its own"):
        exec(PAGE.cells["alone-picture"], names)


HERE = {"name": "(a)", "formula": "q · k", "matrix": [[0.5, float("nan")], [-0.25, 0.75]]}
THERE = HERE | {"name": "(b)", "matrix": [[1.0, 0.0], [0.0, 2.0]]}
PANELS = {"keys": "a ", "queries": "a ", "mem_len": 1, "quantity": "scores"}


def test_panels_side_by_side_draw_the_scores_they_are_given_each_with_a_scale_of_its_own():
    lines = {"before": [HERE, THERE], "after": [THERE, None]}
    picture = side_by_side(PANELS | {"lines": lines})
    panels = [panel for line in lines.values() for panel in line]
    for axes, panel in zip(picture.figure.axes, panels, strict=False):
        if panel is None:
            assert not axes.images
            continue
        assert axes.get_title(loc="left") == f"{panel['name']}\n$q \\cdot k$"
        drawn = torch.tensor(axes.images[0].get_array().filled(float("nan")))
        torch.testing.assert_close(drawn, torch.tensor(panel["matrix"]).double(), equal_nan=True)
    limits = [axes.images[0].get_clim() for axes in picture.figure.axes[:3]]
    assert limits == [(-0.25, 0.75), (0.0, 2.0), (0.0, 2.0)]
    assert len(picture.figure.axes) == len(panels) + 3  # a bar each
    assert "before, (a): -0.25 to 0.75; before, (b): 0.00 to 2.00; after, (b): 0.00 to 2.00." in picture.alt


def test_panels_that_share_a_scale_have_one_bar():
    picture = side_by_side(PANELS | {"lines": {"": [HERE, THERE]}, "shared": True})
    assert [axes.images[0].get_clim() for axes in picture.figure.axes[:2]] == [(-0.25, 2.0)] * 2
    assert picture.figure.axes[-1].get_ylabel() == "scores"
    assert len(picture.figure.axes) == 3


@pytest.mark.parametrize("on", ["abcd", "abd", "d", ""])
def test_the_widget_draws_what_the_model_computes(on):
    names = run(*TERMS, "trained", "row", "widget")
    picture = names["toggled"]("layer 3, head 1", 5, *(name in on for name in "abcd"))
    bars, weights = picture.figure.axes
    model, ids = names["model"], names["ids"]
    with torch.inference_mode():  # one long segment is what segment and memory are
        _, states = model.last_hidden(ids)
        whole = model.attention_weights(ids)[2, 0, 0, 122, 93:123]
        block, x = model.blocks[2], states[2]
        apart = block.attention.terms(block.attention_input(x), block.attention_input(x[:, :0]))._asdict()
        scores = sum((apart[name] for name in on), torch.zeros(1, 4, 128, 128))
        expected = masked_softmax(scores, attention_mask(128, 128))[0, 0, 122, 93:123]
    heights = torch.tensor([bar.get_height() for bar in weights.patches]).float()
    torch.testing.assert_close(heights, expected, rtol=1e-4, atol=1e-6)
    drawn = torch.tensor(weights.lines[0].get_ydata()).float()
    torch.testing.assert_close(drawn, whole, rtol=1e-4, atol=1e-6)
    assert len(bars.patches) == 30 * len(on)
    assert [label.get_text() for label in weights.get_xticklabels()][-1] == names["TEXT"][122]


def test_labels_may_be_characters_or_longer():
    panels = [{"name": "scores", "matrix": [[0.0, 1.0]]}]
    for keys, shown in (("a ", ["a", "␣"]), (["9", "10"], ["9", "10"])):
        picture = side_by_side(PANELS | {"lines": {"": panels}, "keys": keys, "queries": keys[1:]})
        labels = [label.get_text() for label in picture.figure.axes[0].get_xticklabels()]
        assert labels == shown


def test_maps_draw_the_values_they_are_given():
    panels = {"one": [[0.5, float("nan")], [0.25, 0.75]], "other": [[1.0, 0.0], [0.0, 1.0]]}
    picture = maps({"panels": panels, "keys": "a ", "queries": "a ", "quantity": "weight"})
    for axes, matrix in zip(picture.figure.axes, panels.values(), strict=False):
        torch.testing.assert_close(
            torch.tensor(axes.images[0].get_array().filled(float("nan"))),
            torch.tensor(matrix).double(),
            equal_nan=True,
        )
    assert "0.25 to 0.75" in picture.alt


def test_maps_of_different_quantities_have_scales_of_their_own():
    panels = {"large": [[-8.0, 8.0]], "as large": [[0.0, 4.0]], "small": [[0.1, 0.2]], "one": [[0.0, 1.0]]}
    scales = [["large", "as large"], ["small"], ["one"]]
    data = {"panels": panels, "keys": "ab", "queries": "a", "quantity": "nats"}
    picture = maps(data | {"scales": scales})
    limits = [axes.images[0].get_clim() for axes in picture.figure.axes[:3]]
    assert limits == [(-8.0, 8.0), (-8.0, 8.0), (0.1, 0.2)]


def test_a_missing_term_is_missing_and_nothing_else_is():
    whole = XLAttention(8, 2, 4)
    for parameter in whole.parameters():
        torch.nn.init.normal_(parameter)
    x, memory = torch.randn(2, 3, 8), torch.randn(2, 4, 8)
    terms = whole.terms(x, memory)._asdict()
    for missing in without_terms.MISSING:
        scores = without_terms.AllButOne(whole, missing).scores(x, memory)
        rest = sum(term for name, term in terms.items() if name != missing)
        torch.testing.assert_close(scores, rest)


def toy():
    corpus = corpora.from_bytes("toy", b"some words that come again and again " * 400)
    settings = without_terms.settings("quick", corpus)
    settings["model"] |= {"n_layer": 2, "d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 32}
    settings["train"] |= {"steps": 3, "warmup": 1}
    return corpus, settings | {"test_tokens": 100}


def test_without_terms_runs_end_to_end_at_toy_size():
    corpus, settings = toy()
    reports = []
    parts = without_terms.parts(settings, corpus, seeds=[0, 1], device="cpu")
    computed = compute(parts, report=lambda label, steps, record: reports.append((label, record.step)))
    data = without_terms.collect(settings, corpus, computed)
    assert reports[:3] == [("whole, seed 0", step) for step in (1, 2, 3)]
    assert reports[-1] == ("without (d), seed 1", 3)
    assert list(data["missing"]) == ["none", "a", "b", "c", "d"]
    for missing, row in data["missing"].items():
        assert [part["bits"] for name, part in computed.items() if without_terms.label(missing) in name] == (
            row["bits"]["seeds"]
        )
    assert data["missing"]["none"]["cost"]["seeds"] == [0.0, 0.0]
    assert data["missing"]["a"]["cost"]["mean"] != 0.0
    (axes,) = figures.without_terms(data).figure.axes
    seeds = [list(line.get_xdata()) for line in axes.lines if line.get_marker() == "o"]
    assert seeds[:4] == [data["missing"][name]["cost"]["seeds"] for name in "abcd"]
    means = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "|" and len(line.get_xdata())]
    assert means == [data["missing"][name]["cost"]["mean"] for name in "abcd"]


def test_a_model_that_lacks_no_term_scores_as_the_whole_model_does():
    corpus, settings = toy()
    torch.manual_seed(0)
    model = without_terms.new(model_config(settings["model"]), "none")
    torch.manual_seed(0)
    whole = TransformerLM(model_config(settings["model"]))
    evaluate = EvaluateConfig(seg_len=8, mem_len=12)
    losses = without_terms.losses_with_memory(model, corpus.test[:71], evaluate)
    torch.testing.assert_close(losses, cached_losses(whole, corpus.test[:71], evaluate))


def test_the_stored_figure_is_that_of_the_stored_data(tmp_path):
    figures.without_terms(results.read(FIGURES / "without_terms.json").data).save(tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_bytes() == (FIGURES / "without_terms.svg").read_bytes()
