"""``minitxl evaluate``: a released model from hub to perplexity, and runs on other texts than their own."""

import re
import shlex
import socket
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from math import exp
from random import Random

import pytest
import sites
import torch
from huggingface_hub import constants
from models import small_model
from support import hub_server
from support.hub_server import Hub
from support.released import Hostile, released_model, write_released
from support.small_corpora import WIKITEXT_FILES, WIKITEXT_SPLITS, original_vocabulary, serve_corpus

from minitxl.__main__ import main
from minitxl.commands import evaluate
from minitxl.data import corpora
from minitxl.data.tokenizer import Vocabulary
from minitxl.inference import evaluation
from minitxl.inference.config import EvaluateConfig
from minitxl.memory import extend
from minitxl.model import TransformerLM
from minitxl.pretrained.presets import penn_treebank
from minitxl.pretrained.released import save_released
from minitxl.training import checkpoints, run_folder

TINY = "--n-layer 1 --d-model 16 --n-head 2 --d-head 8 --d-inner 32 --batch 2 --seg-len 8 --mem-len 8"
SHORT = f"{TINY} --steps 2 --warmup 1 --validate-every 3 --validate-tokens 100"


def encoded(text: str, words: list[str]) -> torch.Tensor:
    lines = [[*line.strip().split(), "<eos>"] for line in text.splitlines()]
    return torch.tensor([words.index(word) for line in lines for word in line])


def perplexity(model: TransformerLM, stream: torch.Tensor, seg_len: int = 128, **options) -> float:
    """By nothing but the model and ``extend``."""
    model, memory, losses = model.double(), None, []
    inputs, targets = stream[None, :-1].split(seg_len, dim=1), stream[None, 1:].split(seg_len, dim=1)
    for tokens, ahead in zip(inputs, targets, strict=True):
        log_probs, states = model(tokens, memory, window=options["window"])
        memory = extend(memory, states, mem_len=options["mem_len"])
        losses.append(-log_probs.detach().gather(2, ahead[:, :, None]).flatten())
    return exp(torch.cat(losses).mean())


def call(*words: object) -> None:
    main(shlex.split(" ".join(str(word) for word in words)))


def told(capsys) -> str:
    return capsys.readouterr().out


def told_perplexity(out: str) -> float:
    return float(re.search(r"perplexity ([\d.]+)", out)[1])


def refusal(capsys, *words: object) -> str:
    with pytest.raises(SystemExit) as stop:
        call(*words)
    assert stop.value.code == 2
    *_, said = capsys.readouterr().err.strip().splitlines()
    assert said.startswith("minitxl: ")
    return said.removeprefix("minitxl: ")


@pytest.fixture(autouse=True)
def site(tmp_path, monkeypatch) -> Iterator[sites.Site]:
    """A small WikiText-103 at an address of this machine, and a data folder of the test's own."""
    monkeypatch.setenv("MINITXL_DATA", str(tmp_path / "data"))
    sites.ask_without_delay(monkeypatch)
    with sites.running() as site:
        serve_corpus(site, monkeypatch, "wikitext-103", WIKITEXT_FILES)
        yield site


def test_lines_and_ids_of_wikitext_are_those_of_the_original_code():
    corpus = corpora.load("wikitext-103")
    words = original_vocabulary(WIKITEXT_SPLITS["train"])
    assert corpus.tokenizer.vocabulary.symbols == tuple(words)
    for split, text in WIKITEXT_SPLITS.items():
        assert getattr(corpus, split).tolist() == encoded(text, words).tolist()


@pytest.fixture
def released(tmp_path):
    """A folder in the hub's format with a model of the corpus's words, and the model."""
    folder = tmp_path / "released"
    folder.mkdir()
    model = released_model(len(original_vocabulary(WIKITEXT_SPLITS["train"])))
    write_released(folder, model, file="model.safetensors", mem_len=24)
    return folder, model


@pytest.mark.parametrize("file", ["model.safetensors", "pytorch_model.bin"])
def test_a_released_folder_is_scored_as_model_and_extend_score_the_original_codes_ids(
    tmp_path, released, capsys, file
):
    folder, model = released
    (folder / "model.safetensors").unlink()
    write_released(folder, model, file=file, mem_len=24)
    call("evaluate --released", folder)
    out = told(capsys)
    stream = encoded(WIKITEXT_SPLITS["test"], original_vocabulary(WIKITEXT_SPLITS["train"]))
    assert told_perplexity(out) == pytest.approx(perplexity(model, stream, window=24, mem_len=24), abs=1e-3)
    assert f"{len(stream) - 1:,} tokens" in out
    assert len(stream) > 300
    assert out.startswith(
        "text wikitext-103, in words: train 172 (wiki.train.tokens), valid 75 (wiki.valid.tokens), "
        "test 497 (wiki.test.tokens)\n"
        f"not known: what {folder} was trained on\n"
        "test split of wikitext-103, cached: EvaluateConfig(seg_len=128, mem_len=24, window=24,"
    )
    assert (
        f"vocabulary: as counted in wikitext-103, since {folder} holds none: the score is right only if the "
        "model was trained on exactly this text"
    ) in out
    assert "bits per word" in out


