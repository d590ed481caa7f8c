"""Which positions use memory, and which read longer than in training? Seven kinds, with and without memory.

None at all, learned absolute, Shaw's, Transformer-XL's, rotary, ALiBi's and T5's, at equal size, for the
same steps on the same text. Each is then read with no memory, with that of training, with four times
as much and with sixteen times; and with a memory that keeps the first tokens of the text (attention
sinks, Xiao et al. 2024).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import log
from statistics import mean
from time import perf_counter
from typing import Any

import torch
from einops import pack, rearrange
from jaxtyping import Float
from torch import Tensor

from minitxl.analysis.context_length import context_losses
from minitxl.config import ModelConfig
from minitxl.data.corpus import Corpus
from minitxl.experiments.ablation import equal_parameters
from minitxl.experiments.shared import setup
from minitxl.experiments.shared.runner import Part, Report, differences, named, summary
from minitxl.fast import fast_evaluation
from minitxl.inference.config import EvaluateConfig
from minitxl.inference.evaluation import cached
from minitxl.memory import extend
from minitxl.model import Memory, States, TransformerLM
from minitxl.training.checkpoints import model_config, train_config
from minitxl.training.config import TrainConfig
from minitxl.training.step import Run

SEEDS = [0, 1, 2]
KINDS: dict[str, dict[str, Any]] = {
    "none": {"attention": "absolute", "positions": "none"},
    "absolute": {"attention": "absolute", "positions": "learned"},
    "shaw": {"attention": "shaw"},
    "xl": {"attention": "xl"},
    "rotary": {"attention": "rotary"},
    "alibi": {"attention": "alibi"},
    "t5": {"attention": "t5"},
}


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """Return all that decides the numbers, but for the seeds.

    All of T5's buckets lie within the distances of training, so that none is left untrained.
    """
    model, train = setup.sizes(profile)
    longest = train.seg_len + train.mem_len
    model = replace(model, max_seg_len=train.seg_len, bucket_distance=longest)
    return {
        "profile": profile,
        **setup.described(corpus, model, replace(train, validate_every=train.steps)),
        "kinds": KINDS,
        "test_tokens": 16_384,
        "memories": [0, train.mem_len, 4 * train.mem_len, 16 * train.mem_len],
        "first": 4,
        "context_lens": [train.seg_len * quarters // 4 for quarters in (1, 2, 4, 8, 16)],
        "passages": 8,
        "targets": 128,
    }


def parts(settings: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str) -> dict[str, Part]:
    """Train each kind with and without memory, with each seed, and read the test text with each."""
    return {
        f"{label(kind, memory)}, seed {seed}": partial(
            _train_and_read, settings, corpus, kind, memory, seed, device
        )
        for seed in seeds
        for kind in settings["kinds"]
        for memory in (False, True)
    }


def label(kind: str, memory: bool) -> str:
    """Return a system's name, such as "rotary_memory"."""
    return f"{kind}_memory" if memory else kind


def _train_and_read(
    settings: dict[str, Any],
    corpus: Corpus,
    kind: str,
    memory: bool,
    seed: int,
    device: str,
    report: Report,
) -> dict[str, Any]:
    name = f"{label(kind, memory)}, seed {seed}"
    run = train_system(
        settings,
        corpus,
        settings["kinds"][kind],
        memory=memory,
        seed=seed,
        name=name,
        device=device,
        report=report,
    )
    model, train, test = run.model, run.settings, corpus.test[: settings["test_tokens"] + 1]
    trained_with = settings["train"]["mem_len"]
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "scores": [_score(model, test, train.seg_len, length) for length in settings["memories"]],
        "first_kept": bits_with_first_kept(
            model, test, seg_len=train.seg_len, mem_len=trained_with, first=settings["first"]
        ),
        "context": [
            _context_losses(model, corpus, settings, train, length) for length in settings["context_lens"]
        ],
    }


def train_system(
    settings: dict[str, Any],
    corpus: Corpus,
    positions: dict[str, Any],
    *,
    memory: bool,
    seed: int,
    name: str,
    device: str,
    report: Report,
    build: Callable[[ModelConfig], TransformerLM] = TransformerLM,
) -> Run:
    """Train a model of these positions with or without memory, as large as all others and as long."""
    config = equal_parameters(replace(model_config(settings["model"]), **positions))
    train = train_config(settings["train"])
    train = replace(train, seed=seed, mem_len=train.mem_len if memory else 0)
    run, _ = setup.train_on(
        corpus, config, train, label=name, device=device, report=report, validate=False, build=build
    )
    return run


