"""What does it write? Long samples from the best model, with their settings: Appendix E, in small.

Beside each sample stands what the text really says there, and two numbers for both: how many of
its words are words of the training text, and the longest piece that stands there verbatim.
"""

import re
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from minitxl.data.corpus import Corpus
from minitxl.experiments.shared import trained
from minitxl.experiments.shared.runner import Part, Report
from minitxl.inference.evaluation import cached
from minitxl.inference.generation import sample
from minitxl.model import TransformerLM
from minitxl.training.checkpoints import train_config

Text = TypeVar("Text", str, bytes)

SEEDS = [0, 1, 2]
MODELS: tuple[trained.System, ...] = ("xl_memory",)


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """Return all that decides the text, but for the seeds of the models; lengths in tokens."""
    return trained.settings(profile, corpus) | {
        "valid_tokens": 16_384,
        "prompts": [20_000, 120_000, 220_000],
        "prompt_len": 256,
        "length": 1500,
        "mem_len": 256,
        "temperature": 1.0,
        "top_p": 0.98,
        "seed": 0,
    }


def parts(
    settings: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str, models: Path
) -> dict[str, Part]:
    """Return a single part, because choosing the best model needs all of them."""
    return {"samples": partial(_write, settings, corpus, seeds, device, models)}


def _write(
    settings: dict[str, Any], corpus: Corpus, seeds: list[int], device: str, models: Path, report: Report
) -> dict[str, Any]:
    memory, scored = train_config(settings["train"]).evaluation, []
    for seed in seeds:
        model = trained.model(
            settings, corpus, "xl_memory", seed, device=device, models=models, report=report
        )
        assert isinstance(model, TransformerLM)
        score = cached(model, corpus.valid[: settings["valid_tokens"] + 1], memory)
        scored.append((score.bits_per_token, seed, model))
    bits, seed, best = min(scored, key=lambda one: one[:2])
    prompts = [corpus.test[begin : begin + settings["prompt_len"]].long() for begin in settings["prompts"]]
    ways = {name: settings[name] for name in ("length", "mem_len", "temperature", "top_p", "seed")}
    drawn = sample(best, prompts, **ways)
    known, trained_on = set(words(_text(corpus.train))), bytes(corpus.train.tolist())
    rows = []
    for begin, prompt, text in zip(settings["prompts"], prompts, drawn, strict=True):
        after = begin + settings["prompt_len"]
        texts = {"sample": text, "original": corpus.test[after : after + settings["length"]]}
        rows.append(
            {"prompt": _text(prompt)}
            | {name: _described(bytes(ids.tolist()), known, trained_on) for name, ids in texts.items()}
        )
    return {"model_seed": seed, "valid_bits": bits, "samples": rows}


def _described(text: bytes, known: set[str], trained_on: bytes) -> dict[str, Any]:
    decoded = text.decode("utf-8", "replace")
    all_words = words(decoded)
    return {
        "text": decoded,
        "words": len(all_words),
        "known_words": sum(word in known for word in all_words),
        "longest_copy": len(longest_copy(text, trained_on)),
    }


def words(text: str) -> list[str]:
    """Return names of three letters or more."""
    return re.findall(r"[A-Za-z_]{3,}", text)


def longest_copy(text: Text, source: Text) -> Text:
    """Return the longest piece of ``text`` that stands in ``source``, the first of them."""
    longest = text[:0]
    for begin in range(len(text)):
        while begin + len(longest) < len(text) and text[begin : begin + len(longest) + 1] in source:
            longest = text[begin : begin + len(longest) + 1]
    return longest


def _text(ids: Any) -> str:
    return bytes(ids.tolist()).decode("utf-8", "replace")


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return the samples with what they were drawn by."""
    del corpus
    ways = ("prompt_len", "length", "mem_len", "temperature", "top_p", "seed")
    return {name: settings[name] for name in ways} | values["samples"]
