"""What all experiments have in common: they are computed part by part.

An experiment's file has

    SEEDS                                              of the weights, and of what else is drawn
    settings(profile, corpus) -> settings               all that decides the numbers, but for the seeds
    parts(settings, corpus, seeds=, device=) -> parts     name to function; each part is independent
    collect(settings, corpus, found) -> data              from the parts' values to the result's data

A part that was computed is kept until the result is whole, so an interruption costs one part.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean, quantiles
from typing import Any

from minitxl.files import atomic_write
from minitxl.training.loop import Record

Report = Callable[[str, int, Record], None]
"""Told of each training step: which part, how many steps it has in all, what the step did."""
Part = Callable[[Report], Any]
"""Computes a value that JSON can hold."""


def compute(
    parts: Mapping[str, Part],
    *,
    report: Report = lambda label, steps, record: None,
    done: Callable[[str], None] = lambda name: None,
    kept: Path | None = None,
    about: Any = None,
) -> dict[str, Any]:
    """The value of each part; those in the file ``kept`` are taken from it, if of the same ``about``.

    ``done`` is told of every part, also of one that was kept.
    """
    about = json.loads(json.dumps(about))
    found = _kept(kept, about)
    for name, part in parts.items():
        if name not in found:
            found[name] = json.loads(json.dumps(part(report)))
            if kept is not None:
                with atomic_write(kept) as temporary:
                    temporary.write_text(json.dumps({"about": about, "parts": found}), "utf-8")
        done(name)
    return {name: found[name] for name in parts}


def _kept(path: Path | None, about: Any) -> dict[str, Any]:
    if path is None or not path.exists():
        return {}
    stored = json.loads(path.read_text("utf-8"))
    return stored["parts"] if stored["about"] == about else {}


def summary(values: list[float]) -> dict[str, Any]:
    """The values of all seeds, their mean, and their spread (largest less smallest)."""
    return {"seeds": values, "mean": mean(values), "spread": max(values) - min(values)}


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Return median, quartiles and range, rounded to four digits."""
    low, middle, high = (rounded(value) for value in quantiles(values, n=4, method="inclusive"))
    ends = [rounded(min(values)), rounded(max(values))]
    return {"median": middle, "quartiles": [low, high], "range": ends}


def rounded(value: float) -> float:
    """Return the value with four significant digits."""
    return float(f"{value:.4g}")
