"""Notebook 03: its experiment, its checks, its widget, and its hand-built pieces."""

import re
from math import e, log2

import pytest
import torch
from einops import rearrange
from matplotlib.colors import to_hex
from page import NOTEBOOKS, Page, assert_each_mistake_gets_its_own_sentence

from minitxl import figures
from minitxl.analysis import dependency_reach
from minitxl.config import ModelConfig
from minitxl.course.checks import block as parts
from minitxl.course.checks import segments as judges
from minitxl.course.checks import sliding
from minitxl.data import corpora
from minitxl.data.batching import ContiguousBatches
from minitxl.experiments import segment_copying
from minitxl.experiments.shared import results
from minitxl.experiments.shared.runner import compute
from minitxl.figures import systems
from minitxl.figures.recurrence import masks
from minitxl.figures.recurrence import segments as drawn
from minitxl.inference import evaluation
from minitxl.model import TransformerLM

EXERCISES = {"exercise-lanes": judges.check_lanes, "exercise-context": judges.check_context_of}
BLANKS = {
    "layer_norm": ("norm-text", "norm-stub", parts.check_layer_norm),
    "block": ("block-blank", "block-stub", parts.check_block),
    "token_losses": ("loss-blank", "loss-stub", parts.check_losses),
    "sliding_losses": ("cuts-read", "sliding-stub", sliding.check_sliding),
}
PAGE = Page("03_vanilla_segments", explore=lambda draw, **choices: choices)
TINY = ModelConfig(vocab_size=5, n_layer=1, d_model=8, n_head=1, d_head=8, d_inner=8, dropout=0.0)
NO_TEXT = corpora.from_bytes("none", b"x")


@pytest.mark.parametrize("cell", EXERCISES)
def test_the_solution_is_right_and_the_stub_is_not_there_yet(cell):
    PAGE.assert_solved_by_its_solution_alone(cell, EXERCISES[cell])
    assert not EXERCISES[cell](lambda *case: None).right


@pytest.mark.parametrize("name", BLANKS)
def test_the_solution_of_a_blank_is_right_and_the_stub_is_blank(name):
    text, stub, check = BLANKS[name]
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.cells[text], flags=re.DOTALL)
    solution = PAGE.run(code, layer_norm=parts.layer_norm)[name]
    assert check(solution).right
    blank = PAGE.run(PAGE.cells[stub].split("\n\n\n")[0])[name]
    assert repr(check(blank)) == "blank: there is nothing here yet"


def normed(x, gain, bias, *, dim=-1, unbiased=False, eps=1e-5):
    deviation = torch.sqrt(x.var(dim, unbiased=unbiased, keepdim=True) + eps)
    return gain * (x - x.mean(dim, keepdim=True)) / deviation + bias


def halves(x, layer, *, first=True, second=True):
    if first:
        x = x + layer.attention(layer.norm_attention(x))
    return x + layer.inner(layer.norm_inner(x)) if second else x


def cross_entropies(hidden, E, b, targets):
    logits = torch.einsum("bsm,vm->bsv", hidden, E) + b
    return torch.logsumexp(logits, -1) - logits.gather(2, targets.unsqueeze(2)).squeeze(2)


def window_by_window(losses_of_rows, stream, seg_len, *, step=1, targets=1):
    windows = [stream[begin : begin + seg_len] for begin in range(0, len(stream) - seg_len, step)]
    after = [
        stream[begin + targets : begin + seg_len + targets] for begin in range(0, len(stream) - seg_len, step)
    ]
    return torch.stack(
        [losses_of_rows(tokens[None], row[None])[0, -1] for tokens, row in zip(windows, after, strict=True)]
    )


def windows_of(stream, seg_len):
    places = torch.arange(len(stream) - seg_len)[:, None] + torch.arange(seg_len)
    return stream[places], stream[places + 1]


