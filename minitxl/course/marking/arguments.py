"""Arguments of a submission's function: how they go to its worker, and how its changes to them come back."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from minitxl.course.differences import equal
from minitxl.course.marking import frames
from minitxl.course.marking.replay import Replay


class Sent:
    """Arguments on their way to a worker: JSON, and the tensors in it by their names."""

    def __init__(self, known: frames.Tensors, given: dict[int, Callable[..., Any]], hidden: bool) -> None:
        self.known, self.given, self.hidden, self.values = known, given, hidden, frames.Tensors()

    def encode(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            name = f"j{len(self.known)}"
            self.known[name] = value
            floats = self.hidden and value.is_floating_point()
            self.values[name] = torch.randn_like(value, requires_grad=False) if floats else value
            stride = (
                list(value.stride()) if 0 not in value.stride() else list(torch.empty(value.shape).stride())
            )
            leaf = value.requires_grad and value.is_floating_point()
            return {"tensor": name, "stride": stride, "requires_grad": leaf}
        if isinstance(value, list | tuple):
            return {"list" if isinstance(value, list) else "tuple": [self.encode(one) for one in value]}
        if isinstance(value, dict):
            return {"dict": [[self.encode(key), self.encode(one)] for key, one in value.items()]}
        if callable(value):
            number = len(self.given)
            self.given[number] = value
            told = {"given": number, "training": getattr(value, "training", None)}
            if isinstance(value, nn.Module):
                told["parameters"] = [[name, self.encode(one)] for name, one in value.named_parameters()]
            return told
        return value


def change_as_told(
    held: Any, after: Any, replay: Replay, said: frames.Tensors, given: dict[int, Callable[..., Any]]
) -> None:
    """Make what was given what the function made of it: lists and dicts, and a model's mode."""
    kind: Any
    inside: Any
    (kind, inside), *_ = after.items() if isinstance(after, dict) else [(None, None)]
    if isinstance(held, Tensor) and kind == "tensor" and replay.tensors.get(inside) is held:
        if inside in said and not equal(held, said[inside]):
            held.data = said[inside]
            said[inside] = held
    elif kind == "given" and isinstance(held, nn.Module):
        held.train(bool(after["training"]))
    elif isinstance(held, list | tuple) and kind in ("list", "tuple"):
        for one, changed in zip(held, inside, strict=False):
            change_as_told(one, changed, replay, said, given)
        if isinstance(held, list):
            held[:] = [
                one if _same(one, changed, replay) else replay.values(changed, said)
                for one, changed in zip(held, inside, strict=False)
            ] + [replay.values(changed, said) for changed in inside[len(held) :]]
    elif isinstance(held, dict) and kind == "dict":
        now = {replay.decode(key): changed for key, changed in inside}
        for key in list(held):
            if key not in now:
                del held[key]
        for key, changed in now.items():
            if key in held:
                change_as_told(held[key], changed, replay, said, given)
            if key not in held or not _same(held[key], changed, replay):
                held[key] = replay.values(changed, said)


def _same(held: Any, after: Any, replay: Replay) -> bool:
    """Return True if what was given is still what stands there, perhaps with other content."""
    if isinstance(held, Tensor):
        return isinstance(after, dict) and replay.tensors.get(after.get("tensor", "")) is held
    return isinstance(held, list | tuple | dict) or callable(held) or held == after
