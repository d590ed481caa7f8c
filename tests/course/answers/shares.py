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


ANSWERS = {
    shares.check_shares: {
        "right": [by_slices, by_views, by_zip, shares.solution_shares],
        "wrong": {
            "along its layers": lambda *case: by_slices(
                *case, of=lambda memory, own: memory.chunk(case[3])[own.start // (own.stop - own.start)]
            ),
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
