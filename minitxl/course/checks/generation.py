"""Checks of notebook 13: generation that counts nothing twice, the nucleus, what it all costs."""

from collections.abc import Callable
from typing import Any

import torch
from einops import rearrange
from torch import Tensor

from minitxl.config import ModelConfig
from minitxl.course.exercises import Verdict, judge
from minitxl.inference.generation import sample
from minitxl.inference.sampling import top_k_top_p
from minitxl.memory import extend
from minitxl.model import TransformerLM


def check_generate(attempt: Callable[..., Tensor]) -> Verdict:
    """``attempt(model, prompt, length, mem_len)`` takes the likeliest token each time."""
    model = _model()
    generator = torch.Generator().manual_seed(13)
    sizes = [(7, 9, 4), (2, 12, 6), (1, 6, 3), (11, 8, 5)]
    cases = [(torch.randint(11, (time,), generator=generator), length, mem) for time, length, mem in sizes]

    def on_model(generate: Callable[..., Tensor]) -> Callable[..., Any]:
        return lambda prompt, length, mem_len: generate(model, prompt, length, mem_len)

    return judge(
        on_model(attempt),
        reference=on_model(_greedy),
        cases=cases,
        mistakes={why: on_model(mistake) for why, mistake in MISTAKES.items()},
        praise="each token is read once, and the text is the package's",
    )


def _model() -> TransformerLM:
    """Return small, and far from uniform, so that each mistake changes the text."""
    config = ModelConfig(
        vocab_size=11,
        n_layer=2,
        d_model=16,
        n_head=2,
        d_head=8,
        d_inner=32,
        dropout=0.0,
        tie_embeddings=False,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(13)
        model = TransformerLM(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(10 if parameter.ndim > 1 else 1)
    return model


def _greedy(model: TransformerLM, prompt: Tensor, length: int, mem_len: int) -> Tensor:
    return sample(model, [prompt], length=length, mem_len=mem_len, temperature=0)[0]


def _mistaken(
    feed: Callable[[Tensor, Tensor], Tensor] = lambda text, token: token,
    *,
    first: Callable[[Tensor], Tensor] = lambda prompt: prompt,
    place: int = -1,
    grows: bool = True,
) -> Callable[..., Tensor]:
    """Generation with a mistake: ``feed`` of the text so far and its last token is what is read next."""

    def generate(model: TransformerLM, prompt: Tensor, length: int, mem_len: int) -> Tensor:
        text, memory = prompt, None
        fed, window = first(prompt), mem_len + 1
        with torch.no_grad():
            for step in range(length):
                log_probs, states = model(rearrange(fed, "seg -> 1 seg"), memory, window=window)
                if grows or step == 0:
                    memory = extend(memory, states, mem_len=mem_len)
                token = log_probs[0, place].argmax(dim=-1, keepdim=True)
                text = torch.cat([text, token])
                fed = feed(text, token)
        return text[len(prompt) :]

    return generate


MISTAKES = {
    "the whole text is read again although memory holds it, so it counts twice: read the new token alone": (
        _mistaken(lambda text, token: text)
    ),
    "memory stays what it was after the prompt: extend it with the states of each token that is read": (
        _mistaken(grows=False)
    ),
    "that is the prediction after the first position: the next token is predicted at the last, [:, -1]": (
        _mistaken(place=0)
    ),
    "the prompt's last token is read twice: its prediction is there already, draw from it": (
        _mistaken(lambda text, token: text[-2:])
    ),
    "only the prompt's last token was read, and memory began without the rest of it": (
        _mistaken(first=lambda prompt: prompt[-1:])
    ),
}
"""Wrong ways to generate, by what to say of them."""


def check_nucleus(attempt: Callable[..., Tensor]) -> Verdict:
    """``attempt(log_probs, top_p)`` gives the probabilities to draw from."""
    generator = torch.Generator().manual_seed(14)
    scores = 2 * torch.randn(3, 4, 9, generator=generator, dtype=torch.float64)
    cases = [
        (log_probs, top_p)
        for log_probs, top_p in zip(scores.log_softmax(dim=-1), (0.5, 0.9, 1.0), strict=True)
    ]

    def kept_where(keep: Callable[[Tensor, Tensor, float], Tensor], *, whole: bool = True) -> Callable:
        def probabilities(log_probs: Tensor, top_p: float) -> Tensor:
            probs, order = log_probs.exp().sort(dim=-1, descending=True)
            kept = probs * keep(probs, probs.cumsum(dim=-1), top_p)
            kept = kept / kept.sum(dim=-1, keepdim=True) if whole else kept
            return torch.zeros_like(kept).scatter(-1, order, kept)

        return probabilities

    return judge(
        attempt,
        reference=lambda log_probs, top_p: top_k_top_p(log_probs, top_p=top_p),
        cases=cases,
        mistakes={
            "the token that crosses top_p belongs in: compare the sum before it": kept_where(
                lambda probs, sums, top_p: sums < top_p
            ),
            "what is kept must sum to 1 again: divide by its sum": kept_where(
                lambda probs, sums, top_p: sums - probs < top_p, whole=False
            ),
            "top_p bounds the sum of the likeliest, not the probability of each": kept_where(
                lambda probs, sums, top_p: probs >= 1 - top_p
            ),
        },
        praise="the fewest likeliest tokens that have this probability together",
    )


def check_reads(answer: object, *, prompt_len: int, length: int) -> Verdict:
    """``answer``: tokens that the model reads (with memory, anew for each token) to write ``length``."""
    remembering = prompt_len + length - 1
    anew = sum(prompt_len + written for written in range(length))
    if not (isinstance(answer, tuple | list) and len(answer) == 2):
        return Verdict(False, "two numbers: tokens read with memory, and tokens read without")
    first, second = answer
    if (first, second) == (remembering, anew):
        return Verdict(True, f"{anew / remembering:,.0f} times as many")
    if first == remembering + 1:
        return Verdict(False, "with memory, off by one: nothing has to be read after the last token is drawn")
    if first != remembering:
        return Verdict(False, "with memory: the prompt once, and each drawn token once, but for the last")
    return Verdict(False, "anew: the first token needs the prompt, the second the prompt and one more, …")
