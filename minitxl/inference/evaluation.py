"""Score a text: a model's losses in nats, with the text read in one of two ways that score the same targets.

    score = cached(model, stream, EvaluateConfig(seg_len=64, mem_len=256))
    score.bits_per_token, score.perplexity

The two ways, each a function that scores every token of a stream once, except the first:

    cached   reads segment after segment, with memory. It keeps keys and values instead of the states, for
             the same numbers in less time (``fast.kv_cache``)
    sliding  reads a piece of ``attention_len`` tokens, moves on by ``stride`` tokens, and reads a piece anew.
             Stride 1 is Al-Rfou's evaluation. With stride = attention_len the pieces are isolated segments. A
             piece is often called a sliding window. It has nothing to do with the setting ``window``, the
             greatest number of keys of a query.

The *attention length* is the number of keys that a query attends to in each layer, itself included. (The
paper's Table 9, and ``experiments.evaluation_cost``, count the memory alone on the cached side.) For a
sliding piece it means the number of keys of the last query; earlier queries have fewer. In cached evaluation,
once memory is full, it grows along each segment from mem_len + 1 to mem_len + seg_len. A ``window`` makes it
the same for all queries: ``EvaluateConfig.attending`` sets the window, and the memory that it needs.

Both ways return sums, so scores of parts add up. ``precision`` is the number format of the matrix products.
"""

from dataclasses import dataclass
from math import exp, inf, log

import torch
from einops import rearrange
from jaxtyping import Float, Integer
from torch import Tensor
from torch.nn.functional import pad

from minitxl.arguments import check_kind, check_rank, check_whole
from minitxl.fast import fast_evaluation, kv_cache
from minitxl.fast.bfloat16 import Precision
from minitxl.fields import LONGEST, check, optional, require, whole
from minitxl.inference.config import EvaluateConfig
from minitxl.model import TransformerLM

Stream = Integer[Tensor, " time"]
Ids = Integer[Tensor, "..."]
Losses = Float[Tensor, " target"]


@dataclass(frozen=True)
class Score:
    """A sum of losses in nats, and how many tokens it is over. Scores of parts add up.

    The score of no tokens, ``Score(0.0, 0)``, is where such a sum begins; it has no mean.
    """

    nats: float
    tokens: int

    def __add__(self, other: "Score") -> "Score":
        return Score(self.nats + other.nats, self.tokens + other.tokens)

    @property
    def nats_per_token(self) -> float:
        """The mean loss. Raises a ValueError for the score of no tokens."""
        require(self.tokens > 0, "a mean loss must be over 1 token or more", self.tokens)
        return self.nats / self.tokens

    @property
    def bits_per_token(self) -> float:
        """Bits per character where tokens are characters."""
        return self.nats_per_token / log(2)

    @property
    def perplexity(self) -> float:
        """exp of the mean loss; infinite where that is too large for a float."""
        try:
            return exp(self.nats_per_token)
        except OverflowError:
            return inf


def sliding(
    model: TransformerLM,
    stream: Stream,
    *,
    attention_len: int,
    stride: int,
    clamp_len: int | None = None,
    batch: int = 64,
    precision: Precision = "float32",
) -> Score:
    """Return the sum of ``sliding_losses``."""
    losses = sliding_losses(
        model,
        stream,
        attention_len=attention_len,
        stride=stride,
        clamp_len=clamp_len,
        batch=batch,
        precision=precision,
    )
    return _score(losses)


def cached(
    model: TransformerLM,
    stream: Stream,
    settings: EvaluateConfig,
    *,
    batch: int = 1,
    precision: Precision = "float32",
) -> Score:
    """Return the sum of ``cached_losses``."""
    return _score(cached_losses(model, stream, settings, batch=batch, precision=precision))


def cached_lanes(
    model: TransformerLM, lanes: Integer[Tensor, "batch time"], settings: EvaluateConfig
) -> Score:
    """Return the score of several lanes of one length, each starting with an empty memory.

    ``data.batching.spread_lanes`` takes them from all over a text.
    """
    inputs, targets = (
        _whole_numbers("lanes", ids).to(_device(model)) for ids in (lanes[:, :-1], lanes[:, 1:])
    )
    if not inputs.numel():
        raise ValueError(f"lanes must hold 2 tokens or more each, got shape {list(lanes.shape)}")
    return _score(rearrange(_lane_losses(model, inputs, targets, settings), "batch time -> (batch time)"))


