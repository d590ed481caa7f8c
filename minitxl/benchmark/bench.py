"""The benchmark: systems of the same shapes at the same work, timed side by side.

Each system works in a process of its own, because their libraries exclude each other, and
the processes take turns: in every round each works for a part of a second or more, and the next
round begins with another. So whatever slows the machine down for a while slows
all of them. Ratios are taken within each round, and then their median.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any, Literal, get_args

from minitxl.benchmark.limits import Times, in_words, limits_of, shares
from minitxl.benchmark.peers import Job, Precision, Size
from minitxl.benchmark.workers import Worker, step, worker
from minitxl.experiments.shared.runner import spread
from minitxl.fast.bfloat16 import check_precision
from minitxl.fields import require

Trained = Literal["training-S", "training-M3", "training-M", "training-large"]
OfWords = Literal["training-words", "training-adaptive", "evaluation-words", "evaluation-adaptive"]
Read = Literal["evaluation-S", "evaluation-M", "generation-M", "generation-M16"]
Held = Literal["memory-S", "memory-M3", "memory-M", "memory-large"]
Name = Trained | Read | Held | OfWords
"""A work item: what is done, and at which size."""
DEFAULT: tuple[Name, ...] = ("training-S", "training-M3", *get_args(Read), "memory-S", "memory-M3")
OF_WORDS: tuple[Name, ...] = get_args(OfWords)
"""Items of large vocabularies. A run of these alone has a result of its own."""
WORDS = Size(5, 256, 4, 64, 512, batch=32, seg_len=64, mem_len=64, dropout=0.1, vocab_size=10_000)
M = Size(12, 512, 8, 64, 2048, batch=4, seg_len=512, mem_len=512, dropout=0.0)
SIZES = {
    "S": Size(4, 256, 4, 64, 1024, batch=8, seg_len=128, mem_len=128, dropout=0.1),
    "M3": replace(M, n_layer=3),
    "M": M,
    "M16": replace(M, batch=16),
    "large": Size(24, 1024, 8, 128, 3072, batch=8, seg_len=768, mem_len=768, dropout=0.0),
    "words": WORDS,
    "adaptive": replace(WORDS, vocab_size=267_735, cutoffs=(20_000, 40_000, 200_000), div_val=4),
}
"""``M16`` writes 16 texts at once; ``large``, of the enwik8 model of that name, wants a GPU. ``words`` has
the vocabulary of the Penn Treebank; ``adaptive`` has that of WikiText-103, in its large model's clusters."""
WORKS = {"evaluation": "cached evaluation", "memory": "peak memory"}
LENGTHS: Mapping[str, Mapping[str, Any]] = {
    "evaluation": {"batch": 4, "seg_len": 128, "mem_len": 512},
    "generation": {"batch": 1, "seg_len": 1, "mem_len": 512},
    "generation-M16": {"seg_len": 1, "mem_len": 512},
}
"""Sizes of a kind of work, or of one item, where they are not those of training."""
OURS = ("minitxl", "minitxl-rotary", "minitxl-explicit")
PEERS = ("transformers", "labml-nn", "x-transformers", "x-transformers-cache")
FLOAT32 = "-float32"
"""Ends the name of a system that works in float32 in a race whose precision is bfloat16."""
RACED_IN_BFLOAT16 = ("minitxl", "minitxl-rotary", "x-transformers", "x-transformers-cache")
RACED_IN_FLOAT32 = ("minitxl", "transformers", "x-transformers", "x-transformers-cache")
"""Who takes part in a race in bfloat16 on a CPU, and who in float32 beside them. The port computes no loss
under a CPU's autocast: its output layer mixes the two precisions in a copy, and stops."""
PAUSE = 0.05
"""Seconds before each turn: idle threads of GNU's OpenMP spin for 10 ms after their last product, and
those of LLVM's for as long as KMP_BLOCKTIME says."""
PROCESSES, MEMORY_STEPS = {"cpu": 3, "cuda": 1}, 1
"""Peak memory: how many processes of each system, by device, and how many turns of each process. A GPU's
allocator counts every byte, and a second process would find the same."""

