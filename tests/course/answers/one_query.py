"""Notebook 13: attention of the new token alone, with keys and values that are kept, and a model of it."""

from functools import partial

import torch
from einops import einsum, rearrange

from minitxl.attention import rel_shift
from minitxl.course.checks import cached_layers, cached_loop, one_query
from minitxl.memory import extend


def by_einsum(attention, x, keys, values, r, mem_len, **changed):
    how = {"joined": True, "early": False, "last": True, "scale": attention.d_head**0.5, "cut": True}
    how |= {"biases": "uv", "W_o": True, "distances": True, "of": ("W_q", "W_kE", "W_v")}
    how |= {"split": "(head dim) -> head dim", "each": (1, 1)} | changed
    q, k, value = (
        rearrange(getattr(attention, name)(x[0]), how["split"], head=attention.n_head) for name in how["of"]
    )
    keys, values = (torch.cat([past, new[:, None]], dim=1) for past, new in ((keys, k), (values, value)))
    if how["early"] == "safely":
        first = max(0, keys.shape[1] - mem_len)
        keys, values = keys[:, first:], values[:, first:]
    elif how["early"]:
        keys, values = keys[:, -mem_len:], values[:, -mem_len:]
    used = slice(None) if how["joined"] else slice(-1)
    n_key = keys[:, used].shape[1]
    near = r[:, r.shape[1] - n_key :] if how["last"] else r[:, :n_key]
    u, v = (sum(getattr(attention, name) for name in names if name != "0") for names in how["biases"])
    scores = einsum(q + u, keys[:, used], "head dim, head key dim -> head key") * how["each"][0]
    if how["distances"]:
        scores = scores + einsum(q + v, near, "head dim, head key dim -> head key") * how["each"][1]
    weights = torch.softmax(scores / how["scale"], dim=-1)
    output = einsum(weights, values[:, used], "head key, head key dim -> head dim")
    output = rearrange(output, "head dim -> 1 (head dim)")
    first = max(0, keys.shape[1] - mem_len) if how["cut"] else 0
    return attention.W_o(output) if how["W_o"] else output, keys[:, first:], values[:, first:]


def by_the_layer(attention, x, keys, values, r, mem_len, rows=lambda r, n: r[-n:]):
    """The step by another route: content and distance apart, over one head at a time."""
    outputs, keys_and_values = [], []
    for head in range(attention.n_head):
        own = slice(head * attention.d_head, (head + 1) * attention.d_head)
        q, k, value = (x @ W.weight[own].T for W in (attention.W_q, attention.W_kE, attention.W_v))
        k, value = torch.cat([keys[head], k]), torch.cat([values[head], value])
        content, place = (q + attention.u[head]) @ k.T, (q + attention.v[head]) @ rows(r[head], len(k)).T
        outputs.append(((content + place) * attention.d_head**-0.5).softmax(-1) @ value)
        first = max(0, len(k) - mem_len)
        keys_and_values.append((k[first:], value[first:]))
    keys, values = (torch.stack(both) for both in zip(*keys_and_values, strict=True))
    return attention.W_o(torch.cat(outputs, dim=-1)), keys, values


def with_the_shift(attention, x, keys, values, r, mem_len):
    """The step by the layer's own way for many queries: of one query the shift moves nothing."""
    q, k, value = (
        rearrange(W(x), "1 (head dim) -> 1 head 1 dim", head=attention.n_head)
        for W in (attention.W_q, attention.W_kE, attention.W_v)
    )
    keys, values = torch.cat([keys, k[0]], dim=1), torch.cat([values, value[0]], dim=1)
    u, v = (rearrange(bias, "head dim -> 1 head 1 dim") for bias in (attention.u, attention.v))
    far = rel_shift((q + v) @ r[:, -keys.shape[1] :].mT)
    weights = (((q + u) @ keys.mT + far) / attention.d_head**0.5).softmax(-1)
    output = attention.W_o(rearrange(weights @ values, "1 head 1 dim -> 1 (head dim)"))
    begin = max(0, keys.shape[1] - mem_len)
    return output, keys[:, begin:], values[:, begin:]


def with_biases_as_they_are(attention, x, keys, values, r, mem_len):
    matrices = attention.W_q, attention.W_kE, attention.W_v
    q, k, value = (rearrange(W(x), "1 (head dim) -> head 1 dim", head=attention.n_head) for W in matrices)
    keys, values = torch.cat([keys, k], dim=1), torch.cat([values, value], dim=1)
    near = r[:, -keys.shape[1] :]
    scores = (q + attention.u) @ keys.mT + (q + attention.v) @ near.mT
    weights = (scores / attention.d_head**0.5).softmax(dim=-1)
    output = attention.W_o(rearrange(weights @ values, "head 1 dim -> 1 (head dim)"))
    begin = max(0, keys.shape[1] - mem_len)
    return output, keys[:, begin:], values[:, begin:]


