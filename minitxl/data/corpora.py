"""Corpora to load: the paper's by name, files and folders of your own, and the text that comes with Python.

    corpus = load("wikitext-103")

``load``, ``from_files`` and ``from_folder`` write tokens into the data folder on the first call, and map them
from there on later ones. The data folder is MINITXL_DATA if it is set, else the system's folder for caches.
``from_bytes``, ``from_file_as_bytes`` and ``embedded`` write nothing: their bytes stay in RAM.

``load`` downloads: the addresses stand in ``download_addresses``, and ``downloads`` fetches them.
"""

import os
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from fnmatch import fnmatch
from pathlib import Path
from typing import get_args

import torch

from minitxl.data.corpus import Corpus, cut
from minitxl.data.download_addresses import SOURCES
from minitxl.data.prepare import Preparation, Text, stored, token_folder
from minitxl.data.splits import Split, splits_of
from minitxl.data.text_file import as_plain_file, blocks_of, naming_read_errors, sha256_of
from minitxl.data.token_file import EOS, UNKNOWN, TokenizerSpec, Unit
from minitxl.data.tokenizer import Vocabulary, word_spec


def load(name: str) -> Corpus:
    """Return one of the paper's corpora: enwik8, text8, wikitext-103, wikitext-2, ptb or lm1b.

    Bytes for enwik8, characters for text8, words for the others.
    """
    from minitxl.data import archives, downloads  # which load requests and pooch

    if name not in SOURCES:
        raise ValueError(f"a corpus must be one of {', '.join(SOURCES)}, got {name}")
    source = SOURCES[name]
    ready = token_folder(name, source.spec, *(download.digest for download in source.downloads))
    if not ready.is_dir():
        paths = downloads.fetch(source.downloads, ready.parent)

        def texts() -> Iterator[Text]:
            for path, download in zip(paths, source.downloads, strict=True):
                for member, blocks in archives.members(path):
                    for pattern, split in source.splits.items():
                        if fnmatch(member, pattern):
                            yield split, member, blocks
                            break
                downloads.check_digest(path, download)  # again, of what was read

        splits = tuple(dict.fromkeys(source.splits.values()))
        Preparation(name, texts, splits, source.spec, vocab_size=source.vocab_size).write(ready)
    files: dict[Split, tuple[str, ...]] = {}
    for pattern, split in source.splits.items():
        files[split] = (*files.get(split, ()), pattern.rsplit("/", 1)[-1])
    return stored(name, ready, source.spec, files)


def from_files(
    paths: Iterable[Path],
    unit: Unit = "bytes",
    *,
    min_count: int = 2,
    unknown: bool = False,
    vocabulary: Vocabulary | None = None,
) -> Corpus:
    """Return texts of your own, one after the other in the order of their paths; tokens are kept on disk.

    The splits are three files that are named alike but for the words train, valid and test, or the files in
    three folders of these names (``splits_of``). Else the whole is cut 90/5/5. ``Corpus.summary``
    says which file became which split.

    Args:
        paths: the files.
        unit: what a token is: bytes, characters or words. A line of words ends with ``<eos>``.
        min_count: words that occur less often are ``<unk>``, and with ``unknown`` such characters, too. They
            are counted in the training text, or in the whole if it is cut.
        unknown: give characters an ``<unk>`` too, which stands for all that the training text
            lacks; without it the vocabulary has the characters of all splits.
        vocabulary: that of a model, to read the texts in its ids; then nothing is counted.
    """
    return _from(list(paths), unit, min_count, unknown, vocabulary, folder=None)


def from_folder(
    folder: Path,
    unit: Unit = "bytes",
    *,
    min_count: int = 2,
    unknown: bool = False,
    vocabulary: Vocabulary | None = None,
) -> Corpus:
    """Return ``from_files`` of all that lies in a folder and its folders, but what is hidden."""
    with naming_read_errors(folder):
        inside = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    shown = [folder / path for path in inside if not any(name.startswith(".") for name in path.parts)]
    if not shown:
        raise ValueError(f"{folder} must be a folder that holds texts, got none")
    return _from(shown, unit, min_count, unknown, vocabulary, folder=folder)


