"""Models by the names of the original PyTorch code, which released weights have too.

original             here                      original                 here
qkv_net (3 parts)    W_q, W_kE, W_v            r_w_bias, r_r_bias       u, v
r_net, o_net         W_kR, W_o                 dec_attn.layer_norm      norm_attention
CoreNet.0, .3        inner.0, .3               pos_ff.layer_norm        norm_inner
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from minitxl.config import ModelConfig
from minitxl.model import TransformerLM
from minitxl.training.checkpoints import MODEL, copy_model_tensors

ClusterOrder = Literal["original", "released"]
"""Rows of cluster_weight: last cluster first in the original PyTorch code; first cluster
first in the Hugging Face and TensorFlow code, and so in the released weights."""

IGNORED = {"tgt_len", "ext_len", "mem_len", "same_length", "sample_softmax", "attn_type"}


@dataclass(frozen=True)
class Place:
    """Where a parameter of ours stands among the original tensors: a part of the rows of one."""

    name: str
    part: int = 0
    parts: int = 1


def load_original(
    config: Mapping[str, Any], state: Mapping[str, Any], *, cluster_order: ClusterOrder = "original"
) -> TransformerLM:
    """Return a model from the original PyTorch code's configuration keys and parameter names.

    ``state`` holds tensors or arrays, whose dtype is kept. ``inv_freq`` and the second names
    of tied tensors are ignored; ``clamp_len`` becomes the model's own. Lengths of training
    and evaluation (mem_len, same_length, tgt_len) are not part of a model.
    """
    given = {name: torch.as_tensor(value) for name, value in state.items() if "inv_freq" not in name}
    model = TransformerLM(_from_original(config))
    dtypes = (value.dtype for value in given.values() if value.is_floating_point())
    model = model.to(next(dtypes, torch.float32))
    places = original_places(model)
    tensors = {}
    for ours, place in places.items():
        if place.name not in given:
            raise ValueError(f"tensor {place.name} is missing from the weights")
        rows, *width = model.get_parameter(ours).shape
        whole = (rows * place.parts, *width)
        if given[place.name].shape != whole:
            raise ValueError(
                f"tensor {place.name} must have shape {whole}, got {tuple(given[place.name].shape)}"
            )
        tensors[MODEL + ours] = given[place.name].chunk(place.parts)[place.part]
    if stray := given.keys() - {place.name for place in places.values()} - _second_names(model):
        raise ValueError(f"tensor {min(stray)} has no place in a model of these settings")
    copy_model_tensors(_clusters_ordered(tensors, cluster_order), model)
    return model.eval()


def to_original(
    model: TransformerLM, *, cluster_order: ClusterOrder = "original"
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the original's configuration keys and tensors, tied ones under their first name alone."""
    c = model.config
    if c.attention != "xl" or (c.norm == "pre" and c.final_norm):
        raise ValueError(
            "only a model with XL attention, and no norm after the last layer, has original names"
        )
    places, parts = original_places(model), dict[str, list[Tensor]]()
    ours = {MODEL + name: parameter.detach() for name, parameter in model.named_parameters()}
    for name, tensor in _clusters_ordered(ours, cluster_order).items():
        place = places[name.removeprefix(MODEL)]
        parts.setdefault(place.name, [tensor] * place.parts)[place.part] = tensor
    config = {
        "n_token": c.vocab_size,
        "n_layer": c.n_layer,
        "n_head": c.n_head,
        "d_model": c.d_model,
        "d_head": c.d_head,
        "d_inner": c.d_inner,
        "d_embed": c.d_embed or c.d_model,
        "cutoffs": list(c.cutoffs),
        "div_val": c.div_val,
        "tie_weight": c.tie_embeddings,
        "tie_projs": list(c.tie_projections),
        "pre_lnorm": c.norm == "pre",
        "untie_r": not c.share_biases,
        "clamp_len": -1 if c.clamp_len is None else c.clamp_len,
        "dropout": c.dropout,
        "dropatt": c.attention_dropout,
    }
    return config, {name: torch.cat(rows) for name, rows in parts.items()}


