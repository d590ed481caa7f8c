"""Whatever happens to a training, the same command goes on with it, to the same bytes."""

import json
import math
import os
import random
import signal
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from support import faults
from support.children import Child, context

from minitxl.training import checkpoints, metrics_log, run_folder, saved_run

KILLS = 10
SEED = 20190602
SMALL = (
    "--n-layer 1 --d-model 8 --n-head 1 --d-head 8 --batch 2 --seg-len 4 --mem-len 4 --dropout 0.1 "
    "--warmup 2 --validate-every 10 --validate-tokens 20 --checkpoint-every 1 --log-every 1 --device cpu"
)
MOMENTS = {
    "os.mkdir run",
    "open .lock",
    "before the sync of run",
    "after the sync of run",
    "half of a line",
    "os.remove checkpoint-N.safetensors",
    "os.remove best-N.safetensors",
} | {
    moment.format(name)
    for name in ("checkpoint-N.safetensors", "best-N.safetensors", "log.jsonl", "config.json", "words.json")
    for moment in (
        "tempfile.mkdtemp .{}.tmp",
        "half of hidden {}",
        "before the sync of hidden {}",
        "after the sync of hidden {}",
        "os.chmod hidden {}",
        "os.rename hidden {}",
        "os.rmdir .{}.tmp",
    )
}
CASES = {
    "bytes": "--d-inner 16 --steps 30",
    "words": "--d-inner 16 --steps 30 --unit words",
    "megabytes": "--d-inner 40000 --steps 12",
}


@pytest.fixture(scope="session")
def children():
    return context()


@dataclass(frozen=True)
class Whole:
    """A run that nothing happened to, with all its checkpoints."""

    folder: Path
    options: list[str]
    step_seconds: float

    def arguments(self, folder, *more):
        return ["train", str(folder), *self.options, *more]

    def log(self, folder, step):
        """The lines of the steps until then, which must be whole."""
        text = (folder / metrics_log.LOG).read_text() if step else ""
        return [
            {**json.loads(line), "elapsed": 0, "tokens_per_second": 0} for line in text.splitlines()[:step]
        ]

    def step_reached(self, folder):
        """By the newest checkpoint; all that is there must be what this run had."""
        found = sorted(folder.glob("checkpoint-*"))
        for path in found:
            checkpoints.read(path)
            assert path.read_bytes() == (self.folder / path.name).read_bytes()
        step = saved_run.resume(run_folder.newest(folder)).step if found else 0
        assert self.log(folder, step) == self.log(self.folder, step)
        return step

    def assert_ended_the_same(self, folder):
        names = sorted(path.name for path in self.folder.iterdir())
        checkpoints = [name for name in names if name.startswith("checkpoint-")]
        steps = {saved_run.described_in(self.folder / name).best.step for name in checkpoints[-2:]}
        named = {run_folder.best_model(folder, step).name for step in steps}
        old = {*checkpoints[:-2], *(name for name in names if name.startswith("best-") and name not in named)}
        assert {path.name for path in folder.iterdir()} == {*names} - old
        steps = self.step_reached(folder)
        assert len((folder / metrics_log.LOG).read_text().splitlines()) == steps
        for path in (*folder.glob("best-*"), *folder.glob("*s.json")):
            assert path.read_bytes() == (self.folder / path.name).read_bytes()


def half_written(folder):
    """Hidden files but the lock."""
    return {path.name for path in folder.glob(".*")} - {".lock"}


@pytest.fixture(scope="session")
def whole_runs():
    return {}


@pytest.fixture
def whole(request, children, whole_runs, tmp_path_factory):
    """Of the case that the test is given, else of bytes."""
    case = getattr(request, "param", "bytes")
    if case not in whole_runs:
        folder = tmp_path_factory.mktemp("whole")
        text = folder / "text"
        words = random.Random(SEED).choices(["to", "be", "or", "not", "that", "is"], k=500)
        text.write_text(" ".join(words + [f"word{n}" for n in range(300)] + words), "utf-8")
        options = [*SMALL.split(), *CASES[case].split(), "--text", str(text)]
        child = Child(children, ["train", str(folder / "run"), *options, "--checkpoints", "1000"])
        child.wait_for_news(3)
        began = time.monotonic()
        assert child.end() == 0, child.said
        steps = len(list((folder / "run").glob("checkpoint-*")))
        whole_runs[case] = Whole(folder / "run", options, (time.monotonic() - began) / (steps - 2))
    return whole_runs[case]


