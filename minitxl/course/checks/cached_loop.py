"""Check of notebook 13's loop with a cache: the prompt at once, and then one token after the other."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, cast

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from minitxl.course.checker import Function, Verdict, judge
from minitxl.course.checks.cached_layers import (
    Cache,
    blocks_of,
    projected_distances,
    random_model,
    solution_read_cached,
)
from minitxl.course.checks.generation import tokens_read
from minitxl.memory import extend
from minitxl.model import TransformerLM


def solution_write_cached(
    model: TransformerLM, prompt: Int[Tensor, " seg"], length: int, mem_len: int
) -> tuple[Int[Tensor, " length"], Float[Tensor, "length vocab"]]:
    """Return the tokens written after the prompt, and the log-probabilities that each was taken from."""
    return cast(tuple[Tensor, Tensor], _write(model, prompt, length, mem_len))


def writing_by(read_cached: Callable[..., tuple[Tensor, Cache]]) -> Function:
    """Return the package's function with this reading of one token."""
    return lambda *case: _write(*case, read_cached=read_cached)


def check_write_cached(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(model, prompt, length, mem_len)``: tokens, and their log-probabilities."""

    def with_(**change: Any) -> Function:
        return lambda *case: _write(*case, **change)

    mistakes: dict[str, Function | Sequence[Function]] = {
        "the window is missing: in the prompt a query sees more tokens than one that comes later. Hand "
        "window=mem_len + 1 to the reading of the prompt": with_(window=None),
        "the window is one too short: a query sees itself and mem_len tokens before it, so window=mem_len + "
        "1": with_(window=0),
        "the window is one too long: a query sees itself and mem_len tokens before it, so window=mem_len + "
        "1": with_(window=2),
        "block.attention_input is left out: the states of memory pass it before W_kE and W_v": with_(
            normed=False
        ),
        "keys and values have changed places: keys are made by W_kE, values by W_v": with_(swapped=True),
        "all layers begin with the first layer's states: memory holds those of each": with_(own=False),
        "the heads lie one after the other in the projected vector: split it as (head dim)": with_(
            split="mem (dim head) -> head mem dim"
        ),
        "the cache is empty after the prompt: project the states that its reading has returned": with_(
            keep=lambda room, seg: 0
        ),
        "the cache holds the whole prompt: it keeps the last mem_len tokens, as extend does": with_(
            keep=lambda room, seg: seg
        ),
        "the first states of the prompt are kept: keep the last mem_len": with_(last=False),
        "the cache is one token too short: it keeps the last mem_len": (
            with_(shorter=1),
            with_(shorter=1, window=0),
        ),
        "after the prompt the cache is one token too short: extend keeps the last mem_len": with_(
            keep=lambda room, seg: room - 1
        ),
        "read_cached is given a mem_len that is one too small, so the cache becomes one token too short": (
            with_(reads=1)
        ),
        "the cache stays what it was after the prompt: read_cached returns a new one": with_(grows=False),
        "the prompt's last token is read twice: its prediction is there already, take from it": with_(
            again=True
        ),
        "that is the prediction after the prompt's first token: the next one is predicted at its last": with_(
            place=0
        ),
        "the predictions are one late: return those that the tokens were taken from, the first of which is "
        "the prompt's": with_(late=True),
        "these are probabilities: return the logarithms": with_(exp=True),
        "the prompt is no part of what was written: return the new tokens alone": with_(prompted=True),
        "return both, the tokens and the log-probabilities": with_(returned="tokens"),
        "the log-probabilities are returned before the tokens: return the tokens first": with_(
            returned="turned"
        ),
    }
    generator, cases = torch.Generator().manual_seed(31), []
    for norm, time, length, mem_len in (
        ("pre", 3, 6, 4),
        ("post", 7, 4, 3),
        ("pre", 9, 5, 4),
        ("pre", 4, 1, 2),
    ):
        model = random_model(norm, generator)
        prompt = torch.randint(model.config.vocab_size, (time,), generator=generator)
        cases.append((model, prompt, length, mem_len))
    praise = "the prompt is read at once, each token once, and its keys and values are kept"
    names = ["model", "prompt", "length", "mem_len"]
    verdict = judge(
        attempt, reference=solution_write_cached, cases=cases, mistakes=mistakes, praise=praise, names=names
    )
    if not verdict.right:
        return verdict
    _, prompt, length, _ = cases[0]
    each, *_ = tokens_read(attempt, cases[0])
    enough = len(prompt) + length - 1
    if sum(each) > enough:
        return Verdict(
            False,
            f"what you return is right, but to write {length} tokens after a prompt of {len(prompt)} the "
            f"model read {sum(each)} tokens, where {enough} are enough: read the prompt once, and each token "
            "written, but for the last",
        )
    read_by_model, projected, distances_projected = _work_of(attempt, cases[0])
    if read_by_model > len(prompt):
        return Verdict(
            False,
            f"what you return is right, but model(…) reads {read_by_model} tokens, and the prompt has "
            f"{len(prompt)}: such a loop keeps hidden states, and projects all of them again at each token. "
            "Call the model for the prompt alone, make keys and values of its states, and read each token "
            "written by read_cached",
        )
    at_most = len(prompt) * (len(prompt) + 3) // 2 + length - 1  # a prompt read token by token, and projected
    if projected > at_most:
        return Verdict(
            False,
            f"what you return is right, but W_kE of the first layer makes {projected} keys, where "
            f"{2 * len(prompt) + length - 1} are enough: keep the keys and values, and project the new token "
            "alone",
        )
    notes = []
    if len(each) > length:
        notes.append("the prompt is read in more than one call: read at once it takes less time")
    if distances_projected >= length - 1:
        notes.append(
            "r was projected at each token, though the distances are always the same: once, before the "
            "loop, is enough"
        )
    if notes:
        praise = "each token is read once, and its keys and values are kept"
        return Verdict(True, ". But ".join([praise, *notes]))
    return verdict


def _work_of(attempt: Callable[..., Any], case: tuple[Any, ...]) -> tuple[int, int, int]:
    """Return what was computed.

    The tokens that the model itself reads, the keys that its first layer projects, and how often that layer
    projects distances outside the model's own calls.
    """
    model, *others = deepcopy(case)
    read, projected, distances, last_hidden = list[int](), list[int](), list[bool](), model.last_hidden
    inside = list[bool]()

    def counted(tokens: Tensor, *given: Any, **options: Any) -> Any:
        read.append(tokens.numel())
        inside.append(True)
        output_and_states = last_hidden(tokens, *given, **options)
        inside.clear()
        return output_and_states

    model.last_hidden = counted
    attention = blocks_of(model)[0].attention
    W_kE, W_kR = attention.get_submodule("W_kE"), attention.get_submodule("W_kR")
    W_kR.register_forward_hook(lambda *given: distances.append(not inside))
    W_kE.register_forward_hook(lambda module, given, keys: projected.append(keys.numel() // keys.shape[-1]))
    attempt(model, *others)
    return sum(read), sum(projected), sum(distances)


def _write(
    model: TransformerLM,
    prompt: Tensor,
    length: int,
    mem_len: int,
    *,
    read_cached: Callable[..., Any] = solution_read_cached,
    window: int | None = 1,
    normed: bool = True,
    swapped: bool = False,
    own: bool = True,
    split: str = "mem (head dim) -> head mem dim",
    keep: Callable[[int, int], int] = lambda room, seg: room,
    last: bool = True,
    shorter: int = 0,
    reads: int = 0,
    grows: bool = True,
    again: bool = False,
    place: int = -1,
    late: bool = False,
    exp: bool = False,
    prompted: bool = False,
    returned: str = "both",
) -> Any:
    """Return what the loop with the cache writes and predicts; the options make mistakes."""
    r, room = projected_distances(model, mem_len), mem_len - shorter
    with torch.no_grad():
        seen = None if window is None else mem_len + window
        log_probs, states = model(rearrange(prompt, "seg -> 1 seg"), window=seen)
        most = keep(room, len(prompt))
        memory = extend(None, states, mem_len=most) if last else states[:, :, :most]
        cache = []
        for block, h in zip(blocks_of(model), memory, strict=True):
            h = h if own else memory[0]
            entering = (block.attention_input(h) if normed else h)[0]
            both = [block.attention.get_submodule(W)(entering) for W in ("W_kE", "W_v")]
            keys, values = (rearrange(one, split, head=model.config.n_head) for one in both)
            cache.append((values, keys) if swapped else (keys, values))
        predicted = [log_probs[0, place]]
        if again:
            predicted[0], cache = read_cached(model, prompt[-1:], cache, r, room)
        while len(predicted) < length + late:
            token = predicted[-1].argmax(dim=-1, keepdim=True)
            log_probs, longer = read_cached(model, token, cache, r, room - reads)
            cache = longer if grows else cache
            predicted.append(log_probs)
    rows = torch.stack(predicted)
    written = rows[:length].argmax(dim=-1)
    rows = rows[late:].exp() if exp else rows[late:]
    written = torch.cat([prompt, written]) if prompted else written
    return {"both": (written, rows), "turned": (rows, written), "tokens": written}[returned]
