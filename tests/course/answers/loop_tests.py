"""Notebook 13: a test that finds a loop whose predictions, or whose text, are others."""

from functools import partial

import torch

from minitxl.course.checks import loop_tests
from minitxl.memory import extend


def close(one, other):
    return torch.allclose(one, other, rtol=0, atol=1e-4)


def step_by_step(model, prompt, length, mem_len, written, predicted):
    if len(written) != length:
        return False
    text = list(prompt.split(1))
    for token, prediction in zip(written.split(1), predicted, strict=True):
        with torch.no_grad():
            log_probs, _ = model(torch.cat(text)[None], window=mem_len + 1)
        if (log_probs[0, -1] - prediction).abs().max() > 1e-4 or int(prediction.argmax()) != int(token):
            return False
        text.append(token)
    return True


def by_a_loop_of_its_own(model, prompt, length, mem_len, written, predicted):
    if len(written) != length:
        return False
    memory, new, right = None, prompt, True
    for token, prediction in zip(written.split(1), predicted, strict=True):
        log_probs, states = model(new[None], memory, window=mem_len + 1)
        memory = extend(memory, states, mem_len=mem_len)
        right = right and close(log_probs[0, -1], prediction) and int(prediction.argmax()) == int(token)
        new = token
    return right


def of_the_slice(first, last, *, text=True):
    def is_right(model, prompt, length, mem_len, written, predicted):
        if len(written) != length:
            return False
        log_probs, _ = model(torch.cat([prompt, written])[None], window=mem_len + 1)
        right = log_probs[0, len(prompt) + first : last]
        return close(right, predicted) and (not text or torch.equal(right.argmax(-1), written))

    return is_right


def of_losses(one, other, case):
    first, second = (-each[range(len(each)), case[4]].mean() for each in (one, other))
    return torch.isclose(first, second, atol=1e-4)


def at_once(model, prompt, length, mem_len, written, predicted, **changed):
    how = {"first": -1, "which": slice(None), "text": True, "same": close, "window": mem_len + 1}
    how |= changed
    if len(written) != length:
        return False
    log_probs, _ = model(torch.cat([prompt, written])[None], window=how["window"])
    right = log_probs[0, len(prompt) + how["first"] :][:length]
    same = how["same"](right[how["which"]], predicted[: len(right)][how["which"]])
    return same and (not how["text"] or torch.equal(right.argmax(-1), written[: len(right)]))


def within(**tolerance):
    return lambda *case: at_once(*case, same=partial(torch.allclose, **tolerance))


def without(*conditions, same=close):
    """The test without a look at the length, or at the likeliest token."""

    def is_right(model, prompt, length, mem_len, written, predicted):
        length = len(written) if "length" in conditions else length
        text = "likeliest" not in conditions
        return at_once(model, prompt, length, mem_len, written, predicted, same=same, text=text)

    return is_right


def raises(model, prompt, length, mem_len, written, predicted):
    if len(written) != length:
        return False
    log_probs, _ = model(torch.cat([prompt, written])[None], window=mem_len + 1)
    right = log_probs[0, len(prompt) - 1 : -1]
    torch.testing.assert_close(predicted, right, rtol=0, atol=1e-4)
    return torch.equal(right.argmax(-1), written)


def mean_of(change, most):
    return lambda one, other: abs(change(one, other)) < most


