"""Small corpora in the layout of the real archives, and a site on this machine that serves them."""

import hashlib
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
import sites

from minitxl.data.download_addresses import SOURCES, Download

LM1B = "1-billion-word-language-modeling-benchmark-r13output"
TRAINING = f"{LM1B}/training-monolingual.tokenized.shuffled"
HELD_OUT = f"{LM1B}/heldout-monolingual.tokenized.shuffled"
WIKI = {
    "train": b" \n = Valkyria Chronicles III = \n \n Senj\xc5\x8d no <unk> the the \n the end \n",
    "valid": b" \n the <unk> \n",
    "test": b" = end = \n",
}
SMALL = {
    "enwik8": {"enwik8.zip": sites.zip_of({"enwik8": bytes(range(200))})},
    "text8": {"text8.zip": sites.zip_of({"text8": b" anarchism originated as a term" * 10})},
    "wikitext-103": sites.wikitext_of(WIKI, "wikitext-103"),
    "wikitext-2": sites.wikitext_of(WIKI, "wikitext-2"),
    "ptb": {
        "ptb.train.txt": b" aer banknote N \n the <unk> the N \n",
        "ptb.valid.txt": b" the banknote \n",
        "ptb.test.txt": b" N <unk> \n",
    },
    "lm1b": {
        f"{LM1B}.tar.gz": sites.targz_of(
            {
                f"{LM1B}/": b"",
                f"{LM1B}/README": b"No text, no training.\n",
                f"{TRAINING}/": b"",
                f"{TRAINING}/news.en-00002-of-00100": b"to be or not\n",
                f"{TRAINING}/news.en-00001-of-00100": b"to be\nto be\n",
                f"{HELD_OUT}/news.en.heldout-00001-of-00050": b"be or\n",
                f"{HELD_OUT}/news.en.heldout-00000-of-00050": b"to to\n",
                f"{HELD_OUT}/news.en.heldout-00002-of-00050": b"be\n",
            }
        )
    },
}
"""Files of each corpus: the layout of the real archives, around a few words."""


def serve_corpus(
    site: sites.Site, monkeypatch: pytest.MonkeyPatch, name: str, files: dict[str, bytes]
) -> None:
    """Let the site serve these files as the corpus of this name, and ``corpora.load`` download them."""
    source = SOURCES[name]
    assert {download.name for download in source.downloads} == files.keys()
    site.files |= files

    def local(download: Download) -> Download:
        kind = download.digest.split(":")[0]
        digest = hashlib.new(kind, files[download.name]).hexdigest()
        return replace(download, address=f"{site.address}/{download.name}", digest=f"{kind}:{digest}")

    small = replace(source, downloads=tuple(map(local, source.downloads)), vocab_size=None)
    monkeypatch.setitem(SOURCES, name, small)


WORDS = ["the", ",", "naïve", "Senjō", "of", "@-@", "<unk>", "cat", "dog", "日本", "sat", "ran", "élan", "x"]


def wikitext_lines(seed: int, lines: int) -> str:
    """Return random lines like WikiText's: blanks at both ends, blank lines, frequent and rare words."""
    random = Random(seed)
    frequent_first = [
        word for number, word in enumerate(WORDS) for _ in range(1 + (len(WORDS) - number) // 3)
    ]
    drawn = (" ".join(random.choices(frequent_first, k=random.randrange(7))) for _ in range(lines))
    return "".join(f" {line} \n" if line else " \n" for line in drawn)


WIKITEXT_SPLITS = {
    "train": wikitext_lines(1, 40),
    "valid": wikitext_lines(2, 20),
    "test": wikitext_lines(3, 120),
}
WIKITEXT_FILES = sites.wikitext_of({split: text.encode() for split, text in WIKITEXT_SPLITS.items()})


def original_vocabulary(text: str) -> list[str]:
    """Return the words of a training text in the original code's order of ids.

    ``<eos>``, then the most frequent first, and equally frequent ones by first appearance.
    """
    ids = ["<eos>"]
    counts = Counter(word for line in text.splitlines() for word in line.strip().split())
    for word, _ in counts.most_common():
        if word not in ids:
            ids.append(word)
    return ids
