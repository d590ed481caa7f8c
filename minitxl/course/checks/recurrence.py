"""Checks of notebook 04: its predictions, extend, and variations of memory.

Those of its loop are in ``segment_loop``, and that of its gradient in ``gradient_parts``.
"""

from collections.abc import Callable
from typing import Any

import torch
from einops import rearrange
from torch import Tensor

from minitxl.course.checker import Verdict, judge
from minitxl.course.predictions import Predictions, Question
from minitxl.memory import extend

PREDICTIONS = Predictions(
    Question(
        "first_query",
        "How many keys does the first query of a segment see, with L = M = 256 and a full memory?",
        answer=257,
        why="it sees all 256 states of memory, and itself. Only the last query sees 512",
        wrong={
            256: "that is the memory alone: a query sees itself too",
            512: "that is what the last query of the segment sees; the first sees no other token of it",
            1: "that is a segment without memory: the memory of 256 states comes on top",
        },
    ),
    Question(
        "staircase",
        "Trained with M = 16 to copy the token 8 back, read with M = 4: right at how many of 16 offsets?",
        answer=12,
        why="the query at offset o looks back o + M tokens, and o + 4 ≥ 8 from offset 4 on",
        wrong={
            16: "with M = 4 the query at offset 0 looks back 4 tokens, and the token it wants is 8 back",
            8: "that is M = 0: a memory of 4 brings the token into sight at 4 more offsets",
            11: "the query at offset 4 looks back 4 + 4 = 8 tokens, so offset 4 counts too",
            4: "that is how many offsets memory adds; without it the last 8 are right already",
        },
    ),
    Question(
        "weights",
        "Does a part of the gradient of W_k come through the keys made from memory?",
        answer="yes",
        choices=("yes", "no"),
        why="W_k is applied now, after the stop-gradient, to the states of memory too",
        wrong={
            "no": "the states of memory are constants, but W_k is not: it multiplies them in this step, and "
            "the product depends on it"
        },
    ),
    Question(
        "old_states",
        "Does the loss of this segment reach what an earlier segment computed?",
        answer="no",
        choices=("yes", "no"),
        why="that is what the stop-gradient cuts: to this step, memory is a constant",
        wrong={"yes": "the way there leads through memory, and memory was detached when it was made"},
    ),
)

LENGTHS = [(2, 2, 3), (4, 4, 4), (4, 6, 3), (3, 2, 8), (0, 3, 4), (5, 4, 0), (2, 5, 5), (6, 2, 6)]
"""Tokens of memory, of the segment, and mem_len: also M < L, M = 0 and an empty memory."""


