"""Judges the exercises of notebook 04: extend, lanes that begin a new text, the context of L and M."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from einops import rearrange
from torch import Tensor

from minitxl.course.exercises import NOTHING, Verdict, judge
from minitxl.memory import extend

LENGTHS = [(4, 4, 4), (4, 6, 3), (3, 2, 8), (0, 3, 4), (5, 4, 0), (2, 5, 5), (6, 2, 6)]
"""Tokens of memory, of the segment, and mem_len: also M < L, M = 0 and an empty memory."""


def check_extend(attempt: Callable[[Tensor, Tensor, int], Any]) -> Verdict:
    """``attempt(memory, states, mem_len)``: the last mem_len tokens of both, detached."""
    draw = torch.Generator().manual_seed(4)
    cases = [
        (torch.randn(2, 3, mem, 5, generator=draw), torch.randn(2, 3, seg, 5, generator=draw), mem_len)
        for mem, seg, mem_len in LENGTHS
    ]
    verdict = judge(
        attempt,
        reference=lambda memory, states, mem_len: extend(memory, states, mem_len=mem_len),
        cases=cases,
        mistakes={
            "[-0:] is everything: with mem_len 0 the slice [-mem_len:] keeps all tokens. Count what is "
            "forgotten from the front, max(0, length - mem_len)": lambda memory, states, mem_len: _joined(
                memory, states
            )[:, :, -mem_len:],
            "the oldest tokens are kept, and the newest must be: forget from the front": (
                lambda memory, states, mem_len: _joined(memory, states)[:, :, :mem_len]
            ),
            "only the segment is kept: with M > L a part of the old memory stays. Join first, then cut": (
                lambda memory, states, mem_len: states[:, :, max(0, states.shape[2] - mem_len) :]
            ),
            "nothing is ever forgotten: mem_len is not used": lambda memory, states, mem_len: _joined(
                memory, states
            ),
            "memory and segment are joined in the wrong order: the past comes first": (
                lambda memory, states, mem_len: _newest(_joined(states, memory), mem_len)
            ),
            "memory is filled up with zeros to mem_len: a zero state is a token like any other, and takes "
            "its share of the softmax. Let memory be shorter": _padded,
            "memory is written in place: whoever kept the old one, to branch or to go back, now has the "
            "new one. Make a new tensor": _in_place,
        },
    )
    return verdict if not verdict.right else _check_graph(attempt, cases, verdict)


def _check_graph(
    attempt: Callable[..., Any], cases: list[tuple[Tensor, Tensor, int]], praise: Verdict
) -> Verdict:
    """Return True if a memory of right values is also detached and a tensor of its own."""
    for memory, states, mem_len in cases:
        old, new = memory.clone().requires_grad_(), states.clone().requires_grad_()
        found = attempt(old, new, mem_len)
        if found.requires_grad:
            return Verdict(
                False,
                "the values are right, and the stop-gradient is missing: the graph of this segment, and "
                "of all before it, stays alive and grows step by step. Detach the result",
            )
        if found.numel() and found.untyped_storage().data_ptr() in (
            old.untyped_storage().data_ptr(),
            new.untyped_storage().data_ptr(),
        ):
            return Verdict(
                False,
                "the values are right, but the result is a view: it shares its storage with what it was "
                "given, keeps all of that alive, and changes with it. Join first, which copies, then cut",
            )
    return praise


def _joined(memory: Tensor, states: Tensor) -> Tensor:
    return torch.cat([memory, states], dim=2)


def _newest(tokens: Tensor, mem_len: int) -> Tensor:
    return tokens[:, :, max(0, tokens.shape[2] - mem_len) :]


def _padded(memory: Tensor, states: Tensor, mem_len: int) -> Tensor:
    kept = _newest(_joined(memory, states), mem_len)
    missing = mem_len - kept.shape[2]
    return torch.cat([kept.new_zeros(*kept.shape[:2], missing, kept.shape[3]), kept], dim=2)


def _in_place(memory: Tensor, states: Tensor, mem_len: int) -> Tensor:
    kept = _newest(_joined(memory, states), mem_len)
    same = min(memory.shape[2], kept.shape[2])
    memory[:, :, memory.shape[2] - same :] = kept[:, :, kept.shape[2] - same :]
    return kept


def check_keep(attempt: Callable[[Tensor, int, int], Any]) -> Verdict:
    """``attempt(read, mem, seg)``: Bool[batch key], False for memory of an earlier text.

    ``read`` [batch] counts the tokens that each lane has read of its present text before this segment.
    """
    mistakes: dict[str, Callable[..., Tensor]] = {
        "inverted: True is seen, and False hides": lambda read, mem, seg: ~keep_flags(read, mem, seg),
        "the newest slots are hidden instead of the oldest: memory runs from old to new, so a lane that has "
        "read 2 tokens of its text keeps the *last* 2 slots": lambda read, mem, seg: torch.cat(
            [keep_flags(read, mem, 0).flip(1), torch.ones(len(read), seg, dtype=torch.bool)], dim=1
        ),
        "the segment is hidden too, or forgotten: there are mem + seg keys, and the last seg of them are "
        "always seen": lambda read, mem, seg: keep_flags(read, mem, 0),
        "all or nothing: a lane that has read some of its text keeps those slots, and hides only the ones "
        "before": lambda read, mem, seg: torch.cat(
            [(read > 0)[:, None].expand(-1, mem), torch.ones(len(read), seg, dtype=torch.bool)], dim=1
        ),
        "one lane's new text resets all lanes: each row has its own flags": lambda read, mem, seg: keep_flags(
            read.min().expand_as(read), mem, seg
        ),
        "one slot too many: with 0 tokens read, no slot is seen": lambda read, mem, seg: keep_flags(
            read + 1, mem, seg
        ),
    }
    cases = [
        (torch.tensor([0, 2, 9]), 4, 3),
        (torch.tensor([1, 0]), 3, 2),
        (torch.tensor([5]), 0, 2),
        (torch.tensor([3, 4, 5, 0]), 4, 1),
    ]
    return judge(attempt, reference=keep_flags, cases=cases, mistakes=mistakes)


def keep_flags(read: Tensor, mem: int, seg: int) -> Tensor:
    """[batch mem+seg]: the last ``read`` slots of memory, and all of the segment."""
    age = torch.cat([torch.arange(mem, 0, -1), torch.zeros(seg, dtype=torch.int64)])
    return age <= rearrange(read, "batch -> batch 1")


def check_context(answer: Mapping[str, Any], *, seg_len: int, mem_len: int) -> Verdict:
    """``answer``: the fewest, mean and most keys that the queries of one layer see, memory full."""
    right = {"fewest": mem_len + 1, "mean": mem_len + (seg_len + 1) / 2, "most": mem_len + seg_len}
    why = {
        "fewest": "the first query of a segment sees all of memory, and itself",
        "mean": "all of memory, and on average (L + 1) / 2 tokens of the segment",
        "most": "the last query sees all of memory and all of the segment",
    }
    for name, value in right.items():
        given = answer.get(name)
        if given is None or given is Ellipsis:
            return Verdict(False, NOTHING)
        if given != value:
            off = "a query sees itself too; " if given == value - 1 else ""
            return Verdict(False, f"{name}: {off}{why[name]}")
    return Verdict(True, f"from {right['fewest']} to {right['most']} keys, {right['mean']} on average")
