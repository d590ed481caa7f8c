"""The paper's corpora by name, and texts of your own, as tokens that lie on disk.

    corpus = load("wikitext-103")

The first call downloads, checks and counts; later ones only map what the first has left in
the data folder: MINITXL_DATA if it is set, else the system's place for caches.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import pooch
from tqdm import tqdm

from minitxl.data.archives import BROKEN, members, plain
from minitxl.data.corpora import Corpus
from minitxl.data.downloads import PARTS, SOURCES, Part, fetch
from minitxl.data.token_file import (
    EOS,
    TokenizerSpec,
    Tokens,
    Unit,
    mapped,
    symbols,
    writing,
)
from minitxl.data.tokenizer import Tokenizer, Vocabulary, from_counts, read_vocabulary, word_spec

Text = tuple[Part, str, Iterator[bytes]]
"""Part and name of a file of a corpus, and its bytes, block by block."""
Texts = Callable[[], Iterator[Text]]
"""The files of a corpus in turn; called once for each pass over it."""


@dataclass(frozen=True)
class Stored(Corpus):
    """A corpus whose tokens are read from disk as they are used, and can't be written to."""

    train: Tokens
    valid: Tokens
    test: Tokens
    spelling: Tokenizer
    """Which text the tokens stand for."""


def data_folder() -> Path:
    """Where downloads and tokens are kept."""
    return Path(os.environ.get("MINITXL_DATA") or pooch.os_cache("minitxl"))


def load(name: str) -> Stored:
    """One of the paper's corpora: enwik8, text8, wikitext-103, wikitext-2, ptb or lm1b.

    Bytes for enwik8, characters for text8, words for the others.
    """
    if name not in SOURCES:
        raise ValueError(f"a data set must be one of {', '.join(SOURCES)}, got {name}")
    source = SOURCES[name]
    ready = _place(name, source.rule, *(download.digest for download in source.downloads))
    if not ready.is_dir():
        paths = [fetch(download, ready.parent) for download in source.downloads]

        def texts() -> Iterator[Text]:
            for path in paths:
                for member, blocks in members(path):
                    for pattern, part in source.parts.items():
                        if fnmatch(member, pattern):
                            yield part, member, blocks
                            break

        parts = tuple(dict.fromkeys(source.parts.values()))
        _prepare(ready, name, texts, parts, source.rule, source.vocab_size)
    return _stored(name, ready, source.rule.unit)


def from_files(
    paths: Iterable[Path], unit: Unit = "bytes", *, min_count: int = 2, held: Vocabulary | None = None
) -> Stored:
    """Return texts of your own, one after the other in the order of their paths.

    Files called train, valid and test, whatever their suffix, are the parts; else the whole
    is cut 90/5/5. Words are counted over the training text, or the whole that is cut; rarer
    than ``min_count`` they are ``<unk>``. A line ends with ``<eos>``. With the vocabulary
    ``held`` nothing is counted, and the tokens are its ids.
    """
    if unit not in get_args(Unit):
        raise ValueError(f"unit must be bytes, characters or words, got {unit}")
    chosen = sorted(paths)
    part_of = _parts_of(chosen)
    rule = TokenizerSpec(unit)
    if unit == "words" and held is not None:
        rule = word_spec(held)
    elif unit == "words":
        first = (EOS, "<unk>") if min_count > 1 else (EOS,)
        rule = TokenizerSpec(unit, after=(EOS,), first=first, unknown="<unk>", min_count=min_count)
    try:
        digests = [part_of[path] + _sha256(path) for path in chosen]
    except OSError as error:
        raise ValueError(f"the text {error.filename} can't be read: {error.strerror}") from error
    name = chosen[0].name if len(chosen) == 1 else chosen[0].parent.name
    ready = _place("own", rule, *digests, *([] if held is None else [repr(held)]))
    if not ready.is_dir():

        def texts() -> Iterator[Text]:
            for path in chosen:
                for _, blocks in plain(path):
                    yield part_of[path], str(path), blocks

        _prepare(ready, name, texts, tuple(dict.fromkeys(part_of.values())), rule, held=held)
    return _stored(name, ready, unit)


