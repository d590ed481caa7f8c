"""A corpus: a text as tokens, in a training, a validation and a test split."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from types import MappingProxyType

import torch

from minitxl.data.splits import SPLITS, Split, listed
from minitxl.data.token_file import Tokens
from minitxl.data.tokenizer import Tokenizer


@dataclass(frozen=True)
class Corpus:
    """A training, a validation and a test split: files of their own, or one stream cut in order."""

    name: str
    train: Tokens
    valid: Tokens
    test: Tokens
    vocab_size: int
    tokenizer: Tokenizer = field(default_factory=Tokenizer)
    """Which text the tokens stand for."""
    stream: Tokens | None = None
    """The stream that was cut; None where the splits are files of their own."""
    files: Mapping[Split, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Names of the files of each split, or of the "whole" that was cut."""

    @property
    def whole(self) -> Tokens:
        """All tokens in order: training, validation and test split."""
        return torch.cat([self.train, self.valid, self.test]) if self.stream is None else self.stream

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of tokens of the training, the validation and the test split: how the text is cut."""
        return tuple(len(getattr(self, split)) for split in SPLITS)

    @property
    def sha256(self) -> str:
        """Digest of the whole stream: which text a result was measured on."""
        return self._digests["whole"]

    def split_sha256(self, split: Split) -> str:
        """Return the digest of one split, or of the whole; another text that has the split gives the same."""
        return self._digests[split]

    def alike(self) -> list[tuple[Split, Split]]:
        """Return the pairs of splits that hold the same tokens; empty splits are left out."""
        digests, filled = self._digests, [split for split in SPLITS if len(getattr(self, split))]
        return [(one, other) for one, other in combinations(filled, 2) if digests[one] == digests[other]]

    @cached_property
    def _digests(self) -> dict[Split, str]:
        whole = hashlib.sha256(self.train.numpy().data)
        digests: dict[Split, str] = {"train": whole.hexdigest()}  # the long split is read once
        rest: tuple[Split, ...] = ("valid", "test")
        for split in rest:
            tokens = getattr(self, split).numpy().data
            whole.update(tokens)
            digests[split] = hashlib.sha256(tokens).hexdigest()
        return digests | {"whole": whole.hexdigest()}

    def summary(self, *, of_whole: bool = False) -> str:
        """Return one line that says which files became which split, with the number of tokens of each.

        With ``of_whole`` a stream is not said to be cut.
        """
        sizes = dict(zip(SPLITS, self.sizes, strict=True))
        unit = self.tokenizer.unit
        if self.stream is None:
            sources = {
                split: f" ({listed(self.files.get(split, ()))})" if self.files else "" for split in SPLITS
            }
            splits = ", ".join(f"{split} {size:,}{sources[split]}" for split, size in sizes.items())
            return f"text {self.name}, in {unit}: {splits}"
        files = self.files.get("whole", ())
        several = f" of {len(files):,} files ({listed(files)})" if len(files) > 1 else ""
        whole = f"text {self.name}: {len(self.stream):,} {unit}{several}"
        if of_whole:
            return whole
        return f"{whole}, cut 90/5/5: " + ", ".join(f"{split} {size:,}" for split, size in sizes.items())


def cut(
    name: str,
    stream: Tokens,
    *,
    vocab_size: int,
    tokenizer: Tokenizer = Tokenizer(),  # noqa: B008
    files: Mapping[Split, tuple[str, ...]],
) -> Corpus:
    """Return a stream as a corpus: its first 90 %, the next 5 %, and the rest."""
    train, valid = len(stream) * 90 // 100, len(stream) * 95 // 100
    splits = stream[:train], stream[train:valid], stream[valid:]
    return Corpus(name, *splits, vocab_size, tokenizer, stream, files)