def cut_from(begin, attention, x, keys, values, r, mem_len):
    output, keys, values = by_einsum(attention, x, keys, values, r, mem_len, cut=False)
    begin = begin(keys.shape[1], mem_len)
    return output, keys[:, begin:], values[:, begin:]


def through_layers(model, token, cache, r, mem_len, **changed):
    how = {
        "norm": True,
        "rest": True,
        "final": True,
        "each_cache": True,
        "each_r": True,
        "log": True,
        "up": True,
    }
    how |= {"all": True} | changed
    first = x = model.embedding(token[None]) * model.config.d_model**0.5
    caches = [None] * len(model.blocks)
    for n, block in enumerate(model.blocks):
        below = x if how["up"] else first
        now = block.attention_input(below)[0] if how["norm"] else below[0]
        keys, values = cache[n if how["each_cache"] else 0]
        out, keys, values = by_einsum(
            block.attention, now, keys, values, r[n if how["each_r"] else 0], mem_len
        )
        x = block.after_attention(below, out[None]) if how["rest"] else out[None]
        caches[n] = [keys, values]
    x = model.final_norm(x) if how["final"] else x
    return model.output.log_probs(x)[0, 0] if how["log"] else x[0, 0], caches if how["all"] else caches[-1]


def by_recursion(model, token, cache, r, mem_len):
    def up(x, n):
        if n == len(model.blocks):
            return model.output.log_probs(model.final_norm(x)).squeeze(0, 1), []
        block = model.blocks[n]
        out, *keys_and_values = by_the_layer(
            block.attention, block.attention_input(x).squeeze(0), *cache[n], r[n], mem_len
        )
        log_probs, above = up(block.after_attention(x, out[None]), n + 1)
        return log_probs, [tuple(keys_and_values), *above]

    return up(model.embed(token[None]), 0)


def in_place(model, token, cache, r, mem_len):
    log_probs, longer = through_layers(model, token, cache, r, mem_len)
    cache[:] = longer
    return log_probs, cache


def in_every_tensor(model, token, cache, r, mem_len):
    log_probs, longer = through_layers(model, token, cache, r, mem_len)
    for keys, values in cache:
        keys.zero_(), values.zero_()
    return log_probs, longer


def by_hidden_states(model, prompt, length, mem_len):
    """The first loop of the notebook, which keeps hidden states, with its predictions."""
    memory, new, tokens, predicted = None, prompt, [], []
    for _ in range(length):
        log_probs, states = model(new[None], memory, window=mem_len + 1)
        memory = extend(memory, states, mem_len=mem_len)
        predicted.append(log_probs[0, -1])
        new = predicted[-1].argmax()[None]
        tokens.append(new)
    return torch.cat(tokens), torch.stack(predicted)


def by_states_projected_anew(model, prompt, length, mem_len):
    """The loop without a call of the model for what is written, but states are kept and not keys."""
    r, (log_probs, states) = (
        cached_layers.projected_distances(model, mem_len),
        model(prompt[None], window=mem_len + 1),
    )
    now, memory, tokens, predicted = log_probs[0, -1], extend(None, states, mem_len=mem_len), [], []
    while True:
        predicted.append(now)
        tokens.append(now.argmax()[None])
        if len(tokens) == length:
            return torch.cat(tokens), torch.stack(predicted)
        x, entered = model.embed(tokens[-1][None]), []
        for block, kept, rows in zip(model.blocks, memory, r, strict=True):
            attention = block.attention
            both = (W(block.attention_input(kept)) for W in (attention.W_kE, attention.W_v))
            cache = [
                rearrange(one, "1 mem (head dim) -> head mem dim", head=attention.n_head) for one in both
            ]
            out, *_ = by_the_layer(attention, block.attention_input(x)[0], *cache, rows, mem_len)
            entered.append(x)
            x = block.after_attention(x, out[None])
        memory = extend(memory, torch.stack(entered), mem_len=mem_len)
        now = model.output.log_probs(model.final_norm(x))[0, -1]


def by_the_whole_text(model, prompt, length, mem_len):
    text, predicted = prompt, []
    for _ in range(length):
        predicted.append(model(text[None], window=mem_len + 1)[0][0, -1])
        text = torch.cat([text, predicted[-1].argmax()[None]])
    return text[len(prompt) :], torch.stack(predicted)