SETTINGS: dict[str, str] = {
    "n_token": "vocab_size",
    "n_layer": "n_layer",
    "n_head": "n_head",
    "d_model": "d_model",
    "d_head": "d_head",
    "d_inner": "d_inner",
    "d_embed": "d_embed",
    "cutoffs": "cutoffs",
    "div_val": "div_val",
    "tie_weight": "tie_embeddings",
    "tie_projs": "tie_projections",
    "pre_lnorm": "norm",
    "untie_r": "share_biases",
    "clamp_len": "clamp_len",
    "dropout": "dropout",
    "dropatt": "attention_dropout",
}
"""The original's keys, and the fields of ``ModelConfig`` they decide."""


def _from_original(config: Mapping[str, Any]) -> ModelConfig:
    if unknown := config.keys() - SETTINGS.keys() - IGNORED:
        raise ValueError(f"{min(unknown)} is not a setting of the original code")
    if config.get("attn_type", 0) != 0 or config.get("ext_len", 0) != 0:
        raise ValueError(
            "attn_type and ext_len must be 0: Transformer-XL's own attention, no extended context"
        )
    ours = {SETTINGS[name]: value for name, value in config.items() if name in SETTINGS}
    clamp_len, d_embed = ours.get("clamp_len", -1), ours.get("d_embed", -1)
    ties = tuple(ours.get("tie_projections") or ())
    return ModelConfig(
        **{
            **ours,
            "d_embed": d_embed if d_embed > 0 and d_embed != ours["d_model"] else None,
            "cutoffs": tuple(ours.get("cutoffs") or ()),
            "tie_projections": ties if any(ties) else (),
            "norm": "pre" if ours.get("norm") else "post",
            "final_norm": False,
            "share_biases": not ours.get("share_biases", False),
            "clamp_len": clamp_len if clamp_len > 0 else None,
        }
    )


RENAMED = [
    (r"embedding\.tables\.(\d+)", r"word_emb.emb_layers.\1"),
    (r"embedding\.projections\.(\d+)\.weight", r"word_emb.emb_projs.\1"),
    (r"output\.tables\.(\d+)", r"crit.out_layers.\1"),
    (r"output\.projections\.(\d+)\.weight", r"crit.out_projs.\1"),
    (r"output\.clusters\.", r"crit.cluster_"),
    (r"blocks\.(\d+)\.attention\.", r"layers.\1.dec_attn."),
    (r"blocks\.(\d+)\.norm_attention", r"layers.\1.dec_attn.layer_norm"),
    (r"blocks\.(\d+)\.norm_inner", r"layers.\1.pos_ff.layer_norm"),
    (r"blocks\.(\d+)\.inner", r"layers.\1.pos_ff.CoreNet"),
    (r"W_kR\.", "r_net."),
    (r"W_o\.", "o_net."),
    (r"\.u$", ".r_w_bias"),
    (r"\.v$", ".r_r_bias"),
]
PARTS = {"W_q": 0, "W_kE": 1, "W_v": 2}


def original_places(model: TransformerLM) -> dict[str, Place]:
    """For each parameter of ours, its place among the original tensors."""
    places = {}
    for ours, _ in model.named_parameters():
        name = ours
        for pattern, replacement in RENAMED:
            name = re.sub(pattern, replacement, name)
        if model.config.share_biases and name.endswith("_bias") and "dec_attn.r_" in name:
            name = name.split(".")[-1]
        part = next((PARTS[weight] for weight in PARTS if f".{weight}." in name), None)
        if part is None:
            places[ours] = Place(name)
        else:
            places[ours] = Place(re.sub(r"W_\w+\.", "qkv_net.", name), part, parts=3)
    return places


def _second_names(model: TransformerLM) -> set[str]:
    """Return names under which the original and its port store a tensor once more."""
    names = {f"crit.out_layers.{i}.weight" for i in range(len(model.output.tables))}
    names |= {f"crit.out_projs.{i}" for i, tied in enumerate(model.config.tie_projections) if tied}
    for layer in range(model.config.n_layer):
        names |= {f"layers.{layer}.dec_attn.{bias}" for bias in ("r_w_bias", "r_r_bias")}
    return names


def _clusters_ordered(tensors: Mapping[str, Tensor], order: ClusterOrder) -> dict[str, Tensor]:
    """Return rows of the cluster logits turned round for the original's order."""
    return {
        name: tensor.flip(0) if order == "original" and "output.clusters." in name else tensor
        for name, tensor in tensors.items()
    }
