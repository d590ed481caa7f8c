"""Text to tokens on disk, and tokens mapped from there: neither text nor tokens are ever whole in RAM."""

import mmap
import re
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import IncrementalNewlineDecoder
from itertools import chain
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO, Literal

import numpy as np
import torch
from jaxtyping import UInt
from torch import Tensor

from minitxl.files import atomic_write, plain_file

Unit = Literal["bytes", "characters", "words"]
Tokens = UInt[Tensor, "_"]
NO_RESERVE = 0x4000 if sys.platform == "linux" else 0x40
"""The system's flag for a mapping that may be larger than memory; Python has no name for it before 3.13."""


@dataclass(frozen=True)
class TokenizerSpec:
    """How a text becomes symbols, and which of them a vocabulary holds."""

    unit: Unit
    """Words are separated by white space."""
    before: tuple[str, ...] = ()
    """Words put before each line."""
    after: tuple[str, ...] = ()
    """Words put after each line."""
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


BYTE_ORDER_MARK = "\ufeff"
EOS = "<eos>"
UNKNOWN = "<unk>"
LINES = TokenizerSpec("words", after=(EOS,), first=(EOS,), unknown=UNKNOWN)
"""Words of WikiText and Penn Treebank."""
SENTENCES = TokenizerSpec(
    "words", before=("<S>",), after=("<S>",), first=("<S>", "<UNK>"), unknown="<UNK>", min_count=3
)
"""Words of the One Billion Word corpus."""


def symbols(blocks: Iterable[bytes], name: str, spec: TokenizerSpec) -> Iterator[Iterable[str]]:
    """Yield the characters or words of a UTF-8 text that comes block by block, wherever it is cut."""
    texts = _decoded(blocks, name)
    return texts if spec.unit == "characters" else _words(texts, spec)


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
    """Return the tokens of a .npy file, read from it as they are used.

    Whoever writes to them changes pages of its own process, never the file.

    Raises:
        ValueError: for a file that ``writing`` did not write, or not to its end.
    """
    try:
        with plain_file(path).open("rb") as file:
            dtype, size, offset = _header(file)
            content = _mapping(file.fileno())
        if len(content) != offset + size * dtype.itemsize:
            raise ValueError(
                f"{size:,} tokens need {offset + size * dtype.itemsize:,} bytes, got {len(content):,}"
            )
    except (ValueError, OSError) as error:
        raise ValueError(
            f"{path} is not a whole file of tokens: {error}; delete {path.parent}, and it is made anew"
        ) from error
    return torch.from_numpy(np.ndarray(size, dtype, buffer=content, offset=offset))


def _mapping(descriptor: int) -> mmap.mmap:
    """Map a file such that what is written to the mapping stays this process's own."""
    if sys.platform == "win32":
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY)
    flags = mmap.MAP_PRIVATE | NO_RESERVE
    return mmap.mmap(descriptor, 0, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)


def _header(file: BinaryIO) -> tuple[np.dtype[Any], int, int]:
    """Return type and number of the tokens of a .npy file, and where they begin."""
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("its header must be of version 1.0")
    try:
        shape, in_columns, dtype = np.lib.format.read_array_header_1_0(file)
    except (ValueError, SyntaxError, TokenError, RecursionError) as error:
        raise ValueError("its header can't be read") from error
    if len(shape) != 1 or in_columns or dtype not in (np.uint8, np.uint16, np.uint32):
        raise ValueError(f"it must be one row of unsigned numbers, got {dtype} of shape {shape}")
    return dtype, shape[0], file.tell()


def line_and_column(symbol: str, blocks: Iterable[bytes], name: str, unit: Unit) -> str:
    """Return line and column where a character or word first occurs in a text, both counted from 1."""
    alone = re.escape(symbol) if unit == "characters" else rf"(?<!\S){re.escape(symbol)}(?!\S)"
    line, column = 1, 1
    for text in _whole_lines(_decoded(blocks, name)) if unit == "words" else _decoded(blocks, name):
        occurrence = re.search(alone, text)
        before = text if occurrence is None else text[: occurrence.start()]
        if breaks := before.count("\n"):
            line, column = line + breaks, len(before) - before.rfind("\n")
        else:
            column += len(before)
        if occurrence is not None:
            break
    return f"line {line:,}, column {column:,}"


def _decoded(blocks: Iterable[bytes], name: str) -> Iterator[str]:
    """Yield the text of a file in pieces, without the mark that some editors write before a UTF-8 text."""
    decoder, done, mark = getincrementaldecoder("utf-8")(), 0, BYTE_ORDER_MARK
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
        if "\0" in text:
            raise ValueError(f"{name} must be UTF-8 text, got a NUL byte, as UTF-16 has them: convert it")
        if text:
            text, mark = text.removeprefix(mark), ""
            yield text


def _whole_lines(texts: Iterable[str]) -> Iterator[str]:
    """Yield a text in pieces that end where a line does, by \\n, \\r\\n or \\r, which become \\n."""
    newlines, rest = IncrementalNewlineDecoder(None, translate=True), ""
    for text in texts:
        lines, line_break, rest = (rest + newlines.decode(text)).rpartition("\n")
        if line_break:
            yield lines + line_break
    if rest := rest + newlines.decode("", final=True):
        yield rest


def _words(texts: Iterable[str], spec: TokenizerSpec) -> Iterator[list[str]]:
    for text in _whole_lines(texts):
        lines = text.removesuffix("\n").split("\n")
        yield [word for line in lines for word in (*spec.before, *line.split(), *spec.after)]
