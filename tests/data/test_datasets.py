import hashlib
import tarfile
from dataclasses import replace
from inspect import unwrap

import pytest
import sites
import torch
from models import small_config
from support.corpora import HELD_OUT, LM1B, SMALL, TRAINING, serve_corpus
from support.disk import fill_disk

from minitxl.data import archives, corpora, datasets, downloads
from minitxl.data.batching import ContiguousBatches
from minitxl.data.tokenizer import Vocabulary
from minitxl.training import loop
from minitxl.training.config import TrainConfig


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINITXL_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def site(folder, monkeypatch):
    """Every data set in small, at an address of this machine."""
    sites.ask_without_delay(monkeypatch)
    with sites.running() as site:
        for name, files in SMALL.items():
            serve_corpus(site, monkeypatch, name, files)
        yield site


def words(corpus: datasets.Stored) -> list[str]:
    return [
        " ".join(corpus.spelling.vocabulary.decode(getattr(corpus, part).tolist())) for part in datasets.PARTS
    ]


def test_the_table_holds_the_papers_corpora_with_a_checksum_for_each_file():
    assert list(downloads.SOURCES) == ["enwik8", "text8", "wikitext-103", "wikitext-2", "ptb", "lm1b"]
    for source in downloads.SOURCES.values():
        for download in source.downloads:
            kind, digest = download.digest.split(":")
            assert len(bytes.fromhex(digest)) == {"sha256": 32, "md5": 16}[kind]


def test_enwik8_is_bytes_newlines_among_them_cut_90_5_5(site):
    corpus = datasets.load("enwik8")
    assert corpus.train.tolist() == list(range(180))
    assert corpus.valid.tolist() == list(range(180, 190))
    assert corpus.test.tolist() == list(range(190, 200))
    assert (corpus.name, corpus.vocab_size, corpus.spelling.vocabulary) == ("enwik8", 256, None)


def test_text8_is_characters_cut_90_5_5(site):
    corpus = datasets.load("text8")
    text = " anarchism originated as a term" * 10
    assert corpus.spelling.vocabulary.symbols[:2] == (" ", "a")
    assert corpus.vocab_size == len(set(text))
    assert [len(corpus.train), len(corpus.valid), len(corpus.test)] == [279, 15, 16]
    everything = torch.cat([corpus.train, corpus.valid, corpus.test]).tolist()
    assert "".join(corpus.spelling.vocabulary.decode(everything)) == text


@pytest.mark.parametrize("name", ["wikitext-103", "wikitext-2"])
def test_a_line_of_wikitext_ends_with_eos_even_where_it_is_empty(site, name):
    corpus = datasets.load(name)
    assert words(corpus) == [
        "<eos> = Valkyria Chronicles III = <eos> <eos> Senjō no <unk> the the <eos> the end <eos>",
        "<eos> the <unk> <eos>",
        "= end = <eos>",
    ]
    expected = ("<eos>", "the", "=", "Valkyria", "Chronicles", "III", "Senjō", "no", "<unk>", "end")
    assert corpus.spelling.vocabulary.symbols == expected
    assert corpus.spelling.vocabulary.encode(["never", "seen"]) == [8, 8]


def test_penn_treebank_comes_in_three_files(site):
    corpus = datasets.load("ptb")
    assert words(corpus) == [
        "aer banknote N <eos> the <unk> the N <eos>",
        "the banknote <eos>",
        "N <unk> <eos>",
    ]
    assert corpus.spelling.vocabulary.symbols == ("<eos>", "N", "the", "aer", "banknote", "<unk>")


def test_a_billion_words_have_S_at_both_ends_of_a_sentence_and_no_word_rarer_than_three(site):
    corpus = datasets.load("lm1b")
    assert words(corpus) == [
        "<S> to be <UNK> <UNK> <S> <S> to be <S> <S> to be <S>",
        "<S> be <UNK> <S> <S> be <S>",
        "<S> to to <S>",
    ]
    assert corpus.spelling.vocabulary.symbols == ("<S>", "<UNK>", "to", "be")


@pytest.mark.parametrize(
    ("name", "text", "begin"),
    [("lm1b", "to be\nto be\n", 7), ("ptb", "aer banknote N\nthe <unk> the N\n", 0)],
)
def test_a_prompt_of_several_lines_has_the_tokens_that_the_corpus_has(site, name, text, begin):
    corpus = datasets.load(name)
    tokens = corpus.spelling.encode(text).tolist()
    stream = [*corpus.train.tolist(), *corpus.valid.tolist()]
    assert tokens == stream[begin : begin + len(tokens)]


