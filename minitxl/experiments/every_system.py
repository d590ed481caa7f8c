"""Does every system train? Each encoding, with and without memory, post-norm and pre-norm.

Each is trained for the same number of steps at settings that suit its norm, and compared with
a bigram model of the same text. Then the memory of those that have one is emptied.
"""

from dataclasses import replace
from functools import partial
from math import log
from typing import Any

import torch
from torch import Tensor

from minitxl.data.corpus import Corpus
from minitxl.experiments.shared import setup
from minitxl.experiments.shared.runner import Part, Report
from minitxl.inference.config import EvaluateConfig
from minitxl.inference.evaluation import cached
from minitxl.training.checkpoints import model_config, train_config

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
    """Return all that decides the numbers, but for the seed. Both profiles ask the same question."""
    del profile
    model, train = setup.sizes("quick")
    train = replace(train, validate_every=train.steps)
    return {
        **setup.described(corpus, replace(model, positions="learned"), train),
        "encodings": ENCODINGS,
        "norms": NORMS,
        "test_tokens": 16_384,
    }


def parts(settings: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str) -> dict[str, Part]:
    """Train each system, and score it with its memory and with an empty one."""
    return {
        f"{encoding}, {norm}-norm, memory {mem_len}, seed {seed}": partial(
            _train_and_score, settings, corpus, encoding, norm, mem_len, seed, device
        )
        for encoding in settings["encodings"]
        for norm in settings["norms"]
        for mem_len in (0, settings["train"]["mem_len"])
        for seed in seeds
    }


def _train_and_score(
    settings: dict[str, Any],
    corpus: Corpus,
    encoding: str,
    norm: str,
    mem_len: int,
    seed: int,
    device: str,
    report: Report,
) -> dict[str, Any]:
    fields, changes = settings["encodings"][encoding], settings["norms"][norm]
    config = replace(model_config(settings["model"]), **(fields | {"norm": norm}))
    train = replace(train_config(settings["train"]), mem_len=mem_len, seed=seed, **changes)
    label = f"{encoding}, {norm}-norm, memory {mem_len}, seed {seed}"
    run, _ = setup.train_on(corpus, config, train, label=label, device=device, report=report)
    test = corpus.test[: settings["test_tokens"] + 1]
    score, emptied = (
        cached(run.model, test, EvaluateConfig(train.seg_len, length), batch=train.batch)
        for length in (mem_len, 0)
    )
    return {
        "encoding": encoding,
        "attention": fields["attention"],
        "norm": norm,
        "mem_len": mem_len,
        "seed": seed,
        "bits": score.bits_per_token,
        "bits_with_memory_emptied": emptied.bits_per_token,
    }


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return test bits per character of each system, beside those of a bigram model."""
    test = corpus.test[: settings["test_tokens"] + 1]
    bigram = bigram_bits(corpus.train, test, corpus.vocab_size)
    return {"bigram_bits": bigram, "systems": list(values.values())}


def bigram_bits(train: Tensor, test: Tensor, vocab_size: int) -> float:
    """Return bits per token of p(next | token) counted on ``train``, one added to each count."""
    before, after = train[:-1].long(), train[1:].long()
    counts = torch.bincount(before * vocab_size + after, minlength=vocab_size**2) + 1
    pair = counts.double()[test[:-1].long() * vocab_size + test[1:].long()]
    first = torch.bincount(before, minlength=vocab_size) + vocab_size
    return -(pair / first[test[:-1].long()]).log().mean().item() / log(2)
