"""By which states does a trained relay carry a token on?

Models of ``copying``, two layers, trained with the gradient flowing through memory. Where the token
lies farther back than memory, the query has to look at a state that has looked at the token: two
distances that add up. For each head and each offset the result says how far back the head looks most.
"""

from functools import partial
from typing import Any

import torch
from einops import reduce

from minitxl.data.corpus import Corpus
from minitxl.experiments import copying
from minitxl.experiments.shared.runner import Part, Report, named, summaries
from minitxl.fast import to_plain
from minitxl.memory import extend

SEEDS = [0, 1, 2]


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """Return all that decides the numbers, but for the seeds. The text is not used."""
    return copying.settings(profile, corpus) | {"distances": [24, 28], "updates": ["flowing"]}


def parts(settings: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str) -> dict[str, Part]:
    """Train a model on each distance, with each seed, and read its attention."""
    del corpus
    return {
        f"{distance} back, seed {seed}": partial(_routes, settings, distance, seed, device)
        for distance in settings["distances"]
        for seed in seeds
    }


def _routes(settings: dict[str, Any], distance: int, seed: int, device: str, report: Report) -> Any:
    """Return accuracy by offset, and for [layer head offset] the distance of most weight, and that weight."""
    (update,) = settings["updates"]
    model, random = copying.trained(settings, update, distance, seed, device, report)
    model = to_plain(model)
    stream = copying.streams(settings, settings["test_streams"], random).to(device)
    memory = None
    with torch.inference_mode():
        for segment in stream.split(settings["seg_len"], dim=1):
            before = memory
            log_probs, states = model(segment, before)
            memory = extend(before, states, mem_len=settings["mem_len"])
        weights = model.attention_weights(segment, before)
    mean_weights = reduce(weights, "layer batch head query key -> layer head query key", "mean")
    most, key = mean_weights.max(dim=3)
    query = torch.arange(settings["seg_len"], device=device) + settings["mem_len"]
    right = log_probs.argmax(dim=2) == stream[:, -settings["seg_len"] - distance : -distance]
    return {
        "accuracy": right.double().mean(dim=0).tolist(),
        "distance": (query - key).tolist(),
        "weight": most.tolist(),
    }


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return what each seed found, a row for each distance."""
    del corpus
    lengths = {"seg_len": settings["seg_len"], "mem_len": settings["mem_len"]}
    rows = []
    for distance in settings["distances"]:
        seeds = named(values, f"{distance} back")
        by_offset = summaries([seed["accuracy"] for seed in seeds])
        hops = copying.hops_needed(distance, **lengths)
        rows.append({"distance": distance, "hops": hops, "accuracy": by_offset, "seeds": seeds})
    return {"chance": 1 / settings["model"]["vocab_size"], **lengths, "rows": rows}
