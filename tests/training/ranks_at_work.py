"""Train what ``test_distributed`` compares, alone or as one of torchrun's processes, in float64."""

from dataclasses import replace
from pathlib import Path

import torch

from minitxl.config import ModelConfig
from minitxl.data.batching import ContiguousBatches
from minitxl.training import distributed, loop
from minitxl.training.config import TrainConfig

MODEL = ModelConfig(
    vocab_size=23, n_layer=2, d_model=16, n_head=2, d_head=8, d_inner=24, max_distance=3, dropout=0.0
)
SETTINGS = TrainConfig(
    seg_len=5,
    mem_len=7,
    batch=8,
    steps=9,
    warmup=2,
    learning_rate=1e-2,
    validate_every=4,
    validate_tokens=50,
    validate_attention_lens=(3, 12),
)
ADAPTIVE = replace(MODEL, cutoffs=(4, 9, 15), div_val=2, d_embed=16, n_layer=1)
CASES = {
    "plain": (MODEL, SETTINGS, 1),
    "no memory": (MODEL, replace(SETTINGS, mem_len=0), 1),
    "Shaw, half loss": (replace(MODEL, attention="shaw"), replace(SETTINGS, loss="half"), 1),
    "absolute, pre-norm": (replace(MODEL, attention="absolute", norm="pre"), SETTINGS, 1),
    "window, clamp": (MODEL, replace(SETTINGS, window=6, clamp_len=4), 1),
    "averaged": (MODEL, replace(SETTINGS, average_from=3), 1),
    "rare words": (ADAPTIVE, SETTINGS, 1),
    "in parts": (MODEL, SETTINGS, 2),
    "rare words in parts": (ADAPTIVE, SETTINGS, 2),
}


def stream() -> torch.Tensor:
    """Common tokens are common, so that many a segment has none of the rarest cluster."""
    generator = torch.Generator().manual_seed(4)
    return (23 * torch.rand(8 * 21, generator=generator, dtype=torch.float64) ** 3).to(torch.int64)


def outcome(model: ModelConfig, settings: TrainConfig, accumulate: int) -> dict[str, object]:
    """Losses, weights and memory after all steps, the same in every process."""
    run = loop.start(model, settings, accumulate=accumulate)
    share = distributed.share(settings.batch)
    segments = ContiguousBatches(stream(), batch=settings.batch, seg_len=settings.seg_len, share=share)
    records = list(loop.train_steps(run, segments, stream()[:60]))
    return {
        "bits": [record.bits for record in records],
        "norms": [record.gradient_norm for record in records],
        "tokens": [record.tokens for record in records],
        "valid": [record.valid_bits for record in records if record.valid_bits],
        "valid at": [bits for record in records for bits in (record.valid_bits_at or {}).values()],
        "weights": {name: weight.detach() for name, weight in run.model_to_evaluate.named_parameters()},
        "memory": distributed.gathered(run.memory, dim=1),
        "own memory": run.memory.shape[1],
    }


def all_outcomes() -> dict[str, dict[str, object]]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return {name: outcome(*case) for name, case in CASES.items()}
    finally:
        torch.set_default_dtype(before)


def write_outcomes(folder: Path) -> None:
    """Join the other ranks, and write what this one has found."""
    torch.set_num_threads(1)
    with distributed.joined("cpu"):
        found = all_outcomes()
        torch.save(found, folder / f"{distributed.rank()}.pt")
