import builtins
import json
import os

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from minitxl.training import metrics_log
from minitxl.training.metrics_log import Line


def line(step, valid_bits=None, **more):
    return Line(step, step / 4, 8.0 / step, 1e-3, 0.5, 256.0, 2.0 * step, valid_bits, **more)


def written(folder):
    return [json.loads(line)["step"] for line in (folder / metrics_log.LOG).read_text().splitlines()]


def test_a_line_is_a_record(tmp_path):
    with metrics_log.writing(tmp_path, after=0) as write:
        write(line(1))
        write(line(2, 3.5, valid_bits_at={16: 3.25}))
    first, second = map(json.loads, (tmp_path / metrics_log.LOG).read_text().splitlines())
    assert first == {
        "step": 1,
        "epoch": 0.25,
        "bits": 8.0,
        "learning_rate": 1e-3,
        "gradient_norm": 0.5,
        "tokens_per_second": 256.0,
        "elapsed": 2.0,
        "valid_bits": None,
        "valid_bits_at": None,
        "perplexity": None,
        "valid_perplexity": None,
        "valid_lanes": None,
        "valid_tokens": None,
    }
    assert (second["valid_bits"], second["valid_bits_at"]) == (3.5, {"16": 3.25})


@pytest.fixture
def three(tmp_path):
    """A folder with a log of three lines."""
    with metrics_log.writing(tmp_path, after=0) as write:
        for step in (1, 2, 3):
            write(line(step))
    return tmp_path


@pytest.mark.parametrize("torn", ["", '{"step": 4, "bi', json.dumps(line(4)._asdict()) + '\n{"st', "\0\0\0"])
def test_lines_beyond_the_step_and_half_lines_are_dropped(torn, three):
    with (three / metrics_log.LOG).open("a") as file:
        file.write(torn)
    with metrics_log.writing(three, after=2) as write:
        assert written(three) == [1, 2]
        write(line(3))
    assert written(three) == [1, 2, 3]


STRANGE = [
    "garbage",
    "",
    "{}",
    "[]",
    "null",
    '{"step": "a"}',
    '{"step": -1, "elapsed": 0}',
    "[" * 100_000,
    "\udcff\0",
]


@pytest.mark.parametrize("strange", STRANGE)
def test_a_line_that_is_no_record_stays_and_costs_no_record(strange, three):
    path = three / metrics_log.LOG
    lines = path.read_text().splitlines(keepends=True)
    content = "".join([lines[0], strange + "\n", *lines[1:]]).encode(errors="surrogateescape")
    path.write_bytes(content)
    assert metrics_log.unreadable(three) == [2]
    assert metrics_log.elapsed_until(three, 2) == 4.0
    with metrics_log.writing(three, after=3):
        pass
    assert path.read_bytes() == content
    with metrics_log.writing(three, after=1):
        pass
    assert path.read_bytes() == content[: -len("".join(lines[1:]))]


def test_a_log_that_is_no_plain_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / metrics_log.LOG)
    with (
        pytest.raises(ValueError, match=r"log\.jsonl must be a plain file, got a named pipe"),
        metrics_log.writing(tmp_path, after=0),
    ):
        pass


def scalars(folder):
    board = EventAccumulator(str(folder / metrics_log.BOARD)).Reload()
    return {name: [(one.step, one.value) for one in board.Scalars(name)] for name in board.Tags()["scalars"]}


def test_tensorboard_shows_what_is_logged_and_forgets_what_is_taken_back(tmp_path):
    with metrics_log.writing(tmp_path, after=0, tensorboard=True) as write:
        for step in (1, 2, 4):
            write(line(step))
    with metrics_log.writing(tmp_path, after=2, tensorboard=True) as write:
        write(line(8, 3.5, valid_bits_at={16: 3.25}))
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
