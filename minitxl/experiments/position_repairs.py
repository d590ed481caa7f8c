"""Does T5 only learn slowly, and can rotary read farther than it was trained?

Two questions that ``later_positions`` leaves open, at its sizes, on its text, with its steps and seeds.

T5's table holds single numbers, and Adam moves a number by about the learning rate a step, and by a few
times that at most. So how far a table can go in few steps is bounded, whatever the data say. Here T5 is
trained as published, and with its table multiplied by a factor, which lets the biases go that much farther.
Both begin with the same biases; the gradient is clipped over all weights together, as everywhere.

Rotary models are trained once with memory, and read with longer ones in four ways that leave their weights
alone: as they are; with distances clamped to the longest of training; with positions interpolated, so that
the longest distance turns like the longest of training (Chen et al. 2023); and with the frequencies' base
raised, so that the slowest pair alone is stretched as much (NTK-aware scaling; Peng et al. 2024).
"""

from dataclasses import replace
from functools import partial
from math import log, sqrt
from typing import Any

import torch
from torch import Tensor

from minitxl.attention import Heads, Keys, Scores, content_scores
from minitxl.config import ModelConfig
from minitxl.data.corpus import Corpus
from minitxl.experiments import later_positions
from minitxl.experiments.shared.runner import Part, Report, differences, named, summary
from minitxl.experiments.without_terms import losses_with_memory
from minitxl.inference.config import EvaluateConfig
from minitxl.inference.evaluation import cached
from minitxl.later_attention import Bias, RotaryAttention, T5Attention, rotate
from minitxl.model import Block, TransformerLM
from minitxl.training.checkpoints import train_config
from minitxl.training.config import TrainConfig
from minitxl.training.schedules import learning_rate

SEEDS = later_positions.SEEDS
SYSTEMS: dict[str, dict[str, Any]] = {
    "t5": {"attention": "t5", "memory": False},
    "t5_memory": {"attention": "t5", "memory": True},
    "t5_scaled": {"attention": "t5", "memory": False, "scaled": True},
    "t5_scaled_memory": {"attention": "t5", "memory": True, "scaled": True},
    "xl_memory": {"attention": "xl", "memory": True},
    "rotary_memory": {"attention": "rotary", "memory": True},
}
WAYS = ["as_trained", "clamped", "interpolated", "base_raised"]
"""Ways to read a rotary model with a longer memory than that of training."""


class ScaledT5Attention(T5Attention):
    """``T5Attention`` whose biases are ``factor`` times its table; a fast model runs it as it is written."""

    def __init__(self, published: T5Attention, factor: float) -> None:
        sizes = published.W_q.in_features, published.n_head, published.d_head
        buckets = published.n_bucket, published.bucket_distance
        super().__init__(
            *sizes, *buckets, attention_dropout=published.attention_dropout.p, table=published.table
        )
        _take_projections(self, published)
        self.factor = factor

    def distance_bias(self, dist: Tensor) -> Bias:
        """Return ``factor`` times each head's number of the distance's bucket."""
        return self.factor * super().distance_bias(dist)


class StretchedRotaryAttention(RotaryAttention):
    """``RotaryAttention`` with positions divided by ``stretch`` and frequencies of another ``base``."""

    def __init__(self, trained: RotaryAttention, *, stretch: float = 1.0, base: float = 10000.0) -> None:
        sizes = trained.W_q.in_features, trained.n_head, trained.d_head
        super().__init__(*sizes, attention_dropout=trained.attention_dropout.p)
        _take_projections(self, trained)
        self.stretch, self.base = stretch, base

    def scores(self, q: Heads, k: Keys, clamp_len: int | None) -> Scores:
        """Return the products of queries and keys, rotated by the stretched positions."""
        if clamp_len is not None:
            raise ValueError(f"clamp_len must be None where positions are stretched, got {clamp_len}")
        position = torch.arange(k.shape[2], device=k.device) / self.stretch
        queries = rotate(q, position[k.shape[2] - q.shape[2] :], self.base)
        return content_scores(queries, rotate(k, position, self.base)) / sqrt(self.d_head)


def _take_projections(attention: torch.nn.Module, other: torch.nn.Module) -> None:
    for name in ("W_q", "W_k", "W_v", "W_o"):
        setattr(attention, name, getattr(other, name))


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """Return all that decides the numbers, but for the seeds: the sizes and text of ``later_positions``."""
    shared = later_positions.settings(profile, corpus)
    taken = ("profile", "corpus", "model", "train", "test_tokens", "memories")
    return {name: shared[name] for name in taken} | {"systems": SYSTEMS, "factor": 30.0, "ways": WAYS}


def parts(settings: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str) -> dict[str, Part]:
    """Train each system with each seed, and read the test text with memories of all lengths."""
    return {
        f"{system}, seed {seed}": partial(_train_and_read, settings, corpus, system, seed, device)
        for seed in seeds
        for system in settings["systems"]
    }


def _train_and_read(
    settings: dict[str, Any], corpus: Corpus, system: str, seed: int, device: str, report: Report
) -> dict[str, Any]:
    chosen = settings["systems"][system]
    factor = settings["factor"] if chosen.get("scaled") else 1.0
    run = later_positions.train_system(
        settings,
        corpus,
        {"attention": chosen["attention"]},
        memory=chosen["memory"],
        seed=seed,
        name=f"{system}, seed {seed}",
        device=device,
        report=report,
        build=partial(with_scaled_table, factor=factor) if chosen.get("scaled") else TransformerLM,
    )
    train, config = run.settings, run.model.config
    model, test = run.model, corpus.test[: settings["test_tokens"] + 1]
    if chosen["attention"] == "rotary":
        return {"ways": {way: _read_in_a_way(model, test, settings, way) for way in settings["ways"]}}
    reads = [
        _bits(losses_with_memory(model, test, EvaluateConfig(train.seg_len, length)))
        for length in settings["memories"]
    ]
    if chosen["attention"] != "t5":
        return {"bits": reads}
    return {"bits": reads} | _learned_bias(model, config, seed, factor)


