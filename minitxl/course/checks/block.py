"""Checks of notebook 03: LayerNorm, a block with its residual connections, and the loss of each target."""

from collections.abc import Callable, Sequence
from functools import partial
from math import log

import torch
from einops import einsum, rearrange
from torch import Tensor
from torch.nn import functional

from minitxl.attention import MultiHeadAttention
from minitxl.config import ModelConfig
from minitxl.course.checker import Verdict, judge
from minitxl.model import Block


def layer_norm(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    """Return (x - mean) / √(variance + 1e-5) · gain + bias over the last axis."""
    return functional.layer_norm(x, x.shape[-1:], gain, bias)


def check_layer_norm(attempt: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Verdict:
    """``attempt(x, gain, bias)``: [batch seg model], and [model] twice."""
    draw = torch.Generator().manual_seed(1)
    cases = [
        (torch.tensor([[[1.0, 3.0, 2.0, 6.0]]]), torch.ones(4), torch.zeros(4)),
        (torch.tensor([[[1.0, 3.0]], [[7.0, 7.0]]]), torch.tensor([2.0, 1.0]), torch.tensor([0.5, -1.0])),
    ]
    cases.append((torch.tensor([[[0.001, 0.003]]]), torch.ones(2), torch.zeros(2)))  # here ε decides
    for batch, seg, width in [(2, 3, 8), (3, 4, 4)]:
        x = 3 * torch.randn(batch, seg, width, generator=draw) + 1
        cases.append((x, torch.randn(width, generator=draw), torch.randn(width, generator=draw)))
    mistakes: dict[str, Callable[..., Tensor] | Sequence[Callable[..., Tensor]]] = {
        "x.std divides the sum of squares by d - 1, and there is no ε: take the mean of the squares, add "
        "1e-5, and then the root": partial(_normed, unbiased=True, epsilon=0.0),
        "ε stands outside the root: it is added to the variance, before the root is taken": [
            partial(_beside_epsilon, unbiased=unbiased) for unbiased in (False, True)
        ],
        "the mean is not subtracted": partial(_normed, centre=False),
        "it is divided by the variance, and should be divided by its root": partial(_normed, power=1.0),
        "it is not divided by the standard deviation": partial(_normed, power=0.0),
        "the sum of squares is divided by d - 1, as torch does unless unbiased=False says otherwise: here it "
        "is the mean of squares": partial(_normed, unbiased=True),
        "mean and variance run over the positions of the segment: each token is normalised by itself, over "
        "its own components": partial(_normed, over=(-2,)),
        "mean and variance run over all tokens together: each token is normalised by itself": partial(
            _normed, over=(0, 1, 2)
        ),
        "the gain and the bias are missing": lambda x, gain, bias: _normed(x, gain * 0 + 1, bias * 0),
        "the gain is missing": lambda x, gain, bias: _normed(x, gain * 0 + 1, bias),
        "the bias is missing": lambda x, gain, bias: _normed(x, gain, bias * 0),
        "gain and bias are exchanged: the gain multiplies, the bias is added": lambda x, gain, bias: _normed(
            x, bias, gain
        ),
        "where all components are equal, the variance is 0 and the result is no number: add 1e-5 under the "
        "root": partial(_normed, epsilon=0.0),
    }
    return judge(attempt, reference=layer_norm, cases=cases, mistakes=mistakes)


def _normed(
    x: Tensor,
    gain: Tensor,
    bias: Tensor,
    *,
    over: tuple[int, ...] = (-1,),
    centre: bool = True,
    power: float = 0.5,
    unbiased: bool = False,
    epsilon: float = 1e-5,
) -> Tensor:
    """Return layer normalisation, or the same with one mistake."""
    variance = x.var(dim=over, unbiased=unbiased, keepdim=True)
    centred = x - x.mean(dim=over, keepdim=True) if centre else x
    return centred / (variance + epsilon) ** power * gain + bias


def _beside_epsilon(x: Tensor, gain: Tensor, bias: Tensor, *, unbiased: bool) -> Tensor:
    """Return layer normalisation with ε added to the standard deviation."""
    spread = x.std(dim=-1, unbiased=unbiased, keepdim=True)
    return (x - x.mean(dim=-1, keepdim=True)) / (spread + 1e-5) * gain + bias


class Layer(Block):
    """A block that equals another of the same parameters, so that a check sees whether they were changed."""

    def __eq__(self, other: object) -> bool:
        mine = self.state_dict()
        return isinstance(other, Block) and all(
            torch.equal(mine[name], value) for name, value in other.state_dict().items()
        )

    __hash__ = Block.__hash__


def solution_block(x: Tensor, layer: Block) -> Tensor:
    """Return the block's output for a segment without memory."""
    return layer(x, x[:, :0])


def check_block(attempt: Callable[[Tensor, Block], Tensor]) -> Verdict:
    """``attempt(x, layer)``: x [batch seg model], and a pre-norm ``Block`` with its parameters."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        cases = []
        for batch, seg, heads in [(1, 3, 1), (2, 5, 2)]:
            config = ModelConfig(d_model=4 * heads, d_inner=8, norm="pre", activation="gelu", dropout=0.0)
            layer = Layer(config, MultiHeadAttention(4 * heads, heads, 4))
            for parameter in layer.parameters():
                torch.nn.init.normal_(parameter, std=0.7)
            cases.append((2 * torch.randn(batch, seg, 4 * heads), layer.requires_grad_(False)))
    mistakes: dict[str, Callable[..., Tensor]] = {
        "there is no residual connection around the attention: its output is added to x": (
            lambda x, b: _fed(b.attention(b.norm_attention(x)), b)
        ),
        "there is no residual connection around the feed-forward layer: its output is added to what it was "
        "given, before the norm": lambda x, b: b.inner(b.norm_inner(_attended(x, b))),
        "there are no residual connections: each output is added to what went in before the norm": (
            lambda x, b: b.inner(b.norm_inner(b.attention(b.norm_attention(x))))
        ),
        "the norms are missing: attention and feed-forward layer each read normalised vectors": (
            lambda x, b: (y := x + b.attention(x)) + b.inner(y)
        ),
        "the norm before the attention is missing": lambda x, b: _fed(x + b.attention(x), b),
        "the norm before the feed-forward layer is missing": lambda x, b: (y := _attended(x, b)) + b.inner(y),
        "the norms come after the sums: this is post-norm, the paper's. Here the norm comes before attention "
        "and feed-forward layer, and x itself is never normalised": lambda x, b: b.norm_inner(
            (y := b.norm_attention(x + b.attention(x))) + b.inner(y)
        ),
        "the normalised vectors are added to the outputs: what is added is x as it came, before the norm": (
            lambda x, b: (z := b.norm_inner((y := b.norm_attention(x)) + b.attention(y))) + b.inner(z)
        ),
        "the first sum adds to the normed x: what is added to is x as it came": lambda x, b: _fed(
            (y := b.norm_attention(x)) + b.attention(y), b
        ),
        "the first norm is used twice: the feed-forward layer has one of its own, norm_inner": (
            lambda x, b: (y := _attended(x, b)) + b.inner(b.norm_attention(y))
        ),
        "the norms are exchanged: norm_attention comes before the attention": lambda x, b: (
            (y := x + b.attention(b.norm_inner(x))) + b.inner(b.norm_attention(y))
        ),
        "attention and feed-forward layer stand side by side: the second reads the sum that the first has "
        "made": lambda x, b: _attended(x, b) + b.inner(b.norm_inner(x)),
        "x is lost: the second sum adds to x, and not to the first sum": lambda x, b: (
            x + b.inner(b.norm_inner(_attended(x, b)))
        ),
        "the feed-forward layer comes first: the attention does": lambda x, b: _attended(_fed(x, b), b),
        "the feed-forward layer is missing": _attended,
        "the attention is missing": _fed,
    }
    return judge(attempt, reference=solution_block, cases=cases, mistakes=mistakes)


def _attended(x: Tensor, layer: Block) -> Tensor:
    return x + layer.attention(layer.norm_attention(x))


def _fed(x: Tensor, layer: Block) -> Tensor:
    return x + layer.inner(layer.norm_inner(x))


def solution_losses(hidden: Tensor, E: Tensor, b: Tensor, targets: Tensor) -> Tensor:
    """Return -ln p(target) [batch seg] of a softmax over ``hidden`` E^T + b."""
    logits = einsum(hidden, E, "batch seg model, vocab model -> batch seg vocab") + b
    return functional.cross_entropy(
        rearrange(logits, "batch seg vocab -> batch vocab seg"), targets, reduction="none"
    )


def check_losses(attempt: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> Verdict:
    """``attempt(hidden, E, b, targets)``: [batch seg model], [vocab model], [vocab], [batch seg]."""
    draw, cases = torch.Generator().manual_seed(3), []
    for batch, seg, width, vocab in [(1, 2, 2, 3), (2, 4, 3, 4), (3, 5, 8, 11)]:
        hidden, E = (2 * torch.randn(*shape, width, generator=draw) for shape in ((batch, seg), (vocab,)))
        targets = torch.randint(vocab, (batch, seg), generator=draw)
        cases.append((hidden, E, torch.randn(vocab, generator=draw), targets))
    mistakes: dict[str, Callable[..., Tensor] | Sequence[Callable[..., Tensor]]] = {
        "these are probabilities: a loss is minus the logarithm of one": lambda *case: (
            -solution_losses(*case)
        ).exp(),
        "the sign is wrong: the logarithm of a probability is negative, and a loss is minus that": (
            lambda *case: -solution_losses(*case)
        ),
        "the axis that gather needs is still there: drop the last axis, [batch seg]": [
            lambda *case: solution_losses(*case)[..., None],
            lambda *case: -solution_losses(*case)[..., None],
        ],
        "this is the mean over all tokens: every target has a loss of its own, [batch seg]": lambda *case: (
            solution_losses(*case).mean()
        ),
        "this is the sum over all tokens: every target has a loss of its own, [batch seg]": lambda *case: (
            solution_losses(*case).sum()
        ),
        "these are bits: leave out the division by ln 2, losses are in nats here": lambda *case: (
            solution_losses(*case) / log(2)
        ),
        "the bias b is not added to the logits": lambda h, E, b, t: solution_losses(h, E, b * 0, t),
        "the logarithm is missing: these are minus the probabilities of the targets": lambda *case: (
            -(-solution_losses(*case)).exp()
        ),
        "there is no softmax: these are minus the logits of the targets": lambda h, E, b, t: (
            -_picked(h @ E.T + b, t)
        ),
        "the softmax runs over the positions of the segment: the probabilities of one position sum to 1 over "
        "the vocabulary": lambda h, E, b, t: -_picked((h @ E.T + b).log_softmax(dim=1), t),
        "these are the losses of the whole vocabulary: take the entry of the target": lambda h, E, b, t: (
            -(h @ E.T + b).log_softmax(dim=-1)
        ),
        "these are the losses of the likeliest tokens: take the entry of the target": lambda h, E, b, t: (
            -(h @ E.T + b).log_softmax(dim=-1).amax(-1)
        ),
        "the logits are divided by √d, as scores of attention are: here they are not": lambda h, E, b, t: (
            solution_losses(h / h.shape[-1] ** 0.5, E, b, t)
        ),
    }
    return judge(attempt, reference=solution_losses, cases=cases, mistakes=mistakes)


def _picked(values: Tensor, targets: Tensor) -> Tensor:
    return values.gather(-1, targets[..., None])[..., 0]
