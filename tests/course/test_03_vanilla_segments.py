"""Notebook 03: its experiment, its checks, its widget, and its hand-built pieces."""

import pytest
import torch
from einops import rearrange
from page import NOTEBOOKS, Page, assert_each_mistake_gets_its_own_sentence

from minitxl import figures
from minitxl.analysis import dependency_reach
from minitxl.config import ModelConfig
from minitxl.course.checks import segments as judges
from minitxl.data import corpora
from minitxl.data.batching import ContiguousBatches
from minitxl.experiments import results, segment_copying
from minitxl.experiments.runner import compute
from minitxl.figures.recurrence import masks
from minitxl.figures.recurrence import segments as drawn
from minitxl.inference import evaluation
from minitxl.model import TransformerLM

EXERCISES = {"exercise-lanes": judges.check_lanes, "exercise-context": judges.check_context_of}
PAGE = Page("03_vanilla_segments", explore=lambda draw, **choices: choices)
TINY = ModelConfig(vocab_size=5, n_layer=1, d_model=8, n_head=1, d_head=8, d_inner=8, dropout=0.0)
NO_TEXT = corpora.from_bytes("none", b"x")


@pytest.mark.parametrize("cell", EXERCISES)
def test_the_solution_is_right_and_the_stub_is_not_there_yet(cell):
    PAGE.assert_solved_by_its_solution_alone(cell, EXERCISES[cell])
    assert not EXERCISES[cell](lambda *case: None).right


@pytest.mark.parametrize("check", EXERCISES.values())
def test_each_mistake_gets_its_own_sentence(check, monkeypatch):
    assert_each_mistake_gets_its_own_sentence(check, judges, monkeypatch, wrong=[], least=5)


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
    space = PAGE.run("widget")
    choices = space["explore"](**{"draw": None, "seg_len": [4, 16, 64], "moved_by": list(space["READINGS"])})
    for seg_len in choices["seg_len"]:
        for moved_by in choices["moved_by"]:
            stride = space["READINGS"][moved_by](seg_len)
            expected = [judges.context_of(t, seg_len, stride) for t in range(128)]
            (axes,) = space["draw"](seg_len, moved_by).figure.axes
            assert [bar.get_height() for bar in axes.patches] == expected
            mean, most = axes.lines
            assert mean.get_ydata()[0] == pytest.approx(sum(expected) / 128)
            assert most.get_ydata()[0] == seg_len


@pytest.mark.parametrize(
    ("cell", "right", "wrong"),
    [
        ("by-hand", "stream[:-1], stream[1:]", "stream[:-1], stream[:-1]"),
        ("count", "key <= query", "key < query"),
        ("count", "& (key // seg_len == query // seg_len)", ""),
        ("no-crossing", "stream.split(4, dim=1)", "stream.split(12, dim=1)"),
    ],
)
def test_a_hand_built_piece_is_right_or_the_notebook_stops(cell, right, wrong):
    needed = ["torch.manual_seed(0)", *(["by-hand"] if cell == "no-crossing" else []), cell]
    PAGE.run(*needed)
    broken = PAGE.cells[cell].replace(right, wrong)
    assert broken != PAGE.cells[cell]
    with pytest.raises(AssertionError):
        PAGE.run(*needed[:-1], broken)


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


def test_one_trained_system_is_drawn_alone():
    curve = [{"mean": accuracy, "seeds": [accuracy]} for accuracy in (0.1, 0.9)]
    before, inside = ({"mean": accuracy} for accuracy in (0.1, 0.9))
    system = {"by_offset": curve, "token_in_segment_before": before, "token_in_segment": inside}
    task = {"systems": {"vanilla": system}, "distance": 1, "seg_len": 2, "chance": 0.25}
    picture = figures.segment_copying(task)
    assert picture.figure.axes[0].lines[0].get_ydata().tolist() == [0.1, 0.9]
    assert "mean of 1 seed;" in picture.alt
    assert picture.alt.endswith("absolute, no memory: 0.10 at offsets below 1, 0.90 from there on.")


def test_the_cut_text_shows_what_the_package_says_is_seen():
    shown = []
    PAGE.run("count", "seen-by-each", seen=shown.append)
    (data,) = shown
    graph = dependency_reach.propagate(3, n_layer=1, seg_len=4, mem_len=0, n_segment=4)
    assert data["sees"] == graph.sees.tolist()
    assert data["tokens"][1:] == data["targets"][:-1]
    picture = masks.seen(data)
    grid, counts = picture.figure.axes
    looks = [(box.get_facecolor()[:3], box.get_hatch()) for box in grid.patches]
    blue = [fill for fill, hatch in looks if not hatch and fill != (1, 1, 1)]
    lost = sum(bool(hatch) for _, hatch in looks)
    assert (len(looks), len(blue), lost) == (16 * 16, 4 * 10, 16 * 17 // 2 - 4 * 10)
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
