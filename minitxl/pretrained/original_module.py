"""The ``model.pt`` of the original PyTorch code: a whole pickled module, read without running any of it.

Beside its tensors the module holds what it was made with: widths and lengths as attributes, and
tied tensors as one and the same. So the file needs no configuration beside it.
"""

from pathlib import Path
from typing import Any

from torch import Tensor

from minitxl.fields import naming
from minitxl.model import TransformerLM
from minitxl.pretrained.original import load_original
from minitxl.pretrained.torch_files import Module, read_module

ATTRIBUTES = ("n_token", "n_layer", "n_head", "d_model", "d_head", "d_embed", "clamp_len")
LENGTHS = ("attn_type", "ext_len", "mem_len", "tgt_len", "same_length", "sample_softmax")


def load_original_module(path: Path | str) -> TransformerLM:
    """Return the model in the original's ``model.pt``, whether PyTorch before 1.6 or a later one wrote it.

    Raises a ValueError, as ``load_original`` does, and where the file is no module of the original code.
    """
    config, state = read_original_module(path)
    with naming(path):
        return load_original(config, state)


def read_original_module(path: Path | str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the configuration keys and the tensors by name, as ``load_original`` takes them."""
    path = Path(path)
    model = read_module(path)
    try:
        layer = model.children["layers"].children["0"]
        attention, inner = layer.children["dec_attn"], layer.children["pos_ff"]
        embedding, softmax = model.children["word_emb"], model.children["crit"]
        config = {name: model.attributes[name] for name in ATTRIBUTES}
        config |= {name: model.attributes[name] for name in LENGTHS if name in model.attributes}
        config |= {
            "d_inner": inner.attributes["d_inner"],
            "cutoffs": list(embedding.attributes["cutoffs"])[:-1],  # the last is the vocabulary's end
            "div_val": embedding.attributes["div_val"],
            "pre_lnorm": bool(attention.attributes["pre_lnorm"]),
            "dropout": model.children["drop"].attributes["p"],
            "dropatt": attention.children["dropatt"].attributes["p"],
            "layer_norm_epsilon": attention.children["layer_norm"].attributes["eps"],
            "tie_weight": _same(_weights(softmax, "out_layers"), _weights(embedding, "emb_layers")),
            "tie_projs": _tied_projections(embedding, softmax),
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} must be a whole module of the original code's MemTransformerLM, "
            f"got one without {error}: save its state_dict, and give it to load_original"
        ) from error
    return config, dict(model.state())


def _weights(module: Module, name: str) -> list[Tensor]:
    return [table.tensors["weight"] for table in module.children[name].children.values()]


def _same(one: list[Tensor], other: list[Tensor]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _tied_projections(embedding: Module, softmax: Module) -> list[bool]:
    """Return for each cluster whether its output projection is one of the embedding's."""
    inputs = list(embedding.children["emb_projs"].tensors.values())
    outputs = softmax.children["out_projs"].tensors
    clusters = len(embedding.attributes["cutoffs"])
    tied = []
    for i in range(clusters):
        output = outputs.get(str(i))
        tied.append(output is not None and any(output is projection for projection in inputs))
    return tied
