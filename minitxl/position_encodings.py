"""Position encodings: sinusoids, of positions or of distances.

Transformer-XL encodes the *distance* i - j between a query i and a key j, never the position itself. Memory
and segment together have n_key keys. The axis ``dist`` holds the distances n_key-1 … 0, descending: how far
the last query is from the first key, from the second key, and so on.
"""

import torch
from einops import einsum, pack
from jaxtyping import Float, Int, Num
from torch import Tensor

from minitxl.arguments import check_distances, check_sinusoids


def sinusoids(
    positions: Num[Tensor, " pos"], d_model: int, *, dtype: torch.dtype | None = None, base: float = 10000.0
) -> Float[Tensor, "pos model"]:
    """Return for each position p the row sin(p ω_0) … sin(p ω_{n-1}), cos(p ω_0) … cos(p ω_{n-1}).

    Here n = d_model / 2, and the frequencies are ω_m = base^(-2m / d_model) (Vaswani et al., section 3.5,
    with the base 10000). Sines and cosines are concatenated and not interleaved, as in the original
    Transformer-XL code. ``dtype`` is that of the result. By default it is the dtype of ``positions``, or
    torch's default dtype if they are integers. The result is computed in float32 or better and then cast:
    bfloat16 can't represent every whole number above 256.

    >>> sinusoids(torch.arange(2), d_model=4)[0].tolist()
    [0.0, 0.0, 1.0, 1.0]
    """
    check_sinusoids(positions, d_model, dtype, base)
    if dtype is None:
        dtype = positions.dtype if positions.is_floating_point() else torch.get_default_dtype()
    compute_dtype = torch.promote_types(dtype, torch.float32)
    exponents = torch.arange(0, d_model, 2, dtype=compute_dtype, device=positions.device) / d_model
    angles = einsum(positions.to(compute_dtype), base**-exponents, "pos, half -> pos half")
    encodings, _ = pack([angles.sin(), angles.cos()], "pos *")
    return encodings.to(dtype)


def distances(
    n_key: int, *, clamp_len: int | None = None, device: torch.device | None = None
) -> Int[Tensor, " dist"]:
    """Return the distances n_key-1 … 0, each clamped to at most ``clamp_len``.

    >>> distances(5, clamp_len=3).tolist()
    [3, 3, 2, 1, 0]
    """
    check_distances(n_key, clamp_len)
    farthest = n_key - 1 if clamp_len is None else clamp_len
    return torch.arange(n_key - 1, -1, -1, device=device).clamp(max=farthest)
