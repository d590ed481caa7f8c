"""One attempt to break something: what was tried, what came out, and what is wrong about it."""

import hashlib
import io
import re
import stat
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from minitxl.__main__ import main

RAW = re.compile(
    r"Traceback|\[Errno|<class |<minitxl|object at 0x|'NoneType'|weights_only|dtype=|"
    r"positional argument|subscriptable|has no attribute|list index|__\w+__"
)
"""What a sentence for people does not hold."""
LONGEST = 2000
"""Characters of a sentence, at most; a missing corpus is told with all its files and digests."""


FAULTS = ("traceback", "lost", "silent", "unclear", "slow")
"""Kinds of faults: an error that is no sentence; a file that was lost, changed or left behind; a wrong
answer without a word; a sentence that does not say what was wrong; more time or memory than is allowed."""
COLUMNS = ("answered well", "refused well", *FAULTS)


class TooSlowError(BaseException):
    """Raised in an attempt whose time is over."""


@dataclass(frozen=True)
class Attempt:
    """What was tried, and what came out."""

    tried: str
    """The command or call."""
    given: str = ""
    """The input, where the command alone does not say it."""
    came_out: str = ""
    wrong: str = ""
    """Kind of the fault, one of ``FAULTS``, and what it is; "" where nothing is wrong."""
    refused: bool = False
    """True for an input that was told to be wrong, False for one that was worked with."""

    @property
    def verdict(self) -> str:
        """Column of the table that counts it."""
        return (
            self.wrong.partition(":")[0]
            if self.wrong
            else "refused well"
            if self.refused
            else "answered well"
        )


@dataclass(frozen=True)
class Said:
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str
    error: str = ""
    """The traceback of an error that it did not turn into a sentence."""

    @property
    def sentence(self) -> str:
        """What it said of its failure."""
        return next((line for line in self.err.splitlines() if line.startswith("minitxl: ")), "")

    def __str__(self) -> str:
        return f"exit code {self.code}\n{self.out[-2000:]}\n{self.err[-2000:]}\n{self.error[-3000:]}"


def call(words: Sequence[object], *, stdout: io.TextIOBase | None = None) -> Said:
    """Run a command in this process, which prints to ``stdout`` if it is given."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    code, error = 0, ""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", out if stdout is None else stdout)
        patch.setattr(sys, "stderr", err)
        try:
            main([str(word) for word in words])
        except SystemExit as ending:
            code = ending.code if isinstance(ending.code, int) else 0 if ending.code is None else 1
        except TooSlowError:
            raise
        except BaseException:
            code, error = 1, traceback.format_exc()
    return Said(code, *(stream.buffer.getvalue().decode("utf-8", "replace") for stream in (out, err)), error)


def wrong_with(said: Said, *, named: Sequence[object] = ()) -> str:
    """Return what is wrong with how a command ended: well, or in one sentence and with exit code 2.

    A sentence names one of ``named``, if there are any.
    """
    if said.error or "Traceback" in said.err:
        return "traceback: " + (said.error or said.err).strip().splitlines()[-1]
    if said.code == 0:
        return (
            "silent: a score that is no number"
            if re.search(r"\b(nan|inf) bits|perplexity (nan|inf)\b", said.out)
            else ""
        )
    if said.code != 2:
        return f"unclear: exit code {said.code}"
    if said.err.lstrip().startswith("╭─"):
        return ""  # the box in which the parser of the command line tells a wrong word
    return wrong_sentence(said.sentence, named=named) or (
        "unclear: words after the sentence"
        if not said.err.strip().splitlines()[-1].startswith("minitxl: ")
        else ""
    )


def wrong_sentence(sentence: str, *, named: Sequence[object] = ()) -> str:
    """Return what is wrong with a sentence that tells a failure."""
    words = sentence.removeprefix("minitxl: ")
    if not words.strip():
        return "unclear: no sentence"
    if len(words) > LONGEST or "\n" in words:
        return f"unclear: no sentence, but {len(words)} characters in {words.count(chr(10)) + 1} lines"
    if raw := RAW.search(re.sub(r"\S*/\S*", "", words)):  # a path may have any name
        return f"unclear: the sentence has the raw {raw[0]!r}"
    if named and not any(str(name) in words for name in named):
        return f"unclear: the sentence names none of {', '.join(map(str, named))}"
    return ""


def outcome(call_it: Callable[[], Any], *, named: Sequence[object] = ()) -> tuple[str, object, bool]:
    """Return what is wrong with how a call ended, what came out, and whether it was refused."""
    try:
        return "", call_it(), False
    except ValueError as error:
        return wrong_sentence(str(error), named=named), str(error), True
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        return f"traceback: {told}", traceback.format_exc(), False


def tree(folder: Path) -> dict[str, str]:
    """Return what lies in a folder, by its path inside: kind, and digest of a file's content."""
    return {path.relative_to(folder).as_posix(): _content(path) for path in sorted(folder.rglob("*"))}


def changes(before: dict[str, str], after: dict[str, str], *, but: str = r"$^") -> str:
    """Return which files differ between two trees, but for paths that match ``but``; "" if none does."""
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    told = [
        f"{name} {'is lost' if name not in after else 'is new' if name not in before else 'is changed'}"
        for name in names
        if not re.search(but, name)
    ]
    return f"lost: {', '.join(told)}" if told else ""


def _content(path: Path) -> str:
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        return f"link to {path.readlink()}"
    if not stat.S_ISREG(status.st_mode):
        return stat.filemode(status.st_mode)
    if status.st_size > 10**8:
        return f"{status.st_size} bytes"
    return hashlib.sha256(path.read_bytes()).hexdigest()
