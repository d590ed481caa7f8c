"""Notebook 13b: the longest copied piece."""

from difflib import SequenceMatcher

from minitxl.course.checks import copies


def by_sizes(text, source):
    for size in range(len(text), 0, -1):
        for begin in range(len(text) - size + 1):
            if text[begin : begin + size] in source:
                return text[begin : begin + size]
    return ""


def by_difflib(text, source, autojunk=False):
    found = SequenceMatcher(None, text, source, autojunk=autojunk).find_longest_match()
    return text[found.a : found.a + found.size]


def by_one_character(text, source):
    best = ""
    for begin in range(len(text)):
        longer = text[begin : begin + len(best) + 1]
        if len(longer) > len(best) and longer in source:
            best = longer
    return best


def without_an_end(text, source):
    begin, size = 0, 0
    for place in range(len(text)):
        while text[place : place + size + 1] in source:
            begin, size = place, size + 1
    return text[begin : begin + size]


def by_pieces(text, source, *, last=False, until=1):
    pieces = [text[a:b] for a in range(len(text)) for b in range(a + 1, len(text) + until)]
    pieces = [piece for piece in pieces if piece in source]
    return max(reversed(pieces) if last else pieces, key=len, default="")


ANSWERS = {
    copies.check_longest_copy: {
        "right": [by_sizes, by_difflib, by_pieces],
        "wrong": {
            "that is the length": lambda text, source: len(by_sizes(text, source)),
            "at the beginning of the text alone": lambda text, source: next(
                (text[:size] for size in range(len(text), 0, -1) if text[:size] in source), ""
            ),
            "at the beginning of source alone": lambda text, source: next(
                (source[:size] for size in range(len(source), 0, -1) if source[:size] in text), ""
            ),
            "whole words alone": lambda text, source: max(
                [word for word in text.split() if word in source], key=len, default=""
            ),
            "take the first": lambda text, source: by_pieces(text, source, last=True),
            "the text's last character is missed": lambda text, source: by_pieces(text, source, until=0),
            "with while in place of if": by_one_character,
            "autojunk=False": lambda text, source: by_difflib(text, source, autojunk=True),
            "does a while loop go on for ever": without_an_end,
            "capitals count": lambda text, source: by_sizes(text.lower(), source.lower()),
            "several blanks are taken for one": lambda text, source: by_sizes(
                " ".join(text.split()), " ".join(source.split())
            ),
            "you returned ''": lambda text, source: "",
        },
    },
}
