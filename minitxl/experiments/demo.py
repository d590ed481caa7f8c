"""The demo: from a vanilla segment model to Transformer-XL in two steps, one change each.

Three models are trained side by side. The first has absolute positions and no memory, the second
relative positions in their place, the third memory as well. So what positions buy and what memory
buys are told apart. One seed, some minutes, to see it work; ``memory_and_positions`` is the experiment.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from torch import Tensor

from minitxl.data.batching import ContiguousBatches
from minitxl.data.corpus import Corpus
from minitxl.experiments.shared import setup
from minitxl.experiments.shared.runner import Report
from minitxl.inference.evaluation import Score, cached, sliding
from minitxl.memory import longest_reach
from minitxl.training import loop
from minitxl.training.checkpoints import model_config, train_config
from minitxl.training.step import Record, Run

SEEDS = [0]
NAMES = {
    "vanilla": "absolute, no memory",
    "relative": "Transformer-XL, no memory",
    "xl": "Transformer-XL",
}
PARTS = 4


def settings(corpus: Corpus, *, steps: int = setup.SHORT.steps, test_tokens: int = 4096) -> dict[str, Any]:
    """Return all that decides the numbers, but for the seed; ``model`` and ``train`` are Transformer-XL's."""
    model, train = setup.sizes("quick")
    train = replace(train, steps=steps, warmup=min(train.warmup, steps))
    return setup.described(corpus, replace(model, positions="learned"), train) | {"test_tokens": test_tokens}


def run(
    settings: dict[str, Any], corpus: Corpus, *, seed: int, device: str, report: Report
) -> dict[str, Any]:
    """Train all three in turn, step by step, then evaluate each."""
    runs = one_change_apart(settings, seed=seed, device=device)
    train = runs["xl"].settings
    segments = ContiguousBatches(corpus.train, batch=train.batch, seg_len=train.seg_len)
    records: dict[str, list[Record]] = {name: [] for name in runs}
    valid = setup.validation_text(corpus, train)
    steps = (loop.train_steps(run, segments, valid) for run in runs.values())
    for step in zip(*steps, strict=True):
        for name, record in zip(runs, step, strict=True):
            records[name].append(record)
            report(name, train.steps, record)
    return describe(settings, corpus, runs, records)


def describe(
    settings: dict[str, Any], corpus: Corpus, runs: dict[str, Run], records: dict[str, list[Record]]
) -> dict[str, Any]:
    """Return the data of trained runs: how each learned, how each evaluates, and what each change gains."""
    rows = evaluate(runs, corpus.test[: settings["test_tokens"] + 1])
    return {
        "systems": {name: _system(runs[name], records[name]) for name in runs},
        "evaluation": rows,
        "gains": gains(rows),
    }


def one_change_apart(settings: dict[str, Any], *, seed: int, device: str) -> dict[str, Run]:
    """Return the three runs at step 0; each differs from the one before in one setting."""
    model, train = model_config(settings["model"]), replace(train_config(settings["train"]), seed=seed)
    absolute, relative = replace(model, attention="absolute"), replace(model, attention="xl")
    no_memory = replace(train, mem_len=0)
    return {
        "vanilla": loop.start(absolute, no_memory, device=device),
        "relative": loop.start(relative, no_memory, device=device),
        "xl": loop.start(relative, train, device=device),
    }


