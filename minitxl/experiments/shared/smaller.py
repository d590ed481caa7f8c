"""Smaller versions of experiments, for ``minitxl figures --check``.

The cheapest real experiment of each kind is computed anew. Each sentence that holds of the stored result must
hold of the new one.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from minitxl.data.corpus import Corpus
from minitxl.experiments.conclusions import holding
from minitxl.experiments.shared.runner import Report, compute

SMALLER: dict[str, Mapping[str, Any]] = {
    "dependency": {},
    "copying": {"distances": [24]},
    "memory_and_positions": {"memories": [0, 32]},
    "attention_over_memory": {},
    "evaluation_cost": {"attention_lens": [128, 512], "passes": 1},
}
"""One experiment of each kind with cheaper settings; each has one seed."""


def check(
    name: str, corpus: Corpus, *, device: str, report: Report, done: Callable[[str], None], **where: Any
) -> dict[str, bool]:
    """Compute a smaller version of an experiment, and see which of its sentences hold."""
    experiment = import_module(f"minitxl.experiments.{name}")
    settings = experiment.settings("quick", corpus) | SMALLER[name]
    parts = experiment.parts(settings, corpus, seeds=experiment.SEEDS[:1], device=device, **where)
    values = compute(parts, report=report, done=done)
    return holding(name, experiment.collect(settings, corpus, values))
