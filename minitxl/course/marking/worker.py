"""Runs what a student handed in: computes, and decides nothing.

A program by itself, started in a sandbox that holds this folder's few files, Python and torch. It
reads frames: the cells of a submission, then calls of their functions with arguments. It answers
with the operations on tensors that a call made, one by one, and with what it returned. The judge
runs these operations itself, on tensors of its own: what it compares, counts and differentiates is
its own run, and whatever is changed in this process changes what is handed in, and no verdict.
"""

import ast
import builtins
import linecache
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path[:] = [path for path in sys.path if path != str(Path(__file__).parent)]
sys.path.append(str(Path(__file__).parent))

import einops  # noqa: E402, F401  (a submission's first import, which should not count as its time)
import frames  # noqa: E402
import guards  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from statements import bound, is_told, statements, words, words_of_cell  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes  # noqa: E402
from variants import variant  # noqa: E402

Definitions = tuple[dict[str, Any], dict[str, str], list[list[Any]]]
LIMITS = {"RLIMIT_AS": 6 * 2**30, "RLIMIT_FSIZE": 2**24, "RLIMIT_NPROC": 0, "RLIMIT_CORE": 0}
LIMITS["RLIMIT_CPU"] = 200
"""What the system grants a worker, in bytes, processes, and seconds of processor time.

The judge ends a worker much earlier. These seconds end one that outlives its judge, and no signal that it
ignores or handles keeps it: at the hard limit the system kills.
"""


class Recorder(TorchDispatchMode):
    """Writes down each operation on tensors, with a name for each tensor that takes part."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.steps: list[dict[str, Any]] = []
        self.values: dict[str, Tensor] = {}
        self.names: dict[int, str] = {}
        self.storages: dict[int, Tensor] = {}
        self.tensors: dict[str, Tensor] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Tell torch not to load its compiler for this, which takes longer than most submissions."""
        return False

    def name_of(self, tensor: Tensor) -> str:
        """Return a tensor's name; one from elsewhere is a detached view of a known one, or a constant."""
        if id(tensor) not in self.names:
            guards.only_on_the_cpu(tensor.device)
            storage = tensor.untyped_storage().data_ptr()
            base = self.storages.get(storage) if storage and tensor.numel() else None
            name = self.know(tensor)
            if base is not None and base.dtype == tensor.dtype:
                offset = tensor.storage_offset() - base.storage_offset()
                view = [list(tensor.shape), list(tensor.stride()), offset]
                self.steps.append({"view": name, "of": self.names[id(base)], "as": view})
            else:
                self.values[name] = tensor.detach().clone()
                self.steps.append({"constant": name})
        return self.names[id(tensor)]

    def know(self, tensor: Tensor, name: str = "") -> str:
        """Return the name of a tensor that an operation made, or that the judge gave by this name."""
        if id(tensor) not in self.names:
            self.names[id(tensor)] = name or f"w{len(self.tensors)}"
            self.tensors[self.names[id(tensor)]] = tensor
            if tensor.numel():
                self.storages.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return self.names[id(tensor)]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        kwargs = kwargs or {}
        step = {"op": str(func), "grad": torch.is_grad_enabled()}
        step["inference"] = torch.is_inference_mode_enabled()
        step["args"], step["kwargs"] = self.encode(list(args)), self.encode(dict(kwargs))
        result = func(*args, **kwargs)
        made = [result] if isinstance(result, Tensor) else result
        if isinstance(made, tuple | list) and all(isinstance(one, Tensor) for one in made):
            self.steps.append(step | {"out": [self.know(one) for one in made]})
        return result

    def encode(self, value: Any) -> Any:
        """Return a value as JSON; tensors by their names."""
        if type(value) in (Tensor, torch.nn.Parameter):
            return {"tensor": self.name_of(value)}
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, np.generic | np.ndarray) and value.size == 1:
            return self.encode(value.item())
        if isinstance(value, bool | int | float):
            return float(value) if isinstance(value, float) else int(value)
        if isinstance(value, complex):
            return {"complex": [value.real, value.imag]}
        if isinstance(value, list | tuple):
            return {"list" if isinstance(value, list) else "tuple": [self.encode(one) for one in value]}
        if isinstance(value, dict):
            return {"dict": [[self.encode(key), self.encode(one)] for key, one in value.items()]}
        if isinstance(value, Given | GivenModule):
            return {"given": value.number, "training": getattr(value, "training", None)}
        if value is Ellipsis:
            return {"ellipsis": True}
        for kind in (torch.dtype, torch.layout, torch.memory_format):
            if isinstance(value, kind):
                return {"torch": str(value).removeprefix("torch.")}
        if isinstance(value, torch.device):
            guards.only_on_the_cpu(value)
            return {"torch": "device"}
        return {"other": type(value).__name__}

    def taken(self) -> tuple[list[dict[str, Any]], dict[str, Tensor]]:
        """Return the steps and constants since the last time."""
        steps, self.steps = self.steps, []
        values, self.values = self.values, {}
        return steps, values


