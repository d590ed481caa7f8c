"""``minitxl evaluate``."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from shlex import quote
from time import perf_counter
from typing import Annotated, Any, Literal

import torch
from torch import Tensor
from tqdm import tqdm
from tyro.conf import Positional

from minitxl.commands.held_out import remarks
from minitxl.commands.shared import Device, TextFlags, device_of, path_flag, special_in, text_of_run
from minitxl.commands.subject import Subject, subject_of
from minitxl.data.corpus import Corpus
from minitxl.data.splits import Split
from minitxl.data.tokenizer import word_spec
from minitxl.fast.bfloat16 import Precision, check_precision
from minitxl.fields import LONGEST, check, optional, whole
from minitxl.inference.config import EvaluateConfig
from minitxl.inference.evaluation import Score, cached, sliding
from minitxl.model import TransformerLM
from minitxl.pretrained.presets import PRESETS

LENGTHS = ("seg_len", "mem_len", "window", "clamp_len")
"""Flags that take the place of the lengths of training, or of those released."""


@dataclass(frozen=True)
class Evaluate:
    """Score a trained or a released model on text it has not seen, with memory or by a sliding window."""

    folder: Positional[Annotated[Path, path_flag("folder")] | None] = None
    """Folder of the run."""
    best: bool = False
    """Score the model of the run's best validation, and not the last one."""
    released: Annotated[str, path_flag("released", str)] | None = None
    """Instead of a run: a hub repository, as transfo-xl/transfo-xl-wt103, or a folder in its format.
    By default on wikitext-103's test split, at the paper's settings."""
    way: Literal["cached", "sliding"] = "cached"
    """Segment after segment with memory, or a window that slides and is computed anew."""
    seg_len: int | None = None
    """Cached: tokens of a segment; none means as trained, as a run's preset is tested, or 128 for a released
    model, whose format has no segment."""
    mem_len: int | None = None
    """Cached: tokens of memory; none means the same."""
    window: int | None = None
    """Cached: most keys a query sees, itself included; none means the same; released, mem-len. At most
    mem-len + 1."""
    clamp_len: int | None = None
    """Keys at this distance or farther count as equally far; none means the same. A number beyond memory and
    segment changes nothing."""
    attention_len: int | None = None
    """Sliding: tokens of a piece; none means training's window, or else segment and memory together."""
    stride: int | None = None
    """Sliding: tokens from one piece to the next, none means 1; attention-len gives isolated segments."""
    tokens: int | None = None
    """Score the first so many tokens; none means all. A score of fewer than all is not one to compare."""
    split: Literal["auto", "whole", "train", "valid", "test"] = "auto"
    """Which split of the text; auto means test, but the whole of a file of your own that is not the run's."""
    source: TextFlags = TextFlags()
    precision: Precision = "float32"
    """Of the matrix products: bfloat16 on a CUDA GPU, or a CPU with avx512_bf16 or amx_bf16. Faster; the
    score is not the same in its last digits."""
    device: Device = "auto"
    """cpu, cuda, or the better one that is there."""

    def __call__(self) -> None:
        self._check_flags()
        trained = subject_of(self.folder, self.released, best=self.best, device=device_of(self.device))
        subject = self._as_asked(trained)
        if warning := self._untrained_positions(subject, trained.lengths.seg_len):
            print(warning, flush=True)
        if self.clamp_len is not None and subject.model.config.attention == "absolute":
            raise ValueError(
                f"clamp_len must be given for an attention that reads distances, got {self.clamp_len} "
                f"for {subject.name}, whose attention is absolute"
            )
        own = None if subject.tokenizer is None else subject.tokenizer.vocabulary
        if own is not None and self.source.min_count != TextFlags().min_count:
            raise ValueError(
                f"min_count must be given to train, and not to evaluate {subject.name}, whose vocabulary "
                f"stays as it is, got {self.source.min_count}"
            )
        corpus, vocabulary, ids = text_for(subject, self._source())
        self._check_own_text(corpus, subject)
        split = self._split(corpus, subject)
        if subject.state:
            print(f"model of {subject.name}: {subject.state}")
        print(corpus.summary(of_whole=split == "whole"), flush=True)
        stream = getattr(corpus, split)
        scored = len(stream) if self.tokens is None else min(len(stream), self.tokens + 1)
        for remark in remarks(corpus, split, scored, subject.name, subject.info):
            print(remark, flush=True)
        if len(stream) < 2:
            raise ValueError(f"{_called(split)} {corpus.name} must hold 2 tokens or more, got {len(stream)}")
        total = len(stream) - 1
        stream = stream[:scored]
        stream = stream if ids is None else ids[stream.long()]
        began = perf_counter()
        score, how = self._score(subject, stream)
        seconds = perf_counter() - began
        if not isfinite(score.perplexity):  # also where the loss is NaN or infinite
            raise ValueError(
                f"the score of {subject.name} must be finite, got a loss of {score.nats:.3g} nats: "
                f"its weights are no numbers, or far too large"
            )
        of_all = "" if score.tokens == total else f" of {total:,}"
        noun = "token" if total == 1 else "tokens"
        print(f"{_called(split)} {corpus.name}, {how}")
        print(f"vocabulary: {vocabulary}{special_in(stream, subject.tokenizer)}")
        if (
            own is not None
            and corpus.tokenizer.unit == "words"
            and word_spec(own).line_break[0] not in own.ids
        ):
            print(
                f"this vocabulary has no {word_spec(own).line_break[0]}: each end of a line is {own.unknown}"
            )
        token = corpus.tokenizer.token
        print(f"{score.bits_per_token:.4f} bits per {token}, perplexity {score.perplexity:.3f}")
        print(f"{score.tokens:,}{of_all} {noun}, {seconds / score.tokens * 1e6:,.1f} microseconds per token")
        if self.folder is not None:
            print(f"next: minitxl generate {quote(str(self.folder))} --prompt TEXT")

    def _check_flags(self) -> None:
        """Raise a ValueError for a number out of range, and for a flag that the way to score would ignore."""
        check_precision(self.precision, device_of(self.device))
        check("tokens", self.tokens, optional(whole(1, LONGEST)))
        check("attention_len", self.attention_len, optional(whole(1, LONGEST)))
        check("stride", self.stride, optional(whole(1, LONGEST)))
        other, ignored = "sliding", {"attention_len": "", "stride": ""}
        if self.way == "sliding":
            other, ignored = "cached", {"window": ""}
            if self.attention_len is not None:
                ignored |= dict.fromkeys(("seg_len", "mem_len"), ", or without attention_len")
        for name, instead in ignored.items():
            if (value := getattr(self, name)) is not None:
                raise ValueError(
                    f"{name} must be given with way = {other}{instead}, got {value} with {self.way}"
                )

    def _as_asked(self, subject: Subject) -> Subject:
        """Return the subject with the lengths that it is scored with."""
        lengths = self._lengths_of_preset(subject) or subject.lengths
        if self.released is not None and lengths.window is not None and self.mem_len is not None:
            lengths = replace(lengths, mem_len=self.mem_len, window=self.mem_len or None)
        lengths = self._with_flags(lengths)
        if lengths.clamp_len is None:
            lengths = replace(lengths, clamp_len=subject.model.config.clamp_len)
        return replace(subject, lengths=lengths)

    def _lengths_of_preset(self, subject: Subject) -> EvaluateConfig | None:
        """Return the lengths at which a run's preset is tested, if the run was trained at the preset's."""
        published = PRESETS.get(subject.info.preset or "")
        if published is None or self.way == "sliding":
            return None
        preset = published()
        return preset.evaluate if subject.lengths == preset.train.evaluation else None

    def _with_flags(self, lengths: EvaluateConfig) -> EvaluateConfig:
        given = {name: getattr(self, name) for name in LENGTHS}
        return replace(lengths, **{name: value for name, value in given.items() if value is not None})

    def _source(self) -> TextFlags:
        """Return the text to score; if none is named, the run's own, or the released model's."""
        named = self.source.data is not None or self.source.text is not None
        if self.folder is not None and not named:
            own, given = text_of_run(self.folder), self.source
            return replace(own, unit=given.unit or own.unit, unknown=given.unknown or own.unknown)
        return self.source if named else replace(self.source, data="wikitext-103")

    def _split(self, corpus: Corpus, subject: Subject) -> Split:
        """Return the split to score: a text of one's own has a test split if it is split, or is the run's."""
        if self.split != "auto":
            return self.split
        own = self.source.text is not None and corpus.stream is not None
        learned = corpus.sha256 == subject.info.sha256 and subject.info.cut_as(corpus.sizes)
        return "whole" if own and not learned else "test"

    def _check_own_text(self, corpus: Corpus, subject: Subject) -> None:
        """Raise a ValueError if the text of the run, which no flag names, is not what the run learned."""
        learned = subject.info.sha256
        if self.folder is None or self.source != TextFlags() or learned in (None, corpus.sha256):
            return
        raise ValueError(
            f"the text of {subject.name} must be what it learned, {subject.info.text} "
            f"(sha256 {learned:.12}), got {corpus.name} with sha256 {corpus.sha256:.12}: it has changed "
            f"since; to score it as another text, name it (--text)"
        )

    def _attention_len(self, settings: EvaluateConfig) -> int:
        """Return the length of a window that slides: as given, else the most keys of a query in training."""
        if self.attention_len is not None:
            return self.attention_len
        given = self.seg_len is not None or self.mem_len is not None
        return settings.window if settings.window and not given else settings.seg_len + settings.mem_len

    def _untrained_positions(self, subject: Subject, trained: int) -> str:
        """Say that a learned position is used that no segment of training had; "" if none is."""
        used = self._attention_len(subject.lengths) if self.way == "sliding" else subject.lengths.seg_len
        if not subject.model.positions or used <= trained:
            return ""
        return (
            f"{subject.name} learned the positions of segments of {trained}: those beyond, up to {used}, "
            f"are as they were drawn, and the score is the worse for it"
        )

    def _score(self, subject: Subject, stream: Tensor) -> tuple[Score, str]:
        settings, total = subject.lengths, len(stream) - 1
        in_format = "" if self.precision == "float32" else f", products in {self.precision}"
        if self.way == "sliding":
            length = self._attention_len(settings)
            stride, clamp_len = self.stride or 1, settings.clamp_len
            with progress(subject.model, total, stride=stride):
                score = sliding(
                    subject.model,
                    stream,
                    attention_len=length,
                    stride=stride,
                    clamp_len=clamp_len,
                    precision=self.precision,
                )
            clamped = "" if clamp_len is None else f", distances clamped at {clamp_len}"
            return score, f"sliding window of {length} tokens, stride {stride}{clamped}{in_format}"
        with progress(subject.model, total):
            score = cached(subject.model, stream, settings, precision=self.precision)
        return score, f"cached: {settings}{in_format}"


