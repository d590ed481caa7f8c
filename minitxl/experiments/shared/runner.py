"""Run an experiment part by part, and resume it after an interruption.

An experiment's file has

    SEEDS                                              of the weights, and of what else is drawn
    settings(profile, corpus) -> settings               all that decides the numbers, but for the seeds
    parts(settings, corpus, seeds=, device=) -> parts     name to function; each part is independent
    collect(settings, corpus, values) -> data             from the parts' values to the result's data

A part that was computed is kept until the result is whole, so an interruption costs one part.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean, quantiles
from time import perf_counter
from typing import Any

from minitxl.fields import checked, number
from minitxl.files import atomic_write, read_json
from minitxl.training.step import Record

Report = Callable[[str, int, Record], None]
"""Called after each training step with the part's name, its number of steps, and the step's record."""
Part = Callable[[Report], Any]
"""Computes a value that JSON can hold."""


def compute(
    parts: Mapping[str, Part],
    *,
    report: Report = lambda label, steps, record: None,
    done: Callable[[str], None] = lambda name: None,
    stored: Path | None = None,
    about: Any = None,
) -> dict[str, Any]:
    """Return the value of each part; parts in the file ``stored`` are taken from it, if ``about`` is equal.

    Each new part is added to that file, with the seconds it took. ``done`` is called after every
    part, also after one that was stored.
    """
    about = json.loads(json.dumps(about))
    computed = _stored_parts(stored, about)
    for name, part in parts.items():
        if name not in computed:
            began = perf_counter()
            value = json.loads(json.dumps(part(report)))
            computed[name] = {"value": value, "seconds": perf_counter() - began}
            if stored is not None:
                with atomic_write(stored) as temporary:
                    temporary.write_text(json.dumps({"about": about, "parts": computed}), "utf-8")
        done(name)
    return {name: computed[name]["value"] for name in parts}


def seconds_taken(stored: Path) -> float:
    """Return the seconds that the stored parts took, over all runs that computed some of them."""
    return sum(part["seconds"] for part in _content(stored)["parts"].values())


def _stored_parts(path: Path | None, about: Any) -> dict[str, Any]:
    if path is None or not path.exists():
        return {}
    content = _content(path)
    return content["parts"] if content["about"] == about else {}


def _content(path: Path) -> dict[str, Any]:
    """Return what ``compute`` stored: what it is about, and each part's value and seconds."""
    rules = {"about": lambda value: None, "parts": _broken_parts}
    try:
        return checked(read_json(path), rules, file=path, required=rules)
    except ValueError as error:
        raise ValueError(f"{error}; without the file all parts are computed anew") from error


def _broken_parts(parts: object) -> str | None:
    whole = isinstance(parts, dict) and all(
        isinstance(part, dict) and "value" in part and number(0)(part.get("seconds")) is None
        for part in parts.values()
    )
    return None if whole else "have a value and seconds each"


def summary(values: list[float]) -> dict[str, Any]:
    """Return the values of all seeds, their mean, and their spread (largest less smallest)."""
    return {"seeds": values, "mean": mean(values), "spread": max(values) - min(values)}


def summaries(curves: Iterable[Sequence[float]]) -> list[dict[str, Any]]:
    """Return the summary at each place of curves of equal length, one a seed."""
    return [summary(list(values)) for values in zip(*curves, strict=True)]


def differences(one: Sequence[float], other: Sequence[float]) -> dict[str, Any]:
    """Return the summary of one less the other, seed by seed."""
    return summary([a - b for a, b in zip(one, other, strict=True)])


def named(values: Mapping[str, Any], name: str) -> list[Any]:
    """Return the values of the parts of this name, one a seed or pass."""
    return [value for part, value in values.items() if part.startswith(f"{name}, ")]


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Return median, quartiles and range, rounded to four digits."""
    low, middle, high = (rounded(value) for value in quantiles(values, n=4, method="inclusive"))
    ends = [rounded(min(values)), rounded(max(values))]
    return {"median": middle, "quartiles": [low, high], "range": ends}


def rounded(value: float) -> float:
    """Return the value with four significant digits."""
    return float(f"{value:.4g}")
