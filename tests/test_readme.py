"""The README and the pages it leads to are run: commands, snippets, answers. What no test knows fails."""

import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import sites
import torch
import yaml
from models import in_segments, small_model, some_tokens
from support.markdown import NO_TEST, Block, blocks_of, commands_of, spans_of, words_of
from support.released import Hostile, random_model, released_model, write_released
from support.small_corpora import SMALL, WIKITEXT_FILES, WIKITEXT_SPLITS, original_vocabulary, serve_corpus

from minitxl.__main__ import main
from minitxl.data.batching import ContiguousBatches
from minitxl.data.download_addresses import SOURCES
from minitxl.fast import kv_cache
from minitxl.inference import generation
from minitxl.inference.config import EvaluateConfig
from minitxl.inference.evaluation import Score, cached, sliding
from minitxl.memory import extend, reach
from minitxl.pretrained.original import load_original, to_original
from minitxl.pretrained.released import load_released_vocabulary
from minitxl.relative_shift import rel_shift
from minitxl.training.config import TrainConfig

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
PAGES = {"readme": README} | {
    name: (ROOT / "notebooks" / f"{name}.md").read_text("utf-8")
    for name in ("results", "benchmark", "use", "researchers", "questions")
}
OTHER_SYSTEMS = (ROOT / "notebooks" / "other_systems.md").read_text("utf-8")
MOST_WORDS = 1200

BLOCKS = {name: blocks_of(page) for name, page in PAGES.items()}
IN_BLOCKS = [
    (name, command)
    for name, blocks in BLOCKS.items()
    for block in blocks
    if block.language == "sh"
    for command in commands_of(block)
    if not re.match(r"git clone https://|cd ", command)  # a test of their own has them, where they are
]
TOOLS = re.compile(r"(make|minitxl|conda|apt-get|pip|python|git|torchrun|jupyter|bash)\b|\.(venv|ci)/")
IN_PROSE = [span for page in (*PAGES.values(), OTHER_SYSTEMS) for span in spans_of(page) if TOOLS.match(span)]


def words_on(page: str) -> list[str]:
    """Return the words that a reader sees: no comments, addresses of links, tags, or rules of tables."""
    tag = r'</?(?:p|picture|source)\b[^>]*>|<img src="[^"]*"(?: width="\d+")? alt='
    seen = re.sub(rf"<!--.*?-->|\]\([^)]*\)|{tag}", " ", page, flags=re.DOTALL)
    return [word for word in seen.split() if re.search(r"\w", word)]


def test_the_readme_is_read_in_five_minutes():
    assert len(words_on("a [b c](d/e f) 1.2<!-- g h --> | --- |")) == 4
    assert len(words_on(README)) <= MOST_WORDS


def test_the_first_screen_has_one_sentence_the_picture_and_make_demo():
    """A page on GitHub shows some 650 pixels: the title, two lines, a picture of at most 400, and a line."""
    title, sentence, picture, command, *_ = README.split("\n\n")
    assert title == "# minitxl"
    assert sentence.count(". ") == 0
    assert len(sentence) < 230
    (source, width), *others = re.findall(r'<img src="([^"]+)" width="(\d+)" alt="[^"]+">', picture)
    assert not others
    root = ElementTree.parse(ROOT / source).getroot()
    assert int(width) * float(root.get("height")) / float(root.get("width")) <= 400
    assert picture.startswith('<p align="center">')
    assert command.startswith("`make demo` trains three models")
    (minutes,) = re.findall(r"about (\d+) minutes", command)
    seconds = json.loads((ROOT / "figures/demo.json").read_text("utf-8"))["provenance"]["seconds"]
    assert abs(60 * int(minutes) - seconds) < 60


ON_A_PHONE = r'<picture><source media="\(max-width: 600px\)" srcset="([^"]+)">'


