import hashlib
import os
import re
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
import sites
import torch
from models import small_config
from support.disk import fill_disk
from support.small_corpora import HELD_OUT, LM1B, SMALL, TRAINING, serve_corpus

from minitxl.data import archives, corpora, downloads, text_file
from minitxl.data.batching import ContiguousBatches
from minitxl.data.corpus import Corpus
from minitxl.data.download_addresses import SOURCES
from minitxl.data.splits import SPLITS
from minitxl.data.tokenizer import Vocabulary
from minitxl.files import data_folder
from minitxl.training import loop
from minitxl.training.config import TrainConfig


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINITXL_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def site(folder, monkeypatch):
    """Every corpus in small, at an address of this machine."""
    sites.ask_without_delay(monkeypatch)
    with sites.running() as site:
        for name, files in SMALL.items():
            serve_corpus(site, monkeypatch, name, files)
        yield site


def words(corpus: Corpus) -> list[str]:
    return [" ".join(corpus.tokenizer.vocabulary.decode(getattr(corpus, split).tolist())) for split in SPLITS]


def test_the_table_holds_the_papers_corpora_with_licences_and_a_checksum_for_each_file():
    assert list(SOURCES) == ["enwik8", "text8", "wikitext-103", "wikitext-2", "ptb", "lm1b"]
    for source in SOURCES.values():
        assert source.licence
        for download in source.downloads:
            kind, digest = download.digest.split(":")
            assert len(bytes.fromhex(digest)) == {"sha256": 32, "md5": 16}[kind]


def test_enwik8_is_bytes_newlines_among_them_cut_90_5_5(site):
    corpus = corpora.load("enwik8")
    assert corpus.train.tolist() == list(range(180))
    assert corpus.valid.tolist() == list(range(180, 190))
    assert corpus.test.tolist() == list(range(190, 200))
    assert (corpus.name, corpus.vocab_size, corpus.tokenizer.vocabulary) == ("enwik8", 256, None)


def test_text8_is_characters_cut_90_5_5(site):
    corpus = corpora.load("text8")
    text = " anarchism originated as a term" * 10
    assert corpus.tokenizer.vocabulary.symbols[:2] == (" ", "a")
    assert corpus.vocab_size == len(set(text))
    assert [len(corpus.train), len(corpus.valid), len(corpus.test)] == [279, 15, 16]
    everything = torch.cat([corpus.train, corpus.valid, corpus.test]).tolist()
    assert "".join(corpus.tokenizer.vocabulary.decode(everything)) == text


@pytest.mark.parametrize("name", ["wikitext-103", "wikitext-2"])
def test_a_line_of_wikitext_ends_with_eos_even_where_it_is_empty(site, name):
    corpus = corpora.load(name)
    assert words(corpus) == [
        "<eos> = Valkyria Chronicles III = <eos> <eos> Senjō no <unk> the the <eos> the end <eos>",
        "<eos> the <unk> <eos>",
        "= end = <eos>",
    ]
    expected = ("<eos>", "the", "=", "Valkyria", "Chronicles", "III", "Senjō", "no", "<unk>", "end")
    assert corpus.tokenizer.vocabulary.symbols == expected
    assert corpus.tokenizer.vocabulary.encode(["never", "seen"]) == [8, 8]


def test_penn_treebank_comes_in_three_files(site):
    corpus = corpora.load("ptb")
    assert words(corpus) == [
        "aer banknote N <eos> the <unk> the N <eos>",
        "the banknote <eos>",
        "N <unk> <eos>",
    ]
    assert corpus.tokenizer.vocabulary.symbols == ("<eos>", "N", "the", "aer", "banknote", "<unk>")


def test_a_billion_words_have_S_at_both_ends_of_a_sentence_and_no_word_rarer_than_three(site):
    corpus = corpora.load("lm1b")
    assert words(corpus) == [
        "<S> to be <UNK> <UNK> <S> <S> to be <S> <S> to be <S>",
        "<S> be <UNK> <S> <S> be <S>",
        "<S> to to <S>",
    ]
    assert corpus.tokenizer.vocabulary.symbols == ("<S>", "<UNK>", "to", "be")


