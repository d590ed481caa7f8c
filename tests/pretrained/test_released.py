import dataclasses
import json
import os
import pickle
import re
from collections import Counter, OrderedDict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from models import in_segments, small_config, some_tokens
from safetensors.torch import save_file
from support.released import KINDS, Hostile, random_model, write_released

from minitxl.data.tokenizer import Vocabulary
from minitxl.inference.config import EvaluateConfig
from minitxl.model import TransformerLM
from minitxl.pretrained.original import load_original, to_original
from minitxl.pretrained.released import (
    load_released,
    load_released_vocabulary,
    save_released,
    vocabulary_in,
)

every_kind = pytest.mark.parametrize("kind", KINDS)


def losses(model, mem_len=5):
    tokens = some_tokens(2, 12)
    return in_segments(model, tokens, [4, 4, 4], mem_len=mem_len)


def save(model, folder, **more):
    save_released(model, folder, EvaluateConfig(seg_len=4, mem_len=5), **more)
    return folder


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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_of_16_bits_stay_what_they_are(dtype):
    config, state = to_original(random_model("clamped", torch.float32))
    model = load_original(config, {name: tensor.to(dtype) for name, tensor in state.items()})
    assert {parameter.dtype for parameter in model.parameters()} == {dtype}


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


def with_second_names(state):
    """The tensors of "narrowing clusters" under the first names, and tied ones under the others too."""
    duplicates = {f"crit.out_layers.{i}.weight": state[f"word_emb.emb_layers.{i}.weight"] for i in range(3)}
    duplicates |= {f"crit.out_projs.{i}": state[f"word_emb.emb_projs.{i}"] for i in (1, 2)}
    duplicates |= {f"layers.{n}.dec_attn.{bias}": state[bias] for n in range(2) for bias in BIASES}
    return {**state, **duplicates}


BIASES = ("r_w_bias", "r_r_bias")


def test_tied_tensors_may_stand_under_each_of_their_names_or_one():
    config, state = to_original(random_model("narrowing clusters"))
    expected = losses(load_original(config, state))
    everywhere = with_second_names(state)
    assert torch.equal(losses(load_original(config, everywhere)), expected)
    lone = {name: tensor for name, tensor in everywhere.items() if name not in BIASES}
    assert torch.equal(losses(load_original(config, lone)), expected)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("crit.out_layers.1.weight", "word_emb.emb_layers.1.weight"),
        ("crit.out_projs.2", "word_emb.emb_projs.2"),
        ("layers.1.dec_attn.r_w_bias", "r_w_bias"),
    ],
)
def test_a_tied_tensor_that_differs_under_another_name_is_refused(name, first):
    config, state = to_original(random_model("narrowing clusters"))
    state = with_second_names(state)
    state[name] = state[name] + 1e-3
    sentence = f"^tensor {name} must equal {first}, to which the settings tie it, got other numbers$"
    with pytest.raises(ValueError, match=sentence):
        load_original(config, state)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        (
            "pre_layernorm",
            True,
            "pre_layernorm must be pre_lnorm, which is not given, to mean anything, got True",
        ),
        ("clamp_length", 7, "clamp_length must be clamp_len, which is not given, to mean anything, got 7"),
        ("layer_norm_eps", 0.1, "layer_norm_eps must be layer_norm_epsilon, which is not given, to mean"),
        ("quantization_config", {}, "quantization_config must be a key of the port to mean anything"),
    ],
)
def test_a_key_that_the_port_does_not_know_is_refused(released, name, value, sentence):
    folder, _, named = released
    save_file(named, folder / "model.safetensors")
    path = folder / "config.json"
    settings = json.loads(path.read_text())
    for known in ("pre_lnorm", "clamp_len", "layer_norm_epsilon"):
        settings.pop(known, None)
    path.write_text(json.dumps({**settings, "use_cache": True, "id2label": {"0": "LABEL_0"}}))
    load_released(folder)
    path.write_text(json.dumps({**settings, name: value}))
    with pytest.raises(ValueError, match=f"config.json: {sentence}"):
        load_released(folder)


