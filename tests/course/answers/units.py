"""Notebook 13b: units of a loss."""

import re
from math import e, exp, log, log2

from minitxl.course.checks import units


def by_nats(bits_per_byte, text):
    return exp(bits_per_byte * log(2) * len(text.encode("utf-8")) / len(text.split()))


def share(text):
    return len(text.encode()) / len(text.split())


ANSWERS = {
    units.check_per_word: {
        "right": [units.solution_per_word, by_nats, lambda bits, text: (2**bits) ** share(text)],
        "wrong": {
            "those are the bits of a word": lambda bits, text: bits * share(text),
            "the perplexity of a byte": lambda bits, text: 2**bits,
            "and not e": lambda bits, text: e ** (bits * share(text)),
            "characters are counted": lambda bits, text: 2 ** (bits * len(text) / len(text.split())),
            "the blanks are left out": lambda bits, text: (
                2 ** (bits * sum(len(word.encode()) for word in text.split()) / len(text.split()))
            ),
            "interchanged": lambda bits, text: 2 ** (bits * len(text.split()) / len(text.encode())),
            "perplexities multiply": lambda bits, text: 2**bits * share(text),
            "the words of the whole text": lambda bits, text: 2 ** (bits * len(text.encode())),
            "perplexities of words are averaged": lambda bits, text: (
                sum(2 ** (bits * len(word.encode())) for word in re.findall(r"\S+\s*", text))
                / len(text.split())
            ),
            "the bits of the whole text": lambda bits, text: bits * len(text.encode()),
            "each word gets one blank": lambda bits, text: (
                2 ** (bits * (len("".join(text.split()).encode()) / len(text.split()) + 1))
            ),
            "one byte too many": lambda bits, text: (
                2 ** (bits * len(f"{text} ".encode()) / len(text.split()))
            ),
            "a blank is kept between two words": lambda bits, text: (
                2 ** (bits * len(" ".join(text.split()).encode()) / len(text.split()))
            ),
            "the bits of a word are doubled": lambda bits, text: 2 * bits * share(text),
            "the blanks at the text's ends": lambda bits, text: (
                2 ** (bits * len(text.strip().encode()) / len(text.split()))
            ),
            "without an argument": lambda bits, text: 2 ** (bits * len(text.encode()) / len(text.split(" "))),
        },
    },
    units.check_bits_per_byte: {
        "right": [
            units.solution_bits_per_byte,
            lambda perplexity, n_tokens, n_bytes: log(perplexity) / log(2) / (n_bytes / n_tokens),
        ],
        "wrong": {
            "bits for each token": lambda perplexity, n_tokens, n_bytes: log2(perplexity),
            "a power is too large": lambda perplexity, n_tokens, n_bytes: (
                log2(pow(perplexity, n_tokens)) / n_bytes
            ),
            "interchanged": lambda perplexity, n_tokens, n_bytes: log2(perplexity) * n_bytes / n_tokens,
            "those are nats": lambda perplexity, n_tokens, n_bytes: log(perplexity) * n_tokens / n_bytes,
            "take its logarithm first": lambda perplexity, n_tokens, n_bytes: perplexity * n_tokens / n_bytes,
            "take the logarithm first": lambda perplexity, n_tokens, n_bytes: log2(
                perplexity * n_tokens / n_bytes
            ),
            "the perplexity of a byte": lambda perplexity, n_tokens, n_bytes: (
                perplexity ** (n_tokens / n_bytes)
            ),
            "of the whole text": lambda perplexity, n_tokens, n_bytes: log2(perplexity) * n_tokens,
        },
    },
}