@pytest.mark.parametrize(
    ("name", "text", "begin"),
    [("lm1b", "to be\nto be\n", 7), ("ptb", "aer banknote N\nthe <unk> the N\n", 0)],
)
def test_a_prompt_of_several_lines_has_the_tokens_that_the_corpus_has(site, name, text, begin):
    corpus = corpora.load(name)
    tokens = corpus.tokenizer.encode(text).tolist()
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
    corpus = corpora.load("lm1b")
    assert len(opened) == 2 * len(files)  # to count, and to encode
    assert set(asked) == {1000}
    assert len(corpus.train) == 5 * 200 * 12


def test_a_vocabulary_of_another_size_than_the_papers_is_refused(site, folder, monkeypatch):
    monkeypatch.setitem(SOURCES, "ptb", replace(SOURCES["ptb"], vocab_size=10_000))
    with pytest.raises(ValueError, match="ptb must have 10000 different symbols, got 6"):
        corpora.load("ptb")
    assert [path.name for path in folder.iterdir() if path.is_dir()] == []


@pytest.mark.parametrize("name", SMALL)
def test_a_second_load_asks_for_nothing_and_gives_the_same(site, name):
    first = corpora.load(name)
    site.asked.clear()
    site.files.clear()
    second = corpora.load(name)
    assert site.asked == []
    assert first.sha256 == second.sha256
    assert first.tokenizer.vocabulary == second.tokenizer.vocabulary


def test_tokens_are_prepared_anew_for_another_text_or_another_rule(site, monkeypatch):
    corpora.load("ptb")
    serve_corpus(site, monkeypatch, "ptb", {**SMALL["ptb"], "ptb.test.txt": b"aer \n"})
    assert words(corpora.load("ptb"))[2] == "aer <eos>"
    source = SOURCES["ptb"]
    lines = replace(source.spec, before=("<S>",))
    monkeypatch.setitem(SOURCES, "ptb", replace(source, spec=lines))
    assert words(corpora.load("ptb"))[2] == "<S> aer <eos>"


@pytest.mark.parametrize("name", SMALL)
def test_a_step_is_trained_on_tokens_that_stay_on_disk(site, name):
    corpus = corpora.load(name)
    assert isinstance(corpus, Corpus)
    segments = ContiguousBatches(corpus.train, batch=2, seg_len=2)
    assert segments.lanes.data_ptr() == corpus.train.data_ptr()
    run = loop.start(small_config(vocab_size=corpus.vocab_size), TrainConfig(seg_len=2, batch=2, steps=20))
    record = next(loop.train_steps(run, segments, corpus.valid))
    assert record.tokens == 4
    assert loop.validate(run, corpus.valid[:3]) > 0


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"must be one of enwik8, text8, .*, ptb, lm1b, got enwik9"):
        corpora.load("enwik9")


def test_the_data_folder_is_the_variables_or_the_systems(folder, monkeypatch):
    assert data_folder() == folder
    monkeypatch.delenv("MINITXL_DATA")
    assert data_folder().name == "minitxl"


@pytest.mark.parametrize("name", SMALL)
def test_a_wrong_checksum_leaves_nothing_behind(site, folder, name):
    for file in SMALL[name]:
        site.files[file] = b"something else"
    with pytest.raises(ValueError, match="can't be downloaded") as refusal:
        corpora.load(name)
    for file in SMALL[name]:
        wrong = rf"{re.escape(file)} with the (SHA-256|MD5) \w+ from http\S+ \(what it sends has the \1 \w+\)"
        assert re.search(wrong, str(refusal.value))
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("name", SMALL)
def test_a_server_that_fails_and_recovers_does_not_matter(site, name):
    site.faults = [("status", 503), ("break", 10)]
    assert len(corpora.load(name).train) > 0