def test_what_the_clusters_can_not_be_is_said_of_config_json(released):
    folder, _, _ = released
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"cutoffs": [4, 4]}))
    with pytest.raises(ValueError, match=r"config\.json: cutoffs must strictly increase"):
        load_released(folder)


def test_a_vocabulary_in_lower_case_is_refused_and_a_byte_order_mark_is_no_letter(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "vocab.txt").write_bytes(b"\xef\xbb\xbf<eos>\na\n")
    assert vocabulary_in(tmp_path) == ["<eos>", "a"]
    (tmp_path / "tokenizer_config.json").write_text('{"lower_case": false}')
    assert vocabulary_in(tmp_path) == ["<eos>", "a"]
    (tmp_path / "tokenizer_config.json").write_text('{"lower_case": true}')
    with pytest.raises(ValueError, match=r"tokenizer_config\.json: lower_case must be false, got True"):
        vocabulary_in(tmp_path)
    torch.save({"idx2sym": ["a"], "lower_case": True}, tmp_path / "vocab.pkl")
    (tmp_path / "tokenizer_config.json").unlink()
    with pytest.raises(ValueError, match=r"vocab\.pkl: lower_case must be false, got True"):
        vocabulary_in(tmp_path)


def test_projections_that_config_json_ties_by_tie_projs_alone_are_tied_so(released):
    """The port writes no proj_share_all_but_first, whose default would tie them all but the first."""
    folder, _, _ = released
    model = random_model("narrowing clusters, projections apart", torch.float32)
    write_released(folder, model, file="model.safetensors")
    path = folder / "config.json"
    settings = json.loads(path.read_text())
    del settings["proj_share_all_but_first"]
    path.write_text(json.dumps(settings | {"tie_projs": [False, True, False]}))
    loaded, _ = load_released(folder)
    assert loaded.config.tie_projections == (False, True, False)
    assert torch.equal(losses(loaded), losses(model))
    path.write_text(json.dumps(settings | {"tie_projs": [False, True, True]}))
    with pytest.raises(
        ValueError, match=r"model\.safetensors: tensor crit\.out_projs\.2 must equal word_emb"
    ):
        load_released(folder)


def test_the_epsilon_of_layer_norms_is_the_settings(released):
    folder, model, _ = released
    wide = TransformerLM(replace(model.config, layer_norm_eps=0.1)).eval()
    wide.load_state_dict(model.state_dict())
    save_released(wide, folder)
    loaded, _ = load_released(folder)
    assert loaded.config.layer_norm_eps == 0.1
    assert torch.equal(losses(loaded), losses(wide))
    assert not torch.allclose(losses(loaded), losses(model))
    with pytest.raises(ValueError, match=r"layer_norm_eps must be 1e-05 in the original code, got 0\.1"):
        to_original(wide)


@every_kind
def test_a_saved_model_is_loaded_unchanged_with_its_evaluation_settings(kind, tmp_path):
    model = random_model(kind, torch.float32)
    evaluate = EvaluateConfig(seg_len=128, mem_len=5)
    save_released(model, tmp_path / "new" / "folder", evaluate)
    loaded, settings = load_released(tmp_path / "new" / "folder")
    assert settings == evaluate
    assert torch.equal(losses(loaded), losses(model))


def test_saved_weights_in_which_a_bit_is_another_are_refused_by_name(tmp_path):
    save_released(random_model("plain", torch.float32), tmp_path)
    path = tmp_path / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged: .* do not match its SHA-256"):
        load_released(tmp_path)


