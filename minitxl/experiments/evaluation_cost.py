"""What does it cost to score one more token: a window computed anew, or a memory that is kept?

The paper's Table 9, at one number A = ``attention_len`` for both sides.

Sliding: a vanilla model computes a whole window of A tokens for each token it scores, and of its last layer
only the last query. So A is the number of keys which that query sees, itself included.

Cached: Transformer-XL reads ``seg_len`` tokens at once and keeps the keys and values of the A tokens before
them. So here, as in the paper, A is the length of the memory, and a query sees A + 1 to A + seg_len keys.

Weights and tokens are random, for no time depends on them. And A says how many keys a layer attends to, not
how many tokens a prediction of Transformer-XL rests on, which are more. ``exact_window`` is the length of a
window that would repeat the prediction exactly, if each query of the cached model saw A keys.

A window is a piece of text in this file. The setting ``window`` of other files, the greatest number of keys
that a query attends to, is not used here.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from math import ceil, isfinite
from time import perf_counter
from typing import Any, Literal

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from minitxl.config import ModelConfig
from minitxl.data.corpus import Corpus
from minitxl.experiments.shared.runner import Part, Report, named, spread
from minitxl.fast import kv_cache, to_fast
from minitxl.inference.evaluation import Stream
from minitxl.model import TransformerLM
from minitxl.pretrained.presets import enwik8_base, enwik8_large
from minitxl.training.checkpoints import model_config

Losses = Float[Tensor, " target"]
Pairs = Literal["seen", "all"]
"""Pairs of query and key that count: those the causal mask lets through, or those it hides too."""

SEEDS = [0]
PAPER = {800: 363, 1800: 773, 2800: 1409, 3800: 1874}
"""Table 9: how many times slower sliding was, by attention length."""


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """Return all that decides the numbers, but for the seed; no text does."""
    del corpus
    full = profile == "full"
    return {
        "profile": profile,
        "model": asdict((enwik8_large() if full else enwik8_base()).model),
        "seg_len": 128,
        "attention_lens": [128, 512, 800, 1800, 2800, 3800],
        "window_tokens": 65_536 if full else 2048,
        "passes": 3,
        "rounds": 5 if full else 2,
    }


def parts(settings: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str) -> dict[str, Part]:
    """Time both sides at each length, and all lengths again in each pass."""
    del corpus
    config, (seed,) = model_config(settings["model"]), seeds
    most = 2 * (max(settings["attention_lens"]) + settings["seg_len"]) + settings["window_tokens"]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        cached, sliding = (TransformerLM(replace(config, attention=kind)) for kind in ("xl", "absolute"))
        stream = torch.randint(config.vocab_size, (most,))
    ready = cached.to(device), sliding.to(device), stream.to(device)
    return {
        f"attention {length}, pass {number}": partial(_race, settings, length, *ready)
        for number in range(1, settings["passes"] + 1)
        for length in settings["attention_lens"]
    }


def _race(
    settings: dict[str, Any],
    attention_len: int,
    xl: TransformerLM,
    vanilla: TransformerLM,
    stream: Stream,
    report: Report,
) -> list[dict[str, float]]:
    """Return microseconds per scored token of each side in each round, where both take a turn."""
    del report
    # As in Table 9, the attention length is that of the memory: a query of the cached side sees more keys.
    cached = Cached(xl, stream, mem_len=attention_len, seg_len=settings["seg_len"])
    windows = max(1, settings["window_tokens"] // attention_len)
    sliding = Sliding(vanilla, stream, attention_len=attention_len, windows=windows)
    return [
        {"cached": microseconds(cached), "sliding": microseconds(sliding)} for _ in range(settings["rounds"])
    ]


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return cost of a scored token on both sides, and its ratio, measured, counted, and in the paper.

    A measured ratio is one within a round. It is the counted ratio, ``computed``, times another: the
    ``operations_per_second`` of cached evaluation over those of sliding.
    """
    del corpus
    model, seg_len = model_config(settings["model"]), settings["seg_len"]
    rows = []
    for length in settings["attention_lens"]:
        rounds = [turn for turns in named(values, f"attention {length}") for turn in turns]
        times = {side: spread([turn[side] for turn in rounds]) for side in ("cached", "sliding")}
        operations = {
            "cached": cached_operations(model, mem_len=length, seg_len=seg_len, pairs="all"),
            "sliding": sliding_operations(model, attention_len=length, pairs="seen"),
        }
        rows.append(
            {
                "attention_len": length,
                "exact_window": exact_window(model, length),
                "microseconds_per_token": times,
                "operations_per_token": operations,
                "operations_per_second": {
                    side: count / times[side]["median"] * 1e6 for side, count in operations.items()
                },
                "ratio": spread([turn["sliding"] / turn["cached"] for turn in rounds]),
                "counted": counted(model, attention_len=length, seg_len=seg_len),
                "paper": PAPER.get(length),
            }
        )
    return {"seg_len": seg_len, "n_layer": model.n_layer, "lengths": rows}


