"""Notebook 03: lanes, context, the block and its loss."""

import torch
from torch import nn
from torch.nn import functional

from minitxl.course.checks import block
from minitxl.course.checks import segments as checks
from minitxl.data.batching import ContiguousBatches


def lanes_of(stream, batch):
    lane = len(stream) // batch
    return stream[: batch * lane].reshape(batch, lane)


def cut(stream, batch, seg_len, *, every=None, width=None, shift=1, roll=False, lanes=None):
    lanes = lanes_of(stream, batch) if lanes is None else lanes
    pairs = []
    for begin in range(0, lanes.shape[1] - seg_len, every or seg_len):
        tokens = lanes[:, begin : begin + (width or seg_len)]
        targets = tokens.roll(-1, 1) if roll else lanes[:, begin + shift : begin + shift + (width or seg_len)]
        pairs.append((tokens, targets))
    return pairs


def one_by_one(stream, batch, seg_len):
    lane, pairs = len(stream) // batch, []
    for begin in range(0, lane - seg_len, seg_len):
        rows = [stream[b * lane + begin : b * lane + begin + seg_len + 1] for b in range(batch)]
        pairs.append([torch.stack([row[:-1] for row in rows]), torch.stack([row[1:] for row in rows])])
    return pairs


def windows(stream, seg_len):
    number = (len(stream) - 1) // seg_len
    return stream[: number * seg_len].reshape(number, seg_len)


