"""What would the published configurations take: time on one device, time on N of them, memory on each?

Measured: the seconds of a training step of some presets, at a batch that this device can take,
and the rate of an all-reduce between two processes of this machine. Counted: the operations of
a step, and the bytes that a process holds when its backward pass begins. Assumed, and taken from
nothing but the settings: rates of other links, and a GPU's operations a second.

N processes have 1/N of the batch each, and so 1/N of the time of a step; no part of it is taken
to be fixed. Then each has to know the mean of all gradients. A ring sends 2 (N - 1) / N times
their bytes over each link, before the optimizer can go on (``apart``: an upper bound on the
time) or, at best, while the backward pass still computes (``overlapped``: a lower bound).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import torch
from torch import distributed
from torch.multiprocessing.spawn import spawn

from minitxl.analysis.flops import step_operations
from minitxl.analysis.saved_tensors import FLOAT, held
from minitxl.config import ModelConfig
from minitxl.data.batching import ContiguousBatches
from minitxl.data.corpus import Corpus
from minitxl.experiments.shared.runner import Part, Report, named, rounded, spread
from minitxl.pretrained.presets import FOR_ONE_CORE, PRESETS
from minitxl.training import loop
from minitxl.training.checkpoints import model_config, train_config
from minitxl.training.config import TrainConfig
from minitxl.training.sizes import parameter_count
from minitxl.training.step import train_step

SEEDS = [0]
QUICK = {"enwik8-base": 1, "wikitext103-base": 10, "penn-treebank": 20}
FULL = {
    "enwik8-base": 22,
    "enwik8-large": 16,
    "wikitext103-base": 60,
    "wikitext103-large": 32,
    "one-billion-words-base": 56,
    "one-billion-words-large": 32,
    "penn-treebank": 20,
}
"""Batches that are timed: on two cores a part of the published one; what 80 GB of a GPU can hold."""
LINKS = {"ethernet": 1.25, "pcie": 25, "nvlink": 450}
"""Assumed: gigabytes a second that each process sends while it receives as many, by 10-gigabit Ethernet,
PCIe 4.0 with 16 lanes, and NVLink."""
ASSUMED = {"teraflops": 312, "utilisation": 0.2}
"""Assumed: a GPU's peak in bfloat16, 10^12 operations a second, and the share that is reached of it."""
GIGA, TERA, EXA, DAY = 1e9, 1e12, 1e18, 86_400


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """Return all that decides the numbers, but for the seed; no text does."""
    del corpus
    full = profile == "full"
    published = {name: preset() for name, preset in PRESETS.items() if name not in FOR_ONE_CORE}
    return {
        "profile": profile,
        "presets": {
            name: {"model": asdict(preset.model), "train": asdict(preset.train)}
            for name, preset in published.items()
        },
        "timed": FULL if full else QUICK,
        "precisions": ["float32", "bfloat16"] if full else ["float32"],
        "passes": 3,
        "warm_up": 2,
        "steps": 10 if full else 2,
        "reduced": {"processes": 2, "bytes": 2**28 if full else 2**26, "rounds": 9},
        "gpus": [1, 2, 4, 8, 16, 32, 64],
        "links": LINKS,
        "assumed": ASSUMED,
    }


def parts(settings: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str) -> dict[str, Part]:
    """Time each preset, all of them again in each pass; then the all-reduce."""
    del corpus
    (seed,) = seeds
    timed = {
        f"{name}, {precision}, pass {number}": partial(_steps, settings, name, precision, seed, device)
        for number in range(1, settings["passes"] + 1)
        for name in settings["timed"]
        for precision in settings["precisions"]
    }
    return {**timed, "all-reduce": partial(_reduced, settings["reduced"], device)}


def _preset(settings: Mapping[str, Any], name: str, **changes: Any) -> tuple[ModelConfig, TrainConfig]:
    described = settings["presets"][name]
    return model_config(described["model"]), train_config({**described["train"], **changes})


def _steps(
    settings: dict[str, Any], name: str, precision: str, seed: int, device: str, report: Report
) -> dict[str, Any]:
    """Return seconds of each timed step, with a full memory; on a GPU also the most bytes it has held."""
    model, train = _preset(settings, name, batch=settings["timed"][name], precision=precision, seed=seed)
    count = settings["warm_up"] + settings["steps"]
    random = torch.Generator().manual_seed(seed)
    text = torch.multinomial(
        1 / torch.arange(1.0, model.vocab_size + 1),
        train.batch * (train.seg_len * count + 1),
        replacement=True,
        generator=random,
    )
    run = loop.start(model, train, device=device)
    segments, seconds = ContiguousBatches(text, batch=train.batch, seg_len=train.seg_len), []
    for _ in range(count):
        began = perf_counter()
        record = train_step(run, segments)
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(perf_counter() - began)
        report(f"{name}, {precision}", count, record)
    most = None
    if device == "cuda":
        most = rounded(torch.cuda.max_memory_allocated() / GIGA)
        torch.cuda.reset_peak_memory_stats()
    return {"seconds": seconds[settings["warm_up"] :], "gigabytes": most}


def _reduced(settings: dict[str, Any], device: str, report: Report) -> dict[str, Any]:
    """Return seconds of each all-reduce: between GPUs by NCCL where there are as many, else by gloo."""
    del report
    on_gpus = device == "cuda" and torch.cuda.device_count() >= settings["processes"]
    backend = "nccl" if on_gpus else "gloo"
    with TemporaryDirectory() as folder:
        spawn(_reduce, (backend, settings, folder), nprocs=settings["processes"])
        seconds = json.loads(Path(folder, "seconds.json").read_text("utf-8"))
    return {"backend": backend, "seconds": seconds}