def test_released_weights_of_16_bits_are_scored_in_float32(tmp_path, released, capsys):
    """Scored in float16, the perplexity would be another in its fourth digit."""
    folder, model = released
    halved = deepcopy(model).half()
    write_released(folder, halved, file="model.safetensors", mem_len=24)
    call("evaluate --released", folder)
    scored = told(capsys)
    write_released(folder, halved.float(), file="model.safetensors", mem_len=24)
    call("evaluate --released", folder)
    assert re.findall(r"^[\d.]+ bits.*$", scored, re.M) == re.findall(r"^[\d.]+ bits.*$", told(capsys), re.M)


@pytest.mark.parametrize("name", ["vocab.bin", "vocab.pkl"])
def test_the_released_vocabulary_decides_the_ids_where_there_is_one(tmp_path, released, capsys, name):
    folder, model = released
    first, *rest = original_vocabulary(WIKITEXT_SPLITS["train"])
    words = [first, *Random(0).sample(rest, len(rest))]
    torch.save({"idx2sym": [word.encode().decode("latin-1") for word in words]}, folder / name)
    call("evaluate --released", folder)
    out = told(capsys)
    expected = perplexity(model, encoded(WIKITEXT_SPLITS["test"], words), window=24, mem_len=24)
    assert told_perplexity(out) == pytest.approx(expected, abs=1e-3)
    assert f"vocabulary: that of {folder}, {len(words)} words; " in out
    assert re.search(r"; \d\.\d\d% of the text is <unk>", out)

    mine = tmp_path / "mine.txt"
    mine.write_text("the cat never sat\n\nthe dog\n" * 100)
    call("evaluate --released", folder, "--text", mine)
    stream = torch.tensor(
        [words.index(word if word in words else "<unk>") for word in _words(mine.read_text())]
    )
    expected = perplexity(model, stream, window=24, mem_len=24)
    assert told_perplexity(told(capsys)) == pytest.approx(expected, abs=1e-3)


def _words(text: str) -> list[str]:
    return text.replace("\n", " <eos> ").split()


def test_settings_of_ones_own_hold_for_a_released_model_too(released, capsys):
    folder, model = released
    stream = encoded(WIKITEXT_SPLITS["test"], original_vocabulary(WIKITEXT_SPLITS["train"]))
    call("evaluate --released", folder, "--seg-len 16 --mem-len 40 --tokens 90 --data wikitext-103")
    out = told(capsys)
    expected = perplexity(model, stream[:91], seg_len=16, window=40, mem_len=40)
    assert told_perplexity(out) == pytest.approx(expected, abs=1e-3)
    assert f"90 of {len(stream) - 1} tokens, " in out
    call("evaluate --released", folder, "--mem-len 0 --split valid")
    valid = encoded(WIKITEXT_SPLITS["valid"], original_vocabulary(WIKITEXT_SPLITS["train"]))
    expected = perplexity(model, valid, window=None, mem_len=0)
    assert told_perplexity(told(capsys)) == pytest.approx(expected, abs=1e-3)
    call("evaluate --released", folder, "--way sliding --attention-len 6 --stride 2 --tokens 30")
    score = evaluation.sliding(model, stream[:31], attention_len=6, stride=2)
    assert told_perplexity(told(capsys)) == pytest.approx(score.perplexity, abs=1e-3)


def test_a_text_with_another_number_of_words_than_the_model_is_refused(
    released, tmp_path, capsys, monkeypatch
):
    folder, model = released
    count = model.config.vocab_size
    mine = tmp_path / "mine.txt"
    mine.write_text("the the cat cat\n" * 20)
    assert refusal(capsys, "evaluate --released", folder, "--text", mine, "--unit words") == (
        f"the text must have the {count} tokens of the vocabulary of {folder}, got mine.txt with 4 words"
    )
    torch.save({"idx2sym": ["<eos>", "<unk>"]}, folder / "vocab.bin")
    assert refusal(capsys, "evaluate --released", folder) == (
        f"the vocabulary of {folder} must hold the model's {count} words, got 2"
    )
    torch.save({"idx2sym": [f"w{number}" for number in range(count)]}, folder / "vocab.bin")
    assert refusal(capsys, "evaluate --released", folder) == (
        f"the text must have the {count} words of {folder}, "
        f"got wikitext-103 with {count} words, not all the same"
    )