def test_a_billion_words_are_read_shard_by_shard_and_a_block_at_a_time(site, monkeypatch):
    shard = b"to be or not to be that is the question\n" * 200
    files = {f"{TRAINING}/news.en-{number:05}-of-00100": shard for number in range(1, 6)}
    files |= {f"{HELD_OUT}/news.en.heldout-{number:05}-of-00050": shard for number in range(2)}
    serve_corpus(site, monkeypatch, "lm1b", {f"{LM1B}.tar.gz": sites.targz_of(files)})
    monkeypatch.setattr(archives, "BLOCK", 1000)
    opened, asked, extract = [], [], tarfile.TarFile.extractfile

    def watched(archive, member):
        assert all(file.closed for file in opened)
        opened.append(file := extract(archive, member))
        read = file.read
        file.read = lambda size: (asked.append(size), read(size))[1]
        return file

    monkeypatch.setattr(tarfile.TarFile, "extractfile", watched)
    corpus = datasets.load("lm1b")
    assert len(opened) == 2 * len(files)  # to count, and to encode
    assert set(asked) == {1000}
    assert len(corpus.train) == 5 * 200 * 12


def test_a_vocabulary_of_another_size_than_the_papers_is_refused(site, folder, monkeypatch):
    monkeypatch.setitem(downloads.SOURCES, "ptb", replace(downloads.SOURCES["ptb"], vocab_size=10_000))
    with pytest.raises(ValueError, match="ptb must have 10000 different symbols, got 6"):
        datasets.load("ptb")
    assert [path.name for path in folder.iterdir() if path.is_dir()] == []


@pytest.mark.parametrize("name", SMALL)
def test_a_second_load_asks_for_nothing_and_gives_the_same(site, name):
    first = datasets.load(name)
    site.asked.clear()
    site.files.clear()
    second = datasets.load(name)
    assert site.asked == []
    assert first.sha256 == second.sha256
    assert first.spelling.vocabulary == second.spelling.vocabulary


def test_tokens_are_prepared_anew_for_another_text_or_another_rule(site, monkeypatch):
    datasets.load("ptb")
    serve_corpus(site, monkeypatch, "ptb", {**SMALL["ptb"], "ptb.test.txt": b"aer \n"})
    assert words(datasets.load("ptb"))[2] == "aer <eos>"
    source = downloads.SOURCES["ptb"]
    lines = replace(source.rule, before=("<S>",))
    monkeypatch.setitem(downloads.SOURCES, "ptb", replace(source, rule=lines))
    assert words(datasets.load("ptb"))[2] == "<S> aer <eos>"


@pytest.mark.parametrize("name", SMALL)
def test_a_step_is_trained_on_tokens_that_stay_on_disk(site, name):
    corpus = datasets.load(name)
    assert isinstance(corpus, corpora.Corpus)
    lanes = ContiguousBatches(corpus.train, batch=2, seg_len=2)
    assert lanes.lanes.data_ptr() == corpus.train.data_ptr()
    run = loop.start(small_config(vocab_size=corpus.vocab_size), TrainConfig(seg_len=2, batch=2, steps=20))
    record = next(loop.train_steps(run, lanes, corpus.valid))
    assert record.tokens == 4
    assert loop.validate(run, corpus.valid[:3]) > 0


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"must be one of enwik8, text8, .*, ptb, lm1b, got enwik9"):
        datasets.load("enwik9")


def test_the_data_folder_is_the_variables_or_the_systems(folder, monkeypatch):
    assert datasets.data_folder() == folder
    monkeypatch.delenv("MINITXL_DATA")
    assert datasets.data_folder().name == "minitxl"


@pytest.mark.parametrize("name", SMALL)
def test_a_wrong_checksum_leaves_nothing_behind(site, folder, name):
    for file in SMALL[name]:
        site.files[file] = b"something else"
    with pytest.raises(ValueError, match=r"must have the (SHA-256|MD5) \w+, and what .* sends has another"):
        datasets.load(name)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("name", SMALL)
def test_a_server_that_fails_and_recovers_does_not_matter(site, name):
    site.faults = [("status", 503), ("break", 10)]
    assert len(datasets.load(name).train) > 0


def test_without_the_server_the_sentence_names_file_checksum_and_folder(site, folder):
    site.files.clear()
    with pytest.raises(ValueError, match="by hand") as caught:
        datasets.load("text8")
    digest = hashlib.sha256(SMALL["text8"]["text8.zip"]).hexdigest()
    assert f"put that file, whose SHA-256 is {digest}, into {folder} by hand" in str(caught.value)
    (folder / "text8.zip").write_bytes(SMALL["text8"]["text8.zip"])
    assert datasets.load("text8").name == "text8"


