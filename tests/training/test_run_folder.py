import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch
from small_runs import LANES, SETTINGS, STREAM, assert_same_weights, new_run, weights

from minitxl.training import loop, metrics_log, run_folder
from minitxl.training.checkpoints import load_model, save_model
from minitxl.training.config import RunConfig

KEEPING = RunConfig(checkpoint_every=5, log_every=2)


def whole_and_resumed(settings, stop, path):
    """Two runs at their end: one in one piece, one saved after ``stop`` steps and resumed."""
    whole, stopped = new_run(settings), new_run(settings)
    for _ in loop.train_steps(whole, LANES):
        pass
    for _ in range(stop):
        loop.train_step(stopped, LANES)
    run_folder.save(stopped, path)
    resumed = run_folder.resume(path)
    for _ in loop.train_steps(resumed, LANES):
        pass
    return whole, resumed


@pytest.mark.parametrize("stop", range(13))
def test_a_run_resumed_from_any_step_ends_bit_identical(stop, tmp_path):
    whole, resumed = whole_and_resumed(SETTINGS, stop, tmp_path / "run")
    assert_same_weights(weights(whole), weights(resumed))
    assert torch.equal(whole.memory, resumed.memory)
    assert resumed.step == 12


@pytest.mark.parametrize("stop", [5, 8, 10])
def test_averaging_goes_on_bit_identical_after_a_resume_and_is_what_is_evaluated(stop, tmp_path):
    whole, resumed = whole_and_resumed(replace(SETTINGS, average_from=7), stop, tmp_path / "run")
    one, other = whole.evaluated.state_dict(), resumed.evaluated.state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert loop.validate(whole, STREAM) == loop.validate(resumed, STREAM)
    run_folder.save(resumed, tmp_path / "run")
    loaded = load_model(tmp_path / "run")
    assert all(torch.equal(one[name], tensor) for name, tensor in loaded.state_dict().items())


def read_log(folder):
    return [json.loads(line) for line in (folder / metrics_log.LOG).read_text().splitlines()]


def test_train_writes_a_log_and_a_checkpoint_and_validates_on_time(tmp_path):
    seen = []
    assert run_folder.train(
        new_run(), LANES, valid=STREAM, folder=tmp_path, run_config=KEEPING, report=seen.append
    )
    log_lines = read_log(tmp_path)
    assert [line["step"] for line in log_lines] == [2, 4, 6, 8, 10, 12]
    assert [line["step"] for line in log_lines if line["valid_bits"] is not None] == [4, 8, 12]
    assert [record.step for record in seen] == list(range(1, 13))
    assert run_folder.resume(run_folder.newest(tmp_path)).step == 12


def test_a_log_that_ran_ahead_of_its_checkpoint_is_cut_back(tmp_path):
    run_folder.train(new_run(), LANES, valid=STREAM, folder=tmp_path, run_config=KEEPING)
    first = read_log(tmp_path)
    run = new_run()
    for _ in range(5):
        loop.train_step(run, LANES)
    run_folder.train(run, LANES, valid=STREAM, folder=tmp_path, run_config=KEEPING)
    second = read_log(tmp_path)
    timeless = [{**line, "seconds": 0} for line in first]
    assert [{**line, "seconds": 0} for line in second] == timeless


def test_a_model_without_its_run_cannot_be_resumed(tmp_path):
    save_model(tmp_path / "model", new_run().model)
    with pytest.raises(ValueError, match="holds a model, and no run that could be resumed"):
        run_folder.resume(tmp_path / "model")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_finishes_the_step_saves_and_gives_the_signal_back(number, tmp_path):
    whole, run = new_run(), new_run()
    for _ in loop.train_steps(whole, LANES):
        pass
    handler = signal.getsignal(number)

    def interrupt(record):
        if record.step == 7:
            os.kill(os.getpid(), number)

    assert not run_folder.train(
        run, LANES, valid=STREAM, folder=tmp_path, run_config=KEEPING, report=interrupt
    )
    assert signal.getsignal(number) is handler
    resumed = run_folder.resume(run_folder.newest(tmp_path))
    assert resumed.step == 7
    assert run_folder.train(resumed, LANES, valid=STREAM, folder=tmp_path, run_config=KEEPING)
    assert_same_weights(weights(whole), weights(resumed))