RIGHT = {
    "sliding_losses": [window_by_window, lambda losses, s, n: losses(*windows_of(s, n)).T[-1]],
    "layer_norm": [normed, lambda x, g, b: torch.nn.functional.layer_norm(x, g.shape, g, b, 1e-5)],
    "block": [halves, lambda x, layer: layer(x, x[:, :0])],
    "token_losses": [
        cross_entropies,
        lambda h, E, b, t: torch.nn.functional.cross_entropy((h @ E.T + b).mT, t, reduction="none"),
    ],
}


@pytest.mark.parametrize(("name", "number"), [(name, i) for name in RIGHT for i in range(2)])
def test_a_right_answer_in_another_style_is_accepted(name, number):
    assert BLANKS[name][2](RIGHT[name][number]).right


WRONG = {
    "sliding_losses": {
        "isolated segments": lambda losses, s, n: window_by_window(losses, s, n, step=n),
        "its first prediction": lambda losses, s, n: losses(*windows_of(s, n)).T[0],
        "all predictions of every window": lambda losses, s, n: losses(*windows_of(s, n)),
        "target t is token t + 1": lambda losses, s, n: window_by_window(losses, s, n, targets=0),
        "the last window is missing": lambda losses, s, n: losses(*windows_of(s[:-1], n))[:, -1],
        "first difference": lambda losses, s, n: window_by_window(losses, s, n) + 1,
    },
    "layer_norm": {
        "x.std divides": lambda x, g, b: g * (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True) + b,
        "outside the root": lambda x, g, b: (
            g * (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True).sqrt() + 1e-5) + b
        ),
        "d - 1": lambda x, g, b: normed(x, g, b, unbiased=True),
        "over the positions": lambda x, g, b: normed(x, g, b, dim=1),
        "no number": lambda x, g, b: normed(x, g, b, eps=0),
        "mean is not subtracted": lambda x, g, b: (
            g * x / torch.sqrt(x.var(-1, unbiased=False, keepdim=True) + 1e-5) + b
        ),
        "exchanged": lambda x, g, b: normed(x, b, g),
        "divided by the variance": lambda x, g, b: (
            g * (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 1e-5) + b
        ),
    },
    "block": {
        "post-norm": lambda x, k: (
            k.after_attention(x, k.attention(x))
            if not k.pre_norm
            else k.norm_inner((y := k.norm_attention(x + k.attention(x))) + k.inner(y))
        ),
        "no residual connections": lambda x, k: k.inner(k.norm_inner(k.attention(k.norm_attention(x)))),
        "side by side": lambda x, k: halves(x, k, second=False) + halves(x, k, first=False) - x,
        "attention is missing": lambda x, k: halves(x, k, first=False),
        "feed-forward layer is missing": lambda x, k: halves(x, k, second=False),
        "normalised vectors are added": lambda x, k: (
            (z := k.norm_inner((y := k.norm_attention(x)) + k.attention(y))) + k.inner(z)
        ),
    },
    "token_losses": {
        "drop the last axis": lambda h, E, b, t: -(h @ E.T + b).log_softmax(-1).gather(2, t[..., None]),
        "mean over all tokens": lambda *case: cross_entropies(*case).mean(),
        "sign": lambda *case: -cross_entropies(*case),
        "bits": lambda *case: cross_entropies(*case) * log2(e),
        "bias b": lambda h, E, b, t: cross_entropies(h, E, torch.zeros_like(b), t),
        "no softmax": lambda h, E, b, t: -(h @ E.T + b).gather(2, t[:, :, None])[:, :, 0],
        "over the positions": lambda h, E, b, t: (
            -(h @ E.T + b).log_softmax(1).gather(2, t[:, :, None])[:, :, 0]
        ),
        "whole vocabulary": lambda h, E, b, t: -(h @ E.T + b).log_softmax(-1),
    },
}


@pytest.mark.parametrize(("name", "words"), [(name, words) for name, all_ in WRONG.items() for words in all_])
def test_a_wrong_answer_gets_its_sentence(name, words):
    verdict = BLANKS[name][2](WRONG[name][words])
    assert not verdict.right
    assert words in verdict.message


