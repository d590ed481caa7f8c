"""Notebook 10: its checks, its widget, and the step that is built by hand."""

import re
from copy import deepcopy
from itertools import islice
from math import log

import nbformat
import pytest
import torch
from page import NOTEBOOKS, Page

from minitxl import ModelConfig
from minitxl.course.checks import mean_bits, schedule, shares, training_bugs, training_loop
from minitxl.course.checks import training as judges
from minitxl.data.batching import ContiguousBatches
from minitxl.experiments.shared import results
from minitxl.inference.evaluation import cached, cached_losses
from minitxl.training import loop
from minitxl.training.config import TrainConfig
from minitxl.training.schedules import learning_rate

PAGE = Page("10_training")
CELLS, run = PAGE.cells, PAGE.run
OUTPUTS = {
    cell.id: cell.get("outputs", [])
    for cell in nbformat.read(NOTEBOOKS / "10_training.ipynb", as_version=4).cells
}


SOLVED = {
    "training_step": judges.solution_training_step,
    "learning_rate": schedule.solution_learning_rate,
    "train_steps": training_loop.solution_train_steps,
}


def compared(**names):
    """Run the notebook's comparison with the package on some of the reader's functions."""

    class Text:
        train = torch.randint(256, (2000,), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)

    run(CELLS["training-loop"], CELLS["equal"], **{"corpus": Text, **SOLVED, **names})


def stub(cell: str, name: str):
    return run(CELLS[cell].rpartition("\n\n")[0])[name]


@pytest.mark.parametrize(
    ("cell", "check"),
    [
        ("exercise-trainer", judges.check_trainer),
        ("step-parts", judges.check_training_step),
        ("loop-text", schedule.check_learning_rate),
        ("loop-read", training_loop.check_train_steps),
        ("exercise-bits", mean_bits.check_bits),
        ("shares-text", shares.check_shares),
    ],
)
def test_the_solution_is_right_and_nobodys_random_numbers_change(cell, check):
    state = torch.get_rng_state()
    verdict = check(PAGE.solution(cell))
    assert verdict.right, verdict
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("bugs", judges._subsets(training_bugs.BUGS), ids=lambda bugs: "+".join(sorted(bugs)))
def test_the_check_names_the_bugs_that_are_there_and_no_other(bugs):
    verdict = judges.check_trainer(training_bugs.with_bugs(bugs), name_bugs=True)
    assert not verdict.right
    seen = bugs - {"rows"} if "graph" in bugs else bugs  # shuffled rows show only from the second step on
    assert {bug for bug, words in training_bugs.BUGS.items() if words in verdict.message} == seen
    assert ("look again once it runs" in verdict.message) == ("graph" in bugs)


def test_the_notebooks_trainer_has_all_four():
    broken = stub("my-train", "my_train")
    assert training_bugs.BUGS["graph"] in judges.check_trainer(broken, name_bugs=True).message
    source = CELLS["my-train"].rpartition("\n\n")[0]
    detached = source.replace("memory.shape[2] - mem_len) :]", "memory.shape[2] - mem_len) :].detach()")
    assert detached != source
    message = judges.check_trainer(run(detached)["my_train"], name_bugs=True).message
    assert [bug for bug, words in training_bugs.BUGS.items() if words in message] == ["rate", "clip", "rows"]


@pytest.mark.parametrize("detached", [False, True])
def test_a_loss_that_is_still_a_tensor_is_refused(detached):
    def step(model, optimizer, segment, memory, rate, mem_len, clip):
        losses = []
        loss_of = model.token_losses

        def noted(*case):
            one, states = loss_of(*case)
            losses.append(one.mean())
            return one, states

        model.token_losses = noted
        _, memory = judges.solution_training_step(model, optimizer, segment, memory, rate, mem_len, clip)
        del model.token_losses
        return losses[-1].detach() if detached else losses[-1], memory

    verdict = judges.check_training_step(step)
    assert not verdict.right
    assert "return loss.item()" in verdict.message
    assert ("graph" in verdict.message) == (not detached)


@pytest.mark.parametrize("returned", [lambda loss, memory: loss, lambda loss, memory: (memory, loss)])
def test_what_is_returned_in_another_order_or_in_part_is_told(returned):
    def step(*case):
        return returned(*judges.solution_training_step(*case))

    message = judges.check_training_step(step).message
    assert message == "return two things, first the loss and then the memory"