def test_without_the_server_the_sentence_names_file_checksum_and_folder(site, folder):
    site.files.clear()
    digest = hashlib.sha256(SMALL["text8"]["text8.zip"]).hexdigest()
    with pytest.raises(ValueError, match="by hand") as refusal:
        corpora.load("text8")
    assert str(refusal.value) == (
        f"what {folder} lacks can't be downloaded, and may be put there by hand: text8.zip with the "
        f"SHA-256 {digest} from {site.address}/text8.zip (the server answers 404)"
    )
    (folder / "text8.zip").write_bytes(SMALL["text8"]["text8.zip"])
    assert corpora.load("text8").name == "text8"


@pytest.mark.parametrize("name", SMALL)
def test_a_disk_that_fills_up_leaves_no_tokens_behind(site, folder, monkeypatch, name):
    with monkeypatch.context() as patch:
        fill_disk(patch, "")
        with pytest.raises(ValueError, match=r"can't be (kept|prepared) in .*: No space left on device"):
            corpora.load(name)
    left = [path.name for path in folder.iterdir()]
    assert all(file in SMALL[name] for file in left)
    assert len(corpora.load(name).train) > 0


def test_an_archive_that_leaves_its_folder_is_refused(site, folder, monkeypatch):
    files = {"../text8": b"a b", "text8": b"a b"}
    serve_corpus(site, monkeypatch, "text8", {"text8.zip": sites.zip_of(files)})
    with pytest.raises(ValueError, match=r"^text8\.zip must hold plain files .* got \.\./text8$"):
        corpora.load("text8")
    assert [path.name for path in folder.iterdir()] == ["text8.zip"]
    assert not (folder.parent / "text8").exists()


@pytest.mark.parametrize("name", ["enwik8", "lm1b"])
def test_an_archive_that_is_none_is_refused(site, folder, monkeypatch, name):
    (file,) = SMALL[name]
    for content in (b"no archive", SMALL[name][file][:-30], SMALL[name][file][:60]):
        serve_corpus(site, monkeypatch, name, {file: content})
        with pytest.raises(ValueError, match=f"^the archive {re.escape(file)} can't be read: "):
            corpora.load(name)
        assert [path.name for path in folder.iterdir()] == [file]


def test_an_archive_that_lacks_a_part_is_refused(site, monkeypatch):
    serve_corpus(site, monkeypatch, "enwik8", {"enwik8.zip": sites.zip_of({"readme": b"text"})})
    with pytest.raises(ValueError, match="enwik8 must hold text, got 0 bytes"):
        corpora.load("enwik8")
    files = {"wikitext-2/wiki.train.tokens": b"a \n", "wikitext-2/wiki.valid.tokens": b"a \n"}
    serve_corpus(site, monkeypatch, "wikitext-2", {"wikitext-2-v1.zip": sites.zip_of(files)})
    with pytest.raises(ValueError, match="the test text of wikitext-2 must hold text, got 0 words"):
        corpora.load("wikitext-2")


def test_a_text_that_is_not_utf_8_is_refused_by_file_and_byte(site, folder, monkeypatch):
    serve_corpus(site, monkeypatch, "ptb", {**SMALL["ptb"], "ptb.valid.txt": b"caf\xe9 \n"})
    with pytest.raises(ValueError, match=r"^ptb\.valid\.txt must be UTF-8 text, .* 0xe9 at offset 3$"):
        corpora.load("ptb")
    assert all(path.is_file() for path in folder.iterdir())


def test_files_of_yours_are_bytes_in_the_order_of_their_paths(folder, tmp_path):
    texts = tmp_path / "mine"
    (texts / "c").mkdir(parents=True)
    (texts / "b").write_bytes(b"1" * 50)
    (texts / "c" / "a").write_bytes(b"2" * 40 + b"\xff")
    (texts / "a").write_bytes(b"0" * 9)
    (texts / ".hidden").write_bytes(b"secret")
    corpus = corpora.from_folder(texts)
    whole = torch.cat([corpus.train, corpus.valid, corpus.test]).tolist()
    assert bytes(whole) == b"0" * 9 + b"1" * 50 + b"2" * 40 + b"\xff"
    assert [len(corpus.train), len(corpus.valid), len(corpus.test)] == [90, 5, 5]
    assert (corpus.name, corpus.vocab_size) == ("mine", 256)
    again = corpora.from_files([texts / "c" / "a", texts / "b", texts / "a"])
    assert again.sha256 == corpus.sha256


