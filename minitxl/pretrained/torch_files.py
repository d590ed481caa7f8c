"""Files of ``torch.save``: tensors, tables of tensors and whole modules, read without unpickling them.

Two formats: since PyTorch 1.6 a zip archive of a pickle and one member for each storage; before,
pickles one after another, and then the storages. The pickle is read by ``pickled``, so no class is
imported and nothing is called. Tensors are made here of the bytes of their storages, whose sizes
are checked: a tensor may not claim more numbers than its storage has.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, is_zipfile

import torch
from jaxtyping import UInt8
from torch import Tensor

from minitxl.files import plain_file, read_bytes, reason
from minitxl.pretrained import pickled
from minitxl.pretrained.pickled import Call, Name, Stored

PICKLE_BYTES = 2**26
"""Size of a pickle that is read, at most: that of a vocabulary of 800,000 words is half of it."""
MAGIC = 0x1950A86A20F9469CFC6C
"""The number that a file of PyTorch before 1.6 begins with."""
DTYPES = {
    "FloatStorage": torch.float32,
    "DoubleStorage": torch.float64,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}
"""Number formats by the name of their storage's class."""
Bytes = UInt8[Tensor, " byte"]
Storages = dict[str, Bytes]


@dataclass(frozen=True)
class Module:
    """A module of a saved model."""

    attributes: Mapping[str, Any]
    """All that the module held under a name, as ``pickled`` reads it."""
    tensors: Mapping[str, Tensor]
    """Parameters and buffers. One that two modules share is the same tensor in both."""
    children: Mapping[str, "Module"]

    def state(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """Yield the tensors of the module and of its children, under the names of its state dict."""
        for name, tensor in self.tensors.items():
            yield prefix + name, tensor
        for name, child in self.children.items():
            yield from child.state(f"{prefix}{name}.")


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a state dict by name."""
    with _refusing(path):
        value, storages = _read(path)
        table = _items(value)
        if table is None:
            raise ValueError(f"must hold a table of tensors by name, got {_kind(value)}")
        tensors, made = {}, dict[int, Tensor]()
        for name, item in table.items():
            tensor = _tensor(item, storages, made)
            if tensor is None or not isinstance(name, str):
                raise ValueError(f"must hold a table of tensors by name, got {_kind(item)} at {name!r:.80}")
            tensors[name] = tensor
        return tensors


def read_module(path: Path) -> Module:
    """Return the module that ``torch.save(model, path)`` wrote."""
    with _refusing(path):
        value, storages = _read(path)
        return _module(value, storages, {}, set(), depth=0)


def read_objects(path: Path) -> list[Any]:
    """Return what ``pickle`` or ``torch`` wrote into a file, as ``pickled`` reads it, without storages."""
    with _refusing(path):
        if is_zipfile(path):
            with ZipFile(path) as archive:
                return [_archived_pickle(archive)]
        return list(pickled.every(BytesIO(read_bytes(path, at_most=PICKLE_BYTES))))


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Turn every error of a file that is not what it should be into a sentence that begins with its path."""
    plain_file(path)
    try:
        yield
    except (
        BadZipFile,
        NotImplementedError,
        RuntimeError,
        EOFError,
        OSError,
        struct.error,
        UnicodeError,
        zlib.error,
    ) as error:
        raise ValueError(f"{path} must be whole and of a known kind: {reason(error)}") from error
    except ValueError as error:
        told = str(error)
        raise ValueError(told if told.startswith(str(path)) else f"{path} {told}") from error


def _read(path: Path) -> tuple[Any, Storages]:
    """Return the object of a file of ``torch.save`` and the bytes of its storages."""
    return _read_archive(path) if is_zipfile(path) else _read_sequence(path)


def _read_archive(path: Path) -> tuple[Any, Storages]:
    with ZipFile(path) as archive:
        value = _archived_pickle(archive)
        storages, left = {}, path.stat().st_size
        for member in archive.infolist():
            folder, _, key = member.filename.rpartition("/")
            if key == "byteorder":
                with archive.open(member) as file:
                    if file.read(8) != b"little":
                        raise ValueError("must hold numbers in little-endian order")
            if folder.endswith("/data"):
                size = member.file_size
                if member.compress_type != ZIP_STORED or size != member.compress_size:
                    raise ValueError(f"must hold tensors as they are, got {member.filename} compressed")
                with archive.open(member) as file:
                    storages[key] = _bytes_of(file, size, left)
                left -= size
    return value, storages


def _archived_pickle(archive: ZipFile) -> Any:
    members = [member for member in archive.infolist() if member.filename.endswith("/data.pkl")]
    if len(members) != 1:
        raise ValueError(f"must hold one file data.pkl, got {len(members)}")
    if members[0].flag_bits & 1 or members[0].compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise ValueError(
            "must hold a data.pkl that is neither encrypted nor packed in another way than by deflate"
        )
    if (size := members[0].file_size) > PICKLE_BYTES:
        raise ValueError(f"must hold a data.pkl of at most {PICKLE_BYTES:,} bytes, got {size:,}")
    with archive.open(members[0]) as file:
        return _pickle(BytesIO(file.read(PICKLE_BYTES)))


def _read_sequence(path: Path) -> tuple[Any, Storages]:
    """Read magic number, version, system, object, the storages' names in order, and the storages."""
    references = list[Any]()
    with path.open("rb") as file:
        pickles = BytesIO(file.read(PICKLE_BYTES))
        if _pickle(pickles) != MAGIC:
            raise ValueError("must be a file of torch.save")
        for _ in ("version", "system"):
            _pickle(pickles)
        value, names = _pickle(pickles, references), _pickle(pickles)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("must hold the names of its storages")
        stored = [reference for reference in references if reference[:1] == ("storage",)]
        formats = {reference[2]: _format_of(reference) for reference in stored}
        storages, total = {}, path.stat().st_size
        file.seek(pickles.tell())
        for name in names:
            (length,) = struct.unpack("<q", file.read(8))
            size = length * formats[name].itemsize if name in formats else length
            storages[name] = _bytes_of(file, size, total - file.tell())
    return value, storages


def _bytes_of(file: Any, size: int, left: int) -> Bytes:
    """Return the next bytes of a file, which has ``left`` of them at most."""
    if not 0 <= size <= left:
        raise ValueError(f"must be whole, got a storage of {size:,} bytes where {left:,} are left")
    content = torch.empty(size, dtype=torch.uint8)
    array, done = content.numpy(), 0
    while done < size and (read := file.readinto(array[done:])):
        done += read
    if done < size:
        raise ValueError(f"must be whole, got {done:,} of the {size:,} bytes of a storage")
    return content


def _pickle(file: BytesIO, references: list[Any] | None = None) -> Any:
    try:
        return pickled.read(file, references)
    except ValueError as error:
        raise ValueError(f"must be a whole file of torch.save: {error}") from error


def _format_of(reference: Any) -> torch.dtype:
    """Return the number format of ("storage", class, name, device, length, …)."""
    match reference:
        case ("storage", Name(name), str(), _, _, *view) if (
            view in ([], [None]) and (kind := name.rpartition(".")[2]) in DTYPES
        ):
            return DTYPES[kind]
        case (_, Name(name), *_):
            raise ValueError(f"must hold tensors of known kinds, got {name}")
    raise ValueError("must hold tensors of known kinds, got another")


def _tensor(item: Any, storages: Storages, made: dict[int, Tensor]) -> Tensor | None:
    """Return the tensor that a call would rebuild; None if it would make something else."""
    if not isinstance(item, Call) or not isinstance(item.function, Name):
        return None
    if id(item) not in made:
        function = item.function.name.removeprefix("torch._utils.")
        match function, item.arguments:
            case "_rebuild_parameter" | "_rebuild_parameter_with_state", (Call() as inner, *_):
                tensor = _tensor(inner, storages, made)
            case "_rebuild_tensor" | "_rebuild_tensor_v2", (Stored(reference), *layout):
                tensor = _placed(reference, storages, layout)
            case _ if function.startswith("_rebuild"):
                raise ValueError(f"must hold plain tensors, got one that {function} makes")
            case _:
                return None
        if tensor is None:
            raise ValueError("must hold parameters that are tensors")
        made[id(item)] = tensor
    return made[id(item)]


def _placed(reference: Any, storages: Storages, layout: list[Any]) -> Tensor:
    """Return a tensor of its storage: offset, size and strides must lie inside, and repeat no number."""
    dtype = _format_of(reference)
    content = storages.get(reference[2])
    if content is None or len(content) % dtype.itemsize:
        raise ValueError(f"must hold the storage {reference[2]!r:.20} whole")
    numbers = content.view(dtype)
    match layout:
        case [int(offset), tuple(size), tuple(stride), *_] if len(size) == len(stride):
            if all(type(one) is int and one >= 0 for one in (offset, *size, *stride)):
                last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
                if 0 in size:
                    return numbers.new_empty(size)
                if last < len(numbers) and prod(size) <= len(numbers):
                    return numbers.as_strided(size, stride, offset)
    raise ValueError("must hold tensors that lie inside their storages")


def _items(value: Any) -> dict[Any, Any] | None:
    """Return the entries of a dictionary, ordered or not; None for another value."""
    match value:
        case dict():
            return value
        case Call(Name("collections.OrderedDict"), ([*pairs],)):
            return {pair[0]: pair[1] for pair in pairs if isinstance(pair, list | tuple) and len(pair) == 2}
        case Call(Name("collections.OrderedDict"), ()):
            return value.items
    return None


def _module(value: Any, storages: Storages, made: dict[int, Tensor], seen: set[int], *, depth: int) -> Module:
    """Return the module whose attributes are the state of what a call would make, and its children."""
    if not isinstance(value, Call) or not isinstance(value.state, dict) or depth > 30:
        raise ValueError(f"must hold a module, got {_kind(value)}")
    if id(value) in seen:
        raise ValueError("must hold each module once")
    seen.add(id(value))
    parts = {
        name: _items(value.state.get(name, {})) or {} for name in ("_parameters", "_buffers", "_modules")
    }
    tensors = {
        name: tensor
        for name, item in {**parts["_parameters"], **parts["_buffers"]}.items()
        if (tensor := _tensor(item, storages, made)) is not None
    }
    children = {
        name: _module(child, storages, made, seen, depth=depth + 1)
        for name, child in parts["_modules"].items()
        if child is not None
    }
    return Module(value.state, tensors, children)


def _kind(value: Any) -> str:
    """Return a value's kind in words."""
    if isinstance(value, Call):
        return f"what {value.function.name} makes" if isinstance(value.function, Name) else "an object"
    return {dict: "a table", list: "a list", tuple: "a list", str: "text", type(None): "None"}.get(
        type(value), "a number" if isinstance(value, int | float) else "an object"
    )
