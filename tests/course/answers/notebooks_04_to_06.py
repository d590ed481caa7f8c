"""Notebooks 04 to 06b: memory, the segment loop, collisions, reach and the effective context length."""

from functools import partial
from math import log

import torch

from minitxl import memory
from minitxl.analysis.dependency_reach import extend_with_gradient
from minitxl.course.checks import (
    collisions,
    context_length,
    context_mistakes,
    gradient_parts,
    reach,
    recurrence,
    segment_loop,
)
from minitxl.memory import extend


def pushed_one_by_one(memory, states, *, mem_len):
    newest = [*memory.unbind(2), *states.unbind(2)][-mem_len:] if mem_len else []
    return torch.stack(newest, dim=2).detach() if newest else states[:, :, :0].detach()


def without_a_copy(memory, states, *, mem_len):
    if mem_len <= states.shape[2]:
        return states.detach()[:, :, states.shape[2] - mem_len :]
    return extend(memory, states, mem_len=mem_len)


def by_index(model, tokens, seg_len, mem_len):
    past, outputs = None, []
    for begin in range(0, tokens.shape[1], seg_len):
        output, states = model(tokens[:, begin : begin + seg_len], past)
        past = extend(past, states, mem_len=mem_len)
        outputs.append(output)
    return torch.cat(outputs, dim=1)


def with_a_copied_memory(model, tokens, seg_len, mem_len, *, update=extend, batch=False, only_last=False):
    past, outputs = model.empty_memory(len(tokens)), []
    for segment in tokens.split(seg_len, dim=1):
        output, states = model(segment, past)
        past = update(past, states, mem_len=mem_len)
        outputs.append(output)
    return outputs[-1] if only_last else torch.cat(outputs, dim=0 if batch else 1)


def extending_first(model, tokens, seg_len, mem_len):
    past, outputs = model.empty_memory(len(tokens)), []
    for segment in tokens.split(seg_len, dim=1):
        past = extend(past, model(segment, past)[1], mem_len=mem_len)
        outputs.append(model(segment, past)[0])
    return torch.cat(outputs, dim=1)


def cutting_from_the_back(model, tokens, seg_len, mem_len, every):
    past, outputs = model.empty_memory(len(tokens)), []
    for count, segment in enumerate(tokens.split(seg_len, dim=1), start=1):
        output, states = model(segment, past)
        past = torch.cat([past, states], dim=2)[:, :, -mem_len:]
        past = past if count % every else past.detach()
        outputs.append(output)
    return torch.cat(outputs, dim=1)


def slopes_of(context, slopes, begin=None, end=None):
    return torch.einsum("bkm,bki->im", context[:, begin:end], slopes[:, begin:end])


def row_and_key(context, slopes, mem):
    parts = [0, 0]
    for states, row in zip(context, slopes, strict=True):
        for key in range(len(states)):
            parts[key >= mem] = parts[key >= mem] + row[key][:, None] * states[key]
    empty = context.new_zeros(slopes.shape[2], context.shape[2])
    return [part + empty for part in parts]


def cutting_groups(model, tokens, seg_len, mem_len, every, *, first=0):
    past, outputs = model.empty_memory(len(tokens)), []
    for number, segment in enumerate(tokens.split(seg_len, dim=1)):
        past = past.detach() if number % every == first and number else past
        output, states = model(segment, past)
        past = extend_with_gradient(past, states, mem_len=mem_len)
        outputs.append(output)
    return torch.cat(outputs, dim=1)


def counted_in_segments(offset, seg_len, mem_len):
    return sum(k * seg_len - 1 - offset < mem_len for k in range(1, mem_len + offset + 2))


def row_by_row(read, mem, seg):
    return torch.tensor([[slot >= mem - n for slot in range(mem)] + [True] * seg for n in read.tolist()])


def ages(mem, seg):
    return torch.cat([torch.arange(mem, 0, -1), torch.zeros(seg, dtype=torch.int64)])


