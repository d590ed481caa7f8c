"""Does every system train? Each encoding, with and without memory, post-norm and pre-norm.

Each is trained for the same number of steps at settings that suit its norm, and compared with
a bigram model of the same text. Then the memory of those that have one is emptied.
"""

from dataclasses import asdict, replace
from math import log
from typing import Any

import torch
from torch import Tensor

from minitxl import training
from minitxl.batching import Lanes
from minitxl.checkpoints import model_config
from minitxl.config import EvaluateConfig, TrainConfig
from minitxl.corpora import Corpus
from minitxl.evaluation import cached
from minitxl.experiments.memory_and_positions import SHORT, SMALL, Report

SEEDS = [0]
ENCODINGS = {
    "absolute, sinusoidal": {"attention": "absolute", "positions": "sinusoidal"},
    "absolute, learned": {"attention": "absolute", "positions": "learned"},
    "absolute, per layer": {"attention": "absolute", "positions": "per-layer"},
    "Shaw": {"attention": "shaw"},
    "XL": {"attention": "xl"},
}
NORMS = {"pre": {}, "post": {"learning_rate": 1e-3, "warmup": 100}}


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """All that decides the numbers, but for the seed. Both profiles ask the same question."""
    del profile
    return {
        "corpus": {"name": corpus.name, "sha256": corpus.sha256},
        "model": asdict(SMALL),
        "train": asdict(replace(SHORT, validate_every=SHORT.steps)),
        "encodings": ENCODINGS,
        "norms": NORMS,
        "test_tokens": 16_384,
    }


def run(
    asked: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str, report: Report
) -> dict[str, Any]:
    """Test bits per character of each system, with its memory and with an empty one."""
    model, train = model_config(asked["model"]), TrainConfig(**asked["train"])
    test = corpus.test[: asked["test_tokens"] + 1]
    lanes = Lanes(corpus.train, batch=train.batch, seg_len=train.seg_len)
    systems = []
    for encoding, fields in asked["encodings"].items():
        for norm, changes in asked["norms"].items():
            for mem_len in (0, train.mem_len):
                for seed in seeds:
                    base = replace(train, mem_len=mem_len, seed=seed, **changes)
                    ready = training.start(replace(model, norm=norm, **fields), base, device=device)
                    label = f"{encoding}, {norm}-norm, memory {mem_len}, seed {seed}"
                    for record in training.steps(ready, lanes, corpus.valid):
                        report(label, base.steps, record)
                    score, emptied = (
                        cached(ready.model, test, EvaluateConfig(train.seg_len, length), batch=train.batch)
                        for length in (mem_len, 0)
                    )
                    systems.append(
                        {
                            "encoding": encoding,
                            "attention": fields["attention"],
                            "norm": norm,
                            "mem_len": mem_len,
                            "seed": seed,
                            "bits": score.bits_per_token,
                            "bits_with_memory_emptied": emptied.bits_per_token,
                        }
                    )
    return {"bigram_bits": bigram_bits(corpus.train, test, corpus.vocab_size), "systems": systems}


def bigram_bits(train: Tensor, test: Tensor, vocab_size: int) -> float:
    """Bits per token of p(next | token) counted on ``train``, one added to each count."""
    before, after = train[:-1].long(), train[1:].long()
    counts = torch.bincount(before * vocab_size + after, minlength=vocab_size**2) + 1
    pair = counts.double()[test[:-1].long() * vocab_size + test[1:].long()]
    first = torch.bincount(before, minlength=vocab_size) + vocab_size
    return -(pair / first[test[:-1].long()]).log().mean().item() / log(2)
