import hashlib
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from functools import partial

import pytest
import torch

from minitxl.__main__ import main
from minitxl.benchmark import bench
from minitxl.commands import figures
from minitxl.commands.shared import TextFlags
from minitxl.experiments import demo
from minitxl.experiments.shared import results, smaller
from minitxl.fast import kv_cache
from minitxl.inference import generation
from minitxl.inference.config import EvaluateConfig
from minitxl.inference.evaluation import cached, sliding
from minitxl.pretrained.presets import enwik8_large
from minitxl.training import checkpoints, run_folder, saved_run

TINY = "--n-layer 1 --d-model 16 --n-head 2 --d-head 8 --d-inner 32 --batch 4 --seg-len 8 --mem-len 8"
SHORT = f"{TINY} --steps 6 --warmup 2 --validate-every 3 --validate-tokens 100"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"The same words again and again, and then some others. " * 60)
    return path


def call(*words: object) -> None:
    main(shlex.split(" ".join(str(word) for word in words)))


def test_train_then_evaluate_on_your_own_text(text, tmp_path, capsys):
    folder = tmp_path / "run"
    call("train", folder, "--text", text, SHORT)
    assert f"next: minitxl evaluate {folder} --text {text}\n" in capsys.readouterr().out
    run = saved_run.resume(run_folder.newest(folder))
    assert (run.step, run.model.config.d_model, run.settings.mem_len) == (6, 16, 8)
    test = torch.frombuffer(bytearray(text.read_bytes()), dtype=torch.uint8)[
        text.stat().st_size * 95 // 100 :
    ]

    call("evaluate", folder, "--text", text)
    expected = cached(run.model, test, EvaluateConfig(8, 8))
    out = capsys.readouterr().out
    assert f"{expected.bits_per_token:.4f} bits per byte, perplexity {expected.perplexity:.3f}" in out
    assert f"{len(test) - 1:,} tokens" in out
    assert f"next: minitxl generate {folder} --prompt TEXT\n" in out

    call("evaluate", folder, "--text", text, "--way sliding --attention-len 12 --stride 3 --tokens 50")
    expected = sliding(run.model, test[:51], attention_len=12, stride=3)
    assert f"{expected.bits_per_token:.4f} bits per byte" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "most", "clamp_len"),
    [
        ("", 16, None),
        ("--attention absolute", 7, None),
        ("--window 6 --clamp-len 1 --learning-rate 0.1 --steps 60", 5, 1),
    ],
)
def test_generate_goes_on_with_a_prompt(text, tmp_path, capsys, flags, most, clamp_len):
    folder = tmp_path / "run"
    call("train", folder, "--text", text, SHORT, flags)
    capsys.readouterr()
    call("generate", folder, "--prompt Thé --length 30 --seed 4")
    told = capsys.readouterr().out
    model, prompt = checkpoints.load_model(run_folder.newest(folder)), torch.tensor(list("Thé".encode()))
    drawn = generation.sample(model, [prompt], length=30, mem_len=most, clamp_len=clamp_len, seed=4)[0]
    assert told == "Thé" + bytes(drawn.tolist()).decode(errors="replace") + "\n"
    call("generate", folder, "--prompt Thé --length 30 --temperature 0 --mem-len 3 --top-k 2 --top-p 0.9")
    greedy = generation.sample(model, [prompt], length=30, mem_len=3, clamp_len=clamp_len, temperature=0)[0]
    assert capsys.readouterr().out == "Thé" + bytes(greedy.tolist()).decode(errors="replace") + "\n"


@pytest.fixture
def run(text, tmp_path, capsys):
    call("train", tmp_path / "run", "--text", text, SHORT)
    capsys.readouterr()
    return tmp_path / "run"


def test_generate_writes_the_texts_of_several_prompts_one_after_another(run, capsys):
    call(
        "generate",
        run,
        "--prompt Thé --prompt 'and again' --length 20 --repetition 1.3 --repetition-window 9",
    )
    model = checkpoints.load_model(run_folder.newest(run))
    prompts = [torch.tensor(list(text.encode())) for text in ("Thé", "and again")]
    drawn = generation.sample(model, prompts, length=20, mem_len=16, repetition=1.3, repetition_window=9)
    one, other = (bytes(row.tolist()).decode(errors="replace") for row in drawn)
    assert capsys.readouterr().out == f"Thé{one}\n{'-' * 72}\nand again{other}\n"


