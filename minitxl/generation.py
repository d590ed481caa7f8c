"""Text that goes on: the prompt is read once, and then one token at a time is drawn.

    tokens = sample(model, [prompt], length=200, mem_len=512, seed=0)

Prompts may be of different lengths, and each row is drawn as if it were alone.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot
from torch.nn.utils.rnn import pad_sequence

from minitxl import decoding
from minitxl.decoding import evaluating
from minitxl.model import TransformerLM

PIECE = 128
"""Tokens of a prompt that are read at once."""

Prompt = Int[Tensor, "_"]
LogProbs = Float[Tensor, "batch vocab"]


def sample(
    model: TransformerLM,
    prompts: Iterable[Prompt],
    *,
    length: int,
    mem_len: int,
    temperature: float | int = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
) -> Int[Tensor, "batch length"]:
    """``length`` tokens after each prompt; arguments as in ``stream``."""
    if length < 1:
        raise ValueError(f"length must be 1 or more, got {length}")
    drawn = stream(
        model, prompts, mem_len=mem_len, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed
    )
    return torch.stack(list(islice(drawn, length)), dim=1)


def stream(
    model: TransformerLM,
    prompts: Iterable[Prompt],
    *,
    mem_len: int,
    temperature: float | int = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
) -> Iterator[Int[Tensor, " batch"]]:
    """The next token of every text, without end.

    A token is predicted from the ``mem_len`` before the last and the last. ``temperature``
    0 takes the likeliest; ``top_k`` leaves the k likeliest to draw from, ``top_p`` the
    fewest likeliest that have this probability together. Row b draws from a generator of
    its own, seeded with ``seed`` + b: no row depends on the others.

    A model with absolute positions keeps no cache: it reads its last ``mem_len`` + 1
    tokens anew for each token, as in training, from position 0.
    """
    prompts = list(prompts)
    _check(prompts, mem_len, temperature, top_k, top_p)
    device = next(model.parameters()).device
    generators = [torch.Generator(device).manual_seed(seed + row) for row in range(len(prompts))]

    def draw(log_probs: LogProbs) -> Int[Tensor, " batch"]:
        likely = keep_likely(log_probs, temperature=temperature, top_k=top_k, top_p=top_p)
        rows = zip(likely, generators, strict=True)
        return torch.cat([torch.multinomial(row, 1, generator=generator) for row, generator in rows])

    texts = [prompt.to(device, torch.int64) for prompt in prompts]
    return (_slide if model.config.attention == "absolute" else _remember)(model, texts, mem_len, draw)


def keep_likely(
    log_probs: LogProbs,
    *,
    temperature: float | int = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Float[Tensor, "batch vocab"]:
    """The probabilities to draw from."""
    if temperature == 0:
        return one_hot(log_probs.argmax(dim=-1), log_probs.shape[-1]).to(log_probs.dtype)
    probs, order = (log_probs / temperature).softmax(dim=-1).sort(dim=-1, descending=True, stable=True)
    if top_k is not None:
        probs[:, top_k:] = 0.0
    if top_p is not None:
        before = probs.cumsum(dim=-1) - probs
        probs[before >= top_p * probs.sum(dim=-1, keepdim=True)] = 0.0
    probs = probs / probs.sum(dim=-1, keepdim=True)
    return torch.zeros_like(probs).scatter(-1, order, probs)


def _remember(
    model: TransformerLM, prompts: list[Prompt], mem_len: int, draw: Callable[[LogProbs], Tensor]
) -> Iterator[Tensor]:
    """With keys and values kept. The window makes it the same however the prompt is cut."""
    tokens = pad_sequence(prompts, batch_first=True, padding_side="left")
    keep = pad_sequence(
        [torch.ones_like(prompt, dtype=torch.bool) for prompt in prompts],
        batch_first=True,
        padding_side="left",
    )
    cache = decoding.start(model, batch=len(prompts), mem_len=mem_len, window=mem_len + 1)
    for piece, seen in zip(tokens.split(PIECE, dim=1), keep.split(PIECE, dim=1), strict=True):
        log_probs, cache = decoding.step(model, piece, cache, keep=None if keep.all() else seen)
    while True:
        drawn = draw(log_probs[:, -1])
        yield drawn
        log_probs, cache = decoding.step(model, rearrange(drawn, "batch -> batch 1"), cache)


def _slide(
    model: TransformerLM, texts: list[Prompt], mem_len: int, draw: Callable[[LogProbs], Tensor]
) -> Iterator[Tensor]:
    """With every text's last tokens read anew, from position 0."""
    while True:
        with evaluating(model):
            windows = [rearrange(text[-(mem_len + 1) :], "time -> 1 time") for text in texts]
            hidden = [model.hidden(window, last=1, path="fused")[0] for window in windows]
            log_probs = model.output.log_probs(torch.cat(hidden))
        drawn = draw(log_probs[:, -1])
        yield drawn
        texts = [torch.cat([text, token]) for text, token in zip(texts, drawn.split(1), strict=True)]


def _check(
    prompts: list[Prompt], mem_len: int, temperature: float | int, top_k: int | None, top_p: float | None
) -> None:
    if not prompts or not all(len(prompt) for prompt in prompts):
        lengths = [len(prompt) for prompt in prompts]
        raise ValueError(f"each prompt must hold 1 token or more, got prompts of {lengths} tokens")
    if mem_len < 0:
        raise ValueError(f"mem_len must be 0 or more, got {mem_len}")
    if temperature < 0:
        raise ValueError(f"temperature must be 0 or more, got {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be 1 or more, got {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p must lie in (0, 1], got {top_p}")