def test_bugs_are_counted_and_not_named_for_who_looks_for_them():
    message = judges.check_trainer(training_bugs.with_bugs({"rate", "clip"})).message
    assert "2 of the four can be seen" in message
    assert not any(words in message for words in training_bugs.BUGS.values())
    new = judges.check_trainer(training_bugs.with_bugs({"none"})).message
    assert new == f"still there: {training_bugs.OTHERS['none']}"
    for output in OUTPUTS["my-train"]:
        assert not any(words in str(output) for words in training_bugs.BUGS.values())


def test_memory_that_is_cut_from_its_end_is_refused_where_there_is_none():
    source = CELLS["exercise-trainer"].partition("```python\n")[2].partition("```")[0]
    line = "memory = extend(memory, states, mem_len=mem_len)"
    cut = "memory = (states if memory is None else torch.cat([memory, states], 2))[:, :, -mem_len:].detach()"
    assert line in source
    assert judges.check_trainer(run(source.replace(line, cut))["my_train"]).message == judges.KEEPS_ALL
    raising = line + "\n        assert mem_len"
    assert "with mem_len = 0, it raised AssertionError" in (
        judges.check_trainer(run(source.replace(line, raising))["my_train"]).message
    )


def test_another_trainer_is_told_apart_from_all_of_these():
    def untrained(model, segments, rates, *, mem_len, clip):
        return [0.0 for _ in segments]

    def unfinished(model, segments, rates, *, mem_len, clip):
        raise NotImplementedError

    assert "of the losses, you returned [0, 0, 0, 0], right is [2." in judges.check_trainer(untrained).message
    assert judges.check_trainer(untrained).message.endswith("look at how the loss is made")
    assert judges.check_trainer(unfinished).message == "there is nothing here yet"
    assert "TypeError" in judges.check_trainer(lambda: None).message


def test_a_loss_that_differs_later_points_to_the_step_before():
    def with_half_a_memory(model, optimizer, segment, memory, rate, mem_len, clip):
        loss, memory = judges.solution_training_step(model, optimizer, segment, memory, rate, mem_len, clip)
        return loss, memory / 2

    message = judges.check_training_step(with_half_a_memory).message
    assert "first difference at [1]" in message
    assert message.endswith("look at the update of the step before, or the memory it hands on")


def test_each_mistake_with_bits_gets_its_own_sentence(monkeypatch):
    assert mean_bits.check_bits(stub("my-bits", "my_bits")).message == "there is nothing here yet"
    seen, judge = {}, mean_bits.judge
    monkeypatch.setattr(
        mean_bits, "judge", lambda attempt, **all_: seen.update(all_) or judge(attempt, **all_)
    )
    mean_bits.check_bits(lambda segments: 0.0)
    assert len(seen["mistakes"]) == 5
    for sentence, mistake in seen["mistakes"].items():
        assert mean_bits.check_bits(mistake).message == sentence


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("return loss.item(), extend(memory, states, mem_len=mem_len)", "return loss.item(), None"),
        ("for group in optimizer.param_groups:", "for group in optimizer.param_groups[:1]:"),
        ("clip_grad_norm_(model.parameters(), clip)", "clip_grad_norm_(model.parameters(), 1e9)"),
        ("optimizer.zero_grad()", "pass"),
    ],
)
def test_the_model_is_trained_by_the_readers_step_and_a_wrong_one_is_replaced(right, wrong):
    (code,) = re.findall(r"```python\n(.*?)```", CELLS["step-parts"], flags=re.DOTALL)
    _, _, after = CELLS["training-step"].partition("\n\n\n")
    mine = run(code + after, checks=judges)["training_step"]
    assert mine is not judges.solution_training_step
    calls = []
    compared(training_step=lambda *case: calls.append(1) or mine(*case))
    assert len(calls) == 15

    broken = code.replace(right, wrong)
    assert broken != code
    assert run(broken + after, checks=judges)["training_step"] is judges.solution_training_step


