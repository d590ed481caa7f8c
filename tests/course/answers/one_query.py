"""Notebook 13: attention of the new token alone, with keys and values that are kept."""

import torch
from einops import einsum, rearrange

from minitxl.course.checks import one_query


def by_einsum(attention, x, keys, values, r, mem_len, **changed):
    how = {"joined": True, "early": False, "last": True, "scale": attention.d_head**0.5, "cut": True}
    how |= {"swap": False, "W_o": True, "distances": True} | changed
    q, k, value = (
        W(x[0]).unflatten(0, (attention.n_head, attention.d_head))
        for W in (attention.W_q, attention.W_kE, attention.W_v)
    )
    keys, values = (torch.cat([past, new[:, None]], dim=1) for past, new in ((keys, k), (values, value)))
    if how["early"]:
        keys, values = keys[:, -mem_len:], values[:, -mem_len:]
    used = slice(None) if how["joined"] else slice(-1)
    n_key = keys[:, used].shape[1]
    near = r[:, r.shape[1] - n_key :] if how["last"] else r[:, :n_key]
    u, v = (attention.v, attention.u) if how["swap"] else (attention.u, attention.v)
    scores = einsum(q + u, keys[:, used], "head dim, head key dim -> head key")
    if how["distances"]:
        scores = scores + einsum(q + v, near, "head dim, head key dim -> head key")
    weights = torch.softmax(scores / how["scale"], dim=-1)
    output = einsum(weights, values[:, used], "head key, head key dim -> head dim")
    output = rearrange(output, "head dim -> 1 (head dim)")
    first = max(0, keys.shape[1] - mem_len) if how["cut"] else 0
    return attention.W_o(output) if how["W_o"] else output, keys[:, first:], values[:, first:]


def by_the_layer(attention, x, keys, values, r, mem_len):
    """The step by another route: content and distance apart, over one head at a time."""
    outputs, kept = [], []
    for head in range(attention.n_head):
        own = slice(head * attention.d_head, (head + 1) * attention.d_head)
        q, k, value = (x @ W.weight[own].T for W in (attention.W_q, attention.W_kE, attention.W_v))
        k, value = torch.cat([keys[head], k]), torch.cat([values[head], value])
        content, place = (q + attention.u[head]) @ k.T, (q + attention.v[head]) @ r[head, -len(k) :].T
        outputs.append(((content + place) * attention.d_head**-0.5).softmax(-1) @ value)
        first = max(0, len(k) - mem_len)
        kept.append((k[first:], value[first:]))
    keys, values = (torch.stack(both) for both in zip(*kept, strict=True))
    return attention.W_o(torch.cat(outputs, dim=-1)), keys, values


def with_negative_slice(attention, x, keys, values, r, mem_len):
    output, keys, values = by_einsum(attention, x, keys, values, r, mem_len, cut=False)
    return output, keys[:, -mem_len:], values[:, -mem_len:]


ANSWERS = {
    one_query.check_attend_one: {
        "right": [by_einsum, by_the_layer],
        "wrong": {
            "the token does not see itself": lambda *case: by_einsum(*case, joined=False),
            "Attend first, then cut": lambda *case: by_einsum(*case, early=True),
            "r is read from its far end": lambda *case: by_einsum(*case, last=False),
            "the distances are missing": lambda *case: by_einsum(*case, distances=False),
            "u and v are interchanged": lambda *case: by_einsum(*case, swap=True),
            "divided by the root": lambda *case: by_einsum(*case, scale=1.0),
            "the cache is not cut": lambda *case: by_einsum(*case, cut=False),
            "of a head's width": lambda attention, *case: by_einsum(
                attention, *case, scale=attention.d_model**0.5
            ),
            "a mem_len of 0 keeps nothing": with_negative_slice,
            "W_o is missing": lambda *case: by_einsum(*case, W_o=False),
            "in the value at [0], first difference": lambda attention, x, keys, values, r, mem_len: (
                x,
                keys,
                values,
            ),
        },
    },
}