@pytest.mark.parametrize("name", SMALL)
def test_a_disk_that_fills_up_leaves_no_tokens_behind(site, folder, monkeypatch, name):
    with monkeypatch.context() as patch:
        fill_disk(patch, "")
        with pytest.raises(ValueError, match=r"can't be (kept|prepared) in .*: No space left on device"):
            datasets.load(name)
    left = [path.name for path in folder.iterdir()]
    assert all(file in SMALL[name] for file in left)
    assert len(datasets.load(name).train) > 0


def test_an_archive_that_leaves_its_folder_is_refused(site, folder, monkeypatch):
    files = {"../text8": b"a b", "text8": b"a b"}
    serve_corpus(site, monkeypatch, "text8", {"text8.zip": sites.zip_of(files)})
    with pytest.raises(ValueError, match=r"^text8\.zip must hold plain files .* got \.\./text8$"):
        datasets.load("text8")
    assert [path.name for path in folder.iterdir()] == ["text8.zip"]
    assert not (folder.parent / "text8").exists()


@pytest.mark.parametrize("name", ["enwik8", "lm1b"])
def test_an_archive_that_is_none_is_refused(site, folder, monkeypatch, name):
    (file,) = SMALL[name]
    for content in (b"no archive", SMALL[name][file][:-30], SMALL[name][file][:60]):
        serve_corpus(site, monkeypatch, name, {file: content})
        with pytest.raises(ValueError, match=f"^the archive of {name} is damaged: "):
            datasets.load(name)
        assert [path.name for path in folder.iterdir()] == [file]


def test_an_archive_that_lacks_a_part_is_refused(site, monkeypatch):
    serve_corpus(site, monkeypatch, "enwik8", {"enwik8.zip": sites.zip_of({"readme": b"text"})})
    with pytest.raises(ValueError, match="enwik8 must hold text, got 0 bytes"):
        datasets.load("enwik8")
    files = {"wikitext-2/wiki.train.tokens": b"a \n", "wikitext-2/wiki.valid.tokens": b"a \n"}
    serve_corpus(site, monkeypatch, "wikitext-2", {"wikitext-2-v1.zip": sites.zip_of(files)})
    with pytest.raises(ValueError, match="the test text of wikitext-2 must hold text, got 0 words"):
        datasets.load("wikitext-2")


def test_a_text_that_is_not_utf_8_is_refused_by_file_and_byte(site, folder, monkeypatch):
    serve_corpus(site, monkeypatch, "ptb", {**SMALL["ptb"], "ptb.valid.txt": b"caf\xe9 \n"})
    with pytest.raises(ValueError, match=r"^ptb\.valid\.txt must be UTF-8 text, .* 0xe9 at offset 3$"):
        datasets.load("ptb")
    assert all(path.is_file() for path in folder.iterdir())


def test_files_of_yours_are_bytes_in_the_order_of_their_paths(folder, tmp_path):
    texts = tmp_path / "mine"
    (texts / "c").mkdir(parents=True)
    (texts / "b").write_bytes(b"1" * 50)
    (texts / "c" / "a").write_bytes(b"2" * 40 + b"\xff")
    (texts / "a").write_bytes(b"0" * 9)
    (texts / ".hidden").write_bytes(b"secret")
    corpus = datasets.from_folder(texts)
    whole = torch.cat([corpus.train, corpus.valid, corpus.test]).tolist()
    assert bytes(whole) == b"0" * 9 + b"1" * 50 + b"2" * 40 + b"\xff"
    assert [len(corpus.train), len(corpus.valid), len(corpus.test)] == [90, 5, 5]
    assert (corpus.name, corpus.vocab_size) == ("mine", 256)
    again = datasets.from_files([texts / "c" / "a", texts / "b", texts / "a"])
    assert again.sha256 == corpus.sha256


def test_another_unit_than_bytes_characters_and_words_is_refused(folder, tmp_path):
    with pytest.raises(ValueError, match="unit must be bytes, characters or words, got syllables"):
        unwrap(datasets.from_files)([tmp_path / "text.txt"], "syllables")  # types are checked in tests alone


