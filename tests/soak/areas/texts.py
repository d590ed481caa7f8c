"""Texts of one's own, whatever they hold and however they lie there, and the cache of their tokens."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from soak import generators
from soak.attempt import Attempt, call, outcome, wrong_with
from soak.world import SMALL, UNITS, World

from minitxl.data import corpora
from minitxl.data.corpus import Corpus

NAME = "text files, data cache"
PIECES = (
    *(
        b"to be or not to be ",
        b"\n",
        b"\r\n",
        b"\n\n\n",
        b" ",
        b"\t",
        b"\0",
        b"\xff",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
    ),
    *(
        "é".encode(),
        "日本語".encode(),
        "😀".encode(),
        "\u2028".encode(),
        b"\x1b[2J",
        b"<unk>",
        b"<eos>",
        b"<S>",
    ),
    *(b"a" * 3000, b"\x85", "\u0301".encode(), b"word " * 40, bytes(range(256))),
)
NAMES = (
    *("a.train.txt", "a.valid.txt", "a.test.txt", "b.test.txt", "train.txt", "valid.txt", "test.txt"),
    *("train/a", "valid/a", "test/a", "notes", ".hidden", "a b", "é.txt", "TRAIN.txt", "dev.txt"),
)


def attempt(draw: Random, world: World, place: Path) -> Attempt:
    """Read a text, train on it, or read it again from a damaged cache."""
    kinds: list[Callable[[Random, World, Path], Attempt]] = [_read, _command, _cached, _changed_while_read]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINITXL_DATA", str(place / "data"))
        return draw.choices(kinds, weights=[4, 2, 3, 1])[0](draw, world, place)


def _text(draw: Random) -> bytes:
    if draw.random() < 0.3:
        return draw.choice(
            [b"", b"x", b"\n", b" \n \n", draw.randbytes(200), b"\xff\xfe" + "to be".encode("utf-16le")]
        )
    usual = [b"to be or not to be that is the question \n"] * draw.randrange(30)
    pieces = usual + draw.choices(PIECES, k=draw.randrange(4))
    draw.shuffle(pieces)
    return b"".join(pieces)


def _laid_out(draw: Random, place: Path) -> tuple[Path, str]:
    """Return a file or a folder with texts, and what it is."""
    path = place / "text"
    if draw.random() < 0.6:
        path.write_bytes(_text(draw))
        given = repr(path.read_bytes()[:2000])
        return path, (generators.odd_file(draw, path) if draw.random() < 0.2 else given)
    path.mkdir()
    for name in draw.sample(NAMES, draw.randrange(5)):
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_bytes(_text(draw))
        if draw.random() < 0.1:
            generators.odd_file(draw, path / name)
    files = [file.relative_to(path).as_posix() for file in path.rglob("*") if not file.is_dir()]
    return path, f"a folder with {', '.join(files) or 'nothing'}"


def _corpus(path: Path, unit: str, *, unknown: bool) -> Corpus:
    if path.is_dir():
        return corpora.from_folder(path, unit, unknown=unknown)  # type: ignore[arg-type]
    return corpora.from_files([path], unit, unknown=unknown)  # type: ignore[arg-type]


def _read(draw: Random, world: World, place: Path) -> Attempt:
    """What is read is what was written."""
    path, given = _laid_out(draw, place)
    unit, unknown = draw.choice(UNITS), draw.random() < 0.2
    result = _outcome(lambda: _corpus(path, unit, unknown=unknown), path, unit, unknown=unknown)
    wrong, came_out, refused = result
    return Attempt(f"corpora.from_…({path}, {unit!r}, unknown={unknown})", given, came_out, wrong, refused)


def _outcome(
    read: Callable[[], Corpus], path: Path, unit: str, *, unknown: bool = False
) -> tuple[str, str, bool]:
    """Return what is wrong with how a text is read, what came out, and whether it was refused."""
    wrong, corpus, refused = outcome(read)
    if wrong or not isinstance(corpus, Corpus):
        return wrong, str(corpus), refused
    if int(corpus.whole.max()) >= corpus.vocab_size:
        return "silent: tokens beyond the vocabulary", corpus.summary(), False
    if not path.is_file() or unit == "words" or unknown:
        return "", corpus.summary(), False
    ids = corpus.whole.tolist()
    content = bytes(ids) if unit == "bytes" else "".join(corpus.tokenizer.decode(ids)).encode()
    same = content == path.read_bytes()
    return "" if same else "silent: another text than the file's", repr(content[:500]), False


def _command(draw: Random, world: World, place: Path) -> Attempt:
    """A training on the text, or a score of it."""
    path, given = _laid_out(draw, place)
    unit = draw.choice(UNITS)
    if draw.random() < 0.6:
        words = ["train", place / "run", "--text", path, "--unit", unit, *SMALL]
        words += ["--unknown"] if draw.random() < 0.2 else []
    else:
        words = ["evaluate", world.run(unit), "--text", path]
    said = call(words)
    wrong = wrong_with(said)
    if not wrong and said.code and (place / "run").exists():
        wrong = "lost: refused, and the run's folder was made"
    return Attempt(f"minitxl {' '.join(map(str, words))}", given, str(said), wrong, bool(said.code))


def _cached(draw: Random, world: World, place: Path) -> Attempt:
    """A cache that was damaged is refused by the name of its file, or not used.

    A flipped bit inside of the tokens is not looked for: it takes reading all of them, and a run does so
    where it goes on.
    """
    unit = draw.choice(UNITS)
    _corpus(world.text, unit, unknown=False)
    files = sorted(path for path in (place / "data").rglob("*") if path.is_file())
    path = draw.choice(files)
    kind = draw.choice(["odd", "gone", "noise", "cut", "header"])
    content = path.read_bytes()
    if kind == "odd":
        generators.odd_file(draw, path)
    elif kind == "gone":
        path.unlink()
    elif kind == "noise":
        path.write_bytes(generators.noise(draw))
    elif kind == "cut":
        path.write_bytes(content[: draw.randrange(len(content))])
    else:
        place_in_header = draw.randrange(min(100, len(content)))
        flipped = content[place_in_header] ^ (1 << draw.randrange(8))
        path.write_bytes(content[:place_in_header] + bytes([flipped]) + content[place_in_header + 1 :])
    wrong, came_out, refused = _outcome(lambda: _corpus(world.text, unit, unknown=False), world.text, unit)
    tried = f"corpora.from_files([{world.text}], {unit!r})"
    return Attempt(tried, f"{path.name}, {kind}", came_out, wrong, refused)


def _changed_while_read(draw: Random, world: World, place: Path) -> Attempt:
    """A text that grows between two looks at it is refused, and read right the next time."""
    path, unit = place / "text", draw.choice(UNITS)
    path.write_bytes(world.text.read_bytes()[: draw.randrange(100, 3000)])
    digest = corpora.sha256_of

    def grown(*what: Path | str) -> str:
        value = digest(*what)  # type: ignore[arg-type]
        path.write_bytes(path.read_bytes() + b"and more \n")
        return value

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpora, "sha256_of", grown)
        wrong, came_out, refused = _outcome(lambda: _corpus(path, unit, unknown=False), path, unit)
    if not wrong and not refused:
        wrong = "silent: a text that changed was accepted"
    if not wrong:
        wrong, again, _ = _outcome(lambda: _corpus(path, unit, unknown=False), path, unit)
        came_out += f"\nand then: {again}"
    tried = f"corpora.from_files([{path}], {unit!r})"
    return Attempt(tried, "a text that grows", came_out, wrong, refused)