def loop_by_tokens(model, prompt, length, mem_len):
    """The prompt is read one by one too."""
    r = cached_layers.projected_distances(model, mem_len)
    cache, text, predicted = [(layer[:, :0], layer[:, :0]) for layer in r], list(prompt.split(1)), []
    for at in range(len(prompt) + length - 1):
        log_probs, cache = through_layers(model, text[at], cache, r, mem_len)
        if at >= len(prompt) - 1:
            predicted.append(log_probs)
            text.append(log_probs.argmax()[None])
    return torch.cat(text[len(prompt) :]), torch.stack(predicted)


def loop_by_layers(model, prompt, length, mem_len, **changed):
    """The prompt is read by a loop of its own, a layer after the other."""
    how = {"window": mem_len + 1, "norm": True, "first": max(0, len(prompt) - mem_len), "last": None}
    how |= {
        "turn": 1,
        "grow": True,
        "more": False,
        "reads": 0,
        "place": -1,
        "again": 0,
        "split": "b s (h d) -> b h s d",
    }
    how |= changed
    x, cache, r = model.embed(prompt[None]), [], cached_layers.projected_distances(model, mem_len)
    for block in model.blocks:
        attention, entering = block.attention, block.attention_input(x)
        projected = (W(entering if how["norm"] else x) for W in (attention.W_kE, attention.W_v))
        both = [rearrange(one, how["split"], h=attention.n_head)[0] for one in projected]
        cache.append([one[:, how["first"] : how["last"]] for one in both][:: how["turn"]])
        x = block.after_attention(x, attention(entering, window=how["window"]))
    now = model.output.log_probs(model.final_norm(x))[0, how["place"]]
    if how["again"]:
        now, cache = by_recursion(model, prompt[-1:], cache, r, mem_len)
    tokens, predicted = [], []
    for left in reversed(range(length)):
        tokens.append(int(now.argmax()))
        predicted.append(now)
        if left or how["more"]:
            now, longer = by_recursion(model, torch.tensor(tokens[-1:]), cache, r, mem_len - how["reads"])
            cache = longer if how["grow"] else cache
    return torch.tensor(tokens), torch.stack(predicted)


