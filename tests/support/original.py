"""A stand-in for the original code's module: its attributes, names and ties, and nothing that computes.

``torch.save`` writes of a module its class's name and what it holds, so these classes, renamed to the
original's, give the original's ``model.pt``.
"""

from pathlib import Path

import torch
from torch import nn

from minitxl.model import TransformerLM
from minitxl.pretrained.original import to_original


class MemTransformerLM(nn.Module):
    """A module with the original's attributes and the tensors of a model of ours."""

    def __init__(self, model: TransformerLM) -> None:
        super().__init__()
        config, state = to_original(model)
        for name in ("n_token", "n_layer", "n_head", "d_model", "d_head", "d_embed", "clamp_len"):
            setattr(self, name, config[name])
        self.attn_type, self.ext_len, self.mem_len, self.tgt_len = 0, 0, 5, 4
        self.same_length, self.sample_softmax, self.max_klen = False, -1, 9
        self.drop = nn.Dropout(config["dropout"])
        self.word_emb = part(
            emb_layers=nn.ModuleList(nn.Embedding(*table.weight.shape) for table in model.embedding.tables),
            emb_projs=nn.ParameterList(
                nn.Parameter(projection.weight.clone()) for projection in model.embedding.projections
            ),
            n_token=config["n_token"],
            cutoffs=[*config["cutoffs"], config["n_token"]],
            div_val=config["div_val"],
        )
        self.layers = nn.ModuleList(layer_of(config) for _ in range(config["n_layer"]))
        self.pos_emb = part()
        self.pos_emb.register_buffer("inv_freq", torch.ones(config["d_model"] // 2))
        self.crit = part(
            out_layers=nn.ModuleList(nn.Linear(*table.weight.shape[::-1]) for table in model.output.tables),
            out_projs=nn.ParameterList(
                nn.Parameter(projection.weight.clone()) for projection in model.output.projections
            ),
            cutoffs=[*config["cutoffs"], config["n_token"]],
        )
        if model.output.tail_classes is not None:
            self.crit.cluster_weight = nn.Parameter(model.output.tail_classes.weight.clone())
            self.crit.cluster_bias = nn.Parameter(model.output.tail_classes.bias.clone())
        for bias in ("r_w_bias", "r_r_bias"):
            setattr(self, bias, nn.Parameter(torch.zeros(config["n_head"], config["d_head"])))
        if config["tie_weight"]:
            for mine, theirs in zip(self.crit.out_layers, self.word_emb.emb_layers, strict=True):
                mine.weight = theirs.weight
        for i, tied in enumerate(config["tie_projs"]):
            if tied:
                self.crit.out_projs[i] = self.word_emb.emb_projs[i if config["div_val"] > 1 else 0]
        self.to(next(iter(state.values())).dtype)
        with torch.no_grad():
            for name, tensor in state.items():
                self.get_parameter(name).copy_(tensor)


class Part(nn.Module):
    """A module of the original, whichever."""


def part(**attributes) -> Part:
    module = Part()
    for name, value in attributes.items():
        setattr(module, name, value)
    return module


def layer_of(config: dict) -> Part:
    width, n_head, d_head, d_inner = (config[name] for name in ("d_model", "n_head", "d_head", "d_inner"))
    return part(
        dec_attn=part(
            qkv_net=nn.Linear(width, 3 * n_head * d_head, bias=False),
            r_net=nn.Linear(width, n_head * d_head, bias=False),
            o_net=nn.Linear(n_head * d_head, width, bias=False),
            drop=nn.Dropout(config["dropout"]),
            dropatt=nn.Dropout(config["dropatt"]),
            layer_norm=nn.LayerNorm(width),
            pre_lnorm=config["pre_lnorm"],
        ),
        pos_ff=part(
            CoreNet=nn.Sequential(
                nn.Linear(width, d_inner), nn.ReLU(), nn.Dropout(0.0), nn.Linear(d_inner, width)
            ),
            layer_norm=nn.LayerNorm(width),
            d_inner=d_inner,
            pre_lnorm=config["pre_lnorm"],
        ),
    )


def write_original_module(path: Path, model: TransformerLM, *, zipped: bool) -> None:
    """Write ``model.pt`` as the original code does, by PyTorch of today or before 1.6."""
    torch.save(MemTransformerLM(model), path, _use_new_zipfile_serialization=zipped)
