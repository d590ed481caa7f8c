import pickle
from collections import Counter, OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from models import in_segments, small_config, some_tokens
from safetensors.torch import save_file
from support.released import KINDS, Hostile, random_model, write_released

from minitxl.inference.config import EvaluateConfig
from minitxl.model import TransformerLM
from minitxl.pretrained.original import load_original, to_original
from minitxl.pretrained.released import load_released, load_released_vocabulary

every_kind = pytest.mark.parametrize("kind", KINDS)


def losses(model, mem_len=5):
    tokens = some_tokens(2, 12)
    return in_segments(model, tokens, [4, 4, 4], mem_len=mem_len)


@every_kind
@pytest.mark.parametrize("cluster_order", ["original", "released"])
def test_a_model_goes_to_the_original_names_and_back_unchanged(kind, cluster_order):
    model = random_model(kind)
    config, state = to_original(model, cluster_order=cluster_order)
    back = load_original(config, state, cluster_order=cluster_order)
    assert back.config == model.config
    assert torch.equal(losses(back), losses(model))
    again = to_original(back, cluster_order=cluster_order)[1]
    assert state.keys() == again.keys()
    assert all(torch.equal(state[name], again[name]) for name in state)


def test_names_and_shapes_are_the_originals():
    _, state = to_original(random_model("narrowing clusters"))
    assert {
        name: tuple(tensor.shape) for name, tensor in state.items() if not name.startswith("layers.1.")
    } == {
        "r_w_bias": (2, 3),
        "r_r_bias": (2, 3),
        "word_emb.emb_layers.0.weight": (4, 8),
        "word_emb.emb_layers.1.weight": (3, 4),
        "word_emb.emb_layers.2.weight": (4, 2),
        "word_emb.emb_projs.0": (8, 8),
        "word_emb.emb_projs.1": (8, 4),
        "word_emb.emb_projs.2": (8, 2),
        "layers.0.dec_attn.qkv_net.weight": (18, 8),
        "layers.0.dec_attn.r_net.weight": (6, 8),
        "layers.0.dec_attn.o_net.weight": (8, 6),
        "layers.0.dec_attn.layer_norm.weight": (8,),
        "layers.0.dec_attn.layer_norm.bias": (8,),
        "layers.0.pos_ff.CoreNet.0.weight": (12, 8),
        "layers.0.pos_ff.CoreNet.0.bias": (12,),
        "layers.0.pos_ff.CoreNet.3.weight": (8, 12),
        "layers.0.pos_ff.CoreNet.3.bias": (8,),
        "layers.0.pos_ff.layer_norm.weight": (8,),
        "layers.0.pos_ff.layer_norm.bias": (8,),
        "crit.cluster_weight": (2, 8),
        "crit.cluster_bias": (2,),
        "crit.out_layers.0.bias": (4,),
        "crit.out_layers.1.bias": (3,),
        "crit.out_layers.2.bias": (4,),
        "crit.out_projs.0": (8, 8),
    }


def test_the_two_orders_of_the_clusters_are_not_the_same_model():
    config, state = to_original(random_model("clusters of one width"), cluster_order="original")
    as_it_is, turned = (
        load_original(config, state, cluster_order=order) for order in ("original", "released")
    )
    assert not torch.allclose(losses(as_it_is), losses(turned))


def test_arrays_are_accepted_and_their_dtype_is_kept():
    for dtype in (torch.float32, torch.float64):
        config, state = to_original(random_model("clamped", dtype))
        arrays = {name: tensor.numpy() for name, tensor in state.items()}
        arrays["pos_emb.inv_freq"] = np.ones(4)
        model = load_original(config, arrays)
        assert model.config.clamp_len == 3
        assert {parameter.dtype for parameter in model.parameters()} == {dtype}
        assert model(some_tokens(1, 3))[0].dtype == dtype


def test_settings_of_training_and_evaluation_are_accepted_and_not_part_of_the_model():
    config, state = to_original(random_model("plain"))
    other = {
        "tgt_len": 4,
        "ext_len": 0,
        "mem_len": 7,
        "same_length": True,
        "sample_softmax": -1,
        "attn_type": 0,
    }
    assert load_original({**config, **other}, state).config == load_original(config, state).config


def test_second_names_of_tied_tensors_are_ignored():
    config, state = to_original(random_model("narrowing clusters"))
    duplicates = {f"crit.out_layers.{i}.weight": state[f"word_emb.emb_layers.{i}.weight"] for i in range(3)}
    duplicates |= {f"crit.out_projs.{i}": state[f"word_emb.emb_projs.{i}"] for i in (1, 2)}
    duplicates |= {f"layers.{n}.dec_attn.r_w_bias": state["r_w_bias"] for n in range(2)}
    assert torch.equal(
        losses(load_original(config, {**state, **duplicates})), losses(load_original(config, state))
    )


def test_weights_that_do_not_fit_are_refused_by_name():
    config, state = to_original(random_model("plain"))
    name = "layers.1.dec_attn.r_net.weight"
    without = {key: value for key, value in state.items() if key != name}
    with pytest.raises(ValueError, match=f"^tensor {name} is missing from the weights$"):
        load_original(config, without)
    with pytest.raises(ValueError, match=r"^tensor .* is missing from the weights$"):
        load_original(config, {})
    with pytest.raises(ValueError, match=rf"^tensor {name} must have shape \(6, 8\), got \(6, 7\)$"):
        load_original(config, {**state, name: torch.zeros(6, 7).double()})
    with pytest.raises(ValueError, match=r"^tensor layers\.9\.x has no place in a model of these settings$"):
        load_original(config, {**state, "layers.9.x": torch.zeros(1)})


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"attn_type": 2}, "attn_type and ext_len must be 0"),
        ({"ext_len": 4}, "attn_type and ext_len must be 0"),
        ({"n_heads": 2}, "n_heads is not a setting of the original code"),
    ],
)
def test_settings_that_are_not_transformer_xls_are_refused(setting, message):
    config, state = to_original(random_model("plain"))
    with pytest.raises(ValueError, match=message):
        load_original({**config, **setting}, state)


