"""Relative attention on a GPU: four forms of the same numbers, and the one that is fastest there.

    softmax(q_u · k_j + q_v · r_{i-j}) v_j        q_u = (q + u) / √d_head,  q_v = (q + v) / √d_head

``explicit`` is the text of ``attention``, which always works; ``compiled`` is that text, fused
by ``torch.compile``. ``biased`` hands (b) + (d) to PyTorch's attention as a bias. ``flexible``
looks them up by distance within FlexAttention, so nothing is shifted and hidden blocks are
skipped. Which is fastest depends on device, shapes and numbers: where training has work enough
to repay it, each is timed once.
"""

import logging
from collections.abc import Callable
from functools import cache, partial
from math import prod
from typing import NamedTuple

import torch
from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from minitxl.attention import Heads, Keep, Keys, average, softmax_seen, visible
from minitxl.fast.dropout import factor
from minitxl.positions import rel_shift

Distances = Float[Tensor, "head dist dim"]
Form = Callable[..., Heads]

WORTH_TIMING = 2**22
"""Scores of a layer from which on training times the forms. Compiling takes many seconds, which
smaller attention, a matter of microseconds, would not earn back."""


class Problem(NamedTuple):
    """All that decides which form is fastest."""

    device: torch.device
    tensors: tuple[tuple[torch.Size, torch.dtype], ...]
    """Shape and numbers of q_u, q_v, k, v and r."""
    rate: float
    window: int | None
    keep: bool


def relative(
    q_u: Heads, q_v: Heads, k: Keys, v: Keys, r: Distances, rate: float, window: int | None, keep: Keep | None
) -> Heads:
    """The heads' outputs, with dropout of the weights at ``rate``; r has one distance more than keys."""
    given, sight = (q_u, q_v, k, v, r), (rate, window, keep)
    if q_u.is_meta or not q_u.requires_grad or prod(q_u.shape[:3]) * k.shape[2] < WORTH_TIMING:
        return biased(*given, *sight)
    problem = Problem(
        q_u.device, tuple((part.shape, part.dtype) for part in given), rate, window, keep is not None
    )
    return forms()[fastest(problem)](*given, *sight)


def explicit(
    q_u: Heads, q_v: Heads, k: Keys, v: Keys, r: Distances, rate: float, window: int | None, keep: Keep | None
) -> Heads:
    ac = einsum(q_u, k, "batch head query dim, batch head key dim -> batch head query key")
    bd = einsum(q_v, r[:, 1:], "batch head query dim, head dist dim -> batch head query dist")
    seen = visible(q_u.shape[2], k.shape[2], window=window, keep=keep, device=k.device)
    alpha = softmax_seen(ac + rel_shift(bd), seen)
    return average(alpha * factor(alpha, rate) if rate else alpha, v)


def biased(
    q_u: Heads, q_v: Heads, k: Keys, v: Keys, r: Distances, rate: float, window: int | None, keep: Keep | None
) -> Heads:
    bd = einsum(q_v, r[:, 1:], "batch head query dim, head dist dim -> batch head query dist")
    seen = visible(q_u.shape[2], k.shape[2], window=window, keep=keep, device=k.device)
    hidden = rearrange(~seen, "batch query key -> batch 1 query key")
    bias = rel_shift(bd).masked_fill(hidden, float("-inf"))
    return scaled_dot_product_attention(q_u, k, v, attn_mask=bias, dropout_p=rate, scale=1.0)


def flexible(
    q_u: Heads,
    q_v: Heads,
    k: Keys,
    v: Keys,
    r: Distances,
    rate: float,
    window: int | None,
    keep: Keep | None,
    attend: Callable[..., Tensor] = flex_attention,
) -> Heads:
    """Key j of query i is at distance key - query + i - j, in column query - 1 - i + j.

    FlexAttention has no dropout.
    """
    if rate:
        raise NotImplementedError(f"attention dropout must be 0 in FlexAttention, got {rate}")
    query, key = q_u.shape[2], k.shape[2]
    bd = einsum(q_v, r[:, 1:], "batch head query dim, head dist dim -> batch head query dist")
    kept = k.new_ones(len(k), key, dtype=torch.bool) if keep is None else keep
    return attend(
        q_u.to(k.dtype),
        k,
        v,
        score_mod=lambda ac, batch, head, i, j: torch.where(
            kept[batch, j], ac + bd[batch, head, i, (query - 1 - i + j).clamp(max=key - 1)], float("-inf")
        ),
        block_mask=near(query, key, window, k.device),
        scale=1.0,
    )


@cache
def near(query: int, key: int, window: int | None, device: torch.device) -> BlockMask:
    """``visible`` as FlexAttention wants it, without ``keep``."""
    first, reach = key - query, window or key
    return create_block_mask(
        lambda batch, head, i, j: (j <= first + i) & (first + i - j < reach),
        None,
        None,
        query,
        key,
        device=str(device),
    )


@cache
def forms() -> dict[str, Form]:
    """By name. All shapes are taken as they are: training has one, see ``memory.padded``."""
    compiled = partial(torch.compile, dynamic=False)
    return {
        "biased": biased,
        "flexible": partial(flexible, attend=compiled(flex_attention)),
        "compiled": compiled(explicit),
        "explicit": explicit,
    }


def fastest(problem: Problem) -> str:
    """Name of the form that trains in the least time, the explicit one if none can be timed."""
    seconds = timed(problem)
    return min(seconds, key=lambda name: seconds[name], default="explicit")


@cache
def timed(problem: Problem) -> dict[str, float]:
    """Seconds of a forward and a backward pass by each form that has them here, measured once."""
    seconds = {}
    with torch.random.fork_rng([problem.device] if problem.device.type == "cuda" else []):
        for name, form in forms().items():
            try:
                seconds[name] = seconds_of(form, problem)
            except RuntimeError as error:
                reason = str(error).partition("\n")[0]
                logging.getLogger(__name__).info("relative attention can't be %s here: %s", name, reason)
    logging.getLogger(__name__).info("relative attention on %s: %s", problem, seconds)
    return seconds


def seconds_of(form: Form, problem: Problem) -> float:
    """The median time of a forward and a backward pass on random numbers, compiled before it is timed."""
    from torch.utils.benchmark import Timer  # takes half a second to import

    device = problem.device
    given = [
        torch.randn(size, dtype=dtype, device=device, requires_grad=True) for size, dtype in problem.tensors
    ]
    batch, key = problem.tensors[2][0][0], problem.tensors[2][0][2]
    keep = torch.ones(batch, key, dtype=torch.bool, device=device) if problem.keep else None

    def both() -> None:
        out = form(*given, problem.rate, problem.window, keep)
        torch.autograd.grad(out.sum(), given)

    with torch.enable_grad():
        both()
        return Timer("both()", globals={"both": both}).blocked_autorange(min_run_time=0.1).median
