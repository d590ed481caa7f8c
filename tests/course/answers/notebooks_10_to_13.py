"""Notebooks 10 to 13: steps of training, interventions, costs and generation."""

from math import cos, log, pi, sin, sqrt

import torch
from einops import rearrange
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from minitxl.course.checks import (
    cost,
    drawing,
    generation,
    interventions,
    memory_use,
    schedule,
    scoring,
    training,
    training_bugs,
)
from minitxl.memory import extend


def written(
    model,
    prompt,
    length,
    mem_len,
    *,
    window=1,
    anew=False,
    remember=True,
    last=True,
    replaced=False,
    cut=True,
):
    text, past, new = prompt, None, prompt
    for _ in range(length):
        with torch.no_grad():
            read = text if anew else new
            log_probs, states = model(read[None], past, window=None if window is None else mem_len + window)
        kept = mem_len if cut else 99
        past = None if anew else states if replaced else extend(past, states, mem_len=kept)
        past = past if remember else None
        new = log_probs[0, -1 if last else 0].argmax()[None]
        text = torch.cat([text, new])
    return text[len(prompt) :]


def written_as_a_list(model, prompt, length, mem_len):
    tokens, past = [], None
    while len(tokens) < length:
        new = torch.tensor(tokens[-1:]) if tokens else prompt
        with torch.no_grad():
            log_probs, states = model(new[None], past, window=mem_len + 1)
        past = extend(past, states, mem_len=mem_len)
        tokens.append(int(log_probs[0, -1].argmax()))
    return torch.tensor(tokens)


def with_one_token_more(model, prompt, length, mem_len):
    result = written(model, prompt, length, mem_len)
    model(result[-1:][None])
    return result


def with_the_last_of_the_prompt_again(model, prompt, length, mem_len):
    with torch.no_grad():
        past = extend(None, model(prompt[None], window=mem_len + 1)[1], mem_len=mem_len)
        new, tokens = prompt[-1:], []
        for _ in range(length):
            log_probs, states = model(new[None], past, window=mem_len + 1)
            past = extend(past, states, mem_len=mem_len)
            new = log_probs[0, -1].argmax(-1, keepdim=True)
            tokens.append(new)
    return torch.cat(tokens)


def drawn_at_random(model, prompt, length, mem_len):
    past, new, tokens = None, prompt, []
    with torch.no_grad():
        for _ in range(length):
            log_probs, states = model(new[None], past, window=mem_len + 1)
            past = extend(past, states, mem_len=mem_len)
            new = torch.multinomial(log_probs[0, -1].exp(), 1)
            tokens.append(new)
    return torch.cat(tokens)


def without_an_axis(model, prompt, length, mem_len):
    past, new, tokens = None, prompt, []
    with torch.no_grad():
        for _ in range(length):
            log_probs, states = model(rearrange(new, "seg -> 1 seg"), past, window=mem_len + 1)
            past = extend(past, states, mem_len=mem_len)
            new = log_probs[0, -1].argmax(-1)
            tokens.append(new)
    return torch.stack(tokens)


def without_an_axis_and_a_row_of_it(model, prompt, length, mem_len):
    past, new, tokens = None, prompt, []
    for _ in range(length):
        log_probs, states = model(new[None], past, window=mem_len + 1)
        past = extend(past, states, mem_len=mem_len)
        new = log_probs[0, -1].argmax(-1)
        tokens.append(new)
    return torch.stack(tokens)


def nucleus(log_probs, temperature, top_p, *, shifted=True, back=True, normed=True, more=0):
    probs, order = torch.sort((log_probs / temperature).softmax(-1), descending=True, dim=-1)
    remove = probs.cumsum(-1) > top_p
    if shifted:
        remove[..., 1:] = remove[..., :-1].clone()
        remove[..., 0] = False
    for _ in range(more):
        remove[..., 1:] = remove[..., :-1].clone()
    probs[remove] = 0
    probs = probs / probs.sum(-1, keepdim=True) if normed else probs
    return torch.zeros_like(probs).scatter(-1, order, probs) if back else probs


def nucleus_by_rows(log_probs, temperature, top_p):
    rows = []
    powers = log_probs.exp() ** (1 / temperature)
    for row in (powers / powers.sum(-1, keepdim=True)).flatten(0, -2):
        total, chosen = 0.0, torch.zeros_like(row)
        for token in row.argsort(descending=True):
            if total < top_p:
                chosen[token] = row[token]
            total += row[token].item()
        rows.append(chosen / chosen.sum())
    return torch.stack(rows).view_as(log_probs)


