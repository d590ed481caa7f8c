"""Seven systems on the Penn Treebank: the paper's Table 5 in small, and what memory and positions bring.

Transformer-XL with memory and without, absolute positions without and with, Shaw's and rotary ones with
memory, and an LSTM: equal parameters and equal steps, on words. Beside them stands one longer training of
Transformer-XL, the preset ``ptb-small``. Train it first, by this command:

    minitxl train FOLDER/models/ptb-small --preset ptb-small --data ptb

The text is read from where ``--data ptb`` puts it, and never downloaded here.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from minitxl.config import ModelConfig
from minitxl.data import corpora, prepare
from minitxl.data.corpus import Corpus
from minitxl.data.download_addresses import SOURCES
from minitxl.experiments import ptb_reading
from minitxl.experiments.ptb_training import SYSTEMS, kept_model, train_of
from minitxl.experiments.shared.runner import Part, Report, differences, named, summaries, summary
from minitxl.experiments.shared.trained import Model
from minitxl.pretrained.presets import PRESETS
from minitxl.training import metrics_log, run_folder
from minitxl.training.config import TrainConfig

SEEDS = [0, 1, 2]
MODELS = tuple(SYSTEMS)
"""Systems of which a checkpoint is kept, one for each seed."""
PRESET = "ptb-small"
"""The longer training: its preset, and its run's folder."""
WORDS = {
    "name": "ptb",
    "sha256": "0807442d5cd5e5eb5e6296223265132ce54ee5c26d58467be440b650275cf265",
}
"""The Penn Treebank of Mikolov et al. (2010), as tokens."""
MODEL = ModelConfig(
    10_000,
    n_layer=2,
    d_model=128,
    n_head=4,
    d_head=32,
    d_inner=384,
    norm="pre",
    activation="gelu",
    cutoffs=(1000, 4000),
    dropout=0.0,
)
TRAIN = TrainConfig(seg_len=32, mem_len=32, batch=16, steps=1500, learning_rate=2e-3, warmup=50)
"""Short trainings, less than one pass over the text: there is nothing yet to regularise."""
CHANGES = {"lstm": {"learning_rate": 16e-3}}
"""Rates were chosen among powers of two on the validation text, seed 0: for XL, and for the LSTM its own."""
MEASURES = {"perplexity": "perplexity", "microseconds": "microseconds_per_token"}
"""Numbers of a reading that are summed up over the seeds, and their names in the result."""
CITED = {
    "xl": {"perplexity": 54.52, "millions": 24},
    "awd_lstm": {"perplexity": 58.8, "millions": 24},
    "medium_lstm": {"perplexity": 82.7, "millions": 20},
    "small_lstm": {"perplexity": 114.5, "millions": 4.6},
}
"""Test perplexity that others report: Table 5 of the paper, and Zaremba et al. (2014)."""


def corpus() -> Corpus:
    """Return the Penn Treebank from the data folder. Raise a ValueError where it was never put there."""
    source = SOURCES["ptb"]
    ready = prepare.token_folder("ptb", source.spec, *(download.digest for download in source.downloads))
    files = [ready.parent / download.name for download in source.downloads]
    if not ready.is_dir() and not all(path.exists() for path in files):
        raise ValueError(
            f"the experiment ptb must find the Penn Treebank in {ready.parent}, got none: "
            f"a command with --data ptb downloads it there"
        )
    return corpora.load("ptb")


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """Return all that decides the numbers, but for the seeds. Whatever text is given, it is ``WORDS``."""
    del profile, corpus
    preset = PRESETS[PRESET]()
    return {
        "corpus": WORDS,
        "model": asdict(MODEL),
        "train": asdict(TRAIN),
        "changes": CHANGES,
        "memories": [0, 32, 128],
        "stride": 16,
        "lanes": 16,
        "test_tokens": None,
        "preset": {
            "name": PRESET,
            "model": asdict(preset.model),
            "train": asdict(preset.train),
            "memories": [0, 64, 128, 256, 640, 1280],
            "stride": 16,
            "lanes": 1,
            "sample": {"read": 40, "length": 120, "mem_len": 640},
        },
    }


def parts(
    settings: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str, models: Path
) -> dict[str, Part]:
    """Train and read each system with each seed; then read the model of the preset's run, if asked for."""
    trained = {
        f"{system}, seed {seed}": partial(_train_and_read, settings, corpus, system, seed, device, models)
        for seed in seeds
        for system in SYSTEMS
    }
    longer = {PRESET: partial(_read_preset, settings, corpus, models / PRESET, device)}
    return {**trained, **(longer if settings["preset"] else {})}


def _train_and_read(
    settings: dict[str, Any],
    corpus: Corpus,
    system: str,
    seed: int,
    device: str,
    models: Path,
    report: Report,
) -> dict[str, Any]:
    model, speed = kept_model(settings, corpus, system, seed, device=device, models=models, report=report)
    train, test = train_of(settings, system, seed), _test(settings, corpus)
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "training_tokens_per_second": speed,
        **_read(settings, model, train, test),
    }


def _test(settings: dict[str, Any], corpus: Corpus) -> Tensor:
    tokens = settings["test_tokens"]
    return corpus.test if tokens is None else corpus.test[: tokens + 1]