def test_a_saved_vocabulary_is_loaded_with_its_model(tmp_path):
    model = random_model("plain", torch.float32)
    words = Vocabulary(("<eos>", "<unk>", *(f"wörd{n}" for n in range(model.config.vocab_size - 2))), "<unk>")
    assert vocabulary_in(save(model, tmp_path / "without")) is None
    folder = save(model, tmp_path / "with", vocabulary=words)
    assert vocabulary_in(folder) == list(words.symbols)
    assert (folder / "vocab.txt").read_bytes().startswith("<eos>\n<unk>\nwörd0\n".encode())
    (folder / "vocab.txt").write_text("<eos>\ntwo words\n")
    with pytest.raises(ValueError, match=r"vocab\.txt must hold one word a line, got 'two words' in line 2"):
        vocabulary_in(folder)


def test_a_model_without_a_vocabulary_is_not_saved_beside_anothers(tmp_path):
    model = random_model("plain", torch.float32)
    words = Vocabulary(tuple(f"w{n}" for n in range(model.config.vocab_size)))
    for _ in range(2):
        save(model, tmp_path, vocabulary=words)
    with pytest.raises(ValueError, match=r"no other vocabulary than the model's, got vocab\.txt"):
        save(model, tmp_path)


CHANGED = {
    "n_layer": 1,
    "d_inner": 24,
    "clamp_len": 2,
    "share_biases": False,
    "layer_norm_eps": 0.1,
    "d_embed": 6,
    "cutoffs": (3, 6),
    "tie_embeddings": False,
    "norm": "pre",
    "dropout": 0.3,
    "attention_dropout": 0.2,
}
"""Another value for fields that the format holds."""
REFUSED = {"activation": "gelu", "attention": "shaw", "final_norm": True, "clamp_len": 0}
"""Values that the format can't hold."""
NOT_KEPT = {"word_dropout": 0.1, "variational_dropout": True}
"""Settings of training alone, which the format lacks."""
ELSEWHERE = {
    *("vocab_size", "d_model", "n_head", "d_head", "div_val", "tie_projections"),  # of every_kind
    *("positions", "max_seg_len", "max_distance", "n_bucket", "bucket_distance"),  # other attentions'
}