def sliding_losses(
    model: TransformerLM,
    stream: Stream,
    *,
    attention_len: int,
    stride: int,
    clamp_len: int | None = None,
    batch: int = 64,
    precision: Precision = "float32",
) -> Losses:
    """Return the loss of each target in nats, in the stream's order, ``batch`` pieces at a time.

    The first piece scores all its targets, each later one its last ``stride``, and the last one the rest.
    Each target has between attention_len - stride + 1 and attention_len tokens of context. Near the stream's
    beginning it has all tokens before it, which may be fewer.
    """
    check("attention_len", attention_len, whole(1, LONGEST))
    check("clamp_len", clamp_len, optional(whole(0, LONGEST)))
    check("batch", batch, whole(1, LONGEST))
    check("stride", stride, whole())
    if not 1 <= stride <= attention_len:
        raise ValueError(f"stride must lie in 1 … attention_len = {attention_len}, got {stride}")
    inputs, targets = _inputs_and_targets(model, stream)

    def losses_of_last(pieces: Ids, piece_targets: Ids) -> Losses:
        hidden, _ = fast_model.last_hidden(pieces, n_last=piece_targets.shape[1], clamp_len=clamp_len)
        losses = fast_model.losses(hidden, piece_targets)
        return rearrange(losses, "piece seg -> (piece seg)")

    with fast_evaluation(model, precision) as fast_model:
        done = min(attention_len, len(inputs))
        losses = [losses_of_last(inputs[None, :done], targets[None, :done])]
        while done < len(inputs):
            # Pieces of a batch begin ``stride`` tokens apart; the last piece of the text may score fewer.
            full = min(batch, (len(inputs) - done) // stride)
            n_piece, n_scored = (full, stride) if full else (1, len(inputs) - done)
            context = attention_len - stride  # tokens of a piece before the first that is scored
            begin, end = done - context, done + n_piece * n_scored
            pieces = inputs[begin:end].unfold(0, context + n_scored, stride)
            losses.append(losses_of_last(pieces, targets[done:end].unfold(0, n_scored, n_scored)))
            done = end
    return torch.cat(losses)


def cached_losses(
    model: TransformerLM,
    stream: Stream,
    settings: EvaluateConfig,
    *,
    batch: int = 1,
    precision: Precision = "float32",
) -> Losses:
    """Return the loss of each target in nats, in the stream's order, read as ``batch`` lanes at once.

    One lane is the exact reading. With more, each lane starts with an empty memory, and the
    last token of a lane predicts the first of the next, so no target is lost.
    """
    check("batch", batch, whole(1, LONGEST))
    inputs, targets = _inputs_and_targets(model, stream)
    lane_len = -(-len(inputs) // batch)
    inputs_by_lane, targets_by_lane = (
        rearrange(pad(ids, (0, batch * lane_len - len(ids))), "(batch time) -> batch time", batch=batch)
        for ids in (inputs, targets)
    )
    losses = _lane_losses(model, inputs_by_lane, targets_by_lane, settings, precision)
    return rearrange(losses, "batch time -> (batch time)")[: len(inputs)]


def _lane_losses(
    model: TransformerLM,
    inputs: Ids,
    targets: Ids,
    settings: EvaluateConfig,
    precision: Precision = "float32",
) -> Float[Tensor, "batch time"]:
    """Return the loss of each target of lanes that are read side by side, segment after segment."""
    check_kind("settings", settings, EvaluateConfig)
    cache = kv_cache.start(
        model,
        batch=len(inputs),
        mem_len=min(settings.mem_len, inputs.shape[1]),  # a lane has no more tokens
        seg_len=settings.seg_len,
        window=settings.window,
        clamp_len=settings.clamp_len,
        precision=precision,
    )
    losses = []
    for segment, segment_targets in zip(
        inputs.split(settings.seg_len, dim=1), targets.split(settings.seg_len, dim=1), strict=True
    ):
        loss, cache = kv_cache.token_losses(model, segment, segment_targets, cache)
        losses.append(loss)
    return torch.cat(losses, dim=1)


def _inputs_and_targets(model: TransformerLM, stream: Stream) -> tuple[Ids, Ids]:
    check_rank("stream", stream, "time")
    if len(stream) < 2:
        raise ValueError(f"stream must hold 2 tokens or more, got {len(stream)}")
    stream = _whole_numbers("stream", stream).to(_device(model))
    return stream[:-1], stream[1:]


def _whole_numbers(name: str, ids: Ids) -> Ids:
    check_whole(name, ids)
    return ids.to(torch.int64)


def _device(model: TransformerLM) -> torch.device:
    return next(check_kind("model", model, TransformerLM).parameters()).device


def _score(losses: Losses) -> Score:
    return Score(losses.sum(dtype=torch.float64).item(), len(losses))
