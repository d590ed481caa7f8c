"""Fingerprints: a tiny run of every experiment, whose numbers tell whether a stored result still holds.

A result is minutes or hours of training in float32, and no other machine repeats its last digits.
So every experiment also has a tiny run: the same functions at other settings, in float64, on one
thread, three steps of training, a few seconds. Its numbers are stored with the result. A result
holds as long as the code of today repeats the tiny run: files may be moved and names changed, but
a changed sign, window or scale shows.

    result.fingerprint == compute(result.name)      up to 1e-6, as ``same`` says

The tiny runs cross the edges that code can get wrong: a segment of 136 tokens is longer than one
block of the fast path (128), a memory of 200 is empty, then half full, then full; where every model
has a memory, queries have a window; dropout is drawn where the fast path draws it.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from math import cos, isclose
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from minitxl.data import corpora
from minitxl.data.corpus import Corpus
from minitxl.experiments.shared.results import leaves
from minitxl.experiments.shared.runner import Report
from minitxl.experiments.shared.runner import compute as compute_parts
from minitxl.training.step import Record

Fingerprint = Mapping[str, Any]
RELATIVE = 1e-6
"""Largest relative difference of a number that counts as repeated."""
TIMINGS = ("microseconds", "microseconds_per_token", "microseconds_range", "training_tokens_per_second")
"""Keys of measured times in a result's data, which no run repeats."""
MEASURED = ("evaluation_cost", "generation_cost", "scaling")
"""Experiments that measure time, and have no fingerprint: their provenance names CPU, commit and date."""

