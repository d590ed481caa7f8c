"""Do deeper layers tell old from new, where absolute positions restart in every segment?

Copy a random token a few places back, with a memory of one segment. Late queries see two keys at the
place they look for: one in the segment, one in memory. In the first layer nothing tells them apart,
whatever is trained, so one layer can do no better than a coin. A state that a deeper layer reads has
attended to the tokens around it, and those differ from segment to segment. Models of one and of two
layers are trained on two tasks with the same settings: a near token in short segments, and a far token
in long ones. They are read on streams that are longer than those of training.
"""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from statistics import mean
from typing import Any

import torch

from minitxl.data.corpus import Corpus
from minitxl.experiments import copying
from minitxl.experiments.shared.runner import Part, Report, named, summaries, summary
from minitxl.memory import extend

SEEDS = [0, 1, 2]
TASKS: dict[str, dict[str, int]] = {
    "near": {"seg_len": 4, "distance": 1, "letters": 4, "segments": 8},
    "far": {"seg_len": 16, "distance": 8, "letters": 16, "segments": 4},
}
DEPTHS = {"one_layer": 1, "two_layers": 2}


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """Return all that decides the numbers, but for the seeds. The text is not used."""
    del corpus
    return {
        "model": asdict(copying.SMALL) | {"attention": "absolute"},
        "tasks": TASKS,
        "depths": DEPTHS,
        "batch": 32,
        "steps": 6000 if profile == "full" else 2000,
        "learning_rate": 1e-3,
        "test_streams": 512,
        "test_segments": 12,
    }


def parts(settings: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str) -> dict[str, Part]:
    """Train each depth on each task, with each seed."""
    del corpus
    return {
        f"{task}, {depth}, seed {seed}": partial(_train, settings, task, depth, seed, device)
        for task in settings["tasks"]
        for depth in settings["depths"]
        for seed in seeds
    }


def _task(settings: Mapping[str, Any], task: str, depth: str) -> dict[str, Any]:
    """Return the settings of ``copying`` for one task and depth; memory is as long as a segment."""
    chosen = settings["tasks"][task]
    sizes = {"vocab_size": chosen["letters"], "n_layer": settings["depths"][depth]}
    return {
        **settings,
        "model": settings["model"] | sizes,
        "seg_len": chosen["seg_len"],
        "mem_len": chosen["seg_len"],
        "segments": chosen["segments"],
    }


def _train(
    settings: dict[str, Any], task: str, depth: str, seed: int, device: str, report: Report
) -> dict[str, Any]:
    """Return accuracy by offset in the last segment of longer streams.

    ``either`` is how often the guess is the right token or the one at the same place a segment earlier.
    """
    chosen, distance = _task(settings, task, depth), settings["tasks"][task]["distance"]
    run, random = copying.begin(chosen, seed, device), torch.Generator().manual_seed(seed)
    read = partial(copying.read_segments, chosen, extend)
    label = f"{task}, {depth}, seed {seed}"
    copying.train(chosen, run, read, distance, random, partial(report, label, settings["steps"]))
    longer = chosen | {"segments": settings["test_segments"]}
    stream = copying.streams(longer, settings["test_streams"], random).to(device)
    with torch.inference_mode():
        guessed = read(run.model.eval(), stream).argmax(dim=2)
    right = copying.hits(chosen, guessed, stream, distance)
    older = copying.hits(chosen, guessed, stream, distance + chosen["seg_len"])
    return {
        "accuracy": right.mean(dim=0).tolist(),
        "either": torch.maximum(right, older).mean(dim=0).tolist(),
    }


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return accuracy by task, depth and offset; early queries see one key at the place, late ones two."""
    del corpus
    tasks = {}
    for task, chosen in settings["tasks"].items():
        distance, row = chosen["distance"], {}
        for depth in settings["depths"]:
            seeds = named(values, f"{task}, {depth}")
            row[depth] = {
                "by_offset": summaries([part["accuracy"] for part in seeds]),
                "early": summary([mean(part["accuracy"][:distance]) for part in seeds]),
                "late": summary([mean(part["accuracy"][distance:]) for part in seeds]),
                "late_either": summary([mean(part["either"][distance:]) for part in seeds]),
            }
        coin = 1 / 2 + 1 / 2 / chosen["letters"]
        tasks[task] = {**chosen, "chance": 1 / chosen["letters"], "coin": coin, "depths": row}
    return {"tasks": tasks, "test_segments": settings["test_segments"]}