ANSWERS = {
    loop_tests.check_is_right: {
        "right": [
            step_by_step,
            by_a_loop_of_its_own,
            at_once,
            lambda *case: torch.tensor(at_once(*case)),
            *(within(atol=atol, **rtol) for atol in (1e-12, 1e-6, 2e-5, 1e-4) for rtol in ({}, {"rtol": 0})),
            lambda *case: at_once(*case, same=torch.allclose),
        ],
        "wrong": {
            "it is True for every loop": lambda *case: True,
            "it is False for every loop": lambda *case: False,
            "The first token written is predicted at": lambda *case: at_once(*case, first=0),
            "log_probs[0, len(prompt) - 1 : -1]": of_the_slice(-1, None),
            "another number of its predictions": of_the_slice(0, -1, text=False),
            "the mean loss is compared": lambda *case: at_once(
                *case, same=lambda one, other: of_losses(one, other, case)
            ),
            "only the likeliest token of each prediction": lambda *case: at_once(
                *case, same=lambda one, other: torch.equal(one.argmax(-1), other.argmax(-1))
            ),
            "the last prediction is left out": lambda *case: at_once(*case, which=slice(None, -1)),
            "small errors are errors": lambda *case: at_once(
                *case, same=lambda one, other: torch.allclose(one, other, atol=1e-3)
            ),
            "by exp() unlikely tokens become so small": lambda *case: at_once(
                *case, same=lambda one, other: torch.allclose(one.exp(), other.exp(), atol=1e-6)
            ),
            "one wrong number is diluted by many": lambda *case: at_once(
                *case, same=lambda one, other: bool((one - other).abs().mean() < 1e-6)
            ),
            "only the text is compared": lambda *case: at_once(*case, same=lambda *_: True),
            "and not what was taken from them": lambda *case: at_once(*case, text=False),
            "only the last prediction is compared": lambda *case: at_once(*case, which=slice(-1, None)),
            "look at the length": lambda model, prompt, length, mem_len, written, predicted: at_once(
                model, prompt, len(written), mem_len, written, predicted
            ),
            "hand window = mem_len + 1": lambda *case: at_once(*case, window=None),
            "the tolerance is too narrow": within(atol=1e-13, rtol=0),
            "and small errors are": within(atol=2e-4, rtol=0),
            "the tolerance is too wide: right": without("likeliest", same=partial(torch.allclose, atol=2e-4)),
            "that must be the likeliest": without("likeliest", same=partial(torch.allclose, atol=1e-6)),
            "a loop that writes too few": without("likeliest", "length"),
            "in which errors cancel": without(
                "likeliest", same=mean_of(lambda one, other: (one - other).mean(), 1e-4)
            ),
            "compare each prediction, and": without(
                "length", same=mean_of(lambda one, other: (one - other).mean(dim=-1).max(), 1e-5)
            ),
            "a mean of absolute or squared differences": without(
                "likeliest", "length", same=mean_of(lambda one, other: (one - other).abs().mean(), 1e-5)
            ),
            "the tolerance is too wide": lambda *case: at_once(
                *case, same=lambda one, other: (one - other).abs().max() < 0.03
            ),
            "right predictions agree to 0.0001": lambda *case: at_once(
                *case, same=lambda one, other: torch.allclose(one, other, atol=0.5)
            ),
            "the difference is compared with its sign": lambda *case: at_once(
                *case, same=lambda one, other: (one - other).max() < 1e-4
            ),
            "Take abs() of the differences first": lambda *case: at_once(
                *case, same=lambda one, other: ((other - one) < 1e-4).all()
            ),
            "too few tokens, or none": lambda model, prompt, length, mem_len, written, predicted: at_once(
                model,
                prompt,
                len(written),
                mem_len,
                written,
                predicted,
                same=lambda one, other: (one - other).abs().max() < 1e-4,
            ),
            "compare the logarithms as they are": lambda *case: at_once(
                *case, same=lambda one, other: ((one.exp() - other.exp()).abs() < 1e-4).all()
            ),
            "the first prediction is left out": lambda *case: at_once(*case, which=slice(1, None)),
            "only the written token's log-probability": lambda *case: at_once(
                *case,
                same=lambda one, other: close(one[range(len(one)), case[4]], other[range(len(one)), case[4]]),
            ),
            "ends with an AssertionError: return False": raises,
            "diluted by many right ones": lambda *case: at_once(
                *case, same=lambda one, other: abs(one - other).mean() < 1e-4
            ),
            "Compare each, as by their maximum": lambda *case: at_once(
                *case, same=lambda one, other: torch.nn.functional.mse_loss(one, other) < 1e-6
            ),
            "Give rtol=0, and an atol": lambda *case: at_once(
                *case, same=lambda one, other: torch.allclose(one, other, rtol=1e-2)
            ),
            "what is allowed grows with them": lambda *case: at_once(
                *case, same=lambda one, other: torch.allclose(one, other, 1e-3, 1e-4)
            ),
            "a divergence of the two distributions": lambda *case: at_once(
                *case, same=lambda one, other: (other.exp() * (other - one)).sum(-1).max() < 1e-4
            ),
            "so that small errors pass": lambda *case: at_once(
                *case,
                same=lambda one, other: (
                    torch.nn.functional.kl_div(one, other, log_target=True, reduction="batchmean") < 1e-4
                ),
            ),
            "not their mean or sum": lambda *case: at_once(
                *case, same=lambda one, other: abs(one.mean() - other.mean()) < 1e-6
            ),
            "you returned 'yes', right is True": lambda *case: "yes",
        },
    },
}