def test_another_unit_than_bytes_characters_and_words_is_refused(folder, tmp_path, as_users_run_it):
    with pytest.raises(ValueError, match="unit must be bytes, characters or words, got syllables"):
        corpora.from_files([tmp_path / "text.txt"], "syllables")


def test_a_text_of_yours_is_characters_or_words(folder, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("één twee\ntwee één drie\n", "utf-8")
    corpus = corpora.from_files([path], "characters")
    whole = torch.cat([corpus.train, corpus.valid, corpus.test]).tolist()
    assert "".join(corpus.tokenizer.vocabulary.decode(whole)) == path.read_text("utf-8")
    assert (corpus.name, corpus.tokenizer.vocabulary.unknown) == ("text.txt", None)
    corpus = corpora.from_files([path], "words")
    assert words(corpus) == ["één twee <eos> twee één <unk>", "", "<eos>"]
    assert corpus.tokenizer.vocabulary.symbols == ("<eos>", "<unk>", "één", "twee")
    corpus = corpora.from_files([path], "words", min_count=1)
    assert corpus.tokenizer.vocabulary.symbols == ("<eos>", "één", "twee", "drie")


@pytest.mark.parametrize("end", ["\r\n", "\r"])
@pytest.mark.parametrize("block", [1, 4, 1 << 20])
def test_lines_of_words_end_as_on_any_system(folder, tmp_path, monkeypatch, end, block):
    monkeypatch.setattr(text_file, "BLOCK", block)
    (tmp_path / "unix").write_bytes(b"a b\n\nc a\nb")
    (tmp_path / "other").write_bytes(b"a b\n\nc a\nb".replace(b"\n", end.encode()))
    unix, other = (corpora.from_files([tmp_path / name], "words", min_count=1) for name in ("unix", "other"))
    read = [one.tokenizer.vocabulary.decode(one.whole.tolist()) for one in (other, unix)]
    assert read[0] == read[1] == ["a", "b", "<eos>", "<eos>", "c", "a", "<eos>", "b", "<eos>"]
    text = f"a b{end}c"
    assert other.tokenizer.encode(text).tolist() == unix.tokenizer.encode("a b\nc").tolist()


@pytest.mark.parametrize("unit", ["bytes", "words"])
@pytest.mark.parametrize("begin", text_file.PACKED)
def test_a_packed_text_is_refused(folder, tmp_path, begin, unit):
    (tmp_path / "text").write_bytes(begin + b"and more")
    with pytest.raises(ValueError, match=f"text must be unpacked, got a file of {text_file.PACKED[begin]}"):
        corpora.from_files([tmp_path / "text"], unit)


def named(folder, **texts: str):
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
    return folder


def test_files_called_train_valid_and_test_are_the_parts(folder, tmp_path):
    mine = named(tmp_path / "mine", train="a a b b\n", valid="a c\n", test="b\n")
    corpus = corpora.from_folder(mine, "words")
    assert words(corpus) == ["a a b b <eos>", "a <unk> <eos>", "b <eos>"]
    with pytest.raises(ValueError, match="must be made of the vocabulary's 3 symbols, got 'c'"):
        corpora.from_folder(mine, "words", min_count=1)
    assert bytes(corpora.from_folder(mine).valid.tolist()) == b"a c\n"
    assert set(corpora.from_folder(mine, "characters").tokenizer.vocabulary.symbols) == set("abc \n")


@pytest.mark.parametrize("more", [{}, {"valid": "b"}, {"valid": "b", "test": "c", "notes": "d"}])
def test_a_train_file_without_both_others_or_beside_more_is_refused(folder, tmp_path, more):
    with pytest.raises(ValueError, match="must hold one file for each of train, valid and test") as refusal:
        corpora.from_folder(named(tmp_path / "mine", train="a", **more))
    assert str(refusal.value).endswith(f"got {', '.join(sorted(f'{name}.txt' for name in ['train', *more]))}")


def test_a_changed_text_is_read_anew(folder, tmp_path):
    mine = named(tmp_path / "mine", text="before")
    first = corpora.from_folder(mine)
    named(mine, text="behind")
    assert corpora.from_folder(mine).sha256 != first.sha256


def test_empty_missing_and_foreign_texts_of_yours_are_one_sentence(folder, tmp_path):
    path = tmp_path / "text"
    with pytest.raises(ValueError, match=r"text must be a plain file, got none: No such file or directory$"):
        corpora.from_files([path])
    path.touch()
    for unit in ("bytes", "characters", "words"):
        with pytest.raises(ValueError, match=f"^text must hold text, got 0 {unit}$"):
            corpora.from_files([path], unit)
    path.write_bytes(b"abc\xff")
    with pytest.raises(ValueError, match=r"text must be UTF-8 text, got the byte 0xff at offset 3$"):
        corpora.from_files([path], "words")
    with pytest.raises(ValueError, match="must be made of 1 file or more, got 0"):
        corpora.from_files([])
    with pytest.raises(ValueError, match=r"nowhere must be a folder that holds texts, got none"):
        corpora.from_folder(tmp_path / "nowhere")
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
    for split in SPLITS:
        (tmp_path / split).write_text("be or\n\nor be\n")
    held = Vocabulary(symbols, unknown)
    files = [tmp_path / split for split in SPLITS]
    counted = corpora.from_files(files, "words", min_count=1)
    corpus = corpora.from_files(files, "words", vocabulary=held)
    assert corpus.tokenizer.vocabulary == held != counted.tokenizer.vocabulary
    assert words(corpus) == [expected] * 3


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("unit", "text", "place"),
    [
        ("characters", "abca", "'c' at line 1, column 3"),
        ("characters", "ab\n\naébc", "'é' at line 3, column 2"),
        ("characters", "ab\n\n c", "' ' at line 3, column 1"),
        ("words", "a b\nb ab\n a  abc", "'ab' at line 2, column 3"),
        ("words", "a\n  bab a ba", "'bab' at line 2, column 3"),
    ],
)
def test_the_first_symbol_that_a_vocabulary_lacks_is_named_with_its_place(
    folder, tmp_path, monkeypatch, unit, text, place, size
):
    monkeypatch.setattr(text_file, "BLOCK", size)
    path = tmp_path / "text"
    path.write_text(text, "utf-8")
    vocabulary = Vocabulary(("a", "b", "\n", "<eos>"))
    with pytest.raises(ValueError, match=f"the vocabulary's 4 symbols, got {place} of {path}$"):
        corpora.from_files([path], unit, vocabulary=vocabulary)
    assert list(folder.iterdir()) == []


