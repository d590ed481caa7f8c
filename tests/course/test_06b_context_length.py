"""Notebook 06b: its checks, its figures, and what it says of the stored result."""

import re
from itertools import pairwise

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from numpy.ma import masked
from page import NOTEBOOKS, Page

from minitxl.analysis import context_length
from minitxl.config import ModelConfig
from minitxl.course.checks import context_length as checks
from minitxl.course.checks import context_mistakes, many_draws, own_context, rivals, tossing, used_context
from minitxl.course.checks import reading_contexts as contexts
from minitxl.experiments.shared import results
from minitxl.figures.marks import label_ends
from minitxl.figures.positions.encodings import by_place
from minitxl.figures.recurrence import dependency_graph
from minitxl.figures.recurrence.context_gains import context_gains, doubled
from minitxl.figures.recurrence.context_length import READERS
from minitxl.figures.recurrence.drawn_ranges import drawn_ranges
from minitxl.figures.recurrence.lengths_by_seed import lengths_by_seed
from minitxl.figures.recurrence.token_losses import token_losses
from minitxl.memory import extend
from minitxl.model import TransformerLM

CHECKS = {"gain-blank": checks.check_gain, "exercise-recl": checks.check_recl}
PAGE = Page("06b_context_length", gain=checks.gain, tossed=tossing.solution_tossed)


@pytest.mark.parametrize("cell", CHECKS)
def test_the_solution_is_right_and_the_stub_is_not_there_yet(cell):
    PAGE.assert_solved_by_its_solution_alone(cell, CHECKS[cell])


@pytest.mark.parametrize(
    "rival", [lambda c: 1.3, lambda c: 1.25 + 0.4 / c, lambda c: torch.tensor(1.3), lambda c: np.float32(1.3)]
)
def test_a_rival_that_shortens_a_is_right(rival):
    assert rivals.check_rival(rival).right


@pytest.mark.parametrize(
    ("rival", "sentence"),
    [
        (lambda c: None, "nothing here yet"),
        (lambda c: 1 / 0, "it raised ZeroDivisionError"),
        (lambda c: "low", "a number of 0 or more"),
        (lambda c: 1.02 + c / 1000, "a longer context raises your loss"),
        (lambda c: 0.5, "C must be worse there"),
        (lambda c: 1.0131, "with 32 tokens C has 1.013 nats and A 1.198: C must be worse there"),
        (lambda c: 1.198, "with 32 tokens C has 1.1980 nats and A 1.1984: C must be worse there"),
        (lambda c: 1 + 0.5 * 2 ** (-c / 24), "with 32 tokens C and A both have 1.198 nats, a tie: C must be"),
        (lambda c: float("inf"), "a finite number, not inf and not nan"),
        (lambda c: 1.5, "with 8 tokens C has 1.500 nats, no better than A's 1.397"),
        (lambda c: 1.39, "C must be ahead of A for longer, or by more"),
    ],
)
def test_a_rival_that_does_not_shorten_a_is_told_why(rival, sentence):
    verdict = rivals.check_rival(rival)
    assert not verdict.right
    assert sentence in verdict.message


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"XL 151M over LSTM, r = 0.5": None}, "nothing here yet"),
        ({"XL 151M over LSTM, r = 0.5": "no"}, "write True or False, without quotes, not 'no'"),
        ({"XL 151M over LSTM, r = 0.5": False}, "stand in the first group"),
        ({"XL 128M over Shaw's positions, r = 1.0": False}, "stand in the second group"),
        ({"XL 151M over Transformer, r = 0.1": True}, "128 from the second"),
        ({"XL 151M, r = 0.1, over QRNN, r = 1.0": True}, "two shares r"),
        ({"XL 151M over XL 128M, r = 0.5": True}, "600 from the second"),
    ],
)
def test_comparisons_are_judged_one_by_one(changed, sentence):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.cells["exercise-pairs"], re.DOTALL)
    right = PAGE.run(code)["my_comparisons"]
    assert contexts.check_comparable(right).right
    verdict = contexts.check_comparable(right | changed)
    assert not verdict.right
    assert sentence in verdict.message


