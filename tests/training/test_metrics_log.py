import builtins
import json

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from minitxl.training import metrics_log
from minitxl.training.loop import Record


def record(step, valid_bits=None, **more):
    return Record(step, 8.0 / step, 1e-3, 0.5, 64, 0.25, valid_bits, **more)


def written(folder):
    return [json.loads(line)["step"] for line in (folder / metrics_log.LOG).read_text().splitlines()]


def test_a_record_is_a_line(tmp_path):
    with metrics_log.writing(tmp_path, after=0) as write:
        write(record(1))
        write(record(2, 3.5, valid_bits_at={16: 3.25}))
    first, second = map(json.loads, (tmp_path / metrics_log.LOG).read_text().splitlines())
    assert first == {
        "step": 1,
        "bits": 8.0,
        "learning_rate": 1e-3,
        "gradient_norm": 0.5,
        "tokens": 64,
        "seconds": 0.25,
        "valid_bits": None,
        "valid_bits_at": None,
    }
    assert (second["valid_bits"], second["valid_bits_at"]) == (3.5, {"16": 3.25})


@pytest.mark.parametrize("torn", ["", '{"step": 4, "bi', '{"step": 4}\n{"st', "\0\0\0"])
def test_lines_beyond_the_step_and_half_lines_are_dropped(torn, tmp_path):
    with metrics_log.writing(tmp_path, after=0) as write:
        for step in (1, 2, 3):
            write(record(step))
    with (tmp_path / metrics_log.LOG).open("a") as file:
        file.write(torn)
    with metrics_log.writing(tmp_path, after=2) as write:
        assert written(tmp_path) == [1, 2]
        write(record(3))
    assert written(tmp_path) == [1, 2, 3]


def scalars(folder):
    board = EventAccumulator(str(folder / metrics_log.BOARD)).Reload()
    return {name: [(one.step, one.value) for one in board.Scalars(name)] for name in board.Tags()["scalars"]}


def test_tensorboard_shows_what_is_logged_and_forgets_what_is_taken_back(tmp_path):
    with metrics_log.writing(tmp_path, after=0, tensorboard=True) as write:
        for step in (1, 2, 4):
            write(record(step))
    with metrics_log.writing(tmp_path, after=2, tensorboard=True) as write:
        write(record(8, 3.5, valid_bits_at={16: 3.25}))
    found = scalars(tmp_path)
    assert found["loss/training"] == [(1, 8.0), (2, 4.0), (8, 1.0)]
    assert found["loss/validation"] == [(8, 3.5)]
    assert found["loss/attention 16"] == [(8, 3.25)]
    assert found["tokens per second"][0] == (1, 256.0)


def test_without_tensorboard_one_sentence_says_what_is_missing(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("torch.utils.tensorboard"):
            raise ImportError
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with (
        pytest.raises(ValueError, match="tensorboard must be installed where it is asked for"),
        metrics_log.writing(tmp_path, after=0, tensorboard=True),
    ):
        pass