def with_scaled_table(config: ModelConfig, factor: float) -> TransformerLM:
    """Return a T5 model with the biases of ``TransformerLM``'s as drawn, in a table that is scaled."""
    model = TransformerLM(config)
    for block in model.blocks:
        assert isinstance(block, Block)
        assert isinstance(block.attention, T5Attention)
        block.attention = ScaledT5Attention(block.attention, factor)
    for name, parameter in model.named_parameters():  # names a shared table once
        if name.endswith(".table"):
            parameter.data /= factor
    return model


def _learned_bias(model: TransformerLM, config: ModelConfig, seed: int, factor: float) -> dict[str, Any]:
    """Return the first layer's bias [head bucket] in nats, and how far training moved one at most."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        drawn = TransformerLM(config).state_dict()
    name = "blocks.0.attention.table"
    learned, begun = factor * model.state_dict()[name].cpu(), drawn[name]
    return {"bias": learned.tolist(), "moved": (learned - begun).abs().max().item()}


def _read_in_a_way(model: TransformerLM, test: Tensor, settings: dict[str, Any], way: str) -> list[float]:
    """Return bits per character at each memory but none, with positions read in one of ``WAYS``."""
    train, trained = train_config(settings["train"]), longest_distance(train_config(settings["train"]))
    bits = []
    for length in settings["memories"][1:]:
        read = EvaluateConfig(train.seg_len, length)
        if way in ("as_trained", "clamped"):
            clamped = replace(read, clamp_len=trained) if way == "clamped" else read
            bits.append(cached(model, test, clamped).bits_per_token)
        else:
            stretch = longest_distance(read) / trained
            bits.append(_bits(losses_with_memory(stretched(model, stretch, way), test, read)))
    return bits


def longest_distance(lengths: TrainConfig | EvaluateConfig) -> int:
    """Return the distance from the last query of a segment to the oldest state of its memory."""
    return lengths.seg_len + lengths.mem_len - 1


def stretched(model: TransformerLM, stretch: float, way: str) -> TransformerLM:
    """Return a rotary model of the same weights that reads distances ``stretch`` times as long.

    Interpolated, all positions are divided by ``stretch``. With the base raised by the power d / (d - 2) of
    it, where d = d_head, the fastest pair turns as before and the slowest as if interpolated.
    """
    reader = TransformerLM(model.config).to(next(model.parameters()))
    reader.load_state_dict(model.state_dict())
    for block in reader.blocks:
        assert isinstance(block, Block)
        assert isinstance(block.attention, RotaryAttention)
        d = block.attention.d_head
        how = {"stretch": stretch} if way == "interpolated" else {"base": 10000.0 * stretch ** (d / (d - 2))}
        block.attention = StretchedRotaryAttention(block.attention, **how)
    return reader


def _bits(nats: Tensor) -> float:
    return nats.double().mean().item() / log(2)


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return bits per character by memory, of each system and each way, and what differs seed by seed."""
    del corpus
    train, lengths = train_config(settings["train"]), settings["memories"]
    seeds = {system: named(values, system) for system in settings["systems"]}

    def by_memory(series: list[list[float]], lengths: list[int]) -> list[dict[str, Any]]:
        return [
            {"mem_len": length, "bits": summary([bits[index] for bits in series])}
            for index, length in enumerate(lengths)
        ]

    systems = {
        system: by_memory([part["bits"] for part in seeds[system]], lengths)
        for system, chosen in settings["systems"].items()
        if chosen["attention"] != "rotary"
    }
    rotary = {
        way: by_memory([part["ways"][way] for part in seeds["rotary_memory"]], lengths[1:])
        for way in settings["ways"]
    }

    def bits(rows: list[dict[str, Any]], mem_len: int) -> list[float]:
        return next(row["bits"]["seeds"] for row in rows if row["mem_len"] == mem_len)

    longer = lengths[1:]
    return {
        "seg_len": train.seg_len,
        "mem_len": train.mem_len,
        "steps": train.steps,
        "factor": settings["factor"],
        "trained_distance": longest_distance(train),
        "sum_of_rates": sum(learning_rate(step, train) for step in range(1, train.steps + 1)),
        "systems": systems,
        "rotary": rotary,
        "learned": {
            system: {
                "bias": [part["bias"] for part in seeds[system]],
                "moved": summary([part["moved"] for part in seeds[system]]),
            }
            for system, chosen in settings["systems"].items()
            if chosen["attention"] == "t5"
        },
        "memory_gain": {
            kind: differences(bits(systems[kind], 0), bits(systems[f"{kind}_memory"], train.mem_len))
            for kind in ("t5", "t5_scaled")
        },
        "scaled_before_xl": {
            f"{length}": differences(
                bits(systems["xl_memory"], length), bits(systems["t5_scaled_memory"], length)
            )
            for length in longer
        },
        "regained": {
            way: {
                f"{length}": differences(bits(rotary["as_trained"], length), bits(rotary[way], length))
                for length in longer
            }
            for way in settings["ways"][1:]
        },
    }