@pytest.mark.parametrize("kind", [int, torch.tensor, np.bool_])
def test_a_comparison_may_be_written_as_another_kind_of_truth(kind):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.cells["exercise-pairs"], re.DOTALL)
    right = {name: kind(value) for name, value in PAGE.run(code)["my_comparisons"].items()}
    assert contexts.check_comparable(right).right
    name = "XL 151M over LSTM, r = 0.5"
    assert "stand in the first group" in contexts.check_comparable(right | {name: kind(False)}).message
    for neither in (2, "True", 0.5):
        assert "write True or False" in contexts.check_comparable(right | {name: neither}).message


@pytest.mark.parametrize("r", [0.1, 0.5, 1.0])
def test_many_draws_gain_and_walk_as_each_by_itself(r):
    random = torch.Generator().manual_seed(4)
    falls = 1 + 0.1 * torch.exp(-torch.linspace(0, 2, 6))[:, None]
    groups = falls + 0.05 * torch.rand(30, 3, 6, 50, generator=random)
    lengths = list(range(8, 49, 8))
    walks = [checks.recl(group, 1, lengths, r) for group in groups]
    assert many_draws.recls(groups, 1, lengths, r).tolist() == walks
    assert len(set(walks)) > 1
    one = groups[0]
    gains = many_draws.gain_over(one[:, 2], r)(one[1])
    assert gains.tolist() == pytest.approx([checks.gain(one, 1, 2, c, r) for c in range(6)], abs=1e-6)


def gain_with(baseline_of, f):
    def attempt(losses, which, short, long, r):
        baseline = baseline_of(losses[:, short], losses[which, short])
        hardest = baseline.topk(max(1, round(r * len(baseline)))).indices
        before, after = (f(baseline, losses[which, at])[hardest].mean().exp() for at in (short, long))
        return float((before - after) / before)

    return attempt


@pytest.mark.parametrize(
    ("attempt", "sentence"),
    [
        (gain_with(lambda all_, own: own, lambda b, loss: loss), "the baseline is the model's own loss"),
        (gain_with(lambda all_, own: own, torch.minimum), "the baseline is the model's own loss"),
        (gain_with(lambda all_, own: all_.mean(0), torch.minimum), "the mean of the group"),
        (gain_with(lambda all_, own: all_.amin(0), lambda b, loss: b), "that is 0 for every model"),
    ],
)
def test_a_gain_by_another_baseline_gets_its_sentence(attempt, sentence):
    verdict = checks.check_gain(attempt)
    assert not verdict.right
    assert sentence in verdict.message


def test_a_walk_without_a_last_return_is_told_so_and_is_not_blank():
    def endless(losses, which, lengths, r):
        for at in range(len(lengths) - 1):
            if checks.gain(losses, which, at, at + 1, r) < 0.01:
                return lengths[at]
        return None

    verdict = checks.check_recl(endless)
    assert verdict.word == "not yet"
    assert "return the longest length" in verdict.message


def test_a_walk_that_looks_past_the_last_place_is_told():
    def past_the_end(losses, which, lengths, r):
        at = 0
        while checks.gain(losses, which, at, at + 1, r) >= 0.01:
            at += 1
        return lengths[at]

    verdict = checks.check_recl(past_the_end)
    assert verdict.word == "not yet"
    assert "past the last place" in verdict.message


@pytest.mark.parametrize(
    ("mistake", "sentence"),
    [({"last_gain": True}, "goes on after its first step"), ({"everything": True}, "hand r on to gain")],
)
def test_a_walk_of_another_rule_gets_its_sentence(mistake, sentence):
    verdict = checks.check_recl(lambda *case: context_mistakes.walk(*case, **mistake))
    assert sentence in verdict.message


@pytest.mark.parametrize(
    ("mistake", "sentence"),
    [({"mean_of_exp": True}, "e to the mean loss"), ({"ranked_by_own": True}, "the model's own loss")],
)
def test_a_gain_of_another_rule_gets_its_sentence(mistake, sentence):
    verdict = checks.check_gain(lambda *case: context_mistakes.gain(*case, **mistake))
    assert sentence in verdict.message


def test_token_losses_draws_a_bar_for_every_loss():
    rows = {name: [place + 1.0, place + 2.0] for place, name in enumerate("abcd")}
    picture = token_losses({"rows": rows, "baseline": [1.0, 2.0]})
    heights = [bar.get_height() for bar in picture.figure.axes[0].patches]
    assert heights == [loss for losses in rows.values() for loss in losses]
    assert "a 1.0, 2.0" in picture.alt


