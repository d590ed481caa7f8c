"""``minitxl evaluate``."""

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Literal

import torch
from tyro.conf import Positional

from minitxl import spelling
from minitxl.commands.shared import Device, TextFlags, device_of, load_run, spelling_of
from minitxl.config import EvaluateConfig, TrainConfig
from minitxl.evaluation import Score, cached, sliding
from minitxl.model import TransformerLM


@dataclass(frozen=True)
class Evaluate:
    """Score a trained model on text it has not seen, with memory or by a sliding window."""

    folder: Positional[Path]
    """Folder of the run."""
    way: Literal["cached", "sliding"] = "cached"
    """Segment after segment with memory, or a window that slides and is computed anew."""
    seg_len: int | None = None
    """Cached: tokens of a segment; none means as in training."""
    mem_len: int | None = None
    """Cached: tokens of memory; none means as in training."""
    window: int | None = None
    """Cached: most keys a query sees, itself included; none means as in training."""
    clamp_len: int | None = None
    """Cached: distance beyond which all keys count as equally far; none means as in training."""
    attention_len: int | None = None
    """Sliding: tokens of the window; none means segment and memory of training together."""
    stride: int = 1
    """Sliding: tokens the window moves by; attention-len gives isolated segments."""
    tokens: int | None = 65536
    """How many tokens of the text to score at most; none means all."""
    part: Literal["valid", "test"] = "test"
    """Which part of the text."""
    source: TextFlags = TextFlags()
    device: Device = "auto"
    """cpu, cuda, or the better one that is there."""

    def __call__(self) -> None:
        corpus, spelled = self.source.corpus(), spelling.read(self.folder)
        model, trained = load_run(self.folder, device_of(self.device))
        if spelling_of(corpus) != spelled:
            raise ValueError(f"the text must be the one that {self.folder} was trained on, got {corpus.name}")
        stream = corpus.valid if self.part == "valid" else corpus.test
        stream = stream if self.tokens is None else stream[: self.tokens + 1]
        began = perf_counter()
        score, how = self._score(model, trained, stream)
        seconds = perf_counter() - began
        print(f"{self.part} part of {corpus.name}, {how}")
        print(f"{score.bits_per_token:.4f} bits per {spelled.token}, perplexity {score.perplexity:.3f}")
        print(f"{score.tokens:,} tokens, {seconds / score.tokens * 1e6:,.1f} µs per token")

    def _score(self, model: TransformerLM, trained: TrainConfig, stream: torch.Tensor) -> tuple[Score, str]:
        if self.way == "sliding":
            length = self.attention_len or trained.seg_len + trained.mem_len
            score = sliding(model, stream, attention_len=length, stride=self.stride)
            return score, f"sliding window of {length} tokens, stride {self.stride}"
        settings = EvaluateConfig(
            seg_len=trained.seg_len if self.seg_len is None else self.seg_len,
            mem_len=trained.mem_len if self.mem_len is None else self.mem_len,
            window=trained.window if self.window is None else self.window,
            clamp_len=trained.clamp_len if self.clamp_len is None else self.clamp_len,
        )
        return cached(model, stream, settings), f"cached: {settings}"
