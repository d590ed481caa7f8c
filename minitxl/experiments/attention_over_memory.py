"""Does the model use its memory? The paper's Figures 5 to 7, in small, and an experiment on each.

Where heads look, averaged by distance; what the widest of them see in one piece of text; which
of the four terms makes them look there. Attention is not importance, so memory is also taken
away: states of some ages are hidden or shuffled, and what counts is the change of the loss.
"""

from collections.abc import Iterator
from math import log
from pathlib import Path
from typing import Any

import torch
from einops import einsum, rearrange, reduce
from jaxtyping import Float
from torch import Tensor

from minitxl.analysis.context_length import mean_change, memory_changes
from minitxl.attention import XLAttention
from minitxl.data.batching import ContiguousBatches
from minitxl.data.corpus import Corpus
from minitxl.experiments.shared import trained
from minitxl.experiments.shared.runner import Part, named, summary
from minitxl.inference.config import EvaluateConfig
from minitxl.memory import extend
from minitxl.model import Block, Memory, TransformerLM

SEEDS = [0, 1, 2]
MODELS: tuple[trained.System, ...] = ("xl_memory", "shaw_memory")


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """Return all that decides the numbers, but for the seeds; ages and distances are in tokens."""
    base = trained.settings(profile, corpus)
    mem_len = 2 * base["train"]["mem_len"]
    ends = [mem_len >> halvings for halvings in range(4, -1, -1)]
    return base | {
        "mem_len": mem_len,
        "ages": [[before + 1, end] for before, end in zip([0, *ends], ends, strict=False)],
        "changes": ["hide", "shuffle"],
        "test_tokens": 16_384,
        "lanes": 8,
        "wide_heads": 3,
        "shown_queries": 16,
        "shown_memory": 64,
        "shown_segment": 9,
    }


def parts(
    settings: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str, models: Path
) -> dict[str, Part]:
    """Change the memory of each model, and look into the heads of those whose positions are XL's."""
    return trained.parts(_measure, MODELS, settings, corpus, seeds=seeds, device=device, models=models)


def _measure(
    settings: dict[str, Any], corpus: Corpus, system: trained.System, model: trained.Model
) -> dict[str, Any]:
    assert isinstance(model, TransformerLM)
    measured = {"changes": _changes(settings, model, corpus)}
    if system == "xl_memory":
        measured |= _look(settings, model, corpus)
    return measured


def _changes(settings: dict[str, Any], model: TransformerLM, corpus: Corpus) -> list[dict[str, Any]]:
    """Return bits a token that each change costs, with its confidence interval: each age, then all."""
    evaluate = EvaluateConfig(settings["train"]["seg_len"], settings["mem_len"])
    test = corpus.test[: settings["test_tokens"] + settings["lanes"]]
    rows = []
    for how in settings["changes"]:
        for first, last in [*settings["ages"], [1, settings["mem_len"]]]:
            nats = memory_changes(model, test, evaluate, ages=(first, last), how=how, batch=settings["lanes"])
            interval = mean_change(nats / log(2))
            rows.append({"how": how, "ages": [first, last], **interval._asdict()})
    return rows


def _look(settings: dict[str, Any], model: TransformerLM, corpus: Corpus) -> dict[str, Any]:
    """Return mean weight by distance of every head; one text seen by the widest; its terms."""
    mem_len = settings["mem_len"]
    sums: list[Tensor] = []
    with torch.inference_mode():
        for index, (tokens, weights, terms) in enumerate(_readings(settings, model, corpus)):
            near = by_distance(weights, mem_len), by_distance(terms, mem_len)
            means = [reduce(one, "... batch head query dist -> ... head dist", "mean") for one in near]
            sums = [sum + mean for sum, mean in zip(sums, means, strict=True)] if sums else means
            if index == settings["shown_segment"]:
                shown = tokens, weights, terms
    heads, by_term = (sum / (index + 1) for sum in sums)
    wide = widest(heads, settings["wide_heads"])
    return {
        "weight_by_distance": heads.tolist(),
        "wide": wide,
        "terms_by_distance": [by_term[:, layer, head].tolist() for layer, head in wide],
        "text": _crop(settings, wide, *shown),
    }