def test_a_text_of_yours_is_characters_or_words(folder, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("één twee\ntwee één drie\n", "utf-8")
    corpus = datasets.from_files([path], "characters")
    whole = torch.cat([corpus.train, corpus.valid, corpus.test]).tolist()
    assert "".join(corpus.spelling.vocabulary.decode(whole)) == path.read_text("utf-8")
    assert (corpus.name, corpus.spelling.vocabulary.unknown) == ("text.txt", None)
    corpus = datasets.from_files([path], "words")
    assert words(corpus) == ["één twee <eos> twee één <unk>", "", "<eos>"]
    assert corpus.spelling.vocabulary.symbols == ("<eos>", "<unk>", "één", "twee")
    corpus = datasets.from_files([path], "words", min_count=1)
    assert corpus.spelling.vocabulary.symbols == ("<eos>", "één", "twee", "drie")


def named(folder, **texts: str):
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
    return folder


def test_files_called_train_valid_and_test_are_the_parts(folder, tmp_path):
    mine = named(tmp_path / "mine", train="a a b b\n", valid="a c\n", test="b\n")
    corpus = datasets.from_folder(mine, "words")
    assert words(corpus) == ["a a b b <eos>", "a <unk> <eos>", "b <eos>"]
    with pytest.raises(ValueError, match="must be made of the vocabulary's 3 symbols, got 'c'"):
        datasets.from_folder(mine, "words", min_count=1)
    assert bytes(datasets.from_folder(mine).valid.tolist()) == b"a c\n"
    assert set(datasets.from_folder(mine, "characters").spelling.vocabulary.symbols) == set("abc \n")


@pytest.mark.parametrize("more", [{}, {"valid": "b"}, {"valid": "b", "test": "c", "notes": "d"}])
def test_a_train_file_without_both_others_or_beside_more_is_refused(folder, tmp_path, more):
    with pytest.raises(ValueError, match="beside a file called train there must be one called valid"):
        datasets.from_folder(named(tmp_path / "mine", train="a", **more))


def test_a_changed_text_is_read_anew(folder, tmp_path):
    mine = named(tmp_path / "mine", text="before")
    first = datasets.from_folder(mine)
    named(mine, text="behind")
    assert datasets.from_folder(mine).sha256 != first.sha256


def test_empty_missing_and_foreign_texts_of_yours_are_one_sentence(folder, tmp_path):
    path = tmp_path / "text"
    with pytest.raises(ValueError, match=r"^the text .*text can't be read: No such file or directory$"):
        datasets.from_files([path])
    path.touch()
    for unit in ("bytes", "characters", "words"):
        with pytest.raises(ValueError, match=f"^text must hold text, got 0 {unit}$"):
            datasets.from_files([path], unit)
    path.write_bytes(b"abc\xff")
    with pytest.raises(ValueError, match=r"text must be UTF-8 text, got the byte 0xff at offset 3$"):
        datasets.from_files([path], "words")
    with pytest.raises(ValueError, match="must be made of 1 file or more, got 0"):
        datasets.from_files([])
    with pytest.raises(ValueError, match=r"nowhere must be a folder that holds texts, got none"):
        datasets.from_folder(tmp_path / "nowhere")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("symbols", "unknown", "expected"),
    [
        (("<eos>", "<unk>", "be"), "<unk>", "be <unk> <eos> <eos> <unk> be <eos>"),
        (("<unk>", "or", "be", "<eos>"), "<unk>", "be or <eos> <eos> or be <eos>"),
        (("<eos>", "<unk>", "<S>", "be"), "<unk>", "be <unk> <eos> <eos> <unk> be <eos>"),
        (("<S>", "<UNK>", "or"), "<UNK>", "<S> <UNK> or <S> <S> <S> <S> or <UNK> <S>"),
    ],
)
def test_a_text_of_your_own_is_read_with_the_vocabulary_that_is_given(
    folder, tmp_path, symbols, unknown, expected
):
    for part in datasets.PARTS:
        (tmp_path / part).write_text("be or\n\nor be\n")
    held = Vocabulary(symbols, unknown)
    files = [tmp_path / part for part in datasets.PARTS]
    counted = datasets.from_files(files, "words", min_count=1)
    corpus = datasets.from_files(files, "words", held=held)
    assert corpus.spelling.vocabulary == held != counted.spelling.vocabulary
    assert words(corpus) == [expected] * 3


def test_a_text_that_a_given_vocabulary_can_not_spell_is_refused_by_its_first_stranger(folder, tmp_path):
    (tmp_path / "text").write_text("abcab")
    with pytest.raises(ValueError, match="made of the vocabulary's 2 symbols, got 'c'"):
        datasets.from_files([tmp_path / "text"], "characters", held=Vocabulary(("a", "b")))
    assert list(folder.iterdir()) == []
