"""``minitxl train``: what is refused changes nothing, and a run goes on, longer or otherwise."""

import json
import os
import re
import shlex
import shutil
from dataclasses import replace

import pytest
import torch
from support.released import released_model, write_released

from minitxl.__main__ import main
from minitxl.commands import train
from minitxl.commands.train_flags import BASE, TrainFlags, check_effect
from minitxl.config import ModelConfig
from minitxl.model import TransformerLM
from minitxl.pretrained.presets import penn_treebank
from minitxl.training import (
    checkpoints,
    distributed,
    loop,
    metrics_log,
    run_folder,
    saved_run,
    signals,
)
from minitxl.training.config import TrainConfig
from minitxl.training.schedules import learning_rate

TINY = "--n-layer 1 --d-model 16 --n-head 2 --d-head 8 --d-inner 32 --batch 4 --seg-len 8 --mem-len 8"
SHORT = f"{TINY} --steps 6 --warmup 2 --validate-every 3 --validate-tokens 100 --device cpu"
TEXT = b"The same words again and again, and then some others. " * 60


def call(*words: object) -> None:
    main(shlex.split(" ".join(str(word) for word in words)))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A text, and a run of six steps in its words and one in its bytes, which nobody changes."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "text").write_bytes(TEXT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINITXL_DATA", str(folder / "data"))
        call("train", folder / "words", "--text", folder / "text", "--unit words", SHORT)
        call("train", folder / "bytes", "--text", folder / "text", SHORT)
    return folder


@pytest.fixture
def here(trained, tmp_path, monkeypatch, capsys):
    """A copy of the runs, and their text where it was; the data folder is theirs."""
    monkeypatch.setenv("MINITXL_DATA", str(trained / "data"))
    for name in ("words", "bytes"):
        shutil.copytree(trained / name, tmp_path / name)
    (tmp_path / "text").write_bytes(TEXT)
    capsys.readouterr()
    return tmp_path


