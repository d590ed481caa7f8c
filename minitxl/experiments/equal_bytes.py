"""Memory or longer segments, at equal bytes while training? The paper's Table 10, in small.

Memory takes space. A model without it can spend the same bytes on longer segments. After equally many steps
it has then read more text too. So both are also trained on equally much text: the one with longer segments
for fewer steps, or the one with memory for more.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from minitxl.data.corpus import Corpus
from minitxl.experiments import ablation
from minitxl.experiments.conclusions.comparisons import bits_as_cut
from minitxl.experiments.shared.runner import differences
from minitxl.training.checkpoints import model_config, train_config

SEEDS = [0, 1, 2, 3, 4]
KEYS = 1.5
"""Keys that a query with memory gets in a full context, in segments: as many as on average in training."""
parts = ablation.parts


def settings(profile: str, corpus: Corpus) -> dict[str, Any]:
    """Return the settings of the ablation for four systems: with memory and without, each for two lengths."""
    base = ablation.settings(profile, corpus)
    train = train_config(base["train"])
    config = ablation.equal_parameters(replace(model_config(base["model"]), **base["encodings"]["XL"]))
    longer = ablation.affordable_seg_len(config, train)
    fewer = round(train.steps * train.seg_len / longer)
    more = round(train.steps * longer / train.seg_len)
    lengths = [(True, train.steps), (False, train.steps), (False, fewer), (True, more)]
    return base | {
        "systems": [
            {
                "encoding": "XL",
                "recurrence": memory,
                "loss": "full",
                "equal_memory": not memory,
                "steps": steps,
            }
            for memory, steps in lengths
        ],
        "memory_lens": [1, KEYS, 2],
        "window_lens": [1],
    }


def collect(settings: dict[str, Any], corpus: Corpus, values: dict[str, Any]) -> dict[str, Any]:
    """Return the four systems, and what longer segments lose more than memory, paired by seed."""
    del corpus
    data = {"systems": ablation.rows(settings, values)}
    memory, longer, longer_fewer, memory_more = data["systems"]
    pairs = {
        "steps": (memory, longer),
        "fewer_steps": (memory, longer_fewer),
        "more_steps": (memory_more, longer),
    }
    return data | {"more": {name: _more(data, *pair) for name, pair in pairs.items()}}


def _more(data: dict[str, Any], memory: dict[str, Any], longer: dict[str, Any]) -> dict[str, Any]:
    """Return the bits that longer segments lose more, read in segments, and each target in full context."""
    keys = int(KEYS * memory["seg_len"])
    ways = {
        "in_segments": [bits_as_cut(data, row["label"])["seeds"] for row in (memory, longer)],
        "full_context": [_with_keys(memory, keys), _with_keys(longer, longer["seg_len"])],
    }
    return {
        "steps_with_memory": memory["steps"],
        "steps_without": longer["steps"],
        **{way: differences(without, given) for way, (given, without) in ways.items()},
    }


def _with_keys(row: dict[str, Any], keys: int) -> Sequence[float]:
    (bits,) = (one["bits"]["seeds"] for one in row["by_length"] if one["attention_len"] == keys)
    return list(bits)