def changed(**fields):
    config = small_config(attention="xl", norm="post", final_norm=False)
    more = {"norm": "pre"} if fields.get("final_norm") else {}
    torch.manual_seed(0)
    model = TransformerLM(replace(config, **more, **fields)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def test_every_field_of_a_model_is_written_or_refused_or_known_to_be_left_out(tmp_path):
    fields = {field.name for field in dataclasses.fields(TransformerLM(small_config()).config)}
    assert fields == {*CHANGED, *REFUSED, *NOT_KEPT} | ELSEWHERE


@pytest.mark.parametrize("name", [*CHANGED, *NOT_KEPT])
def test_a_changed_field_comes_back_in_both_formats(name, tmp_path):
    model = changed(**{name: (CHANGED | NOT_KEPT)[name]})
    released, _ = load_released(save(model, tmp_path))
    assert torch.equal(losses(released), losses(model))
    assert (getattr(released.config, name) == getattr(model.config, name)) == (name in CHANGED)
    if name != "layer_norm_eps":
        original = load_original(*to_original(model))
        assert torch.equal(losses(original.eval()), losses(model))


@pytest.mark.parametrize("name", REFUSED)
def test_a_field_that_the_formats_cannot_hold_is_refused(name, tmp_path):
    model = changed(**{name: REFUSED[name]})
    for write in (lambda: save(model, tmp_path / "new"), lambda: to_original(model)):
        with pytest.raises(ValueError, match=r"in the original code|has original names"):
            write()
    assert not (tmp_path / "new").exists()


def test_a_clamp_of_0_is_refused_where_evaluation_has_it(tmp_path):
    with pytest.raises(ValueError, match="clamp_len must be none, or 1 or more"):
        save_released(changed(), tmp_path / "new", EvaluateConfig(mem_len=5, clamp_len=0))


def test_an_empty_list_of_tied_projections_ties_none(tmp_path):
    model = changed(d_embed=6, cutoffs=(3, 6))
    path = save(model, tmp_path) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tie_projs": []}))
    assert torch.equal(losses(load_released(tmp_path)[0]), losses(model))


@pytest.mark.parametrize(
    ("symbols", "sentence"),
    [
        (["a"], "vocabulary must hold the model's {} words, got 1"),
        ([" ", "\n"], "vocabulary must be of words to be released, without spaces, got ' '"),
        (["a"], "{folder} must hold no other vocabulary than the model's, got vocab.bin"),
    ],
)
def test_a_vocabulary_that_would_not_be_the_one_read_is_not_saved(symbols, sentence, tmp_path):
    model = random_model("plain", torch.float32)
    size, folder = model.config.vocab_size, tmp_path / "new"
    if "other" in sentence:
        folder.mkdir()
        (folder / "vocab.bin").write_bytes(b"words")
    if "got 1" not in sentence:
        symbols = [*symbols, *(f"w{n}" for n in range(size - len(symbols)))]
    with pytest.raises(ValueError, match=f"^{re.escape(sentence.format(size, folder=folder))}$"):
        save(model, folder, vocabulary=Vocabulary(tuple(symbols)))
    assert not (folder / "config.json").exists()


def test_a_model_that_the_format_cannot_hold_is_not_saved(tmp_path):
    model = random_model("plain", torch.float32)
    with pytest.raises(ValueError, match="window must be none or mem_len = 5 to be released, got 3"):
        save_released(model, tmp_path / "new", EvaluateConfig(mem_len=5, window=3))
    with pytest.raises(ValueError, match="only a model with XL attention"):
        save_released(TransformerLM(small_config(attention="shaw")), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_memory_of_length_0_has_no_window(released):
    folder, model, _ = released
    write_released(folder, model, file="model.safetensors", mem_len=0)
    assert load_released(folder)[1] == EvaluateConfig(seg_len=128, mem_len=0)


def test_weights_that_do_not_fit_are_refused_by_name():
    config, state = to_original(random_model("plain"))
    name = "layers.1.dec_attn.r_net.weight"
    without = {key: value for key, value in state.items() if key != name}
    with pytest.raises(ValueError, match=f"^tensor {name} is missing from the weights$"):
        load_original(config, without)
    with pytest.raises(ValueError, match=r"^the weights must hold tensors of 2 layers, got 0 tensors$"):
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
        ({"n_heads": 2}, "n_heads is not a setting of a model of the original code, which are n_token"),
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
        with pytest.raises(ValueError, match=f"{file} must be a whole file of "):
            load_released(folder)


def test_a_hostile_pickle_is_refused_and_does_not_run(released, tmp_path):
    folder, _, _ = released
    trace = tmp_path / "it ran"
    torch.save({"transformer.x": Hostile(trace)}, folder / "pytorch_model.bin")
    with pytest.raises(
        ValueError, match=r"must hold a table of tensors by name, got what posix\.mkdir makes"
    ):
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


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"n_layer": "2"}, "n_layer must be a whole number, got '2'"),
        ({"n_layer": 10**9}, "n_layer must be at most 1,000, got 1000000000"),
        ({"n_layer": 900}, r".*the weights must hold tensors of 900 layers, got \d+ tensors"),
        ({"d_model": 2**40}, "d_model must be at most 1,048,576, got 1099511627776"),
        ({"vocab_size": 2**30}, r".*tensor word_emb.emb_layers.2.weight must have shape \(1073741817, 2\)"),
        ({"d_head": None}, "d_head must be a whole number, got None"),
        ({"cutoffs": "4, 7"}, "cutoffs must be a list, got '4, 7'"),
        ({"cutoffs": [4, "7"]}, r"cutoffs must be a whole number each, got \[4, '7'\]"),
        ({"cutoffs": [7, 4]}, r"cutoffs must strictly increase inside"),
        ({"dropout": float("nan")}, "dropout must be finite, got nan"),
        ({"dropout": 1.5}, r"dropout must be below 1, got 1\.5"),
        ({"layer_norm_epsilon": -1}, "layer_norm_epsilon must be 0 or more, got -1"),
        ({"same_length": 1}, "same_length must be true or false, got 1"),
        ({"mem_len": -1}, "mem_len must be 0 or more, got -1"),
        ({"mem_len": 10**15}, "mem_len must be at most 2,147,483,647, got 1000000000000000"),
        ({"attn_type": 1}, "attn_type and ext_len must be 0"),
        ({"ext_len": 5}, "attn_type and ext_len must be 0"),
        ({"sample_softmax": 8}, "sample_softmax must be 0 or less, the softmax of all words, got 8"),
        ({"tie_projs": [True] * 9}, "tie_projections must hold one flag for each of the 3 clusters"),
    ],
)
def test_settings_of_other_types_and_ranges_are_refused_by_file_and_name(change, sentence, released):
    folder, _, named = released
    save_file(named, folder / "model.safetensors")
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=rf"(config\.json|model\.safetensors): {sentence}"):
        load_released(folder)


