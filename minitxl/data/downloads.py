"""Downloads that come whole or not at all; ``download_addresses`` has the corpora's addresses."""

import hashlib
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pooch
import requests
from tqdm import tqdm
from urllib3.exceptions import DecodeError, NameResolutionError, ProtocolError, ReadTimeoutError, SSLError

from minitxl.data.download_addresses import Download, checksum
from minitxl.files import plain_file

CHUNK = 1 << 16
"""Bytes of a download that are in RAM at a time."""
RETRIES = 3
SILENCE = 30
"""Seconds without a byte after which a server counts as gone."""
SLOWEST = 1000
"""Bytes a second below which, after ``SILENCE`` seconds, a server counts as one that never ends."""


class FinalError(Exception):
    """A download that failed, and would fail again."""


class WrongContentError(requests.RequestException):
    """A download that came whole, and is another file."""


def fetch(downloads: Sequence[Download], folder: Path) -> list[Path]:
    """Return the files in ``folder``: what lies there with the right digest, else a download.

    A download that breaks off leaves a ``.part`` file, and goes on from its end, now or in
    a later call, if the server allows it. What fails its digest is thrown away.

    Raises:
        ValueError: that names all files which could not be had, and why.
    """
    failed, unreachable = dict[Download, str](), dict[str, str]()
    for one in downloads:
        host = urlsplit(one.address).netloc
        present = _state(folder / one.name, one)
        if present == "right":
            continue
        reason = unreachable.get(host)
        if reason is None:
            reason, lost = _attempt(one, folder)
            if lost:
                unreachable[host] = reason
        if reason:
            failed[one] = reason + present
    if failed:
        files = "; ".join(
            f"{one.name} with the {one.checksum} from {one.address} ({reason})"
            for one, reason in failed.items()
        )
        raise ValueError(f"what {folder} lacks can't be downloaded, and may be put there by hand: {files}")
    return [folder / one.name for one in downloads]


def check_digest(path: Path, download: Download) -> None:
    """Raise a ValueError unless the file has its digest."""
    if (digest := _digest(path, download)) != download.digest:
        raise ValueError(f"{path} must have the {download.checksum}, got {checksum(digest)}")


def _state(path: Path, download: Download) -> str:
    """Return "right" for a file with the right digest, else what to say of one with another."""
    if not path.exists() and not path.is_symlink():
        return ""
    digest = _digest(path, download)
    return "right" if digest == download.digest else f"; the one that is there has the {checksum(digest)}"


def _digest(path: Path, download: Download) -> str:
    kind = download.digest.partition(":")[0]
    with plain_file(path).open("rb") as file:
        return f"{kind}:{hashlib.file_digest(file, kind).hexdigest()}"


def _attempt(download: Download, folder: Path) -> tuple[str, bool]:
    """Download a file; return why that failed, "" if it didn't, and whether its server can't be reached."""
    part = folder / f"{download.name}.part"
    keeper = pooch.create(
        folder,
        base_url="",
        registry={download.name: download.digest},
        urls={download.name: download.address},
        retry_if_failed=RETRIES,
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        keeper.fetch(download.name, downloader=partial(_download, download, part))
    except requests.RequestException as error:
        return _reason(error), isinstance(error, requests.ConnectionError | requests.Timeout)
    except FinalError as error:
        return str(error), False
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise ValueError(f"{download.name} can't be kept in {folder}: {error.strerror or error}") from error
    return "", False


def _download(download: Download, part: Path, address: str, output: str, keeper: Any) -> None:
    """Fill ``part`` from its end on, and move it to ``output`` once it is whole and right."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(part.lstat().st_mode):
            part.unlink()  # a link would be written through
    have = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    with requests.get(address, headers=headers, stream=True, timeout=SILENCE) as response:
        if response.status_code == requests.codes.requested_range_not_satisfiable:
            part.unlink(missing_ok=True)
        response.raise_for_status()
        if not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            have = 0
        length = response.headers.get("Content-Length", "")
        total = have + int(length) if length.isascii() and length.isdigit() else None
        with (
            part.open("ab" if have else "wb") as file,
            tqdm(desc=part.stem, total=total, initial=have, unit="B", unit_scale=True, disable=None) as bar,
        ):
            for chunk in _limited(_chunks(response), download, part, left=download.limit - have):
                file.write(chunk)
                bar.update(len(chunk))
    if (digest := _digest(part, download)) != download.digest:
        part.unlink()
        raise WrongContentError(f"what it sends has the {checksum(digest)}")
    part.replace(output)


def _chunks(response: requests.Response) -> Iterator[bytes]:
    """Yield the body as it arrives, however little comes at a time; its errors are those of ``requests``."""
    try:
        while chunk := response.raw.read1(CHUNK, decode_content=True):
            yield chunk
    except ProtocolError as error:
        raise requests.exceptions.ChunkedEncodingError(error) from error
    except DecodeError as error:
        raise requests.exceptions.ContentDecodingError(error) from error
    except (ReadTimeoutError, SSLError) as error:
        raise requests.ConnectionError(error) from error


def _limited(chunks: Iterable[bytes], download: Download, part: Path, *, left: int) -> Iterable[bytes]:
    began, received = time.monotonic(), 0
    for chunk in chunks:
        left, received = left - len(chunk), received + len(chunk)
        seconds = time.monotonic() - began
        if seconds > SILENCE and received < SLOWEST * seconds:
            raise FinalError(f"it sends less than {SLOWEST:,} bytes a second")
        if left < 0:
            part.unlink(missing_ok=True)
            raise FinalError(f"it sends more than {download.limit:,} bytes")
        yield chunk


def _reason(error: requests.RequestException) -> str:
    """Return in a few words why a request failed."""
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the server answers {error.response.status_code}"
    causes = [error, *(cause for cause in error.args if isinstance(cause, Exception))]
    causes += [reason for cause in causes if isinstance(reason := getattr(cause, "reason", None), Exception)]
    kinds: list[tuple[type[Exception] | tuple[type[Exception], ...], str]] = [
        (WrongContentError, str(error)),
        ((requests.Timeout, ReadTimeoutError), f"no answer within {SILENCE} seconds"),
        (requests.exceptions.ChunkedEncodingError, "it breaks off"),
        (requests.exceptions.ContentDecodingError, "its answer is packed in a way that can't be read"),
        (requests.TooManyRedirects, "it redirects too often"),
        (requests.exceptions.InvalidSchema, "it sends to an address of another kind"),
        (requests.exceptions.SSLError, "no secure connection"),
        (NameResolutionError, "no such host is known, or there is no network"),
        (requests.exceptions.ProxyError, "the proxy can't be reached"),
        (requests.ConnectionError, "the connection is refused or lost"),
    ]
    return next(
        (text for kind, text in kinds if any(isinstance(cause, kind) for cause in causes)),
        str(error) or type(error).__name__,
    )