def gains(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return how many bits per character each change saves, every model read as it was trained."""
    as_trained = {"vanilla": "isolated segments", "relative": "isolated segments", "xl": "cached"}
    bits: dict[str, float] = {}
    for row in rows:  # of two cached rows, the first is that of training
        if row["evaluation"] == as_trained[row["system"]]:
            bits.setdefault(row["system"], row["bits"])
    return {
        "relative_positions": bits["vanilla"] - bits["relative"],
        "memory": bits["relative"] - bits["xl"],
    }


class Way(NamedTuple):
    """A way to evaluate: at most ``attention_len`` tokens are attended to."""

    system: str
    evaluation: str
    attention_len: int
    score: Callable[[Tensor], Score]


def ways(vanilla: Run, relative: Run, xl: Run) -> list[Way]:
    """Return each model read as it was trained, more carefully or more slowly, and all with equal context.

    Isolated segments are read 64 at a time. One by one, they cost what cached reading costs but for the
    keys of the memory: there a segment must wait for the one before it.
    """
    short = xl.settings.seg_len
    long = short + xl.settings.mem_len
    evaluation = xl.settings.evaluation

    def slide(run: Run, length: int, stride: int, batch: int = 64) -> Callable[[Tensor], Score]:
        return lambda part: sliding(run.model, part, attention_len=length, stride=stride, batch=batch)

    return [
        Way("vanilla", "isolated segments", short, slide(vanilla, short, stride=short)),
        Way("vanilla", "sliding window", short, slide(vanilla, short, stride=1)),
        Way("relative", "isolated segments", short, slide(relative, short, stride=short)),
        Way("relative", "segments one by one", short, slide(relative, short, stride=short, batch=1)),
        Way("xl", "sliding window", long, slide(xl, long, stride=1)),
        Way("xl", "cached", long, lambda part: cached(xl.model, part, evaluation.attending(long))),
        Way("relative", "sliding window", short, slide(relative, short, stride=1)),
        Way("xl", "cached", short, lambda part: cached(xl.model, part, evaluation.attending(short))),
    ]


def evaluate(runs: dict[str, Run], test: Tensor) -> list[dict[str, Any]]:
    """Return bits per character and time per token, all over the same targets.

    The ways take turns over parts of the text, so that a change in the machine's speed
    meets them all; the time is the median over the parts.
    """
    rows = ways(**runs)
    scores = [Score(0.0, 0)] * len(rows)
    costs: list[list[float]] = [[] for _ in rows]
    cuts = [(len(test) - 1) * part // PARTS for part in range(PARTS + 1)]
    for start, stop in pairwise(cuts):
        for index, way in enumerate(rows):
            began = perf_counter()
            score = way.score(test[start : stop + 1])
            costs[index].append((perf_counter() - began) / score.tokens * 1e6)
            scores[index] += score
    return [
        {
            "system": way.system,
            "evaluation": way.evaluation,
            "attention_len": way.attention_len,
            "tokens": score.tokens,
            "bits": score.bits_per_token,
            "microseconds_per_token": median(cost),
            "microseconds_range": [min(cost), max(cost)],
        }
        for way, score, cost in zip(rows, scores, costs, strict=True)
    ]


def table(data: dict[str, Any]) -> str:
    """Return the comparison as text, for a terminal."""
    lines = [f"{'':29}{'parameters':>12}{'training tokens/s':>20}{'longest reach':>16}"]
    for name, system in data["systems"].items():
        rate, reach = system["training_tokens_per_second"], system["longest_reach"]
        lines.append(f"{NAMES[name]:29}{system['parameters']:12,}{rate:20,.0f}{reach:9} tokens")
    lines += ["", f"{'':29}{'evaluated by':34}{'bits per character':>20}{'µs per token':>14}"]
    for row in data["evaluation"]:
        way = f"{row['evaluation']}, attention {row['attention_len']}"
        lines.append(
            f"{NAMES[row['system']]:29}{way:34}{row['bits']:20.3f}{row['microseconds_per_token']:14,.0f}"
        )
    positions, memory = data["gains"]["relative_positions"], data["gains"]["memory"]
    lines += ["", f"Bits per character saved by relative positions: {positions:.2f}, by memory: {memory:.2f}"]
    return "\n".join(lines)


def _system(run: Run, records: list[Record]) -> dict[str, Any]:
    s = run.settings
    return {
        "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
        "training_tokens_per_second": median(record.tokens / record.seconds for record in records),
        "longest_reach": longest_reach(
            n_layer=run.model.config.n_layer, seg_len=s.seg_len, mem_len=s.mem_len
        ),
        "validation": setup.validation_curve(records),
    }
