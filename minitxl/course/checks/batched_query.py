"""Check of notebook 13's cache for a batch: attention of one new token in each row, with filling masked."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor

from minitxl.attention import XLAttention
from minitxl.course.checker import Function, Verdict, judge
from minitxl.course.checks.one_query import OF_BOTH, drawn_layer, with_biases

Kept = Float[Tensor, "batch head mem dim"]
Seen = Bool[Tensor, "batch mem"]
Step = tuple[Tensor, Tensor, Tensor, Tensor]

NAMES = ["attention", "x", "keys", "values", "seen", "r", "mem_len"]


def solution_attend_batch(
    attention: XLAttention, x: Tensor, keys: Kept, values: Kept, seen: Seen, r: Tensor, mem_len: int
) -> Step:
    """Return the output for one new token in each row, [batch 1 model], and the last ``mem_len`` of the rest.

    ``seen`` is False at the filling, which no query sees; a new token is seen.
    """
    return _attended(attention, x, keys, values, seen, r, mem_len)


def check_attend_batch(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(attention, x, keys, values, seen, r, mem_len)``: output, keys, values and seen."""

    def with_(**change: Any) -> Function:
        return lambda *case: _attended(*case, **change)

    mistakes: dict[str, Function | Sequence[Function]] = {
        "the mask is not used: a key that is not seen gets the score -inf, before the softmax": with_(
            masked="never"
        ),
        "the mask is turned round: seen is True for a token, and what is not seen gets -inf": with_(
            masked="turned"
        ),
        "the weights are masked after the softmax, and no longer sum to 1: put -inf in place of the scores": (
            with_(masked="after")
        ),
        "the scores that are not seen become 0, and e^0 is 1: they need -inf to get no weight": with_(
            masked="zero"
        ),
        "keys or values of the filling are set to 0. A key of 0 still has the score (q + v) · r_j / √d, "
        "and so a weight: put -inf in place of the scores": [
            with_(masked="never", zeroed=which) for which in ("k", "v", "kv")
        ],
        "all rows get the mask of the first: each has its own, [batch 1 1 key]": with_(masked="first"),
        "the new token is hidden: seen gets a True for it, in each row": with_(new=False),
        "the mask is returned as it was: it gets a place for the new token, and is cut as the keys are": (
            with_(left="old")
        ),
        "the mask is not cut: keep its last mem_len places, as of keys and values": with_(left="long"),
        "the cache is not cut: keep the last mem_len keys, values and places of the mask": with_(cut=None),
        "the key mask is missing: return output, keys, values and seen": with_(returned=3),
        **{sentence: with_(**change) for sentence, change in OF_BOTH.items()},
    }
    praise = "each row sees its own tokens and no filling, and the mask moves on with the cache"
    return judge(
        attempt,
        reference=solution_attend_batch,
        cases=_cases(),
        mistakes=mistakes,
        praise=praise,
        names=NAMES,
    )


def _cases() -> list[tuple[Any, ...]]:
    """Return caches with filling on the left, one that fills, two that are full, and two without filling.

    The last keeps nothing.
    """
    generator, cases = torch.Generator().manual_seed(37), []
    for hidden, kept, mem_len in (
        ((0, 2, 1), 3, 5),
        ((2, 0), 4, 4),
        ((1, 3, 0, 2), 4, 4),
        ((0, 0), 2, 3),
        ((0, 0), 0, 0),
    ):
        attention, r = drawn_layer(2, 8, mem_len, generator, std=0.5)
        sizes = (len(hidden), 1, 16), (len(hidden), 2, kept, 8), (len(hidden), 2, kept, 8)
        drawn = [torch.randn(size, generator=generator, dtype=torch.float64) for size in sizes]
        seen = torch.arange(kept) >= torch.tensor(hidden)[:, None]
        cases.append((attention, *drawn, seen, r, mem_len))
    return cases


def _attended(
    attention: XLAttention,
    x: Tensor,
    keys: Kept,
    values: Kept,
    seen: Seen,
    r: Tensor,
    mem_len: int,
    *,
    masked: str = "before",
    zeroed: str = "",
    new: bool = True,
    left: str = "cut",
    cut: str | None = "last",
    returned: int = 4,
    rows: str = "last",
    biases: str | tuple[str, str] = "uv",
    power: float = 0.5,
) -> Any:
    """Return a step of the cache for a batch; the options make mistakes."""
    split = "batch 1 (head dim) -> batch head 1 dim"
    q, k, value = (
        rearrange(W(x), split, head=attention.n_head) for W in (attention.W_q, attention.W_kE, attention.W_v)
    )
    for_keys, for_distances = with_biases(attention, q, biases)
    keys, values = torch.cat([keys, k], dim=2), torch.cat([values, value], dim=2)
    longer = torch.cat([seen, seen.new_full((len(seen), 1), new)], dim=1)
    if zeroed:
        filling = rearrange(~longer, "batch key -> batch 1 key 1")
        keys, values = (
            one.masked_fill(filling, 0.0) if name in zeroed else one
            for name, one in (("k", keys), ("v", values))
        )
    n_key = keys.shape[2]
    nearest = r[:, r.shape[1] - n_key :]
    ordered = {"last": nearest, "first": r[:, :n_key], "turned": nearest.flip(1)}[rows]
    scores = (for_keys @ keys.mT + for_distances @ ordered.mT) / attention.d_head**power
    hidden = rearrange(~longer, "batch key -> batch 1 1 key")
    hidden = {"turned": ~hidden, "first": hidden[:1]}.get(masked, hidden)
    if masked not in ("never", "after"):
        scores = scores.masked_fill(hidden, 0.0 if masked == "zero" else -torch.inf)
    weights = scores.softmax(dim=-1)
    weights = weights.masked_fill(hidden, 0.0) if masked == "after" else weights
    output = attention.W_o(rearrange(weights @ values, "batch head 1 dim -> batch 1 (head dim)"))
    begins = {"last": max(0, n_key - mem_len), "below zero": n_key - mem_len, "negative": -mem_len, None: 0}
    begin = begins[cut]
    mask = {"cut": longer[:, begin:], "old": seen, "long": longer}[left]
    return (output, keys[:, :, begin:], values[:, :, begin:], mask)[:returned]
