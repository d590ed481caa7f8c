"""The folder of a run: which files are its own, who may write there, and what can be read from it.

checkpoint-00000300.safetensors  the run after step 300; the newest few are kept
best-00000180.safetensors        the model of the best validation, here after step 180; it is kept as
                                 long as a checkpoint names it, so the run can go back to any checkpoint
words.json, characters.json      the vocabulary, of a run in words or characters
config.json                      settings and text, for people to read
log.jsonl                        a record a line
tensorboard                      the same for TensorBoard, where it was asked for
.lock                            held by the process that trains

A folder is checked before anything in it is changed. With its first checkpoint, that of step 0, it is the
folder of a run. Without a checkpoint it must be empty, but for what a killed run left. Only
files of these names, half-written ones included, are ever written or removed.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from filelock import FileLock, Timeout

from minitxl.data.tokenizer import VOCABULARY_UNITS, Tokenizer, read_vocabulary
from minitxl.files import in_words, is_left_behind, plain_file
from minitxl.model import TransformerLM
from minitxl.training import checkpoints, distributed, saved_run
from minitxl.training.config import TrainConfig
from minitxl.training.metrics_log import LOG
from minitxl.training.run_config_file import CONFIG
from minitxl.training.run_info import RunInfo, tokenizer_of, vocabulary_file

NAME = re.compile(r"checkpoint-(\d{8,})\.safetensors")
BEST = re.compile(r"best-(\d{8,})\.safetensors")
LOCK = ".lock"


class Trained(NamedTuple):
    """The model of a run, ready to be evaluated, how it was trained and on what, and its tokenizer."""

    model: TransformerLM
    settings: TrainConfig
    info: RunInfo
    tokenizer: Tokenizer
    step: int
    """Step of ``settings.steps`` after which the model was stored."""

    @property
    def averaged(self) -> bool:
        """True if the model's weights are the mean of those since ``settings.average_from``."""
        first = self.settings.average_from
        return first is not None and self.step > first


def trained(folder: Path | str, *, best: bool = False, device: torch.device | str = "cpu") -> Trained:
    """Return the model in a run's last checkpoint, or that of the best validation up to this checkpoint."""
    folder = Path(folder)
    path = newest(folder)
    if path is None:
        raise ValueError(f"{folder} must hold a run of minitxl train, got no checkpoint")
    if best:
        path = _best_of(path)
    tensors, about = checkpoints.read(path) if best else saved_run.read(path)
    described = saved_run.describe(about, path)
    model = checkpoints.model_of(tensors, about, file=path, device=device)
    tokenizer = tokenizer_of(folder, described.info)
    return Trained(model, described.settings, described.info, tokenizer, described.step)


def checkpoint(folder: Path, step: int) -> Path:
    """Return the path of the checkpoint of a step."""
    return folder / f"checkpoint-{step:08}.safetensors"


def best_model(folder: Path, step: int) -> Path:
    """Return the path of the model that was best in validation after a step."""
    return folder / f"best-{step:08}.safetensors"


def newest(folder: Path) -> Path | None:
    """Return the checkpoint of the latest step; None where the folder holds no run, or is not there."""
    paths = _checkpoints(folder)
    return paths[-1] if paths else None


def prune(folder: Path, keep: int, *, best_step: int) -> None:
    """Remove all checkpoints but the newest ``keep``, and each best model that none of them names.

    The best model of ``best_step`` stays as well: the next checkpoint will name it.
    """
    paths = _checkpoints(folder)
    for path in paths[:-keep]:
        path.unlink()
    try:
        steps = {
            best_step,
            *(saved_run.described_in(path).best.step for path in paths[-keep:]),
        }
    except ValueError:  # a damaged checkpoint: what it names is not known
        return
    for path in _best_models(folder) - {best_model(folder, step) for step in steps}:
        path.unlink()


