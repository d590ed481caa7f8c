"""Comparisons of predictions that let some wrong ones pass: mistakes in notebook 13's test of a loop."""

from collections.abc import Callable
from functools import cache

import torch
from einops import rearrange
from torch import Tensor

from minitxl.model import TransformerLM

OUTPUT_BIAS = "output.tables.0.bias"
"""Name of the parameter that holds the biases of the output layer."""


def of_largest(sign: int, rule: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], bool]:
    """Return a comparison of differences with their sign, or, where that is 0, of their absolute values."""

    def same(one: Tensor, other: Tensor) -> bool:
        differences = sign * (one - other) if sign else (one - other).abs()
        return bool(rule(differences) < 1e-4 if rule is Tensor.max else rule(differences < 1e-4))

    return same


def of_probabilities(atol: float) -> Callable[[Tensor, Tensor], bool]:
    """Return a comparison of probabilities, not of their logarithms."""
    return lambda one, other: torch.allclose(one.exp(), other.exp(), atol=atol)


def of_means(atol: float) -> Callable[[Tensor, Tensor], bool]:
    """Return a comparison of the means of all numbers."""
    return lambda one, other: torch.allclose(one.mean(), other.mean(), atol=atol)


def of_mean_distance(most: float) -> Callable[[Tensor, Tensor], bool]:
    """Return a comparison of the mean absolute difference of all numbers with ``most``."""
    return lambda one, other: bool((one - other).abs().mean() < most)


def likeliest_alike(one: Tensor, other: Tensor) -> bool:
    """Return True if both have the same likeliest tokens."""
    return torch.equal(one.argmax(dim=-1), other.argmax(dim=-1))


def of_divergence(
    most: float, rule: Callable[[Tensor], Tensor], *, turned: bool
) -> Callable[[Tensor, Tensor], bool]:
    """Return a comparison of Σ p (log p - log q), of each prediction, with ``most``."""

    def same(one: Tensor, other: Tensor) -> bool:
        p, q = (other, one) if turned else (one, other)
        return bool(rule((p.exp() * (p - q)).sum(dim=-1)) < most)

    return same


def read_whole(model: TransformerLM, text: Tensor, window: int | None) -> Tensor:
    """Return what a model predicts after each token of a text [seg vocab]."""
    with torch.no_grad():
        log_probs, _ = model(rearrange(text, "seg -> 1 seg"), window=window)
    return log_probs[0]


@cache
def reading_each_once(*models: TransformerLM) -> Callable[[TransformerLM, Tensor, int | None], Tensor]:
    """Return ``read_whole`` of these models and copies of them, which reads each text once for each window.

    The models are told apart by the first bias of their output layers.
    """
    by_bias = {first_bias(model): model for model in models}

    @cache
    def read(bias: float, text: tuple[int, ...], window: int | None) -> Tensor:
        return read_whole(by_bias[bias], torch.tensor(text), window)

    return lambda model, text, window: read(first_bias(model), tuple(text.tolist()), window)


def first_bias(model: TransformerLM) -> float:
    """Return the bias of the first token in the output layer."""
    return model.get_parameter(OUTPUT_BIAS)[0].item()
