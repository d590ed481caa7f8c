"""The models that several experiments look into: trained once, kept as checkpoints.

    model = trained.model(settings, corpus, "xl_memory", seed, device=, models=, report=)

A kept model is trained anew where its settings or its text are other ones, and where the code of
today no longer repeats its tiny run (``fingerprints``). Weights are rounded to float16 before
anything is measured, so that a small file is the very model of the numbers.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from math import log
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import torch
from torch.nn.utils import clip_grad_norm_
from torch.optim import AdamW

from minitxl.config import ModelConfig
from minitxl.data.batching import ContiguousBatches
from minitxl.data.corpus import Corpus
from minitxl.experiments.ablation import equal_parameters
from minitxl.experiments.shared import setup
from minitxl.experiments.shared.fingerprints import TRAINED, exact, merged, same, tiny_corpus
from minitxl.experiments.shared.results import completed
from minitxl.experiments.shared.runner import Part, Report
from minitxl.lstm import LSTMLM, LSTMConfig, config_near
from minitxl.model import TransformerLM
from minitxl.training import checkpoints
from minitxl.training.config import TrainConfig
from minitxl.training.optimizer import optimizer_step
from minitxl.training.schedules import learning_rate
from minitxl.training.sizes import parameter_count
from minitxl.training.step import Record

Model = TransformerLM | LSTMLM
System = Literal["xl_memory", "shaw_memory", "xl", "absolute", "lstm"]
TRANSFORMERS: dict[str, dict[str, Any]] = {
    "xl_memory": {"attention": "xl", "memory": True},
    "shaw_memory": {"attention": "shaw", "memory": True},
    "xl": {"attention": "xl", "memory": False},
    "absolute": {"attention": "absolute", "memory": False},
}
SYSTEMS: tuple[System, ...] = ("xl_memory", "shaw_memory", "xl", "absolute", "lstm")
LONGER: dict[str, dict[str, Any]] = {
    "quick": {"seg_len": 64, "mem_len": 64, "steps": 1500},
    "full": {"steps": 16_000},
}
"""Changes of the training: longer, and on longer segments."""


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """Return all that decides the weights, but for the seed."""
    model, train = setup.sizes(profile)
    train = replace(train, **LONGER[profile])
    model = replace(model, positions="learned", max_seg_len=train.seg_len)
    return {"profile": profile, **setup.described(corpus, model, replace(train, validate_every=train.steps))}


def parts(
    measure: Callable[[dict[str, Any], Corpus, System, "Model"], Any],
    systems: Sequence[System],
    settings: dict[str, Any],
    corpus: Corpus,
    *,
    seeds: list[int],
    device: str,
    models: Path,
) -> dict[str, Part]:
    """Return a part for each system and seed: ``measure(settings, corpus, system, model)`` of its model."""

    def measured(system: System, seed: int, report: Report) -> Any:
        of_system = model(settings, corpus, system, seed, device=device, models=models, report=report)
        return measure(settings, corpus, system, of_system)

    return {f"{system}, seed {seed}": partial(measured, system, seed) for system in systems for seed in seeds}


def model(
    settings: dict[str, Any],
    corpus: Corpus,
    system: System,
    seed: int,
    *,
    device: str,
    models: Path,
    report: Report,
) -> Model:
    """Return the system's model, from ``models/SYSTEM-SEED.safetensors``, which is trained if need be."""
    path, config = models / f"{system}-{seed}.safetensors", config_of(settings, system)
    about = {
        "model": asdict(config),
        "trained": {name: settings[name] for name in ("corpus", "train")},
        "seed": seed,
        "fingerprint": fingerprint(system),
    }
    fresh = partial(_train, settings, corpus, system, seed, device, report)
    loaded, _ = kept(path, about, new(config).to(device), lambda: (fresh(), {}))
    return loaded