def _reduce(rank: int, backend: str, settings: dict[str, Any], folder: str) -> None:
    """Run one process of the measurement; its first round is not counted."""
    torch.set_num_threads(1)
    distributed.init_process_group(
        backend, init_method=f"file://{folder}/store", rank=rank, world_size=settings["processes"]
    )
    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    numbers, seconds = torch.zeros(settings["bytes"] // FLOAT, device=device), []
    for _ in range(settings["rounds"] + 1):
        began = perf_counter()
        distributed.all_reduce(numbers)
        numbers[0].item()
        seconds.append(perf_counter() - began)
    if rank == 0:
        Path(folder, "seconds.json").write_text(json.dumps(seconds[1:]), "utf-8")
    distributed.destroy_process_group()


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return the timings, and for each preset its size, its cost, and its speed on N processes."""
    del corpus
    timed = [
        _timed(settings, name, precision, named(values, f"{name}, {precision}"))
        for name in settings["timed"]
        for precision in settings["precisions"]
    ]
    link = _link(settings["reduced"], values["all-reduce"])
    links = {"measured": link["gigabytes_per_second"], **settings["links"]}
    return {
        "timed": timed,
        "link": link,
        "links": links,
        "assumed": settings["assumed"],
        "presets": {name: _row(settings, name, timed, links) for name in settings["presets"]},
    }


def _timed(
    settings: dict[str, Any], name: str, precision: str, passes: list[dict[str, Any]]
) -> dict[str, Any]:
    model, train = _preset(settings, name, batch=settings["timed"][name])
    seconds = spread([one for each in passes for one in each["seconds"]])
    needed = step_operations(model, train)
    return {
        "preset": name,
        "precision": precision,
        "batch": train.batch,
        "published_batch": _preset(settings, name)[1].batch,
        "operations": needed,
        "seconds": seconds,
        "operations_per_second": rounded(needed / seconds["median"]),
        "gigaflops": rounded(needed / seconds["median"] / GIGA),
        "tokens_per_second": rounded(train.batch * train.seg_len / seconds["median"]),
        "gigabytes": passes[0]["gigabytes"],
        "gigabytes_counted": rounded(sum(held(model, train, parts=1).values()) / GIGA),
    }


def _link(settings: dict[str, Any], reduced: dict[str, Any]) -> dict[str, Any]:
    seconds = spread(reduced["seconds"])
    sent = ring_bytes(settings["bytes"], settings["processes"])
    return {
        "processes": settings["processes"],
        "backend": reduced["backend"],
        "bytes": settings["bytes"],
        "seconds": seconds,
        "gigabytes_per_second": rounded(sent / seconds["median"] / GIGA),
    }


def _row(
    settings: dict[str, Any], name: str, timed: Sequence[Mapping[str, Any]], links: Mapping[str, float]
) -> dict[str, Any]:
    """Return a preset; one that was not timed runs at the rate of that which is nearest in size."""
    model, train = _preset(settings, name)
    assumed = settings["assumed"]["teraflops"] * settings["assumed"]["utilisation"] * TERA
    step, numbers = step_operations(model, train), parameter_count(model)
    sizes = {other: parameter_count(_preset(settings, other)[0]) for other in settings["timed"]}
    like = min(sizes, key=lambda other: max(sizes[other] / numbers, numbers / sizes[other]))
    measured = max(one["operations_per_second"] for one in timed if one["preset"] == like)
    rates = {"measured": measured, "assumed": assumed}
    seconds = {kind: step * train.steps / rate for kind, rate in rates.items()}
    shares = [parts for parts in settings["gpus"] if train.batch % parts == 0]
    return {
        "parameters": numbers,
        "millions": rounded(numbers / 1e6),
        "batch": train.batch,
        "steps": train.steps,
        "tokens": train.batch * train.seg_len * train.steps,
        "operations_per_step": step,
        "operations": step * train.steps,
        "exaoperations": rounded(step * train.steps / EXA),
        "rate_of": like,
        "gigaflops": rounded(measured / GIGA),
        "cost": {
            kind: {
                "hours": rounded(value / 3600),
                "days": rounded(value / DAY),
                "years": rounded(value / DAY / 365.25),
            }
            for kind, value in seconds.items()
        },
        "gigabytes": [{"gpus": parts, **_gigabytes(held(model, train, parts=parts))} for parts in shares],
        "scaling": {
            kind: {
                link: [
                    {
                        "gpus": parts,
                        **several(step / rate, numbers * FLOAT, train, parts=parts, rate=speed * GIGA),
                    }
                    for parts in shares
                ]
                for link, speed in links.items()
            }
            for kind, rate in rates.items()
        },
    }


def _gigabytes(counted: Mapping[str, int]) -> dict[str, float]:
    return {
        **{name: rounded(value / GIGA) for name, value in counted.items()},
        "whole": rounded(sum(counted.values()) / GIGA),
    }


def several(
    seconds: float, gradient_bytes: int, train: TrainConfig, *, parts: int, rate: float
) -> dict[str, dict[str, float]]:
    """Return a step's time on ``parts`` processes from its ``seconds`` on one, at ``rate`` bytes a second."""
    computing, sending = seconds / parts, ring_bytes(gradient_bytes, parts) / rate
    times = {"apart": computing + sending, "overlapped": max(computing, sending)}
    return {
        way: {
            "seconds": rounded(time),
            "efficiency": rounded(computing / time),
            "tokens_per_second": rounded(train.batch * train.seg_len / time),
        }
        for way, time in times.items()
    }


def ring_bytes(size: int, processes: int) -> float:
    """Bytes that each process sends in a ring's all-reduce: an N-th of them in each of 2 (N - 1) steps."""
    return 2 * (processes - 1) / processes * size
