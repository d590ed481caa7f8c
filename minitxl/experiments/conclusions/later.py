"""The conclusions of the experiments on the positions that came after Transformer-XL's."""

from collections.abc import Callable, Mapping
from math import inf

from minitxl.experiments.conclusions.comparisons import Data

DISTANCES = ("shaw", "xl", "rotary", "alibi")
BETAS = 0.9, 0.999
"""Factors of Adam's running means, of the gradient and of its square."""


def largest_step(step: float | int) -> float:
    """Return by how many learning rates Adam's step of this number, from 1 on, moves a number at most.

        |m| / √v ≤ (1 - β_1) / (1 - β_1^t) · √((1 - β_2^t) / (1 - β_2) · Σ_k (β_1² / β_2)^k),   k = 0 … t - 1

    Both means are weighted sums over the gradients g_i so far, and the inequality of Cauchy and Schwarz
    bounds the first by the second. They are equal where g_i is in proportion to (β_2 / β_1)^i.
    """
    beta_1, beta_2 = BETAS
    ratio = beta_1**2 / beta_2
    squares = (1 - beta_2**step) / (1 - beta_2) * (1 - ratio**step) / (1 - ratio)
    return (1 - beta_1) / (1 - beta_1**step) * squares**0.5


LARGEST_STEP = largest_step(inf)
"""The greatest of all steps."""


def read_with(rows: list[Data], mem_len: int) -> list[float]:
    """Return bits per character of each seed where a text is read with this memory."""
    seeds: list[float] = next(row["bits"]["seeds"] for row in rows if row["mem_len"] == mem_len)
    return seeds


def best_repair(data: Data, mem_len: int) -> list[str]:
    """Return for each seed the way that reads best with this memory."""
    by_way = {way: read_with(rows, mem_len) for way, rows in data["rotary"].items()}
    seeds = range(len(by_way["as_trained"]))
    return [min(by_way, key=lambda way: by_way[way][seed]) for seed in seeds]


