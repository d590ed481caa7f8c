"""How many distances must Shaw et al. tell apart? Their clip distance k, trained short and tested long.

Distances beyond k share one vector, so a longer memory than in training brings no vector that
was not trained: unless k is so large that training never reached it. The largest k here is
L + M, one more than the farthest distance of training.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from minitxl.attention import ShawAttention
from minitxl.data.corpus import Corpus
from minitxl.experiments import ablation
from minitxl.experiments.shared import setup
from minitxl.experiments.shared.runner import Part, Report, named, summaries
from minitxl.inference.evaluation import cached
from minitxl.model import TransformerLM
from minitxl.training.checkpoints import model_config, train_config

SEEDS = [0, 1, 2]
SHOWN = 16
"""Clip distance k whose vectors the result holds, of the first seed."""


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """Return the ablation's model, training and text; attention lengths are in segments."""
    base = ablation.settings(profile, corpus)
    train = base["train"]
    return {
        "profile": profile,
        "corpus": base["corpus"],
        "model": base["model"] | base["encodings"]["Shaw"],
        "train": train,
        "max_distances": [1, 4, SHOWN, train["seg_len"] + train["mem_len"]],
        "memory_lens": [2, 3, 4, 6, 8],
        "test_tokens": base["test_tokens"],
    }


def parts(settings: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str) -> dict[str, Part]:
    """Train and score a model for each k and seed."""
    return {
        label(k, seed): partial(_train_and_score, settings, corpus, k, seed, device)
        for k in settings["max_distances"]
        for seed in seeds
    }


def label(max_distance: int, seed: int) -> str:
    """Return the name of a part."""
    return f"k = {max_distance}, seed {seed}"


def _train_and_score(
    settings: dict[str, Any], corpus: Corpus, max_distance: int, seed: int, device: str, report: Report
) -> dict[str, Any]:
    config = replace(model_config(settings["model"]), max_distance=max_distance)
    train = replace(train_config(settings["train"]), seed=seed)
    name = label(max_distance, seed)
    run, _ = setup.train_on(corpus, config, train, label=name, device=device, report=report)
    test = corpus.test[: settings["test_tokens"] + 1]
    lengths = [int(train.seg_len * factor) for factor in settings["memory_lens"]]
    longer = [train.evaluation.attending(length) for length in lengths]
    return {
        "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
        "bits": [cached(run.model, test, evaluate).bits_per_token for evaluate in longer],
        "vectors": vectors(run.model) if max_distance == SHOWN else None,
    }


def vectors(model: TransformerLM) -> list[dict[str, Any]]:
    """Return the norms of each layer's table rows -k … k, and the cosines of neighbours, rounded."""
    layers = []
    for block in model.blocks:
        assert isinstance(block.attention, ShawAttention)
        tables = {"a_K": block.attention.a_K, "a_V": block.attention.a_V}
        layers.append({name: _described(table.detach().cpu()) for name, table in tables.items()})
    return layers


def _described(table: Tensor) -> dict[str, list[float]]:
    cosine = cosine_similarity(table[:-1], table[1:], dim=-1)
    return {"norm": _rounded(table.norm(dim=-1)), "cosine": _rounded(cosine)}


def _rounded(values: Tensor) -> list[float]:
    return [round(value, 3) for value in values.to(torch.float64).tolist()]


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return each k's loss by attention length, and the vectors of one model."""
    del corpus
    train = settings["train"]
    lengths = [int(train["seg_len"] * factor) for factor in settings["memory_lens"]]
    rows = []
    for k in settings["max_distances"]:
        seeds = named(values, f"k = {k}")
        by_length = [
            {"attention_len": length, "bits": bits}
            for length, bits in zip(lengths, summaries(part["bits"] for part in seeds), strict=True)
        ]
        trained = lengths.index(train["seg_len"] + train["mem_len"])
        rows.append(
            {
                "max_distance": k,
                "parameters": seeds[0]["parameters"],
                "trained": by_length[trained],
                "longest": by_length[-1],
                "by_length": by_length,
            }
        )
    layers = next(part["vectors"] for part in values.values() if part["vectors"] is not None)
    return {
        "seg_len": train["seg_len"],
        "mem_len": train["mem_len"],
        "by_clip": rows,
        "vectors": {"max_distance": SHOWN, "j_minus_i": list(range(-SHOWN, SHOWN + 1)), "layers": layers},
    }