def test_the_example_has_the_numbers_of_the_text():
    losses = checks.example()
    assert losses[:, 0].amin(dim=0).tolist() == [1.5, 1.0, 2.5, 0.4]
    assert checks.gain(losses, 0, 0, 1, 0.5) == pytest.approx(1 - torch.tensor(-0.1).exp().item(), abs=1e-6)
    assert "0.095" in PAGE.cells["example-after"]


ASKED = {"lstm": "table-text", "third": "group-text", "noise": "noise-text"}


def test_predictions_are_judged_on_their_own_merits():
    answers = {"third": 8, "noise": "above 0", "lstm": "about half as long"}
    assert all(verdict.right for verdict in checks.PREDICTIONS.check(answers).verdicts)
    for question in checks.PREDICTIONS.questions:
        for guess, sentence in question.wrong.items():
            assert question.judge(guess).message.casefold().endswith(sentence.casefold())
        assert f"| `{question.name}` |" in PAGE.cells[ASKED[question.name]]


def test_the_answers_of_the_predictions_are_what_is_stored():
    stored = results.read(NOTEBOOKS.parent / "figures" / "context.json").data
    of = stored["recl"]["recurrent"]
    for share, lengths in of["lstm"].items():
        for lstm, xl in zip(lengths, of["xl_memory"][share], strict=True):
            assert 0.3 < lstm["tokens"] / xl["tokens"] < 0.72
    ends = [stored["systems"][name]["bits"][-1]["mean"] for name in ("lstm", "xl_memory")]
    assert ends[0] == pytest.approx(ends[1], abs=0.03)
    space = PAGE.run("relative", explore=lambda draw, **choices: choices)
    assert [space["length_of_a"](third, 8) for third in (False, True)] == [88, 8]


def test_the_made_up_models_have_the_lengths_of_the_text():
    lengths = context_length.recl(rivals.curves(), r=1.0)
    assert {name: one.tokens for name, one in lengths.items()} == {"A": 88, "B": 8}
    assert "has a RECL of 88 tokens" in PAGE.cells["exercise-rival"]


@pytest.mark.parametrize(("third", "step"), [(False, 8), (True, 8), (False, 16)])
def test_large_marks_stand_on_the_curves_where_the_walk_stops(third, step):
    space = PAGE.run("relative", explore=lambda draw, **choices: choices)
    group = space["group_of"](third, step)
    lengths = context_length.recl(group, r=1.0)
    *without, axes = space["draw"](third, step).figure.axes
    assert len(without) == third  # the picture of two models beside that of three
    for (name, losses), line, mark in zip(group.items(), axes.lines[::2], axes.lines[1::2], strict=True):
        curve = {length: loss.mean().item() for length, loss in losses.items()}
        assert dict(line.get_xydata().tolist()) == curve
        assert mark.get_xydata().tolist() == [[lengths[name].tokens, curve[lengths[name].tokens]]]


def test_a_walk_that_gains_to_its_end_is_marked_as_at_least():
    space = PAGE.run("relative", explore=lambda draw, **choices: choices)
    assert "A ≥ 104 (" in space["draw"](False, 32).alt
    assert "A 8 (" in space["draw"](True, 8).alt


@pytest.mark.parametrize("agrees", [True, False])
def test_a_walk_that_stops_elsewhere_on_measured_losses_is_told_and_replaced(agrees, capsys):
    random = torch.Generator().manual_seed(0)
    falls = 1 + torch.exp(-torch.linspace(0, 3, 4))[:, None]
    measured = falls + 0.1 * torch.rand(2, 4, 20, generator=random)
    mine = {"gain": lambda *case: 0.0, "my_recl": checks.recl if agrees else lambda *case: 8}
    space = PAGE.run(
        "my-recls", **mine, measured=measured, lengths=[8, 16, 24, 32], readers={"A": None, "B": None}
    )
    assert ("your walk and the package's stop at different lengths" in capsys.readouterr().out) != agrees
    assert space["my_recl"] is checks.recl
    assert (space["gain"] is checks.gain) != agrees
    assert space["rows"][0]["r = 1.0"] == space["bounded"](checks.recl(measured, 0, [8, 16, 24, 32], 1.0))


