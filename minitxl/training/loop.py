"""Training with explicit state: a ``Run`` holds everything that a step reads or changes, except the text.

    run = start(model_config, settings)
    for record in train_steps(run, segments): ...

Runs share nothing, not even random numbers, so two may be stepped in turn. Under
``torchrun`` each process has a run of its own, with the same weights and its own lanes.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isfinite, log
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import AdamW
from torch.optim.swa_utils import AveragedModel

from minitxl.arguments import check_kind
from minitxl.config import ModelConfig
from minitxl.data.batching import ContiguousBatches, Segment
from minitxl.fast import to_fast
from minitxl.fast.bfloat16 import check_precision
from minitxl.fast.kv_cache.heads import check_attentions
from minitxl.fields import check, whole
from minitxl.memory import extend
from minitxl.model import TransformerLM
from minitxl.training import distributed, validation
from minitxl.training.config import TrainConfig
from minitxl.training.loss import new_segment_loss, of_constant_length
from minitxl.training.optimizer import adamw, optimizer_step
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
    """The model in training: the parameters in the faster modules of ``fast.to_fast``."""
    optimizer: AdamW
    settings: TrainConfig
    step: int
    memory: Tensor | None
    """[layer batch mem model], of this process's lanes."""
    random: dict[str, Tensor]
    """State of the generators, by device type."""
    average: AveragedModel | None
    """Mean of the weights after each step later than ``average_from``; None without averaging."""
    segment_loss: nn.Module
    """A ``SegmentLoss`` of the model, its gradients averaged over all processes."""
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
        """The model to evaluate: the one with averaged weights, once there are any."""
        if self.average is None or not self.average.n_averaged:
            return self.model
        return cast(TransformerLM, self.average.module)


class Record(NamedTuple):
    """The record of one training step."""

    step: int
    bits: float
    """Training loss in bits per token, with the weights before this step; with settings.loss = "half" that of
    the later half of each segment."""
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


def start(
    config: ModelConfig,
    settings: TrainConfig,
    *,
    device: torch.device | str = "cpu",
    accumulate: int = 1,
    build: Callable[[ModelConfig], TransformerLM] = TransformerLM,
) -> Run:
    """Return a run at step 0. ``settings.seed`` decides its weights, and later its dropout.

    With ``accumulate``, a step takes its lanes in that many parts, which needs less RAM for activations.
    Each part draws its own dropout; without dropout the gradient is the same to rounding.
    ``build`` makes the model from its configuration, for a model that differs from ``TransformerLM``.
    """
    check_kind("config", config, ModelConfig)
    check_kind("settings", settings, TrainConfig)
    device = torch.device(device)
    check_precision(settings.precision, device)
    distributed.share(settings.batch, parts=accumulate)  # refuses a batch that can't be divided evenly
    with torch.random.fork_rng(devices=_cuda_index(device)):
        torch.manual_seed(settings.seed)
        model = to_fast(build(config)).to(device)
        if distributed.rank():
            torch.manual_seed(settings.seed + (distributed.rank() << 32))
        random = _random_state(device)
    optimizer = adamw(model, settings)
    average = None if settings.average_from is None else AveragedModel(model)
    loss = new_segment_loss(model.train(), settings, accumulate)
    return Run(
        model,
        optimizer,
        settings,
        step=0,
        memory=None,
        random=random,
        average=average,
        segment_loss=loss,
        accumulate=accumulate,
    )


def train_steps(run: Run, segments: ContiguousBatches, valid: Tensor | None = None) -> Iterator[Record]:
    """Train until ``settings.steps`` steps are done, and yield the record of each.

    Whenever a record is yielded, the run is in a consistent state and may be saved.

    With a validation text, it is scored every ``validate_every`` steps and after the last.
    """
    settings = check_kind("run", run, Run).settings
    check_kind("segments", segments, ContiguousBatches)
    shape = len(segments.lanes), segments.seg_len
    n_lane, seg_len = settings.batch // distributed.size(), settings.seg_len  # this process's lanes
    if shape != (n_lane, seg_len):
        raise ValueError(
            f"segments must be those of the run, {n_lane} lanes of {seg_len}, got {shape[0]} of {shape[1]}"
        )
    if valid is not None:
        check_attentions(run.model)  # validation uses the key-value cache
    while run.step < settings.steps:
        record = train_step(run, segments)
        if valid is not None and is_due(run, settings.validate_every):
            longer = {length: validate(run, valid, length) for length in settings.validate_attention_lens}
            record = record._replace(
                valid_bits=validate(run, valid),
                valid_bits_at=longer or None,
                valid_subset=validation.subset_of(valid, settings),
            )
        yield record


def is_due(run: Run, every: int) -> bool:
    """Return True at step 0, after every ``every`` steps and after the last step."""
    return run.step % every == 0 or run.step == run.settings.steps


def train_step(run: Run, segments: ContiguousBatches) -> Record:
    """Train on the next segment of every lane, and return the record; each epoch starts without memory."""
    began, settings = time.perf_counter(), run.settings
    step_tokens, n_segment = settings.batch * settings.seg_len, len(segments)
    # The place in the text follows from the tokens read, so that a run may be resumed with another batch.
    index = run.tokens_read // step_tokens % n_segment
    memory = run.memory if index and run.memory is not None else run.model.empty_memory(len(segments.lanes))
    run.optimizer.zero_grad()
    with _own_randomness(run):
        losses, states = _forward_and_backward(run, segments[index], memory)
    norm_on_device = clip_grad_norm_(run.model.parameters(), settings.clip)
    # ``.item()`` in ``_mean_bits`` waits for all of a GPU's work so far: read no value before this line.
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
    """Return the mean in bits of the losses of all parts and processes."""
    nats = sum(loss.item() / len(losses) for loss in losses)
    (nats,) = distributed.summed([nats / distributed.size()])
    return nats / log(2)


def validate(run: Run, stream: Tensor, attention_len: int | None = None) -> float:
    """Return bits per token of ``run.model_to_evaluate`` on a subset of ``stream`` (``validation``)."""
    return validation.validate(run.model_to_evaluate, stream, run.settings, attention_len)


def _cuda_index(device: torch.device) -> list[int]:
    if device.type != "cuda":
        return []
    return [torch.cuda.current_device() if device.index is None else device.index]


def _random_state(device: torch.device) -> dict[str, Tensor]:
    random = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        random["cuda"] = torch.cuda.get_rng_state(device)
    return random


@contextmanager
def _own_randomness(run: Run) -> Iterator[None]:
    """Draw from the run's own generators, and leave PyTorch's as they were."""
    with torch.random.fork_rng(devices=_cuda_index(run.device)):
        torch.set_rng_state(run.random["cpu"])
        if run.device.type == "cuda":
            torch.cuda.set_rng_state(run.random["cuda"], run.device)
        yield
        run.random = _random_state(run.device)
