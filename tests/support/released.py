"""Small models in the formats of the original code and of the hub, and a pickle that runs code."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import torch
from models import small_config, small_model
from safetensors.torch import save_file
from torch import Tensor

from minitxl.model import TransformerLM
from minitxl.pretrained.original import to_original

KINDS = {
    "plain": {},
    "u and v per layer": {"share_biases": False},
    "pre-norm": {"norm": "pre", "final_norm": False},
    "embedding apart": {"tie_embeddings": False},
    "narrow embedding": {"d_embed": 6},
    "clusters of one width": {"cutoffs": (4, 7)},
    "narrow clusters of one width": {"cutoffs": (4, 7), "d_embed": 6, "tie_projections": (False, True, True)},
    "narrowing clusters": {"cutoffs": (4, 7), "div_val": 2, "tie_projections": (False, True, True)},
    "narrowing clusters, projections apart": {
        "cutoffs": (4, 7),
        "div_val": 2,
        "tie_projections": (False, True, False),
    },
    "clamped": {"clamp_len": 3},
}
"""Settings in which models with original names differ."""


def random_model(kind: str, dtype: torch.dtype = torch.float64) -> TransformerLM:
    """Return a model of this kind with normal weights."""
    torch.manual_seed(0)
    model = TransformerLM(small_config(attention="xl", **{"final_norm": False, **KINDS[kind]})).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    return model.eval()


def write_released(
    folder: Path, model: TransformerLM, *, file: str | None = None, mem_len: int = 5
) -> dict[str, Tensor]:
    """Write settings in the hub's format, and weights if ``file`` is named; return the weights by name."""
    config, state = to_original(model, cluster_order="released")
    settings = {
        name: value for name, value in config.items() if name not in ("n_token", "tie_weight", "tie_projs")
    }
    settings |= {"vocab_size": model.config.vocab_size, "tie_word_embeddings": True}
    settings |= {"proj_share_all_but_first": True, "mem_len": mem_len, "same_length": True}
    settings |= {"model_type": "transfo-xl", "eos_token_id": 0}
    (folder / "config.json").write_text(json.dumps(settings))
    named = {name if name.startswith("crit") else f"transformer.{name}": t for name, t in state.items()}
    if file is not None:
        (save_file if file.endswith("safetensors") else torch.save)(named, folder / file)
    return named


class Hostile:
    """An object whose pickle makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable, tuple]:
        return os.mkdir, (str(self.path),)


def released_model(vocab_size: int) -> TransformerLM:
    """Return a small model with all that the released one has: clusters, u and v per layer, a clamp."""
    model = small_model(
        vocab_size=vocab_size,
        attention="xl",
        share_biases=False,
        cutoffs=(4, 9),
        div_val=2,
        tie_projections=(False, True, True),
        clamp_len=9,
        d_model=16,
    )
    return model.float()
