"""Files from the web, whole and checked, and archives that are read without being unpacked."""

import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from stat import S_IFMT, S_ISLNK
from typing import Any

import pooch
import requests
from tqdm import tqdm

PIECE, BLOCK = 1 << 16, 1 << 20
"""Bytes of a download, and of a file, that are held at a time."""
RETRIES = 3
SILENCE = 30
"""Seconds without a byte after which a server counts as gone."""
BROKEN = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError)
"""What reading a damaged archive raises."""
Member = tuple[str, Iterator[bytes]]
"""Name of a file in an archive, and its bytes, block by block."""


@dataclass(frozen=True)
class Download:
    """A file on the web, and how to know it."""

    address: str
    digest: str
    """"sha256:…", or "md5:…" where that is all there is."""

    @property
    def name(self) -> str:
        return self.address.rsplit("/", 1)[-1]


def fetch(wanted: Download, folder: Path) -> Path:
    """Return the file in ``folder``: what lies there with the right digest, else a download.

    A download that breaks off leaves a ``.part`` file, and goes on from its end, now or in
    a later call, if the server allows it. What fails its digest is thrown away.
    """
    path = folder / wanted.name
    part = path.with_name(f"{path.name}.part")
    kind, digest = wanted.digest.replace("sha256", "sha-256").split(":")
    keeper = pooch.create(
        folder,
        base_url="",
        registry={wanted.name: wanted.digest},
        urls={wanted.name: wanted.address},
        retry_if_failed=RETRIES,
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        keeper.fetch(wanted.name, downloader=partial(_download, part))
    except requests.RequestException as error:
        raise ValueError(
            f"{wanted.name} can't be downloaded from {wanted.address} ({_reason(error)}): "
            f"put that file, whose {kind.upper()} is {digest}, into {folder} by hand"
        ) from error
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise ValueError(f"{wanted.name} can't be kept in {folder}: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(
            f"{wanted.name} must have the {kind.upper()} {digest}, "
            f"and what {wanted.address} sends has another"
        ) from error
    return path


def _download(part: Path, address: str, output: str, keeper: Any) -> None:
    """Fill ``part`` from its end on, and move it to ``output`` once it is whole."""
    have = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    with requests.get(address, headers=headers, stream=True, timeout=SILENCE) as response:
        if response.status_code == requests.codes.requested_range_not_satisfiable:
            part.unlink()
        response.raise_for_status()
        if not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            have = 0
        left = int(response.headers.get("Content-Length", 0))
        with (
            part.open("ab" if have else "wb") as file,
            tqdm(
                desc=part.stem,
                total=have + left or None,
                initial=have,
                unit="B",
                unit_scale=True,
                disable=None,
            ) as bar,
        ):
            for piece in response.iter_content(PIECE):
                file.write(piece)
                bar.update(len(piece))
    part.replace(output)


def _reason(error: requests.RequestException) -> str:
    if error.response is not None:
        return f"the server answers {error.response.status_code}"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "it breaks off"
    return "no connection"


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
