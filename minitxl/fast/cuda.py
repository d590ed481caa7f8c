"""Faster steps on a CUDA GPU: layers through PyTorch's compiler, and steps captured as CUDA graphs.

A step of a small model has thousands of kernels, and most of them run for less time than the CPU takes to
start one. A CUDA graph is a recording of a step's kernels, which the GPU runs one after another by itself. It
reads and writes the same places in RAM each time. So a step can be captured only if all its shapes
stay the same and nothing in it waits for a value from the GPU, as the adaptive softmax does.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast, runtime_checkable

import torch
from torch import Tensor, nn

from minitxl.config import ModelConfig
from minitxl.fast.convert import to_fast
from minitxl.model import TransformerLM

WORTH_COMPILING = 2**22
"""At this many scores a layer, or more, a training step is compiled. Compiling takes many seconds, which a
smaller model would not earn back."""
WARM_UP = 3
"""Runs of a step before it is captured, in which libraries choose their kernels."""

Loss = TypeVar("Loss", bound=nn.Module)


@runtime_checkable
class Graph(Protocol):
    """A captured graph of kernels, as ``torch.cuda.CUDAGraph`` is."""

    def replay(self) -> None: ...


@dataclass(frozen=True)
class CapturedStep:
    """A captured step, and the places where it reads its inputs and writes its output."""

    graph: Graph
    inputs: tuple[Tensor, ...]
    output: Tensor

    def fits(self, inputs: Sequence[Tensor]) -> bool:
        """Return True if the inputs have the shapes that were captured."""
        return [place.shape for place in self.inputs] == [tensor.shape for tensor in inputs]

    def run(self, inputs: Sequence[Tensor]) -> Tensor:
        """Return the output for these inputs; the tensors that the step changes are changed."""
        for place, tensor in zip(self.inputs, inputs, strict=True):
            place.copy_(tensor)
        self.graph.replay()
        return self.output.clone()


def can_capture(config: ModelConfig, device: torch.device) -> bool:
    """Return True if the steps of such a model can be captured on this device."""
    return device.type == "cuda" and not config.cutoffs


def capture_step(
    step: Callable[[], Tensor], inputs: Sequence[Tensor], state: Sequence[Tensor]
) -> CapturedStep | None:
    """Return the step, captured, or None where CUDA refuses it.

    The step reads ``inputs`` and changes ``state``; here the state is left as it was.
    """
    before = [tensor.clone() for tensor in state]
    try:
        graph, output = graph_of(step)
        captured = CapturedStep(graph, tuple(inputs), output)
    except RuntimeError as error:
        _warn(error)
        captured = None
    for tensor, was in zip(state, before, strict=True):
        tensor.copy_(was)
    return captured


def graph_of(step: Callable[[], Tensor]) -> tuple[Graph, Tensor]:
    """Return a CUDA graph of the step, and the tensor into which it writes the output."""
    here, aside = torch.cuda.current_stream(), torch.cuda.Stream()
    aside.wait_stream(here)
    with torch.cuda.stream(aside):
        for _ in range(WARM_UP):
            step()
    here.wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = step()
    return graph, output


def capture_training(module: Loss, examples: tuple[Tensor, ...]) -> Loss:
    """Return the module, its forward and backward passes captured for inputs like the examples.

    Where CUDA refuses to capture it, the module is left as it is. The random numbers of the device are left
    as they were.
    """
    # The graph keeps nodes of its backward pass alive, which belong to another stream: no mistake here.
    torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)
    examples = tuple(example.contiguous() for example in examples)  # each input is written into its example
    with torch.random.fork_rng([examples[0].device]):
        try:
            return cast(Loss, torch.cuda.make_graphed_callables(module, examples, num_warmup_iters=WARM_UP))
        except RuntimeError as error:
            _warn(error)
    return module


def _warn(error: RuntimeError) -> None:
    reason = str(error).partition("\n")[0]
    logging.getLogger(__name__).warning("steps are not captured as a CUDA graph, and take longer: %s", reason)


def compiled(model: TransformerLM) -> TransformerLM:
    """Return a model around the same parameters whose layers PyTorch compiles; ``model`` stays as it is.

    Under the compiler fast modules run the formulas of the paper's modules (``fast.eager``), and it makes
    few kernels of them.
    """
    copy = to_fast(model)
    for block in copy.blocks:
        block.compile(dynamic=False)
    return copy