MODEL = {"n_layer": 2, "d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 32, "max_seg_len": 136}
DROPOUT = {"dropout": 0.1, "attention_dropout": 0.1}
FAST = {"learning_rate": 0.1}
"""Fifty times that of the experiments: after three steps attention is far from uniform, so that its every
part shows. At theirs, distances that are wrong by one would change the loss by less than ``RELATIVE``."""
TRAIN = {"seg_len": 136, "mem_len": 200, "batch": 2, "steps": 3, "warmup": 1, **FAST}
VALIDATE = {"validate_every": 3, "validate_tokens": 300}
TRAINED = {"model": {**MODEL, **DROPOUT}, "train": {**TRAIN, **VALIDATE}, "test_tokens": 300}
WINDOWED = {**TRAINED, "train": {**TRAIN, **VALIDATE, "window": 150}}
COPY = {"model": {**MODEL, **DROPOUT, "vocab_size": 16}, "steps": 3, "batch": 2, "test_streams": 2, **FAST}
ONE_SEGMENT_OF_MEMORY = {**TRAIN, **VALIDATE, "mem_len": 136, "window": 100}


def _system(
    encoding: str, recurrence: bool, loss: str, equal_memory: bool = False, **more: int
) -> dict[str, Any]:
    described = {"encoding": encoding, "recurrence": recurrence, "loss": loss, "equal_memory": equal_memory}
    return described | more


TINY: dict[str, Mapping[str, Any]] = {
    "dependency": {},
    "copying": {**COPY, "seg_len": 136, "mem_len": 200, "segments": 3, "distances": [12, 150]},
    "relay_routes": {**COPY, "seg_len": 136, "mem_len": 200, "segments": 3, "distances": [150]},
    "segment_copying": COPY,
    "absolute_positions": {
        **COPY,
        "seg_len": 136,
        "mem_len": 200,
        "read_segments": 4,
        "text": {**TRAINED, "corpus": {}},
    },
    "deeper_layers": {
        **COPY,
        "tasks": {"near": {"seg_len": 136, "distance": 12, "letters": 16, "segments": 3}},
        "test_segments": 4,
    },
    "memory_and_positions": {**TRAINED, "memories": [0, 200]},
    "every_system": {**TRAINED, "norms": {"pre": {}, "post": {"warmup": 2}}},
    "ablation": {
        **TRAINED,
        "memory_lens": [2],
        "window_lens": [1],
        "systems": [
            _system("XL", True, "full"),
            _system("XL", False, "half"),
            _system("Shaw", True, "full"),
            _system("absolute, sinusoidal", False, "full"),
            _system("absolute, per layer", True, "half"),
            _system("XL", False, "full", equal_memory=True),
        ],
    },
    "equal_bytes": {
        **TRAINED,
        "systems": [
            _system("XL", True, "full", steps=2),
            _system("XL", False, "full", equal_memory=True, steps=2),
            _system("XL", False, "full", equal_memory=True, steps=1),
            _system("XL", True, "full", steps=3),
        ],
    },
    "short_dependency": TRAINED,
    "context": {**TRAINED, "context_lens": [70, 140], "passages": 2, "targets": 20},
    "attention_over_memory": {
        **WINDOWED,
        "mem_len": 200,
        "ages": [[1, 100], [101, 200]],
        "test_tokens": 1000,
        "lanes": 2,
        "wide_heads": 2,
        "shown_queries": 4,
        "shown_memory": 6,
        "shown_segment": 0,
    },
    "samples": {
        **WINDOWED,
        "valid_tokens": 300,
        "prompts": [0, 300],
        "prompt_len": 150,
        "length": 20,
        "mem_len": 100,
    },
    "shaw_clipping": {
        **TRAINED,
        "train": ONE_SEGMENT_OF_MEMORY,
        "max_distances": [1, 16],
        "memory_lens": [2, 3],
    },
    "later_positions": {
        **TRAINED,
        "memories": [0, 200, 800],
        "context_lens": [70, 140],
        "passages": 2,
        "targets": 20,
    },
    "position_repairs": {**TRAINED, "train": {**TRAIN, **VALIDATE, "mem_len": 32}},
    "far_attention": {**TRAINED, "memories": [0, 200, 400], "test_tokens": 952, "looked_at": 952},
    "training_parts": {**TRAINED, "step_counts": [3]},
    "short_segments": TRAINED,
    "ptb": {
        **TRAINED,
        "corpus": {},
        "model": {**MODEL, **DROPOUT, "vocab_size": 256, "cutoffs": (40, 100), "word_dropout": 0.1},
        "train": {**TRAIN, **VALIDATE, "average_from": None},
        "memories": [0, 200],
        "lanes": 2,
        "preset": None,
    },
    "without_terms": {"model": MODEL, "train": TRAIN, "test_tokens": 300},
    "demo": TRAINED,
}
"""By experiment, the settings of its tiny run that are not those of its quick profile."""


def tiny_corpus() -> Corpus:
    """Return a text of lines with numbers, the same on every machine."""
    lines = (b"line %d of the text has %d words\n" % (n, n * n % 97) for n in range(800))
    return corpora.from_bytes("numbered lines", b"".join(lines))


def compute(name: str) -> Fingerprint:
    """Return the numbers of the experiment's tiny run, computed by the code of today.

    ``losses`` holds the training loss of every step by label, in bits; ``data`` describes the
    data of the result, branch by branch, as in ``_described``.
    """
    experiment, corpus = import_module(f"minitxl.experiments.{name}"), tiny_corpus()
    losses: dict[str, list[float]] = {}

    def report(label: str, steps: int, record: Record) -> None:
        del steps
        losses.setdefault(label, []).append(record.bits)

    with exact(), TemporaryDirectory() as models:
        data = _run(experiment, name, corpus, Path(models), report)
    return {"losses": losses, "data": _described(data)}


def _run(experiment: Any, name: str, corpus: Corpus, models: Path, report: Report) -> Any:
    seed = experiment.SEEDS[0]
    if name == "demo":  # it trains its two models in turn, and has no parts
        settings = merged(experiment.settings(corpus), TINY[name])
        return experiment.run(settings, corpus, seed=seed, device="cpu", report=report)
    settings = json.loads(json.dumps(merged(experiment.settings("quick", corpus), TINY[name])))
    where = {"models": models} if hasattr(experiment, "MODELS") else {}
    parts = experiment.parts(settings, corpus, seeds=[seed], device="cpu", **where)
    return experiment.collect(settings, corpus, compute_parts(parts, report=report))


def same(stored: Any, computed: Any) -> bool:
    """True if all numbers agree up to ``RELATIVE`` and everything else is equal."""
    if isinstance(stored, Mapping) and isinstance(computed, Mapping):
        return stored.keys() == computed.keys() and all(same(stored[key], computed[key]) for key in stored)
    if isinstance(stored, list) and isinstance(computed, list):
        pairs = zip(stored, computed, strict=False)
        return len(stored) == len(computed) and all(same(one, other) for one, other in pairs)
    if isinstance(stored, int | float) and isinstance(computed, int | float):
        return isclose(stored, computed, rel_tol=RELATIVE, abs_tol=1e-9)
    return bool(stored == computed)


@contextmanager
def exact() -> Iterator[None]:
    """Compute in float64 and on one thread inside, with random numbers of its own."""
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_num_threads(threads)


def merged(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with the changes; those of a model or a training field by field."""
    inner: Callable[[str], bool] = lambda name: name in ("model", "train")  # noqa: E731
    return {
        **settings,
        **{name: {**settings[name], **value} if inner(name) else value for name, value in changes.items()},
    }


def _described(data: Any) -> dict[str, list[Any]]:
    """Each branch of the data, two names deep, in a few values: how many numbers it has, their sum, a sum in
    which each has another weight, and the first digits of the SHA-256 of its texts, where it has some."""
    numbers: dict[str, list[float]] = {}
    texts: dict[str, list[str]] = {}
    for key, value in leaves("data", data):
        names = key.split(".")
        if any(name in TIMINGS for name in names):
            continue
        branch = ".".join(names[1:3])
        if isinstance(value, int | float):
            numbers.setdefault(branch, []).append(float(value))
        else:
            texts.setdefault(branch, []).append(str(value))
    described: dict[str, list[Any]] = {
        branch: [len(values), sum(values), sum(value * cos(index) for index, value in enumerate(values))]
        for branch, values in numbers.items()
    }
    for branch, words in texts.items():
        digest = hashlib.sha256("\n".join(words).encode()).hexdigest()[:12]
        described.setdefault(branch, []).append(digest)
    return described
