"""Where the keys are: sinusoids, distances, and the left-shift of Appendix B.

Transformer-XL encodes the *distance* i - j between a query i and a key j, never
the position itself. A segment of ``query`` tokens behind a memory has ``key``
keys, so the distances that occur are key-1 … 0: that is the axis ``dist``.
"""

import torch
from einops import einsum, pack, rearrange
from jaxtyping import Float, Num
from torch import Tensor
from torch.nn.functional import pad


def sinusoids(positions: Num[Tensor, " pos"], d_model: int) -> Float[Tensor, "pos model"]:
    """Rows ``sin(p ω_0) … sin(p ω_h) ‖ cos(p ω_0) … cos(p ω_h)``, h = d_model / 2 - 1.

    Frequencies ω_m = 10000^(-2m / d_model) (Vaswani et al., section 3.5), sines and
    cosines concatenated and not interleaved, as in the original Transformer-XL code.
    The dtype is that of ``positions`` where it is floating, else torch's default.

    >>> sinusoids(torch.arange(2), d_model=4)[0].tolist()
    [0.0, 0.0, 1.0, 1.0]
    """
    if d_model % 2:
        raise ValueError(f"d_model must be even to hold sines and cosines, got {d_model}")
    dtype = positions.dtype if positions.is_floating_point() else torch.get_default_dtype()
    exponents = torch.arange(0, d_model, 2, dtype=dtype, device=positions.device) / d_model
    angles = einsum(positions.to(dtype), 10000.0**-exponents, "pos, half -> pos half")
    table, _ = pack([angles.sin(), angles.cos()], "pos *")
    return table


def distances(
    key: int, *, clamp_len: int | None = None, device: torch.device | None = None
) -> Num[Tensor, " dist"]:
    """The distances key-1 … 0, those beyond ``clamp_len`` tokens set to ``clamp_len``.

    >>> distances(5, clamp_len=3).tolist()
    [3, 3, 2, 1, 0]
    """
    farthest = key if clamp_len is None else clamp_len
    return torch.arange(key - 1, -1, -1, device=device).clamp(max=farthest)


def rel_shift(scores: Float[Tensor, "*batch query dist"]) -> Float[Tensor, "*batch query key"]:
    """Turn columns of distance key-1 … 0 into columns of keys 0 … key-1 (Appendix B).

    Query i of a segment stands at position key - query + i, so its row moves left by
    query - 1 - i. One zero column in front makes every row one longer; read as one
    line, less its first ``query`` entries, the rows slide past each other by exactly that.

    Entries of the future (j > i) hold values of the next row: they are for the mask.

    >>> rel_shift(torch.tensor([[0.0, 1, 2], [3, 4, 5]])).tolist()
    [[1.0, 2.0, 0.0], [3.0, 4.0, 5.0]]
    """
    query = scores.shape[-2]
    padded = pad(scores, (1, 0))
    line = rearrange(padded, "... query dist -> ... (query dist)")[..., query:]
    return rearrange(line, "... (query key) -> ... query key", query=query)
