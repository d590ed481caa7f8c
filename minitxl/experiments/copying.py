"""Is what can be reached also learned? Copy the token ``distance`` back, across segments.

Tokens are random, so nothing but the token itself tells it. Where the distance takes a query
beyond its memory, the token must be carried on by a state in memory, in a second hop. The
stop-gradient never rewards a state for that. A twin of the same model is trained with the
gradient running through memory, which costs the graph of all segments.
"""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from itertools import count
from typing import Any

import torch
from torch import Tensor

from minitxl.analysis.dependency_reach import extend_with_gradient
from minitxl.config import ModelConfig
from minitxl.data.corpora import Corpus
from minitxl.experiments.runner import Part, Report, named, summaries, summary
from minitxl.memory import extend, reach
from minitxl.model import TransformerLM
from minitxl.training.checkpoints import model_config
from minitxl.training.config import TrainConfig
from minitxl.training.loop import Record, start
from minitxl.training.optimizer import optimizer_step

SEEDS = [0, 1, 2]
UPDATES: dict[str, Callable[..., Tensor]] = {"stopped": extend, "flowing": extend_with_gradient}
"""The gradient at memory: the paper's stop-gradient, or none."""
SMALL = ModelConfig(vocab_size=16, n_layer=2, d_model=64, n_head=4, d_head=16, d_inner=128, dropout=0.0)


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """Return all that decides the numbers, but for the seeds. The text is not used."""
    del corpus
    return {
        "model": asdict(SMALL),
        "seg_len": 16,
        "mem_len": 16,
        "segments": 4,
        "batch": 32,
        "distances": [12, 20, 24, 28],
        "updates": list(UPDATES),
        "steps": 3000 if profile == "full" else 600,
        "learning_rate": 2e-3,
        "test_streams": 512,
    }


def parts(settings: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str) -> dict[str, Part]:
    """Train each model on each distance, with each seed."""
    del corpus
    return {
        f"{update}, {distance} back, seed {seed}": partial(_train, settings, update, distance, seed, device)
        for distance in settings["distances"]
        for update in settings["updates"]
        for seed in seeds
    }


def _train(
    settings: dict[str, Any], update: str, distance: int, seed: int, device: str, report: Report
) -> dict[str, Any]:
    """Return accuracy at each offset of the last segment, after training on all targets there are."""
    random = torch.Generator().manual_seed(seed)
    rate, label = settings["learning_rate"], f"{update}, {distance} back, seed {seed}"
    run = start(model_config(settings["model"]), TrainConfig(learning_rate=rate, seed=seed), device=device)
    for step in range(1, settings["steps"] + 1):
        stream = _streams(settings, settings["batch"], random).to(device)
        log_probs = _read(run.model, stream, UPDATES[update], settings)
        right = log_probs[:, distance:].gather(2, stream[:, :-distance, None])
        loss = -right.mean()
        run.optimizer.zero_grad()
        loss.backward()
        norm = optimizer_step(run.model, run.optimizer, rate=rate, clip=1.0)
        report(label, settings["steps"], Record(step, loss.item(), rate, norm, stream.numel(), 0.0))
    stream = _streams(settings, settings["test_streams"], random).to(device)
    with torch.inference_mode():
        guessed = _read(run.model.eval(), stream, extend, settings).argmax(dim=2)
    last = stream.shape[1] - settings["seg_len"]
    hits = guessed[:, last:] == stream[:, last - distance : -distance]
    return {"accuracy": hits.double().mean(dim=0).tolist()}


def _streams(settings: dict[str, Any], rows: int, random: torch.Generator) -> Tensor:
    """Return random ids, [rows time]."""
    time = settings["segments"] * settings["seg_len"]
    return torch.randint(settings["model"]["vocab_size"], (rows, time), generator=random)


def _read(
    model: TransformerLM, stream: Tensor, update: Callable[..., Tensor], settings: dict[str, Any]
) -> Tensor:
    """Return log-probabilities [batch time vocab] of streams read segment after segment."""
    memory, read = None, []
    for segment in stream.split(settings["seg_len"], dim=1):
        log_probs, states = model(segment, memory)
        memory = update(memory, states, mem_len=settings["mem_len"])
        read.append(log_probs)
    return torch.cat(read, dim=1)


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return accuracy by distance, gradient and offset, and how many hops each offset needs."""
    del corpus
    lengths = {"seg_len": settings["seg_len"], "mem_len": settings["mem_len"]}
    rows = []
    for distance in settings["distances"]:
        hops = [
            next(n for n in count(1) if reach(offset, n_layer=n, **lengths) >= distance)
            for offset in range(settings["seg_len"])
        ]
        row: dict[str, Any] = {"distance": distance, "hops": hops}
        for update in settings["updates"]:
            curves = [part["accuracy"] for part in named(values, f"{update}, {distance} back")]
            row[update] = {"by_offset": summaries(curves)}
            for number in sorted(set(hops)):
                means = [
                    sum(a for a, h in zip(curve, hops, strict=True) if h == number) / hops.count(number)
                    for curve in curves
                ]
                row[update][f"{number}_hop"] = summary(means)
        rows.append(row)
    return {
        "chance": 1 / settings["model"]["vocab_size"],
        "n_layer": settings["model"]["n_layer"],
        **lengths,
        "rows": rows,
    }