def test_ctrl_c_at_the_command_line_saves_and_the_same_command_goes_on(tmp_path):
    text = tmp_path / "text"
    text.write_bytes(bytes(range(256)) * 40)
    arguments = f"train {{}} --text {text} --n-layer 1 --d-model 16 --steps 500 --validate-every 500".split()

    def command(folder):
        given = [str(tmp_path / folder) if word == "{}" else word for word in arguments]
        return [sys.executable, "-m", "minitxl", *given]

    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}

    def start():
        return subprocess.Popen(
            command("stopped"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=one_thread
        )

    process = start()
    log_file = tmp_path / "stopped" / metrics_log.LOG
    deadline = time.monotonic() + 120
    while not (log_file.exists() and log_file.read_text()):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "stopped and saved at step" in said
    for folder in ("stopped", "whole"):
        subprocess.run(command(folder), capture_output=True, check=True, env=one_thread)
    one, other = (run_folder.resume(run_folder.newest(tmp_path / folder)) for folder in ("stopped", "whole"))
    assert_same_weights(weights(one), weights(other))


def names(folder):
    return sorted(path.name for path in folder.glob("checkpoint*"))


@pytest.mark.parametrize(("keep", "kept"), [(1, [12]), (2, [10, 12]), (3, [5, 10, 12]), (9, [5, 10, 12])])
def test_the_newest_checkpoints_are_kept(keep, kept, tmp_path):
    run_config = replace(KEEPING, checkpoints=keep)
    run_folder.train(new_run(), LANES, valid=STREAM, folder=tmp_path, run_config=run_config)
    assert names(tmp_path) == [f"checkpoint-{step:08}.safetensors" for step in kept]
    assert run_folder.resume(run_folder.newest(tmp_path)).step == 12


def test_a_folder_without_a_run_has_no_newest_checkpoint(tmp_path):
    (tmp_path / "checkpoint-best.safetensors").touch()
    assert run_folder.newest(tmp_path) is None
    assert run_folder.newest(tmp_path / "nowhere") is None


def test_checkpoints_are_as_many_minutes_apart(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def report(record):
        now[0] += 25

    run_config = replace(KEEPING, checkpoint_every=100, checkpoint_minutes=2.0, checkpoints=100)
    run_folder.train(new_run(), LANES, valid=STREAM, folder=tmp_path, run_config=run_config, report=report)
    assert names(tmp_path) == [f"checkpoint-{step:08}.safetensors" for step in (5, 10, 12)]


def test_a_damaged_checkpoint_is_refused_and_the_one_before_goes_on(tmp_path):
    run_folder.train(new_run(), LANES, valid=STREAM, folder=tmp_path, run_config=KEEPING)
    whole = run_folder.newest(tmp_path).read_bytes()
    damaged = bytearray(whole)
    damaged[-1] ^= 1
    run_folder.newest(tmp_path).write_bytes(damaged)
    with pytest.raises(ValueError, match=r"is damaged.*without it the run goes on from the one before"):
        run_folder.resume(run_folder.newest(tmp_path))
    run_folder.newest(tmp_path).unlink()
    run = run_folder.resume(run_folder.newest(tmp_path))
    assert run.step == 10
    run_folder.train(run, LANES, valid=STREAM, folder=tmp_path, run_config=KEEPING)
    assert run_folder.newest(tmp_path).read_bytes() == whole


def test_a_folder_is_held_by_one_at_a_time(tmp_path):
    folder = tmp_path / "new"
    with (
        run_folder.run_lock(folder),
        pytest.raises(ValueError, match="must be trained in by one process at a time"),
        run_folder.run_lock(folder),
    ):
        pass
    with run_folder.run_lock(folder):
        assert folder.exists()


def test_who_holds_a_folder_removes_what_a_killed_process_left(tmp_path):
    (tmp_path / ".checkpoint-00000003.safetensors.a1b2c3d4").write_bytes(b"half")
    (tmp_path / "notes.txt").write_text("mine")
    with run_folder.run_lock(tmp_path):
        assert {path.name for path in tmp_path.iterdir()} == {".lock", "notes.txt"}


def test_a_stop_for_a_loss_that_is_no_number_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    run, advance = new_run(), loop.train_step

    def poisoned(run, lanes):
        if run.step == 7:
            with torch.no_grad():
                next(run.model.parameters()).fill_(float("nan"))
        return advance(run, lanes)

    monkeypatch.setattr(loop, "train_step", poisoned)
    with pytest.raises(ValueError, match="the loss must be finite, got nan at step 8"):
        run_folder.train(run, LANES, valid=STREAM, folder=tmp_path, run_config=KEEPING)
    assert names(tmp_path) == ["checkpoint-00000005.safetensors"]
    monkeypatch.setattr(loop, "train_step", advance)
    resumed = run_folder.resume(run_folder.newest(tmp_path))
    assert run_folder.train(resumed, LANES, valid=STREAM, folder=tmp_path, run_config=KEEPING)
    run_folder.train(new_run(), LANES, valid=STREAM, folder=tmp_path / "whole", run_config=KEEPING)
    assert run_folder.newest(tmp_path).read_bytes() == run_folder.newest(tmp_path / "whole").read_bytes()


def test_a_loss_far_above_the_recent_ones_stops_the_run_before_it_is_saved(tmp_path, monkeypatch):
    settings = replace(SETTINGS, steps=130)
    run_config = replace(KEEPING, spike=1.0)
    advance = loop.train_step

    def jumping(run, lanes):
        record = advance(run, lanes)
        return record._replace(bits=record.bits + 3) if record.step in (40, 115) else record

    monkeypatch.setattr(loop, "train_step", jumping)
    usual = sum(record.bits for record in list(loop.train_steps(new_run(settings), LANES))[14:114]) / 100
    with pytest.raises(
        ValueError, match=rf"within spike = 1.0 bits of its recent mean {usual:.2f}, got .* 115"
    ):
        run_folder.train(new_run(settings), LANES, valid=STREAM, folder=tmp_path, run_config=run_config)
    resumed = run_folder.resume(run_folder.newest(tmp_path))
    assert resumed.step == 110
    assert run_folder.train(
        resumed, LANES, valid=STREAM, folder=tmp_path, run_config=replace(run_config, spike=None)
    )
