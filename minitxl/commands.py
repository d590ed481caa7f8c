"""The commands on a run: ``minitxl train | evaluate | generate``."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from time import perf_counter
from typing import Literal

import torch
import tyro
from tqdm import tqdm
from tyro.conf import Positional

from minitxl import checkpoints, corpora, datasets, generation, spelling, training
from minitxl.batching import Lanes
from minitxl.config import EvaluateConfig, ModelConfig, TrainConfig
from minitxl.corpora import Corpus
from minitxl.datasets import Stored
from minitxl.drawing import Ways
from minitxl.evaluation import Score, cached, sliding
from minitxl.experiments.parts import Report
from minitxl.model import TransformerLM
from minitxl.spelling import Spelling
from minitxl.tokens import Unit
from minitxl.training import Record

Device = Literal["auto", "cpu", "cuda"]


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
class TextFlags:
    """The text."""

    data: str | None = None
    """One of the paper's corpora, downloaded once: enwik8, text8, wikitext-103, wikitext-2, ptb or lm1b."""
    text: Path | None = None
    """Your own text, a file or a folder; without it and data, the source of Python's standard library."""
    unit: Unit = "bytes"
    """What the tokens of your own text are."""

    def corpus(self) -> Corpus:
        if self.data is not None and self.text is not None:
            raise ValueError(f"data must not be given where text is, got {self.data} and {self.text}")
        if self.data is not None:
            return datasets.load(self.data)
        if self.text is None:
            return corpora.embedded()
        if self.text.is_dir():
            return datasets.from_folder(self.text, self.unit)
        return (
            corpora.from_file(self.text)
            if self.unit == "bytes"
            else datasets.from_files([self.text], self.unit)
        )


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


@dataclass(frozen=True)
class Evaluate:
    """Score a trained model on text it has not seen, with memory or by a sliding window."""

    folder: Positional[Path]
    """Folder of the run."""
    way: Literal["cached", "sliding"] = "cached"
    """Segment after segment with memory, or a window that slides and is computed anew."""
    seg_len: int | None = None
    """Cached: tokens of a segment; none means as in training."""
    mem_len: int | None = None
    """Cached: tokens of memory; none means as in training."""
    window: int | None = None
    """Cached: most keys a query sees, itself included; none means as in training."""
    clamp_len: int | None = None
    """Cached: distance beyond which all keys count as equally far; none means as in training."""
    attention_len: int | None = None
    """Sliding: tokens of the window; none means segment and memory of training together."""
    stride: int = 1
    """Sliding: tokens the window moves by; attention-len gives isolated segments."""
    tokens: int | None = 65536
    """How many tokens of the text to score at most; none means all."""
    part: Literal["valid", "test"] = "test"
    """Which part of the text."""
    source: TextFlags = TextFlags()
    device: Device = "auto"
    """cpu, cuda, or the better one that is there."""

    def __call__(self) -> None:
        corpus, spelled = self.source.corpus(), spelling.read(self.folder)
        model, trained = load_run(self.folder, device_of(self.device))
        if spelling_of(corpus) != spelled:
            raise ValueError(f"the text must be the one that {self.folder} was trained on, got {corpus.name}")
        stream = corpus.valid if self.part == "valid" else corpus.test
        stream = stream if self.tokens is None else stream[: self.tokens + 1]
        began = perf_counter()
        score, how = self._score(model, trained, stream)
        seconds = perf_counter() - began
        print(f"{self.part} part of {corpus.name}, {how}")
        print(f"{score.bits_per_token:.4f} bits per {spelled.token}, perplexity {score.perplexity:.3f}")
        print(f"{score.tokens:,} tokens, {seconds / score.tokens * 1e6:,.1f} µs per token")

    def _score(self, model: TransformerLM, trained: TrainConfig, stream: torch.Tensor) -> tuple[Score, str]:
        if self.way == "sliding":
            length = self.attention_len or trained.seg_len + trained.mem_len
            score = sliding(model, stream, attention_len=length, stride=self.stride)
            return score, f"sliding window of {length} tokens, stride {self.stride}"
        settings = EvaluateConfig(
            seg_len=trained.seg_len if self.seg_len is None else self.seg_len,
            mem_len=trained.mem_len if self.mem_len is None else self.mem_len,
            window=trained.window if self.window is None else self.window,
            clamp_len=trained.clamp_len if self.clamp_len is None else self.clamp_len,
        )
        return cached(model, stream, settings), f"cached: {settings}"


