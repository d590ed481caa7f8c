"""A run in a folder, which may be stopped at any moment and resumed to the same weights, bit for bit.

checkpoint-00000300.safetensors   the run after step 300; the newest few are kept
log.jsonl                         a record a line
text.json                         which text it learns
.lock                             held by the process that trains
"""

import json
import re
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from filelock import FileLock, Timeout

from minitxl.data.batching import ContiguousBatches
from minitxl.fields import checked, text
from minitxl.files import atomic_write, read_json
from minitxl.model import TransformerLM
from minitxl.training import checkpoints, distributed, metrics_log
from minitxl.training.config import RunConfig, TrainConfig
from minitxl.training.loop import Record, Run, is_due, start, train_steps

NAME = re.compile(r"checkpoint-(\d+)\.safetensors")
RECENT = 100
"""Number of last steps whose mean loss a spike is compared with."""
TEXT = "text.json"
MOMENTS = ("exp_avg", "exp_avg_sq", "step")
HALF_WRITTEN = (".*.safetensors.????????", ".*.json.????????", ".*.jsonl.????????", ".tmp??????")
"""Names of temporary files that a killed process may leave: those of ``files`` and of safetensors."""


def train(
    run: Run,
    lanes: ContiguousBatches,
    *,
    valid: torch.Tensor,
    folder: Path,
    run_config: RunConfig = RunConfig(),  # noqa: B008
    report: Callable[[Record], None] = lambda record: None,
) -> bool:
    """Train to the end, or to an interruption: Ctrl-C or SIGTERM ends the step, saves, returns False.

    The caller holds the folder (``held``), and gives ``lanes`` of this process's share of the batch.
    A loss that is no number, or a spike, is a ValueError; the last checkpoint stays.
    """
    saved, recent = time.monotonic(), deque[float](maxlen=RECENT)
    with _interruption() as interrupted, _log(run, folder, run_config) as write:
        if distributed.rank() == 0:
            _prune(folder, run_config.checkpoints)
        for record in train_steps(run, lanes, valid):
            if is_due(run, run_config.log_every) or record.valid_bits is not None:
                write(record)
            report(record)
            _refuse_spike(record, recent, run_config.spike)
            late = run_config.checkpoint_minutes is not None and (
                time.monotonic() - saved >= 60 * run_config.checkpoint_minutes
            )
            asked = distributed.largest(2 if interrupted.is_set() else int(late))
            if asked or is_due(run, run_config.checkpoint_every):
                save(run, folder / f"checkpoint-{run.step:08}.safetensors")
                if distributed.rank() == 0:
                    _prune(folder, run_config.checkpoints)
                saved = time.monotonic()
            if asked == 2:
                break
    return run.step == run.settings.steps


def _refuse_spike(record: Record, recent: deque[float], spike: float | None) -> None:
    if spike is not None and len(recent) == RECENT and record.bits > (usual := mean(recent)) + spike:
        raise ValueError(
            f"the loss must stay within spike = {spike} bits of its recent mean {usual:.2f}, got "
            f"{record.bits:.2f} at step {record.step}: a lower learning_rate or a longer warmup may help"
        )
    recent.append(record.bits)


def save(run: Run, path: Path) -> None:
    """Write the whole run, atomically. All processes call it, the first one writes."""
    tensors = checkpoints.model_tensors(run.model)
    for name, parameter in run.model.named_parameters():
        for moment, value in run.optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer.{moment}.{name}"] = value
    for kind, state in run.random.items():
        tensors[f"random.{kind}"] = distributed.gathered(state[None], dim=0)
    if run.average is not None:
        tensors |= checkpoints.model_tensors(run.average.module, checkpoints.AVERAGE)
        tensors["averaged"] = run.average.n_averaged
    if run.memory is not None:
        tensors["memory"] = distributed.gathered(run.memory, dim=1)
    if distributed.rank() == 0:
        about = {
            "model": asdict(run.model.config),
            "train": asdict(run.settings),
            "step": run.step,
        }
        checkpoints.write(path, tensors, about)


