"""Relative attention on a GPU: four backends for the same numbers, and the fastest of them there.

    softmax(q_u · k_j + q_v · r_{i-j}) v_j        q_u = (q + u) / √d_head,  q_v = (q + v) / √d_head

``eager`` has the formulas of ``attention`` and always works. ``compiled`` is ``eager`` through
``torch.compile``. ``sdpa_bias`` hands (b) + (d) to PyTorch's attention as a bias. ``flex`` looks
(b) + (d) up by distance within FlexAttention, so nothing is shifted and masked blocks are skipped.
Which backend is fastest depends on device, shapes and number format: where training has work
enough to repay it, each backend is timed once.
"""

import logging
from collections.abc import Callable
from functools import cache, partial
from math import prod
from typing import NamedTuple

import torch
from einops import einsum, rearrange
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from minitxl.attention import (
    Heads,
    content_scores,
    distance_scores,
    masked_softmax,
    weighted_sum,
)
from minitxl.fast.dropout import dropout_mask
from minitxl.fast.inputs import AttentionInputs

WORTH_TIMING = 2**22
"""Scores of a layer from which on training times the backends. Compiling takes many seconds, which
smaller attention, a matter of microseconds, would not earn back."""


Backend = Callable[[AttentionInputs], Heads]


class Workload(NamedTuple):
    """The properties that decide which backend is fastest."""

    device: torch.device
    tensors: tuple[tuple[torch.Size, torch.dtype], ...]
    """Shape and number format of q_u, q_v, k, v and r."""
    rate: float
    window: int | None
    has_key_mask: bool


def relative(inputs: AttentionInputs) -> Heads:
    """Return the heads' outputs from the backend that suits the inputs."""
    q_u, _, k, *_ = inputs
    if q_u.is_meta or not q_u.requires_grad or prod(q_u.shape[:3]) * k.shape[2] < WORTH_TIMING:
        return sdpa_bias(inputs)
    return backends()[fastest(workload_of(inputs))](inputs)


def workload_of(inputs: AttentionInputs) -> Workload:
    """Return what decides the fastest backend for these inputs."""
    tensors = tuple((tensor.shape, tensor.dtype) for tensor in inputs[:5])
    return Workload(inputs.q_u.device, tensors, inputs.rate, inputs.window, inputs.key_mask is not None)


def eager(inputs: AttentionInputs) -> Heads:
    """Return the outputs by the formulas of ``attention``."""
    q_u, q_v, k, v, r, rate, *_ = inputs
    scores = content_scores(q_u, k) + distance_scores(q_v, r[:, 1:])
    alpha = masked_softmax(scores, inputs.mask())
    return weighted_sum(alpha * dropout_mask(alpha, rate) if rate else alpha, v)


def sdpa_bias(inputs: AttentionInputs) -> Heads:
    """Return the outputs of PyTorch's attention with (b) + (d) as its bias."""
    q_u, q_v, k, v, r, rate, *_ = inputs
    masked = rearrange(~inputs.mask(), "batch query key -> batch 1 query key")
    bias = distance_scores(q_v, r[:, 1:]).masked_fill(masked, float("-inf"))
    return scaled_dot_product_attention(q_u, k, v, attn_mask=bias, dropout_p=rate, scale=1.0)


def flex(inputs: AttentionInputs, attend: Callable[..., Tensor] = flex_attention) -> Heads:
    """Return the outputs of FlexAttention, which has no dropout.

    Key j of query i is at distance n_key - n_query + i - j, in column n_query - 1 - i + j.
    """
    q_u, q_v, k, v, r, rate, window, key_mask = inputs
    if rate:
        raise NotImplementedError(f"attention dropout must be 0 in FlexAttention, got {rate}")
    n_query, n_key = q_u.shape[2], k.shape[2]
    bd = einsum(q_v, r[:, 1:], "batch head query dim, head dist dim -> batch head query dist")
    unmasked = k.new_ones(len(k), n_key, dtype=torch.bool) if key_mask is None else key_mask
    return attend(
        q_u.to(k.dtype),
        k,
        v,
        score_mod=lambda ac, batch, head, i, j: torch.where(
            unmasked[batch, j],
            ac + bd[batch, head, i, (n_query - 1 - i + j).clamp(max=n_key - 1)],
            float("-inf"),
        ),
        block_mask=flex_block_mask(n_query, n_key, window, k.device),
        scale=1.0,
    )


@cache
def flex_block_mask(n_query: int, n_key: int, window: int | None, device: torch.device) -> BlockMask:
    """Return ``attention_mask`` as FlexAttention wants it, without ``key_mask``."""
    first, reach = n_key - n_query, window or n_key
    return create_block_mask(
        lambda batch, head, i, j: (j <= first + i) & (first + i - j < reach),
        None,
        None,
        n_query,
        n_key,
        device=str(device),
    )


@cache
def backends() -> dict[str, Backend]:
    """Return the backends by name. A compiled one takes one shape: see ``training.memory_mask.padded``."""
    compiled = partial(torch.compile, dynamic=False)
    return {
        "sdpa_bias": sdpa_bias,
        "flex": partial(flex, attend=compiled(flex_attention)),
        "compiled": compiled(eager),
        "eager": eager,
    }


def fastest(workload: Workload) -> str:
    """Return the name of the backend that trains in the least time, "eager" if none can be timed."""
    seconds = timed(workload)
    return min(seconds, key=lambda name: seconds[name], default="eager")


@cache
def timed(workload: Workload) -> dict[str, float]:
    """Return the seconds of a forward and a backward pass of each backend that runs here, measured once."""
    seconds = {}
    with torch.random.fork_rng([workload.device] if workload.device.type == "cuda" else []):
        for name, backend in backends().items():
            try:
                seconds[name] = seconds_of(backend, workload)
            except RuntimeError as error:
                reason = str(error).partition("\n")[0]
                logging.getLogger(__name__).info("relative attention can't be %s here: %s", name, reason)
    logging.getLogger(__name__).info("relative attention on %s: %s", workload, seconds)
    return seconds


def seconds_of(backend: Backend, workload: Workload) -> float:
    """Return the median time of a forward and a backward pass on random numbers, after compilation."""
    from torch.utils.benchmark import Timer  # takes half a second to import

    device = workload.device
    tensors = [
        torch.randn(size, dtype=dtype, device=device, requires_grad=True) for size, dtype in workload.tensors
    ]
    batch, n_key = workload.tensors[2][0][0], workload.tensors[2][0][2]
    key_mask = torch.ones(batch, n_key, dtype=torch.bool, device=device) if workload.has_key_mask else None
    q_u, q_v, k, v, r = tensors
    inputs = AttentionInputs(q_u, q_v, k, v, r, workload.rate, workload.window, key_mask)

    def both() -> None:
        torch.autograd.grad(backend(inputs).sum(), tensors)

    with torch.enable_grad():
        both()
        return Timer("both()", globals={"both": both}).blocked_autorange(min_run_time=0.1).median