def test_the_models_are_trained_in_the_readers_loop_and_a_wrong_one_is_replaced():
    assert run(CELLS["train-steps"])["train_steps"] is training_loop.solution_train_steps
    (code,) = re.findall(r"```python\n(.*?)```", CELLS["loop-read"], flags=re.DOTALL)
    _, _, after = CELLS["train-steps"].partition("\n\n\n")
    mine = run(code + after)["train_steps"]
    assert mine is not training_loop.solution_train_steps
    calls = []
    compared(train_steps=lambda *case: calls.append(1) or mine(*case))
    assert len(calls) == 3
    for right, wrong in (
        ("run.memory if index else None", "run.memory"),
        ("loss, run.memory =", "loss, _ ="),
        ("run.step + 1)", "run.step)"),
    ):
        broken = code.replace(right, wrong)
        assert broken != code
        assert run(broken + after)["train_steps"] is training_loop.solution_train_steps
        with pytest.raises(AssertionError):
            compared(train_steps=run(broken)["train_steps"])


def test_a_rate_that_begins_at_zero_stops_the_notebook():
    with pytest.raises(AssertionError):
        compared(learning_rate=lambda step, *sizes: schedule.solution_learning_rate(step - 1, *sizes))


def test_a_training_that_was_stopped_goes_on_in_the_readers_loop():
    text = torch.randint(256, (100,), generator=torch.Generator().manual_seed(0))
    small = ModelConfig(n_layer=1, d_model=16, n_head=2, d_head=8, d_inner=32, dropout=0.0)
    settings = TrainConfig(seg_len=8, mem_len=8, batch=4, steps=7, warmup=2, validate_every=3)
    segments = ContiguousBatches(text, batch=4, seg_len=8)
    train = run(CELLS["training-loop"], **SOLVED)["train"]
    at_once, stopped = (loop.start(small, settings) for _ in range(2))
    whole = list(train(at_once, segments, text))
    records = [record for n in (2, 3, 9) for record in islice(train(stopped, segments, text), n)]
    assert [record.step for record in records] == [1, 2, 3, 4, 5, 6, 7]
    assert [record.bits for record in records] == [record.bits for record in whole]
    assert [record.step for record in records if record.valid_bits is not None] == [3, 6, 7]
    assert stopped.tokens_read == at_once.tokens_read == 7 * 4 * 8


def with_the_memory_of_other_lanes(tokens, targets, memory, n_gpu):
    return shares.solution_shares(tokens, targets, memory if memory is None else memory.flip(1), n_gpu)


def test_lanes_that_read_another_s_memory_stop_the_notebook():
    text = (b"The cat sat on the mat. The dog sat on the log, and looked at it for a while. " * 60)[:4000]
    given = {"corpus": type("Corpus", (), {"train": torch.tensor(list(text))})}
    rows = run(CELLS["gpus"], shares_of=shares.solution_shares, **given)["rows"]
    assert [row["step"] for row in rows] == ["1", "2", "3"]
    assert all(row["mean of both"] == row["norm, the whole batch"] != row["first GPU"] for row in rows)
    assert len({row["mean of both"] for row in rows}) == 3  # the model moved
    with pytest.raises(AssertionError):
        run(CELLS["gpus"], shares_of=with_the_memory_of_other_lanes, **given)


def test_the_gpus_run_on_the_readers_division_if_it_is_right():
    assert run(CELLS["shares"])["shares_of"] is shares.solution_shares
    mine = CELLS["shares"].replace("raise NotImplementedError", "return solution(*given)")
    mine = re.sub(r"def shares_of\([^)]*\)", "def shares_of(*given)", mine)
    assert run(mine, solution=shares.solution_shares)["shares_of"].__name__ == "shares_of"
    assert run(mine, solution=lambda *given: 0)["shares_of"] is shares.solution_shares


@pytest.mark.parametrize("case", schedule.CASES)
def test_the_rate_that_is_written_is_the_packages(case):
    step, peak, warmup, steps = case
    settings = TrainConfig(learning_rate=peak, warmup=warmup, steps=steps)
    assert schedule.solution_learning_rate(*case) == pytest.approx(learning_rate(step, settings), rel=1e-12)


