"""What does each idea buy? Encoding × recurrence × loss, in the shape of the paper's Tables 6 and 10.

All systems have nearly the same number of parameters, within 2 %: W_kR, which XL alone has, is paid for by a
narrower feed-forward layer. Each is scored at the attention length it was trained with and, if
its positions allow it, at longer ones. With recurrence, a query's memory and segment are cut to equally many
keys for all queries; without it, a piece of the text that moves on by one token is read anew each time. All
scores are over the same targets.

Recurrence costs RAM while training. One more system has none and spends the same bytes on
longer segments (Table 10).
"""

from bisect import bisect_right
from dataclasses import replace
from functools import partial
from itertools import permutations, product
from math import log
from typing import Any

import torch
from einops import reduce
from torch import Tensor

from minitxl.analysis.saved_tensors import saved_bytes
from minitxl.config import ModelConfig
from minitxl.data.corpus import Corpus
from minitxl.experiments.conclusions.comparisons import bits_as_cut
from minitxl.experiments.shared import setup
from minitxl.experiments.shared.runner import Part, Report, differences, named, summaries, summary
from minitxl.fast import to_fast
from minitxl.inference.config import EvaluateConfig
from minitxl.inference.evaluation import cached, cached_losses, sliding
from minitxl.model import TransformerLM
from minitxl.training.checkpoints import model_config, train_config
from minitxl.training.config import TrainConfig

SEEDS = [0, 1, 2, 3, 4]
ENCODINGS: dict[str, dict[str, Any]] = {
    "XL": {"attention": "xl"},
    "Shaw": {"attention": "shaw"},
    "absolute, sinusoidal": {"attention": "absolute", "positions": "sinusoidal"},
    "absolute, per layer": {"attention": "absolute", "positions": "per-layer"},
}
DATA_KEYS = {
    "XL": "xl",
    "Shaw": "shaw",
    "absolute, sinusoidal": "sinusoidal",
    "absolute, per layer": "per_layer",
}
"""Names of encodings in the data; of two that are compared the earlier stands before ``_over_``."""


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """Return all that decides the numbers, but for the seeds; attention lengths are in segments."""
    model, train = setup.sizes(profile)
    model, train = replace(model, max_seg_len=train.seg_len), replace(train, validate_every=train.steps)
    grid = product(ENCODINGS, (True, False), ("full", "half"))
    systems = [
        {"encoding": encoding, "recurrence": recurrence, "loss": loss, "equal_memory": False}
        for encoding, recurrence, loss in grid
    ]
    longer = {"encoding": "XL", "recurrence": False, "loss": "full", "equal_memory": True}
    return {
        "profile": profile,
        **setup.described(corpus, model, train),
        "encodings": ENCODINGS,
        "systems": [*systems, longer],
        "memory_lens": [1, 1.5, 2, 3, 4, 6, 8],
        "window_lens": [1, 2],
        "test_tokens": 8192,
    }


def parts(settings: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str) -> dict[str, Part]:
    """Train and score each system with each seed."""
    return {
        f"{label(system)}, seed {seed}": partial(train_and_score, settings, corpus, system, seed, device)
        for system in settings["systems"]
        for seed in seeds
    }


def label(system: dict[str, Any]) -> str:
    """Return the name of a system, as figures and progress bars print it."""
    recurrence = "memory" if system["recurrence"] else "no memory"
    longer = ", longer segments" if system["equal_memory"] else ""
    steps = f", {system['steps']} steps" if "steps" in system else ""
    return f"{system['encoding']}, {recurrence}{longer}, {system['loss']} loss{steps}"


def equal_parameters(config: ModelConfig) -> ModelConfig:
    """XL's W_kR, d_model · n_head · d_head a layer, taken from the two matrices of the inner layer."""
    fewer = config.n_head * config.d_head // 2 if config.attention == "xl" else 0
    return replace(config, d_inner=config.d_inner - fewer)


def train_and_score(
    settings: dict[str, Any], corpus: Corpus, system: dict[str, Any], seed: int, device: str, report: Report
) -> dict[str, Any]:
    """Train one system; return its size, its loss by offset, and its loss at each attention length."""
    config = equal_parameters(
        replace(model_config(settings["model"]), **settings["encodings"][system["encoding"]])
    )
    train = replace(train_config(settings["train"]), loss=system["loss"], seed=seed)
    if "steps" in system:
        train = replace(train, steps=system["steps"], validate_every=system["steps"])
    if system["equal_memory"]:
        train = replace(train, seg_len=affordable_seg_len(config, train), mem_len=0)
    elif not system["recurrence"]:
        train = replace(train, mem_len=0)
    name = f"{label(system)}, seed {seed}"
    run, _ = setup.train_on(corpus, config, train, label=name, device=device, report=report)
    test = corpus.test[: settings["test_tokens"] + 1]
    return {
        "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
        "seg_len": train.seg_len,
        "mem_len": train.mem_len,
        "bits_by_offset": bits_by_offset(run.model, test, train.evaluation),
        "scores": [
            {"attention_len": length, "bits": _bits(run.model, test, train, length)}
            for length in _attention_lens(settings, config, train)
        ],
    }


