"""Notebook 00: its checks, its widget, and what it links to."""

import re
from math import e, log, log2
from pathlib import Path

import nbformat
import pytest
import torch
from einops import reduce
from matplotlib.colors import to_rgba

from minitxl import extend, figures, memory
from minitxl.analysis.dependency_reach import propagate
from minitxl.course.checks.reading import check_read
from minitxl.course.checks.start import check_bits_by_offset, check_choice, check_remember, predictions
from minitxl.course.widgets import explore
from minitxl.experiments.shared import results
from minitxl.figures.picture import PHONE
from minitxl.figures.recurrence.masks import readable
from minitxl.figures.systems import NO_EFFECT
from minitxl.figures.training.curves import bits_by_offset_curves

ROOT = Path(__file__).parents[2]
CELLS = {
    cell.id: cell.source
    for cell in nbformat.read(ROOT / "notebooks" / "00_start_here.ipynb", as_version=4).cells
}


@pytest.mark.parametrize(
    ("names", "seg_len", "how"),
    [
        ("memories", 16, [{"mem_len": 0, "n_layer": 1}, {"mem_len": 16, "n_layer": 1}]),
        ("depths", 8, [{"mem_len": 8, "n_layer": n} for n in (1, 2, 3)]),
    ],
)
def test_the_line_of_code_shows_what_the_package_says_can_be_seen(names, seg_len, how):
    given: dict = {"propagate": propagate, "readable": readable}
    exec(CELLS["seen"], given)
    exec(CELLS["layers"], given)
    line, rows = given["line"], given[names]
    reaches = [memory.reach((len(line) - 1) % seg_len, seg_len=seg_len, **one) for one in how]
    assert [sum(told) for told in rows.values()] == [reach + 1 for reach in reaches]
    picture = readable({"tokens": line, "seg_len": seg_len, "rows": rows})
    assert picture.figure.get_figwidth() <= PHONE  # all of it is seen at once there
    (axes,) = picture.figure.axes
    names = [f"{name}: the last {reach + 1}" for name, reach in zip(rows, reaches, strict=True)]
    assert [words.get_text() for words in axes.texts if words.get_text() in names] == names
    written = [words.get_text() for words in axes.texts if words.get_text() not in names]
    for row, reach in enumerate(reaches):
        shown = written[row * (len(line) + 1) :][: len(line) + 1]
        assert shown[-1] == "?"
        assert "".join(shown[:-1]) == line[-reach - 1 :].replace(" ", "␣")
        assert shown[: len(line) - reach - 1] == [""] * (len(line) - reach - 1)
        looks = [box.get_facecolor() for box in axes.patches[row * (len(line) + 1) :][: len(line)]]
        assert [look == to_rgba(NO_EFFECT.fill) for look in looks] == [not text for text in shown[:-1]]
    assert all(name in picture.alt for name in names)
    places = [words.get_position()[1] for words in axes.texts if words.get_text() in names]
    for cuts, at in zip(axes.collections, places, strict=True):
        assert (
            min(y for cut in cuts.get_segments() for _, y in cut) > at - 0.1
        )  # none crosses a name above it


def test_a_good_guess_needs_the_memory():
    given: dict = {"propagate": propagate, "readable": readable}
    exec(CELLS["seen"], given)
    seen = {
        name: "".join(token for token, one in zip(given["line"], told, strict=True) if one)
        for name, told in given["memories"].items()
    }
    assert "height" in seen["memory of 16"]
    assert "height" not in seen["no memory"]


def test_a_prediction_is_answered_on_its_own_merits():
    questions = {question.name: question for question in predictions.questions}
    right = {"change": "positions", "where": "beginning", "cheaper": "cached", "reach": 127}
    assert all(verdict.right for verdict in predictions.check(right).verdicts)
    said = {
        guess: questions["reach"].judge(guess).message for guess in (31, 32, 63, 64, 95, 96, 128, 192, 500)
    }
    assert len(set(said.values())) == len(said)
    assert questions["reach"].answer == memory.longest_reach(n_layer=3, seg_len=32, mem_len=32)
    given: dict = {}
    exec(CELLS["prediction"], given)
    assert given["my_predictions"] == dict.fromkeys(right)


