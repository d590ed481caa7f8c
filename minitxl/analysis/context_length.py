"""Length of the context that a model really uses, as opposed to the reach of its dependencies.

Two instruments, both in nats. Give models more and more context, and see from where on
it no longer helps: the effective context length of one model (Khandelwal et al. 2018), and the relative
effective context length, RECL, of a group over the same baseline (section 4.3 and Appendix C
of Dai et al. 2019). Or take a part of the memory away, and see what that costs.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import combinations, pairwise
from math import exp, sqrt
from statistics import NormalDist
from typing import Literal, NamedTuple

import torch
from einops import rearrange, reduce, repeat
from jaxtyping import Bool, Float, Integer
from torch import Tensor
from torch.nn.functional import pad

from minitxl.arguments import check_kind, check_rank
from minitxl.data.batching import ContiguousBatches, Segment
from minitxl.fast import fast_evaluation, kv_cache
from minitxl.fields import LONGEST, check, whole
from minitxl.inference.config import EvaluateConfig
from minitxl.inference.evaluation import sliding_losses
from minitxl.lstm import LSTMLM
from minitxl.memory import extend
from minitxl.model import Memory, States, Tokens, TransformerLM

Losses = Float[Tensor, " target"]
Lengths = Mapping[int, Losses]
"""Losses of the same targets in nats, by the number of tokens of context each was given."""
Group = Mapping[str, Lengths]
"""The models that are compared: ``losses[model][context_len]``."""


def context_losses(
    model: TransformerLM | LSTMLM,
    stream: Integer[Tensor, " time"],
    *,
    context_len: int,
    targets: int,
    settings: EvaluateConfig | None = None,
    batch: int = 64,
) -> Losses:
    """Return loss in nats of the stream's last ``targets`` tokens, each after exactly ``context_len`` others.

    Each context is read from an empty memory, or a state of zeros. A Transformer attends to all
    of it at once; with ``settings``, it reads it in segments with the memory those name. To an
    LSTM segments make no difference. For a model that can't read more than k tokens, take its
    losses at k for every longer context.
    """
    if not isinstance(model, LSTMLM):
        check_kind("model", model, TransformerLM)
    check_rank("stream", stream, "time")
    for name, value in (("context_len", context_len), ("targets", targets)):
        check(name, value, whole(1, LONGEST))
    if len(stream) < context_len + targets:
        raise ValueError(
            f"context_len and targets must be together at most the stream's {len(stream)} tokens, "
            f"got {context_len} and {targets}"
        )
    stream = stream[len(stream) - context_len - targets :]
    if settings is None and isinstance(model, TransformerLM):
        losses = sliding_losses(model, stream, attention_len=context_len, stride=1, batch=batch)
        return losses[context_len - 1 :]
    windows = stream.to(next(model.parameters()).device, torch.int64).unfold(0, context_len + 1, 1)
    with fast_evaluation(model) as fast_model:
        if isinstance(fast_model, LSTMLM):
            read = partial(_after_reading, fast_model)
        elif settings is not None:
            read = partial(_after_segments, fast_model, settings)
        return torch.cat([read(some[:, :-1], some[:, 1:]) for some in windows.split(batch)])


def _after_reading(model: LSTMLM, tokens: Tokens, targets: Tokens) -> Losses:
    """Return loss of each window's last target, from a state of zeros."""
    hidden, _ = model.last_hidden(tokens, n_last=1)
    return rearrange(model.losses(hidden, targets[:, -1:]), "target 1 -> target")


def _after_segments(
    model: TransformerLM, settings: EvaluateConfig, tokens: Tokens, targets: Tokens
) -> Losses:
    """Return loss of each window's last target, from an empty memory."""
    s = settings
    cache = kv_cache.start(
        model, batch=len(tokens), mem_len=s.mem_len, seg_len=s.seg_len, window=s.window, clamp_len=s.clamp_len
    )
    for segment, ahead in zip(tokens.split(s.seg_len, dim=1), targets.split(s.seg_len, dim=1), strict=True):
        losses, cache = kv_cache.token_losses(model, segment, ahead, cache)
    return losses[:, -1]


class ContextLength(NamedTuple):
    """The context length beyond which more context does not help."""

    tokens: int
    at_least: bool
    """The longest context that was tried still helped, so the length may be more."""


class Gain(NamedTuple):
    """The gain of a model's ``long`` context on the best of a group for each target with a ``short`` one."""

    short: int
    long: int
    perplexity: float
    """exp f(c, c) - exp f(c, c'), which figure 3 shows."""
    relative: float
    """g(c, c'): the same as a part of exp f(c, c)."""


