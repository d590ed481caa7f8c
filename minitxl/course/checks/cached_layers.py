"""Checks of notebook 13's model with a cache, one token through all layers, and of the loop around it."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from minitxl.config import ModelConfig
from minitxl.course.checks.generation import tokens_read
from minitxl.course.checks.one_query import solution_attend_one
from minitxl.course.verdicts import Function, Verdict, judge
from minitxl.memory import extend
from minitxl.model import Block, TransformerLM
from minitxl.positions import distances, sinusoids

Cache = list[tuple[Float[Tensor, "head _ dim"], Float[Tensor, "head _ dim"]]]
"""Keys and values of each layer."""
Distances = list[Float[Tensor, "head dist dim"]]
"""W_kR R of each layer, for the distances dist-1 … 0."""

NAMES = ["model", "token"]
"""Arguments that a message shows: the others are long."""


def projected_distances(model: TransformerLM, mem_len: int) -> Distances:
    """Return W_kR R of each layer for the distances mem_len … 0, which a token and its memory have."""
    like = next(model.parameters())
    R = sinusoids(distances(mem_len + 1, device=like.device), model.config.d_model, dtype=like.dtype)
    split = "dist (head dim) -> head dist dim"
    with torch.no_grad():
        return [
            rearrange(block.attention.get_submodule("W_kR")(R), split, head=model.config.n_head)
            for block in _blocks(model)
        ]


def solution_read_cached(
    model: TransformerLM, token: Int[Tensor, "1"], cache: Cache, r: Distances, mem_len: int
) -> tuple[Float[Tensor, " vocab"], Cache]:
    """Return log-probabilities of the token after this one, and the cache with this one in it."""
    return _read(model, token, cache, r, mem_len)


def reading_by(attend_one: Callable[..., tuple[Tensor, Tensor, Tensor]]) -> Function:
    """Return the package's function with this attention of one token in each layer."""
    return lambda *case: _read(*case, attend_one=attend_one)


