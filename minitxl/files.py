"""Files: read within limits, and written whole or not at all.

Whatever is read may be a stranger's: a named pipe that never ends, a text of 100,000 brackets, a
size beyond all memory. Each is a ValueError of one sentence that names the file.
"""

import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

JSON_BYTES = 2**26
"""Size of a JSON file that is read, at most: the longest, a vocabulary of 800,000 words, has 12 MB."""
WINDOWS = os.name == "nt"
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def data_folder() -> Path:
    """Return the folder of downloads and tokens: MINITXL_DATA if it is set, else the system's for caches."""
    import pooch

    return Path(os.environ.get("MINITXL_DATA") or pooch.os_cache("minitxl"))


def plain_file(path: Path | str) -> Path:
    """Return the path of a file that is there and is neither folder, pipe, socket nor device."""
    path = Path(path)
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} must be a plain file, got none: {reason(error)}") from error
    if not stat.S_ISREG(mode):
        raise ValueError(f"{path} must be a plain file, got {KINDS.get(stat.S_IFMT(mode), 'none')}")
    return path


def read_bytes(path: Path | str, *, at_most: int) -> bytes:
    """Return the content of a plain file; one of more than ``at_most`` bytes is refused unread."""
    path = plain_file(path)
    try:
        with path.open("rb") as file:
            content = b"" if path.stat().st_size > at_most else file.read(at_most + 1)
    except OSError as error:
        raise ValueError(f"{path} can't be read: {reason(error)}") from error
    size = max(len(content), path.stat().st_size)
    if size > at_most:
        raise ValueError(f"{path} must have at most {at_most:,} bytes, got {size:,}")
    return content


def read_json(path: Path | str, *, at_most: int = JSON_BYTES) -> Any:
    """Return the value of a JSON file; see ``fields.checked`` for what it must be."""
    content = read_bytes(path, at_most=at_most)
    try:
        return json.loads(content.decode("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} must be JSON: {error}") from error
    except RecursionError as error:
        raise ValueError(f"{path} must be JSON of a few levels, got too many") from error


def reason(error: Exception) -> str:
    """Return what went wrong, in the system's words where it was the system: "No space left on device"."""
    return getattr(error, "strerror", None) or str(error)


def in_words(error: Exception) -> str:
    """Return an error in words, after the file that the system names: "a.txt: Permission denied"."""
    file = getattr(error, "filename2", None) or getattr(error, "filename", None)
    return str(error) if file is None else f"{os.fsdecode(file)}: {reason(error)}"


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield an empty file in a hidden folder beside ``path``; it takes its place if the block ends well.

    After an error nothing is left behind, and what stood at ``path`` still stands there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as private:
        temporary = Path(private) / path.name
        temporary.touch()
        yield temporary
        _sync(temporary)
        temporary.chmod(0o644)
        temporary.replace(path)
        _sync(path.parent)


def is_left_behind(path: Path, name: str) -> bool:
    """Return True for what ``atomic_write`` of a file of this name leaves where its process is killed.

    That is a hidden folder of the name and eight random letters, which holds nothing but the
    half-written file, or safetensors' own temporary one.
    """
    if not re.fullmatch(rf"\.{re.escape(name)}\.[a-z0-9_]{{8}}", path.name) or path.is_symlink():
        return False
    temporary = re.compile(rf"{re.escape(name)}|\.tmp[A-Za-z0-9]{{6}}")
    return path.is_dir() and all(
        temporary.fullmatch(inner.name) and inner.is_file() for inner in path.iterdir()
    )


def _sync(path: Path) -> None:
    """Have the disk keep a file or a folder; Windows syncs files open for writing alone."""
    if WINDOWS and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if WINDOWS else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