@pytest.mark.parametrize(("cell", "shorter"), [("exercise-2", False), ("exercise-3", True)])
def test_the_solutions_that_are_folded_away_reach_1000(cell, shorter):
    numbers = re.search(r"N = (\d+), L (?:= M )?= (\d+)(?:, M = (\d+))?", CELLS[cell]).groups()
    layers, size, length = (int(number) for number in (*numbers[:2], numbers[2] or numbers[1]))
    verdict = check_choice({"n_layer": layers, "seg_len": size, "mem_len": length}, shorter=shorter)
    assert repr(verdict) == "right: 1,000 tokens"


@pytest.mark.parametrize(
    ("choice", "shorter", "sentence"),
    [
        ((4, 200, 200), False, "off by one: 999"),
        ((4, 250, 250), False, "is N·M, which leaves the query's own offset out"),
        ((2, 250, 250), False, "is N·(M + L), which counts the segment again"),
        ((2, 10, 10), False, "29 tokens"),
        ((4, 200, 199), True, "998 tokens, by the formula above: 199 + 199 + 3 · 200"),
        ((1, 1001, 0), False, "must be 2 layers"),
        ((6, 143, 100), False, "as long as the segment"),
        ((6, 143, 143), True, "must be shorter than the segment"),
        ((2, 501, 500), True, "one layer's reach; 2 layers reach 1,501"),
        ((5, 501, 100), True, "that is L - 1 + N·M"),
        ((10, 95, 52), True, "off by one: 1,001"),
        ((None, None, None), False, "nothing here yet"),
        ((2, 2.5, 10), False, "whole numbers"),
    ],
)
def test_a_wrong_choice_gets_its_sentence(choice, shorter, sentence):
    sizes = dict(zip(("n_layer", "seg_len", "mem_len"), choice, strict=True))
    verdict = check_choice(sizes, shorter=shorter)
    assert not verdict.right
    assert sentence in verdict.message


def by_loop(losses, seg_len):
    rows = [losses[i : i + seg_len] for i in range(0, len(losses) - seg_len + 1, seg_len)]
    return torch.stack([sum(row[o] for row in rows) / len(rows) for o in range(seg_len)]) / log(2)


