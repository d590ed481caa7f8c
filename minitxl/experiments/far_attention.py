"""Where do models look whose memory is longer than in training, and how much on first tokens?

Models of ``later_positions``, at its sizes, on its text, with its steps and seeds. XL and rotary trained
with memory read longer ones. For each the result says how much attention lies on distances that were never
trained, and what the loss is where those are hidden. XL and rotary trained without memory read with one,
and with one that keeps the first tokens of the text (``later_positions.keep_first``): the result says how
much attention lies on the oldest places of either, the same places at the same distances.
"""

from collections.abc import Callable, Iterator
from functools import partial
from statistics import mean
from typing import Any

import torch
from einops import rearrange, reduce
from jaxtyping import Float
from torch import Tensor

from minitxl.data.corpus import Corpus
from minitxl.experiments import later_positions
from minitxl.experiments.attention_over_memory import by_distance
from minitxl.experiments.later_positions import keep_first
from minitxl.experiments.shared.runner import Part, Report, named, summary
from minitxl.fast import to_plain
from minitxl.inference.config import EvaluateConfig
from minitxl.inference.evaluation import cached
from minitxl.memory import extend
from minitxl.model import Memory, States, TransformerLM
from minitxl.training.checkpoints import train_config

SEEDS = later_positions.SEEDS
SYSTEMS: dict[str, dict[str, Any]] = {
    "xl_memory": {"attention": "xl", "memory": True},
    "rotary_memory": {"attention": "rotary", "memory": True},
    "xl": {"attention": "xl", "memory": False},
    "rotary": {"attention": "rotary", "memory": False},
}
Weights = Float[Tensor, "layer head query key"]


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """Return all that decides the numbers, but for the seeds."""
    shared = later_positions.settings(profile, corpus)
    taken = ("profile", "corpus", "model", "train", "test_tokens", "memories", "first")
    return {name: shared[name] for name in taken} | {"systems": SYSTEMS, "looked_at": 4096}


def parts(settings: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str) -> dict[str, Part]:
    """Train each system with each seed, and look at its attention on the test text."""
    return {
        f"{system}, seed {seed}": partial(_train_and_look, settings, corpus, system, seed, device)
        for seed in seeds
        for system in settings["systems"]
    }


def _train_and_look(
    settings: dict[str, Any], corpus: Corpus, system: str, seed: int, device: str, report: Report
) -> Any:
    chosen = settings["systems"][system]
    run = later_positions.train_system(
        settings,
        corpus,
        {"attention": chosen["attention"]},
        memory=chosen["memory"],
        seed=seed,
        name=f"{system}, seed {seed}",
        device=device,
        report=report,
    )
    train = run.settings
    model = to_plain(run.model).eval()
    if not chosen["memory"]:
        return oldest_places(model, corpus.test[: settings["looked_at"]], settings)
    test, seg_len = corpus.test[: settings["test_tokens"] + 1], train.seg_len
    window = seg_len + train.mem_len  # the keys at trained distances, the query itself included
    near = cached(model, test, EvaluateConfig(seg_len, window - 1, window=window))
    rows = []
    for mem_len in settings["memories"][1:]:
        looked = far_weights(model, test[: settings["looked_at"]], seg_len, mem_len, window)
        score = cached(model, test, EvaluateConfig(seg_len, mem_len))
        rows.append({"bits": score.bits_per_token} | looked)
    return {"near_bits": near.bits_per_token, "rows": rows}


@torch.inference_mode()
def weights_of(
    model: TransformerLM, text: Tensor, *, seg_len: int, remember: Callable[[Memory, States], Memory]
) -> Iterator[tuple[int, Weights]]:
    """Yield the length of memory and the attention weights for each whole segment of a text."""
    text = text.to(next(model.parameters()).device, torch.int64)
    memory = model.empty_memory(1)
    for segment in text[: len(text) // seg_len * seg_len][None].split(seg_len, dim=1):
        yield memory.shape[2], rearrange(model.attention_weights(segment, memory), "l 1 h q k -> l h q k")
        memory = remember(memory, model.last_hidden(segment, memory)[1])


def far_weights(
    model: TransformerLM, text: Tensor, seg_len: int, mem_len: int, window: int
) -> dict[str, Any]:
    """Return the share of weight on keys ``window`` or more back, and the weight by distance, memory full.

    ``alike`` is the share if all keys had the same weight.
    """
    shares, alike, away = list[float](), list[float](), list[Tensor]()
    remember = partial(extend, mem_len=mem_len)
    for length, weights in weights_of(model, text, seg_len=seg_len, remember=remember):
        if length < mem_len:
            continue
        query, key = weights.shape[2:]
        place = torch.arange(key, device=weights.device)
        far = place[key - query :, None] - place >= window
        seen = place[key - query :, None] >= place
        shares.append((weights * far).sum(-1).mean().item())
        alike.append((far.sum(-1) / seen.sum(-1)).mean().item())
        away.append(reduce(by_distance(weights, mem_len), "layer head query dist -> dist", "mean"))
    return {"far": mean(shares), "alike": mean(alike), "by_distance": torch.stack(away).mean(0).tolist()}


def oldest_places(model: TransformerLM, text: Tensor, settings: dict[str, Any]) -> dict[str, float]:
    """Return the share of weight on the oldest places of a full memory, and where it keeps first tokens."""
    train, first = train_config(settings["train"]), settings["first"]
    ways = {
        "plain": partial(extend, mem_len=train.mem_len),
        "first_kept": partial(keep_first, mem_len=train.mem_len, first=first),
    }
    return {
        way: mean(
            weights[..., :first].sum(-1).mean().item()
            for length, weights in weights_of(model, text, seg_len=train.seg_len, remember=remember)
            if length == train.mem_len
        )
        for way, remember in ways.items()
    }


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return bits and shares of weight by memory, and shares of the oldest places, with all seeds."""
    del corpus
    train, lengths = train_config(settings["train"]), settings["memories"][1:]
    longer, oldest = {}, {}
    for system, chosen in settings["systems"].items():
        seeds = named(values, system)
        if not chosen["memory"]:
            oldest[system] = {way: summary([part[way] for part in seeds]) for way in seeds[0]}
            continue
        longer[system] = {
            "near_bits": summary([part["near_bits"] for part in seeds]),
            "rows": [
                {
                    "mem_len": length,
                    "bits": summary([part["rows"][place]["bits"] for part in seeds]),
                    "far": summary([part["rows"][place]["far"] for part in seeds]),
                    "alike": seeds[0]["rows"][place]["alike"],
                }
                for place, length in enumerate(lengths)
            ],
            "by_distance": [
                mean(weights)
                for weights in zip(*(part["rows"][1]["by_distance"] for part in seeds), strict=True)
            ],
        }
    return {
        "seg_len": train.seg_len,
        "mem_len": train.mem_len,
        "first": settings["first"],
        "trained_distance": train.seg_len + train.mem_len - 1,
        "longer": longer,
        "oldest": oldest,
    }
