"""Parameters and operations of a training step, counted from its configuration and not measured."""

from itertools import pairwise
from typing import NamedTuple

import torch

from minitxl.adaptive import Partition
from minitxl.config import ModelConfig
from minitxl.training.config import TrainConfig

PRODUCTS = {"absolute": 2, "shaw": 2, "xl": 3, "rotary": 2, "alibi": 2, "t5": 2}
"""Dot products for each pair of query and key: q·k and α·v are two, and XL's q·r is the third."""


def layer_operations(
    model: ModelConfig, *, batch: int, seg_len: int, mem_len: int, training: bool, block: int
) -> int:
    """Return the floating point operations of the layers' matrix products for one segment.

    A product of [m k] and [k n] has 2 m k n. Scores, distances and means are computed for
    ``block`` queries at once and for all keys up to the block's last, of which the causal
    mask then hides some; that is what the work takes, and more than what it uses. A product
    has two gradients, as large as itself each: of its weights, and of its input. The keys
    and values of memory and XL's projected distances have the first alone, their inputs are
    constants. Without training, those come from a cache. Shaw's queries and weights are
    multiplied with each row of a table, whatever the number of keys.
    """
    wide = model.n_head * model.d_head
    lasts = [min(first + block, seg_len) for first in range(0, seg_len, block)]
    pairs = sum((last - first) * (mem_len + last) for first, last in zip([0, *lasts], lasts, strict=False))
    tokens, past = batch * seg_len, batch * mem_len
    projected = 4 * tokens * model.d_model * wide
    if model.attention not in PRODUCTS:
        raise ValueError(f"flops.PRODUCTS must have the products of each attention, got {model.attention!r}")
    attended = PRODUCTS[model.attention] * batch * pairs * wide
    if model.attention == "shaw":
        attended += 2 * tokens * wide * (2 * model.max_distance + 1)
    inner = 2 * tokens * model.d_model * model.d_inner
    segment = model.n_layer * (projected + attended + inner)
    if not training:
        return 2 * segment
    distances = mem_len + seg_len if model.attention == "xl" else 0
    constant = model.n_layer * (2 * past + distances) * model.d_model * wide
    return 2 * (3 * segment + 2 * constant)


def step_operations(model: ModelConfig, train: TrainConfig) -> float:
    """Return the operations of the matrix products that a training step needs, pairs of the past alone.

    The output's words may lie in clusters: a tail is computed for its own targets alone, of
    which there are as many as Zipf's law says.
    """
    lengths = {"batch": train.batch, "seg_len": train.seg_len, "mem_len": train.mem_len}
    layers = layer_operations(model, **lengths, training=True, block=1)
    return layers + 3 * output_operations(model, train)


def output_operations(model: ModelConfig, train: TrainConfig) -> float:
    """Return the operations of a segment's scores, and of its narrower embeddings, forward alone."""
    cut, products = partition(model), 0.0
    for cluster in clusters(cut, train):
        projection = model.d_model if cut.has_projections else 0
        embedded = cluster.own * projection * cluster.width
        products += cluster.scored * cluster.width * (cluster.entries + projection) + embedded
    return 2 * products


def partition(model: ModelConfig) -> Partition:
    width = model.d_embed or model.d_model
    return Partition(model.vocab_size, width, model.d_model, model.cutoffs, model.div_val)


class Cluster(NamedTuple):
    """A cluster of the vocabulary, and how much of a segment's text concerns it."""

    scored: float
    """Tokens for which its entries are scored: all for the first cluster, for a tail its own tokens."""
    entries: int
    width: int
    """Width of its embeddings."""
    own: float
    """Tokens of the text that are in it."""


def clusters(cut: Partition, train: TrainConfig) -> list[Cluster]:
    """Return each cluster, its tokens as many as Zipf's law says."""
    tokens, edges = train.batch * train.seg_len, [*cut.starts, cut.vocab_size]
    harmonic = (1 / torch.arange(1, cut.vocab_size + 1, dtype=torch.float64)).cumsum(0)
    below = [0.0, *(harmonic[edge - 1].item() / harmonic[-1].item() for edge in edges[1:])]
    own = [tokens * (high - low) for low, high in pairwise(below)]
    entries = [cut.sizes[0] + len(cut.cutoffs), *cut.sizes[1:]]
    scored = [float(tokens), *own[1:]]
    return [Cluster(*one) for one in zip(scored, entries, cut.widths, own, strict=True)]