def _from(
    paths: list[Path],
    unit: Unit,
    min_count: int,
    unknown: bool,
    vocabulary: Vocabulary | None,
    folder: Path | None,
) -> Corpus:
    if unit not in get_args(Unit):
        raise ValueError(f"unit must be bytes, characters or words, got {unit}")
    if unknown and unit != "characters":
        raise ValueError(f"unknown must be asked for with unit = characters, got {unit}")
    chosen = sorted(paths)
    split_of = splits_of(chosen, folder=folder is not None)
    spec = _spec(unit, min_count, unknown, vocabulary)
    name = chosen[0].name if len(chosen) == 1 else (folder or chosen[0].parent).resolve().name
    named = {path: path.name if folder is None else path.relative_to(folder).as_posix() for path in chosen}
    files = {
        split: tuple(named[path] for path in chosen if split_of[path] == split) for split in split_of.values()
    }
    with ExitStack() as stack:
        plain = {path: stack.enter_context(as_plain_file(path)) for path in chosen}
        digests = {path: sha256_of(plain[path], str(path)) for path in chosen}

        def texts() -> Iterator[Text]:
            for path in chosen:
                yield split_of[path], str(path), blocks_of(plain[path], str(path), digests[path])

        known = [] if vocabulary is None else [repr(vocabulary)]
        ready = token_folder("own", spec, *(split_of[path] + digests[path] for path in chosen), *known)
        splits = tuple(dict.fromkeys(split_of.values()))
        Preparation(name, texts, splits, spec, vocabulary).write(ready)
    return stored(name, ready, spec, files)


def _spec(unit: Unit, min_count: int, unknown: bool, vocabulary: Vocabulary | None) -> TokenizerSpec:
    if unit == "words":
        if vocabulary is not None:
            return word_spec(vocabulary)
        first = (EOS, UNKNOWN) if min_count > 1 else (EOS,)
        return TokenizerSpec(unit, after=(EOS,), first=first, unknown=UNKNOWN, min_count=min_count)
    if unknown and vocabulary is None:
        return TokenizerSpec(unit, first=(UNKNOWN,), unknown=UNKNOWN, min_count=min_count)
    return TokenizerSpec(unit)


def from_bytes(name: str, text: bytes) -> Corpus:
    """Return a corpus whose tokens are bytes: 90 % to train, 5 % to validate, the rest to test."""
    if not text:
        raise ValueError(f"{name} must hold text, got 0 bytes")
    tokens = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    return cut(name, tokens, vocab_size=256, files={"whole": (name,)})


def from_file_as_bytes(path: Path | str) -> Corpus:
    """Return a file of yours as a corpus of bytes, whatever its encoding; nothing is written to disk."""
    path = Path(path)
    with as_plain_file(path) as plain, naming_read_errors(path):
        text = plain.read_bytes()
    return from_bytes(path.name, text)


def embedded() -> Corpus:
    """Return the source of the running Python's standard library: some 11 MB, on every machine.

    The files come in the order of their paths. Tests, installed packages, and the files that the build of
    this Python wrote about itself are left out. Another Python version has another text, so results name
    its digest.
    """
    library = Path(sysconfig.get_path("stdlib"))
    without = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
    files: dict[str, Path] = {}
    for folder, inner, names in os.walk(library):
        inner[:] = [name for name in inner if name not in without]  # the others are not walked
        for path in (Path(folder, name) for name in names if name.endswith(".py")):
            files[path.relative_to(library).as_posix()] = path
    modules = [name for name in sorted(files) if not name.startswith(("_sysconfigdata", "config-"))]
    return from_bytes("Python's standard library", b"\n".join(files[name].read_bytes() for name in modules))
