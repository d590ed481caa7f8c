"""How far back can a token matter? By formula, propagation, perturbation and gradient.

Without the stop-gradient these four must agree, in a model of random weights in float64. With it, as in
``memory.extend``, the gradient ends where the segment begins: what a step of training can reward is much less
than what a prediction can depend on.
"""

from dataclasses import asdict, replace
from functools import partial
from typing import Any

import torch

from minitxl.analysis.dependency_reach import changes, extend_with_gradient, farthest, gradients, propagate
from minitxl.config import ModelConfig
from minitxl.data.corpus import Corpus
from minitxl.experiments.shared.runner import Part, Report, named
from minitxl.memory import extend, reach
from minitxl.model import TransformerLM
from minitxl.training.checkpoints import model_config

SEEDS = [0, 1, 2]
TINY = ModelConfig(vocab_size=11, d_model=8, n_head=2, d_head=4, d_inner=16, dropout=0.0)
DRAWN = {
    "no memory": {"n_layer": 3, "seg_len": 4, "mem_len": 0},
    "Transformer-XL": {"n_layer": 3, "seg_len": 4, "mem_len": 4},
}
CASES = [
    {"n_layer": 1, "seg_len": 4, "mem_len": 4, "window": None},
    {"n_layer": 2, "seg_len": 4, "mem_len": 4, "window": None},
    {"n_layer": 3, "seg_len": 4, "mem_len": 0, "window": None},
    {"n_layer": 3, "seg_len": 4, "mem_len": 4, "window": None},
    {"n_layer": 3, "seg_len": 4, "mem_len": 6, "window": None},
    {"n_layer": 3, "seg_len": 4, "mem_len": 3, "window": None},
    {"n_layer": 3, "seg_len": 4, "mem_len": 4, "window": 5},
    {"n_layer": 4, "seg_len": 8, "mem_len": 8, "window": None},
    {"n_layer": 4, "seg_len": 8, "mem_len": 8, "window": 4},
]


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """Return all that decides the numbers, but for the seeds. Both profiles ask the same; no text is used."""
    del profile, corpus
    return {"model": asdict(TINY), "cases": CASES, "drawn": DRAWN}


def parts(settings: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str) -> dict[str, Part]:
    """Measure the reach of the last query of a segment in every case, with each seed."""
    del corpus
    return {
        f"case {number}, seed {seed}": partial(_measure, settings, case, seed, device)
        for number, case in enumerate(settings["cases"])
        for seed in seeds
    }


def _measure(
    settings: dict[str, Any], case: dict[str, Any], seed: int, device: str, report: Report
) -> dict[str, int]:
    """Return tokens back, by each way that runs a model."""
    del report
    config = replace(model_config(settings["model"]), n_layer=case["n_layer"])
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = TransformerLM(config).double().to(device)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(10 if parameter.ndim > 1 else 1)
        lengths = {name: case[name] for name in ("seg_len", "mem_len", "window")}
        time = len(propagate(case["seg_len"] - 1, n_layer=case["n_layer"], **lengths).sees)
        tokens = torch.randint(config.vocab_size, (time,), device=device)
    return {
        "perturbation": farthest(changes(model, tokens, **lengths)),
        "gradient": farthest(gradients(model, tokens, update=extend_with_gradient, **lengths)),
        "stopped_gradient": farthest(gradients(model, tokens, update=extend, **lengths)),
    }


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return every case by every way, and the graphs of figures 1 and 2."""
    del corpus
    rows = []
    for number, case in enumerate(settings["cases"]):
        offset = case["seg_len"] - 1
        seeds = named(values, f"case {number}")
        rows.append(
            {
                **case,
                "formula": reach(offset, **case),
                "propagation": farthest(propagate(offset, **case).reached[0]),
                **{way: sorted({part[way] for part in seeds}) for way in seeds[0]},
            }
        )
    return {"cases": rows, "graphs": {name: _graph(**lengths) for name, lengths in settings["drawn"].items()}}


def _graph(*, n_layer: int, seg_len: int, mem_len: int) -> dict[str, Any]:
    """Return four segments, the last one whole: which state reads which, and what reaches the last query."""
    offset = seg_len - 1
    graph = propagate(offset, n_layer=n_layer, seg_len=seg_len, mem_len=mem_len, n_segment=4)
    return {
        "n_layer": n_layer,
        "seg_len": seg_len,
        "mem_len": mem_len,
        "time": len(graph.sees),
        "reach": reach(offset, n_layer=n_layer, seg_len=seg_len, mem_len=mem_len),
        "sees": graph.sees.nonzero().tolist(),
        "edges": [graph.edges(layer).tolist() for layer in range(n_layer)],
        "reached": graph.reached.nonzero().tolist(),
    }
