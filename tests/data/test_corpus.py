import torch

from minitxl.data import corpora


def test_text_is_cut_90_5_5_in_order_and_nothing_is_lost():
    corpus = corpora.from_bytes("digits", bytes(range(200)))
    assert [len(part) for part in (corpus.train, corpus.valid, corpus.test)] == [180, 10, 10]
    assert torch.cat([corpus.train, corpus.valid, corpus.test]).tolist() == list(range(200))
    assert corpus.vocab_size == 256


def test_the_digest_tells_texts_apart():
    assert corpora.from_bytes("a", b"one text").sha256 != corpora.from_bytes("a", b"two text").sha256