def test_characters_have_an_unknown_one_if_it_is_asked_for(folder, tmp_path):
    mine = named(tmp_path / "mine", train="aabbx\n\n", valid="abé", test="b")
    plain = corpora.from_folder(mine, "characters")
    assert (plain.tokenizer.vocabulary.unknown, "é" in plain.tokenizer.vocabulary.ids) == (None, True)
    corpus = corpora.from_folder(mine, "characters", unknown=True)
    assert corpus.tokenizer.vocabulary == Vocabulary(("<unk>", "a", "b", "\n"), "<unk>")
    assert corpus.train.tolist() == [1, 1, 2, 2, 0, 3, 3]  # x is too rare
    assert corpus.valid.tolist() == [1, 2, 0]
    assert list(corpus.tokenizer.decode([1, 0])) == ["a", "<unk>"]
    all_of_training = corpora.from_folder(mine, "characters", unknown=True, min_count=1)
    assert "x" in all_of_training.tokenizer.vocabulary.ids
    with pytest.raises(ValueError, match="unknown must be asked for with unit = characters, got words"):
        corpora.from_folder(mine, "words", unknown=True)


def test_a_corpus_says_which_file_became_which_part(site, folder, tmp_path):
    assert corpora.load("ptb").summary() == (
        "text ptb, in words: train 9 (ptb.train.txt), valid 3 (ptb.valid.txt), test 3 (ptb.test.txt)"
    )
    assert corpora.load("enwik8").summary() == (
        "text enwik8: 200 bytes, cut 90/5/5: train 180, valid 10, test 10"
    )
    mine = named(tmp_path / "mine", train="a" * 4000, valid="b", test="c" * 20)
    assert corpora.from_folder(mine).summary() == (
        "text mine, in bytes: train 4,000 (train.txt), valid 1 (valid.txt), test 20 (test.txt)"
    )
    books = named(tmp_path / "books", **{f"{number}": "a" * 20 for number in range(8)})
    assert corpora.from_folder(books, "characters").summary() == (
        "text books: 160 characters of 8 files (0.txt, 1.txt, 2.txt, 3.txt, 4.txt, 5.txt and 2 more), "
        "cut 90/5/5: train 144, valid 8, test 8"
    )
    (text,) = named(tmp_path / "one", text="a" * 100).iterdir()
    assert corpora.from_file_as_bytes(text).summary() == (
        "text text.txt: 100 bytes, cut 90/5/5: train 90, valid 5, test 5"
    )


