import json
import os
import signal
import subprocess
import sys
import time

import pytest
from small_runs import assert_same_weights, new_run, weights

from minitxl.__main__ import main
from minitxl.data.tokenizer import Tokenizer, Vocabulary
from minitxl.training import metrics_log, run_config_file, run_folder, saved_run
from minitxl.training.config import RunConfig
from minitxl.training.run_info import RunInfo, tokenizer_of, vocabulary_digest
from minitxl.training.saved_run import resume

WORDS = Tokenizer("words", Vocabulary(("<eos>", "<unk>", "cat"), "<unk>"))
INFO = RunInfo("book", "ab" * 32, "words", vocabulary_digest(WORDS.vocabulary))


def tree(folder):
    """All that lies in a folder: names, kinds, contents."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.fixture
def run(tmp_path):
    """The folder of a run in words, of one checkpoint."""
    folder = tmp_path / "run"
    saved_run.save(new_run(), run_folder.checkpoint(folder, 0), INFO)
    WORDS.vocabulary.write(folder / "words.json")
    return folder


def test_ctrl_c_at_the_command_line_saves_and_the_same_command_goes_on(tmp_path):
    text = tmp_path / "text"
    text.write_bytes(bytes(range(256)) * 40)
    sizes = "--n-layer 1 --d-model 16 --batch 4 --seg-len 16 --mem-len 16 --steps 200 --validate-every 200"

    def command(folder):
        return ["train", str(tmp_path / folder), "--text", str(text), *sizes.split()]

    process = subprocess.Popen(
        [sys.executable, "-m", "minitxl", *command("stopped")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    log_file = tmp_path / "stopped" / metrics_log.LOG
    deadline = time.monotonic() + 120
    while not (log_file.exists() and log_file.read_text()):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        process.send_signal(number)
    output, _ = process.communicate(timeout=120)
    assert process.returncode in {128 + signal.SIGTERM, 128 + signal.SIGINT, 128 + signal.SIGHUP}
    assert "and saved at step" in output
    for folder in ("stopped", "whole"):
        main(command(folder))
    one, other = (resume(run_folder.newest(tmp_path / folder)) for folder in ("stopped", "whole"))
    assert_same_weights(weights(one), weights(other))


def test_a_folder_without_a_run_has_no_newest_checkpoint(tmp_path):
    (tmp_path / "checkpoint-best.safetensors").touch()
    (tmp_path / "checkpoint-12.safetensors").touch()
    assert run_folder.newest(tmp_path) is None
    assert run_folder.newest(tmp_path / "nowhere") is None
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="file must be a folder, got a file"):
        run_folder.newest(tmp_path / "file")


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


STRANGERS = {
    "notes.txt": "mine",
    "words.json": '{"symbols": ["a"], "unknown": null}',
    "characters.json": "{}",
    "config.json": '{"model_type": "transfo-xl"}',
    "log.jsonl": "my log\n",
    ".notes.json.20240101": "mine",
    ".tmpbackup": "mine",
    ".words.json.abcdefgh": "a file, and no folder of ours",
    "tensorboard/events": "mine",
    ".tmpfolder/note": "mine",
    ".checkpoint-00000000.safetensors.abcdefgh/note": "in a folder named like ours",
}


@pytest.mark.parametrize("name", STRANGERS)
def test_a_folder_with_files_and_without_a_checkpoint_is_refused_by_their_name(name, tmp_path):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(STRANGERS[name])
    before = tree(tmp_path)
    with pytest.raises(
        ValueError, match=f"must be empty or hold a run of minitxl train, got {name.split('/')[0]} "
    ):
        run_folder.check(tmp_path, WORDS)
    with run_folder.run_lock(tmp_path):
        run_folder.clean(tmp_path)
    (tmp_path / ".lock").unlink()
    assert tree(tmp_path) == before


@pytest.mark.parametrize("name", STRANGERS)
def test_cleaning_the_folder_of_a_run_leaves_the_files_of_others(name, run):
    path = run / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(STRANGERS[name])
    before = tree(run)
    run_folder.clean(run)
    assert tree(run) == before


@pytest.mark.parametrize(
    "left",
    [
        ".checkpoint-00000300.safetensors.ab_d3fgh/checkpoint-00000300.safetensors",
        ".checkpoint-00000000.safetensors.ab_d3fgh/.tmpX7fGhQ",
        ".best-00000300.safetensors.abcdefgh/best-00000300.safetensors",
        ".words.json.abcdefgh/words.json",
        ".log.jsonl.abcdefgh/log.jsonl",
        ".config.json.abcdefgh/config.json",
    ],
)
def test_files_that_a_killed_training_left_half_written_are_in_nobodys_way_and_removed(left, tmp_path):
    path = tmp_path / left
    path.parent.mkdir()
    path.write_bytes(b"half")
    WORDS.vocabulary.write(tmp_path / "words.json")
    run_folder.check(tmp_path, WORDS)
    run_folder.clean(tmp_path)
    assert tree(tmp_path).keys() == {"words.json"}


def test_a_vocabulary_that_is_not_the_runs_is_refused_by_training_and_by_reading(run):
    assert tokenizer_of(run, INFO) == WORDS
    run_folder.check(run, WORDS)
    (run / "characters.json").write_text("[]")  # of no interest to a run in words
    assert run_folder.trained(run).tokenizer == WORDS
    Vocabulary(("<eos>", "<unk>", "dog"), "<unk>").write(run / "words.json")
    for refused in (lambda: run_folder.check(run, WORDS), lambda: run_folder.trained(run)):
        with pytest.raises(ValueError, match=r"words\.json must be the vocabulary of the run, got"):
            refused()
    (run / "words.json").unlink()
    with pytest.raises(ValueError, match=r"words\.json must be the vocabulary of the run, got none"):
        run_folder.trained(run)


@pytest.mark.parametrize(
    "name", [".lock", "log.jsonl", "config.json", "words.json", "checkpoint-00000009.safetensors"]
)
def test_a_pipe_in_a_folder_is_refused_and_not_waited_for(name, run):
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)

    def read():
        run_folder.check(run, WORDS)
        run_folder.trained(run)

    with pytest.raises(ValueError, match=r"must be a plain file, got a named pipe|must be the vocabulary"):
        read()


def test_a_folder_where_the_best_model_is_saved_is_refused_before_a_step(run):
    (run / "best-00000003.safetensors").mkdir()
    with pytest.raises(ValueError, match=r"best-00000003\.safetensors must be a plain file, got a folder"):
        run_folder.check(run, WORDS)


def test_settings_can_be_read_in_the_folder_and_its_flags_come_back(run):
    source = {"data": None, "text": "/books/one.txt", "unit": "words"}
    run_config_file.write(run, new_run(), RunConfig(checkpoints=7), INFO, source)
    content = json.loads((run / "config.json").read_text())
    assert (content["model"]["n_layer"], content["train"]["batch"], content["info"]["text"]) == (2, 3, "book")
    assert run_config_file.read(run) == (RunConfig(checkpoints=7), source)
    written = (run / "config.json").stat().st_mtime_ns
    run_config_file.write(run, new_run(), RunConfig(checkpoints=7), INFO, source)
    assert (run / "config.json").stat().st_mtime_ns == written
    run_config_file.write(run, new_run(), RunConfig(), INFO, source)
    assert run_config_file.read(run).run_config == RunConfig()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"model_type": "transfo-xl"}', "note must be given, got only 'model_type'"),
        ("[" * 100_000, "must be JSON of a few levels, got too many"),
        ("null", "the content must be an object of names and values, got None"),
        ('{"note": "mine", "run": {}, "source": {}}', "note must be written by minitxl train"),
    ],
)
def test_a_settings_file_of_others_is_neither_read_nor_overwritten(content, sentence, run):
    (run / "config.json").write_text(content)
    for used in (
        lambda: run_config_file.read(run),
        lambda: run_config_file.write(run, new_run(), RunConfig(), INFO, {}),
    ):
        with pytest.raises(ValueError, match=rf"config\.json:? .*{sentence}"):
            used()
    assert (run / "config.json").read_text() == content


def test_no_flipped_bit_of_a_settings_file_is_a_traceback(run):
    run_config_file.write(run, new_run(), RunConfig(), INFO, {"data": None, "text": "/a", "unit": "words"})
    content = (run / "config.json").read_bytes()
    for bit in range(0, 8 * len(content), 101):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        (run / "config.json").write_bytes(damaged)
        try:
            assert isinstance(run_config_file.read(run).run_config, RunConfig)
        except ValueError as error:
            assert "config.json" in str(error)  # noqa: PT017
