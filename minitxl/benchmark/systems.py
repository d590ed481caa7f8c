"""The benchmark's systems that need this package and torch alone; the worker is ``peers``."""

from dataclasses import replace
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from minitxl.allocator import keep_freed_ram
from minitxl.benchmark.limits import (
    ONEDNNS_PRODUCTS,
    PRODUCTS,
    READING,
    build_product,
    build_reading,
    config,
)
from minitxl.benchmark.peers import (
    CLIP,
    LEARNING_RATE,
    AtWork,
    Job,
    Size,
    System,
    at_work,
    loss_or_scores,
    text,
)
from minitxl.config import ModelConfig
from minitxl.data.batching import ContiguousBatches
from minitxl.fast import kv_cache
from minitxl.memory import extend
from minitxl.model import TransformerLM
from minitxl.training import loop
from minitxl.training.config import TrainConfig
from minitxl.training.step import train_step


def build_minitxl(job: Job) -> AtWork:
    """Build our model: trained as ``minitxl train`` does it, scored and continued with a cache."""
    keep_freed_ram()  # as the commands do
    model = config(job.size)
    return our_training(job, model) if job.work == "training" else our_decoding(job, model)


def build_rotary(job: Job) -> AtWork:
    """Build our model with the architecture of x-transformers' here: rotary positions, pre-norm, GELU."""
    keep_freed_ram()
    model = replace(config(job.size), attention="rotary", norm="pre", activation="gelu")
    return our_training(job, model) if job.work == "training" else our_decoding(job, model)


def our_training(job: Job, model: ModelConfig) -> AtWork:
    size = job.size
    settings = TrainConfig(
        size.seg_len,
        size.mem_len,
        batch=size.batch,
        learning_rate=LEARNING_RATE,
        clip=CLIP,
        precision=job.precision,
        seed=job.seed,
    )
    run = loop.start(model, settings, device=job.device)
    segments = ContiguousBatches(text(job).flatten(), batch=size.batch, seg_len=size.seg_len)
    return run.model, (torch.tensor(train_step(run, segments).bits) for _ in count())


def our_decoding(job: Job, config: ModelConfig) -> AtWork:
    """Build a model with a key-value cache; to generate, several prompts are of different lengths."""
    model = TransformerLM(config).to(job.device)

    def read(tokens: Tensor, targets: Tensor | None, cache: Any) -> tuple[Tensor, Any]:
        if targets is None:
            key_mask = of_different_lengths(tokens) if len(tokens) > 1 < tokens.shape[1] else None
            return kv_cache.step(model, tokens, cache, key_mask=key_mask)
        losses, cache = kv_cache.token_losses(model, tokens, targets, cache)
        return losses.mean(), cache

    sizes = {"batch": job.size.batch, "mem_len": job.size.mem_len, "seg_len": job.size.seg_len}
    empty = kv_cache.start(model, **sizes, precision=job.precision)
    return at_work(System(model, empty, read), replace(job, precision="float32"))  # without autocast


def of_different_lengths(tokens: Tensor) -> Tensor:
    """Return the mask of prompts on the right of ``tokens``: the first is the shortest, the last has all."""
    batch, time = tokens.shape
    lengths = torch.arange(1, batch + 1, device=tokens.device) * time // batch
    return torch.arange(time, device=tokens.device) >= time - lengths[:, None]


def build_explicit(job: Job) -> AtWork:
    """Build our model without its fast path, whatever the work."""
    model = TransformerLM(config(job.size)).to(job.device)

    def read(tokens: Tensor, targets: Tensor | None, memory: Any) -> tuple[Tensor, Any]:
        if targets is None:
            scores, states = model(tokens, memory)
        else:
            losses, states = model.token_losses(tokens, targets, memory)
            scores = losses.mean()
        return scores, extend(memory, states, mem_len=job.size.mem_len)

    return at_work(System(model, None, read), job)


class VanillaBlock(nn.Module):
    """Attention and a feed-forward layer, post-norm, by torch's own fused attention."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.n_head, wide = size.n_head, size.n_head * size.d_head
        self.qkv = nn.Linear(size.d_model, 3 * wide, bias=False)
        self.out = nn.Linear(wide, size.d_model, bias=False)
        enter, leave = nn.Linear(size.d_model, size.d_inner), nn.Linear(size.d_inner, size.d_model)
        self.dropout = nn.Dropout(size.dropout)
        self.inner = nn.Sequential(enter, nn.ReLU(), self.dropout, leave)
        self.norms = nn.ModuleList([nn.LayerNorm(size.d_model), nn.LayerNorm(size.d_model)])

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(2, (3, self.n_head, -1)).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = self.norms[0](x + self.dropout(self.out(attended.transpose(1, 2).flatten(2))))
        return self.norms[1](x + self.dropout(self.inner(x)))


def build_vanilla(job: Job) -> AtWork:
    """Build a model without memory, of absolute positions: the least that the shapes cost."""
    size = job.size
    embedding, positions = (nn.Embedding(rows, size.d_model) for rows in (size.vocab_size, size.seg_len))
    blocks = nn.Sequential(*(VanillaBlock(size) for _ in range(size.n_layer)))
    dropout = nn.Dropout(size.dropout)
    for table in (embedding, positions):
        nn.init.normal_(table.weight, std=0.02)
    model = nn.ModuleList([embedding, positions, blocks, dropout]).to(job.device)

    def read(tokens: Tensor, targets: Tensor | None, memory: Any) -> tuple[Tensor, Any]:
        hidden = dropout(blocks(dropout(embedding(tokens) + positions.weight)))
        return loss_or_scores(functional.linear(hidden, embedding.weight), targets), None

    return at_work(System(model, None, read), job)


SYSTEMS = {
    "minitxl": (build_minitxl, "minitxl", __name__),
    "minitxl-rotary": (build_rotary, "minitxl", __name__),
    "minitxl-explicit": (build_explicit, "minitxl", __name__),
    "vanilla": (build_vanilla, "torch", "torch"),
    **dict.fromkeys((*PRODUCTS, *ONEDNNS_PRODUCTS), (build_product, "torch", "torch")),
    READING: (build_reading, "torch", "torch"),
}