def _readings(
    settings: dict[str, Any], model: TransformerLM, corpus: Corpus
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield tokens from memory to segment, weights, and terms, of every segment whose memory is full."""
    seg_len, mem_len = settings["train"]["seg_len"], settings["mem_len"]
    segments = ContiguousBatches(
        corpus.test[: settings["test_tokens"]], batch=settings["lanes"], seg_len=seg_len
    )
    device, memory = next(model.parameters()).device, None
    for index in range(len(segments)):
        tokens = segments[index].tokens.to(device)
        _, states = model.last_hidden(tokens, memory)
        if memory is not None and memory.shape[2] == mem_len:
            weights = model.attention_weights(tokens, memory, window=mem_len + 1)
            end = (index + 1) * seg_len
            yield segments.lanes[:, end - seg_len - mem_len : end], weights, all_terms(model, states, memory)
        memory = extend(memory, states, mem_len=mem_len)


def by_distance(pairs: Float[Tensor, "*any query key"], mem_len: int) -> Float[Tensor, "*any query dist"]:
    """Sort pairs by distance: entry (i, d) is that of query i and the key d before it, 0 … mem_len."""
    query, key = pairs.shape[-2:]
    i = rearrange(torch.arange(key - query, key, device=pairs.device), "query -> query 1")
    away = rearrange(torch.arange(mem_len + 1, device=pairs.device), "dist -> 1 dist")
    return pairs.gather(-1, (i - away).expand(*pairs.shape[:-1], -1))


def all_terms(
    model: TransformerLM, states: Tensor, memory: Memory
) -> Float[Tensor, "term layer batch head query key"]:
    """Return the terms (a) (b) (c) (d) of every layer."""
    layers = []
    for block, x, past in zip(model.blocks, states, memory, strict=True):
        assert isinstance(block, Block)
        assert isinstance(block.attention, XLAttention)
        terms = block.attention.terms(block.attention_input(x), block.attention_input(past))
        layers.append(torch.stack(terms))
    return torch.stack(layers, dim=1)


def widest(heads: Float[Tensor, "layer head dist"], number: int) -> list[list[int]]:
    """Return layer and head of those that look farthest back on average."""
    away = torch.arange(heads.shape[-1], dtype=heads.dtype, device=heads.device)
    mean = einsum(heads, away, "layer head dist, dist -> layer head") / heads.sum(-1)
    order = rearrange(mean, "layer head -> (layer head)").argsort(descending=True)[:number].tolist()
    return [[index // heads.shape[1], index % heads.shape[1]] for index in order]


def _crop(
    settings: dict[str, Any], wide: list[list[int]], tokens: Tensor, weights: Tensor, terms: Tensor
) -> dict[str, Any]:
    """Return the first lane's first queries of one segment, and the keys from a while before to their own."""
    queries, before, mem_len = settings["shown_queries"], settings["shown_memory"], settings["mem_len"]
    keys = slice(mem_len - before, mem_len + queries)
    (layer, head), *_ = wide
    return {
        "characters": bytes(tokens[0, keys].tolist()).decode("latin-1"),
        "memory": before,
        "weights": [_rounded(weights[layer, 0, head, :queries, keys]) for layer, head in wide],
        "terms": [_rounded(term[layer, 0, head, :queries, keys]) for term in terms],
    }


def _rounded(matrix: Tensor) -> list[list[float]]:
    return [[round(value, 4) for value in row] for row in matrix.tolist()]


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return changes by system, way and age; attention by age; the first seed's heads."""
    del corpus
    by_system = {system: named(values, system) for system in MODELS}
    looks = by_system["xl_memory"]
    return {
        "seg_len": settings["train"]["seg_len"],
        "mem_len": settings["mem_len"],
        "ages": settings["ages"],
        "changes": {
            system: [
                {
                    "how": rows[0]["how"],
                    "ages": rows[0]["ages"],
                    "bits": summary([row["mean"] for row in rows]),
                    "intervals": [[row["low"], row["high"]] for row in rows],
                }
                for rows in zip(*(part["changes"] for part in of), strict=True)
            ]
            for system, of in by_system.items()
        },
        "share_by_distance": [
            {
                "distances": [first, last],
                "share": summary([_share(part["weight_by_distance"], first, last) for part in looks]),
            }
            for first, last in [[0, 0], *settings["ages"]]
        ],
        **{name: looks[0][name] for name in ("weight_by_distance", "wide", "terms_by_distance", "text")},
    }


def _share(heads: list[list[list[float]]], first: int, last: int) -> float:
    """Return the share of attention on keys first … last tokens back, as the mean of all heads."""
    return torch.tensor(heads)[:, :, first : last + 1].sum(-1).mean().item()