@pytest.mark.parametrize("whole", CASES, indirect=True)
def test_a_training_killed_at_random_moments_goes_on_to_the_same_bytes(whole, children, tmp_path):
    print("seed", SEED)
    draw, kills, unfinished, folders = random.Random(SEED), 0, 0, 0
    while True:
        folder = tmp_path / str(folders)
        child = Child(children, whole.arguments(folder))
        if kills < KILLS:
            child.wait_for_news(draw.randrange(7))
            child.process.join(draw.uniform(0, 2 * whole.step_seconds))
            child.process.kill()
        code = child.end()
        if code == -signal.SIGKILL:
            kills += 1
            unfinished += bool(half_written(folder))
            print("killed at step", whole.step_reached(folder))
            continue
        assert code == 0, child.said
        whole.assert_ended_the_same(folder)
        folders += 1
        if kills == KILLS:
            print(f"{kills} kills, {unfinished} of them in the middle of a file, {folders} trainings")
            return


@pytest.mark.parametrize("whole", ["words"], indirect=True)
@pytest.mark.parametrize(
    ("fault", "code"), [(faults.killed_at, -signal.SIGKILL), (faults.no_space_at, 2)], ids=["killed", "full"]
)
def test_a_training_stopped_at_each_moment_of_writing_goes_on_to_the_same_bytes(
    fault, code, whole, children, tmp_path
):
    """Each call is stopped at the first moment at which none was stopped before, until one comes through."""
    folder = tmp_path / "run"
    moments = {moment for moment in MOMENTS if code == 2 and moment.startswith("os.rmdir")}  # takes no space
    while True:
        child = Child(children, whole.arguments(folder), partial(fault, moments, folder))
        if child.end() == 0:
            break
        assert child.end() == code, child.said
        (moment,) = (line for line in child.said.splitlines() if line.startswith("at: "))
        assert moment.removeprefix("at: ") not in moments
        moments.add(moment.removeprefix("at: "))
        whole.step_reached(folder)
        if code == 2:
            assert "No space left on device" in child.sentence
            assert str(folder) in child.sentence
            assert not half_written(folder)
    whole.assert_ended_the_same(folder)
    assert moments >= MOMENTS


