"""A corpus: a text as tokens, in a training, a validation and a test part."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from types import MappingProxyType

import torch

from minitxl.data.parts import PARTS, Part, listed
from minitxl.data.token_file import Tokens
from minitxl.data.tokenizer import Tokenizer


@dataclass(frozen=True)
class Corpus:
    """A training, a validation and a test part: files of their own, or one stream cut in order."""

    name: str
    train: Tokens
    valid: Tokens
    test: Tokens
    vocab_size: int
    tokenizer: Tokenizer = field(default_factory=Tokenizer)
    """Which text the tokens stand for."""
    stream: Tokens | None = None
    """The stream that was cut; None where the parts are files of their own."""
    files: Mapping[Part, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Names of the files of each part, or of the "whole" that was cut."""

    @property
    def whole(self) -> Tokens:
        """All tokens in order: training, validation and test part."""
        return torch.cat([self.train, self.valid, self.test]) if self.stream is None else self.stream

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of tokens of the training, the validation and the test part: how the text is cut."""
        return tuple(len(getattr(self, part)) for part in PARTS)

    @property
    def sha256(self) -> str:
        """Digest of the whole stream: which text a result was measured on."""
        return self._digests["whole"]

    def part_sha256(self, part: Part) -> str:
        """Return the digest of one part, by which it is known in another text, or of the whole."""
        return self._digests[part]

    def alike(self) -> list[tuple[Part, Part]]:
        """Return the pairs of parts that hold the same tokens; empty parts are left out."""
        digests, filled = self._digests, [part for part in PARTS if len(getattr(self, part))]
        return [(one, other) for one, other in combinations(filled, 2) if digests[one] == digests[other]]

    @cached_property
    def _digests(self) -> dict[Part, str]:
        whole = hashlib.sha256(self.train.numpy().data)
        digests: dict[Part, str] = {"train": whole.hexdigest()}  # the long part is read once
        rest: tuple[Part, ...] = ("valid", "test")
        for part in rest:
            tokens = getattr(self, part).numpy().data
            whole.update(tokens)
            digests[part] = hashlib.sha256(tokens).hexdigest()
        return digests | {"whole": whole.hexdigest()}

    def summary(self, *, of_whole: bool = False) -> str:
        """Return one line that says which files became which part, with the number of tokens of each.

        With ``of_whole`` a stream is not said to be cut.
        """
        sizes = dict(zip(PARTS, self.sizes, strict=True))
        unit = self.tokenizer.unit
        if self.stream is None:
            sources = {part: f" ({listed(self.files.get(part, ()))})" if self.files else "" for part in PARTS}
            parts = ", ".join(f"{part} {size:,}{sources[part]}" for part, size in sizes.items())
            return f"text {self.name}, in {unit}: {parts}"
        files = self.files.get("whole", ())
        several = f" of {len(files):,} files ({listed(files)})" if len(files) > 1 else ""
        whole = f"text {self.name}: {len(self.stream):,} {unit}{several}"
        if of_whole:
            return whole
        return f"{whole}, cut 90/5/5: " + ", ".join(f"{part} {size:,}" for part, size in sizes.items())


def cut(
    name: str,
    stream: Tokens,
    *,
    vocab_size: int,
    tokenizer: Tokenizer = Tokenizer(),  # noqa: B008
    files: Mapping[Part, tuple[str, ...]],
) -> Corpus:
    """Return a stream as a corpus: its first 90 %, the next 5 %, and the rest."""
    train, valid = len(stream) * 90 // 100, len(stream) * 95 // 100
    parts = stream[:train], stream[train:valid], stream[valid:]
    return Corpus(name, *parts, vocab_size, tokenizer, stream, files)