def test_either_a_run_or_a_released_model_is_scored(capsys, tmp_path):
    assert refusal(capsys, "evaluate") == "either the folder of a run or released must be given, got neither"
    assert refusal(capsys, "evaluate a --released b").endswith("must be given, got a and b")
    assert refusal(capsys, "evaluate", tmp_path, "--released b").endswith(f"got {tmp_path} and b")
    with pytest.raises(SystemExit) as stop:
        call("evaluate --help")
    assert stop.value.code == 0
    assert "--released" in told(capsys)


def test_a_model_that_is_not_there_is_told_before_any_text_is_asked_for(tmp_path, site, capsys):
    assert "must hold a run of minitxl train" in refusal(
        capsys, "evaluate", tmp_path / "none --data wikitext-103"
    )
    (tmp_path / "empty").mkdir()
    assert "config.json must be" in refusal(capsys, "evaluate --released", tmp_path / "empty")
    assert site.asked == []


@pytest.fixture
def hub(tmp_path, monkeypatch) -> Iterator[Hub]:
    with hub_server.running() as hub:
        hub_server.ask(hub.address, monkeypatch, tmp_path / "hub")
        yield hub


@pytest.mark.parametrize("weights", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize("vocabulary", [None, "vocab.bin", "vocab.pkl"])
def test_a_hub_repository_is_downloaded_once_and_scored_like_its_folder(
    hub, released, capsys, monkeypatch, weights, vocabulary
):
    folder, model = released
    (folder / "model.safetensors").unlink()
    write_released(folder, model, file=weights, mem_len=24)
    if vocabulary is not None:
        words = original_vocabulary(WIKITEXT_SPLITS["train"])
        torch.save({"idx2sym": words}, folder / vocabulary)
    hub.files = {path.name: path.read_bytes() for path in folder.iterdir()}
    hub.files["tf_model.h5"] = b"a gigabyte that nobody asks for"
    call("evaluate --released", folder)
    expected = told(capsys).replace(str(folder), "me/small").splitlines()[:3]
    call("evaluate --released me/small")
    assert told(capsys).splitlines()[:3] == expected
    fetched = Counter(name for method, name in hub.asked if method == "GET")
    assert fetched == {name: 1 for name in hub.files if name != "tf_model.h5"}

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    hub.asked.clear()
    call("evaluate --released me/small")
    assert told(capsys).splitlines()[:3] == expected
    assert hub.asked == []


def test_safetensors_are_taken_where_a_repository_has_both(hub, released, capsys):
    folder, model = released
    write_released(folder, model, file="pytorch_model.bin", mem_len=24)
    hub.files = {path.name: path.read_bytes() for path in folder.iterdir()}
    call("evaluate --released me/small")
    assert "perplexity" in told(capsys)
    assert ("GET", "model.safetensors") in hub.asked
    assert ("HEAD", "pytorch_model.bin") not in hub.asked


def test_a_repository_without_the_files_is_refused(hub, released, capsys, site):
    refused = refusal(capsys, "evaluate --released me/small")
    assert refused == "the repository me/small must hold config.json, got none"
    hub.files["config.json"] = (released[0] / "config.json").read_bytes()
    refused = refusal(capsys, "evaluate --released me/small")
    assert refused == "the repository me/small must hold model.safetensors or pytorch_model.bin, got none"
    for name in ("me/other", "no such place/at all"):
        refused = refusal(capsys, "evaluate --released", f"'{name}'")
        assert refused == f"{name} is neither a folder nor a hub repository that can be reached"
    assert site.asked == []


def test_without_a_network_the_sentence_says_what_to_do(tmp_path, monkeypatch, capsys, site):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
    hub_server.ask(address, monkeypatch, tmp_path / "hub")
    expected = (
        "me/small can't be downloaded from the hub: try again with a connection, or put its config.json, "
        "model.safetensors or pytorch_model.bin, and vocab.bin or vocab.pkl or vocab.txt into a folder "
        "by hand"
    )
    assert refusal(capsys, "evaluate --released me/small") == expected
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert refusal(capsys, "evaluate --released me/small") == expected
    assert site.asked == []


def test_weights_and_vocabularies_that_would_run_code_are_refused_and_do_not(
    hub, released, tmp_path, capsys, monkeypatch
):
    folder, _ = released
    hub.files["config.json"] = (folder / "config.json").read_bytes()
    for name in ("vocab.bin", "pytorch_model.bin"):
        torch.save({"idx2sym": Hostile(tmp_path / "trace")}, tmp_path / name)
        hub.files[name] = (tmp_path / name).read_bytes()
    hub.files["model.safetensors"] = (folder / "model.safetensors").read_bytes()
    assert "vocab.bin must hold a list of words" in refusal(capsys, "evaluate --released me/small")
    del hub.files["vocab.bin"], hub.files["model.safetensors"]
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "empty"))
    refused = refusal(capsys, "evaluate --released me/small")
    assert "pytorch_model.bin must hold a table of tensors by name, got what posix.mkdir makes" in refused
    assert not (tmp_path / "trace").exists()


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text("the cat sat\nthe dog ran\n" * 80)
    return path


