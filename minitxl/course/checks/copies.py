"""Checks of notebook 13b: the longest piece that two texts share, and texts whose words are mixed."""

from collections import Counter
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

from minitxl.course.checker import Function, Verdict, judge
from minitxl.experiments.samples import longest_copy


def check_longest_copy(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(text, source)``, which gives the longest piece of text that stands in source."""
    mistakes: dict[str, Function | Sequence[Function]] = {
        "that is the length: return the piece itself": lambda text, source: len(longest_copy(text, source)),
        "it is looked for at the beginning of the text alone: a piece may begin anywhere": (
            lambda text, source: _longest(text, lambda piece, begin: piece in source and begin == 0)
        ),
        "it is looked for at the beginning of source alone: piece in source": lambda text, source: _longest(
            text, lambda piece, begin: source.startswith(piece)
        ),
        "whole words alone are compared: a piece may begin and end within a word, and hold blanks": (
            lambda text, source: max((word for word in text.split() if word in source), key=len, default="")
        ),
        "of several that are equally long, take the first: replace it only where the new one is longer": (
            lambda text, source: longest_copy(text[::-1], source[::-1])[::-1]
        ),
        "a piece that ends with the text's last character is missed: text[begin:end] ends before end, so "
        "end goes up to len(text)": lambda text, source: longest_copy(text[:-1], source),
        "a piece has no gaps: its characters stand side by side in both": _with_gaps,
        "capitals count: a and A are two characters": lambda text, source: longest_copy(
            text.lower(), source.lower()
        ),
        "a piece grows by one character at each beginning, and no more: try again as long as the longer "
        "piece is found, with while in place of if": [
            _grown_by_one,
            lambda text, source: _grown_by_one(text, source, past_the_end=True),
        ],
        "several blanks are taken for one: a piece has the blanks of both": lambda text, source: longest_copy(
            " ".join(text.split()), " ".join(source.split())
        ),
        "difflib leaves out characters that are frequent in a source of 200 or more: give SequenceMatcher "
        "autojunk=False": _without_frequent,
        "that is the first piece found: go on, a longer one may follow": lambda text, source: next(
            (piece for piece in _grown(text, source) if piece), ""
        ),
    }
    cases = [
        ("xxabcdyabz", "..abcd..yab.."),
        ("the last two: ab cd", "cd and ab"),
        ("xyz", "abc"),
        ("One two One", "one two three two One"),
        ("a piece of a text", "no piece of that text"),
        ("abxcd", "cd ab"),
        ("two  blanks", "two blanks and two  blank"),
        ("it began to rain", "rain or shine, " * 12 + "and then it began to snow"),
    ]
    cases = [(text, Source(source)) for text, source in cases]
    returned_pieces = list[str]()

    def answered(text: str, source: str) -> Any:
        """Tell a function that returns None where nothing is shared from one that never returns."""
        piece = attempt(text, source)
        if piece is None and returned_pieces:
            raise ValueError('where nothing is shared, return the empty text, ""')
        if isinstance(piece, str):
            returned_pieces.append(piece)
        return piece

    return judge(
        answered if callable(attempt) else attempt,
        reference=longest_copy,
        cases=cases,
        mistakes=mistakes,
        praise="the longest piece that stands in both, wherever it begins",
        names=["text", "source"],
    )


def check_mixed(mixed: Any, texts: Sequence[str]) -> Verdict:
    """Check ``mixed``: for each of the texts one that has its words, in another order."""
    if mixed is None:
        return Verdict.of_nothing()
    if not isinstance(mixed, Sequence) or isinstance(mixed, str):
        return Verdict(False, f"a list of texts, one for each in people, got {type(mixed).__name__}")
    if len(mixed) != len(texts):
        return Verdict(False, f"a text for each of the {len(texts)} in people, got {len(mixed)}")
    if all(len(text.split()) < 2 for text in texts):
        return Verdict(
            False, "people's texts have no blanks, so no words to mix: go on without this exercise"
        )
    n_pair = n_kept_pair = 0
    for number, (one, text) in enumerate(zip(mixed, texts, strict=True)):
        if reason := _not_mixed(one, text):
            return Verdict(False, f"text {number}: {reason}")
        pairs, mixed_pairs = (Counter(pairwise(words.split())) for words in (text, one))
        n_pair += pairs.total()
        n_kept_pair += (pairs & mixed_pairs).total()
    if n_kept_pair > n_pair / 2:
        return Verdict(
            False, "most words stand before the same word as in the texts: mix the words of each text"
        )
    if all(one.split() == text.split()[::-1] for one, text in zip(mixed, texts, strict=True)):
        return Verdict(False, "the words are in the reverse order: mix them by random.sample")
    if all(one.split() == sorted(text.split()) for one, text in zip(mixed, texts, strict=True)):
        return Verdict(False, "the words are sorted, so equal ones stand together: mix them by random.sample")
    return Verdict(True, "the words of each text, and another order")


def _not_mixed(one: Any, text: str) -> str | None:
    """Return why ``one`` has not the words of ``text``; None if it has them."""
    if not isinstance(one, str):
        return f"join the words to a text, with blanks between them, got {type(one).__name__}"
    if Counter(one.split()) == Counter(text.split()):
        return None
    if Counter(one) == Counter(text):
        return "the characters are mixed: mix the words, each of them whole"
    if Counter("".join(one.split())) == Counter("".join(text.split())):
        return "the words are run together or cut: put a blank between two words"
    if set(one.split()) <= set(text.split()):
        return (
            "some words are there more or less often than in the text: draw each once, as random.sample does"
        )
    return "it has other words than the text"


MOST_LOOKS = 100_000
"""A loop over all pieces of a case looks into the source less often; one without an end does more often."""


class Source(str):
    """A text that raises an error when it is asked very often whether a piece stands in it."""

    looks = 0

    def __contains__(self, piece: object) -> bool:
        self.looks += 1
        if self.looks > MOST_LOOKS:
            raise RuntimeError(
                f"more than {MOST_LOOKS:,} looks into source: does a while loop go on for ever? "
                "text[begin:end] stays the same once end is beyond len(text), so let the loop end there"
            )
        return super().__contains__(str(piece))


def _grown_by_one(text: str, source: str, *, past_the_end: bool = False) -> str:
    longest = ""
    for begin in range(len(text)):
        end = begin + len(longest) + 1
        if (past_the_end or end <= len(text)) and text[begin:end] in source:
            longest = text[begin:end]
    return longest


def _without_frequent(text: str, source: str) -> str:
    found = SequenceMatcher(None, text, source).find_longest_match()
    return text[found.a : found.a + found.size]


def _longest(text: str, found: Callable[[str, int], bool]) -> str:
    """Return the first of the longest pieces for which ``found(piece, begin)`` is true."""
    ends = [(begin, end) for begin in range(len(text)) for end in range(begin + 1, len(text) + 1)]
    pieces = [text[begin:end] for begin, end in ends if found(text[begin:end], begin)]
    return max(pieces, key=len, default="")


def _grown(text: str, source: str) -> list[str]:
    """Return for each place of the text the longest piece that begins there and stands in source."""
    rests = (text[begin:] for begin in range(len(text)))
    return [_longest(rest, lambda piece, begin: begin == 0 and piece in source) for rest in rests]


def _with_gaps(text: str, source: str) -> str:
    """Return the longest row of characters that stand in both in this order, side by side or not."""
    best = [[""] * (len(source) + 1) for _ in range(len(text) + 1)]
    for i, one in enumerate(text):
        for j, other in enumerate(source):
            best[i + 1][j + 1] = (
                best[i][j] + one if one == other else max(best[i][j + 1], best[i + 1][j], key=len)
            )
    return best[-1][-1]
