import json
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
    with pytest.raises(ValueError, match="nowhere is not a whole checkpoint"):
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


def test_settings_that_were_stored_under_another_name_are_read(tmp_path):
    model = small_model(share_biases=False, norm="pre", final_norm=False, variational_dropout=True)
    older = {new: old for old, new in checkpoints.RENAMED.items()}
    about = {older.get(name, name): value for name, value in asdict(model.config).items()}
    checkpoints.write(tmp_path / "file", checkpoints.model_tensors(model), {"model": about})
    assert checkpoints.load_model(tmp_path / "file").config == model.config
