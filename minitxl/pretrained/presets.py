"""Published configurations: the original code's of 2019, and two of our own where there is none."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from minitxl.config import ModelConfig
from minitxl.inference.config import EvaluateConfig
from minitxl.training.config import TrainConfig
from minitxl.training.validation import sufficient_tokens

Name = Literal[
    "enwik8-base",
    "enwik8-large",
    "text8-base",
    "text8-large",
    "wikitext103-base",
    "wikitext103-large",
    "one-billion-words-base",
    "one-billion-words-large",
    "penn-treebank",
    "ptb-small",
]
WIKITEXT: dict[str, Any] = {"vocab_size": 267_735, "cutoffs": (20_000, 40_000, 200_000)}
BILLION_WORDS: dict[str, Any] = {"vocab_size": 793_471, "cutoffs": (60_000, 100_000, 640_000)}
NARROWER: dict[str, Any] = {"div_val": 4, "tie_projections": (False, True, True, True), "share_biases": False}
"""Narrower embeddings of rarer words; the models that have them also have a pair u, v in each layer."""


@dataclass(frozen=True)
class Preset:
    """A published configuration: its model, its training, and its evaluation on test text."""

    model: ModelConfig
    train: TrainConfig
    evaluate: EvaluateConfig


def _preset(
    model: ModelConfig,
    *,
    seg_len: int,
    batch: int,
    steps: int,
    warmup: int = 0,
    test: tuple[int, int, int | None],
) -> Preset:
    """Return a preset with the settings that all of the original code's scripts share.

    Memory in training is as long as a segment. ``test`` is seg_len, mem_len and clamp_len on test
    text, where each query has a window as long as the memory.
    """
    shared = TrainConfig(learning_rate=2.5e-4, clip=0.25, validate_every=4000)
    train = replace(shared, seg_len=seg_len, mem_len=seg_len, batch=batch, steps=steps, warmup=warmup)
    train = replace(train, validate_tokens=max(train.validate_tokens, sufficient_tokens(train)))
    test_seg, test_mem, test_clamp = test
    return Preset(model, train, EvaluateConfig(test_seg, test_mem, window=test_mem, clamp_len=test_clamp))


def enwik8_base() -> Preset:
    """41M parameters, on bytes."""
    model = ModelConfig(205, n_layer=12, d_model=512, n_head=8, d_head=64, d_inner=2048)
    return _preset(model, seg_len=512, batch=22, steps=400_000, test=(80, 2100, 820))


def enwik8_large() -> Preset:
    """277M parameters, on bytes."""
    shape: dict[str, Any] = {"n_layer": 24, "d_model": 1024, "n_head": 8, "d_head": 128, "d_inner": 3072}
    model = ModelConfig(205, **shape, dropout=0.15, attention_dropout=0.15)
    return _preset(model, seg_len=768, batch=64, warmup=4000, steps=400_000, test=(128, 3800, 1000))


def _of_characters(preset: Preset) -> Preset:
    """Return the preset for text8's 27 characters."""
    return replace(preset, model=replace(preset.model, vocab_size=27))


def text8_base() -> Preset:
    """``enwik8_base`` on 27 characters."""
    return _of_characters(enwik8_base())


def text8_large() -> Preset:
    """``enwik8_large`` on 27 characters."""
    return _of_characters(enwik8_large())


def wikitext103_base() -> Preset:
    """151M parameters, adaptive with one width."""
    shape: dict[str, Any] = {"n_layer": 16, "d_model": 410, "n_head": 10, "d_head": 41, "d_inner": 2100}
    model = ModelConfig(**WIKITEXT, **shape)
    return _preset(model, seg_len=150, batch=60, steps=200_000, test=(64, 640, 400))


def wikitext103_large() -> Preset:
    """285M parameters: the model whose weights were released.

    The paper prints 257M for its large model, which 16 layers would have; the released
    one has 18, and a pair u, v in each layer.
    """
    shape: dict[str, Any] = {"n_layer": 18, "d_model": 1024, "n_head": 16, "d_head": 64, "d_inner": 4096}
    model = ModelConfig(**WIKITEXT, **NARROWER, **shape, dropout=0.2, attention_dropout=0.2)
    return _preset(model, seg_len=384, batch=128, warmup=16_000, steps=4_000_000, test=(128, 1600, 1000))


def one_billion_words_base() -> Preset:
    """466M parameters, on shuffled sentences; the paper prints 0.46B."""
    shape: dict[str, Any] = {"n_layer": 18, "d_model": 1024, "n_head": 8, "d_head": 128, "d_inner": 4096}
    model = ModelConfig(**BILLION_WORDS, **NARROWER, **shape, tie_embeddings=False, dropout=0.0)
    return _preset(model, seg_len=32, batch=224, warmup=20_000, steps=500_000, test=(32, 128, None))


def one_billion_words_large() -> Preset:
    """841M parameters; the paper prints 0.8B. That its embeddings are tied, unlike those of the
    smaller model, is inferred from that: untied they would make it 977M."""
    shape: dict[str, Any] = {"n_layer": 24, "d_model": 1280, "n_head": 16, "d_head": 80, "d_inner": 8192}
    model = ModelConfig(**BILLION_WORDS, **NARROWER, **shape, dropout=0.05, attention_dropout=0.05)
    return _preset(model, seg_len=32, batch=512, warmup=30_000, steps=1_200_000, test=(32, 128, None))


def penn_treebank() -> Preset:
    """Ours: the paper names variational dropout and weight averaging, and publishes no configuration.

    AWD-LSTM also drops whole words: ``word_dropout``, which this configuration leaves at 0.
    """
    shape: dict[str, Any] = {"n_layer": 14, "d_model": 380, "n_head": 10, "d_head": 38, "d_inner": 944}
    model = ModelConfig(10_000, **shape, dropout=0.5, attention_dropout=0.1, variational_dropout=True)
    preset = _preset(model, seg_len=70, batch=20, steps=60_000, test=(64, 640, 400))
    return replace(preset, train=replace(preset.train, average_from=45_000, validate_every=1000))


def ptb_small() -> Preset:
    """Ours, for an hour or two of one CPU core: 5M parameters on Penn Treebank, chosen by trials of minutes.

    It has what the paper names for this corpus, variational dropout and averaged weights, and word dropout.
    """
    shape: dict[str, Any] = {"n_layer": 4, "d_model": 256, "n_head": 4, "d_head": 64, "d_inner": 512}
    layers: dict[str, Any] = {"norm": "pre", "activation": "gelu", "cutoffs": (1000, 4000)}
    dropout: dict[str, Any] = {"dropout": 0.25, "word_dropout": 0.1, "variational_dropout": True}
    train = TrainConfig(seg_len=64, mem_len=64, batch=16, steps=20_000, learning_rate=1e-3, warmup=200)
    train = replace(train, average_from=18_000, validate_every=1000, validate_tokens=16_384)
    model = ModelConfig(10_000, **shape, **layers, **dropout)
    return Preset(model, train, EvaluateConfig(64, 128))


PRESETS: dict[str, Callable[[], Preset]] = {
    "enwik8-base": enwik8_base,
    "enwik8-large": enwik8_large,
    "text8-base": text8_base,
    "text8-large": text8_large,
    "wikitext103-base": wikitext103_base,
    "wikitext103-large": wikitext103_large,
    "one-billion-words-base": one_billion_words_base,
    "one-billion-words-large": one_billion_words_large,
    "penn-treebank": penn_treebank,
    "ptb-small": ptb_small,
}
FOR_ONE_CORE = ("ptb-small",)
"""Presets that one core of a CPU trains: what several GPUs would give them is not reckoned."""