def test_on_a_phone_the_letters_of_a_picture_have_10_pixels():
    """GitHub leaves 358 of a phone's 390 pixels."""
    shown = re.findall(rf'(?:{ON_A_PHONE})?<img src="([^"]+)"', README)
    assert len(shown) == 3
    for narrow, wide in shown:
        assert narrow == ("" if "mechanism" in wide else wide.replace(".svg", "-phone.svg"))
        assert 10 <= least_letters(ROOT / (narrow or wide), 358) < 14
    assert least_letters(ROOT / "figures/memory_and_positions.svg", 358) < 8


def least_letters(path: Path, width: float) -> float:
    """Return the pixels of the smallest letters of an SVG that is shown so many pixels wide.

    matplotlib draws letters as paths of 100 units to the size of 10, scaled by what stands at each text.
    """
    svg = path.read_text("utf-8")
    _, _, whole, _ = map(float, re.search(r'viewBox="([^"]+)"', svg)[1].split())
    scales = [float(scale) for scale in re.findall(r'<g transform="translate[^"]* scale\(([\d.]+) -', svg)]
    sizes = [100 * scale for scale in scales] or [
        float(size) for size in re.findall(r'font-size[:=] ?"?([\d.]+)', svg)
    ]
    return min(sizes) * width / whole


def test_a_share_in_words_is_that_of_its_result():
    rows = json.loads((ROOT / "figures/demo.json").read_text("utf-8"))["data"]["evaluation"]
    time = {(row["evaluation"], row["attention_len"]): row["microseconds_per_token"] for row in rows}
    assert round(time["sliding window", 64] / time["cached", 64]) == 15
    for page, times in ((README, 1), ((ROOT / "notebooks/index.md").read_text("utf-8"), 2)):
        assert page.count("about a fifteenth of") == times


def test_a_page_is_taken_apart_as_bash_and_markdown_read_it():
    page = "# A\n```sh\na b  # c\n# d\ne \\\n  f\n```\n## B\n> `g h`\n\n~~~\n# no heading\n~~~\n"
    page += "1. x\n   ```python\n   y = 1\n   ```\n"
    assert blocks_of(page) == [
        Block("A", "sh", "a b  # c\n# d\ne \\\n  f"),
        Block("B", "", "# no heading"),
        Block("B", "python", "y = 1"),
    ]
    assert commands_of(blocks_of(page)[0]) == ["a b", "e    f"]
    assert words_of("a $'\\nb c' \"d e\"") == ["a", "\nb c", "d e"]
    assert spans_of(page) == ["g h"]


def test_every_block_is_a_command_or_a_snippet():
    for block in (block for blocks in BLOCKS.values() for block in blocks):
        assert block.language in ("sh", "python"), NO_TEST.format(
            f"a block {block.language or 'of no language'}"
        )


# Targets of make

RECIPES = {
    "demo": r"bin/minitxl demo$",
    "test": r"ruff check.*mypy.*pytest --num\S+ --dist=loadfile .*--nbval-lax .* tests notebooks/\*",
    "lab": r"bin/jupyter lab .*00_start_here\.ipynb$",
    "gpu": r"-m gpu --device cuda --size real",
    "help": r"awk .*Makefile$",
    "book": r"sphinx-build .* build/book$",
    "figures": r"minitxl figures ablation$.*minitxl figures$",
    "figures-check": r"minitxl figures --check$",
    "bench": r"peers/bin/python -m pip install.*bin/minitxl bench$.*bin/minitxl bench training-words .*",
    "parity": r"peers/bin/python .*/make_vectors\.py$.*pytest .*/test_parity\.py .*test_later_attention\.py$",
    "soak": r"bin/python -m soak --minutes 10$",
    "assignments": r"notebooks/assignments/build\.py build/classroom$",
}
"""What ``make --dry-run`` shows of what the README says of a target."""


def targets() -> set[str]:
    commands = [command for _, command in IN_BLOCKS] + IN_PROSE
    return {words_of(command)[1] for command in commands if command.startswith("make ")}


