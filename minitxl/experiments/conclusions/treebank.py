"""The conclusions of the experiment on the Penn Treebank."""

from collections.abc import Callable, Mapping
from itertools import permutations

from minitxl.experiments.conclusions.comparisons import Data, apart, read_with


def _read(data: Data, system: str, mem_len: int) -> Data:
    return read_with(data["systems"], system, mem_len=mem_len, measured="perplexity")


def _longer(data: Data, mem_len: int) -> float:
    """Return test perplexity of the longer training, read with a memory of this length."""
    (row,) = (row for row in data["preset"]["by_memory"] if row["mem_len"] == mem_len)
    return float(row["perplexity"])


def _lower(one: Data, other: Data) -> bool:
    return all(mine < theirs for mine, theirs in zip(one["seeds"], other["seeds"], strict=True))


TREEBANK: dict[str, Mapping[str, Callable[[Data], bool]]] = {
    "ptb": {
        "each seed of Transformer-XL with memory is ahead of each of XL without, of Shaw and of absolute": (
            lambda data: all(
                apart(data["systems"]["xl_memory"]["trained"], data["systems"][name]["trained"])
                for name in ("xl", "shaw_memory", "absolute", "absolute_memory")
            )
        ),
        "it is not told apart from rotary, nor from the LSTM at a rate of its own: their seeds overlap": (
            lambda data: (
                not any(
                    apart(*pair)
                    for name in ("rotary_memory", "lstm")
                    for pair in permutations(data["systems"][one]["trained"] for one in ("xl_memory", name))
                )
            )
        ),
        "memory helps XL and hurts absolute positions, each read as trained, in every seed": lambda data: (
            _lower(data["systems"]["xl_memory"]["trained"], data["systems"]["xl"]["trained"])
            and _lower(data["systems"]["absolute"]["trained"], data["systems"]["absolute_memory"]["trained"])
        ),
        "with the same memory at the test, XL trained with one is ahead of XL without, in every seed": (
            lambda data: _lower(_read(data, "xl_memory", data["mem_len"]), _read(data, "xl", data["mem_len"]))
        ),
        "XL trained without memory gains from one, in every seed": lambda data: _lower(
            _read(data, "xl", data["mem_len"]), _read(data, "xl", 0)
        ),
        "a sliding window gives XL without memory nine tenths of that gain or more, in every seed": (
            lambda data: all(
                cut - slid > 0.9 * (cut - remembered) > 0
                for cut, slid, remembered in zip(
                    _read(data, "xl", 0)["seeds"],
                    data["systems"]["xl"]["sliding"]["perplexity"]["seeds"],
                    _read(data, "xl", data["mem_len"])["seeds"],
                    strict=True,
                )
            )
        ),
        "each by a window that slides, XL with memory is ahead of XL without, in every seed": lambda data: (
            _lower(*(data["systems"][name]["sliding"]["perplexity"] for name in ("xl_memory", "xl")))
        ),
        "a memory longer than in training hurts rotary in every seed, and XL in none by a whole word": (
            lambda data: (
                _lower(
                    _read(data, "rotary_memory", data["mem_len"]),
                    _read(data, "rotary_memory", 4 * data["mem_len"]),
                )
                and all(
                    longer - trained < 1
                    for longer, trained in zip(
                        _read(data, "xl_memory", 4 * data["mem_len"])["seeds"],
                        _read(data, "xl_memory", data["mem_len"])["seeds"],
                        strict=True,
                    )
                )
            )
        ),
        "the longer training, read as trained, is below the medium LSTM of Zaremba et al.": lambda data: (
            _longer(data, data["preset_mem_len"]) < data["cited"]["medium_lstm"]["perplexity"]
        ),
        "twice its memory changes it by less than 1, and ten times makes it worse": lambda data: (
            abs(_longer(data, 2 * data["preset_mem_len"]) - _longer(data, data["preset_mem_len"])) < 1
            and _longer(data, 10 * data["preset_mem_len"]) > _longer(data, data["preset_mem_len"]) + 1
        ),
        "cached reading scores as a sliding window does, where positions are relative": lambda data: all(
            abs(slid - cached) < 0.01 * cached
            for name in ("xl_memory", "shaw_memory", "rotary_memory")
            for slid, cached in zip(
                data["systems"][name]["sliding"]["perplexity"]["seeds"],
                data["systems"][name]["trained"]["seeds"],
                strict=True,
            )
        ),
    }
}
