"""The check of notebook 00's loop, which reads a text of any length segment by segment with a memory."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from minitxl.config import ModelConfig
from minitxl.course.checker import Verdict, judge
from minitxl.memory import extend
from minitxl.model import TransformerLM

CASES = [(7, 3, 4), (6, 3, 6), (8, 2, 5), (5, 2, 1), (4, 4, 4), (9, 4, 0)]
"""Tokens of the text, seg_len and mem_len; the last segment may be shorter."""


def solution_read(
    model: TransformerLM, tokens: Int[Tensor, " time"], seg_len: int, mem_len: int
) -> Float[Tensor, " vocab"]:
    """Return the probability of each character to come after the last token."""
    return _read(model, tokens, seg_len, lambda memory, states: extend(memory, states, mem_len=mem_len))


def _read(
    model: Any,
    tokens: Any,
    seg_len: int,
    remember: Callable[[Any, Any], Any],
    answer: Callable[[Any], Any] = lambda log_probs: log_probs[0, -1].exp(),
) -> Any:
    """Return ``answer`` of the last segment's log-probabilities; each is read with what is remembered."""
    with torch.inference_mode():
        memory = model.empty_memory(1)
        for segment in tokens[None].split(seg_len, dim=1):
            log_probs, states = model(segment, memory)
            memory = remember(memory, states)
        return answer(log_probs)


def _twice(model: Any, tokens: Any, seg_len: int, mem_len: int) -> Any:
    """Return the prediction of a loop that reads each segment again after it has been remembered."""
    with torch.inference_mode():
        memory = model.empty_memory(1)
        for segment in tokens[None].split(seg_len, dim=1):
            memory = extend(memory, model(segment, memory)[1], mem_len=mem_len)
            log_probs, _ = model(segment, memory)
        return log_probs[0, -1].exp()


def check_read(attempt: Callable[..., Any]) -> Verdict:
    """Judge ``attempt(model, tokens, seg_len, mem_len)`` on a small model of random weights."""

    def answering(answer: Callable[[Any], Any]) -> Callable[..., Any]:
        return lambda model, tokens, seg_len, mem_len: _read(
            model, tokens, seg_len, lambda memory, states: extend(memory, states, mem_len=mem_len), answer
        )

    mistakes: dict[str, Any] = {
        "every segment is read as if nothing stood before it: give the memory to the model, and hand on "
        "what remember returns": lambda model, tokens, seg_len, mem_len: solution_read(
            model, tokens, seg_len, 0
        ),
        "every token sees all tokens before it: split the text into segments of seg_len along time, dim=1, "
        "and give mem_len to remember": lambda model, tokens, seg_len, mem_len: solution_read(
            model, tokens, len(tokens), 0
        ),
        "the memory holds the last segment's states alone: remember joins it with them, and is given "
        "mem_len, not seg_len": [
            lambda model, tokens, seg_len, mem_len: _read(
                model, tokens, seg_len, lambda memory, states: states
            ),
            lambda model, tokens, seg_len, mem_len: _read(
                model,
                tokens,
                seg_len,
                lambda memory, states: extend(None, states, mem_len=mem_len),
            ),
        ],
        "memory and states are exchanged in remember: the past comes first": (
            lambda model, tokens, seg_len, mem_len: _read(
                model,
                tokens,
                seg_len,
                lambda memory, states: extend(None, torch.cat([states, memory], dim=2), mem_len=mem_len),
            )
        ),
        "this is the prediction after the first segment: return it after the loop, and not in it": (
            lambda model, tokens, seg_len, mem_len: solution_read(model, tokens[:seg_len], seg_len, mem_len)
        ),
        "a segment is read again after remember, with a memory that holds it already: one call gives both": (
            _twice
        ),
        "these are log-probabilities: .exp() makes probabilities of them": answering(
            lambda log_probs: log_probs[0, -1]
        ),
        "this is the prediction after the segment's first token: take the last place, [0, -1]": answering(
            lambda log_probs: log_probs[0, 0].exp()
        ),
        "these are the predictions after all tokens of the last segment: take the last place, [0, -1]": [
            answering(lambda log_probs: log_probs[0].exp()),
            answering(lambda log_probs: log_probs.exp()),
        ],
        "the axis of the batch is still there: there is one text, so take [0, -1]": answering(
            lambda log_probs: log_probs[:, -1].exp()
        ),
        "this is the likeliest character alone: return the probabilities of all": answering(
            lambda log_probs: log_probs[0, -1].argmax()
        ),
        "the unfinished last segment is dropped: a rest shorter than seg_len is read as well": (
            lambda model, tokens, seg_len, mem_len: solution_read(
                model, tokens[: len(tokens) // seg_len * seg_len], seg_len, mem_len
            )
        ),
    }
    model, draw = small_model(), torch.Generator().manual_seed(5)
    cases = [
        (model, torch.randint(model.config.vocab_size, (time,), generator=draw), seg_len, mem_len)
        for time, seg_len, mem_len in CASES
    ]
    return judge(
        attempt,
        reference=solution_read,
        cases=cases,
        mistakes=mistakes,
        praise="the package's probabilities, for memories longer and shorter than a segment, and for none",
        names=("model", "tokens", "seg_len", "mem_len"),
    )


def small_model() -> TransformerLM:
    """Return a small model whose predictions depend on all that it sees."""
    config = ModelConfig(5, n_layer=2, d_model=8, n_head=2, d_head=4, d_inner=16, dropout=0.0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        model = TransformerLM(config).eval()
    for parameter in model.parameters():
        parameter.data *= 20 if parameter.ndim > 1 else 1
    return model