@pytest.mark.parametrize("name", BLANKS)
def test_each_mistake_of_a_blank_gets_its_own_sentence(name, monkeypatch):
    check, room = BLANKS[name][2], sliding if name == "sliding_losses" else parts
    assert_each_mistake_gets_its_own_sentence(check, room, monkeypatch, wrong=[], least=9)


@pytest.mark.parametrize("check", EXERCISES.values())
def test_each_mistake_gets_its_own_sentence(check, monkeypatch):
    assert_each_mistake_gets_its_own_sentence(check, judges, monkeypatch, wrong=[], least=5)


def test_segments_of_one_token_fewer_are_not_called_shuffled():
    def shorter(stream, batch, seg_len):
        lane = len(stream) // batch
        rows = stream[: batch * lane].reshape(batch, lane)
        return [
            (rows[:, i : i + seg_len - 1], rows[:, i + 1 : i + seg_len])
            for i in range(0, lane - seg_len, seg_len)
        ]

    def stepping(stream, batch, seg_len):
        lane = len(stream) // batch
        rows = stream[: batch * lane].reshape(batch, lane)
        return [(rows[:, i : i + seg_len], rows[:, i + 1 : i + seg_len + 1]) for i in range(lane - seg_len)]

    assert "seg_len - 1 tokens" in judges.check_lanes(shorter).message
    assert "one token apart" in judges.check_lanes(stepping).message


def test_a_prediction_is_answered_on_its_own_merits():
    questions = {question.name: question for question in judges.predictions.questions}
    assert questions.keys() == PAGE.run("prediction")["my_predictions"].keys()
    assert questions["mean_context"].judge(32.5).right
    assert questions["mean_context"].judge(32).right
    for guess in (0.0, 0.05, 1 / 16, 0.1):
        assert questions["copy_at_offset_3"].judge(guess).right
    assert not questions["copy_at_offset_3"].judge(1.0).right
    assert not questions["cuts"].judge("same").right


