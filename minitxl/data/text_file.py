"""Text files: opened only if they are plain, read block by block, and read once where they are a pipe."""

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

from minitxl.files import plain_file

BLOCK = 1 << 20
"""Bytes of a file that are in RAM at a time."""
PACKED = {
    b"\x1f\x8b\x08": "gzip",
    b"PK\x03\x04": "zip",
    b"\xfd7zXZ\x00": "xz",
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
}
"""Kinds of packed files, by the bytes they begin with."""


@contextmanager
def as_plain_file(path: Path) -> Iterator[Path]:
    """Yield a plain file with the text: the one at ``path``, or a copy of what the shell's <(command) pipes.

    A text is read more than once, and a pipe only once. Devices and named pipes may never
    end, and are refused like all that is no plain file.
    """
    if not _is_shells_pipe(path):
        _check_unpacked(plain_file(path))
        yield path
        return
    with NamedTemporaryFile() as copy:
        with naming_read_errors(path), path.open("rb") as pipe:
            shutil.copyfileobj(pipe, copy, BLOCK)
        copy.flush()
        _check_unpacked(Path(copy.name), path)
        yield Path(copy.name)


def blocks_of(path: Path, name: str, sha256: str) -> Iterator[bytes]:
    """Yield a text block by block, and check what was read against its digest.

    Raises:
        ValueError: at the end, where the file is no longer the one that had the digest.
    """
    digest = hashlib.sha256()
    with naming_read_errors(name), path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
            yield block
    if digest.hexdigest() != sha256:
        raise ValueError(f"the text {name} must stay as it is while it is read, got another than before")


def sha256_of(path: Path, name: str) -> str:
    """Return the SHA-256 of a text."""
    with naming_read_errors(name), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def naming_read_errors(name: Path | str) -> Iterator[None]:
    """Turn an OSError of the block, which reads a text, into a ValueError that names the text."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"the text {name} can't be read: {error.strerror or error}") from error


def _check_unpacked(path: Path, named: Path | None = None) -> None:
    """Raise a ValueError for an archive or a packed file, whose bytes are no text."""
    with naming_read_errors(named or path), path.open("rb") as file:
        begin = file.read(max(map(len, PACKED)))
    for mark, kind in PACKED.items():
        if begin.startswith(mark):
            raise ValueError(f"the text {named or path} must be unpacked, got a file of {kind}")


def _is_shells_pipe(path: Path) -> bool:
    return path.as_posix().startswith(("/dev/", "/proc/")) and path.is_fifo()
