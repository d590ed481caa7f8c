"""Notebook 10: its checks, its widget, and the step that is built by hand."""

import re
from pathlib import Path

import nbformat
import pytest
import torch
from matplotlib.colors import same_color

from minitxl.course.checks import training as judges
from minitxl.figures.training import progress

ROOT = Path(__file__).parent.parent.parent
CELLS = {
    cell.id: cell.source
    for cell in nbformat.read(ROOT / "notebooks" / "10_training.ipynb", as_version=4).cells
}
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
        ("exercise-bits", "my_bits", judges.check_bits),
        ("exercise-compare", "my_answers", judges.check_comparisons),
    ],
)
def test_the_solution_is_right_and_nobodys_random_numbers_change(cell, name, check):
    state = torch.get_rng_state()
    verdict = check(solution(cell, name))
    assert verdict.right, verdict
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("bugs", judges._subsets(judges.BUGS), ids=lambda bugs: "+".join(sorted(bugs)))
def test_the_check_names_the_bugs_that_are_there_and_no_other(bugs):
    verdict = judges.check_trainer(judges._with_bugs(bugs))
    assert not verdict.right
    seen = bugs - {"rows"} if "graph" in bugs else bugs  # shuffled rows show only from the second step on
    assert {bug for bug, words in judges.BUGS.items() if words in verdict.message} == seen
    assert ("look again once it runs" in verdict.message) == ("graph" in bugs)


def test_the_notebooks_trainer_has_all_four():
    broken = stub("my-train", "my_train")
    assert judges.BUGS["graph"] in judges.check_trainer(broken).message
    source = CELLS["my-train"].rpartition("\n\n")[0]
    detached = source.replace("[:, :, -mem_len:]", "[:, :, -mem_len:].detach()")
    assert detached != source
    message = judges.check_trainer(run(detached)["my_train"]).message
    assert [bug for bug, words in judges.BUGS.items() if words in message] == ["rate", "clip", "rows"]


def test_another_trainer_is_told_apart_from_all_of_these():
    def untrained(model, segments, rates, *, mem_len, clip):
        return [0.0 for _ in segments]

    def unfinished(model, segments, rates, *, mem_len, clip):
        raise NotImplementedError

    assert "of the losses, you returned [0, 0, 0, 0], right is [2." in judges.check_trainer(untrained).message
    assert judges.check_trainer(unfinished).message == "there is nothing here yet"
    assert "TypeError" in judges.check_trainer(lambda: None).message


def test_each_mistake_with_bits_gets_its_own_sentence(monkeypatch):
    assert judges.check_bits(stub("my-bits", "my_bits")).message == "there is nothing here yet"
    seen, judge = {}, judges.judge
    monkeypatch.setattr(judges, "judge", lambda attempt, **all_: seen.update(all_) or judge(attempt, **all_))
    judges.check_bits(lambda segments: 0.0)
    assert len(seen["mistakes"]) == 4
    for sentence, mistake in seen["mistakes"].items():
        assert judges.check_bits(mistake).message == sentence


@pytest.mark.parametrize("pair", judges.FAIR)
def test_a_wrong_answer_about_a_pair_is_explained(pair):
    answers = {name: fair for name, (fair, _) in judges.FAIR.items()}
    verdict = judges.check_comparisons(answers | {pair: not answers[pair]})
    assert (verdict.right, verdict.message) == (False, f"{pair}: {judges.FAIR[pair][1]}")
    assert pair in judges.check_comparisons(answers | {pair: None}).message


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("step / s.warmup", "(step - 1) / s.warmup"),
        ("s.seg_len // 2 if", "s.seg_len // 2 + 1 if"),
        ("min(1.0, s.clip / (norm + 1e-6))", "1.0"),
        ("extend(memory, states, mem_len=s.mem_len)", "None"),
    ],
)
def test_the_step_by_hand_equals_the_packages_or_the_notebook_stops(right, wrong):
    class Text:
        train = torch.randint(256, (2000,), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)

    by_hand = CELLS["step-by-hand"]
    run(by_hand, CELLS["equal"], corpus=Text)
    assert by_hand.replace(right, wrong) != by_hand
    with pytest.raises(AssertionError):
        run(by_hand.replace(right, wrong), CELLS["equal"], corpus=Text)


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


@pytest.mark.parametrize("recurrence", [True, False])
def test_the_browser_shows_the_chosen_run_over_the_others(recurrence):
    data = some_rows()
    chosen = data["systems"][0 if recurrence else 1]
    space = run(
        "stored = type('Stored', (), {'data': data})", CELLS["widget"].partition("explore(")[0], data=data
    )
    drawn = space["draw"]("XL", recurrence, "full")
    lengths, offsets = drawn.figure.axes
    (line,) = (one for one in lengths.lines if same_color(one.get_color(), progress.ORANGE))
    assert list(line.get_xdata()) == [8, 16]
    assert list(line.get_ydata()) == [one["bits"]["mean"] for one in chosen["by_length"]]
    (line,) = (one for one in offsets.lines if same_color(one.get_color(), progress.ORANGE))
    assert list(line.get_ydata()) == [one["mean"] for one in chosen["bits_by_offset"]]
    assert f"{chosen['trained']['bits']['mean']:.2f}" in drawn.alt