def test_shuffled_windows_are_found_out_whatever_their_order_and_leave_randomness_alone():
    def shuffled(stream, batch, seg_len):
        windows = rearrange(
            stream[: (len(stream) - 1) // seg_len * seg_len], "(row seg) -> row seg", seg=seg_len
        )
        rows = windows[torch.randperm(len(windows))]
        number = len(rows) // batch * batch
        return [(tokens, tokens + 1) for tokens in rows[:number].split(batch)]

    state = torch.get_rng_state()
    verdict = judges.check_lanes(shuffled)
    assert (verdict.right, verdict.message) == (False, judges.SHUFFLED)
    assert torch.equal(torch.get_rng_state(), state)
    assert judges.check_lanes(
        lambda *case: list(ContiguousBatches(case[0], batch=case[1], seg_len=case[2]))
    ).right


@pytest.mark.parametrize(("attention_len", "stride"), [(4, 4), (4, 1), (6, 4), (1, 1)])
def test_the_context_of_a_target_is_what_changes_its_loss(attention_len, stride):
    torch.manual_seed(0)
    model = TransformerLM(TINY).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    stream = torch.randint(5, (15,))
    read = lambda ids: evaluation.sliding_losses(model, ids, attention_len=attention_len, stride=stride)  # noqa: E731
    first = torch.full((14,), 14)
    for place in range(14):
        other = stream.clone()
        other[place] = (other[place] + 1) % 5
        changed = (read(other) - read(stream)).abs() > 1e-12
        changed[:place] = False  # there it is the target
        first[changed] = first[changed].clamp(max=place)
    found = [t + 1 - int(begin) for t, begin in enumerate(first)]
    assert found == [judges.context_of(t, attention_len, stride) for t in range(14)]


def test_the_widget_draws_the_contexts_of_the_packages_evaluation():
    space = PAGE.run("widget-parts")
    choices = {"seg_len": [4, 16, 64], "moved_by": list(space["STRIDES"])}
    for seg_len in choices["seg_len"]:
        for moved_by in choices["moved_by"]:
            stride = space["STRIDES"][moved_by](seg_len)
            expected = [judges.context_of(t, seg_len, stride) for t in range(128)]
            (axes,) = space["draw"](seg_len, moved_by).figure.axes
            assert [bar.get_height() for bar in axes.patches] == expected
            mean, most = axes.lines
            assert mean.get_ydata()[0] == pytest.approx(sum(expected) / 128)
            assert most.get_ydata()[0] == seg_len


ASSEMBLED = ["norm-stub", "block-stub", "loss-stub", "model"]


@pytest.mark.parametrize(
    ("needed", "cell", "right", "wrong"),
    [
        (["count"], "count", "key <= query", "key < query"),
        (["count"], "count", "& (key // seg_len == query // seg_len)", ""),
        (ASSEMBLED, "model", "stream[:-1], stream[1:]", "stream[:-1], stream[:-1]"),
        (ASSEMBLED, "model", "for layer in model.blocks:", "for layer in model.blocks[:1]:"),
        ([*ASSEMBLED, "model-check"], "no-crossing", "deep, piece", "deep, stream"),
    ],
)
def test_a_hand_built_piece_is_right_or_the_notebook_stops(needed, cell, right, wrong):
    conclusion = {"count": "seen-by-each", "model": "model-check", "no-crossing": ""}[cell]
    needed = [*needed, *([cell] if cell not in needed else []), conclusion]
    PAGE.run("torch.manual_seed(0)", *needed)
    broken = PAGE.cells[cell].replace(right, wrong)
    assert broken != PAGE.cells[cell]
    with pytest.raises(AssertionError):
        PAGE.run("torch.manual_seed(0)", *(broken if name == cell else name for name in needed))


def test_the_notebook_runs_on_the_learners_block_if_it_is_right_and_on_the_packages_if_not():
    for given, used in ((halves, True), (lambda x, layer: x, False)):
        filled = PAGE.cells["block-stub"].replace(
            "raise NotImplementedError  # your lines here", "return theirs(x, layer)"
        )
        names = PAGE.run(filled, theirs=given)
        assert (names["block"] is not parts.solution_block) == used


def test_the_figures_show_the_numbers_of_their_data():
    copied = results.read(NOTEBOOKS.parent / "figures" / "segment_copying.json").data
    (axes,) = figures.segment_copying(copied).figure.axes
    for line, system in zip(axes.lines, copied["systems"].values(), strict=False):
        assert list(line.get_ydata()) == [one["mean"] for one in system["by_offset"]]
    picture = drawn.offset_curve({"bits": [3.0, 2.0, 2.5]})
    curve, mean, last = picture.figure.axes[0].lines
    assert list(curve.get_ydata()) == [3.0, 2.0, 2.5]
    assert (mean.get_ydata()[0], last.get_xydata().tolist()) == (2.5, [[2, 2.5]])
    assert "2.000 at the best offset, 1" in picture.alt


def test_every_way_to_cut_gives_each_token_each_offset_once():
    (axes,) = drawn.all_cuts({"seg_len": 3, "time": 7}).figure.axes
    offsets = torch.tensor([int(text.get_text()) for text in axes.texts]).view(3, 7)
    assert offsets.sort(dim=0).values.tolist() == [[o] * 7 for o in range(3)]
    framed = [box.get_linewidth() > 2 for box in axes.patches]
    assert framed == (offsets == 2).flatten().tolist()


def test_the_block_is_drawn_with_its_four_parts_in_order():
    (axes,) = drawn.block_diagram().figure.axes
    written = sorted((text.get_position()[0], text.get_text()) for text in axes.texts)
    assert [text for _, text in written if text[:2] in ("LN", "At", "FF")] == [
        "LN₁",
        "Attention",
        "LN₂",
        "FF",
    ]


def test_one_trained_system_is_drawn_alone():
    curve = [{"mean": accuracy, "seeds": [accuracy]} for accuracy in (0.1, 0.9)]
    before, inside = ({"mean": accuracy} for accuracy in (0.1, 0.9))
    system = {"by_offset": curve, "token_in_segment_before": before, "token_in_segment": inside}
    task = {"systems": {"vanilla": system}, "distance": 1, "seg_len": 2, "chance": 0.25}
    picture = figures.segment_copying(task)
    assert picture.figure.axes[0].lines[0].get_ydata().tolist() == [0.1, 0.9]
    assert "mean of 1 seed;" in picture.alt
    assert picture.alt.endswith("absolute, no memory: 10 % at offsets below 1, 90 % from there on.")


def test_the_cut_text_shows_what_the_package_says_is_seen():
    shown = []
    PAGE.run("count", "seen-by-each", seen=shown.append)
    (data,) = shown
    graph = dependency_reach.propagate(3, n_layer=1, seg_len=4, mem_len=0, n_segment=4)
    assert data["sees"] == graph.sees.tolist()
    assert data["tokens"][1:] == data["targets"][:-1]
    picture = masks.seen(data)
    grid, counts = picture.figure.axes
    fills = [
        to_hex(box.get_facecolor(), keep_alpha=False).upper() for box in grid.patches if not box.get_hatch()
    ]
    assert len(grid.patches) - len(fills) == 16 * 15 // 2  # the future
    lost = fills.count(systems.NO_EFFECT.fill)
    assert (fills.count(systems.SEGMENT.fill), lost) == (4 * 10, 16 * 17 // 2 - 4 * 10)
    assert [bar.get_width() for bar in counts.patches[16:]] == 4 * [1, 2, 3, 4]
    assert counts.lines[0].get_xdata()[0] == 2.5
    assert "take away 96 of 136 pairs" in picture.alt


def test_lanes_are_drawn_as_the_package_cuts_them():
    shown = []
    PAGE.run("exercise-lanes-picture", Lanes=ContiguousBatches, lanes=shown.append)
    picture = masks.lanes(shown[0])
    (axes,) = picture.figure.axes
    looks = {}
    for box, words in zip(axes.patches, axes.texts, strict=True):
        looks.setdefault((box.get_facecolor(), box.get_hatch()), []).append(int(words.get_text()))
    first, second, targets, unused = looks.values()
    pairs = list(ContiguousBatches(torch.arange(32), batch=3, seg_len=4))
    assert [sorted(tokens.flatten().tolist()) for tokens, _ in pairs] == [first, second]
    assert targets == pairs[-1][1][:, -1].tolist()
    assert sorted(first + second + targets + unused) == list(range(32))
    assert "segment 1 reads 4 to 7 and 14 to 17 and 24 to 27" in picture.alt


def test_segment_copying_runs_end_to_end_at_toy_size():
    asked = segment_copying.settings("quick", NO_TEXT)
    asked |= {"seg_len": 4, "mem_len": 4, "distances": [2], "steps": 2, "batch": 2, "test_streams": 8}
    told = []
    found = compute(
        segment_copying.parts(asked, NO_TEXT, seeds=[0, 1], device="cpu"),
        report=lambda label, steps, record: told.append(label),
    )
    data = segment_copying.collect(asked, NO_TEXT, found)
    assert len(set(told)) == len(found) == 3 * 2
    assert len(told) == 3 * 2 * 2
    assert [row["mem_len"] for row in data["systems"].values()] == [0, 0, 4]
    assert [row["attention"] for row in data["systems"].values()] == ["absolute", "xl", "xl"]
    for system in data["systems"].values():
        accuracy = [one["seeds"][1] for one in system["by_offset"]]
        assert system["token_in_segment_before"]["seeds"][1] == pytest.approx(sum(accuracy[:2]) / 2)
        assert system["token_in_segment"]["seeds"][1] == pytest.approx(sum(accuracy[2:]) / 2)
    assert figures.segment_copying(data).alt