@pytest.mark.parametrize(("or_killed", "code"), [(False, 2), (True, -signal.SIGXFSZ)])
def test_a_checkpoint_that_the_system_refuses_half_way_is_told_and_the_training_goes_on_later(
    or_killed, code, whole, children, tmp_path
):
    folder = tmp_path / "run"
    stopped = Child(children, whole.arguments(folder), partial(faults.killed_at, 100, folder))
    assert stopped.end() == -signal.SIGKILL
    before = whole.step_reached(folder)
    assert before > 0
    size = run_folder.newest(folder).stat().st_size

    limited = partial(faults.files_of_at_most, size // 2, or_killed=or_killed)
    child = Child(children, whole.arguments(folder), limited)
    assert child.end() == code, child.said
    assert whole.step_reached(folder) == before
    assert bool(half_written(folder)) == or_killed
    assert or_killed or "File too large" in child.sentence
    assert Child(children, whole.arguments(folder)).end() == 0
    whole.assert_ended_the_same(folder)


def test_a_folder_that_may_not_be_written_to_is_refused_and_left_alone(whole, children, tmp_path):
    above, run = tmp_path / "above", tmp_path / "run"
    above.mkdir()
    assert Child(children, whole.arguments(run)).end() == 0
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    for folder in (above, run):
        folder.chmod(0o555)
    for path in run.iterdir():
        path.chmod(0o444)
    for folder in (above / "new", above, run):
        child = Child(children, whole.arguments(folder), faults.without_privileges, said_in=tmp_path / "said")
        assert child.end() == 2
        assert str(folder) in child.sentence
        assert "Permission denied" in child.sentence
    assert not list(above.iterdir())
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def test_a_clock_that_runs_backwards_changes_nothing(whole, children, tmp_path):
    folder = tmp_path / "run"
    stopped = Child(
        children, whole.arguments(folder, "--checkpoints", "5"), partial(faults.killed_at, 150, folder)
    )
    assert stopped.end() == -signal.SIGKILL
    reached = whole.step_reached(folder)
    found = sorted(folder.glob("checkpoint-*"))
    assert len(found) > 2
    for age, path in enumerate(found):
        os.utime(path, (10**9 - age, 10**9 - age))
    child = Child(children, whole.arguments(folder, "--checkpoints", "2"), faults.clock_running_backwards)
    assert child.end() == 0
    assert f"at step {reached} of 30" in child.said
    whole.assert_ended_the_same(folder)


@pytest.mark.parametrize(("minutes", "steps"), [(0, [0, 30]), (1, list(range(31)))])
def test_checkpoint_minutes_are_those_of_a_clock_that_never_goes_back(
    minutes, steps, whole, children, tmp_path
):
    folder = tmp_path / "run"
    often = ["--checkpoint-every", "1000", "--checkpoint-minutes", "1", "--checkpoints", "1000"]
    fault = partial(faults.clock_running_backwards, minutes_a_look=minutes)
    assert Child(children, whole.arguments(folder, *often), fault).end() == 0
    found = sorted(folder.glob("checkpoint-*"))
    assert [int(path.stem.split("-")[1]) for path in found] == steps
    assert whole.step_reached(folder) == 30


def files_below(folder):
    """Return the bytes of every file, those of a checkpoint that is being written among them."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_second_training_in_a_folder_refuses_and_the_first_goes_on_undisturbed(whole, children, tmp_path):
    folder = tmp_path / "run"
    first = Child(children, whole.arguments(folder))
    first.wait_for_news()
    first.signal(signal.SIGSTOP)
    before = files_below(folder)
    second = Child(children, whole.arguments(folder), said_in=tmp_path / "second-said")
    code = second.end()
    after = files_below(folder)
    first.signal(signal.SIGCONT)
    assert code == 2, second.said
    assert f"{folder} must be trained in by one process at a time" in second.sentence
    assert after == before
    assert first.end() == 0
    whole.assert_ended_the_same(folder)


def test_a_killed_training_leaves_the_folder_free_at_once(whole, children, tmp_path):
    folder = tmp_path / "run"
    first = Child(children, whole.arguments(folder))
    first.wait_for_news()
    first.signal(signal.SIGSTOP)
    first.signal(signal.SIGKILL)
    first.process.join()
    assert Child(children, whole.arguments(folder)).end() == 0
    whole.assert_ended_the_same(folder)


def test_of_two_trainings_begun_at_the_same_moment_one_gets_the_folder(whole, children, tmp_path):
    for attempt in range(5):
        folder = tmp_path / str(attempt)
        barriers = [children.Barrier(2), children.Barrier(2)]
        both = [
            Child(children, whole.arguments(folder), partial(faults.at_the_same_moment, *barriers))
            for _ in range(2)
        ]
        assert sorted(child.end() for child in both) == [0, 2]
        whole.assert_ended_the_same(folder)


@pytest.mark.parametrize(
    ("bits", "sentence"),
    [
        (math.nan, "the loss must be finite, got nan at step 105"),
        (99.0, "the loss must stay within spike = "),
    ],
)
def test_a_loss_that_goes_wrong_leaves_a_run_that_goes_on(bits, sentence, whole, children, tmp_path):
    folder, other = tmp_path / "run", tmp_path / "other"
    long = ["--steps", "110", "--checkpoint-every", "50", "--validate-every", "110"]
    child = Child(children, whole.arguments(folder, *long), partial(faults.loss_at, 105, bits))
    assert child.end() == 2
    assert sentence in child.sentence
    assert saved_run.resume(run_folder.newest(folder)).step == 100
    for place in (folder, other):
        assert Child(children, whole.arguments(place, *long)).end() == 0
    assert run_folder.newest(folder).read_bytes() == run_folder.newest(other).read_bytes()
    assert whole.log(folder, 110) == whole.log(other, 110)


def test_a_learning_rate_that_is_far_too_high_is_told_in_one_sentence(whole, children, tmp_path):
    child = Child(children, whole.arguments(tmp_path / "run", "--learning-rate", "1e30"))
    assert child.end() == 2
    assert "the loss must be finite" in child.sentence
    assert saved_run.resume(run_folder.newest(tmp_path / "run")).step > 0