LATER_POSITIONS: dict[str, Mapping[str, Callable[[Data], bool]]] = {
    "later_positions": {
        "for these sizes and steps, memory helps XL, Shaw, rotary and ALiBi in every seed": lambda data: all(
            min(data["gains"][kind]["memory"]["seeds"]) > 0 for kind in DISTANCES
        ),
        "and hurts no positions, absolute ones, and T5's as published": lambda data: all(
            max(data["gains"][kind]["memory"]["seeds"]) < 0 for kind in ("none", "absolute", "t5")
        ),
        "for these sizes and steps, XL reads best of the seven as published, in every seed": lambda data: all(
            min(gain["behind_xl"]["seeds"]) > 0 for kind, gain in data["gains"].items() if kind != "xl"
        ),
        "four times the memory of training helps none, and hurts rotary most in every seed": lambda data: all(
            max(added := [gain["four_times_the_memory"]["seeds"][seed] for gain in data["gains"].values()])
            <= 0
            and min(added) == data["gains"]["rotary"]["four_times_the_memory"]["seeds"][seed]
            for seed in range(len(data["gains"]["rotary"]["four_times_the_memory"]["seeds"]))
        ),
        "XL and ALiBi lose less than a hundredth of a bit by it": lambda data: all(
            min(data["gains"][kind]["four_times_the_memory"]["seeds"]) > -0.01 for kind in ("xl", "alibi")
        ),
        "XL gains most of it without memory in training, and Shaw all of it": lambda data: all(
            (alone := without[0] - without[1]) > (without[0] - trained) / 2 and (kind == "xl" or alone > 0)
            for kind in ("xl", "shaw")
            for seed in range(len(data["gains"][kind]["memory"]["seeds"]))
            for without in [[row["bits"]["seeds"][seed] for row in data["systems"][kind]["by_memory"][:2]]]
            for trained in [data["systems"][f"{kind}_memory"]["by_memory"][1]["bits"]["seeds"][seed]]
        ),
        "first tokens help none, rotary and T5 trained without memory, by less than memory hurts": (
            lambda data: all(
                0 < regained < with_memory - without
                for kind in ("none", "rotary", "t5")
                for regained, without, with_memory in zip(
                    data["gains"][kind]["first_kept_without_memory_in_training"]["seeds"],
                    *(row["bits"]["seeds"] for row in data["systems"][kind]["by_memory"][:2]),
                    strict=True,
                )
            )
        ),
        "first tokens change no kind of distances that had memory in training": lambda data: all(
            max(map(abs, data["gains"][kind]["first_kept"]["seeds"])) < 0.01 for kind in (*DISTANCES, "t5")
        ),
    },
    "position_repairs": {
        "with its table multiplied, memory helps T5 in every seed; as published it hurts": lambda data: (
            max(data["memory_gain"]["t5"]["seeds"]) < 0 < min(data["memory_gain"]["t5_scaled"]["seeds"])
        ),
        "it then reads better than XL with the memory of training and four times it, in every seed": (
            lambda data: all(
                min(data["scaled_before_xl"][f"{times * data['mem_len']}"]["seeds"]) > 0 for times in (1, 4)
            )
        ),
        "and with sixteen times it XL reads better, in every seed": lambda data: (
            max(data["scaled_before_xl"][f"{16 * data['mem_len']}"]["seeds"]) < 0
        ),
        "it learns biases that Adam's steps could not reach as published": lambda data: (
            min(data["learned"]["t5_scaled_memory"]["moved"]["seeds"]) > LARGEST_STEP * data["sum_of_rates"]
        ),
        "as published no bias moves farther than those steps allow": lambda data: (
            max(data["learned"]["t5_memory"]["moved"]["seeds"]) < LARGEST_STEP * data["sum_of_rates"]
        ),
        "with the memory of training, all four ways to read rotary are one": lambda data: all(
            abs(change) < 1e-4
            for way in data["regained"].values()
            for change in way[f"{data['mem_len']}"]["seeds"]
        ),
        "clamped distances read best with longer memories, in every seed": lambda data: all(
            set(best_repair(data, times * data["mem_len"])) == {"clamped"} for times in (4, 16)
        ),
        "and never better than with the memory of training": lambda data: all(
            one > other
            for times in (4, 16)
            for one, other in zip(
                read_with(data["rotary"]["clamped"], times * data["mem_len"]),
                read_with(data["rotary"]["clamped"], data["mem_len"]),
                strict=True,
            )
        ),
        "with four times the memory a raised base regains a part, with sixteen times it loses": lambda data: (
            min((raised := data["regained"]["base_raised"])[f"{4 * data['mem_len']}"]["seeds"])
            > 0
            > max(raised[f"{16 * data['mem_len']}"]["seeds"])
        ),
        "interpolation without training is worse than nothing, in every seed": lambda data: all(
            max(data["regained"]["interpolated"][f"{times * data['mem_len']}"]["seeds"]) < 0
            for times in (4, 16)
        ),
    },
    "far_attention": {
        "XL gives distances beyond training under a third of an even share, in every seed": lambda data: all(
            max(row["far"]["seeds"]) < row["alike"] / 3 for row in _longer(data, "xl_memory")
        ),
        "rotary gives them more than half of it, in every seed": lambda data: all(
            min(row["far"]["seeds"]) > row["alike"] / 2 for row in _longer(data, "rotary_memory")
        ),
        "where they are hidden, rotary reads as with the memory of training, in every seed": lambda data: all(
            abs(hidden - trained) < 0.01
            for hidden, trained in zip(
                data["longer"]["rotary_memory"]["near_bits"]["seeds"],
                data["longer"]["rotary_memory"]["rows"][0]["bits"]["seeds"],
                strict=True,
            )
        ),
        "and XL gains nothing by them, and loses little, in every seed": lambda data: all(
            0 <= bits - hidden < 0.03
            for row in _longer(data, "xl_memory")
            for bits, hidden in zip(
                row["bits"]["seeds"], data["longer"]["xl_memory"]["near_bits"]["seeds"], strict=True
            )
        ),
        "first tokens get no more weight than other tokens in their place, on average": lambda data: all(
            ways["first_kept"]["mean"] < ways["plain"]["mean"] for ways in data["oldest"].values()
        ),
    },
}


def _longer(data: Data, system: str) -> list[Data]:
    """Return what a system does with each memory that is longer than that of training."""
    rows: list[Data] = data["longer"][system]["rows"][1:]
    return rows
