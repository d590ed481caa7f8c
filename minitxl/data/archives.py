"""Archives, read file by file without being unpacked."""

import lzma
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_IFMT, S_ISLNK

from minitxl.files import reason

BLOCK = 1 << 20
"""Bytes of a file that are in RAM at a time."""
ALWAYS_ALLOWED, MOST_TIMES = 1 << 30, 20
"""Bytes that any archive may hold; and how many times its own size it may hold, if that is more."""
BROKEN = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError),
    *(RuntimeError, ValueError, OverflowError),
)
"""The errors that reading a damaged or encrypted archive, or one packed in an unknown way, raises."""
Member = tuple[str, Iterator[bytes]]
"""Name of a file in an archive, and its bytes, block by block."""


def members(path: Path, *, leave_out: Collection[str] = ()) -> Iterator[Member]:
    """Yield the files of a zip or tar.gz archive in turn, in the archive's order, block by block.

    Each is closed before the next is opened, and nothing is written. A file that is no
    archive is its own only member. Members of a zip file that ``leave_out`` names are passed over.

    Raises:
        ValueError: for an archive that is damaged or encrypted, for one that holds far more than its
            size suggests, and for members that lie outside its folder.
    """
    if path.suffix == ".zip":
        return _zip(path, leave_out)
    return _tar(path) if path.suffix == ".gz" else _plain(path)


def outsiders(path: Path) -> list[str]:
    """Return the names of a zip file's members that are links or lie outside its folder."""
    with _Blocks(path).errors_named(), zipfile.ZipFile(path) as archive:
        return [
            member.filename
            for member in archive.infolist()
            if _is_outsider(member.filename, is_link=_is_link(member))
        ]


def _is_link(member: zipfile.ZipInfo) -> bool:
    return S_ISLNK(S_IFMT(member.external_attr >> 16))


class _Blocks:
    """The blocks of all members of one archive, up to a limit; errors name the archive."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self.limit = max(ALWAYS_ALLOWED, MOST_TIMES * path.stat().st_size)
        self.done = 0

    @contextmanager
    def errors_named(self) -> Iterator[None]:
        """Turn an error of the block, which reads the archive, into a ValueError that names the archive."""
        try:
            yield
        except _RefusedError:
            raise
        except BROKEN as error:
            raise ValueError(f"the archive {self.name} can't be read: {reason(error)}") from error

    def blocks(self, read: Callable[[int], bytes]) -> Iterator[bytes]:
        """Yield the content of a member, block by block."""
        with self.errors_named():
            while block := read(BLOCK):
                self.done += len(block)
                if self.done > self.limit:
                    raise _RefusedError(
                        f"the archive {self.name} must unpack to {self.limit:,} bytes or less, got more"
                    )
                yield block


class _RefusedError(ValueError):
    """An archive that could be read, and must not be."""


def _plain(path: Path) -> Iterator[Member]:
    with path.open("rb") as file:
        yield path.name, _Blocks(path).blocks(file.read)


def _zip(path: Path, leave_out: Collection[str]) -> Iterator[Member]:
    content = _Blocks(path)
    with content.errors_named(), zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.filename in leave_out:
                continue
            _refuse_outsider(path, member.filename, is_link=_is_link(member))
            if not member.is_dir():
                with archive.open(member) as file:
                    yield member.filename, content.blocks(file.read)


def _tar(path: Path) -> Iterator[Member]:
    content = _Blocks(path)
    with content.errors_named(), tarfile.open(path, "r|gz") as archive:
        for member in archive:
            _refuse_outsider(path, member.name, is_link=not (member.isfile() or member.isdir()))
            if (file := archive.extractfile(member)) is not None:
                with file:
                    yield member.name, content.blocks(file.read)


def _refuse_outsider(path: Path, name: str, *, is_link: bool) -> None:
    if _is_outsider(name, is_link=is_link):
        raise _RefusedError(f"{path.name} must hold plain files inside its own folder, got {name}")


def _is_outsider(name: str, *, is_link: bool) -> bool:
    first, *deeper = re.split(r"[/\\]", name)
    is_drive = re.match(r"[A-Za-z]:", first)  # of Windows; a time such as 10:00 in a folder's name is none
    return is_link or not first or bool(is_drive) or ".." in (first, *deeper)
