"""Output works whatever the standard streams are: closed, in ASCII, or read by somebody who has left."""

import io
import os
import shlex
import subprocess
import sys

import pytest
from support.streams import Abandoned

from minitxl.__main__ import main
from minitxl.commands import standard_streams
from minitxl.training import run_folder

TINY = "--n-layer 1 --d-model 16 --n-head 2 --d-head 8 --d-inner 32 --batch 4 --seg-len 8 --mem-len 8"
SHORT = f"{TINY} --steps 2 --warmup 1"


def call(*words: object) -> None:
    main(shlex.split(" ".join(str(word) for word in words)))


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"The same words again and again, and then some others. " * 60)
    return path


@pytest.mark.parametrize("command", ["train", "evaluate", ""])
@pytest.mark.parametrize("columns", ["0", "1", "39", "100000"])
def test_help_is_laid_out_at_any_width(capsys, monkeypatch, columns, command):
    monkeypatch.setenv("COLUMNS", columns)
    with pytest.raises(SystemExit) as stop:
        call(command, "--help")
    assert stop.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 10
    assert all(len(line) <= standard_streams.WIDEST for line in lines)
    assert os.environ["COLUMNS"] == columns


def test_training_goes_on_when_nobody_reads_what_it_says(text, tmp_path, monkeypatch):
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, Abandoned())
    call("train", tmp_path / "run", "--text", text, SHORT)
    assert run_folder.newest(tmp_path / "run").name == "checkpoint-00000002.safetensors"


def test_generation_ends_quietly_when_nobody_reads_it(text, tmp_path, monkeypatch, capsys):
    call("train", tmp_path / "run", "--text", text, SHORT)
    capsys.readouterr()
    monkeypatch.setattr(sys, "stdout", Abandoned())
    with pytest.raises(SystemExit) as stop:
        call("generate", tmp_path / "run", "--length 1000000000")
    assert stop.value.code == 128 + 13
    assert capsys.readouterr().err == ""


def test_a_refusal_is_one_short_line_whatever_was_typed(capsys):
    for word in ("\n\x1b[31m", "9" * 5000):
        with pytest.raises(SystemExit) as stop:
            main(["evaluate", "--released", word, "--data", word, "--text", "text"])
        (line,) = capsys.readouterr().err.splitlines()
        assert stop.value.code == 2
        assert line.startswith("minitxl: ")
        assert line.isprintable()
        assert len(line) < 1000


def test_a_refusal_that_no_disk_can_hold_has_its_exit_code(monkeypatch):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "stderr", Full())
    with pytest.raises(SystemExit) as stop:
        call("evaluate no-folder")
    assert stop.value.code == 2


def test_help_that_nobody_reads_ends_quietly(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdout", Abandoned())
    with pytest.raises(SystemExit) as stop:
        call("--help")
    assert stop.value.code in (0, 128 + 13)
    assert capsys.readouterr().err == ""


def test_what_an_encoding_lacks_is_written_as_an_escape(text, tmp_path, monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    standard_streams.open_streams()
    print("5 µs", "caf\udce9")
    sys.stdout.flush()
    assert written.getvalue() == b"5 \\xb5s caf\\udce9\n"


def test_closed_streams_are_opened_so_that_no_file_takes_their_place(tmp_path):
    script = f"""
import os, runpy, sys
runpy.run_path({standard_streams.__file__!r})["open_streams"]()  # without the package, which imports slowly
file = open({str(tmp_path / "file")!r}, "wb")
assert file.fileno() > 2, file.fileno()
print("out"), print("err", file=sys.stderr)
os.write(2, b"from below")
file.close()
"""
    closing = f"{shlex.quote(sys.executable)} -c {shlex.quote(script)} >&- 2>&-"
    subprocess.run(["sh", "-c", closing], check=True, timeout=60)
    assert (tmp_path / "file").read_bytes() == b""


def test_a_stream_is_discarded_once_its_reader_has_gone():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        enduring = standard_streams.Enduring(stream)
        for _ in range(3):
            enduring.write("text")
            enduring.flush()
        assert enduring.fileno() == writer
