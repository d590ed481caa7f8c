"""What a forward pass keeps for its backward pass, in bytes. No training is needed to count it."""

from collections.abc import Callable, Iterable

from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef


def saved_bytes(forward: Callable[[], object], parameters: Iterable[nn.Parameter]) -> int:
    """Bytes of all storages that autograd keeps of ``forward()``, but for those of the parameters.

    Tensors may be on the meta device, with shapes and no numbers.
    """
    kept = {StorageWeakRef(parameter.untyped_storage()): 0 for parameter in parameters}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept.setdefault(StorageWeakRef(storage), storage.nbytes())
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        forward()
    return sum(kept.values())
