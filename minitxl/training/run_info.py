"""Text, tokens and preset of a run: part of each of its checkpoints. A resumed run compares them with
the given text."""

from dataclasses import dataclass
from pathlib import Path

from minitxl.data.corpus import Corpus
from minitxl.data.token_file import Unit
from minitxl.data.tokenizer import VOCABULARY_UNITS, Tokenizer, Vocabulary, read_vocabulary
from minitxl.files import plain_file


@dataclass(frozen=True)
class RunInfo:
    """The text that a run learns from, and the weights that it begins with."""

    text: str = ""
    """Name of the text."""
    sha256: str | None = None
    """Digest of the text's tokens; None stands for any."""
    unit: Unit = "bytes"
    """Unit of the tokens."""
    vocabulary: str | None = None
    """Digest of the vocabulary; None where tokens are bytes."""
    preset: str | None = None
    """Published configuration that the settings began from."""
    train_sha256: str | None = None
    """Digest of the training split's tokens; None where it is not known."""
    sizes: tuple[int, ...] = ()
    """Numbers of tokens of the training, validation and test split; none where they are not known."""
    valid_sha256: str | None = None
    """Digest of the validation split's tokens; None where it is not known."""
    begun_from: str = ""
    """Name of the run or the released weights that it began from; "" for new weights."""
    earlier: tuple[str, ...] = ()
    """Digests of the training splits of the runs that it began from."""
    changes: tuple[str, ...] = ()
    """Settings that were changed where the run went on, as "step 300: batch: 8 → 4"."""

    @classmethod
    def of(cls, corpus: Corpus, preset: str | None = None) -> "RunInfo":
        """Return the information of a new run on this corpus."""
        unit, vocabulary = corpus.tokenizer.unit, vocabulary_digest(corpus.tokenizer.vocabulary)
        digests = corpus.split_sha256("train"), corpus.sizes, corpus.split_sha256("valid")
        return cls(corpus.name, corpus.sha256, unit, vocabulary, preset, *digests)

    @property
    def learned(self) -> tuple[str, ...]:
        """Digests of all training splits that are known to have been learned."""
        return (*self.earlier, self.train_sha256) if self.train_sha256 else self.earlier

    def check(self, other: "RunInfo", folder: Path) -> None:
        """Raise a ValueError unless the run in this folder, which is ``self``, may go on with the other."""
        if (other.unit, other.vocabulary) != (self.unit, self.vocabulary):
            got = "another vocabulary" if other.unit == self.unit else f"a text in {other.unit}"
            raise ValueError(
                f"the text must have the vocabulary of the run in {folder}, in {self.unit}, got {got}; "
                f"for another text use another folder"
            )
        if self.sha256 is not None and other.sha256 != self.sha256:
            raise ValueError(
                f"the text must be that of the run in {folder}, {self.text} (sha256 {self.sha256:.12}), "
                f"got {other.text} (sha256 {other.sha256 or 'none':.12}); for another text use another folder"
            )
        if not self.cut_as(other.sizes):
            ours, theirs = (" / ".join(f"{size:,}" for size in one.sizes) for one in (self, other))
            raise ValueError(
                f"the text must be cut as that of the run in {folder}, into {ours} tokens to train, validate "
                f"and test, got {other.text} with {theirs}: what was held out would be learned; for another "
                f"cut use another folder"
            )

    def cut_as(self, sizes: tuple[int, ...]) -> bool:
        """Return True if splits of these sizes are those of the run's text, or where that is not known."""
        return not self.sizes or not sizes or self.sizes == sizes


def vocabulary_digest(vocabulary: Vocabulary | None) -> str | None:
    """Return the SHA-256 of the symbols in order, and of the unknown one; None for bytes."""
    return None if vocabulary is None else vocabulary.sha256


def vocabulary_file(folder: Path, unit: Unit) -> Path:
    """Return the path of a run's vocabulary, named after its unit."""
    return folder / f"{unit}.json"


def tokenizer_of(folder: Path, info: RunInfo) -> Tokenizer:
    """Return the tokenizer of the run in ``folder``, checked against the digest that its checkpoint has."""
    if info.unit not in VOCABULARY_UNITS:
        return Tokenizer(info.unit)
    path = vocabulary_file(folder, info.unit)
    if not path.exists():
        raise ValueError(f"{path} must be the vocabulary of the run, got none: it says what its tokens mean")
    vocabulary = read_vocabulary(plain_file(path))
    if vocabulary_digest(vocabulary) != info.vocabulary:
        raise ValueError(
            f"{path} must be the vocabulary of the run, got one of {len(vocabulary):,} {info.unit} "
            f"whose SHA-256 differs"
        )
    return Tokenizer(info.unit, vocabulary)
