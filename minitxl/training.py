"""Training as a value: a ``Run`` is all that a step changes, and all that a checkpoint holds.

    run = start(model_config, settings)
    for record in steps(run, lanes): ...

Runs share nothing, their random numbers included, so two may be stepped in turn, and one
that is stopped anywhere, saved and resumed ends with the same weights, bit for bit.
"""

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import cos, isfinite, log, pi
from pathlib import Path
from typing import NamedTuple, cast

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_
from torch.optim import AdamW
from torch.optim.swa_utils import AveragedModel

from minitxl import checkpoints
from minitxl.batching import Lanes
from minitxl.config import EvaluateConfig, ModelConfig, TrainConfig
from minitxl.evaluation import cached
from minitxl.files import replacing
from minitxl.memory import extend
from minitxl.model import TransformerLM

CHECKPOINT = "checkpoint.safetensors"
LOG = "log.jsonl"
MOMENTS = ("exp_avg", "exp_avg_sq", "step")


@dataclass
class Run:
    """A model in training and everything that decides its next step."""

    model: TransformerLM
    optimizer: AdamW
    settings: TrainConfig
    step: int
    memory: Tensor | None
    random: dict[str, Tensor]
    """State of the generators, by device type."""
    average: AveragedModel | None
    """Mean of the weights after each step since ``average_from``; None where that is never."""

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def evaluated(self) -> TransformerLM:
        """The model to evaluate: the averaged one as soon as there is an average."""
        if self.average is None or not self.average.n_averaged:
            return self.model
        return cast(TransformerLM, self.average.module)


class Record(NamedTuple):
    """What one step did."""

    step: int
    bits: float
    """Training loss in bits per token, before the step."""
    learning_rate: float
    gradient_norm: float
    """Before clipping."""
    tokens: int
    seconds: float
    valid_bits: float | None = None
    """Bits per token on the validation text after the step, where it was the time for it."""


def start(config: ModelConfig, settings: TrainConfig, *, device: torch.device | str = "cpu") -> Run:
    """A run at step 0, its weights and later its dropout decided by ``settings.seed``."""
    device = torch.device(device)
    if settings.precision == "bfloat16" and device.type != "cuda":
        raise ValueError(f"precision must be float32 where there is no CUDA GPU, got bfloat16 on {device}")
    with torch.random.fork_rng(devices=_cuda_index(device)):
        torch.manual_seed(settings.seed)
        model = TransformerLM(config).to(device)
        random = _random_state(device)
    optimizer = AdamW(
        model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
    )
    average = None if settings.average_from is None else AveragedModel(model)
    return Run(model.train(), optimizer, settings, 0, None, random, average)


def learning_rate(step: int, settings: TrainConfig) -> float:
    """The rate of step 1, 2, …: linear to the peak, then a cosine to 0 at the last step."""
    if step <= settings.warmup:
        return settings.learning_rate * step / settings.warmup
    progress = (step - settings.warmup) / max(1, settings.steps - settings.warmup)
    return settings.learning_rate * (1 + cos(pi * progress)) / 2


def steps(run: Run, lanes: Lanes, valid: Tensor | None = None) -> Iterator[Record]:
    """Step until ``settings.steps`` are done; the run is whole whenever a record is out.

    With a validation text, it is scored every ``validate_every`` steps and after the last.
    """
    settings = run.settings
    while run.step < settings.steps:
        record = advance(run, lanes)
        if valid is not None and _due(run, settings.validate_every):
            record = record._replace(valid_bits=validate(run, valid))
        yield record


def advance(run: Run, lanes: Lanes) -> Record:
    """One step on the next segment of every lane. A pass over the lanes starts without memory."""
    began, settings = time.perf_counter(), run.settings
    index = run.step % len(lanes)
    tokens, targets = (ids.to(run.device) for ids in lanes[index])
    rate = learning_rate(run.step + 1, settings)
    for group in run.optimizer.param_groups:
        group["lr"] = rate
    autocast = torch.autocast("cuda", torch.bfloat16, enabled=settings.precision == "bfloat16")
    with _own_randomness(run), autocast:
        losses, states = run.model.token_losses(
            tokens,
            targets,
            run.memory if index else None,
            window=settings.window,
            clamp_len=settings.clamp_len,
            path="fused",
        )
        first = losses.shape[1] // 2 if settings.loss == "half" else 0
        loss = losses[:, first:].mean()
    run.optimizer.zero_grad()
    loss.backward()
    norm = clip_grad_norm_(run.model.parameters(), settings.clip)
    if not (isfinite(loss.item()) and isfinite(norm.item())):
        raise ValueError(
            f"loss and gradient must be finite, got loss {loss.item()} and gradient norm {norm.item()} "
            f"at step {run.step + 1}: a lower learning_rate than {settings.learning_rate} may help"
        )
    run.optimizer.step()
    run.memory = extend(run.memory if index else None, states, mem_len=settings.mem_len)
    run.step += 1
    if run.average is not None and run.step > (settings.average_from or 0):
        run.average.update_parameters(run.model)
    return Record(
        run.step, loss.item() / log(2), rate, norm.item(), tokens.numel(), time.perf_counter() - began
    )