@dataclass(frozen=True)
class Generate:
    """Go on with a text, token by token, as a trained model would."""

    folder: Positional[Path]
    """Folder of the run."""
    prompt: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """How the text begins; "def " without one. May be given several times, for as many texts."""
    length: int = 400
    """Tokens to generate."""
    mem_len: int | None = None
    """Tokens before the last that a token is predicted from; none means segment and memory of training."""
    temperature: float = 1.0
    """Below 1 is more careful, 0 always takes the likeliest token."""
    top_k: int | None = None
    """Draw from the k likeliest tokens only."""
    top_p: float | None = None
    """Draw from the fewest likeliest tokens that have this probability together."""
    repetition: float = 1.0
    """Above 1 makes bytes less likely that occur in the recent text, below 1 likelier."""
    repetition_window: int | None = 64
    """How many of the last bytes, the prompt's included, are recent; none means all."""
    stop: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """End a text before this, which is not printed, as in --stop $'\\n\\n'. May be given several times."""
    seed: int = 0
    """Seed of the draws; each further prompt has the next one."""
    device: Device = "auto"
    """cpu, cuda, or the better one that is there."""

    def __call__(self) -> None:
        if self.length < 1:
            raise ValueError(f"length must be 1 or more, got {self.length}")
        model, trained = load_run(self.folder, device_of(self.device))
        most = (
            trained.seg_len - 1 if model.config.attention == "absolute" else trained.seg_len + trained.mem_len
        )
        mem_len = most if self.mem_len is None else self.mem_len
        ways: Ways = {
            "temperature": self.temperature,
            "top_k": self.top_k,
            "top_p": self.top_p,
            "repetition": self.repetition,
            "repetition_window": self.repetition_window,
            "seed": self.seed,
        }
        spelled = spelling.read(self.folder)
        prompts = [spelled.encode(text) for text in self.prompt or ("def ",)]
        stop = [spelled.encode(text) for text in self.stop]
        if len(prompts) == 1:
            drawn = generation.stream(model, prompts, mem_len=mem_len, **ways)
            tokens = (int(token) for token in islice(drawn, self.length))
            tell(spelled, prompts[0], generation.until(tokens, stop))
            return
        texts = generation.sample(model, prompts, length=self.length, mem_len=mem_len, stop=stop, **ways)
        for row, (prompt, text) in enumerate(zip(prompts, texts, strict=True)):
            if row:
                print("-" * 72)
            tell(spelled, prompt, text.tolist())


def tell(spelled: Spelling, prompt: torch.Tensor, tokens: Iterable[int]) -> None:
    """Print a text as it comes."""
    for piece in spelled.decode(chain(prompt.tolist(), tokens)):
        print(piece, end="", flush=True)
    print()


def spelling_of(corpus: Corpus) -> Spelling:
    return corpus.spelling if isinstance(corpus, Stored) else Spelling()


def load_run(folder: Path, device: str) -> tuple[TransformerLM, TrainConfig]:
    """The model of a run, and how it was trained."""
    checkpoint = folder / training.CHECKPOINT
    if not checkpoint.exists():
        raise ValueError(f"{folder} must hold a run of minitxl train, got no {training.CHECKPOINT}")
    model = checkpoints.load_model(checkpoint, device=device)
    return model, TrainConfig(**checkpoints.read(checkpoint)[1]["train"])


def device_of(asked: Device) -> str:
    if asked == "cuda" and not torch.cuda.is_available():
        raise ValueError("device must be cpu or auto where there is no CUDA GPU, got cuda")
    return ("cuda" if torch.cuda.is_available() else "cpu") if asked == "auto" else asked


@contextmanager
def bars() -> Iterator[Report]:
    """A progress bar for each label that reports steps, with its last validation."""
    bars: dict[str, tqdm] = {}

    def report(label: str, steps: int, record: Record) -> None:
        if label not in bars:
            bars[label] = tqdm(
                desc=label, total=steps, initial=record.step - 1, unit="step", position=len(bars)
            )
        bars[label].update()
        if record.valid_bits is not None:
            bars[label].set_postfix_str(f"{record.valid_bits:.3f} bits per token on validation text")

    try:
        yield report
    finally:
        for bar in bars.values():
            bar.close()
