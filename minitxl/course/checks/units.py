"""Checks of notebook 13b: units of a loss, and the predictions."""

import re
from collections.abc import Callable, Sequence
from math import exp, log, log2
from statistics import mean
from typing import Any

from minitxl.course.checker import Function, Verdict, judge
from minitxl.course.predictions import Predictions, Question

predictions = Predictions(
    Question(
        "word",
        "2 bits for each byte, 6 bytes for each word: among how many words is the model as undecided?",
        answer=4096,
        tolerance=1,
        why="six bytes take 6 · 2 = 12 bits, and 2¹² = 4096",
        wrong={
            4: "that is the perplexity of a byte, 2²; a word has six of them, so 4⁶ = 4096 choices",
            12: "those are the bits of a word, 6 · 2; as many equally likely words need 2¹² = 4096",
            24: "perplexities multiply and do not add: 4 choices at each of six bytes are 4⁶ = 4096",
            64: "that is 2⁶, at one bit for each byte; at two it is 2¹² = 4096",
        },
    ),
    Question(
        "short",
        "How much of the next 32 bytes does a model recite after 16 bytes that it knows by heart?",
        answer="less",
        choices=("as much", "less", "nothing"),
        why="16 bytes tell the place, and yet the model recites less: it depends on how the model is asked",
        wrong={
            "as much": "16 bytes tell the place, and yet less is recited: the model had more before that "
            "place when it learned it",
            "nothing": "with source code it recites less than after 64 bytes, and still some: 16 bytes tell "
            "the place",
        },
    ),
    Question(
        "copy",
        "How long is the longest piece of the model's texts that stands in what it read?",
        answer="a word or two",
        choices=("a word or two", "a line", "a page"),
        why="the longest has 18 characters; the model read a seventh of its training text, once",
        wrong={
            "a line": "people copy as much, for they repeat each other; this small model copies a word or "
            "two, 18 characters at most",
            "a page": "a small model that reads a text once cannot keep pages of it: it copies 18 "
            "characters at most",
        },
    ),
    Question(
        "real",
        "Is people's longest such piece shorter or longer?",
        answer="longer",
        choices=("shorter", "longer"),
        why="people repeat each other: the head of a function, an import. Their longest pieces have 29 to 35 "
        "characters, and stand in as much text that the model never read as well",
        wrong={
            "shorter": "people repeat each other: the head of a function, an import. Their longest pieces "
            "have 29 to 35 characters, so a copied line alone is no sign of a recital",
        },
    ),
)


def solution_per_word(bits_per_byte: float, text: str) -> float:
    """Return the perplexity of a word, for a model that needs so many bits for each byte of the text."""
    bits_per_word = bits_per_byte * len(text.encode()) / len(text.split())
    return float(2**bits_per_word)


