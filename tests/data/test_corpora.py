import pytest
import torch

from minitxl.data import corpora


def test_embedded_text_is_the_standard_library_in_order_and_the_same_each_time():
    corpus = corpora.embedded()
    text = bytes(torch.cat([corpus.train, corpus.valid, corpus.test]).tolist())
    assert 8_000_000 < len(text) < 16_000_000
    assert text.startswith(b'"""Record of phased-in incompatible language changes')  # __future__.py
    assert b"class JSONDecoder" in text
    assert b"import unittest\nfrom test import support" not in text[:1_000_000]
    assert corpora.embedded().sha256 == corpus.sha256


def test_text_is_cut_90_5_5_in_order_and_nothing_is_lost():
    corpus = corpora.from_bytes("digits", bytes(range(200)))
    assert [len(part) for part in (corpus.train, corpus.valid, corpus.test)] == [180, 10, 10]
    assert torch.cat([corpus.train, corpus.valid, corpus.test]).tolist() == list(range(200))
    assert corpus.vocab_size == 256


def test_a_file_is_read_as_bytes_whatever_its_encoding(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"\xff\xfe\x00 caf\xe9" * 10)
    corpus = corpora.from_file(path)
    assert bytes(corpus.train.tolist()) == path.read_bytes()[:72]
    assert corpus.name == "text"


def test_the_digest_tells_texts_apart():
    assert corpora.from_bytes("a", b"one text").sha256 != corpora.from_bytes("a", b"two text").sha256


def test_an_empty_or_missing_file_is_refused(tmp_path):
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="empty must hold text, got 0 bytes"):
        corpora.from_file(tmp_path / "empty")
    with pytest.raises(ValueError, match=r"nowhere must be a plain file, got none: No such file"):
        corpora.from_file(tmp_path / "nowhere")
