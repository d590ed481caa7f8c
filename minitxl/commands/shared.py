"""Flags that several commands have, and the lines that several print."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from tempfile import TemporaryFile
from typing import Annotated, Any, Literal

import torch
from torch import Tensor
from tqdm import tqdm
from tyro.constructors import PrimitiveConstructorSpec

from minitxl.commands.errors import RefusedFlagError
from minitxl.data import corpora
from minitxl.data.corpus import Corpus
from minitxl.data.splits import SPLITS
from minitxl.data.token_file import Unit
from minitxl.data.tokenizer import Tokenizer, word_spec
from minitxl.experiments.shared.runner import Report
from minitxl.fields import check, whole
from minitxl.training import run_config_file
from minitxl.training.step import Record

Device = Literal["auto", "cpu", "cuda"]
COUNTED_AT_ONCE = 2**22
"""Tokens that are compared at once: a copy of a corpus of a billion, as whole numbers, would not fit."""


def path_flag(name: str, kind: Callable[[str], Any] = Path) -> PrimitiveConstructorSpec[Any]:
    """Return how the flag ``name`` is read, a path or what ``kind`` makes of it: it must not be empty.

    An empty one is what an unset variable of the shell leaves, and would be the current folder.
    """

    def read(words: list[str]) -> Any:
        (word,) = words
        if not word:
            raise RefusedFlagError(f"{name} must be given where it is named, got {word!r}")
        if not _is_utf_8(word):
            raise RefusedFlagError(f"{name} must be a name in UTF-8, got {word!r}")
        return kind(word)

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="PATH",
        instance_from_str=read,
        is_instance=lambda value: isinstance(value, Path | str),
        str_from_instance=lambda value: [str(value)],
    )


def _is_utf_8(word: str) -> bool:
    try:
        return bool(word.encode())
    except UnicodeEncodeError:
        return False


@dataclass(frozen=True)
class TextFlags:
    """The text."""

    data: str | None = None
    """One of the paper's corpora: enwik8, text8, wikitext-103, wikitext-2, ptb or lm1b. Downloaded once, into
    the folder that the variable MINITXL_DATA names, else the system's place for caches."""
    text: Annotated[Path, path_flag("text")] | None = None
    """Your own text, a file or a folder; without it and data, the source of Python's standard library.
    Files named alike but for train, valid, test, as ptb.train.txt, are its splits; else it is cut 90/5/5."""
    unit: Unit | None = None
    """What the tokens of your own text are; none means bytes, or what the model reads."""
    unknown: bool = False
    """Give characters an <unk>, as words have, which stands for rare ones and for all that training lacks."""
    min_count: int = 2
    """Words, and with --unknown characters, that the training text has fewer times become <unk>; 1 keeps
    all, and needs a text without new ones. A text that is cut counts as a whole."""

    def flags(self) -> str:
        """Return the words that give the same text to another command, which takes the unit from the run."""
        named = {"--data": self.data, "--text": self.text}
        return "".join(f" {flag} {quote(str(of))}" for flag, of in named.items() if of is not None)

    def corpus(self, tokenizer: Tokenizer | None = None) -> Corpus:
        """Return the text; one of your own in the unit and vocabulary of ``tokenizer``, if it has one."""
        check("min_count", self.min_count, whole(1))
        vocabulary = None if tokenizer is None else tokenizer.vocabulary
        unit = (self.unit or "bytes") if tokenizer is None or vocabulary is None else tokenizer.unit
        if self.data is not None and self.text is not None:
            raise ValueError(f"data must not be given where text is, got {self.data} and {self.text}")
        if self.text is None and self.unit not in (None, "bytes"):
            raise ValueError(f"unit must be given with a text of your own, got {self.unit} without text")
        if self.unknown and unit != "characters":
            raise ValueError(f"unknown must be given with unit = characters, got it with {unit}")
        if self.data is not None:
            return corpora.load(self.data)
        if self.text is None:
            return corpora.embedded()
        if not self.text.exists():
            raise ValueError(f"text must be a file or a folder that is there, got {self.text}")
        if self.min_count != 2 and unit != "words" and not self.unknown:
            raise ValueError(
                f"min_count must be given with words or unknown, got {self.min_count} with {unit}"
            )
        options: dict[str, Any] = {
            "min_count": self.min_count,
            "unknown": self.unknown and vocabulary is None,
            "vocabulary": vocabulary,
        }
        if self.text.is_dir():
            return corpora.from_folder(self.text, unit, **options)
        if unit == "bytes":
            return corpora.from_file_as_bytes(self.text)
        return corpora.from_files([self.text], unit, **options)


def text_of_run(folder: Path) -> TextFlags:
    """Return the flags of the text that the run learned, from its config.json; the defaults without one."""
    stored = run_config_file.read(folder)
    if stored is None:
        return TextFlags()
    text = None if stored.source.get("text") is None else Path(stored.source["text"])
    if text is not None and not text.exists():
        raise ValueError(
            f"text must be named where it has moved (--text): "
            f"{folder / run_config_file.CONFIG} says {text}, which is not there"
        )
    return TextFlags(**{**stored.source, "text": text})


def special_in(stream: Tensor, tokenizer: Tokenizer | None) -> str:
    """Return words on how much of the text is the unknown symbol, and how much are ends of lines."""
    shares = (f"{_share(stream, number):.2%} of the text is {name}" for name, number in _special(tokenizer))
    return "".join(f"; {share}" for share in shares)


def special_by_split(corpus: Corpus) -> str:
    """Return words on how much of each split is the unknown symbol, and how much are ends of lines."""
    by_symbol = {
        name: [f"{_share(getattr(corpus, split), number):.2%} of {split}" for split in SPLITS]
        for name, number in _special(corpus.tokenizer)
    }
    return "".join(f"; {name} is {', '.join(shares)}" for name, shares in by_symbol.items())


def _special(tokenizer: Tokenizer | None) -> Iterator[tuple[str, int]]:
    """Yield name and id of the unknown symbol and, of words, of the one at each line's end."""
    vocabulary = None if tokenizer is None else tokenizer.vocabulary
    if tokenizer is None or vocabulary is None:
        return
    names = [] if vocabulary.unknown is None else [vocabulary.unknown]
    names += word_spec(vocabulary).line_break[:1] if tokenizer.unit == "words" else []
    yield from ((name, vocabulary.ids[name]) for name in names if name in vocabulary.ids)


def _share(stream: Tensor, symbol: int) -> float:
    count = sum(int((part.long() == symbol).sum()) for part in stream.split(COUNTED_AT_ONCE))
    return count / max(1, len(stream))


def make_folder(folder: Path) -> Path:
    """Make the folder of a command's results and try to write there, before anything is computed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise ValueError(
            f"folder must be one that can be written to, got {folder}: {error.strerror or error}"
        ) from error


def device_of(device: Device) -> str:
    """Return the device that auto stands for here, or the one that is named."""
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device must be cpu or auto where there is no CUDA GPU, got cuda")
    return ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device


@contextmanager
def bars(*, silent: bool = False) -> Iterator[Report]:
    """Yield a progress bar for each label that reports steps, with its last validation."""
    bars: dict[str, tqdm] = {}

    def report(label: str, steps: int, record: Record) -> None:
        if label not in bars:
            bars[label] = tqdm(
                desc=label,
                total=steps,
                initial=record.step - 1,
                unit="step",
                position=len(bars),
                disable=silent,
            )
        bars[label].update()
        if record.valid_bits is not None:
            bars[label].set_postfix_str(f"{record.valid_bits:.3f} bits per token on validation text")

    try:
        yield report
    finally:
        for bar in bars.values():
            bar.close()
