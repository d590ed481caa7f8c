"""Score a text: a model's losses in nats over the same targets, read in two ways.

Sliding: a window of ``attention_len`` tokens moves ahead by ``stride`` and all of it is
computed anew; stride 1 is Al-Rfou's evaluation, stride = attention_len isolated segments.
Cached: segment after segment, with the memory of those before. Both score every token
of a stream but its first, once, and return sums, so that scores of parts add up.
"""

from dataclasses import dataclass
from math import exp, log

import torch
from einops import rearrange
from jaxtyping import Float, Integer
from torch import Tensor
from torch.nn.functional import pad

from minitxl.fast import fast_evaluation, kv_cache
from minitxl.inference.config import EvaluateConfig
from minitxl.model import TransformerLM

Stream = Integer[Tensor, " time"]
Ids = Integer[Tensor, "..."]
Losses = Float[Tensor, " target"]


@dataclass(frozen=True)
class Score:
    """A sum of losses in nats, and how many tokens it is over. Scores of parts add up."""

    nats: float
    tokens: int

    def __add__(self, other: "Score") -> "Score":
        return Score(self.nats + other.nats, self.tokens + other.tokens)

    @property
    def bits_per_token(self) -> float:
        """Bits per character where tokens are characters."""
        return self.nats / self.tokens / log(2)

    @property
    def perplexity(self) -> float:
        return exp(self.nats / self.tokens)


def sliding(
    model: TransformerLM, stream: Stream, *, attention_len: int, stride: int, batch: int = 64
) -> Score:
    """Return sum of ``sliding_losses``."""
    return _score(sliding_losses(model, stream, attention_len=attention_len, stride=stride, batch=batch))


def cached(model: TransformerLM, stream: Stream, settings: EvaluateConfig, *, batch: int = 1) -> Score:
    """Return sum of ``cached_losses``."""
    return _score(cached_losses(model, stream, settings, batch=batch))


def sliding_losses(
    model: TransformerLM, stream: Stream, *, attention_len: int, stride: int, batch: int = 64
) -> Losses:
    """Return loss of each target in nats, in the stream's order, ``batch`` windows at a time.

    The first window scores all its targets, each later one its last ``stride``: each has
    between attention_len - stride + 1 and attention_len tokens of context, fewer only
    where the stream began less far back.
    """
    if not 1 <= stride <= attention_len:
        raise ValueError(f"stride must lie in 1 … attention_len = {attention_len}, got {stride}")
    inputs, targets = _inputs_and_targets(model, stream)

    def last(windows: Ids, wanted: Ids) -> Losses:
        hidden, _ = fast_model.hidden(windows, last=wanted.shape[1])
        losses = fast_model.losses(hidden, wanted)
        return rearrange(losses, "window seg -> (window seg)")

    with fast_evaluation(model) as fast_model:
        done = min(attention_len, len(inputs))
        losses = [last(inputs[None, :done], targets[None, :done])]
        while done < len(inputs):
            full = min(batch, (len(inputs) - done) // stride)
            rows, ahead = (full, stride) if full else (1, len(inputs) - done)
            begin, end = done + stride - attention_len, done + rows * ahead
            windows = inputs[begin:end].unfold(0, attention_len - stride + ahead, stride)
            losses.append(last(windows, targets[done:end].unfold(0, ahead, ahead)))
            done = end
    return torch.cat(losses)


def cached_losses(
    model: TransformerLM, stream: Stream, settings: EvaluateConfig, *, batch: int = 1
) -> Losses:
    """Return loss of each target in nats, in the stream's order, read as ``batch`` lanes at once.

    One lane is the exact reading. With more, each lane starts with an empty memory, and a
    lane's last token is scored against the next lane's first, so no target is lost.
    """
    inputs, targets = _inputs_and_targets(model, stream)
    lane = -(-len(inputs) // batch)
    rows, wanted = (
        rearrange(pad(ids, (0, batch * lane - len(ids))), "(batch time) -> batch time", batch=batch)
        for ids in (inputs, targets)
    )
    cache = kv_cache.start(
        model, batch=batch, mem_len=settings.mem_len, window=settings.window, clamp_len=settings.clamp_len
    )
    losses = []
    for segment, ahead in zip(
        rows.split(settings.seg_len, dim=1), wanted.split(settings.seg_len, dim=1), strict=True
    ):
        loss, cache = kv_cache.token_losses(model, segment, ahead, cache)
        losses.append(loss)
    return rearrange(torch.cat(losses, dim=1), "batch time -> (batch time)")[: len(inputs)]


def _inputs_and_targets(model: TransformerLM, stream: Stream) -> tuple[Ids, Ids]:
    if len(stream) < 2:
        raise ValueError(f"a text to score must hold 2 tokens or more, got {len(stream)}")
    stream = stream.to(next(model.parameters()).device, torch.int64)
    return stream[:-1], stream[1:]


def _score(losses: Losses) -> Score:
    return Score(losses.sum(dtype=torch.float64).item(), len(losses))
