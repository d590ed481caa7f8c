"""A small run for tests: 12 steps are two passes over 6 segments of 3 lanes."""

from functools import cache

import torch
from models import small_config, some_tokens

from minitxl.data.batching import ContiguousBatches
from minitxl.training import loop
from minitxl.training.config import TrainConfig

SETTINGS = TrainConfig(seg_len=4, mem_len=5, batch=3, steps=12, warmup=3, validate_every=4)
STREAM = some_tokens(1, 80)[0]
LANES = ContiguousBatches(STREAM, batch=3, seg_len=4)


def new_run(settings=SETTINGS, **config):
    return loop.start(small_config(dropout=0.2, **config), settings)


@cache
def whole_run(settings):
    """Return a run at its end, in one piece; tests leave it as it is."""
    run = new_run(settings)
    for _ in loop.train_steps(run, LANES):
        pass
    return run


def weights(run):
    return {name: parameter.detach().clone() for name, parameter in run.model.named_parameters()}


def assert_same_weights(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name
