"""``minitxl train``."""

import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import Annotated

import torch
import tyro
from tyro.conf import Positional

from minitxl.commands.shared import Device, TextFlags, device_of, path_flag, text_of_run
from minitxl.commands.subject import subject_of
from minitxl.commands.train_bar import loss
from minitxl.commands.train_flags import BASE, FOLLOWING, ModelFlags, RunFlags, TrainFlags
from minitxl.commands.train_task import Task, new_task, old_task
from minitxl.pretrained import presets
from minitxl.pretrained.presets import PRESETS
from minitxl.training import (
    distributed,
    metrics_log,
    run_config_file,
    run_folder,
    saved_run,
    signals,
)
from minitxl.training.checkpointed_loop import Ending, is_stale


@dataclass(frozen=True)
class Train:
    """Train a language model; with the folder alone, go on with the run that is there.

    Ctrl-C finishes the step, saves, and stops. Started by torchrun, as in
    torchrun --nproc-per-node 4 -m minitxl train, the processes share the batch.
    """

    folder: Positional[Annotated[Path, path_flag("folder")]] = tyro.MISSING
    """Where checkpoints and the log are written: a new or an empty folder, or that of a run."""
    preset: presets.Name | None = None
    """A published configuration that the other flags start from."""
    start_from: Annotated[Annotated[Path, path_flag("from")] | None, tyro.conf.arg(name="from")] = None
    """Folder of a run whose model and lengths a new run begins with, but not its batch, rate or schedule; the
    text is read in that run's tokens."""
    released: Annotated[str, path_flag("released", str)] | None = None
    """A released model that a new run begins with: a hub repository, or a folder in its format."""
    until_step: int | None = None
    """Go on with a run until this step, later than planned; the schedule is that of so many steps."""
    decay_now: int | None = None
    """Bring a run to its end in so many further steps, in which its rate falls in a line to eta-min."""
    model: ModelFlags = field(default_factory=ModelFlags)
    train: TrainFlags = field(default_factory=TrainFlags)
    run_config: RunFlags = field(default_factory=RunFlags)
    source: TextFlags = TextFlags()
    device: Device = "auto"
    """cpu, cuda, or the better one that is there."""

    def __call__(self) -> None:
        run_config = self.run_config.checked()
        if run_config.tensorboard:
            metrics_log.summary_writer()
        with distributed.joined(device_of(self.device)) as device, ExitStack() as stack:
            locked = (self.folder / run_folder.LOCK).exists()
            if locked:  # taking a lock that is there changes nothing in the folder
                stack.enter_context(run_folder.run_lock(self.folder))
            checkpoint = run_folder.newest(self.folder)
            task = self._task(checkpoint, device=device, accumulate=run_config.accumulate)
            goes_on = self.until_step is not None or self.decay_now is not None
            if goes_on and is_stale(task.run, run_config):
                raise ValueError(
                    f"patience must be none or larger to go on, got {run_config.patience}: the run in "
                    f"{self.folder} has stopped at step {task.run.step:,}, so many validations after its best"
                )
            run_folder.check(self.folder, task.tokenizer)
            # From before the folder is touched until all is told.
            stop = stack.enter_context(signals.watching())
            if not locked:
                stack.enter_context(run_folder.run_lock(self.folder))
                if distributed.rank() == 0 and run_folder.newest(self.folder) != checkpoint:
                    raise ValueError(
                        f"{self.folder} must be trained in by one process at a time, got another"
                    )
            ending = task.train(self.folder, run_config, stop)
            if distributed.rank() == 0:
                tell(task, ending, self.folder, self.source)
                if run_config.tensorboard:
                    print(f"curves: tensorboard --logdir {quote(str(self.folder))}")
            if ending.signal:
                sys.exit(128 + ending.signal)

    def _task(self, checkpoint: Path | None, *, device: torch.device, accumulate: int) -> Task:
        """Return the run in the folder with what the flags change, or the new one that they describe."""
        if checkpoint is not None:
            own = saved_run.described_in(checkpoint)
            if not self.begins_anew and distributed.rank() == 0:
                print(f"the run in {self.folder} goes on; from and released are for a new run's first step")
            if self.preset != own.info.preset:
                raise ValueError(
                    f"preset must be {own.info.preset} as in the run in {self.folder}, got {self.preset}; "
                    f"for other settings use another folder"
                )
            return old_task(
                checkpoint,
                own,
                self.model,
                self.train,
                self.source,
                until_step=self.until_step,
                decay_now=self.decay_now,
                device=device,
                accumulate=accumulate,
            )
        if replace(self, device="auto") == Train(folder=self.folder):
            raise ValueError(
                f"{self.folder} must hold a run to go on with, got no checkpoint; "
                f"to begin one, name its text (--text, --data) or another setting"
            )
        for name in ("until_step", "decay_now"):
            if getattr(self, name) is not None:
                raise ValueError(f"{name} must be given with the folder of a run, got none in {self.folder}")
        base = BASE if self.preset is None else PRESETS[self.preset]().train
        return new_task(
            self.model,
            self.train.checked(base),
            self.source,
            folder=self.folder,
            subject=None if self.begins_anew else subject_of(self.start_from, self.released),
            preset=self.preset,
            device=device,
            accumulate=accumulate,
        )

    @property
    def begins_anew(self) -> bool:
        """True if a new run begins with random weights."""
        return self.start_from is None and self.released is None


