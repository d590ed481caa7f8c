"""Words as people write them: the corpora hold "do n't" and "1 @,@ 000", and a reader wants don't and 1,000.

The Penn Treebank splits off endings that an apostrophe begins, such as 's, and signs of money and percent;
WikiText puts marks of punctuation apart, and @ around those within a word or a number. A text of one's own is
cut at white space alone, so its words are written with a space between them.
"""

import re
from collections.abc import Iterable, Iterator

from minitxl.data.tokenizer import Tokenizer

CUT_OFF = frozenset(("'s", "n't", "'re", "'ve", "'ll", "'d", "'m"))
"""Ends of words; a vocabulary that holds one of the first two was cut so."""
WITHIN = {"@-@": "-", "@,@": ",", "@.@": "."}
"""What stands within a word or a number."""
CLOSING = CUT_OFF | frozenset((",", ".", ";", ":", "!", "?", ")", "]", "}", "%", "'", "''", "…"))
"""Words without a space before them."""
OPENING = frozenset(("(", "[", "{", "$", "£", "€", "``"))
"""Words without a space behind them."""
QUOTES = {"``": '"', "''": '"'}
"""The Treebank's marks of quotation, as they are written."""

PARTS = re.compile(r"n't\b|'(?:s|re|ve|ll|d|m)\b|[,;:!?()\[\]{}%$£€\"]|\.$")
"""What is cut off a word that the vocabulary lacks."""


def is_cut(tokenizer: Tokenizer) -> bool:
    """Return True if the vocabulary is of words whose ends and punctuation stand apart."""
    vocabulary = tokenizer.vocabulary
    return (
        tokenizer.unit == "words"
        and vocabulary is not None
        and not vocabulary.ids.keys().isdisjoint({"'s", "n't", *WITHIN})
    )


def cut(text: str, tokenizer: Tokenizer) -> str:
    """Return a text with ends and punctuation of words apart, where the vocabulary has them so.

    A word that the vocabulary holds as it is, as "u.s.", stays whole.
    """
    if tokenizer.vocabulary is None or not is_cut(tokenizer):
        return text
    known = tokenizer.vocabulary.ids
    return re.sub(r"\S+", lambda word: word[0] if word[0] in known else PARTS.sub(r" \g<0> ", word[0]), text)


def joined(pieces: Iterable[str]) -> Iterator[str]:
    """Yield the pieces that ``Tokenizer.decode`` yields of words, joined as people write them.

    >>> "".join(joined(["it ", "is ", "n't ", "(", "a ", "well ", "@-@ ", "known ", ") ", "$ ", "5 ", ". "]))
    "it isn't (a well-known) $5."
    """
    space, quoted = "", False
    for piece in pieces:
        word = piece.removesuffix(" ")
        if word in ("", "\n"):
            yield word
            space, quoted = ("", False) if word else (space, quoted)
        elif word in WITHIN:
            yield WITHIN[word]
            space = ""
        elif word in CLOSING or (word == '"' and quoted):
            yield QUOTES.get(word, word)
            space, quoted = " ", quoted and word != '"'
        else:
            yield space + QUOTES.get(word, word)
            space, quoted = "" if word in OPENING or word == '"' else " ", quoted or word == '"'
