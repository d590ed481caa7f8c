import json
import os
import signal
import time
from dataclasses import replace
from itertools import pairwise
from math import log2

import pytest
import torch
from small_runs import LANES, SETTINGS, STREAM, assert_same_weights, new_run, weights, whole_run

from minitxl.training import checkpointed_loop, loop, metrics_log, run_folder
from minitxl.training.checkpointed_loop import Ending
from minitxl.training.checkpoints import load_model
from minitxl.training.config import RunConfig
from minitxl.training.guards import RECENT, LossGuard
from minitxl.training.run_info import RunInfo
from minitxl.training.saved_run import resume
from minitxl.training.step import Record, train_step

KEEPING = RunConfig(checkpoint_every=5, log_every=2)
FINISHED = Ending()


def train(run, folder, run_config=KEEPING, **more):
    return checkpointed_loop.train(run, LANES, valid=STREAM, folder=folder, run_config=run_config, **more)


def read_log(folder):
    return [json.loads(line) for line in (folder / metrics_log.LOG).read_text().splitlines()]


def timeless(lines):
    return [{**line, "elapsed": 0, "tokens_per_second": 0} for line in lines]


def names(folder):
    return sorted(path.name for path in folder.glob("checkpoint*"))


def checkpoints_of(*steps):
    return [f"checkpoint-{step:08}.safetensors" for step in steps]


def test_train_writes_a_log_and_a_checkpoint_and_validates_on_time(tmp_path):
    seen = []
    assert train(new_run(), tmp_path, report=lambda record, line: seen.append((record, line))) == FINISHED
    log_lines = read_log(tmp_path)
    assert [line["step"] for line in log_lines] == [2, 4, 6, 8, 10, 12]
    assert [line["step"] for line in log_lines if line["valid_bits"] is not None] == [4, 8, 12]
    assert [record.step for record, _ in seen] == list(range(1, 13))
    assert [json.loads(json.dumps(line._asdict())) for _, line in seen if line] == log_lines
    assert resume(run_folder.newest(tmp_path)).step == 12


def test_a_line_of_the_log_is_the_mean_since_the_line_before_also_after_a_resume(tmp_path):
    losses = {record.step: record.bits for record in loop.train_steps(new_run(), LANES)}
    run_config = replace(KEEPING, log_every=3, checkpoint_every=5)

    def interrupt(record, line):
        if record.step == 7:  # between two lines of the log
            signal.raise_signal(signal.SIGINT)

    train(new_run(), tmp_path, run_config, report=interrupt)
    train(resume(run_folder.newest(tmp_path)), tmp_path, run_config)
    lines = read_log(tmp_path)
    assert [line["step"] for line in lines] == [3, 4, 6, 8, 9, 12]
    for before, line in pairwise([{"step": 0}, *lines]):
        steps = range(before["step"] + 1, line["step"] + 1)
        assert line["bits"] == pytest.approx(sum(losses[step] for step in steps) / len(steps))
    assert [line["epoch"] for line in lines] == pytest.approx([line["step"] / 6 for line in lines])
    elapsed = [line["elapsed"] for line in lines]
    assert elapsed == sorted(elapsed)


@pytest.mark.parametrize("unit", ["words", "bytes"])
def test_the_log_has_the_perplexity_of_a_token_whatever_a_token_is(tmp_path, unit):
    train(new_run(), tmp_path, info=RunInfo(unit=unit))
    for line in read_log(tmp_path):
        assert log2(line["perplexity"]) == pytest.approx(line["bits"])
        assert (line["valid_perplexity"] is None) == (line["valid_bits"] is None)
    assert metrics_log.perplexity(10_000.0) is None


def test_a_log_that_ran_ahead_of_its_checkpoint_is_cut_back(tmp_path):
    train(new_run(), tmp_path)
    first = read_log(tmp_path)
    run = new_run()
    for _ in range(5):
        train_step(run, LANES)
    run.unlogged.steps, run.unlogged.bits = 1, resume(tmp_path / checkpoints_of(10)[0]).unlogged.bits
    train(run, tmp_path)
    assert [line["step"] for line in read_log(tmp_path)] == [line["step"] for line in first]
    assert timeless(read_log(tmp_path))[3:] == timeless(first)[3:]


SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1]


@pytest.mark.parametrize("burst", [*([number] for number in SIGNALS), SIGNALS, [signal.SIGINT] * 5])
def test_signals_finish_the_step_save_and_are_given_back(burst, tmp_path):
    run = new_run()
    handlers = [signal.getsignal(number) for number in SIGNALS]

    def interrupt(record, line):
        if record.step == 7:
            for number in burst:
                os.kill(os.getpid(), number)

    assert train(run, tmp_path, report=interrupt) == Ending(burst[0])
    assert [signal.getsignal(number) for number in SIGNALS] == handlers
    resumed = resume(run_folder.newest(tmp_path))
    assert resumed.step == 7
    assert train(resumed, tmp_path) == FINISHED
    assert_same_weights(weights(whole_run(SETTINGS)), weights(resumed))


