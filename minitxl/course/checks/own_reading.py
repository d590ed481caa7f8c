"""The check of notebook 10c's reading: bits of a text, read in segments with a memory of any length."""

from collections.abc import Callable, Sequence
from math import log
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from minitxl.course.checker import Function, Verdict, judge
from minitxl.course.checks.reading import small_model
from minitxl.memory import extend
from minitxl.model import TransformerLM

CASES = [(13, 4, 4), (12, 4, 8), (11, 4, 2), (9, 3, 0)]
"""Targets of the text, seg_len and mem_len; the last segment may be shorter."""


def solution_bits_read(
    model: TransformerLM,
    tokens: Int[Tensor, "1 time"],
    targets: Int[Tensor, "1 time"],
    seg_len: int,
    mem_len: int,
) -> float:
    """Return mean bits of the targets, read in segments of ``seg_len`` with a memory of ``mem_len``."""
    return _mean(_nats(model, tokens, targets, seg_len, _extended(mem_len))) / log(2)


def _extended(mem_len: int) -> Callable[[Any, Any], Any]:
    return lambda memory, states: extend(memory, states, mem_len=mem_len)


def _nats(model: Any, tokens: Any, targets: Any, seg_len: int, remember: Callable[[Any, Any], Any]) -> Any:
    """Return the losses of each segment; each is read with what is remembered."""
    memory, nats = None, []
    with torch.no_grad():
        for segment, its_targets in zip(
            tokens.split(seg_len, dim=1), targets.split(seg_len, dim=1), strict=True
        ):
            losses, states = model.token_losses(segment, its_targets, memory)
            memory = remember(memory, states)
            nats.append(losses)
    return nats


def _joined(memory: Tensor | None, states: Tensor) -> Tensor:
    """Return all states, old and new."""
    return states if memory is None else torch.cat([memory, states], dim=2)


def _mean(nats: list[Tensor]) -> float:
    return torch.cat(nats, dim=1).mean().item()


def check_bits_read(attempt: Callable[..., Any]) -> Verdict:
    """Judge ``attempt(model, tokens, targets, seg_len, mem_len)`` on a small model of random weights."""

    def remembering(remember: Callable[[int], Callable[[Any, Any], Any]]) -> Function:
        return lambda model, tokens, targets, seg_len, mem_len: (
            _mean(_nats(model, tokens, targets, seg_len, remember(mem_len))) / log(2)
        )

    def answering(answer: Callable[[list[Tensor]], Any]) -> Function:
        return lambda model, tokens, targets, seg_len, mem_len: answer(
            _nats(model, tokens, targets, seg_len, _extended(mem_len))
        )

    mistakes: dict[str, Function | Sequence[Function]] = {
        "every segment is read without memory: hand on what extend returns to the next one": remembering(
            lambda mem_len: lambda memory, states: None
        ),
        "every target is predicted from all before it: split the text into segments of seg_len, along dim=1, "
        "and let extend keep the last mem_len states": [
            lambda model, tokens, targets, seg_len, mem_len: solution_bits_read(
                model, tokens, targets, tokens.shape[1], 0
            ),
            remembering(lambda mem_len: _joined),
        ],
        "where mem_len is 0, [-0:] keeps all states in place of none: let extend keep the last mem_len": (
            remembering(lambda mem_len: lambda memory, states: _joined(memory, states)[:, :, -mem_len:])
        ),
        "the memory holds the last segment's states, whatever mem_len says: give mem_len to extend": [
            remembering(lambda mem_len: lambda memory, states: states),
            lambda model, tokens, targets, seg_len, mem_len: solution_bits_read(
                model, tokens, targets, seg_len, seg_len
            ),
        ],
        "the memory never holds more than the last segment: extend is given the old memory too": remembering(
            lambda mem_len: lambda memory, states: extend(None, states, mem_len=mem_len)
        ),
        "these are nats: a bit is log 2 of them": answering(_mean),
        "a nat is more than a bit, so there are more bits than nats: divide by log 2": answering(
            lambda nats: _mean(nats) * log(2)
        ),
        "a short last segment counts as much as a long one: join all losses first, then take the mean": (
            answering(lambda nats: sum(one.mean().item() for one in nats) / len(nats) / log(2))
        ),
        "that is a sum: divide it by the number of targets": answering(
            lambda nats: sum(one.sum().item() for one in nats) / log(2)
        ),
        "those are the bits of the last segment alone: collect the losses of all": answering(
            lambda nats: nats[-1].mean().item() / log(2)
        ),
        "these are the bits of each target: return their mean": answering(
            lambda nats: torch.cat(nats, dim=1) / log(2)
        ),
    }
    model, draw = small_model(), torch.Generator().manual_seed(6)
    cases = []
    for time, seg_len, mem_len in CASES:
        text = torch.randint(model.config.vocab_size, (1, time + 1), generator=draw)
        cases.append((model, text[:, :-1], text[:, 1:], seg_len, mem_len))
    return judge(
        attempt,
        reference=solution_bits_read,
        cases=cases,
        mistakes=mistakes,
        praise="the package's bits, for memories longer and shorter than a segment, and for none",
        names=("model", "tokens", "targets", "seg_len", "mem_len"),
    )