def tree(folder):
    """All that lies in a folder: names, kinds, contents."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def refusal(capsys, *words):
    """The sentence that the command ends with, exit code 2."""
    with pytest.raises(SystemExit) as stop:
        call(*words)
    assert stop.value.code == 2
    error = capsys.readouterr().err
    (sentence,) = (line for line in error.splitlines() if line.startswith("minitxl: "))
    assert "Traceback" not in error
    return sentence


def last(folder):
    return saved_run.resume(run_folder.newest(folder))


REFUSED = {
    "--accumulate 3": "batch must be a multiple of processes · accumulate = 1 · 3, got 4",
    "--cutoffs 900": "cutoffs must",
    "--cutoffs 4 8 --tie-projections True": "must hold one flag for each of the 3 clusters",
    "--div-val 0": "div_val must",
    "--seed 18446744073709551616": "seed must lie in 0 … 2**63 - 1, got 18446744073709551616",
    "--n-layer 1000000000": "n_layer must be at most 1,000, got 1000000000",
    "--d-model 1099511627776": "d_model must be at most 1,048,576, got 1099511627776",
    "--d-model 1048576 --d-inner 1048576": "the training must fit into the",
    "--vocab-size 2000000000": "the training must fit into the",
    "--mem-len 1000000000000000": "mem_len must be at most 2,147,483,647",
    "--validate-attention-lens 100": "validate_attention_lens must lie in 1 … validate_tokens - 1 = 99",
    "--variational-dropout --dropout 0": "variational_dropout must be given with dropout above 0, got True",
    "--min-count 3": "min_count must be given with words or unknown, got 3 with bytes",
    "--min-count 0": "min_count must be 1 or more, got 0",
    "--ext_len 0": "--ext_len of the original code has no counterpart here: it was 0 in every published run",
    "--d_embed -1": "--d_embed must be left out where the original has -1, got -1",
    "--learning-rate nan": "learning_rate must be finite, got nan",
    "--eta-min 1": "eta_min must lie in 0 … learning_rate = 0.002, got 1.0",
    "--batch 5000": "must hold 5000 · (8 + 1) = 45000 tokens or more",
    "--until-step 20": "until_step must be given with the folder of a run",
    "--decay-now 20": "decay_now must be given with the folder of a run",
    "--patience 0": "patience must be 1 or more, got 0",
    "--from {here}/nowhere": "nowhere must hold a run of minitxl train, got no checkpoint",
    "--from {here}/words --released {here}/words": "either the folder of a run or released must be given",
    "--data enwik8": "data must not be given where text is",
    "--attention absolute --clamp-len 5": "clamp_len must be given with an attention that reads distances",
    "--positions learned": "positions must be given with attention = absolute, got learned without",
    "--attention absolute --max-seg-len 8": "max_seg_len must be given with positions = learned or per-layer",
    "--max-distance 5": "max_distance must be given with attention = shaw, got 5 without",
    "--n-bucket 8": "n_bucket must be given with attention = t5, got 8 without",
    "--bucket-distance 99": "bucket_distance must be given with attention = t5, got 99 without",
    "--attention shaw --no-share-biases": "share_biases must be given with attention = xl or t5, got False",
    "--no-final-norm": "final_norm must be given with norm = pre, got False without",
    "--tie-projections True": "tie_projections must be given with div_val above 1, or a d_embed",
    "--cutoffs 9 --tie-projections True True": "tie_projections must be given with div_val above 1, or a d_",
    "--tgt_len 8": "--tgt_len is the original code's name, here it is --seg-len",
    "--warmup-step=3": "--warmup-step is the original code's name, here it is --warmup",
}


@pytest.mark.parametrize(
    ("without", "changed"),
    [
        ({}, {"div_val": 2}),
        ({"div_val": 2}, {"tie_projections": (True,)}),
        ({"d_embed": 64}, {"tie_projections": (True,)}),
        ({"d_embed": 64, "cutoffs": (100,)}, {"tie_projections": (False, True)}),
    ],
)
def test_projections_of_the_embedding_are_accepted_where_they_change_the_model(without, changed):
    configs = ModelConfig(**without), ModelConfig(**without, **changed)
    sizes = [sum(one.numel() for one in TransformerLM(config).parameters()) for config in configs]
    assert sizes[0] != sizes[1]
    check_effect(configs[1], TrainConfig())


def test_a_folder_alone_begins_no_run(here, capsys):
    sentence = refusal(capsys, "train", here / "nowhere")
    assert "nowhere must hold a run to go on with, got no checkpoint; to begin one, name its text" in sentence
    assert not (here / "nowhere").exists()


def test_training_in_words_says_how_many_there_are_and_how_much_is_unknown(here, capsys):
    (here / "text.txt").write_text("once\n" + "a b\n" * 299)
    for name, flags, shares in (
        ("two", "", "0.12% of train, 0.00% of valid, 0.00% of test"),
        ("many", "--min-count 300", "66.63% of train, 66.67% of valid, 66.67% of test"),
    ):
        call("train", here / name, "--text", here / "text.txt", "--unit words", flags, SHORT)
        out = capsys.readouterr().out
        assert re.search(rf"vocabulary: \d words; <unk> is {re.escape(shares)}", out), out


def test_words_that_training_lacks_are_told_part_by_part(here, capsys):
    folder = here / "parts"
    folder.mkdir()
    for part, line in (("train", "a b c"), ("valid", "x y c"), ("test", "a b z")):
        (folder / f"{part}.txt").write_text(f"{line}\n" * 200)
    call("train", here / "three", "--text", folder, "--unit words", SHORT)
    assert "<unk> is 0.00% of train, 50.00% of valid, 25.00% of test" in capsys.readouterr().out


def test_a_refusal_of_a_long_list_shows_its_beginning_and_its_end(here, capsys):
    sentence = refusal(capsys, "train", here / "run", "--cutoffs", *[1] * 900)
    assert sentence.startswith("minitxl: cutoffs must ")
    assert sentence.endswith(", 1, 1)")
    assert " … " in sentence
    assert len(sentence) < 1000


@pytest.mark.parametrize(
    "flags", ["--d-model 1048576 --d-inner 1048576", "--d-model 7 --n-head 0", "--n-layer 1000000000"]
)
def test_a_model_that_no_text_makes_possible_is_refused_before_a_text_is_read(flags, tmp_path, capsys):
    missing = tmp_path / "missing"
    sentence = refusal(capsys, "train", tmp_path / "run", "--text", missing, flags)
    assert str(missing) not in sentence
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("wrong", REFUSED)
@pytest.mark.parametrize("folder", ["new", "empty"])
@pytest.mark.usefixtures("as_users_run_it")
def test_what_is_refused_leaves_no_folder_and_nothing_in_one(wrong, folder, here, capsys):
    (here / "empty").mkdir()
    before = tree(here)
    words = SHORT, wrong.format(here=here)
    assert REFUSED[wrong] in refusal(capsys, "train", here / folder, "--text", here / "text", *words)
    assert tree(here) == before


WRONG_FOR_A_RUN = {
    "--d-model 32": "d_model must be 16 as in the run in",
    "--seg-len 16": "seg_len must be 8 as in the run in",
    "--vocab-size 300": "vocab_size must be 256 as in the run in",
    "--steps 7": "steps must be 6 as in the run in {run}, got 7; --until-step and --decay-now change it",
    "--preset enwik8-base": "preset must be None as in the run in {run}, got enwik8-base",
    "--unit words": "unit must be given with a text of your own",
    "--text {here}/other": "the text must be that of the run in {run}, text (sha256 ",
    "--text {here}/nowhere": "text must be a file or a folder that is there, got ",
    "--text {here}": "the run's folder must lie outside of the text's",
    "--text {here}/text --unit words": "unit must be bytes as in the run in",
    "--until-step 5": "until_step must be 6 or more, the steps of the run in {run}, got 5",
    "--learning-rate 0.5": "steps must remain for a changed setting (--until-step), got learning_rate: 0.002 "
    "→ 0.5 for the run in {run}, which is at step 6 of 6",
    "--decay-now 0": "decay_now must be 1 or more, got 0",
    "--decay-now 4": "decay_now must begin at a rate above eta_min = 0.0, got 0.0 at step 6; --schedule",
    "--until-step 9 --decay-now 4": "until_step must be given without decay_now, got 9 with 4",
    "--batch 0": "batch must be 1 or more, got 0",
    "--accumulate 3": "batch must be a multiple of processes",
    "--checkpoints 0": "checkpoints must be 1 or more, got 0",
}


@pytest.mark.parametrize("wrong", WRONG_FOR_A_RUN)
def test_what_a_run_can_not_go_on_with_is_refused_and_changes_nothing(wrong, here, trained, capsys):
    (here / "other").write_bytes(TEXT.replace(b"others", b"change"))
    before, words = tree(here), wrong.format(here=here)
    expected = WRONG_FOR_A_RUN[wrong].format(run=here / "bytes")
    if wrong == "--unit words":  # the text of the run is one of its own
        expected = "unit must be bytes as in the run in"
    assert expected in refusal(capsys, "train", here / "bytes", words)
    assert tree(here) == before


STRANGERS = {
    "words.json": "{}",
    ".notes.json.20240101": "",
    ".tmpbackup": "",
    "log.jsonl": "my log",
    "folder/file": "mine",
}


@pytest.mark.parametrize("name", STRANGERS)
def test_files_of_others_in_a_folder_are_named_and_stay(name, here, capsys):
    (here / "mine" / name).parent.mkdir(parents=True)
    (here / "mine" / name).write_text(STRANGERS[name])
    before = tree(here)
    sentence = refusal(capsys, "train", here / "mine", "--text", here / "text", SHORT)
    assert f"mine must be empty or hold a run of minitxl train, got {name.split('/')[0]} and no" in sentence
    assert tree(here) == before


def test_a_folder_that_is_a_file_is_refused(here, capsys):
    assert "the run" in refusal(capsys, "train", here / "text", SHORT)
    assert "text must be a folder, got a file" in refusal(capsys, "train", here / "text", SHORT)
    assert (here / "text").read_bytes() == TEXT


def test_the_folder_alone_goes_on_with_its_settings_its_text_and_its_flags(
    here, trained, capsys, monkeypatch
):
    for name in ("words", "bytes"):
        call("train", here / name, "--until-step 9 --checkpoints 4 --log-every 2")
        call("train", here / name)
        assert "at step 9 of 9" in capsys.readouterr().out
        content = json.loads((here / name / "config.json").read_text())
        assert content["source"]["text"] == str(trained / "text")
        assert (content["run"]["checkpoints"], content["run"]["log_every"]) == (4, 2)
        assert content["train"]["steps"] == last(here / name).settings.steps == 9


def test_the_same_command_goes_on_also_with_a_run_that_has_its_steps_or_decays(here, capsys):
    call("train", here / "bytes --until-step 9")
    assert "the rate at this step, 0, becomes " in capsys.readouterr().out
    call("train", here / "bytes --until-step 9")
    out = capsys.readouterr().out
    assert "at step 9 of 9" in out
    assert "the rate at this step" not in out
    call("train", here / "bytes --decay-now 4 --learning-rate 1e-3 --schedule constant")
    out = capsys.readouterr().out
    assert "steps: 9 → 13" in out
    assert "learning_rate: 0.002 → 0.001" in out
    call("train", here / "bytes --decay-now 4")
    assert "at step 13 of 13" in capsys.readouterr().out
    settings = last(here / "bytes").settings
    assert (settings.steps, settings.decay_from, settings.schedule_steps) == (13, 9, 9)


def test_a_run_that_is_there_goes_on_and_says_that_it_begins_with_no_other_model(here, capsys):
    call("train", here / "bytes --from", here / "words", "--until-step 7")
    out = capsys.readouterr().out
    assert f"the run in {here / 'bytes'} goes on; from and released are for a new run's first step" in out
    assert last(here / "bytes").step == 7


def test_a_run_is_brought_to_its_end_from_the_rate_that_it_has(here):
    call("train", here / "bytes --schedule constant --decay-now 4 --checkpoints 9")
    settings = last(here / "bytes").settings
    rates = [learning_rate(step, settings) for step in range(6, 11)]
    assert rates == pytest.approx([2e-3, 1.5e-3, 1e-3, 5e-4, 0])
    lines = [json.loads(line) for line in (here / "bytes" / "log.jsonl").read_text().splitlines()]
    assert lines[-1]["step"] == 10
    assert lines[-1]["learning_rate"] == 0


def test_a_batch_changes_and_the_memory_is_emptied(here, capsys):
    call("train", here / "words --batch 8 --until-step 12")
    assert "batch: 4 → 8" in capsys.readouterr().out
    run = last(here / "words")
    assert (run.step, run.memory.shape[1]) == (12, 8)
    assert run.tokens_read == 6 * 4 * 8 + 6 * 8 * 8
    changes = json.loads((here / "words" / "config.json").read_text())["info"]["changes"]
    assert changes == ["step 6: batch: 4 → 8", "step 6: steps: 6 → 12"]
    call("train", here / "words --until-step 13")
    info = run_folder.trained(here / "words").info
    assert info.changes == (*changes, "step 12: steps: 12 → 13")


def test_a_vocabulary_that_was_lost_is_a_refusal_of_evaluate_and_is_written_anew_by_training(here, capsys):
    vocabulary = (here / "words" / "words.json").read_bytes()
    (here / "words" / "words.json").unlink()
    for command in ("evaluate", "generate"):
        assert "words.json must be the vocabulary of the run, got none" in refusal(
            capsys, command, here / "words"
        )
    call("train", here / "words")
    assert (here / "words" / "words.json").read_bytes() == vocabulary
    (here / "words" / "words.json").write_text('{"symbols": ["<eos>"], "unknown": null}')
    before = tree(here)
    for command in ("train", "evaluate", "generate"):
        assert "words.json must be the vocabulary of the run" in refusal(capsys, command, here / "words")
    assert tree(here) == before


def test_a_log_with_a_strange_line_loses_nothing_and_is_spoken_of(here, capsys):
    path = here / "bytes" / "log.jsonl"
    path.write_text("garbage\n" + path.read_text())
    before = path.read_text()
    call("train", here / "bytes --until-step 7")
    assert "1 lines, the first being line 1, are no record and stay as they are" in capsys.readouterr().out
    assert path.read_text().startswith(before)


@pytest.mark.parametrize("unit", ["words", "bytes"])
def test_a_new_run_begins_with_the_model_of_another(unit, here, capsys):
    (here / "other").write_bytes(
        TEXT[::-1] if unit == "bytes" else b"and then the cat said others again. " * 90
    )
    call(
        "train",
        here / "new",
        "--from",
        here / unit,
        "--text",
        here / "other",
        "--steps 2 --dropout 0.5 --batch 2",
    )
    assert f"beginning with the model of {here / unit}" in capsys.readouterr().out
    parent = run_folder.trained(here / unit).info
    assert run_folder.trained(here / "new").info.earlier == (parent.train_sha256,)
    old, new = last(here / unit), saved_run.resume(run_folder.checkpoint(here / "new", 0))
    for one, other in zip(old.model.parameters(), new.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert new.model.config == replace(old.model.config, dropout=0.5)
    assert (new.settings.seg_len, new.settings.mem_len, new.settings.steps, new.step) == (8, 8, 2, 0)
    call("train", here / "new")
    assert "at step 2 of 2" in capsys.readouterr().out
    call("generate", here / "new --prompt and --length 3")
    sentence = refusal(
        capsys, "train", here / "wide", "--from", here / unit, "--text", here / "other", "--d-model 32"
    )
    assert f"d_model must be 16 as in {here / unit}, got 32" in sentence


def test_a_new_run_begins_with_a_released_model_and_generate_writes_as_one(here, capsys):
    folder = here / "released"
    folder.mkdir()
    words = ["<eos>", "<unk>", "the", "same", "words", "again", "and", "then", "some", "others.", "or", "not"]
    write_released(folder, released_model(len(words)), file="model.safetensors", mem_len=5)
    torch.save({"idx2sym": words}, folder / "vocab.bin")
    source = f"--released {folder} --text {here / 'text'}"
    call("train", here / "new", source, "--steps 2 --batch 2 --seg-len 8")
    out = capsys.readouterr().out
    assert f"beginning with the model of {folder}" in out
    assert "holds no vocabulary" not in out
    assert last(here / "new").step == 2
    call("generate --released", folder, "--prompt the --length 5 --mem-len 8")
    assert capsys.readouterr().out.startswith("the")


def test_a_released_model_without_a_vocabulary_is_said_to_take_that_of_the_text(here, capsys):
    folder = here / "without"
    folder.mkdir()
    write_released(folder, released_model(11), file="model.safetensors", mem_len=5)
    source = f"--released {folder} --text {here / 'text'} --unit words"
    call("train", here / "new", source, "--steps 1 --batch 2 --seg-len 8")
    assert (
        f"{folder} holds no vocabulary: its 11 words are taken as counted in text, which is right only if "
        "it was trained on exactly this text"
    ) in capsys.readouterr().out
    call("evaluate", here / "new")
    assert "clamp_len=9)" in capsys.readouterr().out  # the model's own, and not None


def test_early_stopping_keeps_the_best_model_and_says_how_it_is_scored(here, capsys, monkeypatch):
    bits = iter([3.0, 4.0, 5.0])
    monkeypatch.setattr(loop, "validate", lambda run, stream, attention_len=None: next(bits))
    call(
        "train",
        here / "new",
        "--text",
        here / "text",
        SHORT.replace("--steps 6", "--steps 60"),
        "--patience 2",
    )
    out = capsys.readouterr().out
    assert "stopped at step 9: validation was best at step 3, 3.000 bits per byte" in out
    assert f"next: minitxl evaluate {here / 'new'} --text {here / 'text'} --best\n" in out
    call("evaluate", here / "new", "--text", here / "text", "--best")
    call("generate", here / "new", "--best --length 3")
    best = run_folder.trained(here / "new", best=True).model
    assert not torch.equal(next(best.parameters()), next(last(here / "new").model.parameters()))


def test_a_run_that_has_stopped_early_is_not_decayed_while_it_would_stop_again(here, monkeypatch, capsys):
    bits = iter([3.0, 4.0, 5.0, 5.0, 5.0, 5.0])
    monkeypatch.setattr("minitxl.training.loop.validate", lambda *_: next(bits))
    early = SHORT.replace("--steps 6", "--steps 60")
    call("train", here / "new", "--text", here / "text", early, "--patience 2")
    before = {path: path.read_bytes() for path in sorted((here / "new").iterdir())}
    sentence = refusal(capsys, "train", here / "new", "--decay-now 3")
    assert "patience must be none or larger to go on, got 2: the run in" in sentence
    assert {path: path.read_bytes() for path in sorted((here / "new").iterdir())} == before
    call("train", here / "new", "--decay-now 3 --patience None")
    assert "trained for 12 steps" in capsys.readouterr().out


@pytest.mark.parametrize("flag", ["--unit characters", "--unknown", "--min-count 1"])
@pytest.mark.parametrize("way", ["of a model", "of a run", "of a run and its text"])
def test_a_flag_that_would_cut_the_text_otherwise_is_refused_where_the_vocabulary_is_there(
    flag, way, here, capsys
):
    words = {
        "of a model": f"{here / 'new'} --from {here / 'words'} --text {here / 'text'}",
        "of a run": f"{here / 'words'} --until-step 20",
        "of a run and its text": f"{here / 'words'} --text {here / 'text'} --until-step 20",
    }
    sentence = refusal(capsys, "train", words[way], flag)
    assert sentence.startswith(f"minitxl: {flag.split()[0].removeprefix('--').replace('-', '_')} must ")
    assert not (here / "new").exists()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGUSR1"])
def test_the_exit_code_of_a_stopped_training_is_the_signals(name, here, capsys, monkeypatch):
    number = getattr(signals.signal, name)
    monkeypatch.setattr(saved_run, "save_best", lambda *_: signals.signal.raise_signal(number))
    with pytest.raises(SystemExit) as stop:
        call("train", here / "new", "--text", here / "text", SHORT)
    assert stop.value.code == 128 + number
    assert (
        f"stopped by {name} and saved at step 3; the same command goes on from there"
        in capsys.readouterr().out
    )
    monkeypatch.undo()
    monkeypatch.setenv("MINITXL_DATA", str(here))
    call("train", here / "new")
    assert last(here / "new").step == 6


def test_signals_from_the_first_touch_of_the_folder_to_the_last_word_end_in_a_saved_run(
    here, capsys, monkeypatch
):
    def burst(function):
        def raising(*arguments, **options):
            for name in ("SIGUSR1", "SIGTERM", "SIGINT"):
                signals.signal.raise_signal(getattr(signals.signal, name))
            return function(*arguments, **options)

        return raising

    for module, name in ((run_folder, "run_lock"), (train, "tell")):
        monkeypatch.setattr(module, name, burst(getattr(module, name)))
    with pytest.raises(SystemExit) as stop:
        call("train", here / "new", "--text", here / "text", SHORT)
    assert stop.value.code == 128 + signals.signal.SIGUSR1
    assert "stopped by SIGUSR1 and saved at step 1; the same command" in capsys.readouterr().out
    assert last(here / "new").step == 1


def test_warm_up_and_averaging_follow_the_steps_where_they_are_left_at_their_defaults():
    default, preset = BASE, penn_treebank().train
    flags = TrainFlags(steps=5)
    assert flags.checked(default).warmup == 1
    assert replace(flags, warmup=3).checked(default).warmup == 3
    assert replace(flags, steps=900).checked(default) == default == replace(TrainConfig(), warmup=200)
    assert replace(flags, steps=60, warmup=20).checked(default).warmup == 20  # the default, asked for
    short = TrainFlags(**{**preset.__dict__, "steps": 10, "warmup": None})
    assert (short.checked(preset).average_from, short.checked(preset).warmup) == (7, 0)
    assert replace(short, steps=50_000).checked(preset).average_from == 45_000
    assert TrainFlags(**preset.__dict__).checked(preset) == preset


def test_tokens_of_validation_follow_the_lengths_where_they_are_left_at_their_default():
    default = TrainConfig()
    longer = TrainFlags(seg_len=512, mem_len=512)
    assert longer.checked(default).validate_tokens == 8 * 8 * 1024
    assert replace(longer, validate_attention_lens=(2000,)).checked(default).validate_tokens == 8 * 8 * 2512
    assert replace(longer, validate_tokens=5000).checked(default).validate_tokens == 5000


def test_another_sample_of_validation_has_a_best_of_its_own(here, capsys):
    before = last(here / "words").best
    assert before.bits is not None
    call("train", here / "words --validate-tokens 17 --until-step 7")
    out = capsys.readouterr().out
    assert "the best validation is sought anew: another subset of the text is validated" in out
    assert "validation: 16 of 29 tokens, in 8 lanes from all over the text, each of 2, " in out
    after = last(here / "words").best
    assert (after.step, after.bits) != (before.step, before.bits)


def test_a_changed_batch_that_validates_the_same_sample_keeps_its_best(here, capsys):
    """A rate that spoils the model must not take the place of the better one before it."""
    before = last(here / "words").best
    (path,) = (here / "words").glob("best-*.safetensors")
    best = path.read_bytes()
    call("train", here / "words --batch 3 --until-step 7 --learning-rate 9 --schedule constant")
    assert "sought anew" not in capsys.readouterr().out
    after = last(here / "words").best
    assert (after.step, after.bits) == (before.step, before.bits)
    assert path.read_bytes() == best


def test_few_steps_need_no_other_flag(here, capsys):
    call("train", here / "five", "--text", here / "text", TINY, "--steps 5")
    call("train", here / "ten", "--text", here / "text", TINY, "--preset penn-treebank --steps 10")
    assert last(here / "five").settings.warmup == 1
    assert last(here / "ten").settings.average_from == 7


def test_the_bar_shows_loss_rate_speed_and_epoch(here, capsys):
    call("train", here / "words --until-step 8 --log-every 1")
    shown = capsys.readouterr().err
    assert all(part in shown for part in ("perplexity ", "rate ", "tokens/s", "epoch "))
    call("train", here / "bytes --until-step 8 --log-every 1")
    assert "bits per byte, " in capsys.readouterr().err


def test_a_local_rank_that_is_no_number_is_of_no_interest_to_one_process_and_refused_by_several(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "abc")
    with distributed.joined("cpu"), distributed.first_here():
        pass
    monkeypatch.setattr(distributed, "size", lambda: 2)
    with (
        pytest.raises(ValueError, match="the variable LOCAL_RANK must be a whole number, got 'abc'"),
        distributed.first_here(),
    ):
        pass


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("RANK", "1", "be at most 0"),
        ("RANK", "abc", "be a whole number"),
        ("WORLD_SIZE", "0", "be 1 or more"),
        ("LOCAL_RANK", "1", "be at most 0"),
        ("MASTER_PORT", "99999", "be at most 65,535"),
    ],
)
def test_a_variable_that_torchrun_can_not_have_written_is_refused_before_other_ranks_are_awaited(
    name, value, rule, monkeypatch
):
    for variable, right in {"TORCHELASTIC_RUN_ID": "1", "WORLD_SIZE": "1", "RANK": "0"}.items():
        monkeypatch.setenv(variable, right)
    monkeypatch.setenv(name, value)
    with (
        pytest.raises(ValueError, match=f"the variable {name} must {rule}, got "),
        distributed.joined("cpu"),
    ):
        pass


def test_flipped_bits_of_a_checkpoint_never_change_where_a_run_goes_on(here, capsys):
    path = run_folder.newest(here / "bytes")
    content = path.read_bytes()
    path.write_bytes(content.replace(b'\\"step\\": 6', b'\\"step\\": 2'))
    assert path.read_bytes() != content
    before = tree(here)
    for command in ("train", "evaluate", "generate"):
        sentence = refusal(capsys, command, here / "bytes")
        assert (
            f"{path} is damaged: its content does not match its SHA-256; if you delete it, the run resumes"
            in sentence
        )
    assert tree(here) == before


def test_weights_that_are_no_numbers_have_no_score_and_write_no_text(here, capsys):
    path = run_folder.newest(here / "bytes")
    tensors, about = checkpoints.read(path)
    tensors["model.output.tables.0.bias"][3] = float("nan")
    checkpoints.write(path, tensors, about)
    for command in ("evaluate", "generate", "train"):
        assert "must be finite, got NaN or infinity in it" in refusal(capsys, command, here / "bytes")


def test_a_missing_tensorboard_is_told_before_anything_is_written(here, capsys, monkeypatch):
    def missing():
        raise ValueError("tensorboard must be installed")

    monkeypatch.setattr(metrics_log, "summary_writer", missing)
    before = tree(here)
    assert "tensorboard" in refusal(capsys, "train", here / "new", SHORT, "--tensorboard")
    assert tree(here) == before


def test_a_pipe_in_place_of_a_runs_file_is_refused(here, capsys):
    for name in ("log.jsonl", "config.json"):
        (here / "bytes" / name).unlink()
        os.mkfifo(here / "bytes" / name)
        assert f"{name} must be a plain file, got a named pipe" in refusal(capsys, "train", here / "bytes")
        (here / "bytes" / name).unlink()


def test_training_says_its_lengths_and_rate_and_whose_words_were_counted(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MINITXL_DATA", str(tmp_path / "data"))
    (tmp_path / "text").write_bytes(TEXT)
    call("train", tmp_path / "run", "--text", tmp_path / "text --unit words --window 7", SHORT)
    out = capsys.readouterr().out
    lengths = re.search(
        r"^training: segments of \d+, memory \d+, window 7, batch \d+; 6 steps, (.*)$", out, re.M
    )
    assert lengths
    assert lengths[1] == "rate 0.002 after a warm-up of 2, cosine; an epoch reads 512 of 539 tokens"
    counted = "the words are counted in all of the text, its validation and test splits too\n"
    assert counted in out
    for part in ("train", "valid", "test"):
        (tmp_path / "parts").mkdir(exist_ok=True)
        (tmp_path / "parts" / f"{part}.txt").write_bytes(TEXT)
    for words, told in (("--unit words", False), ("--unit characters", True)):
        name = words.split()[1]
        call("train", tmp_path / name, "--text", tmp_path / "parts", words, SHORT)
        out = capsys.readouterr().out
        assert ("are counted in all of the text" in out) == told
        for pair in ("train and valid", "train and test", "valid and test"):
            assert f"\n{pair} are the same text: nothing is held out\n" in out


def test_training_says_how_a_run_that_decays_now_falls(here, capsys):
    call("train", here / "falling", "--text", here / "text --schedule constant", SHORT)
    call("train", here / "falling --decay-now 4")
    assert ", constant, and from step 6 in a line to 0; an epoch reads 2,912 of 2,915 tokens\n" in (
        capsys.readouterr().out
    )


def test_the_bar_says_if_the_validation_was_of_averaged_weights(here, capsys):
    call("train", here / "averaged", "--text", here / "text", SHORT, "--log-every 3 --average-from 2")
    assert "validation of averaged weights" in capsys.readouterr().err
    call("train", here / "plain", "--text", here / "text", SHORT, "--log-every 3")
    assert "averaged" not in capsys.readouterr().err