def _score(model: TransformerLM, test: Tensor, seg_len: int, mem_len: int) -> dict[str, float]:
    began = perf_counter()
    score = cached(model, test, EvaluateConfig(seg_len, mem_len))
    return {"bits": score.bits_per_token, "microseconds": (perf_counter() - began) / score.tokens * 1e6}


def _context_losses(
    model: TransformerLM, corpus: Corpus, settings: dict[str, Any], train: TrainConfig, context_len: int
) -> list[float]:
    """Return losses in nats of the same targets, after so much context that is read segment after segment."""
    read = EvaluateConfig(train.seg_len, settings["context_lens"][-1])
    passages = corpus.test.tensor_split(settings["passages"])
    losses: list[float] = []
    for passage in passages:
        losses += context_losses(
            model, passage, context_len=context_len, targets=settings["targets"], settings=read
        ).tolist()
    return losses


def keep_first(
    memory: Memory | None, states: States, *, mem_len: int, first: int
) -> Float[Tensor, "layer batch new_mem model"]:
    """Return the ``first`` tokens of memory and states together, and behind them the last mem_len - first.

    What was between them is forgotten, and the attention counts distances as if it had never been. So
    Xiao et al. (2024) read texts longer than those of training: the first tokens are their attention sinks.
    """
    if first > mem_len:
        raise ValueError(f"first must be at most mem_len = {mem_len}, got {first}")
    everything = extend(memory, states, mem_len=(0 if memory is None else memory.shape[2]) + states.shape[2])
    if everything.shape[2] <= mem_len:
        return everything
    oldest_and_newest = [
        everything[:, :, :first],
        everything[:, :, everything.shape[2] - (mem_len - first) :],
    ]
    return pack(oldest_and_newest, "layer batch * model")[0]


def bits_with_first_kept(
    model: TransformerLM, text: Tensor, *, seg_len: int, mem_len: int, first: int
) -> float:
    """Return bits per token of a text that is read with the memory of ``keep_first``."""
    text = text.to(next(model.parameters()).device, torch.int64)
    tokens, targets = (rearrange(ids, "time -> 1 time") for ids in (text[:-1], text[1:]))
    memory, total = None, 0.0
    with fast_evaluation(model) as fast_model:
        for segment, wanted in zip(tokens.split(seg_len, 1), targets.split(seg_len, 1), strict=True):
            losses, states = fast_model.token_losses(segment, wanted, memory)
            memory = keep_first(memory, states, mem_len=mem_len, first=first)
            total += losses.double().sum().item()
    return total / tokens.numel() / log(2)


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return bits per character by memory, by context and with the first tokens kept; and what differs."""
    del corpus
    systems = {
        label(kind, memory): _collected(settings, named(values, label(kind, memory)))
        for kind in settings["kinds"]
        for memory in (False, True)
    }
    trained_with, longer = settings["train"]["mem_len"], 4 * settings["train"]["mem_len"]

    def bits(kind: str, memory: bool, mem_len: int) -> list[float]:
        rows = systems[label(kind, memory)]["by_memory"]
        of: list[float] = next(row["bits"]["seeds"] for row in rows if row["mem_len"] == mem_len)
        return of

    gains = {
        kind: {
            "memory": differences(bits(kind, False, 0), bits(kind, True, trained_with)),
            "four_times_the_memory": differences(bits(kind, True, trained_with), bits(kind, True, longer)),
            "behind_xl": differences(bits(kind, True, trained_with), bits("xl", True, trained_with)),
            "first_kept": differences(
                bits(kind, True, trained_with), systems[label(kind, True)]["first_kept"]["seeds"]
            ),
            "first_kept_without_memory_in_training": differences(
                bits(kind, False, trained_with), systems[label(kind, False)]["first_kept"]["seeds"]
            ),
        }
        for kind in settings["kinds"]
    }
    return {"seg_len": settings["train"]["seg_len"], "mem_len": trained_with, "first": settings["first"]} | {
        "context_lens": settings["context_lens"],
        "systems": systems,
        "gains": gains,
    }


def _collected(settings: dict[str, Any], seeds: list[dict[str, Any]]) -> dict[str, Any]:
    by_memory = [
        {
            "mem_len": length,
            "bits": summary([part["scores"][index]["bits"] for part in seeds]),
            "microseconds_per_token": summary([part["scores"][index]["microseconds"] for part in seeds]),
        }
        for index, length in enumerate(settings["memories"])
    ]
    return {
        "parameters": seeds[0]["parameters"],
        "by_memory": by_memory,
        "first_kept": summary([part["first_kept"] for part in seeds]),
        "by_context": [
            summary([mean(part["context"][index]) / log(2) for part in seeds])
            for index in range(len(settings["context_lens"]))
        ],
    }