@pytest.mark.parametrize("prompts", ["--prompt T", "--prompt T --prompt T"])
def test_generate_ends_each_text_before_a_stop(run, capsys, prompts):
    call("generate", run, prompts, "--length 300 --stop e --stop a")
    model = checkpoints.load_model(run_folder.newest(run))
    prompt, texts = torch.tensor([ord("T")]), []
    for seed in range(prompts.count("--prompt")):
        drawn = bytes(generation.sample(model, [prompt], length=300, mem_len=16, seed=seed)[0].tolist())
        texts.append("T" + re.split(b"[ea]", drawn)[0].decode(errors="replace") + "\n")
        assert len(texts[-1]) < 300
    assert capsys.readouterr().out == f"{'-' * 72}\n".join(texts)


def test_generate_prints_whole_characters_as_they_come_and_no_part_of_a_stop(run, capsys, monkeypatch):
    printed = []

    def draw_tokens(model, prompts, **options):
        for byte in "où €!\n\n\nE€ND".encode():
            printed.append(capsys.readouterr().out)
            yield torch.tensor([byte])

    monkeypatch.setattr(generation, "draw_tokens", draw_tokens)
    call("generate", run, "--prompt né --stop E€N --stop '\n\n\n\n' --stop €?")
    printed.append(capsys.readouterr().out)
    assert printed == ["né", "o", "", "ù", " ", "", "", "", "€!", *[""] * 3, "\n\n\n", "", "", "", "\n"]


def test_generate_completes_a_character_that_the_prompt_begins(run, capsys, monkeypatch):
    drawn = torch.tensor([[0x82], [0xAC], [0xE2]])
    monkeypatch.setattr(generation, "draw_tokens", lambda *_, **__: iter(drawn))
    main(["generate", str(run), "--prompt", b"5 \xe2".decode(errors="surrogateescape")])
    assert capsys.readouterr().out == "5 €�\n"


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("--repetition 0", "repetition must be 0.01 or more, got 0.0"),
        ("--repetition-window 0", "repetition_window must be 1 or more, got 0"),
        ("--stop ''", "each stop must hold 1 token or more, got shape [0]"),
        ("--prompt a --prompt ''", "each prompt must hold 1 token or more, got prompts of [1, 0] tokens"),
    ],
)
def test_generate_prints_nothing_of_what_can_not_be_asked(run, capsys, wrong, sentence):
    with pytest.raises(SystemExit) as stop:
        call("generate", run, wrong)
    assert stop.value.code == 2
    assert capsys.readouterr() == ("", f"minitxl: {sentence}\n")


def test_a_run_trained_in_bfloat16_is_evaluated_without_a_gpu(run, text, capsys):
    path = run_folder.newest(run)
    tensors, about = checkpoints.read(path)
    checkpoints.write(path, tensors, {**about, "train": {**about["train"], "precision": "bfloat16"}})
    call("evaluate", run, "--text", text, "--device cpu")
    assert "bits per byte, perplexity" in capsys.readouterr().out


