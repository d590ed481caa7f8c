"""Does memory help, and does it need relative positions?

Four systems, same steps, same text: positions absolute or relative (XL), with and without
memory. Then each is evaluated with memories of other lengths than it was trained with.
"""

from dataclasses import asdict, replace
from functools import partial
from time import perf_counter
from typing import Any

from torch import Tensor

from minitxl.config import ModelConfig
from minitxl.data.batching import ContiguousBatches
from minitxl.data.corpora import Corpus
from minitxl.experiments.runner import Part, Report, summary
from minitxl.inference.config import EvaluateConfig
from minitxl.inference.evaluation import cached
from minitxl.memory import longest_reach
from minitxl.model import TransformerLM
from minitxl.training import loop
from minitxl.training.checkpoints import model_config, train_config
from minitxl.training.config import TrainConfig

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
    """Return all that decides the numbers, but for the seeds."""
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


def parts(settings: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str) -> dict[str, Part]:
    """Train each system with each seed, and score it with each memory."""
    return {
        f"{name}, seed {seed}": partial(_train_and_score, settings, corpus, name, seed, device)
        for name in settings["systems"]
        for seed in seeds
    }


def _train_and_score(
    settings: dict[str, Any], corpus: Corpus, name: str, seed: int, device: str, report: Report
) -> dict[str, Any]:
    config, train = _system(settings, name)
    lanes = ContiguousBatches(corpus.train, batch=train.batch, seg_len=train.seg_len)
    ready = loop.start(config, replace(train, seed=seed), device=device)
    curve: dict[str, list[float]] = {"step": [], "bits": []}
    for record in loop.train_steps(ready, lanes, corpus.valid):
        report(f"{name}, seed {seed}", train.steps, record)
        if record.valid_bits is not None:
            curve["step"].append(record.step)
            curve["bits"].append(record.valid_bits)
    test = corpus.test[: settings["test_tokens"] + 1]
    return {
        "parameters": sum(parameter.numel() for parameter in ready.model.parameters()),
        "validation": curve,
        "scores": [_score(ready.model, test, train.seg_len, length) for length in settings["memories"]],
    }


def _system(settings: dict[str, Any], name: str) -> tuple[ModelConfig, TrainConfig]:
    chosen, train = settings["systems"][name], train_config(settings["train"])
    config = replace(model_config(settings["model"]), attention=chosen["attention"])
    return config, train if chosen["memory"] else replace(train, mem_len=0)


def collect(settings: dict[str, Any], corpus: Corpus, found: dict[str, Any]) -> dict[str, Any]:
    """Return bits per character on the test text, and the way there."""
    del corpus
    data = {}
    for name in settings["systems"]:
        config, train = _system(settings, name)
        seeds = [part for label, part in found.items() if label.startswith(f"{name}, ")]
        by_memory = [
            {
                "mem_len": length,
                "longest_reach": longest_reach(n_layer=config.n_layer, seg_len=train.seg_len, mem_len=length),
                "bits": summary([part["scores"][index]["bits"] for part in seeds]),
                "microseconds_per_token": summary([part["scores"][index]["microseconds"] for part in seeds]),
            }
            for index, length in enumerate(settings["memories"])
        ]
        data[name] = {
            **next(row for row in by_memory if row["mem_len"] == train.mem_len),
            "parameters": seeds[0]["parameters"],
            "validation": {
                "step": seeds[0]["validation"]["step"],
                "bits": [part["validation"]["bits"] for part in seeds],
            },
            "by_memory": by_memory,
        }
    return data


def _score(model: TransformerLM, test: Tensor, seg_len: int, mem_len: int) -> dict[str, float]:
    began = perf_counter()
    score = cached(model, test, EvaluateConfig(seg_len, mem_len))
    return {"bits": score.bits_per_token, "microseconds": (perf_counter() - began) / score.tokens * 1e6}
