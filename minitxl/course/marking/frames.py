"""Frames between judge and worker: a header of JSON and tensors in safetensors' format. Neither is code.

The worker is a program by itself, so this file imports nothing of the package.
"""

import json
import re
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

LARGEST = 2**28
"""Bytes of a frame, at most."""
HEAD = 16
"""Bytes in front of each frame: the lengths of the header and of the tensors."""

HALF = re.compile("[\ud800-\udfff]")
"""Half of a character, which JSON can write as \\ud83d, and no file, page or database can hold."""

Tensors = dict[str, Tensor]


class FrameError(ValueError):
    """Bytes that are no frame."""


def from_json(text: bytes) -> Any:
    """Return the value of JSON that a student may have written, with U+FFFD for each half of a character."""
    value = json.loads(text.decode("utf-8"))
    if b"\\ud" in text.lower():  # the only way to write a half
        value = json.loads(HALF.sub("\ufffd", json.dumps(value, ensure_ascii=False)))
    return value


def pack(header: dict[str, Any], tensors: Tensors | None = None) -> bytes:
    """Return a frame as bytes; tensors are copied, so views and shared storage are no matter."""
    blob = b""
    if tensors:
        copies = {
            name: torch.empty(of.shape, dtype=of.dtype).copy_(of.detach()) for name, of in tensors.items()
        }
        blob = save(copies)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "big") + len(blob).to_bytes(8, "big") + text + blob


def lengths(head: bytes) -> tuple[int, int]:
    """Return the lengths of header and tensors that the first bytes of a frame tell."""
    text, blob = int.from_bytes(head[:8], "big"), int.from_bytes(head[8:HEAD], "big")
    if text + blob > LARGEST:
        raise FrameError("the frame is too large")
    return text, blob


def unpack(text: bytes, blob: bytes) -> tuple[dict[str, Any], Tensors]:
    """Return header and tensors; raise FrameError if either is not what it should be."""
    try:
        header = from_json(text)
        views = load(blob) if blob else {}
        tensors = {name: of.clone() for name, of in views.items()}  # a view cannot be detached in place
    except Exception as error:
        raise FrameError(str(error)) from None
    except RecursionError:
        raise FrameError("too many brackets") from None
    if not isinstance(header, dict):
        raise FrameError("the header must be a dict")
    return header, tensors