def test_the_same_command_goes_on_and_other_settings_are_refused(text, tmp_path, capsys):
    call("train", tmp_path / "run", "--text", text, SHORT)
    call("train", tmp_path / "run", "--text", text, SHORT)
    assert "at step 6 of 6" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        call("train", tmp_path / "run", "--text", text, SHORT.replace("--d-model 16", "--d-model 32"))
    assert stop.value.code == 2
    assert "d_model must be 16 as in the run in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("train {folder} --steps 0", "minitxl: steps must be 1 or more, got 0\n"),
        (
            "train {folder} --text {folder}/none",
            "run/none\n",
        ),
        ("generate {folder} --length 0", "minitxl: length must be 1 or more, got 0\n"),
        ("generate {folder}", "must hold a run of minitxl train, got no checkpoint\n"),
        (
            "train {folder} --text {text} --batch 5000",
            "must hold 5000 · (32 + 1) = 165000 tokens or more, got 2916\n",
        ),
        (
            "train {folder} --text {text} --vocab-size 9",
            "vocab_size must be 256 or more for this text, got 9\n",
        ),
        ("evaluate {folder}", "must hold a run of minitxl train, got no checkpoint\n"),
        ("demo --steps 0", "steps must be 1 or more, got 0\n"),
        ("evaluate {folder} --tokens 0", "minitxl: tokens must be 1 or more, got 0\n"),
        (
            "train {folder} --unit words",
            "unit must be given with a text of your own, got words without text\n",
        ),
        (
            "train {folder} --text {tiny} --batch 1 --seg-len 4",
            "validation text of tiny must hold 2 tokens or more, got 1\n",
        ),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence_with_exit_code_2(command, sentence, text, tmp_path, capsys):
    tiny = tmp_path / "tiny"
    tiny.write_bytes(b"twenty bytes of text")
    with pytest.raises(SystemExit) as stop:
        call(command.format(folder=tmp_path / "run", text=text, tiny=tiny))
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("minitxl: ")
    assert said.endswith(sentence)
    assert said.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (
            "demo --text {text} --folder {text}",
            "folder must be one that can be written to, got {text}: File exists",
        ),
        (
            "figures dependency --folder {text}",
            "folder must be one that can be written to, got {text}: File exists",
        ),
        (
            "figures --check copying --folder {empty}",
            "{empty}/copying.json is not a result that minitxl wrote",
        ),
        ("bench --peers {text}", "peers must be a Python that can be run, got {text}"),
        ("bench --peers {empty}", "peers must be a Python that can be run, got {empty}"),
        (
            "bench --folder {text}/in",
            "folder must be one that can be written to, got {text}/in: Not a directory",
        ),
    ],
)
def test_a_place_that_will_not_do_is_refused_before_anything_is_computed(
    command, sentence, text, tmp_path, capsys, monkeypatch
):
    def computed(*_, **__):
        raise AssertionError("something was computed")

    for module, name in ((demo, "run"), (smaller, "check"), (bench, "run"), (figures, "compute")):
        monkeypatch.setattr(module, name, computed)
    (tmp_path / "empty").mkdir()
    names = {"text": text, "empty": tmp_path / "empty"}
    with pytest.raises(SystemExit) as stop:
        call(command.format(**names))
    assert stop.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"minitxl: {sentence.format(**names)}")


def test_memory_that_is_not_there_is_told_in_one_sentence(run, capsys, monkeypatch):
    def start(*_, **__):
        return torch.empty(2**60)

    monkeypatch.setattr(kv_cache, "start", start)
    with pytest.raises(SystemExit) as stop:
        call("generate", run)
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("minitxl: there is not enough memory: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (MemoryError(), 2),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), 2),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), 2),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), None),
    ],
)
def test_only_memory_that_is_used_up_is_told_so(run, capsys, monkeypatch, error, exit_code):
    def start(*_, **__):
        raise error

    monkeypatch.setattr(kv_cache, "start", start)
    with pytest.raises(SystemExit if exit_code else RuntimeError) as stop:
        call("generate", run)
    assert getattr(stop.value, "code", None) == exit_code
    assert ("there is not enough memory" in capsys.readouterr().err) == bool(exit_code)


@pytest.mark.skipif(torch.cuda.is_available(), reason="speaks of machines without a GPU")
def test_a_gpu_that_is_not_there_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        call("train", tmp_path, "--device cuda")
    assert stop.value.code == 2
    assert "where there is no CUDA GPU, got cuda" in capsys.readouterr().err


def test_an_unknown_flag_is_refused_with_a_suggestion(capsys):
    with pytest.raises(SystemExit) as stop:
        call("train runs/a --stepz 3")
    assert stop.value.code == 2
    assert "--steps" in capsys.readouterr().err


def test_the_package_is_a_command():
    done = subprocess.run(
        [sys.executable, "-m", "minitxl", "--help"], capture_output=True, text=True, check=True
    )
    assert "train" in done.stdout


def test_help_names_every_command_and_explains_every_flag(capsys):
    def said(*words):
        with pytest.raises(SystemExit) as stop:
            call(*words, "--help")
        assert stop.value.code == 0
        return capsys.readouterr().out

    for command in ("train", "evaluate", "demo", "figures"):
        assert command in said()
    training_help = said("train")
    for flag in ("--seg-len", "--mem-len", "--attention", "--learning-rate", "--text", "--device", "--seed"):
        assert flag in training_help
    assert "Tokens of memory, M" in training_help


