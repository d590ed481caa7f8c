"""Checks of the Transformer block and of the loss on its output, of notebook 03."""

from collections.abc import Callable, Sequence
from math import log, sqrt
from typing import Any

import torch
from einops import einsum, rearrange
from jaxtyping import Float, Int
from torch import Tensor

from minitxl.course.exercises import Function, Verdict, judge

Hidden = Float[Tensor, "batch pos model"]
Losses = Float[Tensor, "batch pos"]


def norm(x: Tensor) -> Tensor:
    """Return LayerNorm without gain and bias: each token's numbers with mean 0 and variance 1."""
    centred = x - x.mean(dim=-1, keepdim=True)
    return centred / (centred.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt()


def feed_forward(x: Hidden, W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor) -> Hidden:
    """Return W_2 relu(W_1 x + b_1) + b_2 of each token."""
    inner = torch.relu(einsum(x, W_1, "batch pos model, model inner -> batch pos inner") + b_1)
    return einsum(inner, W_2, "batch pos inner, inner model -> batch pos model") + b_2


def solution_block(
    x: Hidden,
    attend: Callable[[Hidden], Hidden],
    W_1: Float[Tensor, "model inner"],
    b_1: Float[Tensor, " inner"],
    W_2: Float[Tensor, "inner model"],
    b_2: Float[Tensor, " model"],
) -> Hidden:
    """Return a post-norm block: norm(x + attention), then norm(that + feed-forward of that)."""
    x = norm(x + attend(x))
    return norm(x + feed_forward(x, W_1, b_1, W_2, b_2))


def check_block(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(x, attend, W_1, b_1, W_2, b_2)``: one block of the paper, norms after the sums.

    ``x`` is [batch pos model], ``attend`` a function from it to its attention, W_1 [model inner], W_2
    [inner model]. The LayerNorms have no gain and no bias.
    """

    def over(x: Tensor, *dims: int) -> Tensor:
        centred = x - x.mean(dim=dims, keepdim=True)
        return centred / (centred.square().mean(dim=dims, keepdim=True) + 1e-5).sqrt()

    def blocks(normed: Function, sizes: Function = feed_forward) -> Function:
        def block(x: Tensor, attend: Function, *weights: Tensor) -> Tensor:
            x = normed(x + attend(x))
            return normed(x + sizes(x, *weights))

        return block

    def unnormed(x: Tensor, attend: Function, *weights: Tensor) -> Tensor:
        x = x + attend(x)
        return x + feed_forward(x, *weights)

    def pre(x: Tensor, attend: Function, *weights: Tensor) -> Tensor:
        x = x + attend(norm(x))
        return x + feed_forward(norm(x), *weights)

    def no_residual(x: Tensor, attend: Function, *weights: Tensor) -> Tensor:
        return norm(feed_forward(norm(attend(x)), *weights))

    def first_residual(x: Tensor, attend: Function, *weights: Tensor) -> Tensor:
        x = norm(x + attend(x))
        return norm(feed_forward(x, *weights))

    def second_residual(x: Tensor, attend: Function, *weights: Tensor) -> Tensor:
        x = norm(attend(x))
        return norm(x + feed_forward(x, *weights))

    def from_input(x: Tensor, attend: Function, *weights: Tensor) -> Tensor:
        return norm(x + feed_forward(norm(x + attend(x)), *weights))

    def beside(x: Tensor, attend: Function, *weights: Tensor) -> Tensor:
        return norm(norm(x + attend(x)) + feed_forward(x, *weights))

    def once(x: Tensor, attend: Function, *weights: Tensor) -> Tensor:
        x = x + attend(x)
        return norm(x + feed_forward(x, *weights))

    def linear(x: Tensor, W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor) -> Tensor:
        return (x @ W_1 + b_1) @ W_2 + b_2

    def twice(x: Tensor, W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor) -> Tensor:
        return torch.relu(torch.relu(x @ W_1 + b_1) @ W_2 + b_2)

    def no_bias(x: Tensor, W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor) -> Tensor:
        return torch.relu(x @ W_1) @ W_2

    mistakes: dict[str, Function | Sequence[Function]] = {
        "there is no norm: without it the numbers grow from block to block. Norm each sum": unnormed,
        "the norms stand before the sublayers: that is pre-norm, which works too; the paper's block norms "
        "each sum, after it": pre,
        "both residual connections are missing: add a sublayer's input to its output, then norm": no_residual,
        "no residual connection around the feed-forward layer: add x to its output": first_residual,
        "no residual connection around attention: add x to its output": second_residual,
        "the block's own input is added to the feed-forward layer: what it is given is what is added, the "
        "normed sum of the first half": from_input,
        "the feed-forward layer reads the block's input: it reads the normed sum of the first half": beside,
        "the norm after attention is missing: there are two, one after each sum": once,
        "there is no relu between W_1 and W_2: two linear maps in a row are one": blocks(norm, linear),
        "relu is taken after W_2 as well: what is added to x may be negative": blocks(norm, twice),
        "the biases are missing: W_1 x + b_1, and W_2 of it + b_2": blocks(norm, no_bias),
        "the mean and the variance are taken over other tokens too: each token is normed by itself, over its "
        "d_model numbers, dim=-1": (
            blocks(lambda x: over(x, 1)),
            blocks(lambda x: over(x, 1, 2)),
            blocks(lambda x: over(x, 0, 1, 2)),
            blocks(lambda x: over(x, 0)),
        ),
        "the mean is not subtracted: LayerNorm takes it away, then divides by the standard deviation": (
            blocks(lambda x: x / (x.var(dim=-1, keepdim=True, unbiased=False) + 1e-5).sqrt()),
            blocks(lambda x: x / (x.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt()),
        ),
        "it is divided by the variance: divide by its root": blocks(
            lambda x: (
                (x - x.mean(dim=-1, keepdim=True)) / (x.var(dim=-1, keepdim=True, unbiased=False) + 1e-5)
            )
        ),
        "the variance is a sum over d_model - 1: LayerNorm divides by d_model, unbiased=False": (
            blocks(
                lambda x: (x - x.mean(dim=-1, keepdim=True)) / (x.var(dim=-1, keepdim=True) + 1e-5).sqrt()
            ),
            blocks(lambda x: (x - x.mean(dim=-1, keepdim=True)) / (x.std(dim=-1, keepdim=True) + 1e-5)),
            blocks(lambda x: (x - x.mean(dim=-1, keepdim=True)) / x.std(dim=-1, keepdim=True)),
        ),
    }
    return judge(
        attempt,
        reference=solution_block,
        cases=_block_cases(),
        mistakes=mistakes,
        praise="norm, sum and feed-forward stand as in the paper's block",
    )


def _block_cases() -> list[tuple[Any, ...]]:
    """Return inputs and weights with an attention that mixes the tokens before, and means that are not 0."""
    draw = torch.Generator().manual_seed(3)

    def past_mean(x: Tensor) -> Tensor:
        """Stand for attention: the mean of a token and all before it."""
        return x.cumsum(dim=1) / rearrange(torch.arange(1, x.shape[1] + 1), "pos -> pos 1")

    cases = []
    for batch, pos, model, inner in [(1, 2, 4, 8), (2, 3, 6, 5), (2, 5, 5, 7)]:
        sizes = [(batch, pos, model), (model, inner), (inner,), (inner, model), (model,)]
        x, W_1, b_1, W_2, b_2 = (torch.randn(size, generator=draw, dtype=torch.float64) for size in sizes)
        cases.append((2 * x + 1, past_mean, W_1, b_1, W_2, b_2))
    return cases


def solution_cross_entropy(
    hidden: Hidden, embedding: Float[Tensor, "vocab model"], targets: Int[Tensor, "batch pos"]
) -> Losses:
    """Return -log p(target) of each token in nats; the score of a token is hidden · its embedding."""
    logits = einsum(hidden, embedding, "batch pos model, vocab model -> batch pos vocab")
    log_probs = logits - logits.logsumexp(dim=-1, keepdim=True)
    return -rearrange(log_probs.gather(-1, targets[..., None]), "batch pos 1 -> batch pos")


def check_cross_entropy(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(hidden, embedding, targets)``: the loss of each token in nats, [batch pos].

    ``hidden`` is [batch pos model], ``embedding`` [vocab model], ``targets`` [batch pos].
    """

    def at(scores: Tensor, targets: Tensor) -> Tensor:
        return scores.gather(-1, targets[..., None])[..., 0]

    def logits(hidden: Tensor, embedding: Tensor) -> Tensor:
        return hidden @ embedding.T

    def naive(hidden: Tensor, embedding: Tensor, targets: Tensor) -> Tensor:
        exponentials = logits(hidden, embedding).exp()
        return -at(exponentials / exponentials.sum(dim=-1, keepdim=True), targets).log()

    def naive_log(hidden: Tensor, embedding: Tensor, targets: Tensor) -> Tensor:
        return -at(logits(hidden, embedding).softmax(dim=-1).log(), targets)

    def naive_sum(hidden: Tensor, embedding: Tensor, targets: Tensor) -> Tensor:
        scores = logits(hidden, embedding)
        return scores.exp().sum(dim=-1).log() - at(scores, targets)

    right = solution_cross_entropy
    mistakes: dict[str, Function | Sequence[Function]] = {
        "the sign: a log-probability is negative, and a loss is not": lambda h, E, t: -right(h, E, t),
        "this is one number, the mean over all tokens: return each token's loss, [batch pos]": (
            lambda h, E, t: right(h, E, t).mean()
        ),
        "this is one number, the sum over all tokens: return each token's loss, [batch pos]": (
            lambda h, E, t: right(h, E, t).sum()
        ),
        "these are bits: log is the natural logarithm here, so a loss is in nats": (
            lambda h, E, t: right(h, E, t) / log(2)
        ),
        "this is the probability: the loss is minus its logarithm": lambda h, E, t: (-right(h, E, t)).exp(),
        "one minus the probability is not the loss: take minus the logarithm": (
            lambda h, E, t: 1 - (-right(h, E, t)).exp()
        ),
        "this is the target's score alone: a softmax compares it with the scores of all tokens": (
            lambda h, E, t: at(logits(h, E), t),
            lambda h, E, t: -at(logits(h, E), t),
        ),
        "softmax over the positions: the probabilities of the vocabulary sum to 1 at each position": (
            lambda h, E, t: -at(logits(h, E).log_softmax(dim=1), t)
        ),
        "the scores are divided by √d_model: that belongs to attention, and the output has none": (
            lambda h, E, t: right(h / sqrt(h.shape[-1]), E, t)
        ),
        "right for small scores, and not finite for large ones: exp(1000) is too large, and its share "
        "of a sum too small. Use log_softmax, or logsumexp, which subtract the largest first": (
            naive,
            naive_log,
            naive_sum,
        ),
    }
    draw = torch.Generator().manual_seed(33)
    cases = []
    for batch, pos, model, vocab, size in [(1, 2, 2, 3, 1), (2, 3, 4, 5, 1), (3, 4, 5, 7, 400)]:
        hidden = size * torch.randn(batch, pos, model, generator=draw, dtype=torch.float64)
        embedding = torch.randn(vocab, model, generator=draw, dtype=torch.float64)
        cases.append((hidden, embedding, torch.randint(vocab, (batch, pos), generator=draw)))
    return judge(
        attempt,
        reference=right,
        cases=cases,
        mistakes=mistakes,
        praise="the loss of each token, in nats, however large the scores are",
    )
