"""What does each of the four terms buy? Transformer-XL trained whole, and without each in turn.

A seed's five models begin with the same weights, have the same number of them and do the same
work: the missing term is computed as zero. The fast path and decoding add all four terms up
themselves, so nothing here uses them: all five are trained and scored by the explicit path.
"""

from dataclasses import replace
from functools import partial
from math import log, sqrt
from typing import Any

import torch
from einops import rearrange
from torch import Tensor

from minitxl.attention import Hidden, LayerMemory, Scores, XLAttention, content_scores, distance_scores
from minitxl.config import ModelConfig
from minitxl.data.corpus import Corpus
from minitxl.experiments.shared import setup
from minitxl.experiments.shared.runner import Part, Report, named, summary
from minitxl.fast import fast_evaluation
from minitxl.inference.config import EvaluateConfig
from minitxl.memory import extend
from minitxl.model import Block, TransformerLM
from minitxl.training.checkpoints import model_config, train_config

SEEDS = [0, 1, 2]
MISSING = ["none", "a", "b", "c", "d"]


class AllButOne(XLAttention):
    """``XLAttention`` whose scores lack the term ``missing``; a fast model runs it as it is written."""

    def __init__(self, whole: XLAttention, missing: str) -> None:
        drops = {"dropout": whole.distance_dropout.p, "attention_dropout": whole.attention_dropout.p}
        super().__init__(whole.d_model, whole.n_head, whole.d_head, u=whole.u, v=whole.v, **drops)
        for name in ("W_q", "W_kE", "W_kR", "W_v", "W_o"):
            setattr(self, name, getattr(whole, name))
        self.has = {term: float(term != missing) for term in "abcd"}

    def scores(self, x: Hidden, memory: LayerMemory | None = None, *, clamp_len: int | None = None) -> Scores:
        """Return the terms there are; a, b, c and d are 1, and 0 where the term is missing."""
        q, k, r = self.queries_and_keys(x, memory, clamp_len)
        u, v = (rearrange(bias, "head dim -> head 1 dim") for bias in (self.u, self.v))
        a, b, c, d = self.has.values()
        return (content_scores(a * q + c * u, k) + distance_scores(b * q + d * v, r)) / sqrt(self.d_head)


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """Return all that decides the numbers, but for the seeds."""
    model, train = setup.sizes(profile)
    model = replace(model, max_seg_len=train.seg_len)
    train = train if profile == "full" else replace(train, steps=500)
    return {
        "profile": profile,
        **setup.described(corpus, model, train),
        "missing": MISSING,
        "test_tokens": 8192,
    }


def parts(settings: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str) -> dict[str, Part]:
    """Train and score with each seed the whole model, and the four that lack a term."""
    return {
        f"{label(missing)}, seed {seed}": partial(train_and_score, settings, corpus, missing, seed, device)
        for seed in seeds
        for missing in settings["missing"]
    }


def label(missing: str) -> str:
    """Return the name of a model that lacks this term."""
    return "whole" if missing == "none" else f"without ({missing})"


def train_and_score(
    settings: dict[str, Any], corpus: Corpus, missing: str, seed: int, device: str, report: Report
) -> dict[str, Any]:
    """Return bits per character on the test text, read segment by segment with the memory of training."""
    config, train = model_config(settings["model"]), replace(train_config(settings["train"]), seed=seed)
    run, _ = setup.train_on(
        corpus,
        config,
        train,
        label=f"{label(missing)}, seed {seed}",
        device=device,
        report=report,
        validate=False,
        build=partial(new, missing=missing),
    )
    test = corpus.test[: settings["test_tokens"] + 1]
    nats = losses_with_memory(run.model, test, train.evaluation)
    return {"bits": nats.double().mean().item() / log(2)}


def new(config: ModelConfig, missing: str) -> TransformerLM:
    """Return a model of random weights, the same for all that may be missing."""
    model = TransformerLM(config)
    for block in model.blocks:
        assert isinstance(block, Block)
        assert isinstance(block.attention, XLAttention)
        block.attention = AllButOne(block.attention, missing)
    return model


def losses_with_memory(model: TransformerLM, stream: Tensor, evaluate: EvaluateConfig) -> Tensor:
    """Return the loss of each target in nats, as ``cached_losses`` does for attentions the cache knows."""
    stream, memory, nats = stream.to(next(model.parameters()).device, torch.int64), None, []
    with fast_evaluation(model) as model:
        for begin in range(0, len(stream) - 1, evaluate.seg_len):
            segment = stream[None, begin : begin + evaluate.seg_len + 1]
            losses, states = model.token_losses(segment[:, :-1], segment[:, 1:], memory)
            memory = extend(memory, states, mem_len=evaluate.mem_len)
            nats.append(losses[0])
    return torch.cat(nats)


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return test bits per character by missing term, and the cost of its absence seed by seed."""
    del corpus
    bits = {
        missing: [part["bits"] for part in named(values, label(missing))] for missing in settings["missing"]
    }
    return {
        "steps": settings["train"]["steps"],
        "seg_len": settings["train"]["seg_len"],
        "mem_len": settings["train"]["mem_len"],
        "test_tokens": settings["test_tokens"],
        "missing": {
            missing: {
                "bits": summary(seeds),
                "cost": summary([one - whole for one, whole in zip(seeds, bits["none"], strict=True)]),
            }
            for missing, seeds in bits.items()
        },
    }
