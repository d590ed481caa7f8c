"""Check of notebook 13's model with a cache: one token through all layers."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from minitxl.config import ModelConfig
from minitxl.course.checker import Function, Verdict, judge
from minitxl.course.checks.one_query import solution_attend_one
from minitxl.model import Block, TransformerLM
from minitxl.position_encodings import distances, sinusoids

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
            for block in blocks_of(model)
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
        "block.attention_input is left out: in a pre-norm model, with a norm before each part of a layer, "
        "it is the LayerNorm before the attention": with_(normed=False),
        "the last norm is left out: log_probs of model.final_norm(x)": with_(finished=False),
        "all layers read the first layer's cache: each has its own keys and values": with_(
            own=("r", "longer")
        ),
        "all layers read the first layer's r: each has its own W_kR": with_(own=("cache", "longer")),
        "the cache is returned as it was: it holds the new token's key and value too": with_(grows=False),
        "the cache that was given is changed in place, and whoever holds it then has another: collect each "
        "layer's new keys and values in a list of your own": with_(in_place=True),
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
        model = random_model(norm, generator)
        sizes = model.config.n_head, kept, model.config.d_head
        cache = [
            tuple(torch.randn(sizes, generator=generator, dtype=torch.float64) for _ in range(2))
            for _ in model.blocks
        ]
        token = torch.randint(model.config.vocab_size, (1,), generator=generator)
        cases.append((model, token, cache, projected_distances(model, mem_len), mem_len))
    return cases


def blocks_of(model: TransformerLM) -> list[Block]:
    """Return the model's blocks, as their type."""
    return cast(list[Block], list(model.blocks))


def random_model(norm: Any, generator: torch.Generator) -> TransformerLM:
    """Return a small model in float64 whose weights are drawn wide: each mistake changes what it predicts."""
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
    in_place: bool = False,
    layers: int | None = None,
    upwards: bool = True,
    scored: bool = True,
    swapped: bool = False,
    exp: bool = False,
) -> Any:
    """Return one step of the model with its cache; the options make mistakes."""
    embedded = x = model.embed(rearrange(token, "seg -> 1 seg"))
    longer, steps = cache if in_place else list(cache), list(enumerate(blocks_of(model)))[:layers]
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
