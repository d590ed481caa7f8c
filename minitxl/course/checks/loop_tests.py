"""Check of notebook 13's test of a loop: memory may change no prediction."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import cache, partial
from math import log
from typing import Any

import torch
from torch import Tensor

from minitxl.course.checker import Function, Verdict, judge
from minitxl.course.checks import loop_comparisons as comparisons
from minitxl.course.checks import loop_probes as probes
from minitxl.course.checks.generation import generating, small_model, solution_generate
from minitxl.model import TransformerLM

Loop = Callable[[TransformerLM, Tensor, int, int], Tensor]
"""A loop as the notebook's: loop(model, prompt, length, mem_len) returns the tokens written."""
CLOSE = partial(torch.allclose, rtol=0, atol=1e-4)
Watched = tuple[Tensor, Tensor]
"""The tokens written [length], and the log-probabilities that each was taken from [length vocab]."""


def watched(loop: Loop, model: TransformerLM, prompt: Tensor, length: int, mem_len: int) -> Watched:
    """Run a loop, and return what it wrote and what the model predicted, by its last ``length`` calls."""
    seen = list[Tensor]()
    watch = model.register_forward_hook(lambda module, given, output: seen.append(output[0][0, -1]))
    try:
        written = loop(model, prompt, length, mem_len)
    finally:
        watch.remove()
    return written, torch.stack(seen[-length:])


def solution_is_right(
    model: TransformerLM, prompt: Tensor, length: int, mem_len: int, written: Tensor, predicted: Tensor
) -> bool:
    """Return True if ``length`` tokens were taken, each the likeliest, from what one reading predicts."""
    return _compared()(model, prompt, length, mem_len, written, predicted)


