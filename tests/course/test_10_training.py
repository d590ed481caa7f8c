"""Notebook 10: its checks, its widget, and the step that is built by hand."""

import re
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
import torch
from matplotlib.colors import same_color

from minitxl import ModelConfig
from minitxl.course import tables
from minitxl.course.checks import comparisons, schedule, shares, splits
from minitxl.course.checks import training as judges
from minitxl.experiments import conclusions
from minitxl.experiments.shared import results
from minitxl.figures.systems import SYSTEMS
from minitxl.figures.training import recurrence
from minitxl.inference.evaluation import cached, sliding
from minitxl.training import loop
from minitxl.training.config import TrainConfig
from minitxl.training.schedules import learning_rate

ROOT = Path(__file__).parent.parent.parent
NOTEBOOK = nbformat.read(ROOT / "notebooks" / "10_training.ipynb", as_version=4)
CELLS = {cell.id: cell.source for cell in NOTEBOOK.cells}
SETUP = CELLS["setup"].partition("corpus = ")[0]


def run(*cells: str, **names) -> dict:
    space = dict(names)
    for cell in (SETUP, *cells):
        exec(cell, space)
    return space


def solution(cell: str, name: str):
    (code,) = re.findall(r"```python\n(.*?)```", CELLS[cell], flags=re.DOTALL)
    return run(code)[name]


def stub(cell: str, name: str):
    return run(CELLS[cell].rpartition("\n\n")[0])[name]


@pytest.mark.parametrize(
    ("cell", "name", "check"),
    [
        ("exercise-trainer", "my_train", judges.check_trainer),
        ("step-parts", "training_step", judges.check_training_step),
        ("loop-text", "learning_rate", schedule.check_learning_rate),
        ("exercise-bits", "my_bits", comparisons.check_bits),
        ("exercise-compare", "my_answers", comparisons.check_comparisons),
        ("split-text", "split_gain", splits.check_split),
        ("shares-text", "shares_of", shares.check_shares),
    ],
)
def test_the_solution_is_right_and_nobodys_random_numbers_change(cell, name, check):
    state = torch.get_rng_state()
    verdict = check(solution(cell, name))
    assert verdict.right, verdict
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("bugs", judges._subsets(judges.BUGS), ids=lambda bugs: "+".join(sorted(bugs)))
def test_the_check_names_the_bugs_that_are_there_and_no_other(bugs):
    verdict = judges.check_trainer(judges._with_bugs(bugs), name_bugs=True)
    assert not verdict.right
    seen = bugs - {"rows"} if "graph" in bugs else bugs  # shuffled rows show only from the second step on
    assert {bug for bug, words in judges.BUGS.items() if words in verdict.message} == seen
    assert ("look again once it runs" in verdict.message) == ("graph" in bugs)


def test_the_notebooks_trainer_has_all_four():
    broken = stub("my-train", "my_train")
    assert judges.BUGS["graph"] in judges.check_trainer(broken, name_bugs=True).message
    source = CELLS["my-train"].rpartition("\n\n")[0]
    detached = source.replace("memory.shape[2] - mem_len) :]", "memory.shape[2] - mem_len) :].detach()")
    assert detached != source
    message = judges.check_trainer(run(detached)["my_train"], name_bugs=True).message
    assert [bug for bug, words in judges.BUGS.items() if words in message] == ["rate", "clip", "rows"]


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
    message = judges.check_trainer(judges._with_bugs({"rate", "clip"})).message
    assert "2 of the four can be seen" in message
    assert not any(words in message for words in judges.BUGS.values())
    new = judges.check_trainer(judges._with_bugs({"none"})).message
    assert new == f"still there: {judges.OTHERS['none']}"
    for output in next(cell for cell in NOTEBOOK.cells if cell.id == "my-train").outputs:
        assert not any(words in str(output) for words in judges.BUGS.values())


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
    assert judges.check_trainer(unfinished).message == "there is nothing here yet"
    assert "TypeError" in judges.check_trainer(lambda: None).message


