"""The table of classes that have a faster form, and the functions that exchange them.

A faster class has the parameters, the names and the state dict of the class it stands for, and
the same outputs and gradients to rounding; only its dropout draws other random numbers.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar, cast

import torch
from torch import nn

from minitxl import model as lm
from minitxl.adaptive import AdaptiveSoftmax
from minitxl.arguments import check_kind
from minitxl.attention import MultiHeadAttention, XLAttention
from minitxl.fast.attention import (
    FastALiBiAttention,
    FastMultiHeadAttention,
    FastRotaryAttention,
    FastT5Attention,
    FastXLAttention,
)
from minitxl.fast.bfloat16 import Precision, check_precision, products_in
from minitxl.fast.dropout import FastDropout, FastVariationalDropout
from minitxl.fast.feed_forward import FastFeedForward
from minitxl.fast.linear import FastLinear
from minitxl.fast.softmax import FastAdaptiveSoftmax, FastLSTMLM
from minitxl.later_attention import ALiBiAttention, RotaryAttention, T5Attention
from minitxl.lstm import LSTMLM

Model = TypeVar("Model", bound=nn.Module)

FAST: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: FastLinear,
    nn.Dropout: FastDropout,
    lm.VariationalDropout: FastVariationalDropout,
    lm.FeedForward: FastFeedForward,
    MultiHeadAttention: FastMultiHeadAttention,
    XLAttention: FastXLAttention,
    RotaryAttention: FastRotaryAttention,
    ALiBiAttention: FastALiBiAttention,
    T5Attention: FastT5Attention,
    AdaptiveSoftmax: FastAdaptiveSoftmax,
    LSTMLM: FastLSTMLM,
}
"""Exact classes only: a subclass that is not in the table is left unchanged."""
PLAIN = {fast: plain for plain, fast in FAST.items()}


def to_fast(model: Model) -> Model:
    """Return a fast model that shares all parameters and buffers with ``model``, which stays as it is.

    Training one trains the other. The mode (training or evaluation) is the model's at this moment.
    """
    check_kind("model", model, nn.Module)
    return _replaced(model, FAST, {})


def to_inference(model: Model, precision: Precision = "float32", *, rows: int = 1) -> Model:
    """Return the fast model in evaluation mode, for the key-value cache; a step reads about ``rows`` tokens.

    With bfloat16 its products use rounded copies of the matrices and biases, half as large; on a CUDA GPU and
    on a CPU alike. In float32 they use copies in another order, where a CPU reads those faster. Embeddings
    and norms are those of ``model``.
    """
    fast_model = to_fast(model).eval()
    check_precision(precision, next(model.parameters()).device)
    for module in fast_model.modules():
        if isinstance(module, FastLinear):
            if precision == "bfloat16":
                module.round_parameters()
            module.pack(rows)
    return fast_model


def to_plain(model: Model) -> Model:
    """Return the modules of the paper around the parameters of a fast model: the inverse of ``to_fast``."""
    check_kind("model", model, nn.Module)
    return _replaced(model, PLAIN, {})


@contextmanager
def fast_evaluation(model: Model, precision: Precision = "float32") -> Iterator[Model]:
    """Yield the fast model in evaluation mode, without gradients; ``model`` stays as it is."""
    device = next(check_kind("model", model, nn.Module).parameters()).device
    with torch.inference_mode(), products_in(precision, device):
        yield to_fast(model).eval()


def _replaced(
    module: Model, table: Mapping[type[nn.Module], type[nn.Module]], done: dict[int, nn.Module]
) -> Model:
    """Return a module with the same attributes, of the table's class, around exchanged children.

    ``done`` has the modules that were exchanged before, so that a shared module stays shared.
    """
    if id(module) not in done:
        kind = table.get(type(module), type(module))
        done[id(module)] = exchanged = kind.__new__(kind)
        vars(exchanged).update(vars(module))  # the dictionaries of parameters and buffers themselves: shared
        vars(exchanged).pop("_compiled_call_impl", None)  # ``module.compile`` has bound it to ``module``
        children = {
            name: None if child is None else _replaced(child, table, done)
            for name, child in module._modules.items()
        }
        vars(exchanged)["_modules"] = children
    return cast(Model, done[id(module)])
