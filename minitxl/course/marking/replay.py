"""Runs, on the judge's own tensors, the operations that a worker tells of.

What a submission's function is judged by is this run: its values, its gradients, the sizes of its
tensors, how many operations it takes, what it changes in place. A worker that tells of other
operations than it made has handed in another function.
"""

from contextlib import nullcontext
from functools import cache
from time import process_time
from typing import Any

import torch
from torch import Tensor

from minitxl.course.differences import equal, kind_of
from minitxl.course.marking.frames import Tensors

MOST_STEPS = 500_000
"""Operations of one call, at most."""
WORDS = {"rounding_mode", "approximate", "mode", "pad_mode", "reduce", "indexing", "UPLO", "equation", "ord"}
WORDS |= {"side", "padding_side", "padding", "interpolation", "norm", "driver"}
"""Arguments that may be text. A file's name is none of them."""
REFUSED = ("resize", "set_", "from_file", "_print", "_assert", "rename", "_cuda", "_test", "_pin_memory")
READY_MADE = ("scaled_dot_product", "multi_head_attention", "transformer_encoder")


class ReplayError(Exception):
    """Operations that are none, or not allowed."""


class RefusedError(Exception):
    """An operation of PyTorch's that this run does not repeat."""


class TooLongError(Exception):
    """Operations that take this process longer than the function may take."""


class Unknown:
    """A value that is no tensor, number, text, list, tuple or dict; only the name of its type is known."""

    def __repr__(self) -> str:
        return kind_of(self)


class Replay:
    """The tensors of one call by their names, as they are after the operations so far.

    ``until`` is the processor time of this process after which no operation is run.
    """

    def __init__(self, until: float) -> None:
        self.tensors: Tensors = {}
        self.until = until
        self.steps = 0

    def run(self, steps: Any, values: Tensors) -> None:
        """Run the steps; what an operation raises is raised."""
        if not isinstance(steps, list):
            raise ReplayError("steps must be a list")
        self.steps += len(steps)
        if self.steps > MOST_STEPS:
            raise ReplayError(f"a call takes at most {MOST_STEPS:,} operations")
        for step in steps:
            try:
                operation, args, kwargs, names = self._read(step, values)
            except (ReplayError, RefusedError):
                raise
            except Exception as error:
                raise ReplayError(f"no operation: {error!r}") from None
            if operation is None:
                continue
            if process_time() > self.until:
                raise TooLongError
            grad = torch.is_grad_enabled() and bool(step["grad"])
            inference = torch.inference_mode() if step["inference"] else nullcontext()
            with inference, torch.set_grad_enabled(grad):
                result = operation(*args, **kwargs)
                found = [result] if isinstance(result, Tensor) else list(result)
                if "empty" in step["op"]:
                    for one in found:
                        one.zero_()  # whatever lay in this memory is no one's business
            self.tensors |= dict(zip(names, found, strict=True))

    def _read(self, step: Any, values: Tensors) -> tuple[Any, list[Any], dict[str, Any], list[str]]:
        if "constant" in step:
            self.tensors[step["constant"]] = values[step["constant"]]
            return None, [], {}, []
        if "requires_grad" in step:
            self.tensors[step["requires_grad"]].requires_grad_()
            return None, [], {}, []
        if "view" in step:
            base, (size, stride, offset) = self.tensors[step["of"]].detach(), step["as"]
            self.tensors[step["view"]] = base.as_strided(size, stride, base.storage_offset() + offset)
            return None, [], {}, []
        operation = _operation(str(step["op"]))
        return operation, self.decode(step["args"]), self.decode(step["kwargs"]), step["out"]

    def decode(self, value: Any) -> Any:
        """Return what a worker encoded, with this run's tensors; ReplayError for anything else."""
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            ((kind, inside),) = value.items()
            if kind == "tensor":
                return self.tensors[inside]
            if kind in ("list", "tuple"):
                return (list if kind == "list" else tuple)(map(self.decode, inside))
            if kind == "dict":
                return {self.decode(key): self.decode(one) for key, one in inside}
            if kind == "ellipsis":
                return ...
            if kind == "complex":
                return complex(*inside)
            if kind == "torch":
                return torch.device("cpu") if inside == "device" else getattr(torch, str(inside))
            if kind == "other":
                return type(str(inside)[:40], (Unknown,), {})()
        raise ReplayError(f"no value: {value!r:.60}")

    def values(self, told: Any, values: Tensors) -> Any:
        """Return a decoded value; a tensor that did not come from operations is what the worker says it is.

        So who computes with numpy, or in lists, gets what the numbers are worth, without a gradient.
        """
        for name, said in values.items():
            mine = self.tensors.get(name)
            if mine is None or not equal(mine, said):
                self.tensors[name] = said
        return self.decode(told)


@cache
def _operation(name: str) -> Any:
    """Return an operation by PyTorch's own name for it, such as "aten.mul.Tensor"."""
    library, operation, overload = name.split(".")
    if library != "aten":
        raise RefusedError(_refusal(name))
    if any(word in operation for word in READY_MADE):
        raise RefusedError("it uses PyTorch's own attention: write it from its parts")
    found = getattr(getattr(torch.ops.aten, operation), overload)
    texts = {one.name for one in found._schema.arguments if "str" in str(one.type)}
    if texts - WORDS or any(word in operation for word in REFUSED):
        raise RefusedError(_refusal(operation))
    return found


def _refusal(name: str) -> str:
    return f"use another operation than {name[:60]}: the marking runs operations again, and not this one"