def test_each_mistake_with_bits_gets_its_own_sentence(monkeypatch):
    assert comparisons.check_bits(stub("my-bits", "my_bits")).message == "there is nothing here yet"
    seen, judge = {}, comparisons.judge
    monkeypatch.setattr(
        comparisons, "judge", lambda attempt, **all_: seen.update(all_) or judge(attempt, **all_)
    )
    comparisons.check_bits(lambda segments: 0.0)
    assert len(seen["mistakes"]) == 5
    for sentence, mistake in seen["mistakes"].items():
        assert comparisons.check_bits(mistake).message == sentence


@pytest.mark.parametrize("pair", comparisons.FAIR)
def test_a_wrong_answer_about_a_pair_is_explained(pair):
    answers = {name: fair for name, (fair, _) in comparisons.FAIR.items()}
    verdict = comparisons.check_comparisons(answers | {pair: not answers[pair]})
    assert (verdict.right, verdict.message) == (False, f"{pair}: {comparisons.FAIR[pair][1]}")
    assert pair in comparisons.check_comparisons(answers | {pair: None}).message
    assert comparisons.check_comparisons(dict.fromkeys(answers)).blank


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
    class Text:
        train = torch.randint(256, (2000,), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)

    (code,) = re.findall(r"```python\n(.*?)```", CELLS["step-parts"], flags=re.DOTALL)
    _, _, after = CELLS["training-step"].partition("\n\n\n")
    names = run(code + after, corpus=Text, checks=judges, learning_rate=schedule.solution_learning_rate)
    assert names["training_step"] is not judges.solution_training_step
    calls, mine = [], names["training_step"]
    names["training_step"] = lambda *case: calls.append(1) or mine(*case)
    exec(CELLS["record"], names)
    exec(CELLS["training-loop"], names)
    exec(CELLS["equal"], names)
    assert len(calls) == 9

    broken = code.replace(right, wrong)
    assert broken != code
    assert run(broken + after, checks=judges)["training_step"] is judges.solution_training_step


def test_a_loop_that_forgets_the_memory_stops_the_notebook():
    class Text:
        train = torch.randint(256, (2000,), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)

    forgetful = CELLS["training-loop"].replace("run.memory if index else None", "None")
    assert forgetful != CELLS["training-loop"]
    with pytest.raises(AssertionError):
        run(
            CELLS["record"],
            forgetful,
            CELLS["equal"],
            corpus=Text,
            training_step=judges.solution_training_step,
            learning_rate=schedule.solution_learning_rate,
        )


def test_a_rate_that_begins_at_zero_stops_the_notebook():
    class Text:
        train = torch.randint(256, (2000,), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)

    late = {"learning_rate": lambda step, *sizes: schedule.solution_learning_rate(step - 1, *sizes)}
    cells = (CELLS["record"], CELLS["training-loop"], CELLS["equal"])
    with pytest.raises(AssertionError):
        run(*cells, corpus=Text, training_step=judges.solution_training_step, **late)


def with_the_memory_of_other_lanes(tokens, targets, memory, n_gpu):
    return shares.solution_shares(tokens, targets, memory if memory is None else memory.flip(1), n_gpu)


def test_lanes_that_read_another_s_memory_stop_the_notebook():
    text = (b"The cat sat on the mat. The dog sat on the log, and looked at it for a while. " * 60)[:4000]
    given = {"corpus": type("Corpus", (), {"train": torch.tensor(list(text))})}
    rows = run(CELLS["gpus"], shares_of=shares.solution_shares, **given)["rows"]
    assert [row["step"] for row in rows] == ["0", "1", "2"]
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


def test_the_two_readings_differ_in_keys_and_in_reach():
    unnamed = CELLS["readings"].replace("table(\n    [", "rows, _ = (\n    [").replace("caption=", "")
    rows = run(unnamed)["rows"]
    keys, reach = ([row[name] for row in rows] for name in ("keys of a query", "reach, characters"))
    assert keys == ["1 to 32", "33 to 64", "32", "32"]
    assert reach == ["0 to 31", "96 to 127", "31", "93"]


def test_predictions_are_answered_by_the_stored_results():
    answers = {"first": 1.2, "equal_context": "level", "absolute": "hurts", "loss_for_xl": "full"}
    answers |= {"read_without": "trained without", "exchanged": "gradients"}
    checked = comparisons.predictions.check(answers, first=1.25)
    assert all(verdict.right for verdict in checked.verdicts)
    wrong = {"first": 0.1, "equal_context": "memory", "absolute": "helps", "loss_for_xl": "half"}
    wrong |= {"read_without": "level", "exchanged": "both"}
    checked = comparisons.predictions.check(wrong, first=1.25)
    assert not any(verdict.right or verdict.blank for verdict in checked.verdicts)


