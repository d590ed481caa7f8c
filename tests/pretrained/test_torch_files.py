"""Files of ``torch.save`` are read as torch reads them, and nothing in them is run."""

import pickle
import struct
import zlib
from collections import OrderedDict
from io import BytesIO
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_STORED, ZipFile

import pytest
import torch
from support.released import Hostile
from torch import nn

from minitxl.pretrained import torch_files
from minitxl.pretrained.pickled import INSTRUCTIONS
from minitxl.pretrained.torch_files import read_module, read_objects, read_tensors

every_format = pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before 1.6"])
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool]


def saved(value, path, *, zipped=True):
    torch.save(value, path, _use_new_zipfile_serialization=zipped)
    return path


@every_format
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_are_what_was_saved(dtype, zipped, tmp_path):
    whole = torch.randn(6, 5).mul(3).to(dtype)
    table = {
        "whole": whole,
        "a view that begins later": whole[2:, 1:3],
        "transposed": whole.T,
        "one number": whole[0, 0],
        "empty": whole[:0],
        "a parameter": nn.Parameter(whole.float()),
    }
    for kind in (dict, OrderedDict):
        read = read_tensors(saved(kind(table), tmp_path / "x", zipped=zipped))
        assert read.keys() == table.keys()
        for name, tensor in table.items():
            assert read[name].dtype == tensor.dtype
            assert torch.equal(read[name], tensor.detach()), name


@every_format
def test_a_module_is_read_with_attributes_children_and_shared_tensors(zipped, tmp_path):
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.25), nn.Linear(3, 3, bias=False), nn.BatchNorm1d(3))
    model[2].weight = model[0].weight
    module = read_module(saved(model, tmp_path / "x", zipped=zipped))
    state = dict(module.state())
    assert state.keys() == model.state_dict().keys()
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())
    assert state["0.weight"] is state["2.weight"]
    assert module.children["1"].attributes["p"] == 0.25


@every_format
def test_what_a_class_would_run_is_not_run(zipped, tmp_path):
    trace = tmp_path / "it ran"
    linear = nn.Linear(2, 2)
    linear.hostile = Hostile(trace)
    module = read_module(saved(linear, tmp_path / "x", zipped=zipped))
    assert dict(module.state()).keys() == {"weight", "bias"}
    for value in (Hostile(trace), {"x": Hostile(trace)}, [Hostile(trace)]):
        for read in (read_tensors, read_module):
            with pytest.raises(ValueError, match=r"must hold a (table of tensors by name|module), got "):
                read(saved(value, tmp_path / "x", zipped=zipped))
    assert not trace.exists()


@every_format
@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (None, "a table of tensors by name, got None"),
        ([torch.zeros(2)], "a table of tensors by name, got a list"),
        (torch.zeros(2), "a table of tensors by name, got what torch._utils._rebuild_tensor_v2 makes"),
        ({"a": {"b": torch.zeros(2)}}, "a table of tensors by name, got a table at 'a'"),
        ({"a": 3}, "a table of tensors by name, got a number at 'a'"),
        ({"a": "b"}, "a table of tensors by name, got text at 'a'"),
        ({3: torch.zeros(2)}, "a table of tensors by name, got .* at 3"),
        (
            {"a": torch.zeros(2, dtype=torch.complex64)},
            "tensors of known kinds, got torch.ComplexFloatStorage",
        ),
        ({"a": torch.zeros(2).to(torch.float8_e5m2)}, "(plain tensors|tensors of known kinds), got"),
        ({"a": torch.eye(2).to_sparse()}, "plain tensors, got one that _rebuild_sparse_tensor makes"),
        ({"a": torch.zeros(1).expand(10**12)}, "tensors that lie inside their storages"),
    ],
)
def test_what_is_no_table_of_plain_tensors_is_refused(value, sentence, zipped, tmp_path):
    with pytest.raises(ValueError, match=f"/x must hold {sentence}"):
        read_tensors(saved(value, tmp_path / "x", zipped=zipped))


@every_format
def test_a_file_cut_anywhere_or_with_a_bit_flipped_is_read_right_or_refused_in_a_sentence(zipped, tmp_path):
    path = saved({"a": torch.arange(4.0)}, tmp_path / "x", zipped=zipped)
    content = path.read_bytes()
    for size in range(0, len(content), 7):
        path.write_bytes(content[:size])
        with pytest.raises(ValueError, match=r"/x must "):
            read_tensors(path)
    for bit in range(0, 8 * len(content), 61):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            read_tensors(path)
        except ValueError as error:
            assert str(error).startswith(f"{path} must ")  # noqa: PT017


def forged(path, pickle_bytes, storage=bytes(16), method=ZIP_STORED, members=1):
    with ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", pickle_bytes, method if members == 1 else ZIP_STORED)
        for member in range(members):
            archive.writestr(f"x/data/{member}", storage)
    return path


def tensor_pickle(numel=4, offset=0, size=(4,), stride=(1,), key="0"):
    """The pickle of {"a": tensor} with any claim about storage and place."""

    class Reference:
        pass

    class Pickler(pickle.Pickler):
        def persistent_id(self, item):
            return ("storage", torch.FloatStorage, key, "cpu", numel) if isinstance(item, Reference) else None

    class Rebuilt:
        def __reduce__(self):
            return torch._utils._rebuild_tensor_v2, (Reference(), offset, size, stride, False, OrderedDict())

    stream = BytesIO()
    Pickler(stream, protocol=2).dump({"a": Rebuilt()})
    return stream.getvalue()