def tell(task: Task, ending: Ending, folder: Path, source: TextFlags) -> None:
    """Print how the training ended, and what comes next."""
    run, best = task.run, task.run.best
    evaluate = f"next: minitxl evaluate {quote(str(folder))}{source.flags()}"
    if ending.signal:
        name = signal.Signals(ending.signal).name
        print(f"stopped by {name} and saved at step {run.step}; the same command goes on from there")
    elif ending.early and best.bits is not None:
        lowest = loss(best.bits, task.tokenizer)
        print(f"stopped at step {run.step}: validation was best at step {best.step}, {lowest}")
        print(f"{evaluate} --best")
    else:
        print(f"trained for {run.step} steps; {evaluate}")


def starting_point(arguments: Sequence[str]) -> Train | None:
    """Return the ``train`` that flags start from: of a run, a model or a preset; None for the defaults.

    The words are parsed twice. The first time only tells which run, model or preset they name.
    """
    words = [word for word in arguments if word not in ("-h", "--help")]
    with suppress(SystemExit):
        config = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes)
        first = tyro.cli(Train, args=words, config=config, console_outputs=False)
        checkpoint = run_folder.newest(first.folder)
        return _of_run(first, checkpoint) if checkpoint is not None else _of_new(first)
    return None


def _of_run(first: Train, checkpoint: Path) -> Train:
    """Return the flags of the run in the folder, with its text unless it has moved and a path is given."""
    own, stored = saved_run.described_in(checkpoint), run_config_file.read(first.folder)
    if first.source.text is not None:
        source = TextFlags(unit=own.info.unit)
    else:
        source = TextFlags() if first.source.data is not None else text_of_run(first.folder)
    return Train(
        preset=own.info.preset,  # type: ignore[arg-type]
        model=ModelFlags(**asdict(own.config)),
        train=TrainFlags(**asdict(own.settings)),
        run_config=RunFlags() if stored is None else RunFlags(**asdict(stored.run_config)),
        source=source,
    )


def _of_new(first: Train) -> Train | None:
    """Return the flags of the preset, and of the model that a new run begins with."""
    if first.begins_anew and first.preset is None:
        return None
    preset = None if first.preset is None else PRESETS[first.preset]()
    follows = dict.fromkeys(FOLLOWING)
    train = TrainFlags() if preset is None else TrainFlags(**{**asdict(preset.train), **follows})
    model = ModelFlags() if preset is None else replace(ModelFlags(**asdict(preset.model)), vocab_size=None)
    if not first.begins_anew:
        subject = subject_of(first.start_from, first.released)
        model = ModelFlags(**asdict(subject.model.config))
        train = replace(train, **asdict(subject.lengths))
    return Train(model=model, train=train)
