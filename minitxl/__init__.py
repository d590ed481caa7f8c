"""Transformer-XL from its parts.

    from minitxl import ModelConfig, TransformerLM, extend

The modules of the paper lie at the top and read in this order, one idea a file:

    positions        sinusoids, distances, and the relative shift
    attention        multi-head attention, Shaw's, and Transformer-XL's
    memory           segment recurrence: ``extend``, and how far it reaches
    adaptive         embedding and softmax for large vocabularies
    config, model    the settings, and the language model of all these parts

Everything else is in folders, each with one purpose (``fields`` checks values from outside,
``arguments`` a caller's tensors, ``files`` reads and writes files, ``__main__`` is the command line's entry):

    fast             the same numbers in less time and memory; the key-value cache
    data             text to batches: corpora, downloads, tokenizers, token files
    inference        score a text, write a text
    training         train, stop and resume
    pretrained       published settings and published weights
    analysis         what a model uses and what it costs
    experiments      one file, one question, one stored result
    figures          results to pictures
    course           exercises, checks, widgets, the dashboard, grading
    benchmark        races against other libraries
    commands         the command line

A new attention is a class with the call of those in ``attention``: (x, memory, window=, clamp_len=,
key_mask=). It is entered in ``ModelConfig.attention``, ``TransformerLM._new_attention``,
``model.DRAWN`` for parameters of new names, ``fast.kv_cache.HEADS``, without which it can't be
validated, and the tests' ``models.ENCODINGS``, by which the shared tests find it. An entry in
``fast.convert.FAST`` is for speed alone.

Begin with ``notebooks/00_start_here.ipynb``, or with ``minitxl demo``.
"""

from minitxl.attention import MultiHeadAttention, ShawAttention, XLAttention, attention_mask
from minitxl.config import ModelConfig
from minitxl.inference.config import EvaluateConfig
from minitxl.memory import extend
from minitxl.model import TransformerLM
from minitxl.positions import rel_shift, sinusoids
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
