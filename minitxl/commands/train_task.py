"""A training that is ready to begin or to go on: nothing in its folder has been touched yet."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from minitxl.commands.shared import TextFlags, special_by_split
from minitxl.commands.subject import Subject, check_tokenizer
from minitxl.commands.train_bar import bar
from minitxl.commands.train_flags import (
    REGULARIZATION,
    ModelFlags,
    check_effect,
    check_same_model,
    in_words,
    resumed,
)
from minitxl.config import ModelConfig
from minitxl.data.batching import ContiguousBatches
from minitxl.data.corpus import Corpus
from minitxl.data.tokenizer import Tokenizer
from minitxl.training import (
    checkpointed_loop,
    checkpoints,
    distributed,
    loop,
    metrics_log,
    run_config_file,
    run_folder,
    saved_run,
    sizes,
    validation,
)
from minitxl.training.checkpointed_loop import Ending
from minitxl.training.config import RunConfig, TrainConfig
from minitxl.training.run_info import RunInfo, tokenizer_of, vocabulary_digest, vocabulary_file
from minitxl.training.schedules import learning_rate
from minitxl.training.signals import Stop
from minitxl.training.step import Run


@dataclass
class Task:
    """A run, its text, and what to say before it is trained."""

    run: Run
    corpus: Corpus
    info: RunInfo
    source: dict[str, Any]
    """Where the text lies, as ``run_config_file`` stores it."""
    news: tuple[str, ...] = ()
    """Lines for the person who trains."""
    changed: bool = False
    """True for other settings than those of the last checkpoint."""

    @property
    def tokenizer(self) -> Tokenizer:
        """What the tokens of the text stand for."""
        return self.corpus.tokenizer

    def _vocabulary(self) -> list[str]:
        if self.tokenizer.vocabulary is None:
            return []
        return [f"vocabulary: {self.tokenizer}{special_by_split(self.corpus)}"]

    def train(self, folder: Path, run_config: RunConfig, stop: Stop) -> Ending:
        """Train in the folder, which is locked and was checked."""
        first, segments = distributed.rank() == 0, segments_of(self.corpus, self.run.settings)
        if first:
            run_folder.clean(folder)
            path = vocabulary_file(folder, self.tokenizer.unit)
            if self.tokenizer.vocabulary is not None and not path.exists():
                self.tokenizer.vocabulary.write(path)
            lines = metrics_log.unreadable(folder)
            if lines:
                print(
                    f"{folder / metrics_log.LOG}: {len(lines)} lines, the first being line {lines[0]}, "
                    f"are no record and stay as they are"
                )
            settings = self.run.settings
            subset = validation.in_words(self.corpus.valid, settings)
            for line in (
                self.corpus.summary(),
                *self._vocabulary(),
                in_words(settings) + _of_the_text(segments, settings, self.corpus),
                subset,
                *self.news,
            ):
                print(line, flush=True)
        checkpointed_loop.begin(self.run, folder, self.info, changed=self.changed)
        if first:
            run_config_file.write(folder, self.run, run_config, self.info, self.source)
        with bar(self.run, self.tokenizer, silent=not first) as report:
            return checkpointed_loop.train(
                self.run,
                segments,
                valid=self.corpus.valid,
                folder=folder,
                run_config=run_config,
                info=self.info,
                stop=stop,
                report=report,
            )


def new_task(
    flags: ModelFlags,
    settings: TrainConfig,
    source: TextFlags,
    *,
    folder: Path,
    subject: Subject | None,
    preset: str | None,
    device: torch.device,
    accumulate: int,
) -> Task:
    """Return a run at step 0, of random weights or of those of ``subject``."""
    _check_model(flags, settings, device)
    if subject is None:
        check_effect(flags.checked(_least_vocabulary(flags)), settings)
    if subject is not None:
        _check_cut(source, subject)
    with distributed.first_here():
        corpus = source.corpus(None if subject is None else subject.tokenizer)
    _check_text(corpus, source, folder)
    tokenizer = corpus.tokenizer
    if subject is not None:
        _check_tokens(subject, corpus)
    config = flags.checked(corpus.vocab_size)
    if subject is not None:
        check_same_model(config, subject.model.config, name=subject.name, but=REGULARIZATION)
    _check_size(config, settings, corpus, device)
    run = loop.start(config, settings, device=device, accumulate=accumulate)
    if subject is not None:
        checkpoints.copy_model_tensors(checkpoints.model_tensors(subject.model), run.model)
    info = RunInfo.of(corpus, preset)
    news: tuple[str, ...] = ()
    whole = corpus.stream is not None or (source.unit == "characters" and not source.unknown)
    if subject is None and tokenizer.vocabulary is not None and source.data is None and whole:
        news = (f"the {tokenizer.unit} are counted in all of the text, its validation and test splits too",)
    news += tuple(
        f"{one} and {other} are the same text: nothing is held out" for one, other in corpus.alike()
    )
    if subject is not None:
        info = replace(info, begun_from=subject.name, earlier=subject.info.learned)
        news += (f"beginning with the model of {subject.name}",)
        if subject.tokenizer is None and tokenizer.vocabulary is not None:
            news += (
                f"{subject.name} holds no vocabulary: its {corpus.vocab_size:,} words are taken as "
                f"counted in {corpus.name}, which is right only if it was trained on exactly this text",
            )
    return Task(run, corpus, info, _stored(source, tokenizer), news)


def old_task(
    checkpoint: Path,
    own: saved_run.Description,
    model: ModelFlags,
    flags: TrainConfig,
    source: TextFlags,
    *,
    until_step: int | None,
    decay_now: int | None,
    device: torch.device,
    accumulate: int,
) -> Task:
    """Return the run of the checkpoint, with the settings that the flags change."""
    folder = checkpoint.parent
    check_same_model(model, own.config, name=f"the run in {folder}")
    settings = resumed(
        flags, own.settings, step=own.step, until_step=until_step, decay_now=decay_now, folder=folder
    )
    changes = {
        name: f"{name}: {value} → {asdict(settings)[name]}"
        for name, value in asdict(own.settings).items()
        if asdict(settings)[name] != value
    }
    if changes and own.step >= settings.steps:
        raise ValueError(
            f"steps must remain for a changed setting (--until-step), got {', '.join(changes.values())} "
            f"for the run in {folder}, which is at step {own.step:,} of {settings.steps:,}"
        )
    if source.text is not None and source.unit not in (None, own.info.unit):
        raise ValueError(
            f"unit must be {own.info.unit} as in the run in {folder}, got {source.unit}; "
            f"for another text use another folder"
        )
    _check_cut_again(source, folder)
    with distributed.first_here():
        corpus = source.corpus()
        if vocabulary_digest(corpus.tokenizer.vocabulary) != own.info.vocabulary:
            corpus = source.corpus(tokenizer_of(folder, own.info))
    _check_text(corpus, source, folder)
    tokenizer = corpus.tokenizer
    check_tokenizer(tokenizer, own.config, name=f"the run in {folder}")
    own.info.check(RunInfo.of(corpus), folder)
    _check_size(own.config, settings, corpus, device)
    run = saved_run.resume(checkpoint, settings=settings, device=device, accumulate=accumulate)
    news = (f"going on with {folder} at step {run.step} of {settings.steps}", *changes.values())
    subsets = [(validation.subset_of(corpus.valid, of), of.evaluation) for of in (own.settings, settings)]
    if run.best.bits is not None and subsets[0] != subsets[1]:
        run.best.step, run.best.bits = 0, None
        news += ("the best validation is sought anew: another subset of the text is validated",)
    before, after = (learning_rate(max(1, run.step), one) for one in (own.settings, settings))
    if before != after:
        news += (f"the rate at this step, {before:.3g}, becomes {after:.3g}: its schedule is another",)
    changed = tuple(f"step {run.step}: {change}" for change in changes.values())
    info = replace(own.info, changes=(*own.info.changes, *changed))
    return Task(run, corpus, info, _stored(source, tokenizer), news, changed=bool(changes))


def _of_the_text(segments: ContiguousBatches, settings: TrainConfig, corpus: Corpus) -> str:
    """Return words on how much of the training text an epoch reads, if some fills no segment of a lane."""
    read, there = len(segments) * settings.batch * settings.seg_len, len(corpus.train) - 1
    return "" if read == there else f"; an epoch reads {read:,} of {there:,} tokens"


def segments_of(corpus: Corpus, settings: TrainConfig) -> ContiguousBatches:
    """Return this process's share of the training text, its lanes cut into segments."""
    share = distributed.share(settings.batch)
    return ContiguousBatches(corpus.train, batch=settings.batch, seg_len=settings.seg_len, share=share)


