"""What several commands take or tell."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Literal

import torch
from tqdm import tqdm

from minitxl.data import corpora, datasets
from minitxl.data.corpora import Corpus
from minitxl.data.datasets import Stored
from minitxl.data.token_file import Unit
from minitxl.data.tokenizer import Tokenizer
from minitxl.experiments.runner import Report
from minitxl.training.loop import Record

Device = Literal["auto", "cpu", "cuda"]


@dataclass(frozen=True)
class TextFlags:
    """The text."""

    data: str | None = None
    """One of the paper's corpora, downloaded once: enwik8, text8, wikitext-103, wikitext-2, ptb or lm1b."""
    text: Path | None = None
    """Your own text, a file or a folder; without it and data, the source of Python's standard library."""
    unit: Unit = "bytes"
    """What the tokens of your own text are."""

    def flags(self) -> str:
        """Return the words that give the same text to another command, which takes the unit from the run."""
        named = {"--data": self.data, "--text": self.text}
        return "".join(f" {flag} {quote(str(of))}" for flag, of in named.items() if of is not None)

    def corpus(self, spelled: Tokenizer | None = None) -> Corpus:
        """The text; one of your own in the units and the vocabulary of ``spelled``, where that has any."""
        held = None if spelled is None else spelled.vocabulary
        unit = self.unit if spelled is None or held is None else spelled.unit
        if self.data is not None and self.text is not None:
            raise ValueError(f"data must not be given where text is, got {self.data} and {self.text}")
        if self.text is None and self.unit != "bytes":
            raise ValueError(f"unit must be given with a text of your own, got {self.unit} without text")
        if self.data is not None:
            return datasets.load(self.data)
        if self.text is None:
            return corpora.embedded()
        if self.text.is_dir():
            return datasets.from_folder(self.text, unit, held=held)
        return (
            corpora.from_file(self.text)
            if unit == "bytes"
            else datasets.from_files([self.text], unit, held=held)
        )


def spelling_of(corpus: Corpus) -> Tokenizer:
    return corpus.spelling if isinstance(corpus, Stored) else Tokenizer()


def device_of(asked: Device) -> str:
    if asked == "cuda" and not torch.cuda.is_available():
        raise ValueError("device must be cpu or auto where there is no CUDA GPU, got cuda")
    return ("cuda" if torch.cuda.is_available() else "cpu") if asked == "auto" else asked


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