ANSWERS = {
    cached_loop.check_write_cached: {
        "right": [loop_by_tokens, loop_by_layers],
        "wrong": {
            "the window is missing": lambda *case: loop_by_layers(*case, window=None),
            "so window=mem_len + 1": lambda *case: loop_by_layers(*case, window=case[3]),
            "the window is one too long": lambda *case: loop_by_layers(*case, window=case[3] + 2),
            "the cache is one token too short": lambda model, prompt, length, mem_len: loop_by_layers(
                model, prompt, length, mem_len - 1
            ),
            "after the prompt the cache is one token too short": lambda *case: loop_by_layers(
                *case, first=max(0, len(case[1]) - case[3] + 1)
            ),
            "read_cached is given a mem_len that is one too small": lambda *case: loop_by_layers(
                *case, reads=1
            ),
            "model(…) reads 8 tokens, and the prompt has 3": by_hidden_states,
            "to write 6 tokens after a prompt of 3 the model read 33": by_the_whole_text,
            "W_kE of the first layer makes": by_states_projected_anew,
            "attention_input is left out": lambda *case: loop_by_layers(*case, norm=False),
            "keys are made by W_kE": lambda *case: loop_by_layers(*case, turn=-1),
            "split it as (head dim)": lambda *case: loop_by_layers(*case, split="b s (d h) -> b h s d"),
            "the cache is empty after the prompt": lambda *case: loop_by_layers(*case, last=0),
            "the cache holds the whole prompt": lambda *case: loop_by_layers(*case, first=0),
            "the first states of the prompt": lambda *case: loop_by_layers(*case, first=0, last=case[3]),
            "read_cached returns a new one": lambda *case: loop_by_layers(*case, grow=False),
            "the prompt's last token is read twice": lambda *case: loop_by_layers(*case, again=True),
            "predicted at its last": lambda *case: loop_by_layers(*case, place=0),
            "one late": lambda model, prompt, length, mem_len: (
                loop_by_layers(model, prompt, length, mem_len)[0],
                loop_by_layers(model, prompt, length + 1, mem_len)[1][1:],
            ),
            "return the logarithms": lambda *case: (
                loop_by_layers(*case)[0],
                loop_by_layers(*case)[1].exp(),
            ),
            "return both": lambda *case: loop_by_layers(*case)[0],
            "return the tokens first": lambda *case: loop_by_layers(*case)[::-1],
            "the prompt is no part": lambda model, prompt, *case: (
                torch.cat([prompt, loop_by_layers(model, prompt, *case)[0]]),
                loop_by_layers(model, prompt, *case)[1],
            ),
            "where 8 are enough": lambda *case: loop_by_layers(*case, more=True),
            "you returned the shape [5]": lambda model, prompt, length, mem_len: (
                loop_by_layers(model, prompt, length, mem_len)[0][1:],
                loop_by_layers(model, prompt, length, mem_len)[1],
            ),
        },
    },
    cached_layers.check_read_cached: {
        "right": [through_layers, by_recursion],
        "wrong": {
            "each layer reads the embedding": lambda *case: through_layers(*case, up=False),
            "after_attention is left out": lambda *case: through_layers(*case, rest=False),
            "attention_input is left out": lambda *case: through_layers(*case, norm=False),
            "the last norm is left out": lambda *case: through_layers(*case, final=False),
            "the first layer's cache": lambda *case: through_layers(*case, each_cache=False),
            "the first layer's r": lambda *case: through_layers(*case, each_r=False),
            "returned as it was": lambda model, token, cache, *others: (
                through_layers(model, token, cache, *others)[0],
                cache,
            ),
            "of a single layer": lambda *case: through_layers(*case, all=False),
            "the numbers are states": lambda *case: through_layers(*case, log=False),
            "is changed in place, and whoever holds it": in_place,
            "it changes what it was given": in_every_tensor,
            "you returned the shape [1, 1, 11]": lambda *case: (
                through_layers(*case)[0][None, None],
                through_layers(*case)[1],
            ),
        },
    },
    one_query.check_attend_one: {
        "right": [by_einsum, by_the_layer, with_the_shift],
        "wrong": {
            "the token does not see itself": lambda *case: by_einsum(*case, joined=False),
            "Attend first, then cut": lambda *case: by_einsum(*case, early=True),
            "it sees one token too few": lambda *case: by_einsum(*case, early="safely"),
            "and not by its root": lambda attention, *case: by_einsum(
                attention, *case, scale=attention.d_head
            ),
            "split it as (head dim)": lambda *case: by_einsum(*case, split="(dim head) -> head dim"),
            "r is read from its far end": lambda *case: by_einsum(*case, last=False),
            "r is one row off": lambda *case: by_the_layer(*case, rows=lambda r, n: r[-n - 1 : -1]),
            "of the token itself, and n keys": lambda *case: by_the_layer(
                *case, rows=lambda r, n: r[-n + 1 :]
            ),
            "only one of the two products": lambda attention, *case: by_einsum(
                attention, *case, scale=1.0, each=(1, attention.d_head**-0.5)
            ),
            "brackets / comes before +": lambda attention, *case: by_einsum(
                attention, *case, scale=1.0, each=(attention.d_head**-0.5, 1)
            ),
            "the distances are missing": lambda *case: by_einsum(*case, distances=False),
            "u and v are interchanged": lambda *case: by_einsum(*case, biases="vu"),
            "the biases are missing": lambda *case: by_einsum(*case, biases="00"),
            "u is added in both": lambda *case: by_einsum(*case, biases="uu"),
            "v is added in both": lambda *case: by_einsum(*case, biases="vv"),
            "q is changed when u is added": lambda *case: by_einsum(*case, biases=("u", "uv")),
            "u and v are added in both": lambda *case: by_einsum(*case, biases=("uv", "uv")),
            "q is [head 1 dim] and attention.u is": with_biases_as_they_are,
            "v is missing": lambda *case: by_einsum(*case, biases="u0"),
            "u is missing": lambda *case: by_einsum(*case, biases="0v"),
            "and here from W_kE": lambda *case: by_einsum(*case, of=("W_q", "W_kE", "W_kE")),
            "and here from W_v": lambda *case: by_einsum(*case, of=("W_q", "W_v", "W_v")),
            "returned before the keys": lambda *case: [by_einsum(*case)[n] for n in (0, 2, 1)],
            "divided by the root": lambda *case: by_einsum(*case, scale=1.0),
            "the cache is not cut": lambda *case: by_einsum(*case, cut=False),
            "of a head's width": lambda attention, *case: by_einsum(
                attention, *case, scale=attention.d_model**0.5
            ),
            "a mem_len of 0 keeps nothing": partial(cut_from, lambda n, mem_len: -mem_len),
            "a negative start counts from the end": partial(cut_from, lambda n, mem_len: n - mem_len),
            "W_o is missing": lambda *case: by_einsum(*case, W_o=False),
            "in the value at [0], first difference": lambda attention, x, keys, values, r, mem_len: (
                x,
                keys,
                values,
            ),
        },
    },
}
