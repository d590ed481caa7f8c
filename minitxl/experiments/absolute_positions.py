"""Absolute positions with memory: restart them in every segment, count on, or count in a circle?

Two tasks. One is to copy the token 8 back in random text, with one layer, segments of 16 and a memory
of 16. Where positions restart, a late query sees two keys at the position it looks for. Where they
count on through the stream no two keys share a position, but a stream that is longer than those of
training has positions the model has never seen. A sinusoidal position is a row of clock hands, fast
ones and slow ones. Fast hands go round within the positions of training, so every later angle of one
hand is a known one; slow hands reach angles that no training has shown. One system therefore counts on
with its fast hands alone. Another counts in a circle of M + L positions: no two keys of a query share
one, and all are met in training. Transformer-XL, which encodes distances, reads the same streams.

The other task is a text, with the settings of ``memory_and_positions`` but for sinusoidal positions.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from math import log, pi
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from minitxl.attention import Hidden
from minitxl.config import ModelConfig
from minitxl.data.batching import ContiguousBatches
from minitxl.data.corpus import Corpus
from minitxl.experiments import copying, memory_and_positions
from minitxl.experiments.shared.runner import Part, Report, named, summaries, summary
from minitxl.memory import extend
from minitxl.model import TransformerLM
from minitxl.position_encodings import sinusoids
from minitxl.training import loop
from minitxl.training.checkpoints import model_config, train_config
from minitxl.training.step import train_step

SEEDS = [0, 1, 2]
COPIERS: dict[str, dict[str, Any]] = {
    "restarted": {"attention": "absolute", "count": "restarted"},
    "counted_on": {"attention": "absolute", "count": "on"},
    "fast_hands": {"attention": "absolute", "count": "on, fast hands"},
    "circle": {"attention": "absolute", "count": "circle"},
    "xl": {"attention": "xl", "count": "restarted"},
}
READERS: dict[str, dict[str, Any]] = {
    "no_memory": {"attention": "absolute", "count": "restarted", "memory": False},
    "restarted": {"attention": "absolute", "count": "restarted", "memory": True},
    "circle": {"attention": "absolute", "count": "circle", "memory": True},
    "xl": {"attention": "xl", "count": "restarted", "memory": True},
}


class CountingLM(TransformerLM):
    """A model whose absolute positions may go on from segment to segment: ``begin`` is the next one."""

    begin = 0
    period: int | None = None
    """Positions are counted in a circle of so many; None for a straight line."""
    hands: int | None = None
    """Number of frequencies of a position's sinusoids, the fastest first; None means all."""

    def add_positions(self, x: Hidden, *, layer: int) -> Hidden:
        """Return x plus the sinusoids of positions ``begin``, ``begin`` + 1, … for the first layer."""
        if layer or self.config.attention != "absolute":
            return x
        position = torch.arange(self.begin, self.begin + x.shape[1], device=x.device)
        if self.period is not None:
            position = position % self.period
        U = sinusoids(position, self.config.d_model, dtype=x.dtype)
        if self.hands is not None:
            slow = torch.arange(self.config.d_model // 2, device=x.device) >= self.hands
            U = U.masked_fill(slow.repeat(2), 0.0)  # sines first, then cosines
        return x + U


def full_turns(positions: int, d_model: int) -> int:
    """Return how many hands of a sinusoid of this width turn once or more within so many positions.

    Hand n turns by 10000^(-2n / d_model) at every position, so a turn takes 2π · 10000^(2n / d_model).

    >>> full_turns(48, 64)
    8
    """
    return sum(2 * pi * 10000 ** (2 * n / d_model) <= positions for n in range(d_model // 2))


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """Return all that decides the numbers, but for the seeds."""
    text = memory_and_positions.settings(profile, corpus)
    return copying.settings(profile, corpus) | {
        "model": asdict(replace(copying.SMALL, n_layer=1)),
        "distances": [8],
        "updates": ["stopped"],
        "segments": 3,
        "steps": 3000 if profile == "full" else 1000,
        "learning_rate": 3e-3,
        "read_segments": 40,
        "copiers": COPIERS,
        "readers": READERS,
        "text": {name: text[name] for name in ("corpus", "train", "test_tokens")}
        | {"model": text["model"] | {"positions": "sinusoidal"}},
    }


def parts(settings: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str) -> dict[str, Part]:
    """Train each system on its task with each seed."""
    copiers: dict[str, Part] = {
        f"copy, {system}, seed {seed}": partial(_copy, settings, system, seed, device)
        for system in settings["copiers"]
        for seed in seeds
    }
    readers: dict[str, Part] = {
        f"text, {system}, seed {seed}": partial(_read_text, settings, corpus, system, seed, device)
        for system in settings["readers"]
        for seed in seeds
    }
    return copiers | readers


def _build(count: str, *, circle: int, trained: int, config: ModelConfig) -> CountingLM:
    """Return a model that counts in this way; ``trained`` positions are met in training."""
    model = CountingLM(config)
    model.period = circle if count == "circle" else None
    model.hands = full_turns(trained, config.d_model) if count.endswith("fast hands") else None
    return model


def _copy(settings: dict[str, Any], system: str, seed: int, device: str, report: Report) -> dict[str, Any]:
    """Return accuracy in each segment of streams that are longer than those of training.

    For the last segment of training also by offset, and how often the guess is either the right token or
    the one a segment farther back, which has the same position where positions restart.
    """
    chosen, (distance,), seg_len = settings["copiers"][system], settings["distances"], settings["seg_len"]
    circle, trained = settings["mem_len"] + seg_len, settings["segments"] * seg_len
    chosen_settings = settings | {"model": settings["model"] | {"attention": chosen["attention"]}}
    build = partial(_build, chosen["count"], circle=circle, trained=trained)
    run = copying.begin(chosen_settings, seed, device, lambda config: build(config=config))
    random = torch.Generator().manual_seed(seed)
    read = partial(_read, settings, chosen["count"] != "restarted")
    report_step = partial(report, f"copy, {system}, seed {seed}", settings["steps"])
    copying.train(settings, run, read, distance, random, report_step)
    longer = settings | {"segments": settings["read_segments"]}
    stream = copying.streams(longer, settings["test_streams"], random).to(device)
    model, last = cast(CountingLM, run.model.eval()), settings["segments"] - 1
    with torch.inference_mode():
        guessed = read(model, stream).argmax(dim=2)
    right = guessed == stream.roll(distance, dims=1)
    either = right | (guessed == stream.roll(distance + seg_len, dims=1))
    by_segment = right.double().mean(dim=0).split(seg_len)
    return {
        "by_segment": [
            by_segment[0][distance:].mean().item(),
            *(row.mean().item() for row in by_segment[1:]),
        ],
        "by_offset": by_segment[last].tolist(),
        "either": either.double().mean(dim=0).split(seg_len)[last].tolist(),
    }


def _read(
    settings: Mapping[str, Any], count_on: bool, model: CountingLM, stream: Tensor
) -> Float[Tensor, "batch time vocab"]:
    """Return log-probabilities of streams read segment after segment."""
    memory, log_probs = None, []
    for number, segment in enumerate(stream.split(settings["seg_len"], dim=1)):
        model.begin = number * settings["seg_len"] if count_on else 0
        of_segment, states = model(segment, memory)
        memory = extend(memory, states, mem_len=settings["mem_len"])
        log_probs.append(of_segment)
    return torch.cat(log_probs, dim=1)


def _read_text(
    settings: dict[str, Any], corpus: Corpus, system: str, seed: int, device: str, report: Report
) -> float:
    """Return test bits per character of a model that was trained on the text, read by its own lengths."""
    chosen, text = settings["readers"][system], settings["text"]
    train = replace(train_config(text["train"]), seed=seed)
    train = train if chosen["memory"] else replace(train, mem_len=0)
    config = replace(model_config(text["model"]), attention=chosen["attention"])
    segments = ContiguousBatches(corpus.train, batch=train.batch, seg_len=train.seg_len)
    circle, trained = train.mem_len + train.seg_len, len(segments) * train.seg_len
    build = partial(_build, chosen["count"], circle=circle, trained=trained)
    run = loop.start(config, train, device=device, build=lambda config: build(config=config))
    model, count_on = cast(CountingLM, run.model), chosen["count"] != "restarted"
    while run.step < train.steps:
        model.begin = run.step % len(segments) * train.seg_len if count_on else 0
        report(f"text, {system}, seed {seed}", train.steps, train_step(run, segments))
    test = corpus.test[: text["test_tokens"] + 1].to(device, torch.int64)
    tokens, targets = test[None, :-1], test[None, 1:]
    lengths = {"seg_len": train.seg_len, "mem_len": train.mem_len}
    with torch.inference_mode():
        log_probs = _read(lengths, count_on, model.eval(), tokens)
    return -log_probs.gather(2, targets[..., None]).mean().item() / log(2)


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return accuracy by segment and, in the last segment of training, by offset; and bits of the text."""
    del corpus
    (distance,), trained, copiers = settings["distances"], settings["segments"], {}
    for system in settings["copiers"]:
        seeds = named(values, f"copy, {system}")
        beyond = [part["by_segment"][trained:] for part in seeds]
        copiers[system] = {
            "by_segment": summaries([part["by_segment"] for part in seeds]),
            "by_offset": summaries([part["by_offset"] for part in seeds]),
            "early": summary([_mean(part["by_offset"][:distance]) for part in seeds]),
            "late": summary([_mean(part["by_offset"][distance:]) for part in seeds]),
            "late_either": summary([_mean(part["either"][distance:]) for part in seeds]),
            "beyond_training": {
                "worst": summary([min(row) for row in beyond]),
                "mean": summary([_mean(row) for row in beyond]),
                "best": summary([max(row) for row in beyond]),
            },
        }
    vocab, d_model = settings["model"]["vocab_size"], settings["model"]["d_model"]
    return {
        "chance": 1 / vocab,
        "coin": 1 / 2 + 1 / 2 / vocab,
        "distance": distance,
        "seg_len": settings["seg_len"],
        "trained_segments": trained,
        "hands": d_model // 2,
        "fast_hands": full_turns(trained * settings["seg_len"], d_model),
        "copiers": copiers,
        "readers": {system: summary(named(values, f"text, {system}")) for system in settings["readers"]},
    }


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