def check(folder: Path, tokenizer: Tokenizer) -> None:
    """Raise a ValueError unless a run may be begun or go on here, and name what is in its way.

    A folder with checkpoints must have the vocabulary of ``tokenizer``. One without checkpoints must be
    empty, except for files that a run with this tokenizer wrote before it was killed, at its very beginning.
    """
    if not folder.exists():
        return
    vocabulary = vocabulary_file(folder, tokenizer.unit)
    for path in (folder / LOCK, folder / LOG, folder / CONFIG, *_best_models(folder), vocabulary):
        if path.exists():
            plain_file(path)
    if newest(folder) is not None:
        if vocabulary.exists() and not _is_own(vocabulary, tokenizer):
            raise ValueError(f"{vocabulary} must be the vocabulary of the run, got another file")
    else:
        strangers = sorted(path.name for path in folder.iterdir() if not _is_own(path, tokenizer))
        if strangers:
            more = f" and {len(strangers) - 1} more" if strangers[1:] else ""
            raise ValueError(
                f"{folder} must be empty or hold a run of minitxl train, got {strangers[0]}{more} "
                f"and no checkpoint"
            )


@contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """Lock the folder for this process; a folder that does not exist is made.

    Raises an OSError that names the folder where one of its files can't be read or written.
    """
    if distributed.rank():
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / LOCK, timeout=0):
            yield
    except Timeout:
        raise ValueError(
            f"{folder} must be trained in by one process at a time, got another that trains there now"
        ) from None
    except OSError as error:
        raise OSError(
            f"training in {folder} can't go on: {in_words(error)}; what is saved there stays"
        ) from error


def clean(folder: Path) -> None:
    """Remove what a process that was killed left half-written; the caller holds the lock."""
    for path in list(folder.iterdir()):
        if _is_half_written(path):
            shutil.rmtree(path)


def _best_of(checkpoint: Path) -> Path:
    """Return the best model that a checkpoint names. Raise a ValueError where there is none."""
    described = saved_run.described_in(checkpoint)
    step, best_step = described.step, described.best.step
    if not best_step:
        raise ValueError(
            f"{checkpoint.parent} must hold a model that was best in a validation, got a run without a "
            f"validation up to its last checkpoint, of step {step:,}"
        )
    path = best_model(checkpoint.parent, best_step)
    if not path.exists():
        raise ValueError(
            f"{checkpoint.parent} must hold {path.name}, the model that was best in validation up to step "
            f"{step:,}, got no such file"
        )
    return path


def _best_models(folder: Path) -> set[Path]:
    """Return the paths of the folder's best models, of all steps."""
    return {path for path in folder.glob("best-*.safetensors") if BEST.fullmatch(path.name)}


def _checkpoints(folder: Path) -> list[Path]:
    """Return the folder's checkpoints in the order of their steps."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"the run {folder} must be a folder, got a file")
    matches = {path: NAME.fullmatch(path.name) for path in folder.glob("checkpoint-*.safetensors")}
    steps_of = {path: int(match[1]) for path, match in matches.items() if match}
    return sorted(steps_of, key=lambda path: steps_of[path])


def _is_own(path: Path, tokenizer: Tokenizer) -> bool:
    """Return True for a file that a run leaves if it is killed before its first checkpoint."""
    if path.name == LOCK or _is_half_written(path):
        return True
    if tokenizer.vocabulary is None or path != vocabulary_file(path.parent, tokenizer.unit):
        return False
    try:
        return read_vocabulary(path) == tokenizer.vocabulary
    except ValueError:
        return False


def _is_half_written(path: Path) -> bool:
    written = re.match(r"\.(.+)\.[a-z0-9_]{8}$", path.name)
    if not written:
        return False
    own = {CONFIG, LOG, *(vocabulary_file(path.parent, unit).name for unit in VOCABULARY_UNITS)}
    name = written[1]
    of_a_step = NAME.fullmatch(name) or BEST.fullmatch(name)
    return (name in own or of_a_step is not None) and is_left_behind(path, name)