@pytest.fixture
def other(tmp_path):
    path = tmp_path / "other.txt"
    path.write_text("the dog sat\nthe owl ran\n" * 90)
    return path


def test_a_loss_whose_perplexity_no_number_holds_is_no_score(book, tmp_path, capsys, monkeypatch):
    call("train", tmp_path / "run", "--text", book, SHORT)
    monkeypatch.setattr(evaluate, "cached", lambda *_, **__: evaluation.Score(1e39, 40))
    with pytest.raises(SystemExit):
        call("evaluate", tmp_path / "run")
    assert "must be finite, got a loss of 1e+39 nats" in capsys.readouterr().err


def test_a_clamp_is_refused_where_the_attention_reads_no_distances(book, tmp_path, capsys):
    call("train", tmp_path / "run", "--text", book, "--attention absolute --unit words", SHORT)
    with pytest.raises(SystemExit):
        call("evaluate", tmp_path / "run", "--clamp-len 4")
    assert "clamp_len must be given for an attention that reads distances, got 4" in capsys.readouterr().err


def test_a_run_in_words_reads_another_text_with_its_own(book, other, tmp_path, capsys):
    run = tmp_path / "run"
    call("train", run, "--text", book, "--unit words", SHORT)
    told(capsys)
    call("evaluate", run, "--text", other)
    out = told(capsys)
    assert "\ntext other.txt: 720 words\n" in out
    assert "\nwhole of other.txt, " in out
    shares = "12.50% of the text is <unk>; 25.00% of the text is <eos>"
    assert f"vocabulary: that of {run}, 7 words; {shares}\n" in out
    assert "bits per word" in out

    same = tmp_path / "same.txt"
    same.write_text(other.read_text().replace("owl", "bird"))
    call("evaluate", run, "--text", same, "--unit words")
    assert told_perplexity(told(capsys)) == told_perplexity(out)
    assert refusal(capsys, "evaluate", run, "--text", other, "--unit characters") == (
        f"unit must be words as in {run}, got characters"
    )
    assert refusal(capsys, "evaluate", run, "--text", other, "--min-count 1") == (
        f"min_count must be given to train, and not to evaluate {run}, whose vocabulary stays as it is, got 1"
    )
    assert scored(capsys, run) == ("test split of book.txt", 31)
    config = (run / "config.json").read_bytes()
    (run / "config.json").unlink()
    assert refusal(capsys, "evaluate", run) == (
        f"text or data must be given for {run}, which reads words, got neither"
    )
    (run / "config.json").write_bytes(config)
    assert refusal(capsys, "evaluate", run, "--data wikitext-103").endswith(
        f"got wikitext-103 with {len(original_vocabulary(WIKITEXT_SPLITS['train']))} words"
    )


def test_a_run_in_characters_names_the_character_that_it_lacks(book, other, tmp_path, capsys):
    run, data = tmp_path / "run", tmp_path / "data"
    call("train", run, "--text", book, "--unit characters", SHORT)
    told(capsys)
    before = set(data.iterdir())
    sentence = f"a text must be made of the vocabulary's 13 symbols, got 'w' at line 2, column 6 of {other}"
    assert refusal(capsys, "evaluate", run, "--text", other) == sentence
    assert set(data.iterdir()) == before
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.txt").write_text(book.read_text()[::-1])
    call("evaluate", run, "--text", folder)
    assert f"vocabulary: that of {run}, 13 characters\n" in told(capsys)


@pytest.fixture
def byte_run(book, tmp_path, capsys):
    call("train", tmp_path / "run", "--text", book, SHORT)
    assert capsys.readouterr().out.startswith(
        "text book.txt: 1,920 bytes, cut 90/5/5: train 1,728, valid 96, test 96\n"
    )
    return tmp_path / "run"


def scored(capsys, *words: object) -> tuple[str, int]:
    """Return which split of which text was scored, and how many tokens of it."""
    call("evaluate", *words)
    out = told(capsys)
    what, tokens = (
        re.search(pattern, out, re.MULTILINE)[1] for pattern in ("^(.+), cached", "^(.+) tokens, ")
    )
    return what, int(tokens.replace(",", ""))


