"""The feed-forward layer that overwrites its middle has the numbers of the layers it stands for."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from models import gradients, small_model
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from minitxl.fast import to_fast
from minitxl.fast.dropout import FastDropout, FastVariationalDropout
from minitxl.fast.feed_forward import FastFeedForward
from minitxl.fast.linear import FastLinear
from minitxl.model import FeedForward


def as_feed_forward(*modules):
    """The paper's layer around other modules, which already draw as the fast ones do."""
    made = FeedForward.__new__(FeedForward)
    nn.Sequential.__init__(made, *modules)
    return made


def feed_forward(made, x):
    fast = to_fast(made)
    assert type(fast) is FastFeedForward
    return fast(x)


def layers(wide=7, *, rate=0.0, function=nn.ReLU, drop=FastDropout, dtype=torch.float64):
    torch.manual_seed(0)
    made = as_feed_forward(FastLinear(5, wide), function(), drop(rate), FastLinear(wide, 5)).to(dtype)
    for parameter in made.parameters():
        nn.init.normal_(parameter)
    return made


def some(*shape, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=dtype).requires_grad_()


def of(made, x, path):
    """Output and all gradients, by name, of one and the same mask."""
    torch.manual_seed(2)
    y, learned = path(made, x), {"x": x, **dict(made.named_parameters())}
    return {"output": y, **dict(zip(learned, gradients(y, list(learned.values())), strict=True))}


def assert_same(made, x, tolerance):
    ours, theirs = of(made, x, feed_forward), of(made, x, called)
    for name, expected in theirs.items():
        size = max(1.0, expected.abs().max().item())
        where = f"{name} of the layers: {{}}".format
        torch.testing.assert_close(
            ours[name] / size, expected / size, rtol=tolerance, atol=tolerance, msg=where
        )


def called(made, x):
    return made(x)


@given(
    batch=st.integers(1, 4),
    seg=st.integers(1, 9),
    rate=st.sampled_from([0.0, 0.3, 0.9]),
    wide=st.integers(1, 40),
    single=st.booleans(),
    training=st.booleans(),
)
def test_output_and_all_gradients_are_those_of_the_layers(batch, seg, rate, wide, single, training):
    dtype, tolerance = (torch.float32, 1e-5) if single else (torch.float64, 1e-10)
    made, x = layers(wide, rate=rate, dtype=dtype).train(training), some(batch, seg, 5, dtype=dtype)
    assert_same(made, x, tolerance)


@pytest.mark.parametrize("rows", [1, 4, 5])
def test_a_handful_of_rows_of_a_wide_layer(rows):
    """Whose products lie in memory column by column."""
    made = as_feed_forward(FastLinear(512, 1024), nn.ReLU(), FastDropout(0.3), FastLinear(1024, 512))
    x = torch.randn(rows, 1, 512).requires_grad_()
    assert_same(made, x, 1e-5)


def test_the_wide_middle_is_all_that_is_kept_beside_the_input():
    made, x, kept = layers(wide=64, rate=0.3), some(3, 4, 5), set()
    weights = {parameter.data_ptr() for parameter in made.parameters()}

    def pack(tensor):
        kept.add((tensor.data_ptr(), tensor.numel()))
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        feed_forward(made, x)
    assert sorted(numel for pointer, numel in kept if pointer not in weights) == [12 * 5, 12 * 64]


@pytest.mark.parametrize("other", [{"function": nn.GELU}, {"drop": FastVariationalDropout}])
def test_what_has_no_faster_form_is_called_as_it_is(other):
    made, x = layers(rate=0.4, **other), some(3, 4, 5)
    ours, theirs = of(made, x, feed_forward), of(made, x, called)
    for name, expected in theirs.items():
        assert torch.equal(ours[name], expected), name


@pytest.mark.parametrize("frozen", ["0.weight", "0.bias", "3.weight", "3.bias"])
def test_what_is_frozen_gets_no_gradient_and_the_rest_get_theirs(frozen):
    made, x = layers(rate=0.4), some(3, 4, 5).detach()
    made.get_parameter(frozen).requires_grad_(False)
    learned = [parameter for parameter in made.parameters() if parameter.requires_grad]
    found = {}
    for path in (feed_forward, called):
        torch.manual_seed(2)
        found[path] = gradients(path(made, x), learned)
    for ours, theirs in zip(found[feed_forward], found[called], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_a_fast_model_has_it_in_every_layer():
    model = small_model()
    assert [type(block.inner) for block in to_fast(model).blocks] == [FastFeedForward] * len(model.blocks)