def resume(path: Path, *, device: torch.device | str = "cpu", accumulate: int = 1) -> Run:
    """Return the run that ``save`` wrote, as it was; with as many processes, bit for bit.

    With more processes than wrote it, the further ones draw their dropout anew.
    """
    try:
        tensors, about = checkpoints.read(path)
    except ValueError as error:
        raise ValueError(f"{error}; without it the run goes on from the one before") from error
    config, settings = checkpoints.model_config(about["model"]), _settings(path, about)
    run = start(config, settings, device=device, accumulate=accumulate)
    checkpoints.copy_model_tensors(tensors, run.model)
    for name, parameter in run.model.named_parameters():
        state = {m: tensors[f"optimizer.{m}.{name}"] for m in MOMENTS if f"optimizer.{m}.{name}" in tensors}
        if state:
            run.optimizer.state[parameter] = {m: value.to(device) for m, value in state.items()}
    run.step = about["step"]
    if "memory" in tensors:  # copied: how a product rounds depends on where its numbers begin
        run.memory = tensors["memory"][:, distributed.share(settings.batch)].to(device, copy=True)
    if run.average is not None:
        checkpoints.copy_model_tensors(tensors, run.average.module, checkpoints.AVERAGE)
        run.average.n_averaged.copy_(tensors["averaged"])
    for kind in run.random:
        states = tensors.get(f"random.{kind}", torch.empty(0))
        if distributed.rank() < len(states):
            run.random[kind] = states[distributed.rank()].clone()
    return run


def write_text(folder: Path, name: str, sha256: str) -> None:
    """Write which text the run learns, beside its checkpoints."""
    with atomic_write(folder / TEXT) as temporary:
        temporary.write_text(json.dumps({"name": name, "sha256": sha256}, ensure_ascii=False), "utf-8")


def check_text(folder: Path, name: str, sha256: str) -> None:
    """Raise a ValueError unless the run in this folder learns the text of this digest, whatever its name.

    A run that was begun before minitxl wrote the digest down learns any.
    """
    learned = _learned_text(folder)
    if learned is not None and learned["sha256"] != sha256:
        known = f"{learned['name']} (sha256 {learned['sha256']:.12})"
        raise ValueError(
            f"the text must be that of the run in {folder}, {known}, got {name} (sha256 {sha256:.12}); "
            f"for another text use another folder"
        )


def learns(folder: Path, sha256: str) -> bool:
    """Return True if the run in this folder learns the text of this digest, or does not say which."""
    learned = _learned_text(folder)
    return learned is None or learned["sha256"] == sha256


def _learned_text(folder: Path) -> dict[str, str] | None:
    """Return name and SHA-256 of the text that the run in this folder learns."""
    path = folder / TEXT
    if not path.exists():
        return None
    try:
        content = read_json(path)
        return checked(content, {"name": text(), "sha256": text()}, file=path, required=("name", "sha256"))
    except ValueError as error:
        raise ValueError(f"{path} does not say which text the run learns: {error}") from error


def newest(folder: Path) -> Path | None:
    """Return the checkpoint of the latest step; None where the folder holds no run."""
    found = _checkpoints(folder)
    return found[-1] if found else None


def trained(folder: Path, *, device: torch.device | str = "cpu") -> tuple[TransformerLM, TrainConfig]:
    """Return the model of a run, ready to be evaluated, and how it was trained."""
    path = newest(folder)
    if path is None:
        raise ValueError(f"{folder} must hold a run of minitxl train, got no checkpoint")
    tensors, about = checkpoints.read(path)
    return checkpoints.model_of(tensors, about, file=path, device=device), _settings(path, about)


@contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """Lock the folder for this process, and remove what a killed process left half-written.

    What the system says against a file of it is an OSError that names the folder.
    """
    if distributed.rank():
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock", timeout=0):
            for left in (path for pattern in HALF_WRITTEN for path in folder.glob(pattern)):
                left.unlink()
            yield
    except Timeout:
        raise ValueError(
            f"{folder} must be trained in by one process at a time, got another that is at it"
        ) from None
    except OSError as error:
        raise OSError(f"training in {folder} can't go on: {error}; what is saved there stays") from error


def _settings(path: Path, about: Mapping[str, Any]) -> TrainConfig:
    if "train" not in about:
        raise ValueError(f"{path} holds a model, and no run that could be resumed")
    return checkpoints.train_config(about["train"])


def _checkpoints(folder: Path) -> list[Path]:
    """Return the folder's checkpoints in the order of their steps."""
    found = {path: NAME.fullmatch(path.name) for path in folder.glob("checkpoint-*.safetensors")}
    steps_of = {path: int(match[1]) for path, match in found.items() if match}
    return sorted(steps_of, key=lambda path: steps_of[path])


def _prune(folder: Path, checkpoints: int) -> None:
    for old in _checkpoints(folder)[:-checkpoints]:
        old.unlink()


@contextmanager
def _log(run: Run, folder: Path, run_config: RunConfig) -> Iterator[metrics_log.Write]:
    if distributed.rank():
        yield lambda record: None
        return
    with metrics_log.writing(folder, after=run.step, tensorboard=run_config.tensorboard) as write:
        yield write


@contextmanager
def _interruption() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C and SIGTERM set; a second one stops at once, as it always does."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def once(number: int, frame: object) -> None:
        event.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, once)
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