def effective_context_length(losses: Lengths, *, threshold: float = 0.01) -> ContextLength:
    """Return ECL of one model: the first c where Δ more tokens lower its perplexity by less than 1 %.

    That is how section 4.3 sums up Khandelwal et al. The model is its own baseline, so one that
    is good with a short context has less to gain; this is what RECL mends.
    """
    steps = _steps({"the model": losses})
    means = {length: of.mean(dtype=torch.float64).item() for length, of in losses.items()}
    return _walk(((step, 1 - exp(means[step[1]] - means[step[0]])) for step in steps), threshold)


def recl(losses: Group, *, r: float, threshold: float = 0.01) -> dict[str, ContextLength]:
    """Return RECL of each model of a group (Appendix C): the first c where g(c, c + Δ) is below 1 %.

    The walk begins at the shortest context given, and Δ is the step from each to the next; in
    the paper both are 100. A length depends on Δ and on the group: state both.
    """
    steps = _steps(losses)
    return {
        name: _walk(((step, _gain(losses, name, *step, r=r).relative) for step in steps), threshold)
        for name in losses
    }


def gains(losses: Group, *, r: float) -> dict[str, list[Gain]]:
    """For each model, the gain of every pair of context lengths (figure 3)."""
    pairs = list(combinations(_lengths(losses), 2))
    return {name: [_gain(losses, name, *pair, r=r) for pair in pairs] for name in losses}


def gain(losses: Group, name: str, short: int, long: int, *, r: float) -> Gain:
    """g_i(c, c') of Appendix C, with c = ``short`` and c' = ``long``.

        b(c, t) = min_i l_i(c, t)              f_i(c, c') = mean over T of min(b(c, t), l_i(c', t))

    T is the fraction ``r`` of the targets, one at least, where b(c, t) is largest: those that no
    model predicts well from c tokens. Of equal ones the earlier are taken.
    """
    _lengths(losses)
    return _gain(losses, name, short, long, r=r)


def _gain(losses: Group, name: str, short: int, long: int, *, r: float) -> Gain:
    """Return ``gain`` of losses that ``_lengths`` has looked at."""
    if not 0 < r <= 1:
        raise ValueError(f"r must lie in (0, 1], got {r}")
    baseline = torch.stack([of[short] for of in losses.values()]).double().amin(dim=0)
    hardest = baseline.sort(descending=True, stable=True).indices[: max(1, round(r * len(baseline)))]
    before, after = (
        exp(torch.minimum(baseline, losses[name][length])[hardest].mean()) for length in (short, long)
    )
    return Gain(short, long, before - after, (before - after) / before)


def _walk(gains: Iterable[tuple[tuple[int, int], float]], threshold: float) -> ContextLength:
    """Return the first c whose gain from c + Δ is below the threshold; no later gain is asked for."""
    longest = 0
    for (short, long), gained in gains:
        if gained < threshold:
            return ContextLength(short, at_least=False)
        longest = long
    return ContextLength(longest, at_least=True)


def _steps(losses: Group) -> list[tuple[int, int]]:
    """Return each context length with the next, all equally far apart."""
    lengths = _lengths(losses)
    if len({long - short for short, long in pairwise(lengths)}) != 1:
        raise ValueError(f"context lengths must be 2 or more at equal steps, got {lengths}")
    return list(pairwise(lengths))


def _lengths(losses: Group) -> list[int]:
    """Return the context lengths of a group, which are those of each of its models."""
    if not losses:
        raise ValueError("a group must hold 1 model or more, got none")
    first, *_ = losses
    for name, of in losses.items():
        if of.keys() != losses[first].keys():
            raise ValueError(
                f"all models must have losses at the same context lengths, got {sorted(losses[first])} "
                f"for {first} and {sorted(of)} for {name}"
            )
    counts = sorted({len(some) for of in losses.values() for some in of.values()})
    if len(counts) != 1 or counts == [0]:
        raise ValueError(f"all losses must be of the same targets, 1 or more, got {counts} targets")
    if not all(some.isfinite().all() for of in losses.values() for some in of.values()):
        raise ValueError("all losses must be finite, got one that is not")
    return sorted(losses[first])