def shuffled(stream, batch, seg_len):
    rows = windows(stream, seg_len)
    rows = rows[torch.randperm(len(rows))]
    return [(tokens, tokens + 1) for tokens in rows[: len(rows) // batch * batch].split(batch)]


def dealt(stream, batch, seg_len):
    rows = windows(stream, seg_len)
    return [(tokens, tokens + 1) for tokens in rows[: len(rows) // batch * batch].split(batch)]


def from_all_but_last(stream, batch, seg_len):
    tokens, targets = lanes_of(stream[:-1], batch), lanes_of(stream[1:], batch)
    tokens, targets = (x[:, : x.shape[1] // seg_len * seg_len].split(seg_len, 1) for x in (tokens, targets))
    return list(zip(tokens, targets, strict=True))


def block_of_modules(x, attend, W_1, b_1, W_2, b_2):
    norm = nn.LayerNorm(x.shape[-1]).to(x.dtype)
    y = norm(attend(x) + x)
    return norm(functional.linear(functional.linear(y, W_1.T, b_1).relu(), W_2.T, b_2) + y).detach()


def block_with(norm=None, *, first=True, second=True, activation=torch.relu, biases=True):
    def answer(x, attend, W_1, b_1, W_2, b_2):
        normed = norm or (lambda y: functional.layer_norm(y, y.shape[-1:]))
        b_1, b_2 = (b_1, b_2) if biases else (0, 0)
        y = normed(x * first + attend(x))
        return normed(y * second + activation(y @ W_1 + b_1) @ W_2 + b_2)

    return answer


def pre_norm(x, attend, W_1, b_1, W_2, b_2):
    normed = lambda y: functional.layer_norm(y, y.shape[-1:])  # noqa: E731
    x = x + attend(normed(x))
    return x + torch.relu(normed(x) @ W_1 + b_1) @ W_2 + b_2


def one_norm(x, attend, W_1, b_1, W_2, b_2):
    x = x + attend(x)
    return functional.layer_norm(x + torch.relu(x @ W_1 + b_1) @ W_2 + b_2, x.shape[-1:])


def torchs(h, E, t):
    return functional.cross_entropy((h @ E.T).flatten(0, 1), t.flatten(), reduction="none").view(t.shape)


def one_token_at_a_time(h, E, t):
    losses = torch.empty(t.shape, dtype=h.dtype)
    for b in range(t.shape[0]):
        for i in range(t.shape[1]):
            losses[b, i] = -torch.log_softmax(E @ h[b, i], 0)[t[b, i]]
    return losses


ANSWERS = {
    checks.check_lanes: {
        "right": [
            cut,
            one_by_one,
            lambda stream, batch, seg_len: list(ContiguousBatches(stream, batch=batch, seg_len=seg_len)),
        ],
        "wrong": {
            "are interleaved": lambda s, b, n: cut(s, b, n, lanes=lanes_of(s, len(s) // b).T),
            "not shifted": lambda s, b, n: cut(s, b, n, shift=0),
            "by itself (roll)": lambda s, b, n: cut(s, b, n, roll=True),
            "seg_len + 1 apart": lambda s, b, n: cut(s, b, n, every=n + 1),
            "a token too few": lambda s, b, n: [(x[:, :-1], x[:, 1:]) for x, _ in cut(s, b, n)],
            "they overlap": lambda s, b, n: cut(s, b, n, every=1),
            "from len - 1 tokens": from_all_but_last,
            "dealt out to the rows in turn": dealt,
            "are shuffled": shuffled,
            "you returned": lambda s, b, n: cut(s, b, n)[:-1],
        },
    },
    checks.check_context_of: {
        "right": [
            lambda t, A, S: t + 1 if t < A else A - (S - 1 - (t - A) % S),
            lambda t, A, S: min(t, A - S + (t - A) % S if t >= A else t) + 1,
        ],
        "wrong": {
            "gets the whole window": lambda t, A, S: A,
            "one too few:": lambda t, A, S: min(t, A - S + (t - A) % S if t >= A else t),
            "the stride is forgotten": lambda t, A, S: t % A + 1,
            "right while windows move by 1": lambda t, A, S: min(t + 1, A),
            "two slips": lambda t, A, S: A - S + (t - A) % S,
            "one too few after the first window": lambda t, A, S: t + 1 if t < A else A - S + (t - A) % S,
            "from the stream's first target": lambda t, A, S: t + 1 if t < A else A - S + 1 + t % S,
            "called with t = 0, A = 4, S = 4, you returned 0, right is 1": lambda t, A, S: 0,
        },
    },
    block.check_block: {
        "right": [block_of_modules, block_with(), block.solution_block],
        "wrong": {
            "there is no norm": block_with(lambda y: y),
            "that is pre-norm": pre_norm,
            "around attention": block_with(first=False),
            "around the feed-forward layer": block_with(second=False),
            "both residual connections": block_with(first=False, second=False),
            "the norm after attention is missing": one_norm,
            "no relu": block_with(activation=lambda y: y),
            "biases are missing": block_with(biases=False),
            "over other tokens": block_with(lambda y: functional.layer_norm(y, y.shape[1:])),
            "d_model - 1": block_with(lambda y: (y - y.mean(-1, keepdim=True)) / y.std(-1, keepdim=True)),
            "the mean is not subtracted": block_with(
                lambda y: y / (y.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()
            ),
            "by the variance": block_with(
                lambda y: (y - y.mean(-1, keepdim=True)) / y.var(-1, keepdim=True, correction=0)
            ),
            "first difference": block_with(activation=torch.tanh),
        },
    },
    block.check_cross_entropy: {
        "right": [
            torchs,
            one_token_at_a_time,
            lambda h, E, t: -(h @ E.mT).log_softmax(2).gather(2, t[:, :, None]).squeeze(2),
        ],
        "wrong": {
            "the sign": lambda h, E, t: -torchs(h, E, t),
            "the mean over all tokens": lambda h, E, t: torchs(h, E, t).mean(),
            "the sum over all tokens": lambda h, E, t: torchs(h, E, t).sum(),
            "these are bits": lambda h, E, t: torchs(h, E, t) / torch.log(torch.tensor(2.0)),
            "this is the probability": lambda h, E, t: torch.exp(-torchs(h, E, t)),
            "the target's score alone": lambda h, E, t: -(h * E[t]).sum(-1),
            "over the positions": lambda h, E, t: -(h @ E.T).log_softmax(1).gather(2, t[:, :, None])[..., 0],
            "divided by √d_model": lambda h, E, t: torchs(h / h.shape[-1] ** 0.5, E, t),
            "not finite for large ones": lambda h, E, t: (
                -(h @ E.T).softmax(2).gather(2, t[:, :, None])[..., 0].log()
            ),
            "right is [1, 2]": lambda h, E, t: -(h @ E.T).log_softmax(2),
        },
    },
}