def test_every_target_in_the_readme_is_known_here():
    for target in targets():
        assert target in RECIPES, NO_TEST.format(f"make {target}")
    assert RECIPES.keys() == targets()


@pytest.mark.parametrize("target", RECIPES)
def test_a_target_does_what_the_readme_says(target, tmp_path):
    for stamp in ("ready", "ready-test", "ready-book", "ready-classroom"):
        (tmp_path / stamp).touch()
    done = subprocess.run(
        ["make", "--dry-run", target, f"VENV={tmp_path}", f"PEERS={tmp_path}/peers"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.search(RECIPES[target], done.stdout, re.DOTALL | re.MULTILINE), done.stdout


def test_the_readme_begins_with_demo_lab_and_test():
    (start,) = (block for block in BLOCKS["readme"] if block.section == "Start")
    assert commands_of(start)[-3:] == ["make demo", "make lab", "make test"]


# Systems without make


def plain_commands(section: str) -> list[str]:
    """Return the commands of a section of the page for systems without make."""
    return [
        command
        for block in blocks_of(OTHER_SYSTEMS)
        if block.section == section
        for command in commands_of(block)
    ]


MAC = "Mac, and Linux without make"
OPTIONS = re.compile(r" --(quiet|disable-pip-version-check|no-compile)\b| -q| -W")


def test_four_plain_commands_do_what_make_does(tmp_path):
    shown = subprocess.run(
        ["make", "--dry-run", "demo", "lab", f"VENV={tmp_path}/none"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.replace(f"{tmp_path}/none", ".venv")  # fmt: skip
    shown = OPTIONS.sub("", shown)
    commands = plain_commands(MAC)[:4]
    assert [command.split()[0] for command in commands] == [
        *("python3", ".venv/bin/python", ".venv/bin/minitxl", ".venv/bin/jupyter")
    ]
    for command in commands[:3]:
        assert command in shown
    assert commands[3].removesuffix(" notebooks") in shown
    for command in plain_commands(MAC)[4:]:
        assert command.split()[0] in (".venv/bin/python", ".venv/bin/pytest", ".venv/bin/sphinx-build")


def test_on_windows_the_four_commands_are_the_same_but_for_the_names_of_files():
    here = [
        re.sub(r"^python3 ", "py -3 ", command).replace(".venv/bin/", ".venv\\Scripts\\")
        for command in plain_commands(MAC)[:4]
    ]
    assert plain_commands("Windows") == here


def test_the_other_commands_without_make_are_those_of_its_recipes(tmp_path):
    shown = subprocess.run(
        ["make", "--dry-run", "test", "book", f"VENV={tmp_path}/none"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.replace(f"{tmp_path}/none", ".venv").replace("'", '"')  # fmt: skip
    shown = OPTIONS.sub("", shown).replace(" --keep-going", "")
    extras, tests, book = plain_commands(MAC)[4:]
    assert extras in shown
    assert book in shown
    assert all((ROOT / folder).is_dir() for folder in re.findall(r"--ignore=(\S+)", tests))


def test_the_index_of_pytorch_goes_to_pip_alone():
    (command,) = plain_commands("A smaller or another download of PyTorch")
    assert command == ".venv/bin/python -m pip install --index-url ADDRESS torch"
    assert "TORCH_INDEX=ADDRESS" in OTHER_SYSTEMS
    assert "--index-url $(TORCH_INDEX)" in (ROOT / "Makefile").read_text()


# Other commands

TINY = (
    "--n-layer 1 --d-model 16 --n-head 2 --d-head 8 --d-inner 32 --batch 4 --seg-len 8 --steps 6 --warmup 2 "
    "--validate-every 3 --validate-tokens 100"
)


@dataclass(frozen=True)
class Call:
    """How a subcommand of minitxl is made cheap, and which of its flags stay offline and cheap so."""

    flags: set[str]
    added: str
    says: str
    """What it prints."""


TORCHRUN = re.compile(r"^\.venv/bin/torchrun --nproc-per-node \d+ -m minitxl ")
"""Really run by ``test_ranks``; here its command is one process's."""
CALLS = {
    "train": Call(
        {
            *("--text", "--mem-len", "--preset", "--data", "--precision"),
            *("--checkpoint-every", "--checkpoint-minutes", "--checkpoints", "--tensorboard"),
        },
        TINY,
        r"trained for 6 steps; next: minitxl evaluate runs/",
    ),
    "evaluate": Call(
        {"--text", "--data", "--seg-len", "--mem-len", "--window", "--clamp-len", "--split", "--released"},
        "",
        r"bits per \w+, perplexity",
    ),
    "generate": Call(
        {"--prompt", "--length", "--temperature", "--repetition", "--stop"}, "--length 20", r"^def "
    ),
}
ELSEWHERE: dict[str, Callable[[], Any]] = {
    "make": targets,
    "minitxl generate": lambda: CALLS["generate"],
    "minitxl evaluate": lambda: CALLS["evaluate"],
    "conda env create -f environment.yml": lambda: yaml.safe_load((ROOT / "environment.yml").read_text()),
    "apt-get install chromium": lambda: (
        any(
            "'apt-get install chromium'" in path.read_text()
            for path in (ROOT / "tests" / "browser").glob("*.py")
        )
        or None
    ),
    ".venv/bin/pip install notebook": lambda: re.search(
        r"^notebook==7", (ROOT / "constraints.txt").read_text(), re.M
    )[0],
    ".venv/bin/jupyter notebook": lambda: ELSEWHERE[".venv/bin/pip install notebook"](),
    ".ci/bare": lambda: subprocess.run(["bash", "-n", ROOT / ".ci" / "bare"], check=True),
}
"""Commands of the prose, and what shows that they can be run."""


def stretches() -> dict[str, list[str]]:
    """The commands of each page but those that ``RECIPES`` covers."""
    found: dict[str, list[str]] = {}
    for page, command in IN_BLOCKS:
        if not command.startswith("make "):
            found.setdefault(page, []).append(command)
    return found


@pytest.mark.parametrize("page", stretches())
def test_the_commands_of_a_page_work_one_after_the_other(page, request, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINITXL_DATA", str(tmp_path / "data"))
    Path("my.txt").write_text("def f(x):\n    return x\n\n" * 200)
    Path("other.txt").write_text("def g(y):\n    return y\n\n" * 20)
    if page == "researchers":
        request.getfixturevalue("downloads")
    for command in stretches()[page]:
        program, *words = words_of(TORCHRUN.sub("minitxl ", command))
        call = CALLS.get(words[0]) if program in (".venv/bin/minitxl", "minitxl") and words else None
        if call is None or not {word for word in words if word.startswith("--")} <= call.flags:
            pytest.fail(NO_TEST.format(f"`{command}`"))
        added = call.added + (" --precision float32" if "--precision" in words else "")
        main(words + shlex.split(added))
        assert re.search(call.says, capsys.readouterr().out), command


@pytest.mark.parametrize("command", IN_PROSE)
def test_a_command_of_the_prose_can_be_run(command):
    known = ELSEWHERE.get(command) or ELSEWHERE.get(command.split()[0])
    assert known, NO_TEST.format(f"`{command}`")
    assert known() is not None


def test_a_flag_of_the_prose_is_one_of_training(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    told = capsys.readouterr().out
    spans = [span for page in PAGES.values() for span in spans_of(page)]
    flags = [span.split() for span in spans if span.startswith("--")]
    assert flags
    for flag, *value in flags:
        assert re.search(rf"{flag}[ ,].*{''.join(value)}", told), flag


# Snippets

COMMIT = "0" * 40


@pytest.fixture
def readme() -> Iterator[dict[str, Any]]:
    names: dict[str, Any] = {"text": torch.randint(256, (1, 96), generator=torch.Generator().manual_seed(0))}
    yield names
    assert names["memory"].shape == (3, 1, 64, 128)
    assert not names["memory"].requires_grad


@pytest.fixture
def use() -> Iterator[dict[str, Any]]:
    names = {
        "text": torch.randint(256, (1, 96), generator=torch.Generator().manual_seed(0)),
        "prompts": [torch.tensor(list(text)) for text in (b"def ", b"class Model:")],
    }
    yield names
    assert names["memory"].shape == (3, 1, 64, 128)
    assert not names["memory"].requires_grad
    assert names["text"].shape == (2, 200)


@pytest.fixture
def downloads(tmp_path, monkeypatch) -> Iterator[None]:
    """A small released model where the hub's client keeps its downloads, and small corpora on the web."""
    words = original_vocabulary(WIKITEXT_SPLITS["train"])
    hub = tmp_path / "hub" / "models--transfo-xl--transfo-xl-wt103"
    kept = hub / "snapshots" / COMMIT
    kept.mkdir(parents=True)
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text(COMMIT)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    write_released(kept, released_model(len(words)), file="model.safetensors", mem_len=5)
    torch.save({"idx2sym": words}, kept / "vocab.bin")
    monkeypatch.setenv("MINITXL_DATA", str(tmp_path / "data"))
    sites.ask_without_delay(monkeypatch)
    with sites.running() as site:
        serve_corpus(site, monkeypatch, "wikitext-103", WIKITEXT_FILES)
        serve_corpus(site, monkeypatch, "enwik8", SMALL["enwik8"])
        yield


@pytest.fixture
def researchers(downloads, tmp_path, monkeypatch) -> Iterator[dict[str, Any]]:
    monkeypatch.chdir(tmp_path)
    Path("texts").mkdir()
    Path("texts", "mine.txt").write_text("one word and one more\n" * 30)
    config, state = to_original(random_model("plain"))
    names: dict[str, Any] = {"config": config, "state": state}
    yield names
    assert names["original"].config.n_layer == config["n_layer"]
    assert names["model"].config.vocab_size == names["corpus"].vocab_size
    assert (names["settings"].mem_len, names["settings"].window) == (5, 5)
    assert names["mine"].tokenizer.unit == "words"


@pytest.mark.parametrize(
    "page", [name for name, blocks in BLOCKS.items() if any(block.language == "python" for block in blocks)]
)
def test_the_snippets_of_a_page_run_in_one_namespace(page, request):
    if page not in globals():
        pytest.fail(NO_TEST.format(f"a snippet on the page “{page}”"))
    names = request.getfixturevalue(page)
    for block in BLOCKS[page]:
        if block.language == "python":
            exec(compile(block.text, f"{page}, {block.section}", "exec"), names)
            for name, parts in re.findall(r"^(\w+) = .*# ((?:\.\w+ ?)+)$", block.text, re.MULTILINE):
                assert all(hasattr(names[name], part.strip(".")) for part in parts.split()), name


def test_the_corpora_the_readme_names_are_those_there_are():
    named = re.search(r"corpora go by name: (.*?),\s+here and", PAGES["researchers"], re.DOTALL)[1]
    assert re.split(r", | or ", named) == list(SOURCES)


# Questions

ANSWERED: dict[str, str] = {}
"""By which test."""


def answers(question: str) -> Callable[[Callable], Callable]:
    def note(test: Callable) -> Callable:
        ANSWERED[question] = test.__name__
        return test

    return note


def same(found: torch.Tensor, expected: torch.Tensor) -> bool:
    return torch.allclose(found, expected, rtol=0, atol=1e-10)


def differ(found: torch.Tensor, expected: torch.Tensor) -> bool:
    return not torch.allclose(found, expected, rtol=0, atol=1e-3)


@answers("How do I generate text?")
def test_a_prefix_fed_with_its_memory_counts_twice():
    model, text = small_model(), some_tokens(1, 9)
    _, cache = kv_cache.step(model, text[:, :8], kv_cache.start(model, batch=1, mem_len=20))
    once, _ = kv_cache.step(model, text[:, 8:], cache)
    assert same(once[:, -1], model(text)[0][:, -1])
    _, cache = kv_cache.step(model, text[:, :8], kv_cache.start(model, batch=1, mem_len=20))
    twice, _ = kv_cache.step(model, text, cache)
    assert differ(twice[:, -1], once[:, -1])


@answers("How do I feed memory to the next batch?")
def test_rows_go_on_where_they_stopped_and_one_begins_anew_by_keep():
    segments = ContiguousBatches(torch.arange(47), batch=4, seg_len=3)
    assert {segment.tokens.shape for segment in segments} == {(4, 3)}
    assert torch.equal(segments[1].tokens[:, 0], segments[0].tokens[:, -1] + 1)
    model, tokens = small_model(), some_tokens(2, 4)
    memory = extend(None, model(some_tokens(2, 5, seed=1))[1], mem_len=5)
    key_mask = torch.ones(2, 9, dtype=torch.bool)
    key_mask[1, :5] = False
    found = model(tokens, memory, key_mask=key_mask)[0]
    assert same(found[0], model(tokens, memory)[0][0])
    assert same(found[1], model(tokens)[0][1])


@answers("How do same_length, mem_len, ext_len, tgt_len and clamp_len relate to window and mem_len here?")
def test_the_originals_lengths_have_names_here():
    model, tokens = small_model(), some_tokens(1, 4)
    memory = extend(None, model(some_tokens(1, 5, seed=1))[1], mem_len=5)

    def oldest(window):
        slots = memory.clone().requires_grad_()
        model(tokens[:, :1], slots, window=window)[0].square().sum().backward()
        return slots.grad[:, :, 0]

    assert (oldest(5) == 0).all()
    assert (oldest(6) != 0).any()
    config, state = to_original(random_model("plain"))
    other = {"tgt_len": 3, "mem_len": 9, "same_length": True, "clamp_len": -1}
    assert load_original(config | other, state).config.clamp_len is None
    assert load_original(config | other | {"clamp_len": 7}, state).config.clamp_len == 7
    with pytest.raises(ValueError, match="ext_len must be 0"):
        load_original(config | {"ext_len": 1}, state)
    assert not hasattr(model.config, "mem_len")
    assert hasattr(TrainConfig(), "seg_len")
    assert hasattr(EvaluateConfig(), "mem_len")


@answers("May prompts in one batch have different lengths?")
def test_a_row_is_drawn_as_if_it_were_alone():
    model, prompts = small_model(), [some_tokens(1, 3)[0], some_tokens(1, 17)[0]]
    both = generation.sample(model, prompts, length=12, mem_len=9, seed=3)
    for row, prompt in enumerate(prompts):
        assert torch.equal(
            both[row], generation.sample(model, [prompt], length=12, mem_len=9, seed=3 + row)[0]
        )


@answers("Why are segments of 256 with 256 memory not a context of 512?")
def test_the_last_query_alone_sees_segment_and_memory_and_no_gradient_reaches_memory():
    ours = {"seg_len": 256, "mem_len": 256}
    assert [reach(offset, n_layer=1, **ours) + 1 for offset in (0, 254, 255)] == [257, 511, 512]
    assert reach(255, n_layer=12, **ours) == 3327
    model, tokens = small_model(), some_tokens(1, 8)
    embedded = []
    model.embedding.register_forward_hook(lambda *call: embedded.append(call[-1]) or call[-1].retain_grad())
    _, states = model(tokens[:, :4])
    losses, _ = model.token_losses(tokens[:, 4:], tokens[:, 4:], extend(None, states, mem_len=4))
    losses[:, -1].sum().backward()
    first, second = embedded
    assert first.grad is None
    assert (second.grad != 0).any(dim=-1).all()


@answers("Why does perplexity differ between separate sentences and one stream?")
def test_sentences_are_other_targets_than_a_stream():
    model, stream, settings = small_model(), some_tokens(1, 60)[0], EvaluateConfig(seg_len=4, mem_len=4)
    whole = cached(model, stream, settings)
    alone = [cached(model, sentence, settings) for sentence in stream.split(12)]
    assert whole.tokens == sliding(model, stream, attention_len=8, stride=1).tokens == 59
    assert sum(alone, Score(0.0, 0)).tokens == 55
    lanes = cached(model, stream, settings, batch=4)
    assert lanes.tokens == 59
    assert abs(lanes.nats - whole.nats) > 1e-3


@answers("Why does the loss change with the length of the segments?")
def test_a_window_makes_every_cut_the_same():
    model, tokens = small_model(), some_tokens(2, 24)
    one, *others = (in_segments(model, tokens, seg_len, mem_len=5, window=6) for seg_len in (1, 3, 5, 24))
    assert all(same(other, one) for other in others)
    assert differ(in_segments(model, tokens, 3, mem_len=5), in_segments(model, tokens, 5, mem_len=5))
    with pytest.raises(ValueError, match="mem_len must be window - 1 = 5 or more"):
        EvaluateConfig(seg_len=3, mem_len=4, window=6)


@answers("Is a memory of zeros an empty memory?")
def test_a_memory_of_zeros_is_seen():
    model, tokens = small_model(), some_tokens(2, 4)
    assert differ(model(tokens, torch.zeros(2, 2, 3, 8).double())[0], model(tokens)[0])
    assert torch.equal(model(tokens, torch.zeros(2, 2, 0, 8).double())[0], model(tokens)[0])


@answers("Which token does a loss belong to?")
def test_losses_are_in_token_order():
    model, tokens, targets = small_model(cutoffs=(4, 7)), some_tokens(1, 12), some_tokens(1, 12, seed=1)
    losses, log_probs = model.token_losses(tokens, targets)[0], model(tokens)[0]
    assert same(losses, -log_probs.gather(2, targets[..., None])[..., 0])


@answers("May I copy rel_shift into a bidirectional encoder?")
def test_the_shift_leaves_the_next_row_above_the_diagonal():
    assert rel_shift(torch.arange(15.0).reshape(3, 5))[0].tolist() == [2, 3, 4, 0, 5]


@answers("Why is my enwik8 not the original's?")
def test_enwik8_is_read_as_bytes():
    assert SOURCES["enwik8"].spec.unit == "bytes"


@answers("Is it safe to open a released vocabulary?")
def test_nothing_in_a_released_vocabulary_is_run(tmp_path):
    torch.save({"idx2sym": ["a", "b"]}, tmp_path / "vocabulary")
    assert load_released_vocabulary(tmp_path / "vocabulary") == ["a", "b"]
    trace = tmp_path / "trace"
    torch.save({"idx2sym": ["a", Hostile(trace)]}, tmp_path / "vocabulary")
    torch.load(tmp_path / "vocabulary", weights_only=False)
    trace.rmdir()
    with pytest.raises(ValueError, match="vocabulary"):
        load_released_vocabulary(tmp_path / "vocabulary")
    assert not trace.exists()


def test_every_question_is_answered_by_a_test():
    asked = re.findall(r"^## (.+)$", PAGES["questions"], re.MULTILINE)
    assert list(ANSWERED) == asked, NO_TEST.format("a question")


# Citation


def test_the_citation_names_this_version_and_the_papers_of_the_readme():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["cff-version"] == "1.2.0"
    assert str(citation["version"]) == project["version"]
    assert citation["license"] == project["license"]
    assert citation.get("repository-code") == project.get("urls", {}).get("Repository")
    papers = re.findall(r"^- .*\*(.+)\.\* .*\((https://arxiv\.org\S+)\)$", README, re.MULTILINE)
    assert [(paper["title"], paper["url"]) for paper in citation["references"]] == papers
    assert len(papers) == 4