def test_demo_trains_three_models_and_writes_its_figure_with_its_data(text, tmp_path, capsys, monkeypatch):
    """It reads alike with memory and by sliding over every character, whose window is as long: 64 tokens."""
    text.write_bytes(text.read_bytes() * 30)
    assert demo.settings(TextFlags(text=text).corpus())["test_tokens"] == 4096
    monkeypatch.setattr(demo, "settings", partial(demo.settings, test_tokens=512))
    call("demo --steps 2 --text", text, "--folder", tmp_path / "out")
    out = capsys.readouterr().out
    assert "absolute, no memory" in out
    assert "Bits per character saved by relative positions" in out
    assert "00_start_here.ipynb" in out
    result = results.read(tmp_path / "out" / "demo.json")
    reaches = {name: system["longest_reach"] for name, system in result.data["systems"].items()}
    assert reaches == {"vanilla": 31, "relative": 31, "xl": 127}
    rows = result.data["evaluation"]
    assert rows[-1]["attention_len"] == rows[1]["attention_len"] == 32
    bits = {(row["system"], row["evaluation"]): row["bits"] for row in rows[:-1]}
    vanilla, relative = (bits[name, "isolated segments"] for name in ("vanilla", "relative"))
    assert result.data["gains"]["relative_positions"] == pytest.approx(vanilla - relative)
    assert result.data["gains"]["memory"] == pytest.approx(relative - bits["xl", "cached"])
    assert bits["relative", "segments one by one"] == pytest.approx(relative)
    assert {row["tokens"] for row in result.data["evaluation"]} == {512}
    assert (tmp_path / "out" / "demo.svg").read_text().startswith("<?xml")
    careful, quick = (row for row in rows if row["system"] == "xl" and row["attention_len"] == 64)
    assert (careful["evaluation"], quick["evaluation"]) == ("sliding window", "cached")
    assert quick["bits"] == pytest.approx(careful["bits"], abs=0.02)


@pytest.fixture
def books(tmp_path, monkeypatch):
    """A folder of texts, and a data folder of the test's own."""
    monkeypatch.setenv("MINITXL_DATA", str(tmp_path / "data"))
    folder = tmp_path / "books"
    folder.mkdir()
    (folder / "one.txt").write_text("the cat sat\nthe dog ran\n" * 60)
    (folder / "two.txt").write_text("the dog sat\nthe cat ran\n" * 60)
    return folder


@pytest.mark.parametrize(
    ("unit", "prompt", "token"), [("words", "the cat", "word"), ("characters", "the c", "character")]
)
def test_a_folder_of_texts_is_read_in_words_or_characters_from_training_to_writing(
    books, tmp_path, capsys, unit, prompt, token
):
    folder = tmp_path / "run"
    call("train", folder, "--text", books, "--unit", unit, SHORT)
    capsys.readouterr()
    call("evaluate", folder, "--text", books, "--unit", unit)
    assert re.search(rf"\d bits per {token}, perplexity", capsys.readouterr().out)
    call("generate", folder, "--prompt", f"'{prompt}'", "--length 12 --temperature 0")
    told = capsys.readouterr().out
    assert told.startswith(prompt)
    assert set(told.split()) <= {"the", "cat", "dog", "sat", "ran"} or unit == "characters"


def test_words_of_a_cut_text_are_read_and_written_as_people_write_them(books, tmp_path, capsys):
    (books / "three.txt").write_text("the cat does n't ( ever ) run , the dog 's <unk>\n" * 60)
    folder, write = tmp_path / "run", "--length 40 --seed 1 --prompt"
    call("train", folder, "--text", books, "--unit words --min-count 1", SHORT)
    capsys.readouterr()
    call("generate", folder, write, '"the cat doesn\'t (ever) run"')
    joined, explained = capsys.readouterr()
    assert joined.startswith("the cat doesn't (ever) run")
    assert explained == "<unk> stands for each of the words that the vocabulary of 15 lacks\n"
    call("generate", folder, "--apart", write, '"the cat does n\'t ( ever ) run"')
    apart, _ = capsys.readouterr()
    assert apart.startswith("the cat does n't ( ever ) run ")
    assert apart.replace(" ", "") == joined.replace(" ", "")
    call("generate", folder, "--length 1 --temperature 0 --prompt cat")
    assert "<unk>" not in "".join(capsys.readouterr())