Report = Callable[[str, int], None]


def result_name(settings: Mapping[str, Any]) -> str:
    """Return the name of the stored result of these settings."""
    name = "bench_words" if set(settings["items"]) <= set(OF_WORDS) else "bench"
    return f"{name}_bfloat16" if settings["reference"].endswith(FLOAT32) else name


def rounds(
    workers: Mapping[str, Worker], count: int, *, report: Callable[[], None] = lambda: None
) -> dict[str, list[float]]:
    """Return seconds of each worker in each round; each round begins with the next worker."""
    names = list(workers)
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(count):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            sleep(PAUSE)
            times[name].append(step(workers[name], name))
        report()
    return times


def speeds(times: Times, reference: str) -> dict[str, list[float]]:
    """Return how many times faster than the reference each system was in each round."""
    return {
        name: [theirs / own for theirs, own in zip(times[reference], seconds, strict=True)]
        for name, seconds in times.items()
    }


def item(name: Name) -> tuple[str, str, Size]:
    """Return the work, the name of the size, and the size."""
    kind, size = name.split("-")
    return WORKS.get(kind, kind), size, replace(SIZES[size], **LENGTHS.get(name, LENGTHS.get(kind, {})))


def systems_of(work: str, size: Size) -> tuple[str, ...]:
    """Return the systems of a race.

    In generation none is without memory, which would read all its text anew. Of the peers, the port alone
    has an adaptive softmax. Of the large model's training, a GPU of 80 GB does not hold the second of ours
    beside the others.
    """
    if size.cutoffs:
        return (*OURS, PEERS[0])
    if work == "training" and size == SIZES["large"]:
        return (OURS[0], OURS[2], *PEERS[:-1], "vanilla")
    return (*OURS, *PEERS) if work == "generation" else (*OURS, *PEERS[:-1], "vanilla")


def in_both_precisions(systems: Sequence[str]) -> tuple[str, ...]:
    """Return who takes part in a race in bfloat16 on a CPU: those of ``systems``, and those in float32."""
    return (
        *(one for one in systems if one in RACED_IN_BFLOAT16),
        *(one + FLOAT32 for one in systems if one in RACED_IN_FLOAT32),
    )


def settings(
    names: Sequence[Name] = DEFAULT,
    *,
    rounds: int,
    warm_up: int,
    threads: int,
    peers: bool,
    precision: Precision = "float32",
    device: str = "cpu",
) -> dict[str, Any]:
    """Return the settings of a benchmark, with the system of speed 1 as reference.

    It is the port, or without peers minitxl: its own formulas, or in bfloat16 on a CPU, where speeds
    are compared with float32's, minitxl in float32.
    """
    for label, value, least in (("rounds", rounds, 2), ("warm_up", warm_up, 0), ("threads", threads, 1)):
        require(value >= least, f"{label} must be {least} or more", value)
    if precision == "bfloat16" and device == "cpu":
        reference = ("transformers" if peers else "minitxl") + FLOAT32
    else:
        reference = "transformers" if peers else "minitxl-explicit"
    return {
        "items": {name: asdict(item(name)[2]) for name in names},
        "rounds": rounds,
        "warm_up": warm_up,
        "threads": threads,
        "precision": precision,
        "reference": reference,
    }


@dataclass(frozen=True)
class Machine:
    """Settings that all workers of a run share."""

    peers: Path
    """The Python that has the peers' libraries."""
    threads: int
    device: str
    precision: Precision
    seed: int

    def worker(self, name: str, work: str, size: Size) -> AbstractContextManager[Worker]:
        system = name.removesuffix(FLOAT32)
        precision = self.precision if name == system else "float32"
        job = Job(system, work, size, self.threads, self.device, precision, self.seed)
        return worker(job, str(self.peers) if system in PEERS else sys.executable)


