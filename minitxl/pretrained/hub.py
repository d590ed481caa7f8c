"""Files of released models from the Hugging Face hub: what is needed of them, downloaded once.

They lie in the hub's own cache, in its own layout, so that other programs use them too. But a server's
answer decides neither where a file is written nor how large it may be: the commit and the digest it
names are checked first, no more bytes are taken than it announced, and the content must have the digest.
"""

import errno
import hashlib
import re
from pathlib import Path
from typing import IO, Any

from minitxl.files import atomic_write, in_words

CONFIG = "config.json"
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
WORDS = "vocab.txt"
"""A vocabulary as text, a word a line."""
VOCABULARIES = ("vocab.bin", "vocab.pkl", WORDS)
"""Names of the weights and of the vocabulary; of each, the first that is there is used."""
SMALL = 2**26
"""Size of settings and vocabulary, at most."""
LARGE = 2**35
"""Size of weights, at most; the largest published Transformer-XL has 4 GB."""
FULL = {
    getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EACCES", "EPERM", "EROFS", "ENOTDIR", "EEXIST")
}
"""Errors of a disk that takes no file."""
SECONDS = 10
"""Seconds that the hub may take to answer a question about a file."""


def folder_of(path_or_repo: str | Path) -> Path:
    """Return the folder itself, or that of a repository's files, which are downloaded once."""
    name = str(path_or_repo)
    if not name.strip():
        raise ValueError("a released model must be a folder or a hub repository, got an empty name")
    if Path(name).is_dir():
        return Path(name)
    if Path(name).exists():
        raise ValueError(f"a released model must be a folder or a hub repository, got the file {name}")
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    try:
        if (settings := _downloaded(name, (CONFIG,))) is not None:
            folder = settings.parent
            _downloaded(name, VOCABULARIES, commit=folder.name)
            if _downloaded(name, WEIGHTS, commit=folder.name) is not None:
                return folder
    except (HFValidationError, RepositoryNotFoundError) as error:
        raise ValueError(f"{name} is neither a folder nor a hub repository that can be reached") from error
    except _no_connection() as error:
        if getattr(error, "errno", None) in FULL:
            raise ValueError(f"{name} can't be kept in the hub's cache: {in_words(error)}") from error
        raise ValueError(
            f"{name} can't be downloaded from the hub: try again with a connection, or put its "
            f"{CONFIG}, {' or '.join(WEIGHTS)}, and {' or '.join(VOCABULARIES)} into a folder by hand"
        ) from error
    wanted = CONFIG if settings is None else " or ".join(WEIGHTS)
    raise ValueError(f"the repository {name} must hold {wanted}, got none")


def _no_connection() -> tuple[type[Exception], ...]:
    """Return the errors of the hub's client, and OSError."""
    from huggingface_hub.errors import HfHubHTTPError

    return HfHubHTTPError.__bases__


def _downloaded(repo: str, names: tuple[str, ...], commit: str | None = None) -> Path | None:
    """Return the first of these files that the repository has; None where it has none.

    Without a commit it is that of the main branch now, or without a connection the last one known.
    """
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import EntryNotFoundError, RepositoryNotFoundError

    for name in names:
        cached = try_to_load_from_cache(repo, name, revision=commit)
        if commit is None or cached is None:
            try:
                return _fetch(repo, name, commit)
            except EntryNotFoundError:
                if commit is not None:
                    _note_missing(repo, name, commit)
                continue
            except RepositoryNotFoundError:
                raise
            except _no_connection():
                if not isinstance(cached, str):
                    raise
        if isinstance(cached, str):
            return Path(cached)
    return None


def _fetch(repo: str, name: str, commit: str | None) -> Path:
    """Return the file in the cache, downloaded if it isn't there, at the commit or the newest."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    told = get_hf_file_metadata(hf_hub_url(repo, name, revision=commit), timeout=SECONDS)
    size, most = told.size, LARGE if name in WEIGHTS else SMALL
    if not re.fullmatch("[0-9a-f]{40}", told.commit_hash or "") or commit not in (None, told.commit_hash):
        raise ValueError(f"the hub must name a commit of {repo}, got {told.commit_hash!r:.60}")
    if not re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", told.etag or ""):
        raise ValueError(f"the hub must name the digest of {repo}/{name}, got {told.etag!r:.60}")
    if size is None or not 0 <= size <= most:
        raise ValueError(f"the hub must offer {repo}/{name} in at most {most:,} bytes, got {size}")
    folder = _cache_of(repo)
    path = folder / "snapshots" / str(told.commit_hash) / name
    if not path.exists():
        with atomic_write(path) as temporary:
            with temporary.open("r+b") as file:
                http_get(
                    hf_hub_url(repo, name, revision=told.commit_hash),
                    _AtMost(file, size, f"{repo}/{name}"),  # type: ignore[arg-type]
                    headers=build_hf_headers(),
                    expected_size=size,
                    displayed_filename=name,
                )
            if _digest(temporary, str(told.etag), size) != told.etag:
                raise ValueError(f"{repo}/{name} must have the digest {told.etag}, and the hub sends another")
    if commit is None:
        with atomic_write(folder / "refs" / "main") as temporary:
            temporary.write_text(str(told.commit_hash))
    return path


def _note_missing(repo: str, name: str, commit: str) -> None:
    """Note as the hub's own client does that a commit lacks a file, so that it is not asked for again."""
    with atomic_write(_cache_of(repo) / ".no_exist" / commit / name):
        pass


def _cache_of(repo: str) -> Path:
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    return Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=repo, repo_type="model")


class _AtMost:
    """A file that takes a number of bytes, and no more."""

    def __init__(self, file: IO[bytes], size: int, name: str) -> None:
        self._file, self._size, self._name = file, size, name

    def write(self, content: bytes) -> int:
        if self._file.tell() + len(content) > self._size:
            raise ValueError(
                f"the hub must send the {self._size:,} bytes of {self._name} it announced, got more"
            )
        return self._file.write(content)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _digest(path: Path, etag: str, size: int) -> str:
    """Return the digest that the hub names: SHA-256 of large files, git's SHA-1 of small ones."""
    digest = hashlib.sha256() if len(etag) == 64 else hashlib.sha1(f"blob {size}\0".encode())
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()
