import json
import os
import random
from dataclasses import asdict

import pytest
import torch
from models import ENCODINGS, NORMS, small_model, some_tokens
from safetensors.torch import save_file

from minitxl.files import atomic_write
from minitxl.training import checkpoints


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("norm", NORMS)
def test_a_saved_model_comes_back_the_same_with_its_ties(encoding, norm, tmp_path):
    model, tokens = small_model(norm=norm, **ENCODINGS[encoding]).eval(), some_tokens(2, 5)
    checkpoints.save_model(tmp_path / "model", model)
    loaded = checkpoints.load_model(tmp_path / "model")
    assert loaded.config == model.config
    assert torch.equal(loaded(tokens)[0], model(tokens)[0])
    assert loaded.output.tables[0].weight is loaded.embedding.tables[0].weight
    assert not loaded.training


def test_a_model_is_saved_and_loaded_by_a_path_that_is_a_plain_string_too(tmp_path):
    model, tokens = small_model().eval(), some_tokens(2, 5)
    checkpoints.save_model(f"{tmp_path}/model.safetensors", model)
    loaded = checkpoints.load_model(f"{tmp_path}/model.safetensors")
    assert torch.equal(loaded(tokens)[0], model(tokens)[0])
    with pytest.raises(ValueError, match="nowhere must be a plain file"):
        checkpoints.load_model(f"{tmp_path}/nowhere")
    with pytest.raises(ValueError, match=r"got a folder: the model of a run is run_folder\.trained"):
        checkpoints.load_model(tmp_path)


def test_the_same_model_gives_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        checkpoints.save_model(tmp_path / name, small_model())
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model"
    checkpoints.save_model(path, small_model())
    return path


def test_a_truncated_checkpoint_is_refused(saved):
    saved.write_bytes(saved.read_bytes()[:-9])
    with pytest.raises(ValueError, match="model is not a whole checkpoint"):
        checkpoints.load_model(saved)


def test_a_flipped_bit_is_noticed(saved):
    damaged = bytearray(saved.read_bytes())
    damaged[-100] ^= 1
    saved.write_bytes(damaged)
    with pytest.raises(ValueError, match="model is damaged"):
        checkpoints.load_model(saved)


def test_a_missing_file_and_a_foreign_one_are_refused(tmp_path):
    with pytest.raises(ValueError, match="nowhere must be a plain file, got none"):
        checkpoints.load_model(tmp_path / "nowhere")
    save_file({"a": torch.zeros(1)}, tmp_path / "foreign")
    with pytest.raises(ValueError, match="was not written by minitxl"):
        checkpoints.load_model(tmp_path / "foreign")


def test_a_tensor_that_does_not_fit_is_named():
    model = small_model()
    tensors = checkpoints.model_tensors(model)
    missing = {name: tensor for name, tensor in tensors.items() if "blocks.1.attention.W_q" not in name}
    with pytest.raises(
        ValueError, match=r"blocks.1.attention.W_q.weight does not fit: the checkpoint lacks it"
    ):
        checkpoints.copy_model_tensors(missing, model)
    with pytest.raises(ValueError, match="tensor extra does not fit: the model has none"):
        checkpoints.copy_model_tensors({**tensors, "model.extra": torch.zeros(1)}, model)
    wrong = {**tensors, "model.output.tables.0.bias": torch.zeros(3)}
    with pytest.raises(ValueError, match=r"output.tables.0.bias must have shape \(11,\), got \(3,\)"):
        checkpoints.copy_model_tensors(wrong, model)