def keeping_the_last(joined, mem_len):
    return joined[:, :, max(0, joined.shape[2] - mem_len) :]


def rescale(gradients, clip):
    norm = sum((one**2).sum() for one in gradients).sqrt()
    for one in gradients:
        one *= clip / norm


def step(model, optimizer, segment, past, rate, mem_len, clip, *, bug=""):
    for group in optimizer.param_groups[: 1 if bug == "group" else None]:
        group["lr"] = group["lr"] if bug == "unset" else group["lr"] * rate if bug == "multiplied" else rate
    if bug != "added":
        model.zero_grad()
    by_token, states = model.token_losses(*segment, past)
    if bug in ("half", "last"):
        by_token = by_token[:, -1 if bug == "last" else by_token.shape[1] // 2 :]
    of = {"sum": 1, "row sum": by_token.shape[1], "token sum": len(by_token)}.get(bug, by_token.numel())
    loss = by_token.sum() / of
    loss = loss / log(2) if bug == "bits" else loss
    if bug == "clip":
        clip_grad_norm_(model.parameters(), clip)
    descended = {"backward sum": by_token.sum(), "backward bits": loss / log(2), "tenfold": 10 * loss}.get(
        bug, loss
    )
    descended.backward()
    if bug == "rescaled":
        rescale([one.grad for one in model.parameters() if one.grad is not None], clip)
    elif bug == "value":
        clip_grad_value_(model.parameters(), clip)
    elif bug == "each":
        for parameter in model.parameters():
            clip_grad_norm_([parameter], clip)
    elif bug not in ("clip", "unclipped"):
        clip_grad_norm_(model.parameters(), clip)
    if bug != "still":
        optimizer.step()
    if bug.startswith("late"):
        again, new_states = model.token_losses(*segment, past)
        loss = loss if bug == "late states" else again.mean()
        states = states if bug == "late loss" else new_states
    joined = states if past is None or bug == "replaced" else torch.cat([past, states], dim=2)
    joined = torch.cat([states, past], dim=2) if bug == "swapped" and past is not None else joined
    joined = joined[:, :, -mem_len:] if bug == "-0" else keeping_the_last(joined, mem_len)
    return loss.item(), None if bug == "none" else joined if bug == "graph" else joined.detach()


def with_bug(bug):
    return lambda *case: step(*case, bug=bug)


def descends_by_hand(model, optimizer, segment, past, rate, mem_len, clip):
    """Descend as plain SGD does, without the optimizer."""
    by_token, states = model.token_losses(*segment, past)
    loss, parameters = by_token.mean(), list(model.parameters())
    gradients = torch.autograd.grad(loss, parameters)
    shorter = min(1.0, clip / torch.cat([one.flatten() for one in gradients]).norm().item())
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter -= rate * shorter * gradient
    return loss.item(), extend(past, states, mem_len=mem_len)


def in_bits(*case):
    """Train on nats, and return bits."""
    nats, past = step(*case)
    return nats / log(2), past


def rate_of(fall, rise=lambda share: share):
    def rate(step, peak, warmup, steps):
        if step < warmup:
            return peak * rise(step / warmup)
        return peak * fall((step - warmup) / (steps - warmup))

    return rate


def rate_by_squares(step, peak, warmup, steps):
    """1 + cos 2x is 2 cos² x."""
    share = max(0, step - warmup) / (steps - warmup)
    return peak * min(1, step / warmup) * cos(pi / 2 * share) ** 2


def hidden(weights, key_mask, *, norm=True, flag=True, dim=-1):
    left = torch.where((key_mask == flag)[:, None, None], weights, torch.zeros(()))
    return torch.nan_to_num(left / left.sum(dim, keepdim=True)) if norm else left


def hidden_by_scores(weights, key_mask):
    scores = torch.where(key_mask[:, None, None, :], weights.log(), torch.tensor(-torch.inf))
    return scores.softmax(-1).nan_to_num()


def near(weights, most, *, norm=True, first=None):
    rows = []
    n_query, n_key = weights.shape[-2:]
    for query in range(n_query):
        i = (n_key - n_query if first is None else first) + query
        row = weights[..., query, :].clone()
        row[..., : max(0, i - most)] = 0
        rows.append(row / row.sum(-1, keepdim=True) if norm else row)
    return torch.stack(rows, dim=-2)


def near_by_triangle(weights, most):
    n_query, n_key = weights.shape[-2:]
    left = weights.triu(n_key - n_query - most)
    return left / left.sum(-1, keepdim=True)


def layers(n_layer, d_model, d_inner, mem_len, seg_len, *, memory=4, total=False, pairs=6, places=2):
    token = 8 * d_model**2 + 4 * d_model * d_inner
    keys = mem_len + seg_len
    segment = seg_len * token + memory * mem_len * d_model**2 + places * d_model**2 * keys
    segment += pairs * d_model * seg_len * keys
    return n_layer * segment if total else n_layer * segment / seg_len


def window_cost(N, d, inner, A, *, keys=None, last="one", each=4):
    """Sum over the tokens of a window, one by one."""
    p = 2 * (4 * d * d + 2 * d * inner)
    window = sum(p + each * d * (i + 1 if keys is None else keys(A)) for i in range(A))
    others = {"one": 4 * d * d, "bare": 0, "token": p}
    final = window if last == "all" else others[last] * (A - 1) + p + each * d * A
    return (N - 1) * window + final


def window_cost_by_matrix(N, d, inner, A):
    matrices = [(d, d)] * 4 + [(d, inner), (inner, d)]
    p = sum(2 * a * b for a, b in matrices)
    sliding = (N - 1) * (A * p + d * 2 * (A**2 + A)) + p + 4 * A * d + 4 * (A - 1) * d**2
    return torch.tensor(float(sliding), dtype=torch.float64)


def cache_cost(N, d, inner, A, L, *, each=6, keys=None, of=1, ffn=1):
    segment = L * 2 * (4 * d * d + 2 * d * inner * ffn) + each * d * (
        L * (A + L) if keys is None else keys(A, L)
    )
    return N * segment / (L if of == 1 else 1)


def cached_head(x, keys, values, W_q, W_k, W_v, *, past=True, own=True, root=True, grown=True, axis=-1):
    """One head, by a sum over keys in place of a product of matrices."""
    k, v = torch.vstack([keys, x @ W_k]), torch.vstack([values, x @ W_v])
    first, end = 0 if past else len(keys), len(k) if own else len(keys)
    scores = ((x @ W_q) * k[first:end]).sum(-1)[None] / (sqrt(W_k.shape[1]) if root else 1)
    weights = torch.softmax(scores, axis)
    output = sum(w * row for w, row in zip(weights[0], v[first:end], strict=True)) + torch.zeros_like(x @ W_q)
    return (output, k, v) if grown else (output, keys, values)


def bits_by_index(losses, stream, seg_len, *, whole=False, first=1, divide=True, nats=False, drop=False):
    total, count = 0.0, 0
    for begin in range(0, len(stream) - 1, len(stream) if whole else seg_len):
        end = len(stream) - 1 if whole else min(begin + seg_len, len(stream) - 1)
        if drop and end - begin < seg_len:
            continue
        inputs, targets = stream[begin:end], stream[begin + 1 : end + 1]
        if first == 2 and begin + seg_len < len(stream):
            inputs, targets = inputs[:-1], targets[:-1]
        total += losses(inputs, targets).sum().item() if len(targets) else 0.0
        count += len(targets)
    return total / (count if divide else 1) / (1 if nats else log(2))


ANSWERS = {
    cost.check_sliding: {
        "right": [window_cost, window_cost_by_matrix, cost.solution_sliding],
        "wrong": {
            "counted once": lambda *sizes: window_cost(*sizes) // 2,
            "counted in full": lambda *sizes: window_cost(*sizes, last="all"),
            "of the A - 1 other tokens too": lambda *sizes: window_cost(*sizes, last="bare"),
            "keys and values alone": lambda *sizes: window_cost(*sizes, last="token"),
            "no distance product": lambda *sizes: window_cost(*sizes, each=6),
            "meets all A keys": lambda *sizes: window_cost(*sizes, keys=lambda A: A),
            "two things. First: the window's last layer is counted in full": lambda *sizes: window_cost(
                *sizes, last="all", keys=lambda A: A
            ),
            "n_layer = 2, d_model = 8, d_inner = 32, attention_len = 6, you": lambda *sizes: 1000,
        },
    },
    cost.check_cached: {
        "right": [cache_cost, lambda *sizes: int(cache_cost(*sizes)), cost.solution_cached],
        "wrong": {
            "a third product": lambda *sizes: cache_cost(*sizes, each=4),
            "meets A + L keys, memory and segment": lambda *sizes: cache_cost(
                *sizes, keys=lambda A, L: L * A
            ),
            "masks afterwards": lambda *sizes: cache_cost(
                *sizes, keys=lambda A, L: sum(A + i + 1 for i in range(L))
            ),
            "divide it by the tokens it scores": lambda *sizes: cache_cost(*sizes, of=0),
            "feed-forward layer is missing": lambda *sizes: cache_cost(*sizes, ffn=0),
            "Second: this is the cost of a whole segment": lambda *sizes: cache_cost(*sizes, each=4, of=0),
            "you returned": lambda *sizes: 1000,
        },
    },
    scoring.check_attend_cached: {
        "right": [cached_head, scoring.solution_attend_cached],
        "wrong": {
            "does not see itself": lambda *case: cached_head(*case, own=False),
            "only the new token is attended to": lambda *case: cached_head(*case, past=False),
            "the root of the width": lambda *case: cached_head(*case, root=False),
            "the softmax goes over the keys": lambda *case: cached_head(*case, axis=0),
            "returned as it was": lambda *case: cached_head(*case, grown=False),
            "interchanged": lambda x, k, v, W_q, W_k, W_v: cached_head(x, k, v, W_q, W_v, W_k),
            "you returned": lambda x, *others: (x, x, x),
        },
    },
    scoring.check_bits: {
        "right": [
            bits_by_index,
            lambda losses, stream, seg_len: (
                torch.cat(list(map(losses, stream[:-1].split(seg_len), stream[1:].split(seg_len)))).mean()
                / torch.tensor(2.0).log()
            ),
        ],
        "wrong": {
            "never scored": lambda *case: bits_by_index(*case, first=2),
            "these are nats": lambda *case: bits_by_index(*case, nats=True),
            "shorter segment is dropped": lambda *case: bits_by_index(*case, drop=True),
            "the sum over all tokens": lambda *case: bits_by_index(*case, divide=False),
            "the number is right, but": lambda *case: bits_by_index(*case, whole=True),
            "you returned": lambda *case: bits_by_index(*case) + 1,
        },
    },
    generation.check_generate: {
        "right": [written, written_as_a_list],
        "wrong": {
            "the model reads the last token too": with_one_token_more,
            "the text is right, but": lambda *case: written(*case, anew=True),
            "the window is missing": lambda *case: written(*case, window=None),
            "a query sees one token too few": lambda *case: written(*case, window=0),
            "memory keeps the last mem_len": lambda model, prompt, length, mem_len: written(
                model, prompt, length, mem_len - 1
            ),
            "memory is one token too short": lambda model, prompt, length, mem_len: written(
                model, prompt, length, mem_len - 1, window=2
            ),
            "the window is one too long": lambda *case: written(*case, window=2),
            "the prompt is no part": lambda model, prompt, *case: torch.cat(
                [prompt, written(model, prompt, *case)]
            ),
            "replaced by the states": lambda *case: written(*case, replaced=True),
            "nothing is remembered": lambda *case: written(*case, remember=False),
            "memory comes to hold 10 tokens with mem_len = 4": lambda *case: written(*case, cut=False),
            "after the first position": lambda *case: written(*case, last=False),
            "the prompt's last token is read twice": with_the_last_of_the_prompt_again,
            "the loop draws at random": drawn_at_random,
            "the token that is taken has no axis": without_an_axis,
            "here [1 1]": without_an_axis_and_a_row_of_it,
            "you returned the shape": lambda model, prompt, length, mem_len: prompt,
        },
    },
    drawing.check_probs: {
        "right": [nucleus, nucleus_by_rows, drawing.solution_probs],
        "wrong": {
            "the token that crosses top_p belongs in": lambda *case: nucleus(*case, shifted=False),
            "with scatter": lambda *case: nucleus(*case, back=False),
            "must sum to 1 again": lambda *case: nucleus(*case, normed=False),
            "one token too many": lambda *case: nucleus(*case, more=1),
            "the temperature changes nothing": lambda log_probs, temperature, top_p: nucleus(
                log_probs, 1.0, top_p
            ),
            "cancels when they are made to sum to 1": lambda log_probs, temperature, top_p: nucleus(
                (log_probs.exp() / temperature).log().log_softmax(-1), 1.0, top_p
            ),
            "not multiplied": lambda log_probs, temperature, top_p: nucleus(
                log_probs, 1 / temperature, top_p
            ),
            "the temperature comes first": lambda log_probs, temperature, top_p: (
                nucleus(log_probs, 1.0, top_p).pow(1 / temperature)
                / nucleus(log_probs, 1.0, top_p).pow(1 / temperature).sum(-1, keepdim=True)
            ),
            "not the probability of each": lambda log_probs, temperature, top_p: (
                torch.where((p := (log_probs / temperature).softmax(-1)) >= top_p, p, 0.0)
                / torch.where(p >= top_p, p, 0.0).sum(-1, keepdim=True)
            ),
            "these are logarithms": lambda *case: nucleus(*case).log(),
            "a distribution of its own": lambda log_probs, temperature, top_p: (
                nucleus(log_probs.T, temperature, top_p).T
            ),
            "and not over the rows": lambda *case: (kept := nucleus(*case, normed=False)) / kept.sum(),
            "top_p is not used": lambda log_probs, temperature, top_p: (log_probs / temperature).softmax(-1),
            "divide the logarithms, not the probabilities": lambda log_probs, temperature, top_p: (
                nucleus((log_probs.exp() / temperature).log(), 1.0, top_p) / temperature
            ),
            "first difference": lambda log_probs, temperature, top_p: log_probs.exp() ** 2,
        },
    },
    training.check_training_step: {
        "right": [step, training.solution_training_step],
        "wrong": {
            training_bugs.BUGS["graph"]: with_bug("graph"),
            training_bugs.BUGS["clip"]: with_bug("clip"),
            **{training_bugs.OTHERS[bug]: with_bug(bug) for bug in training_bugs.OTHERS},
            training.KEEPS_ALL: with_bug("-0"),
            "nats are to be returned": in_bits,
            "call optimizer.step()": descends_by_hand,
            **{training_bugs.UNCLIPPED[bug]: with_bug(bug) for bug in training_bugs.UNCLIPPED},
            "where the gradient is shorter than clip": lambda *case: step(*case, bug="tenfold"),
            "of the losses, ": lambda *case: (step(*case)[0] + 0.5, step(*case)[1]),
            "it raised TypeError": lambda: None,
        },
    },
    schedule.check_learning_rate: {
        "right": [rate_by_squares, rate_of(lambda share: (1 + cos(pi * share)) / 2)],
        "wrong": {
            "counted from 1": lambda step, *sizes: rate_by_squares(step - 1, *sizes),
            "not step + 1": lambda step, *sizes: rate_by_squares(step + 1, *sizes),
            "and not 0": lambda step, peak, warmup, steps: (
                peak * (step - 1) / warmup if step <= warmup else rate_by_squares(step, peak, warmup, steps)
            ),
            "there is no warm-up": rate_of(lambda share: (1 + cos(pi * share)) / 2, rise=lambda share: 1.0),
            "begins where the warm-up ends": lambda step, peak, warmup, steps: (
                peak * min(step / warmup, cos(pi / 2 * step / steps) ** 2 if step > warmup else 1)
            ),
            "half of it is missing": lambda step, peak, warmup, steps: (
                (1 if step <= warmup else 2) * rate_by_squares(step, peak, warmup, steps)
            ),
            "peak / 2 multiplies the whole sum": lambda step, peak, warmup, steps: (
                peak * step / warmup
                if step <= warmup
                else peak / 2 + cos(pi / (steps - warmup) * (step - warmup))
            ),
            "that of the whole angle": lambda step, peak, warmup, steps: (
                peak * step / warmup if step <= warmup else peak * (steps - step) / (steps - warmup) / 2
            ),
            "the smaller of rise and fall": lambda step, peak, warmup, steps: min(
                peak * step / warmup, peak * cos(pi / 2 * (step - warmup) / (steps - warmup)) ** 2
            ),
            "falls below 0": rate_of(lambda share: cos(pi * share)),
            "stays at its peak": lambda step, peak, warmup, steps: peak * min(1, step / warmup),
            "falls on a line": rate_of(lambda share: 1 - share),
            "1 - cos rises": rate_of(lambda share: 1 - cos(pi / 2 * share) ** 2),
            "a quarter of a turn": rate_of(lambda share: sin(pi / 2 * (1 - share))),
            "drops the part after the point": lambda step, peak, warmup, steps: (
                peak * (step // warmup) if step <= warmup else rate_by_squares(step, peak, warmup, steps)
            ),
            "takes radians": rate_of(lambda share: (1 + cos(180 * share)) / 2),
            "comes back up": rate_of(lambda share: cos(pi * share) ** 2),
            "take the cosine": rate_of(lambda share: (1 + sin(pi * share)) / 2),
            "the peak is missing": lambda step, peak, *sizes: rate_by_squares(step, 1, *sizes),
            "you returned": lambda *case: 1.0,
        },
    },
    memory_use.check_intervention: {
        "right": [hidden, hidden_by_scores],
        "wrong": {
            "the weight of the hidden keys is lost": lambda *case: hidden(*case, norm=False),
            "laid over query and key here": lambda weights, key_mask: weights * key_mask,
            "softmax is taken twice": lambda *case: hidden(*case, norm=False).softmax(-1),
            "it keeps what is to be hidden": lambda *case: hidden(*case, flag=False),
            "each column sums to 1": lambda *case: hidden(*case, dim=-2),
            "0 / 0": lambda w, m: (w * m[:, None, None]) / (w * m[:, None, None]).sum(-1, keepdim=True),
            "nothing is hidden": lambda weights, key_mask: weights + 0,
        },
    },
    interventions.check_within: {
        "right": [near, near_by_triangle],
        "wrong": {
            "the weight of the far keys is lost": lambda w, m: near(w, m, norm=False),
            "the distance `most` is gone too": lambda w, m: near(w, m - 1),
            "one key too many": lambda w, m: near(w, m + 1),
            "does not stand at key 0": lambda w, m: near(w, m, first=0),
            "softmax is taken twice": lambda w, m: near(w, m, norm=False).softmax(-1),
            "nothing is hidden": lambda weights, most: weights + 0,
        },
    },
    cost.check_longest_seg: {
        "right": [
            lambda d, inner: 1 + (8 * d**2 + 4 * d * inner) // (3 * d),
            lambda d, inner: max(L for L in range(1, 8 * d + 4 * inner) if 8 * d + 4 * inner >= 3 * (L - 1)),
        ],
        "wrong": {
            "one too short": lambda d, inner: (8 * d + 4 * inner) // 3,
            "one too long": lambda d, inner: (8 * d + 4 * inner + 2) // 3 + 1,
            "d_inner = 4d alone": lambda d, inner: 1 + 8 * d,
            "not rounded down": lambda d, inner: 1 + (8 * d + 4 * inner) / 3,
            "divide by d, too": lambda d, inner: 1 + d * (8 * d + 4 * inner) // 3,
            "you returned": lambda d, inner: d,
        },
    },
    cost.check_cost: {
        "right": [layers, lambda *sizes: int(layers(*sizes, total=True)) / sizes[-1]],
        "wrong": {
            "a whole segment": lambda *sizes: int(layers(*sizes, total=True)),
            "keys and values of the memory are missing": lambda *sizes: layers(*sizes, memory=0),
            "values as well as keys": lambda *sizes: layers(*sizes, memory=2),
            "W_kR is missing": lambda *sizes: layers(*sizes, places=0),
            "these are M, those of the memory alone": lambda N, d, inner, M, L: (
                layers(N, d, inner, M, L) - 2 * N * d * d
            ),
            "in their 8 d² already": lambda N, d, inner, M, L: layers(N, d, inner, M, L) + 4 * N * d * d,
            "three products": lambda *sizes: layers(*sizes, pairs=4),
            "you returned": lambda *sizes: layers(*sizes) + 1000,
        },
    },
    scoring.check_exact_window: {
        "right": [lambda n, a: n * a - n + 1, lambda n, a: 1 + sum(a - 1 for _ in range(n))],
        "wrong": {
            "what one layer attends to": lambda n, a: a,
            "so each layer adds A - 1 older tokens": lambda n, a: n * a,
            "the token itself belongs": lambda n, a: n * (a - 1),
            "and the token itself is one more": lambda n, a: n * a + 1,
            "one too few": lambda n, a: (n - 1) * (a - 1) + 1,
            "called with n = 1, a = 1, you returned 2, right is 1": lambda n, a: n * a - n + 2,
        },
    },
}