def validate(run: Run, stream: Tensor) -> float:
    """Bits per token on the start of ``stream``, read in lanes and lengths as in training."""
    s = run.settings
    settings = EvaluateConfig(s.seg_len, s.mem_len, s.window, s.clamp_len)
    return cached(run.evaluated, stream[: s.validate_tokens + 1], settings, batch=s.batch).bits_per_token


def train(
    run: Run,
    lanes: Lanes,
    *,
    valid: Tensor,
    folder: Path,
    report: Callable[[Record], None] = lambda record: None,
) -> bool:
    """Train to the end, or to an interruption: Ctrl-C ends the step, saves, and returns False.

    ``folder`` gets ``checkpoint.safetensors`` and ``log.jsonl``, a record every
    ``log_every`` steps and at each validation; ``report`` is called with every record.
    """
    settings = run.settings
    _trim_log(folder / LOG, run.step)
    with _interruption() as interrupted, (folder / LOG).open("a") as log_file:
        for record in steps(run, lanes, valid):
            if _due(run, settings.log_every) or record.valid_bits is not None:
                log_file.write(json.dumps(record._asdict()) + "\n")
                log_file.flush()
            report(record)
            if _due(run, settings.checkpoint_every) or interrupted.is_set():
                save(run, folder / CHECKPOINT)
            if interrupted.is_set():
                break
    return run.step == settings.steps


def _due(run: Run, every: int) -> bool:
    return run.step % every == 0 or run.step == run.settings.steps


def save(run: Run, path: Path) -> None:
    """Write the whole run, atomically."""
    tensors = checkpoints.model_tensors(run.model)
    for name, parameter in run.model.named_parameters():
        for moment, value in run.optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer.{moment}.{name}"] = value
    tensors |= {f"random.{device}": state for device, state in run.random.items()}
    if run.average is not None:
        tensors |= checkpoints.model_tensors(run.average.module, checkpoints.AVERAGE)
        tensors["averaged"] = run.average.n_averaged
    if run.memory is not None:
        tensors["memory"] = run.memory
    about = {"model": asdict(run.model.config), "train": asdict(run.settings), "step": run.step}
    checkpoints.write(path, tensors, about)


def resume(path: Path, *, device: torch.device | str = "cpu") -> Run:
    """The run that ``save`` wrote, as it was."""
    tensors, about = checkpoints.read(path)
    if "train" not in about:
        raise ValueError(f"{path} holds a model, and no run that could be resumed")
    model = checkpoints.model_config(about["model"])
    run = start(model, TrainConfig(**about["train"]), device=device)
    checkpoints.copy_model_tensors(tensors, run.model)
    for name, parameter in run.model.named_parameters():
        state = {m: tensors[f"optimizer.{m}.{name}"] for m in MOMENTS if f"optimizer.{m}.{name}" in tensors}
        if state:
            run.optimizer.state[parameter] = {m: value.to(device) for m, value in state.items()}
    run.step = about["step"]
    if "memory" in tensors:  # copied: how a product rounds depends on where its numbers begin
        run.memory = tensors["memory"].to(device, copy=True)
    if run.average is not None:
        checkpoints.copy_model_tensors(tensors, run.average.module, checkpoints.AVERAGE)
        run.average.n_averaged.copy_(tensors["averaged"])
    run.random = {kind: tensors.get(f"random.{kind}", state) for kind, state in run.random.items()}
    return run


def _trim_log(path: Path, step: int) -> None:
    """Drop what a run wrote after the checkpoint it is resumed from."""
    lines = path.read_text().splitlines() if path.exists() else []
    with replacing(path) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in lines if json.loads(line)["step"] <= step))


def _cuda_index(device: torch.device) -> list[int]:
    if device.type != "cuda":
        return []
    return [torch.cuda.current_device() if device.index is None else device.index]


def _random_state(device: torch.device) -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


@contextmanager
def _own_randomness(run: Run) -> Iterator[None]:
    """Draw from the run's own generators, and leave everybody else's alone."""
    with torch.random.fork_rng(devices=_cuda_index(run.device)):
        torch.set_rng_state(run.random["cpu"])
        if run.device.type == "cuda":
            torch.cuda.set_rng_state(run.random["cuda"], run.device)
        yield
        run.random = _random_state(run.device)


@contextmanager
def _interruption() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets; a second Ctrl-C stops at once, as it always does."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return

    def once(number: int, frame: object) -> None:
        event.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, once)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)
