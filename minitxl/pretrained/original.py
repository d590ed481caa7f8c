"""Models by the names of the original PyTorch code, which released weights have too.

original             here                      original                 here
qkv_net (3 parts)    W_q, W_kE, W_v            r_w_bias, r_r_bias       u, v
r_net, o_net         W_kR, W_o                 dec_attn.layer_norm      norm_attention
CoreNet.0, .3        inner.0, .3               pos_ff.layer_norm        norm_inner
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import torch
from torch import Tensor

from minitxl.config import ModelConfig
from minitxl.fields import Rules, checked, flag, number, optional, sequence, whole
from minitxl.model import TransformerLM
from minitxl.training.checkpoints import MODEL, copy_model_tensors
from minitxl.training.sizes import skeleton

ClusterOrder = Literal["original", "released"]
"""Rows of cluster_weight: last cluster first in the original PyTorch code; first cluster
first in the Hugging Face and TensorFlow code, and so in the released weights."""
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""Number formats of weights."""
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
    "layer_norm_epsilon": "layer_norm_eps",
}
"""The original's keys, and the fields of ``ModelConfig`` they decide. The last is the port's alone."""
RULES: Rules = {
    **dict.fromkeys(("n_token", "n_layer", "n_head", "d_model", "d_head", "d_inner", "div_val"), whole(1)),
    "d_embed": optional(whole()),
    "cutoffs": optional(sequence(whole(1))),
    "tie_projs": optional(sequence(flag)),
    **dict.fromkeys(("tie_weight", "pre_lnorm", "untie_r", "same_length", "adaptive", "adapt_inp"), flag),
    **dict.fromkeys(("dropout", "dropatt", "layer_norm_epsilon"), number(0)),
    **dict.fromkeys(("clamp_len", "tgt_len", "mem_len", "ext_len", "attn_type", "sample_softmax"), whole()),
}
"""Type and range of the original's keys; those that ``SETTINGS`` lacks are no part of a model."""
ORIGINAL_EPS = 1e-5
"""ε of the original's LayerNorm."""
REQUIRED = ("n_token", "n_layer", "n_head", "d_model", "d_head", "d_inner")


@dataclass(frozen=True)
class OriginalPart:
    """Where a parameter of ours stands among the original tensors: a part of the rows of one."""

    name: str
    part: int = 0
    parts: int = 1


def load_original(
    config: Mapping[str, Any], state: Mapping[str, Any], *, cluster_order: ClusterOrder = "original"
) -> TransformerLM:
    """Return a model from the original PyTorch code's configuration keys and parameter names.

    ``state`` holds tensors or arrays of the widest of whose formats the model is. ``inv_freq`` is
    ignored; a tied tensor may stand under each of its names, with the same numbers. ``clamp_len``
    becomes the model's own. Lengths of training and evaluation (mem_len, same_length, tgt_len) are
    not part of a model. The original's ``model.pt`` is read by ``original_module.load_original_module``.

    Raises a ValueError for settings of another type, range or kind of model, and for tensors that
    are missing, stray, of another shape, of whole or complex numbers, not finite, or that differ
    where the settings say that they are tied.
    """
    return model_of(original_config(config), state, cluster_order=cluster_order)


def model_of(config: ModelConfig, state: Mapping[str, Any], *, cluster_order: ClusterOrder) -> TransformerLM:
    """Return the model of this configuration with the original tensors; errors as in ``load_original``."""
    given = {name: _checked_tensor(name, value) for name, value in state.items() if "inv_freq" not in name}
    if config.n_layer > len(given):
        raise ValueError(
            f"the weights must hold tensors of {config.n_layer} layers, got {len(given)} tensors"
        )
    shapes = skeleton(config)  # they are compared before memory is asked for
    originals, tied = original_parts(shapes), _tied_names(shapes)
    tensors = {}
    for ours, original in originals.items():
        same = [name for name in (original.name, *tied.get(original.name, ())) if name in given]
        if not same:
            under = sorted(
                name.removesuffix(original.name) for name in given if name.endswith("." + original.name)
            )
            hint = f"; names may not begin with {under[0]}" if under else ""
            raise ValueError(f"tensor {original.name} is missing from the weights{hint}")
        rows, *width = shapes.get_parameter(ours).shape
        whole = (rows * original.parts, *width)
        for name in same:
            if given[name].shape != whole:
                raise ValueError(f"tensor {name} must have shape {whole}, got {tuple(given[name].shape)}")
            if not torch.equal(given[name], given[same[0]]):
                raise ValueError(
                    f"tensor {name} must equal {same[0]}, to which the settings tie it, got other numbers"
                )
        tensors[MODEL + ours] = given[same[0]].chunk(original.parts)[original.part]
    names = {original.name for original in originals.values()}.union(*tied.values())
    if stray := given.keys() - names:
        raise ValueError(f"tensor {min(stray)} has no place in a model of these settings")
    dtype = reduce(torch.promote_types, (tensor.dtype for tensor in tensors.values()))
    model = TransformerLM(config).to(dtype)
    copy_model_tensors(_clusters_ordered(tensors, cluster_order), model)
    return model.eval()