def test_the_runs_own_text_is_scored_on_its_test_part_and_another_file_as_a_whole(
    byte_run, book, other, tmp_path, capsys
):
    assert scored(capsys, byte_run, "--text", book) == ("test split of book.txt", 95)
    assert scored(capsys, byte_run) == ("test split of book.txt", 95)
    assert refusal(capsys, "evaluate", byte_run, "--unit words").startswith("unit must be bytes as in")
    copy = tmp_path / "copy.txt"
    copy.write_bytes(book.read_bytes())
    assert scored(capsys, byte_run, "--text", copy) == ("test split of copy.txt", 95)
    size = other.stat().st_size
    assert scored(capsys, byte_run, "--text", other) == ("whole of other.txt", size - 1)
    assert scored(capsys, byte_run, "--text", book, "--split whole") == ("whole of book.txt", 1919)
    for split, length in (("train", 1728), ("valid", 96), ("test", 96)):
        found = scored(capsys, byte_run, "--text", book, "--split", split)
        assert found == (f"{split} split of book.txt", length - 1)


def test_a_run_whose_text_has_changed_is_not_scored_on_it_unless_it_is_named(byte_run, book, capsys):
    book.write_text(book.read_text() + "and so on")
    sentence = refusal(capsys, "evaluate", byte_run)
    assert re.fullmatch(
        rf"the text of {byte_run} must be what it learned, book.txt \(sha256 \w{{12}}\), got book.txt with "
        r"sha256 \w{12}: it has changed since; to score it as another text, name it \(--text\)",
        sentence,
    )
    call("evaluate", byte_run, "--text", book)
    out = told(capsys)
    assert "whole of book.txt, " in out
    assert "1,928 tokens" in out
    assert re.search(
        r"^book.txt has changed since the run learned it \(sha256 \w{12}, now \w{12}\): what is scored may "
        r"be text that the run was trained on$",
        out,
        re.MULTILINE,
    )


@pytest.mark.parametrize("command", ["evaluate", "train"])
def test_where_the_text_of_a_run_has_moved_the_file_that_names_it_is_told(byte_run, book, capsys, command):
    moved = book.rename(book.with_name("moved.txt"))
    assert refusal(capsys, command, byte_run) == (
        f"text must be named where it has moved (--text): {byte_run / 'config.json'} says {book}, "
        f"which is not there"
    )
    call(command, byte_run, "--text", moved)


def test_tokens_that_the_run_was_trained_on_are_counted(byte_run, book, other, tmp_path, capsys):
    def trained_on(*words: object, run: object = byte_run) -> list[str]:
        call("evaluate", run, *words)
        return re.findall(r"^(.+) of these tokens are of the .*training text.*$", told(capsys), re.MULTILINE)

    assert trained_on() == trained_on("--text", other) == trained_on("--text", book, "--split valid") == []
    assert trained_on("--text", book, "--split whole") == trained_on("--split train") == ["1,728"]
    learned = book.read_bytes()[:1728]
    for split, text in {"train": other.read_bytes(), "valid": b"another text", "test": learned}.items():
        (tmp_path / "rotated").mkdir(exist_ok=True)
        (tmp_path / "rotated" / f"{split}.txt").write_bytes(text)
    assert trained_on("--text", tmp_path / "rotated") == ["1,728"]
    assert trained_on("--text", tmp_path / "rotated", "--split whole") == ["1,728"]
    assert trained_on("--text", tmp_path / "rotated", "--split valid") == []
    beginning = tmp_path / "beginning.txt"
    beginning.write_bytes(book.read_bytes()[:1728])
    assert trained_on("--text", beginning) == ["1,728"]
    call("train", tmp_path / "child", "--from", byte_run, "--text", other, "--steps 1 --device cpu")
    told(capsys)
    assert trained_on("--text", book, "--split train", run=tmp_path / "child") == ["1,728"]


def test_it_is_said_which_model_of_a_run_is_scored(book, tmp_path, capsys):
    run = tmp_path / "run"

    def state(*words: object) -> str:
        call("evaluate", run, *words)
        return re.search(rf"^model of {run}: (.+)$", told(capsys), re.MULTILINE)[1]

    call("train", run, "--text", book, SHORT, "--validate-every 2")
    assert state() == "step 2 of 2"
    assert state("--best") == "step 2 of 2, that of the best validation"
    path = run_folder.newest(run)
    tensors, about = checkpoints.read(path)
    checkpoints.write(path, tensors, {**about, "train": {**about["train"], "steps": 5000}})
    assert state() == "step 2 of 5,000, the run is unfinished"
    call("train", tmp_path / "mean", "--text", book, SHORT, "--average-from 1")
    run = tmp_path / "mean"
    assert state() == "step 2 of 2, the mean of the weights after step 1"


def test_a_run_of_a_preset_is_scored_at_the_lengths_at_which_the_preset_is_tested(book, tmp_path, capsys):
    model = "--n-layer 1 --d-model 16 --n-head 2 --d-head 8 --d-inner 32 --steps 1 --batch 2 --unit words"
    for name, lengths in (("published", ""), ("own", "--mem-len 30")):
        call("train", tmp_path / name, "--text", book, model, "--preset penn-treebank --seed 1", lengths)
        told(capsys)
        call("evaluate", tmp_path / name)
        (how,) = re.findall(r"^test split .+", told(capsys), re.MULTILINE)
        assert str(penn_treebank().evaluate if name == "published" else EvaluateConfig(70, 30)) in how
    call("evaluate", tmp_path / "published --mem-len 5 --window 6")
    assert str(EvaluateConfig(64, 5, 6, 400)) in told(capsys)


