"""Generate text: read the prompt once into a key-value cache, and then draw one token at a time.

(With absolute positions the text is read anew for each token, without a cache: see ``draw_tokens``.)

    tokens = sample(model, [prompt], length=200, mem_len=512, seed=0)

Prompts may be of different lengths, and no text depends on the others, but for rounding: text b draws from a
generator of its own, seeded with ``seed`` + b. (In bfloat16 rounding can change a draw.) A text ends after
``length`` tokens, or earlier, where it would contain a *stop*, a given sequence of tokens:

    texts = sample(model, prompts, length=200, mem_len=512, stop=[torch.tensor([newline])])
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Unpack, overload

import torch
from einops import rearrange
from jaxtyping import Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from minitxl.arguments import check_kind, check_rank
from minitxl.fast import kv_cache, to_fast
from minitxl.fast.bfloat16 import Precision, products_in
from minitxl.fields import LONGEST, check, optional, whole
from minitxl.inference import sampling
from minitxl.inference.sampling import LogProbs, SamplingOptions, repetition_penalty, sampling_probs
from minitxl.model import TransformerLM

PREFILL_CHUNK = 128
"""Tokens of a prompt that are read at once."""

Prompt = Int[Tensor, "_"]
Stops = list[list[int]]


@overload
def sample(
    model: TransformerLM,
    prompts: Iterable[Prompt],
    *,
    length: int,
    mem_len: int,
    stop: None = None,
    **options: Unpack[SamplingOptions],
) -> Int[Tensor, "batch length"]: ...


@overload
def sample(
    model: TransformerLM,
    prompts: Iterable[Prompt],
    *,
    length: int,
    mem_len: int,
    stop: Iterable[Prompt],
    **options: Unpack[SamplingOptions],
) -> list[Prompt]: ...


def sample(
    model: TransformerLM,
    prompts: Iterable[Prompt],
    *,
    length: int,
    mem_len: int,
    stop: Iterable[Prompt] | None = None,
    **options: Unpack[SamplingOptions],
) -> Int[Tensor, "batch length"] | list[Prompt]:
    """Return ``length`` tokens after each prompt; further arguments as in ``draw_tokens``.

    If ``stop`` is given, the result is a list with one tensor for each text. A text ends before the first
    stop that was drawn whole; a text of full length met no stop.
    """
    check_kind("model", model, TransformerLM)
    check("length", length, whole(1, LONGEST))
    prompts, stops = _texts("prompts", prompts), None if stop is None else _stops(stop)
    drawn = islice(draw_tokens(model, prompts, mem_len=mem_len, **options), length)
    if stops is None:
        return torch.stack(list(drawn), dim=1)
    device = next(model.parameters()).device
    texts = _ended(drawn, stops, n_text=len(prompts))
    return [torch.tensor(text, dtype=torch.int64, device=device) for text in texts]


def draw_tokens(
    model: TransformerLM,
    prompts: Iterable[Prompt],
    *,
    mem_len: int,
    clamp_len: int | None = None,
    precision: Precision = "float32",
    temperature: float | int = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    repetition: float | int = 1.0,
    repetition_window: int | None = 64,
    seed: int = 0,
) -> Iterator[Int[Tensor, " batch"]]:
    """Yield the next token of every text, without end.

    With one prompt, ``until(map(int, draw_tokens(...)), stops)`` ends the text at a stop.

    In each layer a query sees itself and the ``mem_len`` tokens before it. With a cache, text up to
    N · ``mem_len`` tokens back has an effect through N layers (``memory.reach``). A model with absolute
    positions keeps no cache: for each new token it reads the last ``mem_len`` + 1 tokens anew, as in
    training, from position 0, and no earlier token has an effect.

    - ``clamp_len``: keys at this distance or farther count as equally far (not in absolute). None means the
      model's own. A model that was trained with one needs it here too.
    - ``precision``: with bfloat16 the model's products are in bfloat16. With a cache, about half as many
      bytes are read for each new token.
    - ``repetition``: above 1, the scores of the tokens that the text has used fall (``repetition_penalty``).
      The probability of a used token may still rise, if a likelier used token loses more. It is applied
      before the other options.
    - ``repetition_window``: how many of the text's last tokens, prompt included, count as used; None is all.
      The default, 64, is llama.cpp's. Hugging Face counts all, but a long text has used most characters.
    - ``temperature``: divides the log-probabilities. 0 takes the likeliest token.
    - ``top_k``: leaves the k likeliest tokens to draw from.
    - ``top_p``: leaves the fewest tokens, the likeliest first, whose total probability is ``top_p`` or more.
    - ``seed``: text b draws from a generator of its own, seeded with ``seed`` + b.
    """
    check_kind("model", model, TransformerLM)
    prompts = _texts("prompts", prompts)
    _check(model, prompts, mem_len)
    check("clamp_len", clamp_len, optional(whole(0, LONGEST)))
    sampling.check(temperature, top_k, top_p, repetition, repetition_window, seed)
    device = next(model.parameters()).device
    generators = [torch.Generator(device).manual_seed(seed + b) for b in range(len(prompts))]
    texts = [prompt.to(device, torch.int64) for prompt in prompts]
    last_tokens = slice(None if repetition_window is None else -repetition_window, None)
    recent = [text[last_tokens] for text in texts]

    def draw(log_probs: LogProbs) -> Int[Tensor, " batch"]:
        nonlocal recent
        if log_probs.isnan().any():
            raise ValueError(
                "the model's log-probabilities must be finite, got NaN: its weights are too large"
            )
        scores = repetition_penalty(log_probs, recent, repetition=repetition)
        probs = sampling_probs(scores, temperature=temperature, top_k=top_k, top_p=top_p)
        pairs = zip(probs, generators, strict=True)
        drawn = [torch.multinomial(one, 1, generator=generator) for one, generator in pairs]
        if repetition != 1:
            recent = [torch.cat(pair)[last_tokens] for pair in zip(recent, drawn, strict=True)]
        return torch.cat(drawn)

    if model.config.has_absolute_positions:
        return _slide(model, texts, mem_len, precision, draw)
    return _remember(model, texts, mem_len, clamp_len, precision, draw)


def until(tokens: Iterable[int], stop: Iterable[Prompt]) -> Iterator[int]:
    """Yield one text's tokens before its first stop; what may be the beginning of a stop is held back."""
    return _hold_back(tokens, _stops(stop))


