"""``minitxl train``."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from shlex import quote
from typing import Annotated

import torch
import tyro
from tyro.conf import Positional

from minitxl.commands.shared import Device, TextFlags, bars, device_of, place
from minitxl.config import ModelConfig
from minitxl.data.batching import ContiguousBatches
from minitxl.data.corpora import Corpus
from minitxl.pretrained import presets
from minitxl.pretrained.presets import PRESETS
from minitxl.training import distributed, loop, run_folder
from minitxl.training.config import RunConfig, TrainConfig


@dataclass(frozen=True)
class ModelFlags(ModelConfig):
    """The architecture."""

    vocab_size: int | None = None  # type: ignore[assignment]
    """Number of token ids; none means those of the text."""
    clamp_len: tyro.conf.Suppress[int | None] = None
    """Training's flag of that name decides."""

    def __post_init__(self) -> None:
        """``checked`` checks, where an error can be told in a sentence."""

    def checked(self, tokens: int) -> ModelConfig:
        """For a text that has so many different tokens."""
        size = tokens if self.vocab_size is None else self.vocab_size
        if size < tokens:
            raise ValueError(f"vocab_size must be {tokens} or more for this text, got {size}")
        return ModelConfig(**{**asdict(self), "vocab_size": size})


@dataclass(frozen=True)
class TrainFlags(TrainConfig):
    """How it is trained."""

    def __post_init__(self) -> None:
        """``checked`` checks, where an error can be told in a sentence."""

    def checked(self) -> TrainConfig:
        return TrainConfig(**asdict(self))


@dataclass(frozen=True)
class KeepFlags(RunConfig):
    """How the run is carried out and what it keeps; all of this may change when it goes on."""

    def __post_init__(self) -> None:
        """``checked`` checks, where an error can be told in a sentence."""

    def checked(self) -> RunConfig:
        return RunConfig(**asdict(self))


@dataclass(frozen=True)
class Train:
    """Train a language model; the same command goes on with a run that was stopped.

    Ctrl-C finishes the step, saves, and stops. Started by torchrun, as in
    torchrun --nproc-per-node 4 -m minitxl train, the processes share the batch.
    """

    folder: Positional[Annotated[Path, place("folder")]] = tyro.MISSING
    """Where checkpoints and the log are written."""
    preset: presets.Name | None = None
    """A published configuration that the other flags start from."""
    model: ModelFlags = ModelFlags()
    train: TrainFlags = TrainFlags()
    run_config: KeepFlags = KeepFlags()
    source: TextFlags = TextFlags()
    device: Device = "auto"
    """cpu, cuda, or the better one that is there."""

    def __call__(self) -> None:
        settings, run_config = self.train.checked(), self.run_config.checked()
        with distributed.joined(device_of(self.device)) as device:
            with distributed.first_here():
                corpus = self.source.corpus()
            if distributed.rank() == 0:
                print(corpus.summary(), flush=True)
            if len(corpus.valid) < 2:
                raise ValueError(
                    f"validation text of {corpus.name} must hold 2 tokens or more, got {len(corpus.valid)}"
                )
            model, rows = self.model.checked(corpus.vocab_size), distributed.share(settings.batch)
            lanes = ContiguousBatches(corpus.train, batch=settings.batch, seg_len=settings.seg_len, rows=rows)
            with run_folder.run_lock(self.folder):
                run = self._run(model, settings, run_config, corpus, device)
                whole = self._steps(run, lanes, corpus.valid, run_config)
            if distributed.rank() == 0:
                tell(run, self.folder, self.source)
                if run_config.tensorboard:
                    print(f"curves: tensorboard --logdir {quote(str(self.folder))}")
            if not whole:
                sys.exit(130)

    def _run(
        self,
        model: ModelConfig,
        settings: TrainConfig,
        run_config: RunConfig,
        corpus: Corpus,
        device: torch.device,
    ) -> loop.Run:
        """Return the one in the folder, if it was asked for the same; a new one where there is none."""
        checkpoint, spelled = run_folder.newest(self.folder), corpus.tokenizer
        if checkpoint is None:
            if distributed.rank() == 0:
                spelled.write(self.folder)
                run_folder.write_text(self.folder, corpus.name, corpus.sha256)
            return loop.start(model, settings, device=device, accumulate=run_config.accumulate)
        spelled.check(self.folder)
        run_folder.check_text(self.folder, corpus.name, corpus.sha256)
        run = run_folder.resume(checkpoint, device=device, accumulate=run_config.accumulate)
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
        if distributed.rank() == 0:
            print(f"going on with {self.folder} at step {run.step} of {settings.steps}")
        return run

    def _steps(
        self, run: loop.Run, lanes: ContiguousBatches, valid: torch.Tensor, run_config: RunConfig
    ) -> bool:
        with bars(silent=distributed.rank() > 0) as report:
            return run_folder.train(
                run,
                lanes,
                valid=valid,
                folder=self.folder,
                run_config=run_config,
                report=lambda record: report("training", run.settings.steps, record),
            )


def tell(run: loop.Run, folder: Path, source: TextFlags) -> None:
    """What has been done, and what comes next."""
    if run.step < run.settings.steps:
        print(f"stopped and saved at step {run.step}; the same command goes on from there")
    else:
        print(f"trained for {run.step} steps; next: minitxl evaluate {quote(str(folder))}{source.flags()}")


def from_preset(arguments: Sequence[str]) -> Train | None:
    """What the flags start from, where ``arguments`` name a preset."""
    words = [part for word in arguments for part in word.split("=", 1)]
    names = [after for word, after in pairwise(words) if word == "--preset"]
    named = [preset for name, preset in PRESETS.items() if names and name == names[-1]]
    if not named:
        return None
    preset = named[0]()
    model = replace(ModelFlags(**asdict(preset.model)), vocab_size=None)
    return Train(model=model, train=TrainFlags(**asdict(preset.train)))
