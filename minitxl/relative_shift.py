"""The left-shift of Appendix B, which turns scores by distance into scores by key.

XL takes the product of every query with the vector of every distance (the sinusoids of the distance, times a
matrix: see ``attention.XLAttention``). The product of a query at position i with the vector of distance d
belongs to the key at i - d. So the row of each query but the last is moved left, until each product stands at
its key.

For several queries at once, ``fast`` runs this function on a GPU, and on a CPU a faster form of it, in
``fast.cpu_attention``. For a single query, the last one, there is nothing to shift.
"""

from einops import rearrange
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from minitxl.arguments import check_by_distance


def rel_shift(scores: Float[Tensor, "*batch query dist"]) -> Float[Tensor, "*batch query key"]:
    """Turn columns by distance, n_key-1 … 0, into columns by key, 0 … n_key-1 (Appendix B).

    Row t is the query at position i = n_key - n_query + t among the keys. Its distance to key j is i - j, and
    the product with that distance is in column n_key - 1 - (i - j) = j + (n_query - 1 - t). So row t has to
    move left by n_query - 1 - t: the first row most, the last row not at all. With 2 queries and 3 keys, from
    the rows a b c and d e f:

        1. put a zero in front of each row             0 a b c | 0 d e f
        2. lay the rows end to end, as one line        0 a b c 0 d e f
        3. drop the line's first n_query = 2 entries   b c 0 d e f
        4. cut what is left into rows of n_key = 3     b c 0 | d e f

    Why this moves row t by n_query - 1 - t: in the line of step 2, padded row t begins at entry
    t·(n_key + 1). Row t of the result begins at entry n_query + t·n_key of the same line, since n_query
    entries are dropped and t rows of n_key entries stand before it. That is n_query - t entries after the
    beginning of padded row t. So the result skips the padded row's first n_query - t entries: the zero, and
    n_query - 1 - t products.

    Entries of keys after the query hold the padding zero and values of the next row; the mask hides them.

    >>> import torch
    >>> rel_shift(torch.tensor([[0.0, 1, 2], [3, 4, 5]])).tolist()
    [[1.0, 2.0, 0.0], [3.0, 4.0, 5.0]]
    """
    check_by_distance(scores)
    n_query = scores.shape[-2]
    padded = pad(scores, (1, 0))
    line = rearrange(padded, "... query dist -> ... (query dist)")
    return rearrange(line[..., n_query:], "... (query key) -> ... query key", query=n_query)