def _hold_back(tokens: Iterable[int], stops: Stops) -> Iterator[int]:
    pending: list[int] = []
    for token in tokens:
        pending.append(token)
        if stop_length := _stop_length(pending, stops):
            yield from pending[:-stop_length]
            return
        sure = len(pending) - _begun(pending, stops)
        yield from pending[:sure]
        del pending[:sure]
    yield from pending


def _ended(drawn: Iterable[Tensor], stops: Stops, *, n_text: int) -> list[list[int]]:
    """Return each text before its first complete stop; nothing more is drawn once all have ended."""
    texts: list[list[int]] = [[] for _ in range(n_text)]
    going = set(range(n_text))
    for tokens in drawn:
        given = tokens.tolist()
        for b in sorted(going):
            texts[b].append(given[b])
            if stop_length := _stop_length(texts[b], stops):
                del texts[b][-stop_length:]
                going.remove(b)
        if not going:
            break
    return texts


def _stop_length(text: Sequence[int], stops: Stops) -> int:
    """Return the length of the longest stop that the text ends with; 0 if there is none."""
    return max((len(stop) for stop in stops if text[-len(stop) :] == stop), default=0)


def _begun(text: Sequence[int], stops: Stops) -> int:
    """Return how many of the text's last tokens may be the beginning of a stop."""
    return _stop_length(text, [stop[:size] for stop in stops for size in range(1, len(stop))])


def _remember(
    model: TransformerLM,
    prompts: list[Prompt],
    mem_len: int,
    clamp_len: int | None,
    precision: Precision,
    draw: Callable[[LogProbs], Tensor],
) -> Iterator[Tensor]:
    """Yield the next tokens from a key-value cache; a query sees ``mem_len`` tokens before it, and itself."""
    tokens = pad_sequence(prompts, batch_first=True, padding_side="left")
    key_mask = pad_sequence(
        [torch.ones_like(prompt, dtype=torch.bool) for prompt in prompts],
        batch_first=True,
        padding_side="left",
    )
    cache = kv_cache.start(
        model,
        batch=len(prompts),
        mem_len=mem_len,
        window=mem_len + 1,
        clamp_len=clamp_len,
        precision=precision,
    )
    chunks = (ids.split(PREFILL_CHUNK, dim=1) for ids in (tokens, key_mask))
    for chunk, chunk_mask in zip(*chunks, strict=True):
        mask = None if key_mask.all() else chunk_mask
        log_probs, cache = kv_cache.step(model, chunk, cache, key_mask=mask)
    while True:
        drawn = draw(log_probs[:, -1])
        yield drawn
        log_probs, cache = kv_cache.step(model, rearrange(drawn, "batch -> batch 1"), cache)


def _slide(
    model: TransformerLM,
    texts: list[Prompt],
    mem_len: int,
    precision: Precision,
    draw: Callable[[LogProbs], Tensor],
) -> Iterator[Tensor]:
    """Yield the next tokens, every text's last tokens read anew from position 0."""
    model, device = to_fast(model).eval(), texts[0].device
    while True:
        with torch.inference_mode(), products_in(precision, device):
            ends = [rearrange(text[-(mem_len + 1) :], "time -> 1 time") for text in texts]
            hidden = [model.last_hidden(end, n_last=1)[0] for end in ends]
            log_probs = model.output.log_probs(torch.cat(hidden))
        drawn = draw(log_probs[:, -1])
        yield drawn
        texts = [torch.cat([text, token]) for text, token in zip(texts, drawn.split(1), strict=True)]


def _check(model: TransformerLM, prompts: list[Prompt], mem_len: int) -> None:
    if not prompts:
        raise ValueError("prompts must hold 1 prompt or more, got none")
    if not all(len(prompt) for prompt in prompts):
        lengths = [len(prompt) for prompt in prompts]
        raise ValueError(f"each prompt must hold 1 token or more, got prompts of {lengths} tokens")
    check("mem_len", mem_len, whole(0, LONGEST))
    most = model.config.max_seg_len - 1
    if len(model.positions) and mem_len > most:  # else drawing fails later, past the table
        raise ValueError(
            f"mem_len must be at most max_seg_len - 1 = {most} with learned positions, got {mem_len}"
        )


def _stops(stop: Iterable[Prompt]) -> Stops:
    stops = _texts("stop", stop)
    for one in stops:
        if not len(one):
            raise ValueError(f"each stop must hold 1 token or more, got shape {list(one.shape)}")
    return [one.tolist() for one in stops]


def _texts(name: str, texts: Iterable[Prompt]) -> list[Prompt]:
    """Return the texts as a list. Raise a ValueError unless they are an iterable of tensors [time]."""
    if not isinstance(texts, Iterable) or (isinstance(texts, Tensor) and not texts.ndim):
        got = "a single number" if isinstance(texts, Tensor) else type(texts).__name__
        raise ValueError(f"{name} must be a list of tensors [time], got {got}")
    return [check_rank(f"each {name.removesuffix('s')}", text, "time") for text in texts]
