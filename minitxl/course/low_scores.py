"""Cases whose scores all lie far below zero, for hidden tests of functions that hide scores.

A hidden key must get the weight 0: by the score -inf, say, or by a 0 after the softmax. A number such as -30
or -10,000 in place of its score hides it only while the scores that are seen are larger, and added to its
score only while they are not much smaller. Here they all
lie below -1,000,000, and more than 10,000 apart, so that one key has the whole weight: rounding decides
nothing, in float32 either.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

QUERY = (2000.0, 40_000.0)
"""First two numbers of each query. Their products with a key's are the shift and the gaps of the scores."""


def low_scores(q: Tensor, k: Tensor, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return queries and keys [... pos dim] whose products lie below -3,000,000, and 40,000 apart.

    Of the keys, the first number is -2,000, and the second a rank that no other key of the head has.
    """
    q, k = q.clone(), k.clone()
    q[..., :2] = torch.tensor(QUERY)
    k[..., 0] = -QUERY[0]
    k[..., 1] = torch.rand(k.shape[:-1], generator=draw).argsort(dim=-1).to(k.dtype)
    return q, k


def with_low_scores(
    states: Sequence[Tensor],
    W: Mapping[str, Tensor],
    n_head: int,
    *,
    query: str = "q",
    key: str = "k",
) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Return states [batch pos model] and projections that make queries and keys like those of low_scores.

    The first number of a state becomes 1, and the second its rank, by which the keys are ordered. The last
    state has the highest: a query that sees too much at the end gives its whole weight to it. Before it the
    ranks fall from state to state, so any other query gives its weight to the first state that it sees, and
    a window that is too long or too short by one is seen for any states. Values do not read these two.
    An empty ``query`` leaves the queries alone: then a bias must have the two numbers of QUERY.
    """
    lengths = [of.shape[1] for of in states]
    ranks = torch.arange(sum(lengths)).flip(0).roll(-1)
    states = [of.clone() for of in states]
    for of, rank in zip(states, ranks.split(lengths), strict=True):
        of[..., 0], of[..., 1] = 1.0, rank.to(of.dtype)
    W = {name: of.clone() for name, of in W.items()}
    W["v"][:2] = 0.0
    for name, numbers in ((query, [QUERY, (0.0, 0.0)]), (key, [(-QUERY[0], 0.0), (0.0, 1.0)])):
        if name:
            heads = W[name].unflatten(1, (n_head, -1))
            heads[:2], heads[..., :2] = 0.0, 0.0
            heads[:2, :, :2] = torch.tensor(numbers)[:, None]
    return states, W
