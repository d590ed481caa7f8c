"""Published configurations: the original code's of 2019, and one of our own where there is none."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from minitxl.config import ModelConfig
from minitxl.inference.config import EvaluateConfig
from minitxl.training.config import TrainConfig

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
]


@dataclass(frozen=True)
class Preset:
    """A published configuration: its model, its training, and its evaluation on test text."""

    model: ModelConfig
    train: TrainConfig
    evaluate: EvaluateConfig


def _published(
    model: ModelConfig,
    *,
    seg_len: int,
    mem_len: int,
    batch: int,
    warmup: int,
    steps: int,
    test: tuple[int, int, int | None],
) -> Preset:
    """Return a preset with what all of the original code's runs have in common (its scripts, 2019)."""
    test_seg, test_mem, test_clamp = test
    train = TrainConfig(
        seg_len=seg_len,
        mem_len=mem_len,
        batch=batch,
        steps=steps,
        warmup=warmup,
        learning_rate=2.5e-4,
        clip=0.25,
        validate_every=4000,
    )
    return Preset(model, train, EvaluateConfig(test_seg, test_mem, window=test_mem, clamp_len=test_clamp))


def _base(vocab_size: int) -> ModelConfig:
    return ModelConfig(vocab_size, n_layer=12, d_model=512, n_head=8, d_head=64, d_inner=2048)


def _large(vocab_size: int) -> ModelConfig:
    return ModelConfig(
        vocab_size,
        n_layer=24,
        d_model=1024,
        n_head=8,
        d_head=128,
        d_inner=3072,
        dropout=0.15,
        attention_dropout=0.15,
    )


def enwik8_base(vocab_size: int = 205) -> Preset:
    """41M parameters, on bytes."""
    lengths = {"seg_len": 512, "mem_len": 512, "batch": 22, "warmup": 0, "steps": 400_000}
    return _published(_base(vocab_size), **lengths, test=(80, 2100, 820))


def enwik8_large(vocab_size: int = 205) -> Preset:
    """277M parameters, on bytes."""
    lengths = {"seg_len": 768, "mem_len": 768, "batch": 64, "warmup": 4000, "steps": 400_000}
    return _published(_large(vocab_size), **lengths, test=(128, 3800, 1000))


def text8_base(vocab_size: int = 27) -> Preset:
    """``enwik8_base`` on 27 characters."""
    return enwik8_base(vocab_size)


def text8_large(vocab_size: int = 27) -> Preset:
    """``enwik8_large`` on 27 characters."""
    return enwik8_large(vocab_size)


def wikitext103_base(vocab_size: int = 267_735) -> Preset:
    """151M parameters, adaptive with one width."""
    model = ModelConfig(
        vocab_size,
        n_layer=16,
        d_model=410,
        n_head=10,
        d_head=41,
        d_inner=2100,
        cutoffs=(20_000, 40_000, 200_000),
    )
    lengths = {"seg_len": 150, "mem_len": 150, "batch": 60, "warmup": 0, "steps": 200_000}
    return _published(model, **lengths, test=(64, 640, 400))


def wikitext103_large(vocab_size: int = 267_735) -> Preset:
    """285M parameters: the model whose weights were released.

    The paper prints 257M for its large model, which 16 layers would have; the released
    one has 18, and a pair u, v in each layer.
    """
    model = ModelConfig(
        vocab_size,
        n_layer=18,
        d_model=1024,
        n_head=16,
        d_head=64,
        d_inner=4096,
        share_biases=False,
        cutoffs=(20_000, 40_000, 200_000),
        div_val=4,
        tie_projections=(False, True, True, True),
        dropout=0.2,
        attention_dropout=0.2,
    )
    lengths = {"seg_len": 384, "mem_len": 384, "batch": 128, "warmup": 16_000, "steps": 4_000_000}
    return _published(model, **lengths, test=(128, 1600, 1000))


def _one_billion_words(model: ModelConfig, *, batch: int, warmup: int, steps: int) -> Preset:
    return _published(
        model, seg_len=32, mem_len=32, batch=batch, warmup=warmup, steps=steps, test=(32, 128, None)
    )


def one_billion_words_base(vocab_size: int = 793_471) -> Preset:
    """466M parameters, on shuffled sentences; the paper prints 0.46B."""
    model = ModelConfig(
        vocab_size,
        n_layer=18,
        d_model=1024,
        n_head=8,
        d_head=128,
        d_inner=4096,
        share_biases=False,
        cutoffs=(60_000, 100_000, 640_000),
        div_val=4,
        tie_embeddings=False,
        tie_projections=(False, True, True, True),
        dropout=0.0,
    )
    return _one_billion_words(model, batch=224, warmup=20_000, steps=500_000)


def one_billion_words_large(vocab_size: int = 793_471) -> Preset:
    """841M parameters; the paper prints 0.8B. That its embeddings are tied, unlike those of the
    smaller model, is inferred from that: untied they would make it 977M."""
    model = ModelConfig(
        vocab_size,
        n_layer=24,
        d_model=1280,
        n_head=16,
        d_head=80,
        d_inner=8192,
        share_biases=False,
        cutoffs=(60_000, 100_000, 640_000),
        div_val=4,
        tie_projections=(False, True, True, True),
        dropout=0.05,
        attention_dropout=0.05,
    )
    return _one_billion_words(model, batch=512, warmup=30_000, steps=1_200_000)


def penn_treebank(vocab_size: int = 10_000) -> Preset:
    """Ours: the paper names variational dropout and weight averaging, and publishes no configuration.

    AWD-LSTM also drops whole words. Here that overflows in the first step: a dropped word that
    begins a text is a state of zeros in all layers, and each LayerNorm of zeros multiplies its
    gradient by 1 / √eps.
    """
    model = ModelConfig(
        vocab_size,
        n_layer=14,
        d_model=380,
        n_head=10,
        d_head=38,
        d_inner=944,
        dropout=0.5,
        attention_dropout=0.1,
        variational_dropout=True,
    )
    lengths = {"seg_len": 70, "mem_len": 70, "batch": 20, "warmup": 0, "steps": 60_000}
    preset = _published(model, **lengths, test=(64, 640, 400))
    return replace(preset, train=replace(preset.train, average_from=45_000, validate_every=1000))


PRESETS: dict[Name, Callable[[], Preset]] = {
    "enwik8-base": enwik8_base,
    "enwik8-large": enwik8_large,
    "text8-base": text8_base,
    "text8-large": text8_large,
    "wikitext103-base": wikitext103_base,
    "wikitext103-large": wikitext103_large,
    "one-billion-words-base": one_billion_words_base,
    "one-billion-words-large": one_billion_words_large,
    "penn-treebank": penn_treebank,
}
