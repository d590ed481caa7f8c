"""Checks of notebook 13 about prompts: a batch of prompts of unequal length, and the tokens that are read."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import pad

from minitxl.course.checker import Function, Verdict, judge

Prompts = Sequence[Int[Tensor, "_"]]
Batch = tuple[Int[Tensor, "batch time"], Bool[Tensor, "batch time"]]


def solution_fill_left(prompts: Prompts) -> Batch:
    """Return prompts as one batch, filled up on the left with token 0, and False where it is filled."""
    return _filled(prompts)


def check_fill_left(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(prompts)``, which gives tokens and key_mask, both [batch time]."""
    mistakes: dict[str, Function] = {
        "the short ones are filled up on the right: then the last place of a row, where the next token is "
        "predicted, is filling": lambda prompts: _filled(prompts, left=False),
        "key_mask is turned round: True is a token that may be seen, False is filling": (
            lambda prompts: _turned(*_filled(prompts))
        ),
        "nothing is masked: the filling would be read like text": lambda prompts: (
            _filled(prompts)[0],
            torch.ones_like(_filled(prompts)[0], dtype=torch.bool),
        ),
        "token 0 is a token like any other and stands in prompts too: make the mask from the lengths": (
            lambda prompts: (_filled(prompts)[0], _filled(prompts)[0] != 0)
        ),
        "the long ones are cut to the shortest: fill the short ones up to the longest": lambda prompts: (
            _filled([prompt[-min(map(len, prompts)) :] for prompt in prompts])
        ),
        "the tokens stand on the right and the mask on the left: both are filled on the same side": (
            lambda prompts: (_filled(prompts)[0], _filled(prompts, left=False)[1])
        ),
        "return both, tokens and key_mask": lambda prompts: _filled(prompts)[0],
    }
    random = torch.Generator().manual_seed(13)
    cases = [
        ([torch.randint(9, (length,), generator=random) for length in lengths],)
        for lengths in ((2, 4), (3, 1, 5), (4, 4), (1,), (7, 2, 7, 3))
    ]
    cases.insert(1, ([torch.tensor([5, 0]), torch.tensor([1, 0, 7])],))
    verdict = judge(
        attempt,
        reference=solution_fill_left,
        cases=cases,
        mistakes=mistakes,
        praise="every row ends with its prompt's last token, and only the filling is masked",
        names=["prompts"],
    )
    if verdict.right and (tokens := attempt(deepcopy(cases[0][0]))[0]).is_floating_point():
        return Verdict(
            False,
            f"the values are right, but the dtype of tokens is {tokens.dtype}: tokens are indices of the "
            "embedding, so make them torch.int64, as in torch.zeros(…, dtype=torch.int64)",
        )
    return verdict


def _filled(prompts: Prompts, *, left: bool = True) -> Batch:
    longest = max(map(len, prompts))
    sides = [(longest - len(prompt), 0)[:: 1 if left else -1] for prompt in prompts]
    tokens = [pad(prompt, side) for prompt, side in zip(prompts, sides, strict=True)]
    seen = [
        pad(torch.ones_like(prompt, dtype=torch.bool), side)
        for prompt, side in zip(prompts, sides, strict=True)
    ]
    return torch.stack(tokens), torch.stack(seen)


def _turned(tokens: Tensor, key_mask: Tensor) -> tuple[Tensor, Tensor]:
    return tokens, ~key_mask


TWO_NUMBERS = "two numbers: tokens read with memory, and tokens read without"
ONCE = "the prompt is read once, and each drawn token once, but for the last"
GROWS = "the first token needs the prompt, the second the prompt and one more, …"
FORGOTTEN = "the prompt is forgotten, which is read too"
FORGOTTEN_EACH = "the prompt is forgotten, which is a part of each reading"


def check_reads(answer: object, *, prompt_len: int, length: int) -> Verdict:
    """``answer``: tokens that the model reads (with memory, anew for each token) to write ``length``."""
    remembering, anew = prompt_len + length - 1, _read_anew(prompt_len, length)
    if not (isinstance(answer, tuple | list) and len(answer) == 2):
        return Verdict(False, TWO_NUMBERS)
    first, second = (
        None if one is Ellipsis else one.item() if hasattr(one, "item") else one for one in answer
    )
    if first is None and second is None:
        return Verdict.of_nothing()
    if not all(one is None or isinstance(one, int | float) for one in (first, second)):
        return Verdict(False, TWO_NUMBERS)
    if (first, second) in ((anew, remembering), (anew, None), (None, remembering)):
        return Verdict(False, "the numbers are interchanged: first the tokens read with memory, then anew")
    wrong = [
        f"{way}, {'too many' if number > right else 'too few'}: {mistakes.get(number, otherwise)}"
        for way, number, right, mistakes, otherwise in (
            ("with memory", first, remembering, _with_memory(prompt_len, length), ONCE),
            ("anew", second, anew, _anew(prompt_len, length), GROWS),
        )
        if number not in (None, right)
    ]
    if wrong:
        praise = "the number with memory is right. But " if first == remembering else ""
        praise = "the number anew is right. But " if second == anew else praise
        return Verdict(False, praise + ". And ".join(wrong))
    if second is None:
        return Verdict.of_nothing("the number with memory is right; the other one, anew, is not there yet")
    if first is None:
        return Verdict.of_nothing("the number anew is right; the other one, with memory, is not there yet")
    return Verdict(True, f"{anew / remembering:,.0f} times as many")


