"""Guards of the worker: no package, no ready-made attention, no threads, and torch set as it starts."""

import inspect
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from operator import attrgetter
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils import _mode_utils, _python_dispatch

UNRECORDED = {
    "_disable_current_modes",
    "_disable_infra_mode",
    "_unset_infra_mode",
    "_pop_mode",
    "_pop_mode_temporarily",
    "_pop_torch_dispatch_stack",
    "_DisableTorchDispatch",
    "no_dispatch",
    "_ExcludeDispatchKeyGuard",
    "_ForceDispatchKeyGuard",
}
"""PyTorch's ways around a dispatch mode, such as the recorder; printing a tensor takes one of them."""

IN_STEPS = {
    "torch.nn.attention.flex_attention": "flex_attention",
    "torch._higher_order_ops.flex_attention": "math_attention",
    "torch._decomp.decompositions": "scaled_dot_product_flash_attention_for_cpu",
    "torch.onnx.ops._impl": "attention_23._init_fn",
    "torch.ao.nn.quantizable.modules.activation": "MultiheadAttention._forward_impl",
}
"""PyTorch's attentions in steps of its own, which the replay would take for a student's, by module."""
PATTERNS = "torch._inductor.fx_passes"
"""Package with more of these, which nothing else in a worker needs and which takes long to load."""


def _deepcopy(tensor: Tensor, memo: dict[int, Any]) -> Tensor:
    """Return a copy by operations that can be written down, as PyTorch's own is not."""
    if id(tensor) not in memo:
        memo[id(tensor)] = tensor.detach().clone()
    found: Tensor = memo[id(tensor)]
    return found


def _not_compiled(model: Any = None, **_: Any) -> Any:
    """Return what torch.compile was given, or as a decorator with options a function that does.

    The compiler loads PyTorch's own attention, and its operations could not be written down one by one.
    """
    return (lambda given: given) if model is None else model


class _InSteps(SourceFileLoader):
    """Loads a module with an attention in steps, which is refused."""

    def exec_module(self, module: types.ModuleType) -> None:
        super().exec_module(module)
        _refuse_steps(module)


class _NoAnswers:
    """Refuses the package, since what is asked for stands in there, and ready-made attention."""

    def find_spec(self, name: str, path: Any = None, *_: Any) -> ModuleSpec | None:
        if name.split(".")[0] == "minitxl":
            raise ImportError("it uses minitxl, which holds the answer: write it with torch and einops")
        if name == PATTERNS:
            _ready_made()
        spec = PathFinder.find_spec(name, path) if name in IN_STEPS else None
        if spec is not None:
            spec.loader = _InSteps(name, str(spec.origin))
        return spec


def _refuse_steps(module: types.ModuleType) -> None:
    function = inspect.unwrap(attrgetter(IN_STEPS[module.__name__])(module))
    function.__code__ = _ready_made.__code__  # whatever other names and tables it has


def _ready_made(*_: Any, **__: Any) -> None:
    raise ImportError("it uses PyTorch's own attention: write it from its parts")


def _for_torch_alone(way: Callable[..., Any]) -> Callable[..., Any]:
    """Return a way past the recorder that PyTorch's own code may take, and a submission may not."""

    def checked(*args: Any, **kwargs: Any) -> Any:
        if not sys._getframe(1).f_globals.get("__name__", "").startswith("torch."):
            raise RuntimeError(
                "it computes where nothing is written down: use torch's operations as they are"
            )
        return way(*args, **kwargs)

    return checked


def always_recorded() -> None:
    """Refuse to a submission what PyTorch has to switch the recorder off."""
    for library in (torch._C, _python_dispatch, _mode_utils):
        for name in UNRECORDED & vars(library).keys():
            setattr(library, name, _for_torch_alone(getattr(library, name)))


def _refused_thread(*_: Any, **__: Any) -> None:
    raise RuntimeError("it starts a thread, where nobody sees what it computes: compute in the function")


def no_threads() -> None:
    """Refuse new threads: operations there are not written down, PyTorch's own attention among them."""
    for module in (sys.modules["_thread"], sys.modules["threading"]):
        for name in ("start_new", "start_new_thread", "start_joinable_thread"):
            vars(module).update({name: _refused_thread, f"_{name}": _refused_thread})


def gradients_elsewhere(asked: Callable[[Tensor], bool | None], told: Callable[[Tensor], None]) -> None:
    """Have ``requires_grad`` say what ``asked`` knows, None for nothing: nothing here has a graph.

    A tensor that is set to need a gradient is ``told``. A hook would wait for a gradient that is computed
    elsewhere, so it is refused, and so is a Function with a backward of its own: what its forward does
    would be repeated without a gradient, whatever the backward says.
    """
    own: Any = vars(torch._C.TensorBase)["requires_grad"]
    own_setting: Any = torch.Tensor.requires_grad_

    def requires_grad(tensor: Tensor) -> bool:
        known = asked(tensor)
        return bool(own.__get__(tensor)) if known is None else known

    def set_requires_grad(tensor: Tensor, needed: bool = True) -> Tensor:
        if not needed and asked(tensor):
            raise RuntimeError(
                "it switches requires_grad of a tensor off, which its graph may need: detach() makes another"
            )
        result = cast(Tensor, own_setting(tensor, needed))
        if needed:
            told(tensor)
        return result

    torch.Tensor.requires_grad = property(requires_grad, set_requires_grad)  # type: ignore
    torch.Tensor.requires_grad_ = set_requires_grad  # type: ignore
    for name in ("register_hook", "register_post_accumulate_grad_hook"):
        setattr(torch.Tensor, name, _refused_hook)
    torch.autograd.Function.apply = _refused_function  # type: ignore


def _refused_hook(*_: Any, **__: Any) -> None:
    raise RuntimeError(
        "it registers a hook, and the marking computes gradients without it: detach() stops a gradient"
    )


def _refused_function(*_: Any, **__: Any) -> None:
    raise RuntimeError(
        "it applies a torch.autograd.Function, and the marking computes gradients without its backward: "
        "detach() stops a gradient"
    )


def only_on_the_cpu(device: torch.device) -> None:
    """Refuse tensors without numbers, say, which cost nothing here and much where the judge computes."""
    if device.type != "cpu":
        raise RuntimeError(f"it computes on the device {device.type}: the marking has the CPU alone")


def only_drawing_numbers(variant: Callable[..., Any]) -> None:
    """Leave ``variant`` of the package, and refuse the rest."""
    for name in ("minitxl", "minitxl.course", "minitxl.course.grading"):
        module = types.ModuleType(name)
        module.__path__ = []
        sys.modules[name] = module
    vars(sys.modules["minitxl.course.grading"])["variant"] = variant
    sys.meta_path.insert(0, _NoAnswers())
    torch.Tensor.__deepcopy__ = _deepcopy  # type: ignore[method-assign]
    torch.compile = _not_compiled
    for library in (torch.nn.functional, torch._C._nn):
        for name in ("scaled_dot_product_attention", "multi_head_attention_forward"):
            setattr(library, name, _ready_made)
    for place in IN_STEPS.keys() & sys.modules.keys():  # the others as they are imported, which takes long
        _refuse_steps(sys.modules[place])


@contextmanager
def as_torch_starts() -> Iterator[None]:
    """Undo what cells and functions before set for all of torch: gradients, dtype and device."""
    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)
    with torch.inference_mode(False), torch.enable_grad():
        yield
