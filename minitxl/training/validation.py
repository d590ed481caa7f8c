"""Validation of a run: a subset of the validation text, scored as the model is trained.

The subset is lanes from all over the text. A lane begins without memory, so it has to be so long that its
beginning hardly counts. And there have to be several lanes, or the subset is one place of the text.
"""

from typing import NamedTuple

from torch import Tensor

from minitxl.data.batching import spread_lanes
from minitxl.inference.evaluation import Score, cached_lanes
from minitxl.model import TransformerLM
from minitxl.training import distributed
from minitxl.training.config import TrainConfig

SPANS = 8
"""If the tokens suffice, a lane is at least this many times as long as segment and memory together. So its
start, which is read without memory, is an eighth of it at most."""
FEWEST_LANES = 8
"""Fewest lanes where only part of the text is scored. If tokens are few, the lanes are shorter; there are
fewer lanes only if there are fewer tokens than this."""


class Subset(NamedTuple):
    """The lanes of a validation; scores compare only where they are the same."""

    lanes: int
    lane_tokens: int
    """Tokens scored in each lane."""

    @property
    def tokens(self) -> int:
        """Tokens scored in all."""
        return self.lanes * self.lane_tokens


def validate(
    model: TransformerLM, stream: Tensor, settings: TrainConfig, attention_len: int | None = None
) -> float:
    """Return bits per token on ``subset_of`` the stream.

    Segment, memory and window are those of training; with an ``attention_len``, memory and window are such
    that each query sees that many keys (``EvaluateConfig.attending``). Each process reads its share of the
    lanes.
    """
    evaluation = settings.evaluation
    if attention_len is not None:
        evaluation = evaluation.attending(attention_len)
    count = subset_of(stream, settings).lanes
    first, end = (count * rank // distributed.size() for rank in (distributed.rank(), distributed.rank() + 1))
    lanes = spread_lanes(stream, batch=count, tokens=settings.validate_tokens, share=slice(first, end))
    score = cached_lanes(model, lanes, evaluation) if len(lanes) else Score(0.0, 0)
    nats, scored = distributed.summed([score.nats, float(score.tokens)])
    return Score(nats, int(scored)).bits_per_token


def subset_of(stream: Tensor, settings: TrainConfig) -> Subset:
    """Return the lanes in which the subset is read: the same lanes for training's memory and for longer ones.

    There are as many lanes as in training, if each then holds ``SPANS`` times segment and memory. Otherwise
    there are fewer, as many as hold that. If only part of the text is scored, there are ``FEWEST_LANES``
    lanes at least, even if they are shorter, or one for each token; the whole text may be one lane. Tokens
    that don't fill all lanes are left out.
    """
    there = len(stream) - 1
    tokens = min(settings.validate_tokens, there)
    fewest = 1 if tokens == there else FEWEST_LANES
    lanes = min(tokens, max(fewest, min(settings.batch, tokens // (SPANS * _span(settings)))))
    return Subset(lanes, tokens // lanes)


def sufficient_tokens(settings: TrainConfig) -> int:
    """Return the tokens that ``FEWEST_LANES`` lanes hold, each of ``SPANS`` times segment and memory."""
    return FEWEST_LANES * SPANS * _span(settings)


def in_words(stream: Tensor, settings: TrainConfig) -> str:
    """Return one line that says how much of the validation text is scored, and in how many lanes."""
    there, subset = len(stream) - 1, subset_of(stream, settings)
    lanes = "1 lane" if subset.lanes == 1 else f"{subset.lanes:,} lanes from all over the text, each"
    size = f"{lanes} of {subset.lane_tokens:,}"
    return f"validation: {subset.tokens:,} of {there:,} tokens, in {size}, without memory at first"


def _span(settings: TrainConfig) -> int:
    """Return the tokens of a segment and of the longest memory that is validated."""
    return settings.seg_len + max((settings.mem_len, *settings.validate_attention_lens))