class Cached:
    """Transformer-XL reading on and on; in one call its cache moves the memory once."""

    def __init__(self, model: TransformerLM, stream: Stream, *, mem_len: int, seg_len: int) -> None:
        self.model, self.seg_len = model, seg_len
        self.cache = kv_cache.start(model, batch=1, mem_len=mem_len)
        filled = seg_len * ceil(mem_len / seg_len)
        turn = filled + seg_len * (mem_len // seg_len + 1)
        self.read(stream[: filled + 1])
        self.stream = stream[filled : turn + 1]

    def __call__(self) -> Losses:
        """Return loss in nats of every token of the turn."""
        return self.read(self.stream)

    def read(self, stream: Stream) -> Losses:
        """Return loss in nats of every token but the first."""
        losses = []
        for segment, ahead in zip(
            stream[None, :-1].split(self.seg_len, dim=1),
            stream[None, 1:].split(self.seg_len, dim=1),
            strict=True,
        ):
            loss, self.cache = kv_cache.token_losses(self.model, segment, ahead, self.cache)
            losses.append(loss)
        return rearrange(torch.cat(losses, dim=1), "1 time -> time")


class Sliding:
    """A vanilla model at ``windows`` neighbouring windows at once, each for the token that follows it.

    It is what ``evaluation.sliding_losses`` does at stride 1 after its first window; making one
    calls it once, so that no turn is the first.
    """

    def __init__(self, model: TransformerLM, stream: Stream, *, attention_len: int, windows: int) -> None:
        self.model = to_fast(model).eval()
        self.inputs = stream[: attention_len + windows - 1].unfold(0, attention_len, 1)
        self.targets = rearrange(stream[attention_len : attention_len + windows], "window -> window 1")
        self()

    def __call__(self) -> Losses:
        """Return loss in nats of the token after each window."""
        with torch.inference_mode():
            hidden, _ = self.model.last_hidden(self.inputs, n_last=1)
            return rearrange(self.model.losses(hidden, self.targets), "window 1 -> window")


def microseconds(score: Callable[[], Losses]) -> float:
    """Return microseconds per scored token; reading the sum waits for the device."""
    began = perf_counter()
    losses = score()
    total = losses.sum().item()
    seconds = perf_counter() - began
    if not isfinite(total):
        raise ValueError(f"losses must be finite, got a sum of {total}")
    return seconds / len(losses) * 1e6


def sliding_operations(
    model: ModelConfig, *, attention_len: int, pairs: Pairs, whole_last_layer: bool = False
) -> int:
    """Return operations of the matrix products that score one token by a window of its own.

    A product of [m k] and [k n] has 2 m k n. A pair of query and key has two of length d_head
    in each head, a score and a mean. The last layer needs keys and values of the window
    and all else of the last token alone, or is computed whole.
    """
    once, wide = _per_token(model), model.n_head * model.d_head
    layer = attention_len * once + 4 * wide * _pairs(attention_len, attention_len, pairs)
    context = 4 * model.d_model * wide
    last = (attention_len - 1) * context + once + 4 * wide * attention_len
    below = model.n_layer - 1
    return below * layer + (layer if whole_last_layer else last) + 2 * model.d_model * model.vocab_size


def cached_operations(model: ModelConfig, *, mem_len: int, seg_len: int, pairs: Pairs) -> float:
    """Return operations of the matrix products that score one token with a full memory.

    As ``sliding_operations``, but a pair has three products: with the key, with the distance,
    and the mean. Keys and values of the memory and projected distances are kept, and cost nothing.
    """
    wide = model.n_head * model.d_head
    attended = 6 * wide * _pairs(seg_len, mem_len + seg_len, pairs)
    segment = model.n_layer * (seg_len * _per_token(model) + attended)
    return segment / seg_len + 2 * model.d_model * model.vocab_size


def counted(model: ModelConfig, *, attention_len: int, seg_len: int) -> dict[str, float]:
    """Return how many times more operations sliding takes for a token, by five conventions.

    ``computed``: of a window only pairs of the past, for attention that is told it is causal skips
    the others; of a segment all pairs, for it is one block. ``seen``: pairs of the past on both
    sides. ``all``: all pairs on both. The last two are ``computed`` with a last layer that has all
    its queries; in ``shorter_memory`` no query sees more than attention_len keys, moreover.
    """

    def ratio(sliding: Pairs, cached: Pairs, *, whole: bool = False, mem_len: int = attention_len) -> float:
        above = sliding_operations(model, attention_len=attention_len, pairs=sliding, whole_last_layer=whole)
        return above / cached_operations(model, mem_len=mem_len, seg_len=seg_len, pairs=cached)

    return {
        "computed": ratio("seen", "all"),
        "seen": ratio("seen", "seen"),
        "all": ratio("all", "all"),
        "whole_last_layer": ratio("seen", "all", whole=True),
        "shorter_memory": ratio("seen", "all", whole=True, mem_len=max(0, attention_len - seg_len)),
    }


def exact_window(model: ModelConfig, attention_len: int) -> int:
    """Return tokens a prediction rests on where every query of every layer sees ``attention_len`` keys."""
    return model.n_layer * (attention_len - 1) + 1


def _pairs(query: int, key: int, pairs: Pairs) -> int:
    """Return pairs of one head, where the queries are the last ``query`` of the keys."""
    return query * key - (query * (query - 1) // 2 if pairs == "seen" else 0)


def _per_token(model: ModelConfig) -> int:
    """Return operations of one layer for one token: its four projections and the feed-forward layer."""
    wide = model.n_head * model.d_head
    return 2 * (4 * model.d_model * wide + 2 * model.d_model * model.d_inner)
