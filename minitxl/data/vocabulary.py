"""A vocabulary: symbols, words or characters, in the order of their ids."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from minitxl.files import atomic_write

EOS = "<eos>"


@dataclass(frozen=True)
class Vocabulary:
    """Symbols in the order of their ids, and the one that stands for all others, if there is one."""

    symbols: tuple[str, ...]
    unknown: str | None = None

    def __post_init__(self) -> None:
        if len(self.ids) != len(self.symbols):
            raise ValueError(
                f"a vocabulary must hold each symbol once, got {len(self.symbols)} symbols, "
                f"{len(self.ids)} of them different"
            )
        if self.unknown is not None and self.unknown not in self.ids:
            raise ValueError(f"unknown must be one of the vocabulary's symbols, got {self.unknown}")

    @cached_property
    def ids(self) -> dict[str, int]:
        return {symbol: number for number, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        return len(self.symbols)

    def encode(self, symbols: Iterable[str]) -> list[int]:
        """Ids of symbols; without a symbol for the unknown, an unknown one is a ValueError."""
        if self.unknown is not None:
            ids, unknown = self.ids, self.ids[self.unknown]
            return [ids.get(symbol, unknown) for symbol in symbols]
        try:
            return [self.ids[symbol] for symbol in symbols]
        except KeyError as error:
            raise ValueError(
                f"a text must be made of the vocabulary's {len(self)} symbols, got {error.args[0]!r}"
            ) from None

    def decode(self, ids: Iterable[int]) -> list[str]:
        return [self.symbols[number] for number in ids]

    def write(self, path: Path) -> None:
        """As JSON: the symbols in order, and which stands for the unknown."""
        with atomic_write(path) as temporary:
            described = {"unknown": self.unknown, "symbols": self.symbols}
            temporary.write_text(json.dumps(described, ensure_ascii=False, indent=0), "utf-8")


def from_counts(
    counts: Mapping[str, int],
    *,
    first: tuple[str, ...] = (),
    unknown: str | None = None,
    min_count: int = 1,
) -> Vocabulary:
    """The symbols ``first``, then those counted ``min_count`` times or more, the frequent before the rare.

    Equally frequent ones stand as ``counts`` has them: counted text by text, that is by first
    appearance, as in the original PyTorch code. The released weights know such words by other
    ids, those of Python 2's dictionaries, which only their own vocabulary tells.
    ``unknown`` is dropped where no such symbol comes out.
    """
    kept = [symbol for symbol, count in counts.items() if count >= min_count and symbol not in first]
    symbols = (*first, *sorted(kept, key=lambda symbol: -counts[symbol]))
    return Vocabulary(symbols, unknown if unknown in symbols else None)


def read(path: Path) -> Vocabulary:
    """What ``write`` wrote."""
    try:
        described = json.loads(path.read_text("utf-8"))
        return Vocabulary(tuple(described["symbols"]), described["unknown"])
    except (OSError, json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a vocabulary written by minitxl: {error}") from error
