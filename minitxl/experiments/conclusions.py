"""What each result says, in sentences that its data bear out or not.

A test holds the stored results to them. ``minitxl figures --check`` computes the cheapest real
experiment of each kind anew, smaller, and demands the same sentences.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from minitxl.corpora import Corpus
from minitxl.experiments.parts import Report, compute

Data = Mapping[str, Any]
Sentences = Mapping[str, Callable[[Data], bool]]


def _rows(data: Data) -> dict[str, Any]:
    return {row["label"]: row for row in data["systems"]}


def _apart(lower: Data, higher: Data) -> bool:
    """Every seed of one below every seed of the other."""
    return bool(max(lower["seeds"]) < min(higher["seeds"]))


def _best(data: Data, label: str) -> Data:
    found: Data = _rows(data)[label]["best"]["bits"]
    return found


def _at_offset(data: Data, label: str, offset: int) -> Data:
    found: Data = _rows(data)[label]["bits_by_offset"][offset]
    return found


CONCLUSIONS: dict[str, Sentences] = {
    "dependency": {
        "formula, propagation, perturbation and gradient agree in every case": lambda data: all(
            [row["propagation"]] == [row["formula"]] == row["perturbation"] == row["gradient"]
            for row in data["cases"]
        ),
        "with the stop-gradient no gradient goes beyond the segment": lambda data: all(
            max(row["stopped_gradient"]) < row["seg_len"] for row in data["cases"]
        ),
    },
    "copying": {
        "what one hop reaches is learned": lambda data: all(
            row[update]["1_hop"]["mean"] > 0.95
            for row in data["rows"]
            for update in ("stopped", "flowing")
            if "1_hop" in row[update]
        ),
        "two hops are learned better where the gradient flows through memory": lambda data: all(
            _apart(row["stopped"]["2_hop"], row["flowing"]["2_hop"])
            for row in data["rows"]
            if "2_hop" in row["stopped"]
        ),
    },
    "memory_and_positions": {
        "memory helps where positions are relative": lambda data: _apart(
            data["xl_memory"]["bits"], data["xl"]["bits"]
        ),
        "memory hurts where positions are absolute": lambda data: _apart(
            data["absolute"]["bits"], data["absolute_memory"]["bits"]
        ),
    },
    "every_system": {
        "every system beats a bigram model": lambda data: all(
            row["bits"] < data["bigram_bits"] for row in data["systems"]
        ),
    },
    "evaluation_cost": {
        "a sliding window costs more than a memory, and the more the longer": lambda data: (
            1 < data["lengths"][0]["ratio"]["median"] < data["lengths"][-1]["ratio"]["median"]
        ),
        "the measured ratio is at least half of the counted one": lambda data: all(
            row["ratio"]["median"] > row["counted"]["computed"] / 2 for row in data["lengths"]
        ),
    },
}

SMALLER: dict[str, Mapping[str, Any]] = {
    "dependency": {},
    "copying": {"distances": [24]},
    "memory_and_positions": {"memories": [0, 32]},
    "evaluation_cost": {"attention_lens": [128, 512], "passes": 1},
}
"""One experiment of each kind, and the settings that make it cheaper; it has one seed as well."""


def holding(name: str, data: Data) -> dict[str, bool]:
    """Each of the experiment's sentences, and whether its data bear it out."""
    return {sentence: holds(data) for sentence, holds in CONCLUSIONS[name].items()}


def check(
    name: str, corpus: Corpus, *, device: str, report: Report, done: Callable[[str], None], **where: Any
) -> dict[str, bool]:
    """Compute a smaller version of an experiment, and see which of its sentences hold."""
    experiment = import_module(f"minitxl.experiments.{name}")
    asked = experiment.settings("quick", corpus) | SMALLER[name]
    parts = experiment.parts(asked, corpus, seeds=experiment.SEEDS[:1], device=device, **where)
    found = compute(parts, report=report, done=done)
    return holding(name, experiment.collect(asked, corpus, found))
