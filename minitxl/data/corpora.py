"""Text as tokens: the text that comes with Python, or a file of yours, as bytes, 90/5/5."""

import hashlib
import sysconfig
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor

Part = UInt8[Tensor, "_"]


@dataclass(frozen=True)
class Corpus:
    """One stream of tokens, cut into a training, a validation and a test part, in order."""

    name: str
    train: Part
    valid: Part
    test: Part
    vocab_size: int

    @cached_property
    def sha256(self) -> str:
        """Digest of the whole stream: which text a result was measured on."""
        digest = hashlib.sha256()
        for part in (self.train, self.valid, self.test):
            digest.update(part.numpy().data)
        return digest.hexdigest()


def from_bytes(name: str, text: bytes) -> Corpus:
    """Return a corpus whose tokens are bytes: 90 % to train, 5 % to validate, the rest to test."""
    if not text:
        raise ValueError(f"{name} must hold text, got 0 bytes")
    tokens = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    train, valid = len(tokens) * 90 // 100, len(tokens) * 95 // 100
    return Corpus(name, tokens[:train], tokens[train:valid], tokens[valid:], vocab_size=256)


def from_file(path: Path) -> Corpus:
    """Return a file of yours, as bytes, whatever it is encoded in."""
    try:
        return from_bytes(path.name, path.read_bytes())
    except OSError as error:
        raise ValueError(f"the text {path} can't be read: {error.strerror}") from error


def embedded() -> Corpus:
    """Return the source of the running Python's standard library: some 11 MB, on every machine.

    Files in the order of their paths, without tests, installed packages, and what the
    build of this Python wrote about itself. Another Python version has another text, so
    results name its digest.
    """
    library = Path(sysconfig.get_path("stdlib"))
    without = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
    files = {path.relative_to(library).as_posix(): path for path in library.rglob("*.py")}
    wanted = [
        name
        for name in sorted(files)
        if without.isdisjoint(name.split("/")) and not name.startswith(("_sysconfigdata", "config-"))
    ]
    return from_bytes("Python's standard library", b"\n".join(files[name].read_bytes() for name in wanted))