def test_an_error_while_writing_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def write_half():
        with atomic_write(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError("full")

    with pytest.raises(RuntimeError, match="full"):
        write_half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_description_is_read_as_it_was_written(tmp_path):
    about = {"model": {"n_layer": 2}, "step": 3}
    checkpoints.write(tmp_path / "file", {"x": torch.arange(3)}, about)
    tensors, read = checkpoints.read(tmp_path / "file")
    assert read == json.loads(json.dumps(about))
    assert torch.equal(tensors["x"], torch.arange(3))


def flips(content, bits):
    """Each copy of the bytes that differs in one of these bits."""
    for bit in bits:
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        yield bytes(damaged)


def test_every_flipped_bit_of_the_description_is_refused_or_changes_nothing(tmp_path, monkeypatch):
    about = {
        "model": asdict(small_model().config),
        "step": 30,
        "rate": 1e-3,
        "text": {"name": "Thé", "unit": None},
    }
    written = []

    def save_file(tensors, path, metadata):
        path.touch()
        written.append(metadata)

    monkeypatch.setattr(checkpoints, "save_file", save_file)
    checkpoints.write(tmp_path / "file", {"x": torch.arange(3)}, about)
    content = written[0]["minitxl"].encode()
    digest = checkpoints.tensor_digest({"x": torch.arange(3)})
    about = json.loads(json.dumps(about))
    assert checkpoints.description(content.decode(), digest, tmp_path) == about
    refused = 0
    for damaged in flips(content, range(8 * len(content))):
        try:
            text = damaged.decode()  # what is no UTF-8 never comes this far: safetensors refuses the file
            assert checkpoints.description(text, digest, tmp_path) == about
        except UnicodeDecodeError:
            continue
        except ValueError as error:
            assert str(error).startswith(f"{tmp_path} is damaged: ")  # noqa: PT017
            refused += 1
    assert refused > 6 * len(content)


def test_a_flipped_bit_anywhere_in_the_file_is_refused_or_changes_nothing(saved):
    content, before = saved.read_bytes(), checkpoints.read(saved)
    draw = random.Random(3)
    header = 8 * (8 + int.from_bytes(content[:8], "little"))
    bits = [
        *range(64),
        *draw.sample(range(64, header), 400),
        *draw.sample(range(header, 8 * len(content)), 100),
    ]
    for damaged in flips(content, bits):
        saved.write_bytes(damaged)
        try:
            tensors, about = checkpoints.read(saved)
        except ValueError as error:
            assert str(saved) in str(error)  # noqa: PT017
        else:
            assert about == before[1]
            assert tensors.keys() == before[0].keys()
            assert all(torch.equal(tensor, before[0][name]) for name, tensor in tensors.items())


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused_by_name(value, tmp_path):
    model = small_model()
    with torch.no_grad():
        model.blocks[1].attention.W_q.weight[2, 1] = value
    checkpoints.save_model(tmp_path / "model", model)
    with pytest.raises(ValueError, match=r"model: tensor model.blocks.1.attention.W_q.weight must be finite"):
        checkpoints.load_model(tmp_path / "model")


def test_weights_that_are_whole_numbers_are_refused(tmp_path):
    model = small_model()
    tensors = {name: tensor.long() for name, tensor in checkpoints.model_tensors(model).items()}
    checkpoints.write(tmp_path / "model", tensors, {"model": asdict(model.config)})
    with pytest.raises(
        ValueError, match=r"model: the model's tensors must be floating point, got torch.int64"
    ):
        checkpoints.load_model(tmp_path / "model")


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (None, "the content must be an object of names and values, got None"),
        ({"n_layer": "two"}, "n_layer must be a whole number, got 'two'"),
        ({"n_layers": 2}, "each name must be one of vocab_size, .*, got 'n_layers'"),
        ({"cutoffs": [0, -1]}, "cutoffs must strictly increase"),
    ],
)
def test_a_description_that_fits_no_model_is_refused_with_its_file(model, sentence, tmp_path):
    tensors = checkpoints.model_tensors(small_model())
    checkpoints.write(tmp_path / "file", tensors, {"model": model})
    with pytest.raises(ValueError, match=f"file: {sentence}"):
        checkpoints.load_model(tmp_path / "file")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe must be a plain file, got a named pipe"):
        checkpoints.load_model(tmp_path / "pipe")