class Given:
    """A function of the judge's, as a submission sees it."""

    def __init__(self, channel: "Channel", number: int) -> None:
        self.channel, self.number = channel, number

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.channel.ask(self.number, args, kwargs, None)


class GivenModule(torch.nn.Module):
    """A model of the judge's: its parameters can be read, and its mode is sent along."""

    def __init__(self, channel: "Channel", number: int, training: bool) -> None:
        super().__init__()
        self.channel, self.number = channel, number
        self.train(training)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.channel.ask(self.number, args, kwargs, self.training)


class Channel:
    """The two ends of the conversation with the judge, and the recording of the call that runs."""

    def __init__(self) -> None:
        self.here, self.there = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        self.recorder = Recorder()
        self.given: dict[int, Given | GivenModule] = {}
        self.asked: str | None = None  # mark of the judge's last frame; each answer repeats it

    def send(self, header: dict[str, Any], tensors: dict[str, Tensor] | None = None) -> None:
        self.there.write(frames.pack(header | {"asked": self.asked}, tensors))
        self.there.flush()

    def receive(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        head = self.here.read(frames.HEAD)
        if len(head) < frames.HEAD:
            os._exit(0)
        text, blob = frames.lengths(head)
        header, tensors = frames.unpack(self.here.read(text), self.here.read(blob))
        self.asked = header.get("asked")
        return header, tensors

    def tell(self, header: dict[str, Any], values: dict[str, Tensor]) -> None:
        """Send what happened since the last time, and ``values`` of the tensors that are named in it."""
        steps, constants = self.recorder.taken()
        self.send(header | {"steps": steps}, constants | values)

    def ask(self, number: int, args: Any, kwargs: Any, training: bool | None) -> Any:
        """Have the judge call one of its functions."""
        with _disable_current_modes():
            sent = {"args": self.recorder.encode(list(args)), "kwargs": self.recorder.encode(dict(kwargs))}
            grad = torch.is_grad_enabled()
            self.tell({"then": "ask", "given": number, "training": training, "grad": grad, **sent}, {})
            answer, tensors = self.receive()
            if "error" in answer:
                kind, words = answer["error"]
                raise getattr(builtins, kind, type(kind, (Exception,), {}))(words)
            return self.decode(answer["value"], tensors)

    def requires_grad(self, tensor: Tensor) -> bool | None:
        """Return whether a tensor of the call needs a gradient in the judge's run; None for any other."""
        if (name := self.recorder.names.get(id(tensor))) is None:
            return None
        with _disable_current_modes():
            self.tell({"then": "requires_grad", "of": name}, {})
            answer, _ = self.receive()
            return bool(answer["requires_grad"])

    def needs_grad(self, tensor: Tensor) -> None:
        """Write down that a tensor of the call is set to need a gradient."""
        if (name := self.recorder.names.get(id(tensor))) is not None:
            self.recorder.steps.append({"requires_grad": name})

    def decode(self, value: Any, tensors: dict[str, Tensor]) -> Any:
        """Return what the judge sent."""
        if not isinstance(value, dict):
            return value
        (kind, inside), *_ = value.items()
        if kind == "tensor":
            tensor = tensors[inside]
            if value["stride"] != list(tensor.stride()):
                tensor = torch.empty_strided(tensor.shape, value["stride"], dtype=tensor.dtype).copy_(tensor)
            tensor.requires_grad_(value["requires_grad"])  # which is not written down: it is not known yet
            self.recorder.know(tensor, inside)
            return tensor
        if kind in ("list", "tuple"):
            found = [self.decode(one, tensors) for one in inside]
            return found if kind == "list" else tuple(found)
        if kind == "dict":
            return {self.decode(key, tensors): self.decode(one, tensors) for key, one in inside}
        if inside not in self.given:
            self.given[inside] = self._given(value, tensors)
        return self.given[inside]

    def _given(self, value: dict[str, Any], tensors: dict[str, Tensor]) -> Given | GivenModule:
        if value["training"] is None:
            return Given(self, value["given"])
        module = GivenModule(self, value["given"], value["training"])
        for name, one in value["parameters"]:
            module.register_parameter(name, torch.nn.Parameter(self.decode(one, tensors)))
        return module

    def call(self, function: Any, sent: Any, tensors: dict[str, Tensor]) -> None:
        """Call a function of the submission, and tell what came of it."""
        self.recorder, self.given = Recorder(), {}
        args = self.decode(sent, tensors)
        recorder = self.recorder
        try:
            with guards.as_torch_starts(), torch._C._AutoDispatchBelowAutograd():
                with recorder:
                    result = function(*args)
                value, after = recorder.encode(result), recorder.encode(args)
                named = {name: recorder.tensors[name] for name in _names([value, after])}
                self.tell({"then": "result", "value": value, "after": after}, named)
        except BaseException as error:
            text = words(error)
            self.tell({"then": "error", "error": [type(error).__name__, text]}, {})


def _names(value: Any) -> set[str]:
    """Return the names of all tensors in an encoded value."""
    if isinstance(value, dict):
        if "tensor" in value:
            return {value["tensor"]}
        return set().union(*map(_names, value.values()))
    return set().union(*map(_names, value)) if isinstance(value, list) else set()


def prepare(channel: Channel, cells: list[list[str]], skipped: list[list[Any]]) -> Definitions:
    """Run the cells, statement by statement; a statement that fails or was skipped costs no other.

    Returns:
        What the cells define, by name why something else is not defined, and the statements that failed:
        cell, place in it, and why.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    failed: list[list[Any]] = []
    undefined: dict[str, str] = {}
    left_out = {(cell, place): why for cell, place, why in skipped}
    for cell, source in cells:
        try:
            found = statements(source)
        except BaseException as error:
            undefined |= dict.fromkeys(re.findall(r"\w+", source), words_of_cell(error))
            continue
        # Where inspect.getsource finds the text of a function, as in Jupyter: torch.jit.script reads it.
        linecache.cache[f"<{cell}>"] = len(source), None, source.splitlines(keepends=True), f"<{cell}>"
        for place, statement in enumerate(found):
            if why := left_out.get((cell, place)):
                undefined |= dict.fromkeys(bound(statement), why)
                continue
            channel.send({"at": [cell, place]})
            try:
                code = compile(ast.Module([statement], []), f"<{cell}>", "exec")
                exec(code, names)
            except BaseException as error:
                undefined |= dict.fromkeys(bound(statement), words_of_cell(error))
                if is_told(statement, error):
                    failed.append([cell, place, f"it raised {words_of_cell(error)}"])
    return names, undefined, failed


def main() -> None:
    import resource  # which Windows lacks

    torch.set_num_threads(1)
    channel = Channel()
    for name, most in LIMITS.items():
        with suppress(AttributeError, ValueError, OSError):
            resource.setrlimit(getattr(resource, name), (most, most))
    guards.only_drawing_numbers(variant)
    with Recorder():
        torch.zeros(1) + 1  # what torch loads at the first operation should not count as a function's time
    guards.no_threads()
    guards.always_recorded()
    guards.gradients_elsewhere(channel.requires_grad, channel.needs_grad)
    channel.send({"ready": os.getpid()})
    job, _ = channel.receive()
    names, undefined, failed = prepare(channel, job["cells"], job["skipped"])
    channel.send({"prepared": failed})
    while True:
        asked, tensors = channel.receive()
        if not callable(names.get(asked["function"])):
            why = undefined.get(asked["function"], "")
            channel.send({"then": "undefined", "undefined": why, "steps": []})
        else:
            channel.call(names[asked["function"]], asked["args"], tensors)


if __name__ == "__main__":
    main()