def memory_changes(
    model: TransformerLM,
    stream: Integer[Tensor, " time"],
    settings: EvaluateConfig,
    *,
    ages: tuple[int, int],
    how: Literal["hide", "shuffle"],
    batch: int = 1,
    seed: int = 0,
) -> Float[Tensor, "segment seg"]:
    """Return how many nats more each token costs where memory of these ages is masked or shuffled.

    The age of a state is how many tokens it stands before the first of the segment that reads it:
    1 … mem_len, and both ``ages`` are included. Masked states get no weight, and the rest share
    it. Shuffled ones change places, in all layers alike and in each lane and segment anew: what
    they hold is there, and their order is not.

    Only the segment that is scored meets the change. Its memory was made without one, and the
    text goes on without one. Segments are scored once the memory is full, lane by lane in the
    order of the text, which is read in ``batch`` lanes.
    """
    check_kind("model", model, TransformerLM)
    check_kind("settings", settings, EvaluateConfig)
    check_rank("stream", stream, "time")
    youngest, oldest = ages
    if not 1 <= youngest <= oldest:
        raise ValueError(f"ages must be two numbers with 1 ≤ first ≤ last, got {ages}")
    if how not in ("hide", "shuffle"):
        raise ValueError(f"how must be hide or shuffle, got {how!r}")
    segments = ContiguousBatches(
        stream.to(next(model.parameters()).device), batch=batch, seg_len=settings.seg_len
    )
    if (len(segments) - 1) * settings.seg_len < settings.mem_len:
        raise ValueError(
            f"each of the {batch} lanes must fill the memory of {settings.mem_len} tokens before its last "
            f"segment, got {len(segments)} segments of {settings.seg_len}"
        )
    age = torch.arange(settings.mem_len, 0, -1, device=segments.lanes.device)
    touched = (youngest <= age) & (age <= oldest)
    generator = torch.Generator().manual_seed(seed)
    memory, changes = None, []
    with fast_evaluation(model) as model:
        for index in range(len(segments)):
            losses, states = _read(model, segments[index], memory, settings)
            if memory is not None and memory.shape[2] == settings.mem_len:
                masked = touched if how == "hide" else torch.zeros_like(touched)
                past = memory if how == "hide" else _shuffled(memory, touched, generator)
                changed, _ = _read(model, segments[index], past, settings, masked)
                changes.append(changed - losses)
            memory = extend(memory, states, mem_len=settings.mem_len)
    return rearrange(torch.stack(changes), "segment batch seg -> (batch segment) seg")


def _read(
    model: TransformerLM,
    segment: Segment,
    memory: Memory | None,
    settings: EvaluateConfig,
    masked: Bool[Tensor, " mem"] | None = None,
) -> tuple[Float[Tensor, "batch seg"], States]:
    """Return losses and states of a segment, always with a key mask.

    With and without masked states the same products are computed, so that equal inputs give equal digits.
    """
    batch, seg = segment.tokens.shape
    if masked is None:
        masked = segment.tokens.new_zeros(0 if memory is None else memory.shape[2], dtype=torch.bool)
    key_mask = repeat(~pad(masked, (0, seg)), "key -> batch key", batch=batch)
    return model.token_losses(
        *segment, memory, window=settings.window, clamp_len=settings.clamp_len, key_mask=key_mask
    )


def _shuffled(memory: Memory, touched: Bool[Tensor, " mem"], generator: torch.Generator) -> Memory:
    """Memory with the tokens that are touched in another order in each lane."""
    layer, batch, mem, model = memory.shape
    order = repeat(torch.arange(mem), "mem -> batch mem", batch=batch).clone()
    places = touched.nonzero()[:, 0].cpu()
    for lane in order:
        lane[places] = places[torch.randperm(len(places), generator=generator)]
    index = repeat(order, "batch mem -> layer batch mem model", layer=layer, model=model)
    return memory.gather(2, index.to(memory.device))


class Interval(NamedTuple):
    """A mean, and the ends of its confidence interval."""

    mean: float
    low: float
    high: float


def mean_change(changes: Float[Tensor, "segment seg"], *, confidence: float = 0.95) -> Interval:
    """Return mean change in nats per token, with an interval by the normal approximation over segments.

    Tokens of a segment share what was done to it, so the segment is what is counted: mean ±
    z · s / √n, where s is the standard deviation of the n segments' means. Segments are taken as
    independent, which neighbours in a text are only nearly; below some 30 of them the interval
    is too narrow.
    """
    if len(changes) < 2:
        raise ValueError(f"an interval needs 2 segments or more, got {len(changes)}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie in (0, 1), got {confidence}")
    means = reduce(changes.double(), "segment seg -> segment", "mean")
    half = NormalDist().inv_cdf((1 + confidence) / 2) * means.std().item() / sqrt(len(means))
    mean = means.mean().item()
    return Interval(mean, mean - half, mean + half)
