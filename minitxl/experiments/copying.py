"""Is what can be reached also learned? Copy the token ``distance`` back, across segments.

Tokens are random, so none can be guessed from the others. Where the distance takes a query
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
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from minitxl.analysis.dependency_reach import extend_with_gradient
from minitxl.config import ModelConfig
from minitxl.data.corpus import Corpus
from minitxl.experiments.shared.runner import Part, Report, named, summaries, summary
from minitxl.memory import extend, reach
from minitxl.model import TransformerLM
from minitxl.training import loop
from minitxl.training.checkpoints import model_config
from minitxl.training.config import TrainConfig
from minitxl.training.optimizer import optimizer_step
from minitxl.training.step import Record, Run

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
    model, random = trained(settings, update, distance, seed, device, report)
    stream = streams(settings, settings["test_streams"], random).to(device)
    with torch.inference_mode():
        guessed = read_segments(settings, extend, model, stream).argmax(dim=2)
    return {"accuracy": hits(settings, guessed, stream, distance).mean(dim=0).tolist()}


def trained(
    settings: dict[str, Any], update: str, distance: int, seed: int, device: str, report: Report
) -> tuple[TransformerLM, torch.Generator]:
    """Return a model that was trained to copy, and the generator that its training streams came from."""
    run, random = begin(settings, seed, device), torch.Generator().manual_seed(seed)
    read, label = partial(read_segments, settings, UPDATES[update]), f"{update}, {distance} back, seed {seed}"
    train(settings, run, read, distance, random, partial(report, label, settings["steps"]))
    return run.model.eval(), random


def begin(
    settings: dict[str, Any],
    seed: int,
    device: str,
    build: Callable[[ModelConfig], TransformerLM] = TransformerLM,
) -> Run:
    """Return a run at step 0."""
    chosen = TrainConfig(learning_rate=settings["learning_rate"], seed=seed)
    return loop.start(model_config(settings["model"]), chosen, device=device, build=build)


def train(
    settings: dict[str, Any],
    run: Run,
    read: Callable[[Any, Tensor], Tensor],
    distance: int,
    random: torch.Generator,
    report: Callable[[Record], None],
) -> None:
    """Train the run's model on every token of a stream that has one ``distance`` back.

    ``read(model, stream)`` returns log-probabilities [batch time vocab], read segment after segment.
    """
    rate = settings["learning_rate"]
    for step in range(1, settings["steps"] + 1):
        stream = streams(settings, settings["batch"], random).to(run.device)
        right = read(run.model, stream)[:, distance:].gather(2, stream[:, :-distance, None])
        loss = -right.mean()
        run.optimizer.zero_grad()
        loss.backward()
        norm = optimizer_step(run.optimizer, clip_grad_norm_(run.model.parameters(), 1.0), rate=rate)
        report(Record(step, loss.item(), rate, norm, stream.numel(), 0.0))


def streams(settings: dict[str, Any], rows: int, random: torch.Generator) -> Int[Tensor, "rows time"]:
    """Return random ids."""
    time = settings["segments"] * settings["seg_len"]
    return torch.randint(settings["model"]["vocab_size"], (rows, time), generator=random)


def hits(
    settings: dict[str, Any], guessed: Tensor, stream: Tensor, distance: int
) -> Float[Tensor, "rows seg"]:
    """Return 1 where the last segment's guess is the token ``distance`` back, and 0 elsewhere."""
    last = stream.shape[1] - settings["seg_len"]
    return (guessed[:, last:] == stream[:, last - distance : -distance]).double()


def read_segments(
    settings: dict[str, Any], update: Callable[..., Tensor], model: TransformerLM, stream: Tensor
) -> Tensor:
    """Return log-probabilities [batch time vocab] of streams read segment after segment."""
    memory, read = None, []
    for segment in stream.split(settings["seg_len"], dim=1):
        log_probs, states = model(segment, memory)
        memory = update(memory, states, mem_len=settings["mem_len"])
        read.append(log_probs)
    return torch.cat(read, dim=1)


def hops_needed(distance: int, *, seg_len: int, mem_len: int) -> list[int]:
    """Return for each offset how many layers it takes to reach ``distance`` back."""
    return [
        next(n for n in count(1) if reach(offset, n_layer=n, seg_len=seg_len, mem_len=mem_len) >= distance)
        for offset in range(seg_len)
    ]


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return accuracy by distance, gradient and offset, and how many hops each offset needs."""
    del corpus
    lengths = {"seg_len": settings["seg_len"], "mem_len": settings["mem_len"]}
    rows = []
    for distance in settings["distances"]:
        hops = hops_needed(distance, **lengths)
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
