"""Checks of notebook 00: predictions, losses by offset, one memory step, and sizes with a reach of 1,000."""

from collections.abc import Callable, Mapping
from functools import partial
from math import log, log2
from typing import Any

import torch
from einops import reduce
from torch import Tensor

from minitxl import memory
from minitxl.course.checker import Verdict, judge
from minitxl.course.predictions import Predictions, Question

predictions = Predictions(
    Question(
        "change",
        "In the stored training with segments of 32: which change saves more bits per character?",
        answer="positions",
        choices=("positions", "memory"),
        why="relative positions save several times as much as the memory, in each of the three stored seeds.",
        wrong={
            "memory": "The memory saves a lot at the beginning of a segment, but those are few of 32. "
            "On average relative positions save several times as much, in each of the stored seeds.",
        },
    ),
    Question(
        "where",
        "In which part of a segment does the memory save the most?",
        answer="beginning",
        choices=("beginning", "end", "everywhere"),
        why="the first prediction of a segment is made from one character; later ones have more of it.",
        wrong={
            "end": "At the end of a segment a model has a whole segment of context without any memory.",
            "everywhere": "It may help everywhere, but most where there is little else: at the beginning.",
        },
    ),
    Question(
        "cheaper",
        "Which is cheaper, sliding a window or reading on with a memory?",
        answer="cached",
        choices=("sliding", "cached"),
        why="sliding computes a whole window anew for each character, cached reading one position.",
    ),
    Question(
        "reach",
        "3 layers, L = M = 32: how far back can a character stand and still influence the last prediction?",
        answer=127,
        why="31 + 32 with the first layer, and a segment of 32 more with each of the 2 others.",
        wrong={
            31: "That is the segment alone. One layer reaches 31 + 32 = 63, each of the 2 others adds 32.",
            32: "That is one memory. One layer reaches 31 + 32 = 63, and each of the 2 others adds 32.",
            63: "That is one layer's reach. States in memory have looked back too: each other layer adds 32.",
            64: "One layer reaches 63, since the token itself is 0 back; and each of the 2 others adds 32.",
            95: "That is 2 layers' reach: there are 3.",
            96: "That is 3 memories. But the last token of a segment also looks back 31 in its own segment.",
            128: "128 is counted from the character that is predicted. The question counts from the last one "
            "that was read, which is 0 back: 31 + 32 + 32 + 32 = 127.",
            192: "That is 3 times 64. Only the first layer adds segment and memory: 63 + 32 + 32.",
        },
    ),
)


def solution_bits_by_offset(losses: Tensor, seg_len: int) -> Tensor:
    """Return the mean of ``losses`` [time], in nats, at each offset of the whole segments, in bits."""
    return reduce(_segments(losses, seg_len) / log(2), "segment offset -> offset", "mean")


