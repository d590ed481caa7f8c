"""Random attentions and inputs in float64, and hypothesis strategies for their shapes."""

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from minitxl.attention import ShawAttention
from minitxl.later_attention import RotaryAttention

D_MODEL = 6
shapes = st.tuples(
    st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 5), st.integers(0, 6)
)
"""batch, n_head, d_head, query, mem"""
windows = st.none() | st.integers(1, 8)


def random_attention(kind: type, n_head: int, d_head: int, seed: int = 0, **settings) -> nn.Module:
    """Return an attention of this class with normal weights; a rotary one with an even ``d_head``."""
    torch.manual_seed(seed)
    if kind is RotaryAttention:
        d_head += d_head % 2
    if kind is ShawAttention:
        settings = {"max_distance": 3, **settings}
    attention = kind(D_MODEL, n_head, d_head, **settings).double()
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.normal_()
    return attention


def context(batch: int, query: int, mem: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return a segment and its memory."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, query, D_MODEL, dtype=torch.float64, generator=generator)
    memory = torch.randn(batch, mem, D_MODEL, dtype=torch.float64, generator=generator)
    return x, memory
