"""Each command of the recipes is parsed as it stands, and run in small on a tiny text of the real layout."""

import re
import shlex
import shutil
import subprocess
import sys
from os import environ
from pathlib import Path
from random import Random

import pytest
import sites
from support.markdown import blocks_of, commands_of, words_of
from support.released import released_model, write_released
from support.small_corpora import HELD_OUT, LM1B, TRAINING, serve_corpus

from minitxl.__main__ import main
from minitxl.commands.evaluate import Evaluate
from minitxl.commands.figures import Figures
from minitxl.commands.train import Train
from minitxl.data import corpora, prepare
from minitxl.data.download_addresses import SOURCES
from minitxl.experiments import EXPERIMENTS
from minitxl.experiments.shared import results
from minitxl.pretrained import hub
from minitxl.pretrained.presets import FOR_ONE_CORE, PRESETS, Preset, enwik8_base
from minitxl.training import distributed, run_folder, saved_run
from minitxl.training.config import TrainConfig

RECIPES = Path(__file__).parents[2] / "notebooks" / "recipes"
PAGES = {path.stem: path.read_text("utf-8") for path in sorted(RECIPES.glob("*.md"))}
RESULTS = ["enwik8", "text8", "wikitext-103", "one-billion-words", "penn-treebank"]
TINY = (
    "--n-layer 1 --d-model 64 --n-head 2 --d-head 8 --d-inner 32 --batch 8 --seg-len 4 --mem-len 4 "
    "--steps 2 --warmup 0 --validate-every 2 --validate-tokens 32 --precision float32"
)
RARE = "--cutoffs 4 6 8"
"""As many clusters as published, of a vocabulary of eleven words."""
AVERAGED = "--average-from 1"


def programs(page: str) -> list[tuple[int, list[str]]]:
    """The commands of a page: by how many processes, and the words after ``minitxl``."""
    found = []
    for block in blocks_of(page):
        assert block.language == "sh", block.text
        for command in commands_of(block):
            program, *words = words_of(command)
            processes = 1
            if program == "torchrun":
                flag, number, module, name, *words = words
                assert (flag, module, name) == ("--nproc-per-node", "-m", "minitxl"), command
                processes = int(number)
            else:
                assert program == "minitxl", command
            found.append((processes, words))
    return found


def small(words: list[str]) -> list[str]:
    """A training of two steps that takes a second; of its own flags none is taken away."""
    preset = preset_of(words)
    more = RARE if preset.model.cutoffs else ""
    more += f" {AVERAGED}" if preset.train.average_from is not None else ""
    accumulate = words[words.index("--accumulate") + 1] if "--accumulate" in words else "1"
    assert 8 % int(accumulate) == 0
    return [*words, *shlex.split(f"{TINY} {more}")]


def preset_of(words: list[str]) -> Preset:
    name = words[words.index("--preset") + 1]
    return PRESETS[name]()


def some_words(seed: int, lines: int) -> bytes:
    """Eleven words, blank lines and all, each so often that no rule calls it rare."""
    random = Random(seed)
    words = [*"abcdefghi", "<unk>"]
    drawn = (" ".join(random.sample(words, k=len(words))) for _ in range(lines))
    return "".join(f" {line} \n" for line in drawn).encode()