def check_extend(attempt: Callable[..., Any]) -> Verdict:
    """Judge ``attempt(memory, states, mem_len=)``: the last mem_len tokens of both, detached.

    The first case is small enough to be written out: one layer, one row, states of one number. For
    M = 0, None is accepted too, if the attempt also takes None for the memory it is given next.
    """
    draw = torch.Generator().manual_seed(4)
    (mem, seg, mem_len), *others = LENGTHS
    small = torch.arange(1.0, mem + seg + 1).reshape(1, 1, mem + seg, 1)
    cases = [(small[:, :, :mem], small[:, :, mem:], mem_len)] + [
        (torch.randn(2, 3, mem, 5, generator=draw), torch.randn(2, 3, seg, 5, generator=draw), mem_len)
        for mem, seg, mem_len in others
    ]

    def by_name(memory: Tensor, states: Tensor, mem_len: int) -> Any:
        extended = attempt(memory, states, mem_len=mem_len)
        if extended is None and mem_len == 0 and attempt(None, states, mem_len=0) is None:
            return states[:, :, :0]
        return extended

    verdict = judge(
        by_name,
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
    """Return ``praise`` if a memory of right values is also detached and a tensor of its own."""
    for memory, states, mem_len in cases:
        old, new = memory.clone().requires_grad_(), states.clone().requires_grad_()
        extended = attempt(old, new, mem_len=mem_len)
        if not (old.requires_grad and new.requires_grad):
            return Verdict(
                False,
                "the values are right, but what you were given is no longer as it was: detach_() cuts its "
                "argument itself, and with it the loss of the segment whose states these are. Use .detach(), "
                "which returns a new tensor",
            )
        if extended is None:
            continue
        if extended.requires_grad:
            return Verdict(
                False,
                "the values are right, and the stop-gradient is missing: the graph of this segment, and "
                "of all before it, stays alive and grows step by step. Detach the result",
            )
        if extended.numel() and extended.untyped_storage().data_ptr() in (
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
    newest = _newest(_joined(memory, states), mem_len)
    missing = mem_len - newest.shape[2]
    return torch.cat([newest.new_zeros(*newest.shape[:2], missing, newest.shape[3]), newest], dim=2)


def _in_place(memory: Tensor, states: Tensor, mem_len: int) -> Tensor:
    newest = _newest(_joined(memory, states), mem_len)
    same = min(memory.shape[2], newest.shape[2])
    memory[:, :, memory.shape[2] - same :] = newest[:, :, newest.shape[2] - same :]
    return newest


def check_segments_in_memory(attempt: Callable[[int, int, int], Any]) -> Verdict:
    """Judge ``attempt(offset, seg_len, mem_len)``: how many later segments can look at a state."""
    mistakes: dict[str, Callable[..., Any]] = {
        "a state late in its segment stays longer than an early one: the offset matters": (
            lambda offset, seg_len, mem_len: mem_len // seg_len
        ),
        "rounded up, every state of a segment would stay as long as its last one": (
            lambda offset, seg_len, mem_len: -(-mem_len // seg_len)
        ),
        "the offset has the wrong sign: a later state is newer, and is forgotten later": (
            lambda offset, seg_len, mem_len: max(0, mem_len - offset) // seg_len
        ),
        "its own segment does not count: there the state is not in memory yet": (
            lambda offset, seg_len, mem_len: segments_in_memory(offset, seg_len, mem_len) + 1
        ),
        "one token too many: with M = 1 and L = 4 only the state at offset 3 is kept": (
            lambda offset, seg_len, mem_len: (mem_len + offset + 1) // seg_len
        ),
        "a number of segments is whole: divide with //": (
            lambda offset, seg_len, mem_len: (mem_len + offset) / seg_len
        ),
    }
    cases = [
        (1, 2, 3),
        (3, 4, 1),
        (2, 4, 1),
        (0, 4, 4),
        (3, 4, 4),
        (3, 4, 6),
        (1, 4, 6),
        (0, 3, 0),
        (2, 3, 12),
    ]
    return judge(attempt, reference=segments_in_memory, cases=cases, mistakes=mistakes)


def segments_in_memory(offset: int, seg_len: int, mem_len: int) -> int:
    """Return the largest k with k · seg_len - offset ≤ mem_len."""
    return (mem_len + offset) // seg_len


def check_keep(attempt: Callable[[Tensor, int, int], Any]) -> Verdict:
    """Judge ``attempt(read, mem, seg)``: Bool[batch key], False for memory of an earlier text.

    ``read`` [batch] counts the tokens that each lane has read of its present text before this segment.
    """
    mistakes: dict[str, Callable[..., Tensor]] = {
        "inverted: True is seen, and False hides": lambda read, mem, seg: ~keep_flags(read, mem, seg),
        "the newest slots are hidden instead of the oldest: memory runs from old to new, so a lane that has "
        "read 2 tokens of its text keeps the *last* 2 slots": lambda read, mem, seg: torch.cat(
            [keep_flags(read, mem, 0).flip(1), torch.ones(len(read), seg, dtype=torch.bool)], dim=1
        ),
        "age < read is one too few, and hides the segment where nothing has been read: use ≤": (
            lambda read, mem, seg: keep_flags(read - 1, mem, seg)
        ),
        "one slot too few: 2 tokens of the text are the last 2 slots. Use ≤": lambda read, mem, seg: (
            torch.cat([keep_flags(read - 1, mem, 0), torch.ones(len(read), seg, dtype=torch.bool)], dim=1)
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
    """Return [batch mem+seg]: True for the last ``read`` slots of memory, and for all of the segment."""
    age = torch.cat([torch.arange(mem, 0, -1), torch.zeros(seg, dtype=torch.int64)])
    return age <= rearrange(read, "batch -> batch 1")
