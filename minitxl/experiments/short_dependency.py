"""Does recurrence help where no dependency is long? The paper's Table 7, in small.

The lines of the text are shuffled, so nothing in one tells of another, as in One Billion Word.
What memory still mends is the cut itself: without it, the first tokens of a segment are
predicted from nothing, though their own line began before them.
"""

from typing import Any

import torch

from minitxl.data.corpus import Corpus
from minitxl.data.token_file import Tokens
from minitxl.experiments import ablation
from minitxl.experiments.shared.runner import Part

SEEDS = [0, 1, 2, 3, 4]
SYSTEMS = [("XL", True), ("Shaw", True), ("XL", False), ("absolute, per layer", False)]
ORDER = 0
"""Seed of the shuffled order, which all systems share."""


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """Return the parts of the ablation, on the shuffled text and on the text as it is."""
    return ablation.settings(profile, corpus) | {
        "systems": [
            {"encoding": encoding, "recurrence": recurrence, "loss": "full", "equal_memory": False}
            for encoding, recurrence in SYSTEMS
        ],
        "order": ORDER,
        "memory_lens": [2],
        "window_lens": [1],
    }


def parts(settings: dict[str, Any], corpus: Corpus, *, seeds: list[int], device: str) -> dict[str, Part]:
    """Train and score each system with each seed."""
    shuffled = shuffle_lines(corpus, seed=settings["order"])
    return ablation.parts(settings, shuffled, seeds=seeds, device=device)


def shuffle_lines(corpus: Corpus, *, seed: int) -> Corpus:
    """Return the same lines in random order, in each part of the corpus for itself."""
    random = torch.Generator().manual_seed(seed)

    def shuffled(text: Tokens) -> Tokens:
        lines = bytes(text.tolist()).split(b"\n")
        order = torch.randperm(len(lines), generator=random).tolist()
        return torch.frombuffer(bytearray(b"\n".join(lines[i] for i in order)), dtype=torch.uint8)

    train, valid, test = (shuffled(part) for part in (corpus.train, corpus.valid, corpus.test))
    return Corpus(f"{corpus.name}, lines shuffled", train, valid, test, corpus.vocab_size)


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return each system's loss, whole and by offset in the segment."""
    del corpus
    return {"systems": ablation.rows(settings, values)}