WORDS = {"train": some_words(1, 20), "valid": some_words(2, 8), "test": some_words(3, 8)}
CORPORA = {
    "enwik8": {"enwik8.zip": sites.zip_of({"enwik8": bytes(range(256)) * 10})},
    "text8": {"text8.zip": sites.zip_of({"text8": b" anarchism originated as a term" * 80})},
    "wikitext-103": sites.wikitext_of(WORDS),
    "ptb": {f"ptb.{part}.txt": text for part, text in WORDS.items()},
    "lm1b": {
        f"{LM1B}.tar.gz": sites.targz_of(
            {
                f"{TRAINING}/news.en-00001-of-00100": WORDS["train"],
                f"{HELD_OUT}/news.en.heldout-00000-of-00050": WORDS["test"],
                f"{HELD_OUT}/news.en.heldout-00001-of-00050": WORDS["valid"],
            }
        )
    },
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A data folder in which the tiny corpora lie where the real ones would."""
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch, sites.running() as site:
        patch.setenv("MINITXL_DATA", str(folder))
        sites.ask_without_delay(patch)
        places = {name: place(name) for name in CORPORA}
        for name, files in CORPORA.items():
            serve_corpus(site, patch, name, files)
            corpora.load(name)
            place(name).rename(places[name])
    return folder


def place(name: str) -> Path:
    source = SOURCES[name]
    return prepare.token_folder(name, source.spec, *(download.digest for download in source.downloads))


@pytest.fixture
def here(prepared, tmp_path, monkeypatch):
    monkeypatch.setenv("MINITXL_DATA", str(prepared))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def parsed(monkeypatch):
    """What a command line stands for, without doing it."""
    found = []
    for command in (Train, Evaluate, Figures):
        monkeypatch.setattr(command, "__call__", lambda self: found.append(self))

    def parse(words):
        main(words)
        return found.pop()

    return parse


def test_there_is_a_page_for_each_result_of_the_paper_and_one_on_scaling():
    assert sorted(PAGES) == sorted([*RESULTS, "scaling"])
    told = (RECIPES.parent / "index.md").read_text("utf-8")
    listed = re.findall(r"^recipes/(\S+)$", told, re.MULTILINE)
    assert listed == [*RESULTS, "scaling"]


@pytest.mark.parametrize("name", RESULTS)
def test_a_page_trains_each_preset_of_its_table_by_one_process_or_several_and_scores_it(name, parsed):
    presets = re.search(r"^\| setting \| (.+) \|$", PAGES[name], re.MULTILINE)[1].split(" | ")
    trained, scored = {}, set()
    for processes, words in programs(PAGES[name]):
        command = parsed(words)
        if isinstance(command, Train):
            trained.setdefault(f"`{command.preset}`", set()).add(processes)
            preset, batch = preset_of(words), command.train.batch
            assert command.train.checked(preset.train) == replaced(
                preset.train, precision=command.train.precision
            )
            assert command.model.checked(preset.model.vocab_size) == preset.model
            parts = processes * command.run_config.accumulate
            assert batch % parts == 0, f"{batch} lanes in {parts} parts: {words}"
        elif command.folder is not None:
            scored.add(command.folder)
    assert list(trained) == presets
    one_core = {f"`{preset}`" for preset in FOR_ONE_CORE}
    assert all(max(processes) > 1 for preset, processes in trained.items() if preset not in one_core)
    assert all(1 in processes for preset, processes in trained.items() if preset in {presets[0], *one_core})
    assert len(scored) == len(presets)


def replaced(settings: TrainConfig, **changes: object) -> TrainConfig:
    return TrainConfig(**{**vars(settings), **changes})


def shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


@pytest.mark.parametrize("name", RESULTS)
def test_the_table_of_settings_says_what_the_presets_are(name):
    header, *rows = re.search(r"^\| setting .*?(?=\n\n)", PAGES[name], re.DOTALL | re.MULTILINE)[0].split(
        "\n"
    )
    names = re.findall(r"`([\w-]+)`", header)
    presets = [PRESETS[preset]() for preset in names]
    said = [line.strip("| ").split(" | ") for line in rows[1:]]
    assert len(said) >= 18
    for field, *values in said:
        group, setting = field.strip("`").split(".")
        assert values == [shown(getattr(getattr(preset, group), setting)) for preset in presets], field
    both = {tuple(line[0].strip("`").split(".")) for line in said}
    assert {("train", "batch"), ("train", "steps"), ("evaluate", "mem_len"), ("model", "n_layer")} <= both


@pytest.mark.parametrize("name", RESULTS)
def test_each_command_of_a_page_runs_in_small_and_scores_at_the_papers_lengths(
    name, here, capsys, monkeypatch
):
    presets: dict[str, Preset] = {}
    for _, words in programs(PAGES[name]):
        if words[0] == "train":
            shutil.rmtree(words[1], ignore_errors=True)
            main([*small(words), "--device", "cpu"])
            assert "trained for 2 steps; next: minitxl evaluate" in capsys.readouterr().out
            presets[words[1]] = preset_of(words)
        elif "--released" not in words:
            main([*words, "--device", "cpu"])
            told, preset = capsys.readouterr().out, presets[words[1]]
            assert f"cached: {preset.evaluate}" in told
            assert re.search(r"test split of .*perplexity", told, re.DOTALL)


def test_the_released_model_is_scored_by_the_command_of_its_page(here, tmp_path, capsys, monkeypatch):
    (words,) = [words for _, words in programs(PAGES["wikitext-103"]) if "--released" in words]
    asked = []

    def folder_of(name):
        asked.append(name)
        return tmp_path / "released"

    monkeypatch.setattr(hub, "folder_of", folder_of)
    (tmp_path / "released").mkdir()
    model = released_model(corpora.load("wikitext-103").vocab_size)
    write_released(tmp_path / "released", model, file="model.safetensors")
    main(words)
    assert asked == ["transfo-xl/transfo-xl-wt103"]
    assert "perplexity" in capsys.readouterr().out


def test_two_processes_train_by_the_command_of_a_page(here, tmp_path):
    processes, words = next(one for one in programs(PAGES["enwik8"]) if one[0] == 2)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*torchrun, "--nproc-per-node", str(processes), "-m", "minitxl", *small(words), "--device", "cpu"],
        env={**environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("trained for 2 steps") == 1
    assert saved_run.resume(run_folder.newest(Path(words[1]))).memory.shape[1] == 8


def test_the_scaling_note_measures_anew_by_an_experiment_there_is(parsed):
    ((_, words),) = programs(PAGES["scaling"])
    command = parsed(words)
    assert command.names == ("scaling",)
    assert set(command.names) <= set(EXPERIMENTS)
    assert command.folder != Path("figures")


def test_a_page_with_an_unknown_flag_fails(here, capsys):
    _, words = programs(PAGES["enwik8"])[0]
    with pytest.raises(SystemExit) as stopped:
        main([*small([*words, "--checkpoint-hours", "1"]), "--device", "cpu"])
    assert stopped.value.code == 2
    assert "--checkpoint-hours" in capsys.readouterr().err
    assert not Path(words[1]).exists()


def test_a_page_whose_processes_do_not_share_the_batch_would_be_found(monkeypatch):
    monkeypatch.setattr(distributed, "size", lambda: 8)
    with pytest.raises(ValueError, match="batch must be a multiple of processes · accumulate = 8 · 1"):
        distributed.share(enwik8_base().train.batch)


@pytest.mark.parametrize("name", RESULTS)
def test_a_page_says_that_nobody_has_trained_it_here_and_who_reports_what(name):
    untrained = "`penn-treebank`" if name == "penn-treebank" else "this"  # ptb-small was trained
    assert f"**Nobody has trained {untrained} here.**" in PAGES[name]
    assert re.search(
        r"\| what others report \|.*\(https://arxiv\.org/abs/1901\.02860\)", PAGES[name], re.DOTALL
    )


@pytest.mark.parametrize("name", RESULTS)
def test_a_page_names_the_preset_whose_rate_stands_for_one_that_was_not_timed(name):
    rows = results.read(RECIPES.parent.parent / "figures" / "scaling.json").data["presets"]
    cost = PAGES[name].partition("## What it costs")[2].partition("\n## ")[0]
    named = dict.fromkeys(re.findall(r"^\| `([\w-]+)` \|", cost, re.MULTILINE))
    assert named
    for preset in named:
        like = rows[preset]["rate_of"]
        assert (f"like `{like}`" in cost) if like != preset else (f"`{preset}` at [" in cost)
