"""``minitxl evaluate``."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from time import perf_counter
from typing import Any, Literal

import torch
from torch import Tensor
from tqdm import tqdm
from tyro.conf import Positional

from minitxl.commands.shared import Device, TextFlags, device_of, spelling_of
from minitxl.data.corpora import Corpus
from minitxl.data.tokenizer import Tokenizer, Vocabulary, read_tokenizer
from minitxl.inference.config import EvaluateConfig
from minitxl.inference.evaluation import Score, cached, sliding
from minitxl.model import TransformerLM
from minitxl.pretrained import hub, released
from minitxl.training import run_folder


@dataclass(frozen=True)
class Subject:
    """What is scored: a model, how it reads, and the text its ids stand for, where that is known."""

    name: str
    model: TransformerLM
    settings: EvaluateConfig
    spelled: Tokenizer | None


@dataclass(frozen=True)
class Evaluate:
    """Score a trained or a released model on text it has not seen, with memory or by a sliding window."""

    folder: Positional[Path | None] = None
    """Folder of the run."""
    released: str | None = None
    """Instead of a run: a hub repository, as transfo-xl/transfo-xl-wt103, or a folder in its format.
    By default on all of wikitext-103's test part, at the paper's settings."""
    way: Literal["cached", "sliding"] = "cached"
    """Segment after segment with memory, or a window that slides and is computed anew."""
    seg_len: int | None = None
    """Cached: tokens of a segment; none means as in training or as released."""
    mem_len: int | None = None
    """Cached: tokens of memory; none means as in training or as released."""
    window: int | None = None
    """Cached: most keys a query sees, itself included; none means as in training; released, mem-len."""
    clamp_len: int | None = None
    """Cached: distance beyond which all keys count as equally far; none means as trained or released."""
    attention_len: int | None = None
    """Sliding: tokens of the window; none means segment and memory together."""
    stride: int = 1
    """Sliding: tokens the window moves by; attention-len gives isolated segments."""
    tokens: int | Literal["auto"] | None = "auto"
    """How many tokens of the text to score at most; none means all; auto, 65536 of them for a run."""
    part: Literal["valid", "test"] = "test"
    """Which part of the text."""
    source: TextFlags = TextFlags()
    device: Device = "auto"
    """cpu, cuda, or the better one that is there."""

    def __call__(self) -> None:
        if isinstance(self.tokens, int) and self.tokens < 1:
            raise ValueError(f"tokens must be 1 or more, got {self.tokens}")
        subject = self._subject(device_of(self.device))
        corpus, vocabulary, ids = text_for(subject, self._source())
        stream = corpus.valid if self.part == "valid" else corpus.test
        tokens = self.tokens
        if tokens == "auto":
            tokens = 65536 if self.released is None else None
        stream = stream if tokens is None else stream[: tokens + 1]
        stream = stream if ids is None else ids[stream.long()]
        began = perf_counter()
        score, how = self._score(subject, stream)
        seconds = perf_counter() - began
        token = spelling_of(corpus).token
        print(f"{self.part} part of {corpus.name}, {how}")
        print(f"vocabulary: {vocabulary}{_unknown_in(stream, subject.spelled)}")
        print(f"{score.bits_per_token:.4f} bits per {token}, perplexity {score.perplexity:.3f}")
        print(f"{score.tokens:,} tokens, {seconds / score.tokens * 1e6:,.1f} µs per token")
        if self.folder is not None:
            print(f"next: minitxl generate {quote(str(self.folder))} --prompt TEXT")

    def _subject(self, device: str) -> Subject:
        if self.folder is not None and self.released is None:
            model, trained = run_folder.trained(self.folder, device=device)
            lengths = self._asked(trained.evaluation)
            return Subject(str(self.folder), model, lengths, read_tokenizer(self.folder))
        if self.folder is not None or self.released is None:
            got = "neither" if self.folder is None else f"{self.folder} and {self.released}"
            raise ValueError(f"either the folder of a run or released must be given, got {got}")
        folder = hub.folder_of(self.released)
        words = released.vocabulary_in(folder)
        model, lengths = released.load_released(folder)
        if lengths.window is not None and self.mem_len is not None:
            lengths = replace(lengths, mem_len=self.mem_len, window=self.mem_len or None)
        lengths = self._asked(replace(lengths, clamp_len=model.config.clamp_len))
        if words is not None and len(words) != model.config.vocab_size:
            raise ValueError(
                f"the vocabulary of {self.released} must hold the model's {model.config.vocab_size:,} words, "
                f"got {len(words):,}"
            )
        spelled = None if words is None else Tokenizer("words", _with_unknown(words))
        return Subject(self.released, model.to(device), lengths, spelled)

    def _asked(self, lengths: EvaluateConfig) -> EvaluateConfig:
        asked = {name: getattr(self, name) for name in ("seg_len", "mem_len", "window", "clamp_len")}
        return replace(lengths, **{name: value for name, value in asked.items() if value is not None})

    def _source(self) -> TextFlags:
        named = self.released is None or self.source.data is not None or self.source.text is not None
        return self.source if named else replace(self.source, data="wikitext-103")

    def _score(self, subject: Subject, stream: Tensor) -> tuple[Score, str]:
        settings, total = subject.settings, len(stream) - 1
        if self.way == "sliding":
            length = self.attention_len
            if length is None:
                length = settings.seg_len + settings.mem_len
            with progress(subject.model, total, stride=self.stride):
                score = sliding(subject.model, stream, attention_len=length, stride=self.stride)
            return score, f"sliding window of {length} tokens, stride {self.stride}"
        with progress(subject.model, total):
            return cached(subject.model, stream, settings), f"cached: {settings}"


def text_for(subject: Subject, source: TextFlags) -> tuple[Corpus, str, Tensor | None]:
    """The text, whose vocabulary its tokens are of, and the model's id for each of its ids if they differ."""
    spelled = subject.spelled
    if spelled is None:
        corpus, wanted = source.corpus(), subject.model.config.vocab_size
        if corpus.vocab_size != wanted:
            raise ValueError(
                f"the text must have the {wanted:,} words of {subject.name}, "
                f"got {corpus.name} with {corpus.vocab_size:,}"
            )
        return corpus, f"as counted in {corpus.name}; {subject.name} holds none", None
    told = f"that of {subject.name}, {_described(spelled)}"
    if spelled.vocabulary is not None and source.text is None and source.data is None:
        raise ValueError(
            f"text or data must be given for {subject.name}, which reads {spelled.unit}, got neither"
        )
    if source.text is not None and source.unit not in ("bytes", spelled.unit):
        raise ValueError(f"unit must be {spelled.unit} as in {subject.name}, got {source.unit}")
    corpus = source.corpus(spelled)
    given = spelling_of(corpus)
    if given.vocabulary == spelled.vocabulary:
        return corpus, told, None
    ours, theirs = spelled.vocabulary, given.vocabulary
    if ours is None or theirs is None or ours.ids.keys() != theirs.ids.keys():
        others = ", not all the same" if _described(given) == _described(spelled) else ""
        raise ValueError(
            f"the text must have the {_described(spelled)} of {subject.name}, "
            f"got {corpus.name} with {_described(given)}{others}"
        )
    return corpus, told, torch.tensor(ours.encode(theirs.symbols))


@contextmanager
def progress(model: TransformerLM, total: int, stride: int | None = None) -> Iterator[None]:
    """A bar of the targets scored: all that a reading embeds, or ``stride`` of each window but the first."""
    with tqdm(desc="scoring", total=total, unit="token", unit_scale=True) as bar:

        def count(_module: Any, inputs: tuple[Tensor], _output: Any) -> None:
            read = inputs[0].numel() if stride is None or bar.n == 0 else len(inputs[0]) * stride
            bar.update(min(read, total - bar.n))

        hook = model.embedding.register_forward_hook(count)
        try:
            yield
        finally:
            hook.remove()


def _with_unknown(words: list[str]) -> Vocabulary:
    return Vocabulary(tuple(words), next((word for word in ("<unk>", "<UNK>") if word in words), None))


def _described(spelled: Tokenizer) -> str:
    return f"{256 if spelled.vocabulary is None else len(spelled.vocabulary):,} {spelled.unit}"


def _unknown_in(stream: Tensor, spelled: Tokenizer | None) -> str:
    held = None if spelled is None else spelled.vocabulary
    if held is None or held.unknown is None:
        return ""
    share = (stream.long() == held.ids[held.unknown]).double().mean()
    return f"; {share:.2%} of the text is {held.unknown}"