def test_a_vocabulary_without_an_end_of_line_is_said_to_read_it_as_unknown(tmp_path, other, capsys):
    words = ("<unk>", "the", "dog", "sat", "ran", *(f"w{number}" for number in range(9)))
    for name, symbols in (("without", words), ("with", ("<eos>", *words[:-1]))):
        model = released_model(len(symbols))
        lengths = EvaluateConfig(mem_len=5, window=5)
        save_released(model, tmp_path / name, lengths, Vocabulary(symbols, "<unk>"))
        call("evaluate --released", tmp_path / name, "--text", other)
        line = "this vocabulary has no <eos>: each end of a line is <unk>"
        assert (line in told(capsys)) == (name == "without")


def test_an_exported_model_of_bytes_is_not_said_to_have_counted_words(tmp_path, other, capsys):
    save_released(released_model(256), tmp_path / "bytes", EvaluateConfig(mem_len=5, window=5))
    call("evaluate --released", tmp_path / "bytes", "--text", other)
    out = told(capsys)
    assert f"vocabulary: bytes, since {tmp_path / 'bytes'} holds none and has 256 tokens" in out
    assert "as counted" not in out


def test_a_sliding_window_says_where_distances_are_clamped(byte_run, capsys):
    call("evaluate", byte_run, "--way sliding --tokens 20 --clamp-len 3")
    assert re.search(r"sliding window of \d+ tokens, stride 1, distances clamped at 3\n", told(capsys))
    call("evaluate", byte_run, "--way sliding --tokens 20")
    assert "clamped" not in told(capsys)


def test_a_split_folder_is_scored_on_its_test_file(byte_run, tmp_path, capsys):
    folder = tmp_path / "texts"
    folder.mkdir()
    for split, size in (("train", 40), ("valid", 30), ("test", 20)):
        (folder / f"my.{split}.txt").write_text("a" * size)
    assert scored(capsys, byte_run, "--text", folder) == ("test split of texts", 19)
    assert scored(capsys, byte_run, "--text", folder, "--split whole") == ("whole of texts", 89)
    (folder / "my.valid.txt").unlink()
    assert refusal(capsys, "evaluate", byte_run, "--text", folder).endswith("got my.test.txt, my.train.txt")


@pytest.mark.parametrize("way", ["cached", "sliding --tokens 40"])
def test_products_in_bfloat16_are_said_and_give_the_score_to_their_digits(
    byte_run, other, capsys, monkeypatch, way
):
    monkeypatch.setattr("minitxl.fast.bfloat16.instructions", lambda: ["avx512_bf16"])
    monkeypatch.setattr("minitxl.fast.bfloat16.works_here", lambda: True)
    scores = {}
    for precision in ("float32", "bfloat16"):
        call("evaluate", byte_run, "--text", other, "--way", way, "--precision", precision)
        out = told(capsys)
        assert ("products in bfloat16" in out) == (precision == "bfloat16")
        scores[precision] = float(re.search(r"([\d.]+) bits per byte", out)[1])
    assert scores["bfloat16"] == pytest.approx(scores["float32"], abs=0.02)
    asked_for = []
    name = way.split()[0]
    score = getattr(evaluation, name)
    monkeypatch.setattr(
        evaluate, name, lambda *of, **how: asked_for.append(how["precision"]) or score(*of, **how)
    )
    call("evaluate", byte_run, "--text", other, "--way", way, "--precision bfloat16")
    assert asked_for == ["bfloat16"]
    monkeypatch.setattr("minitxl.fast.bfloat16.instructions", list)
    assert refusal(capsys, "evaluate", byte_run, "--precision bfloat16").startswith(
        "precision must be float32 on a CPU without"
    )