def _segments(losses: Tensor, seg_len: int) -> Tensor:
    return losses[: len(losses) // seg_len * seg_len].unflatten(0, (-1, seg_len))


def check_bits_by_offset(attempt: Callable[[Tensor, int], Tensor]) -> Verdict:
    """``attempt(losses, seg_len)``: [time] in nats to [offset] in bits."""
    draw = torch.Generator().manual_seed(1)
    cases = [(torch.tensor([4.0, 2.0, 1.0, 6.0, 3.0, 1.0]) * log(2), 3)]
    cases += [
        (5 * torch.rand(time, generator=draw), seg_len)
        for time, seg_len in [(8, 2), (12, 4), (11, 3), (30, 7)]
    ]

    def mistake(of: Callable[[Tensor], Tensor], losses: Tensor, seg_len: int) -> Tensor:
        return of(_segments(losses, seg_len) / log(2))

    mistakes: dict[str, Callable[..., Tensor] | list[Callable[..., Tensor]]] = {
        "these are nats: a bit is ln 2 nats, so divide by log(2)": lambda losses, seg_len: (
            solution_bits_by_offset(losses, seg_len) * log(2)
        ),
        "multiplied by ln 2: a bit is ln 2 ≈ 0.69 nats, so there are more bits than nats. Divide": (
            lambda losses, seg_len: solution_bits_by_offset(losses, seg_len) * log(2) ** 2
        ),
        "these are means over segments, one for each segment: take the mean over the axis segment and keep "
        "the axis offset": partial(mistake, lambda bits: bits.mean(dim=1)),
        "these are sums over the segments: divide by their number": partial(
            mistake, lambda bits: bits.sum(dim=0)
        ),
        "this is the mean over everything: keep the axis offset": partial(mistake, lambda bits: bits.mean()),
        "offset and segment are exchanged: neighbours in the text stand in one segment, so the pattern is "
        "'(segment offset)'": lambda losses, seg_len: (
            _segments(losses, seg_len).flatten().unflatten(0, (seg_len, -1)).mean(dim=1) / log(2)
        ),
        "the unfinished tail is kept: leave out what fills no whole segment": lambda losses, seg_len: (
            torch.stack([losses[offset::seg_len].mean() for offset in range(seg_len)]) / log(2)
        ),
        "these are the losses of the first segment alone": partial(mistake, lambda bits: bits[0]),
        "log(10) turns nats into decimal digits: a bit is log(2) nats": lambda losses, seg_len: (
            solution_bits_by_offset(losses, seg_len) / log2(10)
        ),
        "the losses need not fill whole segments: cut the tail off first (Hint 1)": [
            partial(_uncut, by_einops=by_einops, unit=unit)
            for by_einops in (True, False)
            for unit in (1.0, log(2))
        ],
    }
    return judge(attempt, reference=solution_bits_by_offset, cases=cases, mistakes=mistakes)


def _uncut(losses: Tensor, seg_len: int, *, by_einops: bool, unit: float) -> Tensor:
    """Return means by offset, or the error of axes that do not divide."""
    if by_einops:
        return reduce(losses / unit, "(segment offset) -> offset", "mean", offset=seg_len)
    return (losses / unit).reshape(-1, seg_len).mean(dim=0)


def solution_remember(memory: Tensor, states: Tensor, mem_len: int) -> Tensor:
    """Return the last ``mem_len`` tokens of memory and segment, [layer batch new_mem model]."""
    return _newest(torch.cat([memory, states], dim=2), mem_len)


def _newest(joined: Tensor, mem_len: int) -> Tensor:
    return joined[:, :, max(0, joined.shape[2] - mem_len) :]


def check_remember(attempt: Callable[[Tensor, Tensor, int], Tensor]) -> Verdict:
    """Judge ``attempt(memory, states, mem_len)`` by its values; the first cases are those of the notebook."""
    draw = torch.Generator().manual_seed(2)
    numbers = torch.arange(1.0, 10.0).reshape(1, 1, 9, 1)
    cases = [(numbers[:, :, begin:cut], numbers[:, :, cut : cut + 3], 4) for begin, cut in ((0, 3), (2, 6))]
    cases += [
        (torch.randn(2, 3, mem, 5, generator=draw), torch.randn(2, 3, seg, 5, generator=draw), mem_len)
        for mem, seg, mem_len in [(0, 3, 4), (4, 6, 3), (5, 4, 0), (3, 2, 8), (4, 4, 4)]
    ]

    def joined(memory: Tensor, states: Tensor) -> Tensor:
        return torch.cat([memory, states], dim=2)

    def along(axis: int, memory: Tensor, states: Tensor, mem_len: int) -> Tensor:
        return _newest(torch.cat([memory, states], dim=axis), mem_len)

    mistakes: dict[str, Callable[..., Tensor] | list[Callable[..., Tensor]]] = {
        "[-0:] is everything: with mem_len 0 nothing is remembered, and the slice [-mem_len:] keeps all. "
        "Count what is forgotten from the front (Hint 2)": lambda memory, states, mem_len: joined(
            memory, states
        )[:, :, -mem_len:],
        "while fewer than mem_len tokens are there, nothing is to be forgotten: their number less mem_len is "
        "below 0 then, and a slice that begins below 0 counts from the end. max(0, …) mends it": (
            lambda memory, states, mem_len: joined(memory, states)[
                :, :, memory.shape[2] + states.shape[2] - mem_len :
            ]
        ),
        "the oldest tokens are kept: the newest must be, so forget from the front": (
            lambda memory, states, mem_len: joined(memory, states)[:, :, :mem_len]
        ),
        "only the segment is remembered: a memory longer than a segment keeps a part of the old one": [
            lambda memory, states, mem_len: _newest(states, mem_len),
            lambda memory, states, mem_len: states[:, :, -mem_len:],
        ],
        "the old memory is kept and the segment is not: join the two": (
            lambda memory, states, mem_len: _newest(memory, mem_len)
        ),
        "nothing is ever forgotten: keep mem_len tokens, or all if there are fewer": (
            lambda memory, states, mem_len: joined(memory, states)
        ),
        "the segment stands before its past: memory comes first": lambda memory, states, mem_len: _newest(
            joined(states, memory), mem_len
        ),
        "joined along another axis than time: that is axis 2, of [layer batch time model]": [
            partial(along, axis) for axis in (0, 1, 3)
        ],
        "the newest M tokens come in the order of the text, and these are turned round": (
            lambda memory, states, mem_len: solution_remember(memory, states, mem_len).flip(2)
        ),
    }
    return judge(
        attempt,
        reference=solution_remember,
        cases=cases,
        mistakes=mistakes,
        praise="the newest states, for memories longer and shorter than a segment, and for none",
    )


WANTED = 1000
"""Tokens that the exercises on reach ask for."""


def check_choice(choice: Mapping[str, Any], *, shorter: bool = False) -> Verdict:
    """``n_layer``, ``seg_len`` and ``mem_len`` of a longest reach of exactly 1,000 tokens.

    M must be L, or less than L where ``shorter``, and there must be 2 layers.
    """
    sizes = [choice.get(name) for name in ("n_layer", "seg_len", "mem_len")]
    if all(size is None or size is Ellipsis for size in sizes):
        return Verdict.of_nothing()
    if not all(isinstance(size, int) for size in sizes):
        return Verdict(False, f"n_layer, seg_len and mem_len are whole numbers, got {sizes}")
    n_layer, seg_len, mem_len = map(int, sizes)  # type: ignore[arg-type]
    if n_layer < 2 or seg_len < 1 or mem_len < 1:
        return Verdict(False, "there must be 2 layers, and 1 token of segment and of memory, at least")
    if shorter and mem_len >= seg_len:
        return Verdict(False, f"the memory of {mem_len} must be shorter than the segment of {seg_len}")
    if not shorter and mem_len != seg_len:
        return Verdict(
            False, f"the memory must be as long as the segment, got M = {mem_len} and L = {seg_len}"
        )
    reached = memory.longest_reach(n_layer=n_layer, seg_len=seg_len, mem_len=mem_len)
    if reached == WANTED:
        return Verdict(True, f"{WANTED:,} tokens")
    mistakes = {
        f"that is one layer's reach; {n_layer} layers reach {reached:,}": seg_len - 1 + mem_len,
        f"off by one: {reached:,}. The last offset is seg_len - 1, and a token does not reach itself": (
            reached + (1 if reached < WANTED else -1)
        ),
        f"that is N·M, which leaves the query's own offset out; the reach is {reached:,}": n_layer * mem_len,
        f"that is L - 1 + N·M, but later layers add a whole segment each; the reach is {reached:,}": (
            seg_len - 1 + n_layer * mem_len
        ),
        f"that is N·(M + L), which counts the segment again in each layer; the reach is {reached:,}": (
            n_layer * (mem_len + seg_len)
        ),
    }
    hops = f"{seg_len - 1} + {mem_len} + {n_layer - 1} · {seg_len * -(-mem_len // seg_len)}"
    by_hops = f"{reached:,} tokens, by the formula above: {hops}"
    return Verdict(False, next((why for why, guess in mistakes.items() if guess == WANTED), by_hops))
