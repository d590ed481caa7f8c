"""The machine's limits, measured in the same run as the systems: its fastest product, and how fast it reads.

    training, cached evaluation    operations of minitxl's products / those of the fastest product in a second
    generation                     bytes that a token must read / bytes that the machine reads in a second

A product with one row waits for its matrix to be read, and not for arithmetic.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, prod
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from minitxl.analysis.flops import layer_operations, output_operations
from minitxl.benchmark.peers import AtWork, Job, Precision, Size
from minitxl.config import ModelConfig
from minitxl.experiments.shared.runner import rounded
from minitxl.fast.cpu_attention import BLOCK
from minitxl.fast.linear import ONEDNN, onednn_linear
from minitxl.training.config import TrainConfig
from minitxl.training.sizes import skeleton

Times = Mapping[str, Sequence[float]]

PRODUCTS = ("matrix product, 2048 × 2048 × 2048", "matrix product, feed-forward layer")
ONEDNNS_PRODUCTS = tuple(f"oneDNN's {name}" for name in PRODUCTS)
READING = "reading"
BYTES: dict[Precision, int] = {"float32": 4, "bfloat16": 2}
READ_BYTES = 2**28
"""Bytes that an iteration of ``READING`` reads: far more than any cache holds."""


def config(size: Size) -> ModelConfig:
    """Return the configuration of minitxl's model of these shapes."""
    names = ("vocab_size", "n_layer", "d_model", "n_head", "d_head", "d_inner", "dropout", "div_val")
    return ModelConfig(**{name: getattr(size, name) for name in names}, cutoffs=tuple(size.cutoffs))


def limits_of(work: str, device: str) -> tuple[str, ...]:
    """Return the workers that measure the limit of this work."""
    if work == "generation":
        return (READING,)
    return PRODUCTS + (ONEDNNS_PRODUCTS if device == "cpu" and ONEDNN else ())


def shares(times: Times, work: str, size: Size, precision: Precision = "float32") -> dict[str, Any]:
    """Return what an iteration of minitxl needs, the machine's rate, and the share of it that is reached."""
    seconds = median(times["minitxl"])
    if work == "generation":
        needed, rate = bytes_read(size, precision), READ_BYTES / median(times[READING])
        names = ("bytes", "read_rate", "fraction_of_read_rate")
    else:
        needed, rate = operations(size, work), matrix_rate(times, size)
        names = ("operations", "matrix_rate", "fraction_of_matrix_rate")
    reached = dict(zip(names, (needed, rounded(rate), rounded(needed / seconds / rate)), strict=True))
    return {**reached, "tokens_per_second": rounded(size.batch * size.seg_len / seconds)}


def in_words(row: Mapping[str, Any]) -> str:
    """Return the line of a result's row about its limit."""
    if "bytes" in row:
        return (
            f"minitxl: {row['tokens_per_second']:,.0f} tokens/s, {row['bytes'] / 1e6:,.3g} MB to read for an "
            f"iteration, {row['fraction_of_read_rate']:.0%} of the {row['read_rate'] / 1e9:,.1f} GB/s that "
            f"the machine reads"
        )
    return (
        f"minitxl: {row['tokens_per_second']:,.0f} tokens/s, {row['operations'] / 1e9:,.1f} GFLOP an "
        f"iteration, {row['fraction_of_matrix_rate']:.0%} "
        f"of the {row['matrix_rate'] / 1e9:,.0f} GFLOP/s of the fastest matrix product"
    )


def operations(size: Size, work: str, *, block: int = BLOCK) -> int:
    """Return floating point operations of the matrix products of one iteration of minitxl's fast path.

    Rare words have a share in the text that follows Zipf's law, as in ``peers.text``.
    """
    training = work == "training"
    lengths = {"batch": size.batch, "seg_len": size.seg_len, "mem_len": size.mem_len}
    output = output_operations(config(size), TrainConfig(size.seg_len, size.mem_len, batch=size.batch))
    layers = layer_operations(config(size), **lengths, training=training, block=block)
    return layers + (3 if training else 1) * round(output)


def bytes_read(size: Size, precision: Precision = "float32") -> int:
    """Return the bytes that a generation's iteration must read: weights once, and the cache once.

    The cache holds the keys, values and projected distances of the memory; so the weights that project
    distances are not read.
    """
    named = skeleton(config(size)).named_parameters()
    weights = sum(weight.numel() for name, weight in named if ".W_kR." not in name)
    wide = size.n_layer * size.mem_len * size.n_head * size.d_head
    return BYTES[precision] * (weights + 2 * size.batch * wide + wide)


def matrix_rate(times: Times, size: Size) -> float:
    """Return floating point operations a second of the fastest product that was timed, by its median."""
    return max(
        2 * prod(product_shape(name, size)) * product_repeats(name, size) / median(times[name])
        for name in (*PRODUCTS, *ONEDNNS_PRODUCTS)
        if name in times
    )


def build_product(job: Job) -> AtWork:
    """Build matrix products, as many in an iteration as have the operations of 2048 × 2048 × 2048."""
    m, k, n = product_shape(job.system, job.size)
    dtype = torch.bfloat16 if job.precision == "bfloat16" else torch.float32
    a, b = (torch.randn(size, dtype=dtype, device=job.device) for size in ((m, k), (n, k)))

    def products() -> Iterator[Tensor]:
        while True:
            for _ in range(product_repeats(job.system, job.size)):
                c = onednn_linear(a, b, None) if job.system in ONEDNNS_PRODUCTS else a @ b.mT
            yield c

    return nn.Module(), products()


def build_reading(job: Job) -> AtWork:
    """Build a pass over numbers that no cache holds."""
    numbers = torch.ones(READ_BYTES // 4, device=job.device)

    def passes() -> Iterator[Tensor]:
        while True:
            yield numbers.max()

    return nn.Module(), passes()


def product_shape(system: str, size: Size) -> tuple[int, int, int]:
    """Return rows, inner length and columns of the product that one of the workers times."""
    rows = size.batch * size.seg_len
    return (2048, 2048, 2048) if system.endswith(PRODUCTS[0]) else (rows, size.d_model, size.d_inner)


def product_repeats(system: str, size: Size) -> int:
    """Return how many such products have the operations of 2048 × 2048 × 2048, rounded up."""
    return ceil(2048**3 / prod(product_shape(system, size)))
