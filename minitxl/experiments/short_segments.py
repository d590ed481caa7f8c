"""Where does memory pay after a minute of training? Three models, one change apart, on short segments.

The shorter the segments, the more often a model without memory starts from nothing. So a memory saves
bits of the whole text already after a short training. The models are those of ``demo``: absolute positions,
relative ones, and relative ones with a memory; each is read as it was trained.
"""

from functools import partial
from statistics import mean
from typing import Any

from minitxl.data.batching import ContiguousBatches
from minitxl.data.corpus import Corpus
from minitxl.experiments import demo
from minitxl.experiments.ablation import bits_by_offset
from minitxl.experiments.shared.runner import Part, Report, differences, summaries, summary
from minitxl.training import loop

SEEDS = [0, 1, 2]
MODEL = {"n_layer": 2, "d_model": 64, "n_head": 2, "d_head": 32, "d_inner": 128}
TRAIN = {"seg_len": 16, "mem_len": 16, "batch": 32, "learning_rate": 6e-3}
"""What differs from ``demo``: models that learn in seconds, on segments half as long."""


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """Return all that decides the numbers, but for the seeds; the models are small in both profiles."""
    chosen = demo.settings(corpus, steps=500, test_tokens=16_384)
    sizes = {"model": chosen["model"] | MODEL, "train": chosen["train"] | TRAIN}
    return {"profile": profile} | chosen | sizes


def parts(settings: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str) -> dict[str, Part]:
    """Train the three models with each seed, and read the test text with each."""
    return {f"seed {seed}": partial(_train_and_read, settings, corpus, seed, device) for seed in seeds}


def _train_and_read(
    settings: dict[str, Any], corpus: Corpus, seed: int, device: str, report: Report
) -> dict[str, list[float]]:
    """Return bits by offset of each model."""
    bits = {}
    test = corpus.test[: settings["test_tokens"] + 1]
    for name, run in demo.one_change_apart(settings, seed=seed, device=device).items():
        train = run.settings
        segments = ContiguousBatches(corpus.train, batch=train.batch, seg_len=train.seg_len)
        for record in loop.train_steps(run, segments):
            report(f"{name}, seed {seed}", train.steps, record)
        bits[name] = bits_by_offset(run.model, test, train.evaluation)
    return bits


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return bits by model and by offset, and what each change saves, seed by seed."""
    del corpus
    curves = {name: [part[name] for part in values.values()] for name in demo.NAMES}
    bits = {name: [mean(curve) for curve in seeds] for name, seeds in curves.items()}
    return {
        "seg_len": settings["train"]["seg_len"],
        "mem_len": settings["train"]["mem_len"],
        "steps": settings["train"]["steps"],
        "systems": {
            name: {"bits": summary(bits[name]), "bits_by_offset": summaries(curves[name])} for name in curves
        },
        "gains": {
            "relative_positions": differences(bits["vanilla"], bits["relative"]),
            "memory": differences(bits["relative"], bits["xl"]),
            "memory_by_offset": [
                differences(without, with_memory)
                for without, with_memory in zip(
                    zip(*curves["relative"], strict=True), zip(*curves["xl"], strict=True), strict=True
                )
            ],
        },
    }
