"""The cost of a cut: copy the token 8 back, in segments of 16, without memory and with it.

Tokens are random, so none can be guessed from the others. Without memory the first 8 queries of
a segment can't see it: it stands in the segment before. A memory of one segment brings it back.
The vanilla model has absolute positions; its twin with distances in their place, and no memory
either, shows that it is the memory that helps. Model and training are those of ``copying``.
"""

from functools import partial
from statistics import mean
from typing import Any

from minitxl.data.corpus import Corpus
from minitxl.experiments import copying
from minitxl.experiments.shared.runner import Part, Report, named, summaries, summary

SEEDS = [0, 1, 2]
SYSTEMS: dict[str, dict[str, Any]] = {
    "vanilla": {"attention": "absolute", "memory": False},
    "xl": {"attention": "xl", "memory": False},
    "xl_memory": {"attention": "xl", "memory": True},
}


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """Return all that decides the numbers, but for the seeds. The text is not used."""
    return copying.settings(profile, corpus) | {
        "distances": [8],
        "updates": ["stopped"],
        "segments": 3,
        "steps": 2000 if profile == "full" else 300,
        "systems": SYSTEMS,
    }


def parts(settings: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str) -> dict[str, Part]:
    """Train each system with each seed."""
    return {
        f"{system}, {name}": partial(_named, system, part)
        for system in settings["systems"]
        for name, part in copying.parts(_task(settings, system), corpus, seeds=seeds, device=device).items()
    }


def _task(settings: dict[str, Any], system: str) -> dict[str, Any]:
    """Return the settings of ``copying`` for this system."""
    chosen = settings["systems"][system]
    model = settings["model"] | {"attention": chosen["attention"]}
    return settings | {"model": model, "mem_len": settings["mem_len"] if chosen["memory"] else 0}


def _named(system: str, part: Part, report: Report) -> Any:
    """Return the part, each of its steps reported under the name of its system too."""

    return part(lambda label, steps, record: report(f"{system}, {label}", steps, record))


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return accuracy by offset, and its means before and from the offset whose token is in the segment."""
    del corpus
    (distance,) = settings["distances"]
    systems = {}
    for system, chosen in settings["systems"].items():
        curves = [part["accuracy"] for part in named(values, system)]
        systems[system] = {
            "attention": chosen["attention"],
            "mem_len": _task(settings, system)["mem_len"],
            "by_offset": summaries(curves),
            "token_in_segment_before": summary([mean(curve[:distance]) for curve in curves]),
            "token_in_segment": summary([mean(curve[distance:]) for curve in curves]),
        }
    return {
        "chance": 1 / settings["model"]["vocab_size"],
        "distance": distance,
        "seg_len": settings["seg_len"],
        "systems": systems,
    }
