"""One step of training: forward, backward, the parameters' update, and the memory's extension.

    record = train_step(run, segments)

A ``Run`` holds everything that a step reads or changes, except the text. Runs share nothing, not even random
numbers, so two may be stepped in turn. The text is cut into ``batch`` lanes, which are read side by side
(``data.batching``).
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isfinite, log
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import AdamW
from torch.optim.swa_utils import AveragedModel

from minitxl.data.batching import ContiguousBatches, Segment
from minitxl.fields import check, whole
from minitxl.memory import extend
from minitxl.model import TransformerLM
from minitxl.training import distributed, validation
from minitxl.training.config import TrainConfig
from minitxl.training.loss import of_constant_length
from minitxl.training.optimizer import optimizer_step
from minitxl.training.schedules import learning_rate


@dataclass
class Best:
    """A run's best validation."""

    step: int = 0
    """Its step; 0 before the first validation."""
    bits: float | None = None
    """Bits per token; None before the first validation."""

    def __post_init__(self) -> None:
        check("step", self.step, whole(0))


@dataclass
class Unlogged:
    """The steps since the last line of a run's log."""

    steps: int = 0
    """How many they are."""
    bits: float = 0.0
    """Sum of their losses, in bits per token."""

    def __post_init__(self) -> None:
        check("steps", self.steps, whole(0))


@dataclass
class Run:
    """A model in training and everything that decides its next step."""

    model: TransformerLM
    """The model in training, in its fast form (``fast.to_fast``)."""
    optimizer: AdamW
    settings: TrainConfig
    step: int
    memory: Tensor | None
    """[layer batch mem model], of this process's lanes; None before the first step, and where a run is
    resumed with another batch size."""
    random: dict[str, Tensor]
    """State of the generators, by device type."""
    average: AveragedModel | None
    """Mean of the parameters' values after each step later than ``average_from``; None without averaging."""
    segment_loss: nn.Module
    """A ``SegmentLoss`` of the model, whose backward pass averages gradients over all processes."""
    accumulate: int
    """Parts into which a step divides its lanes, to need less RAM for activations."""
    tokens_read: int = 0
    """Tokens read by all processes together since step 0."""
    best: Best = field(default_factory=Best)
    unlogged: Unlogged = field(default_factory=Unlogged)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def model_to_evaluate(self) -> TransformerLM:
        """The model to evaluate: the one with averaged parameters, once there are any."""
        if self.average is None or not self.average.n_averaged:
            return self.model
        return cast(TransformerLM, self.average.module)


class Record(NamedTuple):
    """The record of one training step."""

    step: int
    bits: float
    """Training loss in bits per token, with the parameters before this step. With settings.loss = "half", the
    loss of the later half of each segment."""
    learning_rate: float
    gradient_norm: float
    """Norm of the gradient before clipping."""
    tokens: int
    """Tokens of this step, of all processes together."""
    seconds: float
    """Time of the step, without validation."""
    valid_bits: float | None = None
    """Bits per token on the validation text after the step, if it was validated."""
    valid_bits_at: dict[int, float] | None = None
    """Bits per token at each attention length of ``validate_attention_lens``."""
    valid_subset: validation.Subset | None = None
    """Lanes of the validation text that were scored."""


def train_step(run: Run, segments: ContiguousBatches) -> Record:
    """Train on the next segment of every lane, and return the record; each epoch starts without memory."""
    began, settings = time.perf_counter(), run.settings
    step_tokens, n_segment = settings.batch * settings.seg_len, len(segments)
    # The place in the text follows from the tokens read, so a run may be resumed with another batch size.
    index = run.tokens_read // step_tokens % n_segment
    epoch_begins = index == 0
    memory = None if epoch_begins else run.memory
    memory = run.model.empty_memory(len(segments.lanes)) if memory is None else memory
    run.optimizer.zero_grad()
    with _own_randomness(run):
        losses, states = _forward_and_backward(run, segments[index], memory)
    norm_on_device = clip_grad_norm_(run.model.parameters(), settings.clip)
    # ``.item()`` in ``_mean_bits`` waits for all of a GPU's work so far. Read no value earlier: it would be
    # one more wait.
    bits = _mean_bits(losses)
    if not isfinite(bits):
        raise ValueError(
            f"the loss must be finite, got {bits} at step {run.step + 1}: "
            f"a lower learning_rate than {settings.learning_rate} may help"
        )
    rate = learning_rate(run.step + 1, settings)
    norm = optimizer_step(run.optimizer, norm_on_device, rate=rate)
    run.memory = extend(memory, states, mem_len=settings.mem_len)
    run.step += 1
    run.tokens_read += step_tokens
    if run.average is not None and run.step > (settings.average_from or 0):
        run.average.update_parameters(run.model)
    return Record(run.step, bits, rate, norm, step_tokens, time.perf_counter() - began)


def _forward_and_backward(run: Run, segment: Segment, memory: Tensor) -> tuple[list[Tensor], Tensor]:
    """Run forward and backward; return the mean loss of each part in nats, and the states.

    The gradient of the mean loss is left on the parameters.
    """
    settings, parts = run.settings, run.accumulate
    tokens, targets = (ids.to(run.device).chunk(parts) for ids in segment)
    losses, states_of_parts = [], []
    for part, part_memory in enumerate(memory.chunk(parts, dim=1)):
        inputs = tokens[part], targets[part], *of_constant_length(part_memory, settings)
        with distributed.without_sync(run.segment_loss, when=part < parts - 1):
            loss, states = run.segment_loss(*inputs)
            (loss / parts).backward()
        losses.append(loss.detach())
        states_of_parts.append(states)
    return losses, torch.cat(states_of_parts, dim=1)


def _mean_bits(losses: list[Tensor]) -> float:
    """Return the mean loss over all parts and processes, in bits."""
    nats = sum(loss.item() / len(losses) for loss in losses)
    (nats,) = distributed.summed([nats / distributed.size()])
    return nats / log(2)


def cuda_index(device: torch.device) -> list[int]:
    if device.type != "cuda":
        return []
    return [torch.cuda.current_device() if device.index is None else device.index]


def random_state(device: torch.device) -> dict[str, Tensor]:
    random = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        random["cuda"] = torch.cuda.get_rng_state(device)
    return random


@contextmanager
def _own_randomness(run: Run) -> Iterator[None]:
    """Draw from the run's own generators, and leave PyTorch's as they were."""
    with torch.random.fork_rng(devices=cuda_index(run.device)):
        torch.set_rng_state(run.random["cpu"])
        if run.device.type == "cuda":
            torch.cuda.set_rng_state(run.random["cuda"], run.device)
        yield
        run.random = random_state(run.device)
