"""Transformer-XL from its parts.

    from minitxl import ModelConfig, TransformerLM, extend

The modules of the paper are files at the top level, and beside them is one for what came after the paper and
one for what came before it. Read them in this order:

    position_encodings  sinusoids, and distances
    relative_shift      scores by distance become scores by key (Appendix B)
    attention           the causal mask; multi-head attention, Shaw's, and Transformer-XL's
    memory              segment recurrence: ``extend``, and how far it reaches. The model returns its states,
                        and its caller extends the memory; training does so in ``training.step.train_step``.
                        The stop-gradient is in ``extend``, which returns a detached tensor
    adaptive            embedding and softmax for large vocabularies
    config, model       the settings, and the language model of all these parts
    later_attention     what came after: rotary, ALiBi's and T5's positions
    lstm                what came before: the LSTM of the comparisons

``batch`` is the first axis of tokens and hidden states. In memory ``layer`` is the first axis and ``batch``
the second. In training and cached evaluation an element of the batch is a lane, one of the long stretches of
a text that are read side by side. In sliding evaluation it is a piece of the text, and in generation a text
of its own.

Five more files serve all of these: ``fields`` checks values from outside, ``arguments`` checks a caller's
tensors, ``files`` reads and writes files, ``allocator`` tells the C library to keep freed RAM, and
``__main__`` is the command line's entry. Everything else is in folders, each with one purpose:

    fast             the same outputs, to rounding, in less time and RAM; the key-value cache
    data             text to batches: corpora, downloads, tokenizers, token files
    inference        score a text, write a text
    training         train, stop and resume
    pretrained       published settings and published weights
    analysis         what a model uses and what it costs
    experiments      a file for each question; its result is ``figures/NAME.json`` in the repository
    figures          draws stored results as pictures
    course           exercises, checks (``course.checks`` lists their files by notebook), widgets, the
                     dashboard, grading
    benchmark        races against other libraries
    commands         the command line

To add an attention of your own, follow the comment at the end of ``later_attention``.

Begin with ``notebooks/00_start_here.ipynb``, or with ``minitxl demo``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minitxl.attention import MultiHeadAttention, ShawAttention, XLAttention, attention_mask
    from minitxl.config import ModelConfig
    from minitxl.inference.config import EvaluateConfig
    from minitxl.memory import extend
    from minitxl.model import TransformerLM
    from minitxl.position_encodings import sinusoids
    from minitxl.relative_shift import rel_shift
    from minitxl.training.config import TrainConfig

__all__ = [
    "EvaluateConfig",
    "ModelConfig",
    "MultiHeadAttention",
    "ShawAttention",
    "TrainConfig",
    "TransformerLM",
    "XLAttention",
    "attention_mask",
    "extend",
    "rel_shift",
    "sinusoids",
]
MODULE_OF = {
    "EvaluateConfig": "inference.config",
    "ModelConfig": "config",
    "MultiHeadAttention": "attention",
    "ShawAttention": "attention",
    "TrainConfig": "training.config",
    "TransformerLM": "model",
    "XLAttention": "attention",
    "attention_mask": "attention",
    "extend": "memory",
    "rel_shift": "relative_shift",
    "sinusoids": "position_encodings",
}
"""The module of each public name. A module is imported when one of its names is first used: most of them
import torch, which takes long."""


def __getattr__(name: str) -> Any:
    if name not in MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