def _read_anew(prompt_len: int, length: int) -> int:
    """Return how many tokens are read in all where the whole text is read for each of ``length`` tokens."""
    return sum(prompt_len + written for written in range(length))


def _with_memory(prompt_len: int, length: int) -> dict[object, str]:
    """Return wrong numbers of tokens that are read with memory, and the sentence for each."""
    return {
        prompt_len + length: "nothing has to be read after the last token is drawn",
        length - 1: FORGOTTEN,
        length: f"{FORGOTTEN}. And nothing has to be read after the last token is drawn",
        prompt_len: "those are the prompt's alone: each token that is drawn is read too, but for the last",
        prompt_len * length: "memory holds the prompt: it is read once, and not for each token",
        prompt_len + length - 2: "the last token alone is drawn and not read",
    }


def _anew(prompt_len: int, length: int) -> dict[object, str]:
    """Return wrong numbers of tokens that are read anew, and the sentence for each."""
    return {
        _read_anew(prompt_len + 1, length): "each reading is counted one token too long: the first is of the "
        "prompt alone, and the last lacks the token that is drawn from it",
        _read_anew(prompt_len, length + 1): "one reading too many: after the last token is drawn, the whole "
        "text need not be read",
        _read_anew(prompt_len, length - 1): "one reading is missing: each token that is drawn needs one",
        _read_anew(prompt_len, length) - prompt_len: "the first reading is missing, that of the prompt",
        _read_anew(prompt_len - 1, length): "each reading is counted one token too short: the first "
        "is of the whole prompt",
        _read_anew(0, length): FORGOTTEN_EACH,
        _read_anew(1, length): FORGOTTEN_EACH,
        prompt_len * length: "the text grows: each reading has one token more than the one before",
        (prompt_len + length) * length: "each reading is counted as long as the whole text: the first is "
        "of the prompt alone, and each one after it has one token more",
        prompt_len + length * (length - 1) // 2: FORGOTTEN_EACH,
    }


def solution_longest(prompt_len: int, n_layer: int) -> int:
    """Return the longest memory with which the text, fed again although memory holds it, changes nothing.

    Before its last token the text that is fed has the prompt's tokens, and a prediction reaches
    n_layer · mem_len tokens back from there.
    """
    return prompt_len // n_layer


def check_longest(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(prompt_len, n_layer)``: the longest memory that hides the copies from every layer."""
    mistakes: dict[str, Function | Sequence[Function]] = {
        "that hides the copies from the query alone: it reads states, and they saw mem_len tokens farther": (
            lambda prompt_len, n_layer: prompt_len,
            lambda prompt_len, n_layer: prompt_len - 1,
            lambda prompt_len, n_layer: prompt_len + 1,
        ),
        "one too short where it divides: the last token fed is the query itself, and prompt_len tokens stand "
        "before it": lambda prompt_len, n_layer: (prompt_len - 1) // n_layer,
        "one too long where it divides: of the text that is fed, prompt_len tokens stand before the query": (
            lambda prompt_len, n_layer: (prompt_len + 1) // n_layer
        ),
        "one too long: the reach n_layer · mem_len may not be more than prompt_len": (
            lambda prompt_len, n_layer: prompt_len // n_layer + 1
        ),
        "one too short: the reach n_layer · mem_len may equal prompt_len, for the copies stand farther": (
            lambda prompt_len, n_layer: prompt_len // n_layer - 1
        ),
        "n_layer is subtracted: but each layer reaches mem_len tokens farther, n_layer · mem_len in all, so "
        "divide by n_layer": lambda prompt_len, n_layer: prompt_len - n_layer,
        "it is rounded up, and n_layer · mem_len is more than prompt_len then: round down": (
            lambda prompt_len, n_layer: -(-prompt_len // n_layer)
        ),
        "memory is a whole number of tokens: round down, with //": (
            lambda prompt_len, n_layer: prompt_len / n_layer
        ),
        "more layers reach farther, so memory must be shorter: divide by n_layer": (
            lambda prompt_len, n_layer: prompt_len * n_layer
        ),
        "every layer adds mem_len tokens to the reach, the first too: divide by n_layer": (
            lambda prompt_len, n_layer: prompt_len // max(1, n_layer - 1),
            lambda prompt_len, n_layer: prompt_len // (n_layer + 1),
        ),
    }
    cases = [(20, 3), (32, 3), (9, 3), (12, 4), (7, 1), (5, 6)]
    praise = "with n_layer · mem_len ≤ prompt_len no layer's reach gets to a copy"
    return judge(attempt, reference=solution_longest, cases=cases, mistakes=mistakes, praise=praise)
