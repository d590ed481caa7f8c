from dataclasses import replace
from typing import get_args, get_type_hints

import pytest
import torch
from support.sizes import RARE, SHORT, SMALL, targets_by_zipf
from torch.utils.flop_counter import FlopCounterMode

from minitxl.analysis import flops
from minitxl.benchmark import limits
from minitxl.benchmark.peers import Size
from minitxl.config import ModelConfig
from minitxl.model import TransformerLM


def test_a_step_has_the_operations_that_the_benchmark_counts():
    shapes = {name: getattr(SMALL, name) for name in ("n_layer", "d_model", "n_head", "d_head", "d_inner")}
    size = Size(**shapes, batch=4, seg_len=4, mem_len=6, dropout=0.1, vocab_size=30)
    assert flops.step_operations(SMALL, SHORT) == limits.operations(size, "training", block=1)


@pytest.mark.parametrize("attention", get_args(get_type_hints(ModelConfig)["attention"]))
def test_operations_of_a_layer_are_those_a_counter_counts(attention):
    """A model with a layer more has the operations of a layer more."""
    tokens = torch.zeros(3, 8, dtype=torch.int64)

    def counted(n_layer, mem_len, *, training):
        model = TransformerLM(replace(SMALL, attention=attention, n_layer=n_layer, max_distance=2))
        memory = torch.zeros(n_layer, 3, mem_len, SMALL.d_model)
        with FlopCounterMode(display=False) as counter, torch.set_grad_enabled(training):
            losses, _ = model.token_losses(tokens, tokens, memory)
            if training:
                losses.sum().backward()
        return counter.get_total_flops()

    one_more = replace(SMALL, attention=attention, n_layer=1, max_distance=2)
    lengths = {"batch": 3, "seg_len": 8, "block": 8}
    operations = flops.layer_operations(one_more, **lengths, mem_len=0, training=True)
    assert operations == counted(2, 0, training=True) - counted(1, 0, training=True)
    read_again = 2 * 2 * 3 * 5 + 2 * (5 + 8) * (attention == "xl")  # keys, values and distances of a cache
    operations = flops.layer_operations(one_more, **lengths, mem_len=5, training=False)
    operations += read_again * SMALL.d_model * SMALL.n_head * SMALL.d_head
    assert operations == counted(2, 5, training=False) - counted(1, 5, training=False)


@pytest.mark.parametrize("div_val", [1, 2])
def test_operations_of_rare_words_are_those_a_counter_counts(div_val):
    model, train = replace(RARE, div_val=div_val), replace(SHORT, batch=1, seg_len=1000, mem_len=0)
    whole = TransformerLM(model)
    targets = targets_by_zipf(whole.output.partition, 1000)
    hidden = torch.randn(1, targets.shape[1], 16, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        whole.output.losses(hidden, targets).sum().backward()
        whole.embedding(targets).sum().backward()
    bare = replace(model, vocab_size=1, cutoffs=(), div_val=1)
    rest = flops.step_operations(bare, train) - 6 * 1000 * 16
    operations = flops.step_operations(model, train) - rest
    assert operations == pytest.approx(counter.get_total_flops(), rel=0.01)
