"""Archives, read file by file without being unpacked."""

import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from stat import S_IFMT, S_ISLNK

BLOCK = 1 << 20
"""Bytes of a file that are in memory at a time."""
BROKEN = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError)
"""The errors that reading a damaged archive raises."""
Member = tuple[str, Iterator[bytes]]
"""Name of a file in an archive, and its bytes, block by block."""


def members(path: Path) -> Iterator[Member]:
    """Yield the files of a zip or tar.gz archive in turn, in the archive's order, block by block.

    Each is closed before the next is opened, and nothing is written. A file that is no
    archive is its own only member.
    """
    reading: dict[str, Callable[[Path], Iterator[Member]]] = {".zip": _zip, ".gz": _tar}
    return reading.get(path.suffix, plain)(path)


def plain(path: Path) -> Iterator[Member]:
    """Yield a file as it is, as the only member of itself."""
    with path.open("rb") as file:
        yield path.name, _blocks(file.read)


def _zip(path: Path) -> Iterator[Member]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            mode = member.external_attr >> 16
            _refuse_outsider(path, member.filename, is_link=S_ISLNK(S_IFMT(mode)))
            if not member.is_dir():
                with archive.open(member) as file:
                    yield member.filename, _blocks(file.read)


def _tar(path: Path) -> Iterator[Member]:
    with tarfile.open(path, "r|gz") as archive:
        for member in archive:
            _refuse_outsider(path, member.name, is_link=not (member.isfile() or member.isdir()))
            if (file := archive.extractfile(member)) is not None:
                with file:
                    yield member.name, _blocks(file.read)


def _blocks(read: Callable[[int], bytes]) -> Iterator[bytes]:
    return iter(lambda: read(BLOCK), b"")


def _refuse_outsider(path: Path, name: str, *, is_link: bool) -> None:
    first, *deeper = re.split(r"[/\\]", name)
    if is_link or not first or ":" in first or ".." in (first, *deeper):
        raise ValueError(f"{path.name} must hold plain files inside its own folder, got {name}")