def test_curves_that_end_alike_are_named_in_a_legend():
    curves = {"curves": {"one": [2.0, 1.0], "other": [3.0, 1.0]}, "places": [8, 16]}
    labels = {"xlabel": "c", "ylabel": "loss"}
    (axes,) = by_place(curves | labels | {"legend": "upper right"}).figure.axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["one", "other"]
    assert not axes.texts
    (axes,) = by_place(curves | labels).figure.axes
    assert axes.get_legend() is None
    assert len(axes.texts) == 2


def test_effective_lengths_names_its_marks():
    panels = {"One": {"A": {"lengths": [8, 16], "loss": [2.0, 1.0], "recl": [16]}}}
    picture = dependency_graph.effective_lengths({"unit": "bits", "panels": panels, "marks": "length"})
    assert picture.alt == "Bits against context, and length in tokens. One: A 16 (1.00 in the end)."
    (axes,) = picture.figure.axes
    assert axes.get_title(loc="left") == "One; large mark: length"
    assert [text.get_text() for text in axes.texts if text.xy[0] == 1.01] == ["A"]


def test_names_at_the_ends_of_lines_keep_their_order_and_a_distance():
    figure = Figure()
    axes = figure.subplots()
    for name, end in {"low": 1.0, "high": 3.0, "nearly high": 2.99}.items():
        axes.plot([0, 1], [2.0, end], label=name)
    axes.plot([0, 1], [0.5, 0.5])
    label_ends(axes, least=0.1)
    heights = [text.xy[1] for text in axes.texts]
    assert [text.get_text() for text in axes.texts] == ["low", "nearly high", "high"]
    assert heights == sorted(heights)
    assert min(above - below for below, above in pairwise(heights)) >= 0.1 - 1e-9
    assert max(heights) <= 1


def test_the_gains_of_pairs_are_drawn_a_panel_a_model():
    data = results.read(NOTEBOOKS.parent / "figures" / "context.json").data
    picture = context_gains(data)
    *panels, _ = picture.figure.axes
    lengths = doubled(data["context_lens"])
    assert lengths == [8, 16, 32, 64, 128]
    for axes, name in zip(panels, READERS, strict=True):
        drawn = axes.images[0].get_array()
        for pair in (one for one in data["gains"][name] if {one["short"], one["long"]} <= {*lengths}):
            place = lengths.index(pair["short"]), lengths.index(pair["long"])
            gain = drawn[place]
            if name == "absolute" and pair["short"] == data["seg_len"]:
                assert gain is masked  # this model reads no more
                continue
            assert gain == pair["perplexity"]["mean"]
            assert f"{gain:.2f}" in [
                text.get_text() for text in axes.texts if text.get_position() == place[::-1]
            ]


@pytest.mark.parametrize(
    ("blank", "text", "check"),
    [
        ("losses-after", "losses-after-text", contexts.check_losses_after),
        ("ecl-stub", "ecl-text", own_context.check_ecl),
        ("drawn-stub", "drawn-text", own_context.check_drawn_anew),
        ("exercise-used-stub", "plain-answer", used_context.check_used),
        ("tossed-stub", "gain-of-nothing-text", tossing.check_tossed),
        ("tossed-curve-stub", "tossed-curve-text", tossing.check_tossed_curve),
        ("as-often-stub", "test-text", tossing.check_as_often),
    ],
)
def test_the_blank_s_solution_is_right_and_its_stub_blank(blank, text, check):
    PAGE.assert_folded_solution_is_right_and_stub_blank(blank, text, check)


@pytest.mark.parametrize(
    "draw",
    [
        own_context.solution_drawn_anew,
        lambda losses, random: losses[
            ..., torch.randint(losses.shape[2], (losses.shape[2],), generator=random).sort().values
        ],
        lambda losses, random: losses.index_select(
            2, (torch.rand(losses.shape[2], generator=random) * losses.shape[2]).long()
        ),
        lambda losses, random: losses[
            :, :, torch.multinomial(torch.ones(losses.shape[2]), losses.shape[2], True, generator=random)
        ],
    ],
)
def test_tokens_may_be_drawn_anew_in_several_ways(draw):
    assert own_context.check_drawn_anew(draw).right


