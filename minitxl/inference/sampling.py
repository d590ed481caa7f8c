"""Sampling of the next token: temperature, top-k, top-p and the repetition penalty.

    scores = repetition_penalty(log_probs, [text[-64:] for text in texts], repetition=1.2)
    probs = sampling_probs(scores, temperature=0.8, top_p=0.95)

Both functions work on a batch of texts. Scores are log-probabilities up to a constant.
"""

from collections.abc import Sequence
from math import log
from typing import TypedDict

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from minitxl.fast.bfloat16 import Precision
from minitxl.fields import LONGEST, number, optional, whole
from minitxl.fields import check as check_value

COLDEST = 1e-6
"""Lowest temperature above 0; 0 itself is allowed. At this one, a token 0.0001 nats behind the likeliest is
practically never drawn."""
LAST_SEED = 2**62
"""Largest seed: with a text's number added, it is still one that a generator takes."""
LogProbs = Float[Tensor, "batch vocab"]
Scores = Float[Tensor, "batch vocab"]
"""Log-probabilities up to a constant. (Scores of attention are ``attention.Scores``.)"""


class SamplingOptions(TypedDict, total=False):
    """Options of sampling: the keyword arguments of ``generation.sample`` and ``draw_tokens``."""

    temperature: float | int
    """Scores are divided by it; 0 takes the likeliest token."""
    top_k: int | None
    """Draw from the k likeliest tokens only."""
    top_p: float | None
    """Draw from the fewest tokens, the likeliest first, whose total probability is this or more."""
    repetition: float | int
    """Above 1 lowers the scores of the recent text's tokens, below 1 raises them."""
    repetition_window: int | None
    """Number of last tokens, the prompt's included, that the penalty counts; None for all."""
    seed: int
    """Text b draws from a generator of its own, seeded with ``seed`` + b."""
    precision: Precision
    """Number format of the model's products."""
    clamp_len: int | None
    """Keys at this distance or farther count as equally far; None means the model's own."""


def check(
    temperature: float | int,
    top_k: int | None,
    top_p: float | None,
    repetition: float | int,
    repetition_window: int | None,
    seed: int = 0,
) -> None:
    """Raise a ValueError for options out of their range."""
    check_value("temperature", temperature, number(0, 1e6))
    if 0 < temperature < COLDEST:
        raise ValueError(f"temperature must be 0, or {COLDEST} or more, got {temperature}")
    check_value("top_k", top_k, optional(whole(1, LONGEST)))
    check_value("top_p", top_p, optional(number(0, 1)))
    if top_p == 0:
        raise ValueError(f"top_p must be above 0, got {top_p}")
    check_value("repetition", repetition, number(0.01, 100))
    check_value("repetition_window", repetition_window, optional(whole(1, LONGEST)))
    check_value("seed", seed, whole(0, LAST_SEED))


def repetition_penalty(
    log_probs: LogProbs, recent: Sequence[Int[Tensor, "_"]], *, repetition: float | int
) -> Scores:
    """Return scores, in nats up to a constant, lowered for the tokens in each text's ``recent`` part.

    CTRL (Keskar et al. 2019, section 4.1) divides the score x of such a token by θ, here ``repetition``.
    Log-probabilities are all negative, so this would make the token likelier. A constant added to all scores
    changes no probability, but it changes what dividing them does. So a constant has to be chosen. Here a
    token at chance, p = 1/vocab, has the score 0: x = log(p · vocab). Above chance, x becomes x / θ;
    below, x · θ. With θ > 1 no score rises, and tokens of the recent text keep their order: a token above
    chance still has a higher score than any token below chance.

    Why not multiply each log-probability by θ, as is usual, so that p becomes p^θ? Where most of the
    likely tokens are recent, as with characters, this is a temperature of 1/θ, and repeats more. θ = 1
    changes nothing.
    """
    if repetition == 1:
        return log_probs
    log_vocab = log(log_probs.shape[-1])
    occurs = torch.zeros_like(log_probs, dtype=torch.bool)
    for of_text, tokens in zip(occurs, recent, strict=True):
        of_text[tokens] = True
    x = log_probs + log_vocab
    return torch.where(occurs, torch.where(x > 0, x / repetition, x * repetition) - log_vocab, log_probs)


def sampling_probs(
    scores: Scores,
    *,
    temperature: float | int = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Float[Tensor, "batch vocab"]:
    """Return the probabilities to draw from."""
    if temperature == 0:
        return one_hot(scores.argmax(dim=-1), scores.shape[-1]).to(scores.dtype)
    probs, order = (scores / temperature).softmax(dim=-1).sort(dim=-1, descending=True, stable=True)
    if top_k is not None:
        probs[:, top_k:] = 0.0
    if top_p is not None and top_p < 1:  # at 1 rounding would leave some out
        before = probs.cumsum(dim=-1) - probs
        left_out = before >= top_p * probs.sum(dim=-1, keepdim=True)
        probs[:, 1:][left_out[:, 1:]] = 0.0  # the likeliest stays, however small top_p is
    probs = probs / probs.sum(dim=-1, keepdim=True)
    return torch.zeros_like(probs).scatter(-1, order, probs)