def test_a_part_of_the_tokens_is_called_a_part(byte_run, other, capsys):
    call("evaluate", byte_run, "--text", other, "--tokens 50")
    assert "\n50 of 2,159 tokens, " in told(capsys)
    call("evaluate", byte_run, "--text", other, "--tokens 5000")
    assert "\n2,159 tokens, " in told(capsys)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--stride 3", "stride must be given with way = sliding, got 3 with cached"),
        ("--attention-len 5", "attention_len must be given with way = sliding, got 5 with cached"),
        ("--way sliding --window 4", "window must be given with way = cached, got 4 with sliding"),
        (
            "--way sliding --attention-len 9 --mem-len 4",
            "mem_len must be given with way = cached, or without attention_len, got 4 with sliding",
        ),
        ("--way sliding --attention-len 0", "attention_len must be 1 or more, got 0"),
        ("--way sliding --stride 0", "stride must be 1 or more, got 0"),
        ("--tokens 0", "tokens must be 1 or more, got 0"),
        ("--mem-len 1000000000000000", "mem_len must be at most 2,147,483,647, got 1000000000000000"),
        ("--seg-len 99999999999999999999", "seg_len must be at most 2,147,483,647, got 99999999999999999999"),
        ("--unknown", "unknown must be given to train, and not to evaluate .*, which has none"),
        ("--unit characters --unknown", "unit must be bytes as in .*, got characters"),
        ("--unit words", "unit must be bytes as in .*, got words"),
    ],
)
def test_flags_out_of_range_and_flags_that_would_be_ignored_are_refused(
    byte_run, other, capsys, flags, sentence
):
    assert re.search(f"^{sentence}$", refusal(capsys, "evaluate", byte_run, "--text", other, flags))


def test_a_window_of_training_is_the_one_that_slides(book, tmp_path, capsys):
    call("train", tmp_path / "run", "--text", book, "--window 5", SHORT)
    told(capsys)
    for flags, length in (("", 5), ("--mem-len 4", 12), ("--attention-len 7", 7)):
        call("evaluate", tmp_path / "run", "--way sliding --tokens 40", flags)
        assert f"sliding window of {length} tokens" in told(capsys)


def test_positions_that_training_never_read_are_spoken_of(book, tmp_path, capsys):
    learned = "--attention absolute --positions learned --mem-len 0 --max-seg-len 64"
    call("train", tmp_path / "run", "--text", book, SHORT, learned)
    told(capsys)
    sentence = "learned the positions of segments of 8: those beyond, up to 20, are as they were drawn"
    for flags in ("--seg-len 20", "--way sliding --attention-len 20"):
        call("evaluate", tmp_path / "run", flags)
        assert sentence in told(capsys)
    call("evaluate", tmp_path / "run")
    assert "as they were drawn" not in told(capsys)


def test_a_sliding_window_clamps_distances_as_the_run_was_trained_and_as_it_is_told(book, tmp_path, capsys):
    call("train", tmp_path / "run", "--text", book, SHORT, "--clamp-len 1 --learning-rate 1")
    told(capsys)
    sliding = ("evaluate", tmp_path / "run", "--text", book, "--way sliding --tokens 40")
    results = []
    for flags in ("", "--clamp-len 1", "--clamp-len 30"):
        call(*sliding, flags)
        results.append(told_perplexity(told(capsys)))
    assert results[0] == results[1] != results[2]


def test_a_score_that_is_no_number_is_refused(byte_run, other, capsys):
    path = run_folder.newest(byte_run)
    tensors, about = checkpoints.read(path)
    for name in (name for name in tensors if name.startswith(checkpoints.MODEL)):
        tensors[name].fill_(1e38)  # finite, and their products are not
    checkpoints.write(path, tensors, about)
    sentence = refusal(capsys, "evaluate", byte_run, "--text", other)
    assert sentence.startswith(f"the score of {byte_run} must be finite, got ")


