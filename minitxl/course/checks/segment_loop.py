"""Checks of the loop that reads a stream in segments with memory, of notebook 04."""

from collections.abc import Callable
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float, Num
from torch import Tensor

from minitxl.course.checker import Verdict, judge
from minitxl.memory import extend

Stream = Num[Tensor, "batch time"]


class Adder:
    """A model of one layer whose outputs can be checked in one's head: it adds up what each query sees.

    Its states are the tokens themselves, [layer batch seg model] with one layer of width 1.
    """

    def __call__(
        self, tokens: Num[Tensor, "batch seg"], memory: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the sum of memory and of the segment up to each query, [batch seg 1], and the states."""
        past = 0 if memory is None else memory[0, :, :, 0].sum(dim=1, keepdim=True)
        sums = tokens.double().cumsum(dim=1) + past
        return sums[..., None], rearrange(tokens.double(), "batch seg -> 1 batch seg 1")

    def empty_memory(self, batch: int) -> Float[Tensor, "1 batch 0 1"]:
        """Return a memory of zero tokens."""
        return torch.zeros(1, batch, 0, 1, dtype=torch.float64)

    def __repr__(self) -> str:
        return "a model that adds up the tokens each query sees"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Adder)

    __hash__ = None  # type: ignore[assignment]


CASES = [(6, 2, 2), (6, 2, 3), (8, 4, 2), (6, 3, 0), (5, 2, 4), (4, 4, 4)]
"""Tokens of the stream, seg_len and mem_len; the last segment may be shorter."""


def read(model: Any, tokens: Stream, seg_len: int, mem_len: int) -> Tensor:
    """Return what the model returns for every token, [batch time vocab], read segment after segment."""
    memory, outputs = model.empty_memory(len(tokens)), []
    for segment in tokens.split(seg_len, dim=1):
        log_probs, states = model(segment, memory)
        memory = extend(memory, states, mem_len=mem_len)
        outputs.append(log_probs)
    return torch.cat(outputs, dim=1)


def check_read(attempt: Callable[[Any, Tensor, int, int], Any]) -> Verdict:
    """Judge ``attempt(model, tokens, seg_len, mem_len)``: the outputs of all tokens, in order."""
    mistakes: dict[str, Callable[..., Any]] = {
        "every segment is read without memory: give it to the model, and keep what extend returns": (
            lambda model, tokens, seg_len, mem_len: read(model, tokens, seg_len, 0)
        ),
        "every token sees all tokens before it: split the stream into segments of seg_len tokens, and give "
        "mem_len to extend": lambda model, tokens, seg_len, mem_len: model(tokens)[0],
        "memory is replaced by the states of the last segment: extend it, so that older states stay": (
            lambda model, tokens, seg_len, mem_len: _loop(
                model, tokens, seg_len, lambda memory, states: states
            )
        ),
        "a list of segments is returned: join them along time, axis 1": (
            lambda model, tokens, seg_len, mem_len: list(
                read(model, tokens, seg_len, mem_len).split(seg_len, dim=1)
            )
        ),
        "the unfinished last segment is dropped: a rest shorter than seg_len is read as well": (
            lambda model, tokens, seg_len, mem_len: read(
                model, tokens[:, : tokens.shape[1] // seg_len * seg_len], seg_len, mem_len
            )
        ),
        "only the last segment is returned: keep the output of each, and join them along time": (
            lambda model, tokens, seg_len, mem_len: read(model, tokens, seg_len, mem_len).split(
                seg_len, dim=1
            )[-1]
        ),
        "the segments are joined along the batch: time is axis 1": (
            lambda model, tokens, seg_len, mem_len: torch.cat(
                read(model, tokens, seg_len, mem_len).split(seg_len, dim=1), dim=0
            )
        ),
        TOO_EARLY: lambda model, tokens, seg_len, mem_len: _read_twice(model, tokens, seg_len, mem_len),
        "memory is always the first segment's: keep what extend returns, at every segment": (
            lambda model, tokens, seg_len, mem_len: _loop(
                model,
                tokens,
                seg_len,
                lambda memory, states: memory if memory.shape[2] else extend(memory, states, mem_len=mem_len),
            )
        ),
    }
    cases = [
        (Adder(), torch.arange(1, rows * time + 1).reshape(rows, time), seg_len, mem_len)
        for rows, (time, seg_len, mem_len) in zip((1, 1, 1, 1, 2, 1), CASES, strict=True)
    ]
    return judge(
        attempt, reference=read, cases=cases, mistakes=mistakes, praise="every segment, with its memory"
    )


def _loop(model: Any, tokens: Stream, seg_len: int, update: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    memory, outputs = model.empty_memory(len(tokens)), []
    for segment in tokens.split(seg_len, dim=1):
        output, states = model(segment, memory)
        memory = update(memory, states)
        outputs.append(output)
    return torch.cat(outputs, dim=1)


TOO_EARLY = (
    "memory is extended before the segment is read: the segment then sees itself twice, and its future. "
    "Read first, with the memory of what came before"
)


def _read_twice(model: Any, tokens: Stream, seg_len: int, mem_len: int) -> Tensor:
    """Return the outputs of segments that are put into memory first, and then read."""
    memory, outputs = model.empty_memory(len(tokens)), []
    for segment in tokens.split(seg_len, dim=1):
        _, states = model(segment, memory)
        memory = extend(memory, states, mem_len=mem_len)
        outputs.append(model(segment, memory)[0])
    return torch.cat(outputs, dim=1)


def read_with_cuts(model: Any, tokens: Stream, seg_len: int, mem_len: int, every: int) -> Tensor:
    """Return what ``read`` returns, the gradient cut only in front of segments every, 2 · every, …"""
    return _cutting(model, tokens, seg_len, mem_len, lambda number: number % every == 0)


def _newest(joined: Tensor, mem_len: int) -> Tensor:
    return joined[:, :, max(0, joined.shape[2] - mem_len) :]


def _cutting(
    model: Any,
    tokens: Stream,
    seg_len: int,
    mem_len: int,
    cut: Callable[[int], bool],
    newest: Callable[[Tensor, int], Tensor] = _newest,
) -> Tensor:
    """Cut in front of those segments 1, 2, … for which ``cut`` is True."""
    memory, outputs = model.empty_memory(len(tokens)), []
    for number, segment in enumerate(tokens.split(seg_len, dim=1), start=1):
        output, states = model(segment, memory)
        memory = newest(torch.cat([memory, states], dim=2), mem_len)
        memory = memory.detach() if cut(number) else memory
        outputs.append(output)
    return torch.cat(outputs, dim=1)


def check_read_with_cuts(attempt: Callable[[Any, Tensor, int, int, int], Any]) -> Verdict:
    """Judge ``attempt(model, tokens, seg_len, mem_len, every)`` by its values and by where gradients go."""
    mistakes: dict[str, Callable[..., Any]] = {
        "the gradient is cut in front of every segment: detach memory only when `every` more were read": (
            lambda model, tokens, seg_len, mem_len, every: _cutting(
                model, tokens, seg_len, mem_len, lambda number: True
            )
        ),
        "the gradient is never cut: detach memory in front of segments every, 2 · every, …": (
            lambda model, tokens, seg_len, mem_len, every: _cutting(
                model, tokens, seg_len, mem_len, lambda number: False
            )
        ),
        "the cuts come one segment late: after `every` segments memory is detached at once": (
            lambda model, tokens, seg_len, mem_len, every: _cutting(
                model, tokens, seg_len, mem_len, lambda number: number % every == 1 % every and number > 1
            )
        ),
        "the cuts come too early: count the segments that were read, from 1": (
            lambda model, tokens, seg_len, mem_len, every: _cutting(
                model, tokens, seg_len, mem_len, lambda number: (number - 1) % every == 0
            )
        ),
        "the cuts come one segment early: memory is detached after `every` segments, not before": (
            lambda model, tokens, seg_len, mem_len, every: _cutting(
                model, tokens, seg_len, mem_len, lambda number: (number + 1) % every == 0
            )
        ),
        "there is one cut only: go on counting, and cut in front of 2 · every too": (
            lambda model, tokens, seg_len, mem_len, every: _cutting(
                model, tokens, seg_len, mem_len, lambda number: number == every
            )
        ),
        "[-0:] is everything: with mem_len 0 the slice [-mem_len:] keeps all tokens. Count what is "
        "forgotten from the front, max(0, length - mem_len)": lambda model, tokens, seg_len, mem_len, every: (
            _cutting(
                model,
                tokens,
                seg_len,
                mem_len,
                lambda number: number % every == 0,
                lambda joined, mem_len: joined[:, :, -mem_len:],
            )
        ),
        "memory is emptied where it should be cut: its values stay, only the gradient ends": (
            lambda model, tokens, seg_len, mem_len, every: torch.cat(
                [read(model, group, seg_len, mem_len) for group in tokens.split(seg_len * every, dim=1)],
                dim=1,
            )
        ),
    }
    cases = [
        (Adder(), torch.arange(1.0, time + 1, dtype=torch.float64)[None], seg_len, mem_len, every)
        for time, seg_len, mem_len, every in [
            (8, 2, 2, 2),
            (12, 2, 4, 3),
            (10, 2, 10, 2),
            (6, 2, 2, 1),
            (7, 3, 4, 2),
            (6, 2, 0, 2),
        ]
    ]
    outcome: Callable[[Callable[..., Any]], Callable[..., Any]] = _values_and_gradients
    return judge(
        outcome(attempt),
        reference=outcome(read_with_cuts),
        cases=cases,
        mistakes={sentence: outcome(wrong) for sentence, wrong in mistakes.items()},
        names=("model", "tokens", "seg_len", "mem_len", "every"),
        praise="right values, and gradients that end where they should",
    )


def _values_and_gradients(read_stream: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the outputs, and of the first token that each segment's end learns from."""

    def outcome(model: Any, tokens: Tensor, seg_len: int, mem_len: int, every: int) -> Any:
        leaf = tokens.clone().requires_grad_()
        outputs = read_stream(model, leaf, seg_len, mem_len, every)
        if not isinstance(outputs, Tensor):
            return outputs
        ends = outputs[
            0, [min(end, outputs.shape[1]) - 1 for end in range(seg_len, outputs.shape[1] + seg_len, seg_len)]
        ]
        learned_from = [
            int(torch.autograd.grad(end.sum(), leaf, retain_graph=True)[0][0].nonzero().min()) for end in ends
        ]
        return {"outputs": outputs.detach(), "first token that a segment's end learns from": learned_from}

    return outcome
