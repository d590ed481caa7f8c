"""The splits of a text of one's own: which files are training, validation and test text."""

import re
from collections.abc import Iterable, Sequence
from os.path import commonpath
from pathlib import Path
from typing import Literal, NamedTuple

Split = Literal["train", "valid", "test", "whole"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
NAMED: dict[str, Split] = {
    "train": "train",
    "training": "train",
    "valid": "valid",
    "validation": "valid",
    "val": "valid",
    "dev": "valid",
    "test": "test",
}
"""Words in the names of files and folders that name a split."""
TRAINING, HELD_OUT = (
    re.compile(rf"(?<![a-z])(?:{words})(?:_?(?:set|data|text))?(?![a-z])")
    for words in ("train(?:ing)?", "valid(?:ation)?|val|dev|test(?:ing)?|eval(?:uation)?|held[ _-]?out")
)
"""Words in the names of a text that is split, also where ``splits_of`` can not tell which split is which."""
LISTED = 6
"""Number of file names that a message lists at most."""


class Named(NamedTuple):
    """The split that a file's name says, and the name without that word."""

    split: Split
    pattern: str


def splits_of(paths: Sequence[Path], *, folder: bool) -> dict[Path, Split]:
    """Return the split of each file, or "whole" for all of them where no name says one.

    The splits are three files that are named alike but for a word, as ptb.train.txt, ptb.valid.txt and
    ptb.test.txt, or the files in three folders with such names.

    Args:
        paths: the files.
        folder: whether they are all that a folder holds. A single file that is given by its path is a whole,
            whatever its name.

    Raises:
        ValueError: where the names say that the text is split, and the files do not fit.
    """
    if not paths:
        raise ValueError("a corpus must be made of 1 file or more, got 0")
    if len(paths) == 1 and not folder:
        return dict.fromkeys(paths, "whole")
    base = Path(commonpath([path.parent for path in paths]))
    inside = {path: path.relative_to(base) for path in paths}
    by_folder = {
        path: NAMED[name.parts[0].lower()]
        for path, name in inside.items()
        if len(name.parts) > 1 and name.parts[0].lower() in NAMED
    }
    if len(by_folder) == len(paths) and {*by_folder.values()} == {*SPLITS}:
        return by_folder
    named = {path: word for path, name in inside.items() if (word := _named(name)) is not None}
    splits = {path: word.split for path, word in named.items()}
    patterns = {word.pattern for word in named.values()}
    if len(named) == len(paths) == len(SPLITS) and {*splits.values()} == {*SPLITS} and len(patterns) == 1:
        return splits
    # From here on no way of naming the splits fits. If names nevertheless say that the text is split, refuse.
    alike = any(
        len({word.split for word in named.values() if word.pattern == pattern}) > 1 for pattern in patterns
    )
    trains = any(NAMED.get(word) == "train" for path in paths for word in path.name.lower().split("."))
    foldered = {*by_folder.values()}
    names = [name.as_posix().lower() for name in inside.values()]
    halves = [{name for name in names if kind.search(name)} for kind in (TRAINING, HELD_OUT)]
    named_as_split = halves[0] - halves[1] and halves[1] - halves[0]
    alone = len(paths) == 1 and halves[0]
    if alike or trains or named_as_split or alone or (len(foldered) > 1 and "train" in foldered):
        raise ValueError(
            f"{base} must hold one file for each of train, valid and test, named alike but for that word, "
            f"and no other, since names say that it is split; got {listed(map(str, sorted(inside.values())))}"
        )
    return dict.fromkeys(paths, "whole")


def listed(names: Iterable[str]) -> str:
    """Return the first names and how many more there are."""
    names = list(names)
    more = len(names) - LISTED
    return ", ".join(names[:LISTED]) + (f" and {more:,} more" if more > 0 else "")


def _named(path: Path) -> Named | None:
    words = re.split(r"([./\-_])", path.as_posix())
    indices = [index for index, word in enumerate(words) if word.lower() in NAMED]
    if len(indices) != 1:
        return None
    (index,) = indices
    return Named(NAMED[words[index].lower()], "".join([*words[:index], "{}", *words[index + 1 :]]))