def check_is_right(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(model, prompt, length, mem_len, written, predicted)``: True for a right loop."""
    cases = _cases()
    compared = partial(_compared, read=comparisons.reading_each_once(cases[0][0], cases[-1][0]))
    mistakes: dict[str, Function | Sequence[Function]] = {
        "it is True for every loop: it must be False where one prediction is another": lambda *case: True,
        "it is False for every loop, though some are right. The first token written is predicted at the "
        "prompt's last place, len(prompt) - 1. And right predictions differ by rounding: torch.allclose, not "
        "torch.equal": (
            lambda *case: False,
            compared(shift=1),
            compared(shift=-1),
            compared(shift=1, likeliest=False),
            compared(same=torch.equal),
            compared(same=torch.equal, counted=False),
        ),
        "the reading predicts after every token of prompt and text, and another number of its predictions is "
        "compared: those of the tokens written are log_probs[0, len(prompt) - 1 : -1]": (
            compared(part=(-1, None)),
            compared(part=(-1, None), likeliest=False),
            compared(part=(0, -1)),
            compared(part=(0, -1), likeliest=False),
        ),
        "only the text is compared. A wrong loop often writes the right text: compare the predictions too": (
            compared(same=lambda one, other: True),
            compared(same=lambda one, other: True, counted=False),
            lambda model, prompt, length, mem_len, written, predicted: (
                len(written) == length and torch.equal(predicted.argmax(dim=-1), written)
            ),
        ),
        "a query of the loop sees mem_len tokens before it and no more: hand window = mem_len + 1 to the "
        "reading": (compared(window=None), compared(window=0)),
        "the tolerance is too narrow: numbers that were added in another order differ in their last digits, "
        "here in float64 by less than 1e-12. Any atol from 1e-12 to 1e-4 is right here": (
            compared(same=partial(torch.allclose, rtol=0, atol=1e-13))
        ),
        probes.SIGNED: [
            compared(same=comparisons.of_largest(sign, rule), counted=counted, likeliest=likeliest)
            for sign in (1, -1)
            for rule in (Tensor.max, Tensor.all)
            for counted in (True, False)
            for likeliest in (True, False)
        ],
        probes.EXPONENTIAL: [
            compared(same=comparisons.of_probabilities(atol)) for atol in (1e-4, 1e-5, 1e-6, 1e-8)
        ],
        probes.DILUTED: [compared(same=comparisons.of_mean_distance(most)) for most in (1e-5, 1e-6)],
        probes.CANCELS: (
            compared(same=lambda one, other: torch.allclose(one.mean(), other.mean())),
            compared(same=lambda one, other: bool((one.mean() - other.mean()).abs() < 1e-6)),
            compared(same=lambda one, other: torch.allclose(one.sum(dim=0), other.sum(dim=0))),
        ),
        "the mean loss is compared, and in a mean errors cancel. Memory's errors go up and down: compare the "
        "log-probabilities of each prediction": [
            compared(written_only=True, same=comparisons.of_means(atol), likeliest=likeliest)
            for atol in (1e-3, 1e-4, 1e-6, 1e-8)
            for likeliest in (True, False)
        ],
        "only the likeliest token of each prediction is compared. It is often the same where the prediction "
        "is another: compare all log-probabilities": (
            compared(same=comparisons.likeliest_alike),
            compared(same=comparisons.likeliest_alike, likeliest=False),
        ),
        probes.LIKELIEST: compared(likeliest=False),
        "only the written token's log-probability is compared: compare those of all tokens": (
            compared(written_only=True),
            compared(written_only=True, likeliest=False),
        ),
        "the first prediction is left out: it is the prompt's, at len(prompt) - 1, and belongs in": (
            compared(which=slice(1, None))
        ),
        "the last prediction is left out: it is the one before the last token written": (
            compared(which=slice(-1))
        ),
        "only the last prediction is compared: compare each": compared(which=slice(-1, None)),
        "only the first prediction is compared, and it is right in loops that go wrong after it": (
            compared(which=slice(0, 1))
        ),
        probes.LENGTH: (
            compared(counted=False),
            compared(counted=False, same=comparisons.of_largest(0, Tensor.max)),
        ),
        "a divergence of the two distributions is compared. It grows with the square of a small error, and "
        "weighs it by the probability, so that small errors pass: compare each log-probability": [
            compared(same=comparisons.of_divergence(most, rule, turned=turned))
            for most in (1e-3, 1e-4, 1e-6)
            for rule in (Tensor.max, Tensor.mean, Tensor.sum)
            for turned in (False, True)
        ],
    }
    praise = "every loop with another prediction, another token or another length is found"
    verdict = judge(attempt, reference=compared(), cases=cases, mistakes=mistakes, praise=praise, say=_said)
    if verdict.right:
        return _with_note(verdict, attempt, cases[0])
    if not verdict.blank and probes.raises(attempt, cases[0]):
        return Verdict(False, probes.RAISES, details=verdict.message)
    if not verdict.blank and not verdict.details and (cause := probes.cause_of(attempt, cases[0])):
        return Verdict(False, cause, details=verdict.message)
    return verdict


def _with_note(verdict: Verdict, attempt: Callable[..., Any], case: tuple[Any, ...]) -> Verdict:
    """Return the verdict, with a note on a test that is right and could be better.

    It reads by a memory of its own, or more than once, or it allows a share of each number.
    """
    model, *others = deepcopy(case)
    read, last_hidden, memories = list[int](), model.last_hidden, list[int]()

    def counted(tokens: Tensor, memory: Tensor | None = None, **options: Any) -> Any:
        read.append(tokens.numel())
        memories.append(0 if memory is None else memory.shape[2])
        return last_hidden(tokens, memory, **options)

    model.last_hidden = counted
    attempt(model, *others)
    if any(memories):
        note = (
            "your test is itself a loop with a memory: what is wrong in both, it does not find. Let the "
            "model read prompt and text in one piece, without memory"
        )
    elif attempt(*deepcopy(_very_unlikely(case[0], 3e-4))):
        note = probes.SHARE
    elif len(read) > 1:
        note = (
            f"your test calls the model {len(read)} times, and reads {sum(read)} tokens: in one piece it "
            f"reads {max(read)}, and predicts the same at every place"
        )
    else:
        return verdict
    return Verdict(True, f"{verdict.message}. But {note}")


def _said(got: Any, right: bool) -> str:
    return f"you returned {got!r}, right is {right}"


def _compared(
    *,
    shift: int = 0,
    part: tuple[int, int | None] | None = None,
    which: slice = slice(None),
    same: Callable[[Tensor, Tensor], bool] = CLOSE,
    likeliest: bool = True,
    counted: bool = True,
    window: int | None = 1,
    written_only: bool = False,
    read: Callable[[TransformerLM, Tensor, int | None], Tensor] = comparisons.read_whole,
) -> Callable[..., bool]:
    """Return the test with one step of it as given."""

    def is_right(
        model: TransformerLM, prompt: Tensor, length: int, mem_len: int, written: Tensor, predicted: Tensor
    ) -> bool:
        if len(written) != length and counted:
            return False
        text, first = torch.cat([prompt, written]), len(prompt) - 1 + shift
        log_probs = read(model, text, None if window is None else mem_len + window)
        right = log_probs[first : first + len(written)]
        if part is not None and not same(predicted, log_probs[len(prompt) + part[0] : part[1]]):
            return False
        predicted = predicted[: len(right)]
        taken = torch.equal(right.argmax(dim=-1), written[: len(right)])
        if written_only:
            predicted, right = (one.gather(1, written[: len(right), None]) for one in (predicted, right))
        return same(predicted[which], right[which]) and (taken or not likeliest)

    return is_right


def _second(model: TransformerLM, prompt: Tensor, length: int, mem_len: int) -> Tensor:
    """Return a text whose last token is the second in likelihood."""
    written = solution_generate(model, prompt, length, mem_len)
    log_probs = comparisons.read_whole(model, torch.cat([prompt, written]), mem_len + 1)
    return torch.cat([written[:-1], log_probs[-2].topk(2).indices[1:]])


LOOPS: tuple[Loop, ...] = (
    solution_generate,
    generating(lambda text, token: text),
    generating(lambda text, token: text[-2:]),
    generating(forgets=True),
    generating(remembers=False),
    generating(grows=False),
    generating(replaces=True),
    generating(place=0),
    generating(more=None),
    _second,
)
"""A loop that is right, and others that are not."""


@cache
def _cases() -> list[tuple[TransformerLM, Tensor, int, int, Tensor, Tensor]]:
    """Return what the loops wrote and predicted; of the right one also what is too short, or altered."""
    generator = torch.Generator().manual_seed(17)
    model, cases = small_model(), []
    for time, length, mem_len, loops in ((6, 5, 11, LOOPS), (9, 4, 3, (solution_generate, *LOOPS[-2:]))):
        prompt = torch.randint(11, (time,), generator=generator)
        given = model, prompt, length, mem_len
        for loop in loops:
            cases.append((*given, *watched(loop, *given)))
        written, predicted = watched(solution_generate, *given)
        cases += [(*given, written[:few], predicted[:few]) for few in (0, 2)]
        # Altered by 0.1, by little, in order, and by what cancels: lowered, and what is unlikely raised. The
        # likeliest stays the likeliest.
        others = (predicted < predicted.amax(dim=-1, keepdim=True)).double()
        for at in (0, length // 2, length - 1):
            broken = predicted.clone()
            broken[at] -= 0.1 * others[at]
            cases.append((*given, written, broken))
        cases += [(*given, written, predicted - size * others) for size in (0.004, 5e-4)]
        low = (predicted < predicted.amax(dim=-1, keepdim=True) - 0.2).double()
        cases += [(*given, written, predicted + size * low) for size in (0.1, 0.004, 5e-4)]
        cases += [(*given, written, predicted.flip(0))]
        rounded = torch.zeros_like(predicted)  # more than by float64: up and down, and no more on average
        rounded[:, 0:10:2], rounded[:, 1:10:2] = 5e-13, -5e-13
        cases.append((*given, written, predicted + rounded))
        broken = predicted.clone()  # one number, by little: that of the second in likelihood
        broken[length // 2, predicted[length // 2].topk(2).indices[1]] -= 5e-4
        cases.append((*given, written, broken))
        unlikely = (predicted < log(0.03)).double()  # probabilities change by less than 0.0001 and 0.00001
        cases += [(*given, written, predicted - size * unlikely) for size in (3e-3, 3e-4)]
        cases += [(*given, written, predicted * (1 + size)) for size in (0.05, 0.005, 5e-4, 5e-5)]
        up_and_down = torch.ones_like(predicted)
        up_and_down[:, 1::2] = -1
        for size in (0.02, 0.004, 5e-4):  # still distributions: their divergence is about size² / 2
            cases.append((*given, written, (predicted + size * up_and_down).log_softmax(dim=-1)))
        least, next_least = predicted.topk(2, largest=False).indices.unbind(dim=-1)
        step = torch.zeros_like(predicted).scatter(-1, least[:, None], -0.2)
        cases.append((*given, written, predicted + step.scatter(-1, next_least[:, None], 0.2)))
    return [*cases, _one_of_many(model), _very_unlikely(model)]


def _one_of_many(model: TransformerLM) -> tuple[TransformerLM, Tensor, int, int, Tensor, Tensor]:
    """Return a long text of which one number is predicted otherwise, by little: a mean hardly shows it."""
    given = model, torch.arange(6), 40, 11
    written, predicted = watched(solution_generate, *given)
    predicted[20, predicted[20].topk(2).indices[1]] -= 2e-4
    return *given, written, predicted


def _very_unlikely(
    model: TransformerLM, error: float = 1.0
) -> tuple[TransformerLM, Tensor, int, int, Tensor, Tensor]:
    """Return a text before which one token is always very unlikely, and predicted ``error`` nats too low.

    No tolerance shows that in its probability.
    """
    sharp = deepcopy(model)
    with torch.no_grad():
        sharp.get_parameter(comparisons.OUTPUT_BIAS)[0] -= 40
    given = sharp, torch.arange(1, 7), 5, 11
    written, predicted = watched(solution_generate, *given)
    predicted[:, 0] -= error
    return *given, written, predicted
