"""Comparisons that the conclusions of results are made of."""

from collections.abc import Mapping
from statistics import mean
from typing import Any

Data = Mapping[str, Any]

SHARP = 0.6
"""Share of its weight that a head gives to one distance, if it is said to look there."""


def rows_by_label(data: Data) -> dict[str, Any]:
    """Return the rows of the systems by label."""
    return {row["label"]: row for row in data["systems"]}


def relay_adds_up(data: Data, row: Data, seed: Data, offset: int) -> bool:
    """Return whether a head of layer 2 looks at a state where one of layer 1 looks on, to the right token."""
    return any(
        second + first == row["distance"]
        for second in _looks(seed, 1, offset)
        for first in _looks(seed, 0, (offset - second) % data["seg_len"])
    )


def _looks(seed: Data, layer: int, offset: int) -> list[int]:
    """Return how far back the sharp heads of a layer look from an offset."""
    heads = zip(seed["distance"][layer], seed["weight"][layer], strict=True)
    return [distance[offset] for distance, weight in heads if weight[offset] > SHARP]


def apart(lower: Data, higher: Data) -> bool:
    """Return True if every seed of one is below every seed of the other."""
    return bool(max(lower["seeds"]) < min(higher["seeds"]))


def read_with(systems: Data, name: str, *, mem_len: int, measured: str) -> Data:
    """Return what was measured of a system where it is read with a memory of this length."""
    found: Data = next(row[measured] for row in systems[name]["by_memory"] if row["mem_len"] == mem_len)
    return found


def full_window(data: Data, label: str) -> Data:
    """Return bits where every target has the attention length of training."""
    bits: Data = rows_by_label(data)[label]["trained"]["bits"]
    return bits


def bits_as_cut(data: Data, label: str) -> Data:
    """Return bits as the text was cut in training: the mean over the offsets of a segment, by seed."""
    by_seed = zip(*(one["seeds"] for one in rows_by_label(data)[label]["bits_by_offset"]), strict=True)
    return {"seeds": [mean(offsets) for offsets in by_seed]}


def longer_recl(recl: Data, model: str, other: str, share: str) -> bool:
    """Return True if in every seed one model's RECL is longer than the other's in its group."""
    pairs = zip(recl[model][share], recl[other][share], strict=True)
    return all(one["tokens"] > two["tokens"] for one, two in pairs)


def cost_of_change(data: Data, system: str, how: str, ages: list[int]) -> Data:
    """Return the bits that changing memory of these ages costs."""
    rows = data["changes"][system]
    bits: Data = next(row["bits"] for row in rows if (row["how"], row["ages"]) == (how, ages))
    return bits


def efficiency_of_most(data: Data, link: str) -> float:
    """Return the efficiency without overlap at the number of GPUs of the large model."""
    rows = data["presets"]["wikitext103-large"]["scaling"]["assumed"][link]
    efficiency: float = rows[-1]["apart"]["efficiency"]
    return efficiency
