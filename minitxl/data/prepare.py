"""Texts to a folder of tokens: counted, encoded, and written whole or not at all."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tqdm import tqdm

from minitxl.data.corpus import Corpus, cut
from minitxl.data.splits import SPLITS, Split
from minitxl.data.token_file import TokenizerSpec, line_and_column, mapped, symbols, writing
from minitxl.data.tokenizer import Tokenizer, UnknownSymbolError, Vocabulary, from_counts, read_vocabulary
from minitxl.files import data_folder

Text = tuple[Split, str, Iterator[bytes]]
"""Split and name of a file of a corpus, and its bytes, block by block."""
Texts = Callable[[], Iterator[Text]]
"""The files of a corpus in turn; called once for each pass over it."""
VOCABULARY = "vocabulary.json"


def token_folder(name: str, spec: TokenizerSpec, *digests: str) -> Path:
    """Return the folder of the tokens that this tokenizer makes of the texts with these digests."""
    made_of = hashlib.sha256(repr((spec, digests)).encode()).hexdigest()
    return data_folder() / f"{name}-{made_of[:16]}"


@dataclass(frozen=True)
class Preparation:
    """A corpus on its way from texts to tokens on disk."""

    name: str
    texts: Texts
    splits: tuple[Split, ...]
    spec: TokenizerSpec
    vocabulary: Vocabulary | None = None
    """A given vocabulary. With None it is counted from the text; bytes need none."""
    vocab_size: int | None = None
    """Number of symbols the vocabulary must have, where that is known."""

    def write(self, folder: Path) -> None:
        """Write the tokens of every split, and the vocabulary, into ``folder``, unless it is there."""
        if folder.is_dir():
            return
        try:
            with _appearing(folder) as temporary:
                vocabulary = self._vocabulary()
                if vocabulary is not None:
                    vocabulary.write(temporary / VOCABULARY)
                self._encode(vocabulary, temporary)
        except OSError as error:
            why = error.strerror or error
            raise ValueError(f"{self.name} can't be prepared in {folder.parent}: {why}") from error

    def _vocabulary(self) -> Vocabulary | None:
        """Return the vocabulary of words or characters.

        Words are those of the training text, or of the whole if it is cut. Characters are those of all
        splits, or of the training text if a symbol stands for all others.
        """
        spec = self.spec
        vocabulary = self.vocabulary
        if vocabulary is None and spec.unit != "bytes":
            counts: Counter[str] = Counter()
            for split, name, blocks in tqdm(
                self.texts(), desc=f"counting {self.name}", unit="file", disable=None
            ):
                counted = split in ("train", "whole") or (spec.unit == "characters" and spec.unknown is None)
                for some in symbols(blocks, name, spec):
                    if counted:
                        counts.update(some)
            vocabulary = from_counts(counts, first=spec.first, unknown=spec.unknown, min_count=spec.min_count)
        if vocabulary is not None and self.vocab_size not in (None, len(vocabulary)):
            raise ValueError(
                f"{self.name} must have {self.vocab_size} different symbols, got {len(vocabulary)}"
            )
        return vocabulary

    def _encode(self, vocabulary: Vocabulary | None, folder: Path) -> None:
        size, sizes = (256 if vocabulary is None else len(vocabulary)), dict.fromkeys(self.splits, 0)
        with ExitStack() as files:
            append = {
                split: files.enter_context(writing(folder / f"{split}.npy", size)) for split in self.splits
            }
            for split, name, blocks in tqdm(
                self.texts(), desc=f"writing {self.name}", unit="file", disable=None
            ):
                for ids in self._ids(name, blocks, vocabulary):
                    append[split](ids)
                    sizes[split] += len(ids)
            for split, tokens in sizes.items():
                if not tokens:
                    which = self.name if split == "whole" else f"the {split} text of {self.name}"
                    raise ValueError(f"{which} must hold text, got 0 {self.spec.unit}")

    def _ids(
        self, name: str, blocks: Iterator[bytes], vocabulary: Vocabulary | None
    ) -> Iterator[memoryview | list[int]]:
        if vocabulary is None:
            for block in blocks:
                yield memoryview(block)
            return
        for some in symbols(blocks, name, self.spec):
            try:
                yield vocabulary.encode(some)
            except UnknownSymbolError as error:
                again = next(blocks for _, other, blocks in self.texts() if other == name)
                where = line_and_column(error.symbol, again, name, self.spec.unit)
                raise ValueError(f"{error} at {where} of {name}") from None


def stored(name: str, folder: Path, spec: TokenizerSpec, files: Mapping[Split, tuple[str, ...]]) -> Corpus:
    """Return the corpus that ``Preparation.write`` wrote; its tokens are read from disk as they are used."""
    tokenizer = Tokenizer(spec.unit, None if spec.unit == "bytes" else read_vocabulary(folder / VOCABULARY))
    size = tokenizer.vocab_size
    if (whole := folder / "whole.npy").exists():
        return cut(name, mapped(whole), vocab_size=size, tokenizer=tokenizer, files=files)
    train, valid, test = (mapped(folder / f"{split}.npy") for split in SPLITS)
    return Corpus(name, train, valid, test, size, tokenizer, files=files)


@contextmanager
def _appearing(folder: Path) -> Iterator[Path]:
    """Yield a folder to fill that is at ``folder`` if the block ends well, and nowhere if not."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as temporary:
        filled = Path(temporary) / "filled"
        filled.mkdir()
        yield filled
        try:
            filled.replace(folder)
        except OSError:
            if not folder.is_dir():  # else another process was first, with the same tokens
                raise
