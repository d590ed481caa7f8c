"""What does each part of a training step buy? Warm-up, the falling rate, lanes in order, memory.

A small Transformer-XL is trained whole, and with one part changed: without warm-up, at a rate that stays
at its peak, with its lanes in another order at each step, and without memory. All models of a seed begin
with the same weights, so each is compared with the whole one of its seed. Each is trained for few and for
more steps, because a schedule is made for its number of steps.

Which schedule is better may hang on its peak. So the falling rate, the constant one and the one without
warm-up are compared at higher peaks, too, and each at the peak that is best for it.

Three losses are kept: of the test text, its lanes in order, read as the model was trained; of the same text,
read by every model with the memory of the whole training, so that the trainings alone are compared; and of
the last training steps, where the lanes stand as the training has them.
"""

from dataclasses import replace
from functools import partial
from math import log
from statistics import mean
from typing import Any

import torch

from minitxl.data.batching import ContiguousBatches, Segment
from minitxl.data.corpus import Corpus
from minitxl.experiments.shared import setup
from minitxl.experiments.shared.runner import Part, Report, differences, named, summary
from minitxl.inference.config import EvaluateConfig
from minitxl.inference.evaluation import cached_losses
from minitxl.training import loop
from minitxl.training.checkpoints import model_config, train_config

SEEDS = [0, 1, 2]
CHANGES: dict[str, dict[str, Any]] = {
    "whole": {},
    "no_warmup": {"warmup": 0},
    "constant_rate": {"schedule": "constant"},
    "shuffled_lanes": {},
    "no_memory": {"mem_len": 0},
}
"""What differs in training; ``shuffled_lanes`` reads other segments (``ShuffledLanes``)."""
SCHEDULES = {"falling": "whole", "constant": "constant_rate", "no_warmup": "no_warmup"}
"""Schedules of the rate, and the training that has each: falling and constant after a warm-up, or falling
without one."""
COSTS = {"bits": "cost", "bits_with_memory": "cost_with_memory", "training_bits": "training_cost"}
"""The losses of a training, and the name of each one's difference from that of the whole step."""


class ShuffledLanes(ContiguousBatches):
    """Lanes whose order changes at each step, so that each reads the memory of unrelated text."""

    def __getitem__(self, index: int) -> Segment:
        segment = super().__getitem__(index)
        order = torch.randperm(len(self.lanes), generator=torch.Generator().manual_seed(index))
        return Segment(segment.tokens[order], segment.targets[order])


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """Return all that decides the numbers, but for the seeds."""
    model, train = setup.sizes(profile)
    if profile != "full":
        model = replace(model, n_layer=2, d_model=64, n_head=2, d_head=32, d_inner=128)
    return {
        "profile": profile,
        **setup.described(corpus, model, replace(train, validate_every=train.steps)),
        "changes": CHANGES,
        "step_counts": [train.steps // 3, train.steps],
        "peaks": [train.learning_rate * factor for factor in (1, 2, 4, 8)],
        "test_tokens": 16_384,
        "last_steps": 100,
    }


def parts(settings: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str) -> dict[str, Part]:
    """Train and score each change with each seed, for each number of steps, and schedules at each peak."""
    first, *others = settings["peaks"]
    trainings = [
        (change, steps, first) for change in settings["changes"] for steps in settings["step_counts"]
    ]
    trainings += [
        (change, settings["step_counts"][-1], peak) for change in SCHEDULES.values() for peak in others
    ]
    return {
        f"{label(*training)}, seed {seed}": partial(
            _train_and_score, settings, corpus, training, seed, device
        )
        for seed in seeds
        for training in trainings
    }


def label(change: str, steps: int, peak: float) -> str:
    """Return the name of a training, such as "no_warmup, 300 steps, peak 0.002"."""
    return f"{change}, {steps} steps, peak {peak}"


def _train_and_score(
    settings: dict[str, Any],
    corpus: Corpus,
    training: tuple[str, int, float],
    seed: int,
    device: str,
    report: Report,
) -> dict[str, float]:
    """Return bits per character of the test text, by both readings, and of the last training steps."""
    change, steps, peak = training
    train = replace(
        train_config(settings["train"] | settings["changes"][change]),
        learning_rate=peak,
        steps=steps,
        validate_every=steps,
        seed=seed,
    )
    run = loop.start(model_config(settings["model"]), train, device=device)
    kind = ShuffledLanes if change == "shuffled_lanes" else ContiguousBatches
    training_bits = []
    for record in loop.train_steps(run, kind(corpus.train, batch=train.batch, seg_len=train.seg_len)):
        report(f"{label(*training)}, seed {seed}", steps, record)
        training_bits.append(record.bits)
    text = corpus.test[: settings["test_tokens"] + 1]

    def test_bits(reading: EvaluateConfig) -> float:
        return cached_losses(run.model, text, reading).double().mean().item() / log(2)

    as_trained, with_memory = train.evaluation, train_config(settings["train"]).evaluation
    bits = test_bits(as_trained)
    return {
        "bits": bits,
        "bits_with_memory": bits if as_trained == with_memory else test_bits(with_memory),
        "training_bits": mean(training_bits[-settings["last_steps"] :]),
    }


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return bits by number of steps and change, and their difference from the whole step, seed by seed."""
    del corpus
    rows, first = [], settings["peaks"][0]
    for steps in settings["step_counts"]:
        trained = {change: named(values, label(change, steps, first)) for change in settings["changes"]}
        changes: dict[str, dict[str, Any]] = {change: {} for change in trained}
        for bits, cost in COSTS.items():
            of_seeds = {change: [one[bits] for one in of] for change, of in trained.items()}
            for change, of in of_seeds.items():
                changes[change] |= {bits: summary(of), cost: differences(of, of_seeds["whole"])}
        rows.append({"steps": steps, "changes": changes})
    return {
        "rows": rows,
        "schedules": _schedules(settings, values),
        "warmup": settings["train"]["warmup"],
        "seg_len": settings["train"]["seg_len"],
        "mem_len": settings["train"]["mem_len"],
    }


def _schedules(settings: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Return the losses of the schedules at each peak and at the best one, after the most steps.

    A schedule's best peak is the one with the least mean over the seeds. ``gain_of_best_peak`` is what the
    falling rate saves by it, beside the lowest peak.
    """
    steps = settings["step_counts"][-1]

    def losses_at(peaks: dict[str, float]) -> dict[str, Any]:
        losses: dict[str, Any] = {"peaks": peaks}
        for bits, cost in (("bits", "cost"), ("training_bits", "training_cost")):
            of_seeds = {
                name: [one[bits] for one in named(values, label(change, steps, peaks[name]))]
                for name, change in SCHEDULES.items()
            }
            losses[bits] = {name: summary(of) for name, of in of_seeds.items()}
            losses[cost] = {
                name: differences(of, of_seeds["falling"])
                for name, of in of_seeds.items()
                if name != "falling"
            }
        return losses

    at_peaks = [losses_at(dict.fromkeys(SCHEDULES, peak)) for peak in settings["peaks"]]
    best = {
        name: min(at_peaks, key=lambda row: row["bits"][name]["mean"])["peaks"][name] for name in SCHEDULES
    }
    at_best = losses_at(best)
    return {
        "steps": steps,
        "at_peaks": at_peaks,
        "at_best_peaks": at_best,
        "gain_of_best_peak": differences(
            at_peaks[0]["bits"]["falling"]["seeds"], at_best["bits"]["falling"]["seeds"]
        ),
    }