def text_for(subject: Subject, source: TextFlags) -> tuple[Corpus, str, Tensor | None]:
    """Return the text, whose vocabulary its tokens are of, and the model's id for each of its ids.

    None in place of the ids means that they are the same.
    """
    tokenizer = subject.tokenizer
    if tokenizer is None:
        corpus, wanted = source.corpus(), subject.model.config.vocab_size
        if corpus.vocab_size != wanted:
            raise ValueError(
                f"the text must have the {wanted:,} tokens of the vocabulary of {subject.name}, "
                f"got {corpus.name} with {corpus.vocab_size:,} {corpus.tokenizer.unit}"
            )
        if corpus.tokenizer.vocabulary is None:
            return corpus, f"bytes, since {subject.name} holds none and has 256 tokens", None
        known = f"as counted in {corpus.name}, since {subject.name} holds none"
        return corpus, f"{known}: the score is right only if the model was trained on exactly this text", None
    origin = f"that of {subject.name}, {tokenizer}"
    if tokenizer.vocabulary is not None and source.text is None and source.data is None:
        raise ValueError(
            f"text or data must be given for {subject.name}, which reads {tokenizer.unit}, got neither"
        )
    if source.text is not None and source.unit not in (None, tokenizer.unit):
        raise ValueError(f"unit must be {tokenizer.unit} as in {subject.name}, got {source.unit}")
    if source.unknown and (tokenizer.vocabulary is None or tokenizer.vocabulary.unknown is None):
        raise ValueError(
            f"unknown must be given to train, and not to evaluate {subject.name}, which has none"
        )
    corpus = source.corpus(tokenizer)
    ours, theirs = tokenizer.vocabulary, corpus.tokenizer.vocabulary
    if theirs == ours:
        return corpus, origin, None
    if ours is None or theirs is None or ours.ids.keys() != theirs.ids.keys():
        others = ", not all the same" if str(corpus.tokenizer) == str(tokenizer) else ""
        raise ValueError(
            f"the text must have the {tokenizer} of {subject.name}, "
            f"got {corpus.name} with {corpus.tokenizer}{others}"
        )
    return corpus, origin, torch.tensor(ours.encode(theirs.symbols))


@contextmanager
def progress(model: TransformerLM, total: int, stride: int | None = None) -> Iterator[None]:
    """Show a bar of the targets scored: all that are embedded, or ``stride`` of each window but the first."""
    with tqdm(desc="scoring", total=total, unit="token", unit_scale=True) as bar:

        def count(_module: Any, inputs: tuple[Tensor], _output: Any) -> None:
            read = inputs[0].numel() if stride is None or bar.n == 0 else len(inputs[0]) * stride
            bar.update(min(read, total - bar.n))

        hook = model.embedding.register_forward_hook(count)
        try:
            yield
        finally:
            hook.remove()


def _called(split: Split) -> str:
    return "whole of" if split == "whole" else f"{split} split of"