def _attention_lens(settings: dict[str, Any], config: ModelConfig, train: TrainConfig) -> list[int]:
    """Return the length trained with, L or L + M, and others where positions are relative."""
    trained = train.seg_len + train.mem_len
    factors = settings["memory_lens"] if train.mem_len else settings["window_lens"]
    others = [int(train.seg_len * factor) for factor in factors] if not config.has_absolute_positions else []
    return sorted({trained, *others})


def _bits(model: TransformerLM, test: Tensor, train: TrainConfig, attention_len: int) -> float:
    """Test bits per character where a query attends to ``attention_len`` keys.

    Absolute positions with memory can't have a window: they are read as they were trained.
    """
    if not train.mem_len:
        return sliding(model, test, attention_len=attention_len, stride=1).bits_per_token
    if model.config.has_absolute_positions:
        return cached(model, test, train.evaluation).bits_per_token
    return cached(model, test, train.evaluation.attending(attention_len)).bits_per_token


def bits_by_offset(model: TransformerLM, test: Tensor, settings: EvaluateConfig) -> list[float]:
    """Mean bits per character at each offset of the segment: where context is cut, the first cost most."""
    whole = (len(test) - 1) // settings.seg_len * settings.seg_len
    losses = cached_losses(model, test[: whole + 1], settings).double() / log(2)
    return reduce(losses, "(segment seg) -> seg", "mean", seg=settings.seg_len).tolist()


def affordable_seg_len(config: ModelConfig, train: TrainConfig) -> int:
    """Return the longest segment that, without memory, keeps no more bytes for the backward pass."""
    budget = bytes_kept(config, train)
    lengths = range(train.seg_len, train.seg_len + train.mem_len + 1)
    count = bisect_right(
        lengths, budget, key=lambda seg_len: bytes_kept(config, replace(train, seg_len=seg_len, mem_len=0))
    )
    return lengths[count - 1]


def bytes_kept(config: ModelConfig, train: TrainConfig) -> int:
    """Return bytes that one training step keeps for its backward pass, its memory among them."""
    with torch.random.fork_rng(devices=[]):
        model = TransformerLM(config)
    tokens = torch.zeros(train.batch, train.seg_len, dtype=torch.int64)
    memory = torch.zeros(config.n_layer, train.batch, train.mem_len, config.d_model)
    forward = partial(to_fast(model).token_losses, tokens, tokens, memory)
    return saved_bytes(forward, model.parameters())


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return each system, and the bits that one choice saves over another where all else is equal."""
    del corpus
    systems = rows(settings, values)
    return {"systems": systems, "saved": saved(systems)}


def rows(settings: dict[str, Any], values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return each system at the attention length it was trained with, and at its best one."""
    return [row(system, values) for system in settings["systems"]]


def saved(systems: list[dict[str, Any]]) -> dict[str, Any]:
    """Return bits saved, read in segments and paired by seed: by memory, by full loss, and by positions.

    ``positions["xl_over_shaw"]["memory"]["full"]`` has what XL saves over Shaw, both trained with memory and
    full loss. Pairs that were not both trained are left out.
    """
    bits = {
        (row["encoding"], row["recurrence"], row["loss"]): as_cut["seeds"]
        for row in systems
        if not row["equal_memory"] and (as_cut := bits_as_cut({"systems": [row]}, row["label"]))
    }
    found: dict[str, Any] = {"memory": {}, "full_loss": {}, "positions": {}}
    order = list(DATA_KEYS)
    for (worse, given), (better, own) in permutations(bits.items(), 2):
        changed = [one != other for one, other in zip(better, worse, strict=True)]
        encoding, memory, loss = DATA_KEYS[better[0]], "memory" if better[1] else "no_memory", better[2]
        less = differences(given, own)
        if changed == [False, True, False] and better[1]:
            found["memory"].setdefault(encoding, {})[loss] = less
        if changed == [False, False, True] and loss == "full":
            found["full_loss"].setdefault(encoding, {})[memory] = less
        if changed == [True, False, False] and order.index(better[0]) < order.index(worse[0]):
            pair = found["positions"].setdefault(f"{encoding}_over_{DATA_KEYS[worse[0]]}", {})
            pair.setdefault(memory, {})[loss] = less
    return found


def row(system: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Return a line of the table: mean and spread over the seeds."""
    seeds = named(values, label(system))
    first = seeds[0]
    lengths = [score["attention_len"] for score in first["scores"]]
    by_length = [
        {"attention_len": length, "bits": summary([part["scores"][index]["bits"] for part in seeds])}
        for index, length in enumerate(lengths)
    ]
    trained = lengths.index(first["seg_len"] + first["mem_len"])
    return {
        **system,
        "label": label(system),
        "parameters": first["parameters"],
        "seg_len": first["seg_len"],
        "mem_len": first["mem_len"],
        "trained": by_length[trained],
        "best": min(by_length[trained:], key=lambda one: one["bits"]["mean"]),
        "by_length": by_length,
        "bits_by_offset": summaries(part["bits_by_offset"] for part in seeds),
    }
