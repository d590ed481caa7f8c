"""Readings of the experiment ``ptb``: a whole text by memory length, by offset, and by a sliding window."""

from collections.abc import Callable
from functools import partial
from math import exp
from time import process_time
from typing import Any

import torch
from einops import rearrange, reduce
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from minitxl.data.corpus import Corpus
from minitxl.data.detokenizer import is_cut, joined
from minitxl.experiments.shared.trained import Model
from minitxl.fast import fast_evaluation
from minitxl.inference import generation
from minitxl.inference.config import EvaluateConfig
from minitxl.inference.evaluation import cached_losses, sliding_losses
from minitxl.lstm import LSTMLM
from minitxl.model import TransformerLM

Losses = Float[Tensor, " target"]


def by_memory(
    model: Model, text: Tensor, *, seg_len: int, memories: list[int], lanes: int
) -> list[dict[str, Any]]:
    """Return perplexity of a whole text with each length of memory, by offset in the segment, and its time.

    An LSTM is read twice: from a state of zeros at each segment, and with its state carried on.
    """
    if isinstance(model, LSTMLM):
        reset = partial(lstm_losses, model, text, seg_len=seg_len, lanes=lanes)
        reads: list[tuple[int | None, Any]] = [(0, partial(reset, carried=False)), (None, reset)]
    else:
        lengths = [(mem_len, EvaluateConfig(seg_len, mem_len)) for mem_len in memories]
        reads = [(mem_len, partial(cached_losses, model, text, how, batch=lanes)) for mem_len, how in lengths]
    return [{"mem_len": mem_len, **_read(read, seg_len=seg_len, lanes=lanes)} for mem_len, read in reads]


def by_sliding(model: Model, text: Tensor, *, attention_len: int, stride: int) -> dict[str, Any] | None:
    """Return perplexity and time of a whole text that a window slides over; None for an LSTM."""
    if isinstance(model, LSTMLM):
        return None
    score = _read(partial(sliding_losses, model, text, attention_len=attention_len, stride=stride))
    return {"attention_len": attention_len, "stride": stride, **score}


def lstm_losses(model: LSTMLM, text: Tensor, *, seg_len: int, lanes: int, carried: bool = True) -> Losses:
    """Return the loss of each token but the first in nats, as an LSTM reads them in so many lanes.

    Each lane starts with a state of zeros; unless it is ``carried`` on, each segment does.
    """
    inputs, targets = text[:-1].long(), text[1:].long()
    lane = -(-len(inputs) // lanes)
    rows = [
        rearrange(pad(ids, (0, lanes * lane - len(ids))), "(lane time) -> lane time", lane=lanes)
        for ids in (inputs, targets)
    ]
    losses, state = [], None
    with fast_evaluation(model) as fast_model:
        for tokens, ahead in zip(*(ids.split(seg_len, dim=1) for ids in rows), strict=True):
            loss, state = fast_model.token_losses(tokens, ahead, state if carried else None)
            losses.append(loss)
    return rearrange(torch.cat(losses, dim=1), "lane time -> (lane time)")[: len(inputs)]


def sample(model: TransformerLM, corpus: Corpus, *, read: int, length: int, mem_len: int) -> dict[str, str]:
    """Return the first words of the test text and what the model writes after them, as people write."""
    start = corpus.test[:read].long()
    (text,) = generation.sample(model, [start], length=length, mem_len=mem_len, temperature=0.8, top_p=0.9)
    parts = {"prompt": start, "text": text}
    as_written = joined if is_cut(corpus.tokenizer) else iter
    return {
        name: "".join(as_written(corpus.tokenizer.decode(tokens.tolist()))).strip()
        for name, tokens in parts.items()
    }


def perplexity_by_offset(losses: Losses, *, seg_len: int, lanes: int) -> list[float]:
    """Return perplexity at each offset of the segments that a text was read in, of the whole ones."""
    lane = -(-len(losses) // lanes)
    whole = lane // seg_len * seg_len
    rows = [part[:whole] for part in losses.double().split(lane) if len(part) >= whole]
    nats = reduce(torch.stack(rows), "lane (segment offset) -> offset", "mean", offset=seg_len)
    return nats.exp().tolist()


def _read(read: Callable[[], Losses], *, seg_len: int | None = None, lanes: int = 1) -> dict[str, Any]:
    """Return perplexity, processor time and, for a text in segments, perplexity by offset."""
    began = process_time()
    losses = read()
    seconds = process_time() - began
    measured: dict[str, Any] = {
        "perplexity": exp(losses.mean(dtype=torch.float64).item()),
        "microseconds": seconds / len(losses) * 1e6,
    }
    if seg_len is not None:
        measured["by_offset"] = perplexity_by_offset(losses, seg_len=seg_len, lanes=lanes)
    return measured
