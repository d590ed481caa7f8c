"""Does memory help, and does it need relative positions?

Four systems, same steps, same text: positions absolute or relative (XL), with and without
memory. Then each is evaluated with memories of other lengths than it was trained with.
"""

from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

from torch import Tensor

from minitxl.config import ModelConfig
from minitxl.data.corpus import Corpus
from minitxl.experiments.shared import setup
from minitxl.experiments.shared.runner import Part, Report, named, summary
from minitxl.inference.config import EvaluateConfig
from minitxl.inference.evaluation import cached
from minitxl.memory import longest_reach
from minitxl.model import TransformerLM
from minitxl.training.checkpoints import model_config, train_config
from minitxl.training.config import TrainConfig

SEEDS = [0, 1, 2]
SYSTEMS = {
    "absolute": {"attention": "absolute", "memory": False},
    "absolute_memory": {"attention": "absolute", "memory": True},
    "xl": {"attention": "xl", "memory": False},
    "xl_memory": {"attention": "xl", "memory": True},
}


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """Return all that decides the numbers, but for the seeds."""
    model, train = setup.sizes(profile)
    return {
        "profile": profile,
        **setup.described(corpus, replace(model, positions="learned"), train),
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
    train, label = replace(train, seed=seed), f"{name}, seed {seed}"
    run, records = setup.train_on(corpus, config, train, label=label, device=device, report=report)
    test = corpus.test[: settings["test_tokens"] + 1]
    return {
        "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
        "validation": setup.validation_curve(records),
        "scores": [_score(run.model, test, train.seg_len, length) for length in settings["memories"]],
    }


def _system(settings: dict[str, Any], name: str) -> tuple[ModelConfig, TrainConfig]:
    chosen, train = settings["systems"][name], train_config(settings["train"])
    config = replace(model_config(settings["model"]), attention=chosen["attention"])
    return config, train if chosen["memory"] else replace(train, mem_len=0)


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return bits per character on the test text, and the way there."""
    del corpus
    data = {}
    for name in settings["systems"]:
        config, train = _system(settings, name)
        seeds = named(values, name)
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
    return data | {"gains": _gains(data)}


def _gains(data: dict[str, Any]) -> dict[str, Any]:
    """Return bits per character that each change saves, seed by seed; a negative number is a loss."""

    def saved(before: str, after: str) -> dict[str, Any]:
        pairs = zip(data[before]["bits"]["seeds"], data[after]["bits"]["seeds"], strict=True)
        return summary([one - other for one, other in pairs])

    return {
        "relative_positions": saved("absolute", "xl"),
        "memory_with_relative_positions": saved("xl", "xl_memory"),
        "memory_with_absolute_positions": saved("absolute", "absolute_memory"),
    }


def _score(model: TransformerLM, test: Tensor, seg_len: int, mem_len: int) -> dict[str, float]:
    began = perf_counter()
    score = cached(model, test, EvaluateConfig(seg_len, mem_len))
    return {"bits": score.bits_per_token, "microseconds": (perf_counter() - began) / score.tokens * 1e6}