@pytest.fixture
def in_the_notebooks_folder(monkeypatch):
    monkeypatch.chdir(ROOT / "notebooks")


def rows_of(cell: str, *before: str, **names) -> list[dict]:
    """The rows of the table at the end of a cell, after the cells that it builds on."""
    shown = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "table", lambda rows, **look: shown.append(rows))
        run(*(CELLS[each] for each in (*before, cell)), **names)
    return shown[-1]


@pytest.mark.usefixtures("in_the_notebooks_folder")
def test_a_pair_is_scored_on_the_grids_text_and_on_other_stretches_each_read_alone(monkeypatch):
    read, length = results.read, 100
    test = torch.randint(256, (2000,), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    small = ModelConfig(n_layer=2, d_model=16, n_head=2, d_head=8, d_inner=32, attention="shaw", dropout=0.0)
    mine = {mem_len: loop.start(small, TrainConfig(mem_len=mem_len)) for mem_len in (32, 0)}

    def shorter(path):
        stored = read(path)
        return replace(stored, settings={**stored.settings, "test_tokens": length})

    monkeypatch.setattr(results, "read", shorter)
    corpus = type("Corpus", (), {"test": test})
    space = run(CELLS["pair-table"], corpus=corpus, mine=mine, encoding="shaw")
    assert torch.equal(space["stretches"][0], test[: length + 1])
    assert len(space["stretches"]) == 6
    for mem_len, pupil in mine.items():
        reading = pupil.settings.evaluation
        for number, text in enumerate(space["stretches"]):
            scores = [cached(pupil.model, text, reading).bits_per_token]
            if mem_len:
                scores.append(cached(pupil.model, text, reading.attending(32)).bits_per_token)
            else:
                scores.append(sliding(pupil.model, text, attention_len=32, stride=1).bits_per_token)
            by_stretch = space["by_stretch"][mem_len > 0]
            assert [bits[number] for bits in by_stretch.values()] == pytest.approx(scores, rel=1e-5)
    for row in space["rows"][:2]:
        assert row["in segments"] == space["by_stretch"][row["memory"]]["in segments"][0]


@pytest.mark.usefixtures("in_the_notebooks_folder")
def test_the_gain_of_memory_is_split_in_both_orders_by_the_readers_function():
    def as_tensor(p, first):
        return torch.tensor(splits.solution_split(p, first))

    rows = rows_of("treebank-split", "treebank-figure", split_gain=as_tensor)
    assert rows == rows_of("treebank-split", "treebank-figure", split_gain=splits.solution_split)
    assert [row["seed"] for row in rows] == ["0", "1", "2"] * 2
    reading_first, training_first = rows[:3], rows[3:]
    assert [row["both"] for row in reading_first] == [row["both"] for row in training_first]
    assert all(row["gain of training"].startswith("+") for row in reading_first)
    assert all(row["gain of training"].startswith("−") for row in training_first)
    with pytest.raises(AssertionError):
        rows_of(
            "treebank-split",
            "treebank-figure",
            split_gain=lambda p, first: splits.solution_split(p, first)[::-1],
        )


@pytest.mark.usefixtures("in_the_notebooks_folder")
def test_both_trainings_are_listed_in_windows_that_slide():
    systems = results.read(ROOT / "figures" / "ptb.json").data["systems"]
    rows = rows_of("treebank-cut", "treebank-figure")
    for name, head in (
        ("xl", "in a window of 32"),
        ("xl_memory", "trained with: in a window of 64"),
    ):
        assert [row[head] for row in rows] == systems[name]["sliding"]["perplexity"]["seeds"]
        assert head.endswith(str(systems[name]["sliding"]["attention_len"]))


@pytest.mark.usefixtures("in_the_notebooks_folder")
@pytest.mark.parametrize("mem_len", [0, 1], ids=["read without", "read with"])
def test_a_seed_whose_lines_do_not_cross_stops_the_notebook(monkeypatch, mem_len):
    stored = results.read(ROOT / "figures" / "ptb.json")
    changed = deepcopy(stored.data)
    mine, other = (changed["systems"][name]["by_memory"][mem_len] for name in ("xl_memory", "xl"))
    seeds = mine["perplexity"]["seeds"], other["perplexity"]["seeds"]
    seeds[0][2], seeds[1][2] = seeds[1][2], seeds[0][2]
    read = results.read
    monkeypatch.setattr(
        results, "read", lambda path: replace(stored, data=changed) if path.stem == "ptb" else read(path)
    )
    monkeypatch.setattr(conclusions, "holding", lambda name, data: {})  # these are tested by themselves
    with pytest.raises(AssertionError):
        run(CELLS["treebank-figure"])


def test_the_exchange_of_clipped_gradients_is_measured_in_length_and_direction():
    text = (b"The cat sat on the mat. The dog sat on the log, and looked at it for a while. " * 60)[:4000]
    given = {"corpus": type("Corpus", (), {"train": torch.tensor(list(text))})}
    for row in run(CELLS["gpus"], shares_of=shares.solution_shares, **given)["rows"]:
        length, cosine = (float(row[f"{name}, if each clips first"]) for name in ("length", "cosine"))
        assert length < 0.95 < cosine < 1.0001


def some_rows() -> dict:
    """The shape of the ablation's data: two systems."""

    def summary(bits):
        return {"seeds": [bits - 0.1, bits + 0.1], "mean": bits, "spread": 0.2}

    def row(recurrence, base):
        scores = [{"attention_len": length, "bits": summary(base + 1 / length)} for length in (8, 16)]
        what = {"encoding": "XL", "recurrence": recurrence, "loss": "full", "equal_memory": False}
        offsets = [summary(base + 1 / (1 + offset)) for offset in range(8)]
        found = {"by_length": scores, "trained": scores[0], "best": scores[1], "bits_by_offset": offsets}
        return what | found | {"label": f"XL {recurrence}"}

    return {"systems": [row(True, 2.0), row(False, 3.0)]}


def line_of(axes, colour):
    lines = [one for one in axes.lines if same_color(one.get_color(), colour) and len(one.get_xdata()) > 1]
    (line,) = lines
    return list(line.get_xdata()), list(line.get_ydata())


def test_the_widget_shows_an_encoding_with_memory_and_without():
    data = some_rows()
    space = run(
        "stored = type('Stored', (), {'data': data})", CELLS["widget"].partition("explore(")[0], data=data
    )
    drawn = space["draw"]("XL", "full")
    lengths, offsets = drawn.figure.axes
    for row, colour in zip(data["systems"], (SYSTEMS["xl_memory"].colour, SYSTEMS["xl"].colour), strict=True):
        assert line_of(lengths, colour) == ([8, 16], [one["bits"]["mean"] for one in row["by_length"]])
        assert line_of(offsets, colour)[1] == [one["mean"] for one in row["bits_by_offset"]]
        assert f"{row['trained']['bits']['mean']:.2f} at the attention length of training" in drawn.alt


def test_both_readings_stand_side_by_side_and_what_was_not_measured_is_left_out():
    data = some_rows()
    data["systems"][0]["by_length"] = data["systems"][0]["by_length"][1:]  # with memory, not at 8
    picture = recurrence.by_recurrence(data, attention_len=8)
    segments, equal = picture.figure.axes
    marks = [
        [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 1]
        for axes in (segments, equal)
    ]
    as_trained = [sum(recurrence.in_segments(row)) / 2 for row in data["systems"]]
    assert marks == [pytest.approx(as_trained), pytest.approx([3.125])]
    assert "With 8 keys for each query: Transformer-XL, no memory, full loss 3.12." in picture.alt


def test_loss_by_offset_is_drawn_for_each_system():
    data = some_rows()
    picture = recurrence.by_offset(data)
    (axes,) = picture.figure.axes
    assert [list(line.get_ydata()) for line in axes.lines] == [
        [one["mean"] for one in row["bits_by_offset"]] for row in data["systems"]
    ]
    assert "Transformer-XL, no memory 4.00 at offset 0" in picture.alt
