"""Small sizes of models and trainings whose operations and bytes are counted."""

from dataclasses import replace

import torch

from minitxl.analysis import flops
from minitxl.config import ModelConfig
from minitxl.training.config import TrainConfig

SMALL = ModelConfig(vocab_size=30, n_layer=2, d_model=16, n_head=2, d_head=8, d_inner=32)
RARE = replace(SMALL, cutoffs=(4, 9, 15), div_val=2)
SHORT = TrainConfig(seg_len=4, mem_len=6, batch=4, steps=100)


def targets_by_zipf(cut, tokens):
    """Ids, as many in each cluster as the experiment counts with, rounded."""
    clusters = flops.clusters(cut, replace(SHORT, batch=1, seg_len=tokens))
    own = [round(one) for *_, one in clusters]
    return torch.cat([torch.full((many,), low) for many, low in zip(own, cut.starts, strict=True)]).unsqueeze(
        0
    )