def key_by_key(E, U, seg_len, mem_len):
    first = max(0, len(E) - seg_len - mem_len)
    return torch.stack([E[p] + U[p - p // seg_len * seg_len] for p in range(first, len(E))])


def pairs_by_loop(tokens, seg_len, mem_len, *, begin=None, period=None):
    last = len(tokens) - 1
    begin = last // seg_len * seg_len if begin is None else begin
    return [
        (a, b)
        for a in range(max(0, begin - mem_len), last + 1)
        for b in range(a + 1, last + 1)
        if tokens[a] == tokens[b] and (b - a) % (period or seg_len) == 0
    ]


def circle_by_trial(seg_len, mem_len, window):
    period = 1
    while any(
        len({p % period for p in range(last - seen + 1, last + 1)}) < seen
        for last in range(10 * seg_len, 11 * seg_len)
        for seen in [min(last % seg_len + 1 + mem_len, window or last)]
    ):
        period += 1
    return period


def in_a_set(sees, n_layer, *, every=any):
    reached = {len(sees) - 1}
    for _ in range(n_layer):
        reached = {key for key in range(len(sees)) if every(sees[query, key] for query in reached)}
    return torch.tensor([time in reached for time in range(len(sees))])


def walked(offset, n_layer, seg_len, mem_len, window, *, stay=False, itself=1):
    place = offset
    for _ in range(n_layer):
        hop = (offset if stay else place % seg_len) + mem_len
        place -= hop if window is None else min(hop, window - itself)
    return offset - place


def longest_of_all(offset, n_layer, seg_len, mem_len, window):
    reach = [0] * seg_len
    for _ in range(n_layer):
        farthest = [o + mem_len if window is None else min(o + mem_len, window - 1) for o in range(seg_len)]
        reach = [max(d + reach[(o - d) % seg_len] for d in range(farthest[o] + 1)) for o in range(seg_len)]
    return reach[offset]


def smallest_by_trial(target, n_layer, seg_len, *, by=1, offset=None):
    mem_len, offset = 0, seg_len - 1 if offset is None else offset
    while offset + mem_len + (n_layer - 1) * seg_len * -(-mem_len // seg_len) < target:
        mem_len += by
    return mem_len


def gain_by_loop(
    losses,
    which,
    short,
    long,
    r,
    *,
    number=round,
    baseline=min,
    ends=torch.exp,
    baseline_at=None,
    hardness=min,
    least=1,
    begins_with_baseline=False,
):
    targets, at = losses.shape[2], short if baseline_at is None else baseline_at
    each = [[model[at][t].item() for model in losses] for t in range(targets)]
    best = [baseline(of_token) for of_token in each]
    hardest = sorted(range(targets), key=lambda t: -hardness(each[t]))[: max(least, number(r * targets))]
    f = [
        torch.tensor([min(best[t], losses[which][c][t].item()) for t in hardest]).double().mean()
        for c in (short, long)
    ]
    if begins_with_baseline:
        f[0] = torch.tensor([best[t] for t in hardest]).double().mean()
    return (ends(f[0]) - ends(f[1])) / ends(f[0])


def walk_by_while(losses, which, lengths, r, *, threshold=0.01, step=0):
    at = 0
    while at + 1 < len(lengths) and context_length.gain(losses, which, at, at + 1, r) >= threshold:
        at += 1
    return lengths[min(at + step, len(lengths) - 1)]


def walk_that_returns(stopped, losses, which, lengths, r):
    for at in range(len(lengths) - 1):
        if context_length.gain(losses, which, at, at + 1, r) < 0.01:
            return stopped(lengths, at)
    return lengths[-1]


def walk_by_differences(losses, which, lengths, r):
    for at in range(len(lengths) - 1):
        earlier, later = (context_length.gain(losses, which, 0, c, r) for c in (at, at + 1))
        if later - earlier < 0.01:
            return lengths[at]
    return lengths[-1]


def walk_from_start(losses, which, lengths, r):
    for at in range(len(lengths) - 1):
        if context_length.gain(losses, which, 0, at + 1, r) < 0.01:
            return lengths[at]
    return lengths[-1]


def gain_over_all_before(losses, which, short, long, r):
    baseline = losses[:, : short + 1].amin((0, 1))
    hardest = baseline.topk(max(1, round(r * len(baseline)))).indices
    before, after = (torch.minimum(baseline, losses[which, c])[hardest].mean().exp() for c in (short, long))
    return (before - after) / before


def perplexity_of_f(losses, which, short, long, r, *, finish=torch.exp):
    baseline = losses[:, short].amin(0)
    hardest = baseline.topk(max(1, round(r * len(baseline)))).indices
    return finish(torch.minimum(baseline, losses[which, long])[hardest].mean())


def gain_ranked_again(losses, which, short, long, r):
    baseline = losses[:, short].amin(0)
    number = max(1, round(r * len(baseline)))
    f = [torch.minimum(baseline, losses[which, c]).topk(number).values.mean() for c in (short, long)]
    return 1 - (f[1] - f[0]).exp()


def walk_that_counts(losses, which, lengths, r):
    steps = range(len(lengths) - 1)
    return lengths[sum(context_length.gain(losses, which, at, at + 1, r) >= 0.01 for at in steps)]


def walk_beside_the_first(losses, which, lengths, r):
    baseline = losses[:, 0].amin(0)
    hardest = baseline.topk(max(1, round(r * len(baseline)))).indices
    for at in range(len(lengths) - 1):
        before, after = (torch.minimum(baseline, losses[which, c])[hardest].mean() for c in (at, at + 1))
        if 1 - (after - before).exp() < 0.01:
            return lengths[at]
    return lengths[-1]


def walk_beside_the_best_so_far(losses, which, lengths, r):
    best = losses[:, 0].amin(0)
    for at in range(len(lengths) - 1):
        best = torch.minimum(best, losses[:, at].amin(0))
        hardest = best.topk(max(1, round(r * len(best)))).indices
        before, after = (torch.minimum(best, losses[which, c])[hardest].mean() for c in (at, at + 1))
        if 1 - (after - before).exp() < 0.01:
            return lengths[at]
    return lengths[-1]


def walk_above_the_threshold(losses, which, lengths, r):
    at = 0
    while at + 1 < len(lengths) and context_length.gain(losses, which, at, at + 1, r) > 0.01:
        at += 1
    return lengths[at]


def walk_by_formula(losses, which, lengths, r, *, stops):
    """The walk with a gain of its own, whose stop is asked of both perplexities."""
    for at in range(len(lengths) - 1):
        baseline = losses[:, at].amin(0)
        hardest = baseline.topk(max(1, round(r * len(baseline)))).indices
        if stops(*(torch.minimum(baseline, losses[which, c])[hardest].mean().exp() for c in (at, at + 1))):
            return lengths[at]
    return lengths[-1]


def walk_by_sums(losses, which, lengths, r):
    gained = 0.0
    for at in range(len(lengths) - 1):
        gained += context_length.gain(losses, which, at, at + 1, r)
        if gained < 0.01:
            return lengths[at]
    return lengths[-1]


def walk_turned(losses, which, lengths, r):
    for at in range(len(lengths) - 1):
        if context_length.gain(losses, which, at, at + 1, r) >= 0.01:
            return lengths[at]
    return lengths[-1]


def walk_to_the_last(losses, which, lengths, r):
    for at in range(len(lengths) - 1):
        if context_length.gain(losses, which, at, len(lengths) - 1, r) < 0.01:
            return lengths[at]
    return lengths[-1]


def walk_two_steps(losses, which, lengths, r):
    for at in range(len(lengths) - 1):
        if context_length.gain(losses, which, at, min(at + 2, len(lengths) - 1), r) < 0.01:
            return lengths[at]
    return lengths[-1]


def gain_over_the_best_model(losses, which, short, long, r):
    baseline = min((one[short] for one in losses), key=lambda one: one.mean())
    hardest = baseline.topk(max(1, round(r * len(baseline)))).indices
    before, after = (torch.minimum(baseline, losses[which, c])[hardest].mean().exp() for c in (short, long))
    return 1 - after / before


ANSWERS = {
    recurrence.check_extend: {
        "right": [
            pushed_one_by_one,
            lambda memory, states, mem_len: extend(memory, states, mem_len=mem_len),
            lambda memory, states, mem_len: extend(memory, states, mem_len=mem_len) if mem_len else None,
        ],
        "wrong": {
            "[-0:] is everything": lambda memory, states, mem_len: torch.cat([memory, states], 2)[
                :, :, -mem_len:
            ].detach(),
            "stop-gradient is missing": extend_with_gradient,
            "is a view": without_a_copy,
            "the past comes first": lambda memory, states, mem_len: extend(states, memory, mem_len=mem_len),
            "mem_len is not used": lambda memory, states, mem_len: torch.cat([memory, states], 2).detach(),
            "you returned [[[[3], [4], [5]]]], right is [[[[2], [3], [4]]]]": (
                lambda memory, states, mem_len: extend(memory, states, mem_len=mem_len) + 1
            ),
            "the shape [1, 3, 1, 1]": lambda memory, states, mem_len: extend(
                memory, states, mem_len=mem_len
            ).transpose(1, 2),
        },
    },
    segment_loop.check_read: {
        "right": [by_index, with_a_copied_memory],
        "wrong": {
            "every segment is read without memory": lambda model, tokens, seg_len, mem_len: torch.cat(
                [model(segment)[0] for segment in tokens.split(seg_len, dim=1)], dim=1
            ),
            "every token sees all tokens before it": lambda model, tokens, seg_len, mem_len: model(tokens)[0],
            "memory is replaced": lambda *case: with_a_copied_memory(
                *case, update=lambda past, states, mem_len: states
            ),
            "time is axis 1": lambda *case: with_a_copied_memory(*case, batch=True),
            "memory is extended before the segment is read": extending_first,
            "only the last segment is returned": lambda *case: with_a_copied_memory(*case, only_last=True),
            "[[[2], [6], [12], [20], [24], [36]]], right is [[[1], [3], [6], [10], [12], [18]]]": (
                lambda *case: 2 * by_index(*case)
            ),
        },
    },
    gradient_parts.check_split_gradient: {
        "right": [
            row_and_key,
            lambda h, g, mem: (slopes_of(h, g, end=mem), slopes_of(h, g) - slopes_of(h, g, end=mem)),
        ],
        "wrong": {
            "memory's comes first": lambda h, g, mem: (slopes_of(h, g, mem), slopes_of(h, g, end=mem)),
            "its transpose": lambda h, g, mem: (slopes_of(h, g, end=mem).T, slopes_of(h, g, mem).T),
            "memory is taken from the end": lambda h, g, mem: (
                slopes_of(h, g, h.shape[1] - mem),
                slopes_of(h, g, end=h.shape[1] - mem),
            ),
            "mean over the batch": lambda h, g, mem: (
                slopes_of(h, g, end=mem) / len(h),
                slopes_of(h, g, mem) / len(h),
            ),
            "one of them is the whole gradient": lambda h, g, mem: (
                slopes_of(h, g, end=mem),
                slopes_of(h, g),
            ),
            "return two sums": lambda h, g, mem: slopes_of(h, g),
        },
    },
    recurrence.check_segments_in_memory: {
        "right": [counted_in_segments, lambda offset, seg_len, mem_len: divmod(offset + mem_len, seg_len)[0]],
        "wrong": {
            "the offset matters": lambda offset, seg_len, mem_len: mem_len // seg_len,
            "rounded up": lambda offset, seg_len, mem_len: (mem_len + seg_len - 1) // seg_len,
            "divide with //": lambda offset, seg_len, mem_len: (offset + mem_len) / seg_len,
            "its own segment does not count": lambda *case: 1 + counted_in_segments(*case),
            "offset = 1, seg_len = 2, mem_len = 3, you returned 0, right is 2": (
                lambda offset, seg_len, mem_len: 0
            ),
        },
    },
    recurrence.check_keep: {
        "right": [row_by_row, lambda read, mem, seg: ages(mem, seg)[None] <= read[:, None]],
        "wrong": {
            "use ≤": lambda read, mem, seg: ages(mem, seg)[None] < read[:, None],
            "inverted": lambda read, mem, seg: ages(mem, seg)[None] > read[:, None],
            "one slot too many": lambda read, mem, seg: ages(mem, seg)[None] - 1 <= read[:, None],
            "the segment is hidden too, or forgotten": lambda read, mem, seg: row_by_row(read, mem, 0),
            "all or nothing": lambda read, mem, seg: (ages(mem, seg)[None] == 0) | (read[:, None] > 0),
            "the dtype is torch.int64": lambda read, mem, seg: row_by_row(read, mem, seg).long(),
        },
    },
    segment_loop.check_read_with_cuts: {
        "right": [segment_loop.read_with_cuts, cutting_groups],
        "wrong": {
            "the gradient is cut in front of every segment": lambda *case: segment_loop.read(*case[:4]),
            "the gradient is never cut": lambda *case: cutting_groups(*case, first=99),
            "the cuts come one segment early": lambda *case: cutting_groups(*case, first=case[4] - 1),
            "the cuts come too early": lambda *case: cutting_groups(*case, first=1 % case[4]),
            "[-0:] is everything": cutting_from_the_back,
            "memory is emptied": lambda model, tokens, seg_len, mem_len, every: torch.cat(
                [
                    segment_loop.read(model, group, seg_len, mem_len)
                    for group in tokens.split(seg_len * every, 1)
                ],
                dim=1,
            ),
            "it raised": lambda model, tokens, *sizes: model(tokens)[0].detach(),
        },
    },
    collisions.check_extended_context: {
        "right": [
            key_by_key,
            lambda E, U, L, M: (E.unflatten(0, (-1, L)) + U).flatten(0, 1)[max(0, len(E) - L - M) :],
        ],
        "wrong": {
            "row p % seg_len": lambda E, U, L, M: E + U[torch.arange(len(E))],
            "that is the segment alone": lambda E, U, L, M: E[-L:] + U,
            "that is the whole stream": lambda E, U, L, M: E + U.repeat(len(E) // L, 1),
            "theirs were added before": lambda E, U, L, M: torch.cat([E[:-L], E[-L:] + U])[-(L + M) :],
            "where segments begin": lambda E, U, L, M: (
                E[-(L + M) :] + U[torch.arange(len(E[-(L + M) :])) % L]
            ),
            "you returned [[20], [30], [40], [50], [60]], right is [[22], [31], [42], [51], [62]]": (
                lambda E, U, L, M: E[-(L + M) :]
            ),
        },
    },
    collisions.check_pairs: {
        "right": [pairs_by_loop, lambda tokens, L, M: collisions.pairs(tokens, L, M)],
        "wrong": {
            "the same token is not enough": lambda tokens, L, M: pairs_by_loop(tokens, L, M, period=1),
            "you used M for the period": lambda tokens, L, M: pairs_by_loop(
                tokens, L, M, period=M or len(tokens)
            ),
            "does not see the whole stream": lambda tokens, L, M: pairs_by_loop(tokens, L, 999),
            "memory is counted from the query": lambda tokens, L, M: pairs_by_loop(
                tokens, L, M, begin=len(tokens) - 1
            ),
            "not from the length": lambda tokens, L, M: pairs_by_loop(
                tokens, L, M, begin=len(tokens) // L * L
            ),
            "the tokens must be equal too": lambda tokens, L, M: pairs_by_loop([7] * len(tokens), L, M),
        },
    },
    collisions.check_circle: {
        "right": [circle_by_trial, lambda L, M, W: min(L + M, L + M if W is None else W)],
        "wrong": {
            "are what collides": lambda L, M, W: L,
            "that is memory alone": lambda L, M, W: M,
            "right without a window": lambda L, M, W: L + M,
            "one too few": lambda L, M, W: min(L + M, W or L + M) - 1,
            "a window is a limit": lambda L, M, W: L + M if W is None else W,
            "whole number of segments": lambda L, M, W: -(-min(L + M, W or L + M) // L) * L,
        },
    },
    reach.check_propagate: {
        "right": [
            in_a_set,
            lambda sees, n_layer: torch.linalg.matrix_power(sees.double(), n_layer)[-1] > 0,
        ],
        "wrong": {
            "that is one layer": lambda sees, n_layer: sees[-1],
            "one layer too few": lambda sees, n_layer: in_a_set(sees, n_layer - 1),
            "one layer too many": lambda sees, n_layer: in_a_set(sees, n_layer + 1),
            "the direction is turned": lambda sees, n_layer: in_a_set(sees.T, n_layer),
            "not only if all of them do": lambda sees, n_layer: in_a_set(sees, n_layer, every=all),
            "numbers of ways are counted": lambda sees, n_layer: torch.linalg.matrix_power(
                sees.double(), n_layer
            )[-1],
            "you returned [False, False, False], right is [False, True, True]": (
                lambda sees, n_layer: torch.zeros(len(sees), dtype=torch.bool)
            ),
        },
    },
    reach.check_second_hop: {
        "right": [
            lambda seg_len, mem_len: -(-mem_len // seg_len) * seg_len,
            lambda seg_len, mem_len: next(h for h in range(mem_len, 99) if h % seg_len == 0),
        ],
        "wrong": {
            "right where L divides M": lambda seg_len, mem_len: mem_len,
            "*behind* the token": lambda seg_len, mem_len: mem_len + mem_len % seg_len,
            "rounded up, not down": lambda seg_len, mem_len: mem_len - mem_len % seg_len,
            "the first of its segment": lambda seg_len, mem_len: seg_len * (1 + mem_len // seg_len),
            "not the whole segment": lambda seg_len, mem_len: mem_len + seg_len,
            "you returned 1, right is 8": lambda seg_len, mem_len: 1,
        },
    },
    reach.check_reach: {
        "right": [walked, longest_of_all],
        "wrong": {
            "the window is forgotten": lambda o, N, L, M, W: walked(o, N, L, M, None),
            "the smaller of both formulas": lambda o, N, L, M, W: min(
                walked(o, N, L, M, None), 10**6 if W is None else N * (W - 1)
            ),
            "memory is forgotten": lambda o, N, L, M, W: (
                walked(o, N, L, M, None) if W is None else N * (W - 1)
            ),
            "with the offset of that place": lambda *case: walked(*case, stay=True),
            "W - 1 long at most": lambda *case: walked(*case, itself=0),
        },
    },
    reach.check_gradient_reach: {
        "right": [
            lambda o, N, L, M, W: min([o] if W is None else [o, N * W - N]),
            lambda o, N, L, M, W: longest_of_all(o, N, L, 0, W),
        ],
        "wrong": {
            "this is how far information goes": walked,
            "one hop into memory is one too many": lambda o, N, L, M, W: o + M,
            "the window is forgotten": lambda o, N, L, M, W: o,
            "one layer goes back W - 1": lambda o, N, L, M, W: o if W is None else min(o, N * W),
            "from where the last one landed": lambda o, N, L, M, W: o if W is None else min(o, W - 1),
        },
    },
    reach.check_smallest_memory: {
        "right": [
            smallest_by_trial,
            lambda target, N, L: min(
                m
                for m in range(target + 1)
                if memory.longest_reach(n_layer=N, seg_len=L, mem_len=m) >= target
            ),
        ],
        "wrong": {
            "reach does not grow evenly": lambda target, N, L: max(0, (target - L + N) // N),
            "its own offset, L - 1": lambda target, N, L: smallest_by_trial(target, N, L, offset=0),
            "a whole number of segments": lambda target, N, L: smallest_by_trial(target, N, L, by=L),
            "a reach of more than target": lambda target, N, L: smallest_by_trial(target + 1, N, L),
            "that is one layer": lambda target, N, L: max(0, target - (L - 1)),
        },
    },
    context_length.check_gain: {
        "right": [gain_by_loop, lambda *case: float(gain_by_loop(*case))],
        "wrong": {
            "compares exp f, and not f": lambda *case: gain_by_loop(*case, ends=lambda f: f),
            "here it is rounded down": lambda *case: gain_by_loop(*case, number=int),
            "and here it is rounded down": lambda *case: gain_by_loop(*case, number=int, least=0),
            "one model's, the best on average": gain_over_the_best_model,
            "here it is rounded up": lambda *case: gain_by_loop(*case, number=lambda x: -int(-x // 1)),
            "the sign is turned": lambda *case: -gain_by_loop(*case),
            "all targets are used": lambda *case: gain_by_loop(*case[:4], 1.0),
            "2 is for bits": lambda *case: gain_by_loop(*case, ends=lambda f: 2**f),
            "that is in per cent": lambda *case: 100 * gain_by_loop(*case),
            "losses with fewer tokens do not count": gain_over_all_before,
            "that is f, a mean loss": lambda *case: perplexity_of_f(*case, finish=float),
            "that is exp f, a perplexity": perplexity_of_f,
            "the baseline is taken with c'": lambda *case: gain_by_loop(*case, baseline_at=case[3]),
            "by the mean loss of the group": lambda *case: gain_by_loop(
                *case, hardness=lambda some: sum(some) / len(some)
            ),
            "the mean of the group": lambda *case: gain_by_loop(
                *case, baseline=lambda some: sum(some) / len(some), begins_with_baseline=True
            ),
            "of the group, and not its smallest": lambda *case: gain_by_loop(
                *case,
                baseline=lambda some: sum(some) / len(some),
                hardness=lambda some: sum(some) / len(some),
                begins_with_baseline=True,
            ),
            "the gain is 1 minus it": lambda *case: 1 - gain_by_loop(*case),
            "T is the same for both contexts": gain_ranked_again,
            "you returned 0.5, right is 0.09516": lambda *case: 0.5,
        },
    },
    context_length.check_recl: {
        "right": [
            walk_by_while,
            context_length.recl,
            *(
                partial(walk_by_formula, stops=stops)
                for stops in (
                    lambda before, after: (before - after) / before < 0.01,
                    lambda before, after: 1 - after / before < 0.01,
                    lambda before, after: after > 0.99 * before,
                    lambda before, after: after.log() - before.log() > log(0.99) + 1e-15,
                )
            ),
        ],
        "wrong": {
            "the context that no longer gains is c": lambda *case: context_mistakes.walk(*case, later=True),
            "and not the tokens": lambda losses, which, lengths, r: lengths.index(
                walk_by_while(losses, which, lengths, r)
            ),
            "you return the place in lengths": partial(walk_that_returns, lambda lengths, at: at),
            "you return the last context that still gains": partial(
                walk_that_returns, lambda lengths, at: lengths[at - 1]
            ),
            "that takes one gain from the start from another": walk_by_differences,
            "the answer is the longest length": lambda *case: context_mistakes.walk(*case, short_of_end=True),
            "compare exp f, and not f": lambda *case: context_mistakes.walk(*case, without_exp=True),
            "T is chosen once": lambda *case: context_mistakes.walk(*case, ranked_once=True),
            "no step gains 1": lambda losses, which, lengths, r: lengths[0],
            "and not from the start": walk_from_start,
            "gains are not added up": walk_by_sums,
            "the comparison is turned round": walk_turned,
            "goes to the next length: ask gain for at and at + 1": walk_to_the_last,
            "each step goes to the next length": walk_two_steps,
            "that counts all steps that gain": walk_that_counts,
            "the baseline is kept from the shortest context": walk_beside_the_first,
            "the baseline is the smallest loss so far": walk_beside_the_best_so_far,
            "a step that gains just 0.01 is walked": walk_above_the_threshold,
            "a step that gains just 0.01 is walked: stop": lambda *case: walk_by_formula(
                *case, stops=lambda before, after: (before - after) / before <= 0.01
            ),
            "just 0.01 is walked: stop where the gain": lambda *case: walk_by_formula(
                *case, stops=lambda before, after: after >= 0.99 * before
            ),
            "which is not used": lambda losses, which, lengths, r: walk_by_while(losses, 0, lengths, r),
            "lengths is not used": lambda losses, which, lengths, r: (
                walk_by_while(losses, which, range(len(lengths)), r) * 8 + 8
            ),
            "you returned 9, right is": lambda *case: 9,
        },
    },
}