@pytest.mark.parametrize(
    "words",
    [
        "train '' --text {other}",
        "train run --text ''",
        "evaluate ''",
        "evaluate {run} --text ''",
        "evaluate --released ''",
        "evaluate --released=",
        "generate ''",
        "demo --folder ''",
        "demo --text ''",
        "figures --folder ''",
        "bench --peers ''",
    ],
)
def test_an_empty_path_is_refused_and_not_read_as_the_current_folder(
    words, tmp_path, other, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    sentence = refusal(capsys, words.format(run=tmp_path, other=other))
    assert re.fullmatch(r"(folder|text|released|peers) must be given where it is named, got ''", sentence)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_whose_name_is_not_utf_8_is_refused(tmp_path, other, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["train", "caf\udce9", "--text", str(other)])
    assert "folder must be a name in UTF-8, got 'caf\\udce9'" in capsys.readouterr().err


def test_characters_with_an_unknown_one_are_trained_on_and_score_any_text(book, other, tmp_path, capsys):
    run = tmp_path / "run"
    call("train", run, "--text", book, "--unit characters --unknown", SHORT)
    assert "text book.txt: 1,920 characters, " in told(capsys)
    call("evaluate", run, "--text", other)
    assert f"vocabulary: that of {run}, 14 characters; 8.33% of the text is <unk>\n" in told(capsys)
    call("generate", run, "--prompt 'the öwl ' --length 3")
    assert told(capsys).startswith("the <unk><unk><unk> ")


def test_the_bar_counts_every_target_once_in_both_ways(capsys):
    model, stream = small_model(), torch.arange(50) % 11
    with evaluate.progress(model, 49):
        evaluation.cached(model, stream, EvaluateConfig(8, 8))
    assert "49.0/49.0" in capsys.readouterr().err
    for stride in (1, 3, 7):
        with evaluate.progress(model, 49, stride=stride):
            evaluation.sliding(model, stream, attention_len=7, stride=stride, batch=4)
        assert "49.0/49.0" in capsys.readouterr().err
    assert not model.embedding._forward_hooks


def test_a_run_whose_tokens_its_model_has_no_id_for_is_refused(book, tmp_path, capsys):
    call("train", tmp_path / "run", "--text", book, "--unit characters", SHORT)
    path = run_folder.newest(tmp_path / "run")
    tensors, about = checkpoints.read(path)
    checkpoints.write(path, tensors, about | {"info": {}})
    for command in ("evaluate", "train"):
        with pytest.raises(SystemExit) as stop:
            call(command, tmp_path / "run", "--text", book)
        assert stop.value.code == 2
        size = about["model"]["vocab_size"]
        sentence = f"must have an id for each of 256 bytes, got {size} ids"
        assert f"the model of the run in {tmp_path / 'run'} {sentence}" in capsys.readouterr().err


def split_into(folder, text, cuts):
    """A folder of three files, which joined are the text."""
    folder.mkdir()
    for split, begin, end in zip(("train", "valid", "test"), (0, *cuts), (*cuts, None), strict=True):
        (folder / f"{split}.txt").write_bytes(text[begin:end])
    return folder


def test_the_runs_text_in_another_cut_is_told_with_what_was_learned_of_it(byte_run, book, tmp_path, capsys):
    text = book.read_bytes()  # 1,920 bytes: the run trained on 1,728 and validated on 96
    other_cut = split_into(tmp_path / "three", text, (900, 1400))
    call("evaluate", byte_run, "--text", other_cut)
    out = told(capsys)
    assert "test split of three, " in out
    assert "three is the text of the run, cut into other splits than the run's" in out
    assert "\n328 of these tokens are of the run's training text\n" in out
    assert "\n96 of these tokens are of the run's validation text\n" in out
    call("evaluate", byte_run, "--text", other_cut, "--split valid")
    assert "\n500 of these tokens are of the run's training text\n" in told(capsys)
    call("evaluate", byte_run, "--text", split_into(tmp_path / "same", text, (1728, 1824)))
    out = told(capsys)
    assert "test split of same, " in out
    assert "cut into other splits" not in out
    assert "of these tokens" not in out
    assert "\nnot looked for: pieces of the training text that this split repeats\n" in out


def test_one_file_is_no_own_text_of_a_run_that_learned_it_in_three(book, tmp_path, capsys):
    text, run = book.read_bytes(), tmp_path / "three-run"
    three = split_into(tmp_path / "three", text, (1500, 1700))
    call("train", run, "--text", three, SHORT)
    capsys.readouterr()
    call("evaluate", run, "--text", book)
    out = told(capsys)
    assert "whole of book.txt, " in out
    assert "\n1,500 of these tokens are of the run's training text\n" in out
    assert "\n200 of these tokens are of the run's validation text\n" in out
    sentence = refusal(capsys, "train", run, "--text", book, "--until-step 20")
    assert "must be cut as that of the run in" in sentence
    assert "into 1,500 / 200 / 220 tokens to train, validate and test, got book.txt with 1,728 / 96 / 96" in (
        sentence
    )


def test_only_scored_tokens_are_counted_and_what_an_earlier_model_learned_is_not_known(
    byte_run, book, other, tmp_path, capsys
):
    call("evaluate", byte_run, "--split train --tokens 100")
    assert "\n101 of these tokens are of the run's training text\n" in told(capsys)
    child, text = tmp_path / "child", book.read_bytes()
    rotated = split_into(tmp_path / "rotated", text[-192:] + text[:-192], (1728, 1824))
    call("train", child, "--from", byte_run, "--text", rotated, "--steps 1 --device cpu")
    capsys.readouterr()
    call("evaluate", child)
    unknown = f"not known: what {byte_run} was trained on, with whose model the run began"
    assert unknown in told(capsys)
    call("evaluate", child, "--text", book, "--split train")
    out = told(capsys)
    assert f"\n1,728 of these tokens are of the training text of the run or of {byte_run}\n" in out
    assert unknown not in out
    (tmp_path / "validation.txt").write_bytes(text[1728:1824])
    call("evaluate", byte_run, "--text", tmp_path / "validation.txt")
    assert "\n96 of these tokens are of the run's validation text\n" in told(capsys)


def test_of_another_text_it_is_said_that_nobody_compared_it(byte_run, other, capsys):
    call("evaluate", byte_run, "--text", other)
    assert "not known: whether this text holds pieces of what the run was trained on" in told(capsys)
