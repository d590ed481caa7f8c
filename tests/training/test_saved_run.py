from dataclasses import replace

import pytest
import torch
from models import small_config
from small_runs import LANES, SETTINGS, STREAM, assert_same_weights, new_run, weights, whole_run

from minitxl.data.batching import ContiguousBatches
from minitxl.training import checkpoints, loop, loss, saved_run
from minitxl.training.run_info import RunInfo
from minitxl.training.saved_run import resume, save
from minitxl.training.sizes import parameter_count, skeleton
from minitxl.training.step import Best, Unlogged, train_step


def whole_and_resumed(settings, stop, path):
    """Two runs at their end: one in one piece, one saved after ``stop`` steps and resumed."""
    whole, stopped = whole_run(settings), new_run(settings)
    for _ in range(stop):
        train_step(stopped, LANES)
    save(stopped, path)
    resumed = resume(path)
    for _ in loop.train_steps(resumed, LANES):
        pass
    return whole, resumed


@pytest.mark.parametrize("stop", range(13))
def test_a_run_resumed_from_any_step_ends_bit_identical(stop, tmp_path):
    whole, resumed = whole_and_resumed(SETTINGS, stop, tmp_path / "run")
    assert_same_weights(weights(whole), weights(resumed))
    assert torch.equal(whole.memory, resumed.memory)
    assert resumed.step == 12
    assert resumed.tokens_read == 12 * 3 * 4


@pytest.mark.parametrize(
    "settings", [{"weight_decay": 0.1, "schedule": "inv_sqrt"}, {"decay_from": 6, "schedule": "constant"}]
)
def test_decay_and_schedules_go_on_bit_identical(settings, tmp_path):
    whole, resumed = whole_and_resumed(replace(SETTINGS, **settings), 7, tmp_path / "run")
    assert_same_weights(weights(whole), weights(resumed))


@pytest.mark.parametrize("stop", [5, 8, 10])
def test_averaging_goes_on_bit_identical_after_a_resume_and_is_what_is_evaluated(stop, tmp_path):
    whole, resumed = whole_and_resumed(replace(SETTINGS, average_from=7), stop, tmp_path / "run")
    one, other = whole.model_to_evaluate.state_dict(), resumed.model_to_evaluate.state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert loop.validate(whole, STREAM) == loop.validate(resumed, STREAM)
    save(resumed, tmp_path / "run")
    loaded = checkpoints.load_model(tmp_path / "run")
    assert all(torch.equal(one[name], tensor) for name, tensor in loaded.state_dict().items())


def saved_after(steps, path, settings=SETTINGS, **more):
    run = new_run(settings)
    for _ in range(steps):
        train_step(run, LANES)
    save(run, path, **more)
    return run


def test_a_run_goes_on_at_another_rate_and_with_other_decay(tmp_path):
    run = saved_after(5, tmp_path / "run")
    settings = replace(SETTINGS, learning_rate=1e-4, schedule="constant", weight_decay=0.5, steps=20)
    resumed = resume(tmp_path / "run", settings=settings)
    assert_same_weights(weights(run), weights(resumed))
    assert torch.equal(run.memory, resumed.memory)
    records = list(loop.train_steps(resumed, LANES))
    assert [record.learning_rate for record in records] == [1e-4] * 15
    assert resumed.optimizer.param_groups[0]["weight_decay"] == 0.5


def test_a_run_goes_on_in_another_batch_at_the_same_part_of_the_text_without_memory(tmp_path):
    saved_after(9, tmp_path / "run")  # 1.5 passes over 6 segments of 3 lanes
    settings = replace(SETTINGS, batch=1, steps=40)
    segments = Watched(STREAM, batch=1, seg_len=4)
    resumed = resume(tmp_path / "run", settings=settings)
    assert resumed.memory is None
    for _ in range(2):
        train_step(resumed, segments)
    assert len(segments) == 19
    assert segments.read == [27 % 19, 28 % 19]
    assert resumed.memory.shape[1:3] == (1, 5)


