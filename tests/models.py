"""Small models of every kind, in float64 and without dropout, for tests."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from minitxl.attention import MultiHeadAttention, ShawAttention, XLAttention
from minitxl.config import ModelConfig
from minitxl.later_attention import ALiBiAttention, RotaryAttention, T5Attention
from minitxl.lstm import LSTMLM, LSTMConfig
from minitxl.memory import extend
from minitxl.model import TransformerLM

CLASSES = {
    MultiHeadAttention: {},
    ShawAttention: {"max_distance": 2},
    XLAttention: {},
    RotaryAttention: {},
    ALiBiAttention: {},
    T5Attention: {"n_bucket": 4, "bucket_distance": 5},
}
"""Each attention's class, and settings of its own."""
ENCODINGS = {
    "absolute sinusoidal": {"attention": "absolute", "positions": "sinusoidal"},
    "absolute learned": {"attention": "absolute", "positions": "learned"},
    "absolute per layer": {"attention": "absolute", "positions": "per-layer"},
    "shaw": {"attention": "shaw", "max_distance": 4},
    "xl": {"attention": "xl", "share_biases": True},
    "xl with u and v per layer": {"attention": "xl", "share_biases": False},
    "rotary": {"attention": "rotary", "d_head": 4},
    "alibi": {"attention": "alibi"},
    "t5": {"attention": "t5", "n_bucket": 4, "bucket_distance": 5},
    "t5 with a table per layer": {
        "attention": "t5",
        "n_bucket": 4,
        "bucket_distance": 5,
        "share_biases": False,
    },
    "no positions": {"attention": "absolute", "positions": "none"},
}
ABSOLUTE = {name: encoding for name, encoding in ENCODINGS.items() if name.startswith("absolute")}
RELATIVE = {name: encoding for name, encoding in ENCODINGS.items() if name not in ABSOLUTE}
NORMS = ["post", "pre"]
VOCAB = 11


def small_config(**settings) -> ModelConfig:
    small = {"vocab_size": VOCAB, "n_layer": 2, "d_model": 8, "n_head": 2, "d_head": 3, "d_inner": 12}
    return ModelConfig(**{**small, "dropout": 0.0, **settings})


def small_model(seed: int = 0, **settings) -> TransformerLM:
    """Weights ten times the initial ones, so that attention is far from uniform."""
    torch.manual_seed(seed)
    model = TransformerLM(small_config(**settings)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter *= 10
    return model


@cache
def unchanged_model(seed: int = 0, **settings) -> TransformerLM:
    """Return the same for tests of many examples that only read by it: without gradients, and built once."""
    return small_model(seed, **settings).requires_grad_(False)


def gradients(out: torch.Tensor, of: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Of a sum of ``out`` in which no two elements weigh the same."""
    weight = torch.linspace(-1, 1, out.numel(), dtype=out.dtype, device=out.device).view_as(out)
    return torch.autograd.grad((out * weight).sum(), of)


def assert_mean(draws: torch.Tensor, expected: torch.Tensor) -> None:
    """The draws differ, and their mean is the expected within what chance allows."""
    error = draws.std(dim=0) / len(draws) ** 0.5
    assert (draws[0] != draws[1]).any()
    assert ((draws.mean(dim=0) - expected).abs() < 5 * error).all()


def some_tokens(batch: int, time: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(VOCAB, (batch, time), generator=torch.Generator().manual_seed(seed))


def in_segments(
    model: TransformerLM,
    tokens: torch.Tensor,
    seg_lens: int | list[int],
    *,
    mem_len: int,
    update: Callable = extend,
    **options: Any,
) -> torch.Tensor:
    """Log-probabilities [batch time vocab] of a text that is read segment after segment."""
    memory, found = None, []
    for segment in tokens.split(seg_lens, dim=1):
        log_probs, states = model(segment, memory, **options)
        memory = update(memory, states, mem_len=mem_len)
        found.append(log_probs)
    return torch.cat(found, dim=1)


def small_lstm(seed: int = 0, **settings) -> LSTMLM:
    """Return an LSTM of two layers in float64."""
    torch.manual_seed(seed)
    small = {"vocab_size": VOCAB, "n_layer": 2, "d_model": 6, "dropout": 0.0}
    return LSTMLM(LSTMConfig(**{**small, **settings})).double()
