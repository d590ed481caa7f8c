"""Checks of notebook 03: predictions, a stream in lanes, and how much context each target has."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from einops import rearrange
from torch import Tensor

from minitxl.course.checker import Verdict, judge
from minitxl.course.predictions import Predictions, Question
from minitxl.data.batching import ContiguousBatches

predictions = Predictions(
    Question(
        "mean_context",
        "Segments of L = 64. From how many tokens is a prediction made, on average?",
        answer=32.5,
        tolerance=0.5,
        why="a prediction at offset o is made from o + 1 tokens; the mean of 1 … 64 is (64 + 1) / 2.",
        wrong={
            64: "Only the last prediction of a segment has 64 tokens, and the first has 1. The mean is 32.5.",
            128: "Nothing is seen beyond the cut: between 1 and 64 tokens, 32.5 on average.",
            31.5: "The token just read counts too: 1 to 64 tokens, not 0 to 63. The mean is 32.5.",
        },
    ),
    Question(
        "copy_at_offset_3",
        "Copy the token 8 back, of 16 symbols, in segments of 16. How often is it right at offset 3?",
        answer=1 / 16,
        tolerance=1 / 16,
        why="the token stands on the other side of the cut: a guess among 16 symbols, right in 1 of 16.",
        wrong={
            1.0: "Three tokens into the segment, the token 8 back stands behind the cut: a guess among 16 "
            "symbols, right in 1 of 16.",
            0.5: "Half of all offsets can see their token, but offset 3 never can: it guesses among 16.",
        },
    ),
    Question(
        "cuts",
        "The same text is cut one token later. Is the loss of a given token the same?",
        answer="change",
        choices=("change", "same"),
        why="each token then has another offset, and so another context.",
    ),
)


Batches = list[tuple[Tensor, Tensor]]
SHUFFLED = (
    "the segments are in another order, or dealt out to other rows: row b of a segment must continue row b "
    "of the one before, or memory will hand a row the past of another text. Cut whole lanes first"
)


def check_lanes(attempt: Callable[[Tensor, int, int], Any]) -> Verdict:
    """``attempt(stream, batch, seg_len)``: a list of pairs tokens, targets, each [batch seg]."""
    stream, cases = torch.arange(10, 60), []
    for batch, seg_len, length in [(2, 4, 21), (3, 3, 24), (4, 2, 40), (1, 5, 16)]:
        cases.append((stream[:length].clone(), batch, seg_len))

    def listed(stream: Tensor, batch: int, seg_len: int) -> Any:
        with torch.random.fork_rng(devices=[]):
            found = attempt(stream, batch, seg_len)
        return found if found is None or found is Ellipsis else [tuple(pair) for pair in found]

    mistakes: dict[str, Callable[..., Batches]] = {
        "the lanes are interleaved: '(time batch)' deals tokens out in turn, so that row b reads every "
        "batch-th one. A lane is a contiguous piece: '(batch time)'": partial(_lanes, interleaved=True),
        "the targets are not shifted: they equal the tokens, and copying the input scores perfectly. "
        "Target t is token t + 1": partial(_lanes, shift=0),
        "the targets are shifted the wrong way: they are the tokens before, and the one to predict "
        "comes after": partial(_lanes, shift=-1),
        "each segment is shifted by itself (roll): its last target is its own first token. The last "
        "target of a segment is the first token of the next one": _rolled,
        "each segment holds seg_len - 1 tokens: take seg_len + 1 from the lane, and leave out the last for "
        "the tokens, the first for the targets": _shorter,
        "segments begin one token apart: each begins where the one before has ended, seg_len further on": (
            partial(_lanes, gap="one")
        ),
        "the lanes are too short: each gets len(stream) // batch tokens, and the last of them is a target": (
            lambda stream, batch, seg_len: _lanes(
                stream[: (len(stream) - 1) // batch * batch], batch, seg_len
            )
        ),
        "segments are cut seg_len + 1 apart: every token at a cut is a target and never an input, so the "
        "next segment does not continue this one. Overlap them by that one token": partial(_lanes, gap=1),
        "windows are dealt out to the rows in turn: row b of the next segment does not continue row b of "
        "this one. Cut whole lanes first, then segments": _dealt,
        "the rest that fills no segment is returned too: its shape differs from the others'. "
        "Leave it out": partial(_lanes, rest=True),
    }
    verdict = judge(listed, reference=_lanes, cases=cases, mistakes=mistakes)
    if (
        not verdict.right
        and verdict.message not in mistakes
        and any(_strange(listed, *case) for case in cases)
    ):
        return Verdict(False, SHUFFLED)
    return verdict


def _lanes(
    stream: Tensor,
    batch: int,
    seg_len: int,
    *,
    interleaved: bool = False,
    shift: int = 1,
    gap: int | str = 0,
    rest: bool = False,
) -> Batches:
    """Return the segments of ``ContiguousBatches``, or the same with one mistake."""
    lanes = ContiguousBatches(stream, batch=batch, seg_len=seg_len).lanes
    if interleaved:
        lanes = rearrange(stream[: lanes.numel()], "(time batch) -> batch time", batch=batch)
    targets = lanes.roll(-shift, dims=1)
    last = lanes.shape[1] - 1
    step = seg_len + gap if isinstance(gap, int) else 1
    begins = range(0, last if rest else last - seg_len + 1, step)
    ends = [(begin, min(begin + seg_len, last)) for begin in begins]
    return [(lanes[:, begin:end], targets[:, begin:end]) for begin, end in ends]


def _shorter(stream: Tensor, batch: int, seg_len: int) -> Batches:
    return [(tokens[:, :-1], targets[:, :-1]) for tokens, targets in _lanes(stream, batch, seg_len)]


def _rolled(stream: Tensor, batch: int, seg_len: int) -> Batches:
    return [(tokens, tokens.roll(-1, dims=1)) for tokens, _ in _lanes(stream, batch, seg_len)]


def _dealt(stream: Tensor, batch: int, seg_len: int) -> Batches:
    number = (len(stream) - 1) // (batch * seg_len)
    pattern, sizes = "(segment batch seg) -> segment batch seg", {"batch": batch, "seg": seg_len}
    tokens, targets = (
        rearrange(stream[begin : begin + number * batch * seg_len], pattern, **sizes) for begin in (0, 1)
    )
    return list(zip(tokens, targets, strict=True))


def _strange(attempt: Callable[..., Any], stream: Tensor, batch: int, seg_len: int) -> bool:
    """Return True if segments are whole, but some row does not continue its previous segment."""
    try:
        found = attempt(stream, batch, seg_len)
        shape = batch, seg_len
        whole = all(tokens.shape == shape and torch.equal(targets, tokens + 1) for tokens, targets in found)
        rows = torch.cat([tokens for tokens, _ in found], dim=1)
    except Exception:
        return False
    return whole and rows.shape[1] > seg_len and not bool((rows.diff(dim=1) == 1).all())


def check_context_of(attempt: Callable[[int, int, int], Any]) -> Verdict:
    """``attempt(t, attention_len, stride)``: tokens of context that target t = 0, 1, … is predicted from."""
    mistakes: dict[str, Callable[..., int]] = {
        "every target gets the whole window: that is so with stride 1, after the first window. Of the "
        "targets that a window scores, each has one token more than the one before": (
            lambda t, attention_len, stride: attention_len
        ),
        "one too few: the token at offset o is read before the next one is predicted, so that target has "
        "o + 1 tokens of context": lambda t, attention_len, stride: context_of(t, attention_len, stride) - 1,
        "the stride is forgotten: these are isolated segments. A window that moves by less keeps "
        "attention_len - stride old tokens": lambda t, attention_len, stride: t % attention_len + 1,
        "the beginning is forgotten: the first window scores all its targets, and the first of them has "
        "1 token of context": lambda t, attention_len, stride: attention_len - stride + 1 + t % stride,
        "the old tokens are forgotten: a window that has moved by stride holds attention_len - stride of "
        "them before its first new one": lambda t, attention_len, stride: (
            t + 1 if t < attention_len else (t - attention_len) % stride + 1
        ),
        "after the first window, every target gets the whole window: that is so with stride 1 alone. Of the "
        "targets that a later window scores, each has one token more than the one before it": (
            lambda t, attention_len, stride: min(t + 1, attention_len)
        ),
        "one too few after the first window: the first new target of a window that has moved is predicted "
        "from attention_len - stride old tokens and one more": lambda t, attention_len, stride: (
            t + 1 if t < attention_len else attention_len - stride + (t - attention_len) % stride
        ),
        "the period is counted from the stream's first target: the windows begin to move after the first "
        "one, so count from t - attention_len": lambda t, attention_len, stride: (
            t + 1 if t < attention_len else attention_len - stride + 1 + t % stride
        ),
    }
    lengths = [(4, 4), (4, 1), (8, 4), (6, 5), (8, 2), (1, 1), (9, 6)]
    cases = [(t, attention_len, stride) for attention_len, stride in lengths for t in range(30)]
    return judge(attempt, reference=context_of, cases=cases, mistakes=mistakes)


def context_of(t: int, attention_len: int, stride: int) -> int:
    """Return tokens that target t of ``evaluation.sliding_losses`` is predicted from."""
    if t < attention_len:
        return t + 1
    return attention_len - stride + 1 + (t - attention_len) % stride
