"""How much context do trained models use? The paper's Table 8 and Figures 3 and 4, in small.

Five models of equal size are given 8, 16, … tokens of context, and each is scored on the same
targets. Where one more step of context lowers the loss no longer, its effective context ends.
And as they were trained: the loss by offset in the segment, which shows where context is cut.
"""

from collections.abc import Sequence
from functools import partial
from math import log
from pathlib import Path
from typing import Any

import torch

from minitxl.analysis import context_length
from minitxl.data.corpus import Corpus
from minitxl.experiments.ablation import bits_by_offset
from minitxl.experiments.shared import trained
from minitxl.experiments.shared.runner import Part, named, summaries, summary
from minitxl.inference.config import EvaluateConfig
from minitxl.model import TransformerLM
from minitxl.training.checkpoints import train_config

SEEDS = [0, 1, 2]
MODELS = trained.SYSTEMS
GROUPS: dict[str, tuple[str, ...]] = {
    "recurrent": ("xl_memory", "lstm"),
    "attentive": ("xl_memory", "shaw_memory", "xl", "absolute"),
    "all": trained.SYSTEMS,
}
"""The paper has two groups; a RECL means nothing outside its own."""


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """Return all that decides the numbers, but for the seeds."""
    base = trained.settings(profile, corpus)
    seg_len = base["train"]["seg_len"]
    return base | {
        "context_lens": [seg_len * eighths // 8 for eighths in range(1, 17)],
        "passages": 8,
        "targets": 128,
        "shares": [0.1, 0.5, 1.0],
        "groups": GROUPS,
        "test_tokens": 16_384,
    }


def parts(
    settings: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str, models: Path
) -> dict[str, Part]:
    """Score each model at each context length."""
    return trained.parts(_measure, MODELS, settings, corpus, seeds=seeds, device=device, models=models)


def _measure(
    settings: dict[str, Any], corpus: Corpus, system: trained.System, model: trained.Model
) -> dict[str, Any]:
    train = train_config(settings["train"])
    test = corpus.test[: settings["test_tokens"] + 1]
    measured: dict[str, Any] = {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "losses": [_losses(model, corpus, settings, length).tolist() for length in settings["context_lens"]],
    }
    if isinstance(model, TransformerLM):
        memory = train.mem_len if trained.TRANSFORMERS[system]["memory"] else 0
        measured["bits_by_offset"] = bits_by_offset(model, test, EvaluateConfig(train.seg_len, memory))
    return measured


def _losses(
    model: trained.Model, corpus: Corpus, settings: dict[str, Any], context_len: int
) -> context_length.Losses:
    """Return losses after exactly so much context, of the last targets of each passage of the test text.

    Absolute positions end with the longest they know.
    """
    if isinstance(model, TransformerLM) and model.config.has_absolute_positions:
        context_len = min(context_len, model.config.max_seg_len)
    passages = corpus.test.tensor_split(settings["passages"])
    read = partial(context_length.context_losses, model, context_len=context_len, targets=settings["targets"])
    return torch.cat([read(passage) for passage in passages])


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return loss by context and by offset; in each group the RECL, and the gain of every pair of lengths."""
    del corpus
    lengths, by_system = settings["context_lens"], {system: named(values, system) for system in MODELS}
    measured: list[dict[str, context_length.Lengths]] = [
        {
            system: dict(zip(lengths, map(torch.tensor, part["losses"]), strict=True))
            for system, part in zip(MODELS, of_seed, strict=True)
        }
        for of_seed in zip(*by_system.values(), strict=True)
    ]
    return {
        "context_lens": lengths,
        "targets": settings["passages"] * settings["targets"],
        "seg_len": settings["train"]["seg_len"],
        "systems": {
            system: {
                "parameters": of[0]["parameters"],
                "bits": [
                    summary([one[system][length].double().mean().item() / log(2) for one in measured])
                    for length in lengths
                ],
                "effective_context_length": [
                    context_length.effective_context_length(one[system])._asdict() for one in measured
                ],
                "bits_by_offset": summaries(part.get("bits_by_offset", ()) for part in of),
            }
            for system, of in by_system.items()
        },
        "recl": {name: _recl(settings, members, measured) for name, members in settings["groups"].items()},
        "gains": _gains(measured),
    }


def _recl(
    settings: dict[str, Any], members: list[str], measured: Sequence[context_length.Group]
) -> dict[str, Any]:
    """Return RECL of each member in tokens, by share of the hardest targets: the values of all seeds."""
    group = [{system: one[system] for system in members} for one in measured]
    return {
        system: {
            str(share): [context_length.recl(one, r=share)[system]._asdict() for one in group]
            for share in settings["shares"]
        }
        for system in members
    }


def _gains(measured: Sequence[context_length.Group]) -> dict[str, list[dict[str, Any]]]:
    """Return what each model's longer contexts gain on the best model for each target with shorter ones."""
    by_seed = [context_length.gains(one, r=1.0) for one in measured]
    return {
        system: [
            {
                "short": pairs[0].short,
                "long": pairs[0].long,
                "perplexity": summary([gain.perplexity for gain in pairs]),
            }
            for pairs in zip(*(gains[system] for gains in by_seed), strict=True)
        ]
        for system in MODELS
    }