RIGHT = {
    "loop": by_loop,
    "reshape": lambda losses, n: (losses[: len(losses) - len(losses) % n].reshape(-1, n) / log(2)).mean(0),
    "strides": lambda losses, n: (
        torch.stack([losses[: len(losses) // n * n][o::n].mean() for o in range(n)]) * log2(e)
    ),
}
WRONG = {
    "these are nats": lambda losses, n: by_loop(losses, n) * log(2),
    "multiplied by ln 2": lambda losses, n: by_loop(losses, n) * log(2) ** 2,
    "means over segments": lambda losses, n: (losses[: len(losses) // n * n].view(-1, n) / log(2)).mean(1),
    "sums over the segments": lambda losses, n: by_loop(losses, n) * (len(losses) // n),
    "mean over everything": lambda losses, n: losses[: len(losses) // n * n].mean() / log(2),
    "'(segment offset)'": lambda losses, n: (losses[: len(losses) // n * n].view(n, -1) / log(2)).mean(1),
    "first segment alone": lambda losses, n: losses[:n] / log(2),
    "log(10) turns nats into decimal digits": lambda losses, n: by_loop(losses, n) * log(2) / log(10),
    "cut the tail off first (Hint 1)": lambda losses, n: (losses.reshape(-1, n) / log(2)).mean(0),
    "cut the tail off first": lambda losses, n: reduce(losses, "(s o) -> o", "mean", o=n),
    "it raised IndexError": lambda losses, n: losses[n * len(losses)],
}


@pytest.mark.parametrize("name", RIGHT)
def test_losses_by_offset_in_another_style_are_accepted(name):
    assert check_bits_by_offset(RIGHT[name]).right


@pytest.mark.parametrize("words", WRONG)
def test_wrong_losses_by_offset_get_their_sentence(words):
    verdict = check_bits_by_offset(WRONG[words])
    assert not verdict.right
    assert words in verdict.message


def test_the_folded_solution_is_right_and_the_stub_is_blank():
    (code,) = re.findall(r"```python\n(.*?)```", CELLS["offset-text"], flags=re.DOTALL)
    space: dict = {"log": log, "reduce": reduce}
    exec(code, space)
    assert check_bits_by_offset(space["bits_by_offset"]).right
    exec(CELLS["offset-stub"].split("\n\n\n")[0], space)
    assert repr(check_bits_by_offset(space["bits_by_offset"])) == "blank: there is nothing here yet"


def by_tokens(memory, states, mem_len):
    tokens = [*memory.unbind(2), *states.unbind(2)]
    return torch.stack(tokens[len(tokens) - min(mem_len, len(tokens)) :], 2) if mem_len else states[:, :, :0]


REMEMBERED = {
    "tokens": by_tokens,
    "two parts": lambda memory, states, m: torch.cat(
        [
            memory[:, :, max(0, memory.shape[2] + states.shape[2] - m) :],
            states[:, :, -m or states.shape[2] :],
        ],
        dim=2,
    ),
    "detached": lambda memory, states, m: torch.cat([memory, states], -2).flip(2)[:, :, :m].flip(2).detach(),
}
FORGOTTEN = {
    "[-0:] is everything": lambda memory, states, m: torch.cat([memory, states], -2)[..., -m:, :],
    "counts from the end. max(0, …) mends": lambda memory, states, m: torch.cat([memory, states], 2)[
        :, :, memory.size(2) + states.size(2) - m :
    ],
    "the oldest tokens are kept": lambda memory, states, m: torch.cat([memory, states], 2)[..., :m, :],
    "only the segment is remembered": lambda memory, states, m: by_tokens(states[:, :, :0], states, m),
    "the old memory is kept": lambda memory, states, m: memory[:, :, max(0, memory.shape[2] - m) :],
    "nothing is ever forgotten": lambda memory, states, m: torch.cat([memory, states], 2),
    "memory comes first": lambda memory, states, m: by_tokens(states, memory, m),
    "that is axis 2": lambda memory, states, m: torch.cat([memory, states])[:, :, -m:],
    "turned round": lambda memory, states, m: by_tokens(memory, states, m).flip(2),
    "you returned the shape": lambda memory, states, m: memory + states.sum(),
}


@pytest.mark.parametrize("name", REMEMBERED)
def test_a_memory_step_in_another_style_is_accepted(name):
    verdict = check_remember(REMEMBERED[name])
    assert verdict.right, verdict


@pytest.mark.parametrize("words", FORGOTTEN)
def test_a_wrong_memory_step_gets_its_sentence(words):
    verdict = check_remember(FORGOTTEN[words])
    assert not verdict.right
    assert words in verdict.message


def test_the_folded_memory_step_is_right_and_its_stub_is_blank():
    (code,) = re.findall(r"```python\n(.*?)```", CELLS["line-text"], flags=re.DOTALL)
    space: dict = {"torch": torch}
    exec(code, space)
    assert check_remember(space["remember"]).right
    exec(CELLS["remember-stub"].split("\n\n\n")[0], space)
    assert check_remember(space["remember"]).blank


def looped(model, tokens, seg_len, mem_len, *, remember=by_tokens, at=(0, -1)):
    memory, begin = torch.zeros(2, 1, 0, 8), 0
    while begin < len(tokens):
        log_probs, states = model(tokens[begin : begin + seg_len].unsqueeze(0), memory)
        memory, begin = remember(memory, states, mem_len), begin + seg_len
    return log_probs[at].exp()


def one_by_one(model, tokens, seg_len, mem_len):
    memory = None
    for begin in range(0, len(tokens), seg_len):
        segment = tokens[begin : begin + seg_len][None]
        with torch.no_grad():
            outputs, states = model(segment, memory)
        memory = extend(memory, states, mem_len=mem_len)
    return outputs[0].softmax(dim=-1)[-1]


def reading_again(model, tokens, seg_len, mem_len):
    memory = torch.zeros(2, 1, 0, 8)
    for segment in tokens.split(seg_len):
        memory = by_tokens(memory, model(segment[None], memory)[1], mem_len)
        log_probs, _ = model(segment[None], memory)
    return log_probs[0, -1].exp()


LOOPS = {"a while loop that keeps gradients": looped, "chunks, and a softmax": one_by_one}
BROKEN = {
    "as if nothing stood before it": lambda model, tokens, L, M: one_by_one(model, tokens, L, 0),
    "every token sees all tokens": lambda model, tokens, L, M: one_by_one(model, tokens, 99, M),
    "the last segment's states alone": lambda *case: looped(*case, remember=lambda memory, states, M: states),
    "mem_len, not seg_len": lambda model, tokens, L, M: looped(
        model, tokens, L, M, remember=lambda memory, states, _: by_tokens(memory, states, L)
    ),
    "the past comes first": lambda *case: looped(
        *case, remember=lambda memory, states, M: by_tokens(states, memory, M)
    ),
    "with a memory that holds it already": reading_again,
    "return it after the loop": lambda model, tokens, L, M: looped(model, tokens[:L], L, M),
    "and give mem_len to remember": lambda *case: looped(
        *case, remember=lambda memory, states, M: torch.cat([memory, states], dim=2)
    ),
    "these are log-probabilities": lambda *case: looped(*case).log(),
    "after the segment's first token": lambda *case: looped(*case, at=(0, 0)),
    "after all tokens of the last segment": lambda *case: looped(*case, at=0),
    "the axis of the batch": lambda *case: looped(*case)[None],
    "the likeliest character alone": lambda *case: looped(*case).argmax(),
    "the unfinished last segment is dropped": lambda model, tokens, L, M: one_by_one(
        model, tokens[: len(tokens) - len(tokens) % L], L, M
    ),
    "first difference at": lambda *case: looped(*case) + 0.25,
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_in_another_style_is_accepted(name):
    verdict = check_read(LOOPS[name])
    assert verdict.right, verdict


@pytest.mark.parametrize("words", BROKEN)
def test_a_wrong_loop_gets_its_sentence(words):
    verdict = check_read(BROKEN[words])
    assert not verdict.right
    assert words in verdict.message


def test_the_folded_loop_is_right_and_its_stub_is_blank():
    (code,) = re.findall(r"```python\n(.*?)```", CELLS["loop-text"], flags=re.DOTALL)
    space: dict = {"torch": torch, "remember": by_tokens}
    exec(code, space)
    assert check_read(space["read"]).right
    exec(CELLS["loop"].split("\n\n\n")[0], space)
    assert check_read(space["read"]).blank


def test_the_table_of_memory_steps_is_what_the_step_does():
    rows = re.findall(
        r"^\| ([\d ]+|empty) \| ([\d ]+) \| ([\d ]+) \| ([\d ]+) \|", CELLS["line-text"], re.MULTILINE
    )
    assert len(rows) == 3
    for row in rows:
        old, segment, joined, new = ([*map(float, text.replace("empty", "").split())] for text in row)
        step = by_tokens(*(torch.tensor(tokens).reshape(1, 1, -1, 1) for tokens in (old, segment)), 4)
        assert (old + segment, new) == (joined, step.flatten().tolist())


def test_losses_by_offset_are_drawn():
    curves = {"relative": [4.0, 2.0, 1.0, 2.0], "xl": [2.0, 1.0, 1.0, 1.5]}
    drawn = bits_by_offset_curves(curves)
    assert [line.get_ydata().tolist() for line in drawn.figure.axes[0].lines] == list(curves.values())
    assert "Transformer-XL, no memory: 4.00 at offset 0, 2.00 at offset 1, 1.50 on average" in drawn.alt


def test_the_widget_draws_what_the_result_holds():
    stored = results.read(ROOT / "figures" / "memory_and_positions.json")
    names = {"stored": stored, "figures": figures, "explore": explore}
    exec(CELLS["widget"], names)
    assert names["lengths"] == [row["mem_len"] for row in stored.data["xl_memory"]["by_memory"]]
    for row in stored.data["xl_memory"]["by_memory"]:
        first, second, third = names["with_memory_of"](row["mem_len"]).figure.axes
        values = row["bits"]["mean"], row["longest_reach"], row["microseconds_per_token"]["mean"]
        for axes, value in zip((first, second, third), values, strict=True):
            marked = axes.lines[1]
            assert (marked.get_xdata()[0], marked.get_ydata()[0]) == (row["mem_len"], value)


def test_the_map_names_every_notebook_in_order():
    linked = re.findall(r"^\| (\d\d) \| \[(\w+)\]\((\w+)\.ipynb\)", CELLS["course-map"], re.MULTILINE)
    assert [number for number, _, _ in linked] == [f"{number:02}" for number in range(15)]
    assert all(file == f"{number}_{name}" for number, name, file in linked)