def test_a_model_the_original_has_no_names_for_is_refused():
    for settings in ({"attention": "absolute"}, {"attention": "xl", "norm": "pre"}):
        with pytest.raises(ValueError, match="only a model with XL attention"):
            to_original(TransformerLM(small_config(**settings)))


@pytest.fixture
def released(tmp_path):
    """A folder in the hub's format without weights, the model, and its weights."""
    model = random_model("narrowing clusters", torch.float32)
    return tmp_path, model, write_released(tmp_path, model)


@pytest.mark.parametrize("file", ["model.safetensors", "pytorch_model.bin"])
def test_released_weights_are_read_from_a_folder_with_their_evaluation_settings(released, file):
    folder, model, named = released
    (save_file if file.endswith("safetensors") else torch.save)(named, folder / file)
    loaded, settings = load_released(folder)
    assert loaded.config.cutoffs == (4, 7)
    assert settings == EvaluateConfig(seg_len=128, mem_len=5, window=5)
    torch.testing.assert_close(losses(loaded), losses(model), rtol=0, atol=0)


def test_a_truncated_or_missing_file_of_weights_is_refused(released):
    folder, _, named = released
    with pytest.raises(ValueError, match=r"must hold model\.safetensors or pytorch_model\.bin"):
        load_released(folder)
    for file, save in (("pytorch_model.bin", torch.save), ("model.safetensors", save_file)):
        path = folder / file
        save(named, path)
        path.write_bytes(path.read_bytes()[:-10])
        with pytest.raises(ValueError, match=f"{file} is not a whole file of plain tensors"):
            load_released(folder)


def test_a_hostile_pickle_is_refused_and_does_not_run(released, tmp_path):
    folder, _, _ = released
    trace = tmp_path / "it ran"
    torch.save({"transformer.x": Hostile(trace)}, folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match="is not a whole file of plain tensors"):
        load_released(folder)
    for value in ({"idx2sym": Hostile(trace)}, {"idx2sym": ["a", Hostile(trace)]}, Hostile(trace)):
        for write in WRITERS.values():
            write(value, tmp_path / "vocab.bin")
            with pytest.raises(ValueError, match=r"is not a vocabulary of plain|must hold a list of words"):
                load_released_vocabulary(tmp_path / "vocab.bin")
    assert not trace.exists()


def pickled_by(protocol):
    return lambda value, path: path.write_bytes(pickle.dumps(value, protocol))


WRITERS = {f"pickle {protocol}": pickled_by(protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)}
WRITERS |= {
    "torch": torch.save,
    "torch before 1.6": lambda value, path: torch.save(value, path, _use_new_zipfile_serialization=False),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_released_vocabulary_is_read_in_the_order_of_its_ids(tmp_path, writer, monkeypatch):
    words = ["<eos>", "the", "of", "Senjō", *(f"word {number}" for number in range(2500))]
    stored = {
        "counter": Counter({"the": 5}),
        "special": ["<eos>"],
        "max_size": None,
        "lower_case": False,
        "sym2idx": OrderedDict((word, index) for index, word in enumerate(words)),
        "idx2sym": words,
        "unk_idx": 24,
        "odd": [{1, 2}, frozenset(), (1, 2, 3), b"bytes", 1.5, 1 << 100, Path("x"), ("a",), ()],
    }
    WRITERS[writer](stored, tmp_path / "vocab")
    WRITERS[writer]({"words": words}, tmp_path / "other")
    for module in (pickle, torch):
        monkeypatch.setattr(module, "load", None)
    assert load_released_vocabulary(tmp_path / "vocab") == words
    with pytest.raises(ValueError, match="must hold a list of words named idx2sym"):
        load_released_vocabulary(tmp_path / "other")


@pytest.mark.parametrize("words", [["<eos>", "'Enquêtes", "日本"], ["<eos>", "Ãªté", "日本"], ["<eos>", "é"]])
def test_words_that_python_2_kept_as_bytes_are_put_together_again(tmp_path, words):
    """As the released ones are: their UTF-8 was read as Latin-1."""
    torch.save({"idx2sym": [word.encode().decode("latin-1") for word in words]}, tmp_path / "bytes")
    torch.save({"idx2sym": words}, tmp_path / "texts")
    assert load_released_vocabulary(tmp_path / "bytes") == words
    assert load_released_vocabulary(tmp_path / "texts") == words


@pytest.mark.parametrize(
    "content", [b"", b"no pickle", b".", b"0.", b"h\x05.", b"(u.", b"]a.", b"\x80\x04", b"PK"]
)
def test_a_file_that_is_no_vocabulary_is_refused(tmp_path, content):
    (tmp_path / "vocab.bin").write_bytes(content)
    with pytest.raises(ValueError, match=r"vocab\.bin is not a vocabulary of plain containers"):
        load_released_vocabulary(tmp_path / "vocab.bin")


def test_the_settings_of_another_kind_of_model_are_refused(released):
    folder, _, _ = released
    (folder / "config.json").write_text('{"model_type": "bert", "vocab_size": 3}')
    with pytest.raises(ValueError, match=r"config\.json must be that of a Transformer-XL, got no cutoffs$"):
        load_released(folder)


def test_a_name_that_is_no_folder_and_no_repository_is_refused(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ValueError, match="is neither a folder nor a hub repository that can be reached"):
        load_released("no such place/at all")