def check_per_word(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(bits_per_byte, text)``, which gives the perplexity of a word."""

    def ratio(text: str) -> float:
        return len(text.encode()) / len(text.split())

    mistakes: dict[str, Function | Sequence[Function]] = {
        "those are the bits of a word: the perplexity is 2 to the power of them": lambda bits, text: (
            bits * ratio(text)
        ),
        "that is the perplexity of a byte: first take the bits of a word": lambda bits, text: 2**bits,
        "bits are logarithms to the base 2: raise 2, and not e": lambda bits, text: exp(bits * ratio(text)),
        "characters are counted, and the model reads bytes, of which some characters have two or more: "
        "len(text.encode())": lambda bits, text: 2 ** (bits * len(text) / len(text.split())),
        "the blanks are left out: the model predicts them too, so all bytes of the text count": [
            lambda bits, text: 2 ** (bits * len("".join(text.split()).encode()) / len(text.split())),
            lambda bits, text: 2 ** (bits * len("".join(text.split())) / len(text.split())),
        ],
        "first share the bits among the words, and then take 2 to the power of them": lambda bits, text: (
            2 ** (bits * len(text.encode())) / len(text.split())
        ),
        "whole bytes a word are counted: divide by / and not by //": lambda bits, text: (
            2 ** (bits * (len(text.encode()) // len(text.split())))
        ),
        "bytes and words are interchanged: a word has several bytes, so it takes more bits": (
            lambda bits, text: 2 ** (bits / ratio(text))
        ),
        "bits add up, and perplexities multiply: first the bits of a word, then 2 to the power of them": (
            lambda bits, text: 2**bits * ratio(text)
        ),
        "those are the words of the whole text: divide its bits by the number of its words": (
            lambda bits, text: 2 ** (bits * len(text.encode()))
        ),
        "two blanks in a row, or the end of a line, are taken for a word or hide one: text.split() without "
        "an argument": lambda bits, text: 2 ** (bits * len(text.encode()) / len(text.split(" "))),
        "perplexities of words are averaged, so that a few long words decide: average their bits, and take "
        "2 to the power of the mean": lambda bits, text: mean(
            2 ** (bits * len(word)) for word in _words(text)
        ),
        "those are the bits of the whole text: divide them by the number of its words, and take 2 to the "
        "power of that": lambda bits, text: bits * len(text.encode()),
        "each word gets one blank: a text has no blank after its last word, or several after a word. All "
        "bytes of the text count": [
            lambda bits, text: 2 ** (bits * (1 + mean(len(word.encode()) for word in text.split()))),
            lambda bits, text: 2 ** (bits * (1 + mean(len(word) for word in text.split()))),
        ],
        "one byte too many: a blank after the last word counts only if it stands there": lambda bits, text: (
            2 ** (bits * (len(text.encode()) + 1) / len(text.split()))
        ),
        "the blanks at the text's ends are left out: they are bytes as well": lambda bits, text: (
            2 ** (bits * len(text.strip().encode()) / len(text.split()))
        ),
        "a blank is kept between two words and the rest is left out: all bytes of the text count": (
            lambda bits, text: 2 ** (bits * len(" ".join(text.split()).encode()) / len(text.split()))
        ),
        "the bits of a word are doubled: the perplexity is 2 to the power of them": lambda bits, text: (
            2 * bits * ratio(text)
        ),
        "blanks are counted in place of words, and a text has one blank less, or several in a row: "
        "len(text.split())": lambda bits, text: 2 ** (bits * len(text.encode()) / max(1, text.count(" "))),
    }
    texts = (
        "to be or not to be",
        "ein Märchen",
        "def  f(x):\n    return x",
        "word",
        "是 的",
        "  two words \n",
    )
    return judge(
        attempt,
        reference=solution_per_word,
        cases=list(zip((1.0, 1.5, 0.5, 2.0, 0.75, 1.25), texts, strict=True)),
        mistakes=mistakes,
        praise="all bits of the text, blanks included, are shared among its words",
        names=["bits_per_byte", "text"],
    )


def _words(text: str) -> list[bytes]:
    """Return the bytes of each word, the blanks after it included."""
    return [word.encode() for word in re.findall(r"\S+\s*", text)]


def solution_bits_per_byte(perplexity: float, n_tokens: int, n_bytes: int) -> float:
    """Return the bits for each byte of a text that a model reads as so many tokens."""
    return log2(perplexity) * n_tokens / n_bytes


def check_bits_per_byte(attempt: Callable[..., Any]) -> Verdict:
    """Check ``attempt(perplexity, n_tokens, n_bytes)``, which gives the bits for each byte."""
    mistakes: dict[str, Function] = {
        "those are bits for each token: a token has several bytes, which share its bits": (
            lambda perplexity, n_tokens, n_bytes: log2(perplexity)
        ),
        "tokens and bytes are interchanged: all tokens' bits are divided by the number of bytes": (
            lambda perplexity, n_tokens, n_bytes: log2(perplexity) * n_bytes / n_tokens
        ),
        "those are nats: bits are logarithms to the base 2": (
            lambda perplexity, n_tokens, n_bytes: log(perplexity) * n_tokens / n_bytes
        ),
        "a perplexity cannot be shared among bytes: take its logarithm first": (
            lambda perplexity, n_tokens, n_bytes: perplexity * n_tokens / n_bytes
        ),
        "the perplexity is divided before its logarithm is taken: take the logarithm first": (
            lambda perplexity, n_tokens, n_bytes: log2(perplexity * n_tokens / n_bytes)
        ),
        "that is the perplexity of a byte: its logarithm to the base 2 gives the bits": (
            lambda perplexity, n_tokens, n_bytes: perplexity ** (n_tokens / n_bytes)
        ),
        "those are the bits of the whole text: divide them by the number of its bytes": (
            lambda perplexity, n_tokens, n_bytes: log2(perplexity) * n_tokens
        ),
        "those are the bits of a byte where every token is one: multiply by the number of tokens": (
            lambda perplexity, n_tokens, n_bytes: log2(perplexity) / n_bytes
        ),
        "a power is too large for a number of the computer: the logarithm of perplexity ** n_tokens is "
        "n_tokens · log2(perplexity)": lambda perplexity, n_tokens, n_bytes: (
            log2(perplexity**n_tokens) / n_bytes
        ),
    }
    return judge(
        attempt,
        reference=solution_bits_per_byte,
        cases=[(20.0, 1000, 4200), (4096.0, 1, 6), (4.0, 50, 50), (256.0, 7, 9)],
        mistakes=mistakes,
        praise="the same bits of the text, shared among its bytes",
        names=["perplexity", "n_tokens", "n_bytes"],
    )