def _check_text(corpus: Corpus, source: TextFlags, folder: Path) -> None:
    if len(corpus.valid) < 2:
        raise ValueError(
            f"validation text of {corpus.name} must hold 2 tokens or more, got {len(corpus.valid)}"
        )
    if source.text is not None and folder.resolve().is_relative_to(source.text.resolve()):
        raise ValueError(
            f"the run's folder must lie outside of the text's, or its files would be text, "
            f"got {folder} in {source.text}"
        )


def _check_cut(source: TextFlags, subject: Subject) -> None:
    """Raise a ValueError for flags that would cut the text into other tokens than the model reads."""
    if subject.tokenizer is None:
        return
    if source.unit not in (None, subject.tokenizer.unit):
        raise ValueError(f"unit must be {subject.tokenizer.unit} as in {subject.name}, got {source.unit}")
    for flag in ("unknown", "min_count"):
        if (given := getattr(source, flag)) != getattr(TextFlags(), flag):
            raise ValueError(
                f"{flag} must not be given with {subject.name}, whose vocabulary stays as it is, got {given}"
            )


def _check_cut_again(source: TextFlags, folder: Path) -> None:
    """Raise a ValueError for flags that would cut the text of the run in the folder in another way."""
    stored = run_config_file.read(folder)
    if stored is None:
        return
    stored_text = stored.source.get("text")
    again = source.text is None or str(source.text.resolve()) == stored_text  # flags begin as the run's
    for flag in ("unknown", "min_count"):
        given, default = getattr(source, flag), getattr(TextFlags(), flag)
        learned = stored.source.get(flag, default)
        if given != learned and (again or given != default):
            raise ValueError(
                f"{flag} must be {learned} as in the run in {folder}, whose vocabulary stays as it is, "
                f"got {given}"
            )


