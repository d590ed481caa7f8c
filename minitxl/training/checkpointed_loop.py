"""The training loop with a folder: log, validate, save, and stop at a signal or when nothing improves.

``loop`` has the steps themselves, and writes nothing.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch

from minitxl.arguments import check_kind
from minitxl.data.batching import ContiguousBatches
from minitxl.training import distributed, metrics_log, run_folder, saved_run, signals
from minitxl.training.config import RunConfig
from minitxl.training.guards import LossGuard
from minitxl.training.loop import is_due, train_steps
from minitxl.training.metrics_log import Line, Meter
from minitxl.training.run_info import RunInfo
from minitxl.training.step import Record, Run

Report = Callable[[Record, Line | None], None]
"""Function that is called after each step, with its record and the line of the log that it ended, if any."""


class Ending(NamedTuple):
    """How a training ended: after all steps, by a signal, or early, when validation found nothing better."""

    signal: int = 0
    """Number of the signal that stopped it; 0 without one."""
    early: bool = False


def train(
    run: Run,
    segments: ContiguousBatches,
    *,
    valid: torch.Tensor,
    folder: Path,
    run_config: RunConfig = RunConfig(),  # noqa: B008
    info: RunInfo = RunInfo(),  # noqa: B008
    report: Report = lambda record, line: None,
    stop: signals.Stop | None = None,
) -> Ending:
    """Train until all steps are done, a signal arrived (``signals``) or the run ``is_stale``; then save it.

    After a signal the step in progress is still completed.

    The caller holds the folder (``run_folder.run_lock``), and gives ``segments`` of this process's share
    of the batch. Pass a ``stop`` if you already watch signals. Raises a ValueError for a loss that is
    not finite or that ``guards`` refuses; then nothing is saved, and the last checkpoint stays.
    """
    check_kind("run", run, Run)
    check_kind("segments", segments, ContiguousBatches)
    begin(run, folder, info)
    if is_stale(run, run_config):
        return Ending(early=True)
    with signals.watching(stop) as stop, _log(run, folder, run_config) as write:
        _prune(run, folder, run_config)
        config = run.model.config
        guard = LossGuard(run_config.spike, vocab_size=config.vocab_size, warmup=run.settings.warmup)
        meter = Meter(
            run,
            steps_per_epoch=len(segments),
            elapsed=metrics_log.elapsed_until(folder, run.step),
        )
        saved = time.monotonic()
        for record in train_steps(run, segments, valid):
            meter.add(record)
            line = None
            if is_due(run, run_config.log_every) or record.valid_bits is not None:
                write(line := meter.line(record))
            report(record, line)
            guard.check(record)
            if _keep_best(run, record, folder, info):
                _prune(run, folder, run_config)
            minutes = run_config.checkpoint_minutes
            due = minutes is not None and time.monotonic() - saved >= 60 * minutes
            # One reduction carries both: the signal's number, and whether a checkpoint is due.
            number, checkpoint_due = divmod(distributed.largest(2 * stop.number + due), 2)
            early = is_stale(run, run_config)
            if number or checkpoint_due or early or is_due(run, run_config.checkpoint_every):
                saved_run.save(run, run_folder.checkpoint(folder, run.step), info)
                _prune(run, folder, run_config)
                saved = time.monotonic()
            if (number or early) and run.step < run.settings.steps:
                return Ending(number, early=not number)
    return Ending()


def begin(run: Run, folder: Path, info: RunInfo, *, changed: bool = False) -> None:
    """Save a run that has no checkpoint yet, or whose settings were ``changed`` since its last one."""
    if distributed.largest(int(changed or (distributed.rank() == 0 and run_folder.newest(folder) is None))):
        saved_run.save(run, run_folder.checkpoint(folder, run.step), info)


def _prune(run: Run, folder: Path, run_config: RunConfig) -> None:
    """Remove checkpoints and best models that are kept no longer; of several processes only rank 0 does."""
    if distributed.rank() == 0:
        run_folder.prune(folder, run_config.checkpoints, best_step=run.best.step)


def _keep_best(run: Run, record: Record, folder: Path, info: RunInfo) -> bool:
    """Keep the model of this step if its validation loss is the lowest so far; return True if it is."""
    best, bits = run.best.bits, record.valid_bits
    if bits is None or (best is not None and bits >= best):
        return False
    run.best.step, run.best.bits = record.step, bits
    saved_run.save_best(run, run_folder.best_model(folder, run.step), info)
    return True


def is_stale(run: Run, run_config: RunConfig) -> bool:
    """Return True if as many validations as ``patience`` have passed since the best one; never at the end."""
    best, every, patience = run.best.step, run.settings.validate_every, run_config.patience
    if patience is None or best == 0 or run.step == run.settings.steps:
        return False
    return run.step // every - best // every >= patience


@contextmanager
def _log(run: Run, folder: Path, run_config: RunConfig) -> Iterator[metrics_log.Write]:
    if distributed.rank():
        yield lambda line: None
        return
    with metrics_log.writing(folder, after=run.step, tensorboard=run_config.tensorboard) as write:
        yield write