def run(
    settings: Mapping[str, Any],
    *,
    peers: Path,
    device: str,
    seed: int,
    report: Report = lambda label, total: None,
) -> dict[str, Any]:
    """Measure every item of ``settings``; ``report`` gets its label and its number of rounds after each."""
    check_precision(settings["precision"], device)
    machine = Machine(peers, settings["threads"], device, settings["precision"], seed)
    rows, versions = list[Any](), dict[str, Any]()
    with_peers = settings["reference"].removesuffix(FLOAT32) in PEERS
    for name in settings["items"]:
        work, size_name, size = item(name)
        systems = tuple(one for one in systems_of(work, size) if with_peers or one not in PEERS)
        if settings["reference"].endswith(FLOAT32):
            systems = in_both_precisions(systems)
        count = PROCESSES[device] if work == "peak memory" else settings["rounds"]
        note = partial(report, f"{work}, {size_name}", count)
        if work == "peak memory":
            row = peak_memory(machine, systems, size, report=note)
        else:
            row = race(machine, systems, work, size, settings, report=note)
        versions |= {name: system.pop("versions") for name, system in row["systems"].items()}
        rows.append({"work": work, "size": size_name, **row})
    ran_on = (
        "a GPU" if device == "cuda" else f"{settings['threads']} CPU thread{'s' * (settings['threads'] > 1)}"
    )
    return {"reference": settings["reference"], "machine": ran_on, "items": rows, "versions": versions}


def race(
    machine: Machine,
    systems: Sequence[str],
    work: str,
    size: Size,
    settings: Mapping[str, Any],
    *,
    report: Callable[[], None],
) -> dict[str, Any]:
    """Return seconds and speeds of the systems, and what share of the machine's limit minitxl reaches."""
    with ExitStack() as stack:
        workers = {
            name: stack.enter_context(machine.worker(name, work, size))
            for name in (*systems, *limits_of(work, machine.device))
        }
        about = {name: one.hear() for name, one in workers.items()}
        for one in workers.values():
            one.ask("fill")
        rounds(workers, settings["warm_up"])
        times = rounds(workers, settings["rounds"], report=report)
    speed = speeds(times, settings["reference"])
    measured: dict[str, Any] = {
        name: {**about[name], "seconds": spread(times[name]), "speed": spread(speed[name])}
        for name in systems
    }
    for name in systems:
        if name + FLOAT32 in systems:
            measured[name]["over_float32"] = spread(speeds(times, name + FLOAT32)[name])
    return {"systems": measured, **shares(times, work, size, machine.precision)}


def peak_memory(
    machine: Machine, systems: Sequence[str], size: Size, *, report: Callable[[], None]
) -> dict[str, Any]:
    """Return the most MB that training holds, beyond those held before the model, in fresh processes."""
    about: dict[str, Any] = {}
    megabytes: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(PROCESSES[machine.device]):
        for name in systems:
            with machine.worker(name, "training", size) as one:
                about[name] = one.hear()
                one.ask("fill")
                for _ in range(MEMORY_STEPS):
                    step(one, name)
                megabytes[name].append(one.ask("memory")["bytes"] / 1e6)
        report()
    return {"systems": {name: {**about[name], "megabytes": spread(megabytes[name])} for name in systems}}


def table(data: Mapping[str, Any]) -> str:
    """Return the result as text, an item after the other."""
    lines = []
    for row in data["items"]:
        lines += ["", f"{row['work']}, size {row['size']}"]
        for name, system in row["systems"].items():
            line = f"  {name:32} {system['parameters'] / 1e6:6.1f}M parameters"
            if "megabytes" in system:
                line += _numbers(system["megabytes"], 1.0, "9,.0f", " MB")
            else:
                line += _numbers(system["seconds"], 1e3, "9,.1f", " ms")
                line += _numbers(system["speed"], 1.0, "6.2f", "×")
            lines.append(line)
        if row["work"] != "peak memory":
            lines.append(f"  {in_words(row)}")
    lines.append(f"\nmedians (and quartiles); × is the speed of {data['reference']}, taken round by round")
    return "\n".join(lines[1:])


def _numbers(values: Mapping[str, Any], scale: float, form: str, unit: str) -> str:
    low, high = (f"{scale * value:{form}}".strip() for value in values["quartiles"])
    return f" {scale * values['median']:{form}}{unit} ({low} – {high})"
