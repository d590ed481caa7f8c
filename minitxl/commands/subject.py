"""A trained model that a command begins with: that of a run, or a released one."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from minitxl.config import ModelConfig
from minitxl.data.tokenizer import Tokenizer, Vocabulary
from minitxl.fields import naming
from minitxl.inference.config import EvaluateConfig
from minitxl.model import TransformerLM
from minitxl.pretrained import hub, released
from minitxl.training import run_folder
from minitxl.training.run_folder import Trained
from minitxl.training.run_info import RunInfo


@dataclass(frozen=True)
class Subject:
    """A model, the lengths that it reads with, and what its ids stand for, where that is known."""

    name: str
    model: TransformerLM
    lengths: EvaluateConfig
    tokenizer: Tokenizer | None
    info: RunInfo = field(default_factory=RunInfo)
    """What a run learned and began with; nothing of a released model."""
    state: str = ""
    """Words on how far a run had come when the model was stored; none for a released model."""


def subject_of(
    folder: Path | None, released_name: str | None, *, device: str = "cpu", best: bool = False
) -> Subject:
    """Return the model of the run in ``folder``, or the released one of that name; one of them is None."""
    if folder is not None and released_name is None:
        run = run_folder.trained(folder, best=best, device=device)
        check_tokenizer(run.tokenizer, run.model.config, name=f"the run in {folder}")
        lengths = run.settings.evaluation
        return Subject(str(folder), run.model, lengths, run.tokenizer, run.info, _state(run, best=best))
    if folder is not None or released_name is None:
        got = "neither" if folder is None else f"{folder} and {released_name}"
        raise ValueError(f"either the folder of a run or released must be given, got {got}")
    if best:
        raise ValueError(f"best must be given with the folder of a run, got it with {released_name}")
    released_folder = hub.folder_of(released_name)
    words = released.vocabulary_in(released_folder)
    model, lengths = released.load_released(released_folder)
    if words is not None and len(words) != model.config.vocab_size:
        raise ValueError(
            f"the vocabulary of {released_name} must hold the model's {model.config.vocab_size:,} words, "
            f"got {len(words):,}"
        )
    lengths = replace(lengths, clamp_len=model.config.clamp_len)
    with naming(f"the vocabulary of {released_name}"):
        own = None if words is None else Tokenizer("words", _with_unknown(words))
    return Subject(released_name, _in_full(model).to(device), lengths, own)


def _in_full(model: TransformerLM) -> TransformerLM:
    """Return the model with weights in float32 where they were stored in 16 bits; products are asked for."""
    return model.float() if next(model.parameters()).element_size() < 4 else model


def _state(run: Trained, *, best: bool) -> str:
    """Return words on the step of a run's model, and on what else decides which model it is."""
    unfinished = ", the run is unfinished" if run.step < run.settings.steps and not best else ""
    of_best = ", that of the best validation" if best else ""
    mean = f", the mean of the weights after step {run.settings.average_from:,}" if run.averaged else ""
    return f"step {run.step:,} of {run.settings.steps:,}{unfinished}{of_best}{mean}"


def check_tokenizer(tokenizer: Tokenizer, config: ModelConfig, *, name: str) -> None:
    """Raise a ValueError unless the model has an id for each token."""
    if tokenizer.vocab_size > config.vocab_size:
        raise ValueError(
            f"the model of {name} must have an id for each of {tokenizer}, got {config.vocab_size:,} ids"
        )


def _with_unknown(words: list[str]) -> Vocabulary:
    return Vocabulary(tuple(words), next((word for word in ("<unk>", "<UNK>") if word in words), None))