def test_predictions_are_answered_by_the_stored_results_and_by_the_untrained_model():
    answers = {"memory_share": 66, "rate": "falls", "wrong_memory": "training", "exchanged": "gradients"}
    checked = mean_bits.predictions.check(answers | {"rate": "constant"}, memory_share=69)
    assert all(verdict.right for verdict in checked.verdicts)
    wrong = {"memory_share": 50, "rate": "falls", "wrong_memory": "test", "exchanged": "both"}
    checked = mean_bits.predictions.check(wrong, memory_share=69)
    assert not any(verdict.right or verdict.blank for verdict in checked.verdicts)


def test_a_pair_is_scored_on_stretches_of_the_test_text_each_read_alone():
    length, seg_len = 96, 32
    test = torch.randint(256, (2000,), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    small = ModelConfig(n_layer=2, d_model=16, n_head=2, d_head=8, d_inner=32, attention="shaw", dropout=0.0)
    mine = {mem_len: loop.start(small, TrainConfig(mem_len=mem_len)) for mem_len in (32, 0)}
    corpus = type("Corpus", (), {"test": test})
    cell = CELLS["pair-table"].replace("8192", str(length))
    space = run(cell, corpus=corpus, mine=mine, encoding="shaw")
    assert torch.equal(space["stretches"][0], test[: length + 1])
    assert len(space["stretches"]) == 6
    for mem_len, pupil in mine.items():
        bits, reading = space["by_stretch"][mem_len > 0], pupil.settings.evaluation
        assert bits.shape == (6, seg_len)
        for number, text in enumerate(space["stretches"]):
            alone = cached(pupil.model, text, reading).bits_per_token
            assert bits[number].mean().item() == pytest.approx(alone, rel=1e-5)
            first = cached_losses(pupil.model, text, reading)[::seg_len].mean().item()
            assert bits[number, 0].item() == pytest.approx(first / log(2), rel=1e-5)
    assert [row["memory"] for row in space["rows"]] == [True, False]
    assert space["rows"][0]["all predictions"] == pytest.approx(space["by_stretch"][True].mean().item())


def test_the_exchange_of_clipped_gradients_is_measured_in_length_and_direction():
    text = (b"The cat sat on the mat. The dog sat on the log, and looked at it for a while. " * 60)[:4000]
    given = {"corpus": type("Corpus", (), {"train": torch.tensor(list(text))})}
    for row in run(CELLS["gpus"], shares_of=shares.solution_shares, **given)["rows"]:
        length, cosine = (float(row[f"{name}, if each clips first"]) for name in ("length", "cosine"))
        assert length < 0.95 < cosine < 1.0001


def test_the_widget_draws_the_readers_rate_for_each_warm_up_and_number_of_steps():
    draw = run(CELLS["rate-figure"].partition("explore(")[0], learning_rate=schedule.solution_learning_rate)[
        "draw"
    ]
    for warmup, steps in ((4, 12), (10, 12), (2, 36)):
        drawn = draw(warmup, steps)
        (line,) = drawn.figure.axes[0].lines
        assert list(line.get_xdata()) == list(range(1, steps + 1))
        assert max(line.get_ydata()) == line.get_ydata()[warmup - 1] == pytest.approx(0.1)
        assert f"0.1 at step {warmup}" in drawn.alt
        assert drawn.alt.endswith(f"0 at step {steps}.")


@pytest.mark.parametrize(
    ("path", "seeds"),
    [
        (("rows", 1, "changes", "shuffled_lanes", "training_cost"), [0.1, 0.1, 0.05]),
        (("rows", 1, "changes", "no_memory", "cost_with_memory"), [0.02, 0.01, 0.03]),
        (("schedules", "gain_of_best_peak"), [0.2, 0.2, 0.05]),
        (("schedules", "at_best_peaks", "cost", "constant"), [0.05, 0.03, -0.01]),
        (("schedules", "at_best_peaks", "cost", "no_warmup"), [0.05, 0.03, 0.01]),
        (("schedules", "at_peaks", 3, "cost", "no_warmup"), [0.05, -0.03, 0.01]),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_other_seeds_stop_the_answer(path, seeds):
    parts = results.read(NOTEBOOKS.parent / "figures" / "training_parts.json").data
    run("answer-check", parts=parts)
    changed = deepcopy(parts)
    of = changed
    for name in path:
        of = of[name]
    of["seeds"] = seeds
    with pytest.raises(AssertionError):
        run("answer-check", parts=changed)