def drawn_one_by_one(losses, random):
    number = losses.shape[2]
    drawn = [
        [of[torch.randint(number, (number,), generator=random)] for of in contexts] for contexts in losses
    ]
    return torch.stack([torch.stack(some) for some in drawn])


def few_repeated(losses, random):
    drawn = torch.randperm(40, generator=random)
    drawn[:4] = drawn[4:8]
    return losses[..., drawn]


def with_token_0(losses, random):
    drawn = torch.randint(40, (40,), generator=random)
    drawn[0] = 0
    return losses[..., drawn]


def in_pairs(losses, random, *, whole=True):
    begins = (
        2 * torch.randint(20, (20,), generator=random)
        if whole
        else torch.randint(40, (20,), generator=random)
    )
    return losses[..., torch.cat([begins, (begins + 1) % 40])]


def in_blocks(losses, random, *, whole=True):
    begins = (
        8 * torch.randint(5, (5,), generator=random) if whole else torch.randint(40, (5,), generator=random)
    )
    return losses[..., ((begins[:, None] + torch.arange(8)) % 40).flatten()]


@pytest.mark.parametrize(
    ("draw", "sentence"),
    [
        (lambda losses, random: None, "nothing here yet"),
        (lambda losses, random: losses[..., 99], "it raised IndexError"),
        (
            lambda losses, random: losses[..., torch.randint(40, (20,), generator=random)],
            "draw as many tokens",
        ),
        (lambda losses, random: losses + torch.randn(losses.shape, generator=random), "as they are"),
        (lambda losses, random: losses[torch.randint(3, (3,), generator=random)], "on the last axis alone"),
        (drawn_one_by_one, "a token's losses belong together"),
        (lambda losses, random: losses + 0, "no token is drawn"),
        (
            lambda losses, random: losses[..., torch.randperm(40, generator=random)],
            "each token is drawn once",
        ),
        (lambda losses, random: losses[..., torch.arange(40) // 2], "each call draws the same tokens"),
        (
            lambda losses, random: losses[..., torch.randint(40, (1,), generator=random).expand(40)],
            "few tokens, each many times",
        ),
        (lambda losses, random: losses[..., torch.randint(1, 40, (40,), generator=random)], "token 0 of 40"),
        (lambda losses, random: losses[..., torch.randint(39, (40,), generator=random)], "token 39 of 40"),
        (lambda losses, random: losses[..., torch.randint(40, (40,))], "random is not used"),
        (few_repeated, "about 25 of 40 tokens differ in a draw (63 %), and in yours 36"),
        (with_token_0, "token 0 is in every draw"),
        (in_blocks, "in pairs or blocks"),
        (lambda losses, random: in_blocks(losses, random, whole=False), "in pairs or blocks"),
        (in_pairs, "in pairs or blocks: draw a number for each place by itself"),
        (lambda losses, random: in_pairs(losses, random, whole=False), "in pairs or blocks"),
        (
            lambda losses, random: losses.copy_(own_context.solution_drawn_anew(losses, random)),
            "it changes the losses that it was given",
        ),
    ],
)
def test_tokens_that_are_drawn_otherwise_get_a_sentence(draw, sentence):
    verdict = own_context.check_drawn_anew(draw)
    assert not verdict.right
    assert sentence in verdict.message


def test_the_effective_context_length_is_the_package_s():
    lengths = list(range(8, 65, 8))
    for losses, _ in own_context._cases()[1:]:
        by_length = {
            c: torch.tensor([loss], dtype=torch.float64) for c, loss in zip(lengths, losses, strict=True)
        }
        package = context_length.effective_context_length(by_length).tokens
        assert own_context.solution_ecl(losses, lengths) == package


def test_each_seed_has_a_row_with_its_length():
    models = {
        "Transformer-XL": {"lengths": [8, 16], "loss": [2.0, 1.0], "of_seeds": [16, 8]},
        "LSTM": {"lengths": [8, 16], "loss": [2.0, 1.5], "of_seeds": [8, 8]},
    }
    labels = {"title": "Both", "marks": "RECL", "tokens": "tokens", "unit": "bits"}
    picture = lengths_by_seed({"models": models} | labels)
    above, below = picture.figure.axes
    assert "Transformer-XL 16 / 8 (1.00 in the end), LSTM 8 / 8 (1.50 in the end)" in picture.alt
    assert [line.get_ydata().tolist() for line in above.lines] == [[2.0, 1.0], [2.0, 1.5]]
    marks = [line.get_xydata().tolist()[0] for line in below.lines if line.get_marker() != "None"]
    assert marks == [[16, 0], [8, -1], [8, -3], [8, -4]]
    assert [text.get_text() for text in below.texts[:4]] == ["16", "8", "8", "8"]


def test_each_row_has_its_measured_length_and_two_ranges():
    rows = [
        {"name": "Transformer-XL", "r": 1.0, "measured": 56, "anew": (48, 72), "tossed": (40, 64)},
        {"name": "LSTM", "r": 0.5, "measured": 32, "anew": (24, 40), "tossed": (32, 32)},
    ]
    picture = drawn_ranges({"rows": rows, "longest": 96})
    assert "LSTM at r = 0.5 32, anew 24 to 40, tossed 32 to 32" in picture.alt
    (axes,) = picture.figure.axes
    drawn = [line.get_xdata() for line in axes.lines[:6]]
    assert [list(one) for one in drawn] == [[40, 64], [48, 72], [56], [32, 32], [24, 40], [32]]


def whole_passage_at_once(model, passage, c, targets):
    log_probs, _ = model(passage[None, :-1])
    return -log_probs[0, -targets:].gather(-1, passage[-targets:, None])[:, 0]


def mean_over_the_window(model, passage, c, targets):
    windows = passage[-c - targets :].unfold(0, c + 1, 1)
    log_probs, _ = model(windows[:, :-1])
    return -log_probs.gather(-1, windows[:, 1:, None])[..., 0].mean(dim=1)


def of_windows_of_c(model, passage, c, targets):
    windows = passage[-c - targets :].unfold(0, c, 1)
    log_probs, _ = model(windows[:, :-1])
    return -log_probs[:, -1].gather(-1, windows[:, -1:])[:, 0]


def of_windows_of_c_read_whole(model, passage, c, targets):
    windows = passage[1 - c - targets :].unfold(0, c, 1)
    log_probs, _ = model(windows)
    return -log_probs[:, -1].gather(-1, windows[:, -1:])[:, 0]


def of_targets_after_a_gap(model, passage, c, targets):
    windows = passage[-c - targets :].unfold(0, c, 1)
    log_probs, _ = model(windows[:, :-1])
    return -log_probs[:, -1].gather(-1, passage[-targets:, None])[:, 0]


def read_with_a_memory(model, passage, c, targets, *, whole=True, mem_len=lambda c: c, again=False):
    """One character after the other, or each window, with what was read before in memory."""
    piece = passage if whole else passage[-c - targets :]
    memory, losses = None, []
    for place in range(1, len(piece)) if not again else range(c, len(piece)):
        tokens = piece[None, place - c if again else place - 1 : place]
        log_probs, states = model(tokens, memory=memory)
        memory = extend(memory, states, mem_len=mem_len(c))
        losses.append(-log_probs[0, -1, piece[place]])
    return torch.stack(losses[-targets:])


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("mem_len", [lambda c: c - 1, lambda c: c, lambda c: 100])
@pytest.mark.parametrize("again", [True, False])
def test_a_memory_that_is_carried_on_is_told_whatever_its_length(whole, mem_len, again):
    verdict = contexts.check_losses_after(
        lambda *case: read_with_a_memory(*case, whole=whole, mem_len=mem_len, again=again)
    )
    assert not verdict.right
    assert "a memory is carried on" in verdict.message
    assert "you returned" in verdict.details


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_window_that_is_read_in_parts_begins_without_memory(sign):
    def in_parts(model, passage, c, targets):
        windows = passage[-c - targets :].unfold(0, c + 1, 1)
        memory = None
        for at in range(c):
            log_probs, states = model(windows[:, at : at + 1], memory)
            memory = extend(memory, states, mem_len=c)
        return sign * log_probs[:, -1].gather(-1, windows[:, -1:])[:, 0]

    verdict = contexts.check_losses_after(in_parts)
    assert verdict.right or "minus the log-probability" in verdict.message
    assert verdict.right == (sign == -1)


def test_a_reading_by_a_loop_is_right_and_wrong_ones_are_named():
    def by_loop(model, passage, c, targets):
        losses = []
        for place in range(len(passage) - targets, len(passage)):
            log_probs, _ = model(passage[place - c : place][None])
            losses.append(-log_probs[0, -1, passage[place]])
        return torch.stack(losses)

    assert contexts.check_losses_after(by_loop).right
    wrong = {
        "minus the log-probability": lambda *case: -by_loop(*case),
        "return a loss for each target": lambda *case: by_loop(*case).mean(),
        "those that end the passage": lambda model, passage, c, n: by_loop(model, passage[: c + n], c, n),
        "a window holds c characters and the target": lambda model, passage, c, n: by_loop(
            model, passage, c - 1, n
        ),
        "holds c characters and the target: c + 1": of_windows_of_c,
        "a window holds c characters": of_windows_of_c_read_whole,
        "and the target: c + 1": of_targets_after_a_gap,
        "the model reads c + 1 characters": lambda model, passage, c, n: by_loop(model, passage, c + 1, n),
        "these are bits": lambda *case: by_loop(*case) / np.log(2),
        "that is the mean over a window": mean_over_the_window,
        "in one pass each target has more context": whole_passage_at_once,
        "a memory is carried on": read_with_a_memory,
        "the values are right, but they stand in a list": lambda *case: list(by_loop(*case)),
    }
    for sentence, attempt in wrong.items():
        verdict = contexts.check_losses_after(attempt)
        assert not verdict.right
        assert sentence in repr(verdict), (sentence, verdict)


LOSSES, LENGTHS = [2.6, 2.44, 2.435, 2.43, 2.43, 2.43, 2.43, 2.43], list(range(8, 65, 8))


@pytest.mark.parametrize("handicap", [lambda c: 0.05 * (c < 32), lambda c: torch.tensor(0.1 * (c < 32))])
def test_a_handicap_that_makes_a_model_use_more_is_right(handicap):
    assert used_context.check_handicap(handicap, LOSSES, LENGTHS).right


@pytest.mark.parametrize(
    ("handicap", "sentence"),
    [
        (lambda c: None, "nothing here yet"),
        (lambda c: 1 / 0, "it raised ZeroDivisionError"),
        (lambda c: "much", "a number of 0 or more"),
        (lambda c: -0.1, "a number of 0 or more"),
        (lambda c: c / 1000, "your handicap grows with context"),
        (lambda c: float("inf"), "a finite number, not inf and not nan"),
        (lambda c: float("nan"), "a finite number, not inf and not nan"),
        (lambda c: 0.02, "it shifts the whole curve, and so changes no length"),
        (lambda c: 0.05 + 0.1 * (c < 16), "with 32 characters it is still 0.050 bits"),
        (
            lambda c: 0.1 * (c < 64),
            "with 32 characters it is still 0.100 bits: only the beginning gets worse",
        ),
        (lambda c: 0.1 * (c < 16), "it uses 16 characters now, and 16 before: let the handicap last longer"),
    ],
)
def test_a_handicap_that_does_not_is_told_why(handicap, sentence):
    verdict = used_context.check_handicap(handicap, LOSSES, LENGTHS)
    assert not verdict.right
    assert sentence in verdict.message


def test_the_handicap_of_the_notebook_bends_the_measure():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.cells["used-read"], re.DOTALL)
    stored = results.read(NOTEBOOKS.parent / "figures" / "context.json").data
    losses = [one["mean"] for one in stored["systems"]["xl"]["bits"]]
    handicap = PAGE.run(code)["my_handicap"]
    assert used_context.check_handicap(handicap, losses, stored["context_lens"]).right
    assert 0.02 < handicap(40) < 0.035
    assert handicap(48) < 0.02


@pytest.mark.parametrize("lengths", [(2, 5, 9), (7, 3, 8)])
def test_windows_read_once_give_the_losses_of_each_length(lengths):
    source = PAGE.cells["measure-curves"].partition("\n\n\nlengths, ")[0]
    losses_at = PAGE.run(source)["losses_at"]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = TransformerLM(ModelConfig(11, n_layer=2, d_model=16, n_head=2, d_head=8, d_inner=32)).double()
    passage = torch.randint(11, (60,), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        found = losses_at(model.eval(), passage, lengths, 13)
        for of, c in zip(found, lengths, strict=True):
            torch.testing.assert_close(of, contexts.solution_losses_after(model, passage, c, 13))
