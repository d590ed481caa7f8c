"""The conclusions of each result: sentences that its data support or not.

A test holds the stored results to them, and ``minitxl figures --check`` smaller ones that it computes anew.
"""

from collections.abc import Callable, Mapping

from minitxl.experiments.conclusions.comparisons import (
    Data,
    apart,
    bits_as_cut,
    cost_of_change,
    efficiency_of_most,
    full_window,
    longer_recl,
    read_with,
    relay_adds_up,
    rows_by_label,
)
from minitxl.experiments.conclusions.later import LATER_POSITIONS
from minitxl.experiments.conclusions.positions import ABSOLUTE_POSITIONS
from minitxl.experiments.conclusions.short_trainings import SHORT_TRAININGS
from minitxl.experiments.conclusions.treebank import TREEBANK


def _helps(data: Data, bits_of: Callable[[Data, str], Data]) -> list[bool]:
    """Return for XL and Shaw whether memory helps in every seed, by the bits that are asked for."""
    systems = (f"{name}, {{}}, full loss" for name in ("XL", "Shaw"))
    return [
        apart(*(bits_of(data, label.format(memory)) for memory in ("memory", "no memory")))
        for label in systems
    ]


Sentences = Mapping[str, Callable[[Data], bool]]

CONCLUSIONS: dict[str, Sentences] = {
    **ABSOLUTE_POSITIONS,
    **LATER_POSITIONS,
    **SHORT_TRAININGS,
    **TREEBANK,
    "dependency": {
        "formula, propagation, perturbation and gradient agree in every case": lambda data: all(
            [row["propagation"]] == [row["formula"]] == row["perturbation"] == row["gradient"]
            for row in data["cases"]
        ),
        "with the stop-gradient no gradient goes beyond the segment": lambda data: all(
            max(row["stopped_gradient"]) < row["seg_len"] for row in data["cases"]
        ),
    },
    "copying": {
        "what one hop reaches is learned": lambda data: all(
            row[update]["1_hop"]["mean"] > 0.95
            for row in data["rows"]
            for update in ("stopped", "flowing")
            if "1_hop" in row[update]
        ),
        "two hops are learned better where the gradient flows through memory": lambda data: all(
            apart(row["stopped"]["2_hop"], row["flowing"]["2_hop"])
            for row in data["rows"]
            if "2_hop" in row["stopped"]
        ),
    },
    "relay_routes": {
        "where a relay is right, two distances add up, and at a dip they do not": lambda data: all(
            (accuracy > 0.9) == relay_adds_up(data, row, seed, offset)
            for row in data["rows"]
            for seed in row["seeds"]
            for offset, accuracy in enumerate(seed["accuracy"])
            if row["hops"][offset] == 2
        ),
    },
    "memory_and_positions": {
        "memory helps with Transformer-XL's positions": lambda data: apart(
            data["xl_memory"]["bits"], data["xl"]["bits"]
        ),
        "memory hurts with absolute positions": lambda data: apart(
            data["absolute"]["bits"], data["absolute_memory"]["bits"]
        ),
        "Transformer-XL gains by reading with memory, also if trained without it": lambda data: (
            apart(read := read_with(data, "xl", mem_len=32, measured="bits"), data["xl"]["bits"])
            and read["mean"] <= data["xl_memory"]["bits"]["mean"]
        ),
    },
    "every_system": {
        "every system beats a bigram model": lambda data: all(
            row["bits"] < data["bigram_bits"] for row in data["systems"]
        ),
    },
    "segment_copying": {
        "without memory, what stands in the segment before is guessed": lambda data: all(
            data["systems"][name]["token_in_segment_before"]["mean"] < 2 * data["chance"]
            for name in ("vanilla", "xl")
        ),
        "with memory it is learned as what stands in the segment is": lambda data: (
            min(data["systems"]["xl_memory"]["token_in_segment_before"]["seeds"]) > 0.95
        ),
    },
    "ablation": {
        "cut as in training, memory helps relative positions": lambda data: all(_helps(data, bits_as_cut)),
        "with a full window for every target, it does not help them in every seed": lambda data: (
            not any(_helps(data, full_window))
        ),
        "memory hurts absolute positions": lambda data: all(
            apart(
                full_window(data, f"absolute, {name}, no memory, {loss} loss"),
                full_window(data, f"absolute, {name}, memory, {loss} loss"),
            )
            for name in ("sinusoidal", "per layer")
            for loss in ("full", "half")
        ),
        "with memory XL beats Shaw": lambda data: apart(
            full_window(data, "XL, memory, full loss"), full_window(data, "Shaw, memory, full loss")
        ),
        "every system trains better on the full loss than on the half": lambda data: all(
            full_window(data, row["label"])["mean"]
            < full_window(data, row["label"].replace("full", "half"))["mean"]
            for row in data["systems"]
            if row["loss"] == "full" and not row["equal_memory"]
        ),
    },
    "short_dependency": {
        "memory helps where no dependency is long, as the text was cut in training": lambda data: apart(
            bits_as_cut(data, "XL, memory, full loss"), bits_as_cut(data, "XL, no memory, full loss")
        ),
        "it helps most at the first target of a segment": lambda data: (
            max(
                gains := [
                    without["mean"] - given["mean"]
                    for given, without in zip(
                        *(
                            rows_by_label(data)[f"XL, {memory}, full loss"]["bits_by_offset"]
                            for memory in ("memory", "no memory")
                        ),
                        strict=True,
                    )
                ]
            )
            == gains[0]
        ),
    },
    "context": {
        "XL with memory uses more context than the LSTM, at every share": lambda data: all(
            longer_recl(data["recl"]["recurrent"], "xl_memory", "lstm", share)
            for share in ("0.1", "0.5", "1.0")
        ),
        "XL uses more context with memory than without, at every share": lambda data: all(
            longer_recl(data["recl"]["attentive"], "xl_memory", "xl", share)
            for share in ("0.1", "0.5", "1.0")
        ),
        "without memory the first target of a segment costs a bit more, with it hardly": lambda data: all(
            (systems[name]["bits_by_offset"][0]["mean"] - systems[name]["bits_by_offset"][-1]["mean"] > 1)
            == cut
            for systems in [data["systems"]]
            for name, cut in (("xl", True), ("absolute", True), ("xl_memory", False), ("shaw_memory", False))
        ),
    },
    "attention_over_memory": {
        "hiding all of memory costs, with XL's positions and with Shaw's": lambda data: all(
            min(cost_of_change(data, system, "hide", [1, data["mem_len"]])["seeds"]) > 0
            for system in ("xl_memory", "shaw_memory")
        ),
        "the youngest states are worth more than all others together": lambda data: (
            cost_of_change(data, "xl_memory", "hide", data["ages"][0])["mean"]
            > sum(cost_of_change(data, "xl_memory", "hide", ages)["mean"] for ages in data["ages"][1:])
        ),
        "the oldest half gets more attention than the second band of ages, and is worth less": lambda data: (
            data["share_by_distance"][-1]["share"]["mean"] > data["share_by_distance"][2]["share"]["mean"]
            and cost_of_change(data, "xl_memory", "hide", data["ages"][-1])["mean"]
            < cost_of_change(data, "xl_memory", "hide", data["ages"][1])["mean"]
        ),
    },
    "samples": {
        "the model writes fewer known words than the text has": lambda data: all(
            row["sample"]["known_words"] / row["sample"]["words"]
            < row["original"]["known_words"] / row["original"]["words"]
            for row in data["samples"]
        ),
        "no sample copies a line or two of the training text": lambda data: all(
            row["sample"]["longest_copy"] < 100 for row in data["samples"]
        ),
    },
    "shaw_clipping": {
        "telling apart one distance alone is far too few": lambda data: apart(
            data["by_clip"][1]["trained"]["bits"], data["by_clip"][0]["trained"]["bits"]
        ),
        "a table as long as training loses most with a longer memory": lambda data: (
            max(
                rows := data["by_clip"],
                key=lambda row: row["longest"]["bits"]["mean"] - row["trained"]["bits"]["mean"],
            )
            is rows[-1]
        ),
    },
    "without_terms": {
        "of the terms, only (b) is missed in every seed": lambda data: all(
            (min(data["missing"][term]["cost"]["seeds"]) > 0) == (term == "b") for term in "abcd"
        ),
    },
    "evaluation_cost": {
        "a sliding window costs more than a memory, and the more the longer": lambda data: (
            1 < data["lengths"][0]["ratio"]["median"] < data["lengths"][-1]["ratio"]["median"]
        ),
        "the measured ratio is at least half of the counted one": lambda data: all(
            row["ratio"]["median"] > row["counted"]["computed"] / 2 for row in data["lengths"]
        ),
    },
    "scaling": {
        "presets run at rates within five times of each other": lambda data: (
            max(rates := [one["operations_per_second"] for one in data["timed"]]) < 5 * min(rates)
        ),
        "with its whole batch on one GPU, every preset holds most for the backward pass": lambda data: all(
            row["gigabytes"][0]["activations"] > row["gigabytes"][0]["whole"] / 2
            for row in data["presets"].values()
        ),
        "over NVLink 64 GPUs are worth twice as many as over 10-gigabit Ethernet": lambda data: (
            efficiency_of_most(data, "nvlink") > 2 * efficiency_of_most(data, "ethernet")
        ),
    },
    "generation_cost": {
        "with a full memory, a token takes as long whatever the text's length": lambda data: (
            0.8 < data["last_over_full"]["median"] < 1.25
        ),
        "what is kept stops growing once the memory is full": lambda data: (
            len({row["bytes"] for row in data["kept"] if row["length"] > 4 * data["mem_len"]}) == 1
        ),
        "read anew, a text of 4,096 tokens takes more than ten times as long": lambda data: (
            data["anew"][-1]["milliseconds"]["median"] > 10 * data["kept"][-1]["milliseconds"]["median"]
        ),
    },
}


def holding(name: str, data: Data) -> dict[str, bool]:
    """Return each of the experiment's sentences, and whether its data bear it out."""
    return {sentence: holds(data) for sentence, holds in CONCLUSIONS[name].items()}
