"""Notebook 13: attention of one new token in each row of a batch, with the filling masked."""

from functools import partial

import torch
from answers.one_query import by_the_layer
from einops import rearrange

from minitxl.course.checks import batched_query


def row_by_row(attention, x, keys, values, seen, r, mem_len):
    """Each row by itself, without its hidden keys; the caches of the batch are made apart."""
    outputs = [
        by_the_layer(attention, x[b], keys[b][:, seen[b]], values[b][:, seen[b]], r, mem_len)[0]
        for b in range(len(x))
    ]
    split = "batch 1 (head dim) -> batch head 1 dim"
    new = (rearrange(W(x), split, head=attention.n_head) for W in (attention.W_kE, attention.W_v))
    keys, values = (torch.cat([old, one], dim=2) for old, one in zip((keys, values), new, strict=True))
    seen = torch.cat([seen, torch.ones(len(x), 1, dtype=torch.bool)], dim=1)
    first = max(0, seen.shape[1] - mem_len)
    return torch.stack(outputs), keys[:, :, first:], values[:, :, first:], seen[:, first:]


def with_a_bias(attention, x, keys, values, seen, r, mem_len, **changed):
    how = {"bias": lambda seen: torch.where(seen, 0.0, -torch.inf), "new": True, "cut": True, "after": None}
    how |= {"near": "last", "u": "u", "v": "v", "power": 0.5} | changed
    shape = len(x), attention.n_head, 1, attention.d_head
    q, k, value = (W(x).view(shape) for W in (attention.W_q, attention.W_kE, attention.W_v))
    keys, values = torch.cat([keys, k], dim=-2), torch.cat([values, value], dim=-2)
    mask = torch.cat([seen, torch.full((len(x), 1), how["new"])], dim=-1)
    n = keys.shape[-2]
    near = r[:, :n] if how["near"] == "first" else r[:, r.shape[1] - n :]
    near = near.flip(1) if how["near"] == "turned" else near
    u, v = (getattr(attention, how[one])[:, None] if how[one] else 0 for one in "uv")
    scores = torch.einsum("bhqd,bhkd->bhqk", q + u, keys)
    scores = scores + torch.einsum("bhqd,hkd->bhqk", q + v, near)
    weights = torch.softmax(
        scores * attention.d_head ** -how["power"] + how["bias"](mask)[:, None, None], dim=-1
    )
    weights = weights * mask[:, None, None] if how["after"] else weights
    output = attention.W_o((weights @ values).flatten(1)[:, None])
    first = max(0, n - mem_len) if how["cut"] else 0
    return output, keys[:, :, first:], values[:, :, first:], mask[:, first:]


def cut_from(begin, attention, x, keys, values, seen, r, mem_len):
    output, *longer = with_a_bias(attention, x, keys, values, seen, r, mem_len, cut=False)
    begin = begin(longer[0].shape[2], mem_len)
    return output, *(one[:, :, begin:] for one in longer[:2]), longer[2][:, begin:]


def with_zeros(which):
    """The step with keys or values of 0 in place of the filling's, and no mask."""

    def attend_batch(attention, x, keys, values, seen, r, mem_len):
        token = seen[:, None, :, None]
        keys, values = (one * token if name in which else one for name, one in (("k", keys), ("v", values)))
        return with_a_bias(attention, x, keys, values, seen, r, mem_len, bias=nothing)

    return attend_batch


def nothing(mask):
    return torch.zeros(mask.shape)


ANSWERS = {
    batched_query.check_attend_batch: {
        "right": [row_by_row, with_a_bias],
        "wrong": {
            "the mask is not used": lambda *case: with_a_bias(*case, bias=nothing),
            "the mask is turned round": lambda *case: with_a_bias(
                *case, bias=lambda mask: torch.where(mask, -torch.inf, 0.0)
            ),
            "masked after the softmax": lambda *case: with_a_bias(*case, bias=nothing, after=True),
            "keys or values of the filling are set to 0": with_zeros("k"),
            "A key of 0 still has the score": with_zeros("kv"),
            "all rows get the mask of the first": lambda *case: with_a_bias(
                *case, bias=lambda mask: torch.where(mask[:1].expand_as(mask), 0.0, -torch.inf)
            ),
            "the new token is hidden": lambda *case: with_a_bias(*case, new=False),
            "the mask is returned as it was": lambda attention, x, keys, values, seen, r, mem_len: (
                *with_a_bias(attention, x, keys, values, seen, r, mem_len)[:3],
                seen,
            ),
            "the cache is not cut": lambda *case: with_a_bias(*case, cut=False),
            "the key mask is missing": lambda *case: with_a_bias(*case)[:3],
            "from its far end": lambda *case: with_a_bias(*case, near="first"),
            "r is turned around": lambda *case: with_a_bias(*case, near="turned"),
            "u and v are interchanged": lambda *case: with_a_bias(*case, u="v", v="u"),
            "the biases are missing": lambda *case: with_a_bias(*case, u="", v=""),
            "u is missing": lambda *case: with_a_bias(*case, u=""),
            "v is missing": lambda *case: with_a_bias(*case, v=""),
            "u is added in both": lambda *case: with_a_bias(*case, v="u"),
            "v is added in both": lambda *case: with_a_bias(*case, u="v"),
            "the root of the width of a key": lambda *case: with_a_bias(*case, power=0),
            "and not by its root": lambda *case: with_a_bias(*case, power=1),
            "a mem_len of 0 keeps nothing": partial(cut_from, lambda n, mem_len: -mem_len),
            "a negative start counts from the end": partial(cut_from, lambda n, mem_len: n - mem_len),
            "first difference": lambda *case: (case[1], *with_a_bias(*case)[1:]),
        },
    },
}
