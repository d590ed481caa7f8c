from dataclasses import replace
from functools import partial

import pytest
import torch
from support.sizes import RARE, SHORT, SMALL, targets_by_zipf
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from minitxl.adaptive import AdaptiveSoftmax
from minitxl.analysis import saved_tensors
from minitxl.analysis.saved_tensors import saved_bytes
from minitxl.fast import to_fast
from minitxl.model import TransformerLM
from minitxl.pretrained.presets import enwik8_base


def kept_on_meta(model, train):
    """Bytes that the whole model keeps, counted as it runs."""
    with torch.device("meta"):
        whole = TransformerLM(replace(model, attention_dropout=0.0)).train()
        tokens = torch.zeros(train.batch, train.seg_len, dtype=torch.int64)
        memory = torch.zeros(model.n_layer, train.batch, train.mem_len, model.d_model)
    return saved_bytes(partial(to_fast(whole).token_losses, tokens, tokens, memory), whole.parameters())


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_linear_layer_keeps_its_input_once_and_a_relu_its_output(device):
    layer = nn.Linear(5, 7, device=device)
    x = torch.zeros(3, 5, device=device, requires_grad=True)
    assert saved_bytes(lambda: layer(x), layer.parameters()) == 3 * 5 * 4
    assert saved_bytes(lambda: layer(x) + layer(x), layer.parameters()) == 3 * 5 * 4
    assert saved_bytes(lambda: layer(x).relu(), layer.parameters()) == 3 * (5 + 7) * 4


@pytest.mark.parametrize("batch", [1, 3])
def test_bytes_kept_by_one_layer_and_around_make_those_of_the_model(batch):
    model = replace(enwik8_base().model, n_layer=3)
    train = replace(enwik8_base().train, batch=batch, seg_len=128, mem_len=192)
    saved = 3 * saved_tensors.layer_bytes(model, train) + saved_tensors.output_bytes(model, train)
    assert saved == pytest.approx(kept_on_meta(model, train), rel=0.01)


@pytest.mark.parametrize("div_val", [1, 2])
def test_bytes_kept_by_rare_words_are_those_that_are_saved(div_val):
    model = replace(RARE, vocab_size=3000, cutoffs=(400, 900, 1500), div_val=div_val, dropout=0.0)
    output = AdaptiveSoftmax(3000, 16, 16, cutoffs=model.cutoffs, div_val=div_val)
    targets = targets_by_zipf(output.partition, 2000)
    kept = {one.untyped_storage().data_ptr(): 0 for one in output.parameters()}
    alive = []

    def keep(tensor):
        alive.append(tensor)
        if tensor.is_floating_point():
            kept.setdefault(tensor.untyped_storage().data_ptr(), tensor.untyped_storage().nbytes())
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        output.losses(torch.randn(1, targets.shape[1], 16, requires_grad=True), targets)
    train = replace(SHORT, batch=1, seg_len=2000)
    assert saved_tensors.output_bytes(model, train) == pytest.approx(sum(kept.values()), rel=0.02)


def test_more_gpus_hold_less_each_but_for_what_all_of_them_hold():
    one, two = (saved_tensors.held(SMALL, SHORT, parts=parts) for parts in (1, 2))
    assert (
        one["weights"]
        == two["weights"]
        == 4 * sum(parameter.numel() for parameter in TransformerLM(SMALL).parameters())
    )
    assert (one["buckets"], two["buckets"]) == (0, one["weights"])
    assert two["states"] == one["states"] / 2
    assert two["activations"] < one["activations"]
    averaged = saved_tensors.held(SMALL, replace(SHORT, average_from=1), parts=1)
    assert (one["average"], averaged["average"]) == (0, one["weights"])
