"""Checks of notebook 13: generation that reads each token once, and the predictions."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any

import torch
from einops import rearrange
from torch import Tensor

from minitxl.config import ModelConfig
from minitxl.course.checker import Function, Verdict, judge
from minitxl.course.predictions import Predictions, Question
from minitxl.inference.generation import sample
from minitxl.memory import extend
from minitxl.model import TransformerLM

predictions = Predictions(
    Question(
        "price",
        "With a memory of 128 tokens, the 2,048th token takes how many times as long as the 256th?",
        answer=1,
        tolerance=0.3,
        why="one token is read, and it meets at most mem_len + 1 keys, however long the text is",
        wrong={
            8: "the text is eight times as long then, but it is not read again, and memory is full at both: "
            "one token meets 129 keys either time",
            64: "pairs of query and key grow with the square where the whole text is read anew; with memory "
            "one query meets 129 keys at both",
            16: "2,048 is sixteen memories, but only the last 128 states are kept: one token meets 129 keys",
        },
    ),
    Question(
        "work",
        "Reading 2,048 tokens anew takes how many times the operations of reading 64?",
        answer="more than 32",
        choices=("less than 32", "32", "more than 32"),
        why="there are 32 times the tokens, but pairs of query and key grow with the square",
        wrong={
            "32": "so do the tokens; but pairs of query and key grow with the square",
            "less than 32": "the clock may say so, for each call has a fixed cost; operations have none",
        },
    ),
    Question(
        "bug",
        "The whole text is fed although memory holds it. What do you notice?",
        answer="almost nothing",
        choices=("an error", "nonsense", "almost nothing"),
        why="all shapes fit, and the nearest tokens are right in both readings: the mean loss hardly moves",
        wrong={
            "an error": "all shapes fit: memory takes whatever states come",
            "nonsense": "the nearest tokens are right in both readings, and a small model rests on those",
        },
    ),
)


def check_generate(attempt: Callable[..., Tensor]) -> Verdict:
    """Check ``attempt(model, prompt, length, mem_len)``, which takes the likeliest token each time.

    The text must be the package's, and the model must read the prompt once and then each new token once.
    """
    model = small_model()
    generator = torch.Generator().manual_seed(13)
    sizes = [(7, 5, 4), (2, 8, 6), (1, 5, 3), (11, 4, 5), (20, 5, 2), (24, 5, 3)]
    cases = [
        (model, torch.randint(11, (time,), generator=generator), length, mem) for time, length, mem in sizes
    ]
    praise = "each token is read once, and the text is the package's"
    verdict = judge(attempt, reference=_greedy, cases=cases, mistakes=MISTAKES, praise=praise)
    if not verdict.right:
        return _with_cause(verdict, attempt, cases[0])
    calls, graph = 0, False
    for case in cases:
        _, prompt, length, mem_len = case
        each, longest, keeps_graph = tokens_read(attempt, case)
        graph |= keeps_graph
        read, calls = sum(each), max(calls, len(each) - length)
        enough = len(prompt) + length - 1
        if longest > mem_len:
            return Verdict(
                False,
                f"the text is right, but memory comes to hold {longest} tokens with mem_len = {mem_len}: the "
                "window hides what is too much, and it costs time and room. Keep the last mem_len",
            )
        if read == enough + 1:
            return Verdict(
                False,
                "the text is right, but the model reads the last token too, and nothing is drawn from its "
                f"prediction: to write {length} tokens after a prompt of {len(prompt)}, {enough} are enough",
            )
        if read > enough:
            return Verdict(
                False,
                f"the text is right, but to write {length} tokens after a prompt of {len(prompt)} the model "
                f"read {read} tokens, where {enough} are enough: read the prompt once, and then the new "
                "token alone, with memory",
            )
    if calls > 0:
        message = f"{praise}. But the prompt is read in more than one call: read at once it takes less time"
        return Verdict(True, message)
    if graph:
        message = f"{praise}. But each call keeps what a gradient would need, which takes time and RAM: "
        return Verdict(True, f"{message}write it with torch.no_grad()")
    return verdict


def _with_cause(verdict: Verdict, attempt: Callable[..., Tensor], case: tuple[Any, ...]) -> Verdict:
    """Return the verdict, with a sentence where the loop draws, or where its token has no axis."""
    model, *others = deepcopy(case)
    axes = list[int]()
    model.register_forward_pre_hook(lambda module, given: axes.append(given[0].ndim))
    with torch.random.fork_rng(devices=[]), suppress(Exception):
        attempt(model, *others)
    no_axis = "0-dim tensor", "zero-dimensional tensor"
    if any(words in verdict.message for words in no_axis) or (len(axes) > 1 and axes[-1] == 1):
        cause = (
            "the token that is taken has no axis, and the model reads [batch seg], here [1 1]: "
            "argmax(…, keepdim=True) leaves a row of one token, and rearrange or [None] adds the batch"
        )
        return Verdict(False, cause, details=verdict.message)
    with torch.random.fork_rng(devices=[]), suppress(Exception):
        state = torch.get_rng_state()
        attempt(*deepcopy(case))
        if not torch.equal(torch.get_rng_state(), state):
            cause = "the loop draws at random: here it takes the likeliest token each time, with argmax"
            return Verdict(False, cause, details=verdict.details or verdict.message)
    return verdict


def tokens_read(attempt: Callable[..., Tensor], case: tuple[Any, ...]) -> tuple[list[int], int, bool]:
    """Return the tokens that the model embeds at each call, its longest memory, and if it keeps a graph."""
    model, *others = deepcopy(case)
    read, lengths, graphs = [], [0], list[bool]()
    model.embedding.register_forward_hook(lambda module, given, output: read.append(given[0].numel()))
    model.embedding.register_forward_hook(lambda module, given, out: graphs.append(out.requires_grad))
    model.blocks[0].register_forward_pre_hook(lambda module, given: lengths.append(given[1].shape[1]))
    attempt(model, *others)
    return read, max(lengths), any(graphs)


def small_model() -> TransformerLM:
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


def solution_generate(model: TransformerLM, prompt: Tensor, length: int, mem_len: int) -> Tensor:
    """Return ``length`` tokens after the prompt, the likeliest each time, each token read once."""
    return generating()(model, prompt, length, mem_len)


def _greedy(model: TransformerLM, prompt: Tensor, length: int, mem_len: int) -> Tensor:
    return sample(model, [prompt], length=length, mem_len=mem_len, temperature=0)[0]


def generating(
    feed: Callable[[Tensor, Tensor], Tensor] = lambda text, token: token,
    *,
    first: Callable[[Tensor], Tensor] = lambda prompt: prompt,
    place: int = -1,
    grows: bool = True,
    more: int | None = 1,
    remembers: bool = True,
    forgets: bool = False,
    replaces: bool = False,
    cut: bool = True,
    again: bool = False,
    shorter: int = 0,
    prompted: bool = False,
) -> Callable[..., Tensor]:
    """Return the loop with one step as given: ``feed`` of the text and its last token is read next."""

    def generate(model: TransformerLM, prompt: Tensor, length: int, mem_len: int) -> Tensor:
        text, memory = prompt, None
        fed, window = first(prompt), None if more is None else mem_len + more
        room = mem_len - shorter
        with torch.no_grad():
            if again:  # the prompt for memory's sake, and then its last token
                memory = extend(None, model(prompt[None], None, window=window)[1], mem_len=room)
                fed = prompt[-1:]
            for step in range(length):
                log_probs, states = model(rearrange(fed, "seg -> 1 seg"), memory, window=window)
                if remembers and (grows or step == 0) and not (forgets and step == 0):
                    longest = room if cut else states.shape[2]
                    memory = extend(None if replaces else memory, states, mem_len=longest)
                token = log_probs[0, place].argmax(dim=-1, keepdim=True)
                text = torch.cat([text, token])
                fed = feed(text, token)
        return text if prompted else text[len(prompt) :]

    return generate


MISTAKES: dict[str, Function | Sequence[Function]] = {
    "the whole text is read again although memory holds it, so it counts twice: read the new token alone": (
        generating(lambda text, token: text)
    ),
    "the whole text is read anew each time, and a query sees all of it: keep memory, read the new token": (
        generating(lambda text, token: text, remembers=False, more=None)
    ),
    "memory stays what it was after the prompt: extend it with the states of each token that is read": (
        generating(grows=False)
    ),
    "that is the prediction after the first position: the next token is predicted at the last, [:, -1]": (
        generating(place=0)
    ),
    "the prompt's last token is read twice: its prediction is there already, draw from it": (
        generating(lambda text, token: text[-2:]),
        generating(again=True),
    ),
    "only the prompt's last token was read, and memory began without the rest of it": (
        generating(first=lambda prompt: prompt[-1:])
    ),
    "the window is missing: in the prompt a query sees more tokens than one that comes later sees in memory. "
    "Hand window=mem_len + 1 to each call": generating(more=None),
    "a query sees one token too few: it sees itself and mem_len tokens before it. So window=mem_len + 1, and "
    "memory keeps the last mem_len": (generating(more=0), generating(more=0, shorter=1)),
    "memory is one token too short: extend keeps the last mem_len": generating(shorter=1),
    "the window is one too long: a query sees itself and mem_len tokens before it, so window=mem_len + 1": (
        generating(more=2)
    ),
    "the prompt is no part of what was written: return the new tokens alone": generating(prompted=True),
    "memory is replaced by the states of what was just read: extend joins them to what memory holds": (
        generating(replaces=True),
        generating(replaces=True, cut=False),
    ),
    "memory begins after the prompt: extend it with the states of the prompt, too": generating(forgets=True),
    "nothing is remembered: the new token is read alone, without the memory of what stands before it": (
        generating(remembers=False)
    ),
}
"""Wrong ways to generate, by what to say of them."""
