"""The page for readers who come from the original code or from the port: complete, and true."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from models import small_config, some_tokens
from support.markdown import blocks_of
from support.released import random_model

from minitxl.__main__ import main
from minitxl.commands.original_options import EVALUATE_WITHOUT, OPTIONS, WITHOUT
from minitxl.config import ModelConfig
from minitxl.inference.config import EvaluateConfig
from minitxl.pretrained.released import load_released
from minitxl.training import loop, run_folder, saved_run
from minitxl.training.config import RunConfig, TrainConfig

PAGE = (Path(__file__).parent.parent / "notebooks" / "coming_from.md").read_text("utf-8")
TRAIN = re.findall(
    r"\S+",
    """data dataset n_layer n_head d_head d_embed d_model d_inner dropout dropatt init emb_init init_range
emb_init_range init_std proj_init_std optim lr mom scheduler warmup_step decay_rate lr_min clip
clip_nonemb max_step batch_size batch_chunk tgt_len eval_tgt_len ext_len mem_len not_tied seed cuda
adaptive div_val pre_lnorm varlen multi_gpu log-interval eval-interval work_dir restart restart_dir
debug same_length attn_type clamp_len eta_min gpu0_bsz max_eval_steps sample_softmax patience
finetune_v2 finetune_v3 fp16 static-loss-scale dynamic-loss-scale""",
)
EVAL = re.findall(
    r"\S+",
    """data dataset split batch_size tgt_len ext_len mem_len clamp_len cuda work_dir no_log same_length""",
)
PORT = re.findall(
    r"\S+",
    """vocab_size cutoffs d_model d_embed n_head d_head d_inner div_val pre_lnorm n_layer mem_len clamp_len
same_length proj_share_all_but_first attn_type sample_softmax adaptive dropatt untie_r init
init_range proj_init_std init_std layer_norm_epsilon""",
)


def rows_of(section: str) -> list[list[str]]:
    """Return the cells of a section's table, header and rule left out."""
    text = re.search(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)[1]
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def help_of(command: str, capsys) -> str:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("section", "options"), [("Options of train.py", TRAIN), ("Options of eval.py", EVAL)]
)
def test_every_option_of_the_original_has_a_row(section, options):
    named = {name for row in rows_of(section) for name in re.findall(r"--([\w-]+)", row[0])}
    assert sorted(set(options) - named) == []
    assert sorted(named - set(options)) == []


def test_the_sentence_about_an_option_of_the_original_names_what_the_page_names():
    """Each of the flags is in the option's row, and each row with flags of another name has its sentence."""
    rows = rows_of("Options of train.py") + rows_of("Options of eval.py")
    for name, here in OPTIONS.items():
        option = re.compile(rf"`--{name.replace('_', '[_-]')}[` ]")
        rows_of_option = [row for row in rows if option.search(row[0])]
        row = next(row for row in rows_of_option if row[1] and row[1] != "as in train.py")
        words = re.findall(r"--[a-z-]+|minitxl train FOLDER|the folder", here)
        assert words, here
        assert all(word in " ".join(row) for word in words), (name, here, row)
    renamed = {
        name
        for row in rows
        for name in re.findall(r"--([\w-]+)", row[0])
        if row[1].startswith("`--") and f"--{name.replace('_', '-')}" not in row[1]
    }
    assert {name.replace("-", "_") for name in renamed} <= {*OPTIONS, *WITHOUT}


def test_every_option_that_has_no_counterpart_on_the_page_has_none_in_the_command():
    """All but one, which is an option of train.py's with another value here."""
    missing = {
        name.replace("-", "_")
        for row in rows_of("Options of train.py")
        if not row[1]
        for name in re.findall(r"`--([\w-]+)`", row[0])
    }
    assert missing <= {*WITHOUT}
    assert [row[0] for row in rows_of("Options of eval.py") if not row[1]] == ["`--batch_size`"]
    assert {*EVALUATE_WITHOUT} == {"batch_size"}


@pytest.mark.parametrize("words", [["evaluate", "--batch_size", "1"], ["train", "r", "--clamp_len", "-1"]])
def test_an_option_of_the_original_is_told_by_the_command_that_it_is_given_to(words, capsys):
    with pytest.raises(SystemExit):
        main(words)
    sentence = capsys.readouterr().err
    assert ("no counterpart here: all tokens are scored" in sentence) or ("must be left out" in sentence)


def test_every_setting_of_the_port_has_a_row():
    named = {
        name for row in rows_of("Settings of TransfoXLConfig") for name in re.findall(r"`(\w+)`", row[0])
    }
    assert sorted(set(PORT) - named) == []


def test_an_option_that_is_not_here_says_why():
    rows = rows_of("Options of train.py") + rows_of("Options of eval.py")
    missing = [row for row in rows if not row[1]]
    assert missing
    assert all(len(row[2]) > 10 for row in missing), missing


@pytest.mark.parametrize(
    ("command", "section"), [("train", "Options of train.py"), ("evaluate", "Options of eval.py")]
)
def test_every_flag_the_page_names_is_one_of_the_command(command, section, capsys):
    known = help_of(command, capsys) + help_of("evaluate", capsys) + help_of("train", capsys)
    for row in rows_of(section):
        for flag in re.findall(r"--[a-z-]+", " ".join(row[1:])):
            assert flag in known or flag == "--nproc-per-node", (flag, row)


def test_every_name_of_a_setting_here_is_a_field():
    names = {
        field.name
        for config in (ModelConfig, TrainConfig, RunConfig, EvaluateConfig)
        for field in fields(config)
    }
    for row in rows_of("Settings of TransfoXLConfig")[1:4]:
        for name in re.findall(r"`(?:\w+\.)?(\w+)`", row[1]):
            assert name in names, name


def test_the_snippets_run_in_one_namespace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = some_tokens(2, 33)
    pairs = [(text[:, i : i + 8], text[:, i + 1 : i + 9]) for i in range(0, 32, 8)]
    model = random_model("plain")
    begins = torch.tensor([True, False])
    space = {
        "model": model,
        "tokens": some_tokens(1, 16) % model.config.vocab_size,
        "segments": [(a % model.config.vocab_size, b % model.config.vocab_size) for a, b in pairs],
    }
    space["episodes"] = [(inputs, targets, begins) for inputs, targets in space["segments"]]
    config = small_config(vocab_size=256, final_norm=False)
    run = loop.start(config, TrainConfig(seg_len=8, mem_len=4, window=4, clamp_len=3))
    saved_run.save(run, run_folder.checkpoint(Path("runs/mine"), run.step))
    for block in blocks_of(PAGE):
        if block.language == "python":
            exec(compile(block.text, f"Coming from, {block.section}", "exec"), space)
    assert space["again"].config == model.config
    assert not torch.allclose(space["as_the_port"], space["log_probs"], atol=1e-3)
    zeros, loaded = space["zeros"], load_released("for_the_port")[0]  # window: the port's same_length
    without_window, _ = loaded(space["tokens"], zeros)
    assert not torch.allclose(space["as_the_port"], without_window, atol=1e-3)
    assert torch.equal(space["as_the_port"], loaded(space["tokens"], zeros, window=24)[0])
    assert space["memory"].shape[2] == 24
    again, how = load_released("mine_for_the_port")
    assert (how.mem_len, how.window, again.config.clamp_len) == (4, 4, 3)
