"""What does one more token of a long text take: with keys and values kept, or all read anew?

With a cache a token sees the ``mem_len`` before it, however long the text has become: time
and memory stay the same. Without one, all of the text is read again for its next token, as a
model without memory has to. Weights and tokens are random, for no time depends on them.
"""

from dataclasses import asdict
from functools import partial
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from minitxl.data.corpus import Corpus
from minitxl.experiments.shared.runner import Part, Report, named, rounded, spread
from minitxl.fast import fast_evaluation, kv_cache
from minitxl.model import TransformerLM
from minitxl.pretrained.presets import enwik8_base, enwik8_large
from minitxl.training.checkpoints import model_config

SEEDS = [0]


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """Return all that decides the numbers, but for the seed; no text does."""
    del corpus
    full = profile == "full"
    return {
        "profile": profile,
        "model": asdict((enwik8_large() if full else enwik8_base()).model),
        "mem_len": 512,
        "length": 65_536 if full else 4096,
        "block": 256,
        "anew": [256, 512, 1024, 2048, 4096],
        "passes": 5 if full else 3,
    }


def parts(settings: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str) -> dict[str, Part]:
    """Return a whole text, and the next token of texts read anew, again in each pass."""
    del corpus
    config, (seed,) = model_config(settings["model"]), seeds
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = TransformerLM(config).to(device)
        text = torch.randint(config.vocab_size, (max(settings["anew"]),)).to(device)
    return {
        f"{what}, pass {number}": partial(measure, settings, model, text)
        for number in range(1, settings["passes"] + 1)
        for what, measure in (("kept", kept), ("anew", anew))
    }


def kept(
    settings: dict[str, Any], model: TransformerLM, text: Tensor, report: Report
) -> list[dict[str, Any]]:
    """Return for each block of a text the seconds per generated token, and the cache's bytes at its end."""
    del report
    generator = torch.Generator(text.device).manual_seed(0)
    cache = kv_cache.start(model, batch=1, mem_len=settings["mem_len"], window=settings["mem_len"] + 1)
    tokens, blocks = text[None, :1], []
    for _ in range(settings["length"] // settings["block"]):
        began = perf_counter()
        for _ in range(settings["block"]):
            log_probs, cache = kv_cache.step(model, tokens, cache)
            tokens = log_probs[:, -1].exp().multinomial(1, generator=generator)
        tokens.tolist()
        seconds = (perf_counter() - began) / settings["block"]
        blocks.append({"seconds": seconds, "bytes": cache.buffers.nbytes + cache.r.nbytes})
    return blocks


def anew(settings: dict[str, Any], model: TransformerLM, text: Tensor, report: Report) -> list[float]:
    """Return seconds that the next token takes after texts of each length, all of it read again."""
    del report
    seconds = []
    for length in settings["anew"]:
        began = perf_counter()
        with fast_evaluation(model) as fast_model:
            hidden, _ = fast_model.last_hidden(text[None, :length], n_last=1)
            fast_model.output.log_probs(hidden).argmax().item()
        seconds.append(perf_counter() - began)
    return seconds


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return milliseconds and bytes by the length of the text.

    ``ratios`` compare, in each pass, the last block with the first that began with a full memory;
    ``last_over_full`` sums them up.
    """
    del corpus
    texts, tokens = named(values, "kept"), named(values, "anew")
    full = -(-settings["mem_len"] // settings["block"])
    ratios = [text[-1]["seconds"] / text[full]["seconds"] for text in texts]
    return {
        "mem_len": settings["mem_len"],
        "kept": [
            {
                "length": (index + 1) * settings["block"],
                "milliseconds": spread([1e3 * block["seconds"] for block in blocks]),
                "bytes": blocks[0]["bytes"],
            }
            for index, blocks in enumerate(zip(*texts, strict=True))
        ],
        "last_over_full": spread(ratios),
        "ratios": [rounded(ratio) for ratio in ratios],
        "anew": [
            {"length": length, "milliseconds": spread([1e3 * seconds[index] for seconds in tokens])}
            for index, length in enumerate(settings["anew"])
        ],
    }