def kept(
    path: Path, about: dict[str, Any], into: Model, train: Callable[[], tuple[Model, dict[str, Any]]]
) -> tuple[Model, dict[str, Any]]:
    """Return the model at the path, loaded ``into`` one, and what ``train`` measured beside it.

    It is trained anew unless a checkpoint lies there that is ``about`` the same.
    """
    tensors, stored = checkpoints.read(path) if path.exists() else ({}, {})
    measured = stored.pop("measured", {})
    if not same(completed(stored), completed(json.loads(json.dumps(about)))):
        fresh, measured = train()
        tensors = {name: tensor.half() for name, tensor in checkpoints.model_tensors(fresh).items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        checkpoints.write(path, tensors, {**about, **({"measured": measured} if measured else {})})
    checkpoints.copy_model_tensors(tensors, into)
    return into.eval(), measured


@cache
def fingerprint(system: System) -> list[float]:
    """Return the training loss of every step of the system's tiny run, in bits."""
    corpus, losses = tiny_corpus(), list[float]()
    tiny = merged(settings("quick", corpus), {name: TRAINED[name] for name in ("model", "train")})
    with exact():
        _train(tiny, corpus, system, 0, "cpu", lambda label, steps, record: losses.append(record.bits))
    return losses


def config_of(settings: dict[str, Any], system: System) -> ModelConfig | LSTMConfig:
    """Return the system's configuration, with about as many parameters as Transformer-XL."""
    base = checkpoints.model_config(settings["model"])
    return of_equal_size(base, TRANSFORMERS[system]["attention"] if system != "lstm" else None)


def of_equal_size(base: ModelConfig, attention: Any) -> ModelConfig | LSTMConfig:
    """Return the configuration of this attention, or of an LSTM if it is None, about as large as ``base``."""
    if attention is not None:
        return equal_parameters(replace(base, attention=attention))
    size = parameter_count(equal_parameters(base))
    return config_near(size, vocab_size=base.vocab_size, dropout=base.dropout)


def new(config: ModelConfig | LSTMConfig) -> Model:
    """Return a model of random weights."""
    return LSTMLM(config) if isinstance(config, LSTMConfig) else TransformerLM(config)


def _train(
    settings: dict[str, Any], corpus: Corpus, system: System, seed: int, device: str, report: Report
) -> Model:
    config, train = config_of(settings, system), checkpoints.train_config({**settings["train"], "seed": seed})
    label = f"{system}, seed {seed}"
    if isinstance(config, LSTMConfig):
        build = partial(LSTMLM, config)
        lstm, _ = train_lstm(corpus, build, train, label=label, device=device, report=report)
        return lstm
    if not TRANSFORMERS[system]["memory"]:
        train = replace(train, mem_len=0)
    run, _ = setup.train_on(corpus, config, train, label=label, device=device, report=report)
    return run.model_to_evaluate


def train_lstm(
    corpus: Corpus,
    build: Callable[[], LSTMLM],
    train: TrainConfig,
    *,
    label: str,
    device: str,
    report: Report,
) -> tuple[LSTMLM, list[Record]]:
    """Train an LSTM to its last step, as ``setup.train_on`` does a Transformer; return every record too."""
    segments = ContiguousBatches(corpus.train, batch=train.batch, seg_len=train.seg_len)
    records = list[Record]()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(train.seed)
        lstm = build().to(device).train()
        for record in lstm_steps(lstm, segments, train):
            report(label, train.steps, record)
            records.append(record)
    return lstm, records


def lstm_steps(lstm: LSTMLM, segments: ContiguousBatches, settings: TrainConfig) -> Iterator[Record]:
    """Train as Transformers are: the same lanes, schedule and clipping, the state carried on."""
    optimizer = AdamW(lstm.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    device, state = next(lstm.parameters()).device, None
    for step in range(1, settings.steps + 1):
        began, index = perf_counter(), (step - 1) % len(segments)
        tokens, targets = (ids.to(device) for ids in segments[index])
        losses, state = lstm.token_losses(tokens, targets, state if index else None)
        loss = losses.mean()
        optimizer.zero_grad()
        loss.backward()
        rate = learning_rate(step, settings)
        norm = optimizer_step(optimizer, clip_grad_norm_(lstm.parameters(), settings.clip), rate=rate)
        seconds = perf_counter() - began
        yield Record(step, loss.item() / log(2), rate, norm, tokens.numel(), seconds)