@pytest.mark.parametrize("split", [True, False])
def test_the_whole_of_a_corpus_is_its_parts_in_order(folder, tmp_path, split):
    names = ("train", "valid", "test") if split else ("a", "b", "c")
    corpus = corpora.from_folder(named(tmp_path / "mine", **dict(zip(names, ("xy", "z", "w"), strict=True))))
    assert bytes(corpus.whole.tolist()) == b"xyzw"
    assert (corpus.stream is None) == split
    assert torch.equal(corpus.whole, torch.cat([corpus.train, corpus.valid, corpus.test]))


@pytest.mark.parametrize("unit", ["bytes", "characters", "words"])
def test_a_text_that_changes_while_it_is_read_is_refused_and_not_kept(folder, tmp_path, monkeypatch, unit):
    path, digest_of = tmp_path / "text", corpora.sha256_of
    path.write_text("a b a b")

    def then_changed(*given):
        digest = digest_of(*given)
        path.write_text("a b a b c")
        return digest

    with monkeypatch.context() as patch:
        patch.setattr(corpora, "sha256_of", then_changed)
        with pytest.raises(ValueError, match=f"the text {path} must stay as it is while it is read"):
            corpora.from_files([path], unit)
    assert list(folder.iterdir()) == []
    assert len(corpora.from_files([path]).whole) == 9


def test_a_download_that_is_exchanged_while_it_is_read_is_refused_and_not_kept(site, folder, monkeypatch):
    fetch = downloads.fetch

    def then_changed(wanted, data_folder):
        paths = fetch(wanted, data_folder)
        paths[0].write_bytes(b"another text\n")
        return paths

    monkeypatch.setattr(downloads, "fetch", then_changed)
    with pytest.raises(ValueError, match=r"ptb\.train\.txt must have the MD5 \w+, got MD5 "):
        corpora.load("ptb")
    assert all(path.is_file() for path in folder.iterdir())


@pytest.mark.parametrize("unit", ["bytes", "characters", "words"])
def test_devices_named_pipes_and_what_can_not_be_read_are_refused(folder, tmp_path, unit):
    os.mkfifo(tmp_path / "pipe")
    for path, sentence in (
        ("/dev/zero", "/dev/zero must be a plain file, got a device"),
        (tmp_path / "pipe", "pipe must be a plain file, got a named pipe"),
        ("/proc/self/mem", "the text /proc/self/mem can't be read: Input/output error"),
    ):
        with pytest.raises(ValueError, match=sentence):
            corpora.from_files([Path(path)], unit)
        with pytest.raises(ValueError, match=sentence):
            corpora.from_file_as_bytes(Path(path))


def test_a_text_that_the_shell_pipes_is_read_once(folder):
    for unit, expected in (("bytes", 12), ("characters", 12), ("words", 6)):
        reader, writer = os.pipe()
        os.write(writer, b"to be\nor be\n")
        os.close(writer)
        corpus = corpora.from_files([Path(f"/dev/fd/{reader}")], unit, min_count=1)
        os.close(reader)
        assert len(corpus.whole) == expected


