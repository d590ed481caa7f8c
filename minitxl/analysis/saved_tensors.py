"""Bytes that a training step holds: what autograd saves for the backward pass, and all else."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef

from minitxl.analysis.flops import clusters, partition
from minitxl.config import ModelConfig
from minitxl.fast import to_fast
from minitxl.training.config import TrainConfig
from minitxl.training.sizes import parameter_count, skeleton

FLOAT = 4
"""Bytes of a number: weights, gradients, and all that is kept, in float32."""


def saved_bytes(forward: Callable[[], object], parameters: Iterable[nn.Parameter]) -> int:
    """Return bytes of all storages that autograd keeps of ``forward()``, but for those of the parameters.

    Tensors may be on the meta device, with shapes and no numbers.
    """
    saved = {StorageWeakRef(parameter.untyped_storage()): 0 for parameter in parameters}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved.setdefault(StorageWeakRef(storage), storage.nbytes())
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        forward()
    return sum(saved.values())


def held(model: ModelConfig, train: TrainConfig, *, parts: int) -> dict[str, int]:
    """Bytes that one of ``parts`` GPUs holds in float32 when its backward pass begins, by what they are.

    ``buckets`` are those in which gradients are sent, ``average`` the averaged weights, ``states``
    what the next memory is made of.
    """
    weights, share = parameter_count(model) * FLOAT, replace(train, batch=train.batch // parts)
    return {
        "weights": weights,
        "gradients": weights,
        "moments": 2 * weights,
        "buckets": weights if parts > 1 else 0,
        "average": weights if train.average_from is not None else 0,
        "states": FLOAT * model.n_layer * share.batch * share.seg_len * model.d_model,
        "activations": model.n_layer * layer_bytes(model, share) + output_bytes(model, share),
    }


def layer_bytes(model: ModelConfig, train: TrainConfig) -> int:
    """Return bytes that a layer keeps for its backward pass on a GPU, its memory among them.

    It is run on tensors that have shapes and no numbers, its attention as ``fast.attention.sdpa_bias``, as a
    GPU runs layers that are not compiled. Dropout of attention weights is left out: PyTorch's attention
    draws it once more in the backward pass, and keeps none.
    """
    alone = replace(model, n_layer=1, attention_dropout=0.0)
    with torch.device("meta"):
        (block,) = to_fast(skeleton(alone)).blocks
        x = torch.empty(train.batch, train.seg_len, model.d_model, requires_grad=True)
        memory = torch.empty(train.batch, train.mem_len, model.d_model)
    options = {"window": train.window, "clamp_len": train.clamp_len}
    return saved_bytes(partial(block, x, memory, **options), block.parameters())


def output_bytes(model: ModelConfig, train: TrainConfig) -> int:
    """Bytes kept around the layers: two masks of dropout, what the output reads, its log-probabilities."""
    cut, width = partition(model), model.d_model
    head, *tails = clusters(cut, train)
    masks = 2 * bool(model.dropout and not model.variational_dropout)
    numbers = (
        head.scored * width * (1 + masks)
    )  # the output's input, and the masks before and after the layers
    numbers += sum(tail.scored * width for tail in tails)  # the rows of a tail, taken out of it
    for cluster in (head, *tails):  # log-probabilities, and what their projection reads
        numbers += cluster.scored * (cluster.entries + (cluster.width if cut.has_projections else 0))
    if cut.cutoffs:
        numbers += (cut.sizes[0] + len(cut.cutoffs)) * cut.widths[0]
    return round(FLOAT * numbers)
