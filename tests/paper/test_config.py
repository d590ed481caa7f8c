from dataclasses import FrozenInstanceError, replace
from typing import get_args, get_type_hints

import pytest

from minitxl.config import ModelConfig
from minitxl.inference.config import EvaluateConfig
from minitxl.training.config import TrainConfig

NAMES = get_args(get_type_hints(ModelConfig)["attention"])


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("make", "wrong", "message"),
    [
        (ModelConfig, {"n_head": 0}, "n_head must be 1 or more, got 0"),
        (ModelConfig, {"d_model": 7}, "d_model must be even, got 7"),
        (
            ModelConfig,
            {"attention": "rope"},
            rf"attention must be {', '.join(NAMES[:-1])} or {NAMES[-1]}, got 'rope'",
        ),
        (ModelConfig, {"norm": "rms"}, "norm must be post or pre, got 'rms'"),
        (ModelConfig, {"dropout": 1.0}, r"dropout must be below 1, got 1.0"),
        (TrainConfig, {"seg_len": 0}, "seg_len must be 1 or more, got 0"),
        (TrainConfig, {"mem_len": -1}, "mem_len must be 0 or more, got -1"),
        (TrainConfig, {"window": 0}, "window must be 1 or more, the query itself counts, got 0"),
        (TrainConfig, {"steps": 10, "warmup": 11}, "warmup must lie in 0 … steps = 10, got 11"),
        (TrainConfig, {"learning_rate": 0.0}, "learning_rate must be positive, got 0.0"),
        (TrainConfig, {"mem_len": 7, "window": 9}, "mem_len must be window - 1 = 8 or more, .* got 7"),
        (EvaluateConfig, {"mem_len": 7, "window": 9}, "mem_len must be window - 1 = 8 or more, .* got 7"),
        (EvaluateConfig, {"clamp_len": -1}, "clamp_len must be 0 or more, got -1"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_in_one_sentence(make, wrong, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        make(**wrong)


def test_settings_are_values():
    assert ModelConfig(n_layer=4) == replace(ModelConfig(), n_layer=4)
    with pytest.raises(FrozenInstanceError):
        ModelConfig().n_layer = 4