def check_read_cached(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(model, token, cache, r, mem_len)``: log-probabilities, and each layer's cache."""

    def with_(**change: Any) -> Function:
        return lambda *case: _read(*case, **change)

    mistakes: dict[str, Function | Sequence[Function]] = {
        "each layer reads the embedding: read what the layer below has returned": with_(stacked=False),
        "block.after_attention is left out: the rest of the layer stands there": with_(after="nothing"),
        "hand x to block.after_attention as it was before the norm, and not block.attention_input(x)": with_(
            after="normed"
        ),
        "block.after_attention adds x itself: hand it what attend_one returned": with_(after="added"),
        "x and the attention are added, and no more: the rest of the layer is block.after_attention": with_(
            after="sum"
        ),
        "keys and values have changed places: attend_one takes and returns keys first": with_(swapped=True),
        "these are probabilities: return their logarithms, as model.output.log_probs does": with_(exp=True),
        "block.attention_input is left out: a pre-norm model has a LayerNorm before its attention": with_(
            normed=False
        ),
        "the last norm is left out: log_probs of model.final_norm(x)": with_(finished=False),
        "all layers read the first layer's cache: each has its own keys and values": with_(
            own=("r", "longer")
        ),
        "all layers read the first layer's r: each has its own W_kR": with_(own=("cache", "longer")),
        "the cache is returned as it was: it holds the new token's key and value too": with_(grows=False),
        "the cache of a single layer is returned: collect those of all": with_(own=("cache", "r")),
        "only the first layer is read: go through all of model.blocks": with_(layers=1),
        "the layers run from the last to the first: go through model.blocks in order": with_(upwards=False),
        "the numbers are states: model.output.log_probs makes log-probabilities of them": with_(scored=False),
    }
    praise = "each layer reads one token, and keeps its own keys and values"
    return judge(
        attempt,
        reference=solution_read_cached,
        cases=_cases(),
        mistakes=mistakes,
        praise=praise,
        names=NAMES,
    )


def _cases() -> list[tuple[Any, ...]]:
    """Return a cache that is empty, one that fills and one that is full, of pre-norm and post-norm models."""
    generator, cases = torch.Generator().manual_seed(29), []
    for norm, mem_len, kept in (("pre", 3, 0), ("post", 3, 2), ("pre", 2, 2)):
        model = _model(norm, generator)
        sizes = model.config.n_head, kept, model.config.d_head
        cache = [
            tuple(torch.randn(sizes, generator=generator, dtype=torch.float64) for _ in range(2))
            for _ in model.blocks
        ]
        token = torch.randint(model.config.vocab_size, (1,), generator=generator)
        cases.append((model, token, cache, projected_distances(model, mem_len), mem_len))
    return cases


def _blocks(model: TransformerLM) -> list[Block]:
    return cast(list[Block], list(model.blocks))


def _model(norm: Any, generator: torch.Generator) -> TransformerLM:
    config = ModelConfig(
        vocab_size=11, n_layer=2, d_model=16, n_head=2, d_head=8, d_inner=32, dropout=0.0, norm=norm
    )
    with torch.random.fork_rng(devices=[]):  # a new model draws random numbers
        model = TransformerLM(config).double().eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model


def _read(
    model: TransformerLM,
    token: Tensor,
    cache: Cache,
    r: Distances,
    mem_len: int,
    *,
    attend_one: Callable[..., tuple[Tensor, Tensor, Tensor]] = solution_attend_one,
    own: tuple[str, ...] = ("cache", "r", "longer"),
    stacked: bool = True,
    after: str = "all",
    normed: bool = True,
    finished: bool = True,
    grows: bool = True,
    layers: int | None = None,
    upwards: bool = True,
    scored: bool = True,
    swapped: bool = False,
    exp: bool = False,
) -> Any:
    """Return one step of the model with its cache; the options make mistakes."""
    embedded = x = model.embed(rearrange(token, "seg -> 1 seg"))
    longer, steps = list(cache), list(enumerate(_blocks(model)))[:layers]
    for n, block in steps if upwards else reversed(steps):
        below = x if stacked else embedded
        keys, values = cache[n if "cache" in own else 0]
        entering = block.attention_input(below) if normed else below
        r_of_layer = r[n if "r" in own else 0]
        keys, values = (values, keys) if swapped else (keys, values)
        attended, *new = attend_one(block.attention, entering[0], keys, values, r_of_layer, mem_len)
        longer[n] = new[0], new[1]
        x = _after(block, after, below, entering, rearrange(attended, "seg model -> 1 seg model"))
    x = model.final_norm(x) if finished else x
    result = model.output.log_probs(x)[0, -1] if scored else x[0, -1]
    return result.exp() if exp else result, (longer if "longer" in own else longer[-1]) if grows else cache


def _after(block: Block, after: str, x: Tensor, entering: Tensor, attended: Tensor) -> Tensor:
    """Return what the layer makes of its attention; all but "all" are mistakes."""
    return {
        "all": lambda: block.after_attention(x, attended),
        "nothing": lambda: attended,
        "normed": lambda: block.after_attention(entering, attended),
        "added": lambda: block.after_attention(x, x + attended),
        "sum": lambda: x + attended,
    }[after]()


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
        "block.attention_input is left out: the states of memory pass it before W_kE and W_v": with_(
            normed=False
        ),
        "keys and values have changed places: keys are made by W_kE, values by W_v": with_(swapped=True),
        "all layers begin with the first layer's states: memory holds those of each": with_(own=False),
        "the heads lie one after the other in the projected vector: split it as (head dim)": with_(
            split="mem (dim head) -> head mem dim"
        ),
        "the cache is empty after the prompt: project the states that its reading has returned": with_(
            kept=0
        ),
        "the cache holds the whole prompt: it keeps the last mem_len tokens, as extend does": with_(
            kept=None
        ),
        "the first states of the prompt are kept: keep the last mem_len": with_(last=False),
        "the cache is one token too short: it keeps the last mem_len": (
            with_(shorter=1),
            with_(shorter=1, window=0),
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
        model = _model(norm, generator)
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
    if len(each) > length:
        return Verdict(
            True,
            "each token is read once, and its keys and values are kept. But the prompt is read in more than "
            "one call: read at once it takes less time",
        )
    return verdict


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
    kept: int | None = -1,
    last: bool = True,
    shorter: int = 0,
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
        most = {-1: room, None: len(prompt), 0: 0}[kept]
        memory = extend(None, states, mem_len=most) if last else states[:, :, :most]
        cache = []
        for block, h in zip(_blocks(model), memory, strict=True):
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
            log_probs, longer = read_cached(model, token, cache, r, room)
            cache = longer if grows else cache
            predicted.append(log_probs)
    rows = torch.stack(predicted)
    written = rows[:length].argmax(dim=-1)
    rows = rows[late:].exp() if exp else rows[late:]
    written = torch.cat([prompt, written]) if prompted else written
    return {"both": (written, rows), "turned": (rows, written), "tokens": written}[returned]
