"""What a training step of a configuration takes, counted and not measured: parameters, operations, bytes."""

from dataclasses import replace
from functools import partial
from itertools import pairwise

import torch

from minitxl.adaptive import Partition
from minitxl.bench import operations
from minitxl.config import ModelConfig, TrainConfig
from minitxl.experiments.saved import saved_bytes
from minitxl.model import TransformerLM
from minitxl.peers import Size

FLOAT = 4
"""Bytes of a number: weights, gradients, and all that is kept, in float32."""


def parameters(model: ModelConfig) -> int:
    """How many numbers are learned."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in TransformerLM(model).parameters())


def step_operations(model: ModelConfig, train: TrainConfig) -> float:
    """Operations of the matrix products that a training step needs, pairs of the past alone.

    ``bench.operations``, but for the output, whose words may lie in clusters: a tail is
    computed for its own targets alone, of which there are as many as Zipf's law says.
    """
    same = ("n_layer", "d_model", "n_head", "d_head", "d_inner")
    shapes = {name: getattr(model, name) for name in same}
    lengths = {"batch": train.batch, "seg_len": train.seg_len, "mem_len": train.mem_len}
    layers = operations(Size(**shapes, **lengths, dropout=0.0, vocab_size=0), "training", block=1)
    cut = _partition(model)
    products = 0.0
    for tokens, entries, width, share in _clusters(cut, train):
        read = share * model.d_model * width if cut.projected else 0.0
        products += tokens * width * (entries + (model.d_model if cut.projected else 0)) + read
    return layers + 6 * products


def _partition(model: ModelConfig) -> Partition:
    width = model.d_embed or model.d_model
    return Partition(model.vocab_size, width, model.d_model, model.cutoffs, model.div_val)


def _clusters(cut: Partition, train: TrainConfig) -> list[tuple[float, int, int, float]]:
    """Of each cluster: tokens it is scored for, its entries and width, and how many tokens are its own."""
    tokens, edges = train.batch * train.seg_len, [*cut.starts, cut.vocab_size]
    harmonic = (1 / torch.arange(1, cut.vocab_size + 1, dtype=torch.float64)).cumsum(0)
    below = [0.0, *(harmonic[edge - 1].item() / harmonic[-1].item() for edge in edges[1:])]
    own = [tokens * (high - low) for low, high in pairwise(below)]
    entries = [cut.sizes[0] + len(cut.cutoffs), *cut.sizes[1:]]
    scored = [float(tokens), *own[1:]]
    return list(zip(scored, entries, cut.widths, own, strict=True))


def held(model: ModelConfig, train: TrainConfig, *, parts: int) -> dict[str, int]:
    """Bytes that one of ``parts`` GPUs holds in float32 when its backward pass begins, by what they are.

    ``buckets`` are those in which gradients are sent, ``average`` the averaged weights, ``states``
    what the next memory is made of.
    """
    numbers, share = parameters(model) * FLOAT, replace(train, batch=train.batch // parts)
    return {
        "weights": numbers,
        "gradients": numbers,
        "moments": 2 * numbers,
        "buckets": numbers if parts > 1 else 0,
        "average": numbers if train.average_from is not None else 0,
        "states": FLOAT * model.n_layer * share.batch * share.seg_len * model.d_model,
        "activations": model.n_layer * layer_bytes(model, share) + output_bytes(model, share),
    }


def layer_bytes(model: ModelConfig, train: TrainConfig) -> int:
    """Bytes that a layer keeps for its backward pass on a GPU, its memory among them.

    It is run on tensors that have shapes and no numbers, its attention as ``kernels.biased``, since
    which form is fastest only a GPU can tell. Dropout of attention weights is left out: that form
    draws it once more in the backward pass, and keeps none.
    """
    alone = replace(model, n_layer=1, attention_dropout=0.0)
    with torch.device("meta"):
        (block,) = TransformerLM(alone).blocks
        x = torch.empty(train.batch, train.seg_len, model.d_model, requires_grad=True)
        memory = torch.empty(train.batch, train.mem_len, model.d_model)
    sight = {"window": train.window, "clamp_len": train.clamp_len}
    return saved_bytes(partial(block, x, memory, path="fused", **sight), block.parameters())


def output_bytes(model: ModelConfig, train: TrainConfig) -> int:
    """Bytes kept around the layers: two masks of dropout, what the output reads, its log-probabilities."""
    cut, width = _partition(model), model.d_model
    (tokens, *_), *tails = _clusters(cut, train)
    kept = tokens * width * (1 + 2 * bool(model.dropout and not model.variational))
    kept += sum(own * width for own, *_ in tails)
    for scored, entries, narrow, _ in _clusters(cut, train):
        kept += scored * (entries + (narrow if cut.projected else 0))
    if cut.cutoffs:
        kept += (cut.sizes[0] + len(cut.cutoffs)) * cut.widths[0]
    return round(FLOAT * kept)
