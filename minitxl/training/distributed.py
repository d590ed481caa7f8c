"""Ranks: the processes of one training, as ``torchrun`` starts them. Without it there is one.

Each rank reads its own lanes with its own memory. DistributedDataParallel averages the gradients over the
ranks. ``summed``, ``largest`` and ``gathered`` combine other values; with one rank they return what they are
given.
"""

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from minitxl.fields import check, whole

LONGEST_WAIT = timedelta(minutes=30)
"""Longest wait of a rank for the others while they train. PyTorch's gloo may lose the news that another rank
has ended; then this one ends in error after this time."""
LONGEST_DOWNLOAD = timedelta(hours=12)
"""Longest wait of a rank for another one that prepares a corpus, which it may have to download."""


def size() -> int:
    """Return the number of ranks."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def rank() -> int:
    """Return the number of this rank, from 0; only rank 0 writes and reports."""
    return distributed.get_rank() if distributed.is_initialized() else 0


@contextmanager
def joined(device: str) -> Iterator[torch.device]:
    """Join the processes that ``torchrun`` started, if any, and return this one's device."""
    if not distributed.is_torchelastic_launched():
        yield torch.device(device)
        return
    _check_variables()
    here = torch.device(f"cuda:{_local_rank()}" if device == "cuda" else device)
    if here.type == "cuda":
        torch.cuda.set_device(here)
    distributed.init_process_group("nccl" if here.type == "cuda" else "gloo", timeout=LONGEST_WAIT)
    try:
        yield here
    finally:
        distributed.destroy_process_group()


@contextmanager
def first_here() -> Iterator[None]:
    """Run the block on the first rank of each machine, and then on the others."""
    if size() == 1:
        yield
        return
    ahead, everyone = _local_rank() == 0, distributed.new_group(timeout=LONGEST_DOWNLOAD)
    if not ahead:
        distributed.barrier(everyone)
    try:
        yield
    finally:
        if ahead:
            distributed.barrier(everyone)


def share(lanes: int, *, parts: int = 1) -> slice:
    """Return the lanes of this rank, of ``lanes`` in all; each rank takes its own in ``parts``."""
    check("accumulate", parts, whole(1, lanes))
    if lanes % (size() * parts):
        raise ValueError(
            f"batch must be a multiple of processes · accumulate = {size()} · {parts}, got {lanes}"
        )
    each = lanes // size()
    return slice(rank() * each, (rank() + 1) * each)


def parallel(module: nn.Module) -> nn.Module:
    """Return the module with gradients averaged over the ranks; every parameter must get one, be it zero."""
    if size() == 1:
        return module
    averaging = DistributedDataParallel(module)
    # This keeps the process group alive until the reducer is freed, since attributes are freed in their
    # order. If the reducer held the last reference, freeing it would join the group's threads and keep
    # Python's lock meanwhile. One of the threads may need that lock: a deadlock.
    vars(averaging)["freed_after_the_reducer"] = averaging.process_group
    return averaging


def without_sync(module: nn.Module, *, when: bool) -> AbstractContextManager:
    """Return a context in which gradients are only summed: they are averaged after the last part."""
    return module.no_sync() if when and isinstance(module, DistributedDataParallel) else nullcontext()


def summed(values: list[float]) -> list[float]:
    """Return the sum over the ranks of each value."""
    return _reduced(values, distributed.ReduceOp.SUM)


def largest(value: int) -> int:
    """Return the largest of the ranks' values."""
    return int(_reduced([float(value)], distributed.ReduceOp.MAX)[0])


def gathered(tensor: Tensor, *, dim: int) -> Tensor:
    """Return the tensors of all ranks, of one shape, joined along ``dim`` in the order of the ranks."""
    if size() == 1:
        return tensor
    here = tensor.to(_carrier()).contiguous()
    by_rank = [torch.empty_like(here) for _ in range(size())]
    distributed.all_gather(by_rank, here)
    return torch.cat(by_rank, dim=dim)


def _local_rank() -> int:
    """Return the number of this process on its machine, which ``torchrun`` writes into the environment."""
    return _variable("LOCAL_RANK", 0)


def _check_variables() -> None:
    """Raise a ValueError for what ``torchrun`` can't have written, before PyTorch waits for other ranks."""
    ranks = _variable("WORLD_SIZE", 1, low=1)
    _variable("RANK", 0, high=ranks - 1)
    _variable("LOCAL_RANK", 0, high=ranks - 1)
    _variable("MASTER_PORT", 0, high=2**16 - 1)


def _variable(name: str, default: int, *, low: int = 0, high: int | None = None) -> int:
    """Return the number in a variable of the environment."""
    text = os.environ.get(name, str(default))
    number = int(text) if re.fullmatch("[0-9]{1,9}", text) else text
    check(f"the variable {name}", number, whole(low, high))
    return int(number)


def _reduced(values: list[float], how: distributed.ReduceOp.RedOpType) -> list[float]:
    if size() == 1:
        return values
    tensor = torch.tensor(values, dtype=torch.float64, device=_carrier())
    distributed.all_reduce(tensor, how)
    return tensor.tolist()


def _carrier() -> torch.device:
    """Return the device on which tensors are sent."""
    on_gpu = distributed.get_backend() == "nccl"
    return torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