def _read(lengths: Mapping[str, Any], model: Model, train: TrainConfig, test: Tensor) -> dict[str, Any]:
    """Return perplexity by memory, and of a window as long as the context in training that slides."""
    return {
        "by_memory": ptb_reading.by_memory(
            model, test, seg_len=train.seg_len, memories=lengths["memories"], lanes=lengths["lanes"]
        ),
        "sliding": ptb_reading.by_sliding(
            model, test, attention_len=train.seg_len + train.mem_len, stride=lengths["stride"]
        ),
    }


def _read_preset(
    settings: dict[str, Any], corpus: Corpus, folder: Path, device: str, report: Report
) -> dict[str, Any]:
    """Read the test text with the model of the preset's run, which is not trained here."""
    del report
    asked, command = settings["preset"], f"minitxl train {folder} --preset {PRESET} --data ptb"
    if run_folder.newest(folder) is None:
        raise ValueError(f"{folder} must hold the run of {PRESET}, got none: {command} trains it")
    run = run_folder.trained(folder, device=device)
    precision = run.settings.precision  # a CPU that has bfloat16 trains in half the time with it
    trained = replace(run.settings, precision=asked["train"]["precision"])
    described = json.loads(json.dumps({"model": asdict(run.model.config), "train": asdict(trained)}))
    wanted = {name: json.loads(json.dumps(asked[name])) for name in described}
    if described != wanted or run.step < run.settings.steps or run.info.sha256 != corpus.sha256:
        raise ValueError(
            f"{folder} must hold the whole run of {PRESET} on this text, got one at step {run.step:,} "
            f"of {run.settings.steps:,} or with other settings: {command} in another folder trains it"
        )
    seconds = metrics_log.elapsed_until(folder, run.step)
    return {
        "millions": sum(parameter.numel() for parameter in run.model.parameters()) / 1e6,
        "training_tokens_per_second": run.settings.steps
        * run.settings.batch
        * run.settings.seg_len
        / seconds,
        "training_hours": seconds / 3600,
        "training_precision": precision,
        "epochs": run.settings.steps * run.settings.batch * run.settings.seg_len / len(corpus.train),
        "curve": _curve(folder),
        "sample": ptb_reading.sample(run.model, corpus, **asked["sample"]),
        "valid": ptb_reading.by_memory(
            run.model,
            corpus.valid,
            seg_len=run.settings.seg_len,
            memories=asked["memories"],
            lanes=asked["lanes"],
        ),
        **_read(asked, run.model, run.settings, corpus.test),
    }


def _curve(folder: Path) -> list[dict[str, Any]]:
    """Return perplexity on a sample of the validation text by step, from the run's log."""
    lines = map(json.loads, (folder / metrics_log.LOG).read_text("utf-8").splitlines())
    return [
        {"step": line["step"], "perplexity": line["valid_perplexity"]}
        for line in lines
        if line["valid_perplexity"] is not None
    ]


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return perplexity by system, and how far each is behind Transformer-XL with memory, seed by seed."""
    del corpus
    systems = {system: _collected(settings, system, named(values, system)) for system in SYSTEMS}
    best = systems["xl_memory"]["trained"]["seeds"]
    longer = values.get(PRESET)
    return {
        "seg_len": settings["train"]["seg_len"],
        "mem_len": settings["train"]["mem_len"],
        "steps": settings["train"]["steps"],
        "millions": systems["xl_memory"]["parameters"] / 1e6,
        "systems": systems,
        "behind_xl": {
            system: differences(one["trained"]["seeds"], best)
            for system, one in systems.items()
            if system != "xl_memory"
        },
        "preset": longer,
        "preset_mem_len": settings["preset"]["train"]["mem_len"] if longer else None,
        "cited": CITED,
    }


def _collected(settings: dict[str, Any], system: str, seeds: list[dict[str, Any]]) -> dict[str, Any]:
    by_memory = [_scored(list(rows)) for rows in zip(*(part["by_memory"] for part in seeds), strict=True)]
    slid = [part["sliding"] for part in seeds]
    return {
        "parameters": seeds[0]["parameters"],
        "trained": as_trained(by_memory, train_of(settings, system, 0).mem_len)["perplexity"],
        "by_memory": by_memory,
        "sliding": None if slid[0] is None else _scored(slid),
        "training_tokens_per_second": summary([part["training_tokens_per_second"] for part in seeds]),
    }


def as_trained(by_memory: list[dict[str, Any]], mem_len: int) -> dict[str, Any]:
    """Return the row of the memory of training; an LSTM's is the one whose state is carried on."""
    return next(row for row in by_memory if row["mem_len"] in (mem_len, None))


def _scored(seeds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the lengths of a reading, and its perplexity, by offset too, and its time over the seeds."""
    lengths = {name: of for name, of in seeds[0].items() if name not in (*MEASURES, "by_offset")}
    measured = {measure: summary([one[name] for one in seeds]) for name, measure in MEASURES.items()}
    offsets = {"by_offset": summaries(one["by_offset"] for one in seeds)} if "by_offset" in seeds[0] else {}
    return {**lengths, **measured, **offsets}
