"""Position encodings: sinusoids, distances, and the left-shift of Appendix B.

Transformer-XL encodes the *distance* i - j between a query i and a key j, never
the position itself. With n_key keys, memory and segment together, the distances that occur
are n_key-1 … 0: that is the axis ``dist``.
"""

import torch
from einops import einsum, pack, rearrange
from jaxtyping import Float, Int, Num
from torch import Tensor
from torch.nn.functional import pad

from minitxl.arguments import check_by_distance, check_distances, check_positions


def sinusoids(
    positions: Num[Tensor, " pos"], d_model: int, *, dtype: torch.dtype | None = None, base: float = 10000.0
) -> Float[Tensor, "pos model"]:
    """Return for each position p the row sin(p ω_0) … sin(p ω_{n-1}), cos(p ω_0) … cos(p ω_{n-1}).

    Here n = d_model / 2, and the frequencies are ω_m = base^(-2m / d_model) (Vaswani et al.,
    section 3.5, with the base 10000). Sines and cosines are concatenated and not interleaved, as in the
    original Transformer-XL code. ``dtype`` is the result's; default: the dtype of ``positions``, or
    torch's default dtype if they are integers. The table is computed in float32 or better and then
    cast: bfloat16 can't represent every whole number above 256.

    >>> sinusoids(torch.arange(2), d_model=4)[0].tolist()
    [0.0, 0.0, 1.0, 1.0]
    """
    check_positions(positions, d_model)
    if dtype is None:
        dtype = positions.dtype if positions.is_floating_point() else torch.get_default_dtype()
    compute_dtype = torch.promote_types(dtype, torch.float32)
    exponents = torch.arange(0, d_model, 2, dtype=compute_dtype, device=positions.device) / d_model
    angles = einsum(positions.to(compute_dtype), base**-exponents, "pos, half -> pos half")
    table, _ = pack([angles.sin(), angles.cos()], "pos *")
    return table.to(dtype)


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


def rel_shift(scores: Float[Tensor, "*batch query dist"]) -> Float[Tensor, "*batch query key"]:
    """Turn columns by distance, n_key-1 … 0, into columns by key, 0 … n_key-1 (Appendix B).

    Row i is the query at position p = n_key - n_query + i among the keys. Its distance to key j is p - j, in
    column n_key - 1 - (p - j) = j + (n_query - 1 - i). So row i has to move left by n_query - 1 - i: the
    first row most, the last row not at all. With 2 queries and 3 keys, from the rows a b c and d e f:

        1. put a zero in front of each row             0 a b c | 0 d e f
        2. drop the first n_query = 2 entries          b c 0 d e f
        3. cut the line into rows of n_key = 3         b c 0 | d e f

    A row has n_key + 1 entries after step 1 and n_key after step 3. So row i of the result begins at entry
    i n_key + n_query of the padded line, which is column i n_key + n_query - i (n_key + 1) = n_query - i of
    padded row i: the first row leaves out most, the last its padding zero alone.

    Entries of keys after the query hold the padding zero and values of the next row; the mask
    hides them.

    >>> rel_shift(torch.tensor([[0.0, 1, 2], [3, 4, 5]])).tolist()
    [[1.0, 2.0, 0.0], [3.0, 4.0, 5.0]]
    """
    check_by_distance(scores)
    n_query = scores.shape[-2]
    padded = pad(scores, (1, 0))
    line = rearrange(padded, "... query dist -> ... (query dist)")[..., n_query:]
    return rearrange(line, "... (query key) -> ... query key", query=n_query)
