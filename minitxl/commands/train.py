"""``minitxl train``."""

import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import tyro
from tyro.conf import Positional

from minitxl import training
from minitxl.batching import Lanes
from minitxl.commands.shared import Device, TextFlags, bars, device_of, spelling_of
from minitxl.config import ModelConfig, TrainConfig


@dataclass(frozen=True)
class ModelFlags(ModelConfig):
    """The architecture."""

    clamp_len: tyro.conf.Suppress[int | None] = None
    """Training's flag of that name decides."""

    def __post_init__(self) -> None:
        """``checked`` checks, where an error can be told in a sentence."""

    def checked(self) -> ModelConfig:
        return ModelConfig(**asdict(self))


@dataclass(frozen=True)
class TrainFlags(TrainConfig):
    """How it is trained."""

    def __post_init__(self) -> None:
        """``checked`` checks, where an error can be told in a sentence."""

    def checked(self) -> TrainConfig:
        return TrainConfig(**asdict(self))


@dataclass(frozen=True)
class Train:
    """Train a language model; the same command goes on with a run that was stopped.

    Ctrl-C finishes the step, saves, and stops.
    """

    folder: Positional[Path]
    """Where the checkpoint and the log are written."""
    model: ModelFlags = ModelFlags()
    train: TrainFlags = TrainFlags()
    source: TextFlags = TextFlags()
    device: Device = "auto"
    """cpu, cuda, or the better one that is there."""

    def __call__(self) -> None:
        model, settings, corpus = self.model.checked(), self.train.checked(), self.source.corpus()
        if model.vocab_size < corpus.vocab_size:
            raise ValueError(
                f"vocab_size must be {corpus.vocab_size} or more for this text, got {model.vocab_size}"
            )
        lanes = Lanes(corpus.train, batch=settings.batch, seg_len=settings.seg_len)
        run = self._run(model, settings)
        spelling_of(corpus).write(self.folder)
        with bars() as report:
            whole = training.train(
                run,
                lanes,
                valid=corpus.valid,
                folder=self.folder,
                report=lambda record: report("training", settings.steps, record),
            )
        if not whole:
            print(f"stopped and saved at step {run.step}; the same command goes on from there")
            sys.exit(130)
        print(f"trained for {run.step} steps; next: minitxl evaluate {self.folder}")

    def _run(self, model: ModelConfig, settings: TrainConfig) -> training.Run:
        checkpoint = self.folder / training.CHECKPOINT
        if not checkpoint.exists():
            return training.start(model, settings, device=device_of(self.device))
        run = training.resume(checkpoint, device=device_of(self.device))
        here, asked = (
            {**asdict(run.model.config), **asdict(run.settings)},
            {**asdict(model), **asdict(settings)},
        )
        for name, value in here.items():
            if asked[name] != value:
                raise ValueError(
                    f"{name} must be {value} as in the run in {self.folder}, got {asked[name]}; "
                    f"for other settings use another folder"
                )
        print(f"going on with {self.folder} at step {run.step} of {settings.steps}")
        return run
