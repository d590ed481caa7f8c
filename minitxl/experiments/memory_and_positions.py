"""Does memory help, and does it need relative positions?

Four systems, same steps, same text: positions absolute or relative (XL), with and without
memory. Then each is evaluated with memories of other lengths than it was trained with.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from statistics import mean
from time import perf_counter
from typing import Any

from torch import Tensor

from minitxl import training
from minitxl.batching import Lanes
from minitxl.checkpoints import model_config
from minitxl.config import EvaluateConfig, ModelConfig, TrainConfig
from minitxl.corpora import Corpus
from minitxl.evaluation import cached
from minitxl.memory import longest_reach
from minitxl.model import TransformerLM
from minitxl.training import Record

Report = Callable[[str, int, Record], None]
"""Told of each step: which run, how many steps it has in all, what the step did."""

SEEDS = [0, 1, 2]
SYSTEMS = {
    "absolute": {"attention": "absolute", "memory": False},
    "absolute_memory": {"attention": "absolute", "memory": True},
    "xl": {"attention": "xl", "memory": False},
    "xl_memory": {"attention": "xl", "memory": True},
}
SMALL = ModelConfig(positions="learned", norm="pre", activation="gelu", dropout=0.0)
LARGE = replace(SMALL, n_layer=6, d_model=256, n_head=8, d_inner=1024, dropout=0.1)
SHORT = TrainConfig()
LONG = TrainConfig(seg_len=128, mem_len=128, batch=32, steps=8000, learning_rate=1e-3, warmup=400)


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """All that decides the numbers, but for the seeds."""
    model, train = (LARGE, LONG) if profile == "full" else (SMALL, SHORT)
    return {
        "profile": profile,
        "corpus": {"name": corpus.name, "sha256": corpus.sha256},
        "model": asdict(model),
        "train": asdict(train),
        "systems": SYSTEMS,
        "test_tokens": 16_384,
        "memories": [train.mem_len * quarters // 4 for quarters in (0, 1, 2, 4, 8, 16, 32)],
    }


def run(
    asked: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str, report: Report
) -> dict[str, Any]:
    """Train each system with each seed; bits per character on the test text, and the way there."""
    model, train = model_config(asked["model"]), TrainConfig(**asked["train"])
    test = corpus.test[: asked["test_tokens"] + 1]
    lanes = Lanes(corpus.train, batch=train.batch, seg_len=train.seg_len)
    data: dict[str, Any] = {}
    for name, chosen in asked["systems"].items():
        config = replace(model, attention=chosen["attention"])
        base = train if chosen["memory"] else replace(train, mem_len=0)
        curves, scores = [], []
        for seed in seeds:
            ready = training.start(config, replace(base, seed=seed), device=device)
            records = []
            for record in training.steps(ready, lanes, corpus.valid):
                report(f"{name}, seed {seed}", base.steps, record)
                records.append(record)
            curves.append([record.valid_bits for record in records if record.valid_bits is not None])
            scores.append([_score(ready.model, test, train.seg_len, length) for length in asked["memories"]])
        by_memory = [
            {
                "mem_len": length,
                "longest_reach": longest_reach(n_layer=config.n_layer, seg_len=base.seg_len, mem_len=length),
                "bits": summary([found[index]["bits"] for found in scores]),
                "microseconds_per_token": summary([found[index]["microseconds"] for found in scores]),
            }
            for index, length in enumerate(asked["memories"])
        ]
        data[name] = {
            **next(row for row in by_memory if row["mem_len"] == base.mem_len),
            "parameters": sum(parameter.numel() for parameter in ready.model.parameters()),
            "validation": {
                "step": [record.step for record in records if record.valid_bits is not None],
                "bits": curves,
            },
            "by_memory": by_memory,
        }
    return data


def summary(values: list[float]) -> dict[str, Any]:
    """The values of all seeds, their mean, and their spread (largest less smallest)."""
    return {"seeds": values, "mean": mean(values), "spread": max(values) - min(values)}


def _score(model: TransformerLM, test: Tensor, seg_len: int, mem_len: int) -> dict[str, float]:
    began = perf_counter()
    score = cached(model, test, EvaluateConfig(seg_len, mem_len))
    return {"bits": score.bits_per_token, "microseconds": (perf_counter() - began) / score.tokens * 1e6}
