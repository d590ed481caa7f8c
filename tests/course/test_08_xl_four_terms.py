import re
from pathlib import Path

import nbformat
import pytest
import torch

from minitxl import figures
from minitxl.attention import XLAttention, attention_mask, masked_softmax
from minitxl.course.checks import terms as checks
from minitxl.data import corpora
from minitxl.experiments import results, without_terms
from minitxl.experiments.runner import compute
from minitxl.figures.positions.terms import maps, side_by_side
from minitxl.inference.config import EvaluateConfig
from minitxl.inference.evaluation import cached_losses
from minitxl.model import TransformerLM
from minitxl.training.checkpoints import model_config

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "08_xl_four_terms.ipynb"
FIGURES = NOTEBOOK.parents[1] / "figures"
CELLS = {cell.id: cell.source for cell in nbformat.read(NOTEBOOK, as_version=4).cells}
CHECKS = {
    "exercise-1": ("partner_weight", checks.check_partner),
    "exercise-2-code": ("look_back", checks.check_look_back),
    "exercise-3-code": ("last_blank", checks.check_last_blank),
}


def run(*cells, change=None):
    """The names that these cells of the notebook define; ``change`` is a replacement in the last one."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(NOTEBOOK.parent)
        for cell in cells:
            source = CELLS[cell]
            if change is not None and cell == cells[-1]:
                source = source.replace(*change)
                assert source != CELLS[cell]
            exec(source, found)
    return found


@pytest.mark.parametrize("cell", CHECKS)
def test_a_folded_solution_is_right_and_the_stub_is_not_yet(cell):
    name, check = CHECKS[cell]
    answers = CELLS[f"{cell.removesuffix('-code')}-help"]
    (solution,) = re.findall(r"```python\n(.*?)```", answers, flags=re.DOTALL)
    found = {"torch": torch, "checks": checks}
    exec(solution, found)
    assert check(found[name]).right, check(found[name])
    exec(CELLS[cell], found)
    assert str(check(found[name])) == "blank: there is nothing here yet"


def slow(R):
    return torch.nn.functional.one_hot(torch.tensor(40), 64).float()


def transposed(partner, d_model):
    W = torch.zeros(d_model, d_model)
    W[torch.arange(len(partner)), partner] = 3.0
    return W


def from_eye(partner, d_model):
    return transposed(partner, d_model).T / 3 + torch.eye(d_model)


def shared(blank, R):
    return 100 * blank + slow(R), 100 * blank + slow(R)


@pytest.mark.parametrize(
    ("check", "wrong", "sentence"),
    [
        (checks.check_partner, transposed, "looked for by its partner"),
        (checks.check_partner, lambda partner, d_model: torch.eye(d_model), "looks for itself: that"),
        (checks.check_partner, from_eye, "start from zeros"),
        (checks.check_look_back, lambda d, W, R: W @ R[d], "wrong end"),
        (checks.check_look_back, lambda d, W, R: 5 * R[len(R) - 1 - d], "not R: turn"),
        (checks.check_look_back, lambda d, W, R: R[len(R) - 1 - d] @ W, "transposed"),
        (checks.check_look_back, lambda d, W, R: W @ R[len(R) - d], "off by one"),
        (checks.check_last_blank, shared, "one bias used twice"),
        (checks.check_last_blank, lambda blank, R: (slow(R), 100 * blank), "swapped"),
        (checks.check_last_blank, lambda blank, R: (blank, torch.zeros(64)), "all of them alike"),
        (checks.check_last_blank, lambda blank, R: (blank, 100 * slow(R)), "the query itself"),
        (checks.check_last_blank, lambda blank, R: (50 * blank, R[-1]), "wobbles"),
        (checks.check_last_blank, lambda blank, R: (100 * blank, R[0]), "farthest"),
    ],
)
def test_a_mistake_is_called_by_its_name(check, wrong, sentence):
    before = torch.get_rng_state()
    verdict = check(wrong)
    assert not verdict.right
    assert sentence in verdict.message
    assert torch.equal(torch.get_rng_state(), before)


def test_the_hand_built_terms_equal_the_packages_or_the_notebook_stops():
    names = run("setup", "by-hand", "equal")
    for old, new in ((("xl.u, k"), "xl.v, k"), ("i - j", "j - i"), ("/ sqrt(xl.d_head)", "")):
        broken = CELLS["by-hand"].replace(old, new)
        assert broken != CELLS["by-hand"]
        exec(broken, names)
        with pytest.raises(AssertionError):
            exec(CELLS["equal"], names)


def test_the_changes_do_what_the_table_says_or_the_notebook_stops():
    cells = ("setup", "multiply", "three-changes-code", "moved")
    moved = run(*cells)["moved"]
    assert moved[1]["b"] < 1e-9 < moved[1]["d"]
    names = run(*cells[:3], change=("if change == 1 else", "if change < 3 else"))
    with pytest.raises(AssertionError):
        exec(CELLS["moved"], names)


def test_panels_side_by_side_draw_the_scores_they_are_given():
    here = {"name": "(a)", "formula": "q · k", "matrix": [[0.5, float("nan")], [-0.25, 0.75]]}
    there = here | {"name": "(b)", "matrix": [[1.0, 0.0], [0.0, 2.0]]}
    lines = {"before": [here, there], "after": [there, None]}
    picture = side_by_side({"lines": lines, "keys": "a ", "queries": "a ", "mem_len": 1})
    panels = [panel for line in lines.values() for panel in line]
    for axes, panel in zip(picture.figure.axes, panels, strict=True):
        if panel is None:
            assert not axes.images
            assert [text.get_text() for text in axes.texts] == ["as above"]
            continue
        assert axes.get_title(loc="left") == f"{panel['name']}\n$q \\cdot k$"
        drawn = torch.tensor(axes.images[0].get_array().filled(float("nan")))
        torch.testing.assert_close(drawn, torch.tensor(panel["matrix"]).double(), equal_nan=True)
    assert "before, (a): -0.25 to 0.75; before, (b): 0.00 to 2.00; after, (b): 0.00 to 2.00." in picture.alt


def test_the_two_products_that_are_drawn_are_those_of_the_package():
    names = run("setup", "multiply", "multiply-picture", "by-hand", "terms-picture")
    x, past = names["embed"](names["now"])[None], names["embed"](names["past"])[None]
    head, hidden = names["one_head"], names["future"]
    a, b, c, d = head.terms(x, past)
    for line, expected in (("content", (a, c, a + c)), ("distance", (b, d, b + d))):
        for panel, term in zip(names["lines"][line], expected, strict=True):
            shown = torch.tensor(panel["matrix"], dtype=torch.float64)
            term = term.expand(1, 1, *hidden.shape)[0, 0].masked_fill(hidden, float("nan"))
            torch.testing.assert_close(shown, term, equal_nan=True)


def test_each_change_draws_the_terms_that_it_touches_and_no_others():
    lines = run("setup", "multiply", "multiply-picture", "three-changes-code", "moved", "moved-picture")[
        "lines"
    ]
    drawn = {label: [panel and panel["name"] for panel in line] for label, line in lines.items()}
    assert drawn["change 1"] == [None, "(b) moves by 0.00", None, drawn["change 1"][3]]
    assert drawn["change 2"] == [None, None, "(c) moves by 0.00", "(d) moves by 0.00"]
    stripes, diagonals = (torch.tensor(panel["matrix"]) for panel in lines["change 3"][2:])
    torch.testing.assert_close(stripes[1:], stripes[:-1])
    torch.testing.assert_close(diagonals[1:, 1:], diagonals[:-1, :-1])


def test_a_head_of_one_term_does_its_task_alone_or_the_notebook_stops():
    cells = ("setup", "alone", "alone-picture", "tasks")
    table = run(*cells)["table"]
    assert table.shape == (4, 4)
    names = run("setup", "alone", change=("to_content[[0, 2]]", "to_content[[0, 1, 2]]"))
    with pytest.raises(AssertionError, match="not its own"):
        exec(CELLS["alone-picture"], names)


@pytest.mark.parametrize("on", ["abcd", "abd", "d", ""])
def test_the_widget_draws_what_the_model_computes(on):
    names = run("setup", "trained", "row", "widget")
    picture = names["toggled"]("layer 3, head 1", 5, *(name in on for name in "abcd"))
    terms, weights = picture.figure.axes
    model, ids = names["model"], names["ids"]
    with torch.inference_mode():  # one long segment is what segment and memory are
        _, states = model.hidden(ids)
        whole = model.attention_weights(ids)[2, 0, 0, 122, 93:123]
        block, x = model.blocks[2], states[2]
        found = block.attention.terms(block.attention_input(x), block.attention_input(x[:, :0]))._asdict()
        kept = sum((found[name] for name in on), torch.zeros(1, 4, 128, 128))
        expected = masked_softmax(kept, attention_mask(128, 128))[0, 0, 122, 93:123]
    heights = torch.tensor([bar.get_height() for bar in weights.patches]).float()
    torch.testing.assert_close(heights, expected, rtol=1e-4, atol=1e-6)
    drawn = torch.tensor(weights.lines[0].get_ydata()).float()
    torch.testing.assert_close(drawn, whole, rtol=1e-4, atol=1e-6)
    assert len(terms.patches) == 30 * len(on)
    assert [label.get_text() for label in weights.get_xticklabels()][-1] == names["TEXT"][122]


def test_labels_may_be_characters_or_longer():
    panels = [{"name": "scores", "formula": "q", "matrix": [[0.0, 1.0]]}]
    for keys, shown in (("a ", ["a", "␣"]), (["9", "10"], ["9", "10"])):
        picture = side_by_side({"lines": {"": panels}, "keys": keys, "queries": keys[1:], "mem_len": 1})
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
    asked = without_terms.settings("quick", corpus)
    asked["model"] |= {"n_layer": 2, "d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 32}
    asked["train"] |= {"steps": 3, "warmup": 1}
    return corpus, asked | {"test_tokens": 100}


def test_without_terms_runs_end_to_end_at_toy_size():
    corpus, asked = toy()
    told = []
    parts = without_terms.parts(asked, corpus, seeds=[0, 1], device="cpu")
    found = compute(parts, report=lambda label, steps, record: told.append((label, record.step)))
    data = without_terms.collect(asked, corpus, found)
    assert told[:3] == [("whole, seed 0", step) for step in (1, 2, 3)]
    assert told[-1] == ("without (d), seed 1", 3)
    assert list(data["missing"]) == ["none", "a", "b", "c", "d"]
    for missing, row in data["missing"].items():
        assert [part["bits"] for name, part in found.items() if without_terms.label(missing) in name] == (
            row["bits"]["seeds"]
        )
    assert data["missing"]["none"]["cost"]["seeds"] == [0.0, 0.0]
    assert data["missing"]["a"]["cost"]["mean"] != 0.0
    (axes,) = figures.without_terms(data).figure.axes
    means = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "|"]
    assert means == [row["bits"]["mean"] for row in data["missing"].values()]


def test_a_model_that_lacks_no_term_scores_as_the_whole_model_does():
    corpus, asked = toy()
    torch.manual_seed(0)
    model = without_terms.new(model_config(asked["model"]), "none")
    torch.manual_seed(0)
    whole = TransformerLM(model_config(asked["model"]))
    settings = EvaluateConfig(seg_len=8, mem_len=12)
    found = without_terms.losses_with_memory(model, corpus.test[:71], settings)
    torch.testing.assert_close(found, cached_losses(whole, corpus.test[:71], settings))


def test_the_stored_figure_is_that_of_the_stored_data(tmp_path):
    figures.without_terms(results.read(FIGURES / "without_terms.json").data).save(tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_bytes() == (FIGURES / "without_terms.svg").read_bytes()
