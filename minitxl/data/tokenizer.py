"""Text to token ids and back: the vocabulary, and the tokenizer of a corpus or of a run.

A token is a byte, a character or a word. Characters and words have a vocabulary, which a run
keeps beside its checkpoints in a file named after the unit; bytes need none.
"""

import hashlib
import json
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from jaxtyping import Int64
from torch import Tensor

from minitxl import fields
from minitxl.data.token_file import EOS, LINES, SENTENCES, TokenizerSpec, Unit
from minitxl.files import atomic_write, read_json


class UnknownSymbolError(ValueError):
    """A symbol that a vocabulary lacks, and no symbol stands for."""

    def __init__(self, symbol: str, size: int) -> None:
        super().__init__(f"a text must be made of the vocabulary's {size} symbols, got {symbol!r}")
        self.symbol = symbol


VOCABULARY_UNITS: tuple[Unit, ...] = ("characters", "words")
"""Units that have a vocabulary."""
VOCABULARY_FILE = {"symbols": fields.sequence(fields.text()), "unknown": fields.optional(fields.text())}
"""What a vocabulary's file must hold."""
DIGEST = {"sha256": fields.text()}
"""The digest that ``Vocabulary.write`` adds; a file without it is read too."""


@dataclass(frozen=True)
class Vocabulary:
    """Symbols, words or characters, in the order of their ids."""

    symbols: tuple[str, ...]
    unknown: str | None = None
    """The symbol that all others are read as; None refuses them."""

    def __post_init__(self) -> None:
        try:
            "".join(self.symbols).encode()
        except UnicodeEncodeError as error:  # half of a surrogate pair alone is no character
            broken = error.object[error.start]
            raise ValueError(f"a vocabulary must hold what UTF-8 can write, got {broken!r}") from None
        if len(self.ids) != len(self.symbols):
            raise ValueError(
                f"a vocabulary must hold each symbol once, got {len(self.symbols)} symbols, "
                f"{len(self.ids)} of them different"
            )
        if self.unknown is not None and self.unknown not in self.ids:
            raise ValueError(f"unknown must be one of the vocabulary's symbols, got {self.unknown}")

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of each symbol."""
        return {symbol: number for number, symbol in enumerate(self.symbols)}

    @cached_property
    def sha256(self) -> str:
        """Digest of the symbols in order, and of the unknown one."""
        content = json.dumps([self.unknown, self.symbols], ensure_ascii=True)
        return hashlib.sha256(content.encode()).hexdigest()

    def __len__(self) -> int:
        return len(self.symbols)

    def encode(self, symbols: Iterable[str]) -> list[int]:
        """Return the ids of symbols; the first that no symbol stands for is an ``UnknownSymbolError``."""
        if self.unknown is not None:
            ids, unknown = self.ids, self.ids[self.unknown]
            return [ids.get(symbol, unknown) for symbol in symbols]
        try:
            return [self.ids[symbol] for symbol in symbols]
        except KeyError as error:
            raise UnknownSymbolError(error.args[0], len(self)) from None

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Return the symbols of ids."""
        return [self.symbols[number] for number in ids]

    def write(self, path: Path) -> None:
        """Write the symbols in order, the unknown one and their digest as JSON."""
        with atomic_write(path) as temporary:
            content = {"unknown": self.unknown, "sha256": self.sha256, "symbols": self.symbols}
            temporary.write_text(json.dumps(content, ensure_ascii=False, indent=0), "utf-8")


def read_vocabulary(path: Path) -> Vocabulary:
    """Return the vocabulary of a file that ``Vocabulary.write`` wrote."""
    rules = {**VOCABULARY_FILE, **DIGEST}
    content = fields.checked(read_json(path), rules, file=path, required=VOCABULARY_FILE)
    with fields.naming(path):
        vocabulary = Vocabulary(tuple(content["symbols"]), content["unknown"])
    if content.get("sha256", vocabulary.sha256) != vocabulary.sha256:
        raise ValueError(f"{path} is damaged: its symbols must be those of its SHA-256")
    return vocabulary


def from_counts(
    counts: Mapping[str, int],
    *,
    first: tuple[str, ...] = (),
    unknown: str | None = None,
    min_count: int = 1,
) -> Vocabulary:
    """Return the vocabulary of the symbols ``first``, then of those counted ``min_count`` times or more.

    Frequent symbols come before rare ones. Equally frequent ones come in the order of ``counts``,
    for a counted text that of first appearance, as in the original PyTorch code. The released
    weights order such words as Python 2's dictionaries did, an order that only their own vocabulary has.
    ``unknown`` is dropped if it is not among the symbols.
    """
    counted = [symbol for symbol, count in counts.items() if count >= min_count and symbol not in first]
    symbols = (*first, *sorted(counted, key=lambda symbol: -counts[symbol]))
    return Vocabulary(symbols, unknown if unknown in symbols else None)


def word_spec(vocabulary: Vocabulary) -> TokenizerSpec:
    """Return how text becomes words of this vocabulary: as in One Billion Word, or as in WikiText."""
    return SENTENCES if "<S>" in vocabulary.ids and EOS not in vocabulary.ids else LINES


@dataclass(frozen=True)
class Tokenizer:
    """The unit of the tokens, and their vocabulary; None for bytes."""

    unit: Unit = "bytes"
    vocabulary: Vocabulary | None = None

    def __str__(self) -> str:
        return f"{self.vocab_size:,} {self.unit}"

    @property
    def vocab_size(self) -> int:
        """Number of token ids."""
        return 256 if self.vocabulary is None else len(self.vocabulary)

    @property
    def token(self) -> str:
        """The unit in the singular: byte, character or word."""
        return self.unit.removesuffix("s")

    def encode(self, text: str) -> Int64[Tensor, "_"]:
        """Return the ids of a text; in words, a line break between two lines is the vocabulary's symbol for
        it.

        So a last line without a line break ends without one, where a file's last line gets one.
        Bytes are those that were typed, even if they are not UTF-8.
        """
        if self.vocabulary is None:
            return torch.tensor(list(text.encode(errors="surrogateescape")), dtype=torch.int64)
        line_break = " ".join(word_spec(self.vocabulary).line_break)
        lines = text.replace("\r\n", "\n").replace("\r", "\n")
        symbols = lines.replace("\n", f" {line_break} ").split() if self.unit == "words" else list(text)
        try:
            return torch.tensor(self.vocabulary.encode(symbols), dtype=torch.int64)
        except UnknownSymbolError as error:
            position = symbols.index(error.symbol) + 1
            raise ValueError(f"{error} as {self.token} {position} of {text[:40]!r}") from None

    def decode(self, tokens: Iterable[int]) -> Iterator[str]:
        """Yield the text of each token; a character comes with the last of its bytes."""
        if self.vocabulary is None:
            decoder = getincrementaldecoder("utf-8")(errors="replace")
            for token in tokens:
                yield decoder.decode(bytes([token]))
            yield decoder.decode(b"", final=True)
            return
        line_break = word_spec(self.vocabulary).line_break
        matched = 0  # words of a line break before this token
        for symbol in map(self.vocabulary.symbols.__getitem__, tokens):
            if self.unit == "characters":
                yield symbol
            elif symbol == line_break[matched]:
                yield "" if matched else "\n"
                matched = (matched + 1) % len(line_break)
            else:
                yield f"{symbol} "
                matched = 0
