"""Sizes of models and trainings, and the training run, that the experiments on text share."""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from torch import Tensor

from minitxl.config import ModelConfig
from minitxl.data.batching import ContiguousBatches
from minitxl.data.corpus import Corpus
from minitxl.experiments.shared.runner import Report
from minitxl.model import TransformerLM
from minitxl.training import loop
from minitxl.training.config import TrainConfig
from minitxl.training.step import Record, Run

SMALL = ModelConfig(norm="pre", activation="gelu", dropout=0.0)
LARGE = replace(SMALL, n_layer=6, d_model=256, n_head=8, d_inner=1024, dropout=0.1)
SHORT = TrainConfig()
LONG = TrainConfig(seg_len=128, mem_len=128, batch=32, steps=8000, learning_rate=1e-3, warmup=400)


def sizes(profile: str) -> tuple[ModelConfig, TrainConfig]:
    """Return the model and training of a profile: for two CPU cores (quick), or for a GPU (full)."""
    return (LARGE, LONG) if profile == "full" else (SMALL, SHORT)


def described(corpus: Corpus, model: ModelConfig, train: TrainConfig) -> dict[str, Any]:
    """Return text, model and training as the settings of an experiment name them."""
    return {
        "corpus": {"name": corpus.name, "sha256": corpus.sha256},
        "model": asdict(model),
        "train": asdict(train),
    }


def train_on(
    corpus: Corpus,
    config: ModelConfig,
    train: TrainConfig,
    *,
    label: str,
    device: str,
    report: Report,
    validate: bool = True,
    build: Callable[[ModelConfig], TransformerLM] = TransformerLM,
) -> tuple[Run, list[Record]]:
    """Train a model to its last step; return the run, and the record of every step."""
    run, records = loop.start(config, train, device=device, build=build), list[Record]()
    segments = ContiguousBatches(corpus.train, batch=train.batch, seg_len=train.seg_len)
    for record in loop.train_steps(run, segments, validation_text(corpus, train) if validate else None):
        report(label, train.steps, record)
        records.append(record)
    return run, records


def validation_text(corpus: Corpus, train: TrainConfig) -> Tensor:
    """Return the beginning of the validation text, which curves are drawn on, as long as training reads."""
    return corpus.valid[: train.validate_tokens + 1]


def validation_curve(records: list[Record]) -> dict[str, list[Any]]:
    """Return steps at which the validation text was scored, and its bits per token at each."""
    validated = [record for record in records if record.valid_bits is not None]
    return {
        "step": [record.step for record in validated],
        "bits": [record.valid_bits for record in validated],
    }