def from_folder(
    folder: Path, unit: Unit = "bytes", *, min_count: int = 2, held: Vocabulary | None = None
) -> Stored:
    """``from_files`` of all that lies in a folder and its folders, but what is hidden."""
    found = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    shown = [folder / path for path in found if not any(name.startswith(".") for name in path.parts)]
    if not shown:
        raise ValueError(f"{folder} must be a folder that holds texts, got none")
    return from_files(shown, unit, min_count=min_count, held=held)


def _parts_of(paths: list[Path]) -> dict[Path, Part]:
    if not paths:
        raise ValueError("a corpus must be made of 1 file or more, got 0")
    named: dict[Path, Part] = {path: part for path in paths for part in PARTS if path.stem == part}
    if "train" not in named.values():
        return dict.fromkeys(paths, "whole")
    if len(named) != len(paths) or sorted(named.values()) != sorted(PARTS):
        raise ValueError(
            f"beside a file called train there must be one called valid, one called test, and no other, "
            f"got {', '.join(path.name for path in paths)}"
        )
    return named


def _place(name: str, rule: TokenizerSpec, *digests: str) -> Path:
    """Return the folder of the tokens that this rule makes of these texts."""
    made_of = hashlib.sha256(repr((rule, digests)).encode()).hexdigest()
    return data_folder() / f"{name}-{made_of[:16]}"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _prepare(
    ready: Path,
    name: str,
    texts: Texts,
    parts: tuple[Part, ...],
    rule: TokenizerSpec,
    vocab_size: int | None = None,
    held: Vocabulary | None = None,
) -> None:
    """Write the tokens of every part, and the vocabulary, into the folder ``ready``."""
    try:
        with _appearing(ready) as folder:
            if held is None and rule.unit != "bytes":
                held = _count(name, texts, rule)
            if held is not None:
                if vocab_size not in (None, len(held)):
                    raise ValueError(f"{name} must have {vocab_size} different symbols, got {len(held)}")
                held.write(folder / "vocabulary.json")
            _encode(name, texts, parts, rule, held, folder)
    except BROKEN as error:
        raise ValueError(f"the archive of {name} is damaged: {error}") from error
    except OSError as error:
        raise ValueError(f"{name} can't be prepared in {ready.parent}: {error.strerror}") from error


def _count(name: str, texts: Texts, rule: TokenizerSpec) -> Vocabulary:
    """Return words of the training text, or of the whole that is cut; characters of all parts."""
    counts: Counter[str] = Counter()
    for part, text, blocks in tqdm(texts(), desc=f"counting {name}", unit="file", disable=None):
        if part in ("train", "whole") or rule.unit == "characters":
            for some in symbols(blocks, text, rule):
                counts.update(some)
    return from_counts(counts, first=rule.first, unknown=rule.unknown, min_count=rule.min_count)


def _encode(
    name: str,
    texts: Texts,
    parts: tuple[Part, ...],
    rule: TokenizerSpec,
    held: Vocabulary | None,
    folder: Path,
) -> None:
    size, sizes = (256 if held is None else len(held)), dict.fromkeys(parts, 0)
    with ExitStack() as files:
        append = {part: files.enter_context(writing(folder / f"{part}.npy", size)) for part in parts}
        for part, text, blocks in tqdm(texts(), desc=f"writing {name}", unit="file", disable=None):
            if held is None:
                for block in blocks:
                    append[part](memoryview(block))
                    sizes[part] += len(block)
            else:
                for some in symbols(blocks, text, rule):
                    ids = held.encode(some)
                    append[part](ids)
                    sizes[part] += len(ids)
        for part, held_tokens in sizes.items():
            if not held_tokens:
                which = name if part == "whole" else f"the {part} text of {name}"
                raise ValueError(f"{which} must hold text, got 0 {rule.unit}")


def _stored(name: str, ready: Path, unit: Unit) -> Stored:
    described = ready / "vocabulary.json"
    held = read_vocabulary(described) if described.exists() else None
    if (ready / "whole.npy").exists():
        whole = mapped(ready / "whole.npy")
        train, valid = len(whole) * 90 // 100, len(whole) * 95 // 100
        parts = [whole[:train], whole[train:valid], whole[valid:]]
    else:
        parts = [mapped(ready / f"{part}.npy") for part in PARTS]
    size = 256 if held is None else len(held)
    return Stored(name, parts[0], parts[1], parts[2], size, Tokenizer(unit, held))


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
