"""What does a token of training cost as attention, memory, vocabulary and depth grow: measured and counted?

Each point of a sweep changes one size of a small model and trains it for some steps in a process of its own,
which tells the seconds of a step and the most bytes that it held. Counted are the operations of the matrix
products of a step and the bytes that are held when the backward pass begins; what is counted for memory
is attention as ``saved_tensors`` runs it, which keeps every score. Tokens are random: no time depends on
them.
"""

import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from multiprocessing import get_context
from time import perf_counter
from typing import Any

import torch

from minitxl.analysis.flops import step_operations
from minitxl.analysis.saved_tensors import held
from minitxl.config import ModelConfig
from minitxl.data.batching import ContiguousBatches
from minitxl.data.corpora import Corpus
from minitxl.experiments.runner import Part, Report, named, rounded, spread
from minitxl.training import loop
from minitxl.training.checkpoints import model_config, train_config
from minitxl.training.config import TrainConfig

SEEDS = [0]
TOKENS = 2**14
"""Tokens of a step in the sweep over attention: as the segment grows, the batch shrinks."""
CUTOFFS = 20_000, 40_000, 200_000
"""The published clusters of a large vocabulary; a smaller one has those that lie in it."""
SWEEPS = {
    "attention": [128, 512, 2048, 8192, 16_384],
    "memory": [128, 512, 2048, 8192, 16_384],
    "vocabulary": [256, 2048, 16_384, 65_536, 267_735],
    "layers": [1, 3, 6, 12, 24],
}


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """Return all that decides the numbers, but for the seed; no text does."""
    del corpus
    wider: dict[str, Any] = (
        {"d_model": 512, "n_head": 8, "d_head": 64, "d_inner": 2048} if profile == "full" else {}
    )
    return {
        "profile": profile,
        "model": asdict(ModelConfig(n_layer=2, dropout=0.0, **wider)),
        "train": asdict(TrainConfig(seg_len=128, mem_len=128, batch=4, steps=1000)),
        "sweeps": SWEEPS,
        "warm_up": 1,
        "steps": 2,
        "passes": 3,
    }


def parts(settings: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str) -> dict[str, Part]:
    """Return each point of each sweep, again in each pass."""
    del corpus
    (seed,) = seeds
    return {
        f"{sweep} {value}, pass {number}": partial(_in_a_process, settings, sweep, value, seed, device)
        for number in range(1, settings["passes"] + 1)
        for sweep, values in settings["sweeps"].items()
        for value in values
    }


def point(settings: Mapping[str, Any], sweep: str, value: int) -> tuple[ModelConfig, TrainConfig]:
    """Return model and training of a point."""
    model, train = model_config(settings["model"]), train_config(settings["train"])
    if sweep == "attention":
        return model, replace(train, seg_len=value, mem_len=0, batch=max(1, TOKENS // value))
    if sweep == "memory":
        return model, replace(train, mem_len=value)
    if sweep == "layers":
        return replace(model, n_layer=value), train
    if sweep == "vocabulary":
        cutoffs = tuple(cutoff for cutoff in CUTOFFS if cutoff < value)
        return replace(model, vocab_size=value, cutoffs=cutoffs, div_val=4 if cutoffs else 1), train
    raise ValueError(f"a sweep must be one of {', '.join(SWEEPS)}, got {sweep}")


def _in_a_process(
    settings: dict[str, Any], sweep: str, value: int, seed: int, device: str, report: Report
) -> dict[str, Any]:
    del report
    threads = torch.get_num_threads()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measured, settings, sweep, value, seed, device, threads).result()


def measured(
    settings: Mapping[str, Any], sweep: str, value: int, seed: int, device: str, threads: int
) -> dict[str, Any]:
    """Return seconds of each step with a full memory, and the most bytes held beyond those at first."""
    torch.set_num_threads(threads)
    model, train = point(settings, sweep, value)
    fill = -(-train.mem_len // train.seg_len)
    count = fill + settings["warm_up"] + settings["steps"]
    random = torch.Generator().manual_seed(seed)
    text = torch.multinomial(
        1 / torch.arange(1.0, model.vocab_size + 1),
        train.batch * (train.seg_len * count + 1),
        replacement=True,
        generator=random,
    )
    before = _most_bytes(device)
    run = loop.start(model, replace(train, seed=seed), device=device)
    lanes, seconds = ContiguousBatches(text, batch=train.batch, seg_len=train.seg_len), []
    run.memory = torch.zeros(model.n_layer, train.batch, train.mem_len, model.d_model, device=device)
    run.tokens = fill * train.batch * train.seg_len  # as if the memory had been filled by reading
    for _ in range(count - fill):
        began = perf_counter()
        loop.train_step(run, lanes)
        seconds.append(perf_counter() - began)
    return {"seconds": seconds[settings["warm_up"] :], "bytes": _most_bytes(device) - before}


def _most_bytes(device: str) -> int:
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    import resource  # which Windows lacks

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return for each point what a token costs, and by how much each cost grew faster than it was counted."""
    del corpus
    return {
        "sweeps": {
            sweep: _grown([_row(settings, sweep, value, values) for value in points])
            for sweep, points in settings["sweeps"].items()
        }
    }


def _row(settings: dict[str, Any], sweep: str, value: int, values: dict[str, Any]) -> dict[str, Any]:
    model, train = point(settings, sweep, value)
    tokens = train.batch * train.seg_len
    passes = named(values, f"{sweep} {value}")
    seconds = [second for one in passes for second in one["seconds"]]
    return {
        "value": value,
        "microseconds": spread([1e6 * second / tokens for second in seconds]),
        "kilobytes": spread([one["bytes"] / 1e3 / tokens for one in passes]),
        "counted_kiloflops": rounded(step_operations(model, train) / 1e3 / tokens),
        "counted_kilobytes": rounded(sum(held(model, train, parts=1).values()) / 1e3 / tokens),
    }


def _grown(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    first = rows[0]

    def ratio(row: dict[str, Any], cost: str, counted: str) -> float:
        grown = row[cost]["median"] / first[cost]["median"]
        return rounded(grown * first[counted] / row[counted])

    return [
        {
            **row,
            "time_over_counted": ratio(row, "microseconds", "counted_kiloflops"),
            "memory_over_counted": ratio(row, "kilobytes", "counted_kilobytes"),
        }
        for row in rows
    ]
