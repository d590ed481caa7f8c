"""Notebook 05 and its checks."""

import re
from collections.abc import Callable

import pytest
import torch
from page import Page

from minitxl.config import ModelConfig
from minitxl.course.checks import collisions as checks
from minitxl.figures.positions.sinusoids import one_vector
from minitxl.memory import extend
from minitxl.model import TransformerLM

PAGE = Page("05_absolute_positions_break")
EXERCISES = {
    "exercise-2": ("my_pairs", checks.check_pairs, "check-pairs"),
    "exercise-3": ("my_move", checks.check_move, "check-move"),
}


def solution(cell: str) -> dict:
    scope: dict = {}
    exec(re.search(r"```python\n(.*?)```", PAGE.cells[cell], re.DOTALL)[1], scope)
    return scope


@pytest.mark.parametrize("exercise", EXERCISES)
def test_the_folded_solution_is_right_and_the_stub_not_yet(exercise):
    name, check, stub = EXERCISES[exercise]
    before = torch.get_rng_state()
    assert check(solution(exercise)[name]).right
    scope = {check.__name__: lambda attempt: None}
    exec(PAGE.cells[stub], scope)
    told = check(scope[name])
    assert (told.right, "nothing here yet" in told.message) == (False, True)
    assert torch.equal(torch.get_rng_state(), before)


def named_mistakes(check: Callable, monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable]:
    found: dict[str, Callable] = {}
    with monkeypatch.context() as patch:
        patch.setattr(checks, "judge", lambda *args, mistakes, **kwargs: found.update(mistakes) or NOT_YET)
        check(lambda *args: None)
    return found


NOT_YET = checks.Verdict(False, "")


@pytest.mark.parametrize("exercise", EXERCISES)
def test_every_named_mistake_is_told_by_its_own_sentence(exercise, monkeypatch):
    _, check, _ = EXERCISES[exercise]
    mistakes = named_mistakes(check, monkeypatch)
    assert len(mistakes) >= 5
    for sentence, mistake in mistakes.items():
        assert check(mistake) == checks.Verdict(False, sentence)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (..., "nothing here yet"),
        ("abc", "a text of 12 letters"),
        ("abcdefghijkl", "no letter comes twice"),
        ("aacdefghijkl", "1 apart, at places 0 and 1"),
        ("abcdefghajkl", "8 apart, at places 0 and 2"),
        ("abcdefabijkl", "2 pairs collide: 'a' at 0 and 6, 'b' at 1 and 7"),
    ],
)
def test_a_text_that_does_not_collide_once_is_told_why(text, told):
    verdict = checks.check_text(text)
    assert not verdict.right
    assert told in verdict.message


def test_the_folded_text_collides_once():
    assert checks.check_text(solution("exercise-1")["my_text"]).right


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


@pytest.mark.parametrize(
    "change", [("(place % seg_len)", "place"), ("* sqrt(", "+ sqrt("), ("[-(mem_len + seg_len) :]", "")]
)
def test_the_hand_built_context_equals_the_packages_or_the_notebook_stops(change):
    PAGE.after_setup("context-by-hand")
    with pytest.raises(AssertionError):
        PAGE.after_setup("context-by-hand", change=change)


def test_the_hand_built_scores_equal_the_packages_or_the_notebook_stops():
    cells = ("context-by-hand", "scores", "scores-equal")
    PAGE.after_setup(*cells, "pairs-conclusion", "every-layer")
    with pytest.raises(AssertionError):
        PAGE.after_setup(*cells, change=("scores + by_row", "scores - by_row"))


def test_the_widget_draws_the_scores_behind_the_packages_weights():
    scope = PAGE.after_setup("context-by-hand", "scores", "scores-equal", "widget")
    places = [(3, 3), (0, 6), (2, 2), (5, 1)]
    for positions, (in_memory, in_segment) in zip(scope["tried"], places, strict=True):
        axes = scope["draw"](positions, in_memory, in_segment).figure.axes[0]
        drawn = torch.tensor([y for line in axes.lines[:2] for y in line.get_ydata()])
        letters = list("abcdefghijklmnop")
        letters[in_memory] = letters[8 + in_segment] = "X"
        model, ids = scope["tried"][positions], scope["ids"]("".join(letters))
        attention = model.blocks[0].attention
        weights = attention.attention_weights(model.embed(ids[:, 8:]), model.embed(ids[:, :8]))[0, 0, -1]
        torch.testing.assert_close(drawn.float().softmax(0), weights)
        assert ("one score for both" in axes.get_title(loc="left")) == (
            (positions == "absolute" and in_memory == in_segment) or positions == "Shaw, k = 2"
        )
        assert axes.lines[2].get_xdata().tolist() == [in_memory, 8 + in_segment]


def test_one_vector_rings_each_pair_of_keys_at_no_distance():
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


def test_restarted_numbers_make_a_letter_one_vector_with_its_copy_in_memory():
    source = PAGE.cells["numbers"].replace("\none_vector(", "\ndrawn = one_vector(")
    titles = [axes.get_title(loc="left") for axes in PAGE.run("setup", source)["drawn"].figure.axes]
    assert [int(title.split("\n")[1].split()[0]) for title in titles if title] == [16, 0, 8]
