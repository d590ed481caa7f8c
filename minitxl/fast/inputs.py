"""The inputs of relative attention, on every device: projected queries, keys, values and distances."""

from math import sqrt
from typing import NamedTuple

import torch
from einops import pack, rearrange
from jaxtyping import Float
from torch import Tensor, nn

from minitxl.attention import (
    Heads,
    Hidden,
    KeyMask,
    Keys,
    LayerMemory,
    Mask,
    Values,
    XLAttention,
    attention_mask,
    split_heads,
)
from minitxl.fast.linear import apply_linear
from minitxl.later_attention import BiasedAttention
from minitxl.position_encodings import distances, sinusoids

ProjectedDistances = Float[Tensor, "head padded_dist dim"]
"""r = W_kR R for the n_key + 1 distances n_key … 0, one more than r has in ``minitxl.attention``:
``AttentionInputs`` says why."""


class AttentionInputs(NamedTuple):
    """Inputs of Σ_j softmax_j(q_plus_u · k_j + q_plus_v · r_{i-j}) v_j; r has one distance more than keys.

    The extra distance makes the products q_plus_v · r one column wider than the scores, which is the
    padding column of the relative shift (see ``cpu_attention``); the other backends drop it.
    """

    q_plus_u: Heads
    """(q + u) / √d_head; without u (ALiBi, T5) q / √d_head."""
    q_plus_v: Heads
    """(q + v) / √d_head, as wide as r. For ALiBi and T5, whose r has one number a distance, it is 1."""
    k: Keys
    values: Values
    r: ProjectedDistances
    rate: float = 0.0
    """Dropout of the weights."""
    window: int | None = None
    key_mask: KeyMask | None = None

    def mask(self) -> Mask:
        """Return which keys each query may attend to."""
        n_query, n_key = self.q_plus_u.shape[2], self.k.shape[2]
        return attention_mask(
            n_query, n_key, window=self.window, key_mask=self.key_mask, device=self.k.device
        )


def keys_or_values(projection: nn.Linear, memory: LayerMemory, x: Hidden, n_head: int) -> Keys:
    """Return keys, or values, of memory and of the segment, which are projected apart.

    Both give the projection a gradient. Projected apart, no gradient is computed for the states of memory.
    """
    past, now = (split_heads(apply_linear(projection, states), n_head) for states in (memory, x))
    return pack([past, now], "batch head * dim")[0]


def project_distances(
    attention: XLAttention, n_key: int, like: Tensor, clamp_len: int | None
) -> ProjectedDistances:
    """Return r for the distances n_key … 0, one more than keys."""
    padded_dist = distances(n_key + 1, clamp_len=clamp_len, device=like.device)
    R = attention.distance_dropout(sinusoids(padded_dist, attention.d_model, dtype=like.dtype))
    projected = apply_linear(attention.W_kR, R)
    return rearrange(projected, "padded_dist (head dim) -> head padded_dist dim", head=attention.n_head)


def biased_queries(attention: XLAttention, q: Heads) -> tuple[Heads, Heads]:
    """Return (q + u) / √d_head for the keys and (q + v) / √d_head for the distances; v is a bias."""
    scale, q = 1 / sqrt(attention.d_head), q.contiguous() if q.device.type == "cpu" else q
    u, v = (rearrange(bias * scale, "head dim -> head 1 dim") for bias in (attention.u, attention.v))
    return torch.add(u, q, alpha=scale).to(q.dtype), torch.add(v, q, alpha=scale).to(q.dtype)


def bias_as_distances(
    attention: BiasedAttention,
    q: Heads,
    k: Keys,
    values: Values,
    *,
    rate: float = 0.0,
    window: int | None = None,
    clamp_len: int | None = None,
    key_mask: KeyMask | None = None,
) -> AttentionInputs:
    """Return inputs whose q_plus_v is the number 1 and whose r is the bias of each distance, of width 1.

    So a bias for head and distance is (d) of Transformer-XL alone, and every backend computes it.
    """
    padded_dist = distances(k.shape[2] + 1, clamp_len=clamp_len, device=k.device)
    r = rearrange(attention.distance_bias(padded_dist).to(k.dtype), "head padded_dist -> head padded_dist 1")
    ones = q.new_ones(*q.shape[:3], 1)
    return AttentionInputs(q / sqrt(attention.d_head), ones, k, values, r, rate, window, key_mask)