@pytest.mark.parametrize(
    ("claim", "sentence"),
    [
        ({"size": (5,)}, "lie inside their storages"),
        ({"offset": 1}, "lie inside their storages"),
        ({"offset": -1}, "lie inside their storages"),
        ({"stride": (-1,)}, "lie inside their storages"),
        ({"size": (2**62,), "stride": (0,)}, "lie inside their storages"),
        ({"size": (2, 2)}, "lie inside their storages"),
        ({"size": ("4",)}, "lie inside their storages"),
        ({"key": "9"}, "hold the storage '9' whole"),
        ({"key": "../0"}, "hold the storage '../0' whole"),
    ],
)
def test_a_tensor_outside_its_storage_is_refused(claim, sentence, tmp_path):
    assert torch.equal(read_tensors(forged(tmp_path / "x", tensor_pickle()))["a"], torch.zeros(4))
    assert read_tensors(forged(tmp_path / "x", tensor_pickle(size=(0, 3), stride=(3, 1))))["a"].shape == (
        0,
        3,
    )
    with pytest.raises(ValueError, match=sentence):
        read_tensors(forged(tmp_path / "x", tensor_pickle(**claim)))


@pytest.mark.parametrize(
    "pickle_bytes",
    [
        b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b"x.",
        b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b"x.",
        b"\x8b" + struct.pack("<i", 2**31 - 1) + b"x.",
        b"I" + b"9" * 5000 + b"\n.",
        b"]" * 1000,
        b"Nr\xff\xff\xff\xff.",
        b"}\x8c\x01a]s]]s.",
    ],
)
def test_a_pickle_that_claims_more_than_it_has_is_refused(pickle_bytes, tmp_path):
    with pytest.raises(ValueError, match=r"/x must "):
        read_tensors(forged(tmp_path / "x", pickle_bytes))
    (tmp_path / "y").write_bytes(pickle_bytes)
    with pytest.raises(ValueError, match=r"/y "):
        read_tensors(tmp_path / "y")


def test_a_pickle_of_too_many_instructions_or_bytes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("minitxl.pretrained.pickled.INSTRUCTIONS", 100)
    with pytest.raises(ValueError, match="a pickle must have at most 100 instructions"):
        read_tensors(forged(tmp_path / "x", b")0" * 100 + b"N."))
    assert INSTRUCTIONS >= 5_000_000
    monkeypatch.setattr(torch_files, "PICKLE_BYTES", 1000)
    bomb = forged(tmp_path / "x", b")0" * 10_000, method=ZIP_DEFLATED)
    for read in (read_tensors, read_module, read_objects):
        with pytest.raises(ValueError, match=r"data\.pkl of at most 1,000 bytes, got 20,000"):
            read(bomb)
    (tmp_path / "y").write_bytes(b")0" * 10_000)
    with pytest.raises(ValueError, match="y must have at most 1,000 bytes, got 20,000"):
        read_objects(tmp_path / "y")


def test_archives_of_other_kinds_are_refused(tmp_path):
    path = tmp_path / "x"
    with pytest.raises(ValueError, match="neither encrypted nor packed in another way"):
        read_tensors(forged(path, tensor_pickle(), method=ZIP_BZIP2))
    content = bytearray(forged(path, tensor_pickle()).read_bytes())
    for signature, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + at] |= 1  # says that the first member is encrypted
    path.write_bytes(content)
    for read in (read_tensors, read_objects):
        with pytest.raises(ValueError, match="neither encrypted nor packed in another way"):
            read(path)
    with ZipFile(path, "w") as archive:
        archive.writestr("x/other", b"")
    with pytest.raises(ValueError, match=r"must hold one file data\.pkl, got 0"):
        read_tensors(path)
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        archive.writestr("x/data.pkl", tensor_pickle())
        archive.writestr("x/data/0", bytes(10**6))
    with pytest.raises(ValueError, match="must hold tensors as they are, got x/data/0 compressed"):
        read_tensors(path)
    with ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", tensor_pickle())
        archive.writestr("x/byteorder", b"big")
    with pytest.raises(ValueError, match="little-endian"):
        read_tensors(path)


def test_members_that_share_their_bytes_are_not_read_over_and_over(tmp_path):
    """A small archive whose directory lists one large member many times."""
    path = tmp_path / "x"
    with ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", tensor_pickle())
        archive.writestr("x/data/0", bytes(10**6))
        (member,) = (one for one in archive.infolist() if one.filename == "x/data/0")
        archive.filelist.extend([member] * 100)
    with pytest.raises(ValueError, match=r"got a storage of 1,000,000 bytes where [\d,]+ are left"):
        read_tensors(path)


def test_a_damaged_storage_is_noticed(tmp_path):
    path = saved({"a": torch.arange(1000.0)}, tmp_path / "x")
    content = bytearray(path.read_bytes())
    at = content.index(torch.arange(1000.0).numpy().tobytes()[400:800])
    content[at] ^= 1
    path.write_bytes(content)
    assert zlib.crc32(content)
    with pytest.raises(ValueError, match="Bad CRC-32"):
        read_tensors(path)