@pytest.mark.parametrize("content", ["null", "42", "[]", '"x"', "[" * 100_000, "{", ""])
def test_settings_that_are_no_object_are_refused(content, released):
    folder, _, _ = released
    (folder / "config.json").write_text(content)
    with pytest.raises(ValueError, match=r"config\.json(: the content must be an object| must be JSON)"):
        load_released(folder)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (torch.zeros(3, 3, dtype=torch.int64), "must hold numbers of float16 to float64, got strided int64"),
        (
            torch.zeros(3, 3, dtype=torch.complex64),
            "must hold numbers of float16 to float64, got .*complex64",
        ),
        (torch.zeros(3, 3).to(torch.float8_e4m3fn), "must hold numbers of float16 to float64, got .*float8"),
        (torch.eye(3).to_sparse(), "must hold numbers of float16 to float64, got sparse_coo float32"),
        (torch.zeros(3, 3, device="meta"), "must hold numbers of float16 to float64, got no numbers"),
        (torch.tensor([1.0, float("nan")]), "must hold finite numbers, got nan"),
        (torch.tensor([float("-inf")]), "must hold finite numbers, got -inf"),
        (None, "must be a tensor or an array, got NoneType"),
        ("text", "must be a tensor or an array, got str"),
    ],
)
def test_weights_that_are_no_finite_floating_point_numbers_are_refused(value, sentence):
    config, state = to_original(random_model("plain"))
    name = "layers.1.dec_attn.r_net.weight"
    with pytest.raises(ValueError, match=f"{name} {sentence}"):
        load_original(config, {**state, name: value})


def test_weights_of_mixed_formats_are_loaded_in_the_widest():
    config, state = to_original(random_model("plain", torch.float32))
    mixed = {name: tensor.double() if "r_net" in name else tensor.half() for name, tensor in state.items()}
    model = load_original(config, mixed)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float64}


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "pytorch_model.bin", "vocab.bin"])
def test_a_file_that_is_a_pipe_or_a_folder_is_refused_and_not_waited_for(file, released):
    folder, _, named = released
    if file in ("config.json", "vocab.bin"):
        save_file(named, folder / "model.safetensors")
    (folder / file).unlink(missing_ok=True)
    for make, kind in ((os.mkfifo, "a named pipe"), (os.mkdir, "a folder")):
        make(folder / file)
        with pytest.raises(ValueError, match=f"{file} must be a plain file, got {kind}"):
            vocabulary_in(folder) if file == "vocab.bin" else load_released(folder)
        os.rmdir(folder / file) if kind == "a folder" else os.unlink(folder / file)


def test_the_settings_of_another_kind_of_model_are_refused(released):
    folder, _, _ = released
    (folder / "config.json").write_text('{"model_type": "bert", "vocab_size": 3}')
    with pytest.raises(ValueError, match=r"config\.json: model_type must be transfo-xl, got 'bert'$"):
        load_released(folder)


def test_a_name_that_is_no_folder_and_no_repository_is_refused(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ValueError, match="is neither a folder nor a hub repository that can be reached"):
        load_released("no such place/at all")
