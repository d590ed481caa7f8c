"""What does each of the four terms buy? Transformer-XL trained whole, and without each in turn.

A seed's five models begin with the same weights, have the same number of them and do the same
work: the missing term is computed as zero. The fast path and decoding add all four terms up
themselves, so nothing here uses them: all five are trained and scored by the explicit path.
"""

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from math import log, sqrt
from time import perf_counter
from typing import Any

import torch
from einops import rearrange
from torch import Tensor
from torch.optim import AdamW

from minitxl.attention import LayerMemory, Scores, Segment, XLAttention, content_scores, distance_scores
from minitxl.config import ModelConfig
from minitxl.data.batching import ContiguousBatches
from minitxl.data.corpora import Corpus
from minitxl.experiments.ablation import LARGE, LONG, SHORT, SMALL
from minitxl.experiments.runner import Part, Report, summary
from minitxl.fast import fast_evaluation
from minitxl.inference.config import EvaluateConfig
from minitxl.memory import extend
from minitxl.model import Block, TransformerLM
from minitxl.training.checkpoints import model_config, train_config
from minitxl.training.config import TrainConfig
from minitxl.training.loop import Record, learning_rate, optimizer_step

SEEDS = [0, 1, 2]
MISSING = ["none", "a", "b", "c", "d"]


class AllButOne(XLAttention):
    """``XLAttention`` whose scores lack the term ``missing``; a fast model runs it as it is written."""

    def __init__(self, whole: XLAttention, missing: str) -> None:
        drops = {"dropout": whole.drop_positions.p, "attention_dropout": whole.drop.p}
        super().__init__(whole.d_model, whole.n_head, whole.d_head, u=whole.u, v=whole.v, **drops)
        for name in ("W_q", "W_kE", "W_kR", "W_v", "W_o"):
            setattr(self, name, getattr(whole, name))
        self.has = {term: float(term != missing) for term in "abcd"}

    def scores(
        self, x: Segment, memory: LayerMemory | None = None, *, clamp_len: int | None = None
    ) -> Scores:
        """The terms there are; a, b, c and d are 1, and 0 where the term is missing."""
        q, k, r = self.projections(x, memory, clamp_len)
        u, v = (rearrange(bias, "head dim -> head 1 dim") for bias in (self.u, self.v))
        a, b, c, d = self.has.values()
        return (content_scores(a * q + c * u, k) + distance_scores(b * q + d * v, r)) / sqrt(self.d_head)


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """All that decides the numbers, but for the seeds."""
    model, train = (LARGE, LONG) if profile == "full" else (SMALL, replace(SHORT, steps=500))
    return {
        "profile": profile,
        "corpus": {"name": corpus.name, "sha256": corpus.sha256},
        "model": asdict(model),
        "train": asdict(train),
        "missing": MISSING,
        "test_tokens": 8192,
    }


def parts(asked: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str) -> dict[str, Part]:
    """Train and score with each seed the whole model, and the four that lack a term."""
    return {
        f"{label(missing)}, seed {seed}": partial(train_and_score, asked, corpus, missing, seed, device)
        for seed in seeds
        for missing in asked["missing"]
    }


def label(missing: str) -> str:
    """What a model has, in words."""
    return "whole" if missing == "none" else f"without ({missing})"


def train_and_score(
    asked: dict[str, Any], corpus: Corpus, missing: str, seed: int, device: str, report: Report
) -> dict[str, Any]:
    """Bits per character on the test text, read segment by segment with the memory of training."""
    train = replace(train_config(asked["train"]), seed=seed)
    with torch.random.fork_rng(devices=range(torch.cuda.device_count()) if device == "cuda" else []):
        torch.manual_seed(seed)
        model = new(model_config(asked["model"]), missing).to(device)
        lanes = ContiguousBatches(corpus.train, batch=train.batch, seg_len=train.seg_len)
        for record in steps(model.train(), lanes, train):
            report(f"{label(missing)}, seed {seed}", train.steps, record)
    test = corpus.test[: asked["test_tokens"] + 1]
    nats = explicit_losses(model, test, train.evaluation)
    return {"bits": nats.double().mean().item() / log(2)}


def new(config: ModelConfig, missing: str) -> TransformerLM:
    """A model of random weights, the same for all that may be missing."""
    model = TransformerLM(config)
    for block in model.blocks:
        assert isinstance(block, Block)
        assert isinstance(block.attention, XLAttention)
        block.attention = AllButOne(block.attention, missing)
    return model


def steps(model: TransformerLM, lanes: ContiguousBatches, settings: TrainConfig) -> Iterator[Record]:
    """Train as ``loop.steps`` does, by the explicit path."""
    optimizer = AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    device, memory = next(model.parameters()).device, None
    for step in range(1, settings.steps + 1):
        began, index = perf_counter(), (step - 1) % len(lanes)
        tokens, targets = (ids.to(device) for ids in lanes[index])
        memory = memory if index else None
        losses, states = model.token_losses(tokens, targets, memory)
        loss = losses.mean()
        optimizer.zero_grad()
        loss.backward()
        rate = learning_rate(step, settings)
        norm = optimizer_step(model, optimizer, rate=rate, clip=settings.clip)
        memory = extend(memory, states, mem_len=settings.mem_len)
        seconds = perf_counter() - began
        yield Record(step, loss.item() / log(2), rate, norm, tokens.numel(), seconds)


def explicit_losses(model: TransformerLM, stream: Tensor, settings: EvaluateConfig) -> Tensor:
    """Loss of each target in nats: what ``evaluation.cached_losses`` would give a whole model."""
    stream, memory, found = stream.to(next(model.parameters()).device, torch.int64), None, []
    with fast_evaluation(model) as model:
        for begin in range(0, len(stream) - 1, settings.seg_len):
            segment = stream[None, begin : begin + settings.seg_len + 1]
            losses, states = model.token_losses(segment[:, :-1], segment[:, 1:], memory)
            memory = extend(memory, states, mem_len=settings.mem_len)
            found.append(losses[0])
    return torch.cat(found)


def collect(asked: dict[str, Any], corpus: Corpus, found: dict[str, Any]) -> dict[str, Any]:
    """Test bits per character by what is missing, and what its absence costs seed by seed."""
    del corpus
    bits = {
        missing: [part["bits"] for name, part in found.items() if name.startswith(f"{label(missing)}, ")]
        for missing in asked["missing"]
    }
    return {
        "steps": asked["train"]["steps"],
        "seg_len": asked["train"]["seg_len"],
        "mem_len": asked["train"]["mem_len"],
        "test_tokens": asked["test_tokens"],
        "missing": {
            missing: {
                "bits": summary(values),
                "cost": summary([one - whole for one, whole in zip(values, bits["none"], strict=True)]),
            }
            for missing, values in bits.items()
        },
    }
