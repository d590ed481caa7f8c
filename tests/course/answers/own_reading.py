"""Notebook 10c: bits of a text that is read in segments with a memory."""

from math import log

import torch

from minitxl import extend
from minitxl.course.checks import own_reading


def loop(model, tokens, targets, seg_len, mem_len):
    memory, bits = None, []
    for begin in range(0, tokens.shape[1], seg_len):
        part = slice(begin, begin + seg_len)
        losses, states = model.token_losses(tokens[:, part], targets[:, part], memory)
        memory = extend(memory, states, mem_len=mem_len)
        bits += (losses[0] / log(2)).tolist()
    return sum(bits) / len(bits)


def as_tensor(*given):
    return torch.tensor(loop(*given))


def by_segment(answer, model, tokens, targets, seg_len, mem_len):
    """``answer`` of the losses of each segment, read rightly."""
    memory, nats = None, []
    for segment, its_targets in zip(tokens.split(seg_len, 1), targets.split(seg_len, 1), strict=True):
        losses, states = model.token_losses(segment, its_targets, memory)
        memory = extend(memory, states, mem_len=mem_len)
        nats.append(losses)
    return answer(nats)


def remembering(remember, model, tokens, targets, seg_len, mem_len):
    """The bits with another rule of what is remembered."""
    memory, nats = None, []
    for segment, its_targets in zip(tokens.split(seg_len, 1), targets.split(seg_len, 1), strict=True):
        losses, states = model.token_losses(segment, its_targets, memory)
        memory = remember(memory, states, mem_len)
        nats.append(losses)
    return torch.cat(nats, 1).mean() / log(2)


def all_states(memory, states, mem_len):
    return states if memory is None else torch.cat([memory, states], 2)


ANSWERS = {
    own_reading.check_bits_read: {
        "right": [own_reading.solution_bits_read, loop, as_tensor],
        "wrong": {
            "without memory": lambda *given: loop(*given[:-1], 0),
            "split the text into": lambda model, tokens, targets, *_: loop(model, tokens, targets, 99, 0),
            "whatever mem_len says": lambda *given: remembering(lambda m, states, n: states, *given),
            "given the old memory too": lambda *given: remembering(
                lambda m, states, n: extend(None, states, mem_len=n), *given
            ),
            "let extend keep": lambda *given: remembering(all_states, *given),
            "keeps all states in place of none": lambda *given: remembering(
                lambda m, states, n: all_states(m, states, n)[:, :, -n:], *given
            ),
            "these are nats": lambda *given: loop(*given) * log(2),
            "divide by log 2": lambda *given: loop(*given) * log(2) ** 2,
            "counts as much as a long one": lambda *given: by_segment(
                lambda nats: torch.stack([one.mean() for one in nats]).mean() / log(2), *given
            ),
            "that is a sum": lambda *given: loop(*given) * given[1].shape[1],
            "of the last segment alone": lambda *given: by_segment(
                lambda nats: nats[-1].mean() / log(2), *given
            ),
            "return their mean": lambda *given: by_segment(lambda nats: torch.cat(nats, 1) / log(2), *given),
        },
    },
}