def to_original(
    model: TransformerLM, *, cluster_order: ClusterOrder = "original", clamp_len: int | None = None
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the original's configuration keys and tensors, tied ones under their first name alone.

    ``clamp_len`` is that of the run that trained the model; None means the model's own.

    Raises a ValueError for a model that computes what the original can't. Settings of training that it lacks
    are left out: word dropout, and the kind of dropout.
    """
    c = model.config
    if c.attention != "xl" or (c.norm == "pre" and c.final_norm):
        raise ValueError(
            "only a model with XL attention, and no norm after the last layer, has original names"
        )
    if c.activation != "relu":
        raise ValueError(f"activation must be relu in the original code, got {c.activation}")
    clamp_len = c.clamp_len if clamp_len is None else clamp_len
    check_clamp(clamp_len)
    originals, parts = original_parts(model), dict[str, list[Tensor]]()
    ours = {MODEL + name: parameter.detach() for name, parameter in model.named_parameters()}
    for name, tensor in _clusters_ordered(ours, cluster_order).items():
        original = originals[name.removeprefix(MODEL)]
        parts.setdefault(original.name, [tensor] * original.parts)[original.part] = tensor
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
        "clamp_len": -1 if clamp_len is None else clamp_len,
        "dropout": c.dropout,
        "dropatt": c.attention_dropout,
    }
    if cluster_order == "released":
        config["layer_norm_epsilon"] = c.layer_norm_eps
    elif c.layer_norm_eps != ORIGINAL_EPS:
        raise ValueError(
            f"layer_norm_eps must be {ORIGINAL_EPS} in the original code, got {c.layer_norm_eps}"
        )
    return config, {name: torch.cat(rows) for name, rows in parts.items()}


def check_clamp(clamp_len: int | None) -> None:
    """Raise a ValueError for a clamp of 0, which in the original is none."""
    if clamp_len == 0:
        raise ValueError("clamp_len must be none, or 1 or more, in the original code, where 0 is none, got 0")


def original_config(config: Mapping[str, Any]) -> ModelConfig:
    """Return the configuration that the original's keys describe."""
    if unknown := config.keys() - RULES.keys():
        raise ValueError(
            f"{min(unknown)} is not a setting of a model of the original code, which are {', '.join(RULES)}"
        )
    config = checked(config, RULES, required=REQUIRED)
    if config.get("attn_type", 0) != 0 or config.get("ext_len", 0) != 0:
        raise ValueError(
            "attn_type and ext_len must be 0: Transformer-XL's own attention, no extended context"
        )
    if (samples := config.get("sample_softmax", -1)) > 0:
        raise ValueError(f"sample_softmax must be 0 or less, the softmax of all words, got {samples}")
    ours = {SETTINGS[name]: value for name, value in config.items() if name in SETTINGS}
    clamp_len, d_embed = ours.get("clamp_len", -1), ours.get("d_embed") or -1
    cutoffs, ties = tuple(ours.get("cutoffs") or ()), tuple(ours.get("tie_projections") or ())
    ties += (False,) * (len(cutoffs) + 1 - len(ties))
    return ModelConfig(
        **{
            **ours,
            "d_embed": d_embed if d_embed > 0 and d_embed != ours["d_model"] else None,
            "cutoffs": cutoffs,
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
    (r"output\.tail_classes\.", r"crit.cluster_"),
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


def original_parts(model: TransformerLM) -> dict[str, OriginalPart]:
    """For each parameter of ours, its part among the original tensors."""
    originals = {}
    for ours, _ in model.named_parameters():
        name = ours
        for pattern, replacement in RENAMED:
            name = re.sub(pattern, replacement, name)
        if model.config.share_biases and name.endswith("_bias") and "dec_attn.r_" in name:
            name = name.split(".")[-1]
        part = next((PARTS[weight] for weight in PARTS if f".{weight}." in name), None)
        if part is None:
            originals[ours] = OriginalPart(name)
        else:
            originals[ours] = OriginalPart(re.sub(r"W_\w+\.", "qkv_net.", name), part, parts=3)
    return originals


def _tied_names(model: TransformerLM) -> dict[str, list[str]]:
    """Return the further names under which the original and its port store a tensor, by its first name."""
    c, tied = model.config, dict[str, list[str]]()
    if c.tie_embeddings:
        for i in range(len(model.output.tables)):
            tied[f"word_emb.emb_layers.{i}.weight"] = [f"crit.out_layers.{i}.weight"]
    for i in range(len(model.output.projections)):
        if c.tie_projections and c.tie_projections[i]:
            first = f"word_emb.emb_projs.{i if c.div_val > 1 else 0}"
            tied.setdefault(first, []).append(f"crit.out_projs.{i}")
    if c.share_biases:
        for bias in ("r_w_bias", "r_r_bias"):
            tied[bias] = [f"layers.{layer}.dec_attn.{bias}" for layer in range(c.n_layer)]
    return tied


def _checked_tensor(name: str, value: Any) -> Tensor:
    """Return the value as a tensor of finite floating-point numbers."""
    try:
        tensor = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} must be a tensor or an array, got {type(value).__name__}") from error
    if tensor.dtype not in DTYPES or tensor.layout != torch.strided or tensor.is_meta:
        got = "no numbers" if tensor.is_meta else f"{tensor.layout} {tensor.dtype}".replace("torch.", "")
        raise ValueError(f"tensor {name} must hold numbers of float16 to float64, got {got}")
    if not tensor.isfinite().all():
        number = tensor[~tensor.isfinite()][0].item()
        raise ValueError(f"tensor {name} must hold finite numbers, got {number}")
    return tensor


def _clusters_ordered(tensors: Mapping[str, Tensor], order: ClusterOrder) -> dict[str, Tensor]:
    """Return rows of the cluster logits turned round for the original's order."""
    return {
        name: tensor.flip(0) if order == "original" and "output.tail_classes." in name else tensor
        for name, tensor in tensors.items()
    }