@pytest.mark.parametrize(
    ("keep", "kept"), [(1, [12]), (2, [10, 12]), (3, [5, 10, 12]), (4, [0, 5, 10, 12]), (9, [0, 5, 10, 12])]
)
def test_the_newest_checkpoints_are_kept_the_first_of_them_from_before_the_first_step(keep, kept, tmp_path):
    train(new_run(), tmp_path, replace(KEEPING, checkpoints=keep))
    assert names(tmp_path) == checkpoints_of(*kept)
    assert resume(run_folder.newest(tmp_path)).step == 12


def test_checkpoints_are_as_many_minutes_apart(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def report(record, line):
        now[0] += 25

    run_config = replace(KEEPING, checkpoint_every=100, checkpoint_minutes=2.0, checkpoints=100)
    train(new_run(), tmp_path, run_config, report=report)
    assert names(tmp_path) == checkpoints_of(0, 5, 10, 12)


def test_a_damaged_checkpoint_is_refused_and_the_one_before_goes_on(tmp_path):
    train(new_run(), tmp_path)
    whole = run_folder.newest(tmp_path).read_bytes()
    damaged = bytearray(whole)
    damaged[-1] ^= 1
    run_folder.newest(tmp_path).write_bytes(damaged)
    for read in (lambda: resume(run_folder.newest(tmp_path)), lambda: run_folder.trained(tmp_path)):
        with pytest.raises(
            ValueError, match=r"is damaged.*if you delete it, the run resumes from the checkpoint before"
        ):
            read()
    run_folder.newest(tmp_path).unlink()
    run = resume(run_folder.newest(tmp_path))
    assert run.step == 10
    train(run, tmp_path)
    assert run_folder.newest(tmp_path).read_bytes() == whole


def validations(monkeypatch, bits):
    """Let the validations of a run give these bits in turn."""
    given = iter(bits)
    monkeypatch.setattr(loop, "validate", lambda run, stream, attention_len=None: next(given))


def test_the_model_of_the_best_validation_is_kept(tmp_path, monkeypatch):
    validations(monkeypatch, [3.5, 3.0, 3.25])
    seen = {}

    def remember(record, line):
        seen[record.step] = weights(run)

    run = new_run()
    train(run, tmp_path, report=remember)
    assert (run.best.step, run.best.bits) == (8, 3.0)
    best = run_folder.trained(tmp_path, best=True).model
    assert_same_weights(dict(best.named_parameters()), seen[8])
    assert_same_weights(dict(run_folder.trained(tmp_path).model.named_parameters()), seen[12])
    assert load_model(run_folder.best_model(tmp_path, 8)).config == run.model.config


@pytest.mark.parametrize("rolled_back", [True, False])
def test_a_run_that_goes_back_to_a_checkpoint_has_its_best_model_again(rolled_back, tmp_path, monkeypatch):
    """Step 8 was the best, and is not of the run that goes on from step 4."""
    validations(monkeypatch, [3.5, 3.0, 3.25])
    run = new_run()
    train(run, tmp_path, RunConfig(checkpoint_every=4, checkpoints=9))
    assert run_folder.trained(tmp_path, best=True).step == 8
    if rolled_back:
        for step in (8, 12):
            run_folder.checkpoint(tmp_path, step).unlink()
    else:
        run_folder.checkpoint(tmp_path, 12).unlink()
    step = 4 if rolled_back else 8
    assert run_folder.trained(tmp_path, best=True).step == step
    validations(monkeypatch, [3.9, 3.8])
    again = resume(run_folder.newest(tmp_path))
    train(again, tmp_path)
    assert (again.step, again.best.step) == (12, step)
    assert run_folder.trained(tmp_path, best=True).step == step
    assert sorted(tmp_path.glob("best-*")) == [run_folder.best_model(tmp_path, step)]


def test_a_best_model_that_is_gone_is_named(tmp_path, monkeypatch):
    validations(monkeypatch, [3.5, 3.0, 3.25])
    train(new_run(), tmp_path)
    run_folder.best_model(tmp_path, 8).unlink()
    with pytest.raises(ValueError, match=r"must hold best-00000008\.safetensors, the model that was best"):
        run_folder.trained(tmp_path, best=True)


def test_a_run_without_a_validation_has_no_best_model(tmp_path):
    checkpointed_loop.begin(new_run(), tmp_path, RunInfo())
    with pytest.raises(
        ValueError,
        match="best in a validation, got a run without a validation up to its last checkpoint, of step 0",
    ):
        run_folder.trained(tmp_path, best=True)


@pytest.mark.parametrize(
    ("bits", "patience", "end"),
    [
        ([3.0, 3.1, 3.2, 3.3, 3.4, 3.5], 2, 12),
        ([3.0, 2.9, 3.2, 2.8, 3.4, 3.5], 2, 24),
        ([3.0, 3.1, 2.9, 3.3, 3.4, 3.5], 3, 24),
        ([3.0, 3.1, 3.2, 3.3, 3.4, 3.5], None, 24),
    ],
)
def test_a_run_stops_after_so_many_validations_without_a_new_best(bits, patience, end, tmp_path, monkeypatch):
    settings, run_config = replace(SETTINGS, steps=24), replace(KEEPING, patience=patience)
    validations(monkeypatch, bits)
    run = new_run(settings)
    assert train(run, tmp_path, run_config) == Ending(early=end < 24)
    assert run.step == end
    resumed = resume(run_folder.newest(tmp_path))
    assert resumed.step == end
    assert train(resumed, tmp_path, run_config) == Ending(early=end < 24)
    assert resumed.step == end
    assert train(resumed, tmp_path, replace(run_config, patience=None)) == FINISHED


def test_patience_counts_the_validations_before_a_resume(tmp_path, monkeypatch):
    validations(monkeypatch, [3.0, 3.1, 3.2])
    run_config = replace(KEEPING, patience=2)

    def interrupt(record, line):
        if record.step == 9:
            signal.raise_signal(signal.SIGTERM)

    settings = replace(SETTINGS, steps=24)
    assert train(new_run(settings), tmp_path, run_config, report=interrupt) == Ending(signal.SIGTERM)
    resumed = resume(run_folder.newest(tmp_path))
    assert train(resumed, tmp_path, run_config) == Ending(early=True)
    assert resumed.step == 12


def test_changed_settings_are_saved_before_the_next_step(tmp_path):
    train(new_run(), tmp_path)
    longer = replace(SETTINGS, steps=20)
    checkpointed_loop.begin(
        resume(run_folder.newest(tmp_path), settings=longer), tmp_path, RunInfo(), changed=True
    )
    resumed = resume(run_folder.newest(tmp_path))
    assert (resumed.step, resumed.settings) == (12, longer)


def test_a_stop_for_a_loss_that_is_no_number_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    run, advance = new_run(), train_step

    def poisoned(run, segments):
        if run.step == 7:
            with torch.no_grad():
                next(run.model.parameters()).fill_(float("nan"))
        return advance(run, segments)

    monkeypatch.setattr(loop, "train_step", poisoned)
    with pytest.raises(ValueError, match="the loss must be finite, got nan at step 8"):
        train(run, tmp_path)
    assert names(tmp_path) == checkpoints_of(0, 5)
    monkeypatch.setattr(loop, "train_step", advance)
    resumed = resume(run_folder.newest(tmp_path))
    assert train(resumed, tmp_path) == FINISHED
    train(new_run(), tmp_path / "whole")
    assert run_folder.newest(tmp_path).read_bytes() == run_folder.newest(tmp_path / "whole").read_bytes()


def test_a_loss_far_above_the_recent_ones_stops_the_run_before_it_is_saved(tmp_path, monkeypatch):
    settings = replace(SETTINGS, steps=130, validate_every=130)
    run_config = replace(KEEPING, spike=1.0)
    advance, bits = train_step, []

    def jumping(run, segments):
        record = advance(run, segments)
        record = record._replace(bits=record.bits + 3) if record.step in (40, 115) else record
        bits.append(record.bits)
        return record

    monkeypatch.setattr(loop, "train_step", jumping)
    with pytest.raises(
        ValueError, match=r"within spike = 1.0 bits of its recent mean .*, got .* 115"
    ) as told:
        train(new_run(settings), tmp_path, run_config)
    assert f"its recent mean {sum(bits[14:114]) / 100:.2f}, got" in str(told.value)
    assert len(bits) == 115
    resumed = resume(run_folder.newest(tmp_path))
    assert resumed.step == 110
    assert train(resumed, tmp_path, replace(run_config, spike=None)) == FINISHED


def losses(guard, bits, *, first=1, count=300):
    """Give the guard so many losses; return the step at which it refused, or None."""
    for step in range(first, first + count):
        try:
            guard.check(Record(step, bits, 0.1, 1.0, 64, 0.1))
        except ValueError as error:
            assert "must be at most 8.40 bits, 1.05 times a uniform guess's, got" in str(error)  # noqa: PT017
            return step
    return None


def test_a_run_that_is_clearly_worse_than_a_uniform_guess_after_warming_up_is_stopped():
    assert losses(LossGuard(3.0, vocab_size=256, warmup=20), 9.0) == 20 + RECENT + 1
    assert losses(LossGuard(3.0, vocab_size=256, warmup=400), 9.0) is None
    assert losses(LossGuard(3.0, vocab_size=256, warmup=20), 8.39) is None
    assert losses(LossGuard(3.0, vocab_size=256, warmup=20), 8.41) == 20 + RECENT + 1
    assert losses(LossGuard(None, vocab_size=256, warmup=20), 79.0) is None
