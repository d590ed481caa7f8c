"""Between the text that people read and the tokens of a run: bytes, characters or words.

A run on characters or words keeps its vocabulary beside its checkpoint, in a file named
after the unit; a run on bytes needs none.
"""

from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Int64
from torch import Tensor

from minitxl.data import vocabulary
from minitxl.data.token_file import Unit
from minitxl.data.vocabulary import EOS, Vocabulary

KEPT: tuple[Unit, ...] = ("characters", "words")
"""Units that need a vocabulary."""


@dataclass(frozen=True)
class Tokenizer:
    """What a token is; the vocabulary is None for bytes."""

    unit: Unit = "bytes"
    vocabulary: Vocabulary | None = None

    @property
    def token(self) -> str:
        """What to call one of its tokens."""
        return self.unit.removesuffix("s")

    def encode(self, text: str) -> Int64[Tensor, "_"]:
        """As it was typed, also where that is no UTF-8; a line break is the word ``<eos>``."""
        if self.vocabulary is None:
            return torch.tensor(list(text.encode(errors="surrogateescape")), dtype=torch.int64)
        symbols = text.replace("\n", f" {EOS} ").split() if self.unit == "words" else text
        return torch.tensor(self.vocabulary.encode(symbols), dtype=torch.int64)

    def decode(self, tokens: Iterable[int]) -> Iterator[str]:
        """Pieces of the text as it comes, each character once all its bytes are there."""
        if self.vocabulary is None:
            decoder = getincrementaldecoder("utf-8")(errors="replace")
            for token in tokens:
                yield decoder.decode(bytes([token]))
            yield decoder.decode(b"", final=True)
            return
        for token in tokens:
            (symbol,) = self.vocabulary.decode([token])
            yield symbol if self.unit == "characters" else "\n" if symbol == EOS else f"{symbol} "

    @property
    def name(self) -> str:
        """What its tokens are, counted where they are a vocabulary."""
        return self.unit if self.vocabulary is None else f"{len(self.vocabulary)} {self.unit}"

    def check(self, folder: Path) -> None:
        """That it is the one of the run in this folder."""
        if (held := read(folder)) != self:
            raise ValueError(
                f"the text must have the {held.name} of the run in {folder}, "
                f"got {self.name}; for another text use another folder"
            )

    def write(self, folder: Path) -> None:
        """Beside the checkpoints of a run that begins."""
        folder.mkdir(parents=True, exist_ok=True)
        for unit in KEPT:
            (folder / f"{unit}.json").unlink(missing_ok=True)
        if self.vocabulary is not None:
            self.vocabulary.write(folder / f"{self.unit}.json")


def read(folder: Path) -> Tokenizer:
    """That of the run in this folder."""
    for unit in KEPT:
        if (path := folder / f"{unit}.json").exists():
            return Tokenizer(unit, vocabulary.read(path))
    return Tokenizer()