@pytest.mark.parametrize("on_a_gpu", [False, True])
def test_a_run_that_goes_on_with_a_shorter_memory_drops_the_oldest_tokens(on_a_gpu, tmp_path, monkeypatch):
    run = saved_after(5, tmp_path / "run")
    assert run.memory.shape[2] == 5
    resumed = resume(tmp_path / "run", settings=replace(SETTINGS, mem_len=3))
    assert torch.equal(resumed.memory, run.memory[:, :, -3:])
    assert resume(tmp_path / "run", settings=replace(SETTINGS, mem_len=0)).memory.shape[2] == 0
    assert resume(tmp_path / "run", settings=replace(SETTINGS, mem_len=9)).memory.shape[2] == 5
    monkeypatch.setattr(loss, "needs_constant_length", lambda device: on_a_gpu)
    train_step(resumed, LANES)
    assert resumed.memory.shape[2] == 3


class Watched(ContiguousBatches):
    """Lanes that note which segments are read."""

    def __getitem__(self, index):
        self.read = [*getattr(self, "read", []), index]
        return super().__getitem__(index)


def test_a_checkpoint_says_what_its_run_learns_from(tmp_path):
    info = RunInfo("book.txt", "ab" * 32, "words", "cd" * 32, "enwik8-base")
    run = saved_after(5, tmp_path / "run", info=info)
    run.best.step, run.best.bits = 4, 3.25
    save(run, tmp_path / "run", info)
    described = saved_run.described_in(tmp_path / "run")
    assert described.info == info
    assert (described.config, described.settings) == (small_config(dropout=0.2), SETTINGS)
    assert (described.step, described.tokens_read) == (5, 60)
    again = resume(tmp_path / "run")
    assert (again.best, again.unlogged) == (run.best, run.unlogged)


def test_a_model_without_its_run_cannot_be_resumed(tmp_path):
    checkpoints.save_model(tmp_path / "model", new_run().model)
    with pytest.raises(ValueError, match="holds a model, and no run that could be resumed"):
        resume(tmp_path / "model")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"step": -5}, "step must be 0 or more, got -5"),
        ({"step": None}, "step must be a whole number, got None"),
        ({"tokens": "x"}, "tokens must be a whole number, got 'x'"),
        ({"train": {"batch": 0}}, "batch must be 1 or more, got 0"),
        ({"train": []}, r"train must be an object of names and values, got \[\]"),
        ({"info": {"unit": "lines"}}, "unit must be bytes, characters or words, got 'lines'"),
        ({"best": {"bits": "low"}}, "bits must be a number, got 'low'"),
        ({"model": {"n_layer": -1}}, "n_layer must be 1 or more, got -1"),
    ],
)
@pytest.mark.usefixtures("as_users_run_it")
def test_a_description_that_no_run_has_is_refused_with_its_file(change, sentence, tmp_path):
    saved_after(1, tmp_path / "run")
    tensors, about = checkpoints.read(tmp_path / "run")
    checkpoints.write(tmp_path / "run", tensors, {**about, **change})
    with pytest.raises(ValueError, match=f"run: {sentence}"):
        resume(tmp_path / "run")
    del about[next(iter(change))]
    checkpoints.write(tmp_path / "run", tensors, about)
    with pytest.raises(ValueError, match=r"must be given, got only|holds a model, and no run"):
        resume(tmp_path / "run")


@pytest.mark.parametrize("config", [{}, {"n_layer": 7, "attention": "absolute", "positions": "per-layer"}])
def test_parameters_are_counted_without_making_any(config):
    config = small_config(**config)
    run, shapes = loop.start(config, SETTINGS), skeleton(config)
    assert [(name, one.shape) for name, one in shapes.named_parameters()] == [
        (name, one.shape) for name, one in run.model.named_parameters()
    ]
    assert all(one.is_meta for one in shapes.parameters())
    assert parameter_count(config) == sum(one.numel() for one in run.model.parameters())
    assert parameter_count(replace(config, d_model=2**20, d_inner=2**20, n_layer=1000)) > 2**50


@pytest.mark.parametrize(("kind", "name"), [(Best, "step"), (Unlogged, "steps")])
def test_a_count_of_steps_is_never_negative(kind, name):
    with pytest.raises(ValueError, match=f"^{name} must be 0 or more, got -1"):
        kind(**{name: -1})
