"""Text to tokens on disk, and tokens mapped from there: neither text nor tokens are ever whole in memory."""

import warnings
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import UInt
from torch import Tensor

from minitxl.files import atomic_write

Unit = Literal["bytes", "characters", "words"]
Tokens = UInt[Tensor, "_"]


@dataclass(frozen=True)
class TokenizerSpec:
    """How a text becomes symbols, and which of them a vocabulary holds."""

    unit: Unit
    """Words are what blanks part."""
    before: tuple[str, ...] = ()
    """Words put before each line,"""
    after: tuple[str, ...] = ()
    """and after it."""
    first: tuple[str, ...] = ()
    """The vocabulary's first symbols, however rare."""
    unknown: str | None = None
    """The symbol of all that the vocabulary lacks."""
    min_count: int = 1
    """Rarer symbols are not held."""

    @property
    def line_break(self) -> tuple[str, ...]:
        """Words between two lines: those after the one, then those before the other."""
        return (*self.after, *self.before)


EOS = "<eos>"
LINES = TokenizerSpec("words", after=(EOS,), first=(EOS,), unknown="<unk>")
"""Words of WikiText and Penn Treebank."""
SENTENCES = TokenizerSpec(
    "words", before=("<S>",), after=("<S>",), first=("<S>", "<UNK>"), unknown="<UNK>", min_count=3
)
"""Words of the One Billion Word corpus."""


def symbols(blocks: Iterable[bytes], name: str, rule: TokenizerSpec) -> Iterator[Iterable[str]]:
    """Yield the characters or words of a UTF-8 text that comes block by block, wherever it is cut."""
    texts = _decoded(blocks, name)
    return texts if rule.unit == "characters" else _words(texts, rule)


@contextmanager
def writing(path: Path, vocab_size: int) -> Iterator[Callable[[Any], None]]:
    """Yield a function that appends ids to the .npy file at ``path``, of the smallest type that holds them.

    The file is there once the block has ended well.
    """
    dtype, total = np.min_scalar_type(vocab_size - 1), 0
    with atomic_write(path) as temporary, temporary.open("wb") as file:

        def write_header() -> None:
            described = {"descr": dtype.str, "fortran_order": False, "shape": (total,)}
            np.lib.format.write_array_header_1_0(file, described)

        def append(ids: Any) -> None:
            nonlocal total
            array = np.asarray(ids, dtype)
            file.write(array.data)
            total += len(array)

        write_header()
        yield append
        file.seek(0)
        write_header()


def mapped(path: Path) -> Tokens:
    """Return the tokens of a .npy file, read from it as they are used. They can't be written to."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(np.load(path, mmap_mode="r", allow_pickle=False))


def _decoded(blocks: Iterable[bytes], name: str) -> Iterator[str]:
    decoder, done = getincrementaldecoder("utf-8")(), 0
    for block in chain(blocks, [b""]):
        kept = len(decoder.getstate()[0])
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{name} must be UTF-8 text, got the byte 0x{error.object[error.start]:02x} "
                f"at offset {done - kept + error.start}"
            ) from None
        done += len(block)
        if text:
            yield text


def _words(texts: Iterator[str], rule: TokenizerSpec) -> Iterator[list[str]]:
    rest = ""
    for text in texts:
        *lines, rest = (rest + text).split("\n")
        yield [word for line in lines for word in (*rule.before, *line.split(), *rule.after)]
    if rest:
        yield [*rule.before, *rest.split(), *rule.after]
