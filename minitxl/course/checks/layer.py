"""Check of notebook 01: the layer around attention, its four matrices and its heads."""

from collections.abc import Callable, Iterator, Sequence

import torch
from einops import rearrange
from torch import Tensor

from minitxl.attention import MultiHeadAttention, attention_mask, merge_heads, split_heads
from minitxl.course.checker import Verdict, judge
from minitxl.course.checks.attention import solution_attention


def solution_layer(layer: MultiHeadAttention, x: Tensor, context: Tensor) -> Tensor:
    """Return the layer's output for each token of ``x``, which attends to all tokens of ``context``."""
    return _layer(layer, x, context)


def check_layer(attempt: Callable[..., Tensor]) -> Verdict:
    """``attempt(layer, x, context)``: [batch query model] and [batch key model] to [batch query model]."""
    mistakes: dict[str, Callable[..., Tensor] | Sequence[Callable[..., Tensor]]] = {
        "W_o is missing: the heads lie side by side, and the last matrix must mix them": (
            lambda layer, x, context: _layer(layer, x, context, project=lambda merged: merged)
        ),
        "keys and values are made from x: in cross-attention they come from the context": (
            lambda layer, x, context: _layer(layer, x, x)
        ),
        "queries are made from the context: each query is a token of x": lambda layer, x, context: _layer(
            layer, context, context
        ),
        "queries come from the context, and keys and values from x: it is the other way round": (
            lambda layer, x, context: _layer(layer, context, x)
        ),
        "the values are the keys: they have a matrix of their own, W_v": lambda layer, x, context: _layer(
            layer, x, context, values=layer.W_k
        ),
        "the heads are not cut apart: all of them attend as one wide head": lambda layer, x, context: _layer(
            layer, x, context, split=lambda projected, n_head: projected[:, None]
        ),
        "head and dim are swapped inside the parentheses: '(dim head)' deals the numbers out in turn, and "
        "each head owns a block of neighbours, '(head dim)'": [
            lambda layer, x, context: _layer(layer, x, context, split=_dealt, merge=_collected),
            lambda layer, x, context: _layer(layer, x, context, split=_dealt),
            lambda layer, x, context: _layer(layer, x, context, merge=_collected),
        ],
        "the heads are merged without bringing head next to dim: a row then holds several tokens of one "
        "head": lambda layer, x, context: _layer(
            layer, x, context, merge=lambda z: z.reshape(z.shape[0], z.shape[2], -1)
        ),
        "a causal mask is applied: here every token attends to the whole context": (
            lambda layer, x, context: layer.context_output(
                x, context, attention_mask(x.shape[1], context.shape[1]) if _fits(x, context) else None
            )
        ),
        "the residual is added: this is the layer alone, without the block around it": (
            lambda layer, x, context: x + layer.context_output(x, context)
        ),
    }
    cases = list(_layers())
    names = ("layer", "x", "context")
    return judge(attempt, reference=solution_layer, cases=cases, mistakes=mistakes, names=names)


def _layer(
    layer: MultiHeadAttention,
    x: Tensor,
    context: Tensor,
    *,
    split: Callable[[Tensor, int], Tensor] = split_heads,
    merge: Callable[[Tensor], Tensor] = merge_heads,
    values: Callable[[Tensor], Tensor] | None = None,
    project: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Return the layer with one step replaced by a mistake."""
    projected = layer.W_q(x), layer.W_k(context), (values or layer.W_v)(context)
    q, k, v = (split(one, layer.n_head) for one in projected)
    result: Tensor = (project or layer.W_o)(merge(solution_attention(q, k, v)))
    return result


def _dealt(x: Tensor, n_head: int) -> Tensor:
    return rearrange(x, "batch pos (dim head) -> batch head pos dim", head=n_head)


def _collected(heads: Tensor) -> Tensor:
    return rearrange(heads, "batch head pos dim -> batch pos (dim head)")


def _fits(x: Tensor, context: Tensor) -> bool:
    return x.shape[1] <= context.shape[1]


def _layers() -> Iterator[tuple[MultiHeadAttention, Tensor, Tensor]]:
    """Yield layers with a text, itself as context, and another one: longer, shorter and as long."""
    draw = torch.Generator().manual_seed(5)
    for d_model, n_head, d_head, seg, key in [
        (4, 1, 4, 3, 3),
        (4, 2, 2, 2, 3),
        (6, 3, 2, 3, 5),
        (6, 3, 4, 4, 2),
    ]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(d_head)
            layer = MultiHeadAttention(d_model, n_head, d_head)
        x = torch.randn(2, seg, d_model, generator=draw)
        yield layer, x, x
        yield layer, x, torch.randn(2, key, d_model, generator=draw)