def test_a_run_that_can_not_read_the_usual_prompt_asks_for_one(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("MINITXL_DATA", str(tmp_path / "data"))
    text = tmp_path / "chinese.txt"
    text.write_text("记忆和位置" * 100, "utf-8")
    call("train", tmp_path / "run", "--text", text, "--unit characters", SHORT)
    with pytest.raises(SystemExit):
        call("generate", tmp_path / "run")
    assert "minitxl: prompt must be given where the run can't read" in capsys.readouterr().err


def test_a_text_with_other_words_than_the_run_is_refused(books, text, tmp_path, capsys):
    folder = tmp_path / "run"
    call("train", folder, "--text", books, "--unit words", SHORT)
    with pytest.raises(SystemExit):
        call("evaluate", folder, "--text", text, "--unit characters")
    assert f"unit must be words as in {folder}, got characters" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        call("train", folder, "--text", text, "--unit words", SHORT)
    assert f"the text must be that of the run in {folder}, books (sha256 " in capsys.readouterr().err
    with pytest.raises(SystemExit):
        call("train", folder, "--text", text, "--unit bytes", SHORT)
    assert f"unit must be words as in the run in {folder}, got bytes" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        call("train", folder, "--text", text, "--data enwik8")
    assert "data must not be given where text is, got enwik8" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        call("train", folder, "--data ptp")
    assert "must be one of enwik8, text8, wikitext-103" in capsys.readouterr().err


def test_a_run_goes_on_with_its_text_whatever_that_is_called_and_with_no_other(text, tmp_path, capsys):
    folder, first = tmp_path / "run", text.read_bytes()
    call("train", folder, "--text", text, SHORT)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    text.write_bytes(first.replace(b"others", b"change"))
    with pytest.raises(SystemExit):
        call("train", folder, "--text", text, SHORT)
    shas = [hashlib.sha256(one).hexdigest()[:12] for one in (first, text.read_bytes())]
    expected = f"the run in {folder}, text (sha256 {shas[0]}), got text (sha256 {shas[1]}); for another text"
    assert expected in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before

    moved = tmp_path / "moved"
    moved.write_bytes(first)
    call("train", folder, "--text", moved, SHORT)
    assert "at step 6 of 6" in capsys.readouterr().out


def test_a_preset_is_what_the_flags_start_from(text, tmp_path, capsys):
    tiny = "--n-layer 1 --d-model 16 --n-head 2 --d-head 8 --d-inner 32 --batch 4 --seg-len 8"
    tiny += " --steps 2 --warmup 1"
    for order in (f"--preset enwik8-large {tiny}", f"{tiny} --preset=enwik8-large"):
        folder = tmp_path / order[:4]
        call("train", folder, "--text", text, order)
        run, preset = saved_run.resume(run_folder.newest(folder)), enwik8_large()
        assert run.model.config == replace(
            preset.model, vocab_size=256, n_layer=1, d_model=16, n_head=2, d_head=8, d_inner=32
        )
        assert run.settings == replace(preset.train, batch=4, seg_len=8, steps=2, warmup=1)
    with pytest.raises(SystemExit):
        call("train", tmp_path / "none", "--preset enwik9-large")
    assert "enwik9-large" in capsys.readouterr().err


def test_the_size_of_the_vocabulary_is_the_texts_unless_a_larger_one_is_asked_for(text, tmp_path, capsys):
    for asked, size in (("", 11), ("--vocab-size 20", 20)):
        folder = tmp_path / f"run{size}"
        call("train", folder, "--text", text, "--unit words", SHORT, asked)
        assert saved_run.resume(run_folder.newest(folder)).model.config.vocab_size == size
    with pytest.raises(SystemExit):
        call("train", tmp_path / "small", "--text", text, "--vocab-size 200", SHORT)
    assert "vocab_size must be 256 or more for this text, got 200" in capsys.readouterr().err
