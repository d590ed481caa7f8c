"""Notebook 10: the lanes of each GPU, and their memory."""

import torch

from minitxl.course.checks import shares


def by_slices(tokens, targets, memory, n_gpu, *, of=lambda memory, own: memory[:, own]):
    size = len(tokens) // n_gpu
    given = []
    for gpu in range(n_gpu):
        own = slice(gpu * size, (gpu + 1) * size)
        given.append([tokens[own], targets[own], None if memory is None else of(memory, own)])
    return given


def by_views(tokens, targets, memory, n_gpu):
    views = [ids.unflatten(0, (n_gpu, -1)) for ids in (tokens, targets)]
    memories = [None] * n_gpu if memory is None else memory.unflatten(1, (n_gpu, -1)).unbind(1)
    return tuple(zip(*views, memories, strict=True))


def by_zip(tokens, targets, memory, n_gpu):
    memories = [None] * n_gpu if memory is None else memory.chunk(n_gpu, 1)
    return zip(tokens.chunk(n_gpu), targets.chunk(n_gpu), memories, strict=True)


def by_yield(tokens, targets, memory, n_gpu):
    memories = iter(() if memory is None else memory.chunk(n_gpu, dim=1))
    for own in zip(tokens.chunk(n_gpu), targets.chunk(n_gpu), strict=True):
        yield *own, next(memories, None)


def along(axis, cut):
    """A function that cuts memory along an axis, and does not ask whether it is None."""
    return lambda tokens, targets, memory, n_gpu: [
        (*ids, cut(memory, gpu, len(ids[0]), n_gpu, (slice(None),) * axis))
        for gpu, ids in enumerate(zip(tokens.chunk(n_gpu), targets.chunk(n_gpu), strict=True))
    ]


def sliced(memory, gpu, n_lane, n_gpu, before):
    return memory[(*before, slice(gpu * n_lane, (gpu + 1) * n_lane))]


def chunked(memory, gpu, n_lane, n_gpu, before):
    return memory.chunk(n_gpu, len(before))[gpu]


def if_memory(tokens, targets, memory, n_gpu):
    memories = memory.chunk(n_gpu, 1) if memory else [None] * n_gpu
    return list(zip(tokens.chunk(n_gpu), targets.chunk(n_gpu), memories, strict=True))


def too_few_states(tokens, targets, memory, n_gpu):
    return if_memory(tokens, targets, memory if memory is None else memory.reshape(n_gpu, 5), n_gpu)


ANSWERS = {
    shares.check_shares: {
        "right": [by_slices, by_views, by_zip, by_yield, shares.solution_shares],
        "wrong": {
            "along its layers": lambda *case: by_slices(
                *case, of=lambda memory, own: memory.chunk(case[3])[own.start // (own.stop - own.start)]
            ),
            "divided along its layers": along(0, sliced),
            "memory is divided along its layers": along(0, chunked),
            "its layers: its lanes are axis 1": lambda *case: by_slices(
                *case, of=lambda memory, own: memory[own]
            ),
            "divided along the numbers of a state": along(3, sliced),
            "before the first segment memory is None": along(1, sliced),
            "ask whether memory is None": if_memory,
            "it raised RuntimeError": too_few_states,
            "along its tokens: its lanes": lambda tokens, targets, memory, n_gpu: [
                (*ids, None if memory is None else memory.chunk(n_gpu, 2)[gpu])
                for gpu, ids in enumerate(zip(tokens.chunk(n_gpu), targets.chunk(n_gpu), strict=True))
            ],
            "the memory of all lanes": lambda *case: by_slices(*case, of=lambda memory, own: memory),
            "split takes the size": lambda tokens, targets, memory, n_gpu: list(
                zip(
                    tokens.split(n_gpu),
                    targets.split(n_gpu),
                    [None] * n_gpu if memory is None else memory.split(n_gpu, 1),
                    strict=False,
                )
            ),
            "memory is dropped": lambda *case: by_slices(*case, of=lambda memory, own: None),
            "along its tokens: lanes": lambda tokens, targets, memory, n_gpu: list(
                zip(
                    tokens.chunk(n_gpu, 1),
                    targets.chunk(n_gpu, 1),
                    [None] * n_gpu if memory is None else memory.chunk(n_gpu, 1),
                    strict=False,
                )
            ),
            "do not belong together": lambda *case: by_slices(
                *case, of=lambda memory, own: memory.flip(1)[:, own].flip(1)
            ),
            "dealt out in turn": lambda tokens, targets, memory, n_gpu: [
                (tokens[gpu::n_gpu], targets[gpu::n_gpu], memory if memory is None else memory[:, gpu::n_gpu])
                for gpu in range(n_gpu)
            ],
            "three things": lambda *case: [share[:2] for share in by_slices(*case)],
            "then what each of them gets": lambda *case: list(zip(*by_slices(*case), strict=True)),
            "then each GPU gets None": lambda tokens, targets, memory, n_gpu: list(
                zip(tokens.chunk(n_gpu), targets.chunk(n_gpu), memory.chunk(n_gpu, 1), strict=True)
            ),
            "it raised": lambda tokens, targets, memory, n_gpu: torch.stack([tokens, targets, memory]),
        },
    },
}