def test_writing_to_tokens_changes_neither_the_file_nor_the_next_reader(folder, tmp_path):
    (tmp_path / "text").write_bytes(b"abc" * 40)
    corpus = corpora.from_files([tmp_path / "text"])
    corpus.train[0] = 5
    corpus.train.numpy()[1] = 6
    assert corpus.train[:3].tolist() == [5, 6, ord("c")]
    assert corpora.from_files([tmp_path / "text"]).train[:3].tolist() == list(b"abc")


@pytest.mark.parametrize("content", [b"", b"no array", "cut", "long", "columns", "kind", "open"])
def test_damaged_tokens_are_refused_by_file_and_say_how_they_are_made_anew(folder, tmp_path, content):
    (tmp_path / "text").write_bytes(b"abc" * 40)
    corpora.from_files([tmp_path / "text"])
    (path,) = folder.glob("*/whole.npy")
    if isinstance(content, str):
        whole = path.read_bytes()
        content = {
            "cut": whole[:-1],
            "long": whole + b"a",
            "columns": whole.replace(b"(120,)", b"(12,1)"),
            "kind": whole.replace(b"|u1", b"|i1"),
            "open": whole.replace(b"(120,)", b"(120, "),
        }[content]
    path.write_bytes(content)
    sentence = f"{path} is not a whole file of tokens: .*; delete {path.parent}, and it is made anew"
    with pytest.raises(ValueError, match=sentence):
        corpora.from_files([tmp_path / "text"])


def test_a_cache_without_its_vocabulary_is_refused_and_not_read_as_bytes(tmp_path, monkeypatch):
    monkeypatch.setenv("MINITXL_DATA", str(tmp_path / "data"))
    (tmp_path / "text").write_text("to be or not to be")
    corpora.from_files([tmp_path / "text"], "characters")
    (path,) = (tmp_path / "data").glob("*/vocabulary.json")
    path.unlink()
    with pytest.raises(ValueError, match=re.escape(f"{path} must be a plain file, got none")):
        corpora.from_files([tmp_path / "text"], "characters")


def test_files_of_folders_are_told_with_their_folders(tmp_path):
    for split in ("train", "valid", "test"):
        (tmp_path / "corpus" / split).mkdir(parents=True)
        (tmp_path / "corpus" / split / "x.txt").write_text(split)
    assert corpora.from_folder(tmp_path / "corpus").summary() == (
        "text corpus, in bytes: train 5 (train/x.txt), valid 5 (valid/x.txt), test 4 (test/x.txt)"
    )


@pytest.mark.parametrize("unit", ["words", "characters"])
def test_a_text_in_utf_16_is_refused_as_no_text(folder, tmp_path, unit):
    path = tmp_path / "text.txt"
    path.write_bytes("one two\n".encode("utf-16-le") * 40)
    with pytest.raises(ValueError, match=r"text\.txt must be UTF-8 text, got a NUL byte, as UTF-16 has them"):
        corpora.from_files([path], unit)
    assert corpora.from_files([path]).vocab_size == 256  # bytes are bytes


def test_embedded_text_is_the_standard_library_in_order_and_the_same_each_time():
    corpus = corpora.embedded()
    text = bytes(torch.cat([corpus.train, corpus.valid, corpus.test]).tolist())
    assert 8_000_000 < len(text) < 16_000_000
    assert text.startswith(b'"""Record of phased-in incompatible language changes')  # __future__.py
    assert b"class JSONDecoder" in text
    assert b"import unittest\nfrom test import support" not in text[:1_000_000]
    assert corpora.embedded().sha256 == corpus.sha256


def test_a_file_is_read_as_bytes_whatever_its_encoding(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"\xff\xfe\x00 caf\xe9" * 10)
    corpus = corpora.from_file_as_bytes(path)
    assert bytes(corpus.train.tolist()) == path.read_bytes()[:72]
    assert corpus.name == "text"


def test_an_empty_or_missing_file_is_refused(tmp_path):
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="empty must hold text, got 0 bytes"):
        corpora.from_file_as_bytes(tmp_path / "empty")
    with pytest.raises(ValueError, match=r"nowhere must be a plain file, got none: No such file"):
        corpora.from_file_as_bytes(tmp_path / "nowhere")
