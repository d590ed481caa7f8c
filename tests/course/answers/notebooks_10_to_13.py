"""Notebooks 10 to 13: steps of training, interventions, costs and generation."""

import torch
from torch.nn.utils import clip_grad_norm_

from minitxl.course.checks import cost, generation, interventions, memory, training
from minitxl.inference.sampling import top_k_top_p
from minitxl.memory import extend


def written(
    model, prompt, length, mem_len, *, window=True, anew=False, wasteful=False, remember=True, last=True
):
    text, past, new = prompt, None, prompt
    for _ in range(length):
        with torch.no_grad():
            read = text if anew else new
            log_probs, states = model(read[None], past, window=mem_len + 1 if window else None)
        past = None if anew else extend(past, states, mem_len=mem_len)
        past = past if remember else None
        new = log_probs[0, -1 if last else 0].argmax()[None]
        text = torch.cat([text, new])
    return text[len(prompt) :]


def with_one_token_more(model, prompt, length, mem_len):
    result = written(model, prompt, length, mem_len)
    model(result[-1:][None])
    return result


def nucleus(log_probs, top_p, *, shifted=True, back=True, normed=True):
    probs, order = torch.sort(log_probs.softmax(-1), descending=True, dim=-1)
    remove = probs.cumsum(-1) > top_p
    if shifted:
        remove[..., 1:] = remove[..., :-1].clone()
        remove[..., 0] = False
    probs[remove] = 0
    probs = probs / probs.sum(-1, keepdim=True) if normed else probs
    return torch.zeros_like(probs).scatter(-1, order, probs) if back else probs


def nucleus_by_rows(log_probs, top_p):
    rows = []
    for row in log_probs.exp().flatten(0, -2):
        total, chosen = 0.0, torch.zeros_like(row)
        for token in row.argsort(descending=True):
            if total < top_p:
                chosen[token] = row[token]
            total += row[token].item()
        rows.append(chosen / chosen.sum())
    return torch.stack(rows).view_as(log_probs)


def step(model, optimizer, segment, past, rate, mem_len, clip, *, bug=""):
    for group in optimizer.param_groups[: 1 if bug == "group" else None]:
        group["lr"] = 1.0 if bug == "rate" else rate
    if bug != "added":
        model.zero_grad()
    by_token, states = model.token_losses(*segment, past)
    loss = by_token.sum() / (1 if bug == "sum" else by_token.numel())
    if bug == "clip":
        clip_grad_norm_(model.parameters(), clip)
    loss.backward()
    if bug not in ("clip", "unclipped"):
        clip_grad_norm_(model.parameters(), clip)
    if bug != "no step":
        optimizer.step()
    joined = states if past is None or bug == "replaced" else torch.cat([past, states], dim=2)
    joined = joined[:, :, -mem_len:]
    return loss.detach(), None if bug == "none" else joined if bug == "graph" else joined.detach()


def with_bug(bug):
    return lambda *case: step(*case, bug=bug)


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


def costs(N, d, inner, A, L, *, keys=None, last="one", third=True, turn=False):
    """Sum over the tokens of a window, one by one."""
    p = 2 * (4 * d * d + 2 * d * inner)
    window = sum(p + 4 * d * (i + 1 if keys is None else keys(A)) for i in range(A))
    final = window if last == "all" else 4 * d * d * (A - 1) * (last == "one") + p + 4 * d * A
    both = [(N - 1) * window + final, N * (p + (6 if third else 4) * d * (A + L))]
    return both[::-1] if turn else both


def costs_by_matrix(N, d, inner, A, L):
    matrices = [(d, d)] * 4 + [(d, inner), (inner, d)]
    p = sum(2 * a * b for a, b in matrices)
    sliding = (N - 1) * (A * p + d * 2 * (A**2 + A)) + p + 4 * A * d + 4 * (A - 1) * d**2
    return torch.tensor(float(sliding), dtype=torch.float64), N * p + N * 6 * d * (A + L)


ANSWERS = {
    cost.check_costs: {
        "right": [costs, costs_by_matrix, cost.solution_costs],
        "wrong": {
            "the wrong order": lambda *sizes: costs(*sizes, turn=True),
            "counted once": lambda *sizes: [one // 2 for one in costs(*sizes)],
            "counted in full": lambda *sizes: costs(*sizes, last="all"),
            "of the A - 1 other tokens too": lambda *sizes: costs(*sizes, last="bare"),
            "a third product": lambda *sizes: costs(*sizes, third=False),
            "meets all A keys": lambda *sizes: costs(*sizes, keys=lambda A: A),
            "n_layer = 2, d_model = 8, d_inner = 32, attention_len = 6, seg_len = 4, you": lambda *sizes: [
                costs(*sizes)[0],
                1000,
            ],
        },
    },
    generation.check_generate: {
        "right": [written, with_one_token_more],
        "wrong": {
            "the text is right, but": lambda *case: written(*case, anew=True),
            "the window is missing": lambda *case: written(*case, window=False),
            "nothing is remembered": lambda *case: written(*case, remember=False),
            "after the first position": lambda *case: written(*case, last=False),
            "you returned the shape": lambda model, prompt, length, mem_len: prompt,
        },
    },
    generation.check_nucleus: {
        "right": [nucleus, nucleus_by_rows, lambda log_probs, top_p: top_k_top_p(log_probs, top_p=top_p)],
        "wrong": {
            "the token that crosses top_p belongs in": lambda *case: nucleus(*case, shifted=False),
            "with scatter": lambda *case: nucleus(*case, back=False),
            "must sum to 1 again": lambda *case: nucleus(*case, normed=False),
            "not the probability of each": lambda log_probs, top_p: (
                torch.where(log_probs.exp() >= top_p, log_probs.exp(), 0.0)
                / torch.where(log_probs.exp() >= top_p, log_probs.exp(), 0.0).sum(-1, keepdim=True)
            ),
            "these are logarithms": lambda *case: nucleus(*case).log(),
            "first difference": lambda log_probs, top_p: log_probs.exp(),
        },
    },
    training.check_training_step: {
        "right": [step, training.solution_training_step],
        "wrong": {
            training.BUGS["graph"]: with_bug("graph"),
            training.BUGS["clip"]: with_bug("clip"),
            **{training.OTHERS[bug]: with_bug(bug) for bug in training.OTHERS},
            "of the losses, ": with_bug("no step"),
            "it raised TypeError": lambda: None,
        },
    },
    memory.check_intervention: {
        "right": [hidden, hidden_by_scores],
        "wrong": {
            "the weight of the hidden keys is lost": lambda *case: hidden(*case, norm=False),
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
    cost.check_cost: {
        "right": [layers, lambda *sizes: int(layers(*sizes, total=True)) / sizes[-1]],
        "wrong": {
            "a whole segment": lambda *sizes: int(layers(*sizes, total=True)),
            "keys and values of the memory are missing": lambda *sizes: layers(*sizes, memory=0),
            "values as well as keys": lambda *sizes: layers(*sizes, memory=2),
            "W_kR is missing": lambda *sizes: layers(*sizes, places=0),
            "three products": lambda *sizes: layers(*sizes, pairs=4),
            "you returned": lambda *sizes: layers(*sizes) + 1000,
        },
    },
    cost.check_exact_window: {
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