def _check_tokens(subject: Subject, corpus: Corpus) -> None:
    """Raise a ValueError unless the text's tokens are those of the model."""
    tokenizer = corpus.tokenizer
    if subject.tokenizer is None and corpus.vocab_size == subject.model.config.vocab_size:
        return
    if tokenizer != subject.tokenizer:
        wanted = subject.tokenizer or f"{subject.model.config.vocab_size:,} tokens"
        raise ValueError(
            f"the text must be in the {wanted} of {subject.name}, got {corpus.name} in {tokenizer}"
        )


def _check_model(flags: ModelFlags, settings: TrainConfig, device: torch.device) -> None:
    """Raise a ValueError for a model that no text makes possible, before a text is read or downloaded."""
    sizes.check_ram(flags.checked(_least_vocabulary(flags)), settings, lane=1, device=device)


def _least_vocabulary(flags: ModelFlags) -> int:
    return max(flags.cutoffs, default=0) + 1 if flags.vocab_size is None else flags.vocab_size


def _check_size(config: ModelConfig, settings: TrainConfig, corpus: Corpus, device: torch.device) -> None:
    """Raise a ValueError for lanes that the text does not fill, and for a model beyond the memory."""
    segments = segments_of(corpus, settings)
    sizes.check_ram(config, settings, lane=segments.lanes.shape[1], device=device)


def _stored(source: TextFlags, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the flags that give the text from any folder, in the unit that it was read in."""
    text = None if source.text is None else str(source.text.resolve())
    return {**asdict(source), "text": text, "unit": None if text is None else tokenizer.unit}
